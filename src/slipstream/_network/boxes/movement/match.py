"""The match box: positions get the road that they were on, with a bounded delay.

It is the kernel that matches whole trips (``_roads.matching``): a position waits until what comes later can no longer
change its road, or until the lag has passed. Both depend on the vehicle's own positions, so the answers are those for
the whole trip with the same lag, wherever the stream is cut. A vehicle that falls silent is decided when the stream's
time has passed the lag.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstream._errors import BadInput
from slipstream._network.boxes.archive import FINE, LATE, NULL, ORDER, REASONS, TIME, is_invalid_time, to_micros
from slipstream._network.boxes.operators import Array, KeyedTable, Operator, RowTable, Schema, State, register, require
from slipstream._network.boxes.windows.window_functions import NULL_INTEGER, nulls
from slipstream._network.flow import Train
from slipstream._roads.matching.model import Model
from slipstream._roads.matching.viterbi import NONE, ON, STATUS, Last, Matched
from slipstream._roads.street_network import CLASSES
from slipstream._tools.numba_tools import Bools, Floats, Longs, compiled

if TYPE_CHECKING:
    from slipstream._roads.matching.matcher import Matcher

_MICROS = 1_000_000
#: metres from any road
_FAR = 1e9
_TS, _STRETCH, _NEWEST = "#ts", "stretch", "newest"
#: what is known of a vehicle: its last decided position, the jump after it, the stretches so far, the newest time
_VEHICLE: dict[str, tuple[str, float]] = {
    **{"edge": ("integer", -1), "offset": ("float", 0), "t": ("integer", NONE), "x": ("float", 0), "y": ("float", 0)},
    **{"confidence": ("float", 0), "jump_t": ("integer", NONE), "jump_x": ("float", 0), "jump_y": ("float", 0)},
    **{_STRETCH: ("integer", 0), _NEWEST: ("integer", NONE)},
}
#: what the box adds to a position
ADDED: Schema = {
    "status": "text",
    "edge": "integer",
    "offset": "float",
    "direction": "integer",
    "aside": "float",
    "matched_x": "float",
    "matched_y": "float",
    "confidence": "float",
    "stretch": "integer",
    "limit_kmh": "float",
    "road_class": "text",
    "road_name": "text",
    "road_ref": "text",
}
_REASON = "reason"


@compiled
def _check_order(row: Longs, t: Longs, newest: Longs) -> Bools:
    """Return which times are after all earlier ones of their vehicle; ``newest`` has these, and is updated."""
    good = np.empty(len(row), np.bool_)
    for i in range(len(row)):
        good[i] = t[i] > newest[row[i]]
        newest[row[i]] = max(newest[row[i]], t[i])
    return good


@register
@dataclass(frozen=True)
class Match(Operator):
    """Adds to each position the road that the vehicle was on, its place there, and how certain that is.

    ``roads`` is a folder that ``slipstream roads import`` wrote; ``x`` and ``y`` are metres in its plane or, with
    ``degrees``, longitudes and latitudes. A position is decided at most ``lag`` seconds later, in the time of the
    stream. ``noise`` is the standard deviation of positions in metres. Tuples of one vehicle must be in order; the
    stream may be out of order by ``lateness`` seconds. Others go to the port ``rejects``, with the reason: ``null``,
    ``time``, ``late`` or ``order``.
    """

    name = "match"
    ports = ("out", "rejects")
    roads: str
    id: str = "id"
    time: str = "time"
    x: str = "x"
    y: str = "y"
    lag: float = 30.0
    lateness: float = 0.0
    noise: float = 10.0
    degrees: bool = False

    @property
    def model(self) -> Model:
        """How positions are matched."""
        return Model(noise=self.noise, lag=self.lag)

    def outputs(self, tuples: Schema) -> Mapping[str, Schema]:
        """The columns of the positions, and those that say where they are."""
        require(tuples, self.id, "bigint", "string")
        for column in (self.time, self.x, self.y):
            require(tuples, column, "bigint", "double")
        if not self.lateness >= 0:
            raise BadInput("match: lateness is out of range.", hint="Give 0 or more seconds.", code="out-of-range")
        _ = self.model
        if self.degrees:
            self._check_plane()
        if taken := [name for name in (*ADDED, _REASON, _TS) if name in tuples]:
            raise BadInput(
                f"match: the column name {taken[0]!r} is reserved.",
                hint="Rename it with a map box.",
                code="bad-name",
                found=taken[0],
            )
        return {"out": {**tuples, **ADDED}, "rejects": {**tuples, _REASON: "text"}}

    def _check_plane(self) -> None:
        from slipstream._roads.road_tables import read_report

        if not read_report(Path(self.roads))["srid"]:
            raise BadInput(
                f"match: {self.roads}: the place of these roads on the globe is unknown.",
                hint="Import them with --centre LON,LAT, or give positions in their metres.",
                code="bad-coordinates",
            )

    def fresh(self, tuples: Schema) -> State:
        """Vehicles, the positions that wait, and the clock of the stream."""
        clock = {"newest": ("integer", NONE), "arrival": ("integer", 0), "arrived": ("integer", 0)}
        return {
            "vehicles": KeyedTable({self.id: tuples[self.id]}, _VEHICLE),
            "waiting": RowTable({**tuples, _TS: "integer"}),
            "clock": KeyedTable({}, clock),
        }

    def step(self, state: Mapping[str, Any], tuples: Train) -> Mapping[str, Train]:
        """Add positions; returns those that are decided now, and rejects."""
        reason, micros = np.full(len(tuples), FINE, np.uint8), to_micros(tuples[self.time])
        reason[is_invalid_time(tuples[self.time])] = TIME
        reason[self._find_unusable(tuples)] = NULL
        clock = state["clock"]
        row = clock.rows({"": np.zeros(1)})
        whole = np.flatnonzero(reason == FINE)
        reached = np.maximum.accumulate(np.maximum(micros[whole], clock[_NEWEST][row[0]]))
        on_time = micros[whole] >= reached - round(self.lateness * _MICROS)
        reason[whole[~on_time]] = LATE
        taken = whole[on_time]
        vehicles = state["vehicles"].rows(tuples.take(taken).columns)
        in_order = _check_order(vehicles, micros[taken], state["vehicles"][_NEWEST])
        reason[taken[~in_order]] = ORDER
        clock[_NEWEST][row] = reached[-1] if whole.size else clock[_NEWEST][row]
        for name, values in (("arrival", tuples.order[:, 0]), ("arrived", tuples.ts)):
            clock[name][row] = np.maximum(clock[name][row], values.max(initial=0))
        rejected = np.flatnonzero(reason != FINE)
        found = {"rejects": tuples.take(rejected).plus(**{_REASON: REASONS[reason[rejected]]})}
        if whole.size:
            found["out"] = self._advance(state, tuples, taken[in_order], whole, reached)
        return found

    def finish(self, state: Mapping[str, Any], width: int) -> Mapping[str, Train]:
        """Decide all positions when the input has ended; they are emitted after the last tuple."""
        waiting, clock = state["waiting"], state["clock"]
        columns = waiting.pop(waiting.slots())
        count = len(columns[_TS])
        if not count:
            return {}
        order = np.zeros((1, width), np.int64)
        order[:, 0] = clock["arrival"][0]
        row, t = state["vehicles"].rows(columns), to_micros(columns[self.time])
        sorted_ = np.lexsort((t, row))
        columns = {name: values[sorted_] for name, values in columns.items()}
        decided, matched, stretch, _ = self._match(state, columns, row[sorted_], t[sorted_], 0, is_over=True)
        trigger = Train(np.full(1, clock["arrived"][0]), np.zeros(1, np.int64), order, {})
        like = trigger.take(np.zeros(decided.size, np.int64))
        return {"out": self._describe(columns, decided, matched, stretch, like)}

    def _find_unusable(self, tuples: Train) -> Bools:
        """Return where a required column is missing or not finite."""
        found: Bools = np.asarray(nulls(tuples[self.id]))
        for column in (self.time, self.x, self.y):
            values = tuples[column]
            found = found | nulls(values) | (~np.isfinite(values) if values.dtype.kind == "f" else False)
        return np.asarray(found)

    def _advance(self, state: Mapping[str, Any], tuples: Train, good: Longs, whole: Longs, reached: Longs) -> Train:
        """Match waiting and new positions; ``reached`` is the time of the stream after each of ``whole``."""
        until = int(reached[-1]) - round(self.lateness * _MICROS)
        new = {**{name: values[good] for name, values in tuples.columns.items()}, _TS: tuples.ts[good]}
        columns, row, t, arrival = self._collect(state, new, good, until)
        decided, matched, stretch, left = self._match(state, columns, row, t, until, is_over=False)
        state["waiting"].add({name: values[left] for name, values in columns.items()})
        own = np.append(arrival, len(tuples))[matched.by[decided]]
        clock = np.append(whole, len(tuples))
        due = clock[np.searchsorted(reached - round(self.lateness * _MICROS), matched.due[decided], side="right")]
        trigger = np.minimum(own, due)
        order = np.lexsort((t[decided], row[decided], trigger))
        decided, stretch = decided[order], stretch[order]
        return self._describe(columns, decided, matched, stretch, tuples.take(trigger[order]))

    def _collect(
        self, state: Mapping[str, Any], new: dict[str, Array], good: Longs, until: int
    ) -> tuple[dict[str, Array], Longs, Longs, Longs]:
        """Return the positions to look at, by vehicle and time: of vehicles with new ones or with one that is due.

        For each, also its vehicle, its time, and which tuple it is; a waiting one is none of these.
        """
        waiting, vehicles = state["waiting"], state["vehicles"]
        slots = waiting.slots()
        held = {name: waiting.table.take(name, slots) for name in waiting.columns}
        held_row, held_t = vehicles.codes(held), to_micros(held[self.time])
        row, t = vehicles.codes(new), to_micros(new[self.time])
        looked = np.zeros(len(vehicles), np.bool_)
        looked[row] = True
        looked[held_row[held_t + round(self.lag * _MICROS) < until]] = True
        taken = looked[held_row]
        waiting.table.remove(slots[taken])
        columns = {name: np.concatenate([held[name][taken], new[name]]) for name in new}
        row, t = np.concatenate([held_row[taken], row]), np.concatenate([held_t[taken], t])
        arrival = np.concatenate([np.full(int(taken.sum()), np.iinfo(np.int64).max), good])
        order = np.lexsort((t, row))
        return {name: values[order] for name, values in columns.items()}, row[order], t[order], arrival[order]

    def _match(
        self, state: Mapping[str, Any], columns: Mapping[str, Array], row: Longs, t: Longs, until: int, *, is_over: bool
    ) -> tuple[Longs, Matched, Longs, Longs]:
        """Match positions by vehicle; returns which are decided, the matches, their stretches, and which are left."""
        starts = np.flatnonzero(np.r_[True, row[1:] != row[:-1]])[: row.size]
        bounds, vehicles = np.append(starts, row.size), state["vehicles"]
        who = vehicles.rows({self.id: columns[self.id][starts]})
        last = Last(*(vehicles[name][who].copy() for name in Last._fields))
        last = last._replace(edge=last.edge.astype(np.int32))
        x, y = self._project(columns)
        until_each, every = np.full(starts.size, until), np.arange(starts.size)
        matched, done = self._matcher.advance(bounds, t, x, y, until_each, every, last, is_over=is_over)
        for name in Last._fields:
            vehicles[name][who] = getattr(last, name)
        size = np.diff(bounds)
        is_decided = np.arange(row.size) < np.repeat(done, size)
        total = np.cumsum(matched.starts & is_decided)
        before = np.r_[0, total][bounds[:-1]]
        stretch = vehicles[_STRETCH][who].repeat(size) + total - before.repeat(size)
        vehicles[_STRETCH][who] += np.r_[0, total][bounds[1:]] - before
        decided = np.flatnonzero(is_decided)
        return decided, matched, stretch[decided], np.flatnonzero(~is_decided)

    def _project(self, columns: Mapping[str, Array]) -> tuple[Floats, Floats]:
        """Return positions in the plane of the roads; what cannot be projected is far off any road."""
        x, y = (np.ascontiguousarray(columns[name], np.float64) for name in (self.x, self.y))
        if not self.degrees:
            return x, y
        plane = self._matcher.network.plane
        assert plane is not None
        x, y = plane.project_reachable(x, y)
        return np.nan_to_num(x, nan=_FAR), np.nan_to_num(y, nan=_FAR)

    @property
    def _matcher(self) -> Matcher:
        from slipstream._roads.matching.matcher import open_matcher

        return open_matcher(Path(self.roads), self.model)

    def _describe(
        self, columns: Mapping[str, Array], which: Longs, matched: Matched, stretch: Longs, triggers: Train
    ) -> Train:
        """Return decided positions as tuples, with the columns that the box adds."""
        network, status = self._matcher.network, matched.status[which]
        on, edge = status == ON, matched.edge[which]
        label = network.label[edge]
        added: dict[str, Array] = {
            "status": STATUS[status].astype(object),
            "edge": np.where(on, edge, NULL_INTEGER),
            "direction": np.where(on, np.where(network.forward[edge], 1, -1), NULL_INTEGER),
            "stretch": np.where(on, stretch, NULL_INTEGER),
            "limit_kmh": np.where(on, network.vmax[edge], np.nan),
            "road_class": _texts(np.array(CLASSES)[network.kind[edge]], on),
            "road_name": _texts(network.names[label], on),
            "road_ref": _texts(network.refs[label], on),
        }
        for name, values in (
            *(("offset", matched.offset), ("aside", matched.aside), ("matched_x", matched.x)),
            *(("matched_y", matched.y), ("confidence", matched.confidence)),
        ):
            added[name] = np.where(on, values[which], np.nan)
        given = {name: values[which] for name, values in columns.items()}
        ts = given.pop(_TS).astype(np.int64)
        return Train(ts, triggers.shed, triggers.order, {**given, **{name: added[name] for name in ADDED}})


def _texts(values: Array, given: Bools) -> Array:
    found = values.astype(object)
    found[~given] = None
    return found
