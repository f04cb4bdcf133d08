"""Any streaming DataFrame or feed into a cuboid, as a Structured Streaming query that answers continuous queries.

    rows --> packed into trains by fragment, in their order --> a fragment per task: append, query, save, publish

Rows are the expensive part of Spark, so they are packed where they are read: one Spark row carries all tuples of a
fragment. A row that cannot be kept (no key, a missing or too large value) goes to the rejects with its reason; nothing
is lost on the way.
"""

from __future__ import annotations

import atexit
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import TaskContext

from slipstream.cuboid import files
from slipstream.cuboid.keeper import Keeper, no_rows
from slipstream.cuboid.schema import KEY, Schema
from slipstream.cuboid.sql import Query
from slipstream.cuboid.views import held_as, joined
from slipstream.errors import BadArgument
from slipstream.io import chunks, outputs
from slipstream.io.chunks import from_stream
from slipstream.io.outputs import REJECTS
from slipstream.kernels import Bools, Longs, scramble
from slipstream.runtime import state_cache
from slipstream.runtime.partitions import labels
from slipstream.runtime.stage import Stage, batch_number
from slipstream.runtime.store import Store

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TRAINS = "key int, seq long, tuples int, rejects int, payload binary"
FOUND = "query string, rows int, payload binary"
#: what stands for the name of a query in rows that count what was kept; the output of what was not is ``rejects``
KEPT = ""
REJECT_SCHEMA = pa.schema([("reason", pa.string()), ("row", pa.string())])
_ARROW = pa.schema(
    [
        ("key", pa.int32()),
        ("seq", pa.int64()),
        ("tuples", pa.int32()),
        ("rejects", pa.int32()),
        ("payload", pa.binary()),
    ]
)


class Found(NamedTuple):
    """What a query found in a batch of a fragment, as an Arrow stream."""

    query: str
    rows: int
    payload: bytes


@dataclass(frozen=True)
class Fragmentation:
    """Which fragment a key belongs to: by hash, or by range with the first key of every range but the first."""

    labels: tuple[int, ...]  # the keys by which Spark knows the fragments
    bounds: tuple[int, ...] = ()

    def of(self, keys: Longs) -> npt.NDArray[np.int64]:
        """The number of each key's fragment."""
        if self.bounds:
            return np.searchsorted(np.array(self.bounds), keys, side="right")
        return (scramble(keys.view(np.uint64)) % np.uint64(len(self.labels))).astype(np.int64)

    @classmethod
    def new(cls, fragments: int, bounds: tuple[int, ...] = ()) -> Fragmentation:
        """So many fragments by hash, or those between ``bounds``, each in a partition of its own."""
        check_bounds(bounds)
        return cls(labels(len(bounds) + 1 if bounds else fragments), bounds)


def check_bounds(bounds: tuple[int, ...]) -> None:
    """Refuse ranges that overlap."""
    if list(bounds) != sorted(set(bounds)):
        raise BadArgument(f"bounds {bounds}: not in increasing order.", hint="Give the first key of each range.")


#: key, number, tuples, rejects, payload
_Train = tuple[int, int, int, int, bytes]


def _first_number() -> int:
    """The number of a task's first train: trains are taken in the order of tasks."""
    context = TaskContext.get()
    return (context.partitionId() if context else 0) << 32


def _as_batch(trains: list[_Train]) -> pa.RecordBatch:
    return pa.record_batch(list(map(list, zip(*trains, strict=True))), schema=_ARROW)


def _chunks(batch: pa.RecordBatch) -> tuple[list[int], list[bytes]]:
    return batch.column("what").to_pylist(), batch.column("chunk").to_pylist()


