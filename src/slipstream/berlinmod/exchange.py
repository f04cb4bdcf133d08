"""Data of others: the published BerlinMOD CSV files and MobilityDB-BerlinMOD's, in and out.

Published: a trip is rows of units ``Moid,Tripid,Tstart,Tend,Xstart,Ystart,Xend,Yend``. MobilityDB: rows of instants
``tripid,vehicleid,t,x,y``. Both become rows of units here, are checked in Spark, and every row that cannot be used is
kept in ``DATA/rejects`` with its reason; nothing is dropped in silence.
"""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import shapely

from slipstream.berlinmod.dataset import (
    MCAR,
    MTRIP,
    MTRIP_SQL,
    SAMPLES,
    TRIPS,
    Dataset,
    Manifest,
    finish,
    histories_from_trips,
)
from slipstream.berlinmod.generator import write_samples
from slipstream.berlinmod.network import build
from slipstream.berlinmod.streets import csv_streets, text_of
from slipstream.errors import BadArgument, BadInput
from slipstream.kernels import Floats, Longs, compiled
from slipstream.moving import types
from slipstream.moving.columns import MPoints, Points, read, write
from slipstream.moving.value import instant, micros
from slipstream.staging import staged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMATS = ("published", "mobilitydb")
_UNITS = ("Moid", "Tripid", "Tstart", "Tend", "Xstart", "Ystart", "Xend", "Yend")
#: the published format has a hyphen between date and time, its files a blank
_INSTANT = r"try_cast(regexp_replace(trim({}), '^(\\d{{4}}-\\d\\d-\\d\\d)-', '$1 ') AS timestamp)"
_INSTANTS = ("tripid", "vehicleid", "t", "x", "y")

Row = dict[str, str]


def _file(folder: Path, name: str) -> Path | None:
    """The file of that name, gzipped or not."""
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def _rows(folder: Path, name: str, *columns: str) -> list[Row]:
    """The rows of a small CSV file that must have ``columns`` (any case)."""
    path = _file(folder, name)
    if path is None:
        raise BadInput(f"{folder}: no {name}.", hint="Give the folder that holds the files of the format.")
    reader = csv.reader(io.StringIO(text_of(path)))
    head = [column.strip().lower() for column in next(reader, [])]
    if missing := [column for column in columns if column.lower() not in head]:
        raise BadInput(f"{path}, line 1: no column {missing[0]}.", hint=f"Expected {', '.join(columns)}.")
    rows = []
    for line, row in enumerate(reader, 2):
        if len(row) != len(head):
            raise BadInput(f"{path}, line {line}: {len(row)} fields, the first line has {len(head)}.")
        rows.append({**dict(zip(head, row, strict=True)), "where": f"{path}, line {line}"})
    return rows


def _time(row: Row, column: str) -> int:
    """An instant: ``2007-05-28``, ``2007-05-28 08:39:42.881`` or ``2007-05-28-08:39:42.881``."""
    text = row[column].strip()
    if len(text) > 10 and text[10] == "-":
        text = f"{text[:10]} {text[11:]}"
    try:
        return micros(datetime.fromisoformat(text))
    except ValueError as error:
        raise BadInput(f"{row['where']}: {column} {text!r} is not a date and time.") from error


def _number(row: Row, column: str) -> float:
    try:
        return float(row[column])
    except ValueError as error:
        raise BadInput(f"{row['where']}: {column} {row[column]!r} is not a number.") from error


def _cars(rows: Iterable[Row], moid: str, kind: str) -> pa.Table:
    made = [(int(_number(row, moid)), row["licence"], row["model"], row[kind]) for row in rows]
    numbers = [number for number, *_ in made]
    if len(set(numbers)) != len(numbers):
        raise BadInput(f"{moid} is not unique among the vehicles.", hint="One row per vehicle.")
    return pa.table([pa.array(column) for column in zip(*made, strict=True)], schema=MCAR)


