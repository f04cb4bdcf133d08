"""The archive: position reports that streamed by become trajectories.

One row a trip: a vehicle's reports on one expressway and direction without a silence longer than two reports. Spark's
session windows find the trips, in batch over a finished run and in a stream as it goes on; the state is Spark's own,
and a trip is written once, when the stream's clock has passed its end. A stream may be files of tuples, chunks of text
or trains, or a replayed run; whoever calls opens the source.

The plane of Linear City: x is the distance from the western end, y the expressway (ten miles apart) plus the lane;
all in metres. ``manifest.json`` beside the trips says so; trips of another origin in the same layout lie elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slipstream.documents import json_of
from slipstream.errors import MALFORMED, BadArgument, BadInput
from slipstream.feeds.intake import nothing
from slipstream.feeds.parse import PARSERS
from slipstream.feeds.run import Run
from slipstream.feeds.trains import decode, tuples_of
from slipstream.feeds.tuples import FIELDS, POSITION, REPORT_EVERY
from slipstream.kernels import Ints
from slipstream.moving.value import micros
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

FORMAT, VERSION = "slipstream-archive", 1
#: the plane in which Linear Road's expressways lie
LINEAR_CITY = "linear city"

#: a second that no feed reaches: 63 years after its start
END = 2_000_000_000
_TUPLES = ", ".join(f"{name} int" for name in FIELDS)
_PARSED = f"{_TUPLES}, line string, reason string"

#: a vehicle's place across the road: eastbound lanes north of the middle, westbound ones south of it
_Y = f"xway * {APART}D + (CASE WHEN dir = 0 THEN 1 ELSE -1 END) * (lane + 1) * {LANE}D"

_TRIP = """named_struct('t', transform(r, v -> v.at), 'x', transform(r, v -> v.x), 'y', transform(r, v -> v.y),
                        'starts', array(0)) AS Trip"""


def _second_of(start: str) -> int:
    """The second since 1970 of an instant; in UTC where it names no zone, whatever the session's zone is."""
    try:
        return micros(datetime.fromisoformat(start)) // 1_000_000
    except ValueError as error:
        raise BadArgument(f"--start {start}: not a date and time.", hint="Write 2007-05-28 00:00:00.") from error


