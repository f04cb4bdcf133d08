"""Match a column of moving points: for each, what became of its positions, and how it moved along the roads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from slipstream._moving import columns, types
from slipstream._moving.columns import MPoints
from slipstream._roads.matching.lattice import ModelSettings, Road
from slipstream._roads.matching.matcher import Matcher, open_matcher
from slipstream._roads.matching.model import Model
from slipstream._roads.matching.routes import Trees, route_edges
from slipstream._roads.matching.speeding_rules import speeding_points
from slipstream._roads.matching.viterbi import ON, STATUS, WAITS, Matched
from slipstream._tools.numba_tools import Bools, Bytes, Floats, Ints, Longs, borrow, compiled

POINT = pa.struct(
    [
        ("t", types.INSTANT),
        ("status", pa.string()),
        ("edge", pa.int64()),
        ("offset", pa.float64()),
        ("direction", pa.int32()),
        ("aside", pa.float64()),
        ("x", pa.float64()),
        ("y", pa.float64()),
        ("confidence", pa.float64()),
        ("stretch", pa.int32()),
        ("limit_kmh", pa.float64()),
    ]
)
RESULT = pa.struct([("points", pa.list_(POINT)), (TRIP := "Trip", types.MPOINT.arrow)])
#: the same for Spark SQL
RESULT_SQL = (
    "struct<points:array<struct<t:timestamp,status:string,edge:bigint,offset:double,direction:int,aside:double,"
    f"x:double,y:double,confidence:double,stretch:int,limit_kmh:double>>,Trip:{types.MPOINT.sql}>"
)


def match_column(folder: str, model: Model, trips: pa.Array) -> pa.Array:
    """Match moving points to the roads in a folder; null where the moving point is null."""
    return match_trips(open_matcher(Path(folder), model), trips)


def speeding_column(folder: str, model: Model, seconds: float, trips: pa.Array, over: pa.Array) -> pa.Array:
    """Return where moving points are faster than the roads in a folder allow, by more than ``over`` km/h."""
    points = match_trips(open_matcher(Path(folder), model), trips).field("points")
    return speeding_points(points, seconds, np.array(over.fill_null(0.0), np.float64))


def match_trips(matcher: Matcher, trips: pa.Array) -> pa.Array:
    """Match a column of moving points."""
    given: MPoints = columns.read(trips)
    rows = given.rows.astype(np.int64)
    first = int(rows[0])
    rows, part = rows - first, slice(first, int(rows[-1]))
    t, x, y = given.t[part].copy(), given.x[part].copy(), given.y[part].copy()
    matched = matcher.match(rows, t, x, y)
    points = pa.ListArray.from_arrays(pa.array(rows.astype(np.int32)), make_point_column(matcher, rows, t, matched))
    along = _move_along(matcher.road, matcher.trees, matcher.settings, rows, t, x, y, matched)
    moving = columns.write(MPoints(*along), types.MPOINT)
    mask = trips.is_null() if trips.null_count else None
    return pa.StructArray.from_arrays([points, moving], fields=list(RESULT), mask=mask)


def stretches(rows: Longs, starts: Bools) -> Ints:
    """Number the stretches of each row from 1; positions before the first have 0."""
    total = np.concatenate(([0], np.cumsum(starts)))
    return np.asarray(total[1:] - np.repeat(total[rows[:-1]], np.diff(rows)), np.int32)


def make_point_column(matcher: Matcher, rows: Longs, t: Longs, matched: Matched) -> pa.StructArray:
    """Return the decisions as structs; what does not apply to a position on no road is null."""
    off = matched.status != ON
    direction = np.where(matcher.network.forward[matched.edge], 1, -1).astype(np.int32)
    fields: list[Any] = [
        pa.array(t).view(types.INSTANT),
        pa.array(STATUS[matched.status]),
        pa.array(matched.edge.astype(np.int64), mask=off),
        pa.array(matched.offset, mask=off),
        pa.array(direction, mask=off),
        *(pa.array(values, mask=off) for values in (matched.aside, matched.x, matched.y, matched.confidence)),
        pa.array(stretches(rows, matched.starts), mask=off),
        pa.array(matcher.network.vmax[matched.edge].astype(np.float64), mask=off),
    ]
    return pa.StructArray.from_arrays(fields, fields=list(POINT))


@compiled
def _move_along(
    road: Road, trees: Trees, how: ModelSettings, rows: Longs, t: Longs, x: Floats, y: Floats, matched: Matched
) -> tuple[Ints, Longs, Floats, Floats, Ints, Ints]:
    """Return moving points along the routes between matched positions: the columns of ``MPoints``."""
    road, trees, x, y, matched = borrow((road, trees, x, y, matched))
    room = 2 * len(t) + 16
    out_t, out_x, out_y = np.empty(room, np.int64), np.empty(room), np.empty(room)
    out_rows, parts = np.zeros(len(rows), np.int32), np.zeros(len(rows), np.int32)
    starts, n, sequences = np.empty(len(t), np.int32), 0, 0
    for r in range(len(rows) - 1):
        before, begin = -1, n
        for i in range(rows[r], rows[r + 1]):
            if matched.status[i] != ON:
                continue
            if matched.starts[i] or before < 0:
                starts[sequences] = n - begin
                sequences += 1
            else:
                inner_x, inner_y, metres = _move_between(road, trees, how, x, y, matched, before, i)
                while n + len(metres) + 1 > len(out_t):
                    out_t, out_x, out_y = _double(out_t), _double(out_x), _double(out_y)
                for k in range(len(metres) - 1):
                    now = t[before] + int((t[i] - t[before]) * metres[k] / max(metres[-1], 1e-9))
                    if out_t[n - 1] < now < t[i]:
                        out_t[n], out_x[n], out_y[n] = now, inner_x[k], inner_y[k]
                        n += 1
            if n == len(out_t):
                out_t, out_x, out_y = _double(out_t), _double(out_x), _double(out_y)
            out_t[n], out_x[n], out_y[n] = t[i], matched.x[i], matched.y[i]
            n += 1
            before = i
        out_rows[r + 1], parts[r + 1] = n, sequences
    return out_rows, out_t[:n], out_x[:n], out_y[:n], parts, starts[:sequences]


@compiled
def _double(values: Any) -> Any:
    more = np.empty(2 * len(values), values.dtype)
    more[: len(values)] = values
    return more


@compiled
def _move_between(
    road: Road, trees: Trees, how: ModelSettings, x: Floats, y: Floats, matched: Matched, i: int, k: int
) -> tuple[Floats, Floats, Floats]:
    """Return the vertices between two matched positions and their metres from the first; last, those of the second."""
    a, b, at_a, at_b = matched.edge[i], matched.edge[k], matched.offset[i], matched.offset[k]
    backwards = 5.0 * how.noise
    size = road.shape[a + 1] - road.shape[a] + road.shape[b + 1] - road.shape[b] + 1
    inner, is_same = np.empty(0, np.int32), a == b and at_b >= at_a - backwards
    turns_round = road.turns.reverse[a] == b
    if not is_same and not turns_round:
        straight = np.hypot(x[k] - x[i], y[k] - y[i])
        limit = 6.0 * straight + 2000.0
        inner = route_edges(road.turns, trees, a, at_a, b, at_b, limit, backwards)
        for place in range(len(inner)):
            size += road.shape[inner[place] + 1] - road.shape[inner[place]]
    out_x, out_y, metres, n, total = np.empty(size), np.empty(size), np.empty(size), 0, 0.0
    if is_same:
        n = _add_vertices(road, a, at_a, at_b, 0.0, out_x, out_y, metres, n)
        total = max(0.0, at_b - at_a)
    elif turns_round:
        total = abs(road.turns.length[a] - at_b - at_a)
    else:
        n = _add_vertices(road, a, at_a, road.turns.length[a] + 1.0, 0.0, out_x, out_y, metres, n)
        total = road.turns.length[a] - at_a
        for place in range(len(inner)):
            edge = int(inner[place])
            n = _add_vertices(road, edge, -1.0, road.turns.length[edge] + 1.0, total, out_x, out_y, metres, n)
            total += road.turns.length[edge]
        n = _add_vertices(road, b, -1.0, at_b, total, out_x, out_y, metres, n)
        total += at_b
    metres[n] = total
    return out_x[:n], out_y[:n], metres[: n + 1]


@compiled
def _add_vertices(
    road: Road, edge: int, above: float, below: float, total: float, x: Floats, y: Floats, metres: Floats, n: int
) -> int:
    """Add the vertices of an edge between two offsets; ``total`` metres lead to the first of them."""
    at = 0.0
    for k in range(road.shape[edge], road.shape[edge + 1]):
        if k > road.shape[edge]:
            at += np.hypot(road.x[k] - road.x[k - 1], road.y[k] - road.y[k - 1])
        if above < at < below:
            x[n], y[n], metres[n] = road.x[k], road.y[k], total + at - max(above, 0.0)
            n += 1
    return n


def count_status(status: Bytes) -> dict[str, int]:
    """Return how many positions are on a road, off the road, and jumps."""
    found = np.bincount(status, minlength=WAITS + 1)
    return {str(name): int(found[number]) for number, name in enumerate(STATUS[:WAITS])}
