"""Short pieces of trips: small enough in space and time that a grid separates what is far apart.

A piece consists of whole units, so that kernels compute on it what they compute on the whole trip. A unit that is
longer than a cell, as of a ship that reports once per hour, is one piece for each stretch of it: the same unit with the
time during which it counts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slipstream._errors import BadInput
from slipstream._joins.grid import BoundingBoxes
from slipstream._moving.columns import MPoints, freeze_all
from slipstream._moving.kernels.motion import boxes, runs, split_by_extent
from slipstream._moving.timeline import interpolate
from slipstream._tools.numba_tools import Bools, Ints, Longs, compiled

#: the most vertices of a piece
MOST = 128


class Pieces(NamedTuple):
    """Pieces of trips, in their order."""

    owner: Ints  # the row of the trip
    boxes: BoundingBoxes  # where it is while it counts, and when it counts
    replaced: Bools  # at its last instant, another sequence of the trip counts, which begins elsewhere
    of: Ints  # the row in ``parts``
    parts: MPoints


def cut(trips: MPoints, extent: float, span: int) -> Pieces:
    """Cut trips into pieces about ``extent`` metres wide at most, of which only single units last beyond ``span``."""
    offsets, wide = split_by_extent(trips, extent)
    owners = np.repeat(np.arange(len(offsets) - 1, dtype=np.int32), np.diff(offsets))
    first, last, row = _shorten(wide, span, MOST)
    parts = freeze_all(runs(wide, first, last))
    owner = owners[row]
    of, box = _stretches(parts, extent)
    return Pieces(owner[of], box, replaced(parts, owner)[of], of, parts)


@compiled
def _shorten(m: MPoints, span: int, most: int) -> tuple[Longs, Longs, Ints]:
    """Cut rows of one sequence each after ``most`` vertices, and where a time of the grid ends."""
    first, last, row = np.empty(len(m.t), np.int64), np.empty(len(m.t), np.int64), np.empty(len(m.t), np.int32)
    count = 0
    for r in range(len(m.rows) - 1):
        i, end = m.rows[r], m.rows[r + 1] - 1
        while True:
            j = min(i + 1, end)
            while j < end and j - i < most - 1 and m.t[j + 1] // span == m.t[i] // span:
                j += 1
            first[count], last[count], row[count] = i, j, r
            count += 1
            if j >= end:
                break
            i = j
    return first[:count], last[:count], row[:count]


def replaced(parts: MPoints, owner: Ints) -> Bools:
    """Return whether another sequence of the same trip begins when a piece ends, but elsewhere."""
    begin, end = parts.rows[1:-1], parts.rows[1:-1] - 1
    out = np.zeros(len(owner), np.bool_)
    moved = (parts.x[begin] != parts.x[end]) | (parts.y[begin] != parts.y[end])
    out[:-1] = (owner[1:] == owner[:-1]) & (parts.t[begin] == parts.t[end]) & moved
    return out


def _stretches(parts: MPoints, extent: float) -> tuple[Ints, BoundingBoxes]:
    """Return when each piece counts and where it is then: a long unit is there several times."""
    x0, y0, x1, y1 = boxes(parts)
    begin, end = parts.t[parts.rows[:-1]], parts.t[parts.rows[1:] - 1]
    wide = np.maximum(x1 - x0, y1 - y0)
    single = np.diff(parts.rows) == 2
    number = np.where(single & (wide > 2 * extent), np.ceil(wide / extent), 1.0)
    if (number > np.maximum(end - begin, 1)).any():
        row = int(np.argmax(number > np.maximum(end - begin, 1)))
        raise BadInput(
            f"a trip moves {wide[row]:,.0f} m within {end[row] - begin[row]} microseconds.",
            hint="Cut trips where positions jump.",
            code="invalid-trajectory",
        )
    counts = number.astype(np.int64)
    of = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    nth = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
    whole, rest = np.divmod(end - begin, counts)
    t0, t1 = (begin[of] + whole[of] * k + rest[of] * k // counts[of] for k in (nth, nth + 1))
    found = BoundingBoxes(x0[of], y0[of], x1[of], y1[of], t0, t1)
    _narrow(parts, of, counts, found)
    return of, found


@compiled
def _narrow(parts: MPoints, of: Ints, counts: Longs, found: BoundingBoxes) -> None:
    """Set the boxes of stretches of a unit to where it is at their two ends."""
    for k in range(len(of)):
        if counts[of[k]] > 1:
            i = parts.rows[of[k]]
            t0, t1 = parts.t[i], parts.t[i + 1]
            xa = interpolate(t0, t1, parts.x[i], parts.x[i + 1], found.t0[k])
            xb = interpolate(t0, t1, parts.x[i], parts.x[i + 1], found.t1[k])
            ya = interpolate(t0, t1, parts.y[i], parts.y[i + 1], found.t0[k])
            yb = interpolate(t0, t1, parts.y[i], parts.y[i + 1], found.t1[k])
            found.x0[k], found.x1[k] = min(xa, xb), max(xa, xb)
            found.y0[k], found.y1[k] = min(ya, yb), max(ya, yb)
