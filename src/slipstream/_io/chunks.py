"""Chunks: the pieces of a feed that arrived together, and what a source's task makes of them before they go to Spark.

Before its first chunk a live source gives out openings, batches that bring nothing. When they are over, everything
behind the source has run several times: it is planned, compiled and cached before the first tuple arrives.

A source hands its chunks to a ``Packing`` in its own tasks: they are passed on as they are, decoded to columns, or
parsed and sent to the fragments of a job's state.

Spark starts several Python processes for a source, and each imports it: what only some need is imported there.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from slipstream._io.control import Control

if TYPE_CHECKING:
    from slipstream._io.formats.decoding import Decoding

#: what a row is: a piece of the feed, the word that it was the last, an opening, lines that were rejected; of a lane,
#: the word that it has been read to its end for now, and that more of it is there; the names that were given numbers
CHUNK, LAST, OPENING, REJECTED, CAUGHT_UP, BEHIND, NAMED = range(7)

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


def row(seq: int, what: int, arrived: int = 0, chunk: bytes = b"", key: int = 0) -> pa.RecordBatch:
    """One row."""
    return pa.record_batch([[key], [seq], [what], [arrived], [chunk]], schema=ARROW)


class Row(NamedTuple):
    """One row, where a stage passes it on."""

    key: int
    seq: int
    what: int
    arrived: int
    chunk: bytes


class Chunk(NamedTuple):
    """A piece of a feed that arrived together, or a word about the feed."""

    seq: int  # the place in its lane, within a batch
    what: int = CHUNK
    arrived: int = 0  # milliseconds since 1970
    data: bytes = b""
    lane: int = 0  # what has an order of its own: a partition of a topic


class Packing(Protocol):
    """What a source's task makes of the chunks it reads."""

    @property
    def by_lane(self) -> bool:
        """Whether lanes are kept apart, and words about them are wanted."""

    def opening(self, left: int) -> Iterator[pa.RecordBatch]:
        """The rows of an opening."""

    def pack(self, chunks: Iterator[Chunk]) -> Iterator[pa.RecordBatch]:
        """The rows that a task gives to Spark."""

    def to_json(self) -> dict[str, Any]:
        """What ``packing_of`` makes it of again."""


class Plain:
    """Chunks are passed on as they are."""

    by_lane = False

    def opening(self, left: int) -> Iterator[pa.RecordBatch]:
        """A single row."""
        yield row(-left, OPENING)

    def pack(self, chunks: Iterator[Chunk]) -> Iterator[pa.RecordBatch]:
        """A row for each chunk."""
        return (row(*chunk[:4]) for chunk in chunks)

    def to_json(self) -> dict[str, Any]:
        """Nothing to say."""
        return {}


@dataclass(frozen=True)
class Decoded(Plain):
    """Chunks are decoded: tuples travel as Arrow streams, and so do the lines that were rejected."""

    decoding: Decoding

    def pack(self, chunks: Iterator[Chunk]) -> Iterator[pa.RecordBatch]:
        """A row for the tuples of each chunk, and one for its rejects."""
        for chunk in chunks:
            if chunk.what != CHUNK:
                yield row(*chunk[:4])
                continue
            found = self.decoding.decode(chunk.data)
            if found.tuples.num_rows:
                yield row(chunk.seq, CHUNK, chunk.arrived, as_stream(found.tuples))
            if found.rejects.num_rows:
                yield row(chunk.seq, REJECTED, chunk.arrived, as_stream(found.rejects))

    def to_json(self) -> dict[str, Any]:
        """The decoding."""
        return {"decoding": self.decoding.to_json()}


def packing_of(body: dict[str, Any]) -> Packing:
    """A packing from JSON."""
    if "reports" in body:
        from slipstream._io.report_packing import ReportPacking

        return ReportPacking.from_json(body["reports"])
    if "decoding" in body:
        from slipstream._io.formats.decoding import Decoding

        return Decoded(Decoding.from_json(body["decoding"]))
    return Plain()


@dataclass
class Opening(InputPartition):
    """A batch that brings nothing."""

    left: int  # openings, this one included


class ChunkReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A reader of chunks: openings first, then what ``begin``, ``reach``, ``pieces`` and ``chunks`` say.

    An offset says how many openings there were, whether the feed has ended, and where in the feed it is.
    """

    def __init__(self, openings: int, packing: dict[str, Any] | None = None, control: str = "") -> None:
        self._openings = openings
        self._packing = packing_of(packing or {})
        self._control = Control(Path(control)) if control else None

    def initialOffset(self) -> Offset:  # noqa: N802
        """Before the first opening."""
        return {"openings": 0, "ended": False, **self.begin()}

    def latestOffset(self, start: Offset, limit: Any) -> Offset:  # noqa: ARG002, N802
        """The next opening, or what there is now: a batch never waits for more."""
        if start["openings"] < self._openings:
            return {**start, "openings": start["openings"] + 1}
        if start["ended"] and not self.reopens:
            return start
        if self._control is not None and self._control.holds:
            time.sleep(HELD)
            return start
        return {**start, **self.reach(start)}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Nothing to prepare: what is to be read to its end knows its end."""

    @property
    def reopens(self) -> bool:
        """Whether more is read if it is there when a job starts again after the end."""
        return False

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """An opening is read by one task."""
        if end["openings"] > start["openings"]:
            return [Opening(self._openings - start["openings"])]
        return self.pieces(start, end)

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The rows of a partition."""
        if isinstance(partition, Opening):
            return self._packing.opening(partition.left)
        return self._packing.pack(self.chunks(partition))

    @abstractmethod
    def begin(self) -> Offset:
        """Where a feed begins."""

    @abstractmethod
    def reach(self, start: Offset) -> Offset:
        """How far a batch that starts at ``start`` can go now; ``ended`` when that is all there will be."""

    def narrowed(self, start: Offset, end: Offset, most: int) -> Offset:  # noqa: ARG002
        """Where to stop instead of at ``end`` if about ``most`` tuples are enough."""
        return end

    @abstractmethod
    def pieces(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """What to read between two offsets."""

    @abstractmethod
    def chunks(self, partition: Any) -> Iterator[Chunk]:
        """Read it: the same chunks whenever it is read."""
