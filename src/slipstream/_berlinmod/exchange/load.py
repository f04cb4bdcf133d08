"""Load the published BerlinMOD CSV files and MobilityDB-BerlinMOD's; ``export`` writes them.

Published: a trip is rows of units ``Moid,Tripid,Tstart,Tend,Xstart,Ystart,Xend,Yend``. MobilityDB: rows of instants,
``tripid,vehicleid,startdate,seqno,point,t`` as its scripts use (``tripsinput.csv``, points in EWKB or EWKT) or simply
``tripid,vehicleid,t,x,y`` (``trips.csv``). All are converted to rows of units and checked in Spark; every unusable row
is written to ``DATA/rejects`` with its reason, and nothing is dropped silently.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import shapely

from slipstream._berlinmod.dataset import (
    MCAR,
    MTRIP,
    MTRIP_SQL,
    TRIPS,
    DatasetManifest,
    finish,
    histories_from_trips,
    write_histories,
)
from slipstream._berlinmod.exchange import heads
from slipstream._berlinmod.exchange.heads import Head
from slipstream._berlinmod.generator import write_samples
from slipstream._berlinmod.layout import HOLDS_FILES, check_files, find_file
from slipstream._errors import MALFORMED, BadInput
from slipstream._moving import types
from slipstream._moving.columns import MPoints, Points, read, write
from slipstream._moving.exchange.trip_texts import DEGREES
from slipstream._moving.moving_point import instant, micros
from slipstream._moving.space import plane
from slipstream._roads.importing.graph_building import build
from slipstream._roads.importing.lists import read_csv_streets, read_text, require_metres
from slipstream._roads.street_network import Street, StreetNetwork
from slipstream._spark.session import in_utc
from slipstream._tools.files.staging import staged_folder
from slipstream._tools.numba_tools import Floats, Longs, compiled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UNITS = ("Moid", "Tripid", "Tstart", "Tend", "Xstart", "Ystart", "Xend", "Yend")
#: the published format has a hyphen between date and time, its files a space
_INSTANT = r"try_cast(regexp_replace(trim({}), '^(\\d{{4}}-\\d\\d-\\d\\d)-', '$1 ') AS timestamp)"
INSTANTS = ("tripid", "vehicleid", "t", "x", "y")
_POINTS = ("tripid", "vehicleid", "t", "point")

Row = dict[str, str]

_FIX = "Fix or remove the line."
_INVALID_SHAPE = (shapely.errors.ShapelyError, *MALFORMED)


def _find_file(folder: Path, *names: str) -> Path:
    """Return the first of the files that exists, gzipped or not."""
    if (found := find_file(folder, *names)) is None:
        raise BadInput(f"{folder}: no {' or '.join(names)}.", hint=HOLDS_FILES, code="no-such-file")
    return found


def _rows(folder: Path, name: str, *columns: str) -> list[Row]:
    """Return the rows of a small CSV file that must have ``columns`` (in any case)."""
    path = _find_file(folder, name)
    reader = csv.reader(io.StringIO(read_text(path), newline=""))
    try:
        head, *body = [[column.strip().lower() for column in next(reader, [])], *reader]
    except csv.Error as error:
        raise BadInput(f"{path}, line {reader.line_num}: {error}.", hint=_FIX, code="unreadable-line") from error
    if missing := [column for column in columns if column.lower() not in head]:
        raise BadInput(
            f"{path}, line 1: no column {', '.join(missing)}.",
            hint=f"Expected {', '.join(columns)}.",
            code="unknown-column",
            found=[*head],
            expected=[*columns],
        )
    rows = []
    for line, row in enumerate(body, 2):
        if len(row) != len(head):
            raise BadInput(
                f"{path}, line {line}: {len(row)} fields, expected {len(head)}.", hint=_FIX, code="unreadable-line"
            )
        rows.append({**dict(zip(head, row, strict=True)), "where": f"{path}, line {line}"})
    return rows


def _time(row: Row, column: str) -> int:
    """Parse an instant: ``2007-05-28``, ``2007-05-28 08:39:42.881`` or ``2007-05-28-08:39:42.881``."""
    text = row[column].strip()
    if len(text) > 10 and text[10] == "-":
        text = f"{text[:10]} {text[11:]}"
    try:
        return micros(datetime.fromisoformat(text))
    except MALFORMED as error:
        raise BadInput(
            f"{row['where']}: {column} {text!r} is not a date and time.", hint=_FIX, code="unreadable-line"
        ) from error


def _number(row: Row, column: str) -> float:
    """Parse a finite number."""
    text = row.get(column, "")
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise BadInput(f"{row['where']}: {column} {text[:40]!r} is not a number.", hint=_FIX, code="unreadable-line")
    return number


def _whole(row: Row, column: str) -> int:
    """Parse an identifier."""
    number = _number(row, column)
    if number != int(number) or abs(number) >= 2**31:
        raise BadInput(
            f"{row['where']}: {column} {row[column][:40]!r} is not a 32-bit integer.", hint=_FIX, code="unreadable-line"
        )
    return int(number)


def _cars(rows: Iterable[Row], moid: str, kind: str) -> pa.Table:
    made = [(_whole(row, moid), row["licence"], row["model"], row[kind]) for row in rows]
    numbers = [number for number, *_ in made]
    if not numbers:
        raise BadInput("The data set has no vehicles.", hint="Add one row per vehicle.", code="empty-input")
    if len(set(numbers)) != len(numbers):
        raise BadInput(
            f"{moid} is not unique among the vehicles.", hint="Keep one row per vehicle.", code="unreadable-line"
        )
    return pa.table([pa.array(column) for column in zip(*made, strict=True)], schema=MCAR)


def _polygon(
    rings: list[list[tuple[float, float]]], where: str, rejects: list[tuple[str, str]]
) -> dict[str, Any] | None:
    """Return a region, or None and add a reason to the rejects."""
    try:
        with np.errstate(all="ignore"):
            shape = shapely.Polygon(rings[0], rings[1:])
            reason = "" if shape.is_valid else shapely.is_valid_reason(shape)
    except (shapely.errors.GEOSException, *MALFORMED) as error:
        reason = str(error)
    if reason:
        rejects.append((where, f"invalid region: {reason}"))
        return None
    corners = [ring[:-1] if ring[0] == ring[-1] else ring for ring in rings]
    x, y = ([float(p[k]) for ring in corners for p in ring] for k in (0, 1))
    return {"x": x, "y": y, "starts": np.cumsum([0, *map(len, corners)])[:-1].tolist()}


def _regions(made: dict[int, tuple[str, list[list[tuple[float, float]]]]], rejects: list[tuple[str, str]]) -> pa.Table:
    regions = {number: _polygon(rings, where, rejects) for number, (where, rings) in sorted(made.items())}
    valid = {number: region for number, region in regions.items() if region}
    ids = pa.array(list(valid), pa.int32())
    return pa.table({"Id": ids, "Region": pa.array(list(valid.values()), types.REGION.arrow)})


def _ids(rows: list[Row], column: str) -> list[int]:
    return [_whole(row, column) for row in rows]


def _sample(ids: list[int], **columns: pa.Array) -> pa.Table:
    return pa.table({"Id": pa.array(ids, pa.int32()), **columns})


def _instants(values: list[int]) -> pa.Array:
    return write(np.array(values, dtype=np.int64), types.INSTANT_TYPE)


def _periods(begin: list[int], end: list[int]) -> pa.Array:
    rows = [{"begin": [instant(b)], "end": [instant(e)]} for b, e in zip(begin, end, strict=True)]
    return pa.array(rows, types.PERIODS.arrow)


def _samples(
    points: tuple[list[int], Points],
    instants: tuple[list[int], list[int]],
    periods: tuple[list[int], list[int], list[int]],
    licences: tuple[list[int], list[str]],
    regions: pa.Table,
) -> dict[str, pa.Table]:
    """Return the samples as tables, from their ids and values."""
    return {
        "QueryPoints": _sample(points[0], Pos=write(points[1], types.POINT)),
        "QueryInstants": _sample(instants[0], Instant=_instants(instants[1])),
        "QueryPeriods": _sample(periods[0], Period=_periods(*periods[1:])),
        "QueryLicences": _sample(licences[0], Licence=pa.array(licences[1])),
        "QueryRegions": regions,
    }


def _times(rows: list[Row], column: str) -> list[int]:
    return [_time(row, column) for row in rows]


def _spans(rows: list[Row]) -> tuple[list[int], list[int]]:
    """Return the begin and end of periods; reject one that ends before it begins."""
    begin, end = _times(rows, "begin"), _times(rows, "end")
    if bad := next((row for row, b, e in zip(rows, begin, end, strict=True) if e < b), None):
        raise BadInput(f"{bad['where']}: the period ends before it begins.", hint=_FIX, code="unreadable-line")
    return begin, end


def _published_samples(folder: Path, rejects: list[tuple[str, str]]) -> dict[str, pa.Table]:
    points = _rows(folder, "querypoints.csv", "Id", "Pos_x", "Pos_y")
    times = _rows(folder, "queryinstants.csv", "Id", "Instant")
    spans = _rows(folder, "queryperiods.csv", "Id", "Begin", "End")
    licences = _rows(folder, "querylicences.csv", "Id", "Licence")
    place = Points(*(np.array([_number(row, c) for row in points]) for c in ("pos_x", "pos_y")))
    return _samples(
        (_ids(points, "id"), place),
        (_ids(times, "id"), _times(times, "instant")),
        (_ids(spans, "id"), *_spans(spans)),
        (_ids(licences, "id"), [row["licence"] for row in licences]),
        _regions(_published_regions(folder), rejects),
    )


def _published_regions(folder: Path) -> dict[int, tuple[str, list[list[tuple[float, float]]]]]:
    """Read corners in order: as vertices (``Vertex_x, Vertex_y``) or as segments (``Xstart, Ystart, ...``)."""
    rows = _rows(folder, "queryregions.csv", "Id")
    x, y = ("vertex_x", "vertex_y") if rows and "vertex_x" in rows[0] else ("xstart", "ystart")
    made: dict[int, tuple[str, list[list[tuple[float, float]]]]] = {}
    for row in rows:
        place = (_number(row, x), _number(row, y))
        made.setdefault(_whole(row, "id"), (row["where"], [[]]))[1][0].append(place)
    return made


def _mobilitydb_samples(folder: Path, rejects: list[tuple[str, str]]) -> dict[str, pa.Table]:
    points = _rows(folder, "points.csv", "pointid", "geom")
    times = _rows(folder, "instants.csv", "instantid", "instant")
    spans = _rows(folder, "periods.csv", "periodid", "period")
    licences = _rows(folder, "licences.csv", "licenceid", "licence")
    regions = _rows(folder, "regions.csv", "regionid", "geom")
    where = [_geometry(row) for row in points]
    cut = [(row["period"].strip('[]()" ').replace('"', "").split(","), row["where"]) for row in spans]
    ends = [{"begin": parts[0].strip(), "end": parts[-1].strip(), "where": line} for parts, line in cut]
    shapes = {_whole(row, "regionid"): (row["where"], _rings(_geometry(row))) for row in regions}
    return _samples(
        (_ids(points, "pointid"), Points(np.array([g.x for g in where]), np.array([g.y for g in where]))),
        (_ids(times, "instantid"), _times(times, "instant")),
        (_ids(spans, "periodid"), *_spans(ends)),
        (_ids(licences, "licenceid"), [row["licence"] for row in licences]),
        _regions(shapes, rejects),
    )


def _geometry(row: Row) -> Any:
    """Parse a geometry from WKT, EWKT or hexadecimal WKB."""
    try:
        shape, srid = _shape(row["geom"].strip())
    except _INVALID_SHAPE as error:
        raise BadInput(
            f"{row['where']}: {error}.", hint="Use WKT or hexadecimal WKB.", code="unreadable-line"
        ) from error
    if srid in DEGREES:
        raise BadInput(
            f"{row['where']}: coordinates in degrees (SRID {srid}).",
            hint="Project them to metres first.",
            code="bad-coordinates",
        )
    return shape


def _shape(text: str) -> tuple[Any, str]:
    """Parse a geometry; return it and its SRID, if it has one."""
    head, _, wkt = text.rpartition(";")
    with np.errstate(all="ignore"):
        shape = shapely.from_wkb(text) if text[:1] in ("0", "1") else shapely.from_wkt(wkt)
    if shape is None or shape.is_empty or not np.isfinite(shapely.get_coordinates(shape)).all():
        raise shapely.errors.ShapelyError("an empty geometry, or coordinates that are not finite")
    srid = shapely.get_srid(shape)
    return shape, str(srid) if srid else head.upper().removeprefix("SRID=")


def _road_segments(folder: Path) -> Iterator[Street]:
    """Read MobilityDB's streets."""
    for row in _rows(folder, "roadsegments.csv", "maxspeedfwd", "segmentgeo"):
        line = _geometry({"geom": row["segmentgeo"], "where": row["where"]})
        yield Street(_number(row, "maxspeedfwd"), [(*a, *b) for a, b in pairwise(line.coords)])


