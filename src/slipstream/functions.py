"""Operators on moving points, as functions of DataFrame columns.

    import slipstream.functions as sf

    trips.select("id", sf.travelled("Trip")).where(sf.passes("Trip", sf.point("x", "y")))

Every function takes columns or their names. The same operators are functions of Spark SQL after
``slipstream.functions.register(spark)``; ``Results.trips().where(...)`` registers them by itself.
docs/reference/operators.md has what each takes and returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from slipstream._moving.functions import operator, register

if TYPE_CHECKING:
    from pyspark.sql import Column

#: a column, or its name
Columnlike: TypeAlias = "Column | str"

__all__ = [
    "at",
    "at_bool",
    "at_each",
    "at_most",
    "atinstant",
    "atinstant_each",
    "atperiods",
    "atperiods_each",
    "circle",
    "concat_all",
    "deftime",
    "distance",
    "final",
    "initial",
    "inside",
    "inst",
    "intersection",
    "isempty",
    "line_distance",
    "passes",
    "passes_each",
    "periods",
    "point",
    "present",
    "present_each",
    "problem",
    "register",
    "sometimes",
    "trajectory",
    "travelled",
    "travelled_all",
    "united",
    "val",
]


def _column(given: Columnlike) -> Column:
    from pyspark.sql import functions as sf

    return sf.col(given) if isinstance(given, str) else given


def atinstant(trip: Columnlike, instant: Columnlike) -> Column:
    """Return the position of a moving point at an instant; null where it is nowhere."""
    return operator("atinstant")(trip, instant)


def atinstant_each(trip: Columnlike, instants: Columnlike) -> Column:
    """Return the position at each of an array of instants."""
    return operator("atinstant_each")(trip, instants)


def initial(trip: Columnlike) -> Column:
    """Return the first position of a moving point, and its instant."""
    return operator("initial")(trip)


def final(trip: Columnlike) -> Column:
    """Return the last position of a moving point, and its instant."""
    return operator("final")(trip)


def present(trip: Columnlike, when: Columnlike) -> Column:
    """Return whether a moving point is defined at an instant, or at some time in periods."""
    return operator("present")(trip, when)


def present_each(trip: Columnlike, whens: Columnlike) -> Column:
    """Return ``present`` for each of an array of instants or periods."""
    return operator("present_each")(trip, whens)


def passes(trip: Columnlike, place: Columnlike) -> Column:
    """Return whether a moving point is ever at a point (within 1e-6 m) or in a region."""
    return operator("passes")(trip, place)


def passes_each(trip: Columnlike, places: Columnlike) -> Column:
    """Return ``passes`` for each of an array of points or regions."""
    return operator("passes_each")(trip, places)


def at(trip: Columnlike, place: Columnlike) -> Column:
    """Restrict a moving point to the times when it is at a point (within 1e-6 m) or in a region."""
    return operator("at")(trip, place)


def at_each(trip: Columnlike, places: Columnlike) -> Column:
    """Return ``at`` for each of an array of points or regions."""
    return operator("at_each")(trip, places)


def atperiods(trip: Columnlike, periods: Columnlike) -> Column:
    """Restrict a moving point to periods."""
    return operator("atperiods")(trip, periods)


def atperiods_each(trip: Columnlike, periods: Columnlike) -> Column:
    """Return ``atperiods`` for each of an array of periods."""
    return operator("atperiods_each")(trip, periods)


def deftime(moving: Columnlike) -> Column:
    """Return the periods in which a moving value is defined."""
    return operator("deftime")(moving)


def trajectory(trip: Columnlike) -> Column:
    """Return the path of a moving point in the plane."""
    return operator("trajectory")(trip)


def travelled(trip: Columnlike) -> Column:
    """Return the distance travelled, in metres."""
    return operator("travelled")(trip)


def travelled_all(trips: Columnlike) -> Column:
    """Return the distance travelled of each of an array of moving points."""
    return operator("travelled_all")(trips)


def distance(first: Columnlike, second: Columnlike) -> Column:
    """Return the distance between two moving points as it changes over time."""
    return operator("distance")(first, second)


def line_distance(first: Columnlike, second: Columnlike) -> Column:
    """Return the least distance between two lines; null if one is empty."""
    return operator("line_distance")(first, second)


def at_most(moving: Columnlike, limit: Columnlike) -> Column:
    """Return when a moving real is at most a number, as a moving boolean."""
    return operator("at_most")(moving, limit)


def at_bool(moving: Columnlike, truth: Columnlike) -> Column:
    """Restrict a moving boolean to the times when it has a value."""
    return operator("at_bool")(moving, truth)


def sometimes(moving: Columnlike) -> Column:
    """Return whether a moving boolean is ever true."""
    return operator("sometimes")(moving)


def intersection(first: Columnlike, second: Columnlike) -> Column:
    """Restrict a moving point to the times when another is at the same place."""
    return operator("intersection")(first, second)


def inside(place: Columnlike, region: Columnlike) -> Column:
    """Return whether a point is in a region or on its border."""
    return operator("inside")(place, region)


def isempty(value: Columnlike) -> Column:
    """Return whether a moving value, periods, a line or a region is empty."""
    return operator("isempty")(value)


def concat_all(trips: Columnlike) -> Column:
    """Concatenate an array of moving points into one."""
    return operator("concat_all")(trips)


def circle(place: Columnlike, radius: Columnlike, corners: Columnlike) -> Column:
    """Return a regular polygon around a point."""
    return operator("circle")(place, radius, corners)


def united(intervals: Columnlike) -> Column:
    """Return periods from an array of intervals (begin, end); those that touch become one."""
    return operator("united")(intervals)


def problem(trip: Columnlike) -> Column:
    """Return what is wrong with a moving point, in words; null if it is valid."""
    return operator("problem")(trip)


def point(x: Columnlike, y: Columnlike) -> Column:
    """Return a point from its coordinates, in metres."""
    from pyspark.sql import functions as sf

    return sf.struct(_column(x).cast("double").alias("x"), _column(y).cast("double").alias("y"))


def periods(begin: Columnlike, end: Columnlike) -> Column:
    """Return periods of one interval, from two timestamps."""
    from pyspark.sql import functions as sf

    return sf.struct(sf.array(_column(begin)).alias("begin"), sf.array(_column(end)).alias("end"))


def val(position: Columnlike) -> Column:
    """Return the place of a position: what ``atinstant``, ``initial`` and ``final`` return, without the instant."""
    from pyspark.sql import functions as sf

    whole = _column(position)
    return sf.struct(whole["x"].alias("x"), whole["y"].alias("y"))


def inst(position: Columnlike) -> Column:
    """Return the instant of a position."""
    return _column(position)["t"]
