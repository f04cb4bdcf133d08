"""Other moving points: simpler, smoother, split, joined."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream._moving.sql_functions import operator

if TYPE_CHECKING:
    from pyspark.sql import Column

    from slipstream.functions._columns import Columnlike


def simplify(trip: Columnlike, metres: Columnlike) -> Column:
    """Return a moving point with fewer vertices, whose path is at most ``metres`` away (Douglas and Peucker).

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> trips.select("id", F.size(sf.simplify("Trip", F.lit(500))["t"]).alias("vertices")).toPandas()
          id  vertices
    0  van-1         2
    1  van-2         2
    2  van-3         2
    """
    return operator("simplify")(trip, metres)


def simplify_in_time(trip: Columnlike, metres: Columnlike) -> Column:
    """Return a moving point with fewer vertices that is at most ``metres`` away at every instant (TD-TR).

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> trips.select("id", F.size(sf.simplify_in_time("Trip", F.lit(50))["t"]).alias("vertices")).toPandas()
          id  vertices
    0  van-1         3
    1  van-2         3
    2  van-3         2
    """
    return operator("simplify_in_time")(trip, metres)


def squish(trip: Columnlike, vertices: Columnlike) -> Column:
    """Return a moving point with at most ``vertices`` per sequence, the most important ones (SQUISH).

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> trips.select("id", F.size(sf.squish("Trip", F.lit(2))["t"]).alias("vertices")).toPandas()
          id  vertices
    0  van-1         2
    1  van-2         2
    2  van-3         2
    """
    return operator("squish")(trip, vertices)


def resample(trip: Columnlike, seconds: Columnlike) -> Column:
    """Return a moving point with a vertex every ``seconds``, and at the end of each sequence.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> trips.select("id", F.size(sf.resample("Trip", F.lit(60))["t"]).alias("vertices")).toPandas()
          id  vertices
    0  van-1         5
    1  van-2         5
    2  van-3        11
    """
    return operator("resample")(trip, seconds)


def smooth(trip: Columnlike, seconds: Columnlike) -> Column:
    """Return a moving point whose vertices are the average of its movement over a window of time.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> trips.select(sf.smooth("Trip", F.lit(60))["y"].alias("y")).first()["y"]
    [0.0, 25.0, 400.0]
    """
    return operator("smooth")(trip, seconds)


def snap(trip: Columnlike, metres: Columnlike) -> Column:
    """Return a moving point with coordinates rounded to multiples of ``metres``.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> trips.select(sf.snap("Trip", F.lit(250))["x"].alias("x")).first()["x"]
    [0.0, 500.0, 500.0]
    """
    return operator("snap")(trip, metres)


def shift(trip: Columnlike, seconds: Columnlike) -> Column:
    """Return a moving point some seconds later.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> trips.select("id", sf.initial(sf.shift("Trip", F.lit(3600)))["t"].alias("begins")).toPandas()
          id              begins
    0  van-1 2026-05-04 09:00:00
    1  van-2 2026-05-04 09:01:00
    2  van-3 2026-05-04 09:00:00
    """
    return operator("shift")(trip, seconds)


def append(trip: Columnlike, position: Columnlike) -> Column:
    """Return a moving point that moves on from its last vertex to a later position.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> later = F.expr("struct(TIMESTAMP '2026-05-04 08:20:00' AS t, 0D AS x, 0D AS y)")
    >>> trips.select("id", sf.travelled(sf.append("Trip", later)).alias("metres")).toPandas()
          id       metres
    0  van-1  1721.110255
    1  van-2  1721.110255
    2  van-3    30.000000
    """
    return operator("append")(trip, position)


def merge(first: Columnlike, second: Columnlike) -> Column:
    """Return a moving point that is the first where that is defined, else the second.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> pairs = trips.alias("a").join(trips.alias("b"), F.expr("a.id = 'van-1' AND b.id > a.id"))
    >>> pairs.select("b.id", sf.duration(sf.merge("a.Trip", "b.Trip")).alias("seconds")).orderBy("id").toPandas()
          id     seconds
    0  van-2  299.999999
    1  van-3  599.999999
    """
    return operator("merge")(first, second)


def sequences(trip: Columnlike) -> Column:
    """Return an array with each sequence of a moving point as one.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> trips.select("id", F.size(sf.sequences("Trip")).alias("sequences")).toPandas()
          id  sequences
    0  van-1          1
    1  van-2          1
    2  van-3          1
    """
    return operator("sequences")(trip)


def split_by_time(trip: Columnlike, seconds: Columnlike) -> Column:
    """Return an array with the moving point in each span of ``seconds``, counted from 1970.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> trips.select("id", F.size(sf.split_by_time("Trip", F.lit(120))).alias("parts")).toPandas()
          id  parts
    0  van-1      3
    1  van-2      3
    2  van-3      6
    """
    return operator("split_by_time")(trip, seconds)


def split_at_gaps(trip: Columnlike, seconds: Columnlike) -> Column:
    """Return an array with the movements between gaps of more than ``seconds``.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> trips.select("id", F.size(sf.split_at_gaps("Trip", F.lit(300))).alias("parts")).toPandas()
          id  parts
    0  van-1      1
    1  van-2      1
    2  van-3      2
    """
    return operator("split_at_gaps")(trip, seconds)


def split_by_space(trip: Columnlike, metres: Columnlike) -> Column:
    """Return an array with the moving point during each visit to a tile of a grid.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> trips.select("id", F.size(sf.split_by_space("Trip", F.lit(250))).alias("parts")).toPandas()
          id  parts
    0  van-1      4
    1  van-2      4
    2  van-3      1
    """
    return operator("split_by_space")(trip, metres)


def split_by_value(trip: Columnlike, attribute: Columnlike) -> Column:
    """Return an array with the moving point while a step function has each of its values.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> trips.select("id", F.size(sf.split_by_value("Trip", sf.speed("Trip"))).alias("parts")).toPandas()
          id  parts
    0  van-1      2
    1  van-2      2
    2  van-3      1
    """
    return operator("split_by_value")(trip, attribute)


def tiles(trip: Columnlike, metres: Columnlike) -> Column:
    """Return an array of the visits to the tiles of a grid: ``x``, ``y``, ``begin``, ``end``.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> trips.select(sf.tiles("Trip", F.lit(400))["x"].alias("x")).first()["x"]
    [0, 1]
    """
    return operator("tiles")(trip, metres)
