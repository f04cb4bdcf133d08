"""Which rows of an output belong to one vehicle, as a condition in SQL, and their removal for good.

A row belongs to a vehicle if one of its id columns has the id, alone or in a list. A reject belongs to it if the id
occurs in its line as a word: what could not be parsed has no columns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from slipstream._io.outputs.data_files import BATCH, FOLDER
from slipstream._io.outputs.delta_tables import OutputTable
from slipstream._io.outputs.journal import last_batch
from slipstream._io.outputs.reading import output_names

#: integers that are ids, where the user names no column
_NUMBERS = ("id", "vid")
#: the column with the text ids of a toll job
_VEHICLE = "vehicle"
#: the column of rejects
_LINE = "line"


def word_pattern(word: str) -> str:
    """Return a regular expression that finds a text as a word.

    >>> bool(re.search(word_pattern("van-7"), "a,van-7,3")), bool(re.search(word_pattern("van-7"), "a,van-77,3"))
    (True, False)
    """
    escaped = re.sub(r"([^0-9A-Za-z_\s])", r"\\\1", word)
    return f"(^|[^0-9A-Za-z_]){escaped}($|[^0-9A-Za-z_])"


def find_id_columns(schema: pa.Schema, id_: str, columns: Sequence[str] = ()) -> list[str]:
    """Return the columns that may have an id, alone or in lists: those named, or all texts, ``id`` and ``vid``.

    Beside a text ``vehicle``, ``vid`` is a number that the job gave it.
    """
    is_number = re.fullmatch(r"-?\d{1,18}", id_) is not None and (bool(columns) or _VEHICLE not in schema.names)
    found = []
    for one in schema:
        type_ = one.type.value_type if pa.types.is_list(one.type) else one.type
        text, integer = pa.types.is_string(type_), pa.types.is_integer(type_) and is_number
        wanted = one.name in columns if columns else text or one.name in _NUMBERS
        if one.name != BATCH and wanted and (text or integer):
            found.append(one.name)
    return found


def find_condition(schema: pa.Schema, id_: str, columns: Sequence[str] = ()) -> str:
    """Return the condition on rows of a vehicle; empty if no column can have its id.

    ``columns`` are those with ids; by default all texts, and the integers ``id`` and ``vid``.

    >>> find_condition(pa.schema([("vid", pa.int32()), ("name", pa.string()), ("toll", pa.int64())]), "7")
    '"vid" = 7 OR "name" = \\'7\\''
    """
    parts = []
    for name in find_id_columns(schema, id_, columns):
        type_ = schema.field(name).type
        listed = pa.types.is_list(type_)
        value = id_ if pa.types.is_integer(type_.value_type if listed else type_) else _quote(id_)
        parts.append(f'array_has("{name}", {value})' if listed else f'"{name}" = {value}')
    if _LINE in schema.names:
        parts.append(f'regexp_like("{_LINE}", {_quote(word_pattern(id_))})')
    return " OR ".join(parts)


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def find_rows(folder: Path, id_: str, columns: Sequence[str] = ()) -> dict[str, pa.Table]:
    """Return the rows of a vehicle in each output that can have any."""
    found = {}
    for name in output_names(folder):
        table = OutputTable.open(folder / FOLDER / name)
        if table and (condition := find_condition(table.schema, id_, columns)):
            found[name] = table.select(condition)
    return found


def remove_rows(folder: Path, id_: str, columns: Sequence[str] = ()) -> dict[str, int]:
    """Remove the rows of a vehicle from all outputs of a job that does not run; no earlier version is left."""
    last = last_batch(folder)
    removed = {}
    for name in output_names(folder):
        table = OutputTable.open(folder / FOLDER / name)
        if table is None:
            continue
        end = last.batch if last else -1
        table.drop_after(end)
        if condition := find_condition(table.schema, id_, columns):
            removed[name] = table.remove(condition, end)
        table.shred()
    return removed
