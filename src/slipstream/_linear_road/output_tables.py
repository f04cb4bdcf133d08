"""The outputs of a job as tables: five kinds of answers, trips, and rejects.

====  ==============  =====================================================  ===========================
kind  table           columns                                                of
====  ==============  =====================================================  ===========================
0     notifications   time, vid, lav, toll                                   every segment entered
1     alerts          time, vid, seg                                         accidents ahead
2     balances        time, vid, qid, result_time, balance                   account balance requests
3     expenditures    time, vid, qid, expenditure                            daily expenditure requests
4     travel_times    time, vid, qid, travel_time, toll                      travel time requests
\\     trips           vid, xway, dir, Trip                                   trips that have ended
\\     rejects         reason, line                                           lines that were not accepted
====  ==============  =====================================================  ===========================

If a feed identifies vehicles by text, every row with a ``vid`` also has that text as ``vehicle``, and ``vid`` is a
number that the job assigned. Every row also has ``batch``, the batch that committed it. An answer has ``delay_ms``: how
long before its Time the request arrived, by the clock of commits. Only the journal records when a batch became visible
(``emitted_ms``), and Emit is the sum of the two, so tasks can write answers before their Emit is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slipstream._archive.ended_trips import SCHEMA as TRIP_SCHEMA
from slipstream._io import outputs
from slipstream._io.outputs import BATCH
from slipstream._linear_road.answers import ALERT, BALANCE, EXPENDITURE, TOLL, TRAVEL_TIME, Answers
from slipstream._linear_road.job.toll_journal import read_journal
from slipstream._tools.numba_tools import Ints

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TRIPS, REJECTS = "trips", "rejects"
#: if vehicles are identified by text, the column with that text
VEHICLE = "vehicle"
_VEHICLE = pa.field(VEHICLE, pa.string())
REJECT_SCHEMA = pa.schema([("reason", pa.string()), ("line", pa.string())])


@dataclass(frozen=True)
class AnswerTable:
    """The table of one kind of answer: whether it has ``vid`` or also ``qid``, and what ``a`` and ``b`` mean."""

    kind: int
    name: str
    id: str  # what identifies an answer: its vehicle, or the request that it answers
    a: str
    b: str = ""
    paper: tuple[str, ...] = ()  # the columns in the order of the paper's text format, Emit included

    @property
    def columns(self) -> dict[str, str]:
        """The field of an answer that each column holds."""
        values = {self.a: "a", self.b: "b"} if self.b else {self.a: "a"}
        return {"time": "time", "vid": "vid", self.id: self.id, **values}

    @property
    def schema(self) -> pa.Schema:
        """The columns that tasks write."""
        types = {"a": pa.int64(), "b": pa.int64()}
        columns = [(name, types.get(field, pa.int32())) for name, field in self.columns.items()]
        return pa.schema([*columns, ("delay_ms", pa.int64())])


#: by kind
ANSWER_TABLES = (
    AnswerTable(TOLL, "notifications", "vid", "lav", "toll", ("vid", "time", "emit", "lav", "toll")),
    AnswerTable(ALERT, "alerts", "vid", "seg", "", ("time", "emit", "vid", "seg")),
    AnswerTable(
        BALANCE, "balances", "qid", "result_time", "balance", ("time", "emit", "result_time", "qid", "balance")
    ),
    AnswerTable(EXPENDITURE, "expenditures", "qid", "expenditure", "", ("time", "emit", "qid", "expenditure")),
    AnswerTable(
        TRAVEL_TIME, "travel_times", "qid", "travel_time", "toll", ("time", "emit", "qid", "travel_time", "toll")
    ),
)


#: the tables that are also written as text
TEXTS = (*(table.name for table in ANSWER_TABLES), REJECTS)


def schemas(*, answers: bool, trips: bool, named: bool = False) -> dict[str, pa.Schema]:
    """Return the schemas of a job's tables; ``named`` if vehicles are identified by text."""
    tables = {table.name: table.schema for table in ANSWER_TABLES} if answers else {}
    if trips:
        tables[TRIPS] = TRIP_SCHEMA
    if named:
        tables = {name: schema.insert(_place_after_vid(schema.names), _VEHICLE) for name, schema in tables.items()}
    return {**tables, REJECTS: REJECT_SCHEMA}


def add_vehicle_column(rows: pa.Table, names: pa.StringArray) -> pa.Table:
    """Add the text that identifies the vehicle of each row."""
    return rows.add_column(_place_after_vid(rows.column_names), _VEHICLE, names)


def _place_after_vid(columns: list[str]) -> int:
    return columns.index("vid") + 1


def split_by_kind(answers: Answers) -> Iterator[tuple[AnswerTable, pa.Table]]:
    """Return the answers of each kind as rows of their table, sorted by time, vehicle and request."""
    kinds = answers["kind"]
    for table in ANSWER_TABLES:
        mine = np.flatnonzero(kinds == table.kind)
        if mine.size:
            order = mine[_sort_order(table, *(answers[name][mine] for name in ("time", "vid", "qid")))]
            columns = [answers[field][order] for field in table.columns.values()]
            # how long before its Time the request arrived; the commit time plus this is Emit
            delays = 1000 * answers["time"][order].astype(np.int64) - answers["arrived"][order]
            yield table, pa.table([*columns, delays], schema=table.schema)


