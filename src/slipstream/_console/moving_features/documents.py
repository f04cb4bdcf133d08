"""What the standard calls things: collections, features, temporal geometries and temporal properties as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from slipstream._console.moving_features.collections import DIGITS, Collection, Extent, ServedData, spread, to_segment
from slipstream._moving.columns import MPoints, Periods, Temporals, freeze, freeze_all
from slipstream._moving.kernels import motion, values
from slipstream._moving.timeline import values_at
from slipstream._moving.types import DISCRETE, INTERPOLATIONS
from slipstream._tools.numba_tools import Ints, Longs
from slipstream._trajectories.exchange.temporal_properties import plain_values, type_of, write_times

JSON, GEOJSON = "application/json", "application/geo+json"
CRS84 = "http://www.opengis.net/def/crs/OGC/1.3/CRS84"
_GREGORIAN = "http://www.opengis.net/def/uom/ISO-8601/0/Gregorian"
#: the reference systems of a document
SYSTEMS: dict[str, Any] = {
    "crs": {"type": "Name", "properties": {"name": "urn:ogc:def:crs:OGC:1.3:CRS84"}},
    "trs": {"type": "Name", "properties": {"name": "urn:ogc:data:time:iso8601"}},
}
#: what is implemented; the classes mf-collection and movingfeatures also require that data can be changed
CONFORMANCE = [
    "http://www.opengis.net/spec/ogcapi-common-1/1.0/conf/core",
    "http://www.opengis.net/spec/ogcapi-common-2/1.0/conf/collections",
    "http://www.opengis.net/spec/ogcapi-features-1/1.0/conf/core",
    "http://www.opengis.net/spec/ogcapi-features-1/1.0/conf/geojson",
    "http://www.opengis.net/spec/ogcapi-movingfeatures-1/1.0/conf/common",
]


def link(href: str, rel: str, title: str = "", kind: str = JSON) -> dict[str, str]:
    """Return a link."""
    return {"href": href, "rel": rel, "type": kind} | ({"title": title} if title else {})


# --- collections and features


def describe_collection(source: ServedData, extent: Extent | None, root: str) -> dict[str, Any]:
    """Return a collection."""
    address = f"{root}/collections/{to_segment(source.name)}"
    return {
        "id": to_segment(source.name),
        "title": source.name,
        "description": f"Trips of {source.name}, kept in {source.system.title}.",
        "itemType": "movingfeature",
        "crs": [CRS84],
        **({"extent": _describe_extent(extent)} if extent else {}),
        "links": [link(address, "self"), link(f"{address}/items", "items", "the moving features", GEOJSON)],
    }


def _describe_extent(extent: Extent) -> dict[str, Any]:
    box = [round(edge, DIGITS) for edge in extent.box]
    return {
        "spatial": {"bbox": [box], "crs": CRS84},
        "temporal": {"interval": [write_times(np.array(extent.span))], "trs": _GREGORIAN},
    }


def describe_feature(collection: Collection, mover: int, root: str) -> dict[str, Any]:
    """Return a mover without its movement: who it is, where and when."""
    address, trips = f"{root}/{collection.ids[mover]}", collection.of(mover)
    rows = slice(collection.first[mover], collection.first[mover + 1])
    box = [float(edge) for edge in (trips.x.min(), trips.y.min(), trips.x.max(), trips.y.max())]
    return {
        "type": "Feature",
        "id": collection.ids[mover],
        "properties": {
            "trips": len(trips.rows) - 1,
            "positions": len(trips.t),
            "kilometres": round(float(collection.metres[rows].sum()) / 1000, 3),
        },
        "geometry": _describe_path(trips),
        "bbox": [round(edge, DIGITS) for edge in box],
        "time": write_times(np.array([trips.t.min(), trips.t.max()])),
        "links": [
            link(address, "self", kind=GEOJSON),
            link(f"{address}/tgsequence", "related", "the movement"),
            *([link(f"{address}/tproperties", "related", "values over time")] if collection.values else []),
        ],
    }


def _describe_path(trips: MPoints) -> dict[str, Any]:
    """Return where trips went as GeoJSON: lines, and points where nothing moved."""
    lines = motion.trajectories(trips)
    starts = lines.starts + np.repeat(lines.rows[:-1], np.diff(lines.parts))
    places = _places(lines.x, lines.y)
    parts = [places[a:b] for a, b in zip(starts, np.append(starts[1:], lines.rows[-1]), strict=True)]
    points, paths = [part[0] for part in parts if len(part) == 1], [part for part in parts if len(part) > 1]
    found = [_one_or_many("Point", points), _one_or_many("LineString", paths)]
    geometries = [geometry for geometry in found if geometry]
    return geometries[0] if len(geometries) == 1 else {"type": "GeometryCollection", "geometries": geometries}


def _one_or_many(kind: str, parts: Sequence[Any]) -> dict[str, Any] | None:
    if not parts:
        return None
    one = len(parts) == 1
    return {"type": kind if one else f"Multi{kind}", "coordinates": parts[0] if one else parts}


def _places(x: Any, y: Any) -> list[list[float]]:
    places: list[list[float]] = np.c_[x, y].round(DIGITS).tolist()
    return places


# --- temporal geometries


def describe_movement(m: MPoints, ids: Sequence[str], interpolation: str = "Linear") -> list[dict[str, Any]]:
    """Return temporal geometries, one for each row with instants, which has one sequence."""
    times, places = write_times(m.t), _places(m.x, m.y)
    return [
        {
            "id": ids[row],
            "type": "MovingPoint",
            "datetimes": times[a:b],
            "coordinates": places[a:b],
            "interpolation": interpolation,
        }
        for row, (a, b) in enumerate(zip(m.rows[:-1], m.rows[1:], strict=True))
        if a < b
    ]


def combine(geometries: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the movement of a feature as one object."""
    plain = [{name: value for name, value in one.items() if name != "id"} for one in geometries]
    return plain[0] if len(plain) == 1 else {"type": "MovingGeometryCollection", "prisms": plain}


