"""Shortest paths between the nodes of a street network, and the heap that searches share."""

from __future__ import annotations

import numpy as np

from slipstream._tools.numba_tools import Floats, Ints, compiled


@compiled
def sift_up(heap: Floats, nodes: Ints, at: int) -> None:
    """Restore the order of a heap after its entry ``at`` was added."""
    while at > 0:
        parent = (at - 1) // 2
        if heap[parent] <= heap[at]:
            break
        heap[parent], heap[at] = heap[at], heap[parent]
        nodes[parent], nodes[at] = nodes[at], nodes[parent]
        at = parent


@compiled
def sift_down(heap: Floats, nodes: Ints, size: int) -> None:
    """Restore the order of a heap after its first entry was replaced."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[at] <= heap[child]:
            break
        heap[child], heap[at] = heap[at], heap[child]
        nodes[child], nodes[at] = nodes[at], nodes[child]
        at = child


@compiled
def find_shortest_tree(first: Ints, target: Ints, cost: Floats, source: int, goal: int) -> tuple[Floats, Ints]:
    """Run Dijkstra's algorithm from ``source``: return travel times, and the edge that reaches each node (-1: none).

    Stops at ``goal``; a goal of -1 reaches every node.
    """
    n = len(first) - 1
    times, by, done = np.full(n, np.inf), np.full(n, -1, np.int32), np.zeros(n, np.bool_)
    heap, nodes = np.empty(len(target) + 1), np.empty(len(target) + 1, np.int32)
    times[source], heap[0], nodes[0], size = 0.0, 0.0, source, 1
    while size:
        node = nodes[0]
        size -= 1
        heap[0], nodes[0] = heap[size], nodes[size]
        sift_down(heap, nodes, size)
        if done[node]:
            continue
        done[node] = True
        if node == goal:
            break
        for edge in range(first[node], first[node + 1]):
            there, time = target[edge], times[node] + cost[edge]
            if time < times[there]:
                times[there], by[there] = time, edge
                heap[size], nodes[size] = time, there
                sift_up(heap, nodes, size)
                size += 1
    return times, by


@compiled
def trace_path(source: Ints, by: Ints, goal: int) -> Ints:
    """Return the edges from the tree's root to ``goal``."""
    count, node = 0, goal
    while by[node] >= 0:
        node = source[by[node]]
        count += 1
    out, node = np.empty(count, np.int32), goal
    while by[node] >= 0:
        count -= 1
        out[count] = by[node]
        node = source[by[node]]
    return out
