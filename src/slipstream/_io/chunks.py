"""Chunks: the pieces of a feed that arrived together, and how a source's tasks pack them for Spark.

Before its first chunk a live source emits openings, which are empty batches. After them, everything downstream of the
source has run several times: it is planned, compiled and cached before the first tuple arrives.

A source passes its chunks to a ``Packing`` in its own tasks: they are forwarded as they are, decoded to columns, or
parsed and sent to the fragments of a job's state.

Spark starts several Python processes for a source, and each imports this module, so imports that only some of them need
are local.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from slipstream._io.control_file import Control
from slipstream._tools.files.locations import to_path

if TYPE_CHECKING:
    from slipstream._io.formats.decoding import Decoding

#: the kind of a row: a piece of the feed, the end of the feed, an opening, rejected lines; a lane has been read to its
#: current end, or more of it can be read; names that were assigned numbers
CHUNK, LAST, OPENING, REJECTED, CAUGHT_UP, BEHIND, NAMED = range(7)

#: the Spark columns of a chunk; ``arrived`` is in milliseconds since 1970
COLUMNS = "key int, seq long, what int, arrived long, chunk binary"
ARROW = pa.schema(
    [("key", pa.int32()), ("seq", pa.int64()), ("what", pa.int32()), ("arrived", pa.int64()), ("chunk", pa.binary())]
)

#: seconds between checks whether a paused feed may resume
PAUSED_S = 0.05
#: the resolution of arrival times in milliseconds; messages with the same one stay in one chunk
ARRIVALS_MS = 100

#: tables with fewer rows are not narrowed
FEW = 1000
#: types for narrow columns, and the values that they have
NARROW = ((pa.uint8(), 1 << 8), (pa.uint16(), 1 << 16), (pa.uint32(), 1 << 32))
#: in the metadata of a narrow field: what to add to its values
_BASE = b"slipstream.base"

Offset = dict[str, Any]


def to_arrow_stream(table: pa.Table) -> bytes:
    """Serialise a table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def read_arrow_stream(data: bytes) -> pa.Table:
    """Read the table in an Arrow stream, with narrow columns as they were."""
    return widen(pa.ipc.open_stream(data).read_all())


def narrow(table: pa.Table) -> pa.Table:
    """Give each column of integers the fewest bytes: the distance from its smallest value, which the field remembers.

    Between two processes a large train is copied five times or more, by Spark among others, and most integers are
    small: this takes less time than the copying that it saves.

    >>> some = pa.table({"time": range(1_700_000_000, 1_700_010_000)})
    >>> narrow(some).schema.field("time").type
    DataType(uint16)
    >>> widen(narrow(some)) == some
    True
    """
    if table.num_rows < FEW:
        return table
    columns = [_narrow_column(field, table.column(place)) for place, field in enumerate(table.schema)]
    return pa.table([values for _, values in columns], schema=pa.schema([field for field, _ in columns]))


def _narrow_column(field: pa.Field, values: pa.ChunkedArray) -> tuple[pa.Field, pa.ChunkedArray]:
    ends = pc.min_max(values).as_py() if pa.types.is_int64(field.type) else {"min": None}
    if ends["min"] is None:
        return field, values
    low, span = ends["min"], ends["max"] - ends["min"]
    type_ = next((type_ for type_, room in NARROW if span < room), None)
    if type_ is None:
        return field, values
    distances = pc.subtract(values, low) if low else values
    return field.with_type(type_).with_metadata({_BASE: str(low)}), distances.cast(type_, safe=False)


def widen(table: pa.Table) -> pa.Table:
    """Return a narrowed table as it was."""
    for place, field in enumerate(table.schema):
        if field.metadata and _BASE in field.metadata:
            values = pc.add(table.column(place).cast(pa.int64()), int(field.metadata[_BASE]))
            table = table.set_column(place, pa.field(field.name, pa.int64(), field.nullable), values)
    return table


def make_row_batch(seq: int, what: int, arrived: int = 0, chunk: bytes = b"", key: int = 0) -> pa.RecordBatch:
    """Make a record batch of one row."""
    return pa.record_batch([[key], [seq], [what], [arrived], [chunk]], schema=ARROW)


class ChunkRow(NamedTuple):
    """One row, as stages emit it."""

    key: int
    seq: int
    what: int
    arrived: int
    chunk: bytes


class Chunk(NamedTuple):
    """A piece of a feed that arrived together, or a notice about the feed."""

    seq: int  # the position in its lane, within a batch
    what: int = CHUNK
    arrived: int = 0  # milliseconds since 1970
    data: bytes = b""
    lane: int = 0  # an independently ordered part of the feed, such as a partition of a topic


