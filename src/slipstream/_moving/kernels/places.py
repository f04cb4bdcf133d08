"""Kernels on a moving point and a place: when it is at or near a point, when it is in a region."""

from __future__ import annotations

import numpy as np

from slipstream._moving.columns import Lines, MPoints, Periods, Points, freeze
from slipstream._moving.timeline import is_superseded, sequence
from slipstream._moving.types import BORDER
from slipstream._tools.numba_tools import Bools, Floats, Ints, Longs, compiled


@compiled
def grow(array: Longs, used: int) -> Longs:
    """Return ``array`` with room for at least one more value after ``used``."""
    if used < len(array):
        return array
    bigger = np.empty(2 * len(array) + 16, np.int64)
    bigger[:used] = array[:used]
    return bigger


@compiled
def round_inward(t0: int, span: int, low: float, high: float) -> tuple[int, int]:
    """Round ``[low, high]`` (fractions of ``span`` after ``t0``) inward to microseconds; to the nearest if empty."""
    begin, end = int(np.ceil(low * span)), int(np.floor(high * span))
    if begin > end:
        begin = end = int(np.rint(0.5 * (low + high) * span))
    return t0 + begin, t0 + end


@compiled
def near_on_unit(x0: float, y0: float, x1: float, y1: float, px: float, py: float, d: float) -> tuple[float, float]:
    """Return the part of a unit (as fractions) within ``d`` of a point; ``(1, 0)`` if none.

    Finds the nearest point of the path first and measures its distance there, which avoids differences of large
    squares.
    """
    dx, dy = x1 - x0, y1 - y0
    speed2 = dx * dx + dy * dy
    if speed2 == 0.0:
        return (0.0, 1.0) if np.hypot(x0 - px, y0 - py) <= d else (1.0, 0.0)
    nearest = ((px - x0) * dx + (py - y0) * dy) / speed2
    off = np.hypot(x0 + nearest * dx - px, y0 + nearest * dy - py)
    if off > d + 1e-9:
        return (1.0, 0.0)
    half = np.sqrt(max(0.0, (d - off) * (d + off)) / speed2)
    low, high = (max(0.0, nearest - half), min(1.0, nearest + half)) if off <= d else (1.0, 0.0)
    # at its ends the distance is known exactly
    if np.hypot(x0 - px, y0 - py) <= d:
        low, high = 0.0, max(high, 0.0)
    if np.hypot(x1 - px, y1 - py) <= d:
        low, high = min(low, 1.0), 1.0
    return (low, high) if low <= high else (1.0, 0.0)


@compiled
def _apart(m: MPoints, i: int, j: int, x0: float, y0: float, x1: float, y1: float) -> bool:
    """Return whether the bounding box of the unit ``i -> j`` lies outside another box."""
    outside = min(m.x[i], m.x[j]) > x1 or max(m.x[i], m.x[j]) < x0
    return bool(outside or min(m.y[i], m.y[j]) > y1 or max(m.y[i], m.y[j]) < y0)


def when_near(m: MPoints, places: Points, d: float, first_only: bool) -> Periods:
    """Return when each moving point is within ``d`` metres of its place; ``first_only`` stops at the first time."""
    return _when_near(m, places, freeze(np.full(len(places.x), d)), first_only)


def when_near_each(m: MPoints, places: Points, metres: Floats) -> Periods:
    """Return when each moving point is within its own distance of its place."""
    return _when_near(m, places, metres, False)