def _polygon(
    rings: list[list[tuple[float, float]]], where: str, rejects: list[tuple[str, str]]
) -> dict[str, Any] | None:
    """A region, or nothing and a reason among the rejects."""
    try:
        shape = shapely.Polygon(rings[0], rings[1:])
        reason = "" if shape.is_valid else shapely.is_valid_reason(shape)
    except (ValueError, IndexError, shapely.errors.GEOSException) as error:
        reason = str(error)
    if reason:
        rejects.append((where, f"broken region: {reason}"))
        return None
    corners = [ring[:-1] if ring[0] == ring[-1] else ring for ring in rings]
    x, y = ([float(p[k]) for ring in corners for p in ring] for k in (0, 1))
    return {"x": x, "y": y, "starts": np.cumsum([0, *map(len, corners)])[:-1].tolist()}


def _regions(made: dict[int, tuple[str, list[list[tuple[float, float]]]]], rejects: list[tuple[str, str]]) -> pa.Table:
    regions = {number: _polygon(rings, where, rejects) for number, (where, rings) in sorted(made.items())}
    kept = {number: region for number, region in regions.items() if region}
    ids = pa.array(list(kept), pa.int32())
    return pa.table({"Id": ids, "Region": pa.array(list(kept.values()), types.REGION.arrow)})


def _ids(rows: list[Row], column: str) -> list[int]:
    return [int(_number(row, column)) for row in rows]


def _sample(ids: list[int], **columns: pa.Array) -> pa.Table:
    return pa.table({"Id": pa.array(ids, pa.int32()), **columns})


def _instants(values: list[int]) -> pa.Array:
    return write(np.array(values, dtype=np.int64), types.INSTANT_TYPE)


def _periods(begin: list[int], end: list[int]) -> pa.Array:
    rows = [{"begin": [instant(b)], "end": [instant(e)]} for b, e in zip(begin, end, strict=True)]
    return pa.array(rows, types.PERIODS.arrow)


def _published_samples(folder: Path, rejects: list[tuple[str, str]]) -> dict[str, pa.Table]:
    points = _rows(folder, "querypoints.csv", "Id", "Pos_x", "Pos_y")
    times = _rows(folder, "queryinstants.csv", "Id", "Instant")
    spans = _rows(folder, "queryperiods.csv", "Id", "Begin", "End")
    licences = _rows(folder, "querylicences.csv", "Id", "Licence")
    place = Points(*(np.array([_number(row, c) for row in points]) for c in ("pos_x", "pos_y")))
    return {
        "QueryPoints": _sample(_ids(points, "id"), Pos=write(place, types.POINT)),
        "QueryInstants": _sample(_ids(times, "id"), Instant=_instants([_time(row, "instant") for row in times])),
        "QueryPeriods": _sample(
            _ids(spans, "id"),
            Period=_periods([_time(row, "begin") for row in spans], [_time(row, "end") for row in spans]),
        ),
        "QueryLicences": _sample(_ids(licences, "id"), Licence=pa.array([row["licence"] for row in licences])),
        "QueryRegions": _regions(_published_regions(folder), rejects),
    }


def _published_regions(folder: Path) -> dict[int, tuple[str, list[list[tuple[float, float]]]]]:
    """Corners in order: as vertices (``Vertex_x, Vertex_y``) or as segments (``Xstart, Ystart, ...``)."""
    rows = _rows(folder, "queryregions.csv", "Id")
    x, y = ("vertex_x", "vertex_y") if rows and "vertex_x" in rows[0] else ("xstart", "ystart")
    made: dict[int, tuple[str, list[list[tuple[float, float]]]]] = {}
    for row in rows:
        place = (_number(row, x), _number(row, y))
        made.setdefault(int(_number(row, "id")), (row["where"], [[]]))[1][0].append(place)
    return made


