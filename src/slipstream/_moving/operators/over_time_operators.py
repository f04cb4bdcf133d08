"""Operators on numbers, booleans and text over time."""

from __future__ import annotations

from typing import Any

import numpy as np

from slipstream._errors import BadArgument
from slipstream._moving import timeline, types
from slipstream._moving.columns import MBools, MReals, Periods, Temporals
from slipstream._moving.kernels import values
from slipstream._moving.operator_registry import Found, Result, finite, for_each_type, operator
from slipstream._tools.numba_tools import Bools, Floats, Longs

_SAME = {kind: kind for kind in types.OVER_TIME}


@for_each_type(types.OVER_TIME)
def _atinstant(moving: Temporals, instant: Longs) -> Result:
    """The value at an instant; null if undefined."""
    return Found(*timeline.values_at(moving, moving.value, instant))


@for_each_type(_SAME)
def _atperiods(moving: Temporals, periods: Periods) -> Result:
    """The value during periods."""
    return values.restrict(moving, periods)


@for_each_type(_SAME)
def _minusperiods(moving: Temporals, periods: Periods) -> Result:
    """The value outside of periods."""
    return values.restrict(moving, timeline.complement(periods))


@for_each_type(_SAME)
def _at(moving: Temporals, value: Any) -> Result:
    """The value over time while it is a given one."""
    return values.restrict(moving, values.when_equal(moving, _as_value(moving, value)))


@for_each_type(_SAME)
def _minus(moving: Temporals, value: Any) -> Result:
    """The value over time while it is not a given one."""
    return values.restrict(moving, timeline.complement(values.when_equal(moving, _as_value(moving, value))))


def _as_value(moving: Temporals, value: Any) -> Any:
    """Return a constant per row that compares with a value over time; refuse one of another type."""
    numbers, of_numbers = isinstance(value, np.ndarray), isinstance(moving.value, np.ndarray)
    truth, of_truth = numbers and value.dtype == np.bool_, of_numbers and moving.value.dtype == np.bool_
    if isinstance(value, tuple) or numbers != of_numbers or truth != of_truth:
        raise BadArgument(
            "The value is of another type than the value over time.",
            hint="Compare numbers with numbers, booleans with booleans and text with text.",
            code="bad-type",
        )
    return _finite(value)


def _finite(value: Any) -> Any:
    """Return a constant per row; refuse numbers that are not finite, with their row."""
    if isinstance(value, np.ndarray) and value.dtype == np.float64 and not np.isfinite(value).all():
        row = int(np.flatnonzero(~np.isfinite(value))[0])
        raise BadArgument(
            f"The number in row {row + 1} of {len(value)} is {value[row]:g}.",
            hint="Pass a finite number.",
            code="out-of-range",
        )
    return value


@operator(types.TFLOAT, low=finite, high=finite)
def _at_between(moving: Temporals, low: Floats, high: Floats) -> Result:
    """A tfloat while it is between two numbers, which are included."""
    return values.restrict(moving, timeline.when_between(_fractions(moving), low, high))


@operator(types.TFLOAT, low=finite, high=finite)
def _minus_between(moving: Temporals, low: Floats, high: Floats) -> Result:
    """A tfloat while it is not between two numbers."""
    between = timeline.when_between(_fractions(moving), low, high)
    return values.restrict(moving, timeline.complement(between))


def _fractions(moving: Temporals) -> Temporals:
    if not isinstance(moving.value, np.ndarray) or moving.value.dtype != np.float64:
        raise BadArgument("This operator requires a tfloat.", hint="Convert with to_tfloat.", code="bad-type")
    return moving


def _other(moving: Temporals, other: Any) -> Any:
    return other if isinstance(other, Temporals) else _as_value(moving, other)


@operator(types.TBOOL)
def _teq(moving: Temporals, other: Any) -> Result:
    """Whether a value over time equals a constant, or another value over time."""
    return values.compare(moving, _other(moving, other), values.when_equal)


@operator(types.TBOOL)
def _tne(moving: Temporals, other: Any) -> Result:
    """Whether a value over time differs from a constant, or from another value over time."""
    return values.negated(values.compare(moving, _other(moving, other), values.when_equal))


def _is_less(moving: Temporals, other: Any) -> Periods:
    return values.when_less(moving, other, or_equal=False)


def _is_at_most(moving: Temporals, other: Any) -> Periods:
    return values.when_less(moving, other, or_equal=True)


@operator(types.TBOOL)
def _tlt(moving: Temporals, other: Any) -> Result:
    """Whether a value over time is less than a constant, or than another value over time."""
    return values.compare(moving, _other(moving, other), _is_less)


@operator(types.TBOOL)
def _tle(moving: Temporals, other: Any) -> Result:
    """Whether a value over time is at most a constant, or another value over time."""
    return values.compare(moving, _other(moving, other), _is_at_most)


