"""What a window function gives for many windows at once.

Windows are runs of places in a table of tuples: ``place`` lists the tuples of all windows one after the other, each
window in its own order, ``cuts`` says where each window begins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from slipstream.kernels import Bools, Longs
from slipstream.network.functions import WindowFunction

Values: TypeAlias = npt.NDArray[Any]

#: how a null integer travels through the kernels; a null float is NaN, a null text None
NULL_INTEGER = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Function:
    """A window function bound to the columns of its arguments: SQL's by name, the user's by its triple."""

    name: str
    call: str
    arguments: tuple[str, ...]
    user: WindowFunction | None = None


def nulls(values: Values) -> Bools:
    """Where a column is null."""
    if values.dtype.kind == "i":
        return np.asarray(values == NULL_INTEGER)
    return np.asarray(pd.isna(values))


def encoded(values: pa.ChunkedArray, type_: str) -> Values:
    """A column of a file or a table as it travels between boxes."""
    if type_ == "text":
        return np.asarray(values.to_pandas().to_numpy(dtype=object))
    if type_ == "float":
        return np.asarray(values.cast(pa.float64()).to_numpy())
    return np.asarray(values.cast(pa.int64()).fill_null(NULL_INTEGER).to_numpy())


def apply(function: Function, rows: pd.DataFrame, place: Longs, cuts: Longs, at: Values) -> Values:
    """The function's value for each window; ``at`` is each window's position on the order attribute."""
    arguments = [rows[name].to_numpy()[place] for name in function.arguments]
    if function.user:
        return _folded(function.user, arguments, place.size, cuts, at)
    if not arguments:
        return _lengths(place.size, cuts)
    values = arguments[0]
    if not cuts.size:
        return _DTYPES.get(function.call, values)[:0]
    return _AGGREGATES[function.call](values, ~nulls(values), cuts)


def _lengths(total: int, cuts: Longs) -> Longs:
    return np.asarray(np.diff(np.r_[cuts, total]), dtype=np.int64)


def _folded(user: WindowFunction, arguments: list[Values], total: int, cuts: Longs, at: Values) -> Values:
    """The user's triple over each window; nulls reach it as None."""
    columns = [_boxed(values, ~nulls(values)).tolist() for values in arguments]
    results = []
    for start, length, where in zip(cuts.tolist(), _lengths(total, cuts).tolist(), at.tolist(), strict=True):
        state = user.init(where)
        for i in range(start, start + length):
            state = user.incr(state, *(column[i] for column in columns))
        results.append(user.final(state))
    return _column(results, user.returns)


def _boxed(values: Values, present: Bools) -> Values:
    """Python values, None for null."""
    boxed = values.astype(object)
    boxed[~present] = None
    return boxed


def _column(results: list[Any], type_: str) -> Values:
    if type_ == "text":
        return np.array(results, dtype=object)
    if type_ == "float":
        return np.array([np.nan if r is None else r for r in results], dtype=np.float64)
    return np.array([NULL_INTEGER if r is None else int(r) for r in results], dtype=np.int64)


def _count(_: Values, present: Bools, cuts: Longs) -> Values:
    return np.add.reduceat(present.astype(np.int64), cuts)


def _count_distinct(values: Values, present: Bools, cuts: Longs) -> Values:
    window = np.repeat(np.arange(cuts.size), _lengths(values.size, cuts))
    pairs = pd.DataFrame({"window": window[present], "value": values[present]}).drop_duplicates()
    return np.bincount(pairs["window"].to_numpy(), minlength=cuts.size).astype(np.int64)


def _sum(values: Values, present: Bools, cuts: Longs) -> Values:
    total = np.add.reduceat(np.where(present, values, 0), cuts)
    return _null_where(_count(values, present, cuts) == 0, total)


def _avg(values: Values, present: Bools, cuts: Longs) -> Values:
    total = np.add.reduceat(np.where(present, values, 0), cuts).astype(np.float64)
    with np.errstate(invalid="ignore"):
        return np.asarray(total / _count(values, present, cuts))


def _stddev(values: Values, present: Bools, cuts: Longs) -> Values:
    """The sample deviation, as SQL's: null for a single value."""
    count = _count(values, present, cuts)
    centre = np.repeat(_avg(values, present, cuts), _lengths(values.size, cuts))
    squares = np.add.reduceat(np.where(present, (values.astype(np.float64) - centre) ** 2, 0.0), cuts)
    return np.asarray(np.sqrt(np.where(count > 1, squares, np.nan) / np.maximum(count - 1, 1)))


def _extreme(ufunc: Any, pick: Callable[[list[Any]], Any]) -> Callable[[Values, Bools, Longs], Values]:
    def extreme(values: Values, present: Bools, cuts: Longs) -> Values:
        if values.dtype == object:
            parts = np.split(_boxed(values, present), cuts[1:])
            found = [[value for value in part if value is not None] for part in parts]
            return np.array([pick(part) if part else None for part in found], dtype=object)
        ends: Any = np.iinfo(np.int64) if values.dtype.kind == "i" else np.finfo(np.float64)
        worst = ends.max if ufunc is np.minimum else ends.min
        best = ufunc.reduceat(np.where(present, values, worst), cuts)
        return _null_where(_count(values, present, cuts) == 0, best)

    return extreme


def _null_where(empty: Bools, values: Values) -> Values:
    return np.asarray(np.where(empty, NULL_INTEGER if values.dtype.kind == "i" else np.nan, values), values.dtype)


def _first(values: Values, _: Bools, cuts: Longs) -> Values:
    return values[cuts]


def _last(values: Values, _: Bools, cuts: Longs) -> Values:
    return np.asarray(values[np.r_[cuts[1:], values.size] - 1])


_AGGREGATES: dict[str, Callable[[Values, Bools, Longs], Values]] = {
    "count": _count,
    "count_distinct": _count_distinct,
    "sum": _sum,
    "avg": _avg,
    "min": _extreme(np.minimum, min),
    "max": _extreme(np.maximum, max),
    "first": _first,
    "last": _last,
    "stddev": _stddev,
    "bool_and": _extreme(np.minimum, min),
    "bool_or": _extreme(np.maximum, max),
}
_FLOATS, _INTEGERS = np.zeros(0), np.zeros(0, dtype=np.int64)
#: what an aggregate of no windows looks like, where its type is not its argument's
_DTYPES: dict[str, Values] = {"avg": _FLOATS, "stddev": _FLOATS, "count": _INTEGERS, "count_distinct": _INTEGERS}
