"""How points move, how near they come, and how alike they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream._moving.sql_functions import operator
from slipstream.functions._columns import Columnlike, column

if TYPE_CHECKING:
    from pyspark.sql import Column


def speed(trip: Columnlike) -> Column:
    """Return the speed of a moving point over time, in metres per second: a tfloat.

    >>> import slipstream.functions as sf
    >>> speed = sf.speed("Trip")
    >>> trips.select("id", speed["value"].alias("metres per second")).toPandas()
          id                              metres per second
    0  van-1  [5.0, 3.3333333333333335, 3.3333333333333335]
    1  van-2  [5.0, 3.3333333333333335, 3.3333333333333335]
    2  van-3                                     [0.0, 0.0]
    """
    return operator("speed")(trip)


def acceleration(trip: Columnlike) -> Column:
    """Return the acceleration over time, in metres per second squared: a tfloat.

    >>> import slipstream.functions as sf
    >>> turning = sf.atperiods("Trip", sf.deftime("Trip"))
    >>> trips.select("id", sf.acceleration("Trip")["value"].alias("acceleration")).toPandas()
          id                                    acceleration
    0  van-1  [-0.013888888888888888, -0.013888888888888888]
    1  van-2  [-0.013888888888888888, -0.013888888888888888]
    2  van-3                                              []
    """
    return operator("acceleration")(trip)


def direction(trip: Columnlike) -> Column:
    """Return the direction over time, in degrees clockwise from north: a tfloat; undefined while it stands.

    >>> import slipstream.functions as sf
    >>> trips.select("id", sf.direction("Trip")["value"].alias("degrees")).toPandas()
          id           degrees
    0  van-1  [90.0, 0.0, 0.0]
    1  van-2  [90.0, 0.0, 0.0]
    2  van-3                []
    """
    return operator("direction")(trip)


def cumulative_length(trip: Columnlike) -> Column:
    """Return the distance travelled so far over time, in metres: a tfloat.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> when = F.lit("2026-05-04 08:03:00").cast("timestamp")
    >>> trips.select("id", sf.atinstant(sf.cumulative_length("Trip"), when, of="tfloat").alias("metres")).toPandas()
          id  metres
    0  van-1   800.0
    1  van-2   600.0
    2  van-3     0.0
    """
    return operator("cumulative_length")(trip)


def duration(moving: Columnlike) -> Column:
    """Return for how many seconds a value is defined, or periods last.

    >>> import slipstream.functions as sf
    >>> trips.select("id", sf.duration("Trip").alias("seconds")).toPandas()
          id  seconds
    0  van-1    240.0
    1  van-2    240.0
    2  van-3    600.0
    """
    return operator("duration")(moving)


def twcentroid(trip: Columnlike) -> Column:
    """Return the average place of a moving point, weighted by time.

    >>> import slipstream.functions as sf
    >>> trips.select("id", sf.twcentroid("Trip").alias("at")).select("id", "at.*").toPandas()
          id      x      y
    0  van-1  450.0  100.0
    1  van-2  450.0  100.0
    2  van-3    0.0   30.0
    """
    return operator("twcentroid")(trip)


def extent(trip: Columnlike) -> Column:
    """Return the smallest box in space and time around a moving point.

    >>> import slipstream.functions as sf
    >>> trips.select("id", sf.extent("Trip").alias("box")).select("id", "box.*").toPandas()
          id  xmin  ymin   xmax   ymax                tmin                tmax
    0  van-1   0.0   0.0  600.0  400.0 2026-05-04 08:00:00 2026-05-04 08:04:00
    1  van-2   0.0   0.0  600.0  400.0 2026-05-04 08:01:00 2026-05-04 08:05:00
    2  van-3   0.0  30.0    0.0   30.0 2026-05-04 08:00:00 2026-05-04 08:10:00
    """
    return operator("extent")(trip)


def stops(trip: Columnlike, metres: Columnlike, seconds: Columnlike) -> Column:
    """Return when a moving point stays within ``metres`` for at least ``seconds``, as periods.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> stays = sf.stops("Trip", F.lit(20), F.lit(300))
    >>> trips.select("id", sf.duration(stays).alias("seconds")).toPandas()
          id  seconds
    0  van-1      0.0
    1  van-2      0.0
    2  van-3    600.0
    """
    return operator("stops")(trip, metres, seconds)


def dwithin(first: Columnlike, second: Columnlike, metres: Columnlike) -> Column:
    """Return whether two moving points, or one and a point, are ever within a distance of each other.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> depot = sf.point(F.lit(0), F.lit(0))
    >>> trips.select("id", sf.dwithin("Trip", depot, F.lit(30)).alias("was near")).toPandas()
          id  was near
    0  van-1      True
    1  van-2      True
    2  van-3      True
    """
    return operator("dwithin")(first, second, metres)


def always_dwithin(first: Columnlike, second: Columnlike, metres: Columnlike) -> Column:
    """Return whether both are within a distance whenever both are defined; null if they never are.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> pairs = trips.alias("a").join(trips.alias("b"), F.expr("a.id = 'van-1' AND b.id > a.id"))
    >>> near = sf.always_dwithin("a.Trip", "b.Trip", F.lit(400))
    >>> pairs.select("b.id", near.alias("together")).orderBy("id").toPandas()
          id  together
    0  van-2      True
    1  van-3     False
    """
    return operator("always_dwithin")(first, second, metres)


def when_dwithin(first: Columnlike, second: Columnlike, metres: Columnlike) -> Column:
    """Return when two moving points, or one and a point, are within a distance of each other, as periods.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> pairs = trips.alias("a").join(trips.alias("b"), F.expr("a.id = 'van-1' AND b.id > a.id"))
    >>> answer = sf.duration(sf.when_dwithin("a.Trip", "b.Trip", F.lit(300)))
    >>> pairs.select("b.id", answer.alias("seconds")).orderBy("id").toPandas()
          id     seconds
    0  van-2  180.000000
    1  van-3   59.699246
    """
    return operator("when_dwithin")(first, second, metres)


def nearest_approach_distance(first: Columnlike, second: Columnlike) -> Column:
    """Return how near two moving points, or one and a point, come to each other, in metres.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> pairs = trips.alias("a").join(trips.alias("b"), F.expr("a.id = 'van-1' AND b.id > a.id"))
    >>> answer = sf.nearest_approach_distance("a.Trip", "b.Trip")
    >>> pairs.select("b.id", answer.alias("metres")).orderBy("id").toPandas()
          id      metres
    0  van-2  166.410059
    1  van-3   30.000000
    """
    return operator("nearest_approach_distance")(first, second)


def nearest_approach_instant(first: Columnlike, second: Columnlike) -> Column:
    """Return the first instant at which two moving points, or one and a point, are nearest to each other.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> pairs = trips.alias("a").join(trips.alias("b"), F.expr("a.id = 'van-1' AND b.id > a.id"))
    >>> when = sf.nearest_approach_instant("a.Trip", "b.Trip")
    >>> pairs.select("b.id", when.alias("nearest")).orderBy("id").toPandas()
          id                    nearest
    0  van-2 2026-05-04 08:02:41.538462
    1  van-3 2026-05-04 08:00:00.000000
    """
    return operator("nearest_approach_instant")(first, second)


def shortest_line(first: Columnlike, second: Columnlike) -> Column:
    """Return the line between two moving points, or one and a point, where they are nearest to each other.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> corner = sf.point(F.lit(650), F.lit(0))
    >>> trips.select("id", sf.line_to_wkt(sf.shortest_line("Trip", corner)).alias("line")).toPandas()
          id                              line
    0  van-1  MULTILINESTRING ((600 0, 650 0))
    1  van-2  MULTILINESTRING ((600 0, 650 0))
    2  van-3   MULTILINESTRING ((0 30, 650 0))
    """
    return operator("shortest_line")(first, second)


def frechet(first: Columnlike, second: Columnlike) -> Column:
    """Return the discrete Fréchet distance of two paths, in metres.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> pairs = trips.alias("a").join(trips.alias("b"), F.expr("a.id = 'van-1' AND b.id > a.id"))
    >>> pairs.select("b.id", sf.frechet("a.Trip", "b.Trip").alias("metres")).orderBy("id").toPandas()
          id      metres
    0  van-2    0.000000
    1  van-3  704.911342
    """
    return operator("frechet")(first, second)


def dtw(first: Columnlike, second: Columnlike) -> Column:
    """Return the dynamic time warping distance of two paths: a sum of metres.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> pairs = trips.alias("a").join(trips.alias("b"), F.expr("a.id = 'van-1' AND b.id > a.id"))
    >>> pairs.select("b.id", sf.dtw("a.Trip", "b.Trip").alias("metres")).orderBy("id").toPandas()
          id       metres
    0  van-2     0.000000
    1  van-3  1335.660874
    """
    return operator("dtw")(first, second)


def hausdorff(first: Columnlike, second: Columnlike) -> Column:
    """Return the Hausdorff distance of the vertices of two paths, in metres.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> pairs = trips.alias("a").join(trips.alias("b"), F.expr("a.id = 'van-1' AND b.id > a.id"))
    >>> pairs.select("b.id", sf.hausdorff("a.Trip", "b.Trip").alias("metres")).orderBy("id").toPandas()
          id      metres
    0  van-2    0.000000
    1  van-3  704.911342
    """
    return operator("hausdorff")(first, second)


def atbox(trip: Columnlike, box: Columnlike) -> Column:
    """Restrict a moving point to a box in space and time, including its border.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> east = sf.box(F.lit(300), *[F.lit(None)] * 5)
    >>> trips.select("id", sf.travelled(sf.atbox("Trip", east)).alias("metres")).toPandas()
          id  metres
    0  van-1   700.0
    1  van-2   700.0
    2  van-3     0.0
    """
    return operator("atbox")(trip, box)


def minusbox(trip: Columnlike, box: Columnlike) -> Column:
    """Restrict a moving point to when it is outside of a box in space and time.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> east = sf.box(F.lit(300), *[F.lit(None)] * 5)
    >>> trips.select("id", F.round(sf.travelled(sf.minusbox("Trip", east))).alias("metres")).toPandas()
          id  metres
    0  van-1   300.0
    1  van-2   300.0
    2  van-3     0.0
    """
    return operator("minusbox")(trip, box)


def common_periods(first: Columnlike, second: Columnlike) -> Column:
    """Return the time that two periods have in common.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> pairs = trips.alias("a").join(trips.alias("b"), F.expr("a.id = 'van-1' AND b.id > a.id"))
    >>> answer = sf.duration(sf.common_periods(sf.deftime("a.Trip"), sf.deftime("b.Trip")))
    >>> pairs.select("b.id", answer.alias("seconds")).orderBy("id").toPandas()
          id  seconds
    0  van-2    180.0
    1  van-3    240.0
    """
    return operator("common_periods")(first, second)


def periods_without(first: Columnlike, second: Columnlike) -> Column:
    """Return periods without others.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> pairs = trips.alias("a").join(trips.alias("b"), F.expr("a.id = 'van-1' AND b.id > a.id"))
    >>> answer = F.round(sf.duration(sf.periods_without(sf.deftime("b.Trip"), sf.deftime("a.Trip"))))
    >>> pairs.select("b.id", answer.alias("seconds")).orderBy("id").toPandas()
          id  seconds
    0  van-2     60.0
    1  van-3    360.0
    """
    return operator("periods_without")(first, second)


def box(
    xmin: Columnlike, ymin: Columnlike, xmax: Columnlike, ymax: Columnlike, tmin: Columnlike, tmax: Columnlike
) -> Column:
    """Return a box in space and time; null is unbounded.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> at = [F.lit(f"2026-05-04 08:0{n}:00").cast("timestamp") for n in (0, 2)]
    >>> near = sf.box(F.lit(0), F.lit(0), F.lit(100), F.lit(100), *at)
    >>> trips.select("id", sf.duration(sf.atbox("Trip", near)).alias("seconds")).toPandas()
          id  seconds
    0  van-1     20.0
    1  van-2     20.0
    2  van-3    120.0
    """
    from pyspark.sql import functions as sf

    edges = {"xmin": xmin, "ymin": ymin, "xmax": xmax, "ymax": ymax}
    span = {"tmin": tmin, "tmax": tmax}
    return sf.struct(
        *(column(edge).cast("double").alias(name) for name, edge in edges.items()),
        *(column(edge).cast("timestamp").alias(name) for name, edge in span.items()),
    )


def extent_all(trip: Columnlike) -> Column:
    """Return the smallest box around all moving points of a group: an aggregate.

    >>> import slipstream.functions as sf
    >>> trips.agg(sf.extent_all("Trip").alias("box")).select("box.*").toPandas()
       xmin  ymin   xmax   ymax                tmin                tmax
    0   0.0   0.0  600.0  400.0 2026-05-04 08:00:00 2026-05-04 08:10:00
    """
    from pyspark.sql import functions as sf

    one = extent(trip)
    least = [sf.min(one[name]).alias(name) for name in ("xmin", "ymin")]
    most = [sf.max(one[name]).alias(name) for name in ("xmax", "ymax")]
    return sf.struct(*least, *most, sf.min(one["tmin"]).alias("tmin"), sf.max(one["tmax"]).alias("tmax"))
