"""The operators as Spark SQL functions, vectorised over Arrow; those of BerlinMOD's table 3 are defined here.

>>> names()[:3]
['acceleration', 'always', 'always_dwithin']

``register(spark)`` registers them with a session; ``slipstream.functions`` has the same operators on DataFrame columns.
Two names differ from the paper because Spark SQL already has a function of that name (``length`` is ``travelled``,
``concat`` is ``concat_all``), three because a Spark function has one result type (``distance`` of lines is
``line_distance``, ``at`` of a moving boolean is ``at_bool``, ``<=`` is ``at_most``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slipstream._errors import BadArgument, BadInput
from slipstream._moving import analysing, columns, mixing, types
from slipstream._moving.columns import IPoints, Lines, MBools, MPoints, MReals, Periods, Points, Temporals, freeze_all
from slipstream._moving.kernels import fence_kernels, motion, nearness, places, values
from slipstream._moving.operator_registry import FUNCTIONS, Found, Result, SqlOperator, null_rows
from slipstream._moving.operator_registry import operator as operator_
from slipstream._moving.operators import movement_operators
from slipstream._moving.space import globe
from slipstream._spark import workers
from slipstream._tools.numba_tools import Bools, Floats, Longs

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import DataType


@operator_(types.IPOINT)
def _atinstant(trip: MPoints, instant: Longs) -> Result:
    """The position at an instant; null if undefined."""
    found, x, y = motion.positions_at(trip, instant)
    return Found(found, IPoints(instant, x, y))


@operator_(types.IPOINT)
def _initial(trip: MPoints) -> Result:
    """The first position and its instant."""
    return Found(*motion.end_positions(trip, False))


@operator_(types.IPOINT)
def _final(trip: MPoints) -> Result:
    """The last position and its instant."""
    return Found(*motion.end_positions(trip, True))


@operator_(types.BOOL)
def _present(trip: MPoints, when: Longs | Periods) -> Result:
    """Whether the moving point is defined at an instant, or at some time in periods."""
    if isinstance(when, Periods):
        return motion.overlaps(trip, when)
    return motion.positions_at(trip, when)[0]


@operator_(types.BOOL)
def _passes(trip: MPoints, place: Points | Lines) -> Result:
    """Whether the moving point is ever at a point (within 1e-6 m) or in a region."""
    if isinstance(place, Points):
        return np.diff(places.when_near(trip, place, types.REACH, True).rows) > 0
    return np.diff(places.when_inside(trip, place, True).rows) > 0


@operator_(types.MPOINT)
def _enters(trip: MPoints, zone: Lines) -> Result:
    """The vertices at which the moving point enters a region: it is inside, and was not at the vertex before."""
    return fence_kernels.select_vertices(trip, fence_kernels.find_crossings(trip, zone)[0])


@operator_(types.MPOINT)
def _leaves(trip: MPoints, zone: Lines) -> Result:
    """The vertices at which the moving point has left a region: it is outside, and was inside at the one before."""
    return fence_kernels.select_vertices(trip, fence_kernels.find_crossings(trip, zone)[1])


@operator_(types.MPOINT)
def _dwells(trip: MPoints, zone: Lines, seconds: Floats) -> Result:
    """The vertex of each stay in a region at which the moving point has been there for ``seconds``."""
    return fence_kernels.select_vertices(trip, fence_kernels.find_stays(trip, zone, seconds))


@operator_(types.INSTANT_TYPE)
def _arrives(trip: MPoints, place: Points, metres: Floats) -> Result:
    """The first vertex at which the moving point is within ``metres`` of a point: its instant."""
    return Found(*fence_kernels.find_arrivals(trip, place, metres))


@operator_(types.MPOINT)
def _at(trip: MPoints, place: Points | Lines) -> Result:
    """The moving point while it is at a point (within 1e-6 m) or in a region."""
    if isinstance(place, Lines):
        return motion.restrict(trip, freeze_all(places.when_inside(trip, place, False)))
    there = motion.restrict(trip, freeze_all(places.when_near(trip, place, types.REACH, False)))
    vertices = np.diff(there.rows)
    return there._replace(x=np.repeat(place.x, vertices), y=np.repeat(place.y, vertices))


@operator_(types.MPOINT)
def _atperiods(trip: MPoints, periods: Periods) -> Result:
    """The moving point during periods."""
    return motion.restrict(trip, periods)


@operator_(types.PERIODS)
def _deftime(moving: MPoints | MReals | MBools | Temporals) -> Result:
    """When the value is defined."""
    if isinstance(moving, MPoints | Temporals):
        return movement_operators.definition_times(moving)
    return motion.merge(Periods(moving.rows, moving.begin, moving.end))


@operator_(types.LINE)
def _trajectory(trip: MPoints) -> Result:
    """The path in the plane."""
    return motion.trajectories(trip)


@operator_(types.REAL)
def _travelled(trip: MPoints) -> Result:
    """The distance travelled in metres (the paper's *length*)."""
    return motion.lengths(trip)


@operator_(types.MREAL)
def _distance(first: MPoints, second: MPoints) -> Result:
    """The exact distance between two moving points over time."""
    return nearness.norms(freeze_all(nearness.relative(first, second)))


@operator_(types.REAL)
def _line_distance(first: Lines, second: Lines) -> Result:
    """The smallest distance between two lines; null if one is empty."""
    least = nearness.line_distances(first, second)
    return Found(np.isfinite(least), least)


@operator_(types.MBOOL)
def _at_most(moving: MReals, limit: Any) -> Result:
    """When a moving real is at most a number (the paper's ``<=``)."""
    return nearness.at_most(moving, limit)


@operator_(types.MBOOL)
def _at_bool(moving: MBools, truth: Bools) -> Result:
    """A moving boolean while it has the given value."""
    selected = np.repeat(truth, np.diff(moving.rows)) == _rows_only(moving).value
    rows = np.concatenate(([0], np.cumsum(selected)))[moving.rows - moving.rows[0]]
    flat = _rows_only(moving)
    return MBools(rows.astype(np.int32), flat.begin[selected], flat.end[selected], flat.value[selected])


@operator_(types.BOOL)
def _sometimes(moving: MBools | Temporals) -> Result:
    """Whether a moving boolean is true at least once."""
    return np.diff(values.when_true(moving).rows) > 0


@operator_(types.MPOINT)
def _intersection(first: MPoints, second: MPoints) -> Result:
    """The moving point while both are at the same place (within 1e-6 m)."""
    apart = freeze_all(nearness.relative(first, second))
    origin = columns.freeze(np.zeros(columns.count(apart)))
    return motion.restrict(first, freeze_all(places.when_near(apart, Points(origin, origin), types.REACH, False)))


@operator_(types.BOOL)
def _inside(place: Points | IPoints, region: Lines) -> Result:
    """Whether a point is in a region, including its border."""
    return places.inside(Points(place.x, place.y), region)


@operator_(types.BOOL)
def _isempty(value: Any) -> Result:
    """Whether a moving value, periods, line or region is empty."""
    return np.diff(value.rows) == 0


def _rows_only(moving: MBools) -> MBools:
    """Return only the intervals of the rows: a slice of an Arrow column keeps all values."""
    first, last = moving.rows[0], moving.rows[-1]
    return MBools(moving.rows, moving.begin[first:last], moving.end[first:last], moving.value[first:last])


def _concat_all(lists: pa.Array) -> pa.Array:
    """One moving point from an array of them (the paper's *concat*)."""
    inner = columns.read(lists.values)
    nulls = lists.is_null().to_numpy(zero_copy_only=False)
    groups = columns.freeze(lists.offsets.to_numpy())
    return columns.write(motion.concatenate(inner, groups), types.MPOINT, nulls)


def _circle(place: pa.Array, radius: pa.Array, corners: pa.Array) -> pa.Array:
    """A regular n-gon around a point: ``circle(place, radius, n)``."""
    sides = np.maximum(columns.read(corners).astype(np.int64), 3)
    nulls = null_rows(place, radius, corners)
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

    function: SqlOperator

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

    function: SqlOperator

    def __call__(self, lists: pa.Array) -> pa.Array:
        """Return an array of results per row."""
        offsets = lists.offsets
        first, last = offsets[0].as_py(), offsets[-1].as_py()
        results = self.function(lists.values.slice(first, last - first))
        rows = pa.array((offsets.to_numpy() - first).astype(np.int32))
        return pa.ListArray.from_arrays(rows, results, mask=_mask(lists))


def _mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _lift_operators() -> dict[str, tuple[types.Type, Callable[..., pa.Array], int]]:
    """Return ``passes_each(trip, places)`` and the like, and ``travelled_all(trips)``."""
    known = {f.name: f for f in FUNCTIONS}
    each = [known[name] for name in ("atinstant", "present", "passes", "at", "atperiods")]
    lifted: dict[str, tuple[types.Type, Callable[..., pa.Array], int]] = {
        f"{f.name}_each": (types.array_of(f.returns), Each(f), 2) for f in each
    }
    return lifted | {"travelled_all": (types.array_of(types.REAL), All(known["travelled"]), 1)}


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


def _constructor(kind: types.Type) -> tuple[str, str, str]:
    """Return the SQL function that makes one sequence of instants and values."""
    value = next(field.type.value_type for field in kind.arrow if field.name == "value")
    sql = {pa.float64(): "double", pa.int64(): "bigint", pa.bool_(): "boolean", pa.string(): "string"}[value]
    fields = "'t', t, 'value', v, 'starts', IF(size(t) > 0, array(0), array()), 'interpolation', i"
    return f"t array<timestamp>, v array<{sql}>, i string", kind.sql, f"named_struct({fields})"


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
    "box": (
        "xmin double, ymin double, xmax double, ymax double, tmin timestamp, tmax timestamp",
        types.STBOX.sql,
        "named_struct('xmin', xmin, 'ymin', ymin, 'xmax', xmax, 'ymax', ymax, 'tmin', tmin, 'tmax', tmax)",
    ),
    **{kind.name: _constructor(kind) for kind in types.OVER_TIME},
}


