"""Project lines in degrees to streets in metres, in one plane."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from slipstream._errors import BadInput
from slipstream._moving.plane import Plane
from slipstream._roads.graph_building import Draft, Place
from slipstream._roads.street_network import Street, Tags


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
