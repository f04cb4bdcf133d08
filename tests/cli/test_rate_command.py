"""``slipstream rate``: arguments, and real ratings of small runs, from outside and inside, of several engines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from commands import Slipstream
from services import service
from slipstream._bench.rating.trial import ResponseSummary, TimeWindow, Trial
from slipstream._feeds.tuple_text import import_text
from slipstream._tools.logs import read_last_line


def test_bad_arguments_are_told(slipstream: Slipstream, tmp_path: Path) -> None:
    assert slipstream("rate", "--out", tmp_path, "--window", "soon").code == 2
    assert slipstream("rate", "--out", tmp_path, "--engine", "abacus").code == 2
    assert slipstream("rate", "--out", tmp_path, "--run", tmp_path / "none").code == 2
    assert slipstream("rate", "--out", tmp_path, "--replay", "--door", "tcp").code == 2
    assert slipstream("rate", "--out", tmp_path, "--engine", "postgres", "--full", "--at", 4).code == 2
    assert slipstream("rate", "--out", tmp_path, "--at", 4).code == 2
    assert slipstream("rate", "--out", tmp_path, "--only", "5").code == 2
    done = slipstream("rate", "--out", tmp_path, "--full")
    assert done.code == 2
    assert "has no rating yet" in done.err
    (tmp_path / "rating.json").write_text('{"expressways": "many"}')
    assert slipstream("rate", "--out", tmp_path, "--full").code == 3


@pytest.mark.parametrize("text", ["soon", "0s", "-5m", "1.5m", "5 minutes", "", "5d", "s", "٣m"])
@pytest.mark.parametrize("option", ["--window", "--probe"])
def test_what_is_no_length_of_time_is_refused(slipstream: Slipstream, option: str, text: str, tmp_path: Path) -> None:
    done = slipstream("rate", "--out", tmp_path / "rating", option, text)
    assert done.code == 2
    assert f"{option} {text}: not a length of time." in done.err
    assert "90s, 20m or 3h" in done.err
    assert not (tmp_path / "rating").exists()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    lines = [f"0,{second},1,50,0,0,0,10,52800,0,0,0,0,0,0" for second in range(0, 600, 30)]
    (tmp_path / "feed.dat").write_text("\n".join(lines) + "\n")
    import_text(tmp_path / "feed.dat", tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize("ended", [0, 2])
def test_an_interrupted_search_says_what_it_knows(
    ended: int, slipstream: Slipstream, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []

    def drive(engine: object, run: object, expressways: int, window: TimeWindow, out: Path) -> Trial:
        tried.append(window.seconds)
        if len(tried) > ended:
            raise KeyboardInterrupt
        return Trial(expressways, window.seconds, {"toll": ResponseSummary(1, 2, 3, 5)})

    monkeypatch.setattr("slipstream._bench.rating.engines.OwnReplay.drive", drive)
    done = slipstream("rate", "--replay", "--run", run, "--out", tmp_path / "rating", "--window", "2m", "--probe", "30")
    assert done.code == 130
    assert set(tried) == {30}
    plain = " ".join(done.err.split())
    if ended:
        assert "L = 2 was sustained so far" in plain
        assert "slipstream rate --min 2 --max 600 --window 120s --probe 30s --out" in plain
    else:
        assert "before any L was sustained" in plain


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    yield from service("postgres")


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    yield from service("kafka")


def simulated(slipstream: Slipstream, folder: Path, minutes: int, *options: object) -> Path:
    made = slipstream("simulate", "--expressways", 1, "--minutes", minutes, "--out", folder / "run", *options)
    assert made.code == 0, made.err
    return folder / "run"


def rated(slipstream: Slipstream, run: Path, *options: object) -> Any:
    done = slipstream("rate", "--run", run, "--min", 2, "--max", 2, "--probe", "1m", "--json", *options)
    assert done.code == 0, done.err
    return done.json


@pytest.mark.long
@pytest.mark.parametrize("encoding", ["train", "text"])
def test_a_small_rating_through_a_broker(slipstream: Slipstream, tmp_path: Path, broker: str, encoding: str) -> None:
    """Driver, broker and engine are separate; the engine starts with the state of the first four minutes."""
    run = simulated(slipstream, tmp_path, 5)
    out = tmp_path / "rating"
    rating = rated(slipstream, run, "--window", "1m", "--broker", broker, "--format", encoding, "--out", out)
    assert rating["expressways"] == 2
    assert rating["window"] == {"since": 240, "until": 300}
    assert f"through a Kafka broker, as {encoding}" in rating["how"]
    last = rating["tries"][-1]
    assert last["validated"]
    assert set(last["cores"]) == {"driver", "broker", "engine"}
    assert len(last["busy"]) == 3
    assert (out / "rating.html").exists()
    assert (out / "forward-240").is_dir()


@pytest.mark.long
def test_a_small_rating_over_tcp_and_one_inside_the_engine(slipstream: Slipstream, tmp_path: Path) -> None:
    run = simulated(slipstream, tmp_path, 2)
    outside = rated(slipstream, run, "--window", "1m", "--door", "tcp", "--out", tmp_path / "tcp")
    assert "through TCP, as train" in outside["how"]
    inside = rated(slipstream, run, "--window", "1m", "--replay", "--out", tmp_path / "replay")
    assert inside["how"] == "replay inside the engine"
    assert inside["expressways"] == outside["expressways"] == 2


@pytest.mark.long
def test_a_small_rating_of_postgres(slipstream: Slipstream, tmp_path: Path, server: str) -> None:
    run = simulated(slipstream, tmp_path, 5)
    rating = rated(slipstream, run, "--window", "2m", "--engine", "postgres", "--out", tmp_path / "rating")
    assert rating["expressways"] == 2
    assert len(rating["tries"][-1]["busy"]) == 3


#: in the first minute there are no statistics: Lav is -1 and every toll is 0
FIRST_MINUTE = """
import sys, time