@dataclass(frozen=True)
class Packer:
    """Rows into trains."""

    schema: Schema
    fragmentation: Fragmentation

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The trains of one task, numbered in the order of its rows."""
        for seq, batch in enumerate(batches, _first_number()):
            if trains := self._packed(batch, seq):
                yield _as_batch(trains)

    def from_chunks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The trains of one task, of a feed whose tuples came as Arrow streams, and so did what was rejected."""
        rows = ((what, data) for batch in batches for what, data in zip(*_chunks(batch), strict=True))
        for seq, (what, data) in enumerate(rows, _first_number()):
            if what == chunks.CHUNK:
                trains = [train for part in from_stream(data).to_batches() for train in self._packed(part, seq)]
            elif what == chunks.REJECTED:
                lost = from_stream(data).to_pylist()
                trains = [self._rejected([row["reason"] for row in lost], [{"line": row["line"]} for row in lost], seq)]
            else:
                trains = []
            if trains:
                yield _as_batch(trains)

    def _packed(self, batch: pa.RecordBatch, seq: int) -> list[_Train]:
        good, columns, reasons = self.judge(batch)
        trains = list(self._trains(columns, good, seq))
        if not good.all():
            bad = np.flatnonzero(~good)
            trains.append(self._rejected(reasons[bad].tolist(), batch.take(pa.array(bad)).to_pylist(), seq))
        return trains

    def _rejected(self, reasons: Sequence[str], rows: Sequence[Any], seq: int) -> _Train:
        pairs = zip(reasons, rows, strict=True)
        lines = [json.dumps({"reason": reason, "row": row}, default=str) for reason, row in pairs]
        return self.fragmentation.labels[0], seq, 0, len(lines), "\n".join(lines).encode()

    def _trains(self, columns: dict[str, npt.NDArray[Any]], good: Bools, seq: int) -> Iterator[_Train]:
        fragment = np.where(good, self.fragmentation.of(columns[KEY]), -1)
        for number, label in enumerate(self.fragmentation.labels):
            mine = np.flatnonzero(fragment == number)
            if mine.size:
                yield label, seq, mine.size, 0, b"".join(column[mine].tobytes() for column in columns.values())

    def judge(self, batch: pa.RecordBatch) -> tuple[Bools, dict[str, npt.NDArray[Any]], npt.NDArray[np.object_]]:
        """Which rows can be kept, their columns as the cuboid holds them, and why the others cannot."""
        good = np.ones(batch.num_rows, np.bool_)
        reasons = np.full(batch.num_rows, "", dtype=object)
        columns = {}
        for name, source in ((KEY, self.schema.key), *((name, name) for name in self.schema.names)):
            dtype = self.schema.dtype[name].base
            column = batch.column(batch.schema.get_field_index(source))
            missing = np.asarray(column.is_null())
            given = column.fill_null(0).to_numpy(zero_copy_only=False)
            columns[name], unfit = held_as(given, dtype)
            for bad, reason in (
                (missing, f"no {source}"),
                (unfit & ~missing, f"{source} does not fit into {dtype}"),
            ):
                reasons[bad & good] = reason
                good &= ~bad
        return good, columns, reasons

    def unpack(self, tuples: int, payload: bytes) -> dict[str, npt.NDArray[Any]]:
        """The columns in a train."""
        columns, at = {}, 0
        for name in (KEY, *self.schema.names):
            columns[name] = np.frombuffer(payload, self.schema.dtype[name].base, tuples, at)
            at += columns[name].nbytes
        return columns


class CuboidStage(Stage[Keeper]):
    """A fragment of the cuboid."""

    name = "cuboid"
    maps = ("cuboid",)

    def __init__(self, stream: CuboidStream, packer: Packer) -> None:
        super().__init__(stream.identity)
        self._stream, self._packer = stream, packer

    def fresh(self) -> Keeper:
        """Nothing yet."""
        return Keeper(self._stream.schema)

    def load(self, stores: list[Store]) -> Keeper:
        """The fragment from the store."""
        return Keeper.load(self._stream.schema, stores[0])

    def take(self, state: Keeper, rows: list[Any]) -> Iterator[Found | outputs.Row]:
        """Trains in, results and rejects out."""
        rows.sort(key=lambda row: row.seq)
        trains = [self._packer.unpack(row.tuples, bytes(row.payload)) for row in rows if row.tuples]
        state.take(*joined(self._stream.schema, trains), self._stream.queries)
        kept = sum(row.tuples for row in rows)
        refused = [_reject_table(bytes(row.payload)) for row in rows if row.rejects]
        found = {**state.found, **({REJECTS: pa.concat_tables(refused)} if refused else {})}
        yield from self._stream.deliver(kept, {name: table for name, table in found.items() if table.num_rows})

    def save(self, state: Keeper, stores: list[Store]) -> None:
        """Write what changed, and the snapshot's part of it."""
        batch = batch_number()
        # the results are on their way; what stays warm is the state
        state.found = {}
        state.save(batch, stores[0])
        if self._stream.folder:
            state.publish(Path(self._stream.folder) / files.FOLDER, self._stream.name, self.key, batch)