def _mobilitydb_samples(folder: Path, rejects: list[tuple[str, str]]) -> dict[str, pa.Table]:
    points = _rows(folder, "points.csv", "pointid", "geom")
    times = _rows(folder, "instants.csv", "instantid", "instant")
    spans = _rows(folder, "periods.csv", "periodid", "period")
    licences = _rows(folder, "licences.csv", "licenceid", "licence")
    regions = _rows(folder, "regions.csv", "regionid", "geom")
    where = [_geometry(row) for row in points]
    ends = [row["period"].strip("[]() ").replace('"', "").split(",") for row in spans]
    span_rows = [{"b": e[0].strip(), "e": e[-1].strip(), "where": r["where"]} for e, r in zip(ends, spans, strict=True)]
    place = Points(np.array([g.x for g in where]), np.array([g.y for g in where]))
    shapes = {int(_number(row, "regionid")): (row["where"], _rings(_geometry(row))) for row in regions}
    return {
        "QueryPoints": _sample(_ids(points, "pointid"), Pos=write(place, types.POINT)),
        "QueryInstants": _sample(_ids(times, "instantid"), Instant=_instants([_time(row, "instant") for row in times])),
        "QueryPeriods": _sample(
            _ids(spans, "periodid"),
            Period=_periods([_time(row, "b") for row in span_rows], [_time(row, "e") for row in span_rows]),
        ),
        "QueryLicences": _sample(_ids(licences, "licenceid"), Licence=pa.array([row["licence"] for row in licences])),
        "QueryRegions": _regions(shapes, rejects),
    }


def _geometry(row: Row) -> Any:
    """A geometry from WKT, EWKT or hexadecimal WKB."""
    text = row["geom"].strip().partition(";")[2] or row["geom"].strip()
    try:
        return shapely.from_wkb(text) if text[:1] in "01" else shapely.from_wkt(text)
    except shapely.errors.ShapelyError as error:
        raise BadInput(f"{row['where']}: {error}.", hint="Geometry as WKT or hexadecimal WKB.") from error


def _rings(shape: Any) -> list[list[tuple[float, float]]]:
    return [[(x, y) for x, y in ring.coords] for ring in (shape.exterior, *shape.interiors)]


@compiled
def _joined(trip: Longs, unit: Floats, t0: Longs, t1: Longs) -> tuple[Longs, MPoints]:
    """Trips from units sorted by trip and time: units that go on where the last ended share a sequence."""
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


def _trips_of(table: pa.Table) -> pa.Table:
    """All trips of one vehicle from its units."""
    ordered = table.sort_by([("Tripid", "ascending"), ("Tstart", "ascending"), ("Tend", "ascending")])
    flat = {name: read(ordered.column(name).combine_chunks()) for name in ("Tstart", "Tend", *_UNITS[4:])}
    trip = ordered.column("Tripid").combine_chunks().to_numpy()
    unit = np.stack([flat[name] for name in _UNITS[4:]], axis=1)
    _, trips = _joined(trip, unit, flat["Tstart"], flat["Tend"])
    count = len(trips.rows) - 1
    moid = ordered.column("Moid")[0].as_py()
    number = pa.array(moid * TRIPS + np.arange(1, count + 1))
    licence = pa.array([ordered.column("Licence")[0].as_py()] * count, pa.string())
    columns = [pa.array([moid] * count, pa.int64()), licence, number, write(trips, types.MPOINT)]
    return pa.Table.from_arrays(columns, schema=MTRIP)


