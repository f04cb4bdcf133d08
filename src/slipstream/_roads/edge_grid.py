"""The spatial index of a network: a grid whose cells list the segments within reach, so a position looks into one cell.

Segments are those of every street once; a position beside a street that may be driven in both directions is beside two
edges.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slipstream._roads.street_network import StreetNetwork
from slipstream._tools.numba_tools import Floats, Ints, Longs, compiled

#: cells of the largest grid
_MOST_CELLS = 1 << 22


class EdgeGrid(NamedTuple):
    """A grid of square cells, and for each cell the segments that are within ``reach`` of a place in it."""

    x0: float
    y0: float
    size: float
    columns: int
    rows: int
    reach: float
    first: Longs
    segment: Ints
    #: of each segment: its edge, its ends, and the metres of its edge before it
    edge: Ints
    ax: Floats
    ay: Floats
    bx: Floats
    by: Floats
    along: Floats


def make_index(network: StreetNetwork, reach: float) -> EdgeGrid:
    """Build the index for positions up to ``reach`` metres from a street."""
    edge, vertex, along = _list_segments(network.shape, network.shape_x, network.shape_y, network.reverse)
    ends = [network.shape_x[vertex], network.shape_y[vertex], network.shape_x[vertex + 1], network.shape_y[vertex + 1]]
    x0, y0 = float(network.shape_x.min() - reach), float(network.shape_y.min() - reach)
    width, height = np.ptp(network.shape_x) + 2 * reach, np.ptp(network.shape_y) + 2 * reach
    size = max(reach, float(np.sqrt(width * height / _MOST_CELLS)), 1.0)
    columns, rows = int(width // size) + 1, int(height // size) + 1
    first, segment = _fill(x0, y0, size, columns, rows, reach, *ends)
    grid = (x0, y0, size, columns, rows, float(reach), first, segment)
    return EdgeGrid(*grid, edge, ends[0], ends[1], ends[2], ends[3], along)


@compiled
def _list_segments(shape: Ints, x: Floats, y: Floats, reverse: Ints) -> tuple[Ints, Ints, Floats]:
    """Return the edge, the first vertex and the metres before it, of every segment of every street once."""
    edge, vertex = np.empty(len(x), np.int32), np.empty(len(x), np.int32)
    along, count = np.empty(len(x)), 0
    for e in range(len(shape) - 1):
        if 0 <= reverse[e] < e:
            continue
        metres = 0.0
        for i in range(shape[e], shape[e + 1] - 1):
            edge[count], vertex[count], along[count] = e, i, metres
            metres += np.hypot(x[i + 1] - x[i], y[i + 1] - y[i])
            count += 1
    return edge[:count].copy(), vertex[:count].copy(), along[:count].copy()


@compiled
def project(x: float, y: float, ax: float, ay: float, bx: float, by: float) -> tuple[float, float]:
    """Return the share of a segment at which it is nearest to a place, and the distance there."""
    dx, dy = bx - ax, by - ay
    square = dx * dx + dy * dy
    share = 0.0
    if square > 0.0:
        share = min(1.0, max(0.0, ((x - ax) * dx + (y - ay) * dy) / square))
    aside, beside = x - ax - share * dx, y - ay - share * dy
    return share, np.sqrt(aside * aside + beside * beside)


@compiled
def _fill(
    x0: float, y0: float, size: float, columns: int, rows: int, reach: float,
    ax: Floats, ay: Floats, bx: Floats, by: Floats,
) -> tuple[Longs, Ints]:  # fmt: skip
    """Return where the list of each cell begins, and the lists; segments are in their order."""
    first, found = np.zeros(columns * rows + 1, np.int64), np.empty(0, np.int32)
    far = reach + 0.7072 * size
    for is_counted in (True, False):
        if not is_counted:
            first = np.cumsum(first)
            found = np.empty(first[-1], np.int32)
        place = first[:-1].copy()
        for s in range(len(ax)):
            west, east = min(ax[s], bx[s]) - reach - x0, max(ax[s], bx[s]) + reach - x0
            south, north = min(ay[s], by[s]) - reach - y0, max(ay[s], by[s]) + reach - y0
            for row in range(max(0, int(south // size)), min(rows - 1, int(north // size)) + 1):
                for column in range(max(0, int(west // size)), min(columns - 1, int(east // size)) + 1):
                    middle_x, middle_y = x0 + (column + 0.5) * size, y0 + (row + 0.5) * size
                    if project(middle_x, middle_y, ax[s], ay[s], bx[s], by[s])[1] <= far:
                        cell = row * columns + column
                        if is_counted:
                            first[cell + 1] += 1
                        else:
                            found[place[cell]] = s
                            place[cell] += 1
    return first, found


@compiled
def find_streets(index: EdgeGrid, x: float, y: float, edges: Ints, offsets: Floats, distances: Floats) -> int:
    """Fill in the nearest streets within reach, the nearest first: edge, metres along it, metres from it (left: +).

    Returns how many there are; at most as many as ``edges`` has room for.
    """
    column, row = (x - index.x0) // index.size, (y - index.y0) // index.size
    if not (0 <= column < index.columns and 0 <= row < index.rows):
        return 0
    cell = int(row) * index.columns + int(column)
    count = 0
    for i in range(index.first[cell], index.first[cell + 1]):
        s = index.segment[i]
        share, distance = project(x, y, index.ax[s], index.ay[s], index.bx[s], index.by[s])
        if distance > index.reach:
            continue
        at = _find_place(edges, distances, count, index.edge[s], distance)
        if at < 0:
            continue
        dx, dy = index.bx[s] - index.ax[s], index.by[s] - index.ay[s]
        side = dx * (y - index.ay[s]) - dy * (x - index.ax[s])
        count = _insert(edges, offsets, distances, count, at, index.edge[s])
        offsets[at] = index.along[s] + share * np.hypot(dx, dy)
        distances[at] = distance if side >= 0.0 else -distance
    return count


@compiled
def _find_place(edges: Ints, distances: Floats, count: int, edge: int, distance: float) -> int:
    """Return where a street belongs among those found; -1 if it is known to be nearer, or too far."""
    at = count
    for i in range(count):
        if abs(distances[i]) > distance and at == count:
            at = i
        if edges[i] == edge and at > i:
            return -1
    return at if at < len(edges) else -1


@compiled
def _insert(edges: Ints, offsets: Floats, distances: Floats, count: int, at: int, edge: int) -> int:
    """Make room at a place: what is there moves on, up to where the same street was before."""
    last = count
    for i in range(at, count):
        if edges[i] == edge:
            last = i
            break
    count = count + 1 if last == count and count < len(edges) else count
    for i in range(min(last, len(edges) - 1), at, -1):
        edges[i], offsets[i], distances[i] = edges[i - 1], offsets[i - 1], distances[i - 1]
    edges[at] = edge
    return count
