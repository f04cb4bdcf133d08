"""Reading an output as of the last commit, with or without Spark, or only its newest rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slipstream._errors import BadArgument
from slipstream._io.outputs.data_files import BATCH, FOLDER
from slipstream._io.outputs.delta_tables import File, OutputTable, read_errors
from slipstream._io.outputs.journal import last_batch
from slipstream._tools.files.locations import spark_uri
from slipstream._tools.files.remote_paths import for_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class VisibleFiles:
    """The files of an output with rows of committed batches; rows after batch ``last`` are excluded."""

    files: list[File]
    schema: pa.Schema
    last: int

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Read the rows, oldest batches first."""
        names = list(columns or self.schema.names)
        wanted = pa.schema([self.schema.field(name) for name in dict.fromkeys((*names, BATCH))])
        parts = [self._read(file, wanted.names).cast(wanted) for file in self.files]
        table = pa.concat_tables([wanted.empty_table(), *parts])
        if any(file.first < file.last for file in self.files):  # compaction does not preserve the order
            table = table.sort_by(BATCH)
        return table.select(names)

    def _read(self, file: File, columns: list[str]) -> pa.Table:
        filters = pc.field(BATCH) <= self.last if file.last > self.last else None
        with read_errors(file.path):
            return pq.read_table(for_arrow(file.path), columns=columns, filters=filters, partitioning=None)


def output_names(folder: Path) -> list[str]:
    """Return the names of the outputs in the folder of a job."""
    return sorted(place.parent.name for place in (folder / FOLDER).glob("*/_delta_log"))


def visible_files(folder: Path, output: str, *, since: int = 0, until: int | None = None) -> VisibleFiles:
    """List the committed files of an output with batches from ``since`` to ``until``.

    They may also have rows of batches before ``since``.
    """
    last = last_batch(folder)  # first: a table may be ahead of the journal, but never behind
    table = OutputTable.open(folder / FOLDER / output)
    if table is None:
        there = ", ".join(output_names(folder)) or "none yet"
        raise BadArgument(
            f"{folder}: no output {output!r}.", hint=f"Outputs: {there}.", code="unknown-name", found=output
        )
    end = last.batch if last else -1
    end = end if until is None else min(end, until)
    files = [file for file in table.files() if file.first <= end and file.last >= since]
    return VisibleFiles(files, table.schema, end)


def read(folder: Path, output: str, columns: Sequence[str] | None = None, *, until: int | None = None) -> pa.Table:
    """Read all committed rows of an output, or those of the batches up to ``until``; oldest batches first."""
    return visible_files(folder, output, until=until).read(columns)


def to_frame(spark: SparkSession, folder: Path, output: str, *, until: int | None = None) -> DataFrame:
    """Return all committed rows of an output as a DataFrame, in no particular order, as :func:`read` does."""
    from pyspark.sql.pandas.types import from_arrow_schema

    found = visible_files(folder, output, until=until)
    schema = from_arrow_schema(found.schema)
    if not found.files:
        return spark.createDataFrame([], schema)
    rows = spark.read.schema(schema).parquet(*(spark_uri(file.path) for file in found.files))
    return rows.where(rows[BATCH] <= found.last)


def read_newest(
    folder: Path, output: str, rows: int, order: Sequence[str] = (), *, until: int | None = None
) -> pa.Table:
    """Return the newest rows of an output by batch and then by the columns in ``order``, the newest last.

    Reads from the end, and no more than needed; rows of batches after ``until`` do not count.
    """
    found = visible_files(folder, output, until=until)
    parts: list[pa.Table] = []
    have = 0
    for piece in _read_newest_first(found):
        part = piece.read(found.last)
        parts.append(part)
        have += part.num_rows
        if have >= rows and _find_oldest(parts) > piece.before:
            break
    table = pa.concat_tables([found.schema.empty_table(), *(part.cast(found.schema) for part in parts)])
    table = table.sort_by([(name, "ascending") for name in (BATCH, *order)])
    return table.slice(max(table.num_rows - rows, 0))


@dataclass(frozen=True)
class _Piece:
    """A row group of a file; ``before`` is the last batch in any piece that is read after it."""

    file: Path
    group: int
    last: int
    before: int

    def read(self, last: int) -> pa.Table:
        with read_errors(self.file):
            table = pq.ParquetFile(for_arrow(self.file)).read_row_group(self.group)
        return table.filter(pc.field(BATCH) <= last) if self.last > last else table


def _read_newest_first(found: VisibleFiles) -> Iterator[_Piece]:
    """The row groups of an output, newest batches first.

    Files are opened only when needed: until then, the table's statistics give their batches.
    """
    waiting = sorted(found.files, key=lambda file: file.last)
    opened: list[tuple[int, int, Path]] = []
    while waiting or opened:
        while waiting and (not opened or waiting[-1].last > max(opened)[0]):
            opened += _list_groups(waiting.pop())
        piece = max(opened)
        opened.remove(piece)
        rest = [last for last, _, _ in opened] + [file.last for file in waiting[-1:]]
        yield _Piece(piece[2], piece[1], piece[0], max(rest, default=-1))


def _list_groups(file: File) -> list[tuple[int, int, Path]]:
    """The last batch in each row group of a file."""
    with read_errors(file.path):
        metadata = pq.read_metadata(for_arrow(file.path))
    groups = []
    for group in range(metadata.num_row_groups):
        statistics = metadata.row_group(group).column(0).statistics
        known = statistics is not None and statistics.has_min_max
        groups.append((int(statistics.max) if known else file.last, group, file.path))
    return groups


def _find_oldest(parts: list[pa.Table]) -> int:
    """The oldest batch read so far: it may continue in the next piece."""
    return min((int(pc.min(part[BATCH]).as_py()) for part in parts if part.num_rows), default=-1)