@compiled
def _when_near(m: MPoints, places: Points, metres: Floats, first_only: bool) -> Periods:
    n = len(m.rows) - 1
    rows = np.zeros(n + 1, np.int32)
    begin, end, at = np.empty(16, np.int64), np.empty(16, np.int64), 0
    for row in range(n):
        px, py, d = places.x[row], places.y[row], metres[row]
        for k in range(m.parts[row], m.parts[row + 1]):
            first, last = sequence(m, row, k)
            if first + 1 == last and is_superseded(m, row, k, m.t[first]):
                continue
            for i in range(first, max(last - 1, first + 1)):
                j = min(i + 1, last - 1)  # a single vertex is a unit without duration
                if _apart(m, i, j, px - d, py - d, px + d, py + d):
                    continue
                low, high = near_on_unit(m.x[i], m.y[i], m.x[j], m.y[j], px, py, d)
                if low <= high:
                    t0, t1 = round_inward(m.t[i], m.t[j] - m.t[i], low, high)
                    if t0 == t1 and is_superseded(m, row, k, t1):
                        continue
                    if at > rows[row] and t0 <= end[at - 1]:
                        end[at - 1] = max(end[at - 1], t1)
                    else:
                        begin, end = grow(begin, at), grow(end, at)
                        begin[at], end[at] = t0, t1
                        at += 1
                if first_only and at > rows[row]:
                    break
            if first_only and at > rows[row]:
                break
        rows[row + 1] = at
    return Periods(rows, begin[:at], end[:at])


def polygons(centre: Points, radius: Floats, sides: Longs) -> Lines:
    """Return regular n-gons around points."""
    rows = np.concatenate(([0], np.cumsum(sides))).astype(np.int32)
    turn = 2 * np.pi * (np.arange(rows[-1]) - np.repeat(rows[:-1], sides)) / np.repeat(sides, sides)
    x = np.repeat(centre.x, sides) + np.repeat(radius, sides) * np.cos(turn)
    y = np.repeat(centre.y, sides) + np.repeat(radius, sides) * np.sin(turn)
    return Lines(rows, x, y, np.arange(len(sides) + 1, dtype=np.int32), np.zeros(len(sides), np.int32))


@compiled
def ring(region: Lines, row: int, k: int) -> tuple[int, int]:
    """Return the first and one-past-last corner of a ring."""
    base = region.rows[row]
    last = region.rows[row + 1] if k + 1 == region.parts[row + 1] else base + region.starts[k + 1]
    return base + region.starts[k], last


@compiled
def contains(region: Lines, row: int, px: float, py: float) -> bool:
    """Return whether a region, including its border, contains a point (even-odd rule)."""
    inside = False
    for k in range(region.parts[row], region.parts[row + 1]):
        first, last = ring(region, row, k)
        j = last - 1
        for i in range(first, last):
            ax, ay, bx, by = region.x[j], region.y[j], region.x[i], region.y[i]
            low, high = near_on_unit(ax, ay, bx, by, px, py, BORDER)
            if low <= high:
                return True
            if (ay > py) != (by > py) and px < ax + (py - ay) / (by - ay) * (bx - ax):
                inside = not inside
            j = i
    return inside


@compiled
def inside(places: Points, region: Lines) -> Bools:
    """Return whether each point is in its region."""
    n = len(places.x)
    out = np.zeros(n, np.bool_)
    for row in range(n):
        out[row] = contains(region, row, places.x[row], places.y[row])
    return out


@compiled
def _crossing(
    x0: float, y0: float, x1: float, y1: float, ax: float, ay: float, bx: float, by: float
) -> tuple[float, float]:
    """Return the fractions of the unit on an edge: two for an overlap, one twice for a crossing, (2, 2) for none."""
    dx, dy, ex, ey = x1 - x0, y1 - y0, bx - ax, by - ay
    cross = dx * ey - dy * ex
    size = np.hypot(dx, dy) * np.hypot(ex, ey)
    if abs(cross) > 1e-12 * size:
        s = ((ax - x0) * ey - (ay - y0) * ex) / cross
        u = ((ax - x0) * dy - (ay - y0) * dx) / cross
        slack = 1e-12
        return (s, s) if -slack <= u <= 1 + slack and -slack <= s <= 1 + slack else (2.0, 2.0)
    speed2 = dx * dx + dy * dy
    s0 = ((ax - x0) * dx + (ay - y0) * dy) / speed2
    s1 = ((bx - x0) * dx + (by - y0) * dy) / speed2
    off = np.hypot(x0 + s0 * dx - ax, y0 + s0 * dy - ay)
    return (s0, s1) if off <= BORDER else (2.0, 2.0)