def _sort_order(table: AnswerTable, time: Ints, vid: Ints, qid: Ints) -> npt.NDArray[np.intp]:
    """Return the order by time, vehicle and request; in one second a vehicle may make two requests."""
    return np.argsort(time.astype(np.int64) << 32 | vid) if table.id == "vid" else np.lexsort((qid, vid, time))


def count_by_time_and_delay(rows: pa.Table) -> list[list[int]]:
    """Return time, delay and number of answers, for each combination."""
    delays, which = _find_distinct(rows["delay_ms"].to_numpy())
    keys, counts = np.unique(which << 32 | rows["time"].to_numpy(), return_counts=True)
    found = zip((keys & 0xFFFFFFFF).tolist(), delays[keys >> 32].tolist(), counts.tolist(), strict=True)
    return [list(row) for row in found]


def _find_distinct(values: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the distinct values and the index of each; skips the sort for a single value, as in a replay."""
    if values.size and (values == values[0]).all():
        return values[:1], np.zeros(values.size, np.int64)
    return np.unique(values, return_inverse=True)


def reject_table(lines: bytes) -> pa.Table:
    """Parse rejected lines, each after its reason and a comma, into rows; invalid UTF-8 is escaped."""
    split_lines = [line.partition(b",")[::2] for line in lines.removesuffix(b"\n").split(b"\n")]
    columns = [[part.decode(errors="backslashreplace") for part in column] for column in zip(*split_lines, strict=True)]
    return pa.table(columns, schema=REJECT_SCHEMA)


KINDS = tuple(range(len(ANSWER_TABLES)))
#: of ``read_rows``
_ROWS = pa.schema(
    [
        *((name, pa.int32()) for name in ("kind", "time", "vid", "qid")),
        *((name, pa.int64()) for name in ("a", "b", "delay_ms", BATCH)),
    ]
)


def read_rows(out: Path, kinds: Sequence[int] = KINDS, first: int = 0, last: int | None = None) -> pa.Table:
    """Return committed answers of some kinds in batches ``first`` to ``last``: kind, time, vid, qid, a, b and delay.

    ``qid`` and ``b`` are -1 where a kind has none.
    """
    return pa.concat_tables([_ROWS.empty_table(), *(_rows(out, ANSWER_TABLES[kind], first, last) for kind in kinds)])


def _rows(out: Path, table: AnswerTable, first: int, last: int | None) -> pa.Table:
    found = outputs.visible_files(out, table.name, since=first, until=last).read()
    if first:
        found = found.filter(pc.field(BATCH) >= first)
    fields = {field: column for column, field in table.columns.items()} | {"delay_ms": "delay_ms", BATCH: BATCH}
    nothing = pa.repeat(pa.scalar(-1), found.num_rows)
    kind = pa.repeat(pa.scalar(table.kind), found.num_rows)
    columns = [kind, *(found[fields[name]] if name in fields else nothing for name in _ROWS.names[1:])]
    return pa.table(columns, names=_ROWS.names).cast(_ROWS)


def read_answers(out: Path) -> pa.Table:
    """Return all committed answers of a job, with Emit: kind, time, vid, qid, a, b, batch, emit_ms."""
    found = read_rows(out)
    emitted = np.array([batch.detail.emitted_ms for batch in read_journal(out)], np.int64)
    emit = found["delay_ms"].to_numpy() + emitted[found[BATCH].to_numpy()]
    return found.drop_columns("delay_ms").append_column("emit_ms", pa.array(emit, pa.int64()))


def answers_frame(spark: SparkSession, out: Path) -> DataFrame:
    """Return all committed answers of a job, with Emit, as a DataFrame: kind, time, vid, qid, a, b, batch, emit_ms."""
    from pyspark.sql import functions as sf

    emitted = [(batch.batch, batch.detail.emitted_ms) for batch in read_journal(out)]
    commits = spark.createDataFrame(emitted, f"{BATCH} long, emitted_ms long")
    parts = [_frame(spark, out, table) for table in ANSWER_TABLES]
    rows = reduce(lambda left, right: left.unionByName(right), parts).join(sf.broadcast(commits), BATCH)
    names = [name for name in _ROWS.names if name != "delay_ms"]
    return rows.selectExpr(*names, "emitted_ms + delay_ms AS emit_ms")


def _frame(spark: SparkSession, out: Path, table: AnswerTable) -> DataFrame:
    held = {field: column for column, field in table.columns.items()}
    types = {"time": "int", "vid": "int", "qid": "int", "a": "long", "b": "long"}
    columns = [f"cast({held.get(name, '-1')} AS {type_}) AS {name}" for name, type_ in types.items()]
    return outputs.to_frame(spark, out, table.name).selectExpr(f"{table.kind} AS kind", *columns, "delay_ms", BATCH)
