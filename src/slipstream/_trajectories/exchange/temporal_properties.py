"""Values over time as OGC Moving Features JSON has them: instants, values, and how to interpolate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from slipstream._moving.columns import Temporals, freeze_all
from slipstream._moving.kernels import values
from slipstream._moving.types import INTERPOLATIONS, TFLOAT
from slipstream._tools.numba_tools import Longs

_FIELDS = [field.name for field in TFLOAT.arrow]


def is_over_time(kind: pa.DataType) -> bool:
    """Return whether a type is that of a value over time.

    >>> is_over_time(TFLOAT.arrow), is_over_time(pa.int64())
    (True, False)
    """
    return pa.types.is_struct(kind) and [field.name for field in kind] == _FIELDS


def write_times(instants: Longs) -> list[str]:
    """Return instants in RFC 3339.

    >>> write_times(np.array([0, 1_500_000]))
    ['1970-01-01T00:00:00Z', '1970-01-01T00:00:01.500000Z']
    """
    texts: list[str] = np.datetime_as_string(instants.view("M8[us]"), unit="us", timezone="UTC").tolist()
    return [text.replace(".000000Z", "Z") for text in texts]


def type_of(value: Temporals) -> str:
    """Return the standard's name for the type of a value over time."""
    if not isinstance(value.value, np.ndarray):
        return "TText"
    return {"b": "TBoolean", "i": "TInteger"}.get(value.value.dtype.kind, "TReal")


def describe_values(value: Temporals) -> list[dict[str, Any]]:
    """Return a value over time, of all its rows, as sequences of instants and values."""
    starts = value.starts + np.repeat(value.rows[:-1], np.diff(value.parts))
    ends = np.append(starts[1:], value.rows[-1])
    kinds = np.repeat(value.interpolation, np.diff(value.parts))
    times, flat = write_times(value.t), plain_values(value.value)
    return [
        {"datetimes": times[a:b], "values": flat[a:b], "interpolation": INTERPOLATIONS[kind].capitalize()}
        for a, b, kind in zip(starts, ends, kinds, strict=True)
    ]


def parametric_values(name: str, value: Temporals) -> list[dict[str, Any]]:
    """Return a value over time as the parametric values of MF-JSON, one for each sequence."""
    kind = "Measure" if type_of(value) in ("TReal", "TInteger") else "Text"
    return [
        {
            "datetimes": part["datetimes"],
            name: {"type": kind, "values": part["values"], "interpolation": part["interpolation"]},
        }
        for part in describe_values(value)
    ]


def plain_values(flat: Any) -> list[Any]:
    """Return values as Python has them."""
    found: list[Any] = flat.to_pylist() if isinstance(flat, pa.Array) else flat.tolist()
    return found


def some_rows(value: Temporals, first: int, end: int) -> Temporals:
    """Return some rows of a value over time, as if there were no others."""
    part = value._replace(
        rows=value.rows[first : end + 1],
        parts=value.parts[first : end + 1],
        interpolation=value.interpolation[first:end],
    )
    return freeze_all(values.own(part))
