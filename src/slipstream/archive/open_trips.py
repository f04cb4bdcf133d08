"""The reports of trips that are not over: what a batch adds, which trips it ends, and how that rests in the store.

Reports lie in a table whose places are used again; each knows the place of the one before it in its trip, and a trip is
collected backwards when it is over. A batch costs what it brings: it writes its own reports to the store and some old
ones again (``cuboid.log``), and takes nothing out when a trip ends. What the store holds of ended trips is told from
the rest by the reports themselves, for a trip is over by definition: its vehicle has begun another, or is silent. That
depends on nothing but the reports, so a batch that is done again ends the same trips.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from slipstream.archive.trajectories import NO_TRIPS, Trips
from slipstream.cuboid.fragment import EMPTY, Fragment, Parts, insert, locate
from slipstream.cuboid.log import DeltaLog
from slipstream.cuboid.schema import KEY, Plain, Schema
from slipstream.feeds.trains import Train
from slipstream.feeds.trip import begins_trip
from slipstream.feeds.tuples import REPORT_EVERY
from slipstream.kernels import Bytes, Ints, Longs, compiled
from slipstream.runtime import shared_arrays
from slipstream.runtime.store import Store

#: bits of a car's key below the expressway: the vehicle
VID_BITS = 31
#: Seconds of the stream after which silent cars are looked for again. One look passes over all cars on the road, a
#: thirtieth of which reports every second: three rows a report.
LOOK_EVERY = 10
_LEAST = 1024
_FREE = -1

#: A report of an open trip; ``prev`` is the place of the one before it. Free places have time -1, and are chained.
REPORT = Schema(
    "REPORT",
    (
        Plain("time", "i4"),
        Plain("pos", "i4"),
        Plain("prev", "i4"),
        Plain("lane", "u1"),
        Plain("dir", "u1"),
        Plain("begins", "u1"),
    ),
)

#: A car on a trip: its last report, where that lies, and how many the trip has.
CAR = Schema(
    "CAR", (Plain("time", "i4"), Plain("last", "i4"), Plain("count", "i4"), Plain("lane", "u1"), Plain("dir", "u1"))
)


class Reports(NamedTuple):
    """Position reports, ordered by time."""

    time: Ints
    vid: Ints
    xway: Ints
    lane_dir: Bytes
    pos: Ints


class Ended(NamedTuple):
    """Trips that are over: whose, where their last report lies, how many they have, their direction."""

    key: Longs
    last: Ints
    size: Ints
    dir: Bytes


@compiled
def car_key(xway: int, vid: int) -> int:
    """A car is a vehicle on an expressway."""
    return (int(xway) << VID_BITS) | int(vid)


@compiled
def take_place(rows: npt.NDArray[np.void], head: Ints) -> int:
    """A free place for a report; ``head`` is how many places were ever used, and the first free one among them."""
    place = head[1]
    if place != _FREE:
        head[1] = rows[place].prev
        return int(place)
    head[0] += 1
    return int(head[0] - 1)


@compiled
def take_reports(
    reports: Reports, cars: Parts, rows: npt.NDArray[np.void], head: Ints, places: Ints, ended: Ended
) -> int:
    """Add reports to the trips of their cars; returns how many trips they ended by beginning others."""
    over = 0
    for i in range(reports.vid.size):
        t, lane, direction = reports.time[i], reports.lane_dir[i] % 8, reports.lane_dir[i] // 8
        key = car_key(reports.xway[i], reports.vid[i])
        at = locate(cars, key)
        fresh = at == EMPTY
        if fresh:
            at = insert(cars, key)
        car = cars.rows[at]
        begins = fresh or begins_trip(t, lane, direction, car.time, car.lane, car.dir)
        if begins and not fresh:
            ended.key[over], ended.last[over], ended.size[over], ended.dir[over] = key, car.last, car.count, car.dir
            over += 1
        place = take_place(rows, head)
        row = rows[place]
        row.key, row.time, row.pos, row.lane, row.dir, row.begins = key, t, reports.pos[i], lane, direction, begins
        row.prev = _FREE if begins else car.last
        car.count = 1 if begins else car.count + 1
        car.time, car.lane, car.dir, car.last = t, lane, direction, place
        places[i] = place
    return over


@compiled
def collect(
    rows: npt.NDArray[np.void], head: Ints, last: Ints, count: Ints, time: Ints, pos: Ints, lane: Bytes
) -> None:
    """Take the reports of trips out, each trip from its last report backwards; their places are free then."""
    end = 0
    for i in range(last.size):
        end += count[i]
        place = last[i]
        for back in range(1, count[i] + 1):
            row = rows[place]
            time[end - back], pos[end - back], lane[end - back] = row.time, row.pos, row.lane
            before = row.prev
            row.time, row.prev = _FREE, head[1]
            head[1] = place
            place = before


class Table:
    """Reports in places that are used again, in memory that all workers share; ``cuboid.log`` keeps it."""

    schema = REPORT

    def __init__(self) -> None:
        self._area = shared_arrays.Area(REPORT.dtype, _LEAST)
        self.head = np.array([0, _FREE], np.int32)
        self._new: list[Ints] = []
        self._loaded: list[npt.NDArray[np.void]] = []

    def __len__(self) -> int:
        return int(self.head[0])

    @property
    def rows(self) -> npt.NDArray[np.void]:
        """All places that were ever used."""
        return self._area.array[: len(self)]

    @property
    def room(self) -> npt.NDArray[np.void]:
        """All places there are."""
        return self._area.array

    def make_room(self, more: int) -> None:
        """Be ready for ``more`` reports."""
        if len(self) + more > self.room.size:
            self._area.grow(3 * (len(self) + more) // 2)

    def note(self, places: Ints) -> None:
        """Remember where new reports lie, for the next delta."""
        self._new.append(places)

    def delta(self) -> bytes:
        """The reports added since the last delta that are still there."""
        rows = self.rows.take(np.concatenate([np.empty(0, np.int32), *self._new]))
        self._new = []
        return rows.compress(rows["time"] != _FREE).tobytes()

    def apply(self, delta: bytes) -> None:
        """Have reports from bytes that ``delta`` made; ``loaded`` has them all."""
        self._loaded.append(np.frombuffer(delta, REPORT.dtype))

    def loaded(self) -> npt.NDArray[np.void]:
        """All reports that were applied, by car and time, each once."""
        rows = np.concatenate([np.empty(0, REPORT.dtype), *self._loaded])
        self._loaded = []
        rows = rows.compress(rows["time"] != _FREE)
        rows = rows.take(np.lexsort((rows["time"], rows[KEY])))
        again = (rows[KEY][1:] == rows[KEY][:-1]) & (rows["time"][1:] == rows["time"][:-1])
        return rows.compress(~np.concatenate([np.zeros(min(rows.size, 1), np.bool_), again]))

    def fill(self, rows: npt.NDArray[np.void]) -> None:
        """Have just these reports."""
        self.clear()
        self.make_room(rows.size)
        self.room[: rows.size] = rows
        self.head[0] = rows.size

    def clear(self) -> None:
        """Have no reports."""
        self.head[:] = 0, _FREE
        self._new = []


def horizon(second: int) -> int:
    """The second up to which a trip's last report must be for it to be over when all reports of ``second`` are here."""
    return second // LOOK_EVERY * LOOK_EVERY - REPORT_EVERY