def _arrow_udf(name: str, call: Callable[..., pa.Array], arity: int, returns: str) -> Any:
    from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]

    def one(a: pa.Array) -> pa.Array:
        return call(a)

    def two(a: pa.Array, b: pa.Array) -> pa.Array:
        return call(a, b)

    def three(a: pa.Array, b: pa.Array, c: pa.Array) -> pa.Array:
        return call(a, b, c)

    # Spark inspects the number of parameters, so the function must have as many as the operator
    function = (one, two, three)[arity - 1]
    function.__name__ = name  # Spark's name for it in plans and columns
    function.__annotations__ = dict.fromkeys((*"abc"[:arity], "return"), pa.Array)
    return arrow_udf(function, _spark_type(returns))


@lru_cache
def _spark_type(sql: str) -> DataType:
    """Return a type as Spark knows it; asking the JVM for each operator's takes half of the time of registering."""
    from pyspark.sql.types import DataType

    return DataType.fromDDL(sql)


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
    operators = {analysing.Signature(name, ((),) * arity): name for name, (_, _, arity) in ON_ARROW.items()}
    operators |= {_describe(function): function.name for function in FUNCTIONS}
    analysing.register(spark, {signature: _make_function(name) for signature, name in operators.items()})
    for name, (arguments, returns, body) in IN_SQL.items():
        analysing.drop_function(spark, name)
        spark.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION {name}({arguments}) RETURNS {returns} RETURN {body}")


