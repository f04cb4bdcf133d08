"""Points, lines and regions from WKT, GeoJSON and WKB, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slipstream._moving.space import geometries
from slipstream._moving.sql_functions import operator

if TYPE_CHECKING:
    from pyspark.sql import Column

    from slipstream.functions._columns import Columnlike


def region_from_wkt(text: Columnlike) -> Column:
    """Return a region from WKT, with coordinates in metres; an invalid one is refused.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> corner = sf.region_from_wkt(F.lit("POLYGON ((500 -50, 700 -50, 700 50, 500 50, 500 -50))"))
    >>> trips.select("id", sf.passes("Trip", corner).alias("was there")).toPandas()
          id  was there
    0  van-1       True
    1  van-2       True
    2  van-3      False
    """
    return operator("region_from_wkt")(text)


def region_from_geojson(text: Columnlike) -> Column:
    """Return a region from the geometry of GeoJSON, with coordinates in metres; an invalid one is refused.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> text = '{"type": "Polygon", "coordinates": [[[500, -50], [700, -50], [700, 50], [500, 50], [500, -50]]]}'
    >>> trips.select("id", sf.passes("Trip", sf.region_from_geojson(F.lit(text))).alias("was there")).toPandas()
          id  was there
    0  van-1       True
    1  van-2       True
    2  van-3      False
    """
    return operator("region_from_geojson")(text)


def region_from_wkb(bytes: Columnlike) -> Column:
    """Return a region from WKB, such as ``ST_AsBinary`` makes of a GEOMETRY; an invalid one is refused.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> import shapely
    >>> corner = shapely.to_wkb(shapely.box(500, -50, 700, 50))
    >>> trips.select("id", sf.passes("Trip", sf.region_from_wkb(F.lit(corner))).alias("was there")).toPandas()
          id  was there
    0  van-1       True
    1  van-2       True
    2  van-3      False
    """
    return operator("region_from_wkb")(bytes)


def line_from_wkt(text: Columnlike) -> Column:
    """Return a line from WKT, with coordinates in metres.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> road = sf.line_from_wkt(F.lit("LINESTRING (0 50, 900 50)"))
    >>> trips.select("id", sf.line_distance(sf.trajectory("Trip"), road).alias("metres")).toPandas()
          id  metres
    0  van-1     0.0
    1  van-2     0.0
    2  van-3    20.0
    """
    return operator("line_from_wkt")(text)


def point_from_wkt(text: Columnlike) -> Column:
    """Return a point from WKT, with coordinates in metres.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> corner = sf.point_from_wkt(F.lit("POINT (600 0)"))
    >>> trips.select("id", sf.passes("Trip", corner).alias("was there")).toPandas()
          id  was there
    0  van-1       True
    1  van-2       True
    2  van-3      False
    """
    return operator("point_from_wkt")(text)


def line_to_wkt(line: Columnlike) -> Column:
    """Return a line as WKT.

    >>> import slipstream.functions as sf
    >>> trips.select(sf.line_to_wkt(sf.trajectory("Trip")).alias("path")).first()["path"]
    'MULTILINESTRING ((0 0, 600 0, 600 400))'
    """
    return operator("line_to_wkt")(line)


def region_to_wkt(region: Columnlike) -> Column:
    """Return a region as WKT.

    >>> from pyspark.sql import functions as F
    >>> import slipstream.functions as sf
    >>> square = sf.region_from_wkt(F.lit("POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0))"))
    >>> trips.select(sf.region_to_wkt(square).alias("wkt")).first()["wkt"]
    'POLYGON ((0 9, 9 9, 9 0, 0 0, 0 9))'
    """
    return operator("region_to_wkt")(region)


def region_of(shape: Any) -> Column:
    """Return a Polygon or MultiPolygon of Shapely, in metres, as a region: a constant; an invalid one is refused.

    >>> import shapely
    >>> import slipstream.functions as sf
    >>> answer = sf.passes("Trip", sf.region_of(shapely.box(500, -50, 700, 50)))
    >>> trips.select("id", answer.alias("was there")).toPandas()
          id  was there
    0  van-1       True
    1  van-2       True
    2  van-3      False
    """
    from pyspark.sql import functions as sf

    made = geometries.lines([geometries.checked(shape, "region", "region_of")])
    arrays = {name: getattr(made, name).tolist() for name in ("x", "y", "starts")}
    kinds = {"x": "double", "y": "double", "starts": "int"}
    return sf.struct(*(sf.lit(values).cast(f"array<{kinds[n]}>").alias(n) for n, values in arrays.items()))
