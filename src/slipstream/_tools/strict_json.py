"""JSON files decoded to dataclasses with type checks: every mistake is a ``ValueError`` that names the field.

A file that was damaged or edited by hand is often still valid JSON, and a dataclass accepts values of any type. Text or
a list in place of a number would surface much later, in the middle of the work, or never.
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def parse_json(text: str | bytes) -> Any:
    """Parse JSON.

    >>> parse_json("[" * 100_000)
    Traceback (most recent call last):
        ...
    ValueError: nested too deeply
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def decode_as(kind: type[T], body: Any) -> T:
    """Build a dataclass from a mapping; every value must be of its field's type.

    >>> from slipstream._feeds.clock import Clock
    >>> decode_as(Clock, {"speed": 1, "origin_ms": 5})
    Clock(speed=1, origin_ms=5, since=0)
    >>> decode_as(Clock, {"speed": 1, "origin_ms": "5"})
    Traceback (most recent call last):
        ...
    ValueError: origin_ms is '5'
    """
    if not isinstance(body, dict):
        raise ValueError("not a mapping of fields")
    hints = _read_hints(kind)  # type: ignore[arg-type]
    needed = [field.name for field in dataclasses.fields(kind) if _is_needed(field)]  # type: ignore[arg-type]
    for name in (*body, *needed):
        if name not in hints or name not in body:
            raise ValueError(f"the field {name} is {'unknown' if name in body else 'missing'}")
    return kind(**{name: _decode_value(hints[name], value, name) for name, value in body.items()})


def _is_needed(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


@cache
def _read_hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _decode_value(hint: Any, value: Any, name: str) -> Any:
    """Convert a value to its type: lists become tuples, mappings become dataclasses."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (types.UnionType, Union):
        return (
            None
            if value is None
            else _decode_value(next(kind for kind in inner if kind is not type(None)), value, name)
        )
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return decode_as(hint, value)
    if origin in (list, tuple) and isinstance(value, list):
        each = inner[:1] * len(value) if origin is list or inner[-1] is ... else inner
        if len(each) == len(value):
            made = [_decode_value(kind, item, name) for kind, item in zip(each, value, strict=True)]
            return tuple(made) if origin is tuple else made
    elif origin is dict and isinstance(value, dict):
        return {key: _decode_value(inner[1], item, f"{name}.{key}") for key, item in value.items()}
    elif _is_plain(hint, value):
        return value
    raise ValueError(f"{name} is {str(value)[:40]!r}")


def _is_plain(hint: Any, value: Any) -> bool:
    if hint is Any:
        return True
    if hint is float:
        return type(value) in (int, float) and math.isfinite(value)
    return hint in (int, str, bool) and type(value) is hint
