"""Split a keyed stream of points into trips: what a batch adds, which trips it ends, and how open trips are stored.

A rule defines what begins a trip (``_feeds.trip``), applied to Linear Road's reports (``linear_road_trips``)
or to any points (``silences``). The rest is the same for all.

Points are in a table whose slots are reused; each links to the previous point of its trip, and a trip is collected
backwards when it ends. The cost of a batch depends on its own points: it writes these and some old ones to the store
(``_cuboid.log``), and removes nothing when a trip ends. Points of ended trips in the store are recognised by
definition: their mover has begun another trip, or is silent. That depends only on the points, so a repeated batch ends
the same trips.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from slipstream._cuboid.fragment import EMPTY, Fragment, Parts, insert, locate
from slipstream._cuboid.log import DeltaLog
from slipstream._cuboid.schema import KEY, Plain, Schema
from slipstream._runtime.state import shared_arrays
from slipstream._runtime.state.store import Store
from slipstream._tools.numba_tools import Bools, Bytes, Ints, Longs, compiled

#: a rule's verdict on a point: it continues the trip of its mover, begins another, or is rejected
CONTINUES, BEGINS, REJECTED = range(3)
#: before the first point
NEVER = -(1 << 62)
_LEAST = 1024
_FREE = -1
#: in the column ``begins``: an unused slot
_GONE = 2

Rows = npt.NDArray[np.void]


def point_schema(name: str, time: str, *columns: Plain) -> Schema:
    """Return the schema of a point of an open trip; ``prev`` links to the previous point, or to the next free slot."""
    return Schema(name, (Plain("time", time), Plain("prev", "i4"), Plain("begins", "u1"), *columns))


def mover_schema(name: str, time: str, *columns: Plain) -> Schema:
    """Return the schema of a mover: the time and slot of its last point, and the number of points of its trip."""
    return Schema(name, (Plain("time", time), Plain("last", "i4"), Plain("count", "i4"), *columns))


class Rule(Protocol):
    """Defines what a trip is."""

    @property
    def point(self) -> Schema:
        """The schema of a point (``point_schema``)."""

    @property
    def mover(self) -> Schema:
        """The schema of a mover (``mover_schema``)."""

    def judge(self, points: Rows, at: Ints, fresh: Bools, movers: Rows) -> Bytes:
        """Return a verdict on each point, and update its mover for the next one.

        The mover of point i is row ``at[i]``; a ``fresh`` one has no points yet, and its first is never rejected.
        """

    def horizon(self, newest: int) -> int:
        """Return the time at or before which a trip's last point must be for it to be over, given ``newest``."""


class Ended(NamedTuple):
    """Ended trips: their movers, sizes and points, trip by trip in time order.

    ``by`` is the index in the train of the point that began the mover's next trip; the end of the train if none did.
    """

    key: Longs
    size: Ints
    points: Rows
    by: Longs


class _Over(NamedTuple):
    """Ended trips before collection: their movers, the slots of their last points, their sizes, what ended them."""

    key: Longs
    last: Ints
    size: Ints
    by: Longs


@compiled
def find_movers(points: Rows, movers: Parts, at: Ints, fresh: Bools) -> None:
    """Find the row of each point's mover; insert missing ones."""
    for i in range(points.size):
        row = locate(movers, points[i].key)
        fresh[i] = row == EMPTY
        at[i] = insert(movers, points[i].key) if fresh[i] else row


@compiled
def take_place(rows: Rows, head: Ints) -> int:
    """Allocate a slot for a point; ``head`` has the number of slots ever used, and the first free one among them."""
    place = head[1]
    if place != _FREE:
        head[1] = rows[place].prev
        return int(place)
    head[0] += 1
    return int(head[0] - 1)


