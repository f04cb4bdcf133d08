"""Trips: who moved, and a moving point. From the archive of a job, or from files in the formats of others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slipstream._api import html
from slipstream._api.committed import batch_at, own_columns, quote_columns
from slipstream._errors import BadArgument
from slipstream._io import outputs
from slipstream._io.outputs import BATCH
from slipstream._moving import MovingPoint, Plane, register, tracks
from slipstream._moving.files import Reading
from slipstream._moving.value import to_arrow
from slipstream._spark import session
from slipstream._tools.locations import local

if TYPE_CHECKING:
    from pandas import DataFrame as PandasFrame
    from pyspark.sql import DataFrame, SparkSession

#: the column of moving points in a table of trips
TRIP = "Trip"


@dataclass(frozen=True)
class Archived:
    """The trips that a job has archived, up to a batch."""

    folder: Path
    name: str
    until: int | None = None

    def __str__(self) -> str:
        return f"{self.name} of {self.folder}"

    def as_of(self, moment: int | datetime) -> Archived:
        return replace(self, until=batch_at(self.folder, moment))

    def to_spark(self, spark: SparkSession) -> DataFrame:
        rows = outputs.to_frame(spark, self.folder, self.name, until=self.until)
        return rows.select(*quote_columns(own_columns(rows.columns)))

    def some(self, rows: int) -> pa.Table:
        return outputs.read_newest(self.folder, self.name, rows, until=self.until)

    def __len__(self) -> int:
        return int(outputs.read(self.folder, self.name, [BATCH], until=self.until).num_rows)


@dataclass(frozen=True)
class Recorded:
    """Trips that were read from files."""

    where: str
    table: pa.Table

    def __str__(self) -> str:
        return self.where

    def as_of(self, moment: int | datetime) -> Recorded:  # noqa: ARG002
        raise BadArgument(
            f"{self.where}: trips of files have no past.", hint="Use as_of on the trips of a job.", code="not-kept"
        )

    def to_spark(self, spark: SparkSession) -> DataFrame:
        return spark.createDataFrame(self.table)

    def some(self, rows: int) -> pa.Table:
        return self.table.slice(0, rows)

    def __len__(self) -> int:
        return int(self.table.num_rows)


@dataclass(frozen=True)
class Trips:
    """Trips: a table of who moved, with a moving point ``Trip``. ``Results.trips`` and ``Trips.read`` return them.

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

    _of: Archived | Recorded
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

        Invalid values, such as instants that are not in order, are rejected with their place. To cut a long stream of
        positions into trips, use :meth:`slipstream.Job.archive`.

        Parameters
        ----------
        where
            A file, or a folder of files.
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
        return cls._recorded(str(place), Reading(format, plane, id, time, x, y, trip, units).read(place))

    @classmethod
    def from_points(cls, points: Mapping[str, MovingPoint]) -> Trips:
        """Return trips of moving points, by ``id``.

        >>> import slipstream as ss
        >>> van = ss.MovingPoint.from_wkt("[POINT(0 0)@2026-05-04 08:00:00, POINT(600 0)@2026-05-04 08:01:00]")
        >>> ss.Trips.from_points({"van": van})
        <Trips points: 1>
        """
        return cls._recorded("points", points.items())

    @classmethod
    def from_geopandas(cls, frame: Any, *, units: str | None = None) -> Trips:
        """Convert a GeoDataFrame with a row per vertex: an ``id``, the time as index, points in metres."""
        return cls.from_points(tracks.from_geopandas(frame, units=units))

    @classmethod
    def from_movingpandas(cls, collection: Any, *, units: str | None = None) -> Trips:
        """Convert a TrajectoryCollection of MovingPandas in metres."""
        return cls.from_points(tracks.from_movingpandas(collection, units=units))

    @classmethod
    def _recorded(cls, where: str, trips: Iterable[tuple[str, MovingPoint]]) -> Trips:
        found = list(trips)
        rows = [pa.array([name for name, _ in found], pa.string()), to_arrow([point for _, point in found])]
        return cls(Recorded(where, pa.table(rows, names=["id", TRIP])))

    def where(self, condition: str) -> Trips:
        """Keep the trips for which a SQL condition holds, such as ``travelled(Trip) > 1000``."""
        return replace(self, _conditions=(*self._conditions, condition))

    def as_of(self, moment: int | datetime) -> Trips:
        """Return the trips that had ended by a committed batch, or by an instant (UTC, unless it names its zone)."""
        return replace(self, _of=self._of.as_of(moment))

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """Return a Spark DataFrame; :mod:`slipstream.functions` has the operators on its moving points."""
        from pyspark.errors import AnalysisException, ParseException

        spark = spark or session.build("slipstream")
        rows = self._of.to_spark(spark)
        if self._conditions:
            register(spark)
        for condition in self._conditions:
            try:
                rows = rows.where(condition)
            except (AnalysisException, ParseException) as error:
                raise BadArgument(
                    f"where({condition!r}): {str(error).splitlines()[0]}",
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
        for name, trip in self._rows(id):
            trips.setdefault(name, []).append(trip)
        return {name: _joined(found).checked(f"the trips of {name!r}") for name, found in trips.items()}

    def to_geopandas(self, crs: str | None = None, id: str = "id") -> Any:
        """Return a GeoDataFrame with a row per vertex; needs GeoPandas. ``Plane.crs`` is the name of a plane."""
        return tracks.to_geopandas(self.to_points(id), crs)

    def to_movingpandas(self, crs: str, id: str = "id") -> Any:
        """Return a TrajectoryCollection; needs MovingPandas. ``Plane.crs`` is the name of a plane."""
        return tracks.to_movingpandas(self.to_points(id), crs)

    def _rows(self, id: str) -> list[tuple[Any, Mapping[str, Any]]]:
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
        if self._conditions:
            points = [row[TRIP] for row in self.to_spark().select(TRIP).limit(html.MOST_TRIPS).collect()]
        else:
            points = self._of.some(html.MOST_TRIPS)[TRIP].to_pylist()
        return html.trips(points, str(self._of))


def _joined(trips: list[Mapping[str, Any]]) -> MovingPoint:
    """One moving point of several."""
    ordered = sorted((trip for trip in trips if trip["t"]), key=lambda trip: trip["t"][0])
    whole: dict[str, list[Any]] = {"t": [], "x": [], "y": [], "starts": []}
    for trip in ordered:
        before = len(whole["t"])
        for name in "txy":
            whole[name] += trip[name]
        whole["starts"] += [before + start for start in trip["starts"]]
    return MovingPoint.from_row(whole)
