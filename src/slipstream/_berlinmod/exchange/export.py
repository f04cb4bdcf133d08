"""Export a data set as the published BerlinMOD CSV files or as MobilityDB-BerlinMOD's."""

from __future__ import annotations

import csv
import math
import shutil
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import shapely

from slipstream._berlinmod.dataset import Dataset
from slipstream._berlinmod.exchange.load import INSTANTS, UNITS
from slipstream._berlinmod.layout import FORMATS, SAMPLES
from slipstream._errors import BadArgument
from slipstream._moving import types
from slipstream._moving.columns import MPoints, read, write
from slipstream._roads.street_network import StreetNetwork
from slipstream._spark.session import in_utc
from slipstream._tools.files.staging import staged_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TIMES_AND_PLACES = "Tstart timestamp, Tend timestamp, Xstart double, Ystart double, Xend double, Yend double"


def _units_table(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Convert movements (the last column) to rows of units; the other columns are repeated."""
    for batch in batches:
        m: MPoints = read(batch.column(batch.num_columns - 1))
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
        whose = [column.take(pa.array(row[first])) for column in batch.columns[:-1]]
        times = [write(t[first], types.INSTANT_TYPE), write(t[last], types.INSTANT_TYPE)]
        arrays = [*whose, *times, *map(pa.array, (x[first], y[first], x[last], y[last]))]
        yield pa.RecordBatch.from_arrays(arrays, names=[*batch.schema.names[:-1], *UNITS[2:]])


def _as_units(movements: DataFrame, *whose: str) -> DataFrame:
    kinds = {name: kind for name, kind in movements.dtypes if name in whose}
    sql = ", ".join([*(f"{name} {kinds[name]}" for name in whose), _TIMES_AND_PLACES])
    return movements.select(*whose, "Trip").mapInArrow(_units_table, sql)


def instants_table(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Convert trips to rows of instants."""
    for batch in batches:
        m: MPoints = read(batch.column("Trip"))
        low, high = int(m.rows[0]), int(m.rows[-1])
        row = np.repeat(np.arange(batch.num_rows), np.diff(m.rows))
        trip, moid = (batch.column(name).to_numpy()[row] for name in ("TripId", "Moid"))
        time = write(m.t[low:high], types.INSTANT_TYPE)
        arrays = [pa.array(trip), pa.array(moid), time, pa.array(m.x[low:high]), pa.array(m.y[low:high])]
        yield pa.RecordBatch.from_arrays(arrays, names=list(INSTANTS))


#: MobilityDB numbers trips with 32 bits across all vehicles, and the trips of each vehicle and day
_TRIPS_INPUT = """
SELECT N.number AS tripid, I.vehicleid, N.startdate, N.seqno,
       concat(:system, 'POINT(', I.x, ' ', I.y, ')') AS point, I.t
FROM instants I JOIN (
  SELECT tripid, startdate, row_number() OVER (ORDER BY tripid) AS number,
         row_number() OVER (PARTITION BY vehicleid, startdate ORDER BY tripid) AS seqno
  FROM (SELECT tripid, vehicleid, to_date(min(t)) AS startdate FROM instants GROUP BY tripid, vehicleid)) N
ON N.tripid = I.tripid
"""


def _write_one_file(frame: DataFrame, file: Path) -> None:
    """Write a frame as one CSV file, its partitions in order."""
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


def check_format(kind: str, srid: int | None) -> None:
    """Reject an unknown format, or a reference system for a format that has none."""
    if kind not in FORMATS:
        raise BadArgument(
            f"--format {kind}: no such format.",
            hint=f"Use {' or '.join(FORMATS)}.",
            code="unknown-value",
            expected=[*FORMATS],
            found=kind,
        )
    if srid is not None and (kind == "published" or not 0 <= srid < 2**31):
        raise BadArgument(
            f"--srid {srid} cannot be used with --format {kind}.",
            hint="Use an EPSG code with --format mobilitydb.",
            code="conflicting-options",
        )


@in_utc
def export(spark: SparkSession, data: Dataset, kind: str, out: Path, srid: int | None = None) -> list[str]:
    """Write a data set in another system's format; return the names of the files.

    Geometries name the reference system of the data set, if it is known; ``srid`` overrides it without changing
    coordinates.
    """
    check_format(kind, srid)
    system = _system(data.manifest.srid if srid is None else srid)
    samples = {name: data.table(spark, name).orderBy("Id").toArrow().to_pylist() for name in SAMPLES}
    cars = data.table(spark, "dataMcar").orderBy("Moid").toArrow().to_pylist()
    trips = data.table(spark, "dataMtrip").select("Moid", "TripId", "Trip")
    with staged_folder(out) as stage:
        if kind == "published":
            _write_one_file(
                _as_units(trips.withColumnRenamed("TripId", "Tripid"), "Moid", "Tripid"), stage / "trips.csv"
            )
            histories = _as_units(data.table(spark, "dataScar"), "Moid", "Licence", "Type", "Model")
            _write_one_file(histories, stage / "journey.csv")
            _export_published(stage, cars, samples)
            if (network := data.network()) is not None:
                _write_rows(stage / "streets.csv", "Id,Vmax,X1,Y1,X2,Y2", _segments(network))
        else:
            sql = "tripid long, vehicleid long, t timestamp, x double, y double"
            instants = trips.mapInArrow(instants_table, sql)
            _write_one_file(instants, stage / "trips.csv")
            instants.createOrReplaceTempView("instants")
            _write_one_file(spark.sql(_TRIPS_INPUT, args={"system": system}), stage / "tripsinput.csv")
            _export_mobilitydb(stage, cars, samples, system)
            if (network := data.network()) is not None:
                _write_rows(stage / "roadsegments.csv", _ROAD_SEGMENTS, _road_segments(network, system))
            _write_rows(stage / "municipalities.csv", _MUNICIPALITIES, [])
        return sorted(file.name for file in stage.iterdir())


def _streets(network: StreetNetwork) -> Iterator[tuple[int, list[tuple[float, float]]]]:
    """Return every street once, though the network has it in both directions: an edge and its places."""
    for edge in range(network.edges):
        a, b = network.shape[edge], network.shape[edge + 1]
        places = list(zip(network.shape_x[a:b].tolist(), network.shape_y[a:b].tolist(), strict=True))
        if network.reverse[edge] < 0 or places <= places[::-1]:
            yield edge, places


def _segments(network: StreetNetwork) -> Iterator[tuple[Any, ...]]:
    for number, (edge, places) in enumerate(_streets(network), 1):
        for first, second in pairwise(places):
            yield number, float(network.vmax[edge]), *first, *second


_ROAD_SEGMENTS = (
    "segmentid,name,osmid,tagid,segmentlength,sourcenode,targetnode,sourceosm,targetosm,timesecsfwd,timesecsbwd,oneway,"
    "maxspeedfwd,maxspeedbwd,priority,segmentgeo"
)
_MUNICIPALITIES = "municipalityid,municipalityname,population,percpop,popdensitykm2,noenterp,percenterp,municipalitygeo"


def _system(srid: int) -> str:
    """Return the prefix of a geometry: its reference system, if it has one."""
    return f"SRID={srid};" if srid else ""


def _road_segments(network: StreetNetwork, system: str) -> Iterator[tuple[Any, ...]]:
    for number, (edge, places) in enumerate(_streets(network), 1):
        ends = (int(network.source[edge]) + 1, int(network.target[edge]) + 1)
        length = sum(math.dist(a, b) for a, b in pairwise(places))
        speed, seconds = float(network.vmax[edge]), float(network.cost[edge])
        line = f"{system}{shapely.LineString(places).wkt}"
        yield number, "", "", "", length, *ends, *ends, seconds, seconds, 2, speed, speed, 1.0, line


def _format_time(time: datetime) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S.%f")


def _export_published(stage: Path, cars: list[dict[str, Any]], samples: dict[str, list[dict[str, Any]]]) -> None:
    _write_rows(
        stage / "datamcar.csv",
        "Moid,Licence,Type,Model",
        ((c["Moid"], c["Licence"], c["Type"], c["Model"]) for c in cars),
    )
    points, instants, periods = samples["QueryPoints"], samples["QueryInstants"], samples["QueryPeriods"]
    _write_rows(stage / "querypoints.csv", "Id,Pos_x,Pos_y", ((p["Id"], p["Pos"]["x"], p["Pos"]["y"]) for p in points))
    _write_rows(stage / "queryinstants.csv", "Id,Instant", ((i["Id"], _format_time(i["Instant"])) for i in instants))
    spans = ((p["Id"], _format_time(p["Period"]["begin"][0]), _format_time(p["Period"]["end"][0])) for p in periods)
    _write_rows(stage / "queryperiods.csv", "Id,Begin,End", spans)
    _write_rows(stage / "querylicences.csv", "Licence,Id", ((r["Licence"], r["Id"]) for r in samples["QueryLicences"]))
    corners = (
        (r["Id"], x, y)
        for r in samples["QueryRegions"]
        for x, y in zip(r["Region"]["x"], r["Region"]["y"], strict=True)
    )
    _write_rows(stage / "queryregions.csv", "Id,Vertex_x,Vertex_y", corners)


def _export_mobilitydb(
    stage: Path, cars: list[dict[str, Any]], samples: dict[str, list[dict[str, Any]]], system: str
) -> None:
    numbers = {c["Licence"]: c["Moid"] for c in cars}
    vehicles = ((c["Moid"], c["Licence"], c["Type"], c["Model"]) for c in cars)
    _write_rows(stage / "vehicles.csv", "vehicleid,licence,vehicletype,model", vehicles)
    licences = ((r["Id"], r["Licence"], numbers[r["Licence"]]) for r in samples["QueryLicences"])
    _write_rows(stage / "licences.csv", "licenceid,licence,vehicleid", licences)
    points = ((p["Id"], f"{system}POINT({p['Pos']['x']!r} {p['Pos']['y']!r})") for p in samples["QueryPoints"])
    _write_rows(stage / "points.csv", "pointid,geom", points)
    _write_rows(
        stage / "instants.csv",
        "instantid,instant",
        ((i["Id"], _format_time(i["Instant"])) for i in samples["QueryInstants"]),
    )
    spans = (
        (p["Id"], f"[{_format_time(p['Period']['begin'][0])}, {_format_time(p['Period']['end'][0])}]")
        for p in samples["QueryPeriods"]
    )
    _write_rows(stage / "periods.csv", "periodid,period", spans)
    regions = (
        (r["Id"], f"{system}{shapely.Polygon(list(zip(r['Region']['x'], r['Region']['y'], strict=True))).wkt}")
        for r in samples["QueryRegions"]
    )
    _write_rows(stage / "regions.csv", "regionid,geom", regions)
