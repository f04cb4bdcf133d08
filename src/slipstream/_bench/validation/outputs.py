"""Read an engine's output, in any supported format, into one DataFrame.

- the folder of a toll job: a table of answers per kind, and the journal with the time of every commit;
- Parquet with the columns of ``COLUMNS``, which may also be partition folders (``emit_ms=5000/a.parquet``);
- text in the paper's order: ``0,VID,Time,Emit,Lav,Toll``, ``1,Time,Emit,VID,Seg``, ``2,Time,Emit,ResultTime,QID,Bal``,
  ``3,Time,Emit,QID,Bal``, ``4,Time,Emit,QID,TravelTime,Toll``;
- text in the order of the benchmark's original validator, which swaps QID and ResultTime in type 2.

``Emit`` in text is in seconds, optionally with decimals. The frame has a row per line: ``kind, id`` (vehicle for kinds
0 and 1, request for the others), ``time, emit_ms, a, b`` and ``line``, the text of an unreadable row (otherwise null).
"""

from __future__ import annotations

from enum import StrEnum
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from slipstream._errors import MALFORMED, BadArgument, BadInput

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: the Parquet format; (a, b) by kind: (lav, toll), (seg, -1), (result time, balance), (balance, -1), (seconds, toll)
COLUMNS = ("kind", "time", "emit_ms", "vid", "qid", "a", "b")

#: the tables of a toll job: their kind, and the columns of id, a and b
TABLES = {
    "notifications": (0, "vid", "lav", "toll"),
    "alerts": (1, "vid", "seg", "-1"),
    "balances": (2, "qid", "result_time", "balance"),
    "expenditures": (3, "qid", "expenditure", "-1"),
    "travel_times": (4, "qid", "travel_time", "toll"),
}

_GIVE = "Use the file or folder that an engine wrote its answers to."


class FieldOrder(StrEnum):
    """The order of the fields of a text line."""

    AUTO = "auto"
    PAPER = "paper"
    ORIGINAL = "original"


_SPLIT = "split(translate(value, ' \\t\\r', ''), ',') as f"
_WHOLE = "try_cast(get(f, {}) as bigint)"
_EMIT = "cast(1000 * try_cast(get(f, {}) as decimal(18, 3)) as bigint)"

# In kind 0 the vehicle comes first; kinds 1 and 3 have one value less.
_FIELDS = (
    "try_cast(get(f, 0) as int) as kind",
    f"if(f[0] = '0', {_WHOLE.format(1)}, {{id}}) as id",
    f"if(f[0] = '0', {_WHOLE.format(2)}, {_WHOLE.format(1)}) as time",
    f"if(f[0] = '0', {_EMIT.format(3)}, {_EMIT.format(2)}) as emit_ms",
    f"if(f[0] = '2', {{result_time}}, {_WHOLE.format(4)}) as a",
    f"if(f[0] in ('1', '3'), -1L, {_WHOLE.format(5)}) as b",
    "size(f) = if(f[0] in ('1', '3'), 5, 6) as whole",
    "value",
)
_PLACES = {FieldOrder.PAPER: ("if(f[0] = '2', {4}, {3})", "{3}"), FieldOrder.ORIGINAL: ("{3}", "{4}")}

_READABLE = """whole and kind between 0 and 4 and id between 0 and 2147483647 and time between 0 and 2147483647
  and emit_ms is not null and a is not null and b is not null"""


def check_outputs(paths: list[Path]) -> None:
    """Reject outputs that do not exist, naming all of them, or that are empty."""
    if missing := [str(path) for path in paths if not path.exists()]:
        raise BadArgument(f"{', '.join(missing)}: no such OUTPUT.", hint=_GIVE, code="no-such-file")
    for path in paths:
        _locate(path)


def read_outputs(spark: SparkSession, paths: list[Path], order: FieldOrder) -> DataFrame:
    """Return all output tuples under ``paths``."""
    check_outputs(paths)
    return reduce(lambda left, right: left.unionByName(right), [_read(spark, path, order) for path in paths])


def _read(spark: SparkSession, path: Path, order: FieldOrder) -> DataFrame:
    found = _locate(path)
    if _is_job(found):
        return _mark_unreadable(_read_job(spark, found))
    if _is_parquet(found):
        return _read_parquet(spark, found)
    lines = spark.read.text(str(found)).where("trim(value) <> ''").selectExpr("value", _SPLIT)
    return _mark_unreadable(lines.selectExpr(*_list_fields(detect_order(lines) if order == FieldOrder.AUTO else order)))


def _locate(path: Path) -> Path:
    """Return the file or folder that holds the tuples: ``path`` itself, or the text file in it."""
    if path.is_dir() and not _is_job(path):
        if (path / "output.csv").exists():
            return path / "output.csv"
        if not any(_drop_hidden(path)):
            raise BadInput(f"{path}: the folder is empty.", hint=_GIVE, code="empty-input")
    return path


