"""How alike two paths are, by their vertices: Fréchet, dynamic time warping, Hausdorff."""

from __future__ import annotations

import numpy as np

from slipstream._moving.columns import MPoints
from slipstream._tools.numba_tools import Floats, compiled


@compiled
def _apart(a: MPoints, i: int, b: MPoints, j: int) -> float:
    return float(np.hypot(a.x[i] - b.x[j], a.y[i] - b.y[j]))


@compiled
def coupled(a: MPoints, b: MPoints, summed: bool) -> Floats:
    """Return the cost of walking both paths from vertex to vertex, never back, in the best possible way.

    The cost is the largest distance on the way (discrete Fréchet; Eiter and Mannila, 1994), or the sum of all
    (dynamic time warping). Infinite if a path is empty.
    """
    n = len(a.rows) - 1
    out = np.full(n, np.inf)
    for row in range(n):
        m = b.rows[row + 1] - b.rows[row]
        if m == 0 or a.rows[row] == a.rows[row + 1]:
            continue
        cost = np.full(m, np.inf)  # of the best way to the present vertex of a and each of b
        for i in range(a.rows[row], a.rows[row + 1]):
            diagonal = 0.0 if i == a.rows[row] else np.inf
            for j in range(m):
                here = _apart(a, i, b, b.rows[row] + j)
                best = min(diagonal, cost[j])
                if j > 0:
                    best = min(best, cost[j - 1])
                diagonal = cost[j]
                cost[j] = best + here if summed else max(best, here)
        out[row] = cost[m - 1]
    return out


@compiled
def _farthest(a: MPoints, b: MPoints, row: int, least: float) -> float:
    """Return the largest distance of a vertex of ``a`` from the nearest of ``b``, or ``least`` if that is larger."""
    for i in range(a.rows[row], a.rows[row + 1]):
        nearest = np.inf
        for j in range(b.rows[row], b.rows[row + 1]):
            nearest = min(nearest, _apart(a, i, b, j))
            if nearest <= least:  # this vertex cannot change the answer
                break
        least = max(least, nearest)
    return least


@compiled
def hausdorff(a: MPoints, b: MPoints) -> Floats:
    """Return the largest distance of a vertex of either path from the other's; infinite if one is empty."""
    n = len(a.rows) - 1
    out = np.full(n, np.inf)
    for row in range(n):
        if a.rows[row] < a.rows[row + 1] and b.rows[row] < b.rows[row + 1]:
            out[row] = _farthest(b, a, row, _farthest(a, b, row, 0.0))
    return out
