"""``ss.trajectories``: trips from any table of positions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from slipstream._api.trips.trip_origins import Computed
from slipstream._api.trips.trips import Trips
from slipstream._errors import BadArgument
from slipstream._moving import Plane
from slipstream._spark import session
from slipstream._tools.files.locations import local
from slipstream._trajectories.cutting.building import build
from slipstream._trajectories.cutting.trip_rules import TripRules
from slipstream._trajectories.reading.mapping import Mapping, make_mapping
from slipstream._trajectories.reading.position_files import Input, read_frame

if TYPE_CHECKING:
    from pandas import DataFrame as PandasFrame
    from pyspark.sql import DataFrame, SparkSession


def trajectories(
    positions: DataFrame | PandasFrame | pa.Table | str | Path,
    *,
    id: str = "id",
    time: str = "time",
    lon: str = "",
    lat: str = "",
    x: str = "",
    y: str = "",
    gap: str | float | timedelta = "5 minutes",
    max_speed: str | float | None = None,
    crs: str | int | Plane | None = None,
    to: str | int | Plane | None = None,
    keep: Sequence[str] = (),
    values: Sequence[str] | dict[str, str] = (),
    time_unit: str = "",
    time_format: str = "",
    time_zone: str = "UTC",
    units: str | None = None,
    format: str = "",
    as_of: int | str | datetime | None = None,
) -> Trips:
    """Build trips from a table of positions: an id, a time, and a place per row, in any order.

    Positions are sorted, duplicates and impossible jumps removed, and the rest split at gaps, by Spark in one pass
    over shuffled data. Nothing is dropped silently: every row is either a vertex of exactly one trip or in
    ``trips.rejects`` with the reason, and ``trips.counts`` adds up. The result is computed at once and kept by Spark;
    ``trips.write(folder)`` stores it.

    Parameters
    ----------
    positions
        A DataFrame of Spark or pandas, a GeoDataFrame of points, an Arrow table, or a path: CSV, Parquet, a Delta
        table, GPX or KML files, a folder in GeoLife's layout, GeoJSON with times, MF-JSON, or VehiclePositions of
        GTFS-realtime (needs ``pip install '.[gtfs]'``).
    id, time, lon, lat
        The names of the columns. If lon and lat are not given, columns named lon, longitude or lng and lat or latitude
        are used. An id is text or a whole number.
    x, y
        The columns of coordinates east and north, instead of lon and lat; ``crs`` says which. Without ``crs``, they are
        metres in a plane of your own; what looks like degrees is refused unless ``units="m"``.
    gap
        A longer gap between positions ends a trip.
    max_speed
        A position that would require a higher speed is a jump: metres per second, or "200 km/h". If two positions in a
        row agree with each other but not with those before, another trip begins there.
    crs
        The reference system of the coordinates; by default WGS 84 (EPSG:4326) for lon and lat.
    to
        The reference system of the trips, in metres. By default that of the positions if it is in metres, otherwise the
        UTM zone of most positions. Positions that it does not cover are rejected as ``outside``.
    keep
        More columns to keep; a trip has the values of its first position.
    values
        Columns that change during a trip, such as ``["fuel", "door"]``. Each becomes a value over time beside the trip:
        a ``tfloat`` that changes linearly if it has fractions, otherwise a ``tint``, ``tbool`` or ``ttext`` that holds
        until the next position. ``{"fuel": "tfloat"}`` says which, as for CSV, whose columns are text. Positions
        without a value, or with one that is not of the type, have none.
    time_unit, time_format, time_zone
        The unit of times that are numbers: s, ms, us or ns since 1970. The pattern of times that are text and not in
        ISO 8601, as Spark writes it: "dd/MM/yyyy HH:mm:ss". The time zone of times that name none.
    format
        csv, parquet, delta, gpx, kml, geolife, gtfs, geojson or mfjson. By default the names of the files decide.
    as_of
        The version of a Delta table: a number or an instant.

    >>> import pandas as pd
    >>> import slipstream as ss
    >>> positions = pd.DataFrame({
    ...     "vin": ["van-1"] * 4,
    ...     "ts": pd.to_datetime(["2026-05-04 08:00", "2026-05-04 08:01", "2026-05-04 08:01", "2026-05-04 09:00"]),
    ...     "lon": [13.377, 13.389, 13.389, 13.377],
    ...     "lat": [52.516, 52.517, 52.517, 52.516],
    ... })
    >>> trips = ss.trajectories(positions, id="vin", time="ts")
    >>> trips
    <Trips positions: 2>
    >>> trips.crs, trips.counts["rejects: duplicate"]
    ('EPSG:32633', 1)
    >>> fuelled = ss.trajectories(positions.assign(fuel=[5.0, 4.0, 4.0, 3.0]), id="vin", time="ts", values=["fuel"])
    >>> fuelled.where("number = 1").to_spark().selectExpr("twavg(fuel) AS litres").first()
    Row(litres=4.5)
    >>> trips.where("number = 1").to_spark().selectExpr("id", "round(travelled(Trip)) AS metres").toPandas()
          id  metres
    0  van-1   822.0
    """
    if hasattr(positions, "geometry") and hasattr(positions, "set_geometry"):
        positions, x, y, crs = _split_geometry(positions, time, x or y or crs)
    mapping = make_mapping(
        id=id,
        time=time,
        lon=lon,
        lat=lat,
        x=x,
        y=y,
        crs=crs,
        keep=keep,
        values=values,
        unit=time_unit,
        form=time_format,
        zone=time_zone,
    )
    rules = TripRules.parse(gap, max_speed)
    if units not in (None, "m"):
        raise BadArgument(f"units={units!r} is unknown.", hint='Use units="m", or omit it.', code="unknown-value")
    frame, where = _open(positions, format, as_of, mapping)
    mapping = mapping.find(frame.columns, where)
    return Trips(Computed(where, build(frame, mapping, rules, to=to, units=units)))


def _split_geometry(frame: Any, time: str, others: str | int | Plane | None) -> tuple[PandasFrame, str, str, str]:
    """Return a GeoDataFrame as a plain one, with its points as columns of coordinates in its reference system."""
    points, plain = frame.geometry, frame.drop(columns=frame.geometry.name)
    if time not in plain.columns and plain.index.name == time:
        plain = plain.reset_index()
    if others:
        raise BadArgument(
            "x, y and crs are for tables; a GeoDataFrame has points and a reference system.",
            hint="Leave them out, or drop its geometry.",
            code="conflicting-options",
        )
    if kinds := sorted(set(points.geom_type.dropna()) - {"Point"}):
        raise BadArgument(
            f"positions: a geometry is a {kinds[0]}, not a Point.", hint="A position is a point.", code="bad-type"
        )
    if points.crs is None:
        raise BadArgument(
            "positions: the GeoDataFrame has no reference system.",
            hint='Set it: frame.set_crs("EPSG:4326").',
            code="bad-coordinates",
        )
    names = (f"{points.name} x", f"{points.name} y")
    places = {name: part.to_numpy() for name, part in zip(names, (points.x, points.y), strict=True)}
    return plain.assign(**places), *names, points.crs.to_wkt()


def _open(
    positions: DataFrame | PandasFrame | pa.Table | str | Path,
    format: str,
    as_of: int | str | datetime | None,
    mapping: Mapping,
) -> tuple[DataFrame, str]:
    """Return the positions as a Spark DataFrame, and what to call them."""
    if isinstance(positions, str | Path):
        source = Input.find(local(positions) if isinstance(positions, str) else positions, format, as_of)
        mapping.find(source.columns, str(source.where))  # before Spark starts
        return read_frame(session.build(), source), str(source.where)
    if format or as_of is not None:
        raise BadArgument(
            "format and as_of are for files.", hint="Leave them out for a DataFrame.", code="conflicting-options"
        )
    if hasattr(positions, "sparkSession"):
        return _check_static(positions), "positions"  # type: ignore[arg-type]
    table = positions if isinstance(positions, pa.Table) else pa.Table.from_pandas(positions, preserve_index=False)
    mapping.find(table.column_names, "positions")
    return _create(session.build(), table, mapping), "positions"


def _check_static(frame: DataFrame) -> DataFrame:
    if frame.isStreaming:
        raise BadArgument(
            "trajectories: this DataFrame is a stream.",
            hint="ss.Job(...).archive(ss.from_dataframe(frame)) cuts streams into trips.",
            code="bad-type",
        )
    return frame


def _create(spark: SparkSession, table: pa.Table, mapping: Mapping) -> DataFrame:
    """A Spark DataFrame of an Arrow table; Spark knows no nanoseconds and no dictionaries."""
    columns = {name: _convert_column(table[name]) for name in table.column_names}
    time = columns[mapping.time]
    if pa.types.is_timestamp(time.type) and time.type.tz is None:
        # Spark would take it for a time of its session's zone
        columns[mapping.time] = pc.assume_timezone(
            time, timezone=mapping.time_zone, ambiguous="earliest", nonexistent="latest"
        )
    return spark.createDataFrame(pa.table(columns))


def _convert_column(column: pa.ChunkedArray) -> Any:
    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", tz=column.type.tz), safe=False)
    return column
