"""Operators: what each is called, what it returns, and the kernel that computes it.

An operator takes whole Arrow columns. It is null where an argument is null or the result is undefined, and refuses
invalid values with the row that has one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numba.core.errors import NumbaError

from slipstream._errors import BadArgument
from slipstream._moving import columns, types
from slipstream._tools.numba_tools import Bools

#: the result of a kernel: a column, or a ``Found``
Result = Any


@dataclass(frozen=True)
class Found:
    """A result that is undefined in some rows."""

    found: Bools
    value: Any


@dataclass(frozen=True)
class SqlOperator:
    """One operator: its SQL name, its result type, and the kernel that computes it."""

    name: str
    returns: types.Type
    compute: Callable[..., Result]
    limits: dict[str, Callable[[Any], Bools]] = field(default_factory=dict)
    takes: types.Type | None = None  # the only type of its first argument, if its name says so

    @property
    def parameters(self) -> tuple[inspect.Parameter, ...]:
        """The parameters of its kernel."""
        return tuple(inspect.signature(self.compute).parameters.values())

    @property
    def arity(self) -> int:
        """The number of arguments."""
        return len(self.parameters)

    def __call__(self, *arrays: pa.Array) -> pa.Array:
        """Apply it to Arrow columns: null if an argument is null or the operator is undefined.

        A point without two finite coordinates counts as null; any other invalid value is rejected, and the error names
        the row.
        """
        for array in arrays:
            columns.check(array)
        return self.apply_unchecked(*arrays)

    def apply_unchecked(self, *arrays: pa.Array) -> pa.Array:
        """Apply it to columns that were checked before."""
        nulls = null_rows(*arrays)
        if nulls.all():
            return pa.nulls(len(nulls), self.returns.arrow)
        result = self._call_kernel(arrays, nulls)
        if isinstance(result, Found):
            nulls |= ~result.found
            result = result.value
        return columns.write(result, self.returns, nulls)

    def _call_kernel(self, arrays: tuple[pa.Array, ...], nulls: Bools) -> Result:
        if self.takes is not None and columns.element_type(arrays[0]) != columns.element_type(self.takes.arrow):
            raise self._no_such(arrays)
        try:
            values = [columns.read_unchecked(array) for array in arrays]
            values = [self._within(p.name, value, nulls) for p, value in zip(self.parameters, values, strict=True)]
            return self.compute(*values)
        except (NumbaError, AttributeError, KeyError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise self._no_such(arrays) from error

    def _no_such(self, arrays: tuple[pa.Array, ...]) -> BadArgument:
        got = ", ".join(str(array.type) for array in arrays)
        expected = [str(p.annotation) for p in self.parameters]
        return BadArgument(
            f"{self.name}({got}): no such operator.",
            hint=f"{self.name} requires ({', '.join(expected)}).",
            code="bad-type",
        )

    def _within(self, name: str, value: Any, nulls: Bools) -> Any:
        """Refuse a number outside its limits; replace it in rows without a result."""
        if name not in self.limits:
            return value
        if not isinstance(value, np.ndarray) or value.dtype != np.float64:
            raise BadArgument(f"{self.name}: {name} is not a number.", hint="Pass a number.", code="bad-type")
        bad = ~self.limits[name](value) & ~nulls
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise BadArgument(
                f"{self.name}: {name} is {value[row]:g} in row {row + 1} of {len(bad)}.",
                hint=f"{name} must be {self.limits[name].__doc__}.",
                code="out-of-range",
            )
        return columns.freeze(np.where(nulls, 1.0, value))


def positive(values: Any) -> Bools:
    """a number greater than 0"""
    return np.asarray(np.isfinite(values) & (values > 0))


def not_negative(values: Any) -> Bools:
    """0 or a number greater than 0"""
    return np.asarray(np.isfinite(values) & (values >= 0))


def finite(values: Any) -> Bools:
    """a finite number"""
    return np.asarray(np.isfinite(values))


def null_rows(*arrays: pa.Array) -> Bools:
    """Return the rows in which an argument is null."""
    nulls = np.zeros(len(arrays[0]), dtype=np.bool_)
    for array in arrays:
        if (missing := columns.is_missing(array)) is not None:
            nulls |= missing
    return nulls


#: all operators on columns, in the order of their definition
FUNCTIONS: list[SqlOperator] = []


def operator(
    returns: types.Type, **limits: Callable[[Any], Bools]
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Register a kernel as an operator of its name, with limits to its numbers."""

    def keep(compute: Callable[..., Result]) -> Callable[..., Result]:
        FUNCTIONS.append(SqlOperator(compute.__name__.removeprefix("_"), returns, compute, limits))
        return compute

    return keep


def for_each_type(
    kinds: dict[types.Type, types.Type],
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Register a kernel once per type of its argument, with the type of its result: ``NAME_tfloat`` and so on."""

    def keep(compute: Callable[..., Result]) -> Callable[..., Result]:
        name = compute.__name__.removeprefix("_")
        for kind, returns in kinds.items():
            FUNCTIONS.append(SqlOperator(f"{name}_{kind.name}", returns, compute, takes=kind))
        return compute

    return keep
