"""Arrow columns of moving values as NumPy arrays, and back.

Reading copies nothing: a list column is its offsets and its flat values. All arrays are read-only views, so a kernel
is compiled once whether its input came from Arrow or from NumPy.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from slipstream.errors import BadInput
from slipstream.kernels import Bools, Floats, Ints, Longs
from slipstream.moving import types


class MPoints(NamedTuple):
    """Moving points: row r has vertices ``rows[r]:rows[r+1]`` and sequences ``parts[r]:parts[r+1]``."""

    rows: Ints
    t: Longs
    x: Floats
    y: Floats
    parts: Ints
    starts: Ints


class Periods(NamedTuple):
    """Sets of intervals: row r has ``rows[r]:rows[r+1]``."""

    rows: Ints
    begin: Longs
    end: Longs


class MReals(NamedTuple):
    """Moving reals, each unit sqrt(a s² + b s + c)."""

    rows: Ints
    begin: Longs
    end: Longs
    a: Floats
    b: Floats
    c: Floats


class MBools(NamedTuple):
    """Moving booleans."""

    rows: Ints
    begin: Longs
    end: Longs
    value: Bools


class Lines(NamedTuple):
    """Polylines, or the rings of regions."""

    rows: Ints
    x: Floats
    y: Floats
    parts: Ints
    starts: Ints


class Points(NamedTuple):
    """Places."""

    x: Floats
    y: Floats


class IPoints(NamedTuple):
    """Places at instants."""

    t: Longs
    x: Floats
    y: Floats


Column = Any


def frozen(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A read-only view: what Arrow gives and what kernels are compiled for."""
    view = array.view()
    view.setflags(write=False)
    return view


def _flat(array: pa.Array) -> np.ndarray[Any, Any]:
    if pa.types.is_timestamp(array.type):
        micros = array if array.type.unit == "us" else array.cast(pa.timestamp("us", tz=array.type.tz))
        return frozen(_numbers(micros.view(pa.int64())))
    if pa.types.is_boolean(array.type):
        return frozen(array.to_numpy(zero_copy_only=False))
    return frozen(_numbers(array))


def _numbers(array: pa.Array) -> np.ndarray[Any, Any]:
    """Values without copying; where there are nulls, their slots hold zero and the row is masked elsewhere."""
    if array.null_count:
        array = array.fill_null(0)
    values: np.ndarray[Any, Any] = array.to_numpy(zero_copy_only=True)
    return values


def _list(array: pa.Array) -> tuple[Ints, np.ndarray[Any, Any]]:
    return frozen(array.offsets.to_numpy()), _flat(array.values)


def _same_rows(what: str, *offsets: Ints) -> Ints:
    first = offsets[0]
    for other in offsets[1:]:
        if not np.array_equal(first, other):
            raise BadInput(
                f"{what}: its arrays have different lengths.",
                hint="t, x and y (begin and end) of a row need one value each per vertex.",
            )
    return first


def _struct(array: pa.Array) -> Column:
    names = [field.name for field in array.type]
    fields = dict(zip(names, array.flatten(), strict=True))
    if names == ["x", "y"]:
        return Points(_flat(fields["x"]), _flat(fields["y"]))
    if names == ["t", "x", "y"]:
        return IPoints(*(_flat(fields[name]) for name in names))
    lists = {name: _list(field) for name, field in fields.items()}
    starts = lists.pop("starts", None)
    rows = _same_rows(array.type.field(0).name, *(offsets for offsets, _ in lists.values()))
    values = [flat for _, flat in lists.values()]
    kinds: dict[tuple[str, ...], Any] = {
        ("begin", "end"): Periods,
        ("begin", "end", "value"): MBools,
        ("begin", "end", "a", "b", "c"): MReals,
        ("t", "x", "y"): MPoints,
        ("x", "y"): Lines,
    }
    return kinds[tuple(lists)](rows, *values, *(starts or ()))


def read(array: pa.Array) -> Column:
    """A column of any of our types as NumPy arrays.

    >>> read(pa.array([{"x": 1.0, "y": 2.0}], types.POINT.arrow)).x
    array([1.])
    """
    if pa.types.is_struct(array.type):
        return _struct(array)
    if pa.types.is_timestamp(array.type) or pa.types.is_boolean(array.type):
        return _flat(array)
    return _flat(array.cast(pa.float64()))


def _written(values: np.ndarray[Any, Any], kind: pa.DataType) -> pa.Array:
    plain = pa.array(values)
    return plain.view(kind) if pa.types.is_timestamp(kind) else plain


def write(value: Column, kind: types.Type, nulls: Bools | None = None) -> pa.Array:
    """NumPy arrays as a column of ``kind``; rows where ``nulls`` holds are null."""
    mask = pa.array(nulls) if nulls is not None and nulls.any() else None
    if not pa.types.is_struct(kind.arrow):
        flat = _written(np.ascontiguousarray(value), kind.arrow)
        return pa.array(flat, mask=nulls) if mask is None else pa.compute.if_else(mask, None, flat)
    fields = list(kind.arrow)
    names = value._fields
    arrays = []
    for field in fields:
        flat = getattr(value, field.name)
        if pa.types.is_list(field.type):
            offsets = value.parts if field.name == "starts" else value.rows
            flat = pa.ListArray.from_arrays(pa.array(offsets), _written(flat, field.type.value_type))
        else:
            flat = _written(flat, field.type)
        arrays.append(flat)
    assert len(names) >= len(fields)
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=mask)


def count(value: Column) -> int:
    """How many rows a column has."""
    rows = getattr(value, "rows", None)
    if rows is not None:
        return len(rows) - 1
    return len(value[0]) if isinstance(value, tuple) else len(value)
