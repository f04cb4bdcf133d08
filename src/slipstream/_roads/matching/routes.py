"""The routes between positions: from edge to edge, with the turns that are allowed, searched once and remembered.

A tree has the edges that can be reached from the end of an edge within a radius, and their distances. Trees are kept
until their memory is full. A tree of a larger radius has all of a smaller one, so no answer depends on what was
searched before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slipstream._roads.paths import sift_down, sift_up
from slipstream._roads.street_network import StreetNetwork
from slipstream._tools.numba_tools import Floats, Ints, Longs, compiled

#: the radius of the smallest tree, and how much larger each next one is
_RADIUS, _LARGER = 250.0, 1.5
#: edges in all trees
_ROOM = 1 << 23


class Turns(NamedTuple):
    """The edges of a network: their lengths and reverses, and the edges that may follow each, with extra metres."""

    length: Floats
    reverse: Ints
    first: Ints
    edge: Ints
    extra: Floats
    #: metres that turning round adds to a route
    u_turn: float


class Trees(NamedTuple):
    """Remembered trees, and room for a search."""

    head: Longs
    size: Ints
    radius: Floats
    #: of all trees: edges in their order, the metres from the root's end to the edge's start, the edge before it
    edge: Ints
    metres: Floats
    before: Ints
    used: Longs
    #: of a search
    best: Floats
    origin: Ints
    heap: Floats
    heap_edge: Ints


def make_turns(network: StreetNetwork, u_turn: float) -> Turns:
    """List the turns that are allowed; turning round is, as if it were longer, unless a sign forbids it."""
    after = network.target
    count = np.diff(network.first)[after]
    begin = np.repeat(np.arange(network.edges), count)
    inner = np.arange(len(begin)) - np.repeat(np.cumsum(count) - count, count)
    end = network.first[after[begin]] + inner
    banned = network.banned_from.astype(np.int64) * network.edges + network.banned_to
    allowed = ~np.isin(begin * network.edges + end, banned)
    begin, end = begin[allowed], end[allowed].astype(np.int32)
    first = np.searchsorted(begin, np.arange(network.edges + 1)).astype(np.int32)
    extra = np.where(network.reverse[begin] == end, u_turn, 0.0)
    # copies, which can be written: kernels are compiled once more for arrays of files, which cannot
    return Turns(np.array(network.length), np.array(network.reverse), first, end, extra, u_turn)


def make_trees(turns: Turns) -> Trees:
    """Return memory for trees; pages that are never written take none."""
    edges, room = len(turns.length), max(_ROOM, 2 * len(turns.length))
    return Trees(
        head=np.full(edges, -1, np.int64),
        size=np.zeros(edges, np.int32),
        radius=np.zeros(edges),
        edge=np.empty(room, np.int32),
        metres=np.empty(room),
        before=np.empty(room, np.int32),
        used=np.zeros(1, np.int64),
        best=np.full(edges, np.inf),
        origin=np.empty(edges, np.int32),
        heap=np.empty(len(turns.edge) + edges + 1),
        heap_edge=np.empty(len(turns.edge) + edges + 1, np.int32),
    )


@compiled
def _reach(turns: Turns, trees: Trees, edge: int, metres: float, radius: float, size: int) -> int:
    """Add the edges after ``edge``, whose end is ``metres`` from the root, to the heap."""
    for i in range(turns.first[edge], turns.first[edge + 1]):
        there, total = turns.edge[i], metres + turns.extra[i]
        if total == trees.best[there]:  # so that ties do not depend on the radius
            trees.origin[there] = min(trees.origin[there], edge)
        elif total <= radius and total < trees.best[there]:
            trees.best[there], trees.origin[there] = total, edge
            trees.heap[size], trees.heap_edge[size] = total, there
            sift_up(trees.heap, trees.heap_edge, size)
            size += 1
    return size


@compiled
def _search(turns: Turns, trees: Trees, root: int, radius: float) -> tuple[Ints, Floats, Ints]:
    """Run Dijkstra's algorithm from the end of ``root``; returns edges, metres and origins, by edge."""
    edges, count = np.empty(64, np.int32), 0
    size = _reach(turns, trees, root, 0.0, radius, 0)
    while size:
        metres, edge = trees.heap[0], trees.heap_edge[0]
        size -= 1
        trees.heap[0], trees.heap_edge[0] = trees.heap[size], trees.heap_edge[size]
        sift_down(trees.heap, trees.heap_edge, size)
        if metres > trees.best[edge]:
            continue
        if count == len(edges):
            more = np.empty(2 * count, np.int32)
            more[:count] = edges
            edges = more
        edges[count] = edge
        count += 1
        size = _reach(turns, trees, edge, metres + turns.length[edge], radius, size)
    found = np.unique(edges[:count])
    metres_, before = trees.best[found], trees.origin[found]
    trees.best[found] = np.inf
    return found, metres_, before


