"""The outputs of a job as tables: five of answers, trips, and rejects.

====  ==============  =====================================================  ===========================
kind  table           columns                                                of
====  ==============  =====================================================  ===========================
0     notifications   time, vid, lav, toll                                   every segment entered
1     alerts          time, vid, seg                                         accidents ahead
2     balances        time, qid, result_time, balance                        account balance requests
3     expenditures    time, qid, expenditure                                 daily expenditure requests
4     travel_times    time, qid, travel_time, toll                           travel time requests
\\     trips           vid, xway, dir, Trip                                   trips that are over
\\     rejects         reason, line                                           lines that were not accepted
====  ==============  =====================================================  ===========================

Every row also has ``batch``, the batch that committed it. An answer has ``delay_ms``: how long before its Time the
question arrived, by the clock of commits. Only the journal knows when a batch became visible (``emitted_ms``), and Emit
is the sum of the two, so tasks can write answers before anybody knows their Emit.
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

from slipstream.archive.trajectories import SCHEMA as TRIP_SCHEMA
from slipstream.io import outputs
from slipstream.io.outputs import BATCH
from slipstream.linear_road.answers import ALERT, BALANCE, EXPENDITURE, TOLL, TRAVEL_TIME, Answers
from slipstream.linear_road.journal import journal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TRIPS, REJECTS = "trips", "rejects"
REJECT_SCHEMA = pa.schema([("reason", pa.string()), ("line", pa.string())])


@dataclass(frozen=True)
class AnswerTable:
    """The table of one kind of answer: whose it is, and what ``a`` and ``b`` of an answer are called there."""

    kind: int
    name: str
    id: str
    a: str
    b: str = ""
    paper: tuple[str, ...] = ()  # the columns in the order of the paper's text; Emit stands for itself

    @property
    def columns(self) -> dict[str, str]:
        """The columns, each with the field of an answer that it holds."""
        values = {self.a: "a", self.b: "b"} if self.b else {self.a: "a"}
        return {"time": "time", self.id: self.id, **values}

    @property
    def schema(self) -> pa.Schema:
        """The columns that tasks write."""
        wide = [(self.a, pa.int64()), *([(self.b, pa.int64())] if self.b else []), ("delay_ms", pa.int64())]
        return pa.schema([("time", pa.int32()), (self.id, pa.int32()), *wide])


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


def schemas(*, answers: bool, trips: bool) -> dict[str, pa.Schema]:
    """The tables of a job that tolls, archives, or does both."""
    tables = {table.name: table.schema for table in ANSWER_TABLES} if answers else {}
    return {**tables, **({TRIPS: TRIP_SCHEMA} if trips else {}), REJECTS: REJECT_SCHEMA}


def split(answers: Answers) -> Iterator[tuple[AnswerTable, Answers]]:
    """The answers of each kind there is, by time and vehicle or request, whatever the batches."""
    for table in ANSWER_TABLES:
        mine = answers[answers["kind"] == table.kind]
        if mine.size:
            yield table, mine[np.argsort(mine["time"].astype(np.int64) << 32 | mine[table.id], kind="stable")]


def delays_of(answers: Answers) -> npt.NDArray[np.int64]:
    """How long before its Time each answer's question arrived: the instant of a commit plus that is Emit."""
    return np.asarray(1000 * answers["time"].astype(np.int64) - answers["arrived"])


def as_table(answers: Answers, table: AnswerTable) -> pa.Table:
    """Answers of one kind as the rows of their table."""
    found = [np.ascontiguousarray(answers[field]) for field in table.columns.values()]
    return pa.table([*found, delays_of(answers)], schema=table.schema)


def counts_of(answers: Answers) -> list[list[int]]:
    """How many answers there are of each Time and delay."""
    delays, which = _distinct(delays_of(answers))
    keys, counts = np.unique(which.astype(np.int64) << 32 | answers["time"], return_counts=True)
    found = zip((keys & 0xFFFFFFFF).tolist(), delays[keys >> 32].tolist(), counts.tolist(), strict=True)
    return [list(row) for row in found]