def _reject_table(lines: bytes) -> pa.Table:
    rows = [json.loads(line) for line in lines.decode().splitlines()]
    return pa.table([[row["reason"] for row in rows], [json.dumps(row["row"]) for row in rows]], schema=REJECT_SCHEMA)


def encode(table: pa.Table) -> bytes:
    """A table as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _engine() -> str:
    """A name for warm state that is given back when this process ends."""
    until_the_end = ExitStack()
    atexit.register(until_the_end.close)
    return until_the_end.enter_context(state_cache.engine())


@dataclass(frozen=True)
class CuboidStream:
    """A cuboid that a stream fills: what it holds, what is asked of every arrival, and the folder of the job.

    With a folder, tasks publish the cuboid there and write results and rejects into tables; what comes out of the
    query are the rows that tell the driver about these (``io.outputs``). Without one, results come out themselves.
    """

    name: str
    schema: Schema
    queries: dict[str, Query] = field(default_factory=dict)
    folder: str = ""
    identity: str = field(default_factory=_engine)  # one start of the stream, as ``warm`` knows it

    def over(self, rows: DataFrame, fragmentation: Fragmentation) -> DataFrame:
        """The query: a streaming DataFrame of (query, rows, payload), of which ``results`` makes one query's rows.

        With a folder it has the columns of ``io.outputs.Written``.
        """
        wanted = [self.schema.key, *self.schema.names]
        by_name = {column.lower(): column for column in rows.columns}
        for column in wanted:
            if column.lower() not in by_name:
                raise BadArgument(
                    f"Cuboid {self.schema.name} needs a column '{column}'; there are: {', '.join(rows.columns)}."
                )
        packer = Packer(self.schema, fragmentation)
        picked = rows.select(*(_column(by_name[column.lower()]).alias(column) for column in wanted))
        return self._kept(picked.mapInArrow(packer, TRAINS), packer)

    def over_feed(self, rows: DataFrame, fragmentation: Fragmentation) -> DataFrame:
        """The same, of a feed that was decoded to the columns of the cuboid (``cuboid.sources``)."""
        packer = Packer(self.schema, fragmentation)
        return self._kept(rows.mapInArrow(packer.from_chunks, TRAINS), packer)

    def _kept(self, trains: DataFrame, packer: Packer) -> DataFrame:
        for name, query in self.queries.items():
            query.check_continuous(name)
        columns = outputs.COLUMNS if self.folder else FOUND
        return trains.groupBy("key").transformWithState(CuboidStage(self, packer), columns, "Append", "None")

    def deliver(self, kept: int, found: dict[str, pa.Table]) -> Iterator[Found | outputs.Row]:
        """What a task passes on of a batch: how much it kept, and its results and rejects or where they are."""
        if not self.folder:
            yield Found(KEPT, kept, b"")
            yield from (Found(name, table.num_rows, encode(table)) for name, table in found.items())
            return
        yield outputs.note({"kept": kept}).row
        for name, table in found.items():
            yield outputs.write(Path(self.folder), name, table, batch_number()).row


def _column(name: str) -> Column:
    """A column by its name, whatever stands in it."""
    from pyspark.sql import functions as sf

    return sf.col("`" + name.replace("`", "``") + "`")


def results(found: DataFrame, name: str, query: Query) -> DataFrame:
    """The rows that one continuous query found, with its own columns."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return _unpacked(found, name, from_arrow_schema(no_rows(query).schema))


def rejects(found: DataFrame) -> DataFrame:
    """The rows that could not be kept: reason, and the row as JSON."""
    return _unpacked(found, REJECTS, "reason string, row string")


def _unpacked(found: DataFrame, name: str, columns: Any) -> DataFrame:
    return found.where(found.query == name).mapInArrow(_unpack, columns)


def _unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for payload in batch.column("payload").to_pylist():
            yield from pa.ipc.open_stream(payload)