@compiled
def _remember(turns: Turns, trees: Trees, root: int, least: float) -> None:
    """Search the tree of an edge with a radius of at least this; if memory is full, forget all others first."""
    radius = _RADIUS
    while radius < least:
        radius *= _LARGER
    edges, metres, before = _search(turns, trees, root, radius)
    if trees.used[0] + len(edges) > len(trees.edge):
        trees.head[:] = -1
        trees.radius[:] = 0.0
        trees.used[0] = 0
    begin = trees.used[0]
    trees.edge[begin : begin + len(edges)] = edges
    trees.metres[begin : begin + len(edges)] = metres
    trees.before[begin : begin + len(edges)] = before
    trees.used[0] = begin + len(edges)
    trees.head[root], trees.size[root], trees.radius[root] = begin, len(edges), radius


@compiled
def _plant(turns: Turns, trees: Trees, root: int, radius: float) -> None:
    """Make sure that the tree of a root is known, up to a radius."""
    if trees.head[root] < 0 or trees.radius[root] < radius:
        _remember(turns, trees, root, radius)


@compiled
def _seek(edges: Ints, first: int, size: int, edge: int) -> int:
    """Return the place of an edge among sorted ones; -1 if it is not there."""
    low, high = first, first + size
    while low < high:
        middle = (low + high) >> 1
        if edges[middle] < edge:
            low = middle + 1
        else:
            high = middle
    return low if low < first + size and edges[low] == edge else -1


@compiled
def _find(turns: Turns, trees: Trees, root: int, edge: int, radius: float) -> int:
    """Return the place of an edge in the tree of a root; -1 if it is farther than ``radius``."""
    _plant(turns, trees, root, radius)
    place = _seek(trees.edge, trees.head[root], trees.size[root], edge)
    return place if place >= 0 and trees.metres[place] <= radius else -1


@compiled
def measure_routes(
    turns: Turns, trees: Trees, a: int, at_a: float, b: Ints, at_b: Floats, count: int,
    likely: float, limit: float, backwards: float, out: Floats,
) -> None:  # fmt: skip
    """Measure the routes from a place on an edge to places on others, in metres; infinite if more than ``limit``.

    A place up to ``backwards`` metres behind on the same edge counts as the same place: positions are noisy. Routes are
    searched up to the ``likely`` metres first, and farther only for a place that is not among them.
    """
    rest, back = turns.length[a] - at_a, turns.reverse[a]
    if limit >= rest:
        _plant(turns, trees, a, min(likely, limit) - rest)
    head, size = trees.head[a], trees.size[a]
    for i in range(count):
        if a == b[i] and at_b[i] >= at_a - backwards:
            out[i] = max(0.0, at_b[i] - at_a)
            continue
        best = abs(turns.length[a] - at_b[i] - at_a) + turns.u_turn if back == b[i] else np.inf
        left = limit - rest - at_b[i]
        if left >= 0.0:
            found = _seek(trees.edge, head, size, b[i])
            if found < 0 and trees.radius[a] < left:
                _plant(turns, trees, a, left)
                head, size = trees.head[a], trees.size[a]
                found = _seek(trees.edge, head, size, b[i])
            if found >= 0 and trees.metres[found] <= left:
                best = min(best, rest + trees.metres[found] + at_b[i])
        out[i] = best if best <= limit else np.inf


@compiled
def route_edges(
    turns: Turns, trees: Trees, a: int, at_a: float, b: int, at_b: float, limit: float, backwards: float
) -> Ints:
    """Return the edges between those of two places, on the route that ``measure_routes`` measures."""
    nothing = np.empty(0, np.int32)
    if a == b and at_b >= at_a - backwards:
        return nothing
    rest = turns.length[a] - at_a
    left = limit - rest - at_b
    found = _find(turns, trees, a, b, left) if left >= 0.0 else -1
    turning = abs(rest - at_b) + turns.u_turn if turns.reverse[a] == b else np.inf
    if found < 0 or rest + trees.metres[found] + at_b > turning:
        return nothing
    count, edge = 0, trees.before[found]
    while edge != a:
        count += 1
        edge = trees.before[_find(turns, trees, a, edge, left)]
    out, edge = np.empty(count, np.int32), trees.before[found]
    for i in range(count - 1, -1, -1):
        out[i] = edge
        edge = trees.before[_find(turns, trees, a, edge, left)]
    return out