def _drop_hidden(folder: Path) -> list[Path]:
    files = (file for file in folder.rglob("*") if file.is_file() and file.stat().st_size)
    return [file for file in files if not any(p.startswith((".", "_")) for p in file.relative_to(folder).parts)]


def _is_parquet(path: Path) -> bool:
    files = _drop_hidden(path) if path.is_dir() else [path]
    for file in files[:1]:
        with file.open("rb") as contents:
            return contents.read(4) == b"PAR1"
    return False


def _is_job(path: Path) -> bool:
    from slipstream._io import outputs  # imported late: commands import this module for their help text

    return path.is_dir() and set(TABLES) <= set(outputs.output_names(path))


def _read_job(spark: SparkSession, path: Path) -> DataFrame:
    """Return the answers of a toll job: Emit is the commit time in the journal plus the delay of the answer."""
    from pyspark.sql import functions as sf

    from slipstream._io import outputs

    try:
        instants = [(batch.batch, int(batch.detail["emitted_ms"])) for batch in outputs.read_journal(path)]
    except MALFORMED as error:
        raise BadInput(
            f"{path / outputs.JOURNAL}: damaged ({error}).", hint="Run the job again.", code="damaged-output"
        ) from error
    commits = sf.broadcast(spark.createDataFrame(instants, "_batch long, emitted_ms long"))
    parts = []
    for name, (kind, id_, a, b) in TABLES.items():
        columns = (f"{kind} as kind", "_batch", "delay_ms", "cast(time as bigint) as time")
        values = (f"cast({column} as bigint) as {field}" for field, column in (("id", id_), ("a", a), ("b", b)))
        parts.append(outputs.to_frame(spark, path, name).selectExpr(*columns, *values))
    rows = reduce(lambda left, right: left.unionByName(right), parts).join(commits, "_batch", "left")
    line = "concat_ws(',', kind, time, id, a, b) as value"
    return rows.selectExpr("kind", "id", "time", "emitted_ms + delay_ms as emit_ms", "a", "b", "true as whole", line)


def _read_parquet(spark: SparkSession, path: Path) -> DataFrame:
    from pyspark.errors import PySparkException

    # folders named column=value are partitions; others are read recursively
    named = path.is_dir() and any("=" in folder.name for folder in path.iterdir())
    try:
        frame = spark.read.option("recursiveFileLookup", str(not named).lower()).parquet(str(path))
    except PySparkException as error:
        raise BadInput(
            f"{path}: not readable as Parquet.", hint="The output is damaged; run again.", code="damaged-output"
        ) from error
    if missing := [name for name in COLUMNS if name not in frame.columns]:
        raise BadInput(
            f"{path}: no column {', '.join(missing)}; it has: {', '.join(frame.columns)}.",
            hint=f"An output in Parquet must have the columns {', '.join(COLUMNS)}.",
            code="unknown-column",
            found=frame.columns,
            expected=[*COLUMNS],
        )
    columns = (
        "cast(kind as int) as kind",
        "cast(if(kind < 2, vid, qid) as bigint) as id",
        *(f"cast({name} as bigint) as {name}" for name in ("time", "emit_ms", "a", "b")),
        "true as whole",
        f"concat_ws(',', {', '.join(COLUMNS)}) as value",
    )
    return _mark_unreadable(frame.selectExpr(*columns))


def _mark_unreadable(frame: DataFrame) -> DataFrame:
    columns = ("kind", "cast(id as int) as id", "cast(time as int) as time", "emit_ms", "a", "b")
    judged = frame.selectExpr("*", f"coalesce({_READABLE}, false) as readable")
    good = judged.where("readable").selectExpr(*columns, "cast(null as string) as line")
    bad = judged.where("not readable")
    nothing = [f"cast(null as {kind}) as {name}" for name, kind in good.dtypes if name != "line"]
    return good.unionByName(bad.selectExpr(*nothing, "value as line"))


def _list_fields(order: FieldOrder) -> list[str]:
    whole = [_WHOLE.format(i) for i in range(6)]
    id_, result_time = (place.format(*whole) for place in _PLACES[order])
    return [field.format(id=id_, result_time=result_time) if "{" in field else field for field in _FIELDS]


def detect_order(lines: DataFrame) -> FieldOrder:
    """Detect the order of text lines: in type 2, by which field can be a result time.

    The two orders differ in type 2 only; without such lines it does not matter.
    """
    fits = "count_if({} between {time} - 60 and {time})"
    time = _WHOLE.format(1)
    counts = [fits.format(_WHOLE.format(place), time=time) for place in (3, 4)]
    row = lines.where("f[0] = '2'").selectExpr(f"{counts[0]} as paper", f"{counts[1]} as original").first()
    assert row is not None
    return FieldOrder.ORIGINAL if row.original > row.paper else FieldOrder.PAPER
