"""Trips as text for others: GPX, KML, GeoJSON with times (for kepler.gl), MF-JSON and MobilityDB's WKT.

All but WKT are in longitudes and latitudes, as their standards require; WKT has the coordinates of the trips and says
their SRID.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from io import StringIO, TextIOWrapper
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape

import numpy as np
import pyarrow as pa

from slipstream._errors import BadArgument
from slipstream._moving.columns import Temporals, read
from slipstream._moving.exchange.trip_texts import to_wkt
from slipstream._moving.moving_point import MovingPoint
from slipstream._moving.space.systems import System
from slipstream._tools.files.staging import atomic_write, staged_folder
from slipstream._tools.numba_tools import Longs
from slipstream._trajectories.cutting.assembling import NUMBER
from slipstream._trajectories.exchange.tables import Batches, moving_points
from slipstream._trajectories.exchange.temporal_properties import (
    is_over_time,
    parametric_values,
    some_rows,
    write_times,
)

#: degrees with seven decimals are a centimetre
_DIGITS = 7
_CRS84 = {"type": "Name", "properties": {"name": "urn:ogc:def:crs:OGC:1.3:CRS84"}}


class _Trip:
    """One trip with what a text says about it."""

    def __init__(
        self, row: dict[str, Any], m: MovingPoint, system: System | None, values: dict[str, Temporals]
    ) -> None:
        self.id, self.properties, self.m, self.values = str(row.get("id", "")), row, m, values
        self._system = system

    def __iter__(self) -> Iterator[tuple[list[str], list[list[float]], Longs]]:
        """The sequences: times in ISO 8601, places in degrees, milliseconds since 1970."""
        assert self._system is not None
        for part in self.m.sequences:
            lon, lat = self._system.locate(self.m.x[part], self.m.y[part])
            places: list[list[float]] = np.c_[lon, lat].round(_DIGITS).tolist()
            yield write_times(self.m.t[part]), places, self.m.t[part] // 1000


def _trips(batches: Batches, crs: str, format: str) -> Iterator[_Trip]:
    if not crs and format != "wkt":
        raise BadArgument(
            f"{format}: is in degrees, and the reference system of the trips is not known.",
            hint="Build them with crs=, or export wkt or temporalparquet.",
            code="bad-coordinates",
        )
    system = System.parse(crs) if crs else None
    for batch in batches:
        _, points = moving_points(batch)
        travelling = [field.name for field in batch.schema if is_over_time(field.type)]
        rows = batch.select([name for name in batch.schema.names if name not in ("Trip", *travelling)]).to_pylist()
        values = {name: read(batch[name]) for name in travelling}
        for number, (row, m) in enumerate(zip(rows, points, strict=True)):
            yield _Trip(row, m, system, {name: some_rows(values[name], number, number + 1) for name in travelling})


def write_wkt(batches: Batches, crs: str, out: Path) -> None:
    """Write CSV with a trip per row, as MobilityDB's text; ``Trips.read(out, trip="Trip")`` reads it back."""
    srid = System.parse(crs).srid if crs else 0
    prefix = f"SRID={srid};" if srid else ""
    _write_lines(out, _wkt_rows(_trips(batches, crs, "wkt"), prefix))


def _wkt_rows(trips: Iterable[_Trip], prefix: str) -> Iterator[str]:
    header: list[str] = []
    for trip in trips:
        names = list(trip.properties)
        if not header:
            header = [*names, "Trip"]
            yield _csv_line(header)
        yield _csv_line([*(trip.properties[name] for name in names), prefix + to_wkt(trip.m)])


def _csv_line(values: list[Any]) -> str:
    text = StringIO()
    csv.writer(text, lineterminator="").writerow(values)
    return text.getvalue()


def write_geojson(batches: Batches, crs: str, out: Path) -> None:
    """Write GeoJSON: a line per sequence, whose positions are [lon, lat, 0, seconds since 1970]; kepler.gl plays it."""
    features = (
        {
            "type": "Feature",
            "properties": _json_properties(trip),
            "geometry": {
                "type": "LineString",
                "coordinates": [[*place, 0, t / 1000] for place, t in zip(places, millis.tolist(), strict=True)],
            },
        }
        for trip in _trips(batches, crs, "geojson")
        for _, places, millis in trip
        if len(places) > 1  # a line has at least two positions
    )
    _write_collection(out, features, {})


