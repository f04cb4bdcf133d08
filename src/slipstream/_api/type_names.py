"""Types by Spark's names, and durations such as "30 s"."""

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


def arrow_type(name: str, type_: Any) -> str:
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
<<<<<<< HEAD:src/slipstream/_api/types.py
=======


def seconds(duration: str | float | timedelta, what: str = "duration") -> float:
    """Return a duration in seconds: a number, a ``timedelta``, or text such as "90 s", "1 minute" or "2h".

    >>> seconds("1 minute"), seconds("2h"), seconds(30), seconds("500 ms")
    (60, 7200, 30, 0.5)
    >>> seconds("soon", "size")
    Traceback (most recent call last):
        ...
    slipstream._errors.BadArgument: size 'soon': not a duration.
    Write a number of seconds, or "30 s", "1 minute", "2 hours", "1 day".
    """
    if isinstance(duration, timedelta):
        return _as_whole(duration.total_seconds())
    if isinstance(duration, int | float) and not isinstance(duration, bool):
        return duration
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", str(duration).lower())
    if not found or found[2] not in {"", *_SECONDS}:
        raise BadArgument(
            f"{what} {duration!r}: not a duration.",
            hint='Write a number of seconds, or "30 s", "1 minute", "2 hours", "1 day".',
            code="malformed-value",
            found=duration,
        )
    return _as_whole(float(found[1]) * _SECONDS.get(found[2], 1))


def _as_whole(number: float) -> float:
    """A whole number as an integer: windows of integers have whole sizes."""
    return int(number) if number == int(number) else number
>>>>>>> main:src/slipstream/_api/type_names.py