class Packing(Protocol):
    """How a source's task packs the chunks it reads."""

    @property
    def by_lane(self) -> bool:
        """Whether lanes are kept separate, with notices about each."""

    def opening(self, left: int) -> Iterator[pa.RecordBatch]:
        """The rows of an opening."""

    def pack(self, chunks: Iterator[Chunk]) -> Iterator[pa.RecordBatch]:
        """The rows that a task returns to Spark."""

    def to_json(self) -> dict[str, Any]:
        """Convert to what ``read_packing`` reads."""


class RawPacking:
    """Forwards chunks as they are."""

    by_lane = False

    def opening(self, left: int) -> Iterator[pa.RecordBatch]:
        """A single row."""
        yield make_row_batch(-left, OPENING)

    def pack(self, chunks: Iterator[Chunk]) -> Iterator[pa.RecordBatch]:
        """A row for each chunk."""
        return (make_row_batch(*chunk[:4]) for chunk in chunks)

    def to_json(self) -> dict[str, Any]:
        """No settings."""
        return {}


@dataclass(frozen=True)
class DecodedPacking(RawPacking):
    """Decodes chunks: tuples and rejected lines are sent as Arrow streams."""

    decoding: Decoding

    def pack(self, chunks: Iterator[Chunk]) -> Iterator[pa.RecordBatch]:
        """A row for the tuples of each chunk, and one for its rejects."""
        for chunk in chunks:
            if chunk.what != CHUNK:
                yield make_row_batch(*chunk[:4])
                continue
            found = self.decoding.decode(chunk.data)
            if found.tuples.num_rows:
                yield make_row_batch(chunk.seq, CHUNK, chunk.arrived, to_arrow_stream(narrow(found.tuples)))
            if found.rejects.num_rows:
                yield make_row_batch(chunk.seq, REJECTED, chunk.arrived, to_arrow_stream(found.rejects))

    def to_json(self) -> dict[str, Any]:
        """The decoding."""
        return {"decoding": self.decoding.to_json()}


def read_packing(body: dict[str, Any]) -> Packing:
    """Create a packing from JSON."""
    if "reports" in body:
        from slipstream._io.report_packing import ReportPacking

        return ReportPacking.from_json(body["reports"])
    if "decoding" in body:
        from slipstream._io.formats.decoding import Decoding

        return DecodedPacking(Decoding.from_json(body["decoding"]))
    return RawPacking()


@dataclass
class Opening(InputPartition):
    """An empty batch."""

    left: int  # remaining openings, this one included


class ChunkReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A reader of chunks: openings first, then what subclasses define.

    Subclasses implement ``first_offset``, ``next_offset``, ``plan_tasks`` and ``read_chunks``.

    An offset consists of the number of openings, whether the feed has ended, and the position in the feed.
    """

    def __init__(self, openings: int, packing: dict[str, Any] | None = None, control: str = "") -> None:
        self._openings = openings
        self._packing = read_packing(packing or {})
        self._control = Control(to_path(control)) if control else None

    def initialOffset(self) -> Offset:  # noqa: N802
        """Before the first opening."""
        return {"openings": 0, "ended": False, **self.first_offset()}

    def latestOffset(self, start: Offset, limit: Any) -> Offset:  # noqa: ARG002, N802
        """The next opening, or the end of what can be read now: a batch never waits for more."""
        if start["openings"] < self._openings:
            return {**start, "openings": start["openings"] + 1}
        if start["ended"] and not self.reopens:
            return start
        if self._control is not None and self._control.is_paused:
            time.sleep(PAUSED_S)
            return start
        return {**start, **self.next_offset(start)}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Nothing to prepare: a feed that is read to its end knows its end."""

    @property
    def reopens(self) -> bool:
        """Whether input that was added after the end is read when a job starts again."""
        return False

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The tasks of a batch; an opening has one."""
        if end["openings"] > start["openings"]:
            return [Opening(self._openings - start["openings"])]
        return self.plan_tasks(start, end)

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The rows of a partition."""
        if isinstance(partition, Opening):
            return self._packing.opening(partition.left)
        return self._packing.pack(self.read_chunks(partition))

    @abstractmethod
    def first_offset(self) -> Offset:
        """The offset at which a feed begins."""

    @abstractmethod
    def next_offset(self, start: Offset) -> Offset:
        """The offset up to which a batch that starts at ``start`` can read now; ``ended`` if nothing will follow."""

    def narrowed(self, start: Offset, end: Offset, most: int) -> Offset:  # noqa: ARG002
        """Return an earlier end than ``end`` if about ``most`` tuples are enough."""
        return end

    @abstractmethod
    def plan_tasks(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Divide what lies between two offsets among tasks."""

    @abstractmethod
    def read_chunks(self, partition: Any) -> Iterator[Chunk]:
        """Read the chunks of a task; the same ones whenever it is called."""
