"""Match files of trips with Spark: every position with its road, and every trip along the roads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from slipstream._archive.trip_tables import TRIP, is_archive, open_archive, trip_outputs
from slipstream._errors import BadInput
from slipstream._moving.exchange.trip_files import TripReading
from slipstream._moving.moving_point import to_arrow
from slipstream._roads import road_tables
from slipstream._roads.matching.match_columns import RESULT_SQL, match_column
from slipstream._roads.matching.model import Model
from slipstream._tools.files.staging import staged_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: the codes of UTM zones begin after these
_WGS84_UTM, _ETRS89_UTM = 32600, 25800


def read_trips(trips: Path, roads: Path) -> Callable[[SparkSession], DataFrame]:
    """Return what makes a DataFrame of trips; files are read and checked at once, an archive by Spark."""
    if trips.is_dir() and is_archive(trips):
        names = trip_outputs(trips)
        return lambda spark: open_archive(spark, trips, names[0]) if names else open_archive(spark, trips)
    network = road_tables.open_roads(roads)
    plane = network.plane
    in_degrees = _has_degrees(trips)
    if in_degrees and plane is None:
        raise BadInput(
            f"{trips}: positions in degrees, but the place of {roads} on the globe is unknown.",
            hint="Import the roads with --centre LON,LAT, or give positions in their metres.",
            code="bad-coordinates",
        )
    reading = TripReading(plane=plane) if in_degrees else TripReading()
    found = reading.read(trips)
    if network.srid:
        _check_systems(trips, reading.srids, roads, network.srid)
    table = pa.table({"id": pa.array([name for name, _ in found]), TRIP: to_arrow([point for _, point in found])})
    return lambda spark: spark.createDataFrame(table)


def _check_systems(trips: Path, srids: set[int], roads: Path, srid: int) -> None:
    """Refuse trips that name another reference system; 0 is none. ETRS89 is WGS 84 to less than a metre."""
    same = {0, srid, srid - _WGS84_UTM + _ETRS89_UTM}
    if others := sorted(srids - same):
        raise BadInput(
            f"{trips}: positions in EPSG:{others[0]}, but {roads} is in EPSG:{srid}.",
            hint=f"Convert the positions to EPSG:{srid}.",
            code="bad-coordinates",
            found=others[0],
            expected=srid,
        )


def _has_degrees(trips: Path) -> bool:
    """Return whether files of trips are in degrees: GPX is, and CSV with columns of that name."""
    file = trips if trips.is_file() else next((one for one in sorted(trips.iterdir()) if one.is_file()), trips)
    if file.suffix.lower() != ".csv":
        return file.suffix.lower() == ".gpx"
    with file.open(encoding="utf-8", errors="replace") as lines:
        names = {name.strip().lower() for name in lines.readline().split(",")}
    return not {"x", "y"} <= names and bool({"lon", "lng", "longitude"} & names)


def match_files(spark: SparkSession, trips: DataFrame, roads: Path, model: Model, out: Path) -> dict[str, int]:
    """Write OUT/points and OUT/trips; returns what was counted."""
    from pyspark.sql import functions as sf

    folder = str(roads.absolute())
    heads = [name for name in trips.columns if name != TRIP]

    def match(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            matched = match_column(folder, model, batch.column(TRIP))
            yield pa.RecordBatch.from_arrays([*(batch.column(name) for name in heads), matched], [*heads, "m"])

    types = [f"`{field.name}` {field.dataType.simpleString()}" for field in trips.schema if field.name != TRIP]
    with staged_folder(out) as stage:
        matched = trips.mapInArrow(match, ", ".join([*types, f"m {RESULT_SQL}"]))
        matched.write.parquet(str(stage / "matched"))
        done = spark.read.parquet(str(stage / "matched"))
        columns = [sf.col(f"`{name}`") for name in heads]
        done.select(*columns, sf.inline("m.points")).write.parquet(str(stage / "points"))
        done.select(*columns, sf.col("m.Trip").alias(TRIP)).write.parquet(str(stage / "trips"))
        counts = _count(spark, stage)
        for file in sorted((stage / "matched").iterdir()):
            file.unlink()
        (stage / "matched").rmdir()
    return counts


def _count(spark: SparkSession, stage: Path) -> dict[str, int]:
    points, trips = (spark.read.parquet(str(stage / name)) for name in ("points", "trips"))
    by_status = {row["status"]: int(row["count"]) for row in points.groupBy("status").count().collect()}
    stretches = trips.selectExpr("sum(size(Trip.starts))").first()
    if stretches is None or not by_status:
        raise BadInput("no positions to match.", hint="Give a file with trips.", code="empty-input")
    return {
        "trips": trips.count(),
        **{name: by_status.get(name, 0) for name in ("on", "off", "jump")},
        "stretches": int(stretches[0] or 0),
    }
