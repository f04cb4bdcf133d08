"""Points, lines and regions from WKT, GeoJSON, WKB and Shapely; what is not a valid shape is refused.

GEOMETRY columns of Spark come as WKB: ``region_from_wkb(ST_AsBinary(zone))``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import shapely

from slipstream._errors import BadInput
from slipstream._moving.columns import Lines, Points
from slipstream._moving.timeline import offsets
from slipstream._tools.numba_tools import Longs

_HINTS = {
    "region": "A region is a POLYGON or MULTIPOLYGON in metres, whose rings do not cross themselves or each other.",
    "line": "A line is a LINESTRING or MULTILINESTRING in metres.",
    "point": "A point is a POINT in metres.",
}
_KINDS = {"region": ("Polygon", "MultiPolygon"), "line": ("LineString", "MultiLineString"), "point": ("Point",)}


class ParsedShapes(NamedTuple):
    """The shapes of a column: each different one once, and which one each row has, -1 for none."""

    shapes: list[Any]
    row: Longs


def parse(texts: pa.Array, how: Callable[[Any], Any], what: str) -> ParsedShapes:
    """Parse a column of shapes, each text once; an invalid one is refused with its row."""
    encoded = texts.dictionary_encode()
    row = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    places = [f"row {int(np.argmax(row == k)) + 1} of {len(texts)}" for k in range(len(encoded.dictionary))]
    found = zip(encoded.dictionary.to_pylist(), places, strict=True)
    return ParsedShapes([_parse(text, how, what, where) for text, where in found], row)


def _parse(text: Any, how: Callable[[Any], Any], what: str, where: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shape = how(text)
    except (shapely.errors.ShapelyError, ValueError, TypeError) as error:
        raise _refused(what, where, str(error).splitlines()[0]) from error
    return checked(shape, what, where)


def _refused(what: str, where: str, reason: str) -> BadInput:
    return BadInput(f"{what} in {where}: {reason}.", hint=_HINTS[what], code="malformed-value")


def checked(shape: Any, what: str, where: str) -> Any:
    """Return a shape of Shapely in two dimensions; refuse another kind and what is invalid."""
    if not isinstance(shape, shapely.Geometry):
        raise _refused(what, where, f"a {type(shape).__name__}")
    if shape.geom_type not in _KINDS[what]:
        raise _refused(what, where, f"a {shape.geom_type}")
    if not shape.is_valid:
        raise _refused(what, where, shapely.is_valid_reason(shape))
    if what == "point" and shape.is_empty:
        raise _refused(what, where, "an empty point")
    if not np.isfinite(shapely.get_coordinates(shape)).all():
        raise _refused(what, where, "a coordinate is not a finite number")
    return shapely.force_2d(shape)


def _parts(shape: Any) -> list[Any]:
    """Return the lines of a shape, the rings of a region without their repeated last corner."""
    parts = []
    for part in getattr(shape, "geoms", [shape]):
        rings = [part.exterior, *part.interiors] if part.geom_type == "Polygon" else [part]
        ends = -1 if part.geom_type == "Polygon" else None
        parts += [shapely.get_coordinates(ring)[:ends] for ring in rings if not ring.is_empty]
    return parts


def lines(shapes: Sequence[Any]) -> Lines:
    """Return a column of lines or regions."""
    n = len(shapes)
    parts = [_parts(shape) for shape in shapes]
    row = np.repeat(np.arange(n), [len(one) for one in parts])
    sizes = np.array([len(part) for one in parts for part in one], np.int64)
    places = np.concatenate([np.empty((0, 2)), *(part for one in parts for part in one)])
    rows = offsets(row, sizes, n)
    starts = np.cumsum(sizes) - sizes - rows[row]
    x, y = np.ascontiguousarray(places[:, 0]), np.ascontiguousarray(places[:, 1])
    return Lines(rows, x, y, offsets(row, 1, n), starts.astype(np.int32))


def points(shapes: Sequence[Any]) -> Points:
    """Return a column of points."""
    places = shapely.get_coordinates(shapes)
    return Points(np.ascontiguousarray(places[:, 0]), np.ascontiguousarray(places[:, 1]))


def to_wkt(lines: Lines, *, closed: bool) -> list[str]:
    """Return lines, or regions if ``closed``, as WKT.

    A region's rings become polygons with holes by the even-odd rule, as the region itself counts them.
    """
    return [_wkt(lines, row, closed) for row in range(len(lines.rows) - 1)]


def _wkt(lines: Lines, row: int, closed: bool) -> str:
    at = lines.starts[lines.parts[row] : lines.parts[row + 1]]
    base, end = int(lines.rows[row]), int(lines.rows[row + 1])
    places = np.stack([lines.x[base:end], lines.y[base:end]], axis=1)
    parts = np.split(places, at[1:])[: len(at)]
    if closed:
        shape: Any = shapely.MultiPolygon()
        for ring in parts:
            shape = shapely.symmetric_difference(shape, shapely.Polygon(ring))
    else:
        shape = shapely.MultiLineString([part if len(part) > 1 else np.repeat(part, 2, axis=0) for part in parts])
    return str(shapely.to_wkt(shape, rounding_precision=-1))
