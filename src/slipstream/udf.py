"""Functions, toll rules and boxes of your own, for networks, cuboids and tolling.

    import slipstream as ss

    @ss.udf.scalar("boolean")
    def near_school(lon, lat):
        return (lon - 13.4) ** 2 + (lat - 52.5) ** 2 < 1e-4

    ss.read("positions.csv").filter("near_school(lon, lat) and speed > 30")

Each decorator registers what it decorates under its own name, or under ``name``, and returns it unchanged. A Python
program only has to import the file; the command line takes it as ``--functions FILE``. All functions work on NumPy
arrays with an element per tuple, window, key or segment, so none is called once per tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from slipstream._cuboid.query import stream_functions
from slipstream._errors import BadArgument
from slipstream._linear_road import rules as rule_sets
from slipstream._network import box_functions
from slipstream._network.boxes import operators
from slipstream._network.boxes.operators import require
from slipstream._network.boxes.windows.window_functions import Windows, nulls
from slipstream._network.column_types import SPARK_TYPES, plain_type
from slipstream._network.state.stored import StoredTable
from slipstream._spark.shipping import ship

if TYPE_CHECKING:
    from slipstream._network.boxes.operators import Operator

__all__ = ["StoredTable", "Windows", "atomic", "box", "fold", "nulls", "require", "scalar", "toll", "window"]

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
BoxClass = TypeVar("BoxClass", bound="type[Operator]")


def scalar(returns: str, *, name: str = "", tables: Sequence[str] = ()) -> Callable[[Decorated], Decorated]:
    """Register a function of columns, for conditions and computed columns: arrays in, an array of results out.

    ``returns`` is the Spark type of the result. The function gets only tuples with at least one argument that is not
    null; for all others the result is null. After its arguments it gets each of ``tables``, stored tables of the
    network, as a :class:`StoredTable`: a mapping from columns to arrays, sorted by all columns.

    >>> import slipstream as ss
    >>> @ss.udf.scalar("double")
    ... def to_kmh(mph):
    ...     return mph * 1.609
    >>> cars = ss.read("kafka://broker:9092/positions", {"id": "string", "speed": "double"})
    >>> cars.select("id", kmh="to_kmh(speed)").schema
    {'id': 'string', 'kmh': 'double'}
    """

    def register(function: Decorated) -> Decorated:
        called = name or function.__name__
        box_functions.register(box_functions.ScalarFunction(called, function, _type(called, returns), tuple(tables)))
        ship(function)
        return function

    return register


def window(returns: str, *, name: str = "") -> Callable[[Decorated], Decorated]:
    """Register a window function: it gets all windows of a batch at once and returns a value per window.

    ``returns`` is the Spark type of the result; a masked element is null. :class:`Windows` has the arguments of all
    tuples as arrays, and where each window begins and ends.

    >>> import numpy as np
    >>> import slipstream as ss
    >>> @ss.udf.window("bigint")
    ... def span(windows):
    ...     (speed,) = windows.columns
    ...     return windows.reduce(np.maximum, speed) - windows.reduce(np.minimum, speed)
    >>> cars = ss.read("kafka://broker:9092/positions")
    >>> cars.window("time", "1 minute", by="segment").agg(span="span(speed)").schema
    {'segment': 'bigint', 'time': 'bigint', 'span': 'bigint'}
    """

    def register(function: Decorated) -> Decorated:
        called = name or function.__name__
        box_functions.register(box_functions.VectorFunction(called, function, _type(called, returns)))
        ship(function)
        return function

    return register


def fold(
    name: str,
    *,
    init: Callable[[float], Any],
    step: Callable[..., Any],
    final: Callable[[Any], Any],
    returns: str,
) -> None:
    """Register a window function that sees one tuple after another; :func:`window` is many times faster.

    ``init`` gets the beginning of the window and returns a state, ``step`` gets the state and the arguments of a tuple
    (None for null) and returns the next state, ``final`` turns the last state into the result.

    >>> import slipstream as ss
    >>> ss.udf.fold(
    ...     "all_same", init=lambda at: set(), step=lambda s, x: s | {x}, final=lambda s: len(s) == 1, returns="boolean"
    ... )
    >>> cars = ss.read("kafka://broker:9092/positions")
    >>> cars.window("time", "1 minute", by="id").agg(stands="all_same(position)").columns
    ['id', 'time', 'stands']
    """
    box_functions.register(box_functions.WindowFunction(name, init, step, final, _type(name, returns)))
    for function in (init, step, final):
        ship(function)


def atomic(name: str = "") -> Callable[[Decorated], Decorated]:
    """Register a function over atomic streams, for queries of cuboids: the past of many keys in, a number per key out.

    It gets each stream as an array with a row per key, the latest element first, NaN where there is none; patterns as
    one row, numbers as they are.

    >>> import numpy as np
    >>> import slipstream as ss
    >>> @ss.udf.atomic()
    ... def spread_of(values):
    ...     return np.nanmax(values, axis=1) - np.nanmin(values, axis=1)
    >>> cars = ss.read("kafka://broker:9092/cars", {"id": "bigint", "speed": "double"})
    >>> kept = cars.keep("CREATE CUBOID car (id BIGINT KEY, speed AST(6))")
    >>> kept.query("SELECT id, spread_of(speed) AS d FROM car").columns
    ['id', 'd']
    """

    def register(function: Decorated) -> Decorated:
        stream_functions.atomic(name or function.__name__)(function)
        ship(function)
        return function

    return register


def toll(
    name: str = "", *, accident_minutes: int = 1, base_credit: int = 0, frequent_traveller: int = -1
) -> Callable[[Decorated], Decorated]:
    """Register a toll function as a rule set: average speeds and car counts of many segments in, their tolls out.

    Network files name the rule set (``toll: {rules: per_car}``), and so does ``Stream.toll(rules="per_car")``. The
    other arguments are those of :class:`slipstream.Rules`.

    >>> import numpy as np
    >>> import slipstream as ss
    >>> @ss.udf.toll()
    ... def per_car(lav, cars):
    ...     return np.where(lav < 50, 5 * cars, 0)
    >>> ss.read("kafka://broker:9092/positions").toll(rules="per_car").notifications.columns
    ['vid', 'time', 'lav', 'toll']
    """

    def register(function: Decorated) -> Decorated:
        rule_sets.register(
            replace(
                rule_sets.RULES["2004"],
                name=name or function.__name__,
                toll=function,
                accident_minutes=accident_minutes,
                base_credit=base_credit,
                frequent_traveller=frequent_traveller,
            )
        )
        ship(function)
        return function

    return register


def box(made: BoxClass) -> BoxClass:
    """Register a :class:`slipstream.Box`, so that network files can name it (``operator: jumps``).

    ``Stream.through`` takes boxes whether they are registered or not.

    >>> from dataclasses import dataclass
    >>> import slipstream as ss
    >>> @ss.udf.box
    ... @dataclass(frozen=True)
    ... class Standing(ss.Box):
    ...     name = "standing"
    ...
    ...     def outputs(self, tuples):
    ...         return {"out": tuples}
    ...
    ...     def step(self, state, tuples):
    ...         return {"out": tuples.take(tuples["speed"] == 0)}
    >>> ss.read("kafka://broker:9092/positions").through(Standing()).columns[:2]
    ['id', 'time']
    """
    operators.register(made)
    ship(made)
    return made


def _type(name: str, returns: str) -> str:
    found = plain_type(returns)
    if found not in SPARK_TYPES:
        raise BadArgument(
            f"function {name}: no type {returns!r}.",
            hint=f"It returns one of: {', '.join(SPARK_TYPES.values())}.",
            code="bad-type",
        )
    return found
