"""Chunks: what a feed's source gives to Spark, a row for each piece of the feed that arrived together.

Before its first chunk a live source gives out openings, batches that bring nothing. When they are over, everything
behind the source has run several times: it is planned, compiled and cached before the first tuple arrives.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

#: what a row is: a piece of the feed, the word that it was the last, an opening
CHUNK, LAST, OPENING = range(3)

#: the Spark columns of a chunk; when it arrived in milliseconds since 1970
COLUMNS = "key int, seq long, what int, arrived long, chunk binary"
ARROW = pa.schema(
    [("key", pa.int32()), ("seq", pa.int64()), ("what", pa.int32()), ("arrived", pa.int64()), ("chunk", pa.binary())]
)

#: arrivals are told apart by so many milliseconds; what arrived together stays together
ARRIVALS_MS = 100

Offset = dict[str, Any]


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

    def __init__(self, openings: int) -> None:
        self._openings = openings

    def initialOffset(self) -> Offset:  # noqa: N802
        """Before the first opening."""
        return {"openings": 0, "ended": False, **self.begin()}

    def latestOffset(self, start: Offset, limit: Any) -> Offset:  # noqa: ARG002, N802
        """The next opening, or what there is now: a batch never waits for more."""
        if start["openings"] < self._openings:
            return {**start, "openings": start["openings"] + 1}
        return start if start["ended"] else {**start, **self.reach(start)}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Openings are read by one task, and so are pieces, for their order."""
        if end["openings"] > start["openings"]:
            return [Opening(self._openings - start["openings"])]
        return self.pieces(start, end)

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The rows of a partition."""
        return iter([row(-partition.left, OPENING)]) if isinstance(partition, Opening) else self.chunks(partition)

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
