"""How points move: speed, acceleration, direction, distance covered, average place, stops, extents."""

from __future__ import annotations

from typing import Any

import numpy as np

from slipstream._moving import timeline
from slipstream._moving.columns import Boxes, MPoints, Periods, Temporals
from slipstream._moving.timeline import Sequences, lay_out, sequences
from slipstream._moving.types import LINEAR, MICROS, STEP
from slipstream._tools.numba_tools import Bools, Floats, Longs, compiled


def _steps(m: MPoints, of: Sequences, value: Floats, t: Longs) -> Temporals:
    """Return step functions from one value per unit of the given sequences, which have at least one unit each.

    The last vertex of a sequence repeats the value before it. ``t`` are the instants of all vertices.
    """
    n = len(m.rows) - 1
    size = of.last - of.first + 1
    at = np.arange(size.sum()) - np.repeat(np.arange(len(size)), size)
    at[np.cumsum(size) - 1] -= 1
    line = lay_out(n, of.row, size, t)
    return Temporals(line.rows, line.t, value[at], line.parts, line.starts, np.full(n, STEP, np.uint8))


def _with_units(m: MPoints, least: int = 1) -> Sequences:
    """Return the sequences of at least this many units."""
    found = sequences(m)
    kept = found.last - found.first >= least
    return Sequences(*(values[kept] for values in found))


def _ranges(first: Longs, size: Longs) -> Longs:
    """Return ``first[k], first[k] + 1, ...`` of the given sizes, one after another."""
    return np.arange(size.sum()) + np.repeat(first - np.cumsum(size) + size, size)


def _unit_motion(m: MPoints, of: Sequences) -> tuple[Longs, Floats, Floats, Floats]:
    """Return the first vertices of all units of some sequences, how far they lead east and north, and their seconds."""
    i = _ranges(of.first, of.last - of.first)
    return i, m.x[i + 1] - m.x[i], m.y[i + 1] - m.y[i], (m.t[i + 1] - m.t[i]) / MICROS


def speeds(m: MPoints) -> Temporals:
    """Return the speed of each unit, in metres per second; a single instant has none."""
    of = _with_units(m)
    _, dx, dy, seconds = _unit_motion(m, of)
    return _steps(m, of, np.hypot(dx, dy) / seconds, m.t[_ranges(of.first, of.last - of.first + 1)])


def accelerations(m: MPoints) -> Temporals:
    """Return how the speed changes from the middle of one unit to the middle of the next, per second.

    So the acceleration, summed over time, is the difference of the last and the first unit's speed.
    """
    of = _with_units(m, 2)
    i, dx, dy, seconds = _unit_motion(m, of)
    speed, middle = np.hypot(dx, dy) / seconds, (m.t[i] + m.t[i + 1]) // 2
    size = of.last - of.first
    u = _ranges(np.cumsum(size) - size, size - 1)
    change = (speed[u + 1] - speed[u]) / ((middle[u + 1] - middle[u]) / MICROS)
    return _steps(m, Sequences(of.row, of.first, of.first + size - 1), change, middle)


def directions(m: MPoints) -> Temporals:
    """Return the direction of each unit, in degrees clockwise from north (y), while the point moves."""
    of = _with_units(m)
    i, dx, dy, _ = _unit_motion(m, of)
    moves = (dx != 0) | (dy != 0)
    sequence = np.repeat(np.arange(len(of.row)), of.last - of.first)
    continues = np.append(False, moves[1:] & moves[:-1] & (sequence[1:] == sequence[:-1]))[: len(i)]
    begins = np.flatnonzero(moves & ~continues)
    counted = np.append(np.searchsorted(np.flatnonzero(moves), begins), np.count_nonzero(moves))
    size = np.asarray(counted[1:] - counted[:-1], np.int64)
    pieces = Sequences(of.row[sequence[begins]], i[begins], i[begins] + size)
    value = np.degrees(np.arctan2(dx[moves], dy[moves])) % 360.0
    return _steps(m, pieces, value, m.t[_ranges(pieces.first, size + 1)])


