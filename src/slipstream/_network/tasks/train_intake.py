"""How tuples enter a network: each row has a train, and a batch's rows become the trains of its sources.

Rows are the expensive part of Spark, so tuples are packed as an Arrow stream of everything that one task read together.
A train may include arrival numbers and times; a feed's does not: its tuples have the arrival time of the row, and are
numbered within the batch, in the order of their arrival.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from slipstream._errors import BadInput
from slipstream._io import chunks
from slipstream._io.chunks import CHUNK, LAST, OPENING, REJECTED, narrow, read_arrow_stream, to_arrow_stream
from slipstream._io.outputs import REJECTS
from slipstream._io.train_files import TS
from slipstream._network.algebra import TYPES, Arc, Schema
from slipstream._network.boxes.windows.window_functions import encode_column
from slipstream._network.flow import Train
from slipstream._network.planning.plan import Plan
from slipstream._network.quality.shedding import Marker
from slipstream._network.running.train_folder import SEQ, SHED
from slipstream._network.tasks.arrivals import first_number
from slipstream._network.tasks.parcels import PARCELS, Load, Row
from slipstream._network.tasks.sink import Tuples
from slipstream._network.tasks.superbox import TrainParcel

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: the columns of rejects
REJECT_TYPES = {"source": "text", "reason": "text", "line": "text"}
#: bits for the number of a tuple in its batch
_TUPLE = 40


@dataclass(frozen=True)
class Arrived:
    """The input of a batch: a train per source or parcels, and the rejects, if there are any."""

    trains: dict[str, Train] = field(default_factory=dict)
    parcels: list[TrainParcel] = field(default_factory=list)
    rejects: Tuples | None = None
    is_opening: bool = False
    taken: dict[str, int] = field(default_factory=dict)  # the number of tuples per source
    dropped: dict[str, dict[str, int]] = field(default_factory=dict)  # tuples to drop, per source and place
    ended: list[int] = field(default_factory=list)  # the numbers of the sources that have ended

    @property
    def counts(self) -> dict[str, Any]:
        """The number of tuples per source, of rejected lines, and of tuples to drop at each place."""
        rejected = {} if self.rejects is None else {REJECTS: len(self.rejects.ts)}
        return {"taken": self.taken | rejected, "dropped": self.dropped}


def with_source(feed: DataFrame, source: int) -> DataFrame:
    """Add the number of the source to a stream of decoded chunks."""
    from pyspark.sql import functions as sf

    return feed.withColumn("source", sf.lit(source)).select(*Row._fields)


def pack_frame(frame: DataFrame, name: str, schema: Schema, source: int) -> DataFrame:
    """Convert any DataFrame with the columns of a source to the rows of that source."""
    return with_source(to_chunks(frame, name, schema), source)


def to_chunks(frame: DataFrame, name: str, schema: Schema) -> DataFrame:
    """Convert any DataFrame with the columns of a source to chunks, each a train."""
    missing = [column for column in schema if column not in frame.columns]
    if missing:
        raise BadInput(
            f"input {name}: no column {missing[0]!r}.",
            hint=f"It has: {', '.join(frame.columns)}.",
            code="unknown-column",
            found=missing[0],
            expected=[*frame.columns],
        )
    hidden = [column for column in (SEQ, SHED) if column in frame.columns]
    # Spark's time of the batch, not the worker's: it is the same when the batch is repeated
    arrival = TS if TS in frame.columns else f"unix_micros(current_timestamp()) AS {TS}"
    typed = [f"cast(`{column}` AS {TYPES[type_]}) AS `{column}`" for column, type_ in schema.items()]
    return frame.selectExpr(*hidden, arrival, *typed).mapInArrow(_pack, chunks.COLUMNS)


def _pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pack the tuples of one task into trains; number those without numbers."""
    first = first_number(TaskContext.get())
    for batch in batches:
        if batch.num_rows:
            table = pa.Table.from_batches([batch])
            if SEQ not in table.column_names:
                table = table.add_column(0, SEQ, pa.array(np.arange(first, first + batch.num_rows)))
            yield chunks.make_row_batch(first, CHUNK, 0, to_arrow_stream(narrow(table)))
            first += batch.num_rows


def read_batch(plan: Plan, rows: Iterable[Row], batch: int, marker: Marker | None = None) -> Arrived:
    """Read the rows of a batch for the first stage; number the tuples of feeds in the order of their arrival."""
    found = _BatchReader(plan, batch, marker)
    for row in sorted(rows, key=lambda row: (row.arrived, row.source, row.seq)):
        found.take(row)
    return found.arrived()


