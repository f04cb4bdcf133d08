"""The types of columns, by Spark's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from slipstream._errors import BadArgument
from slipstream._network.algebra import TYPES, Schema
from slipstream._network.column_types import plain_schema, plain_type


def parse_schema(columns: Mapping[str, str]) -> Schema:
    """Return a schema of Spark types in the types of networks.

    >>> parse_schema({"id": "bigint", "name": "string"})
    {'id': 'integer', 'name': 'text'}
    >>> parse_schema({"at": "date"})
    Traceback (most recent call last):
        ...
    slipstream._errors.BadArgument: column 'at': no type 'date'.
    Use bigint, double, string or boolean; times are seconds, as bigint or double.
    """
    for name, type_ in columns.items():
        if plain_type(type_) not in TYPES:
            raise BadArgument(
                f"column {name!r}: no type {type_!r}.",
                hint="Use bigint, double, string or boolean; times are seconds, as bigint or double.",
                code="bad-type",
            )
    return plain_schema(columns)


def convert_arrow_type(name: str, type_: Any) -> str:
    """Return the type that a network has for a column of Arrow's."""
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    if pa.types.is_boolean(type_):
        return "boolean"
    if pa.types.is_integer(type_):
        return "integer"
    if pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        return "float"
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return "text"
    raise BadArgument(
        f"column {name!r} is {type_}.",
        hint="Columns are bigint, double, string or boolean. Convert it, or leave it out with schema=.",
        code="bad-type",
    )
