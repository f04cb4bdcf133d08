"""Feeds that fill a cuboid: their fields are decoded to the columns of the cuboid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import pyarrow as pa

from slipstream._cuboid.schema import Schema
from slipstream._errors import BadArgument
from slipstream._io.formats.encodings import CSV, PARQUET, find_first_file, guess_encoding
from slipstream._io.named_feeds import KAFKA, TCP, Definition, Feed, make_feed, read_file_fields, read_parquet_schema


def list_source_columns(schema: Schema) -> dict[str, str]:
    """The columns that a cuboid needs, as a feed is decoded to them."""
    kinds = {name: schema.dtype[name].base.kind for name in schema.names}
    numbers = {name: "integer" if kind in "iu" else "float" for name, kind in kinds.items()}
    return {schema.key: "text" if schema.text_key else "integer", **numbers}


def make_cuboid_feed(
    where: str,
    schema: Schema,
    *,
    encoding: str = "",
    columns: Mapping[str, str] | None = None,
    fields: Sequence[str] = (),
    follow: bool = False,
    settings: Sequence[tuple[str, str]] = (),
    definition: Definition | None = None,
) -> Feed:
    """Make the feed for a cuboid; refuse one that lacks fields."""
    wanted = list_source_columns(schema)
    _check_exists(where, encoding, follow=follow)
    encoding = encoding or guess_encoding(where)
    mapped = {**_map_by_name(where, encoding, wanted, fields, columns or {}), **(columns or {})}
    return make_feed(
        where,
        wanted,
        encoding=encoding,
        columns=mapped,
        fields=fields,
        follow=follow,
        settings=settings,
        definition=definition,
    )


def _check_exists(where: str, encoding: str, *, follow: bool) -> None:
    """Refuse inputs that do not exist, and files of unknown format."""
    if where.startswith((KAFKA, TCP)):
        return
    if not Path(where).exists() and not follow:
        raise BadArgument(
            f"--input {where}: no such file or folder.",
            hint="Give a file, a folder, kafka: or tcp:.",
            code="no-such-file",
            found=where,
        )
    name = find_first_file(where)
    if encoding:
        return
    if not name or not Path(where).exists():
        raise BadArgument(
            f"--input {where}: the folder has no files.",
            hint="Give the format of its files: --format csv.",
            code="no-such-file",
            found=where,
        )
    if not guess_encoding(name, ""):
        raise BadArgument(
            f"--input {where}: unknown format {PurePath(name).suffix}.",
            hint="Give its format: --format csv.",
            code="wrong-file-type",
        )


def _map_by_name(
    where: str, encoding: str, wanted: Mapping[str, str], given: Sequence[str], columns: Mapping[str, str]
) -> dict[str, str]:
    """Map fields to columns by case-insensitive names, as far as the fields are known."""
    types: dict[str, Any] = read_parquet_schema(where) if encoding == PARQUET else {}
    named = list(types) or (
        list(given or read_file_fields(where)) if encoding == CSV and not where.startswith(TCP) else []
    )
    if not named:
        return {}
    by_name = {name.lower(): name for name in named}
    found = {}
    for name in wanted:
        if name in columns:
            continue
        field = by_name.get(name.lower())
        if field is None:
            raise BadArgument(
                f"{where}: no column '{name}'; it has: {', '.join(named)}.",
                hint=f"Map a field to it: --columns {name}=FIELD.",
                code="unknown-column",
                found=name,
                expected=[*named],
            )
        if wanted[name] != "text":
            _check_number(where, field, types.get(field), is_key=name == next(iter(wanted)))
        found[name] = field
    return found


def _check_number(where: str, field: str, type_: Any, *, is_key: bool) -> None:
    if type_ is not None and not (pa.types.is_integer(type_) or pa.types.is_floating(type_)):
        raise BadArgument(
            f"{where}: column '{field}' is {type_}; the cuboid declares a number.",
            hint=f"Declare the key as text: {field} STRING KEY." if is_key else "Leave the attribute out.",
            code="bad-type",
        )
