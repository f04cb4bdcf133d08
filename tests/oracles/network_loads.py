"""Example networks with inputs of any length, and the rate at which a run takes them."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from slipstream._cli.common.user_functions import load_functions
from slipstream._network import Builder, Network, Order, yaml_files
from slipstream._network.quality.analysis import analyse
from slipstream._network.quality.calibration import calibrate, time_batches
from slipstream._network.quality.qos import Graph, Quality
from slipstream._network.quality.statistics import Statistics
from slipstream._network.running.recordings import write_trains
from slipstream._network.running.run_folder import Execution
from slipstream._network.schemas import check

NETWORKS = Path(__file__).parents[2] / "examples" / "networks"
SAMPLE = 1_000_000
#: tuples a batch at the most, so that a wild guess does not fill the memory
LONGEST = 1_000_000
MILE = 5280


@dataclass(frozen=True)
class Load:
    """A network with one source, and its input."""

    network: Network
    tuples: Callable[[int], pa.Table]
    tables: Mapping[str, pa.Table] = field(default_factory=dict)

    @property
    def source(self) -> str:
        return self.network.sources[0].name

    def stored(self, spark: Any) -> dict[str, Any]:
        return {name: spark.createDataFrame(table) for name, table in self.tables.items()}


def functions(name: str) -> Any:
    """The module of an example's own functions, registered as ``--functions`` does it."""
    load_functions(NETWORKS / f"{name}.py")
    return sys.modules[name]


def border() -> Load:
    def soldiers(count: int) -> pa.Table:
        random = np.random.default_rng(1)
        number = np.arange(count)
        return pa.table({"sid": number % 100, "time": number // 100, "pos": random.integers(0, 60, count)})

    return Load(yaml_files.load(NETWORKS / "border.yaml"), soldiers)


def speeding() -> Load:
    return Load(yaml_files.load(NETWORKS / "speeding.yaml"), functions("speeding").positions)


def linear_road(expressways: int = 10) -> Load:
    """Expressways as full as at half time, each vehicle a report every 30 seconds, and a request for a hundred."""
    functions("linear_road")
    with (NETWORKS / "upstream.csv").open() as rows:
        upstream = [{key: int(value) for key, value in row.items()} for row in csv.DictReader(rows)]
    vid = np.arange(100_000)
    tolls = {"vid": vid, "day": vid % 69 + 1, "xway": vid % expressways, "tolls": vid % 90}
    tables = {"upstream": pa.Table.from_pylist(upstream), "tolls": pa.table(tolls), "means": pa.table(means(0))}
    return Load(yaml_files.load(NETWORKS / "linear_road.yaml"), partial(traffic, expressways), tables)


#: vehicles on an expressway at a time
VEHICLES = 37_200
ASKS = ("qid", "sinit", "send", "dow", "tod", "day")


def traffic(expressways: int, count: int) -> pa.Table:
    """Tuples of Linear Road in the order of time, reports and requests mixed."""
    random = np.random.default_rng(1)
    cars = expressways * VEHICLES
    start, speed = random.integers(0, 100 * MILE, cars), random.integers(10, 70, cars)
    number = np.arange(count)
    vid = (number * 7919) % cars
    time = number * 30 // cars
    xway, direction, lap = vid % expressways, vid // expressways % 2, number // cars
    pos = (start[vid] + (1 - 2 * direction) * speed[vid] * 44 * lap) % (100 * MILE)
    asks = random.random(count) < 0.01
    kind = np.where(asks, random.choice([2, 3, 4], count, p=[0.5, 0.1, 0.4]), 0)
    columns = {"type": kind, "time": time, "vid": vid, "spd": speed[vid], "xway": xway, "lane": 1 + vid % 3}
    columns |= {"dir": direction, "seg": pos // MILE, "pos": pos}
    asked = (number, *(random.integers(*ends, count) for ends in ((0, 100), (0, 100), (1, 8), (1, 1441), (1, 70))))
    return pa.table(columns | {name: np.where(asks, values, -1) for name, values in zip(ASKS, asked, strict=True)})


def means(xway: int) -> dict[str, np.ndarray]:
    """Ten weeks of one direction of an expressway."""
    direction, seg, dow, minute = np.indices((1, 100, 7, 1440)).reshape(4, -1)
    place = {"xway": 0 * seg + xway, "dir": direction, "seg": seg, "dow": dow + 1, "minute": minute + 1}
    return {**place, "speed": 20.0 + (seg + minute) % 40, "cars": 30.0 + (seg + dow) % 60}


SOON = Graph(((0, 1), (8, 1), (20, 0)))
STRICT = Quality(SOON, Graph(((0, 0), (0.8, 0.2), (1, 1))))
TOLERANT = Quality(SOON, Graph(((0, 0), (0.05, 0.9), (1, 1))))


def overload() -> Load:
    """Two outputs that must hear of everything and are cheap, four dear ones that can do with a sample."""
    net = Builder("overload")
    cars = net.source("cars", vid="integer", time="integer", speed="integer")
    by_car = Order("time", 2, ("vid",))
    cars.filter("speed < 3").aggregate({"n": "count(*)"}, by_car, size=2).to("standing", STRICT)
    cars.filter("speed > 97").aggregate({"n": "count(*)"}, by_car, size=2).to("racing", STRICT)
    for i in range(4):
        means = {"mean": "avg(speed)", "spread": "stddev(speed)", "most": "max(speed)"}
        cars.aggregate(means, by_car, size=6 + i, advance=1).filter("mean > 80").to(f"means_{i}", TOLERANT)

    def reports(count: int) -> pa.Table:
        random = np.random.default_rng(2)
        number = np.arange(count)
        return pa.table({"vid": number % 200, "time": number // 200, "speed": random.integers(0, 100, count)})

    return Load(net.build(), reports)


def predicted(spark: Any, load: Load) -> tuple[Statistics, float]:
    """What static analysis says before the run: the figures, and the tuples a second that the machine holds."""
    checked = check(load.network, spark)
    figures = calibrate(spark, checked, {load.source: load.tuples(SAMPLE)}, load.stored(spark))
    cores = spark.sparkContext.defaultParallelism
    return figures, analyse(checked, figures, {load.source: 1.0}, cores=cores).factor


def reached(spark: Any, load: Load, folder: Path, wanted: float, trains: int = 4) -> float:
    """What a run that never waits takes: tuples a second in batches of this length, the first left out."""
    train = round(min(max(wanted, 1), LONGEST))
    run = Execution.lay_out(folder, load.network)
    write_trains(folder / "in" / load.source, load.tuples(train * trains), train, 0, None)
    seconds = [taken for _, taken in time_batches(run, spark, load.stored(spark))]
    return train / median(seconds[1:])
