"""The lattice of a vehicle: its undecided positions, the candidates of each, and the best way to every candidate.

Scores are logarithms of probabilities as whole numbers, so sums are exact: what was decided does not depend on where
the computation was interrupted and continued.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slipstream._roads.edge_grid import EdgeGrid, find_streets
from slipstream._roads.matching.routes import Trees, Turns, least_metres, route_metres
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
    )


@compiled
def copy_slot(source: Lattice, slot: int, target: Lattice, to: int) -> None:
    """Copy a slot."""
    target.point[to], target.t[to], target.seen[to] = source.point[slot], source.t[slot], source.seen[slot]
    target.x[to], target.y[to] = source.x[slot], source.y[slot]
    target.candidates[to] = source.candidates[slot]
    for c in range(source.candidates[slot]):
        target.edge[to, c], target.offset[to, c] = source.edge[slot, c], source.offset[slot, c]
        target.aside[to, c], target.score[to, c] = source.aside[slot, c], source.score[slot, c]
        target.before[to, c] = source.before[slot, c]


@compiled
def make_room(lattice: Lattice, size: int) -> Lattice:
    """Return a lattice with room for another slot."""
    if size < len(lattice.t):
        return lattice
    larger = make_lattice(2 * size)
    for slot in range(size):
        copy_slot(lattice, slot, larger, slot)
    return larger


@compiled
def put_candidates(road: Road, lattice: Lattice, slot: int, x: float, y: float) -> int:
    """Put the edges near a place into a slot, both directions of a street; returns how many there are."""
    edges, offsets, asides = np.empty(STREETS, np.int32), np.empty(STREETS), np.empty(STREETS)
    count = 0
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
    return -int(SCALE * 0.5 * (aside / how.noise) * (aside / how.noise) + 0.5)


@compiled
def score_route(
    road: Road, trees: Trees, how: ModelSettings, lattice: Lattice, slot: int, c: int, to: int, d: int,
    straight: float, least: int,
) -> int:  # fmt: skip
    """Score the route between candidates of two slots: exponential in its difference from the straight line.

    One that is below ``least`` need not be exact: most routes are too long already for what lies of their two edges
    between the candidates, and need not be looked up.
    """
    limit = 3.0 * straight + 300.0 + 8.0 * how.noise
    a, b = lattice.edge[slot, c], lattice.edge[to, d]
    at_a, at_b = lattice.offset[slot, c], lattice.offset[to, d]
    shortest = least_metres(road.turns, a, at_a, b, at_b, 5.0 * how.noise)
    if shortest > limit or (shortest > straight and _score_detour(how, shortest - straight) < least):
        return NEVER
    metres = route_metres(road.turns, trees, a, at_a, b, at_b, limit, 5.0 * how.noise)
    return NEVER if metres == np.inf else _score_detour(how, abs(metres - straight))


@compiled
def _score_detour(how: ModelSettings, metres: float) -> int:
    return -int(SCALE * metres / how.detour + 0.5)


@compiled
def find_straight(lattice: Lattice, slot: int, to: int) -> float:
    """Return the metres between the positions of two slots."""
    return float(np.hypot(lattice.x[to] - lattice.x[slot], lattice.y[to] - lattice.y[slot]))


@compiled
def begin_slot(how: ModelSettings, lattice: Lattice, slot: int) -> None:
    """Score the candidates of a slot that follows none."""
    for d in range(lattice.candidates[slot]):
        lattice.score[slot, d], lattice.before[slot, d] = score_position(how, lattice.aside[slot, d]), -1


@compiled
def _sort_by_score(lattice: Lattice, slot: int) -> Ints:
    """Return the candidates of a slot, the best first; of equal ones, the first."""
    order = np.empty(lattice.candidates[slot], np.int32)
    for c in range(len(order)):
        at = c
        while at > 0 and lattice.score[slot, order[at - 1]] < lattice.score[slot, c]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = c
    return order


@compiled
def advance(road: Road, trees: Trees, how: ModelSettings, lattice: Lattice, slot: int) -> bool:
    """Find the best predecessor of each candidate of a slot; returns whether any has one.

    A route adds at most nothing to a score, so predecessors are tried from the best one down, until no other can win.
    """
    order, found = _sort_by_score(lattice, slot - 1), False
    straight = find_straight(lattice, slot - 1, slot)
    for d in range(lattice.candidates[slot]):
        best, chosen = NEVER, -1
        for c in order:
            before = lattice.score[slot - 1, c]
            if before < best or before == NEVER:
                break
            total = before + score_route(road, trees, how, lattice, slot - 1, c, slot, d, straight, best - before)
            if total > best or (total == best and c < chosen):
                best, chosen = total, c
        if best <= NEVER // 2:
            best, chosen = NEVER, -1
        else:
            best += score_position(how, lattice.aside[slot, d])
            found = True
        lattice.score[slot, d], lattice.before[slot, d] = best, chosen
    return found


@compiled
def find_best(lattice: Lattice, slot: int) -> int:
    """Return the candidate of a slot with the highest score; of equal ones, the first."""
    best = 0
    for c in range(1, lattice.candidates[slot]):
        if lattice.score[slot, c] > lattice.score[slot, best]:
            best = c
    return best


@compiled
def find_common(lattice: Lattice, size: int) -> int:
    """Return the last slot at which all ways are the same; -1 if there is none."""
    alive = 0
    for c in range(lattice.candidates[size - 1]):
        if lattice.score[size - 1, c] > NEVER:
            alive |= 1 << c
    for slot in range(size - 1, -1, -1):
        if alive & (alive - 1) == 0:
            return slot
        before = 0
        for c in range(lattice.candidates[slot]):
            if alive >> c & 1 and slot > 0:
                before |= 1 << lattice.before[slot, c]
        alive = before
    return -1
