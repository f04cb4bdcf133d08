"""Boxes on each position and the one before it: near a place, in and out of a zone, distance travelled, arrivals.

Positions are in degrees, and distances geodesics of WGS84 (``_moving.space.geodesic``); with ``plane``, both are in
metres of a plane. Only positions count, not the path between them. Tuples of an id must be in order.

Memory can be cleared: with ``every``, a box forgets an id at each multiple of it, as if its next tuple were the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from slipstream._errors import BadInput
from slipstream._moving.kernels.fence_kernels import NEVER, are_near, find_before, find_dwellings
from slipstream._moving.space.geodesic import distances, near_point, near_segment
from slipstream._network.algebra import Schema
from slipstream._network.boxes.movement.zones import Zone, check_zone, find_inside
from slipstream._network.boxes.operators import Array, KeyedTable, Operator, State, register, require
from slipstream._network.boxes.windows.window_functions import NULL_INTEGER
from slipstream._network.flow import Train
from slipstream._tools.numba_tools import Bools, Floats, Longs, compiled

_IDS = "ids"
#: of an id: the span in which it was last seen, without ``every`` always the same
_SPAN = "span seen"


def floats(tuples: Train, *names: str) -> list[Floats]:
    """Return columns as numbers that kernels take."""
    return [np.ascontiguousarray(tuples[name], np.float64) for name in names]


def check_new(box: str, column: str, tuples: Schema) -> None:
    """Refuse a column that is there already."""
    if column in tuples:
        raise BadInput(
            f"{box}: there is a column {column!r} already.", hint="Rename it with a map box.", code="duplicate-name"
        )


@dataclass(frozen=True)
class _Positions(Operator):
    """What all of these boxes need."""

    lon: str
    lat: str
    plane: bool = field(default=False, kw_only=True)

    def _find_near(self, lon: Floats, lat: Floats, at: Sequence[float], metres: float) -> Bools:
        if self.plane:
            return are_near(lon, lat, float(at[0]), float(at[1]), float(metres))
        return near_point(lon, lat, float(at[0]), float(at[1]), float(metres))

    def _require(self, tuples: Schema) -> None:
        require(tuples, self.lon, "double", "bigint")
        require(tuples, self.lat, "double", "bigint")


@register
@dataclass(frozen=True)
class Near(_Positions):
    """Each tuple, and as ``column`` whether it is at most ``metres`` from a place.

    ``place`` is a point (lon, lat), or an edge (lon, lat, lon, lat), which is part of a great circle.
    """

    name = "near"
    place: tuple[float, ...]
    metres: float
    column: str = "near"

    def __post_init__(self) -> None:
        object.__setattr__(self, "place", tuple(map(float, self.place)))
        if len(self.place) not in ((2,) if self.plane else (2, 4)):
            raise BadInput(
                f"near: a place of {len(self.place)} numbers.",
                hint="Give a point (lon, lat), or in degrees an edge (lon, lat, lon, lat).",
                code="malformed-value",
                found=list(self.place),
            )

    def outputs(self, tuples: Schema) -> Mapping[str, Schema]:
        """The tuples, with a column."""
        self._require(tuples)
        check_new(self.name, self.column, tuples)
        return {"out": {**tuples, self.column: "boolean"}}

    def step(self, state: State, tuples: Train) -> Mapping[str, Train]:  # noqa: ARG002
        """Decide for each tuple."""
        lon, lat = floats(tuples, self.lon, self.lat)
        return {"out": tuples.plus(**{self.column: self._find(lon, lat)})}

    def _find(self, lon: Floats, lat: Floats) -> Bools:
        if len(self.place) == 2:
            return self._find_near(lon, lat, self.place, self.metres)
        west, south, east, north = self.place
        return near_segment(lon, lat, west, south, east, north, float(self.metres))


@dataclass(frozen=True)
class Tracks(_Positions):
    """Boxes that remember something of each id."""

    id: str
    time: str
    every: int = 0

    def _require(self, tuples: Schema) -> None:
        super()._require(tuples)
        require(tuples, self.id, "bigint", "string")
        require(tuples, self.time, "bigint")

    @property
    def key(self) -> tuple[str, ...]:
        """Ids never meet."""
        return (self.id,)

    def _spans(self, tuples: Train) -> Longs:
        return tuples[self.time] // self.every if self.every else np.zeros(len(tuples), np.int64)

    def _ids(self, tuples: Schema, **columns: tuple[str, float]) -> State:
        return {_IDS: KeyedTable({self.id: tuples[self.id]}, {_SPAN: ("integer", NULL_INTEGER), **columns})}


@dataclass(frozen=True)
class _AtZone(Tracks):
    """Boxes on a zone: a box (west, south, east, north), or a polygon in WKT or GeoJSON; with its border."""

    zone: Zone = ()

    def __post_init__(self) -> None:
        if not isinstance(self.zone, str):
            object.__setattr__(self, "zone", tuple(map(float, self.zone)))
        check_zone(self.zone)


@register
@dataclass(frozen=True)
class Entering(_AtZone):
    """The tuples at which an id enters a zone: it is inside, and the tuple before it was not. ``left``: it leaves.

    The first tuple of an id enters if it is inside.
    """

    name = "entering"
    ports = ("entered", "left")
    passes_key = True

    def outputs(self, tuples: Schema) -> Mapping[str, Schema]:
        """The columns of the input."""
        self._require(tuples)
        return {"entered": tuples, "left": tuples}

    def fresh(self, tuples: Schema) -> State:
        """No ids."""
        return self._ids(tuples, inside=("integer", 0))

    def step(self, state: State, tuples: Train) -> Mapping[str, Train]:
        """Compare each tuple with the one before it."""
        inside = find_inside(self.zone, *floats(tuples, self.lon, self.lat))
        ids = state[_IDS]
        rows = ids.rows(tuples.columns)
        spans = self._spans(tuples)
        known = ids.swap(_SPAN, rows, spans) == spans
        was = find_before(rows, inside, ids["inside"]) & known
        return {"entered": tuples.take(inside & ~was), "left": tuples.take(was & ~inside)}


@register
@dataclass(frozen=True)
class Dwelling(_AtZone):
    """The tuples at which an id has been in a zone for ``least`` since it entered, in units of time; once per stay."""

    name = "dwelling"
    passes_key = True
    least: int = 0

    def outputs(self, tuples: Schema) -> Mapping[str, Schema]:
        """The columns of the input."""
        self._require(tuples)
        if self.every:
            raise BadInput("dwelling: `every` cannot be given.", hint="Leave it out.", code="conflicting-options")
        return {"out": tuples}

    def fresh(self, tuples: Schema) -> State:
        """No ids."""
        return self._ids(tuples, since=("integer", NEVER), done=("integer", 0))

    def step(self, state: State, tuples: Train) -> Mapping[str, Train]:
        """Follow the stays of ids."""
        inside = find_inside(self.zone, *floats(tuples, self.lon, self.lat))
        ids = state[_IDS]
        rows = ids.rows(tuples.columns)
        least = np.full(len(ids), self.least)
        time = np.ascontiguousarray(tuples[self.time])
        return {"out": tuples.take(find_dwellings(rows, time, inside, least, ids["since"], ids["done"]))}


@compiled
def add_up(rows: Longs, steps: Floats, total: Floats) -> Floats:
    """Return the total of each row after each step; a step that is not a number starts again at 0."""
    out = np.empty_like(steps)
    for i in range(rows.size):
        total[rows[i]] = 0.0 if np.isnan(steps[i]) else total[rows[i]] + steps[i]
        out[i] = total[rows[i]]
    return out


@register
@dataclass(frozen=True)
class Travelled(Tracks):
    """Each tuple, and as ``column`` the metres that its id has travelled so far: 0 at its first tuple."""

    name = "travelled"
    passes_key = True
    column: str = "metres"

    def outputs(self, tuples: Schema) -> Mapping[str, Schema]:
        """The tuples, with a column."""
        self._require(tuples)
        check_new(self.name, self.column, tuples)
        return {"out": {**tuples, self.column: "float"}}

    def fresh(self, tuples: Schema) -> State:
        """No ids."""
        return self._ids(tuples, lon=("float", 0), lat=("float", 0), metres=("float", 0))

    def step(self, state: State, tuples: Train) -> Mapping[str, Train]:
        """Add the distance from the tuple before."""
        ids = state[_IDS]
        rows = ids.rows(tuples.columns)
        lon, lat = floats(tuples, self.lon, self.lat)
        spans = self._spans(tuples)
        known = ids.swap(_SPAN, rows, spans) == spans
        before = ids.swap("lon", rows, lon), ids.swap("lat", rows, lat)
        apart = np.hypot(lon - before[0], lat - before[1]) if self.plane else distances(*before, lon, lat)
        steps = np.where(known, apart, np.nan)
        return {"out": tuples.plus(**{self.column: add_up(rows, steps, ids["metres"])})}


@register
@dataclass(frozen=True)
class Arrivals(Tracks):
    """The first tuple of an id within the radius of each point of interest: its id, the point's, and the time.

    A point of interest is (number, lon, lat, metres).
    """

    name = "arrivals"
    passes_key = True
    points: tuple[tuple[float, ...], ...] = ()
    column: str = "poi"

    def outputs(self, tuples: Schema) -> Mapping[str, Schema]:
        """The id, the point and the time."""
        self._require(tuples)
        if not self.points or any(len(point) != 4 for point in self.points):
            raise BadInput("arrivals: no points.", hint="Give (number, lon, lat, metres).", code="malformed-value")
        return {"out": {self.id: tuples[self.id], self.column: "integer", self.time: tuples[self.time]}}

    def fresh(self, tuples: Schema) -> State:
        """No ids."""
        return self._ids(tuples, **{f"passed {i}": ("integer", NULL_INTEGER) for i in range(len(self.points))})

    def step(self, state: State, tuples: Train) -> Mapping[str, Train]:
        """Find tuples near a point that the id has not passed yet."""
        ids = state[_IDS]
        rows = ids.rows(tuples.columns)
        lon, lat = floats(tuples, self.lon, self.lat)
        spans = self._spans(tuples)
        found: list[Longs] = []
        for i, (_, at_lon, at_lat, metres) in enumerate(self.points):
            near = np.flatnonzero(self._find_near(lon, lat, (at_lon, at_lat), metres))
            before = ids.swap(f"passed {i}", rows[near], spans[near])
            found.append(near[before != spans[near]])
        return {"out": self._train(tuples, found)}

    def _train(self, tuples: Train, found: list[Longs]) -> Train:
        place = np.concatenate(found)
        numbers = np.repeat([int(point[0]) for point in self.points], [which.size for which in found])
        order = np.lexsort((numbers, place))
        passed = tuples.take(place[order])
        columns: dict[str, Array] = {self.id: passed[self.id], self.time: passed[self.time]}
        return passed.with_columns({**columns, self.column: numbers[order]})


@register
@dataclass(frozen=True)
class FirstSeen(Operator):
    """The first tuple of each id."""

    name = "first_seen"
    passes_key = True
    id: str

    @property
    def key(self) -> tuple[str, ...]:
        """Ids never meet."""
        return (self.id,)

    def outputs(self, tuples: Schema) -> Mapping[str, Schema]:
        """The columns of the input."""
        require(tuples, self.id, "bigint", "string")
        return {"out": tuples}

    def fresh(self, tuples: Schema) -> State:
        """No ids."""
        return {_IDS: KeyedTable({self.id: tuples[self.id]}, {"seen": ("integer", 0)})}

    def step(self, state: State, tuples: Train) -> Mapping[str, Train]:
        """Let ids pass that are new."""
        rows = state[_IDS].codes(tuples.columns)
        seen = state[_IDS]["seen"]
        new = find_first(rows, seen)
        state[_IDS].table.touch(rows[new])
        return {"out": tuples.take(new)}


@compiled
def find_first(rows: Longs, seen: Longs) -> Bools:
    """Return which tuples are the first of their row; marks rows as seen."""
    out = np.empty(rows.size, np.bool_)
    for i in range(rows.size):
        out[i] = seen[rows[i]] == 0
        seen[rows[i]] = 1
    return out
