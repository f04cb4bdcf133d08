"""The task side of a commit: Parquet files that no commit names yet, and the rows that report them to the driver."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from slipstream._errors import BadArgument
from slipstream._tools.files.remote_paths import arrow_sink, for_arrow
from slipstream._tools.processes.failpoints import failpoint

#: the folder of the tables in the folder of a job
FOLDER = "outputs"
#: the column that every output has: the number of the batch that a row belongs to
BATCH = "_batch"
#: the Spark columns of :class:`WrittenRow`
COLUMNS = "output string, file string, rows long, bytes long, note string"
#: Delta Lake has no unsigned integers
_SIGNED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.null(): pa.string(),
    pa.large_string(): pa.string(),
    pa.large_binary(): pa.binary(),
}


class WrittenRow(NamedTuple):
    """A :class:`Written` as a Spark row."""

    output: str
    file: str
    rows: int
    bytes: int
    note: str


@dataclass(frozen=True)
class Written:
    """A file that a task wrote for an output, and a note for the driver.

    Without a file it is only a note, such as the number of tuples the task processed.
    """

    output: str
    file: str
    rows: int
    bytes: int
    note: Mapping[str, Any] = field(default_factory=dict)

    @property
    def row(self) -> WrittenRow:
        """Convert to a Spark row of ``COLUMNS``."""
        return WrittenRow(self.output, self.file, self.rows, self.bytes, json.dumps(dict(self.note)))

    @classmethod
    def from_row(cls, row: Any) -> Written:
        """Convert from a Spark row of ``COLUMNS``."""
        return cls(row["output"], row["file"], int(row["rows"]), int(row["bytes"]), json.loads(row["note"]))


def note(facts: Mapping[str, Any], about: str = "") -> Written:
    """Return a note without a file."""
    return Written(about, "", 0, 0, facts)


def write(
    folder: Path,
    output: str,
    rows: pa.Table | Iterable[pa.Table],
    batch: int,
    note: Mapping[str, Any] | None = None,
    *,
    dictionary: Sequence[str] | None = None,
    ascending: Sequence[str] = (),
) -> Written:
    """Write rows of a batch to a file of an output's table; they become visible when the batch is committed.

    Rows that do not fit in memory may be given in pieces. ``dictionary`` names the columns whose values repeat, if that
    is known: for any other column, Parquet builds a dictionary only to discard it. Mostly ``ascending`` integers are
    stored as differences, which takes half the space.
    """
    pieces = iter([rows] if isinstance(rows, pa.Table) else rows)
    first = with_batch(next(pieces), batch)
    place = folder / FOLDER / output
    failpoint("outputs.before-write")
    place.mkdir(parents=True, exist_ok=True)
    file = place / f"{batch:012d}-{uuid.uuid4().hex}.parquet"
    try:
        count = 0
        with (
            arrow_sink(file) as sink,
            pq.ParquetWriter(
                sink, first.schema, compression="zstd", **_choose_encodings(dictionary, ascending)
            ) as writer,
        ):
            for piece in chain([first], (with_batch(more, batch) for more in pieces)):
                writer.write_table(piece)
                count += piece.num_rows
        failpoint("outputs.after-write")
    except BaseException:
        file.unlink(missing_ok=True)
        raise
    return Written(output, file.name, count, file.stat().st_size, note or {})


def _choose_encodings(dictionary: Sequence[str] | None, ascending: Sequence[str]) -> dict[str, Any]:
    """The Parquet writer's options for columns."""
    if dictionary is None:
        return {}
    return {
        "use_dictionary": [BATCH, *dictionary],
        "column_encoding": dict.fromkeys(ascending, "DELTA_BINARY_PACKED") or None,
    }


def with_batch(table: pa.Table, batch: int) -> pa.Table:
    """Return a table as it is stored: the batch first, then its columns in types that Delta Lake has."""
    schema = stored_schema(table.schema)
    numbers = pa.repeat(pa.scalar(batch, pa.int64()), table.num_rows)
    return pa.table([numbers, *table.cast(pa.schema(list(schema)[1:])).columns], schema=schema)


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema in which rows of ``schema`` are stored.

    >>> stored_schema(pa.schema([("speed", pa.uint8())]))
    _batch: int64
    speed: int16
    """
    if taken := [name for name in schema.names if name.lower() == BATCH]:
        raise BadArgument(
            f"An output cannot have a column {taken[0]!r}: this name is reserved for the number of a row's batch.",
            hint="Rename the column.",
            code="bad-name",
            found=taken[0],
        )
    fields = [pa.field(one.name, _find_stored_type(one.type)) for one in schema]
    return pa.schema([pa.field(BATCH, pa.int64()), *fields])


def _find_stored_type(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_):
        return pa.list_(_find_stored_type(type_.value_type))
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(one.name, _find_stored_type(one.type)) for one in type_])
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", type_.tz and "UTC")
    return _SIGNED.get(type_, type_)


def discard(folder: Path, written: list[Written]) -> None:
    """Delete files that will not be committed."""
    for one in written:
        if one.file:
            (folder / FOLDER / one.output / one.file).unlink(missing_ok=True)


def read_written(folder: Path, written: Iterable[Written]) -> dict[str, pa.Table]:
    """Read what tasks wrote, by output and without the batch; call this before the commit, which may delete files."""
    parts: dict[str, list[pa.Table]] = {}
    for one in written:
        if one.file:
            rows = pq.ParquetFile(for_arrow(folder / FOLDER / one.output / one.file)).read()
            parts.setdefault(one.output, []).append(rows.drop_columns(BATCH))
    return {name: pa.concat_tables(found) for name, found in parts.items()}
