"""Is static analysis right about the load, and what does shedding by utility save when the input is three times it?

Prints, beside the machine, the rate predicted from measured box costs and the rate that a run reached; then, for an
input at three times that rate, delay and utility of each output without shedding, shedding evenly, and by utility.
"""

from __future__ import annotations

import platform
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from oracles.squal_engines import compiled
from slipstream.squal import Builder, Network, Order
from slipstream.squal.analysis import analyse
from slipstream.squal.execution import Execution, replay
from slipstream.squal.inputs import cut, write_trains
from slipstream.squal.qos import Graph, Quality
from slipstream.squal.schemas import check
from slipstream.squal.shedding import Shedding, evenly, plan
from slipstream.squal.statistics import Figures, Statistics, measure

SECONDS = 20
FAST = Graph(((0, 1), (6, 1), (20, 0)))
IMPORTANT = Quality(delay=FAST, drop=Graph(((0, 0), (0.8, 0.2), (1, 1))))
CASUAL = Quality(delay=FAST, drop=Graph(((0, 0), (0.2, 0.9), (1, 1))))


def network() -> Network:
    """One output that must hear everything, five that can do with a sample."""
    net = Builder("overload")
    cars = net.source("cars", vid="integer", time="integer", speed="integer")
    cars.aggregate({"v": "avg(speed)"}, Order("time", 2, ("vid",)), size=2).filter("v < 5").to("important", IMPORTANT)
    for i in range(5):
        means = cars.aggregate({"v": "max(speed)"}, Order("time", 2, ("vid",)), size=2 + i)
        means.filter("v > 90").to(f"casual_{i}", CASUAL)
    return net.build()


def cars(count: int) -> pa.Table:
    random = np.random.default_rng(2)
    return pa.table(
        {"vid": np.arange(count) % 200, "time": np.arange(count) // 200, "speed": random.integers(0, 100, count)}
    )


def throughput(spark, folder: Path, train: int = 20_000) -> float:
    """Tuples a second of a run that never waits, the first batch left out."""
    write_trains(folder / "in" / "cars", cars(train * 4), train, 0, None)
    made = compiled(spark, network(), folder / "in", buckets=2)
    query = made.start(lambda batch, _: batch.count(), folder / "checkpoint", available_now=True)
    query.awaitTermination()
    batches = [p.durationMs["triggerExecution"] / 1000 for p in query.recentProgress if p.numInputRows]
    return train / float(np.median(batches[1:]))


def overloaded(spark, folder: Path, rate: float, shed: Shedding | None) -> dict[str, tuple[float, float]]:
    """Replay at a rate; the mean delay and the utility by delay of each output."""
    recording = folder.with_suffix(".parquet")
    pq.write_table(cars(round(rate * SECONDS)), recording)
    run = Execution.prepare(folder, network(), {"cars": recording}, train=max(round(rate), 1), rate=rate)
    if shed:
        run.shares = {str(place): share for place, share in shed.shares.items()}
    replay(spark, run)
    found = {}
    for output in network().outputs:
        lines = [e["outputs"][output.name] for e in run.monitor() if output.name in e["outputs"]]
        count = max(sum(line["tuples"] for line in lines), 1)
        delay = sum(line["delay"] * line["tuples"] for line in lines) / count
        found[output.name] = (delay, sum(line["utility"] * line["tuples"] for line in lines) / count)
    return found


@pytest.mark.bench
def test_analysis_and_shedding_under_three_times_the_load(spark, tmp_path: Path) -> None:
    print(f"\n{platform.machine()}, {psutil.cpu_count()} cores, load {psutil.getloadavg()[0]:.1f}")
    checked = check(network(), spark)
    cores = spark.sparkContext.defaultParallelism
    sample = {"cars": spark.createDataFrame(next(cut(cars(20_000), 20_000, 0, None)))}
    statistics = measure(spark, checked, sample)
    predicted = analyse(checked, statistics, {"cars": 1.0}, cores=cores).factor
    reached = throughput(spark, tmp_path / "capacity")
    print(f"predicted {predicted:,.0f} tuples/s, reached {reached:,.0f}: {predicted / reached:.2f}")
    # what a run reached is the truth about this machine now; the costs keep their proportions
    scale = predicted / reached
    costs = Statistics({name: Figures(f.cost * scale, f.shares) for name, f in statistics.figures.items()})
    rate = 3 * reached
    plans = {
        "none": None,
        "even": evenly(checked, costs, {"cars": rate}, cores=cores, headroom=0.8),
        "utility": plan(checked, costs, {"cars": rate}, cores=cores, headroom=0.8),
    }
    for name, shed in plans.items():
        found = overloaded(spark, tmp_path / name, rate, shed)
        delivered = shed.delivered if shed else dict.fromkeys(found, 1.0)
        total = sum(u * o.quality.drop.at(delivered[o.name]) for o in network().outputs for u in [found[o.name][1]])
        delay, utility = found["important"]
        print(
            f"{name:>8}: important {delivered['important']:.0%} delivered, delay {delay:.1f} s, utility {utility:.2f};"
        )
        print(f"          all outputs together {total:.2f} of {len(found)}")
