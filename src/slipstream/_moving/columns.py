"""Convert Arrow columns of moving values to NumPy arrays and back.

Reading copies nothing: a list column is its offsets and its flat values. All arrays are read-only views, so a kernel
is compiled once, whether its input comes from Arrow or from NumPy. Columns are checked when read (``validity``).
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slipstream._moving import types, validity
from slipstream._moving.types import INTERPOLATIONS
from slipstream._moving.validity import Faults
from slipstream._tools.numba_tools import Bools, Bytes, Floats, Ints, Longs


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


class Temporals(NamedTuple):
    """Values over time: ``value`` is of numbers or booleans, or an Arrow array of text."""

    rows: Ints
    t: Longs
    value: Any
    parts: Ints
    starts: Ints
    interpolation: Bytes  # per row, an index of ``types.INTERPOLATIONS``


class Boxes(NamedTuple):
    """Boxes in space and time; what is unbounded is infinite, or the first or last instant."""

    xmin: Floats
    ymin: Floats
    xmax: Floats
    ymax: Floats
    tmin: Longs
    tmax: Longs


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


#: a column of several arrays
Value = TypeVar("Value", bound=tuple[Any, ...])


def freeze_all(value: Value) -> Value:
    """Return a column that a kernel made as the next kernel takes it: read-only, as if it came from Arrow."""
    arrays = (freeze(array) if isinstance(array, np.ndarray) else array for array in value)
    return type(value)(*arrays)


def _flat(array: pa.Array) -> np.ndarray[Any, Any]:
    if pa.types.is_timestamp(array.type):
        micros = array if array.type.unit == "us" else array.cast(pa.timestamp("us", tz=array.type.tz))
        return freeze(_numbers(micros.view(pa.int64())))
    if pa.types.is_boolean(array.type):
        return freeze(array.fill_null(False).to_numpy(zero_copy_only=False))
    return freeze(_numbers(array))


def _numbers(array: pa.Array) -> np.ndarray[Any, Any]:
    """Return values without copying; nulls become zero, and the row is masked elsewhere."""
    if array.null_count:
        array = array.fill_null(0)
    values: np.ndarray[Any, Any] = array.to_numpy(zero_copy_only=True)
    return values


def element_type(found: pa.Array | pa.DataType) -> pa.DataType | None:
    """Return the type of a value over time at an instant; None for other types."""
    kind = found.type if isinstance(found, pa.Array) else found
    at = kind.get_field_index("value") if pa.types.is_struct(kind) else -1
    return kind.field(at).type.value_type if at >= 0 else None


def _values(array: pa.Array) -> Any:
    """Return flat values as NumPy has them; text stays in Arrow."""
    return array if is_text(array.type) else _flat(array)


def is_text(kind: pa.DataType) -> bool:
    """Return whether a type is text or bytes, which stay in Arrow."""
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(test(kind) for test in tests)


def _same_lengths(fields: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """Give lists of the same lengths the same offsets: in a column assembled from parts, they may differ."""
    first, *others = (field.offsets for name, field in fields.items() if name != "starts")
    if all(other.equals(first) for other in others):
        return fields
    every = pa.array(np.arange(len(first) - 1))
    return {name: field.take(every) for name, field in fields.items()}


def _interpolations(names: pa.Array) -> Bytes:
    """Return the index of each row's interpolation; what is null or unknown has 255."""
    known = pc.index_in(names, value_set=pa.array(INTERPOLATIONS, names.type)).fill_null(255)
    return freeze(known.cast(pa.uint8()).to_numpy(zero_copy_only=False))


#: structs of lists by the names of their fields: the class of their columns, and their display name
_KINDS: dict[tuple[str, ...], tuple[Any, str]] = {
    ("begin", "end"): (Periods, "periods"),
    ("begin", "end", "value"): (MBools, "mbool"),
    ("begin", "end", "a", "b", "c"): (MReals, "mreal"),
    ("t", "x", "y", "starts"): (MPoints, "mpoint"),
    ("t", "value", "starts", "interpolation"): (Temporals, "value over time"),
    ("x", "y", "starts"): (Lines, "line"),
}


def find_class(names: tuple[str, ...]) -> str:
    """Return the class of the columns of a struct, by the names of its fields; nothing if it has none.

    >>> find_class(("begin", "end")), find_class(("x", "y")), find_class(("a", "b"))
    ('Periods', 'Points', '')
    """
    if names in _KINDS:
        return str(_KINDS[names][0].__name__)
    plain: dict[tuple[str, ...], str] = {kind._fields: kind.__name__ for kind in (Points, IPoints, Boxes)}
    return plain.get(names, "")


def _fields(array: pa.Array) -> dict[str, pa.Array]:
    return dict(zip((field.name for field in array.type), array.flatten(), strict=True))


