"""Kernels on one moving point: its position, its definition time, its length.

Each kernel takes whole columns (``MPoints`` and friends) and loops over rows; a row's vertices are in time order.
"""

from __future__ import annotations

import numpy as np

from slipstream._moving.columns import IPoints, Lines, MPoints, Periods
from slipstream._moving.timeline import Timeline, carry, cut_out, sequence, values_at
from slipstream._tools.numba_tools import Bools, Floats, Ints, Longs, compiled


def positions_at(m: MPoints, instants: Longs) -> tuple[Bools, Floats, Floats]:
    """Return whether each point is defined at its instant, and its position."""
    found, x = values_at(m, m.x, instants)
    return found, x, values_at(m, m.y, instants)[1]


@compiled
def overlaps(m: MPoints, periods: Periods) -> Bools:
    """Return whether each point is defined at some time in its periods."""
    n = len(m.rows) - 1
    found = np.zeros(n, np.bool_)
    for row in range(n):
        k, p = m.parts[row], periods.rows[row]
        while k < m.parts[row + 1] and p < periods.rows[row + 1]:
            first, last = sequence(m, row, k)
            if m.t[last - 1] < periods.begin[p]:
                k += 1
            elif periods.end[p] < m.t[first]:
                p += 1
            else:
                found[row] = True
                break
    return found


def restrict(m: MPoints, periods: Periods) -> MPoints:
    """Restrict each point to its periods: the paper's *atperiods*."""
    return place_on(m, *cut_out(m, periods))


def place_on(m: MPoints, line: Timeline, source: Ints) -> MPoints:
    """Return the positions at the instants of a timeline that follows from vertices of ``m``."""
    x, y = carry(line, source, m, m.x), carry(line, source, m, m.y)
    return MPoints(line.rows, line.t, x, y, line.parts, line.starts)


@compiled
def lengths(m: MPoints) -> Floats:
    """Return how far each point travelled, in metres."""
    n = len(m.rows) - 1
    out = np.zeros(n)
    for row in range(n):
        for k in range(m.parts[row], m.parts[row + 1]):
            first, last = sequence(m, row, k)
            for i in range(first, last - 1):
                out[row] += np.hypot(m.x[i + 1] - m.x[i], m.y[i + 1] - m.y[i])
    return out


@compiled
def definition_times(m: MPoints) -> Periods:
    """Return when each point is defined; touching sequences make one interval."""
    n = len(m.rows) - 1
    rows = np.zeros(n + 1, np.int32)
    begin, end = np.empty(len(m.starts), np.int64), np.empty(len(m.starts), np.int64)
    at = 0
    for row in range(n):
        for k in range(m.parts[row], m.parts[row + 1]):
            first, last = sequence(m, row, k)
            if at > rows[row] and end[at - 1] >= m.t[first]:
                end[at - 1] = max(end[at - 1], m.t[last - 1])
            else:
                begin[at], end[at] = m.t[first], m.t[last - 1]
                at += 1
        rows[row + 1] = at
    return Periods(rows, begin[:at], end[:at])


@compiled
def merge(periods: Periods) -> Periods:
    """Merge touching or overlapping intervals, which must be sorted by begin."""
    n = len(periods.rows) - 1
    rows = np.zeros(n + 1, np.int32)
    begin, end = np.empty_like(periods.begin), np.empty_like(periods.end)
    at = 0
    for row in range(n):
        for p in range(periods.rows[row], periods.rows[row + 1]):
            if at > rows[row] and end[at - 1] >= periods.begin[p]:
                end[at - 1] = max(end[at - 1], periods.end[p])
            else:
                begin[at], end[at] = periods.begin[p], periods.end[p]
                at += 1
        rows[row + 1] = at
    return Periods(rows, begin[:at], end[:at])


