"""A synthetic city: rings and radials with quarters in between, similar to Berlin in size and character.

Deterministic, and no download needed: 40 x 35 km, about 4,500 crossings, freeways (two rings, eight radials), main
roads and side streets that thin out towards the edge.
"""

from __future__ import annotations

import numpy as np

from slipstream._roads.importing.graph_building import build
from slipstream._roads.street_network import PLAIN, Street, StreetNetwork, Tags
from slipstream._tools.numba_tools import uniform

#: km/h
SIDE, MAIN, FREEWAY = 30.0, 50.0, 70.0

RINGS = 47
#: crossings on the innermost ring; the number doubles where they would be too far apart
INNERMOST = 16
#: the rings that are freeways, and what their signs say
SIGNS = {14: Tags(name="Inner Ring", ref="A 100"), 32: Tags(name="Outer Ring", ref="A 10")}
HALF_WIDTH, HALF_HEIGHT = 20_000.0, 17_500.0
CENTRE = (9_500.0, 11_500.0)


def _chance(ring: int, place: int, purpose: int) -> float:
    key = np.array([(ring * 4096 + place) * 16 + purpose], dtype=np.uint64)
    return float(uniform(key)[0])


def _places_on(ring: int) -> int:
    return INNERMOST << sum(ring >= step for step in (3, 8, 20))


def _radius(ring: int) -> float:
    """Return the radius of a ring; 1 is the city's border, and rings are closer together in the centre."""
    return float(((ring + 1) / RINGS) ** 2.0)


def _place(ring: int, place: int) -> tuple[float, float]:
    count = _places_on(ring)
    wobble = 0.3 if count >= 4 * INNERMOST and place % 8 else 0.08
    angle = 2 * np.pi * (place + wobble * (_chance(ring, place, 0) - 0.5)) / count
    radius = _radius(ring) * (1 + 0.25 / (ring + 2) * (_chance(ring, place, 1) - 0.5))
    x = CENTRE[0] + HALF_WIDTH * radius * np.cos(angle)
    y = CENTRE[1] + HALF_HEIGHT * radius * np.sin(angle)
    return round(float(x)), round(float(y))


def _limit(ring: int, place: int, along_ring: bool) -> float:
    count = _places_on(ring)
    if along_ring:
        return FREEWAY if ring in SIGNS else MAIN if ring % 4 == 2 else SIDE
    spoke = place * 128 // count
    return FREEWAY if spoke % 16 == 0 and ring >= 4 else MAIN if spoke % 4 == 0 else SIDE


def _street(a: tuple[float, float], b: tuple[float, float], limit: float, bend: float, tags: Tags = PLAIN) -> Street:
    """Return a street from a to b; side streets bend in the middle."""
    if limit > SIDE:
        return Street(limit, [(*a, *b)], tags)
    middle = (
        float(round((a[0] + b[0]) / 2 + bend * (b[1] - a[1]))),
        float(round((a[1] + b[1]) / 2 - bend * (b[0] - a[0]))),
    )
    return Street(limit, [(*a, *middle), (*middle, *b)])


def streets() -> list[Street]:
    """Return the streets of the city."""
    out = []
    for ring in range(RINGS):
        count = _places_on(ring)
        for place in range(count):
            here = _place(ring, place)
            neighbours = [(_place(ring, (place + 1) % count), True, 2)]
            if ring:
                inner = _places_on(ring - 1)
                if place * inner % count == 0:
                    neighbours.append((_place(ring - 1, place * inner // count), False, 3))
            for there, along, purpose in neighbours:
                limit = _limit(ring, place, along)
                if limit > SIDE or _chance(ring, place, purpose) > 0.27:
                    bend, tags = 0.12 * (_chance(ring, place, purpose + 2) - 0.5), SIGNS.get(ring, PLAIN)
                    out.append(_street(here, there, limit, bend, tags if along else PLAIN))
    return out


def synthetic_network() -> StreetNetwork:
    """Return the city as a network."""
    return build(streets(), "the synthetic city")