def write_mfjson(batches: Batches, crs: str, out: Path) -> None:
    """Write OGC Moving Features JSON: a feature per trip, in longitudes and latitudes; values over time with it."""
    features = (
        {
            "type": "Feature",
            "id": trip.id,
            "properties": _json_properties(trip),
            "temporalGeometry": {
                "type": "MovingPoint",
                "sequences": [
                    {"datetimes": times, "coordinates": places, "lower_inc": True, "upper_inc": True}
                    for times, places, _ in trip
                ],
                "interpolation": "Linear",
            },
            **_temporal_properties(trip),
        }
        for trip in _trips(batches, crs, "mfjson")
    )
    _write_collection(out, features, {"crs": _CRS84})


def _temporal_properties(trip: _Trip) -> dict[str, Any]:
    found = [part for name, value in trip.values.items() for part in parametric_values(name, value)]
    return {"temporalProperties": found} if found else {}


def _json_properties(trip: _Trip) -> dict[str, Any]:
    return {name: value if _is_json(value) else str(value) for name, value in trip.properties.items()}


def _is_json(value: Any) -> bool:
    return value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and np.isfinite(value))


def _write_collection(out: Path, features: Iterable[dict[str, Any]], members: dict[str, Any]) -> None:
    def lines() -> Iterator[str]:
        head = json.dumps({"type": "FeatureCollection", **members})[:-1]
        separator = f'{head}, "features": ['
        for feature in features:
            yield separator + json.dumps(feature, allow_nan=False)
            separator = ","
        yield "]}" if separator == "," else separator + "]}"

    _write_lines(out, lines())


def write_kml(batches: Batches, crs: str, out: Path) -> None:
    """Write KML with a track per sequence, which Google Earth plays."""
    _write_lines(out, _kml_lines(_trips(batches, crs, "kml")))


def _kml_lines(trips: Iterable[_Trip]) -> Iterator[str]:
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield '<kml xmlns="http://www.opengis.net/kml/2.2" xmlns:gx="http://www.google.com/kml/ext/2.2"><Document>'
    for trip in trips:
        yield f"<Placemark><name>{escape(trip.id)}</name><gx:MultiTrack>"
        for times, places, _ in trip:
            whens = "".join(f"<when>{time}</when>" for time in times)
            coordinates = "".join(f"<gx:coord>{lon!r} {lat!r} 0</gx:coord>" for lon, lat in places)
            yield f"<gx:Track>{whens}{coordinates}</gx:Track>"
        yield "</gx:MultiTrack></Placemark>"
    yield "</Document></kml>"


def write_gpx(batches: Batches, crs: str, out: Path) -> None:
    """Write a folder with a GPX file per id, which has a track per trip and a segment per sequence."""
    with staged_folder(out) as stage:
        for trip in _trips(batches, crs, "gpx"):
            with (stage / f"{quote(trip.id, safe=' ')}.gpx").open("a", encoding="utf-8") as file:
                if not file.tell():
                    file.write(_GPX_HEAD)
                file.writelines(_gpx_lines(trip))
        for path in stage.iterdir():
            with path.open("a", encoding="utf-8") as file:
                file.write("</gpx>\n")


_GPX_HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<gpx version="1.1" creator="Slipstream" xmlns="http://www.topografix.com/GPX/1/1">\n'
)


def _gpx_lines(trip: _Trip) -> Iterator[str]:
    yield f"<trk><name>{escape(trip.id)} {trip.properties.get(NUMBER, '')}</name>\n"
    for times, places, _ in trip:
        yield "<trkseg>\n"
        for time, (lon, lat) in zip(times, places, strict=True):
            yield f'<trkpt lat="{lat!r}" lon="{lon!r}"><time>{time}</time></trkpt>\n'
        yield "</trkseg>\n"
    yield "</trk>\n"


def _write_lines(out: Path, lines: Iterable[str]) -> None:
    with atomic_write(out) as file:
        text = TextIOWrapper(file, encoding="utf-8", newline="\n", write_through=True)
        text.writelines(f"{line}\n" for line in lines)
        text.flush()
        text.detach()


def nonempty(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Leave out trips without a position: no format has them."""
    for batch in batches:
        m, _ = moving_points(batch)
        sizes = np.diff(m.rows)
        yield batch if sizes.all() else batch.filter(pa.array(sizes > 0))
