"""Kernels on two moving points or lines: relative motion, distance, when they meet.

The distance of two moving points is the length of their relative motion, which is linear on every common slice of
time; so distance is exactly the square root of a quadratic, and two points meet when their relative motion is zero.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slipstream._moving.columns import Lines, MBools, MPoints, MReals, Periods, Points, freeze, freeze_all
from slipstream._moving.kernels.places import round_inward, when_near_each
from slipstream._moving.timeline import first_least, interpolate, lay_out, meet, sequence, sequences, units, vertices
from slipstream._moving.types import MICROS
from slipstream._tools.numba_tools import Bools, Floats, Ints, Longs, compiled


@compiled
def _place(m: MPoints, i: int, t: int) -> tuple[float, float]:
    """Return the position at ``t``, at vertex ``i`` or after it."""
    if m.t[i] == t:
        return m.x[i], m.y[i]
    return interpolate(m.t[i], m.t[i + 1], m.x[i], m.x[i + 1], t), interpolate(
        m.t[i], m.t[i + 1], m.y[i], m.y[i + 1], t
    )


@compiled
def _differences(t: Longs, a: MPoints, first: Ints, b: MPoints, second: Ints) -> tuple[Floats, Floats]:
    """Return ``a - b`` at instants, from the vertices of both that these follow."""
    x, y = np.empty(len(t)), np.empty(len(t))
    for k in range(len(t)):
        ax, ay = _place(a, first[k], t[k])
        bx, by = _place(b, second[k], t[k])
        x[k], y[k] = ax - bx, ay - by
    return x, y


def relative(a: MPoints, b: MPoints) -> MPoints:
    """Return the moving points ``a - b``, while both are defined."""
    line, first, second = meet(a, b)
    x, y = _differences(line.t, a, first, b, second)
    return MPoints(line.rows, line.t, x, y, line.parts, line.starts)


@compiled
def norms(r: MPoints) -> MReals:
    """Return the distance of each moving point from the origin, unit by unit."""
    n = len(r.rows) - 1
    room = len(r.t)
    rows = np.zeros(n + 1, np.int32)
    begin, end = np.empty(room, np.int64), np.empty(room, np.int64)
    a, b, c = np.empty(room), np.empty(room), np.empty(room)
    at = 0
    for row in range(n):
        for k in range(r.parts[row], r.parts[row + 1]):
            first, last = sequence(r, row, k)
            for i in range(first, max(last - 1, first + 1)):
                j = min(i + 1, last - 1)
                begin[at], end[at] = r.t[i], r.t[j]
                seconds = (r.t[j] - r.t[i]) / MICROS
                vx = (r.x[j] - r.x[i]) / seconds if seconds > 0 else 0.0
                vy = (r.y[j] - r.y[i]) / seconds if seconds > 0 else 0.0
                a[at] = vx * vx + vy * vy
                b[at] = 2.0 * (r.x[i] * vx + r.y[i] * vy)
                c[at] = r.x[i] * r.x[i] + r.y[i] * r.y[i]
                at += 1
        rows[row + 1] = at
    return MReals(rows, begin[:at], end[:at], a[:at], b[:at], c[:at])


@compiled
def _below(a: float, b: float, c: float, seconds: float) -> tuple[float, float]:
    """Return where a s² + b s + c <= 0 for s in [0, seconds]; ``(1, 0)`` if nowhere. ``a`` is not negative."""
    if a == 0.0:
        if b == 0.0:
            return (0.0, seconds) if c <= 0.0 else (1.0, 0.0)
        root = -c / b
        low, high = (0.0, root) if b > 0.0 else (root, seconds)
    else:
        disc = b * b - 4.0 * a * c
        if disc < 0.0:
            return (1.0, 0.0)
        half = np.sqrt(disc)
        q = -0.5 * (b + half) if b >= 0.0 else -0.5 * (b - half)
        r0 = q / a
        r1 = c / q if q != 0.0 else r0
        low, high = min(r0, r1), max(r0, r1)
    low, high = max(low, 0.0), min(high, seconds)
    return (low, high) if low <= high else (1.0, 0.0)


@compiled
def at_most(m: MReals, limits: Floats) -> MBools:
    """Return whether each moving real is at most its limit: true intervals are closed, the rest is false."""
    n = len(m.rows) - 1
    room = 3 * len(m.begin)
    rows = np.zeros(n + 1, np.int32)
    begin, end, value = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.bool_)
    at = 0
    for row in range(n):
        limit = limits[row]
        for i in range(m.rows[row], m.rows[row + 1]):
            span = m.end[i] - m.begin[i]
            low, high = 1.0, 0.0
            if limit >= 0.0:
                low, high = _below(m.a[i], m.b[i], m.c[i] - limit * limit, span / MICROS)
            t0, t1 = m.begin[i], m.end[i]
            if low > high:
                at = _append(rows, row, begin, end, value, at, t0, t1, False)
                continue
            u0, u1 = t0, t1
            if span > 0:
                u0, u1 = round_inward(t0, span, low * MICROS / span, high * MICROS / span)
            if t0 < u0:
                at = _append(rows, row, begin, end, value, at, t0, u0, False)
            at = _append(rows, row, begin, end, value, at, u0, u1, True)
            if u1 < t1:
                at = _append(rows, row, begin, end, value, at, u1, t1, False)
        rows[row + 1] = at
    return MBools(rows, begin[:at], end[:at], value[:at])


@compiled
def _append(
    rows: Ints, row: int, begin: Longs, end: Longs, value: Bools, at: int, t0: int, t1: int, truth: bool
) -> int:
    """Add an interval of a moving boolean, merged with the previous one if that has the same value."""
    if at > rows[row] and value[at - 1] == truth and end[at - 1] >= t0:
        end[at - 1] = max(end[at - 1], t1)
        return at
    begin[at], end[at], value[at] = t0, t1, truth
    return at + 1


@compiled
def _to_segment(px: float, py: float, ax: float, ay: float, bx: float, by: float) -> float:
    """Return the distance of a point from a segment."""
    dx, dy = bx - ax, by - ay
    size = dx * dx + dy * dy
    s = 0.0 if size == 0.0 else min(1.0, max(0.0, ((px - ax) * dx + (py - ay) * dy) / size))
    return float(np.hypot(ax + s * dx - px, ay + s * dy - py))


@compiled
def segment_distance(ax: float, ay: float, bx: float, by: float, cx: float, cy: float, dx: float, dy: float) -> float:
    """Return the distance of the segments a-b and c-d: zero if they cross, else from an end."""
    d1 = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
    d2 = (bx - ax) * (dy - ay) - (by - ay) * (dx - ax)
    d3 = (dx - cx) * (ay - cy) - (dy - cy) * (ax - cx)
    d4 = (dx - cx) * (by - cy) - (dy - cy) * (bx - cx)
    if ((d1 > 0) != (d2 > 0)) and ((d3 > 0) != (d4 > 0)) and d1 != 0 and d2 != 0 and d3 != 0 and d4 != 0:
        return 0.0
    first = min(_to_segment(ax, ay, cx, cy, dx, dy), _to_segment(bx, by, cx, cy, dx, dy))
    second = min(_to_segment(cx, cy, ax, ay, bx, by), _to_segment(dx, dy, ax, ay, bx, by))
    return min(first, second)


BLOCK = 32


@compiled
def _segments(line: Lines, row: int) -> Floats:
    """Return the segments of a line (x0, y0, x1, y1); a single vertex is a segment without length."""
    room = line.rows[row + 1] - line.rows[row]
    out, at = np.empty((room, 4)), 0
    for k in range(line.parts[row], line.parts[row + 1]):
        first = line.rows[row] + line.starts[k]
        last = line.rows[row + 1]
        if k + 1 < line.parts[row + 1]:
            last = line.rows[row] + line.starts[k + 1]
        for i in range(first, max(last - 1, first + 1)):
            j = min(i + 1, last - 1)
            out[at, 0], out[at, 1], out[at, 2], out[at, 3] = line.x[i], line.y[i], line.x[j], line.y[j]
            at += 1
    return out[:at]


@compiled
def _block_boxes(segments: Floats) -> Floats:
    """Return the bounding boxes of each ``BLOCK`` consecutive segments."""
    n = (len(segments) + BLOCK - 1) // BLOCK
    out = np.empty((n, 4))
    for block in range(n):
        part = segments[block * BLOCK : (block + 1) * BLOCK]
        out[block, 0] = min(part[:, 0].min(), part[:, 2].min())
        out[block, 1] = min(part[:, 1].min(), part[:, 3].min())
        out[block, 2] = max(part[:, 0].max(), part[:, 2].max())
        out[block, 3] = max(part[:, 1].max(), part[:, 3].max())
    return out


@compiled
def _nearest(s: Floats, u: Floats, i0: int, j0: int, best: float) -> float:
    """Return the smallest distance of two blocks of segments, or ``best`` if that is smaller."""
    for i in range(i0, min(i0 + BLOCK, len(s))):
        for j in range(j0, min(j0 + BLOCK, len(u))):
            d = segment_distance(s[i, 0], s[i, 1], s[i, 2], s[i, 3], u[j, 0], u[j, 1], u[j, 2], u[j, 3])
            best = min(best, d)
        if best == 0.0:
            break
    return best


@compiled
def _line_distance(s: Floats, u: Floats) -> float:
    """Return the smallest distance of two sets of segments: first blocks with overlapping boxes, then by distance.

    Paths through one town usually cross, so the first pass usually ends the search and nothing is sorted.
    """
    sb, ub = _block_boxes(s), _block_boxes(u)
    bound, best = np.empty(len(sb) * len(ub)), np.inf
    for i in range(len(sb)):
        for j in range(len(ub)):
            dx = max(0.0, sb[i, 0] - ub[j, 2], ub[j, 0] - sb[i, 2])
            dy = max(0.0, sb[i, 1] - ub[j, 3], ub[j, 1] - sb[i, 3])
            bound[i * len(ub) + j] = np.hypot(dx, dy)
            if dx == 0.0 and dy == 0.0:
                best = _nearest(s, u, i * BLOCK, j * BLOCK, best)
                if best == 0.0:
                    return best
    left = np.flatnonzero((bound > 0.0) & (bound < best))
    for pair in left[np.argsort(bound[left])]:
        if bound[pair] >= best:
            break
        best = _nearest(s, u, (pair // len(ub)) * BLOCK, (pair % len(ub)) * BLOCK, best)
    return best


@compiled
def line_distances(a: Lines, b: Lines) -> Floats:
    """Return the smallest distance of each pair of lines; infinite if one is empty."""
    n = len(a.rows) - 1
    out = np.full(n, np.inf)
    for row in range(n):
        s, u = _segments(a, row), _segments(b, row)
        if len(s) and len(u):
            out[row] = _line_distance(s, u)
    return out


class Approach(NamedTuple):
    """Where two moving points come nearest: whether ever, how near, and the first instant at which."""

    found: Bools
    metres: Floats
    t: Longs


def nearest_approach(a: MPoints, b: MPoints) -> Approach:
    """Return where two moving points come nearest to each other while both are defined."""
    apart = relative(a, b)
    row, i = units(apart)
    dx, dy = apart.x[i + 1] - apart.x[i], apart.y[i + 1] - apart.y[i]
    size = dx * dx + dy * dy
    s = np.clip(-(apart.x[i] * dx + apart.y[i] * dy) / np.where(size > 0, size, 1.0), 0.0, 1.0)
    least = np.hypot(apart.x[i] + s * dx, apart.y[i] + s * dy)
    times = apart.t[i] + np.rint(s * (apart.t[i + 1] - apart.t[i])).astype(np.int64)
    every = vertices(apart)  # and the vertices, so that single instants count
    row, least = np.append(row, every.row), np.append(least, np.hypot(apart.x, apart.y))
    times = np.append(times, apart.t)
    order = np.lexsort((times, row))
    row, least, times = row[order], least[order], times[order]
    found, at = first_least(row, least, len(apart.rows) - 1)
    if not len(row):
        return Approach(found, np.zeros(len(found)), np.zeros(len(found), np.int64))
    return Approach(found, least[at], times[at])


def when_within(a: MPoints, b: MPoints, metres: Floats) -> tuple[MPoints, Periods]:
    """Return the motion of ``a`` as seen from ``b``, and when it is within ``metres``."""
    apart = freeze_all(relative(a, b))
    origin = freeze(np.zeros(len(apart.rows) - 1))
    return apart, when_near_each(apart, Points(origin, origin), metres)


def standing_still(place: Points, beside: MPoints) -> MPoints:
    """Return points that stand at a place as long as others are defined."""
    n = len(beside.rows) - 1
    found = sequences(beside)
    ends = np.where(found.last > found.first, 2, 1)
    both = np.stack([found.first, found.last], axis=1)
    kept = np.stack([np.ones(len(ends), np.bool_), ends == 2], axis=1)
    line = lay_out(n, found.row, ends, beside.t[both[kept]])
    x, y = (np.repeat(values, np.diff(line.rows)) for values in place)
    return freeze_all(MPoints(line.rows, line.t, x, y, line.parts, line.starts))
