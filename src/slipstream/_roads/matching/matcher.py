"""A matcher: a network prepared for matching, with the routes that it remembers. One per process and network."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from slipstream._errors import BadArgument
from slipstream._roads import stored
from slipstream._roads.index import make_index
from slipstream._roads.matching.kernel import Last, Matched, match_sequences, no_last, no_matches
from slipstream._roads.matching.lattice import Road, Settings
from slipstream._roads.matching.routes import make_trees, make_turns
from slipstream._roads.network import StreetNetwork
from slipstream._tools.numba_tools import Floats, Longs

_MICROS = 1_000_000
#: no lag: a decision waits for all positions that could change it
_FOREVER = 1 << 60


@dataclass(frozen=True)
class Model:
    """How positions are matched; metres, seconds and metres per second."""

    #: the standard deviation of positions
    noise: float = 10.0
    #: how far a road may be away; by default five times the noise, and at least 50
    reach: float | None = None
    #: the longest silence that a route bridges
    gap: float = 120.0
    #: the highest speed of a vehicle
    fastest: float = 70.0
    #: how long a decision may wait; None: until all positions are known
    lag: float | None = None

    def __post_init__(self) -> None:
        bounds = {"noise": (0.1, 200.0), "reach": (1.0, 1000.0), "gap": (1.0, 86_400.0), "fastest": (1.0, 1000.0)}
        for name, (least, most) in bounds.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise BadArgument(
                    f"{name} {value}: out of range.", hint=f"Give {least:g} to {most:g}.", code="out-of-range"
                )
        if self.lag is not None and not 0 <= self.lag <= 86_400:
            raise BadArgument(f"lag {self.lag}: out of range.", hint="Give 0 to 86,400 seconds.", code="out-of-range")

    @property
    def metres(self) -> float:
        """How far a road may be away."""
        return max(50.0, 5 * self.noise) if self.reach is None else self.reach

    @property
    def settings(self) -> Settings:
        """The numbers that kernels use."""
        lag = _FOREVER if self.lag is None else round(self.lag * _MICROS)
        return Settings(self.noise, DETOUR * self.noise, round(self.gap * _MICROS), self.fastest, lag)


#: the mean difference of a route from the straight line, in standard deviations of positions
DETOUR = 1.0


class Matcher:
    """Matches positions to a network."""

    def __init__(self, network: StreetNetwork, model: Model) -> None:
        self.network, self.model, self.settings = network, model, model.settings
        turns = make_turns(network)
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
        done = match_sequences(
            self.road, self.trees, self.settings, rows, t, x, y, until, is_over, vehicle, last, out
        )
        return out, done


@lru_cache(maxsize=4)
def _matcher(folder: str, _: int, model: Model) -> Matcher:
    return Matcher(stored.open_roads(Path(folder)), model)


def open_matcher(folder: Path, model: Model) -> Matcher:
    """Return the matcher for roads in a folder, prepared once per process."""
    stored.check_roads(folder)
    place = folder.absolute()
    return _matcher(str(place), (place / stored.REPORT).stat().st_mtime_ns, model)
