"""An engine that starts in the middle of a run gives the same answers from there on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slipstream._bench.driving.driver import read_seconds
from slipstream._bench.driving.encoders import encode_text
from slipstream._city.simulate import simulate
from slipstream._city.traffic import Traffic
from slipstream._errors import BadArgument
from slipstream._linear_road.fast_forward import FastForward
from slipstream._linear_road.job.engine import Settings, check_feed, toll_feed, toll_run
from slipstream._linear_road.output_tables import read_rows
from slipstream._runtime.watching.metrics import read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slipstream._feeds.run import Run

T = 240


@pytest.fixture(scope="module")
def run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Vehicles that change expressways, tolls, and an accident that is on when the engine starts."""
    traffic = Traffic(expressways=2, minutes=6, demand=9.0, accident_every=2)
    return simulate(spark, traffic, 3, tmp_path_factory.mktemp("forward") / "run").multiplied(2)


def answers(out: Path) -> list[tuple[int, ...]]:
    rows = read_rows(out).select(["kind", "time", "vid", "qid", "a", "b"]).to_pylist()
    return sorted(tuple(row.values()) for row in rows if row["time"] >= T)


def test_it_goes_on_as_if_it_had_been_there(spark: SparkSession, run: Run, tmp_path: Path) -> None:
    toll_run(spark, run, tmp_path / "whole", Settings(text=False, batch_seconds=120))
    toll_run(spark, run, tmp_path / "part", Settings(text=False, batch_seconds=120, since=T))
    expected = answers(tmp_path / "whole")
    assert answers(tmp_path / "part") == expected
    kinds = [row[0] for row in expected]
    assert kinds.count(0) > 500
    assert 1 in kinds
    assert any(row[5] > 0 for row in expected if row[0] == 2)
    metrics = read(tmp_path / "part")
    assert [batch.until for batch in metrics] == [T, 360]
    assert all(batch.commit_ms > 0 for batch in metrics)


def test_a_feed_goes_on_from_the_past_of_a_run(spark: SparkSession, run: Run, tmp_path: Path) -> None:
    """In the one way the replay does it: the same state, brought by the first opening."""
    toll_run(spark, run, tmp_path / "whole", Settings(text=False, batch_seconds=120))
    feed = tmp_path / "feed.dat"
    feed.write_bytes(b"".join(encode_text(table) for _, table in read_seconds(run, 360, T)))
    past = Settings(text=False, since=T, history=run.path, copies=2, lateness=0, forward=tmp_path / "kept")
    toll_feed(spark, str(feed), tmp_path / "part", past)
    assert answers(tmp_path / "part") == answers(tmp_path / "whole")
    assert (tmp_path / "kept" / "computed").exists()
    assert not (tmp_path / "part" / "checkpoint" / "forward").exists()


def test_a_feed_without_a_past_cannot_start_in_the_middle(run: Run, tmp_path: Path) -> None:
    feed = tmp_path / "feed.dat"
    feed.write_text("0,240,1,50,0,0,0,10,52800,0,0,0,0,0,0\n")
    with pytest.raises(BadArgument, match="no past of its own"):
        check_feed(str(feed), tmp_path / "out", Settings(since=T))
    with pytest.raises(BadArgument, match="not the start of a minute"):
        check_feed(str(feed), tmp_path / "out", Settings(since=T + 1, history=run.path))
    with pytest.raises(BadArgument, match="outside"):
        check_feed(str(feed), tmp_path / "out", Settings(since=60_000, history=run.path))


def test_state_kept_for_others_is_that_of_this_run_and_second(spark: SparkSession, run: Run, tmp_path: Path) -> None:
    kept = FastForward(str(tmp_path / "kept"), str(run.path), 1, "2004", 60)
    kept.compute(spark)
    file = tmp_path / "kept" / "0.pickle"
    file.write_bytes(b"")
    kept.compute(spark)
    assert not file.read_bytes()  # taken as it is
    replace(kept, until=120).compute(spark)
    assert file.read_bytes()


def test_it_starts_with_a_minute(spark: SparkSession, run: Run, tmp_path: Path) -> None:
    with pytest.raises(BadArgument, match="not the start of a minute"):
        toll_run(spark, run, tmp_path / "out", Settings(since=T + 1))
