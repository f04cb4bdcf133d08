"""The box of zone tolls: positions become visits to zones, each with what it costs.

A visit lasts from where a vehicle's way crosses the border of a zone to where it crosses it again, or to the vehicle's
last report before a silence. Tuples of one vehicle must be in order; what comes out does not depend on how the stream
is cut, nor on other vehicles.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slipstream._errors import BadInput
from slipstream._moving.exchange.trip_files import PLACES
from slipstream._network.boxes.operators import KeyedTable, Operator, Schema, State, register, require
from slipstream._network.boxes.tolls.priced_zones import ENTERED, LEFT, Borders, Followed, Zone, follow, parse_zones
from slipstream._network.boxes.windows.window_functions import nulls
from slipstream._network.flow import Array, Train
from slipstream._tools.numba_tools import Bools, Floats, Longs

_REASON = "reason"
_VISIT: Schema = {
    "zone": "text",
    "entered": "float",
    "exited": "float",
    "seconds": "float",
    "metres": "float",
    "amount": "float",
}
_NEVER = float("nan")


@register
@dataclass(frozen=True)
class ZoneTolls(Operator):
    """Charges for visits to zones: on entering, by the minute and by the kilometre.

    ``zones`` is the text of a GeoJSON collection of polygons, whose features have a ``name`` and the prices ``entry``,
    ``per_minute`` and ``per_km``. A silence of more than ``gap`` seconds ends a visit with the vehicle's last report.
    Where ``x`` and ``y`` are called lon and lat, they are degrees; else metres.

    The first output has a row for each visit when it is over, ``entries`` one for each when it begins, and ``rejects``
    tuples without a place or a time, or not later than the vehicle's last one.
    """

    name: ClassVar[str] = "zone_tolls"
    ports: ClassVar[tuple[str, ...]] = ("visits", "entries", "rejects")
    zones: str
    id: str = "id"
    time: str = "time"
    x: str = "x"
    y: str = "y"
    gap: float = 180.0

    @property
    def key(self) -> tuple[str, ...]:
        """Vehicles do not meet."""
        return (self.id,)

    @property
    def parsed(self) -> tuple[Zone, ...]:
        """The zones."""
        return parse_zones(self.zones)

    def outputs(self, tuples: Schema) -> Mapping[str, Schema]:
        """Visits, entries and rejected tuples."""
        require(tuples, self.id, "bigint", "string")
        for column in (self.time, self.x, self.y):
            require(tuples, column, "bigint", "double")
        if not self.gap > 0:
            raise BadInput("zone_tolls: gap is out of range.", hint="Give seconds above 0.", code="out-of-range")
        self.parsed  # noqa: B018 - refuses what are not zones
        for column, taken in ((self.id, {**_VISIT, "time": ""}), (_REASON, tuples)):
            if column in taken:
                raise BadInput(
                    f"zone_tolls: the column name {column!r} is reserved.",
                    hint="Rename it with a map box.",
                    code="bad-name",
                    found=column,
                )
        who = {self.id: tuples[self.id]}
        return {
            "visits": {**who, **_VISIT},
            "entries": {**who, "zone": "text", "time": "float"},
            "rejects": {**tuples, _REASON: "text"},
        }

    def fresh(self, tuples: Schema) -> State:
        """The last report of each vehicle, and since when it has been in which zone."""
        last = dict.fromkeys(("time", "x", "y"), ("float", _NEVER))
        names = itertools.chain.from_iterable(map(_columns_of, range(len(self.parsed))))
        there = dict.fromkeys(names, ("float", _NEVER))
        stream = {"arrival": ("integer", 0.0), "arrived": ("integer", 0.0)}
        return {
            "vehicles": KeyedTable({self.id: tuples[self.id]}, {**last, **there}),
            "stream": KeyedTable({}, stream),
        }

    def step(self, state: State, tuples: Train) -> Mapping[str, Train]:
        """Follow the vehicles."""
        _note(state["stream"], tuples)
        unusable = self._find_unusable(tuples)
        good = np.flatnonzero(~unusable)
        usable = tuples.take(good)
        rows = state["vehicles"].rows(usable.columns)
        events, disorder = self._follow(state["vehicles"], rows, usable)
        reasons = np.full(len(tuples), "null", object)
        reasons[good[disorder]] = "order"
        unusable[good[disorder]] = True
        bad = np.flatnonzero(unusable)
        return {
            **self._make_outputs(usable, usable[self.id], events),
            "rejects": tuples.take(bad).plus(**{_REASON: reasons[bad]}),
        }

    def finish(self, state: State, width: int) -> Mapping[str, Train]:
        """End all visits when the input has ended."""
        vehicles, stream = state["vehicles"], state["stream"]
        count = len(vehicles)
        held, rows = _hold(vehicles, np.arange(count), len(self.parsed)), np.arange(count)
        row, zone = np.nonzero(~np.isnan(held.since))
        order = np.zeros((count, width), np.int64)
        order[:, 0] = stream["arrival"][0] if len(stream) else 0
        arrived = stream["arrived"][0] if len(stream) else 0
        like = Train(np.full(count, arrived), np.zeros(count, np.int64), order, {})
        what = np.full(row.size, LEFT)
        since, metres = held.since[row, zone], held.metres[row, zone]
        events = np.stack([what, row, row, zone, since, held.time[row], metres], axis=1).astype(np.float64)
        made = self._make_outputs(like, vehicles.keys(self.id, rows), events)
        vehicles["time"][:count] = _NEVER  # a vehicle that has been charged is not charged again
        return {"visits": made["visits"]}

    def _find_unusable(self, tuples: Train) -> Bools:
        found: Bools = nulls(tuples[self.id])
        for column in (self.time, self.x, self.y):
            values = tuples[column]
            found = found | nulls(values) | (~np.isfinite(values) if values.dtype.kind == "f" else False)
        return np.array(found, np.bool_)

    def _follow(self, vehicles: KeyedTable, rows: Longs, tuples: Train) -> tuple[Floats, Bools]:
        mine, local = np.unique(rows, return_inverse=True)
        held = _hold(vehicles, mine, len(self.parsed))
        t, x, y = (np.ascontiguousarray(tuples[name], np.float64) for name in (self.time, self.x, self.y))
        degrees = (self.x, self.y) in PLACES[1:]
        found = follow(local.astype(np.int64), t, x, y, held, Borders.of(self.parsed), self.gap, degrees)
        _put_back(vehicles, mine, held)
        return found

    def _make_outputs(self, tuples: Train, ids: Array, events: Floats) -> dict[str, Train]:
        """Return visits and entries; an event has the number of its tuple, whose place it takes."""
        names = np.array([zone.name for zone in self.parsed], object)
        at = events[:, 1].astype(np.int64)
        zone = events[:, 3].astype(np.int64)
        begin, end, metres = events[:, 4], events[:, 5], events[:, 6]
        prices = np.array([[one.entry, one.per_minute, one.per_km] for one in self.parsed])[zone]
        seconds = end - begin
        amount = prices[:, 0] + prices[:, 1] * seconds / 60 + prices[:, 2] * metres / 1000
        visits = {"entered": begin, "exited": end, "seconds": seconds, "metres": metres, "amount": amount}
        left, entered = np.flatnonzero(events[:, 0] == LEFT), np.flatnonzero(events[:, 0] == ENTERED)
        who = {self.id: ids[at], "zone": names[zone]}
        return {
            "visits": tuples.take(at[left]).with_columns(_select({**who, **visits}, left)),
            "entries": tuples.take(at[entered]).with_columns(_select({**who, "time": begin}, entered)),
        }


def _columns_of(zone: int) -> tuple[str, str]:
    return f"since_{zone}", f"metres_{zone}"


def _select(columns: Mapping[str, Array], which: Longs) -> dict[str, Array]:
    return {name: values[which] for name, values in columns.items()}


def _hold(vehicles: KeyedTable, rows: Longs, zones: int) -> Followed:
    """Return copies of the rows of vehicles."""
    time, x, y = (vehicles[name][rows] for name in ("time", "x", "y"))
    columns: list[Sequence[str]] = [_columns_of(zone) for zone in range(zones)]
    since, metres = (np.stack([vehicles[names[part]][rows] for names in columns], axis=1) for part in (0, 1))
    return Followed(time, x, y, since, metres)


def _put_back(vehicles: KeyedTable, rows: Longs, held: Followed) -> None:
    for name, values in zip(("time", "x", "y"), held, strict=False):
        vehicles[name][rows] = values
    for zone in range(held.since.shape[1]):
        since, metres = _columns_of(zone)
        vehicles[since][rows], vehicles[metres][rows] = held.since[:, zone], held.metres[:, zone]


def _note(stream: KeyedTable, tuples: Train) -> None:
    """Remember the last arrival, by which visits leave that end with the input."""
    row = stream.rows({"": np.zeros(1)})
    for name, values in (("arrival", tuples.order[:, 0]), ("arrived", tuples.ts)):
        stream[name][row] = np.maximum(stream[name][row], values.max(initial=0))