def answers(line):
    kind, second, vid, _, _, lane, _, seg = map(int, line.split(",")[:8])
    if kind == 0 and segments.get(vid) != seg:
        segments[vid] = seg
        if lane != 4:
            yield f"0,{vid},{second},{second + 0.5},-1,0"

segments = {}
"""
OVER_TCP = """
import socket
host, port, out = sys.argv[1:]
print("Ready.", flush=True)
while True:
    try:
        feed = socket.create_connection((host, int(port)))
        break
    except OSError:
        time.sleep(0.1)
with open(f"{out}/output.csv", "w") as file:
    for line in feed.makefile():
        file.writelines(answer + "\\n" for answer in answers(line))
time.sleep(1000)
"""
THROUGH_KAFKA = """
from confluent_kafka import Consumer, Producer
server, topic, answering = sys.argv[1:]
settings = {"group.id": "a", "auto.offset.reset": "earliest", "bootstrap.servers": server}
consumer, producer = Consumer(settings), Producer({"bootstrap.servers": server})
consumer.subscribe([topic], on_assign=lambda *_: print("ready", flush=True))
while True:
    for message in consumer.consume(10_000, timeout=0.1):
        for answer in answers(message.value().decode()) if message.value() else ():
            producer.produce(answering, answer)
    producer.flush()
"""


@pytest.mark.long
@pytest.mark.parametrize("door", ["tcp", "kafka"])
def test_an_engine_of_your_own_is_rated_by_its_command(
    slipstream: Slipstream, tmp_path: Path, broker: str, door: str
) -> None:
    run = simulated(slipstream, tmp_path, 1)
    program = tmp_path / "engine.py"
    program.write_text(FIRST_MINUTE + (OVER_TCP if door == "tcp" else THROUGH_KAFKA))
    words = "{host} {port} {out}" if door == "tcp" else "{host}:{port} {topic} {answers}"
    options = ["--door", door] + (["--broker", broker] if door == "kafka" else [])
    command = f"{sys.executable} {program} {words}"
    options += ["--engine-command", command, "--only", "0", "--window", "1m", "--out", str(tmp_path / "rating")]
    rating = rated(slipstream, run, *options)
    assert rating["expressways"] == 2
    assert "as text" in rating["how"]
    toll = rating["tries"][-1]["responses"]["toll notification"]
    assert toll["max"] == 0.5 if door == "tcp" else 0 < toll["p50"] < 5  # stamped by the engine, or by the broker


def full_run(run: Path, broker: str, out: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "slipstream", "rate", "--run", run, "--full", "--at", 2, "--json"]
    command += ["--broker", broker, "--out", out]
    return subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def wait_for_second(folder: Path, second: int) -> None:
    deadline = time.monotonic() + 300
    while not (last := read_last_line(folder / "answers.logs" / "sent.jsonl")) or last["second"] < second:
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.mark.long
def test_a_full_run_survives_ctrl_c_and_a_killed_engine_without_losing_an_answer(
    slipstream: Slipstream, tmp_path: Path, broker: str
) -> None:
    run, folder = simulated(slipstream, tmp_path, 2, "--demand", 6), tmp_path / "rating" / "full-2"
    first = full_run(run, broker, tmp_path / "rating")
    wait_for_second(folder, 30)
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=200)
    assert first.returncode == 130
    resumed = full_run(run, broker, tmp_path / "rating")
    wait_for_second(folder, 70)
    os.kill(json.loads((folder / "answers" / "status.json").read_text())["pid"], signal.SIGKILL)
    out, err = resumed.communicate(timeout=600)
    assert resumed.returncode == 0, err
    full = json.loads(out)
    assert full["trial"]["validated"]
    assert full["trial"]["restarts"] == 1
    assert len(full["resumed"]) == 2
    assert full["resumed"][0].startswith("resumed after second")
    assert full["resumed"][1].startswith("engine restarted after second")
    assert [minute["minute"] for minute in full["minutes"]] == [0, 1]
    for name in ("full.html", "full.json", "responses.svg", "resources.svg"):
        assert (folder / name).exists()
