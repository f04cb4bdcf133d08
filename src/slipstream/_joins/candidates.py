"""Pairs of pieces in a cell that overlap in time and whose boxes are near each other: a sweep over time."""

from __future__ import annotations

import numpy as np

from slipstream._joins.grid import LOWEST, BoundingBoxes
from slipstream._tools.numba_tools import Bools, Bytes, Ints, Longs, compiled


@compiled
def candidates(
    groups: Longs,
    code: Longs,
    second: Bools,
    both: bool,
    lowest: Bytes,
    replaced: Bools,
    box: BoundingBoxes,
    reach: float,
) -> tuple[Ints, Ints]:
    """Return pairs of rows of one group that may be near each other, each pair of pieces once in the whole grid.

    Rows of a group are in order of their begin. With ``both``, one row of a pair is ``second``, and returned second;
    otherwise the one with the higher code is, and no row is paired with one of the same code.
    """
    first, other, count = np.empty(1024, np.int32), np.empty(1024, np.int32), 0
    active = np.empty(len(code), np.int32)
    for g in range(len(groups) - 1):
        size = 0
        for j in range(groups[g], groups[g + 1]):
            kept = 0
            for k in range(size):
                i = active[k]
                if box.t1[i] < box.t0[j]:
                    continue
                active[kept] = i
                kept += 1
                if second[i] == second[j] if both else code[i] == code[j]:
                    continue
                if (lowest[i] | lowest[j]) != LOWEST or not _close(box, i, j, reach):
                    continue
                if box.t0[j] == min(box.t1[i], box.t1[j]) and _is_over(box, replaced, i, j):
                    continue
                if count == len(first):
                    first, other = _grow(first), _grow(other)
                turned = second[i] if both else code[i] > code[j]
                first[count], other[count] = (j, i) if turned else (i, j)
                count += 1
            active[kept] = j
            size = kept + 1
    return first[:count], other[:count]


@compiled
def _close(box: BoundingBoxes, i: int, j: int, reach: float) -> bool:
    across = box.x0[i] - box.x1[j] <= reach and box.x0[j] - box.x1[i] <= reach
    return bool(across and box.y0[i] - box.y1[j] <= reach and box.y0[j] - box.y1[i] <= reach)


@compiled
def _is_over(box: BoundingBoxes, replaced: Bools, i: int, j: int) -> bool:
    """Return whether two pieces that share one instant do not count there: another sequence does."""
    instant = box.t0[j]
    return bool((replaced[i] and box.t1[i] == instant) or (replaced[j] and box.t1[j] == instant))


@compiled
def _grow(array: Ints) -> Ints:
    bigger = np.empty(2 * len(array), np.int32)
    bigger[: len(array)] = array
    return bigger
