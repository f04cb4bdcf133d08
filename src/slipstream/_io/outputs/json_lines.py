"""Rows as JSON, one object per line, built column by column."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def to_json_lines(rows: pa.Table) -> list[bytes]:
    r"""Return each row as a JSON object, without a line break; numbers that are not finite are null.

    >>> to_json_lines(pa.table({"id": ["a\n", None], "speed": [50, 60], "heavy": [True, None]}))
    [b'{"id": "a\\n", "speed": 50, "heavy": true}', b'{"id": null, "speed": 60, "heavy": null}']
    """
    if not rows.num_rows:
        return []
    parts: list[Any] = []
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        parts += [f"{', ' if parts else '{'}{json.dumps(name)}: ", pc.fill_null(_encode(column), "null")]
    return list(pc.binary_join_element_wise(*parts, "}", "").cast(pa.binary()).to_pylist())


def _encode(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Encode values as JSON; nulls stay null."""
    type_ = column.type
    if pa.types.is_boolean(type_) or pa.types.is_integer(type_):
        return column.cast(pa.string())
    if pa.types.is_floating(type_):
        return pc.if_else(pc.is_finite(column), column, None).cast(pa.string())
    if pa.types.is_string(type_):  # often only a few distinct values
        texts = column.combine_chunks().dictionary_encode()
        written = pa.array([json.dumps(text, ensure_ascii=False) for text in texts.dictionary.to_pylist()], pa.string())
        return pa.chunked_array([written.take(texts.indices)])
    values = column.to_pylist()
    written = [None if value is None else json.dumps(value, default=str, ensure_ascii=False) for value in values]
    return pa.chunked_array([pa.array(written, pa.string())])