def _distinct(values: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The different values, and which of them each is; a replay has a single one, and nothing is sorted then."""
    if values.size and (values == values[0]).all():
        return values[:1], np.zeros(values.size, np.int64)
    return np.unique(values, return_inverse=True)


def rejected(lines: bytes) -> pa.Table:
    """Rejected lines, each after its reason and a comma, as rows; bytes that are no text are shown as such."""
    split_lines = [line.partition(b",")[::2] for line in lines.removesuffix(b"\n").split(b"\n")]
    columns = [[part.decode(errors="backslashreplace") for part in column] for column in zip(*split_lines, strict=True)]
    return pa.table(columns, schema=REJECT_SCHEMA)


KINDS = tuple(range(len(ANSWER_TABLES)))
#: of ``rows_of``
_ROWS = pa.schema(
    [
        *((name, pa.int32()) for name in ("kind", "time", "vid", "qid")),
        *((name, pa.int64()) for name in ("a", "b", "delay_ms", BATCH)),
    ]
)


def rows_of(out: Path, kinds: Sequence[int] = KINDS, first: int = 0, last: int | None = None) -> pa.Table:
    """Committed answers of some kinds, of the batches from ``first`` to ``last``: kind, time, vid, qid, a, b and delay.

    ``vid``, ``qid`` and ``b`` are -1 where a kind has none.
    """
    return pa.concat_tables([_ROWS.empty_table(), *(_rows(out, ANSWER_TABLES[kind], first, last) for kind in kinds)])


def _rows(out: Path, table: AnswerTable, first: int, last: int | None) -> pa.Table:
    found = outputs.visible(out, table.name, since=first, until=last).read()
    if first:
        found = found.filter(pc.field(BATCH) >= first)
    fields = {field: column for column, field in table.columns.items()} | {"delay_ms": "delay_ms", BATCH: BATCH}
    nothing = pa.repeat(pa.scalar(-1), found.num_rows)
    kind = pa.repeat(pa.scalar(table.kind), found.num_rows)
    columns = [kind, *(found[fields[name]] if name in fields else nothing for name in _ROWS.names[1:])]
    return pa.table(columns, names=_ROWS.names).cast(_ROWS)


def answers(out: Path) -> pa.Table:
    """All committed answers of a job, with Emit: kind, time, vid, qid, a, b, batch, emit_ms."""
    found = rows_of(out)
    emitted = np.array([batch.detail.emitted_ms for batch in journal(out)], np.int64)
    emit = found["delay_ms"].to_numpy() + emitted[found[BATCH].to_numpy()]
    return found.drop_columns("delay_ms").append_column("emit_ms", pa.array(emit, pa.int64()))


def answers_frame(spark: SparkSession, out: Path) -> DataFrame:
    """All committed answers of a job, with Emit, as a DataFrame: kind, time, vid, qid, a, b, batch, emit_ms."""
    from pyspark.sql import functions as sf

    emitted = [(batch.batch, batch.detail.emitted_ms) for batch in journal(out)]
    commits = spark.createDataFrame(emitted, f"{BATCH} long, emitted_ms long")
    parts = [_frame(spark, out, table) for table in ANSWER_TABLES]
    rows = reduce(lambda left, right: left.unionByName(right), parts).join(sf.broadcast(commits), BATCH)
    names = [name for name in _ROWS.names if name != "delay_ms"]
    return rows.selectExpr(*names, "emitted_ms + delay_ms AS emit_ms")


def _frame(spark: SparkSession, out: Path, table: AnswerTable) -> DataFrame:
    held = {field: column for column, field in table.columns.items()}
    types = {"time": "int", "vid": "int", "qid": "int", "a": "long", "b": "long"}
    columns = [f"cast({held.get(name, '-1')} AS {type_}) AS {name}" for name, type_ in types.items()]
    return outputs.frame(spark, out, table.name).selectExpr(f"{table.kind} AS kind", *columns, "delay_ms", BATCH)
