"""How fast snapshots are read, and what readers, snapshots and clustering cost the stream."""

from __future__ import annotations

import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from measure import machine
from slipstream._city.simulate import simulate
from slipstream._city.traffic import Traffic
from slipstream._cuboid import consistency, declare, example_series
from slipstream._cuboid.cuboid_feeds import make_cuboid_feed
from slipstream._cuboid.fragment import Changes, Fragment
from slipstream._cuboid.fragment_state import FragmentState, as_table, make_empty_rows
from slipstream._cuboid.query.one_off import run_query, run_query_in_spark
from slipstream._cuboid.query.relations import append_rows
from slipstream._cuboid.query.sql import Query
from slipstream._cuboid.snapshots import publish, snapshot_files
from slipstream._cuboid.snapshots.snapshot import Snapshot
from slipstream._io.outputs.journal import Batch, append
from slipstream._linear_road.job.engine import Settings, toll_run
from slipstream._linear_road.state.accounts import ACCOUNT
from slipstream._linear_road.state.cars import CAR as TOLLED
from slipstream._linear_road.state.published import CAR
from slipstream._network.running.filling import build_network, fill
from slipstream._runtime.state import shared_arrays
from slipstream._spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slipstream._feeds.run import Run

pytestmark = pytest.mark.bench

CARS = 10_000_000
FRAGMENTS = 2
W = "CREATE PATTERN w AS (9, 3, 6, 3, 9);"
DRIVERS = (
    "CREATE QUERY drivers AS SELECT vid, ticks(speed) AS tick, correlation(speed, w) AS r FROM car "
    "WHERE correlation(speed, w) > 0.95;"
)
STOCKS = (
    "CREATE CUBOID stock (stock_id INT KEY, price AST(10));"
    "CREATE QUERY members AS SELECT stock_id, ticks(price) AS tick, correlation(price, w) AS r FROM stock "
    "WHERE correlation(price, w) > 0.95;"
)


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session_ = session.build("bench", master="local[2]")
    yield session_
    session_.stop()


