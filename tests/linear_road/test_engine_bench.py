"""Throughput of the toll engine: trains compared with rows, and tuples per second by number of expressways."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from measure import Measured, machine, measured
from slipstream._bench.validation.editions import find_edition
from slipstream._bench.validation.validator import validate
from slipstream._city.simulate import simulate
from slipstream._city.traffic import Traffic
from slipstream._linear_road.job.engine import Settings, toll_run
from slipstream._linear_road.job.toll_layout import ANSWERS, ANSWERS_AND_TRIPS, TRIPS
from slipstream._runtime.watching import metrics
from slipstream._spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slipstream._feeds.run import Run

pytestmark = pytest.mark.bench

#: seconds of the run, and of one batch: the fixed cost of a batch is about the same whatever is in it
SECONDS = 480
BATCH = 60


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session_ = session.build("bench", master="local[2]")
    yield session_
    session_.stop()


@pytest.fixture(scope="module")
def run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One expressway, crowded within minutes as a real one is after two hours."""
    return simulate(spark, Traffic(minutes=10, demand=8.0), 1, tmp_path_factory.mktemp("runs") / "run")


def tuples_before(run: Run, second: int) -> int:
    minutes = [run.minute(0, minute).column("time").to_numpy() for minute in range(-(-second // 60))]
    return run.copies * sum(int((times < second).sum()) for times in minutes)


def speed(spark: SparkSession, run: Run, out: Path, settings: Settings) -> tuple[float, float]:
    """Tuples per second through the whole engine, and GiB in all processes."""
    toll_run(spark, run, out / "warm-up", Settings(until=30, batch_seconds=30))
    with measured() as cost:
        toll_run(spark, run, out / "measured", settings)
    return tuples_before(run, settings.until or run.manifest.seconds) / cost.seconds, cost.gib


def state_mib(out: Path) -> str:
    """What the state takes in the store, squeezed, at the end."""
    return f"{metrics.read(out)[-1].state_bytes / 2**20:.0f} MiB in the store"


def where_the_time_goes(out: Path) -> str:
    batches = metrics.read(out)
    phases = {name for batch in batches for name in batch.phases_ms}
    total = {name: sum(batch.phases_ms.get(name, 0) for batch in batches) / 1000 for name in phases}
    parts = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in sorted(total.items(), key=lambda item: -item[1]))
    return f"{len(batches)} batches: {parts}"


@pytest.mark.parametrize("expressways", [1, 10])
def test_trains_against_rows(spark: SparkSession, run: Run, tmp_path: Path, expressways: int) -> None:
    presented = run.multiplied(expressways)
    rows, _ = speed(spark, presented, tmp_path / "rows", Settings(until=240, batch_seconds=BATCH, train_length=1))
    trains, _ = speed(spark, presented, tmp_path / "trains", Settings(until=240, batch_seconds=BATCH))
    print(f"\n{expressways} expressway(s): a Spark row per tuple {rows:,.0f} tuples/s, trains {trains:,.0f}")
    print(f"  trains / rows = {trains / rows:.1f}\n  {machine()}")


@pytest.mark.parametrize("expressways", [1, 10, 50, 100])
def test_tuples_per_second(spark: SparkSession, run: Run, tmp_path: Path, expressways: int) -> None:
    settings = Settings(until=SECONDS, batch_seconds=BATCH, text=False)
    rate, gib = speed(spark, run.multiplied(expressways), tmp_path / "out", settings)
    print(f"\n{expressways} expressway(s): {rate:,.0f} tuples/s through the whole engine, {gib:.1f} GiB")
    print(f"  state {state_mib(tmp_path / 'out' / 'measured')}; batches of {BATCH} s; {machine()}")


def test_tolling_and_archiving_together(spark: SparkSession, run: Run, tmp_path: Path) -> None:
    """Ten expressways at full speed, alternately alone and together, so that both meet the same noise."""
    presented = run.multiplied(10)
    took: dict[str, list[float]] = {ANSWERS: [], ANSWERS_AND_TRIPS: [], TRIPS: []}
    for outputs in took:
        toll_run(
            spark, presented, tmp_path / f"warm-up {outputs}", Settings(until=60, batch_seconds=30, outputs=outputs)
        )
    for turn in range(3):
        for outputs, seconds in took.items():
            settings = Settings(batch_seconds=BATCH, text=False, outputs=outputs)
            with measured() as cost:
                summary = toll_run(spark, presented, tmp_path / f"{outputs} {turn}", settings)
            seconds.append(cost.seconds)
    alone, together, archived = (min(seconds) for seconds in took.values())
    tuples = summary["tuples"]
    print(f"\n10 expressways, {tuples / 1e6:.1f} M tuples: tolled {alone:.1f} s, archived {archived:.1f} s")
    print(f"  both {together:.1f} s ({tuples / together:,.0f} tuples/s): {together / alone:.2f} times tolling alone")
    print(f"  all turns: { ({name: [round(s, 1) for s in seconds] for name, seconds in took.items()}) }; {machine()}")
    assert together <= 1.4 * alone


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Ten expressways, three hours."""
    return simulate(spark, Traffic(expressways=10), 1, tmp_path_factory.mktemp("whole") / "run")


@pytest.fixture(scope="module")
def tolled(spark: SparkSession, whole: Run, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Measured]:
    out = tmp_path_factory.mktemp("tolled") / "out"
    with measured() as cost:
        toll_run(spark, whole, out, Settings(batch_seconds=BATCH, text=False))
    return out, cost


def test_three_hours_of_ten_expressways(whole: Run, tolled: tuple[Path, Measured]) -> None:
    """Memory is bounded by the state: cars on the road and accounts, not by the length of the run."""
    out, cost = tolled
    tuples = sum(whole.manifest.counts.values())
    print(f"\n10 expressways x 3 h: {cost.seconds:.0f} s, {tuples / cost.seconds:,.0f} tuples/s")
    print(f"  {cost.gib:.1f} GiB in all processes (goal 8), state {state_mib(out)}")
    print(f"  {tuples / 1e6:.1f} M tuples; {machine()}\n  {where_the_time_goes(out)}")


def test_validating_three_hours_of_ten_expressways(
    spark: SparkSession, whole: Run, tolled: tuple[Path, Measured]
) -> None:
    with measured() as cost:
        verdict = validate(spark, whole, [tolled[0]], edition=find_edition("2004"), response_times=False)
    assert verdict.passed
    print(f"\nvalidated in {cost.seconds / 60:.1f} min (goal 30), {cost.gib:.1f} GiB (goal 12); {machine()}")
