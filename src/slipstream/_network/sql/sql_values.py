"""Columns of values with Spark's types and semantics: nulls, failures, exact integers and decimals.

``vector`` computes with these. Between boxes a column is one array, in which null is a special value.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from slipstream._network.boxes.windows.window_functions import NULL_INTEGER, nulls
from slipstream._network.flow import LIST
from slipstream._tools.numba_tools import Bools

Array: TypeAlias = npt.NDArray[Any]

LOWEST, HIGHEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
#: the digits of a decimal that Spark represents exactly
_MOST_DIGITS = 38
NONE = np.zeros((), dtype=bool)


class Untranslatable(Exception):
    """An expression that only Spark can compute."""


class SqlType(NamedTuple):
    """A Spark type: the bits of an integer, or the digits and the scale of a decimal."""

    kind: str
    size: int = 0
    scale: int = 0


LONG, INT, DOUBLE, BOOLEAN = SqlType("integer", 64), SqlType("integer", 32), SqlType("float"), SqlType("boolean")
TEXT, NULL = SqlType("text"), SqlType("null")
OF_COLUMN = {"integer": LONG, "float": DOUBLE, "boolean": BOOLEAN, "text": TEXT, LIST: SqlType(LIST)}


class Column(NamedTuple):
    """Values, where they are null, and where computing them failed; arrays of one length, or of none for constants."""

    values: Array
    null: Bools
    bad: Bools


Function: TypeAlias = Callable[[Mapping[str, Column]], Column]


def choose_dtype(kind: str) -> np.dtype[Any]:
    """The dtype of values of a kind; decimals are integers in units of their last digit."""
    return np.dtype({"float": np.float64, "text": object, "boolean": bool}.get(kind, np.int64))


def decode(values: Array) -> Column:
    """Decode a column from its form between boxes, where null is the lowest integer, NaN or None."""
    null = nulls(values)
    if values.dtype.kind != "f" and null.any():
        values = np.where(null, "" if values.dtype == object else 0, values)
    return Column(values, null, NONE)


def encode(column: Column, type_: str, count: int) -> Array:
    """Encode a column for the boxes, where booleans are integers."""
    dtype = np.dtype(np.int64) if type_ == "boolean" else choose_dtype(type_)
    values = np.broadcast_to(column.values, (count,)).astype(dtype, copy=False)
    if not column.null.any():
        return values
    missing: Any = {"float": np.nan, "text": None}.get(type_, NULL_INTEGER)
    return np.where(np.broadcast_to(column.null, (count,)), missing, values).astype(dtype, copy=False)


def wider(a: SqlType, b: SqlType) -> SqlType:
    """The type in which Spark compares or adds values of two types."""
    if b in (a, NULL):
        return a
    if a == NULL:
        return b
    kinds = {a.kind, b.kind}
    if not kinds <= {"integer", "float", "decimal"}:
        raise Untranslatable(f"{a.kind} and {b.kind}")
    if "float" in kinds:
        return DOUBLE
    if kinds == {"integer"}:
        return LONG
    one, two = as_decimal(a), as_decimal(b)
    scale = max(one.scale, two.scale)
    return decimal_type(max(one.size - one.scale, two.size - two.scale) + scale, scale)


def as_decimal(type_: SqlType) -> SqlType:
    """The decimal type that holds a type's numbers."""
    if type_.kind == "integer":
        return SqlType("decimal", 20 if type_.size == 64 else 10, 0)
    return type_


def decimal_type(size: int, scale: int) -> SqlType:
    """A decimal type; larger ones are left to Spark, which rounds them."""
    if size > _MOST_DIGITS:
        raise Untranslatable(f"decimal({size}, {scale})")
    return SqlType("decimal", size, scale)


def convert(wanted: SqlType, have: SqlType, compute: Function) -> Function:
    """Convert a value to a wider type."""
    if have == wanted or (have.kind, wanted.kind) == ("integer", "integer"):
        return compute
    if have == NULL:
        zero: Any = "" if wanted.kind == "text" else 0
        dtype = choose_dtype(wanted.kind)
        return lambda _: Column(np.array(zero, dtype), np.ones((), dtype=bool), NONE)
    if wanted.kind == "float":
        return lambda columns: map_values(compute(columns), lambda values: _to_double(values, have.scale))
    if wanted.kind == "decimal":
        factor = 10 ** (wanted.scale - as_decimal(have).scale)
        return lambda columns: map_values(compute(columns), lambda values: product(values, np.array(factor, object)))
    raise Untranslatable(f"{have.kind} as {wanted.kind}")


def _to_double(values: Array, scale: int) -> Array:
    if values.dtype != object:
        return values.astype(np.float64) / 10.0**scale if scale else values.astype(np.float64)
    return np.array([int(value) / 10**scale for value in values.ravel()], np.float64).reshape(values.shape)


def map_values(column: Column, function: Callable[[Array], Array]) -> Column:
    """Apply a function to the values."""
    return column._replace(values=np.asarray(function(column.values)))


def combine_strict(parts: Sequence[Column], values: Array) -> Column:
    """Null where a part is null; parts after a null are not evaluated, so they cannot fail."""
    null, bad = parts[0].null, parts[0].bad
    for part in parts[1:]:
        bad = bad | (part.bad & ~null)
        null = null | part.null
    return Column(values, null, bad)


def mark_failed(column: Column, where: Bools) -> Column:
    """Mark a column as failed ``where`` it is not null."""
    return column._replace(bad=column.bad | (where & ~column.null))


# --- arithmetic


def product(a: Array, b: Array) -> Array:
    """Products of whole numbers, as wide as they need to be."""
    return _compute_exactly(operator.mul, a, b, _largest(a) * _largest(b))


def total(a: Array, b: Array) -> Array:
    """Sums of whole numbers, as wide as they need to be."""
    return _compute_exactly(operator.add, a, b, _largest(a) + _largest(b))


def difference(a: Array, b: Array) -> Array:
    """Differences of whole numbers, as wide as they need to be."""
    return _compute_exactly(operator.sub, a, b, _largest(a) + _largest(b))


def _compute_exactly(operation: Callable[[Array, Array], Array], a: Array, b: Array, largest: int) -> Array:
    """Compute in 64 bits if nothing can overflow, else in integers of any size."""
    if object in (a.dtype, b.dtype) or largest > HIGHEST:
        return _narrow(operation(a.astype(object), b.astype(object)))
    return np.asarray(operation(a, b))


def _largest(values: Array) -> int:
    """The largest absolute value of integers."""
    return max(abs(int(values.max())), abs(int(values.min()))) if values.size else 0


def _narrow(values: Any) -> Array:
    """Convert integers of any size to 64 bits, if they fit."""
    array = np.asarray(values, object)
    if array.size and (max(array.ravel()) > HIGHEST or min(array.ravel()) < LOWEST):
        return array
    return array.astype(np.int64)


def fit(column: Column, size: int) -> Column:
    """Convert to integers of ``size`` bits; larger ones have failed."""
    low, high = -(1 << (size - 1)), (1 << (size - 1)) - 1
    values = column.values
    if values.dtype != object and size == 64:
        return column
    over = (values > high) | (values < low)
    return mark_failed(column, np.asarray(over, bool))._replace(values=np.where(over, 0, values).astype(np.int64))
