"""BerlinMOD's operators on moving points, and those on arrays of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream._moving.sql_functions import operator
from slipstream.functions._columns import Columnlike, Of, column, name_for

if TYPE_CHECKING:
    from pyspark.sql import Column


def atinstant(trip: Columnlike, instant: Columnlike, *, of: Of = "mpoint") -> Column:
    """Return the position of a moving point, or the value of what changes, at an instant; null if undefined.

    Values over time need their type, ``of``; in SQL it is part of the name: ``atinstant_tfloat``.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> when = F.lit("2026-05-04 08:03:00").cast("timestamp")
    >>> trips.select("id", sf.atinstant("Trip", when).alias("at")).select("id", "at.x", "at.y").toPandas()
          id      x      y
    0  van-1  600.0  200.0
    1  van-2  600.0    0.0
    2  van-3    0.0   30.0
    >>> speed = sf.atinstant(sf.speed("Trip"), when, of="tfloat")
    >>> trips.select("id", speed.alias("metres per second")).toPandas()
          id  metres per second
    0  van-1           3.333333
    1  van-2           3.333333
    2  van-3           0.000000
    """
    return operator(name_for("atinstant", of))(trip, instant)


def atinstant_each(trip: Columnlike, instants: Columnlike) -> Column:
    """Return the position at each of an array of instants.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> when = F.array(*[F.lit(f"2026-05-04 08:0{n}:00").cast("timestamp") for n in (1, 5)])
    >>> places = trips.select(sf.atinstant_each("Trip", when).alias("places")).first()["places"]
    >>> [place and (place["x"], place["y"]) for place in places]
    [(300.0, 0.0), None]
    """
    return operator("atinstant_each")(trip, instants)


def initial(trip: Columnlike) -> Column:
    """Return the first position of a moving point, and its instant.

    >>> import slipstream.functions as sf
    >>> trips.select("id", sf.initial("Trip").alias("began")).select("id", "began.*").toPandas()
          id                   t    x     y
    0  van-1 2026-05-04 08:00:00  0.0   0.0
    1  van-2 2026-05-04 08:01:00  0.0   0.0
    2  van-3 2026-05-04 08:00:00  0.0  30.0
    """
    return operator("initial")(trip)


def final(trip: Columnlike) -> Column:
    """Return the last position of a moving point, and its instant.

    >>> import slipstream.functions as sf
    >>> trips.select("id", sf.final("Trip").alias("ended")).select("id", "ended.*").toPandas()
          id                   t      x      y
    0  van-1 2026-05-04 08:04:00  600.0  400.0
    1  van-2 2026-05-04 08:05:00  600.0  400.0
    2  van-3 2026-05-04 08:10:00    0.0   30.0
    """
    return operator("final")(trip)


def present(trip: Columnlike, when: Columnlike) -> Column:
    """Return whether a moving point is defined at an instant, or at some time in periods.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> when = F.lit("2026-05-04 08:04:30").cast("timestamp")
    >>> trips.where(sf.present("Trip", when)).select("id").toPandas()
          id
    0  van-2
    1  van-3
    """
    return operator("present")(trip, when)


def present_each(trip: Columnlike, whens: Columnlike) -> Column:
    """Return ``present`` for each of an array of instants or periods.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> when = F.array(*[F.lit(f"2026-05-04 08:0{n}:00").cast("timestamp") for n in (1, 5)])
    >>> trips.select("id", sf.present_each("Trip", when).alias("there")).toPandas()
          id          there
    0  van-1  [True, False]
    1  van-2   [True, True]
    2  van-3   [True, True]
    """
    return operator("present_each")(trip, whens)


def passes(trip: Columnlike, place: Columnlike) -> Column:
    """Return whether a moving point is ever at a point (within 1e-6 m) or in a region.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> customer = sf.circle(sf.point(F.lit(600), F.lit(10)), F.lit(20), F.lit(32))
    >>> trips.where(sf.passes("Trip", customer)).select("id").toPandas()
          id
    0  van-1
    1  van-2
    """
    return operator("passes")(trip, place)


def passes_each(trip: Columnlike, places: Columnlike) -> Column:
    """Return ``passes`` for each of an array of points or regions.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> places = F.array(sf.point(F.lit(300), F.lit(0)), sf.point(F.lit(0), F.lit(30)))
    >>> trips.select("id", sf.passes_each("Trip", places).alias("was there")).toPandas()
          id      was there
    0  van-1  [True, False]
    1  van-2  [True, False]
    2  van-3  [False, True]
    """
    return operator("passes_each")(trip, places)


def at(trip: Columnlike, place: Columnlike, *, of: Of = "mpoint") -> Column:
    """Restrict a moving point to the times when it is at a point (within 1e-6 m) or in a region.

    A value over time (name its type in ``of``) is restricted to when it has a given value.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> depot = sf.circle(sf.point(F.lit(0), F.lit(0)), F.lit(50), F.lit(4))
    >>> there = trips.select("id", sf.at("Trip", depot).alias("there"))
    >>> there.select("id", sf.travelled("there").alias("metres there")).toPandas()
          id  metres there
    0  van-1          50.0
    1  van-2          50.0
    2  van-3           0.0
    >>> standing = sf.at(sf.speed("Trip"), F.lit(0), of="tfloat")
    >>> trips.select("id", sf.duration(standing).alias("seconds")).toPandas()
          id  seconds
    0  van-1      0.0
    1  van-2      0.0
    2  van-3    600.0
    """
    return operator(name_for("at", of))(trip, place)


def at_each(trip: Columnlike, places: Columnlike) -> Column:
    """Return ``at`` for each of an array of points or regions.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> places = F.array(sf.point(F.lit(300), F.lit(0)), sf.point(F.lit(0), F.lit(30)))
    >>> there = trips.select("id", sf.at_each("Trip", places).alias("there"))
    >>> there.select("id", sf.initial(F.col("there")[0])["t"].alias("passed")).toPandas()
          id              passed
    0  van-1 2026-05-04 08:01:00
    1  van-2 2026-05-04 08:02:00
    2  van-3                 NaT
    """
    return operator("at_each")(trip, places)


def atperiods(trip: Columnlike, periods: Columnlike, *, of: Of = "mpoint") -> Column:
    """Restrict a moving point, or a value over time (name its type in ``of``), to periods.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> first = [F.lit(f"2026-05-04 08:0{n}:00").cast("timestamp") for n in (0, 2)]
    >>> part = trips.select("id", sf.atperiods("Trip", sf.periods(*first)).alias("part"))
    >>> part.select("id", sf.travelled("part").alias("metres")).toPandas()
          id  metres
    0  van-1   600.0
    1  van-2   300.0
    2  van-3     0.0
    >>> speed = sf.atperiods(sf.speed("Trip"), sf.periods(*first), of="tfloat")
    >>> trips.select("id", sf.max_value(speed).alias("metres per second")).toPandas()
          id  metres per second
    0  van-1                5.0
    1  van-2                5.0
    2  van-3                0.0
    """
    return operator(name_for("atperiods", of))(trip, periods)


def atperiods_each(trip: Columnlike, periods: Columnlike) -> Column:
    """Return ``atperiods`` for each of an array of periods.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> at = [F.lit(f"2026-05-04 08:0{n}:00").cast("timestamp") for n in (0, 2, 4)]
    >>> parts = sf.atperiods_each("Trip", F.array(sf.periods(at[0], at[1]), sf.periods(at[1], at[2])))
    >>> trips.select("id", sf.travelled_all(parts).alias("metres")).toPandas()
          id          metres
    0  van-1  [600.0, 400.0]
    1  van-2  [300.0, 500.0]
    2  van-3      [0.0, 0.0]
    """
    return operator("atperiods_each")(trip, periods)


def minus(trip: Columnlike, place: Columnlike, *, of: Of = "mpoint") -> Column:
    """Restrict a moving point to the times when it is not at a point (within 1e-6 m) or in a region.

    A value over time (name its type in ``of``) is restricted to when it has another value.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> depot = sf.circle(sf.point(F.lit(0), F.lit(0)), F.lit(50), F.lit(4))
    >>> trips.select("id", F.round(sf.travelled(sf.minus("Trip", depot))).alias("metres")).toPandas()
          id  metres
    0  van-1   950.0
    1  van-2   950.0
    2  van-3     0.0
    """
    return operator(name_for("minus", of))(trip, place)


def minusperiods(trip: Columnlike, periods: Columnlike, *, of: Of = "mpoint") -> Column:
    """Restrict a moving point, or a value over time (name its type in ``of``), to outside of periods.

    What is left ends one microsecond before a period, and begins one after it.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> first = [F.lit(f"2026-05-04 08:0{n}:00").cast("timestamp") for n in (0, 2)]
    >>> rest = sf.minusperiods("Trip", sf.periods(*first))
    >>> trips.select("id", F.round(sf.travelled(rest)).alias("metres")).toPandas()
          id  metres
    0  van-1   400.0
    1  van-2   700.0
    2  van-3     0.0
    """
    return operator(name_for("minusperiods", of))(trip, periods)


def deftime(moving: Columnlike) -> Column:
    """Return the periods in which a moving value is defined.

    >>> import slipstream.functions as sf
    >>> trips.select(sf.deftime("Trip").cast("string").alias("times")).first()["times"]
    '{[2026-05-04 08:00:00], [2026-05-04 08:04:00]}'
    """
    return operator("deftime")(moving)


def trajectory(trip: Columnlike) -> Column:
    """Return the path of a moving point in the plane.

    >>> import slipstream.functions as sf
    >>> trips.select("id", sf.trajectory("Trip").alias("path")).first()
    Row(id='van-1', path=Row(x=[0.0, 600.0, 600.0], y=[0.0, 0.0, 400.0], starts=[0]))
    """
    return operator("trajectory")(trip)


def travelled(trip: Columnlike) -> Column:
    """Return the distance travelled, in metres.

    >>> import slipstream.functions as sf
    >>> trips.select("id", sf.travelled("Trip").alias("metres")).toPandas()
          id  metres
    0  van-1  1000.0
    1  van-2  1000.0
    2  van-3     0.0
    """
    return operator("travelled")(trip)


def travelled_all(trips: Columnlike) -> Column:
    """Return the distance travelled of each of an array of moving points.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> trips.select("id", sf.travelled_all(F.array("Trip", "Trip")).alias("metres")).toPandas()
          id            metres
    0  van-1  [1000.0, 1000.0]
    1  van-2  [1000.0, 1000.0]
    2  van-3        [0.0, 0.0]
    """
    return operator("travelled_all")(trips)


def distance(first: Columnlike, second: Columnlike) -> Column:
    """Return the distance between two moving points as it changes over time.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> pairs = trips.alias("a").join(trips.alias("b"), F.expr("a.id < b.id"))
    >>> apart = pairs.select("a.id", F.col("b.id").alias("other"), sf.distance("a.Trip", "b.Trip").alias("apart"))
    >>> since = sf.deftime("apart")["begin"][0].alias("since")
    >>> apart.select("id", "other", since).orderBy("id", "other").toPandas()
          id  other               since
    0  van-1  van-2 2026-05-04 08:01:00
    1  van-1  van-3 2026-05-04 08:00:00
    2  van-2  van-3 2026-05-04 08:01:00
    """
    return operator("distance")(first, second)


def line_distance(first: Columnlike, second: Columnlike) -> Column:
    """Return the least distance between two lines; null if one is empty.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> paths = trips.select("id", sf.trajectory("Trip").alias("path"))
    >>> pairs = paths.alias("a").join(paths.alias("b"), F.expr("a.id < b.id"))
    >>> metres = sf.line_distance("a.path", "b.path").alias("metres")
    >>> pairs.select("a.id", F.col("b.id").alias("other"), metres).orderBy("id", "other").toPandas()
          id  other  metres
    0  van-1  van-2     0.0
    1  van-1  van-3    30.0
    2  van-2  van-3    30.0
    """
    return operator("line_distance")(first, second)


def at_most(moving: Columnlike, limit: Columnlike) -> Column:
    """Return when a moving real is at most a number, as a moving boolean.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> pairs = trips.alias("a").join(trips.alias("b"), F.expr("a.id < b.id"))
    >>> near = sf.at_most(sf.distance("a.Trip", "b.Trip"), F.lit(100.0))
    >>> met = pairs.where(sf.sometimes(near)).select("a.id", F.col("b.id").alias("other"))
    >>> met.orderBy("id", "other").toPandas()
          id  other
    0  van-1  van-3
    1  van-2  van-3
    """
    return operator("at_most")(moving, limit)


def at_bool(moving: Columnlike, truth: Columnlike) -> Column:
    """Restrict a moving boolean to the times when it has a value.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> pairs = trips.alias("a").join(trips.alias("b"), F.expr("a.id = 'van-1' AND b.id = 'van-3'"))
    >>> near = sf.at_most(sf.distance("a.Trip", "b.Trip"), F.lit(50.0))
    >>> when = sf.deftime(sf.at_bool(near, F.lit(True)))
    >>> pairs.select(when.cast("string").alias("near")).first()["near"]
    '{[2026-05-04 08:00:00], [2026-05-04 08:00:08]}'
    """
    return operator("at_bool")(moving, truth)


def sometimes(moving: Columnlike) -> Column:
    """Return whether a moving boolean is ever true.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> pairs = trips.alias("a").join(trips.alias("b"), F.expr("a.id < b.id"))
    >>> near = sf.at_most(sf.distance("a.Trip", "b.Trip"), F.lit(30.0))
    >>> met = pairs.select("a.id", F.col("b.id").alias("other"), sf.sometimes(near).alias("met"))
    >>> met.orderBy("id", "other").toPandas()
          id  other    met
    0  van-1  van-2  False
    1  van-1  van-3   True
    2  van-2  van-3   True
    """
    return operator("sometimes")(moving)


def intersection(first: Columnlike, second: Columnlike) -> Column:
    """Restrict a moving point to the times when another is at the same place.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> pairs = trips.alias("a").join(trips.alias("b"), F.expr("a.id = 'van-1' AND b.id = 'van-2'"))
    >>> pairs.select(sf.isempty(sf.intersection("a.Trip", "b.Trip")).alias("never met")).first()
    Row(never met=True)
    """
    return operator("intersection")(first, second)


def enters(trip: Columnlike, zone: Columnlike) -> Column:
    """Return the vertices at which a moving point enters a region: inside, and at the vertex before it was not.

    ``Stream.enters`` finds the same live.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> zone = sf.circle(sf.point(F.lit(600), F.lit(0)), F.lit(100), F.lit(32))
    >>> trips.select("id", sf.enters("Trip", zone).alias("at")).select("id", "at.t").toPandas()
          id                      t
    0  van-1  [2026-05-04 08:02:00]
    1  van-2  [2026-05-04 08:03:00]
    2  van-3                     []
    """
    return operator("enters")(trip, zone)


def leaves(trip: Columnlike, zone: Columnlike) -> Column:
    """Return the vertices at which a moving point has left a region; ``Stream.leaves`` finds the same live.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> zone = sf.circle(sf.point(F.lit(600), F.lit(0)), F.lit(100), F.lit(32))
    >>> trips.select("id", sf.leaves("Trip", zone).alias("at")).select("id", "at.x", "at.y").toPandas()
          id        x        y
    0  van-1  [600.0]  [400.0]
    1  van-2  [600.0]  [400.0]
    2  van-3       []       []
    """
    return operator("leaves")(trip, zone)


def dwells(trip: Columnlike, zone: Columnlike, seconds: Columnlike) -> Column:
    """Return the vertex of each stay in a region at which the point has been there for ``seconds``.

    ``Stream.dwells`` does it live.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> depot = sf.circle(sf.point(F.lit(0), F.lit(0)), F.lit(100), F.lit(32))
    >>> trips.select("id", sf.dwells("Trip", depot, F.lit(300.0)).alias("at")).select("id", "at.t").toPandas()
          id                      t
    0  van-1                     []
    1  van-2                     []
    2  van-3  [2026-05-04 08:10:00]
    """
    return operator("dwells")(trip, zone, seconds)


def arrives(trip: Columnlike, place: Columnlike, metres: Columnlike) -> Column:
    """Return when a moving point is first near a point, at a vertex; null if never. ``Stream.arrives`` does it live.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> trips.select("id", sf.arrives("Trip", sf.point(F.lit(590), F.lit(0)), F.lit(20.0)).alias("at")).toPandas()
          id                  at
    0  van-1 2026-05-04 08:02:00
    1  van-2 2026-05-04 08:03:00
    2  van-3                 NaT
    """
    return operator("arrives")(trip, place, metres)


def inside(place: Columnlike, region: Columnlike) -> Column:
    """Return whether a point is in a region or on its border.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> depot = sf.circle(sf.point(F.lit(0), F.lit(0)), F.lit(50), F.lit(32))
    >>> trips.select("id", sf.inside(sf.final("Trip"), depot).alias("at the depot")).toPandas()
          id  at the depot
    0  van-1         False
    1  van-2         False
    2  van-3          True
    """
    return operator("inside")(place, region)


def isempty(value: Columnlike) -> Column:
    """Return whether a moving value, periods, a line or a region is empty.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> late = [F.lit(f"2026-05-04 08:0{n}:00").cast("timestamp") for n in (6, 9)]
    >>> rest = sf.atperiods("Trip", sf.periods(*late))
    >>> trips.select("id", sf.isempty(rest).alias("has ended")).toPandas()
          id  has ended
    0  van-1       True
    1  van-2       True
    2  van-3      False
    """
    return operator("isempty")(value)


def concat_all(trips: Columnlike) -> Column:
    """Concatenate an array of moving points into one.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> at = [F.lit(f"2026-05-04 08:0{n}:00").cast("timestamp") for n in (0, 1, 3, 4)]
    >>> parts = sf.atperiods_each("Trip", F.array(sf.periods(at[0], at[1]), sf.periods(at[2], at[3])))
    >>> trips.select("id", sf.travelled(sf.concat_all(parts)).alias("metres")).toPandas()
          id  metres
    0  van-1   500.0
    1  van-2   200.0
    2  van-3     0.0
    """
    return operator("concat_all")(trips)


def circle(place: Columnlike, radius: Columnlike, corners: Columnlike) -> Column:
    """Return a regular polygon around a point.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> square = sf.circle(sf.point(F.lit(0), F.lit(0)), F.lit(10), F.lit(4))
    >>> inside = [sf.inside(sf.point(F.lit(9), F.lit(y)), square) for y in (0, 9)]
    >>> list(trips.select(*inside).first())
    [True, False]
    """
    return operator("circle")(place, radius, corners)


def united(intervals: Columnlike) -> Column:
    """Return periods from an array of intervals (begin, end); those that touch become one.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> text = "struct(TIMESTAMP '2026-05-04 0{}:00' AS begin, TIMESTAMP '2026-05-04 0{}:00' AS end)"
    >>> shifts = F.array(F.expr(text.format(6, 8)), F.expr(text.format(7, 9)))
    >>> trips.select(sf.united(shifts).cast("string").alias("times")).first()["times"]
    '{[2026-05-04 06:00:00], [2026-05-04 09:00:00]}'
    """
    return operator("united")(intervals)


def problem(trip: Columnlike) -> Column:
    """Return what is wrong with a moving point, in words; null if it is valid.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> broken = trips.withColumn("Trip", F.col("Trip").withField("t", F.reverse("Trip.t")))
    >>> broken.select(sf.problem("Trip").alias("problem")).first()["problem"]
    'vertex 2: an instant before the previous one, 2026-05-04T08:02:00+00:00.'
    >>> trips.where(sf.problem("Trip").isNotNull()).count()
    0
    """
    return operator("problem")(trip)


def point(x: Columnlike, y: Columnlike) -> Column:
    """Return a point from its coordinates, in metres.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> trips.select(sf.point(F.lit(600), F.lit(0)).alias("place")).first()
    Row(place=Row(x=600.0, y=0.0))
    """
    from pyspark.sql import functions as sf

    return sf.struct(column(x).cast("double").alias("x"), column(y).cast("double").alias("y"))


def periods(begin: Columnlike, end: Columnlike) -> Column:
    """Return periods of one interval, from two timestamps.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> begin, end = [F.lit(f"2026-05-04 08:0{n}:00").cast("timestamp") for n in (0, 2)]
    >>> trips.select(sf.periods(begin, end).cast("string").alias("times")).first()["times"]
    '{[2026-05-04 08:00:00], [2026-05-04 08:02:00]}'
    """
    from pyspark.sql import functions as sf

    return sf.struct(sf.array(column(begin)).alias("begin"), sf.array(column(end)).alias("end"))


def val(position: Columnlike) -> Column:
    """Return the place of a position: what ``atinstant``, ``initial`` and ``final`` return, without the instant.

    >>> import slipstream.functions as sf
    >>> trips.select("id", sf.val(sf.final("Trip")).alias("place")).select("id", "place.*").toPandas()
          id      x      y
    0  van-1  600.0  400.0
    1  van-2  600.0  400.0
    2  van-3    0.0   30.0
    """
    from pyspark.sql import functions as sf

    whole = column(position)
    return sf.struct(whole["x"].alias("x"), whole["y"].alias("y"))


def inst(position: Columnlike) -> Column:
    """Return the instant of a position.

    >>> import slipstream.functions as sf
    >>> trips.select("id", sf.inst(sf.final("Trip")).alias("ended")).toPandas()
          id               ended
    0  van-1 2026-05-04 08:04:00
    1  van-2 2026-05-04 08:05:00
    2  van-3 2026-05-04 08:10:00
    """
    return column(position)["t"]