def _checked_units(units: DataFrame) -> DataFrame:
    """Units (all text) with their values and, where they cannot be used, a ``reason``."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    typed = units.select(
        *(sf.expr(f"try_cast({c} AS long)").alias(c) for c in _UNITS[:2]),
        *(sf.expr(_INSTANT.format(c)).alias(c) for c in _UNITS[2:4]),
        *(sf.expr(f"try_cast({c} AS double)").alias(c) for c in _UNITS[4:]),
        sf.concat_ws(",", *_UNITS).alias("row"),
    )
    order = Window.partitionBy("Moid", "Tripid").orderBy("Tstart", "Tend")
    last = sf.lag("Tend").over(order)
    unusable = [sf.when(sf.col(c).isNull(), f"{c} cannot be read") for c in _UNITS]
    unusable += [
        sf.when(sf.isnan(c) | sf.col(c).isin(float("inf"), float("-inf")), f"{c} is not finite") for c in _UNITS[4:]
    ]
    unusable += [
        sf.when(sf.col("Tend") < sf.col("Tstart"), "ends before it begins"),
        sf.when(last > sf.col("Tstart"), "begins before the unit before it ends"),
    ]
    return typed.withColumn("reason", sf.coalesce(*unusable))


def _units_of_instants(spark: SparkSession, path: Path) -> DataFrame:
    """MobilityDB's instants as units, still text."""
    rows = _csv(spark, path, _INSTANTS)
    rows.createOrReplaceTempView("tripinstants")
    return spark.sql(
        """SELECT vehicleid AS Moid, tripid AS Tripid, t AS Tstart, next.t AS Tend, x AS Xstart, y AS Ystart,
                  next.x AS Xend, next.y AS Yend
           FROM (SELECT *, lead(struct(t, x, y)) OVER (PARTITION BY vehicleid, tripid ORDER BY at, line) AS next
                 FROM (SELECT *, try_cast(t AS timestamp) AS at, monotonically_increasing_id() AS line
                       FROM tripinstants))
           WHERE next IS NOT NULL"""
    )


def _csv(spark: SparkSession, path: Path, columns: tuple[str, ...]) -> DataFrame:
    """A large CSV file as text columns, by the names in its first line."""
    frame = spark.read.csv(str(path), header=True)
    there = {name.lower(): name for name in frame.columns}
    if missing := [name for name in columns if name.lower() not in there]:
        raise BadInput(f"{path}, line 1: no column {missing[0]}.", hint=f"Expected {', '.join(columns)}.")
    return frame.select(*(frame[there[name.lower()]].alias(name) for name in columns))


def load(spark: SparkSession, folder: Path, kind: str, out: Path) -> tuple[Manifest, int]:
    """Read others' files into a data set; returns what was made and how many rows were rejected."""
    if kind not in FORMATS:
        raise BadArgument(f"--format {kind}: not {' or '.join(FORMATS)}.")
    if not folder.is_dir():
        raise BadArgument(f"{folder}: no such folder.", hint="Give the folder that holds the CSV files.")
    rejects: list[tuple[str, str]] = []
    if kind == "published":
        cars = _cars(_rows(folder, "datamcar.csv", "Moid", "Licence", "Type", "Model"), "moid", "type")
        samples = _published_samples(folder, rejects)
        units = _csv(spark, _big(folder, "trips.csv"), _UNITS)
    else:
        vehicles = _rows(folder, "vehicles.csv", "vehicleid", "licence", "vehicletype", "model")
        cars = _cars(vehicles, "vehicleid", "vehicletype")
        samples = _mobilitydb_samples(folder, rejects)
        units = _units_of_instants(spark, _big(folder, "tripsinput.csv"))
    with staged(out) as stage:
        write_samples(stage, {"dataMcar": cars, **samples})
        bad = _write_trips(spark, units, stage, rejects)
        if (streets := _file(folder, "streets.csv")) is not None:
            build(csv_streets(streets), str(streets)).save(stage / "network.npz")
        return finish(spark, stage, f"{kind} files", {"format": kind}), bad


def _big(folder: Path, name: str) -> Path:
    path = _file(folder, name)
    if path is None:
        raise BadInput(f"{folder}: no {name}.", hint="Give the folder that holds the files of the format.")
    return path


