"""Read street files: SECONDO nested lists, CSV, GeoJSON and OpenStreetMap."""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np

from slipstream._berlinmod.exchange.heads import HINT
from slipstream._berlinmod.roads.street_network import FREEWAY, MAIN, SIDE, Street, StreetNetwork, build
from slipstream._berlinmod.roads.synthetic_city import synthetic_network
from slipstream._errors import MALFORMED, BadArgument, BadInput
from slipstream._moving import plane
from slipstream._moving.plane import Plane
from slipstream._tools.strict_json import parse_json

#: the speed limits of OpenStreetMap's kinds of road for cars, in our three classes
HIGHWAYS = {
    **dict.fromkeys(("motorway", "motorway_link", "trunk", "trunk_link"), FREEWAY),
    **dict.fromkeys(("primary", "primary_link", "secondary", "secondary_link"), MAIN),
    **dict.fromkeys(("tertiary", "tertiary_link", "residential", "unclassified", "living_street"), SIDE),
}
_DEGREES = {"urn:ogc:def:crs:OGC:1.3:CRS84", "urn:ogc:def:crs:EPSG::4326", "EPSG:4326", "OGC:CRS84"}


def read_network(path: Path | None, *, metres: bool = False) -> StreetNetwork:
    """Read the network in ``path``, by its extension; without a path, return the synthetic city.

    GeoJSON and OpenStreetMap are in degrees: they are projected to the UTM zone of their centre, whose code the
    network keeps. The others are in metres: coordinates that look like degrees are rejected unless ``metres`` is set.
    """
    if path is None:
        return synthetic_network()
    if not path.is_file():
        raise BadArgument(
            f"--network {path}: no such file.",
            hint="Omit --network to use the synthetic city.",
            code="no-such-file",
            found=path,
        )
    in_metres = {".data": secondo_streets, ".csv": csv_streets}
    in_degrees = {".geojson": geojson_streets, ".json": geojson_streets, ".pbf": osm_streets, ".osm": osm_streets}
    ending = Path(path.name.removesuffix(".gz")).suffix
    if ending in in_metres:
        return build(metre_streets(in_metres[ending](path), path, metres=metres), str(path))
    if ending in in_degrees:
        streets, srid = in_degrees[ending](path)
        return replace(build(streets, str(path)), srid=srid)
    known = ", ".join([*in_metres, *in_degrees])
    raise BadArgument(
        f"--network {path}: unknown file type.", hint=f"Supported extensions: {known}.", code="wrong-file-type"
    )


def metre_streets(streets: Iterable[Street], path: Path, *, metres: bool) -> list[Street]:
    """Return streets in metres; reject coordinates that look like degrees unless ``metres`` is set."""
    read = list(streets)
    places = np.array([segment for street in read for segment in street.segments], dtype=float).reshape(-1, 2)
    if not metres:
        plane.refuse_degrees(str(path), places[:, 0], places[:, 1], columns="its places", hint=HINT)
    return read


