"""Pairs of moving things that are close to each other.

``Meetings`` compares tuples that belong to one moment. ``MeetingsNow`` answers at every tuple: it keeps the pairs that
meet now in an index, where a tuple changes only the pairs of its own id, and returns all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from slipstream._moving.space.geodesic import are_within, distances, near_point
from slipstream._network.algebra import Schema
from slipstream._network.boxes.operators import KeyedTable, Operator, State, register, require
from slipstream._network.boxes.windows.kernels import Numbers
from slipstream._network.flow import Train
from slipstream._tools.numba_tools import Bools, Floats, Longs, compiled

_KNOWN = "known"
EVERYWHERE: tuple[float, ...] = ()
#: what is known of an id: nothing, that it is elsewhere, or that it is where ids can meet
UNSEEN, FAR, NEAR = 0, 1, 2
#: positions that are counted together
_AT_ONCE = 1_000


@compiled
def _grow(rows: Numbers, used: int) -> Numbers:
    if used < rows.shape[0]:
        return rows
    bigger = np.empty((2 * used, rows.shape[1]), rows.dtype)
    bigger[:used] = rows[:used]
    return bigger


@compiled
def find_pairs(at: Longs, ids: Longs, lon: Floats, lat: Floats, near: Bools, apart: float) -> Longs:
    """Return the rows (a, b) of tuples of the same moment that are at most ``apart``; a has the smaller id."""
    found, used = np.empty((16, 2), np.int64), 0
    first = 0
    for i in range(at.size):
        if at[i] != at[first]:
            first = i
        for j in range(first, i if near[i] else first):
            if near[j] and ids[i] != ids[j] and are_within(lon[i], lat[i], lon[j], lat[j], apart):
                found = _grow(found, used)
                found[used, 0], found[used, 1] = (i, j) if ids[i] < ids[j] else (j, i)
                used += 1
    return found[:used]


@dataclass(frozen=True)
class _Meetings(Operator):
    """What both boxes need. ``near`` is (lon, lat, metres): only who is there can meet; everywhere without it."""

    id: str
    lon: str
    lat: str
    apart: float = np.inf
    near: tuple[float, ...] = EVERYWHERE

    def _require(self, tuples: Schema) -> None:
        require(tuples, self.id, "bigint")
        require(tuples, self.lon, "double")
        require(tuples, self.lat, "double")

    def _find_near(self, lon: Floats, lat: Floats) -> Bools:
        if not self.near:
            return np.ones(lon.size, np.bool_)
        return near_point(lon, lat, *map(float, self.near))


@register
@dataclass(frozen=True)
class Meetings(_Meetings):
    """The pairs a < b of tuples with the same ``at`` that meet, and their distance; these tuples come together."""

    name = "meetings"
    at: str = "t"

    def outputs(self, tuples: Schema) -> Mapping[str, Schema]:
        """The moment, both ids, and the distance."""
        self._require(tuples)
        require(tuples, self.at, "bigint")
        return {"out": {self.at: "integer", "a": "integer", "b": "integer", "distance": "float"}}

    def step(self, state: State, tuples: Train) -> Mapping[str, Train]:  # noqa: ARG002
        """Compare the tuples of each moment."""
        lon, lat = (np.ascontiguousarray(tuples[name]) for name in (self.lon, self.lat))
        at, ids = (np.ascontiguousarray(tuples[name]) for name in (self.at, self.id))
        found = find_pairs(at, ids, lon, lat, self._find_near(lon, lat), float(self.apart))
        a, b = found[:, 0], found[:, 1]
        out = tuples.take(np.maximum(a, b))
        apart = distances(lon[a], lat[a], lon[b], lat[b])
        return {"out": out.with_columns({self.at: at[a], "a": ids[a], "b": ids[b], "distance": apart})}


@compiled
def _form(
    pairs: Longs,
    meeting: int,
    ends: Floats,
    formed: int,
    me: int,
    others: int,
    known: Longs,
    lon: Floats,
    lat: Floats,
    apart: float,
) -> tuple[Longs, int, Floats, int]:
    """Add the pairs of a row with those before ``others`` that it meets, and their positions."""
    for other in range(others):
        if other != me and known[other] == NEAR and are_within(lon[me], lat[me], lon[other], lat[other], apart):
            pairs, ends = _grow(pairs, meeting), _grow(ends, formed)
            pairs[meeting, 0], pairs[meeting, 1], pairs[meeting, 2] = me, other, formed
            ends[formed, 0], ends[formed, 1], ends[formed, 2], ends[formed, 3] = (
                lon[me],
                lat[me],
                lon[other],
                lat[other],
            )
            meeting, formed = meeting + 1, formed + 1
    return pairs, meeting, ends, formed


@compiled
def _part(pairs: Longs, meeting: int, me: int) -> int:
    """Remove the pairs of a row; returns how many are left."""
    left = 0
    for k in range(meeting):
        if pairs[k, 0] != me and pairs[k, 1] != me:
            pairs[left] = pairs[k]
            left += 1
    return left


@compiled
def meet_now(
    rows: Longs, lon: Floats, lat: Floats, near: Bools, known: Longs, last_lon: Floats, last_lat: Floats, apart: float
) -> tuple[Longs, Floats]:
    """Take positions one by one; returns rows (trigger, a, b, number) of who meets then, and the pairs' positions.

    ``known`` says of each row whether it is unseen, far or near. A pair keeps its number until one of both moves.
    """
    found, used = np.empty((16, 4), np.int64), 0
    pairs, meeting = np.empty((16, 3), np.int64), 0
    ends, formed = np.empty((16, 4), np.float64), 0
    for me in range(known.size):
        if known[me] == NEAR:
            pairs, meeting, ends, formed = _form(pairs, meeting, ends, formed, me, me, known, last_lon, last_lat, apart)
    for i in range(rows.size):
        me = rows[i]
        last_lon[me], last_lat[me] = lon[i], lat[i]
        known[me] = NEAR if near[i] else FAR
        meeting = _part(pairs, meeting, me)
        if near[i]:
            pairs, meeting, ends, formed = _form(
                pairs, meeting, ends, formed, me, known.size, known, last_lon, last_lat, apart
            )
        for k in range(meeting):
            found = _grow(found, used)
            found[used, 0], found[used, 1], found[used, 2], found[used, 3] = i, pairs[k, 0], pairs[k, 1], pairs[k, 2]
            used += 1
    return found[:used], ends[:formed]


@register
@dataclass(frozen=True)
class MeetingsNow(_Meetings):
    """At every tuple, all pairs a < b that meet then, by the last known position of each id, and their distance."""

    name = "meetings_now"
    time: str = "t"

    def outputs(self, tuples: Schema) -> Mapping[str, Schema]:
        """Both ids, the time of the tuple, and the distance."""
        self._require(tuples)
        require(tuples, self.time, "bigint")
        return {"out": {"a": "integer", "b": "integer", self.time: "integer", "distance": "float"}}

    def fresh(self, tuples: Schema) -> State:
        """Nobody is known."""
        columns = {"known": ("integer", UNSEEN), "lon": ("float", 0), "lat": ("float", 0)}
        return {_KNOWN: KeyedTable({self.id: tuples[self.id]}, columns)}

    def step(self, state: State, tuples: Train) -> Mapping[str, Train]:
        """Move ids one by one, and tell who meets."""
        table: KeyedTable = state[_KNOWN]
        rows = table.rows(tuples.columns)
        lon, lat = (np.ascontiguousarray(tuples[name]) for name in (self.lon, self.lat))
        known, last_lon, last_lat = (table[name][: len(table)] for name in ("known", "lon", "lat"))
        near = self._find_near(lon, lat)
        found, ends = meet_now(rows, lon, lat, near, known, last_lon, last_lat, float(self.apart))
        trigger, one, two, number = np.ascontiguousarray(found.T)
        ids = table.keys(self.id, np.arange(len(table)))
        a, b = np.minimum(ids[one], ids[two]), np.maximum(ids[one], ids[two])
        out = tuples.take(trigger)
        apart = distances(*ends.T)[number]
        return {"out": out.with_columns({"a": a, "b": b, self.time: out[self.time], "distance": apart})}


def count_meetings(
    rows: Longs, lon: Floats, lat: Floats, near: tuple[float, float, float], apart: float, most: int
) -> int:
    """Return how many positions ``MeetingsNow`` answers with at most ``most`` pairs altogether.

    >>> place = np.zeros(3)
    >>> count_meetings(np.array([0, 1, 2]), place, place, (0.0, 0.0, 10.0), 10.0, 3)
    2
    """
    count = int(rows.max(initial=-1)) + 1
    known, last = np.full(count, UNSEEN), np.zeros((2, count))
    total = 0
    for first in range(0, rows.size, _AT_ONCE):
        part = slice(first, first + _AT_ONCE)
        is_near = near_point(lon[part], lat[part], *near)
        found, _ = meet_now(rows[part], lon[part], lat[part], is_near, known, last[0], last[1], apart)
        if total + len(found) > most:
            return first + int(found[most - total, 0])
        total += len(found)
    return int(rows.size)
