"""Simulate Linear City on Spark and write it as a run.

Three steps. One Spark task per direction of an expressway moves the cars and spools their reports by trip number. Then
vehicles are assigned to trips and numbers to requests, which requires all expressways. Finally, one Spark task per
expressway converts its spool to the run's file. Every random choice is a function of the seed and of what it is for,
so the tuples do not depend on the number of cores or partitions.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slipstream._city import kernel, requests
from slipstream._city.traffic import EAST, MINUTE, Traffic, plan_accidents, plan_trips
from slipstream._city.vehicle_assignment import TripTable, assign_vehicles
from slipstream._errors import BadArgument
from slipstream._feeds.run import TRIPS, Accident, Expressway, ExpresswayWriter, Manifest, Run, staged_run, versions
from slipstream._feeds.tuples import FIELDS, MILE, POSITION, ROAD, SCHEMA
from slipstream._spark.session import task_errors
from slipstream._tools.processes.background import Ended, background_task
from slipstream._tools.progress import bar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slipstream._tools.numba_tools import Ints

T = TypeVar("T")

SPOOL = "spool"

REPORTS = pa.schema(
    [("time", pa.int32()), ("trip", pa.int32()), ("speed", pa.uint8()), ("lane", pa.uint8()), ("pos", pa.int32())]
)

#: the capacity of one direction: three lanes of a hundred miles with two feet between cars, and the ramps
ROOM = 3 * ROAD // int(kernel.LENGTH + 2) + 100 * kernel.RAMP_ROOM


@dataclass(frozen=True)
class Direction:
    """One direction of one expressway, and the files of its spool."""

    spool: Path
    xway: int
    dir: int

    def file(self, what: str) -> Path:
        """Return the spool file of ``what``."""
        return self.spool / f"{self.xway}-{self.dir}.{what}"


def simulate(
    spark: SparkSession, traffic: Traffic, seed: int, out: Path, *, multiply: int = 1, partitions: int | None = None
) -> Run:
    """Simulate ``traffic`` and write it as a run at ``out``, to be read ``multiply`` times."""
    if not 0 <= seed < 2**63:
        raise BadArgument(
            f"--seed {seed} is out of range.",
            hint="Use an integer from 0 to 2^63 - 1.",
            code="out-of-range",
            found=seed,
        )
    if multiply < 1:
        raise BadArgument(
            f"--multiply {multiply} is out of range.", hint="Use 1 or more.", code="out-of-range", found=multiply
        )
    with staged_run(out, needs_bytes=_estimate_bytes(traffic)) as stage:
        spool = stage.absolute() / SPOOL
        spool.mkdir()
        directions = [Direction(spool, xway, dir_) for xway, dir_ in traffic.directions()]
        wrecks = _drive(spark, traffic, seed, directions, partitions)
        vehicles = _identify(traffic, seed, directions, stage)
        accidents = _with_vehicles(wrecks, directions)
        expressways = _write(spark, traffic, seed, directions, partitions)
        requests_ = sum(e.tuples - e.counts["position"] for e in expressways)
        manifest = Manifest(
            source="simulated: IDM car following, MOBIL lane changing",
            seconds=traffic.seconds,
            expressways=tuple(expressways),
            vehicles=vehicles,
            vid_stride=vehicles,
            qid_stride=requests_,
            seed=seed,
            parameters=traffic.parameters(),
            trips=pq.read_metadata(stage / TRIPS).num_rows,
            accidents=tuple(accidents),
            multiply=multiply,
            versions=versions(),
        )
        shutil.rmtree(spool)
        (stage / "manifest.json").write_text(manifest.to_json(), encoding="utf-8")
    return Run.open(out)


def _estimate_bytes(traffic: Traffic) -> int:
    """Estimate 25 bytes per tuple while spool and run coexist; the rate grows to about 1,900 tuples/s."""
    seconds = np.arange(traffic.seconds)
    tuples = np.minimum(0.4 * traffic.demand * seconds, 1900.0).sum() * traffic.expressways
    return int(25 * tuples) + 1_000_000


# --- step 1: the traffic --------------------


def _drive(
    spark: SparkSession, traffic: Traffic, seed: int, directions: list[Direction], partitions: int | None
) -> list[list[int]]:
    """Simulate all directions; return their accidents."""
    with _show_progress("simulating", directions, traffic.minutes):
        rows = _run_each(spark, directions, lambda d: _drive_direction(d, traffic, seed), partitions)
    return [row for rows_of_direction in rows for row in rows_of_direction]


def _drive_direction(direction: Direction, traffic: Traffic, seed: int) -> list[list[int]]:
    """Simulate one direction, spool its reports a minute at a time, and return its accidents."""
    trips = plan_trips(traffic, seed, direction.xway, direction.dir)
    plan = plan_accidents(traffic, seed, direction.xway, direction.dir)
    room = min(trips.start.size, ROOM) + 1
    road, wrecks = kernel.make_road(trips.start.size, room), kernel.make_wrecks(plan.when.size)
    incoming = np.zeros(room, dtype=np.int32)
    asked = np.zeros(traffic.seconds, dtype=np.int32)
    east = direction.dir == EAST
    with pa.ipc.new_file(direction.file("reports"), REPORTS) as spool, direction.file("minutes").open("ab") as done:
        for minute in range(traffic.minutes):
            since = minute * MINUTE
            # a car on the road reports twice a minute; a ramp admits one car per second
            out = kernel.make_reports(2 * (room - int(road.counts[4]) + 100 * MINUTE))
            n = kernel.simulate(road, trips, plan, wrecks, out, incoming, since, since + MINUTE, east)
            keys = requests.make_keys(seed, direction.xway, direction.dir, out.trip[:n], out.time[:n])
            times = out.time[:n][requests.has_request(keys, traffic.requests)]
            asked[since : since + MINUTE] = np.bincount(times - since, minlength=MINUTE)
            spool.write_batch(pa.record_batch([pa.array(column[:n]) for column in out], schema=REPORTS))
            done.write(b".")
            done.flush()
    np.save(direction.file("asked.npy"), asked)
    _spool_trips(direction, trips, road)
    return _list_accidents(direction, plan, wrecks, road)


def _spool_trips(direction: Direction, trips: kernel.PlannedTrips, road: kernel.DirectionState) -> None:
    entry, exit_ = trips.entry, trips.exit
    if direction.dir != EAST:
        entry, exit_ = 99 - entry, 99 - exit_
    columns = {"number": np.arange(trips.start.size), "start": road.began, "end": road.ended, "entry": entry}
    table = pa.table({name: np.asarray(c, dtype=np.int32) for name, c in {**columns, "exit": exit_}.items()})
    pq.write_table(table.filter(pa.array(road.began >= 0)), direction.file("trips"))


def _list_accidents(
    direction: Direction, plan: kernel.AccidentPlan, wrecks: kernel.Wrecks, road: kernel.DirectionState
) -> list[list[int]]:
    """Return expressway, direction, lane, position, the two trips, and the times of stop, detection and clearing."""
    rows = []
    for k in np.flatnonzero(wrecks.stage >= kernel.STOPPED):
        pair = (int(wrecks.first[k]), int(wrecks.second[k]))
        if wrecks.stage[k] == kernel.STOPPED:
            pair = (int(road.trip[pair[0]]), int(road.trip[pair[1]]))
        place = int(wrecks.place[k])
        pos = place if direction.dir == EAST else ROAD - 1 - place
        times = (int(wrecks.stopped[k]), int(wrecks.detected[k]), int(wrecks.cleared[k]))
        rows.append([direction.xway, direction.dir, int(plan.lane[k]), pos, *pair, *times])
    return rows


# --- step 2: vehicles and requests --------------------


def _identify(traffic: Traffic, seed: int, directions: list[Direction], stage: Path) -> int:
    """Assign vehicles to trips and numbers to requests; return the number of vehicles."""
    tables = [pq.read_table(d.file("trips")) for d in directions]
    trips = [
        t.append_column("xway", pa.array(np.full(t.num_rows, d.xway, dtype=np.int32))).append_column(
            "dir", pa.array(np.full(t.num_rows, d.dir, dtype=np.int32))
        )
        for d, t in zip(directions, tables, strict=True)
    ]
    whole = pa.concat_tables(trips).sort_by([(c, "ascending") for c in ("start", "xway", "dir", "number")])
    columns = {name: whole.column(name).to_numpy() for name in ("xway", "dir", "number", "start", "end")}
    vids, vehicles = assign_vehicles(TripTable(**columns), seed, traffic.returning)
    for d in directions:
        mine = (columns["xway"] == d.xway) & (columns["dir"] == d.dir)
        by_trip = np.full(int(columns["number"][mine].max(initial=-1)) + 1, -1, dtype=np.int32)
        by_trip[columns["number"][mine]] = vids[mine]
        np.save(d.file("vids.npy"), by_trip)
    pq.write_table(whole.drop_columns(["number"]).add_column(0, "vid", pa.array(vids)), stage / TRIPS)
    _number_requests(directions)
    return vehicles


def _number_requests(directions: list[Direction]) -> None:
    """Number requests by time: save the first number of each direction in every second."""
    asked = np.stack([np.load(d.file("asked.npy")) for d in directions], axis=1)
    before = np.cumsum(asked.ravel(), dtype=np.int64).reshape(asked.shape) - asked
    for column, direction in enumerate(directions):
        np.save(direction.file("qids.npy"), before[:, column].astype(np.int32))


def _with_vehicles(rows: list[list[int]], directions: list[Direction]) -> list[Accident]:
    """Return the accidents of all directions in time order, with vehicles instead of trips."""
    vids = {(d.xway, d.dir): np.load(d.file("vids.npy")) for d in directions}
    accidents = [
        Accident(xway, dir_, lane, pos, (int(vids[xway, dir_][first]), int(vids[xway, dir_][second])), *times)
        for xway, dir_, lane, pos, first, second, *times in rows
    ]
    return sorted(accidents, key=lambda accident: (accident.stopped, accident.xway, accident.dir))


# --- step 3: the run --------------------


def _write(
    spark: SparkSession, traffic: Traffic, seed: int, directions: list[Direction], partitions: int | None
) -> list[Expressway]:
    """Convert the spools to the run's files."""
    xways = sorted({d.xway for d in directions})
    pairs = [[d for d in directions if d.xway == xway] for xway in xways]
    with _show_progress("writing", [pair[0] for pair in pairs], 2 * traffic.minutes, already=traffic.minutes):
        answers = _run_each(spark, pairs, lambda pair: asdict(_write_expressway(pair, traffic, seed)), partitions)
    return [Expressway(**answer) for answer in answers]


