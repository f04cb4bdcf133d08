"""Street files of others: SECONDO nested lists, CSV, GeoJSON and OpenStreetMap."""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
import zlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from slipstream.berlinmod.city import synthetic
from slipstream.berlinmod.network import FREEWAY, MAIN, SIDE, Network, Street, build
from slipstream.documents import json_of
from slipstream.errors import MALFORMED, BadArgument, BadInput
from slipstream.moving.tracks import flat

#: OpenStreetMap's kinds of road that cars use, and our three classes
HIGHWAYS = {
    **dict.fromkeys(("motorway", "motorway_link", "trunk", "trunk_link"), FREEWAY),
    **dict.fromkeys(("primary", "primary_link", "secondary", "secondary_link"), MAIN),
    **dict.fromkeys(("tertiary", "tertiary_link", "residential", "unclassified", "living_street"), SIDE),
}
_DEGREES = {"urn:ogc:def:crs:OGC:1.3:CRS84", "urn:ogc:def:crs:EPSG::4326", "EPSG:4326", "OGC:CRS84"}


def read_network(path: Path | None) -> Network:
    """The network in ``path``, by its ending; the synthetic city without one."""
    if path is None:
        return synthetic()
    if not path.is_file():
        raise BadArgument(f"--network {path}: no such file.", hint="Leave it out for the synthetic city.")
    readers = {
        ".data": secondo_streets,
        ".csv": csv_streets,
        ".geojson": geojson_streets,
        ".json": geojson_streets,
        ".pbf": osm_streets,
        ".osm": osm_streets,
    }
    ending = Path(path.name.removesuffix(".gz")).suffix
    if ending not in readers:
        raise BadArgument(f"--network {path}: unknown kind of file.", hint=f"Known endings: {', '.join(readers)}.")
    return build(readers[ending](path), str(path))


