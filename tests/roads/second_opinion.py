"""fastmm: the same model in C++, with tables of all routes up to a distance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fastmm
import numpy as np

from roads.driven import Observed
from slipstream._roads.street_network import StreetNetwork


class SecondOpinion:
    """A network as fastmm knows it."""

    def __init__(self, network: StreetNetwork, noise: float, folder: Path, farthest: float = 2000.0) -> None:
        self._noise = noise
        self._known = known = fastmm.Network()  # the matcher does not keep it alive
        for edge in range(network.edges):
            places = [(x, y) for x, y in network.places(edge).tolist()]
            known.add_edge(edge, int(network.source[edge]), int(network.target[edge]), places)
        known.finalize()
        shortest = fastmm.TransitionMode.SHORTEST
        self._matcher = fastmm.FastMapMatch(known, shortest, farthest, cache_dir=str(folder))

    def match(self, seen: Observed) -> Any:
        """The edge of each position; -1 if there is none."""
        found = np.full(len(seen.t), -1)
        for begin, end in zip(seen.rows[:-1].tolist(), seen.rows[1:].tolist(), strict=True):
            self._match(seen, begin, end, found)
        return found

    def _match(self, seen: Observed, begin: int, end: int, found: Any) -> None:
        places = list(zip(seen.x[begin:end].tolist(), seen.y[begin:end].tolist(), strict=True))
        track = fastmm.Trajectory.from_xy_tuples(places)
        options = {"max_candidates": 8, "candidate_search_radius": 50.0, "gps_error": self._noise}
        for part in self._matcher.match(track, reverse_tolerance=5 * self._noise, **options).subtrajectories:
            for number, segment in enumerate(part.segments):
                if not segment.edges:
                    continue
                at = begin + part.start_index + number
                found[at], found[at + 1] = segment.edges[0].edge_id, segment.edges[-1].edge_id
