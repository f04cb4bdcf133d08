"""Convert Arrow columns of moving values to NumPy arrays and back.

Reading copies nothing: a list column is its offsets and its flat values. All arrays are read-only views, so a kernel
is compiled once, whether its input comes from Arrow or from NumPy. Columns are checked when read (``validity``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from slipstream._moving import types, validity
from slipstream._moving.validity import Faults
from slipstream._tools.numba_tools import Bools, Floats, Ints, Longs


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
    """Points in the plane."""

    x: Floats
    y: Floats


class IPoints(NamedTuple):
    """Points at instants."""

    t: Longs
    x: Floats
    y: Floats


Column = Any


def freeze(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a read-only view, as Arrow returns and kernels are compiled for."""
    view = array.view()
    view.setflags(write=False)
    return view


def freeze_all(value: Any) -> Any:
    """Make the output of one kernel read-only for the next, as if it came from Arrow."""
    return type(value)(*map(freeze, value))


def _flat(array: pa.Array) -> np.ndarray[Any, Any]:
    if pa.types.is_timestamp(array.type):
        micros = array if array.type.unit == "us" else array.cast(pa.timestamp("us", tz=array.type.tz))
        return freeze(_numbers(micros.view(pa.int64())))
    if pa.types.is_boolean(array.type):
        return freeze(array.to_numpy(zero_copy_only=False))
    return freeze(_numbers(array))


def _numbers(array: pa.Array) -> np.ndarray[Any, Any]:
    """Return values without copying; nulls become zero, and the row is masked elsewhere."""
    if array.null_count:
        array = array.fill_null(0)
    values: np.ndarray[Any, Any] = array.to_numpy(zero_copy_only=True)
    return values


def _same_lengths(fields: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """Give lists of the same lengths the same offsets: in a column assembled from parts, they may differ."""
    first, *others = (field.offsets for name, field in fields.items() if name != "starts")
    if all(other.equals(first) for other in others):
        return fields
    every = pa.array(np.arange(len(first) - 1))
    return {name: field.take(every) for name, field in fields.items()}


#: structs of lists by the names of their fields: the class of their columns, and their display name
_KINDS: dict[tuple[str, ...], tuple[Any, str]] = {
    ("begin", "end"): (Periods, "periods"),
    ("begin", "end", "value"): (MBools, "mbool"),
    ("begin", "end", "a", "b", "c"): (MReals, "mreal"),
    ("t", "x", "y", "starts"): (MPoints, "mpoint"),
    ("x", "y", "starts"): (Lines, "line"),
}


def _fields(array: pa.Array) -> dict[str, pa.Array]:
    return dict(zip((field.name for field in array.type), array.flatten(), strict=True))


def faults(array: pa.Array) -> Faults:
    """Return what is wrong with each row of a column of moving values, periods, lines or regions."""
    fields = _fields(array)
    return validity.faults(array, fields, {name: _flat(field.values) for name, field in fields.items()})


def check(array: pa.Array) -> None:
    """Reject a column with an invalid value; the error names the row."""
    if not pa.types.is_struct(array.type) or (kind := _KINDS.get(tuple(f.name for f in array.type))) is None:
        return
    faults(array).raise_first(kind[1])


def is_missing(array: pa.Array) -> Bools | None:
    """Return which rows are null, or a point without two finite coordinates; None if there are no such rows."""
    missing = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    if pa.types.is_struct(array.type) and pa.types.is_floating(array.type.field(array.type.num_fields - 1).type):
        for field in array.flatten():
            lost = field.is_null().to_numpy(zero_copy_only=False)
            if pa.types.is_floating(field.type):
                lost = lost | ~np.isfinite(_flat(field))
            missing = lost if missing is None else missing | lost
    return missing


def read(array: pa.Array) -> Column:
    """Read a column of any of our types as NumPy arrays; reject invalid values.

    >>> read(pa.array([{"x": 1.0, "y": 2.0}], types.POINT.arrow)).x
    array([1.])
    """
    check(array)
    return read_unchecked(array)


def read_unchecked(array: pa.Array) -> Column:
    """Read a column that was checked before."""
    if pa.types.is_struct(array.type):
        return _struct(array)
    if pa.types.is_timestamp(array.type) or pa.types.is_boolean(array.type):
        return _flat(array)
    return _flat(array.cast(pa.float64()))


def _struct(array: pa.Array) -> Column:
    fields = _fields(array)
    names = tuple(fields)
    if names == ("x", "y"):
        return Points(_flat(fields["x"]), _flat(fields["y"]))
    if names == ("t", "x", "y"):
        return IPoints(*(_flat(fields[name]) for name in names))
    made, _ = _KINDS[names]
    fields = _same_lengths(fields)
    starts = fields.pop("starts", None)
    rows = freeze(next(iter(fields.values())).offsets.to_numpy())
    values = [_flat(field.values) for field in fields.values()]
    sequences = () if starts is None else (freeze(starts.offsets.to_numpy()), _flat(starts.values))
    return made(rows, *values, *sequences)


def _to_arrow(values: np.ndarray[Any, Any], kind: pa.DataType) -> pa.Array:
    plain = pa.array(values)
    return plain.view(kind) if pa.types.is_timestamp(kind) else plain


def write(value: Column, kind: types.Type, nulls: Bools | None = None) -> pa.Array:
    """Convert NumPy arrays to a column of ``kind``; rows where ``nulls`` is true are null."""
    mask = pa.array(nulls) if nulls is not None and nulls.any() else None
    if not pa.types.is_struct(kind.arrow):
        flat = _to_arrow(np.ascontiguousarray(value), kind.arrow)
        return pa.array(flat, mask=nulls) if mask is None else pa.compute.if_else(mask, None, flat)
    fields = list(kind.arrow)
    names = value._fields
    arrays = []
    for field in fields:
        flat = getattr(value, field.name)
        if pa.types.is_list(field.type):
            offsets = value.parts if field.name == "starts" else value.rows
            flat = pa.ListArray.from_arrays(pa.array(offsets), _to_arrow(flat, field.type.value_type))
        else:
            flat = _to_arrow(flat, field.type)
        arrays.append(flat)
    assert len(names) >= len(fields)
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=mask)


def count(value: Column) -> int:
    """Return the number of rows of a column."""
    rows = getattr(value, "rows", None)
    if rows is not None:
        return len(rows) - 1
    return len(value[0]) if isinstance(value, tuple) else len(value)
