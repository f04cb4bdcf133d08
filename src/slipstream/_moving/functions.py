"""The operators of BerlinMOD's table 3 as Spark SQL functions, vectorised over Arrow.

>>> [f.name for f in FUNCTIONS][:4]
['atinstant', 'initial', 'final', 'present']

``register(spark)`` registers them with a session; ``slipstream.functions`` has the same operators on DataFrame columns.
Two names differ from the paper because Spark SQL already has a function of that name (``length`` is ``travelled``,
``concat`` is ``concat_all``), three because a Spark function has one result type (``distance`` of lines is
``line_distance``, ``at`` of a moving boolean is ``at_bool``, ``<=`` is ``at_most``).
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
from slipstream._moving import columns, globe, mixing, motion, nearness, places, types
from slipstream._moving.columns import IPoints, Lines, MBools, MPoints, MReals, Periods, Points
from slipstream._spark import workers
from slipstream._tools.numba_tools import Bools, Longs

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

#: the result of a kernel: a column, or a ``Found``
Result = Any


@dataclass(frozen=True)
class Function:
    """One operator: its SQL name, its result type, and the kernel that computes it."""

    name: str
    returns: types.Type
    compute: Callable[..., Result]

    @property
    def arity(self) -> int:
        """The number of arguments."""
        return len(inspect.signature(self.compute).parameters)

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
        nulls = _null_rows(*arrays)
        if nulls.all():
            return pa.nulls(len(nulls), self.returns.arrow)
        result = self._call_kernel(arrays)
        if isinstance(result, Found):
            nulls |= ~result.found
            result = result.value
        return columns.write(result, self.returns, nulls)

    def _call_kernel(self, arrays: tuple[pa.Array, ...]) -> Result:
        try:
            return self.compute(*(columns.read_unchecked(array) for array in arrays))
        except (NumbaError, AttributeError, KeyError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            got = ", ".join(str(array.type) for array in arrays)
            expected = [p.annotation for p in inspect.signature(self.compute).parameters.values()]
            raise BadArgument(
                f"{self.name}({got}): no such operator.",
                hint=f"{self.name} requires ({', '.join(expected)}).",
                code="bad-type",
            ) from error


def _null_rows(*arrays: pa.Array) -> Bools:
    """Return the rows in which an argument is null."""
    nulls = np.zeros(len(arrays[0]), dtype=np.bool_)
    for array in arrays:
        if (missing := columns.is_missing(array)) is not None:
            nulls |= missing
    return nulls


@dataclass(frozen=True)
class Found:
    """A result that is undefined in some rows."""

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
    """The position at an instant; null if undefined."""
    found, x, y = motion.positions_at(trip, instant)
    return Found(found, IPoints(instant, x, y))


@_operator(types.IPOINT)
def _initial(trip: MPoints) -> Result:
    """The first position and its instant."""
    return Found(*motion.end_positions(trip, False))


@_operator(types.IPOINT)
def _final(trip: MPoints) -> Result:
    """The last position and its instant."""
    return Found(*motion.end_positions(trip, True))


@_operator(types.BOOL)
def _present(trip: MPoints, when: Longs | Periods) -> Result:
    """Whether the moving point is defined at an instant, or at some time in periods."""
    if isinstance(when, Periods):
        return motion.overlaps(trip, when)
    return motion.positions_at(trip, when)[0]


@_operator(types.BOOL)
def _passes(trip: MPoints, place: Points | Lines) -> Result:
    """Whether the moving point is ever at a point (within 1e-6 m) or in a region."""
    if isinstance(place, Points):
        return np.diff(places.when_near(trip, place, types.REACH, True).rows) > 0
    return np.diff(places.when_inside(trip, place, True).rows) > 0


@_operator(types.MPOINT)
def _at(trip: MPoints, place: Points | Lines) -> Result:
    """The moving point while it is at a point (within 1e-6 m) or in a region."""
    if isinstance(place, Lines):
        return motion.restrict(trip, _freeze(places.when_inside(trip, place, False)))
    there = motion.restrict(trip, _freeze(places.when_near(trip, place, types.REACH, False)))
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
    return motion.merge(Periods(moving.rows, moving.begin, moving.end))


@_operator(types.LINE)
def _trajectory(trip: MPoints) -> Result:
    """The path in the plane."""
    return motion.trajectories(trip)


@_operator(types.REAL)
def _travelled(trip: MPoints) -> Result:
    """The distance travelled in metres (the paper's *length*)."""
    return motion.lengths(trip)


@_operator(types.MREAL)
def _distance(first: MPoints, second: MPoints) -> Result:
    """The exact distance between two moving points over time."""
    return nearness.norms(_freeze(nearness.relative(first, second)))


@_operator(types.REAL)
def _line_distance(first: Lines, second: Lines) -> Result:
    """The smallest distance between two lines; null if one is empty."""
    least = nearness.line_distances(first, second)
    return Found(np.isfinite(least), least)


@_operator(types.MBOOL)
def _at_most(moving: MReals, limit: Any) -> Result:
    """When a moving real is at most a number (the paper's ``<=``)."""
    return nearness.at_most(moving, limit)


@_operator(types.MBOOL)
def _at_bool(moving: MBools, truth: Bools) -> Result:
    """A moving boolean while it has the given value."""
    selected = np.repeat(truth, np.diff(moving.rows)) == _rows_only(moving).value
    rows = np.concatenate(([0], np.cumsum(selected)))[moving.rows - moving.rows[0]]
    flat = _rows_only(moving)
    return MBools(rows.astype(np.int32), flat.begin[selected], flat.end[selected], flat.value[selected])


@_operator(types.BOOL)
def _sometimes(moving: MBools) -> Result:
    """Whether a moving boolean is true at least once."""
    return nearness.ever(moving)


@_operator(types.MPOINT)
def _intersection(first: MPoints, second: MPoints) -> Result:
    """The moving point while both are at the same place (within 1e-6 m)."""
    apart = _freeze(nearness.relative(first, second))
    origin = columns.freeze(np.zeros(columns.count(apart)))
    return motion.restrict(first, _freeze(places.when_near(apart, Points(origin, origin), types.REACH, False)))


@_operator(types.BOOL)
def _inside(place: Points | IPoints, region: Lines) -> Result:
    """Whether a point is in a region, including its border."""
    return places.inside(Points(place.x, place.y), region)


@_operator(types.BOOL)
def _isempty(value: Any) -> Result:
    """Whether a moving value, periods, line or region is empty."""
    return np.diff(value.rows) == 0


def _rows_only(moving: MBools) -> MBools:
    """Return only the intervals of the rows: a slice of an Arrow column keeps all values."""
    first, last = moving.rows[0], moving.rows[-1]
    return MBools(moving.rows, moving.begin[first:last], moving.end[first:last], moving.value[first:last])


def _freeze(value: Any) -> Any:
    """Make the output of one kernel read-only for the next, as if it came from Arrow."""
    return type(value)(*(columns.freeze(array) for array in value))


def _concat_all(lists: pa.Array) -> pa.Array:
    """One moving point from an array of them (the paper's *concat*)."""
    inner = columns.read(lists.values)
    nulls = lists.is_null().to_numpy(zero_copy_only=False)
    groups = columns.freeze(lists.offsets.to_numpy())
    return columns.write(motion.concatenate(inner, groups), types.MPOINT, nulls)


def _circle(place: pa.Array, radius: pa.Array, corners: pa.Array) -> pa.Array:
    """A regular n-gon around a point: ``circle(place, radius, n)``."""
    sides = np.maximum(columns.read(corners).astype(np.int64), 3)
    nulls = _null_rows(place, radius, corners)
    return columns.write(places.polygons(columns.read(place), columns.read(radius), sides), types.REGION, nulls)


def _problem(moving: pa.Array) -> pa.Array:
    """A description of what is wrong with a moving point; null if it is valid. The one operator for invalid points."""
    if moving.type.num_fields != types.MPOINT.arrow.num_fields:
        raise BadArgument(
            f"problem({moving.type}): no such operator.", hint="problem requires (MPoints).", code="bad-type"
        )
    found = columns.faults(moving)
    texts = {int(row): found.text(int(row)) for row in np.flatnonzero(found.code)}
    return pa.array([texts.get(row) for row in range(len(moving))], pa.string())


def _united(lists: pa.Array) -> pa.Array:
    """Periods from an array of intervals (begin, end) in any order; touching or overlapping ones are merged."""
    offsets = lists.offsets.to_numpy()
    first, last = offsets[0], offsets[-1]
    spans = lists.values.slice(first, last - first)
    if sum(field.null_count for field in spans.flatten()):
        raise BadInput(
            "united: an interval without begin or end.", hint="Remove such intervals.", code="invalid-trajectory"
        )
    begin, end = (columns.read(field) for field in spans.flatten())
    order = np.lexsort((begin, np.repeat(np.arange(len(lists)), np.diff(offsets))))
    rows = columns.freeze((offsets - first).astype(np.int32))
    together = Periods(rows, columns.freeze(begin[order]), columns.freeze(end[order]))
    return columns.write(motion.merge(together), types.PERIODS, lists.is_null().to_numpy(zero_copy_only=False))


@dataclass(frozen=True)
class Each:
    """Applies an operator to one value and each of an array of arguments, so that a long history is sent only once.

    Rows with the most arguments come first, so that the n-th argument of all rows that have one pairs with a slice of
    the histories, without copying.
    """

    function: Function

    def __call__(self, histories: pa.Array, arguments: pa.Array) -> pa.Array:
        """Return an array of results per row."""
        offsets = arguments.offsets.to_numpy()
        columns.check(histories)
        columns.check(arguments.values.slice(offsets[0], offsets[-1] - offsets[0]))
        sizes = np.diff(offsets)
        order = np.argsort(-sizes, kind="stable")
        ordered = histories if (order[1:] > order[:-1]).all() else histories.take(pa.array(order))
        having = [int(n) for n in np.searchsorted(-sizes[order], -np.arange(sizes.max(initial=0)))]
        parts = [
            self.function.apply_unchecked(ordered.slice(0, n), arguments.values.take(pa.array(offsets[order[:n]] + k)))
            for k, n in enumerate(having)
        ]
        rank, first = np.empty_like(order), np.cumsum([0, *having])
        rank[order] = np.arange(len(order))
        nth = np.arange(offsets[-1] - offsets[0]) - np.repeat(offsets[:-1] - offsets[0], sizes)
        place = first[nth] + np.repeat(rank, sizes)
        flat = pa.concat_arrays(parts).take(pa.array(place)) if parts else pa.array([], self.function.returns.arrow)
        rows = pa.array((offsets - offsets[0]).astype(np.int32))
        return pa.ListArray.from_arrays(rows, flat, mask=_mask(arguments))


@dataclass(frozen=True)
class All:
    """Applies an operator of one argument to every value of an array."""

    function: Function

    def __call__(self, lists: pa.Array) -> pa.Array:
        """Return an array of results per row."""
        offsets = lists.offsets
        first, last = offsets[0].as_py(), offsets[-1].as_py()
        results = self.function(lists.values.slice(first, last - first))
        rows = pa.array((offsets.to_numpy() - first).astype(np.int32))
        return pa.ListArray.from_arrays(rows, results, mask=_mask(lists))


def _mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _make_array_type(kind: types.Type) -> types.Type:
    return types.Type(f"{kind.name}s", f"array<{kind.sql}>", pa.list_(kind.arrow))


def _lift_operators() -> dict[str, tuple[types.Type, Callable[..., pa.Array], int]]:
    """Return ``passes_each(trip, places)`` and the like, and ``travelled_all(trips)``."""
    known = {f.name: f for f in FUNCTIONS}
    each = [known[name] for name in ("atinstant", "present", "passes", "at", "atperiods")]
    lifted: dict[str, tuple[types.Type, Callable[..., pa.Array], int]] = {
        f"{f.name}_each": (_make_array_type(f.returns), Each(f), 2) for f in each
    }
    return lifted | {"travelled_all": (_make_array_type(types.REAL), All(known["travelled"]), 1)}


#: operators that work directly on Arrow columns: result type, function, number of arguments
ON_ARROW: dict[str, tuple[types.Type, Callable[..., pa.Array], int]] = {
    "concat_all": (types.MPOINT, _concat_all, 1),
    "circle": (types.REGION, _circle, 3),
    "united": (types.PERIODS, _united, 1),
    "problem": (types.TEXT, _problem, 1),
    "to_lonlat": (globe.LONLAT, globe.to_lonlat, 2),
    "geodesic_length": (types.REAL, globe.geodesic_length, 2),
    **_lift_operators(),
}

#: operators as Spark SQL expressions: expanded by its optimizer, no Python involved
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

    # Spark inspects the number of parameters, so the function must have as many as the operator
    function = (one, two, three)[arity - 1]
    function.__annotations__ = dict.fromkeys((*"abc"[:arity], "return"), pa.Array)
    return arrow_udf(function, returns)


def register(spark: SparkSession) -> None:
    """Register every operator as a SQL function of the session; changes none of its settings.

    >>> import slipstream.functions as sf
    >>> sf.register(trips.sparkSession)
    >>> trips.selectExpr("id", "travelled(Trip) AS metres").toPandas()
          id  metres
    0  van-1  1000.0
    1  van-2  1000.0
    2  van-3     0.0
    """
    for name in (*(function.name for function in FUNCTIONS), *ON_ARROW):
        spark.udf.register(name, operator(name))
    for name, (arguments, returns, body) in IN_SQL.items():
        spark.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION {name}({arguments}) RETURNS {returns} RETURN {body}")


def names() -> list[str]:
    """Return the SQL names of all operators."""
    return sorted([*(f.name for f in FUNCTIONS), *ON_ARROW, *IN_SQL])


def operator(name: str) -> Callable[..., Column]:
    """Return an operator as a function of DataFrame columns; ``slipstream.functions`` has one of each name."""
    if name in ON_ARROW:
        returns, call, arity = ON_ARROW[name]
    else:
        function = next(function for function in FUNCTIONS if function.name == name)
        returns, call, arity = function.returns, function, function.arity
    workers.use_this_python()
    made: Callable[..., Column] = _arrow_udf(call, arity, returns.sql)

    def apply(*given: Column | str) -> Column:
        mixing.refuse_mixed(name, given)
        return made(*given)

    return apply
