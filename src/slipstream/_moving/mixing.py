"""Refuses to combine columns of different reference systems when a query is built, before anything runs.

The metadata of a DataFrame's column names its system (``systems.CRS_KEY``). In SQL, calls are checked while Spark
analyses them (``analysing``). Functions of columns that are only named (``"Trip"``, ``col("Trip")``) are not known by
then, so :func:`check_systems` looks at a whole query.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from slipstream._errors import BadArgument
from slipstream._moving.space.systems import CRS_KEY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def refuse_mixed(name: str, columns: Iterable[Any]) -> None:
    """Refuse arguments of an operator that are known to have different reference systems."""
    _refuse(name, {system for column in columns for system in _systems_of(column)})


def refuse_mixed_expressions(name: str, expressions: Iterable[Any]) -> None:
    """Refuse resolved arguments of an operator, as Spark analyses them, of different reference systems."""
    _refuse(name, {system for expression in expressions for system in _read_references(expression)})


def refuse_mixed_tables(name: str, tables: Iterable[DataFrame], column: str) -> None:
    """Refuse tables whose columns of one name are known to have different reference systems."""
    systems = {str(table.schema[column].metadata.get(CRS_KEY) or "") for table in tables}
    _refuse(name, systems - {""})


def check_systems(frame: DataFrame) -> DataFrame:
    """Return a query; refuse it if an operator in it combines columns of different reference systems.

    >>> import slipstream.functions as sf
    >>> sf.check_systems(trips.select(sf.travelled("Trip").alias("metres"))).columns
    ['metres']
    """
    plan: Any = frame._jdf.queryExecution().analyzed()
    for node in _walk(plan):
        if node.getClass().getSimpleName() == "Union":
            _refuse_union(node)
        for expression in _each(node.expressions()):
            for part in _walk(expression):
                if part.getClass().getSimpleName() == "PythonUDF":
                    refuse_mixed_expressions(part.name(), (part,))
    return frame


def _refuse_union(node: Any) -> None:
    """Refuse a union of columns of different systems: Spark calls all of its rows' by the system of the first table."""
    tables = [list(_each(child.output())) for child in _each(node.children())]
    for columns in zip(*tables, strict=True):
        _refuse(f"union of {columns[0].name()}", {system for one in columns for system in _read(one.metadata())})


def _refuse(name: str, systems: set[str]) -> None:
    if len(systems) > 1:
        raise BadArgument(
            f"{name}: columns of different reference systems: {', '.join(sorted(systems))}.",
            hint='Build them with the same system: ss.trajectories(..., to="EPSG:32633").',
            code="bad-coordinates",
            found=sorted(systems),
        )


def _systems_of(column: Any) -> Iterator[str]:
    """The systems of the columns of a DataFrame that an expression is made of."""
    java = getattr(column, "_jc", None)
    if java is None or not hasattr(java, "node"):
        return
    for node in _walk(java.node()):
        if node.getClass().getSimpleName().startswith("ExpressionColumnNode"):
            yield from _read_references(node.expression())


def _read_references(expression: Any) -> Iterator[str]:
    """The systems of the columns that an expression of Spark's refers to."""
    for one in _each(expression.references().toSeq()):
        yield from _read(one.metadata())


def _read(metadata: Any) -> Iterator[str]:
    system = json.loads(metadata.json()).get(CRS_KEY)
    if system:
        yield str(system)


def _walk(node: Any) -> Iterator[Any]:
    """A tree of Spark's, from the top."""
    yield node
    for child in _each(node.children()):
        yield from _walk(child)


def _each(sequence: Any) -> Iterator[Any]:
    """The elements of a sequence of Scala's."""
    for number in range(sequence.size()):
        yield sequence.apply(number)
