"""Window functions, evaluated for many windows at once.

A window is a range of a table of tuples that is sorted by group and order attribute; overlapping windows share their
tuples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from slipstream._io.formats.decoding import TYPES
from slipstream._network.box_functions import VectorFunction, WindowFunction
from slipstream._network.flow import LIST
from slipstream._network.state.stored import StoredTable
from slipstream._tools.numba_tools import Bools, Longs

Values: TypeAlias = npt.NDArray[Any]

#: a null integer in the kernels; a null float is NaN, a null text None
NULL_INTEGER = np.iinfo(np.int64).min
#: integers no farther apart than this are numbers for places in themselves
_NEAR = 1 << 32


@dataclass(frozen=True)
class Function:
    """A window function bound to the columns of its arguments: an SQL function by name, or a registered one."""

    name: str
    call: str
    arguments: tuple[str, ...]
    user: WindowFunction | VectorFunction | None = None


def nulls(values: Values) -> Bools:
    """Where a column is null.

    >>> nulls(np.array([1.5, np.nan]))
    array([False,  True])
    """
    if values.dtype.kind == "i":
        return np.asarray(values == NULL_INTEGER)
    return np.asarray(pd.isna(values))


def encode_column(values: pa.ChunkedArray, type_: str) -> Values:
    """Encode a column of a file or a table for the boxes."""
    if type_ == "text":
        return np.asarray(values.to_pandas().to_numpy(dtype=object))
    if type_ == "float":
        return np.asarray(values.cast(pa.float64()).to_numpy())
    whole = values.cast(pa.int64())
    return np.asarray((whole.fill_null(NULL_INTEGER) if whole.null_count else whole).to_numpy())


def encode_table(rows: pa.Table, schema: Mapping[str, str]) -> StoredTable:
    """Return sorted rows as boxes see them."""
    return StoredTable({name: encode_column(rows[name], type_) for name, type_ in schema.items()})


#: the Arrow types of the columns of outputs
ARROW_TYPES = {**TYPES, LIST: pa.list_(pa.float64())}


def to_arrow(values: Values, type_: str) -> pa.Array:
    """Convert a column to Arrow, with its nulls; ``encode_column`` converts it back."""
    if type_ == LIST:
        return pa.array(list(values), ARROW_TYPES[LIST])
    return pa.array(values == 1 if type_ == "boolean" else values, TYPES[type_], mask=nulls(values))


def expand(first: Longs, last: Longs) -> tuple[Longs, Longs]:
    """All (row, place) pairs with place in the row's range [first, last).

    >>> [part.tolist() for part in expand(np.array([0, 5]), np.array([2, 6]))]
    [[0, 0, 1], [0, 1, 5]]
    """
    counts = np.maximum(last - first, 0)
    rows = np.repeat(np.arange(first.size), counts)
    offsets = np.arange(rows.size) - np.repeat(np.cumsum(counts) - counts, counts)
    return rows, first[rows] + offsets


@dataclass(frozen=True)
class Windows:
    """Windows of one batch and the arguments of their tuples, as a ``VectorFunction`` gets them.

    Window i holds the tuples ``first[i]`` to ``last[i] - 1`` of ``columns``, in the order of the order attribute, and
    begins at ``at[i]`` on it. ``first`` ascends; windows may overlap.

    >>> windows = Windows((np.array([1, 2, 3]),), np.array([0, 1]), np.array([2, 3]), np.array([10, 20]))
    >>> windows.reduce(np.add, windows.columns[0]).tolist()
    [3, 5]
    """

    columns: tuple[Values, ...]
    first: Longs
    last: Longs
    at: Values

    def __len__(self) -> int:
        return int(self.first.size)

    @cached_property
    def lengths(self) -> Longs:
        """How many tuples each window has."""
        return self.last - self.first

    @staticmethod
    def known(*columns: Values) -> Bools:
        """The tuples of which no value in these columns is null."""
        return np.asarray(~np.logical_or.reduce([nulls(column) for column in columns]))

    def reduce(self, ufunc: np.ufunc, values: Values, empty: Any = 0) -> Values:
        """Reduce the values of each window by a ufunc such as ``np.add``; ``empty`` for a window without tuples."""
        values = values.astype(np.int64) if values.dtype == bool else values
        if not len(self):
            return values[:0]
        # a range is reduced up to the next index, so ranges take every other one; one more value is there to end at
        padded = np.append(values, values[-1:] if values.size else np.zeros(1, values.dtype))
        found = ufunc.reduceat(padded, np.column_stack([self.first, self.last]).ravel())[::2]
        bare = self.lengths == 0
        return np.where(bare, empty, found).astype(values.dtype) if bare.any() else found

    def pairs(self) -> tuple[Longs, Longs]:
        """All (window, tuple) pairs, by their places."""
        return expand(self.first, self.last)

    def sorted_by(self, values: Values) -> tuple[Longs, Longs]:
        """All (window, tuple) pairs whose value is known, by window and value.

        >>> windows = Windows((), np.array([0, 1]), np.array([3, 3]), np.array([0, 1]))
        >>> [part.tolist() for part in windows.sorted_by(np.array([7, 9, 8]))]
        [[0, 0, 0, 1, 1], [0, 2, 1, 2, 1]]
        """
        present = self.known(values)
        least, span, numbers = _factorize(values, present)
        window, place = self.pairs()
        if not present.all():
            window, place = window[present[place]], place[present[place]]
        order = np.argsort(window * span + (numbers[place] - least), kind="stable")
        return window[order], place[order]

    def runs(self, values: Values) -> Longs:
        """Where runs of equal values begin; a run lies in a window wholly, or not at all.

        >>> Windows((), np.array([1]), np.array([3]), np.array([0])).runs(np.array([7, 7, 7, 8])).tolist()
        [0, 1, 3]
        """
        begins = np.zeros(values.size + 1, np.bool_)
        begins[0] = True
        begins[1:-1] = values[1:] != values[:-1]
        begins[self.first] = begins[self.last] = True
        return np.flatnonzero(begins[:-1])

    def over(self, runs: Longs) -> Windows:
        """The same windows with runs instead of tuples."""
        first, last = np.searchsorted(runs, self.first), np.searchsorted(runs, self.last)
        return Windows((), first, last, self.at)


class Sorted:
    """Columns of tuples in another order, in which windows lie."""

    def __init__(self, columns: Mapping[str, Values], order: Longs) -> None:
        self._columns = columns
        self._order = order
        self._sorted: dict[str, Values] = {}

    def at(self, name: str, places: Longs) -> Values:
        """A column at some places of the order."""
        return np.asarray(self._columns[name][self._order[places]])

    def column(self, name: str) -> Values:
        """A whole column in the order."""
        if name not in self._sorted:
            self._sorted[name] = self._columns[name][self._order]
        return self._sorted[name]


def apply(function: Function, rows: Sorted, windows: Windows) -> Values:
    """The function's value for each window."""
    if function.user is not None:
        return _apply_user(function.user, rows, function.arguments, windows)
    if not function.arguments:
        return windows.lengths
    name = function.arguments[0]
    if function.call == "first":
        return rows.at(name, windows.first)
    if function.call == "last":
        return rows.at(name, windows.last - 1)
    values = rows.column(name)
    return _AGGREGATES[function.call](values, ~nulls(values), windows)


