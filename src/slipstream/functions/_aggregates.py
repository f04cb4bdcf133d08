"""Tables of trips over time and space: how many at once, where they were, from where to where.

These take DataFrames with a moving point per row and return DataFrames; Spark plans and distributes all of it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from slipstream._errors import BadArgument
from slipstream.functions._edits import tiles
from slipstream.functions._movement import extent
from slipstream.functions._points import at, deftime

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: seconds of a span within which events are summed one after the other; spans are summed on their own
_SPAN = 3600


def tcount(trips: DataFrame, *, trip: str = "Trip") -> DataFrame:
    """Return how many moving points are defined at once: rows (begin, end, count), where that changes.

    A moving point counts from the begin to the end of each of its sequences, both included, so a row ends one
    microsecond before the next one begins. There are no rows for times at which there is none.

    >>> import slipstream.functions as sf
    >>> sf.tcount(trips).orderBy("begin").toPandas()
                           begin                        end  count
    0 2026-05-04 08:00:00.000000 2026-05-04 08:00:59.999999      2
    1 2026-05-04 08:01:00.000000 2026-05-04 08:04:00.000000      3
    2 2026-05-04 08:04:00.000001 2026-05-04 08:05:00.000000      2
    3 2026-05-04 08:05:00.000001 2026-05-04 08:10:00.000000      1
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    _check_columns("tcount", trips, trip)
    spans = trips.select(sf.explode(sf.arrays_zip(*_ends(deftime(trip)))).alias("span"))
    first = sf.unix_micros(sf.col("span.begin"))
    after = sf.unix_micros(sf.col("span.end")) + 1
    events = spans.select(sf.explode(sf.array(_event(first, 1), _event(after, -1))).alias("event"))
    changes = events.groupBy("event.t").agg(sf.sum("event.change").alias("change"))
    changes = changes.withColumn("span", sf.floor(sf.col("t") / (_SPAN * 1_000_000)))
    whole = changes.groupBy("span").agg(sf.sum("change").alias("sum"), sf.min("t").alias("next"))
    in_order = Window.orderBy("span")
    before = sf.coalesce(sf.sum("sum").over(in_order.rowsBetween(Window.unboundedPreceding, -1)), sf.lit(0))
    totals = whole.select("span", before.alias("before"), sf.lead("next").over(in_order).alias("following"))
    inside = Window.partitionBy("span").orderBy("t")
    counted = changes.join(sf.broadcast(totals), "span").select(
        "t",
        sf.coalesce(sf.lead("t").over(inside), "following").alias("next"),
        (sf.col("before") + sf.sum("change").over(inside)).alias("count"),
    )
    begin, end = sf.timestamp_micros("t"), sf.timestamp_micros(sf.col("next") - 1)
    return counted.where("count > 0").select(begin.alias("begin"), end.alias("end"), "count")


def _ends(periods: Column) -> list[Column]:
    return [periods["begin"].alias("begin"), periods["end"].alias("end")]


def _event(t: Column, change: int) -> Column:
    from pyspark.sql import functions as sf

    return sf.struct(t.alias("t"), sf.lit(change).alias("change"))


