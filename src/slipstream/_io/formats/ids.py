"""Detects whether the ids of a feed are texts or numbers, from its schema or its first line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
from pyarrow import csv

from slipstream._io.formats.encodings import ARROW, AVRO, CSV, JSON, MESSAGES, PARQUET, find_first_file, split_header
from slipstream._io.formats.registry import Registry, split_settings
from slipstream._io.kafka_client import Topic
from slipstream._io.named_feeds import KAFKA, TCP, Definition, read_file_fields, read_parquet_schema

_INTEGER = re.compile(r"\s*-?\d{1,19}\s*")
#: only this many bytes of a line are examined
_LONGEST_LINE = 1 << 20


def is_text(
    where: str,
    encoding: str,
    field: str,
    fields: Sequence[str],
    definition: Definition | None,
    settings: Sequence[tuple[str, str]] = (),
) -> bool:
    """Whether a field of a feed is known to be text; False if the feed does not exist yet."""
    if encoding in MESSAGES and definition is not None and (definition.file or definition.registry):
        return field in _find_text_fields(where, encoding, definition, settings)
    if where.startswith((KAFKA, TCP)):
        return False
    path = Path(where)
    file = path / find_first_file(where) if path.is_dir() else path
    if not file.is_file() or encoding not in _FILES:
        return False
    return _FILES[encoding](file, field, list(fields) or (read_file_fields(where) if encoding == CSV else []))


def _find_text_fields(
    where: str, encoding: str, definition: Definition, settings: Sequence[tuple[str, str]]
) -> Sequence[str]:
    from slipstream._io.formats import messages

    if definition.file is not None:
        return messages.list_text_fields(encoding, *messages.read_definition(encoding, definition.file))
    found = Registry(definition.registry, split_settings(settings)[1]).latest(Topic.parse(where).name)
    return messages.list_text_fields(encoding, found.text, "") if found is not None else ()


def _is_text_in_csv(file: Path, field: str, fields: list[str]) -> bool:
    """Whether a field is text in the first line of CSV after the header."""
    with file.open("rb") as opened:
        lines = [opened.readline(_LONGEST_LINE), opened.readline(_LONGEST_LINE)]
    header = split_header(lines[0].decode(errors="replace"))
    line = lines[1] if field in header else lines[0]
    try:
        options = csv.ReadOptions(column_names=fields)
        as_text = csv.ConvertOptions(column_types={field: pa.string()}, include_columns=[field])
        value = csv.read_csv(pa.BufferReader(line), options, convert_options=as_text)[field][0].as_py()
    except (pa.ArrowException, IndexError):
        return False
    return bool(value) and not _INTEGER.fullmatch(value)


def _is_text_in_json(file: Path, field: str, fields: list[str]) -> bool:  # noqa: ARG001
    with file.open("rb") as opened:
        line = opened.readline(_LONGEST_LINE)
    try:
        body = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(body, dict) and isinstance(body.get(field), str)


def _is_text_in_parquet(file: Path, field: str, fields: list[str]) -> bool:  # noqa: ARG001
    return _is_string(read_parquet_schema(str(file)).get(field))


def _is_text_in_arrow(file: Path, field: str, fields: list[str]) -> bool:  # noqa: ARG001
    try:
        with file.open("rb") as opened:
            schema = pa.ipc.open_stream(opened).schema
    except (pa.ArrowException, OSError):
        return False
    return field in schema.names and _is_string(schema.field(field).type)


def _is_text_in_avro(file: Path, field: str, fields: list[str]) -> bool:  # noqa: ARG001
    from slipstream._io.formats import messages

    with file.open("rb") as opened:
        found = messages.read_container_schema(opened)
    return bool(found) and field in messages.list_text_fields(AVRO, found, "")


def _is_string(type_: pa.DataType | None) -> bool:
    if type_ is None:
        return False
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


_FILES: dict[str, Callable[[Path, str, list[str]], bool]] = {
    CSV: _is_text_in_csv,
    JSON: _is_text_in_json,
    PARQUET: _is_text_in_parquet,
    ARROW: _is_text_in_arrow,
    AVRO: _is_text_in_avro,
}
