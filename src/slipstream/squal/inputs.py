"""Recorded tuples for a network's sources: CSV, JSON lines, Parquet, or a Linear Road run, brought to trains."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.parquet as pq
from pyarrow import csv

from slipstream.errors import BadArgument, BadInput
from slipstream.feeds.run import Run
from slipstream.squal.algebra import Schema
from slipstream.squal.trains import SEQ, TS, arrow_schema, write_train


def read_table(path: Path, schema: Schema) -> pa.Table:
    """The tuples of a recording, in their order, with exactly the columns of the schema."""
    if not path.exists():
        raise BadArgument(f"{path}: no such file or run.", hint="Give a CSV, JSON lines or Parquet file, or a run.")
    wanted = pa.schema([field for field in arrow_schema(schema) if field.name not in (SEQ, TS)])
    try:
        table = _read(path, wanted)
        names = table.column_names
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: {str(error).splitlines()[0]}", hint=f"It must have: {', '.join(schema)}.") from error
    missing = [name for name in schema if name not in names]
    if missing:
        raise BadInput(f"{path}: no column {missing[0]!r}.", hint=f"It has: {', '.join(names)}.")
    try:
        return table.select(wanted.names).cast(wanted)
    except pa.ArrowInvalid as error:
        raise BadInput(f"{path}: {error}.", hint="Mend the values or the types in the network.") from error


def _read(path: Path, wanted: pa.Schema) -> pa.Table:
    if path.is_dir():
        run = Run.open(path)
        minutes = range(run.manifest.seconds // 60 + 1)
        parts = [run.minute(stored, minute) for minute in minutes for stored in range(run.stored)]
        table = pa.concat_tables([part.select(part.column_names[:15]) for part in parts])
        return table.take(pc.sort_indices(table, [("time", "ascending")]))
    if path.suffix == ".parquet":
        return pq.read_table(path)
    if path.suffix in (".jsonl", ".ndjson", ".json"):
        return pj.read_json(path, parse_options=pj.ParseOptions(explicit_schema=wanted))
    return csv.read_csv(path, convert_options=csv.ConvertOptions(column_types=wanted, strings_can_be_null=True))


def arrivals(count: int, start: int, rate: float | None) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """When each tuple arrives, in microseconds: all at the start, or so many a second."""
    if rate is None:
        return np.full(count, start, dtype=np.int64)
    return start + (np.arange(count) * (1e6 / rate)).astype(np.int64)


def cut(table: pa.Table, size: int, start: int, rate: float | None) -> Iterator[pa.Table]:
    """Trains of ``size`` tuples, with arrival numbers and times."""
    numbers = pa.array(np.arange(table.num_rows, dtype=np.int64))
    times = pa.array(arrivals(table.num_rows, start, rate))
    table = table.add_column(0, SEQ, numbers).add_column(1, TS, times)
    for first in range(0, max(table.num_rows, 1), size):
        yield table.slice(first, size)


def write_trains(folder: Path, table: pa.Table, size: int, start: int, rate: float | None) -> int:
    """A recording as trains in a folder; how many there are."""
    number = -1
    for number, train in enumerate(cut(table, size, start, rate)):
        write_train(folder, number, train)
    return number + 1