@compiled
def _cuts(m: MPoints, i: int, j: int, region: Lines, row: int, cuts: Floats) -> int:
    """Collect all fractions of unit ``i -> j`` on the border, with 0 and 1, sorted; return how many."""
    x0, y0, x1, y1 = m.x[i], m.y[i], m.x[j], m.y[j]
    cuts[0], cuts[1], count = 0.0, 1.0, 2
    for k in range(region.parts[row], region.parts[row + 1]):
        first, last = ring(region, row, k)
        before = last - 1
        for corner in range(first, last):
            ax, ay, bx, by = region.x[before], region.y[before], region.x[corner], region.y[corner]
            before = corner
            s0, s1 = _crossing(x0, y0, x1, y1, ax, ay, bx, by)
            if 0.0 < s0 < 1.0:
                cuts[count] = s0
                count += 1
            if s1 != s0 and 0.0 < s1 < 1.0:
                cuts[count] = s1
                count += 1
    cuts[:count].sort()
    return count


@compiled
def _box(region: Lines, row: int) -> tuple[float, float, float, float]:
    x0, y0, x1, y1 = np.inf, np.inf, -np.inf, -np.inf
    for i in range(region.rows[row], region.rows[row + 1]):
        x0, x1 = min(x0, region.x[i]), max(x1, region.x[i])
        y0, y1 = min(y0, region.y[i]), max(y1, region.y[i])
    return x0, y0, x1, y1


@compiled
def _add(rows: Ints, row: int, begin: Longs, end: Longs, at: int, t0: int, t1: int) -> int:
    """Append an interval, merged with the previous one if they touch (a microsecond is the unit of time)."""
    if at > rows[row] and t0 <= end[at - 1] + 1:
        end[at - 1] = max(end[at - 1], t1)
        return at
    begin[at], end[at] = t0, t1
    return at + 1


@compiled
def when_inside(m: MPoints, region: Lines, first_only: bool) -> Periods:
    """Return when each moving point is in its region, including its border; ``first_only`` stops at the first time."""
    n = len(m.rows) - 1
    rows = np.zeros(n + 1, np.int32)
    begin, end, at = np.empty(16, np.int64), np.empty(16, np.int64), 0
    for row in range(n):
        bx0, by0, bx1, by1 = _box(region, row)
        cuts = np.empty(2 * (region.rows[row + 1] - region.rows[row]) + 2)
        for k in range(m.parts[row], m.parts[row + 1]):
            first, last = sequence(m, row, k)
            if first + 1 == last and is_superseded(m, row, k, m.t[first]):
                continue
            for i in range(first, max(last - 1, first + 1)):
                j = min(i + 1, last - 1)
                if _apart(m, i, j, bx0, by0, bx1, by1):
                    continue
                count = 2
                cuts[0], cuts[1] = 0.0, 1.0
                dx, dy = m.x[j] - m.x[i], m.y[j] - m.y[i]
                if dx != 0.0 or dy != 0.0:
                    count = _cuts(m, i, j, region, row, cuts)
                span = m.t[j] - m.t[i]
                for c in range(count):
                    s = cuts[c]  # where the unit begins, ends or meets the border
                    t0, t1 = round_inward(m.t[i], span, s, s)
                    here = contains(region, row, m.x[i] + s * dx, m.y[i] + s * dy)
                    if here and not is_superseded(m, row, k, t1):
                        begin, end = grow(begin, at), grow(end, at)
                        at = _add(rows, row, begin, end, at, t0, t1)
                    if c + 1 < count and cuts[c + 1] > s:
                        middle = 0.5 * (s + cuts[c + 1])
                        if contains(region, row, m.x[i] + middle * dx, m.y[i] + middle * dy):
                            begin, end = grow(begin, at), grow(end, at)
                            t0, t1 = round_inward(m.t[i], span, s, cuts[c + 1])
                            at = _add(rows, row, begin, end, at, t0, t1)
                if first_only and at > rows[row]:
                    break
            if first_only and at > rows[row]:
                break
        rows[row + 1] = at
    return Periods(rows, begin[:at], end[:at])
