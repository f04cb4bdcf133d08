"""The stages of the toll engine without Spark: what a tuple costs one core, part by part, and the bytes it leaves.

Times are CPU times of this process, so that other work on the machine counts little.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pytest

from measure import machine
from slipstream._archive.linear_road_trips import ReportTrips
from slipstream._city.simulate import simulate
from slipstream._city.traffic import Traffic
from slipstream._feeds import trains
from slipstream._feeds.tuples import FIELDS
from slipstream._linear_road import replay
from slipstream._linear_road.fast_forward import _trains
from slipstream._linear_road.job.delivery import write_batch
from slipstream._linear_road.replay import read_minute, select_second
from slipstream._linear_road.rules import RULES
from slipstream._linear_road.state.accounts import Accounts
from slipstream._linear_road.state.past_queries import Past
from slipstream._linear_road.state.toll_fragment import TollFragment
from slipstream._linear_road.tasks.toll_stages import Hop, account_stage, toll_stage, trip_stage
from slipstream._network.flow import Train
from slipstream._network.tasks.parcels import Load
from slipstream._network.tasks.superbox import TrainParcel
from slipstream._runtime.state import shared_arrays
from slipstream._runtime.state.store import MemoryStore
from slipstream._spark import session
from slipstream._tools.numba_tools import Longs, compiled

if TYPE_CHECKING:
    from slipstream._feeds.run import Run

pytestmark = pytest.mark.bench

#: the minute from which the engine is measured: until then, the roads fill
SINCE = 600
#: accounts per expressway at the end of three hours
ACCOUNTS = 137_000


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Ten expressways, no two alike, as crowded within minutes as others are after two hours."""
    spark = session.build("bench", master="local[2]")
    made = simulate(spark, Traffic(expressways=10, minutes=12, demand=8.0), 1, tmp_path_factory.mktemp("runs") / "run")
    spark.stop()
    return made


class MeteredStore(MemoryStore):
    """A store that counts the bytes written to it."""

    written = 0

    def put(self, number: int, delta: bytes) -> None:
        self.written += len(delta)
        super().put(number, delta)


