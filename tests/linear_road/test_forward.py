"""An engine that starts in the middle of a run answers from there on what one from the start answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slipstream._city.simulate import simulate
from slipstream._city.traffic import Traffic
from slipstream._errors import BadArgument
from slipstream._linear_road.job.engine import Settings, toll_run
from slipstream._linear_road.tables import read_rows
from slipstream._runtime.metrics import read

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


def test_it_starts_with_a_minute(spark: SparkSession, run: Run, tmp_path: Path) -> None:
    with pytest.raises(BadArgument, match="not the start of a minute"):
        toll_run(spark, run, tmp_path / "out", Settings(since=T + 1))
