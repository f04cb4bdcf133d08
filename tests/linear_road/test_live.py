"""Live feeds: driver, broker and engine as separate processes, for every kind of source and encoding."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from linear_road.driving import DOORS, ENCODINGS, PATIENCE, drive, following, slipstream
from services import service
from slipstream._city.simulate import simulate
from slipstream._city.traffic import Traffic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS = 45

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    yield from service("kafka")


@pytest.fixture(scope="module")
def run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    traffic = Traffic(expressways=1, minutes=1, demand=4.0)
    return simulate(spark, traffic, 5, tmp_path_factory.mktemp("runs") / "run").path


def judged(run: Path, out: Path, *options: object) -> tuple[int, Any]:
    """The exit code of ``validate``, and what it says of toll notifications."""
    command = slipstream("validate", run, out, "--until", SECONDS, "--json", *options)
    done = subprocess.run(command, capture_output=True, check=False, timeout=PATIENCE)
    return done.returncode, json.loads(done.stdout)["tallies"][0]


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("door", DOORS)
def test_a_live_feed_is_tolled_exactly_and_timed(
    run: Path, broker: str, door: str, encoding: str, tmp_path: Path
) -> None:
    with following(door, encoding, tmp_path, broker) as live:
        driver = drive(run, live, encoding, SECONDS) if door == "tcp" else None
        live.wait_until("ready" if driver is None else "running")
        driver = driver or drive(run, live, encoding, SECONDS)
        summary = live.summary()
        assert driver.wait(PATIENCE) in (0, 5), "late is no matter here"
    toll = summary["response_seconds"]["toll"]
    assert summary["rejects"] == summary["irregular"]["count"] == toll["negative"] == 0
    if encoding != "train":  # trains say when a second is complete
        assert toll["p50"] >= 3, "two seconds of lateness, and one to know that a second is over"
    _, tally = judged(run, live.out)
    assert [tally[name] for name in ("missing", "extra", "wrong", "duplicated")] == [0] * 4
    assert abs(tally["response"]["max"] - toll["max"]) < 0.01
    assert json.loads((live.out / "status.json").read_text())["why"] == "finished"


@pytest.mark.parametrize("door", DOORS)
def test_an_engine_that_stood_still_shows_it(run: Path, broker: str, door: str, tmp_path: Path) -> None:
    with following(door, "train", tmp_path, broker) as live:
        driver = drive(run, live, "train", SECONDS) if door == "tcp" else None
        live.wait_until("ready" if driver is None else "running")
        driver = driver or drive(run, live, "train", SECONDS)
        live.wait_until("running")
        live.stop_for(10)
        summary = live.summary()
        driver.wait(PATIENCE)
    toll = summary["response_seconds"]["toll"]
    assert toll["max"] >= 10
    assert toll["late"] > 0
    code, tally = judged(run, live.out)
    assert code == 5
    assert tally["response"]["max"] >= 10
    assert tally["late"] == toll["late"]


def test_a_topic_that_is_not_there_yet_is_waited_for(run: Path, broker: str, tmp_path: Path) -> None:
    with following("kafka", "train", tmp_path, broker) as live:
        live.wait_until("ready")
        while "the topic does not exist yet" not in (tmp_path / "engine.log").read_text():  # said right after
            assert live.engine.poll() is None
            time.sleep(0.2)
        drive(run, live, "train", 20, speed=4.0)
        assert live.summary()["tuples"] > 0
