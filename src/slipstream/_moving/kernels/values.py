"""Numbers, booleans and text over time: averages, extremes, comparison, arithmetic, conversion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slipstream._errors import BadArgument
from slipstream._moving import timeline
from slipstream._moving.columns import MBools, MReals, Periods, Temporals, freeze, freeze_all
from slipstream._moving.operator_registry import Found
from slipstream._moving.timeline import Timeline, Vertices, carry, row_sums
from slipstream._moving.types import DISCRETE, LINEAR, MICROS, STEP
from slipstream._tools.numba_tools import Bools, Bytes, Floats, Longs


def own(moving: Temporals) -> Temporals:
    """Return a value without what its arrays hold beyond its rows, as slices of Arrow columns do."""
    inner, sequences = slice(moving.rows[0], moving.rows[-1]), slice(moving.parts[0], moving.parts[-1])
    rows, parts = (moving.rows - moving.rows[0]).astype(np.int32), (moving.parts - moving.parts[0]).astype(np.int32)
    flat = moving.value[inner]
    return Temporals(rows, moving.t[inner], flat, parts, moving.starts[sequences], moving.interpolation)


def per_vertex(moving: Temporals, value: Any) -> Any:
    """Return the value that belongs to the row of each vertex."""
    return timeline.take(value, np.repeat(np.arange(len(moving.rows) - 1), np.diff(moving.rows)))


def on_line(line: Timeline, value: Any, kinds: Bytes) -> Temporals:
    """Return values on a timeline."""
    return Temporals(line.rows, line.t, value, line.parts, line.starts, kinds)


# ---- restriction


def restrict(moving: Temporals, periods: Periods) -> Temporals:
    """Return a value during periods."""
    line, source = timeline.cut_out(moving, periods)
    return on_line(line, carry(line, source, moving, moving.value), moving.interpolation)


def _equals(left: Any, right: Any) -> Bools:
    if isinstance(left, np.ndarray):
        return np.asarray(left == right)
    return np.asarray(pc.equal(left, right).fill_null(False).to_numpy(zero_copy_only=False), np.bool_)


def when_equal(moving: Temporals, value: Any) -> Periods:
    """Return when a value is a given one."""
    if _is_number(moving) and moving.value.dtype == np.float64:
        return timeline.when_between(moving, value, value)
    mine = own(moving)
    return timeline.when(mine, mine.interpolation, _equals(mine.value, per_vertex(mine, value)))


def _is_number(moving: Temporals) -> bool:
    return isinstance(moving.value, np.ndarray) and moving.value.dtype != np.bool_


# ---- comparison


def _less(left: Any, right: Any) -> Bools:
    if isinstance(left, np.ndarray):
        return np.asarray(left < right)
    return np.asarray(pc.less(left, right).fill_null(False).to_numpy(zero_copy_only=False), np.bool_)


def when_less(moving: Temporals, value: Any, *, or_equal: bool) -> Periods:
    """Return when a value is less than a given one."""
    if _is_number(moving) and moving.value.dtype == np.float64:
        nothing = np.full(len(moving.rows) - 1, np.inf)
        if or_equal:
            return timeline.when_between(moving, -nothing, value)
        return timeline.complement(timeline.when_between(moving, value, nothing))
    mine = own(moving)
    limit = per_vertex(mine, value)
    chosen = _less(mine.value, limit) | (_equals(mine.value, limit) if or_equal else False)
    return timeline.when(mine, mine.interpolation, chosen)


def truths(moving: Temporals, periods: Periods) -> Temporals:
    """Return a truth over time: whether the instant is in the periods, while the value is defined."""
    kinds = moving.interpolation
    line, truth = timeline.indicate(timeline.timeline(moving), kinds, freeze_all(periods))
    return on_line(line, truth, np.minimum(kinds, STEP))


def compare(moving: Temporals, other: Any, holds: Callable[[Temporals, Any], Periods]) -> Temporals:
    """Compare a value with a constant per row, or with another value over time."""
    if isinstance(other, Temporals):
        moving, other = _difference(moving, other)
    return truths(moving, holds(moving, other))


def _difference(a: Temporals, b: Temporals) -> tuple[Temporals, Any]:
    """Return a value that compares with a constant as ``a`` compares with ``b``."""
    if _is_number(a) and _is_number(b):
        return freeze_all(added(a, b, -1.0)), freeze(np.zeros(len(a.rows) - 1))
    line, mine, theirs = _both(a, b)
    sign = np.where(_less(mine, theirs), -1.0, np.where(_equals(mine, theirs), 0.0, 1.0))
    return freeze_all(on_line(line, sign, np.minimum(_kinds(a, b), STEP))), freeze(np.zeros(len(a.rows) - 1))


def _both(a: Temporals, b: Temporals) -> tuple[Timeline, Any, Any]:
    line, first, second = timeline.meet(a, b)
    return line, carry(line, first, a, a.value), carry(line, second, b, b.value)


def _kinds(a: Temporals, b: Temporals) -> Bytes:
    """Return how the result of two values interpolates: linear if one does, discrete if one is."""
    least, most = np.minimum(a.interpolation, b.interpolation), np.maximum(a.interpolation, b.interpolation)
    return np.asarray(np.where(least == DISCRETE, least, most), np.uint8)


def both_true(a: Temporals, b: Temporals, combine: np.ufunc) -> Temporals:
    """Combine two truths over time."""
    _require_truth(a, b)
    line, mine, theirs = _both(a, b)
    return on_line(line, combine(mine, theirs), _kinds(a, b))


def negated(moving: Temporals) -> Temporals:
    """Return the opposite truth."""
    _require_truth(moving)
    return moving._replace(value=~moving.value)


def _require_truth(*moving: Temporals) -> None:
    if any(not isinstance(one.value, np.ndarray) or one.value.dtype != np.bool_ for one in moving):
        raise BadArgument("This operator requires booleans over time.", hint="Pass tbool values.", code="bad-type")


def require_numbers(moving: Temporals, name: str) -> None:
    """Reject booleans and text."""
    if not _is_number(moving):
        raise BadArgument(f"{name} requires numbers over time.", hint="Pass a tfloat or a tint.", code="bad-type")


def when_true(moving: Temporals | MBools) -> Periods:
    """Return when a truth holds."""
    if isinstance(moving, MBools):
        row = np.repeat(np.arange(len(moving.rows) - 1), np.diff(moving.rows))
        inner = slice(moving.rows[0], moving.rows[-1])
        kept = moving.value[inner]
        begin, end = moving.begin[inner][kept], moving.end[inner][kept]
        return timeline.merged(row[kept], begin, end, len(moving.rows) - 1)
    _require_truth(moving)
    return timeline.when(moving, moving.interpolation, moving.value[moving.rows[0] : moving.rows[-1]])


def always_true(moving: Temporals | MBools) -> Found:
    """Return whether a truth holds whenever it is defined; undefined if it never is."""
    if isinstance(moving, Temporals):
        _require_truth(moving)
    row = np.repeat(np.arange(len(moving.rows) - 1), np.diff(moving.rows))
    n = len(moving.rows) - 1
    wrong = np.bincount(row[~moving.value[moving.rows[0] : moving.rows[-1]]], minlength=n)
    return Found(np.diff(moving.rows) > 0, wrong == 0)


# ---- arithmetic


def added(a: Temporals, b: Any, sign: float) -> Temporals:
    """Return ``a + sign b``; b is a number per row, or numbers over time."""
    if isinstance(b, Temporals):
        line, mine, theirs = _both(_in_fractions(a), _in_fractions(b))
        kinds = _kinds(a, b)
        _require_one_interpolation(a, b, kinds)
        return on_line(line, mine + sign * theirs, kinds)
    mine = _in_fractions(own(a))
    return mine._replace(value=mine.value + sign * per_vertex(mine, b))


def _require_one_interpolation(a: Temporals, b: Temporals, kinds: Bytes) -> None:
    """Reject a linear value with a step function: their sum is neither."""
    mixed = (kinds == LINEAR) & (a.interpolation != b.interpolation) & (np.diff(a.rows) > 0) & (np.diff(b.rows) > 0)
    if mixed.any():
        raise BadArgument(
            f"Row {int(np.flatnonzero(mixed)[0]) + 1}: a line and a step function have no common interpolation.",
            hint="Resample one of them, or make both linear or both step functions.",
            code="bad-type",
        )


def scaled(a: Temporals, by: Floats) -> Temporals:
    """Return numbers over time, each row times a factor."""
    require_numbers(a, "This operator")
    mine = _in_fractions(own(a))
    return mine._replace(value=mine.value * per_vertex(mine, by))


def _in_fractions(moving: Temporals) -> Temporals:
    require_numbers(moving, "This operator")
    if moving.value.dtype == np.float64:
        return moving
    return moving._replace(value=freeze(moving.value.astype(np.float64)))


# ---- averages and extremes


def _weights(found: Vertices, moving: Temporals) -> tuple[Longs, Floats, Floats]:
    """Return, per unit, its row, its seconds and its mean value."""
    units = ~found.is_last & (moving.interpolation[found.row] != DISCRETE)
    row, i = found.row[units], found.vertex[units]
    value = moving.value
    linear = moving.interpolation[row] == LINEAR
    mean = np.where(linear, value[i] + (value[i + 1] - value[i]) * 0.5, value[i])
    return row, (moving.t[i + 1] - moving.t[i]) / MICROS, mean


def integrals(moving: Temporals) -> Floats:
    """Return the integral of numbers over time, in units times seconds."""
    moving = _in_fractions(moving)
    row, seconds, mean = _weights(timeline.vertices(moving), moving)
    return row_sums(row, seconds * mean, len(moving.rows) - 1)


def averages(moving: Temporals) -> tuple[Bools, Floats]:
    """Return whether each row has values, and their average over time; of single instants, their mean."""
    moving = _in_fractions(moving)
    n, found = len(moving.rows) - 1, timeline.vertices(moving)
    row, seconds, mean = _weights(found, moving)
    lasts = row_sums(row, seconds, n)
    # single instants count only where nothing lasts
    alone = lasts[found.row] == 0
    row, mean = np.append(row, found.row[alone]), np.append(mean, moving.value[found.vertex[alone]])
    weight = np.append(seconds, np.ones(np.count_nonzero(alone)))
    filled = np.diff(moving.rows) > 0
    base = np.zeros(n)
    base[filled] = moving.value[moving.rows[:-1][filled]]  # averages of differences are exact for large values
    total = row_sums(row, weight, n)
    return filled, base + row_sums(row, weight * (mean - base[row]), n) / np.where(total > 0, total, 1.0)


def extremes(moving: Temporals | MReals, sign: float) -> tuple[Bools, Floats, Longs]:
    """Return whether each row has values, the least (of ``sign`` times the values), and its first instant."""
    if isinstance(moving, MReals):
        row, value, t = _root_extremes(moving, sign)
    else:
        require_numbers(moving, "This operator")
        found = timeline.vertices(moving)
        row, value, t = found.row, moving.value[found.vertex].astype(np.float64), moving.t[found.vertex]
    has, at = timeline.first_least(row, sign * value, len(moving.rows) - 1)
    if not len(value):
        return has, np.zeros(len(has)), np.zeros(len(has), np.int64)
    return has, value[at], t[at]


def _root_extremes(moving: MReals, sign: float) -> tuple[Longs, Floats, Longs]:
    """Return where each unit of a distance is least or largest: at its lowest point, or at one of its ends."""
    inner = slice(moving.rows[0], moving.rows[-1])
    a, b, c = moving.a[inner], moving.b[inner], moving.c[inner]
    begin, span = moving.begin[inner], (moving.end[inner] - moving.begin[inner]) / MICROS
    row = np.repeat(np.arange(len(moving.rows) - 1), np.diff(moving.rows))
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.where(a > 0, np.clip(-b / (2 * a), 0.0, span), 0.0)
    at = np.stack([np.zeros(len(a)), low, span] if sign > 0 else [np.zeros(len(a)), span], axis=1)
    value = np.sqrt(np.maximum(0.0, (a[:, None] * at + b[:, None]) * at + c[:, None]))
    times = begin[:, None] + np.rint(at * MICROS).astype(np.int64)
    return np.repeat(row, at.shape[1]), value.ravel(), times.ravel()


# ---- conversion


def to_fractions(moving: Temporals | MReals) -> Temporals:
    """Return numbers over time as tfloat; a distance becomes linear between its ends and lowest points."""
    if isinstance(moving, MReals):
        return _linear_distances(moving)
    if isinstance(moving.value, np.ndarray):
        return moving._replace(value=moving.value.astype(np.float64))
    raise BadArgument("to_tfloat: text has no number.", hint="Pass a tint, a tbool or an mreal.", code="bad-type")


def _linear_distances(moving: MReals) -> Temporals:
    n = len(moving.rows) - 1
    row = np.repeat(np.arange(n), np.diff(moving.rows))
    begin, end = (values[moving.rows[0] : moving.rows[-1]] for values in (moving.begin, moving.end))
    _, value, t = _root_extremes(moving, 1.0)
    keep = np.ones((len(row), 3), np.bool_)
    places = t.reshape(-1, 3)
    keep[:, 1] = (places[:, 1] > places[:, 0]) & (places[:, 1] < places[:, 2])
    keep[:, 2] = places[:, 2] > places[:, 0]
    joined = np.append(False, (row[1:] == row[:-1]) & (begin[1:] == end[:-1]))[: len(row)]
    # a unit that begins where and as the previous one ended continues it
    values = value.reshape(-1, 3)
    same = np.isclose(values[1:, 0], values[:-1, 2], atol=1e-6)
    joined[1:] &= same
    keep[:, 0] &= ~joined
    first = np.flatnonzero(~joined)
    size = np.add.reduceat(keep.sum(axis=1), first) if len(first) else np.empty(0, np.int64)
    line = timeline.lay_out(n, row[first], size, places[keep])
    return on_line(line, values[keep], np.full(n, LINEAR, np.uint8))


def to_integers(moving: Temporals) -> Temporals:
    """Return step functions of numbers or truths as integers; fractions are cut off, as in SQL's cast."""
    if not isinstance(moving.value, np.ndarray):
        raise BadArgument("to_tint: text has no number.", hint="Pass a tfloat or a tbool.", code="bad-type")
    linear = (moving.interpolation == LINEAR) & (np.diff(moving.rows) > 0)
    if linear.any():
        raise BadArgument(
            f"to_tint: row {int(np.flatnonzero(linear)[0]) + 1} is linear.",
            hint="An integer cannot move linearly: use a step function.",
            code="bad-type",
        )
    values = moving.value
    if values.dtype == np.float64 and (np.abs(values) >= 2.0**63).any():
        raise BadArgument("to_tint: a value exceeds 64 bits.", hint="Scale the values first.", code="out-of-range")
    return moving._replace(value=values.astype(np.int64), interpolation=np.minimum(moving.interpolation, STEP))


