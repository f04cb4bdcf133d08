"""How tuples get into a network: each row carries a train, and a batch's rows become the trains of its sources.

Rows are the expensive part of Spark, so tuples travel packed, as an Arrow stream with everything that one task read
together. A train may bring arrival numbers and times with its tuples; one of a feed does not: its tuples arrived when
the row says, and are numbered by the batch, in the order of their arrival.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark import TaskContext

from slipstream.errors import BadInput
from slipstream.io import chunks
from slipstream.io.chunks import CHUNK, LAST, OPENING, REJECTED, as_stream, from_stream
from slipstream.io.outputs import REJECTS
from slipstream.network.algebra import TYPES, Arc, Schema
from slipstream.network.arrivals import first_number
from slipstream.network.flow import Train
from slipstream.network.plan import Plan
from slipstream.network.shedding import Marker
from slipstream.network.sink import Tuples
from slipstream.network.trains import SEQ, SHED, TS, arrow_schema
from slipstream.network.windows import encoded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: the columns of a row, besides those of a chunk: the number of the source
_COLUMNS = ("key", "source", "seq", "what", "arrived", "chunk")
#: the columns of what is rejected
REJECT_TYPES = {"source": "text", "reason": "text", "line": "text"}
#: bits for the number of a tuple in its batch
_TUPLE = 40


class Arrived(NamedTuple):
    """What a batch brought: a train for each source, and what was rejected, if anything was."""

    trains: dict[str, Train]
    rejects: Tuples | None
    is_opening: bool
    dropped: dict[str, dict[str, int]]  # of each source: how many tuples are to be dropped, by places
    ended: list[int]  # the numbers of the sources that have no more

    @property
    def counts(self) -> dict[str, Any]:
        """How many tuples each source brought, how many lines were rejected, and how many tuples are dropped where."""
        taken = {name: len(train) for name, train in self.trains.items()}
        if self.rejects is not None:
            taken[REJECTS] = len(self.rejects.ts)
        return {"taken": taken, "dropped": self.dropped}


def numbered(feed: DataFrame, source: int) -> DataFrame:
    """A stream of chunks, decoded, as the rows of a source."""
    from pyspark.sql import functions as sf

    return feed.withColumn("source", sf.lit(source)).select(*_COLUMNS)


def packed(frame: DataFrame, name: str, schema: Schema, source: int) -> DataFrame:
    """Any DataFrame with the columns of a source as the rows of that source."""
    missing = [column for column in schema if column not in frame.columns]
    if missing:
        raise BadInput(f"input {name}: no column {missing[0]!r}.", hint=f"It has: {', '.join(frame.columns)}.")
    hidden = [column for column in (SEQ, SHED) if column in frame.columns]
    # Spark's time of a batch, not the worker's: a repeated batch has the same
    arrival = TS if TS in frame.columns else f"unix_micros(current_timestamp()) AS {TS}"
    typed = [f"cast(`{column}` AS {TYPES[type_]}) AS `{column}`" for column, type_ in schema.items()]
    return numbered(frame.selectExpr(*hidden, arrival, *typed).mapInArrow(_pack, chunks.COLUMNS), source)


def _pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The tuples of one task as trains; those without numbers are numbered."""
    first = first_number(TaskContext.get())
    for batch in batches:
        if batch.num_rows:
            table = pa.Table.from_batches([batch])
            if SEQ not in table.column_names:
                table = table.add_column(0, SEQ, pa.array(np.arange(first, first + batch.num_rows)))
            yield chunks.row(first, CHUNK, 0, as_stream(table))
            first += batch.num_rows


def unpacked(rows: DataFrame, source: int, schema: Schema) -> DataFrame:
    """The tuples of a source as rows, with arrival numbers, times and marks."""
    wanted = pa.schema([*arrow_schema(schema), (SHED, pa.int64())])
    ddl = ", ".join(f"`{n}` {t}" for n, t in {SEQ: "bigint", TS: "bigint", **_spark(schema), SHED: "bigint"}.items())

    def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for data in batch.column("chunk").to_pylist():
                table = from_stream(data)
                if SHED not in table.column_names:
                    table = table.append_column(SHED, pa.nulls(table.num_rows, pa.int64()))
                yield from table.select(wanted.names).cast(wanted).to_batches()

    return rows.where(f"source = {source} AND what = {CHUNK}").select("chunk").mapInArrow(unpack, ddl)


