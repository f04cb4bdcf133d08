"""Tracks of others: GPX and CSV files, and the data frames of GeoPandas and MovingPandas.

GPX is in degrees and is laid flat around its own middle; CSV is in metres. GeoPandas and MovingPandas are optional:
``pip install slipstream[frames]``.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from defusedxml import ElementTree
from defusedxml.common import DefusedXmlException

from slipstream.errors import MALFORMED, BadInput, Unavailable
from slipstream.moving.value import MovingPoint, instant, micros

EARTH = 6_371_008.8

Vertex = tuple[datetime, float, float]


def flat(lon: float, lat: float, lat0: float) -> tuple[float, float]:
    """Degrees as metres in a plane that fits around latitude ``lat0``; off by less than a thousandth across a city."""
    x = math.radians(lon) * EARTH * math.cos(math.radians(lat0))
    return round(x, 3), round(math.radians(lat) * EARTH, 3)


def read_gpx(path: Path) -> MovingPoint:
    """The tracks of a GPX file; each segment is a sequence."""
    try:
        root: Any = ElementTree.parse(path).getroot()
    except (ElementTree.ParseError, DefusedXmlException, OSError, *MALFORMED) as error:
        raise BadInput(f"{path}: {error}.", hint="Give a GPX file.") from error
    segments = [
        [_gpx_point(path, number, point) for number, point in enumerate(segment.iterfind("{*}trkpt"), 1)]
        for segment in root.iterfind("{*}trk/{*}trkseg")
    ]
    middle = float(np.mean([lat for segment in segments for _, _, lat in segment])) if any(segments) else 0.0
    laid = [[(t, *flat(lon, lat, middle)) for t, lon, lat in segment] for segment in segments if segment]
    return _checked(laid, path)


def _gpx_point(path: Path, number: int, point: Any) -> Vertex:
    try:
        t, lon, lat = (
            datetime.fromisoformat(point.findtext("{*}time")),
            float(point.get("lon")),
            float(point.get("lat")),
        )
    except MALFORMED as error:
        raise BadInput(f"{path}, track point {number}: no time, lon or lat.", hint="A track needs times.") from error
    if not (-180 <= lon <= 180 and -90 <= lat <= 90):
        raise BadInput(f"{path}, track point {number}: lon {lon}, lat {lat}.", hint="GPX is in degrees.")
    return t, lon, lat


def _checked(sequences: Iterable[list[Vertex]], path: Path) -> MovingPoint:
    try:
        return MovingPoint.of(sequences)
    except BadInput as error:
        raise BadInput(f"{path}: {error.message}", hint=error.hint) from error


def read_csv(path: Path, *, who: str = "id", t: str = "t", x: str = "x", y: str = "y") -> dict[str, MovingPoint]:
    """Moving points by the value of column ``who`` from rows of instants in time order."""
    rows: dict[str, list[Vertex]] = {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            if missing := {who, t, x, y} - set(reader.fieldnames or ()):
                raise BadInput(f"{path}, line 1: no column {min(missing)}.", hint=f"Expected {who}, {t}, {x}, {y}.")
            for line, row in enumerate(reader, 2):
                rows.setdefault(row[who], []).append(_csv_vertex(path, line, row[t], row[x], row[y]))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path}: cannot be read ({error}).", hint="Give a CSV file in UTF-8.") from error
    return {name: _checked([vertices], path) for name, vertices in rows.items()}


def _csv_vertex(path: Path, line: int, t: str, x: str, y: str) -> Vertex:
    try:
        return datetime.fromisoformat(t), float(x), float(y)
    except MALFORMED as error:
        raise BadInput(f"{path}, line {line}: {error}.", hint="ISO times and metres.") from error


def _library(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as error:
        raise Unavailable(f"{name} is not installed.", hint="pip install slipstream[frames]") from error


def to_geopandas(points: dict[str, MovingPoint], crs: str | None = None) -> Any:
    """A GeoDataFrame with one row a vertex: ``id``, ``sequence``, time as index, geometry."""
    geopandas = _library("geopandas")
    names, sequence, t, x, y = [], [], [], [], []
    for name, m in points.items():
        for number, s in enumerate(m.sequences):
            size = s.stop - s.start
            names += [name] * size
            sequence += [number] * size
            t += [instant(v) for v in m.t[s].tolist()]
            x += m.x[s].tolist()
            y += m.y[s].tolist()
    body = {"id": names, "sequence": sequence, "t": t}
    return geopandas.GeoDataFrame(body, geometry=geopandas.points_from_xy(x, y), crs=crs).set_index("t")


def from_geopandas(frame: Any) -> dict[str, MovingPoint]:
    """Moving points from a frame as :func:`to_geopandas` makes it; degrees are refused."""
    if frame.crs is not None and frame.crs.is_geographic:
        raise BadInput(f"coordinates in degrees ({frame.crs}).", hint="Use frame.to_crs(a system in metres) first.")
    keys = ["id", "sequence"] if "sequence" in frame.columns else ["id"]
    parts: dict[str, list[list[Vertex]]] = {}
    for key, rows in frame.groupby(keys, sort=False):
        times = [instant(micros(t.to_pydatetime())) for t in rows.index]
        vertices = list(zip(times, rows.geometry.x.tolist(), rows.geometry.y.tolist(), strict=True))
        parts.setdefault(str(key[0]), []).append(vertices)
    return {name: MovingPoint.of(sequences) for name, sequences in parts.items()}


def to_movingpandas(points: dict[str, MovingPoint], crs: str) -> Any:
    """A MovingPandas TrajectoryCollection, one trajectory a sequence."""
    movingpandas = _library("movingpandas")
    frame = to_geopandas(points, crs)
    frame["trajectory"] = frame["id"].astype(str) + "/" + frame["sequence"].astype(str)
    frame.index = frame.index.tz_localize(None)
    return movingpandas.TrajectoryCollection(frame, traj_id_col="trajectory", min_length=0)


def from_movingpandas(collection: Any) -> dict[str, MovingPoint]:
    """Moving points from a MovingPandas TrajectoryCollection, by their id."""
    return {str(trajectory.id): _of_trajectory(trajectory) for trajectory in collection}


def _of_trajectory(trajectory: Any) -> MovingPoint:
    frame = trajectory.df
    times = [instant(micros(t.to_pydatetime())) for t in frame.index]
    return MovingPoint.of([list(zip(times, frame.geometry.x.tolist(), frame.geometry.y.tolist(), strict=True))])