@compiled
def link(
    points: Rows,
    at: Ints,
    fresh: Bools,
    verdict: Bytes,
    movers: Rows,
    rows: Rows,
    head: Ints,
    places: Ints,
    over: _Over,
) -> int:
    """Add points to the trips of their movers; return how many trips ended because others began."""
    count = 0
    for i in range(points.size):
        if verdict[i] == REJECTED:
            places[i] = _FREE
            continue
        mover, begins = movers[at[i]], verdict[i] == BEGINS
        if begins and not fresh[i]:
            over.key[count], over.last[count], over.size[count] = points[i].key, mover.last, mover.count
            over.by[count] = i
            count += 1
        place = take_place(rows, head)
        rows[place] = points[i]
        row = rows[place]
        row.begins = begins
        row.prev = _FREE if begins else mover.last
        mover.count = 1 if begins else mover.count + 1
        mover.last = places[i] = place
    return count


@compiled
def collect(rows: Rows, head: Ints, last: Ints, count: Ints, points: Rows) -> None:
    """Remove the points of trips, each trip from its last point backwards, and free their slots."""
    end = 0
    for i in range(last.size):
        end += count[i]
        place = last[i]
        for back in range(1, count[i] + 1):
            points[end - back] = rows[place]
            row = rows[place]
            before = row.prev
            row.begins, row.prev = _GONE, head[1]
            head[1] = place
            place = before


