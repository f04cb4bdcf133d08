"""The parameters of the nine queries, all derived from the events."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstream._bench.berlinmod.position_events import Events
from slipstream._errors import BadInput

_METRES = 5_000.0
#: a window is this part of the time between the first and the last event
_WINDOWS = 200
_SHORTEST_TICK = 1_000
#: points of interest: how far from the centre in extents, and their radius in metres
_POINTS = ((0.0, 2_000.0), (0.1, 1_000.0), (-0.1, 2_000.0))


@dataclass(frozen=True)
class Parameters:
    """What the queries ask for; times in milliseconds, positions (lon, lat) in degrees with 7 decimals."""

    point: tuple[float, float]  # of Q3 and Q5
    metres: float  # of Q3, Q5 and Q8
    meet: float  # of Q5
    area: tuple[float, float, float, float]  # of Q4: west, south, east, north
    segment: tuple[float, float, float, float]  # of Q8
    points: tuple[tuple[float, float, float, float], ...]  # of Q7: number, lon, lat, metres
    target: int  # of Q2, and Y of Q9
    other: int  # X of Q9
    window: int
    tick: int

    @classmethod
    def derive(cls, events: Events) -> Parameters:
        """Derive them from all events."""
        if not len(events):
            raise BadInput("There are no events.", hint="Give a file or a data set with positions.", code="empty-input")
        lon, lat = float(np.mean(events.lon)), float(np.mean(events.lat))
        west, east = float(events.lon.min()), float(events.lon.max())
        wide, high = east - west, float(events.lat.max()) - float(events.lat.min())
        vehicles = np.unique(events.vehicle)
        window = max(1, int(events.t.max() - events.t.min()) // 1000 // _WINDOWS) * 1000
        return cls(
            point=(_round(lon), _round(lat)),
            metres=_METRES,
            meet=_METRES,
            area=_round_all(lon - 0.25 * wide, lat - 0.25 * high, lon + 0.25 * wide, lat + 0.25 * high),
            segment=_round_all(west + 0.25 * wide, lat, east - 0.25 * wide, lat),
            points=tuple(
                (float(number), _round(lon + far * wide), _round(lat + far * high), metres)
                for number, (far, metres) in enumerate(_POINTS, 1)
            ),
            target=int(vehicles[vehicles.size // 2]),
            other=int(vehicles[0]),
            window=window,
            tick=max(_SHORTEST_TICK, window // 2),
        )


def _round(degrees: float) -> float:
    return round(degrees, 7)


def _round_all(a: float, b: float, c: float, d: float) -> tuple[float, float, float, float]:
    return _round(a), _round(b), _round(c), _round(d)
