"""Check columns of moving values once, when they are decoded.

Kernels trust the offsets and instants in arrays, so a value that violates the rules of ``types`` would produce a
meaningless result. Every column is checked before a kernel uses it: one pass over memory, no copy.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from slipstream._errors import BadInput
from slipstream._moving.types import LINEAR
from slipstream._tools.numba_tools import Bools, Bytes, Floats, Ints, Longs, compiled

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

#: the faults of a row; 0 is none
NULL_ARRAY, LENGTHS, NULL_VALUE, NO_START, STARTS, NOT_FINITE, TWICE, BACK, ENDS, OVERLAPS = range(1, 11)
INTERPOLATION, NOT_LINEAR = 11, 12

_TEXTS = {
    NULL_ARRAY: "one of its arrays is null",
    LENGTHS: "its arrays have different lengths",
    NULL_VALUE: "null",
    NO_START: "starts does not begin with 0, the first sequence",
    STARTS: "starts does not increase, or exceeds the last vertex",
    NOT_FINITE: "a coordinate is not a finite number",
    TWICE: "the same instant twice",
    BACK: "an instant before the previous one",
    ENDS: "an interval ends before it begins",
    OVERLAPS: "an interval begins before the previous one ends",
    INTERPOLATION: "its interpolation is not linear, step or discrete",
    NOT_LINEAR: "only numbers with a fraction (tfloat) can be linear",
}

_HINTS = {
    "mpoint": "Sort by time, keep one vertex per instant, drop invalid points; `problem(Trip)` describes each row.",
    "value over time": "Sort by time, keep one value per instant; interpolation is linear (tfloat), step or discrete.",
    "line": "Use one finite x and y per vertex, and the index of each part's first vertex in starts.",
    "periods": "Use one begin and end per interval, in time order.",
}


class Faults(NamedTuple):
    """The fault of each row (0: none), and the number of the vertex or interval (0: not a single one)."""

    code: Ints
    place: Ints
    rows: Ints  # offsets of the instants
    t: Longs

    def text(self, row: int) -> str:
        """Describe the fault of a row, with the vertex and its instant if there is one."""
        code, place = int(self.code[row]), int(self.place[row])
        text = f"{self._part(code)} {place}: {_TEXTS[code]}" if place else _TEXTS[code]
        return f"{text}{self._when(row)}." if len(self.t) and code in (NOT_FINITE, TWICE, BACK) else f"{text}."

    @staticmethod
    def _part(code: int) -> str:
        return "interval" if code in (ENDS, OVERLAPS) else "vertex"

    def _when(self, row: int) -> str:
        micros = int(self.t[self.rows[row] + self.place[row] - 1])
        return f", {(EPOCH + timedelta(microseconds=micros)).isoformat()}"

    def raise_first(self, kind: str) -> None:
        """Raise an error for the first row with a fault, if there is one."""
        if self.code.any():
            row = int(np.flatnonzero(self.code)[0])
            where = f"{kind} in row {row + 1} of {len(self.code)}"
            raise BadInput(
                f"{where}: {self.text(row)}", hint=_HINTS.get(kind, _HINTS["periods"]), code="invalid-trajectory"
            )


@compiled
def _vertex_faults(
    rows: Ints, t: Longs, x: Floats, y: Floats, parts: Ints, starts: Ints, timed: bool, code: Ints, place: Ints
) -> None:
    """Find the first fault of each row that has none yet; ``rows`` are the offsets of t, x and y."""
    for row in range(len(code)):
        size, first, last = rows[0, row + 1] - rows[0, row], parts[row], parts[row + 1]
        if code[row] or size == 0 == last - first:
            continue
        if first == last or starts[first] != 0:
            code[row] = NO_START
            continue
        for k in range(first, last):
            begin, end = starts[k], starts[k + 1] if k + 1 < last else size
            if begin >= end or end > size:
                code[row] = STARTS
                break
            good = True
            for i in range(begin, end):
                u, v = x[rows[1, row] + i], y[rows[2, row] + i]
                good &= (u - u == 0.0) & (v - v == 0.0)
            if timed:
                at = rows[0, row]
                good &= begin == 0 or t[at + begin] >= t[at + begin - 1]
                for i in range(begin + 1, end):
                    good &= t[at + i] > t[at + i - 1]
            if not good:
                _name_fault(rows, row, t, x, y, begin, end, code, place)
                break


@compiled
def _name_fault(
    rows: Ints, row: int, t: Longs, x: Floats, y: Floats, begin: int, end: int, code: Ints, place: Ints
) -> None:
    """Record the first invalid vertex of a sequence, and why."""
    for i in range(begin, end):
        u, v = x[rows[1, row] + i], y[rows[2, row] + i]
        step = t[rows[0, row] + i] - t[rows[0, row] + i - 1] if i and len(t) else 1
        if u - u != 0.0 or v - v != 0.0:
            code[row] = NOT_FINITE
        elif step < 0:
            code[row] = BACK
        elif step == 0 and i > begin:
            code[row] = TWICE
        else:
            continue
        place[row] = i + 1
        return


@compiled
def _interval_faults(rows: Ints, begin: Longs, end: Longs, code: Ints, place: Ints) -> None:
    """Find the first fault of each set of intervals; ``rows`` are the offsets of begin and end."""
    for row in range(len(code)):
        if code[row]:
            continue
        b, e = rows[0, row], rows[1, row]
        for i in range(rows[0, row + 1] - b):
            if end[e + i] < begin[b + i]:
                code[row] = ENDS
            elif i and begin[b + i] < end[e + i - 1]:
                code[row] = OVERLAPS
            if code[row]:
                place[row] = i + 1
                break


def _mark(code: Ints, place: Ints, bad: Bools, what: int, where: Ints | int = 0) -> None:
    fresh = bad & (code == 0)
    code[fresh] = what
    place[fresh] = where[fresh] if isinstance(where, np.ndarray) else where


def _mark_nulls(array: pa.Array, valid: Bools, code: Ints, place: Ints) -> None:
    """Mark rows whose list is null or contains a null."""
    if array.null_count:
        _mark(code, place, valid & array.is_null().to_numpy(zero_copy_only=False), NULL_ARRAY)
    if array.values.null_count:
        offsets = array.offsets.to_numpy()
        nulls = np.flatnonzero(array.values.is_null().to_numpy(zero_copy_only=False))
        nulls = nulls[(nulls >= offsets[0]) & (nulls < offsets[-1])]
        rows, firsts = np.unique(np.searchsorted(offsets, nulls, side="right") - 1, return_index=True)
        bad, where = np.zeros(len(code), np.bool_), np.zeros(len(code), np.int32)
        bad[rows], where[rows] = True, nulls[firsts] - offsets[rows] + 1
        _mark(code, place, valid & bad, NULL_VALUE, where)


def _mark_interpolations(valid: Bools, found: Bytes, fractions: bool, code: Ints, place: Ints) -> None:
    _mark(code, place, valid & (found > LINEAR), INTERPOLATION)
    if not fractions:
        _mark(code, place, valid & (found == LINEAR), NOT_LINEAR)


def _coordinates(values: dict[str, Any]) -> tuple[str, str, Any, Any]:
    """Return the names of the fields that must be finite, and their values; what is not a fraction always is."""
    if "value" not in values:
        return "x", "y", values["x"], values["y"]
    value = values["value"]
    if getattr(value, "dtype", None) != np.float64:
        value = np.zeros(len(value))
        value.setflags(write=False)
    return "value", "value", value, value


def faults(
    array: pa.Array, lists: dict[str, pa.Array], values: dict[str, Any], interpolations: Bytes | None = None
) -> Faults:
    """Return the fault of each row of a struct of lists; null rows have none.

    ``lists`` are its fields and ``values`` their flat contents; values over time have an interpolation per row.
    """
    valid = ~array.is_null().to_numpy(zero_copy_only=False) if array.null_count else np.ones(len(array), np.bool_)
    code, place = (np.zeros(len(array), np.int32) for _ in range(2))
    for field in lists.values():
        _mark_nulls(field, valid, code, place)
    offsets = {name: field.offsets.to_numpy() for name, field in lists.items()}
    t = values.get("t", np.empty(0, np.int64))
    first, *others = (found for name, found in offsets.items() if name != "starts")
    for other in others:
        if first is not other and not np.array_equal(first, other):
            _mark(code, place, valid & (np.diff(first) != np.diff(other)), LENGTHS)
    if interpolations is not None:
        fractions = pa.types.is_floating(lists["value"].type.value_type)
        _mark_interpolations(valid, interpolations, fractions, code, place)
    # skip null rows and rows with a known fault
    code[~valid] = -1
    if "starts" in lists:
        across, along, x, y = _coordinates(values)
        rows = np.stack([offsets.get("t", offsets[across]), offsets[across], offsets[along]])
        _vertex_faults(rows, t, x, y, offsets["starts"], values["starts"], "t" in lists, code, place)
    else:
        rows = np.stack([offsets["begin"], offsets["end"]])
        _interval_faults(rows, values["begin"], values["end"], code, place)
    code[~valid] = 0
    return Faults(code, place, first, t)