@operator(types.TBOOL)
def _tgt(moving: Temporals, other: Any) -> Result:
    """Whether a value over time is greater than a constant, or than another value over time."""
    return values.negated(values.compare(moving, _other(moving, other), _is_at_most))


@operator(types.TBOOL)
def _tge(moving: Temporals, other: Any) -> Result:
    """Whether a value over time is at least a constant, or another value over time."""
    return values.negated(values.compare(moving, _other(moving, other), _is_less))


@operator(types.TBOOL)
def _tnot(moving: Temporals) -> Result:
    """The opposite of a boolean over time."""
    return values.negated(moving)


@operator(types.TBOOL)
def _tand(first: Temporals, second: Temporals) -> Result:
    """Whether both booleans are true, while both are defined."""
    return values.both_true(first, second, np.logical_and)


@operator(types.TBOOL)
def _tor(first: Temporals, second: Temporals) -> Result:
    """Whether at least one of two booleans is true, while both are defined."""
    return values.both_true(first, second, np.logical_or)


@operator(types.PERIODS)
def _when_true(moving: Temporals | MBools) -> Result:
    """When a boolean over time is true."""
    return values.when_true(moving)


@operator(types.BOOL)
def _always(moving: Temporals | MBools) -> Result:
    """Whether a boolean over time is true whenever it is defined; null if it never is."""
    return values.always_true(moving)


@operator(types.TFLOAT)
def _tadd(moving: Temporals, other: Any) -> Result:
    """Numbers over time plus a number, or plus other numbers over time."""
    return values.added(moving, _addend(other), 1.0)


@operator(types.TFLOAT)
def _tsub(moving: Temporals, other: Any) -> Result:
    """Numbers over time minus a number, or minus other numbers over time."""
    return values.added(moving, _addend(other), -1.0)


def _addend(other: Any) -> Any:
    if isinstance(other, np.ndarray) and other.dtype == np.bool_:
        raise BadArgument("A boolean is not a number.", hint="Pass a number.", code="bad-type")
    return _finite(other)


@operator(types.TFLOAT, factor=finite)
def _tmul(moving: Temporals, factor: Floats) -> Result:
    """Numbers over time times a number."""
    return values.scaled(moving, factor)


def _divisor(values: Any) -> Bools:
    """a finite number other than 0"""
    return np.asarray(np.isfinite(values) & (values != 0))


@operator(types.TFLOAT, divisor=_divisor)
def _tdiv(moving: Temporals, divisor: Floats) -> Result:
    """Numbers over time divided by a number other than 0."""
    return values.scaled(moving, 1.0 / divisor)


@operator(types.TFLOAT)
def _derivative(moving: Temporals) -> Result:
    """How fast linear numbers change, per second: a step function."""
    return values.derivatives(moving)


@operator(types.REAL)
def _twavg(moving: Temporals) -> Result:
    """The average of numbers over time, weighted by time; of single instants, their mean; null if empty."""
    return Found(*values.averages(moving))


@operator(types.REAL)
def _integral(moving: Temporals) -> Result:
    """The integral of numbers over time: the number times seconds."""
    return values.integrals(moving)


@operator(types.REAL)
def _min_value(moving: Temporals | MReals) -> Result:
    """The smallest of numbers over time, or of a distance; null if empty."""
    found, value, _ = values.extremes(moving, 1.0)
    return Found(found, value)


@operator(types.REAL)
def _max_value(moving: Temporals | MReals) -> Result:
    """The largest of numbers over time, or of a distance; null if empty."""
    found, value, _ = values.extremes(moving, -1.0)
    return Found(found, value)


@operator(types.INSTANT_TYPE)
def _min_instant(moving: Temporals | MReals) -> Result:
    """The first instant at which numbers over time, or a distance, are smallest."""
    found, _, t = values.extremes(moving, 1.0)
    return Found(found, t)


@operator(types.INSTANT_TYPE)
def _max_instant(moving: Temporals | MReals) -> Result:
    """The first instant at which numbers over time, or a distance, are largest."""
    found, _, t = values.extremes(moving, -1.0)
    return Found(found, t)


@operator(types.TFLOAT)
def _to_tfloat(moving: Temporals | MReals) -> Result:
    """A tint, a tbool (1 and 0) or a distance as tfloat; a distance is linear between its lowest points."""
    return values.to_fractions(moving)


@operator(types.TINT)
def _to_tint(moving: Temporals) -> Result:
    """A tfloat that is a step function, or a tbool, as tint; fractions are cut off."""
    return values.to_integers(moving)


@operator(types.TTEXT)
def _to_ttext(moving: Temporals) -> Result:
    """A tint, a tbool or a tfloat that is a step function, as text."""
    return values.to_texts(moving)