def _network(folder: Path, *, metres: bool) -> StreetNetwork | None:
    """Read the streets, if a folder has them."""
    if (path := find_file(folder, "streets.csv")) is not None:
        return build(require_metres(read_csv_streets(path), path, metres=metres), str(path))
    if (path := find_file(folder, "roadsegments.csv")) is not None:
        return build(require_metres(_road_segments(folder), path, metres=metres), str(path))
    return None


def _rings(shape: Any) -> list[list[tuple[float, float]]]:
    return [[(x, y) for x, y in ring.coords] for ring in (shape.exterior, *shape.interiors)]


@compiled
def _join_units(trip: Longs, unit: Floats, t0: Longs, t1: Longs) -> tuple[Longs, MPoints]:
    """Join units sorted by trip and time to trips: a unit that continues the previous one shares its sequence."""
    n = len(trip)
    t, x, y = np.empty(2 * n, np.int64), np.empty(2 * n), np.empty(2 * n)
    rows, parts = np.zeros(n + 1, np.int32), np.zeros(n + 1, np.int32)
    starts, ids, at, part, row = np.empty(n, np.int32), np.empty(n, np.int64), 0, 0, 0
    for i in range(n):
        fresh = i == 0 or trip[i] != trip[i - 1]
        if fresh:
            ids[row] = trip[i]
            row += 1
        if fresh or t[at - 1] != t0[i] or np.hypot(x[at - 1] - unit[i, 0], y[at - 1] - unit[i, 1]) > 1e-6:
            starts[part] = at - rows[row - 1]
            part += 1
            t[at], x[at], y[at] = t0[i], unit[i, 0], unit[i, 1]
            at += 1
        if t1[i] > t[at - 1]:
            t[at], x[at], y[at] = t1[i], unit[i, 2], unit[i, 3]
            at += 1
        rows[row], parts[row] = at, part
    return ids[:row], MPoints(rows[: row + 1], t[:at], x[:at], y[:at], parts[: row + 1], starts[:part])


