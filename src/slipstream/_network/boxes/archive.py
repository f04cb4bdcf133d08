"""The archive box: tuples with an id, a time and a position become trips, which an output stores as moving points.

The box cuts the stream of each id into trips (``_archive.silences``). A trip is emitted when it is over, as its points
in order, with the number of the trip. An output directly after the box stores a row per trip instead, with the points
in a column ``Trip`` of moving points (``to_trips``), so that ``slipstream._archive.open_archive`` can read it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slipstream._archive.ended_trips import MOVING, moving_points
from slipstream._archive.open_trips import REJECTED, Ended, OpenTrips, Rows
from slipstream._archive.silences import SilenceRule
from slipstream._cuboid.schema import KEY
from slipstream._errors import BadInput
from slipstream._feeds.trip import EXIT_LANE
from slipstream._io.formats.decoding import TYPES
from slipstream._network.algebra import Network, Node, Schema
from slipstream._network.boxes.operators import KeyedTable, Operator, State, register, require
from slipstream._network.boxes.windows.window_functions import nulls
from slipstream._network.column_types import plain_type
from slipstream._network.flow import Train
from slipstream._runtime.state.store import Store
from slipstream._tools.numba_tools import Bools, Longs

Array = npt.NDArray[Any]

#: the columns of a trip's points, in addition to the id: the number of the trip, seconds since 1970, the position
_POINT: Schema = {"trip": "integer", "time": "float", "x": "float", "y": "float"}
_REASON = "reason"
#: why a tuple is not in a trip
FINE, NULL, TIME, LATE, ORDER = range(5)
REASONS = np.array([None, "null", "time", "late", "order"], object)
_MICROS = 1_000_000
#: seconds of the years 1 and 10000
_FIRST, _END = -62_135_596_800, 253_402_300_800


class KeptTrips:
    """Open trips, with their own store."""

    stores = ("points",)

    def __init__(self, rule: SilenceRule) -> None:
        self.open = OpenTrips(rule)

    def save(self, stores: Sequence[Store], batch: int) -> None:
        """Write what changed."""
        self.open.save(stores[0], batch)

    def load(self, stores: Sequence[Store]) -> None:
        """Load the saved state."""
        self.open.load(stores[0])

    def publish(self, snapshot: Path, number: int, batch: int) -> None:
        """Open trips are not published."""

    def measure(self) -> tuple[int, int]:
        """The points of open trips, and the bytes they take."""
        return len(self.open.points), self.open.nbytes


@register
@dataclass(frozen=True)
class Archive(Operator):
    """Cuts a stream into trips, one id at a time: a silence of more than ``gap`` seconds ends a trip.

    Where tuples have a ``direction``, a change of it ends a trip, too; where they have a ``lane``, so does entering
    again after the exit lane (4). Where they have a ``road``, a vehicle has trips on each road of its own. With all
    three, and a gap of 30 seconds, trips are those of Linear Road.

    Tuples may be out of order by ``lateness`` seconds (``gap`` by default), as long as those of one id are in order;
    others go to the port ``rejects``, with the reason: ``null`` (a column above), ``time`` (not a valid date),
    ``late``, or ``order`` (not after the previous tuple of the id).
    """

    name = "archive"
    ports = ("trips", "rejects")
    id: str
    time: str
    x: str
    y: str
    gap: float
    lateness: float | None = None
    road: str = ""
    direction: str = ""
    lane: str = ""

    @property
    def rule(self) -> SilenceRule:
        """What a trip is, in microseconds."""
        lateness = self.gap if self.lateness is None else self.lateness
        return SilenceRule(round(self.gap * _MICROS), round(lateness * _MICROS))

    def outputs(self, tuples: Schema) -> Mapping[str, Schema]:
        """Points of trips, and rejected tuples."""
        require(tuples, self.id, "bigint", "string")
        for column in (self.time, self.x, self.y):
            require(tuples, column, "bigint", "double")
        for column in self._whole:
            require(tuples, column, "bigint")
        if not self.gap > 0 or self.rule.lateness < 0:
            raise BadInput(
                "archive: gap or lateness is out of range.",
                hint="gap > 0 and lateness >= 0, in seconds.",
                code="out-of-range",
            )
        for column, taken in ((self.id, _POINT), (_REASON, tuples)):
            if column in taken:
                raise BadInput(
                    f"archive: the column name {column!r} is reserved.",
                    hint="Rename it with a map box.",
                    code="bad-name",
                    found=column,
                )
        return {"trips": {self.id: tuples[self.id], **_POINT}, "rejects": {**tuples, _REASON: "text"}}

    def fresh(self, tuples: Schema) -> State:
        """Open trips, the number of trips so far, and the last tuple; movers as numbers."""
        stream = {"trips": ("integer", 0), "arrival": ("integer", 0), "arrived": ("integer", 0)}
        mover = {column: tuples[column] for column in (self.id, self.road) if column}
        is_numbered = self.road or plain_type(tuples[self.id]) == "text"
        ids = {"ids": KeyedTable(mover, {})} if is_numbered else {}
        return {"open": KeptTrips(self.rule), "stream": KeyedTable({}, stream), **ids}

    def step(self, state: State, tuples: Train) -> Mapping[str, Train]:
        """Add points; returns the trips that are over, and rejects."""
        reason, micros = np.full(len(tuples), FINE, np.uint8), to_micros(tuples[self.time])
        reason[is_invalid_time(tuples[self.time])] = TIME
        reason[self._find_unusable(tuples)] = NULL
        trips: OpenTrips = state["open"].open
        whole = np.flatnonzero(reason == FINE)
        reached = self.rule.reached(trips.newest, micros[whole])
        late = micros[whole] + self.rule.lateness < reached
        reason[whole[late]] = LATE
        taken = whole[~late]
        ended, verdict = trips.take(self._make_points(state, tuples.take(taken), micros[taken]))
        reason[taken[verdict == REJECTED]] = ORDER
        self._note(state, tuples)
        triggers = self._find_triggers(ended, taken, whole, reached)
        rejected = np.flatnonzero(reason != FINE)
        return {
            "trips": self._train(state, ended, tuples.take(triggers)),
            "rejects": tuples.take(rejected).plus(**{_REASON: REASONS[reason[rejected]]}),
        }

    def finish(self, state: State, width: int) -> Mapping[str, Train]:
        """End all trips when the input has ended; they are emitted after the last tuple."""
        ended, _ = state["open"].open.take(np.empty(0, self.rule.point.dtype), last=True)
        count, stream = ended.key.size, state["stream"]
        order = np.zeros((count, width), np.int64)
        order[:, 0] = stream["arrival"][0]
        like = Train(np.full(count, stream["arrived"][0]), np.zeros(count, np.int64), order, {})
        return {"trips": self._train(state, ended, like)}

    @property
    def _whole(self) -> tuple[str, ...]:
        """The integer columns that, with the time, decide where a trip ends."""
        return tuple(column for column in (self.road, self.direction, self.lane) if column)

    def _find_unusable(self, tuples: Train) -> Bools:
        """Return where a required column is missing or not finite."""
        found: Bools = np.logical_or.reduce([nulls(tuples[column]) for column in (self.id, *self._whole)])
        for column in (self.time, self.x, self.y):
            values = tuples[column]
            found = found | nulls(values) | (~np.isfinite(values) if values.dtype.kind == "f" else False)
        return np.asarray(found)

    def _make_points(self, state: State, tuples: Train, micros: Longs) -> Rows:
        points = np.zeros(len(tuples), self.rule.point.dtype)
        points[KEY] = state["ids"].codes(tuples.columns) if "ids" in state else tuples[self.id]
        points["time"], points["x"], points["y"] = micros, tuples[self.x], tuples[self.y]
        if self.direction:
            points["dir"] = tuples[self.direction]
        if self.lane:
            points["lane"] = np.where(tuples[self.lane] == EXIT_LANE, EXIT_LANE, 0)
        return points

    def _note(self, state: State, tuples: Train) -> None:
        rows = state["stream"].rows({"": tuples.ts[:1]})
        for name, values in (("arrival", tuples.order[:, 0]), ("arrived", tuples.ts)):
            column = state["stream"][name]
            column[rows] = np.maximum(column[rows], values.max(initial=0))

    def _find_triggers(self, ended: Ended, taken: Longs, whole: Longs, reached: Longs) -> Longs:
        """The tuple that ended each trip: the id's next one, or one that shows that the id is silent.

        The earlier of the two, so that trips are emitted at the same tuple wherever a stream is cut into trains.
        """
        last = ended.points["time"][np.cumsum(ended.size) - 1]
        own = np.append(taken, np.iinfo(np.int64).max)[ended.by]
        silent = np.searchsorted(reached, last + self.rule.gap + self.rule.lateness, side="right")
        return np.asarray(np.minimum(own, np.append(whole, np.iinfo(np.int64).max)[silent]))

    def _train(self, state: State, ended: Ended, triggers: Train) -> Train:
        """Trips as a train, those that were over with one tuple by their ids; ``triggers`` has a tuple for each."""
        order = np.lexsort((ended.key, *triggers.order.T[::-1]))
        stream = state["stream"]
        first = int(stream["trips"][0])
        stream["trips"][stream.rows({"": order[:1]})] = first + order.size
        size, starts = ended.size[order].astype(np.int64), (np.cumsum(ended.size) - ended.size)[order]
        points = ended.points.take(np.repeat(starts - np.cumsum(size) + size, size) + np.arange(size.sum()))
        key = np.repeat(ended.key[order], size)
        columns = {
            self.id: state["ids"].keys(self.id, key) if "ids" in state else key,
            "trip": np.repeat(np.arange(first, first + order.size), size),
            "time": points["time"] / _MICROS,
            "x": points["x"],
            "y": points["y"],
        }
        return triggers.take(np.repeat(order, size)).with_columns(columns)


def to_micros(seconds: Array) -> Longs:
    """Convert seconds to microseconds; the result is arbitrary for invalid times."""
    with np.errstate(invalid="ignore"):
        bounded = np.clip(seconds, _FIRST, _END)
        return np.asarray(np.nan_to_num(np.round(bounded * _MICROS))).astype(np.int64)


def is_invalid_time(seconds: Array) -> Bools:
    """Return which times are in no year from 1 to 9999."""
    return np.asarray((seconds < _FIRST) | (seconds >= _END))


# --- outputs


def archive_boxes(network: Network) -> dict[str, Archive]:
    """The outputs that store trips, each with its box."""
    boxes = {node.name: node for node in network.nodes}
    found = {output.name: boxes.get(output.arc.origin) for output in network.outputs if not output.arc.port}
    return {name: node.box for name, node in found.items() if isinstance(node, Node) and isinstance(node.box, Archive)}


def make_trip_schema(box: Archive, schema: Schema) -> pa.Schema:
    """How an output stores trips, given the schema of their points."""
    return pa.schema([(box.id, TYPES[schema[box.id]]), ("Trip", MOVING)])


def to_trips(box: Archive, points: Mapping[str, pa.Array]) -> pa.Table:
    """Convert the points of consecutive trips to one row per trip."""
    trip = points["trip"].to_numpy()
    starts = np.flatnonzero(np.r_[True, trip[1:] != trip[:-1]])[: trip.size]
    time, x, y = (points[name].to_numpy(zero_copy_only=False) for name in ("time", "x", "y"))
    moving = moving_points(np.diff(np.r_[starts, trip.size]), np.round(time * _MICROS).astype(np.int64), x, y)
    return pa.table({box.id: points[box.id].take(pa.array(starts)), "Trip": moving})
