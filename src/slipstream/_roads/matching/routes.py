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

#: the radius of the smallest tree; each next is twice as large
_RADIUS = 250.0
#: edges in all trees
_ROOM = 1 << 22


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
    return Turns(network.length, network.reverse, first, end, extra, u_turn)


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
        radius *= 2.0
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
def _find(turns: Turns, trees: Trees, root: int, edge: int, radius: float) -> int:
    """Return the place of an edge in the tree of a root; -1 if it is farther than ``radius``."""
    if trees.head[root] < 0 or trees.radius[root] < radius:
        _remember(turns, trees, root, radius)
    low = trees.head[root]
    high = low + trees.size[root]
    end = high
    while low < high:
        middle = (low + high) // 2
        if trees.edge[middle] < edge:
            low = middle + 1
        else:
            high = middle
    if low < end and trees.edge[low] == edge and trees.metres[low] <= radius:
        return int(low)
    return -1


@compiled
def least_metres(turns: Turns, a: int, at_a: float, b: int, at_b: float, backwards: float) -> float:
    """Return metres that a route from a place on an edge to one on another certainly has, without looking it up."""
    if a == b and at_b >= at_a - backwards:
        return max(0.0, at_b - at_a)
    onwards = turns.length[a] - at_a + at_b
    if turns.reverse[a] == b:
        return float(min(onwards, abs(turns.length[a] - at_b - at_a) + turns.u_turn))
    return float(onwards)


@compiled
def route_metres(
    turns: Turns, trees: Trees, a: int, at_a: float, b: int, at_b: float, limit: float, backwards: float
) -> float:
    """Return the metres from a place on an edge to one on another; infinite if more than ``limit``.

    A place up to ``backwards`` metres behind on the same edge counts as the same place: positions are noisy.
    """
    if a == b and at_b >= at_a - backwards:
        return max(0.0, at_b - at_a)
    best = np.inf
    if turns.reverse[a] == b:
        best = abs(turns.length[a] - at_b - at_a) + turns.u_turn
    left = limit - (turns.length[a] - at_a) - at_b
    if left >= 0.0:
        found = _find(turns, trees, a, b, left)
        if found >= 0:
            best = min(best, turns.length[a] - at_a + trees.metres[found] + at_b)
    return best if best <= limit else np.inf


@compiled
def route_edges(
    turns: Turns, trees: Trees, a: int, at_a: float, b: int, at_b: float, limit: float, backwards: float
) -> Ints:
    """Return the edges between those of two places, on the route that ``route_metres`` measures."""
    nothing = np.empty(0, np.int32)
    if a == b and at_b >= at_a - backwards:
        return nothing
    metres = route_metres(turns, trees, a, at_a, b, at_b, limit, backwards)
    left = limit - (turns.length[a] - at_a) - at_b
    found = _find(turns, trees, a, b, left) if left >= 0.0 else -1
    if found < 0 or turns.length[a] - at_a + trees.metres[found] + at_b > metres:
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