class PointTable:
    """Points in reusable slots, in memory shared by all workers; stored by ``_cuboid.log``."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._area = shared_arrays.SharedArray(schema.dtype, _LEAST)
        self.head = np.array([0, _FREE], np.int32)
        self._new: list[Ints] = []
        self._loaded: list[Rows] = []

    def __len__(self) -> int:
        return int(self.head[0])

    @property
    def rows(self) -> Rows:
        """All slots that were ever used."""
        return self._area.array[: len(self)]

    @property
    def room(self) -> Rows:
        """All allocated slots."""
        return self._area.array

    def make_room(self, more: int) -> None:
        """Make room for ``more`` points."""
        if len(self) + more > self.room.size:
            self._area.grow(3 * (len(self) + more) // 2)

    def note(self, places: Ints) -> None:
        """Record the slots of new points, for the next delta."""
        self._new.append(places)

    def delta(self) -> Rows:
        """Return the points added since the last delta that still exist."""
        rows = self.rows.take(np.concatenate([np.empty(0, np.int32), *self._new]))
        self._new = []
        return rows.compress(rows["begins"] != _GONE)

    def apply(self, delta: bytes) -> None:
        """Add points from a delta; ``take_loaded`` returns them all."""
        self._loaded.append(np.frombuffer(delta, self.schema.dtype))

    def take_loaded(self) -> Rows:
        """Return all applied points, by mover and time, each once."""
        rows = np.concatenate([np.empty(0, self.schema.dtype), *self._loaded])
        self._loaded = []
        rows = rows.compress(rows["begins"] != _GONE)
        rows = rows.take(np.lexsort((rows["time"], rows[KEY])))
        again = (rows[KEY][1:] == rows[KEY][:-1]) & (rows["time"][1:] == rows["time"][:-1])
        return rows.compress(~np.concatenate([np.zeros(min(rows.size, 1), np.bool_), again]))

    def fill(self, rows: Rows) -> None:
        """Replace all points."""
        self.clear()
        self.make_room(rows.size)
        self.room[: rows.size] = rows
        self.head[0] = rows.size

    def clear(self) -> None:
        """Remove all points."""
        self.head[:] = 0, _FREE
        self._new = []


@dataclass
class OpenTrips:
    """The open trips of some movers, and the time of the newest point."""

    rule: Rule
    newest: int = NEVER
    movers: Fragment = field(init=False)
    points: PointTable = field(init=False)
    _log: DeltaLog = field(default_factory=DeltaLog)
    _moved: bool = False  # whether slots differ from those in the store

    def __post_init__(self) -> None:
        self.movers, self.points = Fragment(self.rule.mover), PointTable(self.rule.point)

    @property
    def nbytes(self) -> int:
        """The memory it occupies."""
        return self.movers.nbytes + self.points.room.nbytes

    def take(self, points: Rows, *, last: bool = False) -> tuple[Ended, Bytes]:
        """Add points, in time order per mover; return the trips that ended, and the rule's verdicts.

        All trips end after the ``last`` points.
        """
        before = self.newest
        verdict, over = self._add(points)
        gone = self._find_silent(before, last=last, end=points.size)
        ended = self._collect(_concatenate(over, gone))
        if last:
            self.movers.clear()
            self.points.clear()
        else:
            self.movers.remove(gone.key)
        return ended, verdict

    def _add(self, points: Rows) -> tuple[Bytes, _Over]:
        size = points.size
        places, at = np.empty(size, np.int32), np.empty(size, np.int32)
        over = _Over(*(np.empty(size, kind) for kind in _OVER))
        if not size:
            return np.empty(0, np.uint8), over
        self.newest = max(self.newest, int(points["time"].max()))
        self.movers.make_room(size)
        self.points.make_room(size)
        fresh = np.empty(size, np.bool_)
        find_movers(points, self.movers.parts, at, fresh)
        movers = self.movers.parts.rows
        verdict = self.rule.judge(points, at, fresh, movers)
        count = link(points, at, fresh, verdict, movers, self.points.room, self.points.head, places, over)
        self.points.note(places[places != _FREE])
        return verdict, _Over(over.key[:count], over.last[:count], over.size[:count], over.by[:count])

    def _find_silent(self, before: int, *, last: bool, end: int) -> _Over:
        """Return the trips that end because their movers are silent."""
        rows, horizon = self.movers.rows, self.rule.horizon(self.newest)
        if not last:
            rows = rows.compress(rows["time"] <= horizon) if horizon > self.rule.horizon(before) else rows[:0]
        key, place, count = (np.ascontiguousarray(rows[name]) for name in (KEY, "last", "count"))
        return _Over(key, place, count, np.full(rows.size, end))

    def _collect(self, over: _Over) -> Ended:
        points = np.empty(int(over.size.sum()), self.rule.point.dtype)
        if points.size:
            collect(self.points.room, self.points.head, over.last, over.size, points)
        return Ended(over.key, over.size, points, over.by)

    def save(self, store: Store, number: int) -> None:
        """Save the points of a batch, and some earlier ones; ``number`` increases."""
        if self._moved or not len(self.points):
            self.points.delta()
            self._log.write_all(self.points, number, store)
            self._moved = False
        else:
            self._log.settle(self.points, number, store)

    def load(self, store: Store) -> None:
        """Load the open trips as last saved."""
        self._log.load(self.points, store)
        rows = self.points.take_loaded()
        if rows.size:
            # the trip of the newest point cannot have ended
            self.newest = int(rows["time"].max())
            self._fill(rows)
            self._moved = True

    def _fill(self, rows: Rows) -> None:
        """Restore the open trips from points ordered by mover and time."""
        movers = _find_groups(rows[KEY])
        numbers = np.arange(rows.size)
        begun = np.maximum.reduceat(np.where(rows["begins"], numbers, 0), movers[:-1])
        silent = rows["time"][movers[1:] - 1] <= self.rule.horizon(self.newest)
        rows = rows.compress((numbers >= np.repeat(begun, np.diff(movers))) & ~np.repeat(silent, np.diff(movers)))
        movers = _find_groups(rows[KEY])
        rows["prev"] = np.where(rows["begins"], _FREE, np.arange(-1, rows.size - 1))
        self.points.fill(rows)
        ends = rows.take(movers[1:] - 1)
        known = np.zeros(ends.size, self.rule.mover.dtype)
        for name in self.rule.mover.dtype.names or ():
            if name in (self.rule.point.dtype.names or ()):
                known[name] = ends[name]
        known["last"], known["count"] = movers[1:] - 1, np.diff(movers)
        self.movers.put(known)


def _concatenate(one: _Over, two: _Over) -> _Over:
    columns: list[Any] = [np.concatenate(both) for both in zip(one, two, strict=True)]  # type: ignore[arg-type]
    return _Over(*columns)


_OVER: tuple[Any, ...] = (np.int64, np.int32, np.int32, np.int64)


def _find_groups(keys: Longs) -> Longs:
    """Return the offsets of groups of equal keys."""
    return np.concatenate([[0], np.flatnonzero(np.diff(keys)) + 1, [keys.size]])
