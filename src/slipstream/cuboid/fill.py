"""Run a stream of files into a cuboid: `slipstream cuboid run`.

OUT/checkpoint/        Spark's own
OUT/snapshot/          the cuboid, results of its continuous queries, figures; for readers
OUT/batches.jsonl      one line a committed batch: what each query found, how many rows were kept and rejected
OUT/rejects/batch=N/   rows that could not be kept, with the reason
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from slipstream.cuboid import files, rtc, stream
from slipstream.cuboid.declare import Script
from slipstream.cuboid.schema import AST, Schema
from slipstream.cuboid.snapshot import Snapshot
from slipstream.cuboid.sql import Query
from slipstream.errors import BadArgument, BadInput
from slipstream.failpoints import failpoint
from slipstream.logs import add_lines, whole_lines
from slipstream.runtime import metrics
from slipstream.session import RESUMES, keeping_state, task_errors
from slipstream.staging import appearing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

JOURNAL, CHECKPOINT = files.JOURNAL, "checkpoint"
_FORMS = "Give a .csv, .json or .parquet file, or a folder of them."
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


@dataclass(frozen=True)
class Files:
    """The files of a stream: one, or those of a folder, all of one format."""

    path: Path
    first: Path
    form: str

    @classmethod
    def find(cls, path: Path) -> Files:
        """What is at a path; needs no Spark."""
        if not path.exists():
            raise BadArgument(f"--from {path}: no such file or folder.", hint=_FORMS)
        inside = sorted(p for p in path.glob("*.*") if p.name[0] not in "._") if path.is_dir() else [path]
        if not inside or not inside[0].is_file():
            raise BadArgument(f"--from {path}: no file there.", hint=_FORMS)
        form = inside[0].suffix.removeprefix(".")
        if form not in ("csv", "json", "parquet"):
            raise BadArgument(f"--from {inside[0]}: unknown format .{form}.", hint=_FORMS)
        return cls(path, inside[0], form)

    @property
    def size(self) -> int:
        """All bytes that are there now."""
        inside = self.path.iterdir() if self.path.is_dir() else [self.path]
        return sum(file.stat().st_size for file in inside if file.is_file())

    def check(self, schema: Schema) -> None:
        """Refuse files without the columns that a cuboid needs; JSON lines may differ, so each is judged by itself."""
        if self.form == "csv":
            _columns(self.first, schema)
        elif self.form == "parquet":
            _check_parquet(self.first, schema)

    def stream(self, spark: SparkSession, schema: Schema, *, files_a_batch: int = 1) -> DataFrame:
        """Their rows, in the order of arrival; a line that cannot be read as declared also comes as it is."""
        reader = spark.readStream.option("maxFilesPerTrigger", files_a_batch).option("header", True)
        reader = reader.option("columnNameOfCorruptRecord", stream.LINE).format(self.form)
        if self.form == "parquet":
            columns: Any = spark.read.parquet(str(self.first)).schema
        else:
            named = _columns(self.first, schema) if self.form == "csv" else ", ".join(_typed(schema))
            columns = f"{named}, `{stream.LINE}` string"
        if not self.path.is_file():
            return reader.schema(columns).load(str(self.path))
        # Spark streams folders: this one file of its folder
        return reader.schema(columns).option("pathGlobFilter", _literal(self.path.name)).load(str(self.path.parent))


def _literal(name: str) -> str:
    """A pattern that only this name matches.

    >>> _literal("a[1].csv")
    'a\\\\[1\\\\].csv'
    """
    return re.sub(r"([*?\[\]{}\\,])", r"\\\1", name)


def open_files(spark: SparkSession, path: Path, schema: Schema, *, files_a_batch: int = 1) -> DataFrame:
    """A file or a folder of CSV with a header, JSON lines or Parquet, as a stream in the order of arrival."""
    found = Files.find(path)
    found.check(schema)
    return found.stream(spark, schema, files_a_batch=files_a_batch)


def _check_parquet(file: Path, schema: Schema) -> None:
    try:
        there = {field.name.lower(): field.type for field in pq.read_schema(file)}
    except (OSError, pa.ArrowException) as error:
        raise BadInput(f"{file}: {str(error).splitlines()[0]}", hint="Give a Parquet file.") from error
    for name in (schema.key, *(a.name for a in schema.attributes)):
        type_ = there.get(name.lower())
        if type_ is None:
            raise BadArgument(f"{file}: no column '{name}'; it has: {', '.join(there)}.")
        if not (pa.types.is_integer(type_) or pa.types.is_floating(type_)):
            raise BadArgument(
                f"{file}: column '{name}' is {type_}; a cuboid holds numbers.", hint="Hash text first, as by xxhash64."
            )


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


def check_start(script: Script, out: Path, how: Filling) -> dict[str, Query]:
    """Refuse what cannot be started, without Spark; the continuous queries, ready to be asked."""
    name, schema = declared(script)
    queries = {label: Query.parse(text, {name: schema}, script.patterns) for label, text in script.queries.items()}
    for label, query in queries.items():
        query.check_continuous(label)
    if stream.REJECTS in queries:
        raise BadArgument(f"A query cannot be named {stream.REJECTS}.", hint="Choose another name.")
    stream.check_bounds(how.bounds)
    if out.exists() and not out.is_dir():
        raise BadArgument(f"--out {out}: not a folder.", hint="Give another name.")
    snapshot = out / files.FOLDER
    if (snapshot / files.FILE).exists() and files.Catalogue.read(snapshot).cuboids != {name: schema}:
        raise BadArgument(
            f"--out {out}: holds another cuboid.", hint="Give another folder, or the schema it was begun with."
        )
    files.check_journal(out / JOURNAL, files.last_in_journal(out / JOURNAL) + 1, out / CHECKPOINT)
    return queries


def start(spark: SparkSession, rows: DataFrame, script: Script, out: Path, how: Filling) -> StreamingQuery:
    """Start filling a cuboid from a streaming DataFrame; what was begun in the folder resumes."""
    name, schema = declared(script)
    queries, snapshot = check_start(script, out, how), out / files.FOLDER
    cores = spark.sparkContext.defaultParallelism
    fragmentation = _agreed(out, stream.Fragmentation.new(how.fragments or cores, how.bounds))
    files.Catalogue({name: schema}, script.patterns, journal=f"../{JOURNAL}").write(snapshot)
    made = stream.CuboidStream(name, schema, queries, str(snapshot.absolute()))
    found = made.over(rows, fragmentation)
    writer = found.writeStream.foreachBatch(partial(_commit, out, how.watch)).outputMode("append")
    writer = writer.option("checkpointLocation", str(out / CHECKPOINT))
    with keeping_state(spark, len(fragmentation.labels)):
        return (writer if how.follow else writer.trigger(availableNow=True)).start()


def _agreed(out: Path, wanted: stream.Fragmentation) -> stream.Fragmentation:
    """The fragmentation that a folder was begun with."""
    place = out / files.FOLDER / "fragments.json"
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        with appearing(place) as file:
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
        kept, rejected = counts.pop(stream.KEPT, 0), counts.pop(stream.REJECTS, 0)
        line = {"batch": number, "found": counts, "kept": kept, "rejected": rejected}
        add_lines(out / JOURNAL, [line], durable=True)
        failpoint("fill.after-journal")
    watch(number)


def fill(spark: SparkSession, path: Path, script: Script, out: Path, how: Filling) -> dict[str, Any]:
    """Fill a cuboid from files to their end, or for as long as it is let run; returns what there is then."""
    name, schema = declared(script)
    rows = open_files(spark, path, schema, files_a_batch=how.files_a_batch)
    with task_errors(RESUMES, out / CHECKPOINT):
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
    lines = whole_lines(out / JOURNAL)
    found = Counter[str]()
    for line in lines:
        found.update(line["found"])
    # earlier versions counted rejects as if a query had found them
    rejected = found.pop(stream.REJECTS, 0) + sum(line.get("rejected", 0) for line in lines)
    rows = sum(line.get("kept", 0) for line in lines) + rejected
    cuboid = snapshot[name]
    streams = [a for a in cuboid.schema.attributes if isinstance(a, AST)]
    ticks = int(cuboid.scan([streams[0].count])[streams[0].count].sum()) if streams and len(cuboid) else 0
    counts = {"batches": snapshot.batch + 1, "rows": rows, "rejected": rejected, "keys": len(cuboid)}
    return {**counts, "elements": ticks, "found": dict(found), **_rtc(out)}


def _rtc(out: Path) -> dict[str, Any]:
    measured = rtc.figures(rtc.moments(out))
    return {name: measured[name] for name in ("arrival_rate_per_s", "commit_us", "stable") if name in measured}
