"""Read GPX and CSV files, and convert from and to the data frames of GeoPandas and MovingPandas.

Degrees are projected to the plane that the caller names: tracks in the same plane can be compared, no matter which
calls read them. Coordinates in metres are used as they are. GeoPandas and MovingPandas are optional:
the extra ``gis``.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from defusedxml import ElementTree
from defusedxml.common import DefusedXmlException

from slipstream._errors import MALFORMED, BadArgument, BadInput
from slipstream._moving.moving_point import METRES, MovingPoint, Vertex, check_metres, instant, micros, project
from slipstream._moving.space.plane import Plane
from slipstream._tools.extras import require


def read_gpx(path: Path, plane: Plane) -> MovingPoint:
    """Read the tracks of a GPX file into ``plane``; each segment is a sequence.

    Use the same plane for all files, for example ``Plane.utm_at(13.4, 52.5)``, so that they can be compared.
    """
    try:
        root: Any = ElementTree.parse(path).getroot()
    except (ElementTree.ParseError, DefusedXmlException, OSError, *MALFORMED) as error:
        raise BadInput(f"{path}: {error}.", hint="Use a GPX file.", code="unreadable-file") from error
    segments = [
        [_gpx_point(path, number, point) for number, point in enumerate(segment.iterfind("{*}trkpt"), 1)]
        for segment in root.iterfind("{*}trk/{*}trkseg")
    ]
    return _make_point([_project(segment, plane, str(path)) for segment in segments if segment], str(path))


def _project(vertices: list[Vertex], plane: Plane | None, where: str) -> list[Vertex]:
    """Project vertices in degrees to the plane."""
    try:
        return project(vertices, plane)
    except BadInput as error:
        raise error.within(where) from error


def _gpx_point(path: Path, number: int, point: Any) -> Vertex:
    try:
        t, lon, lat = (
            datetime.fromisoformat(point.findtext("{*}time")),
            float(point.get("lon")),
            float(point.get("lat")),
        )
    except MALFORMED as error:
        raise BadInput(
            f"{path}, track point {number}: no time, lon or lat.",
            hint="A track requires times.",
            code="unreadable-line",
        ) from error
    if not (-180 <= lon <= 180 and -90 <= lat <= 90):
        raise BadInput(
            f"{path}, track point {number}: lon {lon}, lat {lat} is not on the globe.",
            hint="GPX uses degrees.",
            code="bad-coordinates",
        )
    return t, lon, lat


def _make_point(sequences: Iterable[list[Vertex]], where: str) -> MovingPoint:
    try:
        return MovingPoint.of(sequences)
    except BadInput as error:
        raise error.within(where) from error


def read_csv(
    path: Path,
    *,
    who: str = "id",
    t: str = "t",
    x: str = "x",
    y: str = "y",
    lon: str | None = None,
    lat: str | None = None,
    plane: Plane | None = None,
    units: str | None = None,
) -> dict[str, MovingPoint]:
    """Read rows of instants in time order as moving points, by the value of column ``who``.

    Columns ``x`` and ``y`` are metres; coordinates that look like degrees are rejected unless ``units="m"`` is given.
    Alternatively, name the columns ``lon`` and ``lat``, in degrees, and the ``plane`` to project them to.
    """
    if (lon, lat, plane).count(None) not in (0, 3):
        raise BadArgument(
            "read_csv: lon, lat and plane must be given together.",
            hint="For example: plane=Plane.utm_at(13.4, 52.5), near Berlin.",
            code="conflicting-options",
        )
    across, along = (lon, lat) if lon and lat else (x, y)
    rows = _csv_rows(path, who, t, across, along)
    points = {}
    for name, vertices in rows.items():
        where = f"{path}, {who} {name!r}"
        points[name] = _make_point([_project(vertices, plane, where)], where)
    if plane is None:
        hint = f'Use lon="{x}", lat="{y}" and a plane, for example {{plane}}; {METRES}.'
        check_metres(points.values(), str(path), f"columns {x} and {y}", hint, units)
    return points


def _csv_rows(path: Path, who: str, t: str, x: str, y: str) -> dict[str, list[Vertex]]:
    rows: dict[str, list[Vertex]] = {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            if missing := sorted({who, t, x, y} - set(reader.fieldnames or ())):
                raise BadInput(
                    f"{path}, line 1: no column {', '.join(missing)}.",
                    hint=f"Expected {who}, {t}, {x}, {y}.",
                    code="unknown-column",
                    found=[*(reader.fieldnames or ())],
                    expected=[who, t, x, y],
                )
            for line, row in enumerate(reader, 2):
                rows.setdefault(row[who], []).append(_csv_vertex(path, line, row[t], row[x], row[y]))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(
            f"{path}: cannot be read ({error}).", hint="Use a CSV file in UTF-8.", code="unreadable-file"
        ) from error
    return rows


def _csv_vertex(path: Path, line: int, t: str, x: str, y: str) -> Vertex:
    try:
        return datetime.fromisoformat(t), float(x), float(y)
    except MALFORMED as error:
        raise BadInput(
            f"{path}, line {line}: {error}.", hint="Expected an ISO time and two numbers.", code="unreadable-line"
        ) from error


def _import_library(name: str) -> Any:
    from importlib import import_module

    require("gis", "Converting data frames")
    return import_module(name)


def to_geopandas(points: dict[str, MovingPoint], crs: str | None = None) -> Any:
    """Convert to a GeoDataFrame with one row per vertex: ``id``, ``sequence``, time as index, geometry."""
    geopandas = _import_library("geopandas")
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


def from_geopandas(frame: Any, *, units: str | None = None) -> dict[str, MovingPoint]:
    """Convert a frame in the form of :func:`to_geopandas` to moving points; degrees are rejected."""
    keys = ["id", "sequence"] if "sequence" in frame.columns else ["id"]
    parts: dict[str, list[list[Vertex]]] = {}
    for key, rows in frame.groupby(keys, sort=False):
        parts.setdefault(str(key[0]), []).append(_frame_vertices(rows))
    points = {name: MovingPoint.of(sequences) for name, sequences in parts.items()}
    _check_frame(frame.crs, points, units)
    return points


def _frame_vertices(frame: Any) -> list[Vertex]:
    times = [instant(micros(t.to_pydatetime())) for t in frame.index]
    return list(zip(times, frame.geometry.x.tolist(), frame.geometry.y.tolist(), strict=True))


def _check_frame(crs: Any, points: dict[str, MovingPoint], units: str | None) -> None:
    """Reject degrees, by the reference system or, without one, by the coordinates."""
    if crs is not None and crs.is_geographic:
        raise BadInput(
            f"The frame's coordinates are in degrees ({crs}).",
            hint="Project it first: frame.to_crs(...).",
            code="bad-coordinates",
        )
    if crs is None:
        hint = f"Project it first: frame.set_crs(...).to_crs(...); {METRES}."
        check_metres(points.values(), "frame", "its coordinates", hint, units)


def to_movingpandas(points: dict[str, MovingPoint], crs: str | None) -> Any:
    """Convert to a MovingPandas TrajectoryCollection, one trajectory per sequence."""
    movingpandas = _import_library("movingpandas")
    frame = to_geopandas(points, crs)
    frame["trajectory"] = frame["id"].astype(str) + "/" + frame["sequence"].astype(str)
    frame.index = frame.index.tz_localize(None)
    return movingpandas.TrajectoryCollection(frame, traj_id_col="trajectory", min_length=0)


def from_movingpandas(collection: Any, *, units: str | None = None) -> dict[str, MovingPoint]:
    """Convert a MovingPandas TrajectoryCollection to moving points, by id; degrees are rejected."""
    trajectories = list(collection)
    points = {str(one.id): MovingPoint.of([_frame_vertices(one.df)]) for one in trajectories}
    _check_frame(trajectories[0].df.crs if trajectories else None, points, units)
    return points