def _make_trips(table: pa.Table) -> pa.Table:
    """Return all trips of one vehicle, from its units."""
    ordered = table.sort_by([("Tripid", "ascending"), ("Tstart", "ascending"), ("Tend", "ascending")])
    flat = {name: read(ordered.column(name).combine_chunks()) for name in ("Tstart", "Tend", *UNITS[4:])}
    trip = ordered.column("Tripid").combine_chunks().to_numpy()
    unit = np.stack([flat[name] for name in UNITS[4:]], axis=1)
    _, trips = _join_units(trip, unit, flat["Tstart"], flat["Tend"])
    count = len(trips.rows) - 1
    moid = ordered.column("Moid")[0].as_py()
    number = pa.array(moid * TRIPS + np.arange(1, count + 1))
    licence = pa.array([ordered.column("Licence")[0].as_py()] * count, pa.string())
    columns = [pa.array([moid] * count, pa.int64()), licence, number, write(trips, types.MPOINT)]
    return pa.Table.from_arrays(columns, schema=MTRIP)


def _check_units(units: DataFrame) -> DataFrame:
    """Parse units (all text); unusable ones get a ``reason``."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    typed = units.select(
        *(sf.expr(f"try_cast({c} AS long)").alias(c) for c in UNITS[:2]),
        *(sf.expr(_INSTANT.format(c)).alias(c) for c in UNITS[2:4]),
        *(sf.expr(f"try_cast({c} AS double)").alias(c) for c in UNITS[4:]),
        sf.coalesce("broken", sf.concat_ws(",", *UNITS)).alias("row"),
        "broken",
    )
    order = Window.partitionBy("Moid", "Tripid").orderBy("Tstart", "Tend")
    last = sf.lag("Tend").over(order)
    jump = (sf.col("Tstart") == sf.col("Tend")) & (
        (sf.col("Xstart") != sf.col("Xend")) | (sf.col("Ystart") != sf.col("Yend"))
    )
    unusable = [sf.when(sf.col("broken").isNotNull(), "wrong number of fields")]
    unusable += [sf.when(sf.col(c).isNull(), f"{c} cannot be read") for c in UNITS]
    unusable += [
        sf.when(sf.isnan(c) | sf.col(c).isin(float("inf"), float("-inf")), f"{c} is not finite") for c in UNITS[4:]
    ]
    unusable += [
        sf.when(sf.col("Tend") < sf.col("Tstart"), "ends before it begins"),
        sf.when(last > sf.col("Tstart"), "begins before the previous unit ends"),
        sf.when(jump, "at two places at one instant"),
    ]
    return typed.withColumn("reason", sf.coalesce(*unusable)).drop("broken")


def _parse_places(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Replace geometries by x and y, still text; for an invalid point, x is the reason."""
    for batch in batches:
        x, y = zip(*(_parse_point(text or "")[:2] for text in batch.column("point").to_pylist()), strict=True)
        others = [batch.column(name) for name in (*_POINTS[:3], "broken")]
        columns = [*others, pa.array(x, pa.string()), pa.array(y, pa.string())]
        yield pa.RecordBatch.from_arrays(columns, names=[*_POINTS[:3], "broken", "x", "y"])


