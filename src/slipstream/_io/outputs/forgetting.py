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
#: the column of rejects
_LINE = "line"


def word_pattern(word: str) -> str:
    """Return a regular expression that finds a text as a word.

    >>> bool(re.search(word_pattern("van-7"), "a,van-7,3")), bool(re.search(word_pattern("van-7"), "a,van-77,3"))
    (True, False)
    """
    escaped = re.sub(r"([^0-9A-Za-z_\s])", r"\\\1", word)
    return f"(^|[^0-9A-Za-z_]){escaped}($|[^0-9A-Za-z_])"


def find_condition(schema: pa.Schema, id_: str, columns: Sequence[str] = ()) -> str:
    """Return the condition on rows of a vehicle; empty if no column can have its id.

    ``columns`` are those with ids; by default all texts, and the integers ``id`` and ``vid``.

    >>> find_condition(pa.schema([("vid", pa.int32()), ("vehicle", pa.string()), ("toll", pa.int64())]), "7")
    '"vid" = 7 OR "vehicle" = \\'7\\''
    """
    parts = []
    for one in schema:
        listed = pa.types.is_list(one.type)
        type_ = one.type.value_type if listed else one.type
        integer = pa.types.is_integer(type_) and re.fullmatch(r"-?\d{1,18}", id_) is not None
        text = pa.types.is_string(type_)
        wanted = one.name in columns if columns else text or (integer and one.name in _NUMBERS)
        if one.name == BATCH or not wanted or not (integer or text):
            continue
        name, value = f'"{one.name}"', id_ if integer else _quote(id_)
        parts.append(f"array_has({name}, {value})" if listed else f"{name} = {value}")
        if text and not listed and one.name == _LINE:
            parts.append(f"regexp_like({name}, {_quote(word_pattern(id_))})")
    return " OR ".join(parts)


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def find_rows(folder: Path, id_: str, columns: Sequence[str] = ()) -> dict[str, pa.Table]:
    """Return the rows of a vehicle in each output that can have any."""
    found = {}
    for name in output_names(folder):
        table = OutputTable.open(folder / FOLDER / name)
        if table and (condition := find_condition(table.schema, id_, (*columns, _LINE) if columns else ())):
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
        if condition := find_condition(table.schema, id_, (*columns, _LINE) if columns else ()):
            removed[name] = table.remove(condition, end)
        table.shred()
    return removed
