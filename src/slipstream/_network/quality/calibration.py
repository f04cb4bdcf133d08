"""Calibration: runs the network on a sample of its inputs to measure the cost of carrying tuples between boxes.

The boxes' own costs do not add up to the cost of a run: tuples must also be read, shuffled, sent to Python workers and
back, and delivered. A short run of the same query in batches of two lengths gives the cost of one more tuple (the fixed
cost of a batch delays results, but limits no rate). The sample then runs once more with all tuples marked to be dropped
at once, which gives the cost of reading. The remainder is the cost of carrying.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from slipstream._network.quality import shedding
from slipstream._network.quality.analysis import analyse
from slipstream._network.quality.statistics import Statistics, measure
from slipstream._network.running.failures import query_errors
from slipstream._network.running.recordings import cut_trains
from slipstream._network.running.run_folder import Execution
from slipstream._network.running.train_folder import write_train
from slipstream._network.schemas import Checked
from slipstream._tools.files import temporary

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: the trains of the run, in sixteenths of the sample: two to warm up, then short and long ones alternating
TRAINS = (1, 1, 1, 4, 1, 4, 4)
WARM = 2
#: with fewer tuples, the duration of a run is mostly noise
FEW = 20_000
#: how often a run is made that something else disturbed
TRIES = 3
#: what boxes cost in a run at the least, as a share of what they cost on their own
LEAST = 0.25


class Marginal(NamedTuple):
    """Seconds per additional tuple in a run of the network, over all sources."""

    whole: float
    reading: float  # of one that is dropped at once


def calibrate(
    spark: SparkSession,
    checked: Checked,
    samples: Mapping[str, pa.Table],
    tables: Mapping[str, DataFrame] | None = None,
) -> Statistics:
    """Measure the cost of every box and of carrying a tuple, on samples of the sources' tuples in arrival order."""
    frames = {name: spark.createDataFrame(number_tuples(table)) for name, table in samples.items()}
    found = measure(spark, checked, frames, tables)
    rates = {name: float(table.num_rows) for name, table in samples.items()}
    total = sum(rates.values())
    shares = {name: rate / max(total, 1) for name, rate in rates.items()}
    cores = spark.sparkContext.defaultParallelism
    boxes = analyse(checked, found, shares, cores=cores)
    is_long = total >= FEW
    for _ in range(TRIES if is_long else 1):
        marginal = measure_marginal(spark, checked, samples, tables)
        if marginal.whole > 0:
            break  # otherwise longer batches took no longer: something else had the machine meanwhile
    whole, reading = (seconds * cores for seconds in marginal)
    left = max(whole - reading, 0.0)
    if is_long and whole > 0 and left < boxes.min_cap:
        # boxes measured on their own may be slower than in the run, which counts if it was long enough; not without
        # limit, as a run that was disturbed may seem to cost nothing
        found = found.scaled(max(left / boxes.min_cap, LEAST))
    carrying = max(left - boxes.min_cap, 0.0) / max(boxes.carried, 1e-9)
    return replace(found, carrying=carrying, reading=reading)


def measure_marginal(
    spark: SparkSession,
    checked: Checked,
    samples: Mapping[str, pa.Table],
    tables: Mapping[str, DataFrame] | None = None,
) -> Marginal:
    """Run the network on the samples, then once more with every tuple dropped."""
    with tempfile.TemporaryDirectory(prefix="rehearsal-", dir=temporary.folder()) as folder:
        run = Execution.lay_out(Path(folder) / "run", checked.network)
        everything = {str(place): 1.0 for place in run.places}
        for name, table in samples.items():
            trains = cut_parts(table, TRAINS)
            dropped = [shedding.stamp(train, run.places, everything, {}) for train in trains]
            for number, train in enumerate(trains + dropped):
                write_train(run.folder / "in" / name, number, train)
        taken = time_batches(run, spark, tables)
    half = len(taken) // 2
    return Marginal(slope(taken[WARM:half]), slope(taken[half:]))


def time_batches(
    run: Execution, spark: SparkSession, tables: Mapping[str, DataFrame] | None = None
) -> list[tuple[int, float]]:
    """Run a network on what has arrived; returns the tuples and the seconds of each batch."""
    query = run.start(spark, tables)
    with query_errors(run.network):
        try:
            query.processAllAvailable()
            progress = query.recentProgress
        finally:
            query.stop()
    taken = {entry["batch"]: sum(entry["taken"].values()) for entry in run.monitor.entries()}
    return [(taken[p.batchId], p.durationMs["triggerExecution"] / 1000) for p in progress if taken.get(p.batchId)]


def cut_parts(table: pa.Table, lengths: Iterable[int]) -> list[pa.Table]:
    """Add arrival numbers to a table and cut it into consecutive parts of these relative lengths."""
    lengths = list(lengths)
    bounds = [table.num_rows * sum(lengths[:i]) // sum(lengths) for i in range(len(lengths) + 1)]
    return [number_tuples(table).slice(start, end - start) for start, end in pairwise(bounds)]


def number_tuples(table: pa.Table) -> pa.Table:
    """Add arrival numbers to tuples that all arrive at once."""
    return next(cut_trains(table, max(table.num_rows, 1), 0, None))


def slope(batches: list[tuple[int, float]]) -> float:
    """Seconds per tuple, from (tuples, seconds) of shorter and longer batches.

    >>> slope([(100, 1.1), (500, 1.5), (100, 1.1), (600, 1.6)])
    0.001
    """
    if len({count for count, _ in batches}) < 2:
        return 0.0
    middle = (min(count for count, _ in batches) + max(count for count, _ in batches)) / 2
    # any disturbance makes a batch longer, so the shortest of each kind is the most accurate
    few, soon = min((batch for batch in batches if batch[0] < middle), key=lambda batch: batch[1])
    many, later = min((batch for batch in batches if batch[0] >= middle), key=lambda batch: batch[1])
    return round(max(later - soon, 0.0) / (many - few), 9)