def _write_expressway(directions: list[Direction], traffic: Traffic, seed: int) -> Expressway:
    """Write one expressway's file from the spools of its directions; return its entry for the manifest."""
    stage = directions[0].spool.parent
    writer = ExpresswayWriter(stage, directions[0].xway, SCHEMA)
    spools = [pa.ipc.open_file(pa.memory_map(str(d.file("reports")))) for d in directions]
    vids = [np.load(d.file("vids.npy")) for d in directions]
    qids = [np.load(d.file("qids.npy")) for d in directions]
    with directions[0].file("minutes").open("ab") as done:
        for minute in range(traffic.minutes):
            parts = [
                _make_tuples(d, spool.get_batch(minute), vid, qid, traffic, seed)
                for d, spool, vid, qid in zip(directions, spools, vids, qids, strict=True)
            ]
            tuples = {name: np.concatenate([part[name] for part in parts]) for name in FIELDS}
            order = np.argsort(tuples["time"], kind="stable")
            writer.write_minute(pa.table([tuples[name][order] for name in FIELDS], schema=SCHEMA))
            done.write(b".")
            done.flush()
    return writer.close()


def _make_tuples(
    direction: Direction, batch: pa.RecordBatch, vids: Ints, qids: Ints, traffic: Traffic, seed: int
) -> dict[str, Ints]:
    """Return a minute of one direction: its reports, each followed by its request."""
    time, trip, speed, lane, pos = (column.to_numpy() for column in batch.columns)
    keys = requests.make_keys(seed, direction.xway, direction.dir, trip, time)
    asking = np.flatnonzero(requests.has_request(keys, traffic.requests))
    blank = np.full(time.size, -1, dtype=np.int32)
    reports = dict.fromkeys(FIELDS, blank) | {
        "type": np.full(time.size, POSITION, dtype=np.int32),
        "time": time,
        "vid": vids[trip],
        "spd": speed.astype(np.int32),
        "xway": np.full(time.size, direction.xway, dtype=np.int32),
        "lane": lane.astype(np.int32),
        "dir": np.full(time.size, direction.dir, dtype=np.int32),
        "seg": pos // MILE,
        "pos": pos,
    }
    asked_at = time[asking]
    by_second = np.argsort(asked_at, kind="stable")
    first_of_second = np.searchsorted(asked_at[by_second], asked_at[by_second])
    numbers = np.empty(asking.size, dtype=np.int32)
    numbers[by_second] = qids[asked_at[by_second]] + np.arange(asking.size) - first_of_second
    asked = dict.fromkeys(FIELDS, blank[: asking.size]) | requests.fields(keys[asking], direction.xway)
    asked |= {"time": asked_at, "vid": vids[trip[asking]], "qid": numbers}
    places = np.argsort(np.concatenate([np.arange(time.size), asking]), kind="stable")
    return {name: np.concatenate([reports[name], asked[name]])[places] for name in FIELDS}