@compiled
def trajectories(m: MPoints) -> Lines:
    """Return the paths as polylines, without pauses."""
    n = len(m.rows) - 1
    rows, parts = np.zeros(n + 1, np.int32), np.zeros(n + 1, np.int32)
    x, y, starts = np.empty(len(m.x)), np.empty(len(m.x)), np.empty(len(m.starts), np.int32)
    at, part = 0, 0
    for row in range(n):
        for k in range(m.parts[row], m.parts[row + 1]):
            first, last = sequence(m, row, k)
            if at > rows[row] and x[at - 1] == m.x[first] and y[at - 1] == m.y[first]:
                first += 1  # continues where the previous one ended
            else:
                starts[part] = at - rows[row]
                part += 1
                x[at], y[at] = m.x[first], m.y[first]
                at += 1
                first += 1
            for i in range(first, last):
                if x[at - 1] != m.x[i] or y[at - 1] != m.y[i]:
                    x[at], y[at] = m.x[i], m.y[i]
                    at += 1
        rows[row + 1], parts[row + 1] = at, part
    return Lines(rows, x[:at], y[:at], parts, starts[:part])


@compiled
def end_positions(m: MPoints, final: bool) -> tuple[Bools, IPoints]:
    """Return the first or last position of each point, with its instant."""
    n = len(m.rows) - 1
    found, t, x, y = np.zeros(n, np.bool_), np.zeros(n, np.int64), np.zeros(n), np.zeros(n)
    for row in range(n):
        if m.rows[row] < m.rows[row + 1]:
            i = m.rows[row + 1] - 1 if final else m.rows[row]
            found[row], t[row], x[row], y[row] = True, m.t[i], m.x[i], m.y[i]
    return found, IPoints(t, x, y)


@compiled
def _sort_sequences(m: MPoints, groups: Ints, group: int) -> tuple[Ints, Ints]:
    """Return the first and one-past-last vertices of all sequences of a group's rows, sorted by begin."""
    size = 0
    for row in range(groups[group], groups[group + 1]):
        size += m.parts[row + 1] - m.parts[row]
    first, last, begin = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int64)
    at = 0
    for row in range(groups[group], groups[group + 1]):
        for k in range(m.parts[row], m.parts[row + 1]):
            first[at], last[at] = sequence(m, row, k)
            begin[at] = m.t[first[at]]
            at += 1
    order = np.argsort(begin, kind="mergesort")
    return first[order], last[order]


@compiled
def concatenate(m: MPoints, groups: Ints) -> MPoints:
    """Join all rows ``groups[g]:groups[g+1]`` into one moving point; if two overlap in time, the earlier counts.

    Sequences that meet at one instant and place are joined.
    """
    n = len(groups) - 1
    rows, parts = np.zeros(n + 1, np.int32), np.zeros(n + 1, np.int32)
    room = len(m.t)
    t, x, y = np.empty(room, np.int64), np.empty(room), np.empty(room)
    starts = np.empty(len(m.starts), np.int32)
    at, part = 0, 0
    for group in range(n):
        firsts, lasts = _sort_sequences(m, groups, group)
        for s in range(len(firsts)):
            i, last = firsts[s], lasts[s]
            behind = at > rows[group] and m.t[i] <= t[at - 1]
            if behind and m.t[i] == t[at - 1] and (abs(m.x[i] - x[at - 1]) > 1e-6 or abs(m.y[i] - y[at - 1]) > 1e-6):
                behind = False  # a jump: the later sequence counts from here
            if behind:
                while i < last and m.t[i] <= t[at - 1]:
                    i += 1
            else:
                starts[part] = at - rows[group]
                part += 1
            for j in range(i, last):
                t[at], x[at], y[at] = m.t[j], m.x[j], m.y[j]
                at += 1
        rows[group + 1], parts[group + 1] = at, part
    return MPoints(rows, t[:at], x[:at], y[:at], parts, starts[:part])


@compiled
def _rests(m: MPoints, i: int, pause: int) -> bool:
    still = m.x[i] == m.x[i + 1] and m.y[i] == m.y[i + 1]
    return bool(still and m.t[i + 1] - m.t[i] > pause)


