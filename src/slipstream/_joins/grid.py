"""A grid over space and time: what is close shares a cell.

A box belongs to all cells that it touches once it is widened by a margin. Two boxes that are at most twice the margin
apart, and overlap in time, therefore share a cell. They may share several: exactly one of these, the lowest in every
dimension, is also the lowest of one of the two in each dimension (``LOWEST``). There the pair counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slipstream._tools.numba_tools import Bytes, Floats, Ints, Longs, compiled

#: the bits of ``lowest`` in all three dimensions
LOWEST = 7


class BoundingBoxes(NamedTuple):
    """Bounding boxes in space (metres) and time (microseconds)."""

    x0: Floats
    y0: Floats
    x1: Floats
    y1: Floats
    t0: Longs
    t1: Longs


@dataclass(frozen=True)
class Grid:
    """Squares of ``width`` metres, for times of ``span`` microseconds; boxes are widened by ``margin`` metres."""

    width: float
    span: int
    margin: float

    def bounds(self, boxes: BoundingBoxes) -> tuple[Longs, Longs]:
        """Return the lowest and highest cell (x, y, time) of each box."""
        low = self._cells(boxes.x0 - self.margin, boxes.y0 - self.margin, boxes.t0)
        return low, self._cells(boxes.x1 + self.margin, boxes.y1 + self.margin, boxes.t1)

    def _cells(self, x: Floats, y: Floats, t: Longs) -> Longs:
        places = (np.floor(x / self.width).astype(np.int64), np.floor(y / self.width).astype(np.int64))
        return np.stack([*places, t // self.span], axis=1)

    def cover(self, boxes: BoundingBoxes) -> tuple[Ints, Longs, Bytes]:
        """Return all cells that boxes touch: the row of the box, the cell, in which dimensions it is the lowest."""
        low, high = self.bounds(boxes)
        return _cover(low, high)


@compiled
def _cover(low: Longs, high: Longs) -> tuple[Ints, Longs, Bytes]:
    total = 0
    for i in range(len(low)):
        size = 1
        for k in range(3):
            size *= high[i, k] - low[i, k] + 1
        total += size
    rows, cells, lowest, at = np.empty(total, np.int32), np.empty((total, 3), np.int64), np.empty(total, np.uint8), 0
    for i in range(len(low)):
        for cx in range(low[i, 0], high[i, 0] + 1):
            for cy in range(low[i, 1], high[i, 1] + 1):
                for ct in range(low[i, 2], high[i, 2] + 1):
                    rows[at], cells[at, 0], cells[at, 1], cells[at, 2] = i, cx, cy, ct
                    lowest[at] = (cx == low[i, 0]) + 2 * (cy == low[i, 1]) + 4 * (ct == low[i, 2])
                    at += 1
    return rows, cells, lowest
