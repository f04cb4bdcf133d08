"""Reports on their way to a job: a source's task parses what it reads and sends each fragment its tuples in a parcel.

Linear Road's own encodings are parsed by a kernel; anybody's CSV, JSON, Parquet, Avro or Protobuf is decoded by the
names of its fields, with what a line leaves out by default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from slipstream.errors import BadArgument
from slipstream.feeds.intake import DONE, WORD, Parcel, Reject, joined, late_in_chunk
from slipstream.feeds.parse import GOOD, PARSERS, Columns, Parsed, judge, kept, lines, reason_of
from slipstream.feeds.tuples import FIELDS, MILE, POSITION
from slipstream.io.chunks import BEHIND, CHUNK, COLUMNS, LAST, OPENING, REJECTED, Chunk, row
from slipstream.io.decoding import Decoding
from slipstream.kernels import Ints

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Parser = Callable[[list[bytes]], Parsed]
#: what a position report must say; its type and its segment follow from the rest
REPORT = ("time", "vid", "spd", "xway", "lane", "dir", "pos")
#: the column of a DataFrame that says when its rows arrived, in milliseconds since 1970
ARRIVED = "_arrived"


@dataclass(frozen=True)
class ReportParser:
    """Lines of a feed as tuples."""

    decoding: Decoding

    def __call__(self, chunks: list[bytes]) -> Parsed:
        """The tuples of chunks of whole lines, and what was rejected."""
        found = [self.decoding.decode(chunk) for chunk in chunks or [b""]]
        rejects = [(line.encode(), reason) for part in found for line, reason in zip(*_pair(part.rejects), strict=True)]
        judged = parsed(pa.concat_tables([part.tuples for part in found]))
        return Parsed(judged.tuples, rejects + judged.rejects)


def parsed(table: pa.Table) -> Parsed:
    """The tuples in columns of whole numbers, and those that cannot be."""
    tuples, fits = _tuples(table)
    rejects: list[Reject] = []
    verdicts = np.where(fits, judge(tuples), -1)
    for verdict in np.unique(verdicts[verdicts != GOOD]).tolist():
        reason = "integer" if verdict < 0 else reason_of(verdict)
        rejects += [(line, reason) for line in lines(kept(tuples, verdicts == verdict))]
    return Parsed(kept(tuples, verdicts == GOOD), rejects)


def _pair(rejects: pa.Table) -> tuple[list[str], list[str]]:
    return rejects["line"].to_pylist(), rejects["reason"].to_pylist()


def _tuples(table: pa.Table) -> tuple[Columns, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """All fields of tuples, and which tuples have only numbers that fit; a segment follows from the position."""
    columns: Columns = {}
    fits = np.ones(table.num_rows, np.bool_)
    for name in FIELDS:
        default = POSITION if name == "type" else -1
        if name not in table.column_names:
            columns[name] = np.full(table.num_rows, default, np.int32)
            continue
        values = pc.fill_null(table[name], default).to_numpy()
        fits &= (values >= -(2**31)) & (values < 2**31)
        columns[name] = np.where(fits, values, 0).astype(np.int32)
    unsaid = (columns["type"] == POSITION) & (columns["seg"] < 0)
    columns["seg"] = np.where(unsaid, columns["pos"] // MILE, columns["seg"]).astype(np.int32)
    return columns, fits


@dataclass(frozen=True)
class Parcels:
    """A packing that sends every fragment its tuples: reports by expressway, requests by vehicle."""

    encoding: str
    fragments: Sequence[int]  # the keys by which Spark knows them
    lateness: int
    decoding: Decoding | None = None

    by_lane = True

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        decoding = self.decoding.to_json() if self.decoding else None
        return {
            "reports": {
                "encoding": self.encoding,
                "fragments": list(self.fragments),
                "lateness": self.lateness,
                "decoding": decoding,
            }
        }

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> Parcels:
        """From JSON."""
        decoding = Decoding.from_json(body["decoding"]) if body["decoding"] else None
        return cls(body["encoding"], tuple(body["fragments"]), body["lateness"], decoding)

    @property
    def parser(self) -> Parser:
        """How chunks are parsed."""
        return ReportParser(self.decoding) if self.decoding else PARSERS[self.encoding]

    def opening(self, left: int) -> Iterator[pa.RecordBatch]:
        """A row for every fragment."""
        return (row(-left, OPENING, key=fragment) for fragment in self.fragments)

    def pack(self, chunks: Iterator[Chunk]) -> Iterator[pa.RecordBatch]:
        """A parcel for every fragment, and the rejects for one of them."""
        parse = self.parser
        return self._sent((chunk, parse([chunk.data] if chunk.data else [])) for chunk in chunks)

    def from_frame(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same, of a DataFrame's rows, with the column ``ARRIVED``; each of its partitions is a lane."""
        context = TaskContext.get()
        lane = context.partitionId() if context else 0
        tables = (pa.Table.from_batches([batch]) for batch in batches if batch.num_rows)
        found = (
            (Chunk(seq, arrived=table[ARRIVED][0].as_py(), lane=lane), parsed(table))
            for seq, table in enumerate(tables)
        )
        return self._sent(found)

    def _sent(self, found: Iterator[tuple[Chunk, Parsed]]) -> Iterator[pa.RecordBatch]:
        words: list[tuple[int, int, int, int, bool, int]] = []
        parts: list[Columns] = []
        rejects: list[Reject] = []
        for chunk, judged in found:
            tuples, bad = self._in_time(judged)
            rejects += bad
            parts.append(tuples)
            count = tuples["time"].size
            newest = DONE if chunk.what == LAST else int(tuples["time"].max()) if count else -1
            words.append((chunk.lane, chunk.seq, newest, chunk.arrived, chunk.what == BEHIND, count))
        if not words:
            return
        said = np.array(words, WORD)
        for number, parcel in enumerate(divided(Parcel(said, joined(parts)), len(self.fragments))):
            yield row(0, CHUNK, 0, parcel.encode(), self.fragments[number])
        if rejects:
            here = self.fragments[words[0][0] % len(self.fragments)]
            yield row(len(rejects), REJECTED, 0, reject_lines(rejects), here)

    def _in_time(self, given: Parsed) -> tuple[Columns, list[Reject]]:
        """The tuples of a chunk that are not late by what the chunk itself says, and what is rejected."""
        late = late_in_chunk(given.tuples["time"], self.lateness)
        if not late.any():
            return given.tuples, given.rejects
        return kept(given.tuples, ~late), given.rejects + [(line, "late") for line in lines(kept(given.tuples, late))]


