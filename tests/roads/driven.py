"""Drives whose roads are known: BerlinMOD's vehicles on a network, observed every so many seconds with noise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstream._berlinmod import drive
from slipstream._roads import paths
from slipstream._roads.matching.matcher import Matcher
from slipstream._roads.matching.routes import route_edges
from slipstream._roads.matching.viterbi import ON, Matched
from slipstream._roads.street_network import StreetNetwork

SECOND = 1_000_000


@dataclass
class Drive:
    """The edges of a drive, and its movement."""

    edges: list[int]
    t: Any
    x: Any
    y: Any


@dataclass
class Observed:
    """Positions of all drives: those of drive r are ``rows[r]:rows[r+1]``."""

    rows: Any
    t: Any
    x: Any
    y: Any


def drives(network: StreetNetwork, count: int, seed: int = 1) -> list[Drive]:
    """The fastest ways between random nodes, driven as BerlinMOD drives."""
    rng, found = np.random.default_rng(seed), list[Drive]()
    while len(found) < count:
        a, b = (int(node) for node in rng.integers(0, network.nodes, 2))
        by = paths.find_shortest_tree(network.first, network.target, network.cost, a, b)[1]
        path = paths.trace_path(network.source, by, b)
        state = np.array([rng.integers(1 << 40)])
        if len(path) > 5:
            shape = (network.shape, network.shape_x, network.shape_y, network.vmax)
            found.append(Drive(path.tolist(), *drive.drive(path, *shape, 0, state)))
    return found


def observe(driven: list[Drive], every: float, noise: float, seed: int = 2) -> Observed:
    """The position of each vehicle every so many seconds, with Gaussian noise in both directions."""
    rng, parts = np.random.default_rng(seed), list[Any]()
    for one in driven:
        t = np.arange(0, one.t[-1] + 1, round(every * SECOND))
        x, y = (np.interp(t, one.t, values) + rng.normal(0, noise, len(t)) for values in (one.x, one.y))
        parts.append((t, x, y))
    rows = np.cumsum([0, *(len(part[0]) for part in parts)])
    return Observed(rows, *(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def mismatch(matcher: Matcher, driven: list[Drive], seen: Observed, matched: Matched) -> float:
    """Metres that only one of the driven and the matched route has, per metre driven (Newson and Krumm's measure)."""
    length = matcher.network.length
    wrong = total = 0.0
    for r, one in enumerate(driven):
        metres = np.zeros(len(length))
        np.add.at(metres, one.edges, -length[one.edges])
        total += float(-metres.sum())
        for edge, begin, end in route(matcher, seen, matched, int(seen.rows[r]), int(seen.rows[r + 1])):
            metres[edge] += end - begin
        wrong += float(np.abs(metres).sum())
    return wrong / total


def route(
    matcher: Matcher, seen: Observed, matched: Matched, begin: int, end: int
) -> Iterator[tuple[int, float, float]]:
    """The parts of edges that a matched drive covers: edge, from, to."""
    settings, turns, length = matcher.settings, matcher.road.turns, matcher.network.length
    before, reached = -1, 0.0
    for i in range(begin, end):
        if matched.status[i] != ON:
            continue
        a, b, at_b = int(matched.edge[before]), int(matched.edge[i]), float(matched.offset[i])
        if before < 0 or matched.starts[i]:
            reached = at_b
        elif a == b and at_b >= matched.offset[before] - 5 * settings.noise:
            yield a, reached, max(reached, at_b)  # a little backwards is noise
            reached = max(reached, at_b)
        else:
            straight = np.hypot(seen.x[i] - seen.x[before], seen.y[i] - seen.y[before])
            limit, at_a = 6 * straight + 2000, float(matched.offset[before])
            yield a, reached, length[a]
            for edge in route_edges(turns, matcher.trees, a, at_a, b, at_b, limit, 5 * settings.noise):
                yield int(edge), 0.0, length[edge]
            yield b, 0.0, at_b
            reached = at_b
        before = i
