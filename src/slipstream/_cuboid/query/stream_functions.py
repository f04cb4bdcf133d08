"""Functions over atomic streams (the thesis' atomic temporal functions): one number per key, for many keys at once.

Every value is computed from the current elements, never from the previous value, so nothing drifts however long a
stream runs. NaN means "no value": an element beyond the history, or the correlation of a constant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstream._cuboid.query.access import Ring
from slipstream._errors import BadArgument
from slipstream._tools.numba_tools import Floats, compiled

Values = npt.NDArray[Any]
Counts = npt.NDArray[Any]  # of unsigned 32 or signed 64 bits


@compiled
def take_element(values: Values, counts: Counts, back: int) -> Floats:
    """The element ``back`` before the latest."""
    depth = values.shape[1]
    out = np.full(values.shape[0], np.nan)
    for i in range(out.size):
        if back < min(int(counts[i]), depth):
            out[i] = values[i, (int(counts[i]) - 1 - back) % depth]
    return out


@compiled
def summarise(values: Values, counts: Counts) -> tuple[Floats, Floats, Floats, Floats]:
    """Mean, least and greatest of the elements, and their slope per tick by least squares."""
    size, depth = values.shape
    mean, least, greatest, slope = (
        np.full(size, np.nan),
        np.full(size, np.nan),
        np.full(size, np.nan),
        np.full(size, np.nan),
    )
    for i in range(size):
        held = min(int(counts[i]), depth)
        if not held:
            continue
        first = float(values[i, (int(counts[i]) - 1) % depth])
        total, low, high, moment = 0.0, first, first, 0.0
        for back in range(held):
            value = float(values[i, (int(counts[i]) - 1 - back) % depth])
            # differences from the latest element keep precision when values are large and similar
            total += value - first
            moment += (value - first) * ((held - 1) / 2 - back)
            low, high = min(low, value), max(high, value)
        mean[i], least[i], greatest[i] = first + total / held, low, high
        if held > 1:
            slope[i] = moment * 12.0 / (held * (held * held - 1.0))
    return mean, least, greatest, slope


@compiled
def correlate(values: Values, counts: Counts, others: Values, other_counts: Counts, whole: bool) -> Floats:
    """Pearson's r of each stream with another: of the same row, or of the only row there is, a pattern.

    It uses the latest elements that both have; with ``whole``, only if the stream has as many as the other's depth. A
    constant has no r.
    """
    size, depth, other_depth = values.shape[0], values.shape[1], others.shape[1]
    out = np.full(size, np.nan)
    for i in range(size):
        j = i if others.shape[0] == size else 0
        held = min(int(counts[i]), depth, int(other_counts[j]), other_depth)
        if held < 2 or (whole and held < other_depth):
            continue
        x_last, y_last = (int(counts[i]) - 1) % depth, (int(other_counts[j]) - 1) % other_depth
        x_base, y_base = float(values[i, x_last]), float(others[j, y_last])
        x_mean, y_mean, x_varies, y_varies = 0.0, 0.0, False, False
        for back in range(held):
            x, y = values[i, (x_last - back) % depth] - x_base, others[j, (y_last - back) % other_depth] - y_base
            x_varies, y_varies = x_varies or x != 0.0, y_varies or y != 0.0
            x_mean += x
            y_mean += y
        if not (x_varies and y_varies):
            continue
        x_mean, y_mean, xx, yy, xy = x_mean / held, y_mean / held, 0.0, 0.0, 0.0
        for back in range(held):
            x = values[i, (x_last - back) % depth] - x_base - x_mean
            y = others[j, (y_last - back) % other_depth] - y_base - y_mean
            xx += x * x
            yy += y * y
            xy += x * y
        if xx > 0.0 and yy > 0.0:
            out[i] = max(-1.0, min(1.0, xy / (np.sqrt(xx) * np.sqrt(yy))))
    return out


@dataclass(frozen=True)
class Pattern:
    """A stored atomic stream to compare with, the oldest element first."""

    name: str
    values: tuple[float, ...]

    @property
    def ring(self) -> Ring:
        """The pattern as a ring, for kernels."""
        return Ring(np.array([self.values]), np.array([len(self.values)], np.uint32))


def correlation(ring: Ring, other: Ring | Pattern) -> Floats:
    """Pearson's r with a pattern, over its length, or with another stream of the same keys."""
    if isinstance(other, Pattern):
        return correlate(*ring, *other.ring, True)
    return correlate(*ring, *other, False)