def _parse_point(text: str) -> tuple[str, str, str]:
    """Return x, y and the SRID of a point; for an invalid one, the reason instead of x."""
    try:
        shape, srid = _shape(text.strip())
    except _INVALID_SHAPE:
        return f"not a geometry: {text}", "", ""
    if srid in DEGREES:
        return f"degrees (SRID {srid})", "", srid
    return (repr(shape.x), repr(shape.y), srid) if shape.geom_type == "Point" else (f"not a point: {text}", "", srid)


def _instants_to_units(spark: SparkSession, path: Path) -> DataFrame:
    """Convert MobilityDB's instants to units, still text; a trip of one instant is a unit without duration."""
    if "point" in heads.read_header(path, ()):
        sql = ", ".join(f"{name} string" for name in (*_POINTS[:3], "broken", "x", "y"))
        rows = _csv(spark, path, _POINTS).mapInArrow(_parse_places, sql)
    else:
        rows = _csv(spark, path, INSTANTS)
    rows.createOrReplaceTempView("tripinstants")
    return spark.sql(
        """SELECT vehicleid AS Moid, tripid AS Tripid, t AS Tstart, next.t AS Tend, x AS Xstart, y AS Ystart,
                  next.x AS Xend, next.y AS Yend, coalesce(broken, next.broken) AS broken
           FROM (SELECT *, coalesce(lead(here) OVER trip, if(lag(here) OVER trip IS NULL, here, NULL)) AS next
                 FROM (SELECT *, struct(t, x, y, broken) AS here, try_cast(t AS timestamp) AS at,
                              monotonically_increasing_id() AS line
                       FROM tripinstants)
                 WINDOW trip AS (PARTITION BY vehicleid, tripid ORDER BY at, line))
           WHERE next IS NOT NULL"""
    )


