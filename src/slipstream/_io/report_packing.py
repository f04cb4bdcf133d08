"""Packing reports for a job: a source's task parses what it reads and sends each fragment its tuples in a parcel.

Linear Road's own encodings are parsed by a kernel; other CSV, JSON, Parquet, Avro and Protobuf is decoded by the names
of its fields, with defaults for missing fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from slipstream._errors import BadArgument
from slipstream._feeds import text_ids
from slipstream._feeds.lane_parcels import DONE, PROGRESS, Parcel, Progress, Reject, concat_tuples, find_late_in_chunk
from slipstream._feeds.parse import GOOD, PARSERS, Columns, Parsed, format_lines, judge, reject_reason, select
from slipstream._feeds.tuples import CLASS_STEP, FIELDS, LINEAR_ROAD, POSITION, ReportForm
from slipstream._io.chunks import BEHIND, CHUNK, COLUMNS, LAST, OPENING, REJECTED, Chunk, make_row_batch
from slipstream._io.formats.decoding import Decoding
from slipstream._tools.numba_tools import Bools, Ints, Longs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Parser = Callable[[list[bytes]], Parsed]
#: verdicts on values, in addition to those on tuples (``_feeds.parse``)
_NOT_INTEGER, _NOT_A_NAME, _NO_SUCH_CLASS = -1, -2, -3
_REASONS = {_NOT_INTEGER: "integer", _NOT_A_NAME: "text:vid", _NO_SUCH_CLASS: "range:class"}
#: the column with the id of a vehicle
VID = "vid"
#: the column with the class of a vehicle, where rules know classes
CLASS = "class"
#: the column of a DataFrame with the arrival of its rows, in milliseconds since 1970
ARRIVED = "_arrived"


@dataclass(frozen=True)
class ReportParser:
    """Parses lines of a feed to tuples."""

    decoding: Decoding
    form: ReportForm = LINEAR_ROAD

    def __call__(self, chunks: list[bytes]) -> Parsed:
        """Parse chunks of complete lines."""
        found = [self.decoding.decode(chunk) for chunk in chunks or [b""]]
        rejects = [(line.encode(), reason) for part in found for line, reason in zip(*_pair(part.rejects), strict=True)]
        judged = parse_table(pa.concat_tables([part.tuples for part in found]), self.form)
        return replace(judged, rejects=rejects + judged.rejects)


def parse_table(table: pa.Table, form: ReportForm = LINEAR_ROAD) -> Parsed:
    """Parse columns of integers to tuples and rejects; vehicles may have text ids."""
    places, found = _encode_ids(table)
    tuples, fits = _read_tuples(places, form)
    rejects: list[Reject] = []
    verdicts = np.where(fits, judge(tuples, form), _NOT_INTEGER)
    if CLASS in table.column_names:
        verdicts[add_class(tuples, pc.fill_null(table[CLASS], 0).to_numpy(), form) & (verdicts == GOOD)] = (
            _NO_SUCH_CLASS
        )
    if found is not None:
        unusable = ~np.append(text_ids.are_valid(found), True)[tuples["vid"]]  # without an id it is out of range
        verdicts[unusable & (verdicts == GOOD)] = _NOT_A_NAME
    for verdict in np.unique(verdicts[verdicts != GOOD]).tolist():
        reason = _REASONS.get(verdict) or reject_reason(verdict)
        rejects += [(line, reason) for line in format_lines(select(tuples, verdicts == verdict), found)]
    return Parsed(select(tuples, verdicts == GOOD), rejects, found)


def _encode_ids(table: pa.Table) -> tuple[pa.Table, pa.StringArray | None]:
    """Replace the text ids of vehicles by indexes; also returns the texts."""
    place = table.column_names.index(VID)
    if not pa.types.is_string(table[VID].type):
        return table, None
    coded = table[VID].combine_chunks().dictionary_encode()
    return table.set_column(place, VID, coded.indices.cast(pa.int64())), coded.dictionary


def _pair(rejects: pa.Table) -> tuple[list[str], list[str]]:
    return rejects["line"].to_pylist(), rejects["reason"].to_pylist()


def add_class(tuples: Columns, classes: Longs, form: ReportForm) -> Bools:
    """Add the classes of vehicles to their lanes; return which reports name a class that does not exist."""
    wrong = np.asarray((tuples["type"] == POSITION) & ((classes < 0) | (classes >= form.classes)))
    tuples["lane"] = np.where(wrong, tuples["lane"], tuples["lane"] + CLASS_STEP * classes).astype(np.int32)
    return wrong


def _read_tuples(table: pa.Table, form: ReportForm) -> tuple[Columns, Bools]:
    """All fields of tuples, and which tuples fit 32 bits; a missing segment follows from the position."""
    columns: Columns = {}
    fits = np.ones(table.num_rows, np.bool_)
    for name in FIELDS:
        default = form.defaults.get(name, -1)
        if name not in table.column_names:
            columns[name] = np.full(table.num_rows, default, np.int32)
            continue
        values = pc.fill_null(table[name], default).to_numpy()
        fits &= (values >= -(2**31)) & (values < 2**31)
        columns[name] = np.where(fits, values, 0).astype(np.int32)
    unsaid = (columns["type"] == POSITION) & (columns["seg"] < 0)
    columns["seg"] = np.where(unsaid, columns["pos"] // form.segment_length, columns["seg"]).astype(np.int32)
    return columns, fits


@dataclass(frozen=True)
class ReportPacking:
    """A packing that sends every fragment its tuples: reports by expressway, requests by vehicle."""

    encoding: str
    fragments: Sequence[int]  # their keys in Spark
    lateness: int
    decoding: Decoding | None = None
    named: bool = False  # vehicles have text ids: stages number them (``_runtime.state.id_numbers``)
    form: ReportForm = LINEAR_ROAD

    by_lane = True

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON."""
        decoding = self.decoding.to_json() if self.decoding else None
        return {
            "reports": {
                "encoding": self.encoding,
                "fragments": list(self.fragments),
                "lateness": self.lateness,
                "decoding": decoding,
                "named": self.named,
                "form": asdict(self.form),
            }
        }

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> ReportPacking:
        """Convert from JSON."""
        decoding = Decoding.from_json(body["decoding"]) if body["decoding"] else None
        form = ReportForm(**body["form"])
        return cls(body["encoding"], tuple(body["fragments"]), body["lateness"], decoding, body["named"], form)

    @property
    def parser(self) -> Parser:
        """The parser of chunks."""
        return (
            ReportParser(self.decoding, self.form) if self.decoding else partial(PARSERS[self.encoding], form=self.form)
        )

    def opening(self, left: int) -> Iterator[pa.RecordBatch]:
        """A row for every fragment."""
        return (make_row_batch(-left, OPENING, key=fragment) for fragment in self.fragments)

    def pack(self, chunks: Iterator[Chunk]) -> Iterator[pa.RecordBatch]:
        """A parcel for every fragment, and the rejects for one of them."""
        parse = self.parser
        return self._send((chunk, parse([chunk.data] if chunk.data else [])) for chunk in chunks)

    def from_frame(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack the rows of a DataFrame, with the column ``ARRIVED``; each of its partitions is a lane."""
        context = TaskContext.get()
        lane = context.partitionId() if context else 0
        tables = (pa.Table.from_batches([batch]) for batch in batches if batch.num_rows)
        found = (
            (Chunk(seq, arrived=table[ARRIVED][0].as_py(), lane=lane), parse_table(table, self.form))
            for seq, table in enumerate(tables)
        )
        return self._send(found)

    def _send(self, found: Iterator[tuple[Chunk, Parsed]]) -> Iterator[pa.RecordBatch]:
        progress: list[tuple[int, int, int, int, bool, int]] = []
        parts: list[Parsed] = []
        for chunk, judged in found:
            part = self._reject_late(judged)
            parts.append(part)
            count = part.tuples["time"].size
            newest = DONE if chunk.what == LAST else self._find_newest_released(part)
            progress.append((chunk.lane, chunk.seq, newest, chunk.arrived, chunk.what == BEHIND, count))
        if not progress:
            return
        records = np.array(progress, PROGRESS)
        for number, blob in enumerate(self._divide(records, parts)):
            yield make_row_batch(0, CHUNK, 0, blob, self.fragments[number])
        if rejects := [reject for part in parts for reject in part.rejects]:
            here = self.fragments[progress[0][0] % len(self.fragments)]
            yield make_row_batch(len(rejects), REJECTED, 0, reject_lines(rejects), here)

    def _find_newest_released(self, part: Parsed) -> int:
        """The newest second of a chunk; after a heartbeat, the one that lets all seconds before it be released."""
        newest = int(part.tuples["time"].max()) if part.tuples["time"].size else -1
        return max(newest, part.complete + self.lateness) if part.complete >= 0 else newest

    def _divide(self, records: Progress, parts: list[Parsed]) -> list[bytes]:
        """The bytes for each fragment or, with text ids, for each part that numbers vehicles."""
        if self.named:
            return [parcel.encode() for parcel in make_named_parcels(records, parts, len(self.fragments))]
        whole = Parcel(records, concat_tuples([part.tuples for part in parts]))
        return [parcel.encode() for parcel in make_fragment_parcels(whole, len(self.fragments))]

    def _reject_late(self, given: Parsed) -> Parsed:
        """Reject the tuples of a chunk that are late compared with others of the same chunk."""
        late = find_late_in_chunk(given.tuples["time"], self.lateness)
        if not late.any():
            return given
        rejects = [(line, "late") for line in format_lines(select(given.tuples, late), given.names)]
        return replace(given, tuples=select(given.tuples, ~late), rejects=given.rejects + rejects)


class NamedParcel(NamedTuple):
    """A parcel of tuples whose ``vid`` is an index into the names of vehicles."""

    parcel: Parcel
    names: pa.StringArray

    def encode(self) -> bytes:
        """Convert to bytes."""
        blob = self.parcel.encode()
        return np.array([len(blob)], "<i4").tobytes() + blob + text_ids.encode(self.names)

    @classmethod
    def decode(cls, blob: bytes) -> NamedParcel:
        """Convert from bytes."""
        end = 4 + int(np.frombuffer(blob, "<i4", 1)[0])
        return cls(Parcel.decode(blob[4:end]), text_ids.decode(blob[end:]))


def make_named_parcels(progress: Progress, parsed: Sequence[Parsed], parts: int) -> list[NamedParcel]:
    """Make a parcel for each part that numbers vehicles, with all progress and the tuples of its vehicles."""
    tuples, every = merge_named(
        [(one.tuples, text_ids.concat_texts(()) if one.names is None else one.names) for one in parsed]
    )
    part = text_ids.assign_parts(every, parts)
    made = []
    for parcel in divide(Parcel(progress, tuples), part[tuples[VID]], parts):
        used, places = np.unique(parcel.tuples[VID], return_inverse=True)
        mine = {**parcel.tuples, VID: places.astype(np.int32)}
        made.append(NamedParcel(Parcel(parcel.progress, mine), every.take(pa.array(used))))
    return made


def merge_named(given: Sequence[tuple[Columns, pa.StringArray]]) -> tuple[Columns, pa.StringArray]:
    """Merge tuples whose ``vid`` is an index into names; returns the tuples and all names."""
    shifts = np.cumsum([0, *(len(found) for _, found in given)]).astype(np.int32)
    parts = [{**one, VID: one[VID] + shift} for (one, _), shift in zip(given, shifts, strict=False)]
    return concat_tuples(parts), text_ids.concat_texts(found for _, found in given)


def reject_lines(rejects: list[Reject]) -> bytes:
    """Encode rejected lines for the output, each preceded by its reason."""
    return b"".join(reason.encode() + b"," + line + b"\n" for line, reason in rejects)


def assign_fragments(tuples: Columns, fragments: int) -> Ints:
    """The number of the fragment that each tuple goes to."""
    return np.where(tuples["type"] == POSITION, tuples["xway"], tuples["vid"]) % fragments


def make_fragment_parcels(whole: Parcel, fragments: int) -> list[Parcel]:
    """Make a parcel for each fragment, with all progress and its own tuples."""
    return divide(whole, assign_fragments(whole.tuples, fragments), fragments)


def divide(whole: Parcel, part: Ints, parts: int) -> list[Parcel]:
    """Make a parcel for each part, with all progress and the tuples that belong to it."""
    if parts == 1:
        return [whole]
    chunk_of = np.repeat(np.arange(whole.progress.size), whole.progress["tuples"])
    parcels = []
    for number in range(parts):
        mine = part == number
        progress = whole.progress.copy()
        progress["tuples"] = np.bincount(chunk_of[mine], minlength=progress.size)
        parcels.append(Parcel(progress, select(whole.tuples, mine)))
    return parcels


def frame_has_text_ids(frame: DataFrame) -> bool:
    """Whether vehicles in a DataFrame have text ids."""
    return VID in frame.columns and frame.schema[VID].dataType.typeName() == "string"


def pack_frame(frame: DataFrame, packing: ReportPacking) -> DataFrame:
    """Pack a streaming DataFrame with the columns of tuples into parcels; values that are not numbers are rejected."""
    if missing := [name for name in packing.form.needed if name not in frame.columns]:
        raise BadArgument(
            f"The DataFrame has no column {missing[0]!r}; it has: {', '.join(frame.columns)}.",
            hint=f"Rename one: frame.withColumnRenamed('...', {missing[0]!r}).",
            code="unknown-column",
            found=missing[0],
            expected=[*frame.columns],
        )
    types = {VID: "string"} if packing.named else {}
    numbers = [
        f"try_cast(`{name}` AS {types.get(name, 'bigint')}) AS `{name}`"
        for name in (*FIELDS, *([CLASS] if packing.form.classes > 1 else []))
        if name in frame.columns
    ]
    # Spark's time of the batch, not the worker's: it is the same when the batch is repeated
    arrived = f"unix_millis(current_timestamp()) AS {ARRIVED}"
    return frame.selectExpr(*numbers, arrived).mapInArrow(packing.from_frame, COLUMNS)
