"""Functions in boxes: the SQL aggregates of the kernels, and users' window and scalar functions.

In addition to the functions of ``_sql.allowed``, an expression can call those that are registered here, under unique
names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

import numpy as np

from slipstream._errors import BadArgument
from slipstream._network.boxes import operators
from slipstream._network.column_types import SPARK_TYPES
from slipstream._network.state.stored import StoredTable
from slipstream._sql.allowed import AGGREGATES, FUNCTIONS, KEYWORDS, TYPES

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

    from slipstream._network.boxes.windows.window_functions import Windows

#: stored tables by name
Stored: TypeAlias = Mapping[str, StoredTable]


@dataclass(frozen=True)
class WindowFunction:
    """A user-defined window function, as in Postgres: a state is opened, fed each tuple of the window, closed.

    ``init`` gets the window's position on the order attribute, ``incr`` the state and the arguments of one tuple in
    order, ``final`` the state; ``returns`` is the type of the result.
    """

    name: str
    init: Callable[[float], Any]
    incr: Callable[..., Any]
    final: Callable[[Any], Any]
    returns: str


@dataclass(frozen=True)
class VectorFunction:
    """A user-defined window function over all windows of a batch at once, many times faster than tuple by tuple.

    ``whole`` gets the ``Windows`` (the arguments of their tuples as arrays, the beginning and end of each window, and
    its position on the order attribute) and returns an array with one value per window. Masked values are null. A null
    argument is NaN, None or the lowest integer: see ``Windows.known``.
    """

    name: str
    whole: Callable[[Windows], Any]
    returns: str


@dataclass(frozen=True)
class ScalarFunction:
    """A user-defined function of columns, for predicates and maps: arrays in, an array of results out.

    It gets only tuples with an argument that is not null; for others the result is null. So it costs nothing for tuples
    that an earlier filter has removed, and the optimiser's order of filters pays off.

    ``tables`` names stored tables of the network that it reads: after the arguments it gets each of them as a mapping
    of columns to arrays, sorted by all columns. It cannot be called where tuples pass through Spark's own expressions.
    """

    name: str
    function: Callable[..., Any]
    returns: str
    tables: tuple[str, ...] = ()

    def over(self, *columns: pd.Series[Any], tables: Stored | None = None) -> pd.Series[Any]:
        """The results for a batch of tuples."""
        import pandas as pd  # takes half a second, which checking a network need not spend

        stored = [self._table(name, tables or {}) for name in self.tables]
        present = np.logical_or.reduce([column.notna().to_numpy() for column in columns])
        if present.all():
            return pd.Series(self.function(*(column.to_numpy() for column in columns), *stored))
        results = np.full(present.size, None, dtype=object)
        if present.any():
            results[present] = self.function(*(column.to_numpy()[present] for column in columns), *stored)
        return pd.Series(results)

    def _table(self, name: str, tables: Stored) -> StoredTable:
        if name not in tables:
            raise BadArgument(
                f"function {self.name}: no table {name!r}.",
                hint="Declare it under tables:, and use only functions that run in one stage (network describe).",
                code="unknown-name",
                found=name,
            )
        return tables[name]


_registered: dict[str, WindowFunction | VectorFunction] = {}
_scalars: dict[str, ScalarFunction] = {}

#: aggregate -> the type of its result, None when that is its argument's
SQL_AGGREGATES: dict[str, str | None] = {
    "count": "integer",
    "count_distinct": "integer",
    "sum": None,
    "avg": "float",
    "min": None,
    "max": None,
    "first": None,
    "last": None,
    "stddev": "float",
    "bool_and": "boolean",
    "bool_or": "boolean",
}


#: aggregates that need not keep the tuples they are over
RUNNING = ("count", "sum", "avg", "min", "max")

AnyFunction = TypeVar("AnyFunction", WindowFunction, VectorFunction, ScalarFunction)


@overload
def register(function: AnyFunction) -> AnyFunction: ...
@overload
def register(function: operators.OperatorClass) -> operators.OperatorClass: ...
def register(function: Any) -> Any:
    """Register a function under its case-insensitive name, or the class of an operator.

    A function's name must not be one that SQL uses.
    """
    if isinstance(function, type):
        return operators.register(function)
    name = function.name.lower()
    if name in {*SQL_AGGREGATES, *AGGREGATES, *FUNCTIONS, *KEYWORDS, *TYPES}:
        raise BadArgument(
            f"function {function.name}: SQL has a function of that name.",
            hint="Choose another name.",
            code="duplicate-name",
        )
    if not re.fullmatch(r"[a-z_][a-z0-9_]*", name):
        raise BadArgument(
            f"function {function.name!r}: not a name.",
            hint="Use letters, digits and underscores.",
            code="bad-name",
            found=function.name,
        )
    if isinstance(function, ScalarFunction):
        _scalars[name] = function
    else:
        _registered[name] = function
    return function


def scalar(name: str) -> ScalarFunction | None:
    """The user's scalar function of that name, if there is one."""
    return _scalars.get(name.lower())


def scalars() -> frozenset[str]:
    """The names of the user's scalar functions."""
    return frozenset(_scalars)


def with_tables() -> frozenset[str]:
    """The names of the user's scalar functions that look things up in stored tables."""
    return frozenset(name for name, function in _scalars.items() if function.tables)


def find_tables(name: str) -> tuple[str, ...]:
    """The stored tables that a scalar function of the user's looks things up in."""
    return _scalars[name].tables


def install(spark: SparkSession, names: Iterable[str], tables: Stored | None = None) -> None:
    """Register some of the user's scalar functions with a Spark session, with the tables they read.

    A name that Spark has itself is refused, as Spark would call its own function.
    """
    from pyspark.sql.pandas.functions import pandas_udf

    vectorised: Any = pandas_udf
    for name in _scalars.keys() & set(names):
        if is_spark(spark, name):
            raise BadArgument(
                f"function {name}: Spark has a function of that name.",
                hint="Choose another name.",
                code="duplicate-name",
            )
        scalar = _scalars[name]
        spark.udf.register(name, vectorised(_call(scalar, tables), SPARK_TYPES[scalar.returns]))


def is_spark(spark: SparkSession, name: str) -> bool:
    """Whether a function of that name is built into Spark."""
    jvm: Any = spark.sparkContext._jvm
    catalyst = jvm.org.apache.spark.sql.catalyst
    wanted = catalyst.FunctionIdentifier(name)
    tables = catalyst.analysis.TableFunctionRegistry.builtin()
    return bool(catalyst.analysis.FunctionRegistry.builtin().functionExists(wanted) or tables.functionExists(wanted))


def _call(scalar: ScalarFunction, tables: Stored | None) -> Callable[..., Any]:
    import pandas as pd

    def call(*columns: Any) -> Any:
        return scalar.over(*columns, tables=tables)

    # Spark reads the annotations at run time to know how to call it
    call.__annotations__ = {"columns": pd.Series, "return": pd.Series}
    return call


def is_python(names: Iterable[str]) -> bool:
    """Whether one of these functions is a user's scalar function."""
    return not _scalars.keys().isdisjoint(names)


def find_registered(name: str) -> WindowFunction | VectorFunction | None:
    """The user's window function of that name, if there is one."""
    return _registered.get(name.lower())


def known() -> list[str]:
    """All names a window function can have."""
    return sorted([*SQL_AGGREGATES, *_registered])
