"""The paper's scheduler experiment: 40 boxes, depth 4, 50,000 position reports, and trains of growing length.

Printed beside the paper's figures (2003, one machine): 3,200 boxes/s and 830 output tuples/s.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from measure import machine
from oracles.network_engines import compiled
from slipstream._network import Builder, Network, Order
from slipstream._network.running.recordings import write_trains

TUPLES = 50_000
CONSUMERS = 10
SCHEMA = {"unit": "integer", "time": "integer", "x": "integer", "y": "integer"}


def dissemination() -> Network:
    """Ten consumers of position reports: each its area, its own distance, its units' means, its alarms."""
    net = Builder("dissemination")
    reports = net.source("reports", **SCHEMA)
    for i in range(CONSUMERS):
        area = reports.filter(f"x between {i * 80} and {i * 80 + 200}")
        far = area.map({"unit": "unit", "time": "time", "far": f"sqrt(pow(x - {i * 90}, 2) + pow(y - 500, 2))"})
        mean = far.aggregate({"far": "avg(far)", "n": "count(*)"}, Order("time", 2, ("unit",)), size=10)
        mean.filter("far < 300").to(f"consumer_{i}")
    return net.build()


def reports(count: int) -> pa.Table:
    random = np.random.default_rng(1)
    columns = {
        "unit": np.arange(count) % 500,
        "time": np.arange(count) // 500,
        "x": random.integers(0, 1000, count),
        "y": random.integers(0, 1000, count),
    }
    return pa.table(columns)


def run(spark, folder: Path, train: int, trains: int) -> tuple[float, float, int]:
    """Seconds of a whole run, median seconds of a batch (the first, which warms up, left out), tuples delivered."""
    network = dissemination()
    write_trains(folder / "in" / "reports", reports(train * trains), train, 0, None)
    made = compiled(spark, network, folder / "in", folder / "out")
    delivered = []
    start = time.perf_counter()
    query = made.start(lambda batch, _: delivered.extend(batch.collect()), folder / "checkpoint", available_now=True)
    query.awaitTermination()
    seconds = time.perf_counter() - start
    batches = [p.durationMs["triggerExecution"] / 1000 for p in query.recentProgress if p.numInputRows]
    return (
        seconds,
        float(np.median(batches[1:] or batches)),
        sum(row["rows"] for row in delivered),
    )


@pytest.mark.bench
def test_trains_and_superboxes(spark, tmp_path: Path) -> None:
    boxes = len(dissemination().nodes)
    print(f"\n{machine()}")
    seconds, batch, out = run(spark, tmp_path / "whole", 10_000, TUPLES // 10_000)
    calls = boxes * TUPLES / 10_000 / seconds
    print(
        f"{boxes} boxes, {TUPLES:,} tuples in trains of 10,000: {seconds:.1f} s from start to end, first batch included"
    )
    passes = _passes(spark)
    print(f"box calls (a box on a train): {calls:.1f}/s; tuples through a box: {passes / seconds:,.0f}/s")
    print(
        f"output tuples: {out:,}, {out / seconds:,.0f}/s; a batch: {batch:.2f} s   (paper: 3,200 boxes/s, 830 tuples/s)"
    )
    print("train   s per batch   µs per tuple   tuples through a box per second")
    for train in (1, 10, 100, 1_000, 10_000, 50_000):
        _, batch, _ = run(spark, tmp_path / str(train), train, 4)
        print(f"{train:>6,} {batch:>12.2f} {batch / train * 1e6:>14,.0f} {passes * train / TUPLES / batch:>33,.0f}")
    assert out > 0


def _passes(spark) -> int:
    """How many times a tuple passed a box: what a tuple-at-a-time scheduler would call box executions."""
    frame = spark.createDataFrame(reports(TUPLES))
    inside = sum(frame.where(f"x between {i * 80} and {i * 80 + 200}").count() for i in range(CONSUMERS))
    return CONSUMERS * TUPLES + 2 * inside
