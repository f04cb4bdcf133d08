"""The events of Streaming BerlinMOD: where a vehicle was, in the order in which engines get them.

They come from a data set, a CSV file of events, or the instants that MobilityDB's generator exports. Whatever cannot be
used is counted, with its line and the reason.
"""

from __future__ import annotations

import gzip
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import shapely
from pyarrow import csv

from slipstream._berlinmod.exchange.export import instants_table
from slipstream._berlinmod.layout import check_data_set
from slipstream._errors import MALFORMED, BadInput
from slipstream._network.boxes.movement.in_order import find_late
from slipstream._tools.numba_tools import Bools, Floats, Longs

Array: TypeAlias = npt.NDArray[Any]

#: how late an event may be, in milliseconds
LATENESS = 1_000
_RADIUS = 6_378_137.0
_DIGITS = 7
_MICROS = 1_000
#: the first and the last millisecond of a date with four digits, counted from 1970
_FIRST, _LAST = -62_135_596_800_000, 253_402_300_799_999
#: the columns of a file: our own events, and the instants of MobilityDB's generator under any of their names
EVENTS = ("vehicle_id", "t_ms", "lon", "lat")
INSTANTS = (("tripid",), ("vehid", "vehicleid"), ("geom", "point"), ("t",))
_INTEGER, _DECIMAL = r"^[+-]?[0-9]{1,18}$", r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$"


class Reject(NamedTuple):
    """An event that was not used: its line in the file, and why."""

    line: int
    reason: str


@dataclass(frozen=True)
class Events:
    """Positions in arrival order: by time in milliseconds, vehicle, microseconds, and order in the file."""

    vehicle: Longs
    t: Longs
    lon: Floats
    lat: Floats
    rejects: tuple[Reject, ...] = ()

    def __len__(self) -> int:
        return int(self.t.size)

    def table(self) -> pa.Table:
        """Return them as the columns of a stream."""
        return pa.table({"vehicle_id": self.vehicle, "t": self.t, "lon": self.lon, "lat": self.lat})

    def first(self, count: int) -> Events:
        """Return the first of them."""
        return replace(self, vehicle=self.vehicle[:count], t=self.t[:count], lon=self.lon[:count], lat=self.lat[:count])


class _Instants(NamedTuple):
    """Positions as a source has them: times in microseconds, any order."""

    trip: Longs
    vehicle: Longs
    micros: Longs
    x: Floats
    y: Floats


# --- from the source to events


def read_events(source: Path, *, limit: int | None = None, parts: int = 1) -> Events:
    """Read a data set or a file; the first ``limit`` rows of it, each step of a trip cut into ``parts``."""
    if source.is_dir():
        return _convert_mercator(_read_data_set(source), limit, parts)
    head = _read_head(source)
    if set(EVENTS) <= set(head):
        if parts > 1:
            raise BadInput(
                f"{source}: events have no trips, so steps cannot be cut.",
                hint="Leave out --parts, or give a data set.",
                code="conflicting-options",
            )
        return _read_event_file(source, head, limit)
    instants, rejects = _read_instant_file(source, head)
    return replace(_convert_mercator(instants, limit, parts), rejects=tuple(rejects))


def _convert_mercator(instants: _Instants, limit: int | None, parts: int) -> Events:
    """Convert instants in metres of EPSG:3857 to events in order."""
    cut = cut_steps(_Instants._make(column[:limit] for column in instants), parts)
    lon, lat = to_degrees(cut.x, cut.y)
    return _sort(cut.vehicle, cut.micros, lon, lat)


