"""Roads: a street network from a file, to match positions to, and to find out where on a route they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slipstream._api.streaming.sources import table
from slipstream._errors import BadArgument
from slipstream._moving.space.plane import Plane
from slipstream._roads import corridors, road_tables
from slipstream._roads.importing import street_files
from slipstream._roads.importing.graph_building import Repairs
from slipstream._roads.street_network import StreetNetwork
from slipstream._tools import durations
from slipstream._tools.files.locations import local
from slipstream._tools.files.staging import staged_folder

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from slipstream._api.streaming.streams import Duration, Table
    from slipstream._roads.matching.model import Model


@dataclass(frozen=True)
class Roads:
    """A street network: one-way streets, speed limits, bridges, forbidden turns. Use :meth:`read` or :meth:`open`.

    >>> import slipstream as ss
    >>> size = open("town.csv", "w").write('''Id,Vmax,X1,Y1,X2,Y2
    ... 1,50,0,0,900,0
    ... 2,30,400,0,400,300
    ... ''')
    >>> ss.Roads.read("town.csv")
    <Roads town.csv: 4 nodes, 6 edges>
    """

    _network: StreetNetwork = field(repr=False)
    _where: str
    _repairs: dict[str, Any] = field(repr=False)
    _folder: Path | None = None

    @classmethod
    def read(cls, file: str | Path, *, metres: bool = False, keep_pieces: bool = False) -> Roads:
        """Read OpenStreetMap (.osm.pbf, .osm), a SUMO network (.net.xml), GeoJSON, CSV, or BerlinMOD's streets (.data).

        What is not connected to most of the network is dropped, unless ``keep_pieces`` is set. ``metres`` declares that
        coordinates are metres though they look like degrees.
        """
        path = Path(local(file) if isinstance(file, str) else file)
        network, repairs = street_files.import_network(path, metres=metres, keep_pieces=keep_pieces)
        return cls(network, str(path), asdict(repairs))

    @classmethod
    def open(cls, folder: str | Path) -> Roads:
        """Open the roads that ``slipstream roads import`` or :meth:`save` wrote."""
        path = Path(local(folder) if isinstance(folder, str) else folder)
        return cls(road_tables.open_roads(path), str(path), road_tables.read_report(path)["repairs"], path.absolute())

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Roads:
        """Write them as GeoParquet into a folder, from which workers read them; returns them as opened from there."""
        path = Path(local(folder) if isinstance(folder, str) else folder)
        with staged_folder(
            path, replace=overwrite, label="save: ", hint="Give another name, or overwrite=True."
        ) as out:
            road_tables.save_roads(self._network, out, self._where, Repairs(**self._repairs))
        return replace(self, _where=str(path), _folder=path.absolute())

    @property
    def report(self) -> dict[str, Any]:
        """What the file had, and what was dropped or repaired."""
        return dict(self._repairs)

    @property
    def plane(self) -> Plane | None:
        """The plane that degrees were projected to; None if the file was in metres of an unknown one."""
        return self._network.plane

    @property
    def edges(self) -> pa.Table:
        """The edges: nodes, limit, class, bridge, name, and the geometry as WKB."""
        return road_tables.edge_table(self._network)

    def match(self, trip: Column | str, *, noise: float = 10.0, lag: Duration | None = None) -> Column:
        """Return a column with the roads of a column of moving points, in metres in the plane of the roads.

        A struct: ``points`` has what became of each position, ``Trip`` the movement along the roads. ``noise`` is the
        standard deviation of positions. With a ``lag``, a position is decided by those up to that much later.

        >>> import slipstream as ss
        >>> size = open("town.csv", "w").write("Id,Vmax,X1,Y1,X2,Y2\\n1,50,0,0,900,0\\n2,50,900,0,900,500\\n")
        >>> roads = ss.Roads.read("town.csv").save("roads")
        >>> van = ss.MovingPoint.from_wkt("[POINT(9 4)@2026-05-04 08:00:00, POINT(598 -3)@2026-05-04 08:01:00]")
        >>> trips = ss.Trips.from_points({"van": van}).to_spark()
        >>> matched = trips.select(roads.match("Trip").alias("m"))
        >>> matched.selectExpr("inline(m.points)").select("edge", "offset").toPandas()
           edge  offset
        0     0     9.0
        1     0   598.0
        """
        from pyspark.sql import functions as sf

        return self._make_function(noise, lag)(sf.col(trip) if isinstance(trip, str) else trip)

    def speeding(
        self,
        trip: Column | str,
        *,
        over: float = 0.0,
        seconds: float = 10.0,
        noise: float = 10.0,
        lag: Duration | None = None,
    ) -> Column:
        """Return a column of where moving points are more than ``over`` km/h faster than the limit of their edge.

        An array of t, edge, speed_kmh and limit_kmh. The speed is measured over at least ``seconds``, between
        matched positions; the limit is the highest one in between. :meth:`slipstream.Stream.speeding` finds the same.

        >>> import slipstream as ss
        >>> size = open("town.csv", "w").write("Id,Vmax,X1,Y1,X2,Y2\\n1,50,0,0,900,0\\n2,50,900,0,900,500\\n")
        >>> roads = ss.Roads.read("town.csv").save("roads", overwrite=True)
        >>> van = ss.MovingPoint.from_wkt("[POINT(9 4)@2026-05-04 08:00:00, POINT(598 -3)@2026-05-04 08:00:40]")
        >>> trips = ss.Trips.from_points({"van": van}).to_spark()
        >>> found = trips.select(roads.speeding("Trip").alias("s")).selectExpr("inline(s)")
        >>> found.select("edge", "speed_kmh", "limit_kmh").toPandas()
           edge  speed_kmh  limit_kmh
        0     0      53.01       50.0
        """
        from pyspark.sql import functions as sf

        column = sf.col(trip) if isinstance(trip, str) else trip
        return self._speeding(seconds, noise, lag)(column, sf.lit(float(over)))

    def register(self, spark: SparkSession, name: str = "match", *, noise: float = 10.0) -> None:
        """Make :meth:`match` and :meth:`speeding` SQL functions of a session.

        ``SELECT match(Trip).points FROM trips`` and ``SELECT speeding(Trip, 10D) FROM trips``.
        """
        spark.udf.register(name, self._make_function(noise, None))
        spark.udf.register("speeding", self._speeding(10.0, noise, None))

    def _speeding(self, seconds: float, noise: float, lag: Duration | None) -> Callable[..., Column]:
        from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]

        from slipstream._roads.matching.match_columns import speeding_column
        from slipstream._roads.matching.speeding_rules import SPEEDING_SQL
        from slipstream._spark import workers

        folder, model = find_folder(self), _model(noise, lag)

        def speeding(trip: pa.Array, over: pa.Array) -> pa.Array:
            return speeding_column(folder, model, seconds, trip, over)

        speeding.__annotations__ = dict.fromkeys(("trip", "over", "return"), pa.Array)
        workers.use_this_python()
        made: Callable[..., Column] = arrow_udf(speeding, SPEEDING_SQL)
        return made

    def _make_function(self, noise: float, lag: Duration | None) -> Callable[..., Column]:
        from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]

        from slipstream._roads.matching.match_columns import RESULT_SQL, match_column
        from slipstream._spark import workers

        folder, model = find_folder(self), _model(noise, lag)

        def match(trip: pa.Array) -> pa.Array:
            return match_column(folder, model, trip)

        match.__annotations__ = dict.fromkeys(("trip", "return"), pa.Array)
        workers.use_this_python()
        made: Callable[..., Column] = arrow_udf(match, RESULT_SQL)
        return made

    def corridor(
        self,
        *,
        ref: str = "",
        name: str = "",
        edges: Sequence[Sequence[int]] = (),
        segment: float = 1000.0,
        route: int = 0,
        label: str = "corridor",
    ) -> Table:
        """Return a table of the edges of a road, to join matched positions with: where on the road each edge begins.

        The road is given by its ``ref`` ("A 10"), its ``name``, or a list of edges in order for each direction. The
        columns are edge, route, dir, start (metres from where the direction begins) and segment_m.

        >>> import slipstream as ss
        >>> size = open("town.csv", "w").write("Id,Vmax,X1,Y1,X2,Y2\\n1,50,0,0,900,0\\n2,50,900,0,900,500\\n")
        >>> ss.Roads.read("town.csv").corridor(edges=[[0, 2]]).columns
        ['edge', 'route', 'dir', 'start', 'segment_m']
        """
        found = corridors.find_corridor(self._network, ref=ref, name=name, edges=edges)
        return table(corridors.make_table(found, route, segment), name=label)

    def __repr__(self) -> str:
        return f"<Roads {self._where}: {self._network.nodes:,} nodes, {self._network.edges:,} edges>"


def _model(noise: float, lag: Duration | None) -> Model:
    from slipstream._roads.matching.model import Model

    return Model(noise=noise, lag=None if lag is None else float(durations.seconds(lag, "lag")))


def find_folder(roads: Roads | str | Path) -> str:
    """Return the folder from which workers read roads."""
    if isinstance(roads, Roads):
        if roads._folder is None:
            raise BadArgument(
                f"{roads._where}: these roads are in the memory of this process only.",
                hint='Save them first: roads = roads.save("roads").',
                code="not-ready",
            )
        return str(roads._folder)
    path = Path(local(roads) if isinstance(roads, str) else roads)
    road_tables.check_roads(path, "roads ")
    return str(path.absolute())