def _compute_delta(ring: Ring, back: float = 1) -> Floats:
    """The difference between the latest element and the one ``back`` before it; NaN if that is not kept."""
    depth = ring.values.shape[1]
    return np.asarray(
        _take_last(ring) - take_element(ring.values, ring.counts, int(back) if 0 <= back < depth else depth)
    )


def _count(ring: Ring) -> Floats:
    return np.asarray(np.minimum(ring.counts, ring.values.shape[1]), dtype=np.float64)


def _count_ticks(ring: Ring) -> Floats:
    return np.asarray(ring.counts, dtype=np.float64)


def _take_last(ring: Ring) -> Floats:
    return take_element(ring.values, ring.counts, 0)


#: by name; arguments are rings for atomic streams, patterns, and numbers
BUILT_IN: dict[str, Callable[..., Floats]] = {
    "avg": lambda ring: summarise(*ring)[0],
    "min": lambda ring: summarise(*ring)[1],
    "max": lambda ring: summarise(*ring)[2],
    "slope": lambda ring: summarise(*ring)[3],
    "last": _take_last,
    "delta": _compute_delta,
    "count": _count,
    "ticks": _count_ticks,
    "correlation": correlation,
    "correlation_function": correlation,
    "corr": correlation,
}

#: users' functions, by name
_ADDED: dict[str, Callable[..., Any]] = {}


def atomic(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add a function over atomic streams to Streamonas-SQL.

    It gets each stream as a table with a row per key, the latest element first, NaN where there is none; numbers as
    they are; patterns as one row. It returns a number per key.

    >>> @atomic("spread")
    ... def spread(values):
    ...     return np.nanmax(values, axis=1) - np.nanmin(values, axis=1)
    >>> call("spread", [Ring(np.array([[1.0, 5.0, 2.0]]), np.array([3], np.uint32))])
    array([4.])
    >>> del _ADDED["spread"]
    """
    if name.lower() in BUILT_IN:
        raise BadArgument(f"'{name}' is a built-in function.", hint="Choose another name.", code="duplicate-name")

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        _ADDED[name.lower()] = function
        return function

    return add


def list_user_functions() -> dict[str, Callable[..., Any]]:
    """The users' functions, which are sent with a query."""
    return dict(_ADDED)


def add_functions(functions: dict[str, Callable[..., Any]]) -> None:
    """Add functions from another process."""
    _ADDED.update(functions)


def list_function_names() -> list[str]:
    """The names of all functions."""
    return [*BUILT_IN, *_ADDED]


def call(name: str, arguments: list[Any], more: dict[str, Callable[..., Any]] | None = None) -> Floats:
    """Call a function by its name."""
    if name in BUILT_IN:
        return BUILT_IN[name](*arguments)
    function = (more or _ADDED)[name]
    given = np.asarray(function(*map(_stack_columns, arguments)), dtype=np.float64)
    size = arguments[0].values.shape[0]
    if given.shape != (size,):
        raise BadArgument(
            f"{name}: returned the shape {given.shape}, not a number for each of {size} keys.", code="user-code"
        )
    return given


def _stack_columns(argument: Any) -> Any:
    if isinstance(argument, Pattern):
        return np.array(argument.values[::-1])
    if not isinstance(argument, Ring):
        return argument
    return np.stack(
        [take_element(argument.values, argument.counts, back) for back in range(argument.values.shape[1])], axis=1
    )
