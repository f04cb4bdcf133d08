"""Operators that the queries combine, as one function each.

Spark evaluates an operator of two arguments in a Python process of its own, and moves its rows there and back; a
combination of three costs three processes per task. Here a combination is one function. Some are declared not
deterministic, so that Spark does not compute them twice, once to filter rows and once to return the value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slipstream._moving import columns, types
from slipstream._moving.columns import MPoints, Periods
from slipstream._moving.operator_registry import FUNCTIONS
from slipstream._moving.timeline import interpolate, is_defined, last_before, sequence
from slipstream._tools.numba_tools import Floats, Ints, compiled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REALS = types.Type("reals", "array<double>", pa.list_(pa.float64()))
_KNOWN = {operator.name: operator for operator in FUNCTIONS}


@dataclass(frozen=True)
class Compound:
    """A function of columns: its result type, and whether Spark may compute it more than once."""

    returns: types.Type
    compute: Callable[..., pa.Array]
    once: bool = False


def _apply(name: str, *arrays: pa.Array) -> pa.Array:
    return _KNOWN[name](*arrays)


def _passes_during(trip: pa.Array, times: pa.Array, place: pa.Array) -> pa.Array:
    return _apply("passes", _apply("atperiods", trip, times), place)


def _at_during(trip: pa.Array, times: pa.Array, place: pa.Array) -> pa.Array:
    return _apply("at", _apply("atperiods", trip, times), place)


def _inside_at(trip: pa.Array, instant: pa.Array, region: pa.Array) -> pa.Array:
    return _apply("inside", _apply("atinstant", trip, instant), region)


def _travelled_during(trip: pa.Array, times: pa.Array) -> pa.Array:
    far = _apply("travelled", _apply("atperiods", trip, times))
    return pc.if_else(_apply("present", trip, times), far, None)


def _travelled_each(trips: pa.Array, lists: pa.Array) -> pa.Array:
    """How far each trip goes during each of an array of periods: from one pass over its vertices."""
    first, last = lists.offsets[0].as_py(), lists.offsets[-1].as_py()
    rows = columns.freeze((lists.offsets.to_numpy() - first).astype(np.int32))
    periods = columns.read(lists.values.slice(first, last - first))
    far = _measure(columns.read(trips), rows, periods)
    return pa.ListArray.from_arrays(pa.array(rows), pa.array(far), mask=lists.is_null() if lists.null_count else None)


@compiled
def _measure(m: MPoints, groups: Ints, periods: Periods) -> Floats:
    out, so_far = np.zeros(len(periods.rows) - 1), np.zeros(len(m.t))
    for row in range(len(m.rows) - 1):
        total = 0.0
        for part in range(m.parts[row], m.parts[row + 1]):
            first, last = sequence(m, row, part)
            so_far[first] = total
            for i in range(first + 1, last):
                total += np.hypot(m.x[i] - m.x[i - 1], m.y[i] - m.y[i - 1])
                so_far[i] = total
        for k in range(groups[row], groups[row + 1]):
            for p in range(periods.rows[k], periods.rows[k + 1]):
                out[k] += _until(m, row, so_far, periods.end[p]) - _until(m, row, so_far, periods.begin[p])
    return out


@compiled
def _until(m: MPoints, row: int, so_far: Floats, t: int) -> float:
    """Return how far a trip has gone at an instant."""
    i = last_before(m.t, m.rows[row], m.rows[row + 1], t)
    if i < m.rows[row]:
        return 0.0
    if m.t[i] == t or not is_defined(m, row, i, t):
        return float(so_far[i])
    return interpolate(m.t[i], m.t[i + 1], so_far[i], so_far[i + 1], t)


def _near(first: pa.Array, second: pa.Array, metres: pa.Array) -> pa.Array:
    return _apply("at_most", _apply("distance", first, second), metres)


def _ever_near(first: pa.Array, second: pa.Array, metres: pa.Array) -> pa.Array:
    return _apply("sometimes", _near(first, second, metres))


def _while_near(first: pa.Array, second: pa.Array, metres: pa.Array) -> pa.Array:
    near = _near(first, second, metres)
    true = pa.array([True] * len(near))
    return _apply("atperiods", first, _apply("deftime", _apply("at_bool", near, true)))


def _place_at(trip: pa.Array, instant: pa.Array) -> pa.Array:
    return _apply("atinstant", trip, instant)


COMPOUNDS: dict[str, Compound] = {
    "passes_during": Compound(types.BOOL, _passes_during),
    "at_during": Compound(types.MPOINT, _at_during, once=True),
    "inside_at": Compound(types.BOOL, _inside_at),
    "place_at": Compound(types.IPOINT, _place_at, once=True),
    "travelled_during": Compound(types.REAL, _travelled_during),
    "travelled_each": Compound(_REALS, _travelled_each),
    "ever_near": Compound(types.BOOL, _ever_near),
    "while_near": Compound(types.MPOINT, _while_near, once=True),
}


def register(spark: SparkSession) -> None:
    """Register the combinations as SQL functions of the session."""
    from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]

    for name, compound in COMPOUNDS.items():
        made: Any = arrow_udf(compound.compute, compound.returns.sql)
        spark.udf.register(name, made.asNondeterministic() if compound.once else made)
