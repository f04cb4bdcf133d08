"""Make moving points shorter, rounder or more regular: simplify, resample, smooth, snap, shift, append."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np

from slipstream._errors import BadInput
from slipstream._moving.columns import IPoints, MPoints, freeze, freeze_all
from slipstream._moving.kernels.motion import place_on
from slipstream._moving.timeline import (
    Timeline,
    interpolate,
    last_before,
    lay_out,
    offsets,
    sequence,
    sequences,
    vertices,
)
from slipstream._moving.types import MICROS
from slipstream._tools.numba_tools import Bools, Floats, Ints, Longs, compiled


def keep(m: MPoints, kept: Bools) -> MPoints:
    """Return the moving points with some of their vertices: at least the first and last of each sequence."""
    at = np.flatnonzero(kept) + m.rows[0]
    found = sequences(m)
    before = np.concatenate(([0], np.cumsum(kept)))
    size = before[found.last + 1 - m.rows[0]] - before[found.first - m.rows[0]]
    line = lay_out(len(m.rows) - 1, found.row, size, m.t[at])
    return MPoints(line.rows, line.t, m.x[at], m.y[at], line.parts, line.starts)


@compiled
def _distance(m: MPoints, i: int, first: int, last: int, timed: bool) -> float:
    """Return how far vertex ``i`` is from the chord of two others, or from the place on it at the same instant."""
    if timed:
        x = interpolate(m.t[first], m.t[last], m.x[first], m.x[last], m.t[i])
        y = interpolate(m.t[first], m.t[last], m.y[first], m.y[last], m.t[i])
        return float(np.hypot(m.x[i] - x, m.y[i] - y))
    dx, dy = m.x[last] - m.x[first], m.y[last] - m.y[first]
    size = dx * dx + dy * dy
    s = 0.0
    if size > 0.0:
        s = min(1.0, max(0.0, ((m.x[i] - m.x[first]) * dx + (m.y[i] - m.y[first]) * dy) / size))
    return float(np.hypot(m.x[first] + s * dx - m.x[i], m.y[first] + s * dy - m.y[i]))


@compiled
def peuckers(m: MPoints, metres: Floats, timed: bool) -> Bools:
    """Return which vertices Douglas and Peucker keep: those farther than ``metres`` from the chord they would leave.

    ``timed`` measures the distance at the same instant (TD-TR; Meratnia and de By, 2004).
    """
    base = m.rows[0]
    kept = np.zeros(m.rows[-1] - base, np.bool_)
    stack = np.empty((len(kept) + 1, 2), np.int64)
    for row in range(len(m.rows) - 1):
        for k in range(m.parts[row], m.parts[row + 1]):
            first, end = sequence(m, row, k)
            kept[first - base], kept[end - 1 - base] = True, True
            stack[0, 0], stack[0, 1], depth = first, end - 1, 1
            while depth:
                depth -= 1
                low, high = stack[depth, 0], stack[depth, 1]
                worst, at = metres[row], -1
                for i in range(low + 1, high):
                    off = _distance(m, i, low, high, timed)
                    if off > worst:
                        worst, at = off, i
                if at >= 0:
                    kept[at - base] = True
                    stack[depth, 0], stack[depth, 1] = low, at
                    stack[depth + 1, 0], stack[depth + 1, 1] = at, high
                    depth += 2
    return kept


@compiled
def squishes(m: MPoints, most: Longs) -> Bools:
    """Return which vertices SQUISH keeps: at most ``most`` of each sequence, but its ends (Muckell and others, 2011).

    Of the inner vertices, that with the least priority goes first, the earliest of several: its distance, at its
    instant, from the way between its neighbours, plus the largest priority of a neighbour that has gone.
    """
    base = m.rows[0]
    kept = np.ones(m.rows[-1] - base, np.bool_)
    for row in range(len(m.rows) - 1):
        for k in range(m.parts[row], m.parts[row + 1]):
            first, end = sequence(m, row, k)
            left = end - first
            if left <= max(most[row], 2):
                continue
            before, after = np.arange(-1, left - 1), np.arange(1, left + 1)
            debt, priority = np.zeros(left), np.zeros(left)
            heap = [(0.0, 0)]
            heap.clear()
            for i in range(1, left - 1):
                priority[i] = _distance(m, first + i, first + i - 1, first + i + 1, True)
                heap.append((priority[i], i))
            heapify(heap)
            while left > max(most[row], 2):
                least, i = heappop(heap)
                if not kept[first - base + i] or least != priority[i]:
                    continue
                kept[first - base + i] = False
                left -= 1
                a, b = before[i], after[i]
                after[a], before[b] = b, a
                for j in (a, b):
                    debt[j] = max(debt[j], least)
                    if 0 < j < end - first - 1:
                        off = _distance(m, first + j, first + before[j], first + after[j], True)
                        priority[j] = debt[j] + off
                        heappush(heap, (priority[j], j))
    return kept


def sampled(m: MPoints, every: Longs) -> MPoints:
    """Return the positions at intervals of ``every`` microseconds from the start of each sequence, and at its end."""
    found = sequences(m)
    step = every[found.row]
    begin, end = m.t[found.first], m.t[found.last]
    size = -(-(end - begin) // step) + 1
    nth = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
    t = np.minimum(np.repeat(begin, size) + nth * np.repeat(step, size), np.repeat(end, size))
    line = freeze_all(lay_out(len(m.rows) - 1, found.row, size, t))
    return place_on(m, line, freeze(_sources(m, line)))


@compiled
def _sources(m: MPoints, line: Timeline) -> Ints:
    """Return the vertices that the instants of a timeline with the same sequences follow from."""
    out = np.empty(len(line.t), np.int32)
    for row in range(len(m.rows) - 1):
        for k in range(m.parts[row + 1] - m.parts[row]):
            first, last = sequence(m, row, m.parts[row] + k)
            begin, end = sequence(line, row, line.parts[row] + k)
            for i in range(begin, end):
                out[i] = last_before(m.t, first, last, line.t[i])
    return out


@compiled
def _until(m: MPoints, first: int, last: int, sums: Floats, value: Floats, t: int) -> float:
    """Return the sum over time of a coordinate from vertex ``first`` to instant ``t``, in seconds."""
    i = min(last_before(m.t, first, last, t), last - 2)
    v = interpolate(m.t[i], m.t[i + 1], value[i], value[i + 1], t)
    return float(sums[i - m.rows[0]] + 0.5 * (value[i] + v - 2 * value[first]) * ((t - m.t[i]) / MICROS))


@compiled
def smoothed(m: MPoints, window: Longs, value: Floats) -> Floats:
    """Return at each vertex the average of a coordinate over a window of time around it.

    Towards the ends of a sequence the window shrinks, so that its ends stay where they are. The average is that of the
    movement, not of its vertices: it does not depend on how often a position was reported.
    """
    base = m.rows[0]
    out, sums = value[base : m.rows[-1]].copy(), np.zeros(m.rows[-1] - base)
    for row in range(len(m.rows) - 1):
        for k in range(m.parts[row], m.parts[row + 1]):
            first, last = sequence(m, row, k)
            for i in range(
                first + 1, last
            ):  # sums are of differences from the first value: large coordinates are exact
                mean = 0.5 * (value[i] + value[i - 1]) - value[first]
                sums[i - base] = sums[i - 1 - base] + mean * ((m.t[i] - m.t[i - 1]) / MICROS)
            for i in range(first + 1, last - 1):
                half = min(window[row] // 2, m.t[i] - m.t[first], m.t[last - 1] - m.t[i])
                if half > 0:
                    low = _until(m, first, last, sums, value, m.t[i] - half)
                    high = _until(m, first, last, sums, value, m.t[i] + half)
                    out[i - base] = value[first] + (high - low) / (2 * half / MICROS)
    return out


def smooth(m: MPoints, window: Longs) -> MPoints:
    """Return the points with the average of their movement over a window at each vertex."""
    return _with(m, smoothed(m, window, m.x), smoothed(m, window, m.y))


def _with(m: MPoints, x: Floats, y: Floats) -> MPoints:
    """Return the points with other coordinates of the vertices of their rows."""
    rows, parts = (m.rows - m.rows[0]).astype(np.int32), (m.parts - m.parts[0]).astype(np.int32)
    return MPoints(rows, m.t[m.rows[0] : m.rows[-1]], x, y, parts, m.starts[m.parts[0] : m.parts[-1]])


def snap(m: MPoints, metres: Floats) -> MPoints:
    """Return the points with coordinates that are multiples of ``metres``."""
    size, inner = np.repeat(metres, np.diff(m.rows)), slice(m.rows[0], m.rows[-1])
    return _with(m, np.rint(m.x[inner] / size) * size, np.rint(m.y[inner] / size) * size)


def shift(m: MPoints, by: Longs) -> MPoints:
    """Return the points some microseconds later."""
    inner = slice(m.rows[0], m.rows[-1])
    return _with(m, m.x[inner], m.y[inner])._replace(t=m.t[inner] + np.repeat(by, np.diff(m.rows)))


def append(m: MPoints, position: IPoints, wanted: Bools) -> MPoints:
    """Return the points, moving on from their last vertex to a later position."""
    n = len(m.rows) - 1
    size = np.diff(m.rows)
    filled = np.flatnonzero((size > 0) & wanted)
    late = position.t[filled] <= m.t[m.rows[filled + 1] - 1]
    if late.any():
        row = int(filled[late][0])
        raise BadInput(
            f"append: the position in row {row + 1} of {n} is not later than the last vertex.",
            hint="Append positions in the order of time.",
            code="invalid-trajectory",
        )
    rows = offsets(np.arange(n), size + 1, n)
    place = vertices(m).row + np.arange(len(vertices(m).row))
    ends = rows[1:] - 1

    def put(values: Floats | Longs, more: Floats | Longs) -> Floats | Longs:
        out = np.empty(rows[-1], values.dtype)
        out[place], out[ends] = values[m.rows[0] : m.rows[-1]], more
        return out

    begins = size == 0  # an empty point gets its first sequence
    counts = np.diff(m.parts) + begins
    parts = offsets(np.arange(n), counts, n)
    starts = np.zeros(parts[-1], np.int32)
    old = np.repeat(~begins, counts)
    starts[old] = m.starts[m.parts[0] : m.parts[-1]]
    return MPoints(rows, put(m.t, position.t), put(m.x, position.x), put(m.y, position.y), parts, starts)  # type: ignore[arg-type]