def places(reports: DataFrame, start: str = START) -> DataFrame:
    """Position reports as places at instants."""
    return reports.where(f"type = {POSITION}").selectExpr(
        "vid",
        "xway",
        "dir",
        f"timestamp_seconds({_second_of(start)}L + time) AS at",
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


def describe(out: Path) -> None:
    """Write ``out/manifest.json``: that these trips lie in the plane of Linear City."""
    out.mkdir(parents=True, exist_ok=True)
    body = {"format": FORMAT, "version": VERSION, "plane": LINEAR_CITY}
    (out / "manifest.json").write_text(json.dumps(body, indent=2) + "\n", encoding="utf-8")


def is_linear_city(folder: Path) -> bool:
    """Whether an archive says that its trips are on Linear Road's expressways."""
    try:
        body = json_of((folder / "manifest.json").read_bytes())
        return (body["format"], body["plane"]) == (FORMAT, LINEAR_CITY)
    except (OSError, *MALFORMED):
        return False


def archive_run(spark: SparkSession, run: Run, out: Path, start: str = START) -> dict[str, int]:
    """All trips of a finished run as the table ``out/trips``."""
    with staged(out) as stage:
        describe(stage)
        trajectories(run.dataframe(spark), start).write.parquet(str(stage / "trips"))
        return counts(spark.read.parquet(str(stage / "trips")))


def counts(trips: DataFrame) -> dict[str, int]:
    """How many trips an archive has, of how many vehicles, and how many reports are in them or were dropped."""
    row = trips.selectExpr(
        "count(*) AS trips",
        "count(DISTINCT vid) AS vehicles",
        "coalesce(sum(size(Trip.t)), 0) AS reports",
        "coalesce(sum(Dropped), 0) AS dropped",
    )
    return {name: int(value) for name, value in row.toArrow().to_pylist()[0].items()}


def arriving(spark: SparkSession, folder: Path) -> DataFrame:
    """The tuples in the Parquet files that arrive in ``folder``, in the order of time."""
    if not folder.is_dir():
        raise BadArgument(f"{folder}: no such folder.", hint="Give a run, or what tuples arrive in.")
    return spark.readStream.schema(_TUPLES).option("maxFilesPerTrigger", 1).parquet(str(folder))


def parsed(chunks: DataFrame, encoding: str) -> DataFrame:
    """Tuples from a stream of chunks (``chunk``, and ``last`` with the word that it was the last); bad lines too."""

    def parse(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = PARSERS[encoding]([chunk for chunk in batch.column("chunk").to_pylist() if chunk])
            yield _batch(found.tuples, found.rejects)
            if any(batch.column("last").to_pylist()):
                yield _batch(_end())

    return chunks.select("chunk", "last").mapInArrow(parse, _PARSED)


def unpacked(hops: DataFrame, last: int) -> DataFrame:
    """Tuples from a stream of trains (``second, reports, requests, payload``) that ends with second ``last``.

    Where ``rejected`` holds, the payload is lines ``reason,line`` instead.
    """

    def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for rejected, *train in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if rejected:
                    reasons = [line.partition(b",") for line in train[-1].splitlines()]
                    yield _batch(nothing(), [(line, reason.decode()) for reason, _, line in reasons])
                else:
                    yield _batch(tuples_of(decode(*train)))
                if train[0] >= last:
                    yield _batch(_end())

    return hops.select("rejected", "second", "reports", "requests", "payload").mapInArrow(unpack, _PARSED)


def _end() -> dict[str, Ints]:
    """A report from after the end of all feeds: with it the stream's clock passes every trip's end."""
    return {name: np.array([{"type": POSITION, "time": END}.get(name, -1)], np.int32) for name in FIELDS}


def _batch(tuples: dict[str, Ints], rejects: Sequence[tuple[bytes, str]] = ()) -> pa.RecordBatch:
    good, bad = len(tuples["type"]), len(rejects)
    numbers = [pa.concat_arrays([pa.array(tuples[name]), pa.nulls(bad, pa.int32())]) for name in FIELDS]
    words = [[line.decode(errors="replace") for line, _ in rejects], [reason for _, reason in rejects]]
    text = [pa.concat_arrays([pa.nulls(good, pa.string()), pa.array(column, pa.string())]) for column in words]
    return pa.RecordBatch.from_arrays([*numbers, *text], names=[*FIELDS, "line", "reason"])


def archive_stream(tuples: DataFrame, out: Path, start: str = START, *, once: bool = False) -> StreamingQuery:
    """Append the trips of a stream of tuples to ``out/trips``, each when it is over; ``once``: of what is there now.

    Give the same ``out`` again and it goes on where it stopped.
    """
    describe(out)
    writer = trajectories(tuples, start).writeStream.format("parquet").outputMode("append")
    options = {"path": str(out / "trips"), "checkpointLocation": str(out / "checkpoint" / "trips")}
    pace = {"availableNow": True} if once else {"processingTime": "0 seconds"}
    return writer.options(**options).trigger(**pace).start()


def keep_rejects(tuples: DataFrame, out: Path) -> StreamingQuery:
    """Append what a parsed stream could not use to ``out/rejects``: the line and the reason."""
    bad = tuples.where("reason IS NOT NULL").select("line", "reason")
    options = {"path": str(out / "rejects"), "checkpointLocation": str(out / "checkpoint" / "rejects")}
    return bad.writeStream.format("csv").outputMode("append").options(**options).start()


def open_archive(spark: SparkSession, folder: Path) -> DataFrame:
    """The trips of an archive."""
    trips = folder / "trips"
    if not trips.is_dir():
        raise BadInput(f"{folder}: no archive.", hint="`slipstream archive RUN --out DATA` makes one.")
    return spark.read.parquet(str(trips))
