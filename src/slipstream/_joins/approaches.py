"""When two pieces are near each other, and how near: exact, on whole columns of pairs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slipstream._moving.columns import MBools, MPoints, freeze, freeze_all
from slipstream._moving.kernels.motion import runs
from slipstream._moving.kernels.nearness import at_most, norms, relative
from slipstream._tools.numba_tools import Floats, Ints, Longs, compiled


class Approaches(NamedTuple):
    """Times during which the pieces of a pair are near each other, with the smallest distance and its instant."""

    pair: Ints
    begin: Longs
    end: Longs
    nearest: Floats
    at: Longs


def approaches(a: MPoints, b: MPoints, begin: Longs, end: Longs, limit: float) -> Approaches:
    """Return when each pair of moving points is at most ``limit`` metres apart between ``begin`` and ``end``."""
    apart = freeze_all(relative(freeze_all(a), freeze_all(b)))
    near = at_most(freeze_all(norms(apart)), freeze(np.full(len(begin), limit)))
    return Approaches(*_measure(apart, near, begin, end))


@compiled
def during(m: MPoints, rows: Ints, begin: Longs, end: Longs) -> MPoints:
    """Return the units of rows (of one sequence each) that cover the time from ``begin`` to ``end``."""
    first, last = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    for k in range(len(rows)):
        i, j = m.rows[rows[k]], m.rows[rows[k] + 1] - 1
        while i < j and m.t[i + 1] <= begin[k]:
            i += 1
        while j > i and m.t[j - 1] >= end[k]:
            j -= 1
        first[k], last[k] = i, j
    return runs(m, first, last)


@compiled
def _measure(apart: MPoints, near: MBools, begin: Longs, end: Longs) -> tuple[Ints, Longs, Longs, Floats, Longs]:
    """Return when pairs are near each other between ``begin`` and ``end``, and how near."""
    room, count = len(near.begin), 0
    pair, b, e = np.empty(room, np.int32), np.empty(room, np.int64), np.empty(room, np.int64)
    least, at = np.empty(room), np.empty(room, np.int64)
    for row in range(len(near.rows) - 1):
        for k in range(near.rows[row], near.rows[row + 1]):
            low, high = max(near.begin[k], begin[row]), min(near.end[k], end[row])
            if near.value[k] and low <= high:
                pair[count], b[count], e[count] = row, low, high
                least[count], at[count] = _least(apart, row, low, high)
                count += 1
    return pair[:count], b[:count], e[:count], least[:count], at[:count]


@compiled
def _least(apart: MPoints, row: int, begin: int, end: int) -> tuple[float, int]:
    """Return the smallest distance of a relative motion from the origin during an interval, and when it is first."""
    least, at = np.inf, begin
    for i in range(apart.rows[row], max(apart.rows[row + 1] - 1, apart.rows[row] + 1)):
        j = min(i + 1, apart.rows[row + 1] - 1)
        if apart.t[j] >= begin and apart.t[i] <= end:
            distance, when = _closest(apart, i, j, begin, end)
            if distance < least:
                least, at = distance, when
    return least, at


@compiled
def _closest(m: MPoints, i: int, j: int, begin: int, end: int) -> tuple[float, int]:
    """Return the smallest distance of unit ``i -> j`` from the origin during an interval, and its instant."""
    span = m.t[j] - m.t[i]
    dx, dy = m.x[j] - m.x[i], m.y[j] - m.y[i]
    size = dx * dx + dy * dy
    s = 0.0 if size == 0.0 else -(m.x[i] * dx + m.y[i] * dy) / size
    if span > 0:
        s = min(max(s, max(begin - m.t[i], 0) / span), min(end - m.t[i], span) / span)
    when = m.t[i] + int(np.rint(s * span))
    return float(np.hypot(m.x[i] + s * dx, m.y[i] + s * dy)), min(max(when, begin), end)