@compiled
def _covered(m: MPoints) -> Floats:
    """Return how far each point has come at each vertex of the rows; each row is summed on its own."""
    out = np.zeros(m.rows[-1] - m.rows[0])
    for row in range(len(m.rows) - 1):
        total = 0.0
        for k in range(m.parts[row], m.parts[row + 1]):
            first, last = timeline.sequence(m, row, k)
            out[first - m.rows[0]] = total
            for i in range(first + 1, last):
                total += np.hypot(m.x[i] - m.x[i - 1], m.y[i] - m.y[i - 1])
                out[i - m.rows[0]] = total
    return out


def distances_covered(m: MPoints) -> Temporals:
    """Return how far each point has travelled since its beginning, in metres."""
    inner = slice(m.rows[0], m.rows[-1])
    rows = (m.rows - m.rows[0]).astype(np.int32)
    parts, starts = (m.parts - m.parts[0]).astype(np.int32), m.starts[m.parts[0] : m.parts[-1]]
    return Temporals(rows, m.t[inner], _covered(m), parts, starts, np.full(len(rows) - 1, LINEAR, np.uint8))


def coordinate(m: MPoints, value: Floats) -> Temporals:
    """Return the eastings or northings of points as numbers over time."""
    return Temporals(m.rows, m.t, value, m.parts, m.starts, timeline.interpolations(m))


def extents(row: Longs, n: int, x: Floats, y: Floats, t: Longs) -> tuple[Bools, Boxes]:
    """Return which rows have vertices, and the smallest boxes around them."""

    def edge(ufunc: np.ufunc, values: Floats | Longs, start: float) -> Any:
        out = np.full(n, start, values.dtype)
        ufunc.at(out, row, values)
        return out

    found = np.bincount(row, minlength=n) > 0
    low = (edge(np.minimum, x, np.inf), edge(np.minimum, y, np.inf))
    high = (edge(np.maximum, x, -np.inf), edge(np.maximum, y, -np.inf))
    span = edge(np.minimum, t, np.iinfo(np.int64).max), edge(np.maximum, t, np.iinfo(np.int64).min)
    return found, Boxes(*low, *high, *span)


@compiled
def _stays(m: MPoints, first: int, end: int, metres: float, box: Floats) -> bool:
    """Return whether vertex ``end`` is within ``metres`` of all of ``first:end``; widen their bounding box to it."""
    x, y = m.x[end], m.y[end]
    box[0], box[1] = min(box[0], x), min(box[1], y)
    box[2], box[3] = max(box[2], x), max(box[3], y)
    width, height = box[2] - box[0], box[3] - box[1]
    if width > metres or height > metres:
        return False
    if np.hypot(width, height) <= metres:
        return True
    return bool((np.hypot(m.x[first:end] - x, m.y[first:end] - y) <= metres).all())


@compiled
def stops(m: MPoints, metres: Floats, least: Longs) -> Periods:
    """Return when points stop: runs of vertices of which no two are more than ``metres`` apart, at least so long.

    From the first vertex of a sequence on, each run is as long as possible; the next one is sought after its end, or,
    if it was too short, from its second vertex on. ``least`` is in microseconds.
    """
    n = len(m.rows) - 1
    rows, begin, end = np.zeros(n + 1, np.int32), np.empty(len(m.t), np.int64), np.empty(len(m.t), np.int64)
    at, box = 0, np.empty(4)
    for row in range(n):
        for k in range(m.parts[row], m.parts[row + 1]):
            i, last = timeline.sequence(m, row, k)
            while i + 1 < last:
                box[0], box[1], box[2], box[3] = m.x[i], m.y[i], m.x[i], m.y[i]
                j = i + 1
                while j < last and _stays(m, i, j, metres[row], box):
                    j += 1
                if j - i > 1 and m.t[j - 1] - m.t[i] >= least[row]:
                    begin[at], end[at] = m.t[i], m.t[j - 1]
                    at += 1
                    i = j
                else:
                    i += 1
        rows[row + 1] = at
    return Periods(rows, begin[:at], end[:at])