def text_of(path: Path) -> str:
    """The text of a file, gzipped or not."""
    try:
        raw = path.read_bytes()
        return (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8")
    except (OSError, UnicodeDecodeError, EOFError, zlib.error) as error:
        raise BadInput(
            f"{path}: cannot be read as text ({error}).", hint="Give a text file, gzipped or not."
        ) from error


def nested_list(path: Path) -> list[Any]:
    """A SECONDO nested list as Python lists; numbers become floats."""
    stack: list[list[Any]] = [[]]
    for token in re.finditer(r"[()]|\"[^\"]*\"|[^\s()]+", text_of(path)):
        word = token.group()
        if word == "(":
            stack.append([])
        elif word == ")":
            if len(stack) < 2:
                raise BadInput(f"{path}: a closing bracket too many.", hint="Export the object again.")
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(_atom(word))
    if len(stack) != 1 or not stack[0]:
        raise BadInput(f"{path}: cut short, {len(stack) - 1} brackets are open.", hint="Export the object again.")
    return cast(list[Any], stack[0][0])


def _atom(word: str) -> Any:
    try:
        return float(word)
    except ValueError:
        return word


def secondo_streets(path: Path) -> Iterator[Street]:
    """``(OBJECT streets () (rel (tuple ((Vmax real) (GeoData line)))) (...))``."""
    tree, number = nested_list(path), 0
    try:
        for row in tree[4]:
            number += 1
            vmax, line = row
            yield Street(float(vmax), [(float(a), float(b), float(c), float(d)) for a, b, c, d in line])
    except MALFORMED as error:
        raise BadInput(
            f"{path}: street {number}: not (Vmax ((x0 y0 x1 y1) ...)).",
            hint="The file must hold a relation with attributes Vmax and GeoData.",
        ) from error


def secondo_regions(path: Path) -> list[tuple[float, list[list[tuple[float, float]]]]]:
    """Weighted regions: (weight, outer rings) by priority."""
    try:
        rows = sorted(nested_list(path)[4], key=lambda row: float(row[0]))
        regions = [
            (_finite(row[1], least=0), [[(_finite(x), _finite(y)) for x, y in face[0]] for face in row[2]])
            for row in rows
        ]
    except MALFORMED as error:
        raise BadInput(
            f"{path}: not (Priority Weight ((((x y) ...)) ...)) ({error}).",
            hint="The file must hold a relation with attributes Priority, Weight and GeoData.",
        ) from error
    return regions


def _finite(value: Any, least: float = -math.inf) -> float:
    number = float(value)
    if not math.isfinite(number) or number < least:
        raise ValueError(f"{number} is out of range")
    return number


def csv_streets(path: Path) -> Iterator[Street]:
    """``Id,Vmax,X1,Y1,X2,Y2``: rows with one Id are one street."""
    rows = csv.DictReader(io.StringIO(text_of(path), newline=""))
    wanted = ("Id", "Vmax", "X1", "Y1", "X2", "Y2")
    streets: dict[str, tuple[float, list[tuple[float, float, float, float]]]] = {}
    try:
        if missing := [name for name in wanted if name not in (rows.fieldnames or ())]:
            raise BadInput(f"{path}: no column {missing[0]}.", hint=f"The first line must be {','.join(wanted)}.")
        for row in rows:
            vmax, *ends = (float(row[name]) for name in wanted[1:])
            streets.setdefault(row["Id"], (vmax, []))[1].append((ends[0], ends[1], ends[2], ends[3]))
    except (csv.Error, *MALFORMED) as error:
        raise BadInput(f"{path}, line {rows.line_num}: {error}.", hint="Numbers in metres and km/h.") from error
    return (Street(vmax, segments) for vmax, segments in streets.values())


def _street_of(places: list[tuple[float, float]], vmax: float) -> Street:
    return Street(vmax, [(*a, *b) for a, b in pairwise(places)])


def geojson_streets(path: Path) -> Iterator[Street]:
    """A FeatureCollection of LineStrings with a ``vmax`` (or ``maxspeed``) property; degrees unless a CRS in metres."""
    try:
        body = json_of(text_of(path))
        features = list(body["features"])
        crs = str(body.get("crs", {}).get("properties", {}).get("name", "OGC:CRS84"))
    except MALFORMED as error:
        raise BadInput(f"{path}: not a GeoJSON FeatureCollection.", hint="Export lines as GeoJSON.") from error
    if crs not in _DEGREES and crs != "metres":
        raise BadInput(
            f"{path}: reference system {crs}.", hint='Give WGS 84, or crs name "metres" for plane coordinates.'
        )
    lines = []
    for number, feature in enumerate(features, 1):
        try:
            geometry, values = feature["geometry"], feature.get("properties") or {}
            if geometry["type"] != "LineString":
                raise ValueError(f"a {geometry['type']}, not a LineString")
            places = [(float(p[0]), float(p[1])) for p in geometry["coordinates"]]
            if crs != "metres" and not all(abs(lon) <= 180 and abs(lat) <= 90 for lon, lat in places):
                raise ValueError("coordinates that are not degrees")
            lines.append((places, float(values.get("vmax", values.get("maxspeed", SIDE)))))
        except MALFORMED as error:
            raise BadInput(f"{path}, feature {number}: {error}.", hint="LineStrings with a vmax in km/h.") from error
    if crs == "metres":
        return (_street_of(places, vmax) for places, vmax in lines)
    lat0 = sum(p[1] for places, _ in lines for p in places) / max(1, sum(len(places) for places, _ in lines))
    return (_street_of([flat(*p, lat0) for p in places], vmax) for places, vmax in lines)


def osm_streets(path: Path) -> Iterator[Street]:
    """Roads for cars from ``.osm.pbf`` or ``.osm``."""
    import osmium

    lines = []
    try:
        for way in osmium.FileProcessor(str(path)).with_locations().with_filter(osmium.filter.KeyFilter("highway")):
            if isinstance(way, osmium.osm.Way) and (vmax := HIGHWAYS.get(way.tags.get("highway") or "")):
                lines.append(([(n.lon, n.lat) for n in way.nodes if n.location.valid()], vmax))
    except (RuntimeError, osmium.InvalidLocationError, *MALFORMED) as error:
        raise BadInput(f"{path}: {error}.", hint="Give an OpenStreetMap extract (.osm.pbf or .osm).") from error
    lat0 = sum(p[1] for places, _ in lines for p in places) / max(1, sum(len(places) for places, _ in lines))
    return (_street_of([flat(*p, lat0) for p in places], vmax) for places, vmax in lines)
