"""Trips: who moved, and a moving point. From the archive of a job, or from files in other formats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slipstream._api import html
from slipstream._api.streaming.committed import quote_columns
from slipstream._api.trips.trip_origins import TRIP, Computed, Recorded, StoredTrips, TripRows
from slipstream._errors import BadArgument
from slipstream._moving import MovingPoint, Plane, register
from slipstream._moving.exchange import tracks
from slipstream._moving.exchange.trip_files import TripReading
from slipstream._moving.moving_point import to_arrow
from slipstream._moving.space.systems import System
from slipstream._spark import session
from slipstream._tools.files.locations import local
from slipstream._trajectories import trip_maps
from slipstream._trajectories.data import Data, write
from slipstream._trajectories.exchange.interchange import export
from slipstream._trajectories.exchange.meos import common_system, from_pymeos, to_pymeos
from slipstream._trajectories.exchange.tables import is_temporal, read_temporal

if TYPE_CHECKING:
    from pandas import DataFrame as PandasFrame
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Trips:
    """Trips: a table of who moved, with a moving point ``Trip``.

    :func:`slipstream.trajectories` builds them from positions, ``Results.trips`` returns those that a job archived, and
    ``Trips.read`` those in files.

    ``where`` takes SQL over the columns, with all functions of :mod:`slipstream.functions`. A notebook draws a map.

    >>> import slipstream as ss
    >>> from pathlib import Path
    >>> text = "[POINT(0 0)@2026-05-04 08:00, POINT(600 0)@2026-05-04 08:01, POINT(600 450)@2026-05-04 08:02]"
    >>> size = Path("van.wkt").write_text(text)
    >>> trips = ss.Trips.read("van.wkt")
    >>> trips
    <Trips van.wkt: 1>
    >>> trips.to_points()["van"].length
    1050.0
    """

    _of: TripRows
    _conditions: tuple[str, ...] = field(default=())

    @classmethod
    def read(
        cls,
        where: str | Path,
        *,
        format: str = "",
        plane: Plane | None = None,
        id: str = "id",
        time: str = "time",
        x: str = "",
        y: str = "",
        trip: str = "",
        units: str | None = None,
    ) -> Trips:
        """Read trips that others recorded, as a table with the columns ``id`` and ``Trip``.

        Invalid values, such as instants that are not in order, are rejected with their place. To cut positions into
        trips, use :func:`slipstream.trajectories` or, for a stream, :meth:`slipstream.Job.archive`.

        Parameters
        ----------
        where
            A folder that :meth:`write` or ``slipstream trajectories build`` made; a file, or a folder of them.
        format
            gpx (a trip per file); csv (with a header, a row per instant); wkt (MobilityDB's text, a trip per line);
            mfjson (OGC Moving Features: a moving point or features, or one per line). By default what the name says.
        plane
            Coordinates are longitudes and latitudes, and projected to this plane. Otherwise they are metres.
        id, time, x, y
            The columns of CSV. The place is found by its name unless it is given: x and y, or lon and lat.
        trip
            A column of CSV that has whole trips as WKT or MF-JSON, as MobilityDB exports them: a row per trip.
        units
            ``"m"`` declares that coordinates are metres though they look like degrees.

        >>> import slipstream as ss
        >>> from pathlib import Path
        >>> size = Path("vans.csv").write_text('''id,time,lon,lat
        ... van-1,2026-05-04T08:00:00Z,13.377,52.516
        ... van-1,2026-05-04T08:01:00Z,13.389,52.517
        ... ''')
        >>> trips = ss.Trips.read("vans.csv", plane=ss.Plane.utm_at(13.4, 52.5))
        >>> round(trips.to_points()["van-1"].length)
        822
        """
        place = Path(local(where) if isinstance(where, str) else where)
        if Data.is_at(place):
            return cls(StoredTrips(Data.open(place)))
        if is_temporal(place):
            return cls(Recorded(str(place), *read_temporal(place)))
        reading = TripReading(format, plane, id, time, x, y, trip, units)
        found = reading.read(place)
        crs = System.parse(plane).name if plane else common_system(str(place), reading.srids)
        return cls._from_recording(str(place), found, crs)

    @classmethod
    def from_points(cls, points: Mapping[str, MovingPoint], *, crs: str | Plane = "") -> Trips:
        """Return trips from moving points, by ``id``; ``crs`` is the reference system of their coordinates.

        >>> import slipstream as ss
        >>> van = ss.MovingPoint.from_wkt("[POINT(0 0)@2026-05-04 08:00:00, POINT(600 0)@2026-05-04 08:01:00]")
        >>> ss.Trips.from_points({"van": van})
        <Trips points: 1>
        """
        return cls._from_recording("points", points.items(), System.parse(crs).name if crs else "")

    @classmethod
    def from_geopandas(cls, frame: Any, *, units: str | None = None) -> Trips:
        """Convert a GeoDataFrame with a row per vertex: an ``id``, the time as index, points in metres."""
        return cls.from_points(tracks.from_geopandas(frame, units=units), crs=_find_crs(frame))

    @classmethod
    def from_movingpandas(cls, collection: Any, *, units: str | None = None) -> Trips:
        """Convert a TrajectoryCollection of MovingPandas in metres."""
        crs = next((_find_crs(one.df) for one in collection), "")
        return cls.from_points(tracks.from_movingpandas(collection, units=units), crs=crs)

    @classmethod
    def from_pymeos(cls, points: Mapping[str, Any]) -> Trips:
        """Convert temporal points of PyMEOS, by ``id``: instants, sequences or sets of them, in metres.

        >>> import pymeos
        >>> import slipstream as ss
        >>> pymeos.pymeos_initialize()
        >>> van = pymeos.TGeomPointSeq("SRID=32633;[POINT(0 0)@2026-05-04 08:00:00, POINT(3 4)@2026-05-04 08:01:00]")
        >>> trips = ss.Trips.from_pymeos({"van": van})
        >>> trips.crs, trips.to_points()["van"].length
        ('EPSG:32633', 5.0)
        """
        found, crs = from_pymeos(points)
        return cls._from_recording("PyMEOS", found.items(), crs)

    @classmethod
    def _from_recording(cls, where: str, trips: Iterable[tuple[str, MovingPoint]], crs: str = "") -> Trips:
        found = list(trips)
        rows = [pa.array([name for name, _ in found], pa.string()), to_arrow([point for _, point in found])]
        return cls(Recorded(where, pa.table(rows, names=["id", TRIP]), crs))

    @property
    def crs(self) -> str:
        """The reference system of the coordinates, such as ``EPSG:32633``; empty if it has no name."""
        return self._of.crs

    @property
    def counts(self) -> dict[str, Any]:
        """What became of the positions: rows, which are vertices and rejects together; trips, movers, and reasons.

        >>> import pandas as pd
        >>> import slipstream as ss
        >>> times = pd.to_datetime(["2026-05-04 08:00", "2026-05-04 08:01", None])
        >>> positions = pd.DataFrame({"id": 7, "time": times, "lon": [13.4, 13.41, 13.42], "lat": 52.5})
        >>> ss.trajectories(positions).counts
        {'rows': 3, 'vertices': 2, 'rejected': 1, 'trips': 1, 'movers': 1, 'rejects: no time': 1}
        """
        return self._of.facts()

    @property
    def rejects(self) -> DataFrame:
        """The positions that are in no trip, each with the reason, as a Spark DataFrame."""
        return self._of.rejects(session.build())

    def write(self, out: str | Path) -> Trips:
        """Write trips that :func:`slipstream.trajectories` built to a new folder, and return the trips in it.

        ``OUT/trips`` and ``OUT/rejects`` are Parquet files for any reader; ``Trips.read(out)`` opens them again.
        """
        if not isinstance(self._of, Computed) or self._conditions:
            raise BadArgument(
                f"{self!r}: cannot be written as a whole.",
                hint="Write what ss.trajectories returns, without where(); to_spark().write writes any rows.",
                code="bad-argument",
            )
        place = Path(local(out) if isinstance(out, str) else out)
        return Trips(StoredTrips(write(self._of.built, place, {}, label="")))

    def where(self, condition: str) -> Trips:
        """Keep the trips for which a SQL condition holds, such as ``travelled(Trip) > 1000``."""
        return replace(self, _conditions=(*self._conditions, condition))

    def as_of(self, moment: int | datetime) -> Trips:
        """Return the trips that had ended by a committed batch, or by an instant (UTC, unless it names its zone)."""
        return replace(self, _of=self._of.as_of(moment))

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """Return a Spark DataFrame; :mod:`slipstream.functions` has the operators on its moving points."""
        from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException

        spark = session.adopt(spark)
        rows = self._of.to_spark(spark)
        if self._conditions:
            register(spark)
        for condition in self._conditions:
            try:
                rows = rows.where(condition)
            except (AnalysisException, IllegalArgumentException, ParseException) as error:
                raise BadArgument(
                    f"where({condition!r}): {str(error).strip().splitlines()[0]}",
                    hint=f"Columns: {', '.join(rows.columns)}.",
                    code="bad-expression",
                ) from None
        return rows

    def to_pandas(self) -> PandasFrame:
        """Return a pandas DataFrame; a trip is a dictionary with its instants and places."""
        found: PandasFrame = self.to_spark().toPandas()
        return found

    def to_points(self, id: str = "id") -> dict[Any, MovingPoint]:
        """Return a moving point per ``id``: all of its trips, in the order of time.

        Trips of one ``id`` must not overlap in time.
        """
        trips: dict[Any, list[Mapping[str, Any]]] = {}
        for name, trip in self._read_rows(id):
            trips.setdefault(name, []).append(trip)
        return {name: _join_sequences(found).checked(f"the trips of {name!r}") for name, found in trips.items()}

    def to_geopandas(self, crs: str | None = None, id: str = "id") -> Any:
        """Return a GeoDataFrame with a row per vertex; needs GeoPandas. ``crs`` is by default that of the trips."""
        return tracks.to_geopandas(self.to_points(id), crs or self.crs or None)

    def to_movingpandas(self, crs: str | None = None, id: str = "id") -> Any:
        """Return a TrajectoryCollection; needs MovingPandas. ``crs`` is by default that of the trips."""
        return tracks.to_movingpandas(self.to_points(id), crs or self.crs or None)

    def to_pymeos(self, id: str = "id") -> dict[Any, Any]:
        """Return temporal points of PyMEOS by ``id``, with the SRID of the trips; needs PyMEOS.

        >>> import pymeos
        >>> import slipstream as ss
        >>> pymeos.pymeos_initialize()
        >>> van = ss.MovingPoint.from_wkt("[POINT(0 0)@2026-05-04 08:00:00, POINT(3 4)@2026-05-04 08:01:00]")
        >>> ss.Trips.from_points({"van": van}, crs="EPSG:32633").to_pymeos()["van"].length()
        5.0
        """
        return to_pymeos(self.to_points(id), self.crs)

    def to_lonlat(self, spark: SparkSession | None = None) -> DataFrame:
        """Return the positions of the trips as a Spark DataFrame: id, time, lon and lat, in degrees (WGS 84).

        >>> import slipstream as ss
        >>> van = ss.MovingPoint.from_wkt("[POINT(391391 5817855)@2026-05-04, POINT(392069 5817840)@2026-05-05]")
        >>> ss.Trips.from_points({"van": van}, crs="EPSG:32633").to_lonlat().toPandas().round(4)
            id       time    lon   lat
        0  van 2026-05-04  13.40  52.5
        1  van 2026-05-05  13.41  52.5
        """
        from slipstream import functions

        if not self.crs:
            raise BadArgument(
                f"{self!r}: the reference system is not known.",
                hint="Build the trips with crs=.",
                code="bad-coordinates",
            )
        rows = self.to_spark(spark)
        globe = rows.select("id", functions.to_lonlat(TRIP, self.crs).alias("globe"))
        zipped = globe.selectExpr("id", "inline(arrays_zip(globe.t, globe.lon, globe.lat))")
        return zipped.withColumnRenamed("t", "time")

    def explore(self, *, trips: int = trip_maps.MOST_TRIPS) -> TripMap:
        """Return a map to look at in a notebook: with a slider for the time, and colours for the speed.

        It shows at most ``trips`` of them, on a plain background: it loads nothing from the network.

        >>> import slipstream as ss
        >>> van = ss.MovingPoint.from_wkt("[POINT(0 0)@2026-05-04 08:00:00, POINT(600 0)@2026-05-04 08:01:00]")
        >>> ss.Trips.from_points({"van": van}).explore()
        <Map points: 1 trip>
        """
        found = trip_maps.prepare(self._read_some(trips), self.crs)
        return TripMap(str(self._of), trip_maps.make_page(found, str(self._of)), found.trips)

    def draw(self, out: str | Path, *, trips: int = trip_maps.MOST_TRIPS) -> None:
        """Write the map of :meth:`explore` as a page (.html), or a picture of it (.png, .svg, .pdf)."""
        trip_maps.draw(
            self._read_some(trips), self.crs, str(self._of), Path(local(out) if isinstance(out, str) else out)
        )

    def export(self, out: str | Path, format: str = "") -> None:
        """Export the trips to another format: one file, or for GPX a folder.

        ``format`` is geoparquet, geometry (Parquet's own type), temporalparquet (MobilityDB's convention), mfjson,
        geojson (with times, for kepler.gl), gpx, kml or wkt; by default the name of the file decides.

        >>> import slipstream as ss
        >>> van = ss.MovingPoint.from_wkt("[POINT(0 0)@2026-05-04 08:00:00, POINT(600 0)@2026-05-04 08:01:00]")
        >>> ss.Trips.from_points({"van": van}, crs="EPSG:32633").export("vans.parquet", "temporalparquet")
        >>> ss.Trips.read("vans.parquet").to_points()["van"].length
        600.0
        """
        place = Path(local(out) if isinstance(out, str) else out)
        export(self._read_some(len(self)).to_batches(), self.crs, place, format)

    def _read_some(self, rows: int) -> pa.Table:
        """At most ``rows`` trips as an Arrow table."""
        return self.to_spark().limit(rows).toArrow() if self._conditions else self._of.some(rows)

    def _read_rows(self, id: str) -> list[tuple[Any, Mapping[str, Any]]]:
        """Each trip with the value of a column."""
        if self._conditions:
            rows = self.to_spark().select(*quote_columns([id, TRIP])).collect()
            return [(row[0], row[1]) for row in rows]
        table = self._of.some(len(self._of))
        return list(zip(table[id].to_pylist(), table[TRIP].to_pylist(), strict=True))

    def __len__(self) -> int:
        return self.to_spark().count() if self._conditions else len(self._of)

    def __repr__(self) -> str:
        kept = "".join(f" where {condition}" for condition in self._conditions)
        return f"<Trips {self._of}{kept}>" if kept else f"<Trips {self._of}: {len(self)}>"

    def _repr_html_(self) -> str:
        return html.trips(self._read_some(html.MOST_TRIPS)[TRIP].to_pylist(), str(self._of))


@dataclass(frozen=True)
class TripMap:
    """A page that a notebook shows."""

    title: str
    page: str
    trips: int

    def __repr__(self) -> str:
        return f"<Map {self.title}: {self.trips} {'trip' if self.trips == 1 else 'trips'}>"

    def _repr_html_(self) -> str:
        style = "width:100%;height:520px;border:1px solid #cbd2d9;border-radius:6px"
        return f'<iframe srcdoc="{escape(self.page)}" style="{style}" sandbox="allow-scripts"></iframe>'


def _find_crs(frame: Any) -> str:
    """The reference system of a GeoDataFrame."""
    return "" if frame.crs is None else System.parse(frame.crs.to_wkt()).name


def _join_sequences(trips: list[Mapping[str, Any]]) -> MovingPoint:
    """One moving point of several."""
    ordered = sorted((trip for trip in trips if trip["t"]), key=lambda trip: trip["t"][0])
    whole: dict[str, list[Any]] = {"t": [], "x": [], "y": [], "starts": []}
    for trip in ordered:
        before = len(whole["t"])
        for name in "txy":
            whole[name] += trip[name]
        whole["starts"] += [before + start for start in trip["starts"]]
    return MovingPoint.from_row(whole)
