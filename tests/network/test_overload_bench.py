"""An input at three times capacity: what the outputs are worth without shedding, and with each way to shed.

Capacity is what a run that never waits takes in the same test; the boxes' costs are scaled to it, so that all ways are
judged by one truth.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from measure import machine
from oracles.network_loads import Load, overload, predicted, reached
from slipstream._network.quality.shedding import Controller, Shedding, plan, plan_evenly
from slipstream._network.quality.statistics import Statistics
from slipstream._network.running.driving import drive
from slipstream._network.running.run_folder import Execution
from slipstream._network.schemas import check

#: how long tuples arrive, at how many times the capacity, and the share of it that shedding counts on
SECONDS, TIMES, HEADROOM = 12, 3.0, 0.6
#: the length of the batches that capacity is measured in, in seconds of the predicted rate
BATCH = 4


def overloaded(
    spark, load: Load, folder: Path, rate: float, shed: Shedding | None, controller: Controller | None = None
) -> dict[str, dict[str, float]]:
    """Replay at a rate; each output over the whole run."""
    recording = folder.with_suffix(".parquet")
    pq.write_table(load.tuples(round(rate * SECONDS)), recording)
    run = Execution.prepare(folder, load.network, {load.source: recording}, train=max(round(rate / 2), 1), rate=rate)
    if shed:
        run.shares = {str(place): share for place, share in shed.shares.items()}
    drive(spark, run, controller=controller)
    return run.monitor.totals()


@pytest.mark.bench
def test_shedding_at_three_times_the_capacity(spark, tmp_path: Path) -> None:
    print(f"\n{machine()}")
    load, cores = overload(), spark.sparkContext.defaultParallelism
    checked = check(load.network, spark)
    figures, guess = predicted(spark, load)
    capacity = reached(spark, load, tmp_path / "capacity", guess * BATCH, trains=3)
    scale = guess / capacity
    costs = replace(
        figures,
        figures={name: replace(f, cost=f.cost * scale) for name, f in figures.figures.items()},
        carrying=figures.carrying * scale,
        reading=figures.reading * scale,
    )
    rates = {load.source: TIMES * capacity}
    print(f"capacity {capacity:,.0f} tuples/s (predicted {guess:,.0f}); the input brings {rates[load.source]:,.0f}")
    plans = {
        "none": (None, None),
        "even": (plan_evenly(checked, costs, rates, cores=cores, headroom=HEADROOM), None),
        "by utility": (plan(checked, costs, rates, cores=cores, headroom=HEADROOM), None),
        "by itself": (None, Controller(checked, costs, rates, cores, level=HEADROOM)),
        "by itself, costs unknown": (None, Controller(checked, Statistics(), rates, cores)),
    }
    print("shedding                   two strict outputs: delivered, mean delay, worst, utility   all six: utility")
    utility = {}
    for name, (shed, controller) in plans.items():
        found = overloaded(
            spark, load, tmp_path / name.replace(" ", "_").replace(",", ""), rates[load.source], shed, controller
        )
        strict = [found["standing"], found["racing"]]
        delivered, delay, worth = (sum(o[k] for o in strict) / 2 for k in ("delivered", "delay", "utility"))
        worst = max(output["worst"] for output in strict)
        utility[name] = sum(output["utility"] for output in found.values())
        print(
            f"{name:>24} {delivered:>8.0%} {delay:>10.1f} s {worst:>6.1f} s {worth:>8.2f} {utility[name]:>22.2f} of 6"
        )
    assert utility["by utility"] > utility["even"]
    assert utility["by utility"] > utility["none"]
    assert utility["by itself"] > utility["none"]
    assert utility["by itself, costs unknown"] > utility["none"]
