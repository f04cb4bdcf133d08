"""The archive: position reports that streamed by become trajectories.

One row a trip: a vehicle's reports on one expressway and direction without a silence longer than two reports. Spark's
session windows find the trips, in batch over a finished run and in a stream as it goes on; the state is Spark's own,
and a trip is written once, when the stream's clock has passed its end.

The plane of Linear City: x is the distance from the western end, y the expressway (ten miles apart) plus the lane;
all in metres.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from slipstream.errors import BadArgument, BadInput
from slipstream.feeds.run import Run
from slipstream.feeds.tuples import FIELDS, POSITION, REPORT_EVERY
from slipstream.staging import staged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

FOOT = 0.3048
#: twelve feet, and ten miles between expressways
LANE = 12 * FOOT
APART = 10 * 5280 * FOOT
SILENCE = 2 * REPORT_EVERY + 1
#: where second 0 of a run lies: a Monday
START = "2007-05-28 00:00:00"

#: a vehicle's place across the road: eastbound lanes north of the middle, westbound ones south of it
_Y = f"xway * {APART}D + (CASE WHEN dir = 0 THEN 1 ELSE -1 END) * (lane + 1) * {LANE}D"

_TRIP = """named_struct('t', transform(r, v -> v.at), 'x', transform(r, v -> v.x), 'y', transform(r, v -> v.y),
                        'starts', array(0)) AS Trip"""


def places(reports: DataFrame, start: str = START) -> DataFrame:
    """Position reports as places at instants."""
    return reports.where(f"type = {POSITION}").selectExpr(
        "vid",
        "xway",
        "dir",
        f"timestamp_seconds(unix_seconds(TIMESTAMP '{start}') + time) AS at",
        f"pos * {FOOT}D AS x",
        f"{_Y} AS y",
    )


def trajectories(reports: DataFrame, start: str = START) -> DataFrame:
    """Trips from position reports; ``Dropped`` counts reports of a second that was reported already."""
    from pyspark.sql import functions as sf

    here = places(reports, start).withWatermark("at", f"{SILENCE} seconds")
    session = sf.session_window("at", f"{SILENCE} seconds")
    report = sf.struct("at", "x", "y")
    trips = here.groupBy(session, "vid", "xway", "dir").agg(sf.array_sort(sf.collect_list(report)).alias("every"))
    # one report an instant: the others would be jumps
    once = "filter(every, (v, i) -> i = 0 OR v.at > every[i - 1].at) AS r"
    kept = trips.selectExpr("vid", "xway", "dir", "size(every) AS reports", once)
    return kept.selectExpr("vid", "xway", "dir", _TRIP, "reports - size(r) AS Dropped")


def archive_run(spark: SparkSession, run: Run, out: Path, start: str = START) -> dict[str, int]:
    """All trips of a finished run as the table ``out/trips``."""
    with staged(out) as stage:
        trajectories(run.dataframe(spark), start).write.parquet(str(stage / "trips"))
        row = spark.read.parquet(str(stage / "trips")).selectExpr(
            "count(*) AS trips",
            "count(DISTINCT vid) AS vehicles",
            "coalesce(sum(size(Trip.t)), 0) AS reports",
            "coalesce(sum(Dropped), 0) AS dropped",
        )
        return {name: int(value) for name, value in row.toArrow().to_pylist()[0].items()}


def archive_stream(spark: SparkSession, folder: Path, out: Path, start: str = START) -> StreamingQuery:
    """Trips of a stream of Parquet files that arrive in ``folder``, in the order of time, appended to ``out/trips``.

    Give the same ``out`` again and it goes on where it stopped.
    """
    if not folder.is_dir():
        raise BadArgument(f"{folder}: no such folder.", hint="Give a run, or a folder that tuples arrive in.")
    schema = ", ".join(f"{name} int" for name in FIELDS)
    tuples = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
    writer = trajectories(tuples, start).writeStream.format("parquet").outputMode("append")
    options = {"path": str(out / "trips"), "checkpointLocation": str(out / "checkpoint")}
    return writer.options(**options).trigger(availableNow=True).start()


def open_archive(spark: SparkSession, folder: Path) -> DataFrame:
    """The trips of an archive."""
    trips = folder / "trips"
    if not trips.is_dir():
        raise BadInput(f"{folder}: no archive.", hint="`slipstream archive RUN --out DATA` makes one.")
    return spark.read.parquet(str(trips))
