"""Kernels of fences: what a thing that is seen from time to time does at a zone or a place.

Only the positions at which it was seen count, not the path between them. Live and in history the same kernels answer:
they take positions in order, each with the number of its thing, and what is known of each thing so far.
"""

from __future__ import annotations

import numpy as np

from slipstream._moving.columns import Lines, MPoints, Points
from slipstream._moving.kernels.places import contains
from slipstream._tools.numba_tools import Bools, Floats, Longs, compiled

#: there is no such time
NEVER = np.iinfo(np.int64).min


@compiled
def find_before(things: Longs, inside: Bools, was: Longs) -> Bools:
    """Return whether each thing was inside at its position before; ``was`` learns of each."""
    out = np.empty(things.size, np.bool_)
    for i in range(things.size):
        out[i] = was[things[i]] != 0
        was[things[i]] = inside[i]
    return out


@compiled
def find_dwellings(things: Longs, t: Longs, inside: Bools, least: Longs, since: Longs, done: Longs) -> Bools:
    """Return at which positions things have been inside for ``least`` since they entered; once for each stay.

    ``since`` is when each thing entered, and ``done`` whether its stay has been reported.
    """
    out = np.zeros(things.size, np.bool_)
    for i in range(things.size):
        thing = things[i]
        if not inside[i]:
            since[thing], done[thing] = NEVER, 0
            continue
        if since[thing] == NEVER:
            since[thing] = t[i]
        if done[thing] == 0 and t[i] - since[thing] >= least[thing]:
            out[i], done[thing] = True, 1
    return out


@compiled
def are_inside(x: Floats, y: Floats, zone: Lines) -> Bools:
    """Return which points are in a single region or on its border."""
    out = np.empty(x.size, np.bool_)
    for i in range(x.size):
        out[i] = contains(zone, 0, x[i], y[i])
    return out


@compiled
def are_near(x: Floats, y: Floats, at_x: float, at_y: float, metres: float) -> Bools:
    """Return which points of the plane are at most ``metres`` from another."""
    out = np.empty(x.size, np.bool_)
    for i in range(x.size):
        out[i] = np.hypot(x[i] - at_x, y[i] - at_y) <= metres
    return out


# --- histories


def things_of(m: MPoints) -> Longs:
    """Return the row of each vertex of moving points."""
    return np.repeat(np.arange(len(m.rows) - 1), np.diff(m.rows))


@compiled
def vertices_inside(m: MPoints, region: Lines) -> Bools:
    """Return which vertices of moving points are in the region of their row."""
    out = np.empty(m.rows[-1] - m.rows[0], np.bool_)
    for row in range(len(m.rows) - 1):
        for i in range(m.rows[row], m.rows[row + 1]):
            out[i - m.rows[0]] = contains(region, row, m.x[i], m.y[i])
    return out


def select_vertices(m: MPoints, which: Bools) -> MPoints:
    """Return moving points that are at some of their vertices only, each a sequence of its own."""
    counts = np.bincount(things_of(m)[which], minlength=len(m.rows) - 1)
    rows = np.r_[0, np.cumsum(counts)].astype(np.int32)
    where = m.rows[0] + np.flatnonzero(which)
    starts = (np.arange(rows[-1]) - np.repeat(rows[:-1], counts)).astype(np.int32)
    return MPoints(rows, m.t[where], m.x[where], m.y[where], rows, starts)


def find_crossings(m: MPoints, region: Lines) -> tuple[Bools, Bools]:
    """Return at which vertices moving points enter and leave their regions."""
    inside = vertices_inside(m, region)
    before = find_before(things_of(m), inside, np.zeros(len(m.rows) - 1, np.int64))
    return inside & ~before, before & ~inside


def find_stays(m: MPoints, region: Lines, seconds: Floats) -> Bools:
    """Return at which vertices moving points have been in their regions for some seconds."""
    count = len(m.rows) - 1
    least, t = np.rint(seconds * 1e6).astype(np.int64), np.array(m.t[m.rows[0] : m.rows[-1]])
    inside = vertices_inside(m, region)
    return find_dwellings(things_of(m), t, inside, least, np.full(count, NEVER), np.zeros(count, np.int64))


@compiled
def find_arrivals(m: MPoints, places: Points, metres: Floats) -> tuple[Bools, Longs]:
    """Return which moving points have a vertex near their place, and the time of the first one."""
    count = len(m.rows) - 1
    found, when = np.zeros(count, np.bool_), np.zeros(count, np.int64)
    for row in range(count):
        for i in range(m.rows[row], m.rows[row + 1]):
            if np.hypot(m.x[i] - places.x[row], m.y[i] - places.y[row]) <= metres[row]:
                found[row], when[row] = True, m.t[i]
                break
    return found, when