def _apply_user(
    user: WindowFunction | VectorFunction, rows: Sorted, arguments: tuple[str, ...], windows: Windows
) -> Values:
    if not len(windows):
        return _make_column([], user.returns)
    columns = tuple(rows.column(name) for name in arguments)
    if isinstance(user, WindowFunction):
        return _fold(user, columns, windows)
    found = user.whole(Windows(columns, windows.first, windows.last, windows.at))
    null = np.ma.getmaskarray(found) if np.ma.isMaskedArray(found) else None
    dtype, missing = _TYPES.get(user.returns, (np.dtype(np.int64), NULL_INTEGER))
    values = np.asarray(np.ma.getdata(found)).astype(dtype)
    return values if null is None else np.where(null, np.array(missing, dtype), values)


_TYPES: dict[str, tuple[np.dtype[Any], Any]] = {
    "float": (np.dtype(np.float64), np.nan),
    "text": (np.dtype(object), None),
}


def _fold(user: WindowFunction, arguments: tuple[Values, ...], windows: Windows) -> Values:
    """The user's triple over each window; nulls reach it as None."""
    columns = [_box_values(values, ~nulls(values)).tolist() for values in arguments]
    results = []
    for start, end, where in zip(windows.first.tolist(), windows.last.tolist(), windows.at.tolist(), strict=True):
        state = user.init(where)
        for i in range(start, end):
            state = user.incr(state, *(column[i] for column in columns))
        results.append(user.final(state))
    return _make_column(results, user.returns)