def faults(array: pa.Array) -> Faults:
    """Return what is wrong with each row of a column of moving values, periods, lines or regions."""
    fields = _fields(array)
    names = fields.pop("interpolation", None)
    values = {name: _values(field.values) for name, field in fields.items()}
    return validity.faults(array, fields, values, None if names is None else _interpolations(names))


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
    return array if is_text(array.type) else _flat(array.cast(pa.float64()))


def _struct(array: pa.Array) -> Column:
    fields = _fields(array)
    names = tuple(fields)
    if names == ("x", "y"):
        return Points(_flat(fields["x"]), _flat(fields["y"]))
    if names == ("t", "x", "y"):
        return IPoints(*(_flat(fields[name]) for name in names))
    if names == Boxes._fields:
        return _boxes(fields)
    made, _ = _KINDS[names]
    interpolation = fields.pop("interpolation", None)
    fields = _same_lengths(fields)
    starts = fields.pop("starts", None)
    rows = freeze(next(iter(fields.values())).offsets.to_numpy())
    values = [_values(field.values) for field in fields.values()]
    sequences = () if starts is None else (freeze(starts.offsets.to_numpy()), _flat(starts.values))
    return made(rows, *values, *sequences, *(() if interpolation is None else (_interpolations(interpolation),)))


#: the first and the last instant that Spark's timestamps can hold with room for arithmetic
FIRST, LAST = -(2**62), 2**62
_UNBOUNDED = {"xmin": -np.inf, "ymin": -np.inf, "xmax": np.inf, "ymax": np.inf, "tmin": FIRST, "tmax": LAST}


def _boxes(fields: dict[str, pa.Array]) -> Boxes:
    def edge(name: str) -> Any:
        missing = fields[name].is_null().to_numpy(zero_copy_only=False)
        return freeze(np.where(missing, _UNBOUNDED[name], _flat(fields[name])))

    return Boxes(*(edge(name) for name in Boxes._fields))


def _to_arrow(values: Any, kind: pa.DataType) -> pa.Array:
    if is_text(kind):
        return values
    plain = pa.array(values)
    return plain.view(kind) if pa.types.is_timestamp(kind) else plain


def write(value: Column, kind: types.Type, nulls: Bools | None = None) -> pa.Array:
    """Convert NumPy arrays to a column of ``kind``; rows where ``nulls`` is true are null."""
    mask = pa.array(nulls) if nulls is not None and nulls.any() else None
    if not pa.types.is_struct(kind.arrow):
        if pa.types.is_list(kind.arrow):
            return _write_list(value, kind, mask)
        flat = _to_arrow(value if is_text(kind.arrow) else np.ascontiguousarray(value), kind.arrow)
        return flat if mask is None else pc.if_else(mask, None, flat)
    fields = list(kind.arrow)
    names = value._fields
    arrays = []
    for field in fields:
        flat = getattr(value, field.name)
        if pa.types.is_list(field.type):
            offsets = value.parts if field.name == "starts" else value.rows
            flat = pa.ListArray.from_arrays(pa.array(offsets), _to_arrow(flat, field.type.value_type))
        elif field.name == "interpolation":
            flat = pa.array(INTERPOLATIONS).take(pa.array(flat))
        else:
            flat = _to_arrow(flat, field.type)
        arrays.append(flat)
    assert len(names) >= len(fields)
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=mask)


def gather(first: Longs | Ints, size: Longs | Ints) -> tuple[Ints, Longs]:
    """Return the offsets of parts, one after another, and the places they come from: ``first, first + 1, ...``."""
    rows = np.concatenate(([0], np.cumsum(size))).astype(np.int32)
    return rows, np.arange(rows[-1]) + np.repeat(first - rows[:-1], size)


Sequenced = TypeVar("Sequenced", MPoints, Lines)


def take_rows(value: Sequenced, row: Longs) -> Sequenced:
    """Return some rows of moving points or lines, each possibly several times."""
    rows, places = gather(value.rows[:-1][row], np.diff(value.rows)[row])
    parts, sequences = gather(value.parts[:-1][row], np.diff(value.parts)[row])
    if isinstance(value, Lines):
        return Lines(rows, value.x[places], value.y[places], parts, value.starts[sequences])
    return MPoints(rows, value.t[places], value.x[places], value.y[places], parts, value.starts[sequences])


class Listed(NamedTuple):
    """An array per row: row r has the values ``rows[r]:rows[r+1]``."""

    rows: Ints
    values: Column


def _write_list(value: Listed, kind: types.Type, mask: pa.Array | None) -> pa.Array:
    inner = types.Type(kind.name, "", kind.arrow.value_type)
    return pa.ListArray.from_arrays(pa.array(value.rows), write(value.values, inner), mask=mask)


def count(value: Column) -> int:
    """Return the number of rows of a column."""
    rows = getattr(value, "rows", None)
    if rows is not None:
        return len(rows) - 1
    return len(value[0]) if isinstance(value, tuple) else len(value)
