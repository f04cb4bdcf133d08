"""The simulated traffic has the character of the benchmark's own, within 15 %."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slipstream.city.simulate import simulate
from slipstream.city.traffic import Traffic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from slipstream.feeds.run import Run

#: tuples per second of one real expressway, mean of the minute from the second given
RATES_EARLY = {0: 18, 60: 42, 360: 126, 480: 161}
RATES = {5270: 1240, 10_740: 1700}


def rate(run: Run, spark: SparkSession, since: int) -> float:
    tuples = run.dataframe(spark).where(f"time >= {since} and time < {since + 60}")
    return tuples.count() / 60 / len(run.manifest.expressways)


def mean_speed(reports: DataFrame, since: int, until: int) -> float:
    row = reports.where(f"time >= {since} and time < {until}").agg({"spd": "avg"}).first()
    return float(row[0]) if row else 0.0


def near(value: float) -> object:
    return pytest.approx(value, rel=0.15)


def test_the_first_minutes_are_like_the_real_ones(spark: SparkSession, tmp_path: Path) -> None:
    run = simulate(spark, Traffic(expressways=3, minutes=9), 1, tmp_path / "run")
    for since, expected in RATES_EARLY.items():
        assert rate(run, spark, since) == near(expected), since
    reports = run.position_reports(spark)
    assert mean_speed(reports, 0, 419) == near(49)
    assert mean_speed(reports.where("lane in (0, 4)"), 0, 540) <= 40


@pytest.mark.long
def test_three_hours_are_like_the_real_ones(spark: SparkSession, tmp_path: Path) -> None:
    """Means over three expressways: an accident here or there moves a single one by more than the tolerance."""
    xways = 3
    run = simulate(spark, Traffic(expressways=xways, minutes=180), 1, tmp_path / "run")
    for since, expected in {**RATES_EARLY, **RATES}.items():
        assert rate(run, spark, since) == near(expected), since
    assert sum(run.manifest.counts.values()) / xways == near(12e6)
    assert run.manifest.vehicles / xways == near(137_000)
    assert len(run.manifest.accidents) == 9 * xways
    reports = run.position_reports(spark).cache()
    assert mean_speed(reports, 0, 419) == near(49)
    assert mean_speed(reports, 5240, 5360) == near(23)
    minute = reports.where("time between 5300 and 5359")
    assert minute.select("vid").distinct().count() / xways == near(37_200)
    jam = minute.groupBy("xway", "dir", "seg").agg({"spd": "avg", "vid": "count"}).where("`count(vid)` > 700")
    speeds = [row[0] for row in jam.select("avg(spd)").collect()]
    assert speeds
    assert 7 * 0.85 <= sum(speeds) / len(speeds) <= 13 * 1.15
    entered = reports.selectExpr(
        "lane",
        "seg",
        "lag(seg) over (partition by vid order by time) as last",
        "time",
        "lag(time) over (partition by vid order by time) as before",
    )
    notified = entered.where("lane <> 4 and (last is null or time - before > 30 or seg <> last)")
    assert notified.count() / xways == near(2e6)