def _box_values(values: Values, present: Bools) -> Values:
    """Python values, None for null."""
    boxed = values.astype(object)
    boxed[~present] = None
    return boxed


def _make_column(results: list[Any], type_: str) -> Values:
    if type_ == "text":
        return np.array(results, dtype=object)
    if type_ == "float":
        return np.array([np.nan if r is None else r for r in results], dtype=np.float64)
    return np.array([NULL_INTEGER if r is None else int(r) for r in results], dtype=np.int64)


def _count(_: Values, present: Bools, windows: Windows) -> Values:
    return windows.reduce(np.add, present)


def _count_distinct(values: Values, present: Bools, windows: Windows) -> Values:
    least, span, numbers = _factorize(values, present)
    window, place = windows.pairs()
    here = present[place]
    keys = np.sort(window[here] * span + (numbers[place[here]] - least))
    return np.bincount(keys[np.diff(keys, prepend=-1) != 0] // span, minlength=len(windows)).astype(np.int64)


def _factorize(values: Values, present: Bools) -> tuple[int, int, Longs]:
    """Values as integers that are equal where they are: the least, how far they reach, and each."""
    if values.dtype.kind == "i" and present.any():
        known = values[present]
        least, most = int(known.min()), int(known.max())
        if most - least < _NEAR:
            return least, most - least + 1, values
    numbers, distinct = pd.factorize(values)
    return 0, len(distinct) + 1, numbers


def _sum(values: Values, present: Bools, windows: Windows) -> Values:
    total = windows.reduce(np.add, np.where(present, values, 0))
    return _set_null(_count(values, present, windows) == 0, total)


def _average(values: Values, present: Bools, windows: Windows) -> Values:
    total = windows.reduce(np.add, np.where(present, values, 0)).astype(np.float64)
    with np.errstate(invalid="ignore"):
        return np.asarray(total / _count(values, present, windows))


def _compute_stddev(values: Values, present: Bools, windows: Windows) -> Values:
    """The sample deviation, as SQL's: null for a single value."""
    count = _count(values, present, windows)
    window, place = windows.pairs()
    centre = _average(values, present, windows)[window]
    squares = np.where(present[place], (values[place].astype(np.float64) - centre) ** 2, 0.0)
    last = np.cumsum(windows.lengths)
    total = Windows((), last - windows.lengths, last, windows.at).reduce(np.add, squares)
    return np.asarray(np.sqrt(np.where(count > 1, total, np.nan) / np.maximum(count - 1, 1)))


def _make_extreme(ufunc: Any, pick: Callable[[list[Any]], Any]) -> Callable[[Values, Bools, Windows], Values]:
    def extreme(values: Values, present: Bools, windows: Windows) -> Values:
        if values.dtype == object:
            boxed = _box_values(values, present).tolist()
            ranges = zip(windows.first.tolist(), windows.last.tolist(), strict=True)
            found = [[value for value in boxed[first:last] if value is not None] for first, last in ranges]
            return _make_column([pick(part) if part else None for part in found], "text")
        ends: Any = np.iinfo(np.int64) if values.dtype.kind == "i" else np.finfo(np.float64)
        worst = ends.max if ufunc is np.minimum else ends.min
        best = windows.reduce(ufunc, np.where(present, values, worst))
        return _set_null(_count(values, present, windows) == 0, best)

    return extreme


def _set_null(empty: Bools, values: Values) -> Values:
    return np.asarray(np.where(empty, NULL_INTEGER if values.dtype.kind == "i" else np.nan, values), values.dtype)


_AGGREGATES: dict[str, Callable[[Values, Bools, Windows], Values]] = {
    "count": _count,
    "count_distinct": _count_distinct,
    "sum": _sum,
    "avg": _average,
    "min": _make_extreme(np.minimum, min),
    "max": _make_extreme(np.maximum, max),
    "stddev": _compute_stddev,
    "bool_and": _make_extreme(np.minimum, min),
    "bool_or": _make_extreme(np.maximum, max),
}
