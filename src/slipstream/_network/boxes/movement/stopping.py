"""Stops of things that are seen from time to time: the runs of positions that ``stops`` finds in trips.

A run is positions one after the other of which no two are farther apart than a limit. It is a stop as soon as it has
lasted long enough. Of a run, its positions wait in the state; of a stop only those at its corners do, so that a vehicle
that is parked for a night needs no more than one that waits at a light.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from slipstream._errors import BadInput
from slipstream._network.algebra import Schema
from slipstream._network.boxes.movement.fences import Tracks, check_new, floats
from slipstream._network.boxes.operators import KeyedTable, RowTable, State, register
from slipstream._network.flow import Train
from slipstream._tools.numba_tools import Bools, Floats, Longs, compiled

_IDS, _RUNS = "ids", "runs"
_WHO, _T, _X, _Y = "who", "t", "x", "y"
#: the tuple of a position that came before
_BEFORE = -1


@compiled
def _is_within(x: Floats, y: Floats, first: int, end: int, metres: float) -> bool:
    """Return whether position ``end`` is within a distance of all of ``first:end``."""
    return bool((np.hypot(x[first:end] - x[end], y[first:end] - y[end]) <= metres).all())


@compiled
def find_corners(x: Floats, y: Floats, first: int, end: int, kept: Bools) -> None:
    """Keep of positions ``first:end`` the first, the last, and those at the corners of their convex hull."""
    order = _sort(x, y, first, end)
    kept[first], kept[end - 1] = True, True
    hull = np.empty(end - first + 1, np.int64)
    for turn in range(2):
        size = 0
        for k in range(order.size):
            i = order[k] if turn == 0 else order[order.size - 1 - k]
            while size > 1 and _turns_right(x, y, hull[size - 2], hull[size - 1], i):
                size -= 1
            hull[size] = i
            size += 1
        for k in range(size):
            kept[hull[k]] = True


@compiled
def _sort(x: Floats, y: Floats, first: int, end: int) -> Longs:
    """Return positions in the order of x, of equal x by y."""
    by_y = np.argsort(y[first:end], kind="mergesort")
    return first + by_y[np.argsort(x[first:end][by_y], kind="mergesort")]


@compiled
def _turns_right(x: Floats, y: Floats, a: int, b: int, c: int) -> bool:
    return bool((x[b] - x[a]) * (y[c] - y[a]) - (y[b] - y[a]) * (x[c] - x[a]) <= 0.0)


@compiled
def follow_runs(
    rows: Longs, who: Longs, t: Longs, x: Floats, y: Floats, is_new: Bools, metres: float, least: int, stands: Longs
) -> tuple[Bools, Longs, Longs, Bools]:
    """Follow the runs of things; row r has the positions ``rows[r]:rows[r+1]``, those of its run so far first.

    Returns at which positions a stop is found, since when; until when the stop lasted that a position ends, and which
    positions are needed later. ``stands`` says which things stop now.
    """
    found, kept = np.zeros(t.size, np.bool_), np.zeros(t.size, np.bool_)
    since, until = np.zeros(t.size, np.int64), np.full(t.size, np.iinfo(np.int64).min)
    for r in range(rows.size - 1):
        first, end, thing = rows[r], rows[r + 1], who[r]
        j = first
        while j < end and not is_new[j]:
            j += 1
        if j == first:
            j += 1
        while j < end:
            if _is_within(x, y, first, j, metres):
                if stands[thing] == 0 and t[j] - t[first] >= least:
                    stands[thing], found[j], since[j] = 1, True, t[first]
                j += 1
            elif stands[thing]:
                stands[thing], since[j], until[j] = 0, t[first], t[j - 1]
                first, j = j, j + 1
            else:
                first += 1
                j = max(j, first + 1)
        if stands[thing]:
            find_corners(x, y, first, end, kept)
        else:
            kept[first:end] = True
    return found, since, until, kept


@register
@dataclass(frozen=True)
class Stopping(Tracks):
    """The tuples at which an id has stopped, once per stop, and ``since`` when it has. ``ended``: those after a stop.

    A stop is positions of which no two are more than ``metres`` apart, for ``least`` in units of time. Positions are in
    metres of a plane. ``until`` is when a stop that has ended was left.
    """

    name = "stopping"
    ports = ("stopped", "ended")
    passes_key = True
    metres: float = 0.0
    least: int = 0

    def outputs(self, tuples: Schema) -> Mapping[str, Schema]:
        """The tuples, with columns."""
        self._require(tuples)
        if self.every:
            raise BadInput("stopping: `every` cannot be given.", hint="Leave it out.", code="conflicting-options")
        if not self.metres >= 0 or not self.least >= 0:
            raise BadInput("stopping: metres or least is negative.", hint="Give 0 or more.", code="out-of-range")
        for column in ("since", "until"):
            check_new(self.name, column, tuples)
        since: Schema = {**tuples, "since": "integer"}
        return {"stopped": since, "ended": {**since, "until": "integer"}}

    def fresh(self, tuples: Schema) -> State:
        """No ids."""
        return {
            _IDS: KeyedTable({self.id: tuples[self.id]}, {"stands": ("integer", 0)}),
            _RUNS: RowTable({_WHO: "integer", _T: "integer", _X: "float", _Y: "float"}),
        }

    def step(self, state: State, tuples: Train) -> Mapping[str, Train]:
        """Continue the runs of the ids that are seen."""
        ids, runs = state[_IDS], state[_RUNS]
        who = ids.rows(tuples.columns)
        slots = runs.slots()
        seen = np.zeros(len(ids), np.bool_)
        seen[who] = True
        old = runs.pop(slots[seen[runs.table.take(_WHO, slots)]])
        x, y = floats(tuples, self.lon, self.lat)
        new = {_WHO: who, _T: tuples[self.time], _X: x, _Y: y}
        columns = {name: np.concatenate([old[name], new[name]]) for name in new}
        place = np.concatenate([np.full(old[_WHO].size, _BEFORE), np.arange(who.size)])
        order = np.argsort(columns[_WHO], kind="stable")
        columns, place = {name: values[order] for name, values in columns.items()}, place[order]
        starts = np.flatnonzero(np.r_[True, np.diff(columns[_WHO]) != 0])[: order.size]
        found, since, until, kept = follow_runs(
            np.append(starts, order.size),
            columns[_WHO][starts],
            columns[_T],
            columns[_X],
            columns[_Y],
            place != _BEFORE,
            float(self.metres),
            self.least,
            ids["stands"],
        )
        runs.add({name: values[kept] for name, values in columns.items()})
        stopped, ended = self._in_order(found, place), self._in_order(until != np.iinfo(np.int64).min, place)
        return {
            "stopped": tuples.take(place[stopped]).plus(since=since[stopped]),
            "ended": tuples.take(place[ended]).plus(since=since[ended], until=until[ended]),
        }

    @staticmethod
    def _in_order(which: Bools, place: Longs) -> Longs:
        """Return positions in the order of their tuples."""
        found = np.flatnonzero(which)
        return np.asarray(found[np.argsort(place[found])])
