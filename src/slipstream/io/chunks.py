"""Chunks: what a feed's source gives to Spark, a row for each piece of the feed that arrived together.

Before its first chunk a live source gives out openings, batches that bring nothing. When they are over, everything
behind the source has run several times: it is planned, compiled and cached before the first tuple arrives.

A source may decode its chunks in its own tasks (``decoding``): then a row carries tuples as an Arrow stream.

Spark starts several Python processes for a source, and each imports it: what only some need is imported there.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from slipstream.io.control import Control

if TYPE_CHECKING:
    from slipstream.io.decoding import Decoding

#: what a row is: a piece of the feed, the word that it was the last, an opening, lines that a decoding rejected
CHUNK, LAST, OPENING, REJECTED = range(4)

#: the Spark columns of a chunk; when it arrived in milliseconds since 1970
COLUMNS = "key int, seq long, what int, arrived long, chunk binary"
ARROW = pa.schema(
    [("key", pa.int32()), ("seq", pa.int64()), ("what", pa.int32()), ("arrived", pa.int64()), ("chunk", pa.binary())]
)

#: seconds between looks at whether a feed that is held may go on
HELD = 0.05
#: arrivals are told apart by so many milliseconds; what arrived together stays together
ARRIVALS_MS = 100

Offset = dict[str, Any]


def as_stream(table: pa.Table) -> bytes:
    """A table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def from_stream(data: bytes) -> pa.Table:
    """The table in an Arrow stream."""
    return pa.ipc.open_stream(data).read_all()


def decoding_of(body: dict[str, Any] | None) -> Decoding | None:
    """A decoding from JSON, if there is one."""
    if body is None:
        return None
    from slipstream.io.decoding import Decoding

    return Decoding(**body)


def row(seq: int, what: int, arrived: int = 0, chunk: bytes = b"") -> pa.RecordBatch:
    """One row; a feed has one order, so all have one key."""
    return pa.record_batch([[0], [seq], [what], [arrived], [chunk]], schema=ARROW)


@dataclass
class Opening(InputPartition):
    """A batch that brings nothing."""

    left: int  # openings, this one included


class ChunkReader(DataSourceStreamReader):
    """A reader of chunks: openings first, then what ``begin``, ``reach``, ``pieces`` and ``chunks`` say.

    An offset says how many openings there were, whether the feed has ended, and where in the feed it is.
    """

    def __init__(self, openings: int, decoding: Decoding | None = None, control: str = "") -> None:
        self._openings = openings
        self._decoding = decoding
        self._control = Control(Path(control)) if control else None

    def initialOffset(self) -> Offset:  # noqa: N802
        """Before the first opening."""
        return {"openings": 0, "ended": False, **self.begin()}

    def latestOffset(self, start: Offset, limit: Any) -> Offset:  # noqa: ARG002, N802
        """The next opening, or what there is now: a batch never waits for more."""
        if start["openings"] < self._openings:
            return {**start, "openings": start["openings"] + 1}
        if start["ended"]:
            return start
        if self._control is not None and self._control.holds:
            time.sleep(HELD)
            return start
        return {**start, **self.reach(start)}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """An opening is read by one task."""
        if end["openings"] > start["openings"]:
            return [Opening(self._openings - start["openings"])]
        return self.pieces(start, end)

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The rows of a partition."""
        if isinstance(partition, Opening):
            return iter([row(-partition.left, OPENING)])
        return self.chunks(partition) if self._decoding is None else self._decoded(self._decoding, partition)

    def _decoded(self, decoding: Decoding, partition: Any) -> Iterator[pa.RecordBatch]:
        for given in self.chunks(partition):
            _, seq, what, arrived, chunk = (column[0].as_py() for column in given.columns)
            if what != CHUNK:
                yield given
                continue
            found = decoding.decode(chunk)
            if found.tuples.num_rows:
                yield row(seq, CHUNK, arrived, as_stream(found.tuples))
            if found.rejects.num_rows:
                yield row(seq, REJECTED, arrived, as_stream(found.rejects))

    @abstractmethod
    def begin(self) -> Offset:
        """Where a feed begins."""

    @abstractmethod
    def reach(self, start: Offset) -> Offset:
        """How far a batch that starts at ``start`` can go now; ``ended`` when that is all there will be."""

    @abstractmethod
    def pieces(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """What to read between two offsets."""

    @abstractmethod
    def chunks(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Read it: the same rows whenever it is read."""