def at_instants(m: MPoints, instants: Longs) -> MPoints:
    """Return the positions at instants, as far as each row is defined there."""
    rows = len(m.rows) - 1
    found = [motion.positions_at(m, freeze(np.full(rows, instant))) for instant in instants]
    there, x, y = (np.stack([each[place] for each in found], axis=1) for place in range(3))
    offsets = np.concatenate(([0], np.cumsum(there.sum(axis=1)))).astype(np.int32)
    t = np.broadcast_to(instants, there.shape)[there]
    each = np.arange(rows + 1, dtype=np.int32)
    return freeze_all(MPoints(offsets, t, x[there], y[there], each, np.zeros(rows, np.int32)))


# --- temporal properties


def during(value: Temporals, span: Periods) -> Temporals:
    """Return a value during a period."""
    return freeze_all(values.restrict(value, spread(span, len(value.rows) - 1)))


def values_at_leaf(value: Temporals, leaf: Longs) -> Iterator[dict[str, Any]]:
    """Return what each row of a value over time has at instants."""
    rows = len(value.rows) - 1
    taken: list[list[tuple[int, Any]]] = [[] for _ in range(rows)]
    for instant in leaf.tolist():
        there, found = values_at(value, value.value, freeze(np.full(rows, instant)))
        for row in np.flatnonzero(there).tolist():
            taken[row].append((instant, plain_values(found)[row]))
    for pairs in filter(None, taken):
        times, given = zip(*pairs, strict=True)
        kind = INTERPOLATIONS[DISCRETE].capitalize()
        yield {"datetimes": write_times(np.array(times)), "values": list(given), "interpolation": kind}


def describe_property(name: str, value: Temporals) -> dict[str, Any]:
    """Return what a temporal property is, without its values."""
    return {"name": name, "type": type_of(value)}


def bound_page(sizes: Ints | Longs, limit: int, most: int) -> int:
    """Return how many things fit on a page: at most ``limit``, and one or those with at most ``most`` positions.

    >>> bound_page(np.array([5, 5, 5]), 2, 100), bound_page(np.array([500, 5, 5]), 2, 100)
    (2, 1)
    """
    fitting = int(np.searchsorted(np.cumsum(sizes), most, side="right"))
    return min(limit, max(1, fitting), len(sizes))
