"""Answers and rejects as text files that only grow: ``output.csv`` in the paper's plain form, and ``rejects.csv``.

The journal has how long each file was after every batch. A batch that is repeated cuts off what its first attempt left.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pc

from slipstream.errors import BadInput
from slipstream.io.outputs import RESCUE
from slipstream.linear_road.journal import Detail
from slipstream.linear_road.tables import ANSWER_TABLES, REJECTS, AnswerTable

TEXT, REJECTED = "output.csv", "rejects.csv"
_PLAIN = pc.WriteOptions(include_header=False, quoting_style="none")


def lines_of(tables: Mapping[str, pa.Table], emitted_ms: int) -> list[bytes]:
    """The answers of a batch in the paper's form, by time, kind, vehicle and request."""
    there = [(table, tables[table.name]) for table in ANSWER_TABLES if table.name in tables]
    if not there:
        return []
    keys, lines = zip(*(_lines_of(table, rows, emitted_ms) for table, rows in there), strict=True)
    order = np.lexsort(np.concatenate(keys, axis=1)[::-1])
    return list(np.array([line for some in lines for line in some], dtype=object)[order])


def _lines_of(table: AnswerTable, rows: pa.Table, emitted_ms: int) -> tuple[npt.NDArray[Any], list[bytes]]:
    """Lines of one kind, and what they are sorted by; Emit is in whole seconds, as the paper has it."""
    emit = pa.array((rows["delay_ms"].to_numpy() + emitted_ms) // 1000)
    kind = pa.array(np.full(rows.num_rows, table.kind))
    given = rows.append_column("emit", emit).append_column("kind", kind)
    sink = pa.BufferOutputStream()
    pc.write_csv(given.select(["kind", *table.paper]), sink, _PLAIN)
    keys = np.stack([given[name].to_numpy() for name in ("time", "kind", "vid", table.id)])
    return keys, sink.getvalue().to_pybytes().splitlines(keepends=True)


def reject_lines(tables: Mapping[str, pa.Table]) -> list[bytes]:
    """The rejects of a batch as lines: the reason, a comma, and the line."""
    rows = tables[REJECTS].to_pydict() if REJECTS in tables else {"reason": [], "line": []}
    return [f"{reason},{line}\n".encode() for reason, line in zip(rows["reason"], rows["line"], strict=True)]


def append(file: Path, length: int, lines: list[bytes]) -> int:
    """Cut a file to its committed length and append lines; returns the new length."""
    _check_length(file, length)
    if not lines and file.exists() and file.stat().st_size == length:
        return length
    with file.open("ab") as out:
        out.truncate(length)
        out.seek(length)
        out.writelines(lines)
        out.flush()
        os.fsync(out.fileno())
        return out.tell()


def check_texts(out: Path, committed: Detail) -> None:
    """Refuse text files that are shorter than what was committed."""
    for name, length in ((TEXT, committed.text_bytes), (REJECTED, committed.rejects_bytes)):
        _check_length(out / name, length)


def _check_length(file: Path, committed: int) -> None:
    size = file.stat().st_size if file.exists() else 0
    if size < committed:
        raise BadInput(f"{file}: {size:,} bytes, {committed:,} were committed.", hint=RESCUE)
