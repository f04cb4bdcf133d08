"""Joins of tables of trajectories: who was near whom, who passed which zones, who travelled together."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

from slipstream._api.streaming.committed import quote_columns
from slipstream._api.trips.trip_origins import TRIP
from slipstream._api.trips.trips import Trips
from slipstream._errors import BadArgument
from slipstream._moving import types
from slipstream._moving.mixing import refuse_mixed_tables
from slipstream._tools.durations import seconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: a DataFrame with a column of ids and one of moving points, or trips
Table: TypeAlias = "DataFrame | Trips"
#: a number of metres, or text with a unit
Distance: TypeAlias = "str | float"
#: a number of seconds, or text with a unit
Duration: TypeAlias = "str | float | timedelta"

_METRES = {
    **dict.fromkeys(("", "m", "metre", "metres", "meter", "meters"), 1.0),
    **dict.fromkeys(("km", "kilometre", "kilometres", "kilometer", "kilometers"), 1000.0),
    **dict.fromkeys(("ft", "foot", "feet"), 0.3048),
    **dict.fromkeys(("mi", "mile", "miles"), 1609.344),
    **dict.fromkeys(("nmi", "nautical mile", "nautical miles"), 1852.0),
}


def near(
    first: Table,
    second: Table | None = None,
    *,
    distance: Distance,
    duration: Duration = 0,
    id: str = "id",
    trip: str = TRIP,
) -> DataFrame:
    """Return the pairs of objects that were near each other: a row per pair.

    Two objects are near each other while they are at most ``distance`` apart: exactly, along their movements, not
    just at their vertices. All rows with one id are one object. Rows without an id or a moving point are ignored.

    Parameters
    ----------
    first, second
        Tables of trips. Without a second, each pair of the first counts once, the lower id first.
    distance
        Metres, or a text such as ``"30 m"`` or ``"0.5 mi"``.
    duration
        Only times without a break that last at least this long count: seconds, or a text such as ``"10 minutes"``.
    id, trip
        The columns of ids and of moving points, in both tables.

    Returns
    -------
    ``id``, ``other_id``, ``times`` (periods), ``nearest`` (the smallest distance then, in metres), ``nearest_at``.

    >>> import slipstream as ss
    >>> ss.near(trips, distance="50 m", duration="5 s").select("id", "other_id", "nearest").sort("id").toPandas()
          id other_id  nearest
    0  van-1    van-3     30.0
    1  van-2    van-3     30.0
    """
    from slipstream._joins import trip_meetings as plans

    return plans.gather(_find_meetings(first, second, distance, duration, id, trip))


def meetings(
    first: Table,
    second: Table | None = None,
    *,
    distance: Distance,
    duration: Duration = 0,
    id: str = "id",
    trip: str = TRIP,
) -> DataFrame:
    """Return the meetings of objects: a row per time without a break during which two are near each other.

    Parameters are those of :func:`slipstream.near`.

    Returns
    -------
    ``id``, ``other_id``, ``begin``, ``end``, ``nearest`` (the smallest distance then, in metres), ``nearest_at``.

    >>> import slipstream as ss
    >>> ss.meetings(trips, distance="50 m").select("id", "other_id", "begin", "end").sort("id").toPandas()
          id other_id               begin                 end
    0  van-1    van-3 2026-05-04 08:00:00 2026-05-04 08:00:08
    1  van-2    van-3 2026-05-04 08:01:00 2026-05-04 08:01:08
    """
    return _find_meetings(first, second, distance, duration, id, trip)


def convoys(
    trips: Table,
    *,
    distance: Distance,
    duration: Duration,
    size: int = 2,
    id: str = "id",
    trip: str = TRIP,
) -> DataFrame:
    """Return the convoys: at least ``size`` objects that stay connected for at least ``duration`` without a break.

    Objects are connected if they are at most ``distance`` apart, directly or through others. A convoy is as large and
    as long as it can be; an object may belong to several at once, such as two that stay longer than a third.

    Returns
    -------
    ``ids`` (an array in order), ``begin``, ``end``.

    >>> import slipstream as ss
    >>> ss.convoys(trips, distance="300 m", duration="1 minute").select("ids", "begin", "end").sort("begin").toPandas()
                  ids               begin                 end
    0  [van-1, van-2] 2026-05-04 08:01:00 2026-05-04 08:04:00
    """
    if size < 2:
        raise BadArgument(f"size={size}: below 2.", hint="A convoy has at least two members.", code="out-of-range")
    from slipstream._joins import convoys as plans

    metres, micros = parse_metres(distance), _parse_micros(duration)
    return plans.convoys(_read_trips(trips, "trips", id, trip), metres, micros, size)


def passes(
    trips: Table,
    zones: DataFrame,
    *,
    distance: Distance = 0,
    duration: Duration = 0,
    id: str = "id",
    trip: str = TRIP,
    zone_id: str = "id",
    zone: str = "Zone",
) -> DataFrame:
    """Return which objects passed which zones: a row per pair.

    An object passes a region while it is in it or on its border, and a place while it is within ``distance`` of it.
    Zones are sent to every task, so they should fit into its memory; there may be any number of trips.

    Parameters
    ----------
    trips
        A table of trips.
    zones
        A table with a column of regions or of points.
    distance
        How close to a point counts: metres, or a text such as ``"30 m"``.
    duration
        Only stays that last at least this long count: seconds, or a text such as ``"2 minutes"``.
    id, trip, zone_id, zone
        The columns of both tables.

    Returns
    -------
    ``id``, ``zone_id``, ``times`` (periods).

    >>> import slipstream as ss
    >>> from slipstream import functions as sf
    >>> from pyspark.sql import functions as F
    >>> stops = trips.limit(1).select(F.lit("corner").alias("id"), sf.point(F.lit(600), F.lit(0)).alias("Zone"))
    >>> ss.passes(trips, stops, distance="20 m").selectExpr("id", "zone_id", "times.begin[0] AS begin").toPandas()
          id zone_id               begin
    0  van-1  corner 2026-05-04 08:01:56
    1  van-2  corner 2026-05-04 08:02:56
    """
    from slipstream._joins import zone_passes as plans

    metres, micros = parse_metres(distance), _parse_micros(duration)
    rows = _read_trips(trips, "trips", id, trip)
    places = _select(zones, "zones", zone_id, zone, "Zone", (types.REGION, types.POINT))
    if metres and types.REGION.sql == places.schema["Zone"].dataType.simpleString():
        raise BadArgument(
            "passes: distance= is for points, and the zones are regions.",
            hint="Leave out distance=, or use a column of points.",
            code="conflicting-options",
        )
    refuse_mixed_tables("trips and zones", (rows, places.withColumnRenamed("Zone", TRIP)), TRIP)
    return plans.passes(rows, places, metres or types.REACH, micros)


def parse_metres(distance: Distance) -> float:
    """Return a distance in metres.

    >>> parse_metres("30 m"), parse_metres("1.5 km"), parse_metres(20)
    (30.0, 1500.0, 20.0)
    >>> parse_metres("near")
    Traceback (most recent call last):
        ...
    slipstream._errors.BadArgument: distance 'near': not a distance.
    Write a number of metres, or "30 m", "1.5 km", "100 ft", "2 mi", "5 nmi".
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*([a-z ]*?)\s*", str(distance).lower())
    metres = float(found[1]) * _METRES.get(found[2], math.nan) if found else math.nan
    if not math.isfinite(metres) or isinstance(distance, bool):
        raise BadArgument(
            f"distance {distance!r}: not a distance.",
            hint='Write a number of metres, or "30 m", "1.5 km", "100 ft", "2 mi", "5 nmi".',
            code="malformed-value",
            found=distance,
        )
    return metres


