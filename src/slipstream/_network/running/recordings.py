"""Recorded tuples for a network's sources: CSV, JSON lines, Parquet, or a Linear Road run, converted to trains."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq
from pyarrow import csv

from slipstream._errors import BadArgument, BadInput
from slipstream._feeds.run import Run
from slipstream._io.required_inputs import check_given
from slipstream._io.train_files import TS
from slipstream._network.algebra import Network, Schema
from slipstream._network.running.train_folder import SEQ, arrow_schema, write_train

#: files that are JSON lines
_JSON = (".jsonl", ".ndjson", ".json")


def read_inputs(network: Network, paths: Mapping[str, Path]) -> dict[str, pa.Table]:
    """Read the recordings of all sources of a network; refuse missing ones."""
    check_given(network.name, "--input", "source", [source.name for source in network.sources], paths)
    return {source.name: read_table(paths[source.name], source.schema) for source in network.sources}


def read_tables(network: Network, paths: Mapping[str, Path]) -> dict[str, pa.Table]:
    """Read the stored tables of a network."""
    check_given(network.name, "--table", "table", [table.name for table in network.tables], paths)
    return {table.name: read_table(paths[table.name], table.schema) for table in network.tables}


def read_table(path: Path, schema: Schema) -> pa.Table:
    """Read the tuples of a recording, in order, with exactly the columns of the schema.

    A value that does not fit is an error that gives its line; nothing is left out.
    """
    if not path.exists():
        raise BadArgument(
            f"{path}: no such file or run.",
            hint="Give a CSV, JSON lines or Parquet file, or a run.",
            code="no-such-file",
        )
    wanted = pa.schema([field for field in arrow_schema(schema) if field.name not in (SEQ, TS)])
    try:
        table = _read(path, wanted)
        names = table.column_names
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        where = _bad_line(path, wanted, schema) or f"{path}: {str(error).splitlines()[0]}"
        raise BadInput(
            where, hint=f"It must have: {', '.join(f'{n} {t}' for n, t in schema.items())}.", code="unreadable-file"
        ) from error
    missing = [name for name in schema if name not in names]
    if missing:
        raise BadInput(
            f"{path}: no column {missing[0]!r}.",
            hint=f"It has: {', '.join(names)}.",
            code="unknown-column",
            found=missing[0],
            expected=[*names],
        )
    return pa.table([_cast(path, name, table[name], wanted.field(name).type) for name in wanted.names], schema=wanted)


def _cast(path: Path, name: str, column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    try:
        return column.cast(type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise BadInput(
            f"{path}, column {name}: {str(error).splitlines()[0]}.",
            hint="Correct the values, or the type of the column in the network.",
            code="bad-type",
        ) from error


def _read(path: Path, wanted: pa.Schema) -> pa.Table:
    if path.is_dir():
        run = Run.open(path)
        return run.tuples(run.minutes)
    if path.suffix == ".parquet":
        return pq.read_table(path)
    if path.suffix in _JSON:
        return _read_json(path, wanted)
    return _read_csv(path, wanted)


def _read_json(path: Path, wanted: pa.Schema) -> pa.Table:
    """Read JSON lines, without columns that no line has, which the reader would fill with nulls."""
    table = pj.read_json(path, parse_options=pj.ParseOptions(explicit_schema=wanted))
    empty = [name for name in wanted.names if table.num_rows and table[name].null_count == table.num_rows]
    text = path.read_bytes() if empty else b""
    return table.drop_columns([name for name in empty if json.dumps(name).encode() not in text])


def _read_csv(path: Path, wanted: pa.Schema, *, use_threads: bool = True) -> pa.Table:
    return csv.read_csv(
        path,
        read_options=csv.ReadOptions(use_threads=use_threads),
        convert_options=csv.ConvertOptions(column_types=wanted, strings_can_be_null=True),
    )


def _bad_line(path: Path, wanted: pa.Schema, schema: Schema) -> str:
    """The first line of a text file that does not fit, and why; empty if the file cannot be read at all."""
    if path.is_dir() or path.suffix == ".parquet":
        return ""
    try:
        return _bad_json(path, schema) if path.suffix in _JSON else _bad_csv(path, wanted)
    except (OSError, UnicodeDecodeError):
        return ""


def _bad_csv(path: Path, wanted: pa.Schema) -> str:
    """The error of a reader without threads, which counts the rows."""
    try:
        _read_csv(path, wanted, use_threads=False)
    except pa.ArrowException as error:
        said = str(error).splitlines()[0]
        found = re.search(r"Row #(\d+): (.*)", said)
        if not found:
            return ""
        with path.open(encoding="utf-8") as lines:
            header = lines.readline().rstrip("\r\n").split(",")
        column = re.search(r"column #(\d+)", said)
        name = f", column {header[int(column[1])]}" if column and int(column[1]) < len(header) else ""
        return f"{path}, line {found[1]}{name}: {found[2]}"
    return ""


_FITS: dict[str, Callable[[Any], bool]] = {
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "float": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "text": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
}


def _bad_json(path: Path, schema: Schema) -> str:
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if problem := _problem(line, schema) if line.strip() else "":
                return f"{path}, line {number}{problem}"
    return ""


def _problem(line: str, schema: Schema) -> str:
    try:
        values = json.loads(line)
    except ValueError as error:
        return f": not JSON ({error})."
    if not isinstance(values, dict):
        return ": not a JSON object."
    for name, type_ in schema.items():
        value = values.get(name)
        if value is not None and not _FITS[type_](value):
            return f", column {name}: {value!r} is not {type_}."
    return ""


def arrival_times(count: int, start: int, rate: float | None) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The arrival of each tuple, in microseconds: all at the start, or at a rate per second."""
    if rate is None:
        return np.full(count, start, dtype=np.int64)
    return start + (np.arange(count) * (1e6 / rate)).astype(np.int64)


def cut_trains(table: pa.Table, size: int, start: int, rate: float | None) -> Iterator[pa.Table]:
    """Cut a table into trains of ``size`` tuples, with arrival numbers and times."""
    numbers = pa.array(np.arange(table.num_rows, dtype=np.int64))
    times = pa.array(arrival_times(table.num_rows, start, rate))
    table = table.add_column(0, SEQ, numbers).add_column(1, TS, times)
    for first in range(0, max(table.num_rows, 1), size):
        yield table.slice(first, size)


def write_trains(folder: Path, table: pa.Table, size: int, start: int, rate: float | None) -> int:
    """Write a recording as trains into a folder; returns their number."""
    number = -1
    for number, train in enumerate(cut_trains(table, size, start, rate)):
        write_train(folder, number, train)
    return number + 1
