"""The column types of the moving-object algebra.

A moving point is a struct of arrays: vertices ``(t, x, y)`` in time order, and ``starts``, the indices at which
sequences begin. Between the vertices of a sequence the point moves linearly; between sequences it is undefined.
Sequences are closed; if one begins at the instant another ends, the later one counts, so units are half open as in the
paper. Times, eastings and northings are separate arrays, so that Parquet compresses them well and NumPy can use them
without copying.

======== ==========================================================================================
point    ``x, y`` in metres
ipoint   ``t, x, y``: a point at an instant
periods  ``begin[], end[]``: disjoint closed intervals in time order
mpoint   ``t[], x[], y[], starts[]``
mreal    ``begin[], end[], a[], b[], c[]``: sqrt(a s² + b s + c), s the seconds since ``begin``
mbool    ``begin[], end[], value[]``: true intervals are closed
line     ``x[], y[], starts[]``: polylines
region   ``x[], y[], starts[]``: closed rings, even-odd, with their border
tfloat   ``t[], value[], starts[], interpolation``: a number over time; so are tint, tbool and ttext
stbox    ``xmin, ymin, xmax, ymax, tmin, tmax``: a box in space and time; null is unbounded
======== ==========================================================================================

A value over time (tfloat, tint, tbool, ttext) has the vertices and sequences of a moving point, and an interpolation:
``linear`` (tfloat only), ``step`` (a value holds until the next vertex) or ``discrete`` (defined at its vertices only).
Time is a whole number of microseconds, so what lasts *until* an instant ends one microsecond before it.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

INSTANT = pa.timestamp("us", tz="UTC")
MICROS = 1_000_000

#: a point counts as reached if the path comes this close, in metres: rounding must not lose true answers
REACH = 1e-6
#: how close to its border a point still belongs to a region, in metres
BORDER = 1e-9

#: how values between two vertices follow from them; a column has the index per row
INTERPOLATIONS = ("discrete", "step", "linear")
DISCRETE, STEP, LINEAR = range(3)

_INSTANTS, _NUMBERS = pa.list_(INSTANT), pa.list_(pa.float64())
_PLACES = pa.list_(pa.int32())


@dataclass(frozen=True)
class Type:
    """A type of the algebra: its name, its Spark SQL type and its Arrow type."""

    name: str
    sql: str
    arrow: pa.DataType


def struct(name: str, **fields: pa.DataType) -> Type:
    """Return the type of a struct of these fields."""
    sql_types = {_INSTANTS: "array<timestamp>", _NUMBERS: "array<double>", _PLACES: "array<int>"}
    sql_types |= {INSTANT: "timestamp", pa.float64(): "double", pa.list_(pa.bool_()): "array<boolean>"}
    sql_types |= {pa.list_(pa.int64()): "array<bigint>", pa.list_(pa.string()): "array<string>"}
    sql_types |= {pa.int64(): "bigint", pa.string(): "string"}
    sql = ",".join(f"{field}:{sql_types[kind]}" for field, kind in fields.items())
    return Type(name, f"struct<{sql}>", pa.struct(list(fields.items())))


POINT = struct("point", x=pa.float64(), y=pa.float64())
IPOINT = struct("ipoint", t=INSTANT, x=pa.float64(), y=pa.float64())
PERIODS = struct("periods", begin=_INSTANTS, end=_INSTANTS)
MPOINT = struct("mpoint", t=_INSTANTS, x=_NUMBERS, y=_NUMBERS, starts=_PLACES)
MREAL = struct("mreal", begin=_INSTANTS, end=_INSTANTS, a=_NUMBERS, b=_NUMBERS, c=_NUMBERS)
MBOOL = struct("mbool", begin=_INSTANTS, end=_INSTANTS, value=pa.list_(pa.bool_()))
LINE = struct("line", x=_NUMBERS, y=_NUMBERS, starts=_PLACES)
REGION = Type("region", LINE.sql, LINE.arrow)


def _over_time(name: str, value: pa.DataType) -> Type:
    return struct(name, t=_INSTANTS, value=pa.list_(value), starts=_PLACES, interpolation=pa.string())


TFLOAT = _over_time("tfloat", pa.float64())
TINT = _over_time("tint", pa.int64())
TBOOL = _over_time("tbool", pa.bool_())
TTEXT = _over_time("ttext", pa.string())
_EDGES = dict.fromkeys(("xmin", "ymin", "xmax", "ymax"), pa.float64())
STBOX = struct("stbox", **_EDGES, tmin=INSTANT, tmax=INSTANT)
BOOL = Type("bool", "boolean", pa.bool_())
REAL = Type("real", "double", pa.float64())
INT = Type("int", "bigint", pa.int64())
TEXT = Type("text", "string", pa.string())
INSTANT_TYPE = Type("instant", "timestamp", INSTANT)

#: the types of values over time, and the type of what they have at an instant
OVER_TIME = {TFLOAT: REAL, TINT: INT, TBOOL: BOOL, TTEXT: TEXT}


def array_of(kind: Type) -> Type:
    """Return the type of an array of ``kind``."""
    return Type(f"{kind.name}s", f"array<{kind.sql}>", pa.list_(kind.arrow))
