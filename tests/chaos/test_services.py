"""Servers that die: the Kafka broker that an engine reads and writes, PostgreSQL, the console."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from chaos import toy
from chaos.subjects import SCHEMA
from console.serving import free_port
from linear_road.test_kafka import received, send, send_more
from oracles.linear_road import answers
from oracles.streams import busy_stream
from services import SCRIPTS, service
from slipstream._bench.driving.driver import read_seconds
from slipstream._bench.driving.encoders import ENCODINGS
from slipstream._chaos.output_comparison import Committed, find_difference
from slipstream._chaos.process import JobProcess
from slipstream._chaos.subject import Subject
from slipstream._feeds.run import Run
from slipstream._feeds.tuple_text import import_text
from slipstream._io.outputs import read_journal
from slipstream._linear_road.job.toll_layout import ANSWERS, Layout
from slipstream._tools.processes.failpoints import TOPIC_POINTS, VARIABLE

pytestmark = pytest.mark.long

EXAMPLES = Path(__file__).parents[2] / "examples"
SLIPSTREAM = [sys.executable, "-m", "slipstream"]


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    yield from service("kafka")


@pytest.fixture(scope="module")
def feed() -> list[str]:
    return list(busy_stream(1))


@pytest.fixture(scope="module")
def run(feed: list[str], tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("feed")
    (folder / "feed.dat").write_text("\n".join(feed))
    return import_text(folder / "feed.dat", folder / "run")


def reborn(pid_file: Path) -> Callable[[], None]:
    """Kill a server at once; returns how to start it again, with the data it had."""
    process = psutil.Process(int(pid_file.read_text()))
    command, folder = process.cmdline(), process.cwd()
    process.kill()
    process.wait(30)

    def again() -> None:
        with (pid_file.parent / "again.log").open("ab") as log:
            started = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, start_new_session=True)
        pid_file.write_text(str(started.pid))

    return again


def trains(run: Run) -> list[bytes]:
    """A run as messages."""
    form = ENCODINGS["train"]
    seconds = [table for _, table in read_seconds(run, run.manifest.seconds)]
    return [message for table in seconds for message in form.messages(form.encode(table))]


class Tolling:
    """An engine between two topics."""

    def __init__(self, broker: str, run: Run, out: Path) -> None:
        self.broker, self.out = broker, out
        self.source, self.target = (f"{name}-{uuid.uuid4().hex}" for name in ("in", "out"))
        self.messages = trains(run)

    def start(self, environment: dict[str, str] | None = None) -> JobProcess:
        command = [*SLIPSTREAM, "toll", f"kafka:{self.broker}/{self.source}", "--out", str(self.out)]
        command += ["--format", "train", "--to", f"kafka:{self.broker}/{self.target}", "--master", "local[2]"]
        return JobProcess(command, self.out, self.out.parent / "engine.log", environment or {})

    def finish(self) -> None:
        engine = self.start()
        assert engine.wait_for_end(600), engine.stderr
        assert engine.code == 0, engine.stderr

    def check(self, feed: list[str]) -> None:
        expected = (self.out / "output.csv").read_bytes()
        assert len(expected.splitlines()) == len(answers(feed).outputs)
        lines = received(self.broker, self.target, len(expected.splitlines()) + 1)
        assert b"\n".join(lines) + b"\n" == expected


@pytest.mark.parametrize("point", TOPIC_POINTS)
def test_killed_while_it_sends_to_a_topic(point: str, broker: str, run: Run, feed: list[str], tmp_path: Path) -> None:
    tolling = Tolling(broker, run, tmp_path / "out")
    send(broker, tolling.source, [*tolling.messages, b""])
    reached = tmp_path / "reached"
    engine = tolling.start({VARIABLE: f"{point}:{reached}"})
    assert engine.wait_for(reached.exists, 600), engine.stderr
    engine.end()
    tolling.finish()
    tolling.check(feed)


def test_the_broker_dies_while_an_engine_sends(broker: str, run: Run, feed: list[str], tmp_path: Path) -> None:
    tolling = Tolling(broker, run, tmp_path / "out")
    send(broker, tolling.source, [*tolling.messages, b""])
    armed = tmp_path / "armed"
    engine = tolling.start({VARIABLE: f"topic.before-send:{armed / 'reached'}:EIO"})
    assert engine.wait_for(lambda: engine.commits() > 0, 600), engine.stderr
    again = reborn(SCRIPTS.parent / "build" / "kafka" / "broker.pid")
    assert engine.wait_for_end(600), engine.stderr
    assert engine.code == 0 or engine.has_advised, engine.stderr
    again()
    time.sleep(15)
    tolling.finish()
    tolling.check(feed)


def cars() -> list[bytes]:
    fields = [{"id": f"car-{n % 40}", "time": n // 10, "seg": n % 8, "spd": n * 7 % 80} for n in range(2000)]
    return [json.dumps(one).encode() for one in fields]


def ticks() -> list[bytes]:
    return [json.dumps({"stock_id": n % 7, "price": n * 11 % 97}).encode() for n in range(2000)]


#: what a job of each kind reads from a topic, and its command
READERS: dict[str, tuple[Callable[[Run], list[bytes]], Callable[[str], list[str]]]] = {
    "archive": (trains, lambda topic: ["archive", topic, "--format", "train"]),
    "network": (
        lambda _: cars(),
        lambda topic: ["network", "run", str(EXAMPLES / "networks" / "slow_segments.yaml"), "--input", f"cars={topic}"],
    ),
    "cuboid": (lambda _: ticks(), lambda topic: ["cuboid", "run", "--input", topic, "--schema", SCHEMA]),
}


@pytest.mark.parametrize("kind", READERS)
def test_the_broker_dies_while_a_job_reads(kind: str, broker: str, run: Run, tmp_path: Path) -> None:
    """The job waits for it or stops with advice; what it reads in the end is what one reads that saw nothing of it."""
    messages, command = READERS[kind]
    found, topic = messages(run), f"in-{uuid.uuid4().hex}"
    subject = Subject.of([*command(f"kafka:{broker}/{topic}"), "--follow"])

    def start(out: Path) -> JobProcess:
        return JobProcess(subject.command_line(SLIPSTREAM, out), out, tmp_path / f"{out.name}.log", {})

    def finished(engine: JobProcess) -> Committed:
        assert engine.wait_for_end(600), engine.stderr
        assert engine.code == 0, engine.stderr
        return Committed.read(engine.out)

    send(broker, topic, found[: len(found) // 2])
    engine = start(tmp_path / "disturbed")
    assert engine.wait_for(lambda: took_something(engine.out), 600), engine.stderr
    again = reborn(SCRIPTS.parent / "build" / "kafka" / "broker.pid")
    time.sleep(5)
    again()
    time.sleep(15)
    send_more(broker, topic, [*found[len(found) // 2 :], b""])
    engine.wait_for_end(600)
    if engine.code != 0:
        assert engine.has_advised, engine.stderr
        engine = start(tmp_path / "disturbed")
    disturbed = finished(engine)
    expected = finished(start(tmp_path / "undisturbed"))
    assert find_difference(expected, disturbed, whole=True, repeatable=False) == ""


def took_something(out: Path) -> bool:
    return any(batch.tuples for batch in read_journal(out))


def has_something(file: Path) -> bool:
    return file.exists() and file.stat().st_size > 0


def test_postgres_dies_while_it_answers(run: Run, tmp_path: Path) -> None:
    for server in service("postgres"):
        command = [*SLIPSTREAM, "bench", "postgres", str(run.path), "--out", str(tmp_path / "out")]
        command += ["--server", server, "--speed", "20"]
        engine = JobProcess(command, tmp_path / "out", tmp_path / "engine.log", {})
        output = tmp_path / "out" / "output.csv"
        assert engine.wait_for(partial(has_something, output), 300), engine.stderr
        postmaster = SCRIPTS.parent / "build" / "postgres" / "data" / "postmaster.pid"
        os.kill(int(postmaster.read_text().splitlines()[0]), signal.SIGQUIT)
        assert engine.wait_for_end(120), engine.stderr
        assert engine.has_advised, engine.stderr


def ask(port: int, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"x-slipstream": "1", "content-type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def console(workspace: Path, port: int) -> subprocess.Popen[bytes]:
    command = [*SLIPSTREAM, "console", str(workspace), "--port", str(port), "--no-browser"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    for _ in range(600):
        try:
            ask(port, "/api/session")
        except OSError:
            time.sleep(0.2)
        else:
            return process
    raise AssertionError("the console does not answer")


def test_a_killed_console_shows_the_same_when_it_is_back_and_harms_no_engine(tmp_path: Path) -> None:
    out = tmp_path / "tolled"
    fixed = {"source": "lines feed", "rules": "2004", "lateness": 0}
    Layout.load_or_create(out, 1, {**fixed, "outputs": ANSWERS, "start": "", "until": -1})
    engine = JobProcess([sys.executable, str(Path(toy.__file__)), "good", "--out", str(out)], out, tmp_path / "log", {})
    port = free_port()
    for _ in range(2):
        page = console(tmp_path, port)
        try:
            assert ask(port, "/api/city/open", {"result": "tolled"})["result"] == "tolled"
        finally:
            page.send_signal(signal.SIGKILL)
            page.wait()
    assert engine.wait_for_end(120)
    assert engine.code == 0, engine.stderr
    assert engine.commits() == toy.BATCHES
