"""Other engines in ``bench/contenders``: built, fed by our driver through a real broker, judged by our validator."""

from __future__ import annotations

import io
import re
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from oracles.streams import report
from services import service
from slipstream._bench.validation.editions import find_edition
from slipstream._bench.validation.validator import Verdict, validate
from slipstream._city.simulate import simulate
from slipstream._city.traffic import Traffic
from slipstream._cli import app
from slipstream._feeds.run import Run
from slipstream._feeds.tuple_text import export_text
from slipstream._tools.processes import child_processes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONTENDERS = Path(__file__).parents[2] / "bench" / "contenders"
CANNOT_FETCH = 4
PATIENCE_S = 300
#: vehicles of the reports after the end, one for each road: their answers come after all others
LAST = (2_000_000_000, 2_000_000_001, 2_000_000_002, 2_000_000_003)

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def flink() -> Path:
    """The command that starts the engine, built."""
    built = subprocess.run([CONTENDERS / "build.sh"], capture_output=True, text=True, check=False)
    if built.returncode == CANNOT_FETCH:
        pytest.skip(f"Flink cannot be built here: {built.stderr.strip()}")
    assert built.returncode == 0, built.stderr
    return CONTENDERS / "run.sh"


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    yield from service("kafka")


@pytest.fixture(scope="module")
def run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two crowded expressways with accidents."""
    traffic = Traffic(expressways=2, minutes=10, demand=6.0, accident_every=2)
    return simulate(spark, traffic, 5, tmp_path_factory.mktemp("contenders") / "run")


def test_flink_answers_what_the_driver_sends(
    flink: Path, broker: str, run: Run, spark: SparkSession, tmp_path: Path
) -> None:
    topic = f"tuples-{uuid.uuid4().hex}"
    with started(flink, broker, topic, tmp_path) as out:
        arguments = ["drive", str(run.path), "--to", f"kafka:{broker}/{topic}", "--speed", "0", "--json"]
        assert CliRunner().invoke(app, arguments, catch_exceptions=False).exit_code == 0
        produce(broker, topic, last_reports(run), partitions=1)
        wait_for_last(out)
    verdict = judge(spark, run, out)
    assert verdict.passed, verdict.examples
    assert all(tally.expected > 0 for tally in verdict.tallies)


def test_flink_needs_five_minutes_of_the_past_and_takes_them_from_several_partitions(
    flink: Path, broker: str, run: Run, spark: SparkSession, tmp_path: Path
) -> None:
    """So a rating can start in the middle of a run, after these five minutes at full speed."""
    topic, since = f"tuples-{uuid.uuid4().hex}", 480
    create(broker, topic, partitions=2)
    with started(flink, broker, topic, tmp_path, "--since", str(since), "--checkpoint-seconds", "1") as out:
        text = io.BytesIO()
        export_text(run, text)
        lines = text.getvalue().decode().splitlines()
        recent = [line for line in lines if line.startswith("0,") and int(line.split(",")[1]) >= since - 300]
        produce(broker, topic, [*recent, *last_reports(run)], partitions=2)
        wait_for_last(out)
    verdict = judge(spark, run, out, since=since)
    assert verdict.passed, verdict.examples
    assert all(tally.expected > 0 for tally in verdict.tallies)


def test_flink_names_an_option_it_does_not_know(flink: Path) -> None:
    ended = subprocess.run([flink, "--speed", "9"], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "--speed: not an option" in ended.stderr


def test_flink_names_a_broker_that_is_not_there(flink: Path, tmp_path: Path) -> None:
    command = [flink, "--bootstrap", "127.0.0.1:1", "--topic", "tuples", "--out", tmp_path / "answers.csv"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "the broker at 127.0.0.1:1 cannot be used" in ended.stderr


@contextmanager
def started(flink: Path, broker: str, topic: str, folder: Path, *options: str) -> Iterator[Path]:
    """The file of its answers, while it runs; it is ready before and terminated after."""
    out, log = folder / "answers.csv", folder / "engine.log"
    command = [str(flink), "--bootstrap", broker, "--topic", topic, "--out", str(out), *options]
    with log.open("wb") as to, child_processes.running(command, stdout=to, stderr=subprocess.STDOUT) as engine:
        wait_until(lambda: "ready\n" in log.read_text() or engine.code is not None, "the engine is not ready")
        assert engine.code is None, log.read_text()
        yield out
        assert engine.code is None, log.read_text()


def last_reports(run: Run) -> list[str]:
    """A report after the end on every road of two expressways."""
    end = run.manifest.seconds + 60
    return [report(end, vid, 0, xway=number // 2, dir=number % 2) for number, vid in enumerate(LAST)]


def produce(broker: str, topic: str, lines: Sequence[str], *, partitions: int) -> None:
    """Send reports as the driver does, each expressway to its partition."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker, "queue.buffering.max.messages": 2_000_000})
    for line in lines:
        producer.produce(topic, line, partition=int(line.split(",")[4]) % partitions)
    assert producer.flush(PATIENCE_S) == 0


def create(broker: str, topic: str, partitions: int) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    made = AdminClient({"bootstrap.servers": broker}).create_topics([NewTopic(topic, partitions)])
    made[topic].result(60)


def wait_for_last(out: Path) -> None:
    """Wait for the answers to the last reports."""
    pattern = "|".join(f"^0,{vid}," for vid in LAST)
    wait_until(
        lambda: out.exists() and len(re.findall(pattern, out.read_text(), re.MULTILINE)) == len(LAST),
        "the last reports were not answered",
    )


def wait_until(condition: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.2)


def judge(spark: SparkSession, run: Run, out: Path, since: int = 0) -> Verdict:
    """Compare all answers; how late they are depends on the machine."""
    edition, until = find_edition("2004"), run.manifest.seconds
    return validate(spark, run, [out], edition=edition, kinds=(0, 1), response_times=False, since=since, until=until)