def to_texts(moving: Temporals) -> Temporals:
    """Return values over time as text; linear ones are refused."""
    if isinstance(moving.value, np.ndarray):
        if ((moving.interpolation == LINEAR) & (np.diff(moving.rows) > 0)).any():
            raise BadArgument("to_ttext: a linear value.", hint="Use a step function.", code="bad-type")
        text = pc.cast(pa.array(moving.value), pa.string())
        return moving._replace(value=text, interpolation=np.minimum(moving.interpolation, STEP))
    return moving


def derivatives(moving: Temporals) -> Temporals:
    """Return how fast linear numbers change, per second: a step function."""
    moving = _in_fractions(moving)
    found = timeline.sequences(moving)
    if ((moving.interpolation != LINEAR) & (np.diff(moving.rows) > 0)).any():
        raise BadArgument(
            "derivative: a step function or single instants.", hint="Pass linear numbers.", code="bad-type"
        )
    kept = found.last > found.first
    row, first, last = found.row[kept], found.first[kept], found.last[kept]
    size = last - first + 1
    at = np.arange(size.sum()) + np.repeat(first - np.cumsum(size) + size, size)
    u = at.copy()
    u[np.cumsum(size) - 1] -= 1
    value = (moving.value[u + 1] - moving.value[u]) / ((moving.t[u + 1] - moving.t[u]) / MICROS)
    n = len(moving.rows) - 1
    line = timeline.lay_out(n, row, size, moving.t[at])
    return on_line(line, value, np.full(n, STEP, np.uint8))
