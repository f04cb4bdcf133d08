"""The operators of BerlinMOD's table 3 as Spark SQL functions, vectorised over Arrow.

>>> [f.name for f in FUNCTIONS][:4]
['atinstant', 'initial', 'final', 'present']

``register(spark)`` makes them known to a session; ``slipstream.functions`` has the same operators on DataFrame
columns. Two names differ from the paper because Spark SQL has a function of that name already (``length`` is
``travelled``, ``concat`` is ``concat_all``), three because a Spark function has one result type (``distance`` of lines
is ``line_distance``, ``at`` of a moving boolean is ``at_bool``, ``<=`` is ``at_most``).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numba.core.errors import NumbaError

from slipstream._errors import BadArgument, BadInput
from slipstream._moving import columns, motion, nearness, places, types
from slipstream._moving.columns import IPoints, Lines, MBools, MPoints, MReals, Periods, Points
from slipstream._tools.numba_tools import Bools, Longs

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

#: what a kernel gives: a column, or which rows it found something in and the column
Result = Any


@dataclass(frozen=True)
class Function:
    """One operator: its SQL name, what it returns, and the kernel call that computes it."""

    name: str
    returns: types.Type
    compute: Callable[..., Result]

    @property
    def arity(self) -> int:
        """How many arguments it takes."""
        return len(inspect.signature(self.compute).parameters)

    def __call__(self, *arrays: pa.Array) -> pa.Array:
        """Apply it to Arrow columns: null where an argument is null or the operator has no answer.

        A place without two finite coordinates counts as null; any other value that breaks the rules of its type is
        refused, with the row.
        """
        for array in arrays:
            columns.check(array)
        return self.answers(*arrays)

    def answers(self, *arrays: pa.Array) -> pa.Array:
        """The same on columns that were checked before."""
        nulls = _missing(*arrays)
        if nulls.all():
            return pa.nulls(len(nulls), self.returns.arrow)
        result = self._computed(arrays)
        if isinstance(result, Found):
            nulls |= ~result.found
            result = result.value
        return columns.write(result, self.returns, nulls)

    def _computed(self, arrays: tuple[pa.Array, ...]) -> Result:
        try:
            return self.compute(*(columns.trusted(array) for array in arrays))
        except (NumbaError, AttributeError, KeyError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            got = ", ".join(str(array.type) for array in arrays)
            expected = [p.annotation for p in inspect.signature(self.compute).parameters.values()]
            raise BadArgument(
                f"{self.name}({got}): no such operator.", hint=f"{self.name} takes ({', '.join(expected)})."
            ) from error


def _missing(*arrays: pa.Array) -> Bools:
    """Rows in which an argument is null."""
    nulls = np.zeros(len(arrays[0]), dtype=np.bool_)
    for array in arrays:
        if (missing := columns.is_missing(array)) is not None:
            nulls |= missing
    return nulls


@dataclass(frozen=True)
class Found:
    """An answer that some rows do not have."""

    found: Bools
    value: Any


FUNCTIONS: list[Function] = []


def _operator(returns: types.Type) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    def keep(compute: Callable[..., Result]) -> Callable[..., Result]:
        FUNCTIONS.append(Function(compute.__name__.removeprefix("_"), returns, compute))
        return compute

    return keep


@_operator(types.IPOINT)
def _atinstant(trip: MPoints, instant: Longs) -> Result:
    """Where the point is at an instant; null where it is nowhere."""
    found, x, y = motion.positions_at(trip, instant)
    return Found(found, IPoints(instant, x, y))


@_operator(types.IPOINT)
def _initial(trip: MPoints) -> Result:
    """The first place and its instant."""
    return Found(*motion.ends(trip, False))


@_operator(types.IPOINT)
def _final(trip: MPoints) -> Result:
    """The last place and its instant."""
    return Found(*motion.ends(trip, True))


@_operator(types.BOOL)
def _present(trip: MPoints, when: Longs | Periods) -> Result:
    """Whether the point is defined at an instant, or some time in periods."""
    if isinstance(when, Periods):
        return motion.overlaps(trip, when)
    return motion.positions_at(trip, when)[0]


@_operator(types.BOOL)
def _passes(trip: MPoints, place: Points | Lines) -> Result:
    """Whether the point is ever at a point (within 1e-6 m) or in a region."""
    if isinstance(place, Points):
        return np.diff(places.when_near(trip, place, types.REACH, True).rows) > 0
    return np.diff(places.when_inside(trip, place, True).rows) > 0


@_operator(types.MPOINT)
def _at(trip: MPoints, place: Points | Lines) -> Result:
    """The moving point while it is at a point (within 1e-6 m) or in a region."""
    if isinstance(place, Lines):
        return motion.restrict(trip, _frozen(places.when_inside(trip, place, False)))
    there = motion.restrict(trip, _frozen(places.when_near(trip, place, types.REACH, False)))
    vertices = np.diff(there.rows)
    return there._replace(x=np.repeat(place.x, vertices), y=np.repeat(place.y, vertices))


@_operator(types.MPOINT)
def _atperiods(trip: MPoints, periods: Periods) -> Result:
    """The moving point during periods."""
    return motion.restrict(trip, periods)


@_operator(types.PERIODS)
def _deftime(moving: MPoints | MReals | MBools) -> Result:
    """When the value is defined."""
    if isinstance(moving, MPoints):
        return motion.definition_times(moving)
    return motion.merged(Periods(moving.rows, moving.begin, moving.end))


@_operator(types.LINE)
def _trajectory(trip: MPoints) -> Result:
    """The path in the plane."""
    return motion.trajectories(trip)


@_operator(types.REAL)
def _travelled(trip: MPoints) -> Result:
    """The driven distance in metres (the paper's *length*)."""
    return motion.lengths(trip)


@_operator(types.MREAL)
def _distance(first: MPoints, second: MPoints) -> Result:
    """The distance of two moving points as it changes, exact."""
    return nearness.norms(_frozen(nearness.relative(first, second)))


@_operator(types.REAL)
def _line_distance(first: Lines, second: Lines) -> Result:
    """The least distance of two lines; null if one is empty."""
    least = nearness.line_distances(first, second)
    return Found(np.isfinite(least), least)


@_operator(types.MBOOL)
def _at_most(moving: MReals, limit: Any) -> Result:
    """When a moving real is at most a number (the paper's ``<=``)."""
    return nearness.at_most(moving, limit)


@_operator(types.MBOOL)
def _at_bool(moving: MBools, truth: Bools) -> Result:
    """A moving boolean while it has the given value."""
    keep = np.repeat(truth, np.diff(moving.rows)) == _rows_only(moving).value
    kept = np.concatenate(([0], np.cumsum(keep)))[moving.rows - moving.rows[0]]
    flat = _rows_only(moving)
    return MBools(kept.astype(np.int32), flat.begin[keep], flat.end[keep], flat.value[keep])


@_operator(types.BOOL)
def _sometimes(moving: MBools) -> Result:
    """Whether a moving boolean is true at least once."""
    return nearness.ever(moving)


@_operator(types.MPOINT)
def _intersection(first: MPoints, second: MPoints) -> Result:
    """The moving point while both are at one place (within 1e-6 m) at one time."""
    apart = _frozen(nearness.relative(first, second))
    origin = columns.frozen(np.zeros(columns.count(apart)))
    return motion.restrict(first, _frozen(places.when_near(apart, Points(origin, origin), types.REACH, False)))


@_operator(types.BOOL)
def _inside(place: Points | IPoints, region: Lines) -> Result:
    """Whether a point is in a region, its border included."""
    return places.inside(Points(place.x, place.y), region)


@_operator(types.BOOL)
def _isempty(value: Any) -> Result:
    """Whether a moving value, periods, line or region is empty."""
    return np.diff(value.rows) == 0


def _rows_only(moving: MBools) -> MBools:
    """The intervals that belong to the rows: a slice of an Arrow column keeps the values around it."""
    first, last = moving.rows[0], moving.rows[-1]
    return MBools(moving.rows, moving.begin[first:last], moving.end[first:last], moving.value[first:last])


def _frozen(value: Any) -> Any:
    """What one kernel made, for the next: read-only, as if it came from Arrow."""
    return type(value)(*(columns.frozen(array) for array in value))


def _concat_all(lists: pa.Array) -> pa.Array:
    """One moving point from an array of them (the paper's *concat*)."""
    inner = columns.read(lists.values)
    nulls = lists.is_null().to_numpy(zero_copy_only=False)
    groups = columns.frozen(lists.offsets.to_numpy())
    return columns.write(motion.concatenated(inner, groups), types.MPOINT, nulls)


def _circle(place: pa.Array, radius: pa.Array, corners: pa.Array) -> pa.Array:
    """A regular n-gon around a point: ``circle(place, radius, n)``."""
    sides = np.maximum(columns.read(corners).astype(np.int64), 3)
    nulls = _missing(place, radius, corners)
    return columns.write(places.polygons(columns.read(place), columns.read(radius), sides), types.REGION, nulls)


def _problem(moving: pa.Array) -> pa.Array:
    """What is wrong with a moving point, in words; null if nothing is. The one operator that takes invalid ones."""
    if moving.type.num_fields != types.MPOINT.arrow.num_fields:
        raise BadArgument(f"problem({moving.type}): no such operator.", hint="problem takes (MPoints).")
    found = columns.faults(moving)
    words = {int(row): found.text(int(row)) for row in np.flatnonzero(found.code)}
    return pa.array([words.get(row) for row in range(len(moving))], pa.string())


def _united(lists: pa.Array) -> pa.Array:
    """Periods from an array of intervals (begin, end) in any order; those that touch or overlap become one."""
    offsets = lists.offsets.to_numpy()
    first, last = offsets[0], offsets[-1]
    spans = lists.values.slice(first, last - first)
    if sum(field.null_count for field in spans.flatten()):
        raise BadInput("united: an interval without begin or end.", hint="Leave such intervals out.")
    begin, end = (columns.read(field) for field in spans.flatten())
    order = np.lexsort((begin, np.repeat(np.arange(len(lists)), np.diff(offsets))))
    rows = columns.frozen((offsets - first).astype(np.int32))
    together = Periods(rows, columns.frozen(begin[order]), columns.frozen(end[order]))
    return columns.write(motion.merged(together), types.PERIODS, lists.is_null().to_numpy(zero_copy_only=False))


@dataclass(frozen=True)
class Each:
    """An operator on one value and each of an array of others: a long history travels once, not once per question.

    Rows with the most questions come first, so that the n-th question of all rows that have one meets a mere slice of
    the histories, uncopied.
    """

    function: Function

    def __call__(self, histories: pa.Array, questions: pa.Array) -> pa.Array:
        """The answers, an array for each row."""
        offsets = questions.offsets.to_numpy()
        columns.check(histories)
        columns.check(questions.values.slice(offsets[0], offsets[-1] - offsets[0]))
        sizes = np.diff(offsets)
        order = np.argsort(-sizes, kind="stable")
        ordered = histories if (order[1:] > order[:-1]).all() else histories.take(pa.array(order))
        having = [int(n) for n in np.searchsorted(-sizes[order], -np.arange(sizes.max(initial=0)))]
        parts = [
            self.function.answers(ordered.slice(0, n), questions.values.take(pa.array(offsets[order[:n]] + k)))
            for k, n in enumerate(having)
        ]
        rank, first = np.empty_like(order), np.cumsum([0, *having])
        rank[order] = np.arange(len(order))
        nth = np.arange(offsets[-1] - offsets[0]) - np.repeat(offsets[:-1] - offsets[0], sizes)
        place = first[nth] + np.repeat(rank, sizes)
        flat = pa.concat_arrays(parts).take(pa.array(place)) if parts else pa.array([], self.function.returns.arrow)
        rows = pa.array((offsets - offsets[0]).astype(np.int32))
        return pa.ListArray.from_arrays(rows, flat, mask=_mask(questions))


@dataclass(frozen=True)
class All:
    """An operator of one argument on every value of an array."""

    function: Function

    def __call__(self, lists: pa.Array) -> pa.Array:
        """The answers, an array for each row."""
        offsets = lists.offsets
        first, last = offsets[0].as_py(), offsets[-1].as_py()
        answers = self.function(lists.values.slice(first, last - first))
        rows = pa.array((offsets.to_numpy() - first).astype(np.int32))
        return pa.ListArray.from_arrays(rows, answers, mask=_mask(lists))


def _mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _array_of(kind: types.Type) -> types.Type:
    return types.Type(f"{kind.name}s", f"array<{kind.sql}>", pa.list_(kind.arrow))


def _lifted() -> dict[str, tuple[types.Type, Callable[..., pa.Array], int]]:
    """``passes_each(trip, places)`` and the like, and ``travelled_all(trips)``."""
    known = {f.name: f for f in FUNCTIONS}
    each = [known[name] for name in ("atinstant", "present", "passes", "at", "atperiods")]
    lifted: dict[str, tuple[types.Type, Callable[..., pa.Array], int]] = {
        f"{f.name}_each": (_array_of(f.returns), Each(f), 2) for f in each
    }
    return lifted | {"travelled_all": (_array_of(types.REAL), All(known["travelled"]), 1)}


#: operators that work on Arrow columns themselves: what they return, what they do, how many arguments they take
ON_ARROW: dict[str, tuple[types.Type, Callable[..., pa.Array], int]] = {
    "concat_all": (types.MPOINT, _concat_all, 1),
    "circle": (types.REGION, _circle, 3),
    "united": (types.PERIODS, _united, 1),
    "problem": (types.TEXT, _problem, 1),
    **_lifted(),
}

#: operators that Spark itself can do: expanded by its optimizer, no Python involved
IN_SQL = {
    "val": ("ip " + types.IPOINT.sql, types.POINT.sql, "named_struct('x', ip.x, 'y', ip.y)"),
    "inst": ("ip " + types.IPOINT.sql, "timestamp", "ip.t"),
    "point": ("x double, y double", types.POINT.sql, "named_struct('x', x, 'y', y)"),
    "periods": (
        "b timestamp, e timestamp",
        types.PERIODS.sql,
        "named_struct('begin', array(b), 'end', array(e))",
    ),
}


def _arrow_udf(call: Callable[..., pa.Array], arity: int, returns: str) -> Any:
    from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]

    def one(a: pa.Array) -> pa.Array:
        return call(a)

    def two(a: pa.Array, b: pa.Array) -> pa.Array:
        return call(a, b)

    def three(a: pa.Array, b: pa.Array, c: pa.Array) -> pa.Array:
        return call(a, b, c)

    # Spark counts parameters, so the call is given as many as the operator has
    function = (one, two, three)[arity - 1]
    function.__annotations__ = dict.fromkeys((*"abc"[:arity], "return"), pa.Array)
    return arrow_udf(function, returns)


def register(spark: SparkSession) -> None:
    """Make every operator a function of the session's SQL; no setting of the session is changed."""
    for name in (*(function.name for function in FUNCTIONS), *ON_ARROW):
        spark.udf.register(name, operator(name))
    for name, (arguments, returns, body) in IN_SQL.items():
        spark.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION {name}({arguments}) RETURNS {returns} RETURN {body}")


def names() -> list[str]:
    """Every operator's SQL name."""
    return sorted([*(f.name for f in FUNCTIONS), *ON_ARROW, *IN_SQL])


def operator(name: str) -> Callable[..., Column]:
    """Return an operator as a function of DataFrame columns; ``slipstream.functions`` has one of each name."""
    if name in ON_ARROW:
        returns, call, arity = ON_ARROW[name]
    else:
        function = next(function for function in FUNCTIONS if function.name == name)
        returns, call, arity = function.returns, function, function.arity
    made: Callable[..., Column] = _arrow_udf(call, arity, returns.sql)
    return made
