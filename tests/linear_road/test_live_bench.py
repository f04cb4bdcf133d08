"""How soon a live feed is answered, through every door and in every encoding, beside a replay inside the engine.

The driver is a process of its own, and so is the broker; response times are commit minus arrival.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from linear_road.driving import DOORS, ENCODINGS, PATIENCE, drive, following, slipstream
from measure import machine
from services import service
from slipstream._city.simulate import simulate
from slipstream._city.traffic import Traffic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXPRESSWAYS, SECONDS = 8, 45

pytestmark = pytest.mark.bench


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    yield from service("kafka")


@pytest.fixture(scope="module")
def run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    traffic = Traffic(expressways=EXPRESSWAYS, minutes=2, demand=6.0)
    path = simulate(spark, traffic, 1, tmp_path_factory.mktemp("runs") / "run").path
    spark.stop()  # nothing else may run beside the engine
    return path


def live(run: Path, broker: str, door: str, encoding: str, folder: Path) -> Any:
    with following(door, encoding, folder, broker) as engine:
        driver = drive(run, engine, encoding, SECONDS) if door == "tcp" else None
        engine.wait_until("ready" if driver is None else "running")
        driver = driver or drive(run, engine, encoding, SECONDS)
        said = json.loads(driver.communicate(timeout=PATIENCE)[0])
        assert not said["void"], f"the driver itself was {said['max_lag']} s late"
        return engine.summary()


def replay(run: Path, folder: Path) -> Any:
    command = slipstream("toll", run, "--speed", 1, "--until", SECONDS, "--out", folder / "out")
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
    return json.loads((folder / "out" / "summary.json").read_text())


def test_response_times_of_the_three_doors_and_of_a_replay(run: Path, broker: str, tmp_path: Path) -> None:
    print(f"\n{machine()}\n{EXPRESSWAYS} expressways, {SECONDS} s in real time; toll notifications, seconds")
    print("| door | encoding | tuples | p50 | p99 | max | late | lateness |\n|---|---|---:|---:|---:|---:|---:|---:|")
    for door in (*DOORS, "replay"):
        for encoding in ENCODINGS if door != "replay" else ("inside the engine",):
            folder = tmp_path / f"{door}-{encoding.split()[0]}"
            folder.mkdir()
            summary = replay(run, folder) if door == "replay" else live(run, broker, door, encoding, folder)
            toll = summary["response_seconds"]["toll"]
            figures = " | ".join(str(toll[name]) for name in ("p50", "p99", "max", "late"))
            lateness = "" if door == "replay" else "2"
            print(f"| {door} | {encoding} | {summary['tuples']:,} | {figures} | {lateness} |", flush=True)
            assert summary["tuples"] > 0
