"""Times of joins, printed with the machine; nothing here asserts a speed.

pytest -m bench -s tests/joins/test_speed.py
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import slipstream as ss
from joins.plainly import through_the_grid
from measure import machine, measured
from slipstream._berlinmod.dataset import Dataset
from slipstream._berlinmod.generator import GeneratorPlan, generate
from slipstream._berlinmod.streets import read_network
from slipstream._berlinmod.synthetic_city import synthetic_network
from slipstream._joins.trip_meetings import Nearness
from slipstream._moving import MovingPoint
from slipstream._moving.moving_point import to_arrow

pytestmark = pytest.mark.bench
#: BerlinMOD's scale factor at which there are 100,000 trips
SCALE = float(os.environ.get("SLIPSTREAM_JOINS_SCALE", "0.3"))
HOUR = 3_600_000_000


def network():
    data = Path(os.environ.get("SLIPSTREAM_DATA", Path(__file__).parents[3] / "shared" / "data"))
    berlin = data / "berlinmod" / "streets.data"
    return ("Berlin", read_network(berlin)) if berlin.exists() else ("synthetic city", synthetic_network())


@pytest.fixture(scope="module")
def trips(spark, tmp_path_factory):
    name, streets = network()
    folder = tmp_path_factory.mktemp("joins") / "data"
    made = generate(spark, GeneratorPlan(SCALE), streets, folder)
    print(f"\n{machine()}; {name}: {made.trips:,} trips of {made.vehicles:,} vehicles, {made.units:,} units")
    return Dataset.open(folder).table(spark, "dataMtrip")


@pytest.mark.parametrize(("id", "metres"), [("TripId", 50), ("TripId", 10), ("Moid", 50)])
def test_trips_against_themselves(trips, id, metres):
    with measured() as taken:
        count, times = ss.near(trips, distance=metres, id=id).selectExpr("count(*)", "sum(size(times.begin))").first()
    found = f"{count:,} pairs, {times:,} times"
    load = f"load {os.getloadavg()[0]:.0f}"
    print(f"\nnear, {metres} m, id {id}: {found} in {taken.seconds:.1f} s, {taken.gib:.1f} GiB, {load}", flush=True)


def yard(cars: int, square_metres: float, rng: np.random.Generator) -> pa.RecordBatch:
    """Cars that park somewhere in a square from some hour of the evening to some hour of the morning."""
    side = np.sqrt(square_metres)
    begin, last = rng.integers(0, 4 * HOUR, cars), rng.integers(10 * HOUR, 14 * HOUR, cars)
    x, y = rng.uniform(0, side, (2, cars))
    parked = [
        MovingPoint(np.array(t), np.full(2, px), np.full(2, py), np.zeros(1, np.int32))
        for t, px, py in zip(np.stack([begin, last], axis=1).tolist(), x.tolist(), y.tolist(), strict=True)
    ]
    return pa.RecordBatch.from_arrays([pa.array(range(cars)), to_arrow(parked)], names=["id", "Trip"])


def test_a_depot_where_everybody_parks():
    """Kernels alone, one core: with 25 m² per car the answer grows as the cars do, and so does the time."""
    rng = np.random.default_rng(1)
    through_the_grid(Nearness(10.0), yard(100, 2500.0, rng), size=100_000)
    print(f"\n{machine()}; cars that park on 25 m² each, within 10 m")
    for cars in (1_000, 4_000, 16_000, 64_000):
        batch = yard(cars, 25.0 * cars, rng)
        started = time.process_time()
        met = through_the_grid(Nearness(10.0), batch, size=100_000)
        seconds = time.process_time() - started
        pairs = cars * (cars - 1) // 2
        print(
            f"{cars:7,} cars: {met.num_rows:9,} pairs met of {pairs:13,}, {seconds:6.2f} s, "
            f"{1e6 * seconds / cars:6.0f} µs per car",
            flush=True,
        )


def test_a_depot_where_all_are_near_each_other():
    """Kernels alone, one core: every pair is an answer, so the time is measured per pair."""
    rng = np.random.default_rng(2)
    through_the_grid(Nearness(50.0), yard(100, 400.0, rng), size=100_000)
    print(f"\n{machine()}; cars that park on 400 m² together, within 50 m")
    for cars in (500, 1_000, 2_000):
        batch = yard(cars, 400.0, rng)
        started = time.process_time()
        met = through_the_grid(Nearness(50.0), batch, size=100_000)
        seconds = time.process_time() - started
        print(f"{cars:7,} cars: {met.num_rows:9,} pairs met, {seconds:6.2f} s", flush=True)
