"""From coordinates in a reference system back to the globe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream._moving.sql_functions import operator

if TYPE_CHECKING:
    from pyspark.sql import Column

    from slipstream.functions._columns import Columnlike


def to_lonlat(trip: Columnlike, crs: str) -> Column:
    """Return the longitudes and latitudes of a moving point whose coordinates are in a reference system.

    >>> import slipstream.functions as sf
    >>> globe = trips.select(sf.to_lonlat("Trip", "EPSG:3857").alias("globe"))
    >>> [round(lon, 6) for lon in globe.first()["globe"]["lon"]]
    [0.0, 0.00539, 0.00539]
    """
    from pyspark.sql import functions as sf

    return operator("to_lonlat")(trip, sf.lit(crs))


def geodesic_length(trip: Columnlike, crs: str) -> Column:
    """Return the distance travelled on the ellipsoid, in metres, of coordinates in a reference system.

    ``travelled`` is the distance in the plane, which projections stretch: here, Mercator at the equator, by 0.3 %.

    >>> import slipstream.functions as sf
    >>> trips.select("id", sf.geodesic_length("Trip", "EPSG:3857").alias("metres")).toPandas().round(1)
          id  metres
    0  van-1   997.3
    1  van-2   997.3
    2  van-3     0.0
    """
    from pyspark.sql import functions as sf

    return operator("geodesic_length")(trip, sf.lit(crs))
