"""How fast boxes are by themselves: trains through a whole network in memory, and what it saves, without Spark."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from measure import machine
from network.test_train_bench import CONSUMERS, dissemination, reports
from oracles.network_loads import Load, linear_road
from slipstream._network.boxes.windows.window_functions import encode_table
from slipstream._network.flow import Train
from slipstream._network.planning.plan import plan
from slipstream._network.schemas import check
from slipstream._network.tasks.operators_in_spark import StageBoxes
from slipstream._network.tasks.superbox import Superbox
from slipstream._runtime.state.store import MemoryStore


def trains(superbox: Superbox, table: pa.Table, size: int) -> list[Train]:
    """A recording cut into trains of its only source."""
    (source,) = superbox.plan.checked.network.sources
    made = []
    for first in range(0, table.num_rows, size):
        part = table.slice(first, size)
        number = np.arange(first, first + part.num_rows)
        order = np.zeros((part.num_rows, len(superbox.plan.keys)), np.int64)
        order[:, 0] = number
        columns = {name: encode_table(part[name], type_) for name, type_ in source.schema.items()}
        made.append(Train(number, np.zeros(part.num_rows, np.int64), order, columns))
    return made


def seconds(superbox: Superbox, feed: list[Train]) -> tuple[float, float]:
    """Processor seconds of a step and of a save, medians without the first, which compiles."""
    (source,) = superbox.plan.checked.network.sources
    boxes = StageBoxes.fresh(superbox)
    stores = [MemoryStore() for _ in boxes.stores]
    taken = []
    for train in feed:
        start = time.process_time()
        for _ in superbox.step(boxes.states, {source.name: train}):
            pass
        stepped = time.process_time()
        boxes.save(stores, 0)
        taken.append((stepped - start, time.process_time() - stepped))
    step, save = np.median(taken[1:], axis=0)
    return float(step), float(save)


def superbox_of(spark: Any, load: Load) -> Superbox:
    tables = {table.name: encode_table(load.tables[table.name], table.schema) for table in load.network.tables}
    return Superbox(plan(check(load.network, spark)), tables)


@pytest.mark.bench
def test_linear_road_in_boxes(spark) -> None:
    load = linear_road()
    superbox = superbox_of(spark, load)
    print(f"\n{machine()}")
    for size in (1_000, 10_000, 100_000):
        step, save = seconds(superbox, trains(superbox, load.tuples(6 * size), size))
        print(
            f"Linear Road, trains of {size:>7,}: {size / step:>9,.0f} tuples/s, {size / (step + save):>9,.0f} with save"
        )
    assert size / (step + save) > 200_000


@pytest.mark.bench
def test_forty_boxes(spark) -> None:
    superbox = superbox_of(spark, Load(dissemination(), reports))
    print(f"\n{machine()}")
    for size in (100, 1_000, 10_000, 50_000):
        table = reports(6 * size)
        x = table["x"].to_numpy()
        inside = sum(((i * 80 <= x) & (x <= i * 80 + 200)).sum() for i in range(CONSUMERS))
        passages = (CONSUMERS * x.size + 2 * inside) / 6
        step, save = seconds(superbox, trains(superbox, table, size))
        rates = f"{passages / step:>11,.0f} passages/s, {passages / (step + save):>11,.0f} with save"
        print(f"40 boxes, trains of {size:>6,}: {step * 1000:.1f} ms, {rates}")
    assert passages / (step + save) > 1_000_000