def reject_lines(rejects: list[Reject]) -> bytes:
    """Rejected lines as they travel to the output, each behind its reason."""
    return b"".join(reason.encode() + b"," + line + b"\n" for line, reason in rejects)


def fragment_of(tuples: Columns, fragments: int) -> Ints:
    """The number of the fragment that each tuple goes to."""
    return np.where(tuples["type"] == POSITION, tuples["xway"], tuples["vid"]) % fragments


def divided(whole: Parcel, fragments: int) -> list[Parcel]:
    """A parcel for each fragment, with all words and its own tuples."""
    if fragments == 1:
        return [whole]
    word = np.repeat(np.arange(whole.words.size), whole.words["tuples"])
    fragment = fragment_of(whole.tuples, fragments)
    parcels = []
    for number in range(fragments):
        mine = fragment == number
        words = whole.words.copy()
        words["tuples"] = np.bincount(word[mine], minlength=words.size)
        parcels.append(Parcel(words, kept(whole.tuples, mine)))
    return parcels


def of_frame(frame: DataFrame, packing: Parcels) -> DataFrame:
    """A streaming DataFrame with the columns of tuples as parcels; what is not a number there is rejected."""
    if missing := [name for name in REPORT if name not in frame.columns]:
        raise BadArgument(
            f"The DataFrame has no column {missing[0]!r}; it has: {', '.join(frame.columns)}.",
            hint=f"Rename one: frame.withColumnRenamed('...', {missing[0]!r}).",
        )
    numbers = [f"try_cast(`{name}` AS bigint) AS `{name}`" for name in FIELDS if name in frame.columns]
    # Spark's time of a batch, not the worker's: a repeated batch has the same
    arrived = f"unix_millis(current_timestamp()) AS {ARRIVED}"
    return frame.selectExpr(*numbers, arrived).mapInArrow(packing.from_frame, COLUMNS)