class _BatchReader:
    """Reads the rows of a batch in order."""

    def __init__(self, plan: Plan, batch: int, marker: Marker | None) -> None:
        self._plan = plan
        self._batch = batch
        self._marker = marker
        self._sources = plan.checked.network.sources
        self._trains: dict[str, list[Train]] = {source.name: [] for source in self._sources}
        self._parcels: list[TrainParcel] = []
        self._rejects: list[pa.Table] = []
        self._is_opening = False
        self._ended: list[int] = []
        self._taken: Counter[str] = Counter()
        self._dropped: dict[str, Counter[str]] = {source.name: Counter() for source in self._sources}
        self._next = batch << _TUPLE  # the number of the next tuple
        self._first = self._next  # of the first one in the row of a feed that is being taken
        self._row: tuple[int, int, int] | None = None  # which that is

    def take(self, row: Row) -> None:
        """Read one row."""
        if row.what == CHUNK:
            self._take_tuples(row)
        elif row.what == PARCELS:
            self._take_parcels(row)
        elif row.what == REJECTED:
            table, name = read_arrow_stream(row.chunk), self._sources[row.source].name
            named = table.add_column(0, "source", pa.array([name] * table.num_rows))
            self._rejects.append(named.append_column(TS, pa.array(np.full(table.num_rows, row.arrived * 1000))))
        elif row.what == OPENING:
            self._is_opening = True
        elif row.what == LAST:
            self._ended.append(row.source)

    def _take_tuples(self, row: Row) -> None:
        name, tuples = self._sources[row.source].name, read_arrow_stream(row.chunk)
        if SEQ not in tuples.column_names:
            tuples, lost = mark_dropped(_with_arrivals(tuples, row.arrived, self._next), self._marker)
            self._dropped[name].update(lost)
        self._trains[name].append(to_train(self._plan, name, row.source, tuples))
        self._next += tuples.num_rows
        self._taken[name] += tuples.num_rows

    def _take_parcels(self, row: Row) -> None:
        load, name = Load.from_bytes(row.chunk, len(self._plan.keys)), self._sources[row.source].name
        if self._row != (row.arrived, row.source, row.seq):
            self._row, self._first = (row.arrived, row.source, row.seq), self._next
            self._next += load.count
            self._taken[name] += load.count
        self._dropped[name].update(load.dropped)
        for parcel in load.parcels:
            if not load.is_numbered:
                parcel.train.order[:, 0] += self._first
            self._parcels.append(parcel)

    def arrived(self) -> Arrived:
        """Everything that was read."""
        trains = {name: Train.concat(found) for name, found in self._trains.items() if found}
        taken = {name: count for name, count in self._taken.items() if count or name in trains}
        rejects = _convert_rejects(self._plan, self._rejects, self._batch) if self._rejects else None
        dropped = {name: dict(counts) for name, counts in self._dropped.items() if counts}
        return Arrived(trains, self._parcels, rejects, self._is_opening, taken, dropped, self._ended)


def mark_dropped(tuples: pa.Table, marker: Marker | None) -> tuple[pa.Table, dict[str, int]]:
    """Mark the tuples to drop; also returns how many are dropped at each place."""
    return (tuples, {}) if marker is None else marker.mark(tuples)


def read_row(plan: Plan, row: Row, marker: Marker | None) -> tuple[Train, Load]:
    """The tuples in the row of a source, and the facts about the row; tuples of feeds are numbered later."""
    tuples, name = read_arrow_stream(row.chunk), plan.checked.network.sources[row.source].name
    if SEQ in tuples.column_names:
        return to_train(plan, name, row.source, tuples), Load([], tuples.num_rows)
    tuples, lost = mark_dropped(_with_arrivals(tuples, row.arrived, _row_seed(row)), marker)
    train = to_train(plan, name, row.source, tuples)
    train.order[:, 0] = np.arange(len(train))
    return train, Load([], len(train), False, lost)


def _row_seed(row: Row) -> int:
    """A number that distinguishes the tuples of a row from those of other rows, for random load shedding."""
    return (row.arrived * 1_000_003 + row.source * 8_191 + row.seq) * (1 << 20) % (1 << 62)


def _with_arrivals(tuples: pa.Table, arrived: int, first: int) -> pa.Table:
    """Add arrival numbers and times to the tuples of a feed."""
    numbers, times = np.arange(first, first + tuples.num_rows), np.full(tuples.num_rows, arrived * 1000)
    return tuples.add_column(0, SEQ, pa.array(numbers)).add_column(1, TS, pa.array(times))


def to_train(plan: Plan, source: str, place: int, tuples: pa.Table) -> Train:
    """Convert the tuples of a source to a train."""
    layout, count = plan.origins[Arc(source)], tuples.num_rows
    order = np.zeros((count, len(plan.keys)), np.int64)
    order[:, 0], order[:, -1] = tuples[SEQ].to_numpy(), place
    marked = SHED in tuples.column_names
    shed = tuples[SHED].fill_null(0).to_numpy() if marked else np.zeros(count, np.int64)
    columns = {name: encode_column(tuples[name], layout.types[name]) for name in layout.columns}
    return Train(tuples[TS].to_numpy(), shed, order, columns)


def _convert_rejects(plan: Plan, tables: list[pa.Table], batch: int) -> Tuples:
    table = pa.concat_tables(tables)
    keys = {key: np.zeros(table.num_rows, np.int64) for key in plan.keys}
    keys[plan.keys[0]] = (batch << _TUPLE) + np.arange(table.num_rows)
    columns = {name: encode_column(table[name], type_) for name, type_ in REJECT_TYPES.items()}
    return Tuples(table[TS].to_numpy(), keys, columns, REJECT_TYPES)


def union_rows(parts: Mapping[int, DataFrame]) -> DataFrame:
    """The rows of all sources."""
    rest = iter(parts.values())
    rows = next(rest)
    for part in rest:
        rows = rows.unionAll(part)
    return rows