@compiled
def runs(m: MPoints, first: Longs, last: Longs) -> MPoints:
    """Return the movements from vertex ``first[k]`` to vertex ``last[k]``, each a row of one sequence."""
    n = len(first)
    rows = np.zeros(n + 1, np.int32)
    for k in range(n):
        rows[k + 1] = rows[k] + last[k] - first[k] + 1
    t, x, y = np.empty(rows[n], np.int64), np.empty(rows[n]), np.empty(rows[n])
    for k in range(n):
        to, of = slice(rows[k], rows[k + 1]), slice(first[k], last[k] + 1)
        t[to], x[to], y[to] = m.t[of], m.x[of], m.y[of]
    return MPoints(rows, t, x, y, np.arange(n + 1).astype(np.int32), np.zeros(n, np.int32))


MINUTE = 60_000_000


@compiled
def _pause_end(m: MPoints, i: int, last: int, pause: int) -> int:
    """Return the last vertex of the trip that begins at ``i``: a movement up to a long pause, or such a pause."""
    j = i + 1
    if j < last and not _rests(m, i, pause):
        while j + 1 < last and not _rests(m, j, pause):
            j += 1
    return min(j, last - 1)


@compiled
def _extent_end(m: MPoints, i: int, last: int, extent: float) -> int:
    """Return the last vertex of the piece that begins at ``i``."""
    x0, x1, y0, y1, j = m.x[i], m.x[i], m.y[i], m.y[i], i
    while j + 1 < last:
        if j > i and (_rests(m, j, MINUTE) or _rests(m, j - 1, MINUTE)):
            break
        x0, x1 = min(x0, m.x[j + 1]), max(x1, m.x[j + 1])
        y0, y1 = min(y0, m.y[j + 1]), max(y1, m.y[j + 1])
        if j > i and (x1 - x0 > extent or y1 - y0 > extent):
            break
        j += 1
    return j


@compiled
def _split(m: MPoints, pause: int, extent: float) -> tuple[Ints, MPoints]:
    """Split rows by extent or, without one, at pauses; return the pieces of each row (as offsets) and the pieces."""
    n = len(m.rows) - 1
    firsts, lasts = np.empty(len(m.t), np.int64), np.empty(len(m.t), np.int64)
    pieces, count = np.zeros(n + 1, np.int32), 0
    for row in range(n):
        for k in range(m.parts[row], m.parts[row + 1]):
            i, last = sequence(m, row, k)
            while True:
                firsts[count] = i
                i = _extent_end(m, i, last, extent) if extent > 0.0 else _pause_end(m, i, last, pause)
                lasts[count] = i
                count += 1
                if i >= last - 1:
                    break
        pieces[row + 1] = count
    return pieces, runs(m, firsts[:count], lasts[:count])


def split_at_pauses(m: MPoints, pause: int) -> tuple[Ints, MPoints]:
    """Split into trips: movements without a pause longer than ``pause``; each such pause is a trip of its own.

    Returns the trips of each row (as offsets) and the trips.
    """
    return _split(m, pause, 0.0)


def split_by_extent(m: MPoints, extent: float) -> tuple[Ints, MPoints]:
    """Split into pieces of whole units, each at most ``extent`` metres wide and high (a longer unit is alone).

    A pause ends a piece, so that a piece either moves or stands. Returns the pieces of each row (as offsets) and the
    pieces.
    """
    return _split(m, 0, extent)


@compiled
def boxes(m: MPoints) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the bounding boxes: smallest and largest x and y; empty points have an empty (inverted) box."""
    n = len(m.rows) - 1
    x0, y0, x1, y1 = np.full(n, np.inf), np.full(n, np.inf), np.full(n, -np.inf), np.full(n, -np.inf)
    for row in range(n):
        for i in range(m.rows[row], m.rows[row + 1]):
            x0[row], x1[row] = min(x0[row], m.x[i]), max(x1[row], m.x[i])
            y0[row], y1[row] = min(y0[row], m.y[i]), max(y1[row], m.y[i])
    return x0, y0, x1, y1
