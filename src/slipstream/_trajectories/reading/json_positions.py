"""Positions in JSON documents: GeoJSON with times, as kepler.gl plays it, and OGC Moving Features JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from slipstream._errors import MALFORMED, BadInput
from slipstream._tools.strict_json import parse_json

#: a position: id, time, lon, lat, file; the first four are text or null, as they are checked later
Row = tuple[str | None, str | None, str | None, str | None, str]
#: seconds since 1970 up to here (the year 5138); larger times are milliseconds, as in kepler.gl
_SECONDS = 1e11
_PLAIN = ("CRS84", "4326")
#: geometries as lists of positions; a track of one position is a point, because a line has two at least
_LINES: dict[str, Callable[[Any], list[Any]]] = {
    "Point": lambda place: [[place]],
    "LineString": lambda line: [line],
    "MultiLineString": list,
}


def geojson_rows(path: str, content: bytes) -> list[Row]:
    """Return the positions of lines and points, which are [lon, lat, height, time]; a feature's id, or that of its row.

    >>> line = b'{"type": "LineString", "coordinates": [[13.4, 52.5, 0, 1777881600]]}'
    >>> geojson_rows("van.geojson", line)
    [('van', '2026-05-04T08:00:00.000000Z', '13.4', '52.5', 'van')]
    """
    stem = Path(path).stem
    try:
        return [row for feature in _features(parse_json(content)) for row in _line_rows(feature, stem)]
    except MALFORMED as error:
        raise _malformed(path, "GeoJSON", str(error)) from error


def _features(document: Any) -> list[Any]:
    if "features" in document:
        return list(document["features"])
    return [document if "geometry" in document or "temporalGeometry" in document else {"geometry": document}]


def _line_rows(feature: Any, stem: str) -> Iterator[Row]:
    geometry = feature["geometry"] or {"type": "LineString", "coordinates": []}
    if geometry["type"] not in _LINES:
        raise ValueError(f"a geometry is a {geometry['type']}")
    id_ = _id_of(feature, stem)
    for line in _LINES[geometry["type"]](geometry["coordinates"]):
        for lon, lat, *rest in line:
            yield id_, _write_time(rest[1]) if len(rest) > 1 else None, _text(lon), _text(lat), stem


def _id_of(feature: Any, stem: str) -> str:
    found = feature.get("id", (feature.get("properties") or {}).get("id"))
    return stem if found is None else str(found)


def _write_time(given: Any) -> str:
    """Return seconds or milliseconds since 1970 as text; what is neither stays as it is, and is rejected later."""
    import numpy as np

    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
        return str(given)
    seconds = given / 1000 if abs(given) > _SECONDS else given
    return f"{np.datetime64(round(seconds * 1e6), 'us')}Z" if abs(seconds) <= _SECONDS else str(given)


def mfjson_rows(path: str, content: bytes) -> list[Row]:
    """Return the positions of moving points, in longitudes and latitudes.

    >>> moving = b'{"type": "MovingPoint", "datetimes": ["2026-05-04T08:00:00Z"], "coordinates": [[13.4, 52.5]]}'
    >>> mfjson_rows("van.mfjson", moving)
    [('van', '2026-05-04T08:00:00Z', '13.4', '52.5', 'van')]
    """
    stem = Path(path).stem
    try:
        document = parse_json(content)
        features = list(document["features"]) if "features" in document else [document]
        return [row for feature in features for row in _moving_rows(feature, document, path, stem)]
    except MALFORMED as error:
        raise _malformed(path, "MF-JSON", str(error)) from error


def _moving_rows(feature: Any, document: Any, path: str, stem: str) -> Iterator[Row]:
    body = feature.get("temporalGeometry", feature)
    crs = body.get("crs") or feature.get("crs") or document.get("crs")
    if crs and not any(name in str(crs) for name in _PLAIN):
        raise BadInput(
            f"{path}: its coordinates are not longitudes and latitudes ({str(crs)[:60]}).",
            hint="Trips.read reads moving points in metres.",
            code="bad-coordinates",
        )
    id_ = _id_of(feature, stem)
    for part in body.get("prisms", body.get("sequences", [body])):
        for time, (lon, lat, *_) in zip(part["datetimes"], part["coordinates"], strict=True):
            yield id_, str(time), _text(lon), _text(lat), stem


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _malformed(path: str, what: str, why: str) -> BadInput:
    shapes = {
        "GeoJSON": "lines or points with positions [lon, lat, height, time], in seconds or milliseconds since 1970",
        "MF-JSON": "moving points with datetimes and coordinates",
    }
    return BadInput(f"{path}: not {what} with times ({why}).", hint=f"Expected {shapes[what]}.", code="unreadable-file")
