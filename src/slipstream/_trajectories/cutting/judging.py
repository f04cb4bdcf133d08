"""The kernel that divides sorted positions into trips and rejects; ``trip_rules`` says in words what it computes.

A silence between two neighbouring positions, or another mover, resets everything it knows. So the positions between two
such *breaks* can be judged on their own: all that has to be carried from one batch to the next is the positions since
the last break.
"""

from __future__ import annotations

import numpy as np

from slipstream._feeds.trip import begins_trip
from slipstream._tools.numba_tools import Bools, Bytes, Floats, Longs, compiled
from slipstream._trajectories.cutting.trip_rules import CONFLICT, DUPLICATE, JUMP, VERTEX


@compiled
def _is_silence(t: int, last: int, gap: int) -> bool:
    """Return whether a mover without lanes or directions begins a trip."""
    return begins_trip(t, 0, 0, last, 0, 0, gap)


@compiled
def find_last_break(fresh: Bools, t: Longs, gap: int) -> int:
    """Return the last position that follows a silence or is a mover's first; 0 if there is none after the first.

    >>> find_last_break(np.array([True, False, False]), np.array([0, 5, 20]), 10)
    2
    """
    for i in range(len(t) - 1, 0, -1):
        if fresh[i] or _is_silence(t[i], t[i - 1], gap):
            return i
    return 0


@compiled
def _is_reachable(a: int, b: int, t: Longs, x: Floats, y: Floats, speed: float) -> bool:
    return bool(np.hypot(x[b] - x[a], y[b] - y[a]) <= speed * ((t[b] - t[a]) / 1e6))


@compiled
def _choose(first: int, end: int, last: int, x: Floats, y: Floats, verdict: Bytes) -> int:
    """Choose between positions at one instant: the nearest to ``last``; without one (-1), the first."""
    best, least = first, np.inf
    for k in range(first, end):
        away = np.hypot(x[k] - x[last], y[k] - y[last]) if last >= 0 else 0.0
        if away < least:
            best, least = k, away
    for k in range(first, end):
        same = k > first and x[k] == x[k - 1] and y[k] == y[k - 1]
        verdict[k] = DUPLICATE if same else CONFLICT
    verdict[best] = VERTEX
    return best


@compiled
def judge(fresh: Bools, t: Longs, x: Floats, y: Floats, gap: int, speed: float, verdict: Bytes, begins: Bools) -> None:
    """Set the verdict on each position, and whether it begins a trip.

    Positions are sorted by mover, instant and place; ``fresh`` marks the first of each mover.
    """
    last, suspect, alone, i = -1, -1, False, 0
    while i < len(t):
        if fresh[i]:
            if suspect >= 0:
                verdict[suspect] = JUMP
            last = suspect = -1
        end = i + 1
        while end < len(t) and not fresh[end] and t[end] == t[i]:
            end += 1
        silent = last < 0 or _is_silence(t[i], t[last], gap)
        v = _choose(i, end, -1 if silent else last, x, y, verdict)
        i = end
        if not silent and _is_reachable(last, v, t, x, y, speed):
            if suspect >= 0:
                verdict[suspect] = JUMP
            last, suspect, alone = v, -1, False
            continue
        is_there = suspect >= 0 and not _is_silence(t[v], t[suspect], gap) and _is_reachable(suspect, v, t, x, y, speed)
        if is_there:
            if alone:
                verdict[last], begins[last] = JUMP, False
            verdict[suspect], begins[suspect] = VERTEX, True
            last, suspect, alone = v, -1, False
            continue
        if suspect >= 0:
            verdict[suspect] = JUMP
        if silent:
            begins[v] = True
            last, suspect, alone = v, -1, True
        else:
            suspect = v
    if suspect >= 0:
        verdict[suspect] = JUMP