@dataclass
class OpenTrips:
    """The trips of some expressways that are not over.

    >>> OpenTrips().take([]).vid.size
    0
    """

    second: int = -1  # of the newest report
    cars: Fragment = field(default_factory=lambda: Fragment(CAR))
    reports: Table = field(default_factory=Table)
    _log: DeltaLog = field(default_factory=DeltaLog)
    _moved: bool = False  # reports do not lie where the blocks in the store have them

    def take(self, trains: list[Train], *, last: bool = False) -> Trips:
        """Add the reports of whole seconds; returns the trips that are over, all of them after the ``last`` one."""
        before = self.second
        ended = [self._take(trains)]
        if last:
            ended.append(_ended(self.cars.rows))
        elif horizon(self.second) > horizon(before):
            ended.append(_ended(self.cars.rows.compress(self.cars.rows["time"] <= horizon(self.second))))
        trips = self._collect(Ended(*map(np.concatenate, zip(*ended, strict=True))))
        if last:
            self.cars.clear()
            self.reports.clear()
        else:
            self.cars.remove(np.concatenate([_NO_KEYS, *(part.key for part in ended[1:])]))
        return trips

    def _take(self, trains: list[Train]) -> Ended:
        reports = _joined(trains)
        size = reports.time.size
        ints = np.empty((3, size), np.int32)
        places, ended = ints[0], Ended(np.empty(size, np.int64), ints[1], ints[2], np.empty(size, np.uint8))
        if not size:
            return ended
        self.second = int(reports.time[-1])
        self.cars.make_room(size)
        self.reports.make_room(size)
        over = take_reports(reports, self.cars.parts, self.reports.room, self.reports.head, places, ended)
        self.reports.note(places)
        return Ended(ended.key[:over], ended.last[:over], ended.size[:over], ended.dir[:over])

    def _collect(self, ended: Ended) -> Trips:
        if not ended.key.size:
            return NO_TRIPS
        size = int(ended.size.sum())
        time, pos, lane = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.uint8)
        collect(self.reports.room, self.reports.head, ended.last, ended.size, time, pos, lane)
        vid, xway = ended.key & ((1 << VID_BITS) - 1), ended.key >> VID_BITS
        return Trips(vid.astype(np.int32), xway.astype(np.int32), ended.size, ended.dir, time, pos, lane)

    def save(self, store: Store) -> None:
        """Write what a batch brought, and some of what was there before."""
        if self._moved or not len(self.reports):
            self.reports.delta()
            self._log.write_all(self.reports, self.second, store)
            self._moved = False
        else:
            self._log.settle(self.reports, self.second, store)

    @classmethod
    def load(cls, store: Store) -> OpenTrips:
        """The open trips as they were saved last."""
        trips = cls()
        trips._log.load(trips.reports, store)
        rows = trips.reports.loaded()
        if rows.size:
            # the newest report's trip cannot be over
            trips.second = int(rows["time"].max())
            trips._fill(rows)
            trips._moved = True
        return trips

    def _fill(self, rows: npt.NDArray[np.void]) -> None:
        """Have the open trips among reports that are ordered by car and time."""
        cars = _groups(rows[KEY])
        numbers = np.arange(rows.size)
        begun = np.maximum.reduceat(np.where(rows["begins"], numbers, 0), cars[:-1])
        silent = rows["time"][cars[1:] - 1] <= horizon(self.second)
        rows = rows.compress((numbers >= np.repeat(begun, np.diff(cars))) & ~np.repeat(silent, np.diff(cars)))
        cars = _groups(rows[KEY])
        rows["prev"] = np.where(rows["begins"], _FREE, np.arange(-1, rows.size - 1))
        self.reports.fill(rows)
        ends = rows.take(cars[1:] - 1)
        known = np.zeros(ends.size, CAR.dtype)
        for name in (KEY, "time", "lane", "dir"):
            known[name] = ends[name]
        known["last"], known["count"] = cars[1:] - 1, np.diff(cars)
        self.cars.put(known)


_NO_KEYS = np.empty(0, np.int64)


def _groups(keys: Longs) -> Longs:
    """Where each group of equal keys begins, and where the last one ends."""
    return np.concatenate([[0], np.flatnonzero(np.diff(keys)) + 1, [keys.size]])


def _ended(cars: npt.NDArray[np.void]) -> Ended:
    return Ended(*(np.ascontiguousarray(cars[name]) for name in (KEY, "last", "count", "dir")))


def _joined(trains: list[Train]) -> Reports:
    """The reports of trains in the order of time."""
    trains = sorted((train for train in trains if train.vid.size), key=lambda train: train.second)
    sizes = [train.vid.size for train in trains]
    time = np.repeat(np.array([train.second for train in trains], np.int32), sizes)
    empty: dict[str, Any] = {"vid": np.int32, "xway": np.int32, "lane_dir": np.uint8, "pos": np.int32}
    columns = (
        np.concatenate([np.empty(0, dtype), *(getattr(train, name) for train in trains)])
        for name, dtype in empty.items()
    )
    return Reports(time, *columns)