def _spark(schema: Schema) -> dict[str, str]:
    return {name: TYPES[type_] for name, type_ in schema.items()}


def take(plan: Plan, frames: Sequence[pd.DataFrame], batch: int, marker: Marker | None = None) -> Arrived:
    """The trains in the rows of a batch; tuples of feeds get marks from the ``marker``, if load is to be shed."""
    rows = pd.concat(list(frames), ignore_index=True) if len(frames) > 1 else frames[0]
    rows = rows.sort_values(["arrived", "source", "seq"], kind="stable")
    sources = plan.checked.network.sources
    parts: dict[str, list[Train]] = {source.name: [] for source in sources}
    dropped: dict[str, Counter[str]] = {source.name: Counter() for source in sources}
    rejects, count = [], batch << _TUPLE
    for place, what, arrived, data in zip(rows["source"], rows["what"], rows["arrived"], rows["chunk"], strict=True):
        if what == CHUNK:
            source, tuples = sources[place].name, from_stream(data)
            if SEQ not in tuples.column_names:
                tuples = _arrived(tuples, int(arrived), count)
                if marker is not None:
                    tuples, lost = marker.mark(tuples)
                    dropped[source].update(lost)
            parts[source].append(_train(plan, source, place, tuples))
            count += tuples.num_rows
        elif what == REJECTED:
            table = from_stream(data)
            named = table.add_column(0, "source", pa.array([sources[place].name] * table.num_rows))
            rejects.append(named.append_column(TS, pa.array(np.full(table.num_rows, int(arrived) * 1000))))
    trains = {name: Train.concat(found) for name, found in parts.items() if found}
    opening = bool((rows["what"] == OPENING).any())
    shed = {name: dict(counts) for name, counts in dropped.items() if counts}
    ended = [int(place) for place in rows["source"][rows["what"] == LAST]]
    return Arrived(trains, _rejected(plan, rejects, batch) if rejects else None, opening, shed, ended)


def _arrived(tuples: pa.Table, arrived: int, first: int) -> pa.Table:
    """Tuples of a feed with their arrival numbers and times."""
    numbers, times = np.arange(first, first + tuples.num_rows), np.full(tuples.num_rows, arrived * 1000)
    return tuples.add_column(0, SEQ, pa.array(numbers)).add_column(1, TS, pa.array(times))


def _train(plan: Plan, source: str, place: int, tuples: pa.Table) -> Train:
    layout, count = plan.origins[Arc(source)], tuples.num_rows
    order = np.zeros((count, len(plan.keys)), np.int64)
    order[:, 0], order[:, -1] = tuples[SEQ].to_numpy(), place
    marked = SHED in tuples.column_names
    shed = tuples[SHED].fill_null(0).to_numpy() if marked else np.zeros(count, np.int64)
    columns = {name: encoded(tuples[name], layout.types[name]) for name in layout.columns}
    return Train(tuples[TS].to_numpy(), shed, order, columns)


def _rejected(plan: Plan, tables: list[pa.Table], batch: int) -> Tuples:
    table = pa.concat_tables(tables)
    keys = {key: np.zeros(table.num_rows, np.int64) for key in plan.keys}
    keys[plan.keys[0]] = (batch << _TUPLE) + np.arange(table.num_rows)
    columns = {name: encoded(table[name], type_) for name, type_ in REJECT_TYPES.items()}
    return Tuples(table[TS].to_numpy(), keys, columns, REJECT_TYPES)


def all_rows(parts: Mapping[int, DataFrame]) -> DataFrame:
    """The rows of all sources."""
    rest = iter(parts.values())
    rows = next(rest)
    for part in rest:
        rows = rows.unionAll(part)
    return rows
