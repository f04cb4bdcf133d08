"""From lines in degrees, or in a plane of their own, to streets in the metres of a UTM zone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from slipstream._errors import BadInput
from slipstream._moving.space.plane import Plane
from slipstream._roads.importing.graph_building import Draft, Place
from slipstream._roads.street_network import KMH, Street, StreetNetwork, Tags, measure


class Line(NamedTuple):
    """A street whose places may be degrees; ``nodes`` numbers them if its file does."""

    places: list[Place]
    vmax: float
    tags: Tags
    nodes: Sequence[Any] = ()

    def street(self, places: list[Place]) -> Street:
        """Return the street with its places in metres."""
        return Street(self.vmax, [(*a, *b) for a, b in pairwise(places)], self.tags, self.nodes)


def project(lines: list[Line], path: Path) -> Draft:
    """Project lines in degrees to the UTM zone of their centre, rounded to millimetres."""
    degrees = np.array([place for line in lines for place in line.places], dtype=float).reshape(-1, 2)
    if not len(degrees):
        return Draft([])
    utm = Plane.utm_at(*degrees.mean(axis=0).tolist())
    try:
        x, y = utm.project(degrees[:, 0], degrees[:, 1])
    except BadInput as error:
        raise error.within(str(path), hint="All streets must be in one region, a few hundred km wide.") from error
    flat = zip(np.round(x, 3).tolist(), np.round(y, 3).tolist(), strict=True)
    return Draft([line.street(list(islice(flat, len(line.places)))) for line in lines], utm.srid)


def move_to_utm(network: StreetNetwork, plane: Plane) -> StreetNetwork:
    """Move a network from a plane that nobody else knows to the UTM zone of its centre."""
    lon, lat = plane.locate(network.x, network.y)
    utm = Plane.utm_at(float(lon.mean()), float(lat.mean()))
    x, y = utm.project(lon, lat)
    shape_x, shape_y = utm.project(*plane.locate(network.shape_x, network.shape_y))
    length = measure(network.shape, shape_x, shape_y)
    cost = KMH * length / network.vmax
    return replace(network, x=x, y=y, shape_x=shape_x, shape_y=shape_y, length=length, cost=cost, srid=utm.srid)
