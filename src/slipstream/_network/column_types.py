"""Types of columns: users write Spark's names, boxes compute with four kinds of arrays.

``bigint``, ``double``, ``string`` and ``boolean`` are the types that a column can have; SQL's other names for them are
accepted wherever a type is written. Inside a network they are named ``integer``, ``float``, ``text`` and ``boolean``,
after the arrays that hold them.
"""

from __future__ import annotations

from collections.abc import Mapping

from slipstream._network.flow import LIST

#: the kinds of arrays, and Spark's types for them
SPARK_TYPES = {"integer": "bigint", "float": "double", "text": "string", "boolean": "boolean"}
#: the same, including those that only outputs accept
DELIVERED_TYPES = {**SPARK_TYPES, LIST: "array<double>"}

#: every name of a type -> the kind of array that holds it
_KINDS = {
    **{kind: kind for kind in SPARK_TYPES},
    **{spark: kind for kind, spark in SPARK_TYPES.items()},
    **dict.fromkeys(("tinyint", "smallint", "int", "long"), "integer"),
    "real": "float",
    "varchar": "text",
    "bool": "boolean",
}


def plain_type(type_: str) -> str:
    """Return a network's name for a type; an unknown type is returned as it is.

    >>> plain_type("bigint"), plain_type("INT"), plain_type("integer"), plain_type("date")
    ('integer', 'integer', 'integer', 'date')
    """
    return _KINDS.get(str(type_).lower(), str(type_))


def plain_schema(schema: Mapping[str, str]) -> dict[str, str]:
    """Return a schema with a network's names for types."""
    return {column: plain_type(type_) for column, type_ in schema.items()}


def spark_schema(schema: Mapping[str, str]) -> dict[str, str]:
    """Return a schema with Spark's names for types.

    >>> spark_schema({"id": "text", "speed": "float"})
    {'id': 'string', 'speed': 'double'}
    """
    return {column: spark_type(type_) for column, type_ in schema.items()}


def spark_type(type_: str) -> str:
    """Return Spark's name for a type, for messages."""
    return DELIVERED_TYPES.get(type_, type_)