def _describe(function: SqlOperator) -> analysing.Signature:
    """Return an operator's name and the types it takes, as its kernel is annotated."""
    kinds = (str(parameter.annotation) for parameter in function.parameters)
    parameters = tuple(() if kind == "Any" else tuple(kind.split(" | ")) for kind in kinds)
    return analysing.Signature(function.name, parameters, function.takes.name if function.takes else "")


def names() -> list[str]:
    """Return the SQL names of all operators."""
    return sorted([*(f.name for f in FUNCTIONS), *ON_ARROW, *IN_SQL])


def operator(name: str) -> Callable[..., Column]:
    """Return an operator as a function of DataFrame columns; ``slipstream.functions`` has one of each name."""
    made = _make_function(name)

    def apply(*given: Column | str) -> Column:
        mixing.refuse_mixed(name, given)
        return made(*given)

    return apply


def _make_function(name: str) -> Callable[..., Column]:
    """Return an operator as a function that Spark can register."""
    if name in ON_ARROW:
        returns, call, arity = ON_ARROW[name]
    else:
        function = next(function for function in FUNCTIONS if function.name == name)
        returns, call, arity = function.returns, function, function.arity
    workers.use_this_python()
    made: Callable[..., Column] = _arrow_udf(name, call, arity, returns.sql)
    return made
