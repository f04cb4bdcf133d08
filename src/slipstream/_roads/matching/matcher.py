"""A matcher: a network prepared for matching, with the routes that it remembers. One per process and network."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from slipstream._roads import road_tables
from slipstream._roads.edge_grid import make_index
from slipstream._roads.matching.lattice import Road
from slipstream._roads.matching.model import U_TURN, Model
from slipstream._roads.matching.routes import make_trees, make_turns
from slipstream._roads.matching.viterbi import Last, Matched, match_sequences, no_last, no_matches
from slipstream._roads.street_network import StreetNetwork
from slipstream._tools.numba_tools import Floats, Longs


class Matcher:
    """Matches positions to a network."""

    def __init__(self, network: StreetNetwork, model: Model) -> None:
        self.network, self.model, self.settings = network, model, model.settings
        turns = make_turns(network, float(U_TURN * model.noise))
        index = make_index(network, model.metres)
        self.road = Road(index, turns, network.shape, network.shape_x, network.shape_y)
        self.trees = make_trees(turns)

    def match(self, rows: Longs, t: Longs, x: Floats, y: Floats) -> Matched:
        """Match whole sequences: row r has the positions ``rows[r]:rows[r+1]``, in order; times in microseconds."""
        last = no_last(len(rows) - 1)
        until = np.zeros(len(rows) - 1, np.int64)
        return self.advance(rows, t, x, y, until, np.arange(len(rows) - 1), last, is_over=True)[0]

    def advance(
        self, rows: Longs, t: Longs, x: Floats, y: Floats, until: Longs, vehicle: Longs, last: Last, *, is_over: bool
    ) -> tuple[Matched, Longs]:
        """Match the next positions of vehicles, after ``last``, which is updated.

        Returns what was decided, and the first undecided position of each row.
        """
        out = no_matches(len(t))
        done = match_sequences(self.road, self.trees, self.settings, rows, t, x, y, until, is_over, vehicle, last, out)
        return out, done


@lru_cache(maxsize=4)
def _load_matcher(folder: str, _: int, model: Model) -> Matcher:
    return Matcher(road_tables.open_roads(Path(folder)), model)


def open_matcher(folder: Path, model: Model) -> Matcher:
    """Return the matcher for roads in a folder, prepared once per process."""
    road_tables.check_roads(folder)
    place = folder.absolute()
    return _load_matcher(str(place), (place / road_tables.REPORT).stat().st_mtime_ns, model)
