"""The simulated traffic has the character of the benchmark's own, within 15 %."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slipstream._city.simulate import simulate
from slipstream._city.traffic import Traffic
from slipstream._feeds.tuple_text import import_text

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    from slipstream._feeds.run import Run

#: tuples per second of one real expressway, mean of the minute from the second given
RATES_EARLY = {0: 18, 60: 42, 360: 126, 480: 161}
RATES = {5270: 1240, 10_740: 1700}

TRIP = "over (partition by vid order by time)"


def near(value: float) -> object:
    return pytest.approx(value, rel=0.15)


def per_second(run: Run, spark: SparkSession) -> pd.DataFrame:
    """Tuples, reports and the sum of their speeds, by second and by whether they came from a ramp."""
    tuples = run.dataframe(spark).selectExpr("time", "type = 0 as report", "spd", "type = 0 and lane in (0, 4) as ramp")
    tuples.createOrReplaceTempView("tuples")
    return spark.sql(
        """select time, ramp, count(*) as tuples, count_if(report) as reports, sum(if(report, spd, 0)) as speed
        from tuples group by time, ramp"""
    ).toPandas()


def rate(seconds: pd.DataFrame, since: int) -> float:
    return float(seconds.tuples[seconds.time.between(since, since + 59)].sum() / 60)


def mean_speed(seconds: pd.DataFrame, since: int, until: int) -> float:
    part = seconds[seconds.time.between(since, until - 1)]
    return float(part.speed.sum() / part.reports.sum())


def test_the_first_minutes_are_like_the_real_ones(spark: SparkSession, tmp_path: Path) -> None:
    xways = 3
    run = simulate(spark, Traffic(expressways=xways, minutes=9), 1, tmp_path / "run")
    seconds = per_second(run, spark)
    for since, expected in RATES_EARLY.items():
        assert rate(seconds, since) / xways == near(expected), since
    assert mean_speed(seconds, 0, 419) == near(49)
    assert mean_speed(seconds[seconds.ramp], 0, 540) <= 40


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Three hours of three expressways: an accident here or there moves a single one by more than the tolerance."""
    return simulate(spark, Traffic(expressways=3, minutes=180), 1, tmp_path_factory.mktemp("whole") / "run")


@pytest.mark.long
def test_three_hours_are_like_the_real_ones(whole: Run, spark: SparkSession) -> None:
    xways = whole.stored
    seconds = per_second(whole, spark)
    for since, expected in {**RATES_EARLY, **RATES}.items():
        assert rate(seconds, since) / xways == near(expected), since
    assert sum(whole.manifest.counts.values()) / xways == near(12e6)
    assert whole.manifest.vehicles / xways == near(137_000)
    assert len(whole.manifest.accidents) == 9 * xways
    assert mean_speed(seconds, 0, 419) == near(49)
    assert mean_speed(seconds, 5240, 5360) == near(23)


@pytest.mark.long
def test_jams_are_as_full_and_as_slow_as_the_real_ones(whole: Run, spark: SparkSession) -> None:
    reports = whole.dataframe(spark).where("type = 0")
    minute = reports.where("time between 5300 and 5359")
    assert minute.select("vid").distinct().count() / whole.stored == near(37_200)
    half = reports.where("time >= 5285 and time < 5315").groupBy("xway", "dir", "seg")
    segments = half.agg({"vid": "count", "spd": "avg"}).toDF("xway", "dir", "seg", "cars", "mph").toPandas()
    jammed = segments[segments.cars > 350]
    assert 7 * 0.85 <= jammed.mph.mean() <= 13 * 1.15
    fullest = segments[segments.mph.between(7, 13)].groupby("xway").cars.max()
    assert len(fullest) == whole.stored
    assert fullest.mean() == near(400)


def marked(reports: DataFrame) -> DataFrame:
    """Reports that enter a segment, and those of cars that stand: four from one place of a travel lane, 30 s apart."""
    before = [f"lag(place, {n}) {TRIP} as place{n}" for n in (1, 2, 3)]
    return (
        reports.selectExpr("*", "pos + 1000000L * (lane + 8 * (dir + 2 * xway)) as place")
        .selectExpr("*", f"lag(seg) {TRIP} as last", f"time - lag(time) {TRIP} as since", *before)
        .selectExpr("*", f"time - lag(time, 3) {TRIP} as standing")
        .selectExpr(
            *("xway", "dir", "seg", "vid", "time", "time div 60 as minute", "place"),
            "lane <> 4 and (last is null or since > 30 or seg <> last) as entered",
            "coalesce(standing = 90 and lane between 1 and 3 and place = place1 and place = place2 and place = place3, "
            "false) as stopped",
        )
        .where("entered or stopped")
    )


def accident_minutes(stopped: pd.DataFrame) -> set[tuple[int, ...]]:
    """(expressway, direction, segment, minute) where two cars stand at one place at once."""
    pairs = stopped.merge(stopped[["place", "vid", "time"]], on="place", suffixes=("", "_other"))
    age = pairs.time - pairs.time_other
    hit = pairs[(pairs.vid != pairs.vid_other) & (age >= 0) & (age <= 30)]
    return set(hit[["xway", "dir", "seg", "minute"]].itertuples(index=False, name=None))


def notified_and_alerted(run: Run, spark: SparkSession) -> tuple[int, int]:
    """Toll notifications and accident alerts by the rules, without the engine."""
    reports = marked(run.dataframe(spark).where("type = 0")).cache()
    entries = reports.where("entered").groupBy("xway", "dir", "seg", "minute").count().toPandas()
    hits = accident_minutes(reports.where("stopped").drop("entered", "stopped").toPandas())
    reports.unpersist()

    def alerted(xway: int, direction: int, seg: int, minute: int) -> bool:
        ahead = range(seg, seg + 5) if direction == 0 else range(seg, seg - 5, -1)
        return any((xway, direction, min(max(s, 0), 99), minute - 1) in hits for s in ahead)

    counts = [(row[-1], alerted(*row[:-1])) for row in entries.itertuples(index=False, name=None)]
    return sum(count for count, _ in counts), sum(count for count, hit in counts if hit)


@pytest.mark.long
def test_notifications_and_alerts_of_the_real_excerpt(real_data: Path, tmp_path: Path, spark: SparkSession) -> None:
    real = import_text(real_data / "linear-road" / "datafile3hours_t0000-0418.dat", tmp_path / "run")
    assert notified_and_alerted(real, spark) == (14_388, 513)


@pytest.mark.long
def test_drivers_are_notified_and_alerted_as_often_as_the_real_ones(whole: Run, spark: SparkSession) -> None:
    notified, alerted = notified_and_alerted(whole, spark)
    print(f"\nper expressway: {notified / whole.stored:,.0f} notifications, {alerted / whole.stored:,.0f} alerts")
    assert notified / whole.stored == near(2e6)
    assert alerted / whole.stored == near(28_000)