def reports(rng: np.random.Generator, size: int) -> dict[str, Any]:
    columns = {name: rng.integers(0, 100, size).astype(CAR.dtype[name].base) for name in CAR.names}
    return columns | {"pos": (columns["segment"].astype(np.int32) * 5280)}


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A snapshot of ten million cars."""
    out = tmp_path_factory.mktemp("big")
    snapshot_files.Catalogue({"car": CAR}).write(out / "snapshot")
    rng = np.random.default_rng(1)
    for number in range(FRAGMENTS):
        fragment = Fragment(CAR, CARS // FRAGMENTS)
        keys = np.arange(number, CARS, FRAGMENTS, dtype=np.int64)
        for _ in range(2):
            append_rows(fragment, keys, reports(rng, keys.size), show=False)
        fragment.delta()
        publish.publish(out / "snapshot", "car", number, 0, fragment)
    append(out, Batch(0, 0))
    return out


def timed(work: Callable[[], Any]) -> tuple[float, float]:
    """Wall-clock seconds, and seconds of a core; the least of three."""
    found = []
    for _ in range(3):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        found.append((time.perf_counter() - wall, time.process_time() - cpu))
    return min(wall for wall, _ in found), min(cpu for _, cpu in found)


def write_on(out: Path, ended: Any) -> None:
    """A writer beside the readers: 50,000 reports a batch, a batch every half second."""
    rng = np.random.default_rng(2)
    fragments = [snapshot_files.open_image(next(out.rglob(f"fragment={n}/*.image")), CAR) for n in range(FRAGMENTS)]
    for fragment in fragments:
        fragment.changes = Changes()
    batch = 1
    while not ended.wait(0.5):
        for number, fragment in enumerate(fragments):
            keys = rng.integers(0, CARS // FRAGMENTS, 25_000) * FRAGMENTS + number
            append_rows(fragment, keys, reports(rng, keys.size), show=False)
            fragment.delta()
            publish.publish(out / "snapshot", "car", number, batch, fragment)
        append(out, Batch(batch, 0))
        batch += 1


def scans(spark: SparkSession, snapshot: Snapshot) -> dict[str, Callable[[], Any]]:
    fastest = "SELECT count(*), avg(speed[0]) FROM car"
    return {
        "scan of one column": lambda: snapshot["car"].scan(["time"]),
        "count, average latest speed": lambda: run_query(snapshot, fastest),
        "by expressway": lambda: run_query(snapshot, "SELECT xway, count(*), avg(speed[0]) FROM car GROUP BY xway"),
        "count, average, a Spark task per fragment": lambda: run_query_in_spark(spark, snapshot, fastest),
    }


def test_reads_and_scans_of_ten_million_cars(spark: SparkSession, big: Path) -> None:
    context = multiprocessing.get_context("fork")
    ended = context.Event()
    writer = context.Process(target=write_on, args=(big, ended))
    start = time.perf_counter()
    snapshot = Snapshot.open(big)
    opened = time.perf_counter() - start
    cars = snapshot["car"]
    keys = np.random.default_rng(3).integers(0, CARS, 4_000_000)
    cars.read(keys[:1000], ["time"])
    print(f"\n{len(cars):,} cars in {FRAGMENTS} fragments, opened in {1000 * opened:.1f} ms; {machine()}")
    for state in ("alone", "while batches are written"):
        if state != "alone":
            writer.start()
            time.sleep(3)
        wall, cpu = timed(lambda: cars.read(keys, ["time"]))
        print(
            f"  {state}: {keys.size / wall / 1e6:.2f} M random reads/s, {keys.size / cpu / 1e6:.2f} M per core second"
        )
        for what, work in scans(spark, snapshot).items():
            wall, cpu = timed(work)
            print(f"    {what}: {wall:.2f} s, {cpu:.2f} s of a core in this process")
        wall, _ = timed(snapshot.refresh)
        print(f"    refresh: {1000 * wall:.1f} ms, now at batch {snapshot.batch}")
    ended.set()
    writer.join()


# --- what it costs the stream


@pytest.fixture(scope="module")
def run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    made = simulate(spark, Traffic(minutes=10, demand=8.0), 1, tmp_path_factory.mktemp("runs") / "run")
    return made.multiplied(20)


def read_now_and_then(out: Path, ended: Any) -> None:
    """Scans, reads and refreshes without pause in every other block of four batches."""
    rng = np.random.default_rng(1)
    while not (out / "batches.jsonl").exists():
        if ended.wait(0.1):
            return
    snapshot = Snapshot.open(out)
    while not ended.is_set():
        if snapshot.refresh() // 4 % 2 == 0:
            ended.wait(0.05)
            continue
        found = snapshot["car"].scan(["key", "time"])
        if found["key"].size:
            snapshot["car"].read(rng.choice(found["key"], 100_000), ["time", "speed"])
            run_query(snapshot, "SELECT xway, count(*), avg(speed[0]) FROM car GROUP BY xway")


def test_the_stream_with_and_without_readers(spark: SparkSession, run: Run, tmp_path: Path) -> None:
    """In one run: four batches with a reader that never rests, four without, and so on."""
    context = multiprocessing.get_context("fork")
    ended = context.Event()
    reader = context.Process(target=read_now_and_then, args=(tmp_path / "out", ended))
    reader.start()
    toll_run(spark, run, tmp_path / "out", Settings(until=480, batch_seconds=10, snapshot=True, text=False))
    ended.set()
    reader.join()
    found = consistency.read_moments(tmp_path / "out")[8:]
    rates = {
        busy: statistics.median(m.tuples / m.seconds for m in found if (m.batch // 4 % 2 == 1) == busy)
        for busy in (False, True)
    }
    print(f"\nwithout readers {rates[False]:,.0f} tuples/s, beside one that never rests {rates[True]:,.0f}")
    print(f"  with / without = {rates[True] / rates[False]:.2f} (the reader takes a core of its own); {machine()}")


def test_what_snapshots_and_clustering_add_to_tolling(spark: SparkSession, run: Run, tmp_path: Path) -> None:
    until, kinds = (
        300,
        {"tolls": {}, "with a snapshot": {"snapshot": True}, "and clustering of all cars": {"queries": W + DRIVERS}},
    )
    spent: dict[str, list[float]] = {kind: [] for kind in kinds}
    for turn in range(2):
        for kind, more in kinds.items():
            out = tmp_path / f"{kind}-{turn}"
            start = time.perf_counter()
            toll_run(spark, run, out, Settings(until=until, batch_seconds=30, text=False, **more))  # type: ignore[arg-type]
            spent[kind].append(time.perf_counter() - start)
    figures = consistency.compute_figures(consistency.read_moments(out))
    tuples = figures["tuples"]
    print()
    for kind, seconds in spent.items():
        print(f"  {kind}: {tuples / min(seconds):,.0f} tuples/s, {min(seconds) / min(spent['tolls']):.2f} x the time")
    members = Snapshot.open(out).results("drivers").num_rows
    print(f"  clustering alone: {figures['query_us']['drivers']} us a report, {members:,} members; {machine()}")


def test_clustering_of_seven_stocks(spark: SparkSession, tmp_path: Path) -> None:
    script = declare.parse(W + STOCKS)
    schema = script.cuboids["stock"]
    query = Query.parse(script.queries["members"], script.cuboids, script.patterns)
    made = example_series.make(300_000, seed=1)
    keeper, each = FragmentState(schema), 70_000
    make_empty_rows(query)  # compiled
    start = time.process_time()
    members = 0
    for first in range(0, made["price"].size, each):
        piece = slice(first, first + each)
        keeper.append(made["stock_id"][piece].astype(np.int64), {"price": made["price"][piece]}, show=True)
        assert keeper.arrivals is not None
        members += as_table(query.compute(keeper.arrivals)).num_rows
    cpu = time.process_time() - start
    print(f"\nseven stocks in memory: {made['price'].size / cpu:,.0f} tuples a core second, {members:,} members")
    example_series.write(tmp_path / "ticks", 300_000, seed=1, files=6)
    start = time.perf_counter()
    feed = make_cuboid_feed(str(tmp_path / "ticks"), script.cuboids["stock"])
    done = fill(spark, replace(feed, most_files=1), build_network(script), tmp_path / "out")
    seconds = time.perf_counter() - start
    print(f"  from CSV through Spark, durable and published: {done['elements'] / seconds:,.0f} tuples/s; {machine()}")


def test_how_long_a_growing_fragment_keeps_its_stream_waiting(tmp_path: Path) -> None:
    """Keys come by and by, as vehicles do; beside it, what it takes to put all of them into an index at once."""
    keys = np.random.default_rng(3).permutation(2 * CARS).astype(np.int64)
    pauses = []
    with tempfile.TemporaryDirectory(dir=shared_arrays.root()) as home, shared_arrays.arrays_in(Path(home)):
        accounts = Fragment(ACCOUNT)
        accounts.upsert(keys[:CARS])
        for first in range(CARS, keys.size, 5000):
            began = time.perf_counter()
            accounts.upsert(keys[first : first + 5000])
            pauses.append(time.perf_counter() - began)
        began = time.perf_counter()
        accounts.keep(np.arange(len(accounts)) > 0)
        at_once = time.perf_counter() - began
    print(f"\n{CARS:,} to {keys.size:,} accounts, 5,000 at a time; {machine()}")
    print(f"  a call takes {1000 * statistics.median(pauses):.1f} ms, the longest {1000 * max(pauses):.0f} ms")
    print(f"  all of them at once {at_once:.1f} s: {at_once / max(pauses):.0f} x the longest")


def test_how_long_forgetting_keeps_a_stream_waiting() -> None:
    """Every second a thirtieth of all cars report, and some are replaced by others; beside it, all old ones at once."""
    each, replaced, pauses = CARS // 30, CARS // 3000, []
    with tempfile.TemporaryDirectory(dir=shared_arrays.root()) as home, shared_arrays.arrays_in(Path(home)):
        driving = Fragment(TOLLED)
        for second in range(300):
            group, lap = second % 30, second // 30
            keys = group * 1_000_000 + np.arange(each) + lap * replaced
            began = time.perf_counter()
            driving.sweep("time", second - 90, each)
            rows = driving.upsert(keys)
            pauses.append(time.perf_counter() - began)
            driving.rows["time"][rows] = second
        left = len(driving)
        began = time.perf_counter()
        driving.keep(driving.rows["time"] >= 300 - 60)
        at_once = time.perf_counter() - began
    settled = pauses[60:]
    print(f"\n{CARS:,} cars, {replaced:,} of them others every second, {left:,} remembered; {machine()}")
    print(f"  a call takes {1000 * statistics.median(settled):.1f} ms, the longest {1000 * max(settled):.0f} ms")
    print(f"  forgetting at once takes {at_once:.1f} s: {at_once / max(settled):.0f} x the longest")
