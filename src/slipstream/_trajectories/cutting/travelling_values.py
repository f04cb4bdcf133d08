"""Values that travel with a trip: columns of positions become values over time, beside the moving point.

A number with a fraction becomes a ``tfloat``, which changes linearly from one position to the next; a whole number, a
boolean or a text a ``tint``, ``tbool`` or ``ttext``, which holds until the next position. A position without a value,
or with one that cannot be read or is not finite, is left out of the value, and stays in the trip. A trip without any
value has none: null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slipstream._errors import BadArgument
from slipstream._moving import types
from slipstream._moving.types import TBOOL, TFLOAT, TINT, TTEXT, Type
from slipstream._tools.numba_tools import Longs

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

#: the types of values, by their names
KINDS = {kind.name: kind for kind in types.OVER_TIME}
#: what Spark's types become; others cannot travel
_WHOLE, _REAL = ("tinyint", "smallint", "int", "bigint"), ("float", "double")

#: columns and the types that they were given; empty if the column decides
Values = tuple[tuple[str, str], ...]


def parse_values(given: Sequence[str] | Mapping[str, str]) -> Values:
    """Return columns and their types; refuse types that do not exist.

    >>> parse_values(["fuel"]), parse_values({"fuel": "tfloat"})
    ((('fuel', ''),), (('fuel', 'tfloat'),))
    """
    pairs = given.items() if isinstance(given, Mapping) else [(name, "") for name in _as_list(given)]
    for name, kind in pairs:
        if kind not in ("", *KINDS):
            raise BadArgument(
                f"values: {name}: {kind!r} is not a type of values over time.",
                hint=f"Use {', '.join(KINDS)}.",
                code="unknown-value",
                found=kind,
                expected=[*KINDS],
            )
    return tuple(pairs)


def _as_list(given: Sequence[str]) -> Sequence[str]:
    return [given] if isinstance(given, str) else given


def read_value(column: Column, name: str, found: DataType, kind: str) -> Column:
    """Return the values of a column as Spark keeps them for a type; null where there is none."""
    from pyspark.sql import functions as sf

    known = found.simpleString()
    wanted = kind or _kind_of(name, known)
    if known == "string" and wanted != TTEXT.name:
        column = sf.trim(column)
    if wanted == TFLOAT.name:
        number = column.try_cast("double")
        return sf.when(sf.abs(number) < sf.lit(float("inf")), number)  # NaN is greater than infinity
    if wanted == TTEXT.name:
        return column.cast("string")
    return column.try_cast({TINT.name: "bigint", TBOOL.name: "boolean"}[wanted])


def _kind_of(name: str, known: str) -> str:
    if known in _REAL or known.startswith("decimal"):
        return TFLOAT.name
    if known in _WHOLE:
        return TINT.name
    if known in ("boolean", "string"):
        return TBOOL.name if known == "boolean" else TTEXT.name
    raise BadArgument(
        f"values: column {name!r} is {known}.",
        hint="Numbers, booleans and texts can be values over time; keep= takes any column.",
        code="bad-type",
        found=known,
    )


def kind_of(found: pa.DataType) -> Type:
    """Return the type of values over time that a column of :func:`read_value` becomes."""
    if pa.types.is_floating(found):
        return TFLOAT
    if pa.types.is_integer(found):
        return TINT
    return TBOOL if pa.types.is_boolean(found) else TTEXT


def put_over_time(sizes: Longs, t: Longs, column: pa.Array) -> pa.Array:
    """Return values over time of trips with this many positions each.

    >>> put_over_time(np.array([2, 1]), np.array([0, 1, 2]), pa.array([1.5, None, None]))[1]
    <pyarrow.StructScalar: None>
    """
    kind = kind_of(column.type)
    there = pc.is_valid(column).to_numpy(zero_copy_only=False)
    counts = np.bincount(np.repeat(np.arange(len(sizes)), sizes)[there], minlength=len(sizes))
    values = column.drop_null().cast(kind.arrow.field("value").type.value_type)
    lists = _lists(counts, pa.array(t[there]).view(types.INSTANT)), _lists(counts, values)
    sequences = np.minimum(counts, 1)
    starts = _lists(sequences, pa.array(np.zeros(sequences.sum(), np.int32)))
    interpolation = pa.array(["linear" if kind is TFLOAT else "step"] * len(sizes), pa.string())
    mask = pa.array(counts == 0)
    return pa.StructArray.from_arrays([*lists, starts, interpolation], fields=list(kind.arrow), mask=mask)


def _lists(sizes: Longs, values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)), values)
