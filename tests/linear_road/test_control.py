"""A job that is paused, stepped and resumed while it runs gives the same answers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from commands import Slipstream
from linear_road.test_query import output_lines
from oracles.linear_road import answers
from oracles.streams import busy_stream
from slipstream._feeds.clock import Clock
from slipstream._feeds.tuple_text import import_text
from slipstream._linear_road.job.engine import Settings, toll_run
from slipstream._linear_road.job.toll_journal import read_journal
from slipstream._linear_road.replay import Replay, ReplayReader
from slipstream._runtime import job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_job_is_paused_stepped_and_resumed(spark: SparkSession, tmp_path: Path) -> None:
    feed = [line for line in busy_stream(3) if int(line.split(",")[1]) < 200]
    (tmp_path / "feed.dat").write_text("\n".join(feed))
    run = import_text(tmp_path / "feed.dat", tmp_path / "run")
    control, taken = job.control(tmp_path / "out"), []

    def people() -> Iterator[None]:
        control.request("pause")
        for wanted in ("2", "1", "run"):
            for _ in range(10):
                yield
            taken.append(sum(batch.tuples > 0 for batch in read_journal(tmp_path / "out")))
            control.request(wanted)
            while control.requested != "pause" and wanted != "run":
                yield
        while True:
            yield

    settings = Settings(batch_seconds=25, parallel=1, until=200, watch=partial(next, people()))
    toll_run(spark, run, tmp_path / "out", settings)
    assert taken == [0, 2, 3]
    assert sorted(output_lines(tmp_path / "out")) == sorted(answers(feed).outputs)


def test_the_clock_of_a_replay_stands_still_while_it_is_paused(tmp_path: Path) -> None:
    control = job.control(tmp_path)
    Clock(1.0, round(time.time() * 1000) - 7_000).write(tmp_path / "clock.json")
    replay = Replay(
        "run", 1, (0,), 0, 100, str(tmp_path / "clock.json"), 60, 1, openings=1, control=str(tmp_path / "control")
    )
    reader = ReplayReader(replay)
    assert reader.latestOffset({"second": 3}, None)["second"] >= 8
    control.request("pause")
    assert reader.latestOffset({"second": -1}, None) == {"second": 0}, "openings are not held"
    assert reader.latestOffset({"second": 3}, None) == {"second": 3}
    control.request("run")
    assert reader.latestOffset({"second": 3}, None) == {"second": 4}
    clock = Clock.read(tmp_path / "clock.json")
    assert clock is not None
    assert (clock.since, clock.speed) == (3, 1.0)


def test_the_commands_say_what_is_wanted_of_a_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slipstream = Slipstream(capsys)
    assert slipstream("job", "pause", tmp_path).code == 2
    job.JobFile("toll", 1, {}).write(tmp_path)
    for arguments, wanted in ((["pause"], "pause"), (["step", "--batches", "3"], "3"), (["resume"], "run")):
        assert slipstream("job", arguments[0], tmp_path, *arguments[1:]).code == 0
        assert job.control(tmp_path).requested == wanted
