"""Zones as users write them: a box, or a polygon in WKT or GeoJSON. A zone that crosses itself is refused."""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import shapely

from slipstream._errors import MALFORMED, BadInput
from slipstream._moving.columns import Lines
from slipstream._moving.kernels.fence_kernels import are_inside
from slipstream._tools.numba_tools import Bools, Floats

#: west, south, east, north; or the text of a polygon
Zone: TypeAlias = "tuple[float, ...] | str"
_HINT = "Give a POLYGON or MULTIPOLYGON in WKT or GeoJSON whose rings do not cross, or west, south, east, north."


def check_zone(zone: Zone) -> None:
    """Refuse what is not a zone.

    >>> check_zone("POLYGON((0 0, 1 1, 1 0, 0 1, 0 0))")
    Traceback (most recent call last):
        ...
    slipstream._errors.BadInput: zone: Self-intersection[0.5 0.5].
    Give a POLYGON or MULTIPOLYGON in WKT or GeoJSON whose rings do not cross, or west, south, east, north.
    """
    if isinstance(zone, str):
        _parse(zone)
        return
    if len(zone) != 4 or not np.isfinite(zone).all() or zone[0] > zone[2] or zone[1] > zone[3]:
        raise _refuse(f"{list(zone)} is not a box")


def find_inside(zone: Zone, x: Floats, y: Floats) -> Bools:
    """Return which points are in a zone or on its border.

    >>> find_inside("POLYGON((0 0, 4 0, 0 4, 0 0))", np.array([1.0, 3.0]), np.array([1.0, 3.0])).tolist()
    [True, False]
    """
    if isinstance(zone, str):
        return are_inside(x, y, _parse(zone))
    west, south, east, north = zone
    return np.asarray((west <= x) & (x <= east) & (south <= y) & (y <= north))


@lru_cache(maxsize=64)
def _parse(text: str) -> Lines:
    """Parse a polygon to rings without the corner that closes them."""
    shape = read_polygon(text)
    polygons = [shape] if shape.geom_type == "Polygon" else list(shape.geoms)
    rings = [ring.coords[:-1] for one in polygons for ring in (one.exterior, *one.interiors)]
    corners = np.array([corner[:2] for ring in rings for corner in ring], np.float64)
    starts = np.r_[0, np.cumsum([len(ring) for ring in rings])].astype(np.int32)
    x, y = np.ascontiguousarray(corners[:, 0]), np.ascontiguousarray(corners[:, 1])
    return Lines(starts[[0, -1]], x, y, np.array([0, len(rings)], np.int32), starts[:-1])


def read_polygon(text: str) -> Any:
    """Read a polygon, or several, as a Shapely geometry; refuses what is not one."""
    read = shapely.from_geojson if text.lstrip().startswith("{") else shapely.from_wkt
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shape = read(text)
    except (shapely.errors.ShapelyError, *MALFORMED) as error:
        raise _refuse(str(error).splitlines()[0].rstrip(".")) from error
    if shape is None or shape.geom_type not in ("Polygon", "MultiPolygon") or shape.is_empty:
        raise _refuse("not a polygon")
    if not shape.is_valid:
        raise _refuse(shapely.is_valid_reason(shape))
    return shape


def _refuse(why: str) -> BadInput:
    return BadInput(f"zone: {why}.", hint=_HINT, code="malformed-value")
