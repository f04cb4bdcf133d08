"""Operators that make points, lines and regions from what others write, and write them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import shapely

from slipstream._errors import BadArgument
from slipstream._moving import types
from slipstream._moving.columns import Lines, Points, is_text, take_rows
from slipstream._moving.operator_registry import Found, Result, operator
from slipstream._moving.space import geometries


def _parsed(texts: Any, how: Any, what: str, *, of_bytes: bool = False) -> Found:
    """Parse a column of text or bytes; a null has no shape."""
    wanted = pa.types.is_binary if of_bytes else pa.types.is_string
    if not isinstance(texts, pa.Array) or not is_text(texts.type) or not wanted(texts.type):
        raise BadArgument(
            f"A {what} from {getattr(texts, 'type', 'numbers')}.",
            hint=f"Pass {'bytes' if of_bytes else 'text'}.",
            code="bad-type",
        )
    found, row = geometries.parse(texts, how, what)
    if what == "point":
        places = geometries.points(found)
        return Found(row >= 0, Points(*(np.append(values, np.nan)[row] for values in places)))
    # a row without a shape takes an empty one, the last
    return Found(row >= 0, take_rows(geometries.lines([*found, shapely.Point()]), row % (len(found) + 1)))


@operator(types.REGION)
def _region_from_wkt(text: str) -> Result:
    """A region from WKT: a POLYGON or MULTIPOLYGON in metres; an invalid one is refused."""
    return _parsed(text, shapely.from_wkt, "region")


@operator(types.REGION)
def _region_from_geojson(text: str) -> Result:
    """A region from the geometry of GeoJSON, with coordinates in metres; an invalid one is refused."""
    return _parsed(text, shapely.from_geojson, "region")


@operator(types.REGION)
def _region_from_wkb(bytes: str) -> Result:
    """A region from WKB, such as ``ST_AsBinary`` makes of a GEOMETRY; an invalid one is refused."""
    return _parsed(bytes, shapely.from_wkb, "region", of_bytes=True)


@operator(types.LINE)
def _line_from_wkt(text: str) -> Result:
    """A line from WKT: a LINESTRING or MULTILINESTRING in metres."""
    return _parsed(text, shapely.from_wkt, "line")


@operator(types.POINT)
def _point_from_wkt(text: str) -> Result:
    """A point from WKT, in metres."""
    return _parsed(text, shapely.from_wkt, "point")


@operator(types.TEXT)
def _line_to_wkt(line: Lines) -> Result:
    """A line as WKT, a MULTILINESTRING."""
    return pa.array(geometries.to_wkt(line, closed=False), pa.string())


@operator(types.TEXT)
def _region_to_wkt(region: Lines) -> Result:
    """A region as WKT, a POLYGON or MULTIPOLYGON."""
    return pa.array(geometries.to_wkt(region, closed=True), pa.string())
