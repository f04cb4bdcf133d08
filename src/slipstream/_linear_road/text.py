"""Answers and rejects as text: ``output.csv`` in the paper's plain form, and ``rejects.csv``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from slipstream._io.outputs.text import check_length
from slipstream._linear_road.job.journal import Detail
from slipstream._linear_road.tables import ANSWER_TABLES, REJECTS, VEHICLE, AnswerTable

TEXT, REJECTED = "output.csv", "rejects.csv"
_PLAIN = csv.WriteOptions(include_header=False, quoting_style="none")


class Lines(NamedTuple):
    """Answers as text, and the vehicle that each is about."""

    lines: list[bytes]
    vehicles: list[bytes]


def lines_of(tables: Mapping[str, pa.Table], emitted_ms: int) -> Lines:
    """The answers of a batch in the paper's form, by time, kind, vehicle and request."""
    there = [(table, tables[table.name]) for table in ANSWER_TABLES if table.name in tables]
    if not there:
        return Lines([], [])
    keys, lines = zip(*(_lines_of(table, rows, emitted_ms) for table, rows in there), strict=True)
    order = np.lexsort(np.concatenate(keys, axis=1)[::-1])
    names = [rows[VEHICLE if VEHICLE in rows.column_names else "vid"] for _, rows in there]
    vehicles = pa.chunked_array([chunk for name in names for chunk in name.chunks]).cast(pa.string())
    return Lines(
        list(np.array([line for some in lines for line in some], dtype=object)[order]),
        vehicles.take(pa.array(order)).cast(pa.binary()).to_pylist(),
    )


def _lines_of(table: AnswerTable, rows: pa.Table, emitted_ms: int) -> tuple[npt.NDArray[Any], list[bytes]]:
    """Lines of one kind, and what they are sorted by; Emit is in whole seconds, as the paper has it."""
    emit = pa.array((rows["delay_ms"].to_numpy() + emitted_ms) // 1000)
    kind = pa.array(np.full(rows.num_rows, table.kind))
    given = rows.append_column("emit", emit).append_column("kind", kind)
    keys = np.stack([given[name].to_numpy() for name in ("time", "kind", "vid", table.id)])
    if VEHICLE in rows.column_names:
        return keys, _named_lines(given, ["kind", *table.paper])
    sink = pa.BufferOutputStream()
    csv.write_csv(given.select(["kind", *table.paper]), sink, _PLAIN)
    return keys, sink.getvalue().to_pybytes().splitlines(keepends=True)


def _named_lines(rows: pa.Table, columns: list[str]) -> list[bytes]:
    """Lines with the name of a vehicle for its number, in quotes where it has a comma or quotes."""
    name = rows[VEHICLE]
    quoted = pc.binary_join_element_wise('"', pc.replace_substring(name, '"', '""'), '"', "")
    name = pc.if_else(pc.match_substring_regex(name, '[",]'), quoted, name)
    values = [name if column == "vid" else rows[column].cast(pa.string()) for column in columns]
    return [f"{line}\n".encode() for line in pc.binary_join_element_wise(*values, ",").to_pylist()]


def reject_lines(tables: Mapping[str, pa.Table]) -> list[bytes]:
    """The rejects of a batch as lines: the reason, a comma, and the line."""
    rows = tables[REJECTS].to_pydict() if REJECTS in tables else {"reason": [], "line": []}
    return [f"{reason},{line}\n".encode() for reason, line in zip(rows["reason"], rows["line"], strict=True)]


def check_texts(out: Path, committed: Detail) -> None:
    """Refuse text files that are shorter than what was committed."""
    for name, length in ((TEXT, committed.text_bytes), (REJECTED, committed.rejects_bytes)):
        check_length(out / name, length)