def read_text(path: Path) -> str:
    """Return the text of a file, gzipped or not."""
    try:
        raw = path.read_bytes()
        return (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8")
    except (OSError, UnicodeDecodeError, EOFError, zlib.error) as error:
        raise BadInput(
            f"{path}: cannot be read as text ({error}).",
            hint="Use a text file, gzipped or not.",
            code="unreadable-file",
        ) from error


def read_nested_list(path: Path) -> list[Any]:
    """Read a SECONDO nested list as Python lists; numbers become floats."""
    stack: list[list[Any]] = [[]]
    for token in re.finditer(r"[()]|\"[^\"]*\"|[^\s()]+", read_text(path)):
        word = token.group()
        if word == "(":
            stack.append([])
        elif word == ")":
            if len(stack) < 2:
                raise BadInput(
                    f"{path}: unbalanced closing bracket.", hint="Export the object again.", code="unreadable-file"
                )
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(_atom(word))
    if len(stack) != 1 or not stack[0]:
        raise BadInput(
            f"{path}: truncated, {len(stack) - 1} brackets are open.",
            hint="Export the object again.",
            code="unreadable-file",
        )
    return cast(list[Any], stack[0][0])


def _atom(word: str) -> Any:
    try:
        return float(word)
    except ValueError:
        return word


def secondo_streets(path: Path) -> Iterator[Street]:
    """Read ``(OBJECT streets () (rel (tuple ((Vmax real) (GeoData line)))) (...))``."""
    tree, number = read_nested_list(path), 0
    try:
        for row in tree[4]:
            number += 1
            vmax, line = row
            yield Street(float(vmax), [(float(a), float(b), float(c), float(d)) for a, b, c, d in line])
    except MALFORMED as error:
        raise BadInput(
            f"{path}: street {number}: not (Vmax ((x0 y0 x1 y1) ...)).",
            hint="The file must contain a relation with attributes Vmax and GeoData.",
            code="unreadable-line",
        ) from error


def secondo_regions(path: Path) -> list[tuple[float, list[list[tuple[float, float]]]]]:
    """Read weighted regions: (weight, outer rings) by priority."""
    try:
        rows = sorted(read_nested_list(path)[4], key=lambda row: float(row[0]))
        regions = [
            (_finite(row[1], least=0), [[(_finite(x), _finite(y)) for x, y in face[0]] for face in row[2]])
            for row in rows
        ]
    except MALFORMED as error:
        raise BadInput(
            f"{path}: not (Priority Weight ((((x y) ...)) ...)) ({error}).",
            hint="The file must contain a relation with attributes Priority, Weight and GeoData.",
            code="unreadable-file",
        ) from error
    return regions


def _finite(value: Any, least: float = -math.inf) -> float:
    number = float(value)
    if not math.isfinite(number) or number < least:
        raise ValueError(f"{number} is out of range")
    return number


def csv_streets(path: Path) -> Iterator[Street]:
    """Read ``Id,Vmax,X1,Y1,X2,Y2``: rows with the same Id are one street."""
    rows = csv.DictReader(io.StringIO(read_text(path), newline=""))
    wanted = ("Id", "Vmax", "X1", "Y1", "X2", "Y2")
    streets: dict[str, tuple[float, list[tuple[float, float, float, float]]]] = {}
    try:
        if missing := [name for name in wanted if name not in (rows.fieldnames or ())]:
            raise BadInput(
                f"{path}: no column {missing[0]}.",
                hint=f"The first line must be {','.join(wanted)}.",
                code="unknown-column",
                found=rows.fieldnames,
                expected=[*wanted],
            )
        for row in rows:
            vmax, *ends = (float(row[name]) for name in wanted[1:])
            streets.setdefault(row["Id"], (vmax, []))[1].append((ends[0], ends[1], ends[2], ends[3]))
    except (csv.Error, *MALFORMED) as error:
        raise BadInput(
            f"{path}, line {rows.line_num}: {error}.", hint="Use numbers in metres and km/h.", code="unreadable-line"
        ) from error
    return (Street(vmax, segments) for vmax, segments in streets.values())


_Line = tuple[list[tuple[float, float]], float]


def _make_street(places: list[tuple[float, float]], vmax: float) -> Street:
    return Street(vmax, [(*a, *b) for a, b in pairwise(places)])


def _project(lines: list[_Line], path: Path) -> tuple[list[Street], int]:
    """Project lines in degrees to streets in metres, rounded to millimetres; return them and the plane's EPSG code."""
    degrees = np.array([place for places, _ in lines for place in places], dtype=float).reshape(-1, 2)
    if not len(degrees):
        return [], 0
    utm = Plane.utm_at(*degrees.mean(axis=0).tolist())
    try:
        x, y = utm.project(degrees[:, 0], degrees[:, 1])
    except BadInput as error:
        raise error.within(str(path), hint="All streets must be in one region, a few hundred km wide.") from error
    flat = zip(np.round(x, 3).tolist(), np.round(y, 3).tolist(), strict=True)
    return [_make_street(list(islice(flat, len(places))), vmax) for places, vmax in lines], utm.srid


def geojson_streets(path: Path) -> tuple[list[Street], int]:
    """Read a FeatureCollection of LineStrings with a ``vmax`` (or ``maxspeed``) property; degrees unless CRS is metres.

    Returns the streets and the EPSG code of their plane, 0 if it has none.
    """
    try:
        body = parse_json(read_text(path))
        features = list(body["features"])
        crs = str(body.get("crs", {}).get("properties", {}).get("name", "OGC:CRS84"))
    except MALFORMED as error:
        raise BadInput(
            f"{path}: not a GeoJSON FeatureCollection.", hint="Export lines as GeoJSON.", code="unreadable-file"
        ) from error
    if crs not in _DEGREES and crs != "metres":
        raise BadInput(
            f"{path}: unsupported reference system {crs}.",
            hint='Use WGS 84, or the CRS name "metres" for plane coordinates.',
            code="bad-coordinates",
        )
    lines: list[_Line] = []
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
            raise BadInput(
                f"{path}, feature {number}: {error}.",
                hint="Use LineStrings with a vmax in km/h.",
                code="unreadable-line",
            ) from error
    if crs == "metres":
        return [_make_street(places, vmax) for places, vmax in lines], 0
    return _project(lines, path)


def osm_streets(path: Path) -> tuple[list[Street], int]:
    """Read roads for cars from ``.osm.pbf`` or ``.osm``; return them and the EPSG code of their plane."""
    import osmium

    lines: list[_Line] = []
    try:
        for way in osmium.FileProcessor(str(path)).with_locations().with_filter(osmium.filter.KeyFilter("highway")):
            if isinstance(way, osmium.osm.Way) and (vmax := HIGHWAYS.get(way.tags.get("highway") or "")):
                lines.append(([(n.lon, n.lat) for n in way.nodes if n.location.valid()], vmax))
    except (RuntimeError, osmium.InvalidLocationError, *MALFORMED) as error:
        raise BadInput(
            f"{path}: {error}.", hint="Use an OpenStreetMap extract (.osm.pbf or .osm).", code="unreadable-file"
        ) from error
    return _project(lines, path)
