"""Numbers, booleans and text over time: compare, compute, restrict, convert."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream._moving.sql_functions import operator
from slipstream.functions._columns import Columnlike, column

if TYPE_CHECKING:
    from pyspark.sql import Column


def at_between(moving: Columnlike, low: Columnlike, high: Columnlike) -> Column:
    """Restrict a tfloat to when it is between two numbers, which are included.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> answer = sf.duration(sf.at_between(sf.cumulative_length("Trip"), F.lit(100), F.lit(400)))
    >>> trips.select("id", answer.alias("seconds")).toPandas()
          id  seconds
    0  van-1     60.0
    1  van-2     60.0
    2  van-3      0.0
    """
    return operator("at_between")(moving, low, high)


def minus_between(moving: Columnlike, low: Columnlike, high: Columnlike) -> Column:
    """Restrict a tfloat to when it is not between two numbers.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> answer = F.round(sf.duration(sf.minus_between(sf.cumulative_length("Trip"), F.lit(100), F.lit(400))))
    >>> trips.select("id", answer.alias("seconds")).toPandas()
          id  seconds
    0  van-1    180.0
    1  van-2    180.0
    2  van-3    600.0
    """
    return operator("minus_between")(moving, low, high)


def teq(moving: Columnlike, other: Columnlike) -> Column:
    """Return when a value over time equals a constant or another value over time: a tbool.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> trips.select("id", sf.duration(sf.when_true(sf.teq(sf.speed("Trip"), F.lit(0)))).alias("seconds")).toPandas()
          id  seconds
    0  van-1      0.0
    1  van-2      0.0
    2  van-3    600.0
    """
    return operator("teq")(moving, other)


def tne(moving: Columnlike, other: Columnlike) -> Column:
    """Return when a value over time differs from a constant or another value over time: a tbool.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> trips.select("id", sf.sometimes(sf.tne(sf.speed("Trip"), F.lit(0))).alias("ever moves")).toPandas()
          id  ever moves
    0  van-1        True
    1  van-2        True
    2  van-3       False
    """
    return operator("tne")(moving, other)


def tlt(moving: Columnlike, other: Columnlike) -> Column:
    """Return when a value over time is less than a constant or another value over time: a tbool.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> trips.select("id", sf.sometimes(sf.tlt(sf.speed("Trip"), F.lit(4))).alias("ever slow")).toPandas()
          id  ever slow
    0  van-1       True
    1  van-2       True
    2  van-3       True
    """
    return operator("tlt")(moving, other)


def tle(moving: Columnlike, other: Columnlike) -> Column:
    """Return when a value over time is at most a constant or another value over time: a tbool.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> trips.select("id", sf.always(sf.tle(sf.speed("Trip"), F.lit(5))).alias("within the limit")).toPandas()
          id  within the limit
    0  van-1              True
    1  van-2              True
    2  van-3              True
    """
    return operator("tle")(moving, other)


def tgt(moving: Columnlike, other: Columnlike) -> Column:
    """Return when a value over time is greater than a constant or another value over time: a tbool.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> fast = sf.tgt(sf.speed("Trip"), F.lit(4))
    >>> trips.select(fast["value"].alias("fast")).first()["fast"]
    [True, False, False]
    """
    return operator("tgt")(moving, other)


def tge(moving: Columnlike, other: Columnlike) -> Column:
    """Return when a value over time is at least a constant or another value over time: a tbool.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> trips.select("id", sf.always(sf.tge(sf.speed("Trip"), F.lit(3))).alias("keeps moving")).toPandas()
          id  keeps moving
    0  van-1          True
    1  van-2          True
    2  van-3         False
    """
    return operator("tge")(moving, other)


def tnot(moving: Columnlike) -> Column:
    """Return the opposite of a tbool.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> fast = sf.tgt(sf.speed("Trip"), F.lit(4))
    >>> trips.select("id", sf.sometimes(sf.tnot(fast)).alias("ever slow")).toPandas()
          id  ever slow
    0  van-1       True
    1  van-2       True
    2  van-3       True
    """
    return operator("tnot")(moving)


def tand(first: Columnlike, second: Columnlike) -> Column:
    """Return when two tbools hold, as one.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> fast = sf.tgt(sf.speed("Trip"), F.lit(4))
    >>> north = sf.teq(sf.direction("Trip"), F.lit(0))
    >>> trips.select("id", sf.sometimes(sf.tand(fast, north)).alias("fast to the north")).toPandas()
          id  fast to the north
    0  van-1              False
    1  van-2              False
    2  van-3              False
    """
    return operator("tand")(first, second)


def tor(first: Columnlike, second: Columnlike) -> Column:
    """Return when one of two tbools holds, as one.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> fast = sf.tgt(sf.speed("Trip"), F.lit(4))
    >>> north = sf.teq(sf.direction("Trip"), F.lit(0))
    >>> trips.select("id", sf.always(sf.tor(fast, north)).alias("either")).toPandas()
          id either
    0  van-1   True
    1  van-2   True
    2  van-3   None
    """
    return operator("tor")(first, second)


def when_true(moving: Columnlike) -> Column:
    """Return when a tbool or a moving boolean is true, as periods.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> fast = sf.tgt(sf.speed("Trip"), F.lit(4))
    >>> trips.select(sf.when_true(fast).cast("string").alias("times")).first()["times"]
    '{[2026-05-04 08:00:00], [2026-05-04 08:01:59.999999]}'
    """
    return operator("when_true")(moving)


def always(moving: Columnlike) -> Column:
    """Return whether a tbool or a moving boolean is true whenever it is defined; null if it never is.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> fast = sf.tgt(sf.speed("Trip"), F.lit(4))
    >>> trips.select("id", sf.always(fast).alias("always fast")).toPandas()
          id  always fast
    0  van-1        False
    1  van-2        False
    2  van-3        False
    """
    return operator("always")(moving)


def tadd(moving: Columnlike, other: Columnlike) -> Column:
    """Add a number, or other numbers over time, to numbers over time.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> trips.select(sf.tadd(sf.speed("Trip"), F.lit(1))["value"].alias("more")).first()["more"]
    [6.0, 4.333333333333334, 4.333333333333334]
    """
    return operator("tadd")(moving, other)


def tsub(moving: Columnlike, other: Columnlike) -> Column:
    """Subtract a number, or other numbers over time, from numbers over time.

    >>> import slipstream.functions as sf
    >>> trips.select(sf.tsub(sf.speed("Trip"), sf.speed("Trip"))["value"].alias("none")).first()["none"]
    [0.0, 0.0, 0.0]
    """
    return operator("tsub")(moving, other)


def tmul(moving: Columnlike, factor: Columnlike) -> Column:
    """Multiply numbers over time by a number.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> trips.select(sf.tmul(sf.speed("Trip"), F.lit(3.6))["value"].alias("km/h")).first()["km/h"]
    [18.0, 12.0, 12.0]
    """
    return operator("tmul")(moving, factor)


def tdiv(moving: Columnlike, divisor: Columnlike) -> Column:
    """Divide numbers over time by a number other than 0.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> trips.select(sf.tdiv(sf.cumulative_length("Trip"), F.lit(1000))["value"].alias("km")).first()["km"]
    [0.0, 0.6, 1.0]
    """
    return operator("tdiv")(moving, divisor)


def derivative(moving: Columnlike) -> Column:
    """Return how fast linear numbers change, per second: a step function.

    >>> import slipstream.functions as sf
    >>> trips.select(sf.derivative(sf.cumulative_length("Trip"))["value"].alias("speed")).first()["speed"]
    [5.0, 3.3333333333333335, 3.3333333333333335]
    """
    return operator("derivative")(moving)


def twavg(moving: Columnlike) -> Column:
    """Return the average of numbers over time, weighted by time.

    >>> import slipstream.functions as sf
    >>> trips.select("id", sf.twavg(sf.speed("Trip")).alias("metres per second")).toPandas()
          id  metres per second
    0  van-1           4.166667
    1  van-2           4.166667
    2  van-3           0.000000
    """
    return operator("twavg")(moving)


def integral(moving: Columnlike) -> Column:
    """Return the integral of numbers over time: the numbers times seconds.

    >>> import slipstream.functions as sf
    >>> trips.select("id", sf.integral(sf.speed("Trip")).alias("metres")).toPandas()
          id  metres
    0  van-1  1000.0
    1  van-2  1000.0
    2  van-3     0.0
    """
    return operator("integral")(moving)


def min_value(moving: Columnlike) -> Column:
    """Return the smallest of numbers over time, or of a distance.

    >>> import slipstream.functions as sf
    >>> trips.select("id", sf.min_value(sf.speed("Trip")).alias("slowest")).toPandas()
          id   slowest
    0  van-1  3.333333
    1  van-2  3.333333
    2  van-3  0.000000
    """
    return operator("min_value")(moving)


def max_value(moving: Columnlike) -> Column:
    """Return the largest of numbers over time, or of a distance.

    >>> import slipstream.functions as sf
    >>> trips.select("id", sf.max_value(sf.speed("Trip")).alias("fastest")).toPandas()
          id  fastest
    0  van-1      5.0
    1  van-2      5.0
    2  van-3      0.0
    """
    return operator("max_value")(moving)


def min_instant(moving: Columnlike) -> Column:
    """Return the first instant at which numbers over time, or a distance, are smallest.

    >>> import slipstream.functions as sf
    >>> trips.select("id", sf.min_instant(sf.speed("Trip")).alias("slowest")).toPandas()
          id             slowest
    0  van-1 2026-05-04 08:02:00
    1  van-2 2026-05-04 08:03:00
    2  van-3 2026-05-04 08:00:00
    """
    return operator("min_instant")(moving)


def max_instant(moving: Columnlike) -> Column:
    """Return the first instant at which numbers over time, or a distance, are largest.

    >>> import slipstream.functions as sf
    >>> trips.select("id", sf.max_instant(sf.speed("Trip")).alias("fastest")).toPandas()
          id             fastest
    0  van-1 2026-05-04 08:00:00
    1  van-2 2026-05-04 08:01:00
    2  van-3 2026-05-04 08:00:00
    """
    return operator("max_instant")(moving)


def to_tfloat(moving: Columnlike) -> Column:
    """Return a tint, a tbool or a distance as tfloat.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> pairs = trips.alias("a").join(trips.alias("b"), F.expr("a.id = 'van-1' AND b.id > a.id"))
    >>> answer = sf.twavg(sf.to_tfloat(sf.distance("a.Trip", "b.Trip")))
    >>> pairs.select("b.id", answer.alias("metres apart")).orderBy("id").toPandas()
          id  metres apart
    0  van-2    239.273471
    1  van-3    481.962185
    """
    return operator("to_tfloat")(moving)


def to_tint(moving: Columnlike) -> Column:
    """Return a tbool, or a tfloat that is a step function, as tint; fractions are cut off.

    >>> import slipstream.functions as sf
    >>> trips.select(sf.to_tint(sf.speed("Trip"))["value"].alias("speed")).first()["speed"]
    [5, 3, 3]
    """
    return operator("to_tint")(moving)


def to_ttext(moving: Columnlike) -> Column:
    """Return a tint, a tbool or a tfloat that is a step function as text over time.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> fast = sf.tgt(sf.speed("Trip"), F.lit(4))
    >>> trips.select(sf.to_ttext(fast)["value"].alias("fast")).first()["fast"]
    ['true', 'false', 'false']
    """
    return operator("to_ttext")(moving)


def tfloat(t: Columnlike, values: Columnlike, interpolation: Columnlike) -> Column:
    """Return a tfloat of one sequence from arrays of instants and values, and its interpolation.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> times = F.array(*[F.lit(f"2026-05-04 08:0{n}:00").cast("timestamp") for n in (0, 2)])
    >>> made = sf.tfloat(times, F.array(F.lit(80.0), F.lit(60.0)), F.lit("linear"))
    >>> at = F.lit("2026-05-04 08:01:00").cast("timestamp")
    >>> trips.select(sf.atinstant(made, at, of="tfloat").alias("value")).first()["value"]
    70.0
    """
    return _over_time(t, values, interpolation, "double")


def tint(t: Columnlike, values: Columnlike, interpolation: Columnlike) -> Column:
    """Return a tint of one sequence from arrays of instants and values, and its interpolation.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> times = F.array(*[F.lit(f"2026-05-04 08:0{n}:00").cast("timestamp") for n in (0, 2)])
    >>> made = sf.tint(times, F.array(F.lit(3), F.lit(4)), F.lit("step"))
    >>> at = F.lit("2026-05-04 08:01:00").cast("timestamp")
    >>> trips.select(sf.atinstant(made, at, of="tint").alias("value")).first()["value"]
    3
    """
    return _over_time(t, values, interpolation, "bigint")


def tbool(t: Columnlike, values: Columnlike, interpolation: Columnlike) -> Column:
    """Return a tbool of one sequence from arrays of instants and values, and its interpolation.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> times = F.array(*[F.lit(f"2026-05-04 08:0{n}:00").cast("timestamp") for n in (0, 2)])
    >>> made = sf.tbool(times, F.array(F.lit(True), F.lit(False)), F.lit("step"))
    >>> at = F.lit("2026-05-04 08:01:00").cast("timestamp")
    >>> trips.select(sf.atinstant(made, at, of="tbool").alias("value")).first()["value"]
    True
    """
    return _over_time(t, values, interpolation, "boolean")


def ttext(t: Columnlike, values: Columnlike, interpolation: Columnlike) -> Column:
    """Return a ttext of one sequence from arrays of instants and values, and its interpolation.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> times = F.array(*[F.lit(f"2026-05-04 08:0{n}:00").cast("timestamp") for n in (0, 2)])
    >>> made = sf.ttext(times, F.array(F.lit("free"), F.lit("taken")), F.lit("step"))
    >>> at = F.lit("2026-05-04 08:01:00").cast("timestamp")
    >>> trips.select(sf.atinstant(made, at, of="ttext").alias("value")).first()["value"]
    'free'
    """
    return _over_time(t, values, interpolation, "string")


def _over_time(t: Columnlike, values: Columnlike, interpolation: Columnlike, kind: str) -> Column:
    from pyspark.sql import functions as sf

    starts = sf.when(sf.size(column(t)) > 0, sf.array(sf.lit(0))).otherwise(sf.array().cast("array<int>"))
    return sf.struct(
        column(t).alias("t"),
        column(values).cast(f"array<{kind}>").alias("value"),
        starts.alias("starts"),
        column(interpolation).alias("interpolation"),
    )
