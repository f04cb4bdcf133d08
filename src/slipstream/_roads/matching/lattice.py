"""The lattice of a vehicle: its undecided positions, the candidates of each, and the best way to every candidate.

Scores are logarithms of probabilities as whole numbers, so sums are exact: what was decided does not depend on where
the computation was interrupted and continued.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slipstream._roads.edge_grid import EdgeGrid, find_streets
from slipstream._roads.matching.routes import Trees, Turns, measure_routes
from slipstream._tools.numba_tools import Floats, Ints, Longs, compiled

#: candidates of a position: streets, and directions of streets
STREETS = 8
MOST = 2 * STREETS
#: units of a score in one natural logarithm
SCALE = 1_000_000.0
#: the score of what cannot be
NEVER = -(1 << 60)


class ModelSettings(NamedTuple):
    """The model: metres and microseconds."""

    #: the standard deviation of positions
    noise: float
    #: how much a route may differ from the straight line: the mean of an exponential distribution
    detour: float
    #: the longest silence that a route bridges
    gap: int
    #: the highest speed, in metres per second; what is faster is a jump
    fastest: float
    #: how long a decision may wait
    lag: int


class Road(NamedTuple):
    """What positions are matched to."""

    near: EdgeGrid
    turns: Turns
    shape: Ints
    x: Floats
    y: Floats


class Lattice(NamedTuple):
    """Positions in slots, one after the other: which point each is, and its candidates."""

    point: Longs
    t: Longs
    #: when the vehicle was last seen near there
    seen: Longs
    x: Floats
    y: Floats
    candidates: Ints
    edge: Ints
    offset: Floats
    #: from the edge to the position, to the left
    aside: Floats
    score: Longs
    before: Ints
    #: the score of the route from each candidate of the slot before to each of this one
    route: Longs
    #: of the slot that is being filled: the streets near it, the places along and beside them, and metres of routes
    street: Ints
    along: Floats
    beside: Floats
    metres: Floats


@compiled
def make_lattice(slots: int) -> Lattice:
    """Return an empty lattice."""
    wide = (slots, MOST)
    return Lattice(
        np.empty(slots, np.int64),
        np.empty(slots, np.int64),
        np.empty(slots, np.int64),
        np.empty(slots),
        np.empty(slots),
        np.zeros(slots, np.int32),
        np.empty(wide, np.int32),
        np.empty(wide),
        np.empty(wide),
        np.empty(wide, np.int64),
        np.empty(wide, np.int32),
        np.empty((slots, MOST, MOST), np.int64),
        np.empty(STREETS, np.int32),
        np.empty(STREETS),
        np.empty(STREETS),
        np.empty(MOST),
    )


@compiled
def copy_slot(source: Lattice, slot: int, target: Lattice, to: int) -> None:
    """Copy a slot, also within a lattice, and over the slot before it."""
    others = source.candidates[slot - 1] if slot else 0
    target.point[to], target.t[to], target.seen[to] = source.point[slot], source.t[slot], source.seen[slot]
    target.x[to], target.y[to] = source.x[slot], source.y[slot]
    target.candidates[to] = source.candidates[slot]
    for c in range(source.candidates[slot]):
        target.edge[to, c], target.offset[to, c] = source.edge[slot, c], source.offset[slot, c]
        target.aside[to, c], target.score[to, c] = source.aside[slot, c], source.score[slot, c]
        target.before[to, c] = source.before[slot, c]
    for b in range(others):
        for c in range(source.candidates[slot]):
            target.route[to, b, c] = source.route[slot, b, c]


@compiled
def make_room(lattice: Lattice) -> Lattice:
    """Return a lattice with the same slots, and room for as many more."""
    larger = make_lattice(2 * len(lattice.t))
    for slot in range(len(lattice.t)):
        copy_slot(lattice, slot, larger, slot)
    return larger


@compiled
def put_candidates(road: Road, lattice: Lattice, slot: int, x: float, y: float) -> int:
    """Put the edges near a place into a slot, both directions of a street; returns how many there are."""
    edges, offsets, asides, count = lattice.street, lattice.along, lattice.beside, 0
    for i in range(find_streets(road.near, x, y, edges, offsets, asides)):
        lattice.edge[slot, count], lattice.offset[slot, count] = edges[i], offsets[i]
        lattice.aside[slot, count] = asides[i]
        count += 1
        back = road.turns.reverse[edges[i]]
        if back >= 0:
            lattice.edge[slot, count] = back
            lattice.offset[slot, count] = max(0.0, road.turns.length[edges[i]] - offsets[i])
            lattice.aside[slot, count] = -asides[i]
            count += 1
    lattice.candidates[slot], lattice.x[slot], lattice.y[slot] = count, x, y
    return count


@compiled
def score_position(how: ModelSettings, aside: float) -> int:
    """Score a position at a distance from a road: Gaussian."""
    return -int(SCALE * 0.5 * (aside / how.noise) ** 2 + 0.5)


@compiled
def score_routes(road: Road, trees: Trees, how: ModelSettings, lattice: Lattice, slot: int) -> None:
    """Score the routes to a slot from the one before: exponential in their difference from the straight line."""
    dx, dy = lattice.x[slot] - lattice.x[slot - 1], lattice.y[slot] - lattice.y[slot - 1]
    straight = np.sqrt(dx * dx + dy * dy)
    likely = 1.5 * straight + road.turns.u_turn + 100.0
    limit = 3.0 * straight + 300.0 + 8.0 * how.noise
    count, metres = lattice.candidates[slot], lattice.metres
    for c in range(lattice.candidates[slot - 1]):
        a, at_a = lattice.edge[slot - 1, c], lattice.offset[slot - 1, c]
        measure_routes(
            road.turns, trees, a, at_a, lattice.edge[slot], lattice.offset[slot], count,
            likely, limit, 5.0 * how.noise, metres,
        )  # fmt: skip
        for d in range(count):
            found = metres[d] != np.inf
            lattice.route[slot, c, d] = _score_detour(how, abs(metres[d] - straight)) if found else NEVER


@compiled
def _score_detour(how: ModelSettings, metres: float) -> int:
    return -int(SCALE * metres / how.detour + 0.5)


@compiled
def begin_slot(how: ModelSettings, lattice: Lattice, slot: int) -> None:
    """Score the candidates of a slot that follows none."""
    for d in range(lattice.candidates[slot]):
        lattice.score[slot, d], lattice.before[slot, d] = score_position(how, lattice.aside[slot, d]), -1


@compiled
def advance(how: ModelSettings, lattice: Lattice, slot: int) -> bool:
    """Find the best predecessor of each candidate of a slot whose routes are scored; returns whether any has one."""
    is_reached = False
    for d in range(lattice.candidates[slot]):
        best, chosen = NEVER, -1
        for c in range(lattice.candidates[slot - 1]):
            total = lattice.score[slot - 1, c] + lattice.route[slot, c, d]
            if total > best:
                best, chosen = total, c
        if best <= NEVER // 2:
            best, chosen = NEVER, -1
        else:
            best += score_position(how, lattice.aside[slot, d])
            is_reached = True
        lattice.score[slot, d], lattice.before[slot, d] = best, chosen
    return is_reached


@compiled
def find_best(lattice: Lattice, slot: int) -> int:
    """Return the candidate of a slot with the highest score; of equal ones, the first."""
    best = 0
    for c in range(1, lattice.candidates[slot]):
        if lattice.score[slot, c] > lattice.score[slot, best]:
            best = c
    return best


@compiled
def find_likely(lattice: Lattice, slot: int, least: int) -> int:
    """Return the candidates of a slot with at least a score, as bits."""
    found = 0
    for c in range(lattice.candidates[slot]):
        if lattice.score[slot, c] >= least:
            found |= 1 << c
    return found


@compiled
def trace_back(lattice: Lattice, slot: int, ways: int) -> int:
    """Return the predecessors of some candidates of a slot, as bits."""
    found = 0
    for c in range(lattice.candidates[slot]):
        if ways >> c & 1:
            found |= 1 << lattice.before[slot, c]
    return found


@compiled
def find_common(lattice: Lattice, size: int) -> int:
    """Return the last slot at which all ways are the same; -1 if there is none."""
    ways = find_likely(lattice, size - 1, NEVER + 1)
    for slot in range(size - 1, -1, -1):
        if ways & (ways - 1) == 0:
            return slot
        ways = trace_back(lattice, slot, ways) if slot else 0
    return -1
