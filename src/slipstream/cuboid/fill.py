"""Run a stream of files into a cuboid: `slipstream cuboid run`.

OUT/checkpoint/        Spark's own
OUT/snapshot/          the cuboid, results of its continuous queries, figures; for readers
OUT/batches.jsonl      one line a committed batch: what each query found, and how many rows were rejected
OUT/rejects/batch=N/   rows that could not be kept, with the reason
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstream.cuboid import files, metrics, rtc, stream
from slipstream.cuboid.declare import Script
from slipstream.cuboid.schema import AST, Schema
from slipstream.cuboid.snapshot import Snapshot
from slipstream.cuboid.sql import Query
from slipstream.errors import BadArgument
from slipstream.failpoints import failpoint
from slipstream.logs import add_lines, whole_lines
from slipstream.session import task_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

JOURNAL, CHECKPOINT = "batches.jsonl", "checkpoint"
_SPARK_TYPES = {"i1": "int", "u1": "int", "i2": "int", "u2": "int", "i4": "bigint", "u4": "bigint", "i8": "bigint"}


@dataclass(frozen=True)
class Filling:
    """How to run."""

    follow: bool = False
    fragments: int = 0
    bounds: tuple[int, ...] = ()
    files_a_batch: int = 1
    watch: Callable[[int], None] = lambda _: None  # called with the batch after every commit


def declared(script: Script) -> tuple[str, Schema]:
    """The one cuboid that a script declares."""
    if len(script.cuboids) != 1:
        raise BadArgument(
            f"--schema declares {len(script.cuboids)} cuboids; a stream fills one.",
            hint="CREATE CUBOID stock (stock_id INT KEY, price AST(10))",
        )
    if script.selects:
        raise BadArgument("A continuous query has a name.", hint="CREATE QUERY name AS SELECT ...")
    return next(iter(script.cuboids.items()))


def open_files(spark: SparkSession, path: Path, schema: Schema, *, files_a_batch: int = 1) -> DataFrame:
    """A file or a folder of CSV with a header, JSON lines or Parquet, as a stream in the order of arrival."""
    first = path if path.is_file() else next(iter(sorted(p for p in path.glob("*.*") if p.name[0] not in "._")), None)
    if first is None or not first.is_file():
        raise BadArgument(
            f"--from {path}: no file there.", hint="Give a .csv, .json or .parquet file, or a folder of them."
        )
    form = first.suffix.removeprefix(".")
    if form not in ("csv", "json", "parquet"):
        raise BadArgument(f"--from {first}: unknown form .{form}.", hint="There are .csv, .json, .parquet.")
    reader = spark.readStream.option("maxFilesPerTrigger", files_a_batch).option("header", True)
    if form == "parquet":
        columns: Any = spark.read.parquet(str(first)).schema
    else:
        columns = _columns(first, schema) if form == "csv" else ", ".join(_typed(schema))
    return reader.schema(columns).format(form).load(str(path))


def _typed(schema: Schema) -> list[str]:
    kinds = [(schema.key, "i8"), *((a.name, a.dtype) for a in schema.attributes)]
    return [f"`{name}` {_SPARK_TYPES.get(kind, 'double')}" for name, kind in kinds]


def _columns(file: Path, schema: Schema) -> str:
    """The columns of a CSV file by its header; those that the cuboid does not hold as text."""
    with file.open(newline="", encoding="utf-8") as lines:
        names = next(csv.reader(lines), [])
    known = {typed.partition("`")[2].partition("`")[0].lower(): typed for typed in _typed(schema)}
    for name in known:
        if name not in {given.lower() for given in names}:
            raise BadArgument(f"{file}: no column '{name}' in its header; it has: {', '.join(names)}.")
    return ", ".join(known.get(name.lower(), f"`{name}` string") for name in names)


def start(spark: SparkSession, rows: DataFrame, script: Script, out: Path, how: Filling) -> StreamingQuery:
    """Start filling a cuboid from a streaming DataFrame; what was begun in the folder goes on."""
    name, schema = declared(script)
    queries = {label: Query.parse(text, {name: schema}, script.patterns) for label, text in script.queries.items()}
    snapshot = out / files.FOLDER
    if (snapshot / files.FILE).exists() and files.Catalogue.read(snapshot).cuboids != {name: schema}:
        raise BadArgument(
            f"--out {out}: holds another cuboid.", hint="Give another folder, or the schema it was begun with."
        )
    files.check_journal(out / JOURNAL, files.last_in_journal(out / JOURNAL) + 1, out / CHECKPOINT)
    cores = spark.sparkContext.defaultParallelism
    fragmentation = _agreed(out, stream.Fragmentation.new(spark, how.fragments or cores, how.bounds))
    files.Catalogue({name: schema}, script.patterns, journal=f"../{JOURNAL}").write(snapshot)
    made = stream.CuboidStream(name, schema, queries, str(snapshot.absolute()))
    found = made.over(rows, fragmentation)
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", len(fragmentation.labels))
    try:
        writer = found.writeStream.foreachBatch(partial(_commit, out, how.watch)).outputMode("append")
        writer = writer.option("checkpointLocation", str(out / CHECKPOINT))
        return (writer if how.follow else writer.trigger(availableNow=True)).start()
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", str(partitions))


def _agreed(out: Path, wanted: stream.Fragmentation) -> stream.Fragmentation:
    """The fragmentation that a folder was begun with."""
    place = out / files.FOLDER / "fragments.json"
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        with files.appearing(place) as file:
            file.write(json.dumps({"labels": wanted.labels, "bounds": wanted.bounds}).encode())
        return wanted
    stored = json.loads(place.read_text(encoding="utf-8"))
    return stream.Fragmentation(tuple(stored["labels"]), tuple(stored["bounds"]))


def _commit(out: Path, watch: Callable[[int], None], batch: DataFrame, number: int) -> None:
    """Do the batch, keep its rejects, and write the journal: only then is it visible."""
    batch.persist()
    try:
        failpoint("fill.before-rejects")
        counts = {
            row.query: int(row.rows) for row in batch.groupBy("query").sum("rows").toDF("query", "rows").collect()
        }
        if counts.get(stream.REJECTS):
            stream.rejects(batch).write.mode("overwrite").json(str(out / "rejects" / f"batch={number}"))
    finally:
        batch.unpersist()
    if files.last_in_journal(out / JOURNAL) < number:
        failpoint("fill.before-journal")
        add_lines(out / JOURNAL, [{"batch": number, "found": counts}], durable=True)
        failpoint("fill.after-journal")
    watch(number)


def fill(spark: SparkSession, path: Path, script: Script, out: Path, how: Filling) -> dict[str, Any]:
    """Fill a cuboid from files to their end, or for ever; returns what there is then."""
    name, schema = declared(script)
    rows = open_files(spark, path, schema, files_a_batch=how.files_a_batch)
    with task_errors():
        query = start(spark, rows, script, out, how)
        try:
            with metrics.recorded(query, out):
                query.awaitTermination()
        finally:
            query.stop()
    return summary(out, name)


def summary(out: Path, name: str) -> dict[str, Any]:
    """What a filled cuboid holds, and what its queries found."""
    snapshot = Snapshot.open(out)
    found: dict[str, int] = {}
    for line in whole_lines(out / JOURNAL):
        for query, rows in line["found"].items():
            found[query] = found.get(query, 0) + rows
    cuboid = snapshot[name]
    streams = [a for a in cuboid.schema.attributes if isinstance(a, AST)]
    ticks = int(cuboid.scan([streams[0].count])[streams[0].count].sum()) if streams and len(cuboid) else 0
    return {"batches": snapshot.batch + 1, "keys": len(cuboid), "elements": ticks, "found": found, **_rtc(out)}


def _rtc(out: Path) -> dict[str, Any]:
    measured = rtc.figures(rtc.moments(out))
    return {name: measured[name] for name in ("arrival_rate_per_s", "commit_us", "stable") if name in measured}