def _csv(spark: SparkSession, path: Path, columns: tuple[str, ...]) -> DataFrame:
    """Read a large CSV file as text, by its column names; ``broken`` is a line with a wrong number of fields."""
    there = heads.read_header(path, columns)
    schema = ", ".join([*(f"c{number} string" for number in range(len(there))), "broken string"])
    frame = spark.read.csv(str(path), header=True, schema=schema, columnNameOfCorruptRecord="broken")
    return frame.select(*(frame[f"c{there[name.lower()]}"].alias(name) for name in columns), "broken")


@dataclass(frozen=True)
class ForeignFiles:
    """The files of a foreign data set: the small ones are read, of the large one the head is checked."""

    folder: Path
    kind: str
    cars: pa.Table
    samples: dict[str, pa.Table]
    rejects: list[tuple[str, str]]
    trips: Path
    srid: int
    network: StreetNetwork | None

    @classmethod
    def open(cls, folder: Path, kind: str, *, metres: bool = False) -> ForeignFiles:
        """Check a folder without Spark: reports what is missing, unreadable or in degrees.

        ``metres`` accepts coordinates that look like degrees.
        """
        check_files(folder, kind)
        rejects: list[tuple[str, str]] = []
        if kind == "published":
            cars = _cars(_rows(folder, "datamcar.csv", "Moid", "Licence", "Type", "Model"), "moid", "type")
            samples = _published_samples(folder, rejects)
            head = heads.read_units_head(_find_file(folder, "trips.csv"), UNITS)
            points, regions, srid = "querypoints.csv", "queryregions.csv", 0
        else:
            cars = _mobilitydb_cars(folder)
            samples = _mobilitydb_samples(folder, rejects)
            head = _instants_head(_find_file(folder, "tripsinput.csv", "trips.csv"))
            points, regions, srid = "points.csv", "regions.csv", _srid(folder, head)
        if not metres:
            head.refuse_degrees()
        if not (metres or srid or head.is_small):
            _refuse_degrees(folder / points, samples["QueryPoints"].column("Pos"))
            _refuse_degrees(folder / regions, samples["QueryRegions"].column("Region"))
        network = _network(folder, metres=metres or head.is_small or srid > 0)
        return cls(folder, kind, cars, samples, rejects, head.path, srid, network)