def density(trips: DataFrame, metres: float, *, trip: str = "Trip", seconds: float | None = None) -> DataFrame:
    """Return where moving points were: rows (x, y, visits, seconds) per tile of a grid with a corner at x, y.

    ``seconds`` adds a column ``t``: the grid is then counted per span of that many seconds, counted from 1970; a visit
    that lasts longer counts in each of the spans. Seconds are rounded to milliseconds.

    >>> import slipstream.functions as sf
    >>> sf.density(trips, 400).orderBy("x", "y").toPandas()
           x    y  visits  seconds
    0    0.0  0.0       3    760.0
    1  400.0  0.0       2    320.0
    """
    from pyspark.sql import functions as sf

    _check_columns("density", trips, trip, metres=metres, seconds=seconds)
    visits = trips.select(sf.explode(tiles(trip, sf.lit(float(metres)))).alias("visit"))
    first, last = sf.unix_micros(sf.col("visit.begin")), sf.unix_micros(sf.col("visit.end"))
    keys = [(sf.col(f"visit.{name}") * float(metres)).alias(name) for name in "xy"]
    if seconds is not None:
        step = round(seconds * 1_000_000)
        numbers = sf.sequence(sf.floor(first / step), sf.floor(last / step))
        visits = visits.select("visit", sf.explode(numbers).alias("n"))
        first = sf.greatest(first, sf.col("n") * step)
        last = sf.least(last, (sf.col("n") + 1) * step - 1)
        keys.insert(0, sf.timestamp_micros(sf.col("n") * step).alias("t"))
    lasting = ((last - first) / 1_000_000).alias("seconds")
    names = ["t", "x", "y"] if seconds is not None else ["x", "y"]
    each = visits.select(*keys, lasting)
    return each.groupBy(*names).agg(sf.count("*").alias("visits"), sf.round(sf.sum("seconds"), 3).alias("seconds"))


def flows(
    trips: DataFrame, zones: DataFrame, *, trip: str = "Trip", zone: str = "zone", region: str = "region"
) -> DataFrame:
    """Return how often moving points went from one zone to the next: rows (origin, destination, trips).

    A moving point goes from a zone to the one that it enters next; zones entered at the same instant are in the order
    of their names. ``zones`` has a region per row and is sent to every task, so it must fit into memory.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> places = trips.sparkSession.createDataFrame([("depot", 0, 0), ("corner", 600, 0)], "zone string, x int, y int")
    >>> zones = places.select("zone", sf.circle(sf.point("x", "y"), F.lit(50), F.lit(16)).alias("region"))
    >>> sf.flows(trips, zones).toPandas()
      origin destination  trips
    0  depot      corner      2
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    _check_columns("flows", trips, trip)
    _check_columns("flows", zones, zone, region)
    edges = {"x": (sf.array_min, sf.array_max), "y": (sf.array_min, sf.array_max)}
    around = [
        edge(sf.col(f"{region}.{name}")).alias(f"{name}{k}")
        for name, both in edges.items()
        for k, edge in enumerate(both)
    ]
    small = zones.select(sf.col(zone).alias("zone"), sf.col(region).alias("region"), *around)
    each = trips.select(sf.monotonically_increasing_id().alias("row"), sf.col(trip).alias("trip"))
    each = each.withColumn("box", extent("trip")).where("box IS NOT NULL")
    near = "box.xmin <= x1 AND box.xmax >= x0 AND box.ymin <= y1 AND box.ymax >= y0"
    visits = each.join(sf.broadcast(small), sf.expr(near))
    entered = visits.select("row", "zone", sf.explode(deftime(at("trip", "region"))["begin"]).alias("t"))
    next_zone = sf.lead("zone").over(Window.partitionBy("row").orderBy("t", "zone"))
    steps = entered.select(sf.col("zone").alias("origin"), next_zone.alias("destination"))
    moved = steps.where("destination IS NOT NULL AND origin <> destination")
    return moved.groupBy("origin", "destination").agg(sf.count("*").alias("trips"))


def _check_columns(function: str, frame: DataFrame, *columns: str, **numbers: float | None) -> None:
    """Refuse columns that a DataFrame does not have, and numbers that are not greater than 0."""
    for name in columns:
        if name not in frame.columns:
            raise BadArgument(
                f"{function}: no column {name!r}.",
                hint=f"Columns: {', '.join(frame.columns)}.",
                code="unknown-column",
                found=name,
                expected=frame.columns,
            )
    for name, number in numbers.items():
        if number is not None and not (math.isfinite(number) and number > 0):
            raise BadArgument(
                f"{function}: {name} is {number:g}.", hint=f"{name} must be greater than 0.", code="out-of-range"
            )