def to_degrees(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Convert metres of EPSG:3857 to degrees with 7 decimals.

    >>> [values.tolist() for values in to_degrees(np.array([1113194.9]), np.array([6800125.45]))]
    [[9.9999999], [52.0]]
    """
    lon = np.degrees(x / _RADIUS)
    lat = np.degrees(2 * np.arctan(np.exp(y / _RADIUS)) - math.pi / 2)
    return _round(lon), _round(lat)


def _round(degrees: Array) -> Floats:
    return np.asarray(np.round(degrees, _DIGITS), np.float64)


def _sort(vehicle: Longs, micros: Longs, lon: Floats, lat: Floats) -> Events:
    t = micros // _MICROS
    order = np.lexsort((micros, vehicle, t))
    return Events(vehicle[order], t[order], lon[order], lat[order])


def cut_steps(instants: _Instants, parts: int) -> _Instants:
    """Cut each step between two instants of a trip into parts of equal time."""
    if parts == 1:
        return instants
    trip, vehicle, micros, x, y = instants
    same = np.flatnonzero(trip[1:] == trip[:-1])
    share = np.arange(1, parts) / parts

    def between(values: Array) -> Array:
        a, b = values[same].astype(np.float64), values[same + 1].astype(np.float64)
        return np.asarray(a[:, None] + (b - a)[:, None] * share).ravel()

    # relative times are exact as floats, those since 1970 nearly so
    steps = np.rint((micros[same + 1] - micros[same])[:, None] * share).astype(np.int64)
    times = (micros[same][:, None] + steps).ravel()
    place = np.r_[np.arange(trip.size, dtype=np.float64), (same[:, None] + share).ravel()]
    order = np.argsort(place, kind="stable")
    whose = np.repeat(same, parts - 1)
    return _Instants(
        np.r_[trip, trip[whose]][order],
        np.r_[vehicle, vehicle[whose]][order],
        np.r_[micros, times][order],
        np.r_[x, between(x)][order],
        np.r_[y, between(y)][order],
    )


# --- data sets


def _read_data_set(folder: Path) -> _Instants:
    """Read the trips of a data set, pauses among them, by vehicle and number."""
    check_data_set(folder, ("dataMtrip",))
    table = pq.read_table(folder / "dataMtrip", columns=["Moid", "TripId", "Trip"]).sort_by("TripId")
    found = pa.Table.from_batches(list(instants_table(iter(table.combine_chunks().to_batches()))))
    trip, vehicle, t, x, y = (column.combine_chunks() for column in found.columns)
    micros = t.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    return _Instants._make(column.to_numpy() for column in (trip, vehicle, micros, x, y))


# --- files


def _read_head(source: Path) -> list[str]:
    """Read the names in the first line of a file."""
    try:
        with _open(source) as lines:
            head = lines.readline().decode("utf-8-sig").strip().split(",")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise BadInput(
            f"{source}: {error}.", hint="Give a CSV file, gzipped or not.", code="unreadable-file"
        ) from error
    names = [name.strip().lower() for name in head]
    if set(EVENTS) <= set(names) or all(set(known) & set(names) for known in INSTANTS):
        return names
    raise BadInput(
        f"{source}, line 1: not the columns of events.",
        hint=f"Write {','.join(EVENTS)}, or tripid,vehid,day,seqno,geom,t.",
        code="unknown-column",
        found=names,
        expected=[*EVENTS],
    )


def _open(source: Path) -> io.BufferedIOBase:
    return gzip.open(source) if source.suffix == ".gz" else source.open("rb")


class _Lines(NamedTuple):
    """The fields of the rows of a file as text, and the line of each row."""

    fields: dict[str, pa.ChunkedArray]
    line: Longs


def _read_lines(source: Path, head: Sequence[str], wanted: Sequence[str]) -> tuple[_Lines, list[Reject]]:
    """Read the columns of a file as text; lines with another number of fields are rejected."""
    odd: list[int] = []

    def refuse(row: csv.InvalidRow) -> str:
        odd.append(row.number)
        return "skip"

    try:
        with _open(source) as stream:
            table = csv.read_csv(
                stream,
                read_options=csv.ReadOptions(use_threads=False, column_names=list(head), skip_rows=1),
                parse_options=csv.ParseOptions(invalid_row_handler=refuse, ignore_empty_lines=False),
                convert_options=csv.ConvertOptions(
                    include_columns=list(wanted), column_types=dict.fromkeys(wanted, pa.string())
                ),
            )
    except (pa.ArrowException, OSError, EOFError) as error:
        why = str(error).splitlines()[0]
        raise BadInput(f"{source}: {why}", hint="Give a CSV file, gzipped or not.", code="unreadable-file") from error
    lines = np.setdiff1d(np.arange(2, table.num_rows + len(odd) + 2), odd)
    rejects = [Reject(number, f"not {len(head)} fields") for number in odd]
    return _Lines({name: table[name] for name in wanted}, lines), rejects


def _read_event_file(source: Path, head: Sequence[str], limit: int | None) -> Events:
    read, rejects = _read_lines(source, head, EVENTS)
    fields = _Numbers(read)
    vehicle, t = fields.read("vehicle_id", _INTEGER, np.int64), fields.read("t_ms", _INTEGER, np.int64)
    lon, lat = fields.read("lon", _DECIMAL, np.float64), fields.read("lat", _DECIMAL, np.float64)
    fields.refuse((t < _FIRST) | (t > _LAST), "t_ms is not in the years 1 to 9999")
    fields.refuse(np.abs(lon) > 180, "lon is not in -180 to 180")
    fields.refuse(np.abs(lat) > 90, "lat is not in -90 to 90")
    good = np.flatnonzero(fields.is_good)[:limit]
    late = find_late(t[good], LATENESS)[0]
    rejects += [*fields.rejects(), *(Reject(int(line), "late") for line in fields.line[good[late]])]
    used = good[~late]
    found = _sort(vehicle[used], t[used] * _MICROS, _round(lon[used]), _round(lat[used]))
    return replace(found, rejects=tuple(sorted(rejects)))


def _read_instant_file(source: Path, head: Sequence[str]) -> tuple[_Instants, list[Reject]]:
    trip, vehid, geom, t = (next(name for name in names if name in head) for names in INSTANTS)
    read, rejects = _read_lines(source, head, (trip, vehid, geom, t))
    fields = _Numbers(read)
    trips, vehicles = (fields.read(name, _INTEGER, np.int64) for name in (trip, vehid))
    times = _parse_times(pd.Series(read.fields[t].to_pandas()))
    fields.refuse(np.asarray(times.isna()), f"{t} is not a time")
    micros = times.fillna(pd.Timestamp(0, tz="UTC")).dt.as_unit("us").astype("int64").to_numpy()
    x, y = fields.read_points(geom)
    rejects += fields.rejects()
    found = _Instants(trips, vehicles, micros, x, y)
    return _Instants._make(column[fields.is_good] for column in found), sorted(rejects)


def _parse_times(text: pd.Series[Any]) -> pd.Series[Any]:
    """Parse times; those without an offset are UTC, whatever the offsets of the others are."""
    zoned = text.str.contains(r"(?:[+-]\d\d(?::?\d\d)?|Z)\s*$", regex=True, na=True) & text.str.contains(":", na=False)
    return pd.to_datetime(text.where(zoned, text + "+00"), format="ISO8601", utc=True, errors="coerce")


class _Numbers:
    """Reads the fields of lines as numbers; remembers the first thing that is wrong with each line."""

    def __init__(self, lines: _Lines) -> None:
        self._fields, self.line = lines.fields, lines.line
        self._reason = np.zeros(self.line.size, np.int64)
        self._reasons = [""]

    @property
    def is_good(self) -> Bools:
        """Which lines can be used so far."""
        return np.asarray(self._reason == 0)

    def refuse(self, bad: Bools, reason: str) -> None:
        """Refuse lines, unless they were refused before."""
        self._reasons.append(reason)
        self._reason[bad & self.is_good] = len(self._reasons) - 1

    def rejects(self) -> list[Reject]:
        """Return what was refused."""
        bad = np.flatnonzero(~self.is_good)
        return [Reject(int(self.line[i]), self._reasons[self._reason[i]]) for i in bad]

    def read(self, name: str, pattern: str, dtype: type) -> Array:
        """Read a column of numbers; those that do not match the pattern are 0, and refused."""
        text = pc.fill_null(pc.utf8_trim_whitespace(self._fields[name]), "")
        fits = pc.match_substring_regex(text, pattern)
        self.refuse(~fits.to_numpy(zero_copy_only=False), f"{name} is not a number")
        values = pc.if_else(fits, pc.utf8_ltrim(text, "+"), "0").cast(pa.from_numpy_dtype(np.dtype(dtype)))
        return np.array(values.to_numpy())

    def read_points(self, name: str) -> tuple[Floats, Floats]:
        """Read a column of points in EPSG:3857, as WKT or hexadecimal EWKB."""
        text = self._fields[name].to_pandas().to_numpy(dtype=object)
        is_text = pd.Series(text).str.contains("(", regex=False, na=False).to_numpy(dtype=bool)
        points = np.full(text.size, None, object)
        bare = pd.Series(text[is_text]).str.replace(r"^\s*SRID=\d+;", "", regex=True).to_numpy(dtype=object)
        points[is_text] = _parse(shapely.from_wkt, bare)
        points[~is_text] = _parse(shapely.from_wkb, text[~is_text])
        wrong = shapely.get_type_id(points) != shapely.GeometryType.POINT
        system = pd.Series(text).str.extract(r"^\s*SRID=(\d+);")[0].fillna(0).astype(int).to_numpy()
        system = np.where(is_text, system, shapely.get_srid(points))
        points[wrong] = shapely.Point(0, 0)
        x, y = shapely.get_x(points), shapely.get_y(points)
        self.refuse(wrong | ~np.isfinite(x) | ~np.isfinite(y), f"{name} is not a point")
        self.refuse((system > 0) & (system != 3857), f"{name} is not in EPSG:3857")
        return np.nan_to_num(x), np.nan_to_num(y)


def _parse(read: Callable[..., Any], values: Array) -> Array:
    """Parse geometries; those that cannot be parsed are None."""
    try:
        return np.asarray(read(values, on_invalid="ignore"), object)
    except (shapely.errors.ShapelyError, *MALFORMED):
        return np.full(values.size, None, object)
