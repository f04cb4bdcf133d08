"""Visits to zones by Shapely's geometry: a vehicle's way is cut by each polygon, leg by leg. Slow on purpose."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import shapely


class Visit(NamedTuple):
    """A vehicle was in a zone."""

    vehicle: Any
    zone: str
    entered: float
    left: float
    metres: float


@dataclass
class _Open:
    entered: float
    metres: float = 0.0


def visits(positions: Iterable[tuple[Any, float, float, float]], zones: Mapping[str, Any], gap: float) -> list[Visit]:
    """All visits of vehicles, given (vehicle, time, x, y) in order; those that are open at the end end with it."""
    ways = defaultdict(list)
    for vehicle, t, x, y in positions:
        if not ways[vehicle] or t > ways[vehicle][-1][0]:
            ways[vehicle].append((t, x, y))
    return [
        visit
        for vehicle, way in ways.items()
        for trip in _trips(way, gap)
        for name, shape in zones.items()
        for visit in _visits(vehicle, trip, name, shape)
    ]


def _trips(way: list[tuple[float, float, float]], gap: float) -> list[list[tuple[float, float, float]]]:
    trips = [way[:1]]
    for before, now in pairwise(way):
        if now[0] - before[0] > gap:
            trips.append([])
        trips[-1].append(now)
    return trips


def _visits(vehicle: Any, trip: list[tuple[float, float, float]], name: str, shape: Any) -> Iterable[Visit]:
    """Stretches of a trip, as (begin, end, metres), joined where one ends when the next begins."""
    now: _Open | None = None
    end = 0.0
    t0, x0, y0 = trip[0]
    if shape.contains(shapely.Point(x0, y0)):
        now, end = _Open(t0), t0
    for (t0, x0, y0), (t1, x1, y1) in pairwise(trip):
        for begin, until, metres in _stretches(t0, x0, y0, t1, x1, y1, shape):
            if now is not None and begin > end + 1e-6:
                yield Visit(vehicle, name, now.entered, end, now.metres)
                now = None
            now = now or _Open(begin)
            now.metres += metres
            end = until
    if now is not None:
        yield Visit(vehicle, name, now.entered, end, now.metres)


def _stretches(
    t0: float, x0: float, y0: float, t1: float, x1: float, y1: float, shape: Any
) -> list[tuple[float, float, float]]:
    """The parts of a leg that are inside."""
    leg = shapely.LineString([(x0, y0), (x1, y1)])
    if leg.length == 0:
        return [(t0, t1, 0.0)] if shape.contains(shapely.Point(x0, y0)) else []
    found = leg.intersection(shape)
    parts = []
    for part in getattr(found, "geoms", [found]):
        if part.length > 0:
            places = sorted(leg.project(shapely.Point(place)) / leg.length for place in part.coords)
            first, last = places[0], places[-1]
            parts.append((t0 + first * (t1 - t0), t0 + last * (t1 - t0), (last - first) * leg.length))
    return sorted(parts)
