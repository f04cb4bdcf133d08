"""Answers and rejects as text: ``output.csv`` in the paper's format, and ``rejects.csv``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from slipstream._io.outputs.text_files import check_length
from slipstream._linear_road.job.toll_journal import Detail
from slipstream._linear_road.output_tables import ANSWER_TABLES, REJECTS, VEHICLE, AnswerTable

TEXT, REJECTED = "output.csv", "rejects.csv"
_PLAIN = csv.WriteOptions(include_header=False, quoting_style="none")


class TextLines(NamedTuple):
    """Answers as text, and the vehicle of each."""

    lines: list[bytes]
    vehicles: list[bytes]


def format_answers(tables: Mapping[str, pa.Table], emitted_ms: int) -> TextLines:
    """Format the answers of a batch as in the paper, by time, kind, vehicle and request."""
    there = [(table, tables[table.name]) for table in ANSWER_TABLES if table.name in tables]
    if not there:
        return TextLines([], [])
    keys, lines = zip(*(_format_kind(table, rows, emitted_ms) for table, rows in there), strict=True)
    order = np.lexsort(np.concatenate(keys, axis=1)[::-1])
    names = [rows[VEHICLE if VEHICLE in rows.column_names else "vid"] for _, rows in there]
    vehicles = pa.chunked_array([chunk for name in names for chunk in name.chunks]).cast(pa.string())
    return TextLines(
        list(np.array([line for some in lines for line in some], dtype=object)[order]),
        vehicles.take(pa.array(order)).cast(pa.binary()).to_pylist(),
    )


def _format_kind(table: AnswerTable, rows: pa.Table, emitted_ms: int) -> tuple[npt.NDArray[Any], list[bytes]]:
    """Return the lines of one kind and their sort keys; Emit is in whole seconds, as in the paper."""
    emit = pa.array((rows["delay_ms"].to_numpy() + emitted_ms) // 1000)
    kind = pa.array(np.full(rows.num_rows, table.kind))
    given = rows.append_column("emit", emit).append_column("kind", kind)
    keys = np.stack([given[name].to_numpy() for name in ("time", "kind", "vid", table.id)])
    if VEHICLE in rows.column_names:
        return keys, _format_named(given, ["kind", *table.paper])
    sink = pa.BufferOutputStream()
    csv.write_csv(given.select(["kind", *table.paper]), sink, _PLAIN)
    return keys, sink.getvalue().to_pybytes().splitlines(keepends=True)


def _format_named(rows: pa.Table, columns: list[str]) -> list[bytes]:
    """Format lines with vehicle names instead of numbers, quoted if they contain a comma or quotes."""
    name = rows[VEHICLE]
    quoted = pc.binary_join_element_wise('"', pc.replace_substring(name, '"', '""'), '"', "")
    name = pc.if_else(pc.match_substring_regex(name, '[",]'), quoted, name)
    values = [name if column == "vid" else rows[column].cast(pa.string()) for column in columns]
    return [f"{line}\n".encode() for line in pc.binary_join_element_wise(*values, ",").to_pylist()]


def format_rejects(tables: Mapping[str, pa.Table]) -> list[bytes]:
    """Format the rejects of a batch: the reason, a comma, and the line."""
    rows = tables[REJECTS].to_pydict() if REJECTS in tables else {"reason": [], "line": []}
    return [f"{reason},{line}\n".encode() for reason, line in zip(rows["reason"], rows["line"], strict=True)]


def check_texts(out: Path, committed: Detail) -> None:
    """Reject text files that are shorter than what was committed."""
    for name, length in ((TEXT, committed.text_bytes), (REJECTED, committed.rejects_bytes)):
        check_length(out / name, length)
