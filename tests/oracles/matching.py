"""Map matching in plain Python: every way through the candidates is tried, routes are found by relaxing until nothing
changes. Shares no code with the kernel; the parameters of the model are given."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

Place = tuple[float, float]


@dataclass
class PlainRoads:
    """Directed edges as lists of places; pairs of edges that are each other's reverse; turns that are forbidden."""

    edges: list[list[Place]]
    ends: list[tuple[int, int]]
    reverse: list[int]
    banned: set[tuple[int, int]]
    u_turn: float
    routes: dict[int, list[float]] = field(default_factory=dict)

    def length(self, edge: int) -> float:
        return sum(math.dist(a, b) for a, b in pairwise(self.edges[edge]))

    def nearest(self, edge: int, place: Place) -> tuple[float, float]:
        """Metres along the edge, and from it."""
        best, before = (math.inf, 0.0), 0.0
        for a, b in pairwise(self.edges[edge]):
            size = math.dist(a, b)
            share = ((place[0] - a[0]) * (b[0] - a[0]) + (place[1] - a[1]) * (b[1] - a[1])) / size**2
            share = min(1.0, max(0.0, share))
            foot = (a[0] + share * (b[0] - a[0]), a[1] + share * (b[1] - a[1]))
            best = min(best, (math.dist(foot, place), before + share * size))
            before += size
        return best[1], best[0]

    def after(self, edge: int) -> list[tuple[int, float]]:
        return [
            (other, self.u_turn if self.reverse[edge] == other else 0.0)
            for other, (begin, _) in enumerate(self.ends)
            if begin == self.ends[edge][1] and (edge, other) not in self.banned
        ]

    def from_end(self, edge: int) -> list[float]:
        """Metres from the end of an edge to the start of every edge."""
        if edge not in self.routes:
            metres = [math.inf] * len(self.edges)
            for other, extra in self.after(edge):
                metres[other] = extra
            changed = True
            while changed:
                changed = False
                for one in range(len(self.edges)):
                    for other, extra in self.after(one) if metres[one] < math.inf else ():
                        total = metres[one] + self.length(one) + extra
                        if total < metres[other] - 1e-12:
                            metres[other], changed = total, True
            self.routes[edge] = metres
        return self.routes[edge]

    def route(self, a: int, at_a: float, b: int, at_b: float, backwards: float) -> float:
        if a == b and at_b >= at_a - backwards:
            return max(0.0, at_b - at_a)
        whole = self.length(a) - at_a + self.from_end(a)[b] + at_b
        if self.reverse[a] == b:
            return min(whole, abs(self.length(a) - at_b - at_a) + self.u_turn)
        return whole


@dataclass
class Answer:
    status: list[str]
    starts: list[bool]
    #: of each stretch: the positions that count, and the score of the best way
    stretches: list[tuple[list[int], float]]


@dataclass
class Matching:
    """The model, as the explanation describes it."""

    roads: PlainRoads
    noise: float
    detour: float
    reach: float
    gap: float
    fastest: float

    def candidates(self, place: Place) -> list[tuple[int, float, float]]:
        found = [(edge, *self.roads.nearest(edge, place)) for edge in range(len(self.roads.edges))]
        return [one for one in found if one[2] <= self.reach]

    def emission(self, distance: float) -> float:
        return -0.5 * (distance / self.noise) ** 2

    def transition(self, one: Any, other: Any, straight: float) -> float:
        metres = self.roads.route(one[0], one[1], other[0], other[1], 5 * self.noise)
        if metres > 3 * straight + 300 + 8 * self.noise:
            return -math.inf
        return -abs(metres - straight) / self.detour

    def match(self, t: list[float], places: list[Place]) -> Answer:
        answer = Answer([], [], [])
        ways: list[tuple[float, Any]] = []
        used: list[int] = []
        seen, jump = -math.inf, None
        for i, place in enumerate(places):
            answer.starts.append(False)
            near = bool(used) and math.dist(place, places[used[-1]]) < 2 * self.noise
            if near and t[i] - seen <= self.gap:
                seen = t[i]
                answer.status.append("on")
                continue
            here = self.candidates(place)
            if not here:
                answer.status.append("off")
                continue
            onward: list[tuple[float, Any]] = []
            if used and t[i] - seen <= self.gap:
                straight = math.dist(place, places[used[-1]])
                if self._can_drive(places[used[-1]], seen, place, t[i]):
                    onward = [
                        (score + moved + self.emission(one[2]), one)
                        for score, last in ways
                        for one in here
                        if (moved := self.transition(last, one, straight)) > -math.inf
                    ]
                elif jump is None or not self._can_drive(jump[0], jump[1], place, t[i]):
                    jump = (place, t[i])
                    answer.status.append("jump")
                    continue
            if not onward:
                if used:
                    answer.stretches.append((used, max(score for score, _ in ways)))
                used, onward = [], [(self.emission(one[2]), one) for one in here]
                answer.starts[i] = True
            answer.status.append("on")
            ways, seen, jump = onward, t[i], None
            used = [*used, i]
        if used:
            answer.stretches.append((used, max(score for score, _ in ways)))
        return answer

    def _can_drive(self, a: Place, at_a: float, b: Place, at_b: float) -> bool:
        return math.dist(a, b) <= self.fastest * (at_b - at_a) + 6 * self.noise

    def score(self, places: list[Place], used: list[int], chosen: list[tuple[int, float]]) -> float:
        """The score of a way that somebody else chose."""
        total, before = 0.0, None
        for i, (edge, offset) in zip(used, chosen, strict=True):
            near_offset, distance = self.roads.nearest(edge, places[i])
            assert math.isclose(near_offset, offset, abs_tol=1e-6)
            total += self.emission(distance)
            if before is not None:
                straight = math.dist(places[i], places[before[0]])
                total += self.transition(before[1], (edge, offset), straight)
            before = (i, (edge, offset))
        return total