def _parse_micros(duration: Duration) -> int:
    length = seconds(duration)
    if not 0 <= length < math.inf:
        raise BadArgument(
            f"duration={duration}: not 0 or more seconds.", hint="0 counts every time.", code="out-of-range"
        )
    return round(length * types.MICROS)


def _find_meetings(
    first: Table, second: Table | None, distance: Distance, duration: Duration, id: str, trip: str
) -> DataFrame:
    from slipstream._joins.trip_meetings import Nearness, meetings

    near = Nearness(parse_metres(distance), _parse_micros(duration))
    one = _read_trips(first, "first", id, trip)
    other = None if second is None else _read_trips(second, "second", id, trip)
    if other is not None and (kinds := [rows.schema["id"].dataType for rows in (one, other)])[0] != kinds[1]:
        raise BadArgument(
            f"{id}: {kinds[0].simpleString()} in one table, {kinds[1].simpleString()} in the other.",
            hint="Cast one of them.",
            code="bad-type",
        )
    if other is not None:
        refuse_mixed_tables("first and second", (one, other), TRIP)
    return meetings(one, other, near)


def _read_trips(table: Table, what: str, id: str, trip: str) -> DataFrame:
    rows = table.to_spark() if isinstance(table, Trips) else table
    return _select(rows, what, id, trip, TRIP, (types.MPOINT,))


def _select(rows: DataFrame, what: str, id: str, value: str, name: str, kinds: tuple[types.Type, ...]) -> DataFrame:
    """Return the columns ``id`` and ``name`` of a table; reject a table without them, or with values of other types."""
    from pyspark.sql.functions import col
    from pyspark.sql.types import AtomicType

    if not hasattr(rows, "mapInArrow"):
        raise BadArgument(
            f"{what} is of type {type(rows).__name__}.", hint="Use a Spark DataFrame or Trips.", code="bad-type"
        )
    if missing := [column for column in (id, value) if column not in rows.columns]:
        raise BadArgument(
            f"{what} has no column {', '.join(missing)}.",
            hint=f"Columns: {', '.join(rows.columns)}.",
            code="unknown-column",
            found=missing[0],
        )
    if (found := rows.schema[value].dataType.simpleString()) not in [kind.sql for kind in kinds]:
        raise BadArgument(
            f"column {value} of {what} is {found}, not {' or '.join(kind.name for kind in kinds)}.",
            hint="Use a column of moving points, as trips have." if name == TRIP else "Use sf.point or sf.circle.",
            code="bad-type",
        )
    if not isinstance(rows.schema[id].dataType, AtomicType):
        raise BadArgument(
            f"column {id} of {what} is {rows.schema[id].dataType.simpleString()}.",
            hint="Use numbers or text as ids.",
            code="bad-type",
        )
    return rows.select(
        *(col(given).alias(known) for given, known in zip(quote_columns([id, value]), ("id", name), strict=True))
    )
