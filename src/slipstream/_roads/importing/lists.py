"""Read streets from lists of lines: SECONDO nested lists, CSV and GeoJSON."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np

from slipstream._errors import MALFORMED, BadInput
from slipstream._moving.space import plane
from slipstream._roads.importing.graph_building import Draft, Place
from slipstream._roads.importing.projecting import Line, project
from slipstream._roads.importing.signs import find_default_limit, is_set, read_layer, read_limit, read_oneway
from slipstream._roads.street_network import BRIDGE, TUNNEL, Street, Tags
from slipstream._tools.strict_json import parse_json

_DEGREES = {"urn:ogc:def:crs:OGC:1.3:CRS84", "urn:ogc:def:crs:EPSG::4326", "EPSG:4326", "OGC:CRS84"}
HINT = "Project them to metres first (for example with slipstream.{plane}); if they are metres, use --metres."


def require_metres(streets: Iterable[Street], path: Path, *, metres: bool) -> list[Street]:
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


# --- SECONDO


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
            stack[-1].append(_parse_atom(word))
    if len(stack) != 1 or not stack[0]:
        raise BadInput(
            f"{path}: truncated: {len(stack) - 1} brackets are open.",
            hint="Export the object again.",
            code="unreadable-file",
        )
    return cast(list[Any], stack[0][0])


def _parse_atom(word: str) -> Any:
    try:
        return float(word)
    except ValueError:
        return word


def read_secondo_streets(path: Path) -> Iterator[Street]:
    """Read ``(OBJECT streets () (rel (tuple ((Vmax real) (GeoData line)))) (...))``."""
    tree, number = read_nested_list(path), 0
    try:
        for row in tree[4]:
            number += 1
            vmax, line = row
            segments = [(float(a), float(b), float(c), float(d)) for a, b, c, d in line]
            yield Street(float(vmax), segments, Tags(way=number))
    except MALFORMED as error:
        raise BadInput(
            f"{path}: street {number}: not (Vmax ((x0 y0 x1 y1) ...)).",
            hint="The file must contain a relation with attributes Vmax and GeoData.",
            code="unreadable-line",
        ) from error


# --- CSV


def read_csv_streets(path: Path) -> Iterator[Street]:
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
    return (Street(vmax, segments, Tags(way=n)) for n, (vmax, segments) in enumerate(streets.values(), 1))


# --- GeoJSON


def read_geojson_streets(path: Path) -> Draft:
    """Read a FeatureCollection of lines; their properties are those of OpenStreetMap, or ``vmax`` in km/h.

    In degrees, unless its reference system is called "metres".
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
    lines: list[Line] = []
    for number, feature in enumerate(features, 1):
        try:
            lines += _read_feature(feature, number, degrees=crs != "metres")
        except MALFORMED as error:
            raise BadInput(
                f"{path}, feature {number}: {error}.",
                hint="Use LineStrings with a vmax in km/h.",
                code="unreadable-line",
            ) from error
    if crs == "metres":
        return Draft([line.street(line.places) for line in lines])
    return project(lines, path)


def _read_feature(feature: Any, number: int, *, degrees: bool) -> list[Line]:
    geometry, values = feature["geometry"], feature.get("properties") or {}
    if geometry["type"] not in ("LineString", "MultiLineString"):
        raise ValueError(f"a {geometry['type']}, not a LineString")
    parts = [geometry["coordinates"]] if geometry["type"] == "LineString" else geometry["coordinates"]
    places: list[list[Place]] = [[(float(p[0]), float(p[1])) for p in part] for part in parts]
    if degrees and not all(abs(lon) <= 180 and abs(lat) <= 90 for part in places for lon, lat in part):
        raise ValueError("coordinates that are not degrees, and no reference system that is called metres")
    vmax, tags = _read_properties(values, number)
    return [Line(part, vmax, tags) for part in places]


def _read_properties(values: dict[str, Any], number: int) -> tuple[float, Tags]:
    texts = {name: "" if value is None else str(value) for name, value in values.items()}
    kind = texts.get("highway", texts.get("class", ""))
    given = texts.get("vmax", texts.get("maxspeed", ""))
    vmax = read_limit(given) if given else find_default_limit(kind)
    if vmax is None:
        raise ValueError(f"{given!r} is not a speed limit")
    structure = BRIDGE * is_set(texts.get("bridge", "")) | TUNNEL * is_set(texts.get("tunnel", ""))
    tags = Tags(
        oneway=read_oneway(texts),
        kind=kind or "other",
        layer=read_layer(texts),
        structure=structure,
        name=texts.get("name", ""),
        ref=texts.get("ref", ""),
        way=number,
    )
    return vmax, tags