class Bench:
    """One fragment and one shard with all copies of a run, and what their stages have cost so far."""

    def __init__(self, run: Run, copies: int, out: Path) -> None:
        self.run, self.copies, self.out = run.multiplied(copies), copies, out
        self.seconds: dict[str, float] = {}
        self.tuples = self.answer_bytes = 0
        self.tolls, self.trips = TollFragment(RULES["2004"]), ReportTrips()
        self.accounts = Accounts(RULES["2004"], Past(None))
        self.stores = {
            name: MeteredStore() for name in ("cars", "visits", "minutes", "notes", "accounts", "open trips")
        }
        self.fill()

    def fill(self) -> None:
        stored = [fast_forward(self.run, number) for number in range(self.run.stored)]
        self.tolls.cars.make_room(self.copies * sum(len(one.cars) for one in stored))
        for copy in range(self.copies):
            for one, expressway in zip(stored, self.run.manifest.expressways, strict=True):
                shift = copy * self.run.manifest.vid_stride
                self.tolls.add_copy(one, copy * self.run.xway_stride + expressway.xway, shift)
        self.accounts.accounts.upsert(np.arange(ACCOUNTS * self.run.stored * self.copies))
        self.accounts.accounts.delta()
        self.save_tolls()
        for store in self.stores.values():
            store.written = 0

    def save_tolls(self) -> None:
        self.tolls.save(*(self.stores[name] for name in ("cars", "visits", "minutes", "notes")))

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        start = time.process_time()
        yield
        self.seconds[part] = self.seconds.get(part, 0.0) + time.process_time() - start

    def take(self, second: int) -> None:
        """One batch: a second, as at the rating."""
        path = str(self.run.path)
        base = [(x, select_second(read_minute(path, x, second // 60), second)) for x in range(self.run.stored)]
        with self.timed("trains"):
            hops: list[Hop] = list(replay._copy_second(self.run, base, list(range(self.copies)), (0,)))
        with self.timed("tolls"):
            passed = list(toll_stage(self.tolls, hops, (0,)))
        with self.timed("deltas"):
            self.save_tolls()
        with self.timed("accounts"):
            answered = list(account_stage(self.accounts, passed))
        with self.timed("their deltas"):
            self.accounts.save(second, self.stores["accounts"])
        with self.timed("answers"):
            written = list(write_batch(self.out, answered, second, 0))
        with self.timed("trips"):
            list(trip_stage(self.trips, hops, 0))
            self.trips.save(self.stores["open trips"])
        self.tuples += sum(hop.reports + hop.requests for hop in hops)
        self.answer_bytes += sum(one.bytes for one in written)

    def report(self) -> None:
        nanos = {part: 1e9 * seconds / self.tuples for part, seconds in self.seconds.items()}
        stages = sum(nanos[part] for part in ("tolls", "deltas", "accounts", "their deltas"))
        cars = len(self.tolls.cars)
        print(f"\nstages alone, {10 * self.copies} expressways, {cars / 1e6:.1f} M cars: {1e3 / stages:.2f} M tuples/s")
        print("  ns per tuple: " + ", ".join(f"{part} {cost:.0f}" for part, cost in nanos.items()))
        sizes = {name: store.written for name, store in self.stores.items()} | {"answers": self.answer_bytes}
        print("  bytes per tuple: " + ", ".join(f"{name} {size / self.tuples:.2f}" for name, size in sizes.items()))


def fast_forward(run: Run, stored: int) -> TollFragment:
    fragment = TollFragment(RULES["2004"])
    for minute in range(SINCE // 60):
        fragment.take(list(_trains(str(run.path), stored, minute)))
    fragment.advance_to(SINCE)
    fragment.take_irregular()
    return fragment


@pytest.mark.parametrize(("copies", "seconds"), [(1, 60), (10, 60), (28, 30)])
def test_the_stages_alone(run: Run, copies: int, seconds: int, tmp_path: Path) -> None:
    """Copies compress better than as many different expressways: the bytes are those of the first line."""
    with temporary_shared_memory():
        warm_up = Bench(run, 1, tmp_path)
        warm_up.take(SINCE)
        bench = Bench(run, copies, tmp_path)
        for second in range(SINCE, SINCE + seconds):
            bench.take(second)
    bench.report()
    print(f"  {random_updates() / 1e6:.0f} M random updates/s in 1 GiB; {machine()}")


@contextmanager
def temporary_shared_memory() -> Iterator[None]:
    """State lies where it lies in Spark's workers."""
    with TemporaryDirectory(dir=shared_arrays.root()) as place, shared_arrays.arrays_in(Path(place)):
        yield


@compiled
def update_lines(lines: npt.NDArray[np.int64], at: Longs) -> None:
    """Add one to the first word of some lines."""
    for i in range(at.size):
        lines[at[i], 0] += 1


def random_updates() -> float:
    """Updates per second of random cache lines in 1 GiB."""
    lines = np.ones((1 << 24, 8), np.int64)
    at = np.random.default_rng(1).integers(0, lines.shape[0], 1 << 22)
    update_lines(lines, at[:1])
    start = time.process_time()
    update_lines(lines, at)
    return at.size / (time.process_time() - start)


def test_the_two_forms_of_rows_between_stages() -> None:
    """What it costs to write and read a second of a crowded expressway as a row of each engine."""
    rows, rounds = 1_700, 300
    random = np.random.default_rng(1)
    tuples = {name: random.integers(0, 100, rows).astype(np.int32) for name in FIELDS}
    tuples["type"][:] = 0
    order = np.arange(2 * rows).reshape(rows, 2)
    train = Train(order[:, 0], np.zeros(rows, np.int64), order, {n: tuples[n].astype(np.int64) for n in FIELDS[:9]})
    load = Load([TrainParcel(0, 0, train)], rows)
    forms = {
        "hop": lambda: trains.decode(0, *trains.encode(tuples)).vid.size,
        "parcel": lambda: Load.from_bytes(load.to_bytes(), 2).count,
    }
    for name, write_and_read in forms.items():
        began = time.process_time()
        assert {write_and_read() for _ in range(rounds)} == {rows}
        print(f"{name}: {1e6 * (time.process_time() - began) / rounds:,.0f} µs for {rows:,} reports")