def _write_trips(spark: SparkSession, units: DataFrame, stage: Path, rejects: list[tuple[str, str]]) -> int:
    """Trips and histories from checked units; what cannot be used goes to ``rejects``."""
    from pyspark.sql import functions as sf

    cars = spark.read.parquet(str(stage / "dataMcar"))
    checked = _checked_units(units).join(cars.select("Moid", "Licence"), "Moid", "left")
    unknown = sf.when(sf.col("Licence").isNull(), "no such vehicle")
    checked = checked.withColumn("reason", sf.coalesce("reason", unknown))
    refused = checked.where("reason IS NOT NULL").select("row", "reason")
    others = spark.createDataFrame(rejects, "row string, reason string")
    refused.union(others).coalesce(1).write.csv(str(stage / "rejects"), header=True)
    good = checked.where("reason IS NULL").drop("row", "reason")
    good.groupBy("Moid").applyInArrow(_trips_of, MTRIP_SQL).write.parquet(str(stage / "dataMtrip"))
    histories_from_trips(spark.read.parquet(str(stage / "dataMtrip")), cars).write.parquet(str(stage / "dataScar"))
    return spark.read.csv(str(stage / "rejects"), header=True, schema="row string, reason string").count()


def _units_table(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Trips as rows of units."""
    for batch in batches:
        m: MPoints = read(batch.column("Trip"))
        sizes = np.diff(m.rows)
        low, high = int(m.rows[0]), int(m.rows[-1])
        row = np.repeat(np.arange(len(sizes)), sizes)
        fresh = np.zeros(high - low + 1, dtype=bool)
        starts = m.starts[m.parts[0] : m.parts[-1]] + np.repeat(m.rows[:-1] - low, np.diff(m.parts))
        fresh[starts], fresh[-1] = True, True
        lone = fresh[:-1] & fresh[1:]
        first = np.flatnonzero(~fresh[1:] | lone)
        last = np.where(lone[first], first, first + 1)
        t, x, y = (array[low:high] for array in (m.t, m.x, m.y))
        columns = [batch.column("Moid").to_numpy()[row[first]], batch.column("TripId").to_numpy()[row[first]]]
        times = [write(t[first], types.INSTANT_TYPE), write(t[last], types.INSTANT_TYPE)]
        places = [x[first], y[first], x[last], y[last]]
        arrays = [*map(pa.array, columns), *times, *map(pa.array, places)]
        yield pa.RecordBatch.from_arrays(arrays, names=list(_UNITS))


def _instants_table(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Trips as rows of instants."""
    for batch in batches:
        m: MPoints = read(batch.column("Trip"))
        low, high = int(m.rows[0]), int(m.rows[-1])
        row = np.repeat(np.arange(batch.num_rows), np.diff(m.rows))
        trip, moid = (batch.column(name).to_numpy()[row] for name in ("TripId", "Moid"))
        time = write(m.t[low:high], types.INSTANT_TYPE)
        arrays = [pa.array(trip), pa.array(moid), time, pa.array(m.x[low:high]), pa.array(m.y[low:high])]
        yield pa.RecordBatch.from_arrays(arrays, names=list(_INSTANTS))


def _one_file(frame: DataFrame, file: Path) -> None:
    """Write a frame as one CSV file, its parts one after another."""
    parts = file.with_suffix(".parts")
    time = "yyyy-MM-dd HH:mm:ss.SSSSSS"
    frame.write.csv(str(parts), header=False, timestampFormat=time)
    with file.open("wb") as out:
        out.write((",".join(frame.columns) + "\n").encode())
        for part in sorted(parts.glob("part-*.csv")):
            with part.open("rb") as source:
                shutil.copyfileobj(source, out)
    shutil.rmtree(parts)


def _write_rows(file: Path, head: str, rows: Iterable[Iterable[Any]]) -> None:
    with file.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(head.split(","))
        writer.writerows(rows)


def export(spark: SparkSession, data: Dataset, kind: str, out: Path) -> list[str]:
    """Write a data set in others' format; returns the names of the files."""
    if kind not in FORMATS:
        raise BadArgument(f"--format {kind}: not {' or '.join(FORMATS)}.")
    samples = {name: data.table(spark, name).orderBy("Id").toArrow().to_pylist() for name in SAMPLES}
    cars = data.table(spark, "dataMcar").orderBy("Moid").toArrow().to_pylist()
    trips = data.table(spark, "dataMtrip").select("Moid", "TripId", "Trip")
    with staged(out) as stage:
        if kind == "published":
            sql = "Moid long, Tripid long, Tstart timestamp, Tend timestamp, Xstart double, Ystart double"
            units = trips.mapInArrow(_units_table, f"{sql}, Xend double, Yend double")
            _one_file(units, stage / "trips.csv")
            _export_published(stage, cars, samples)
        else:
            sql = "tripid long, vehicleid long, t timestamp, x double, y double"
            _one_file(trips.mapInArrow(_instants_table, sql), stage / "tripsinput.csv")
            _export_mobilitydb(stage, cars, samples)
        return sorted(file.name for file in stage.iterdir())


def _clock(time: datetime) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S.%f")


def _export_published(stage: Path, cars: list[dict[str, Any]], samples: dict[str, list[dict[str, Any]]]) -> None:
    _write_rows(
        stage / "datamcar.csv",
        "Moid,Licence,Type,Model",
        ((c["Moid"], c["Licence"], c["Type"], c["Model"]) for c in cars),
    )
    points, instants, periods = samples["QueryPoints"], samples["QueryInstants"], samples["QueryPeriods"]
    _write_rows(stage / "querypoints.csv", "Id,Pos_x,Pos_y", ((p["Id"], p["Pos"]["x"], p["Pos"]["y"]) for p in points))
    _write_rows(stage / "queryinstants.csv", "Id,Instant", ((i["Id"], _clock(i["Instant"])) for i in instants))
    spans = ((p["Id"], _clock(p["Period"]["begin"][0]), _clock(p["Period"]["end"][0])) for p in periods)
    _write_rows(stage / "queryperiods.csv", "Id,Begin,End", spans)
    _write_rows(stage / "querylicences.csv", "Licence,Id", ((r["Licence"], r["Id"]) for r in samples["QueryLicences"]))
    corners = (
        (r["Id"], x, y)
        for r in samples["QueryRegions"]
        for x, y in zip(r["Region"]["x"], r["Region"]["y"], strict=True)
    )
    _write_rows(stage / "queryregions.csv", "Id,Vertex_x,Vertex_y", corners)


def _export_mobilitydb(stage: Path, cars: list[dict[str, Any]], samples: dict[str, list[dict[str, Any]]]) -> None:
    numbers = {c["Licence"]: c["Moid"] for c in cars}
    vehicles = ((c["Moid"], c["Licence"], c["Type"], c["Model"]) for c in cars)
    _write_rows(stage / "vehicles.csv", "vehicleid,licence,vehicletype,model", vehicles)
    licences = ((r["Id"], r["Licence"], numbers[r["Licence"]]) for r in samples["QueryLicences"])
    _write_rows(stage / "licences.csv", "licenceid,licence,vehicleid", licences)
    points = ((p["Id"], f"POINT({p['Pos']['x']!r} {p['Pos']['y']!r})") for p in samples["QueryPoints"])
    _write_rows(stage / "points.csv", "pointid,geom", points)
    _write_rows(
        stage / "instants.csv", "instantid,instant", ((i["Id"], _clock(i["Instant"])) for i in samples["QueryInstants"])
    )
    spans = (
        (p["Id"], f"[{_clock(p['Period']['begin'][0])}, {_clock(p['Period']['end'][0])}]")
        for p in samples["QueryPeriods"]
    )
    _write_rows(stage / "periods.csv", "periodid,period", spans)
    regions = (
        (r["Id"], shapely.Polygon(list(zip(r["Region"]["x"], r["Region"]["y"], strict=True))).wkt)
        for r in samples["QueryRegions"]
    )
    _write_rows(stage / "regions.csv", "regionid,geom", regions)