def _mobilitydb_cars(folder: Path) -> pa.Table:
    vehicles = _rows(folder, "vehicles.csv", "vehicleid", "licence", "model")
    kind = "vehtype" if vehicles and "vehtype" in vehicles[0] else "vehicletype"
    if vehicles and kind not in vehicles[0]:
        raise BadInput(
            f"{folder / 'vehicles.csv'}, line 1: no column vehicletype.",
            hint="vehtype is accepted too.",
            code="unknown-column",
        )
    return _cars(vehicles, "vehicleid", kind)


def _instants_head(path: Path) -> Head:
    return heads.read_instants_head(path, _POINTS if "point" in heads.read_header(path, ()) else INSTANTS, _parse_point)


def _srid(folder: Path, head: Head) -> int:
    """Return the reference system that points, regions and the head of the trips name; reject more than one."""
    rows = [*_rows(folder, "points.csv", "geom"), *_rows(folder, "regions.csv", "geom")]
    named = [_shape(row["geom"].strip())[1] for row in rows]
    return heads.common_srid(str(folder), [*named, str(head.srid)])


def _refuse_degrees(path: Path, places: pa.ChunkedArray) -> None:
    """Reject points or regions that look like degrees; these have no speeds to judge by."""
    found = read(places.combine_chunks())
    plane.refuse_degrees(str(path), found.x, found.y, columns="its places", hint=heads.HINT)


class LoadResult(NamedTuple):
    """The loaded data set, and how many of all rows were rejected."""

    manifest: DatasetManifest
    rejected: int
    rows: int


@in_utc
def load(spark: SparkSession, files: ForeignFiles, out: Path) -> LoadResult:
    """Load foreign files into a data set."""
    with staged_folder(out) as stage:
        published = files.kind == "published"
        units = _csv(spark, files.trips, UNITS) if published else _instants_to_units(spark, files.trips)
        write_samples(stage, {"dataMcar": files.cars, **files.samples})
        rejected, rows = _write_trips(spark, units, stage, files.rejects)
        if files.network is not None:
            files.network.save(stage / "network.npz")
        made = finish(spark, stage, f"{files.kind} files", {"format": files.kind}, files.srid)
        return LoadResult(made, rejected, rows)


def _write_trips(spark: SparkSession, units: DataFrame, stage: Path, rejects: list[tuple[str, str]]) -> tuple[int, int]:
    """Write trips and histories from units; return how many rows were rejected, and of how many."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as sf

    cars = spark.read.parquet(str(stage / "dataMcar"))
    checked = _check_units(units).join(cars.select("Moid", "Licence"), "Moid", "left")
    unknown = sf.when(sf.col("Licence").isNull(), "no such vehicle")
    checked = checked.withColumn("reason", sf.coalesce("reason", unknown))
    rejected_units = checked.where("reason IS NOT NULL").select("row", "reason")
    others = spark.createDataFrame(rejects, "row string, reason string")
    rejected_units.union(others).coalesce(1).write.csv(str(stage / "rejects"), header=True)
    counted = Observation()
    good = checked.where("reason IS NULL").drop("row", "reason").observe(counted, sf.count(sf.lit(1)).alias("rows"))
    good.groupBy("Moid").applyInArrow(_make_trips, MTRIP_SQL).write.parquet(str(stage / "dataMtrip"))
    write_histories(histories_from_trips(spark.read.parquet(str(stage / "dataMtrip")), cars), stage)
    rejected = spark.read.csv(str(stage / "rejects"), header=True, schema="row string, reason string").count()
    return rejected, rejected + counted.get["rows"]