# --- running the steps on Spark --------------------


def _run_each(spark: SparkSession, items: list[T], work: Callable[[T], Any], partitions: int | None) -> list[Any]:
    """Apply ``work`` to every item, each in a Spark task of its own unless ``partitions`` is given.

    The results, in the order of the items, are small and returned as JSON; tuples stay in files.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_pylist([{"number": number, "answer": json.dumps(work(items[number]))}])

    tasks = spark.range(0, len(items), 1, partitions or len(items))
    with task_errors():
        rows = tasks.mapInArrow(run, "number long, answer string").collect()
    return [json.loads(row.answer) for row in sorted(rows, key=lambda row: row.number)]


@contextmanager
def _show_progress(what: str, directions: list[Direction], minutes: int, already: int = 0) -> Iterator[None]:
    """Show how many minutes of road the tasks have finished, from the files in which they record them."""

    def done() -> int:
        files = [d.file("minutes") for d in directions]
        return sum(max(file.stat().st_size - already, 0) for file in files if file.exists())

    with bar(f"{what} (minutes of road)", len(directions) * (minutes - already)) as advance:

        def watch(ended: Ended) -> None:
            shown = 0
            while not ended.wait(0.3):
                now = done()
                advance(now - shown)
                shown = now

        with background_task(watch):
            yield
