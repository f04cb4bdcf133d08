"""Streams: values that describe what happens to tuples, from where they are read to where they are written.

A stream is an output of a source or of a box. Its methods return new streams and start nothing; a job turns the streams
that it writes into one network. Boxes are checked when they are added, so a misspelt column is reported in the line
that has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from slipstream._api.streaming.fence_methods import Fences
from slipstream._api.streaming.reports import map_toll_columns
from slipstream._cuboid.schema import AST
from slipstream._errors import BadArgument, BadInput
from slipstream._linear_road.rules import RULES, Rules, TollFunction, find_registered
from slipstream._moving.exchange.trip_files import PLACES
from slipstream._network import drawing
from slipstream._network.algebra import (
    Aggregate,
    Arc,
    Box,
    BSort,
    Filter,
    Join,
    Latest,
    Map,
    Network,
    NetworkOutput,
    NetworkSource,
    NetworkTable,
    Node,
    Order,
    Running,
    Schema,
    Union,
)
from slipstream._network.boxes import operators
from slipstream._network.boxes.cuboids import CuboidLookup, CuboidQuery, Keep
from slipstream._network.boxes.movement.match import Match
from slipstream._network.boxes.movement.speeding import Speeding
from slipstream._network.boxes.operators import UNKNOWN, Operator
from slipstream._network.boxes.tolls.priced_zones import read_zones
from slipstream._network.boxes.tolls.toll import REJECTS, Toll
from slipstream._network.boxes.tolls.zone_tolls import ZoneTolls
from slipstream._network.column_types import spark_schema
from slipstream._network.schemas import check
from slipstream._network.sql.box_expressions import column
from slipstream._spark import session
from slipstream._spark.shipping import ship
from slipstream._tools import durations

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slipstream._api.trips.roads import Roads
    from slipstream._cuboid.schema import Schema as CuboidSchema
    from slipstream._cuboid.snapshots.snapshot import Cuboid
    from slipstream._io.named_feeds import Feed

Duration: TypeAlias = "str | float | timedelta"


@dataclass(frozen=True, eq=False)
class Origin:
    """An origin of tuples: their columns, and the feed from which a job reads them."""

    name: str
    schema: Schema
    where: str
    feed: Callable[[Path, Mapping[str, str]], Feed]
    needs_session_of: Any = None  # a DataFrame, which only its own Spark session can read
    is_copied: bool = False  # into the job's folder, which must be there first


@dataclass(frozen=True, eq=False)
class Stored:
    """A table that streams are joined with: its columns, and how a job gets its rows."""

    name: str
    schema: Schema
    rows: Callable[[], Any]  # an Arrow table, or a DataFrame of Spark's


@dataclass(frozen=True, eq=False)
class Placement:
    """A box and its inputs, or an origin: what a stream or a table stands for in a network."""

    what: Box | Origin | Stored
    inputs: tuple[Stream | Table, ...] = ()
    name: str = ""
    tables: tuple[Table, ...] = ()  # that functions of the user's look things up in


class Table:
    """A stored table, to join streams with. :func:`slipstream.table` returns one.

    >>> import pandas as pd
    >>> import slipstream as ss
    >>> ss.table(pd.DataFrame({"vin": ["a", "b"], "limit_kmh": [80, 100]}), name="limits").schema
    {'vin': 'string', 'limit_kmh': 'bigint'}
    """

    def __init__(self, stored: Stored) -> None:
        self._stored, self._place, self._port = stored, Placement(stored), 0

    @property
    def name(self) -> str:
        """The name of the table in networks."""
        return self._stored.name

    @property
    def schema(self) -> dict[str, str]:
        """The columns and their Spark types."""
        return spark_schema(self._stored.schema)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self._stored.schema)

    def __repr__(self) -> str:
        return f"<Table {self.name} {_describe_schema(self.schema)}>"


class Stream(Fences):
    """A stream of tuples. :func:`slipstream.read` and the methods of other streams return one.

    >>> import slipstream as ss
    >>> cars = ss.read("kafka://broker:9092/positions", {"id": "string", "time": "bigint", "speed": "double"})
    >>> slow = cars.filter("speed < 20").select("id", "time", kmh="speed * 1.609")
    >>> slow.schema
    {'id': 'string', 'time': 'bigint', 'kmh': 'double'}
    """

    def __init__(self, place: Placement, port: int = 0) -> None:
        self._place, self._port = place, port

    # --- what it is

    @cached_property
    def _types(self) -> Schema:
        """The columns, in the types of networks; raises what is wrong with the box."""
        if isinstance(self._place.what, Origin | Stored):
            return dict(self._place.what.schema)
        network, arcs = assemble("stream", {"out": self})
        found = check(network, None).schemas[arcs["out"]]
        if UNKNOWN in found.values() and (spark := find_analysing_session()):
            found = check(network, spark).schemas[arcs["out"]]
        return found

    @property
    def schema(self) -> dict[str, str]:
        """The columns and their Spark types; ``unknown`` if only Spark can infer it.

        >>> import slipstream as ss
        >>> ss.read("kafka://broker:9092/positions", {"id": "string", "speed": "double"}).schema
        {'id': 'string', 'speed': 'double'}
        """
        return spark_schema(self._types)

    @property
    def columns(self) -> list[str]:
        """The names of the columns.

        >>> import slipstream as ss
        >>> ss.read("kafka://broker:9092/positions", {"id": "string", "speed": "double"}).columns
        ['id', 'speed']
        """
        return list(self._types)

    @property
    def network(self) -> Network:
        """The network that computes this stream, as data; a notebook draws it.

        >>> import slipstream as ss
        >>> cars = ss.read("kafka://broker:9092/positions", {"id": "string", "speed": "double"})
        >>> [node.name for node in cars.filter("speed > 90").network.nodes]
        ['filter_1']
        """
        return assemble("stream", {"out": self})[0]

    def __repr__(self) -> str:
        return f"<Stream {_describe_schema(self.schema)}>"

    def _repr_html_(self) -> str:
        return drawing.draw(self.network)

    # --- boxes on one stream

    def filter(self, predicate: str) -> Stream:
        """Keep the tuples for which a SQL condition holds.

        >>> import slipstream as ss
        >>> cars = ss.read("kafka://broker:9092/positions", {"id": "string", "speed": "double"})
        >>> cars.filter("speed > 90 and id is not null").columns
        ['id', 'speed']
        >>> cars.filter("sped > 90")
        Traceback (most recent call last):
            ...
        slipstream._errors.BadInput: filter: 'sped > 90': column 'sped' does not exist.
        Did you mean 'speed'? Known: id, speed.
        """
        return self._with(Filter((predicate,)))

    def split(self, *predicates: str) -> tuple[Stream, ...]:
        """Route each tuple to the stream of the first condition that holds; the last stream gets the rest.

        >>> import slipstream as ss
        >>> cars = ss.read("kafka://broker:9092/positions", {"id": "string", "speed": "double"})
        >>> fast, slow, rest = cars.split("speed > 90", "speed < 20")
        """
        first = self._with(Filter(predicates))
        return tuple(Stream(first._place, port) for port in range(len(predicates) + 1))

    def select(self, /, *columns: str | Mapping[str, str], **expressions: str) -> Stream:
        """Keep some columns, and compute others with SQL expressions.

        A mapping from names to expressions is for names that Python does not take as keywords. In SQL, such names are
        in backquotes.

        >>> import slipstream as ss
        >>> cars = ss.read("kafka://broker:9092/positions", {"id": "string", "top speed": "double"})
        >>> cars.select("id", kmh="`top speed` * 1.609").schema
        {'id': 'string', 'kmh': 'double'}
        >>> cars.select("id", {"speed (km/h)": "`top speed` * 1.609"}).columns
        ['id', 'speed (km/h)']
        """
        chosen: dict[str, str] = {}
        for one in columns:
            chosen |= {one: column(one)} if isinstance(one, str) else dict(one)
        return self._with(Map(chosen | expressions))

    def with_columns(self, added: Mapping[str, str] | None = None, /, **expressions: str) -> Stream:
        """Add or replace columns; the others stay.

        >>> import slipstream as ss
        >>> cars = ss.read("kafka://broker:9092/positions", {"id": "string", "speed": "double"})
        >>> cars.with_columns(kmh="speed * 1.609").columns
        ['id', 'speed', 'kmh']
        """
        return self._with(Map({name: column(name) for name in self._types} | dict(added or {}) | expressions))

    def with_table(self, table: Table) -> Stream:
        """Let your own functions look things up in a table; see ``tables`` of :func:`slipstream.udf.scalar`.

        >>> import pandas as pd
        >>> import slipstream as ss
        >>> @ss.udf.scalar("boolean", tables=["banned"])
        ... def is_banned(vin, banned):
        ...     return [one in set(banned["vin"]) for one in vin]
        >>> cars = ss.read("kafka://broker:9092/positions", {"vin": "string"})
        >>> banned = ss.table(pd.DataFrame({"vin": ["a"]}), name="banned")
        >>> cars.with_table(banned).filter("is_banned(vin)").columns
        ['vin']
        """
        return self._with(Map({name: column(name) for name in self._types}), tables=(table,))

    def sort(self, on: str, *, slack: int, by: str | Iterable[str] = ()) -> Stream:
        """Sort approximately: ``slack`` passes of bubble sort, so a tuple moves forward by at most ``slack`` places.

        >>> import slipstream as ss
        >>> cars = ss.read("kafka://broker:9092/positions", {"id": "string", "time": "bigint"})
        >>> cars.sort("time", slack=10, by="id").columns
        ['id', 'time']
        """
        return self._with(BSort(Order(on, slack, _list_names(by))))

    def window(
        self,
        on: str,
        size: Duration,
        *,
        every: Duration | None = None,
        by: str | Iterable[str] = (),
        lateness: Duration = 0,
    ) -> Window:
        """Divide the stream into windows of the column ``on``; ``agg`` of the result computes something per window.

        Windows are ``size`` long and begin ``every`` so often (by default, one after the other), in each group of
        ``by``. A window is delivered when the stream, in whatever group, has passed its end by ``lateness``. Tuples
        that come later than that are left out, and windows still open when the input ends are not delivered.

        >>> import slipstream as ss
        >>> cars = ss.read("kafka://broker:9092/positions")
        >>> slow = cars.filter("speed < 20").window("time", size="1 minute", by="segment").agg(cars="count(*)")
        >>> slow.schema
        {'segment': 'bigint', 'time': 'bigint', 'cars': 'bigint'}
        """
        length = durations.seconds(size, "size")
        step = length if every is None else durations.seconds(every, "every")
        return Window(self, on, length, step, _list_names(by), durations.seconds(lateness, "lateness"))

    def running(
        self, added: Mapping[str, str] | None = None, /, *, by: str | Iterable[str] = (), **functions: str
    ) -> Stream:
        """Add aggregates over all tuples of a group so far: count, sum, avg, min or max.

        >>> import slipstream as ss
        >>> cars = ss.read("kafka://broker:9092/positions", {"id": "string", "speed": "double"})
        >>> cars.running(by="id", reports="count(*)", top="max(speed)").columns
        ['id', 'speed', 'reports', 'top']
        """
        return self._with(Running(dict(added or {}) | functions, _list_names(by)))

    def through(self, box: Operator, *others: Stream, name: str = "") -> Stream:
        """Send the stream, and ``others``, through a box of your own; returns its first output.

        ``output(name)`` of the result returns another one. See :class:`slipstream.Box`.

        >>> from dataclasses import dataclass
        >>> import slipstream as ss
        >>> @dataclass(frozen=True)
        ... class Sampled(ss.Box):
        ...     name = "sampled"
        ...     every: int = 10
        ...
        ...     def outputs(self, tuples):
        ...         return {"out": tuples}
        ...
        ...     def step(self, state, tuples):
        ...         return {"out": tuples.take(tuples["id"] % self.every == 0)}
        >>> ss.read("kafka://broker:9092/positions", {"id": "bigint"}).through(Sampled(every=5)).columns
        ['id']
        """
        operators.register(type(box))
        ship(type(box))
        return self._with(box, *others, name=name)

    def _watch(self, box: Operator, port: str = "") -> Stream:
        made = self._with(box)
        return made.output(port) if port else made

    def output(self, name: str) -> Stream:
        """Return another output of the box that this stream comes from.

        >>> import slipstream as ss
        >>> cars = ss.read("kafka://broker:9092/cars", {"id": "bigint", "speed": "double"})
        >>> kept = cars.keep("CREATE CUBOID car (id BIGINT KEY, speed AST(6))")
        >>> kept.output("rejects").columns
        ['id', 'speed', 'reason']
        """
        box = self._place.what
        if not isinstance(box, Operator):
            raise BadArgument(
                f"no output {name!r}: this box has one output.",
                hint="split() makes several streams.",
                code="unknown-name",
                found=name,
            )
        return Stream(self._place, box.port(name))

    # --- boxes on several streams

    def union(self, *others: Stream) -> Stream:
        """Merge streams with the same columns.

        >>> import slipstream as ss
        >>> cars = ss.read("kafka://broker:9092/cars", {"id": "string", "speed": "double"})
        >>> vans = ss.read("kafka://broker:9092/vans", {"id": "string", "speed": "double"})
        >>> cars.union(vans).columns
        ['id', 'speed']
        """
        return self._with(Union(), *others)

    def join(
        self,
        other: Stream | Table,
        on: str,
        *,
        within: Duration | None = None,
        time: str = "time",
        slack: int = 0,
        how: str = "inner",
    ) -> Stream:
        """Pair tuples with those of another stream, or with the rows of a table, for which a condition holds.

        The condition names ``left.column`` and ``right.column``. Tuples of two streams must be at most ``within`` apart
        in ``time``. With a table, ``how="left"`` keeps tuples that match no row, with nulls in its columns.

        >>> import slipstream as ss
        >>> cars = ss.read("kafka://broker:9092/cars", {"id": "string", "time": "bigint"})
        >>> cams = ss.read("kafka://broker:9092/cameras", {"plate": "string", "time": "bigint"})
        >>> cars.join(cams, "left.id = right.plate", within="5 s").columns
        ['id', 'time', 'plate', 'right_time']

        >>> import pandas as pd
        >>> owners = ss.table(pd.DataFrame({"plate": ["B 1"], "owner": ["Ann"]}), name="owners")
        >>> cams.join(owners, "left.plate = right.plate", how="left").columns
        ['plate', 'time', 'right_plate', 'owner']
        """
        if how not in ("inner", "left"):
            raise BadArgument(f"join: how={how!r}.", hint='Use "inner" or "left".', code="unknown-value", found=how)
        if isinstance(other, Table):
            if within is not None:
                raise BadArgument(
                    "join: within= is for two streams, and this is a table.",
                    hint="Leave out within=.",
                    code="conflicting-options",
                )
            return self._with(Join(on, outer=how == "left"), other)
        if how != "inner" or within is None:
            raise BadArgument(
                "join: two streams are joined within a time, and only by inner joins.",
                hint='Give within="5 s".',
                code="conflicting-options",
            )
        order = Order(time, slack)
        return self._with(Join(on, durations.seconds(within, "within"), order, order), other)

    def latest(self, other: Stream, by: str | Iterable[str]) -> Stream:
        """Join each tuple with the newest one of ``other`` that has the same values in ``by``; null if there is none.

        >>> import slipstream as ss
        >>> cars = ss.read("kafka://broker:9092/cars", {"id": "string", "speed": "double"})
        >>> limits = ss.read("kafka://broker:9092/limits", {"id": "string", "limit_kmh": "double"})
        >>> cars.latest(limits, by="id").columns
        ['id', 'speed', 'limit_kmh']
        """
        return self._with(Latest(_list_names(by)), other)

    # --- cuboids

    def keep(self, cuboid: str) -> Kept:
        """Keep the latest values of each key in a cuboid that ``CREATE CUBOID`` declares, and publish it.

        >>> import slipstream as ss
        >>> cars = ss.read("kafka://broker:9092/cars", {"id": "bigint", "speed": "double"})
        >>> kept = cars.keep("CREATE CUBOID car (id BIGINT KEY, speed AST(6))")
        >>> kept.query("SELECT id, avg(speed) AS mean FROM car WHERE delta(speed) < -10").columns
        ['id', 'mean']
        """
        box = Keep(cuboid)
        made = Kept(Placement(box, (self,)))
        _check_stream(made)
        return made

    # --- tolling

    def toll(
        self,
        *,
        rules: str | Rules | TollFunction = "2004",
        lateness: Duration = 0,
        history: str | Path | None = None,
        publish: bool = True,
    ) -> Tolled:
        """Toll position reports: notifications, alerts, balances and more.

        The stream needs the columns of :data:`slipstream.REPORT` (or Linear Road's own names). ``rules`` is
        "2004", "2003", a function from average speeds and car counts to tolls, or :class:`slipstream.Rules`. "general",
        and what :meth:`slipstream.Rules.general` returns, are rules for real roads: these need only ``id``, ``time``,
        ``speed`` and ``position``, and know a ``class`` of vehicles. A report may be ``lateness`` late. ``history`` is
        a run with history, for travel time requests. With ``publish``, the cuboids of the toll box can be queried while
        it runs.

        >>> import slipstream as ss
        >>> tolled = ss.read("kafka://broker:9092/positions").toll(rules="2004", lateness="2s")
        >>> tolled.notifications.columns
        ['vid', 'time', 'lav', 'toll']
        """
        chosen = _find_rules(rules)
        late = durations.seconds(lateness, "lateness")
        if late != int(late):
            raise BadArgument(
                f"lateness {lateness!r}: tolling works on whole seconds.",
                hint="Give whole seconds.",
                code="out-of-range",
                found=lateness,
            )
        past = str(Path(history).absolute()) if history else ""
        box = Toll(chosen, int(late), past, publish)
        reports = self._with(Map(map_toll_columns(self._types, box.form)))
        return Tolled(reports._with(box)._place)

    def charge_zones(
        self,
        zones: str | Path | Mapping[str, Any],
        *,
        by: str = "id",
        time: str = "time",
        x: str = "",
        y: str = "",
        gap: Duration = "3 minutes",
    ) -> Stream:
        """Charge vehicles for visits to zones, such as a cordon: on entering, per minute and per kilometre.

        ``zones`` is GeoJSON, a file or a mapping: polygons, of which each feature has a ``name`` and the prices
        ``entry``, ``per_minute`` and ``per_km``. A visit begins and ends where the straight line between two positions
        crosses the border; a silence longer than ``gap`` ends it, too. The result has a tuple for each visit when it is
        over; ``output("entries")`` has one when it begins. Positions of a vehicle must be in order; others are in
        ``output("rejects")``. Columns called lon and lat are degrees, others metres.

        >>> import slipstream as ss
        >>> gps = ss.read("kafka://b:9092/gps", {"id": "string", "time": "double", "lon": "double", "lat": "double"})
        >>> inner = [[13.3, 52.4], [13.5, 52.4], [13.5, 52.6], [13.3, 52.6], [13.3, 52.4]]
        >>> shape = {"type": "Polygon", "coordinates": [inner]}
        >>> cordon = {"type": "Feature", "properties": {"name": "cordon", "entry": 5}, "geometry": shape}
        >>> gps.charge_zones({"type": "FeatureCollection", "features": [cordon]}).columns
        ['id', 'zone', 'entered', 'exited', 'seconds', 'metres', 'amount']
        """
        pair = (x, y) if x and y else next((pair for pair in PLACES if set(pair) <= set(self._types)), PLACES[0])
        return self._with(ZoneTolls(read_zones(zones), by, time, *pair, durations.seconds(gap, "gap")))

    # --- roads

    def match(
        self,
        roads: Roads | str | Path,
        *,
        id: str = "id",
        time: str = "time",
        x: str = "x",
        y: str = "y",
        lag: Duration = 30,
        lateness: Duration = 0,
        noise: float = 10.0,
        degrees: bool = False,
    ) -> Stream:
        """Add to each position the road that the vehicle was on, at most ``lag`` later in the time of the stream.

        ``x`` and ``y`` are metres in the plane of the roads or, with ``degrees``, longitudes and latitudes. The answers
        are those of :meth:`slipstream.Roads.match` with the same lag. ``output("rejects")`` has the tuples that could
        not be used.

        >>> import slipstream as ss
        >>> size = open("town.csv", "w").write("Id,Vmax,X1,Y1,X2,Y2\\n1,50,0,0,900,0\\n")
        >>> roads = ss.Roads.read("town.csv").save("roads")
        >>> cars = ss.read("kafka://broker:9092/cars", {"id": "string", "time": "bigint", "x": "double", "y": "double"})
        >>> cars.match(roads, lag="30s").columns[4:9]
        ['status', 'edge', 'offset', 'direction', 'aside']
        """
        from slipstream._api.trips.roads import find_folder

        waits, late = durations.seconds(lag, "lag"), durations.seconds(lateness, "lateness")
        return self._with(Match(find_folder(roads), id, time, x, y, float(waits), float(late), noise, degrees))

    def speeding(
        self,
        over: float = 0.0,
        *,
        seconds: float = 10.0,
        id: str = "id",
        time: str = "time",
    ) -> Stream:
        """Return the positions at which a vehicle is more than ``over`` km/h faster than the limit.

        The stream is one of matched positions (:meth:`match`). The speed, as ``speed_kmh``, is measured over at least
        ``seconds`` between positions on one stretch, and the limit is the highest one in between.
        :meth:`slipstream.Roads.speeding` finds the same in trips.

        >>> import slipstream as ss
        >>> size = open("town.csv", "w").write("Id,Vmax,X1,Y1,X2,Y2\\n1,50,0,0,900,0\\n")
        >>> roads = ss.Roads.read("town.csv").save("roads", overwrite=True)
        >>> cars = ss.read("kafka://broker:9092/cars", {"id": "string", "time": "bigint", "x": "double", "y": "double"})
        >>> cars.match(roads).speeding(over=10).columns[-1]
        'speed_kmh'
        """
        return self._with(Speeding(id, time, float(over), float(seconds)))

    # --- making more of them

    def _with(self, box: Box, *others: Stream | Table, name: str = "", tables: tuple[Table, ...] = ()) -> Stream:
        made = Stream(Placement(box, (self, *others), name, tables))
        _check_stream(made)
        return made


class Window:
    """A stream divided into windows; :meth:`agg` computes something for each. :meth:`Stream.window` returns one.

    >>> import slipstream as ss
    >>> windows = ss.read("kafka://broker:9092/positions").window("time", "1 minute", by="segment")
    >>> windows.agg(cars="count(distinct id)").columns
    ['segment', 'time', 'cars']
    """

    def __init__(
        self, stream: Stream, on: str, size: float, every: float, by: tuple[str, ...], lateness: float
    ) -> None:
        self._stream, self._on, self._size, self._every = stream, on, size, every
        self._by, self._lateness = by, lateness

    def agg(self, added: Mapping[str, str] | None = None, /, **functions: str) -> Stream:
        """Compute aggregates for every window: ``agg(cars="count(*)", mean="avg(speed)")``.

        The result has the columns of the groups, the beginning of the window under the name of its column, and the
        aggregates.

        >>> import slipstream as ss
        >>> cars = ss.read("kafka://broker:9092/positions")
        >>> cars.window("time", "5 minutes", every="1 minute").agg(cars="count(*)", mean="avg(speed)").columns
        ['time', 'cars', 'mean']
        """
        box = Aggregate(dict(added or {}) | functions, Order(self._on, 0, self._by), self._size, self._every)
        return self._stream._with(box, self._delay_clock())

    def _delay_clock(self) -> Stream:
        """Return the stream that closes windows: this one, delayed by the lateness."""
        if self._on not in self._stream._types:  # the window itself says so better
            return self._stream
        behind = f"{column(self._on)} - {self._lateness}" if self._lateness else column(self._on)
        return self._stream._with(Map({self._on: behind}))

    def __repr__(self) -> str:
        return f"<Window of {self._size} on {self._on}>"


class Kept(Stream):
    """A stream whose tuples a cuboid keeps; the cuboid can be queried at every tuple, and by readers.

    :meth:`Stream.keep` returns one. It is the stream itself, too, so that other boxes can follow.

    >>> import slipstream as ss
    >>> cars = ss.read("kafka://broker:9092/cars", {"id": "bigint", "speed": "double"})
    >>> kept = cars.keep("CREATE CUBOID car (id BIGINT KEY, speed AST(6))")
    >>> kept.columns, kept.query("SELECT id, max(speed) AS most FROM car").columns
    (['id', 'speed'], ['id', 'most'])
    """

    @property
    def cuboid(self) -> Published:
        """The cuboid, as readers find it in the folder of a job.

        >>> import slipstream as ss
        >>> cars = ss.read("kafka://broker:9092/cars", {"id": "bigint", "speed": "double"})
        >>> cars.keep("CREATE CUBOID car (id BIGINT KEY, speed AST(6))").cuboid
        <Cuboid car: id, speed[6]>
        """
        ((name, schema),) = cast("Keep", self._place.what).published().items()
        return Published(name, schema)

    @property
    def rejects(self) -> Stream:
        """The tuples that the cuboid cannot store, each with a reason.

        >>> import slipstream as ss
        >>> cars = ss.read("kafka://broker:9092/cars", {"id": "bigint", "speed": "double"})
        >>> cars.keep("CREATE CUBOID car (id BIGINT KEY, speed AST(6))").rejects.columns
        ['id', 'speed', 'reason']
        """
        return self.output("rejects")

    def query(self, select: str) -> Stream:
        """Run a continuous query in Streamonas-SQL over the cuboid: at every tuple, for its key.

        >>> import slipstream as ss
        >>> cars = ss.read("kafka://broker:9092/cars", {"id": "bigint", "speed": "double"})
        >>> kept = cars.keep("CREATE CUBOID car (id BIGINT KEY, speed AST(6))")
        >>> kept.query("SELECT id, avg(speed) AS mean FROM car").columns
        ['id', 'mean']
        """
        return self._with(CuboidQuery(select))

    def lookup(self, stream: Stream, added: Mapping[str, str] | None = None, /, *, by: str, **columns: str) -> Stream:
        """Add to the tuples of another stream what the cuboid knows of their key ``by`` at that moment.

        >>> import slipstream as ss
        >>> cars = ss.read("kafka://broker:9092/cars", {"id": "bigint", "speed": "double"})
        >>> tickets = ss.read("kafka://broker:9092/tickets", {"car": "bigint"})
        >>> kept = cars.keep("CREATE CUBOID car (id BIGINT KEY, speed AST(6))")
        >>> kept.lookup(tickets, by="car", last="speed[0]").columns
        ['car', 'last']
        """
        return self._with(CuboidLookup(dict(added or {}) | columns, by), stream)


@dataclass(frozen=True)
class Tolled:
    """The outputs of tolling, each a stream; :meth:`slipstream.Job.write` writes all of them.

    >>> import slipstream as ss
    >>> tolled = ss.read("kafka://broker:9092/positions").toll()
    >>> [name for name, _ in tolled.streams()]
    ['notifications', 'alerts', 'balances', 'expenditures', 'travel_times', 'toll_rejects']
    """

    _place: Placement = field(repr=False)

    def _repr_html_(self) -> str:
        return drawing.draw(assemble("toll", dict(self.streams()))[0])

    def _get_port(self, name: str) -> Stream:
        return Stream(self._place, Toll().port(name))

    @property
    def notifications(self) -> Stream:
        """The toll of the segment that a vehicle enters: vid, time, lav, toll."""
        return self._get_port("notifications")

    @property
    def alerts(self) -> Stream:
        """Accidents ahead, for vehicles that approach them: vid, time, seg."""
        return self._get_port("alerts")

    @property
    def balances(self) -> Stream:
        """Answers to balance requests: qid, vid, time, result_time, balance."""
        return self._get_port("balances")

    @property
    def expenditures(self) -> Stream:
        """Answers to expenditure requests: qid, vid, time, expenditure."""
        return self._get_port("expenditures")

    @property
    def travel_times(self) -> Stream:
        """Answers to travel time requests: qid, vid, time, travel_time, toll."""
        return self._get_port("travel_times")

    @property
    def rejects(self) -> Stream:
        """Reports that cannot be tolled, each with a reason."""
        return self._get_port(REJECTS)

    @property
    def cars(self) -> Published:
        """The cuboid of vehicles: where each is, and the recent past of its speed and segment.

        >>> import slipstream as ss
        >>> ss.read("kafka://broker:9092/positions").toll().cars
        <Cuboid car: vid, time, xway, lane, dir, pos, speed[6], segment[6]>
        """
        return self._make_published("car")

    @property
    def accounts(self) -> Published:
        """The cuboid of accounts: what each vehicle was charged."""
        return self._make_published("account")

    @property
    def segments(self) -> Published:
        """The cuboid of segments: speeds, car counts and tolls of the last minutes."""
        return self._make_published("segment")

    @property
    def accidents(self) -> Published:
        """The cuboid of accidents that count for alerts now."""
        return self._make_published("accident")

    def _make_published(self, name: str) -> Published:
        reports = cast("Stream", self._place.inputs[0])
        found = cast("Toll", self._place.what).published(reports._types)
        if name not in found:
            raise BadArgument(
                "toll: no cuboids are published.", hint="Leave out publish=False.", code="conflicting-options"
            )
        return Published(name, found[name])

    def streams(self) -> Iterator[tuple[str, Stream]]:
        """Yield all outputs, each with the name under which a job writes it."""
        for name in Toll.ports:
            yield (f"toll_{name}" if name == REJECTS else name), self._get_port(name)


@dataclass(frozen=True)
class Published:
    """A cuboid that a job keeps and publishes; ``Results.cuboid`` reads it by this or by its name.

    >>> import slipstream as ss
    >>> cars = ss.read("kafka://broker:9092/positions").toll().cars
    >>> cars.name, cars.key
    ('car', 'vid')
    """

    name: str
    _schema: CuboidSchema = field(repr=False)

    @property
    def key(self) -> str:
        """The name of the key."""
        return self._schema.key

    @property
    def columns(self) -> list[str]:
        """The names of the attributes."""
        return list(self._schema.names)

    def open(self, folder: str | Path) -> Cuboid:
        """Return the cuboid as of the last commit of the job in a folder."""
        from slipstream._api.streaming import results

        return results.open(folder).cuboid(self)

    def __repr__(self) -> str:
        depths = {one.name: f"[{one.depth}]" if isinstance(one, AST) else "" for one in self._schema.attributes}
        return f"<Cuboid {self.name}: {', '.join([self.key, *(name + depth for name, depth in depths.items())])}>"


# --- networks of streams


def assemble(
    name: str,
    outputs: Mapping[str, Stream],
    to: Mapping[str, tuple[str, ...]] | None = None,
) -> tuple[Network, dict[str, Arc]]:
    """Return the network of all boxes that some streams need, and the arc of each stream."""
    places = _list_places(outputs.values())
    names = _name_places(places)
    arcs = {output: Arc(names[id(stream._place)], stream._port) for output, stream in outputs.items()}
    nodes = tuple(
        Node(names[id(place)], place.what, tuple(Arc(names[id(i._place)], i._port) for i in place.inputs))
        for place in places
        if not isinstance(place.what, Origin | Stored)
    )
    sources = tuple(
        NetworkSource(names[id(place)], dict(place.what.schema)) for place in places if isinstance(place.what, Origin)
    )
    stored = tuple(NetworkTable(name, dict(table.schema)) for name, table in _find_tables(places, names).items())
    ends = tuple(NetworkOutput(output, arc, to=(to or {}).get(output, ())) for output, arc in arcs.items())
    return Network(name, sources, nodes, ends, stored), arcs


def origins(streams: Iterable[Stream]) -> dict[str, Origin]:
    """Return the sources that some streams read, by their names in the network of these streams."""
    places = _list_places(streams)
    names = _name_places(places)
    return {names[id(place)]: place.what for place in places if isinstance(place.what, Origin)}


def tables(streams: Iterable[Stream]) -> dict[str, Stored]:
    """Return the tables that some streams look things up in, by their names in the network of these streams."""
    places = _list_places(streams)
    return _find_tables(places, _name_places(places))


def _find_tables(places: list[Placement], names: dict[int, str]) -> dict[str, Stored]:
    return {names[id(place)]: place.what for place in places if isinstance(place.what, Stored)}


def _list_places(streams: Iterable[Stream]) -> list[Placement]:
    """Everything upstream of some streams, inputs first."""
    found: dict[int, Placement] = {}

    def visit(place: Placement) -> None:
        if id(place) not in found:
            for one in (*place.inputs, *place.tables):
                visit(one._place)
            found[id(place)] = place

    for stream in streams:
        visit(stream._place)
    return list(found.values())


def _name_places(places: list[Placement]) -> dict[int, str]:
    """A name for every place: its own, or its kind and a number."""
    taken: set[str] = set()
    names = {}
    for place in places:
        what = place.what
        is_data = isinstance(what, Origin | Stored)
        kind = what.name if isinstance(what, Origin | Stored | Operator) and what.name else _describe_kind(what)
        name = place.name or (kind if is_data else f"{kind}_1")
        if isinstance(what, Stored) and name in taken:
            raise BadArgument(
                f"the name {name!r} is used twice.",
                hint="Give the table another name=.",
                code="duplicate-name",
                found=name,
            )
        number = 1
        while name in taken:
            number += 1
            name = f"{kind}_{number}"
        taken.add(name)
        names[id(place)] = name
    return names


def _check_stream(stream: Stream) -> None:
    """Refuse a box that makes no sense, in the words of the method that added it."""
    try:
        stream._types  # noqa: B018
    except BadInput as error:
        if not error.place.box:
            raise
        kind = _describe_kind(stream._place.what)
        # the method that was called is a better place than a box of a network that nobody has seen
        error.place = replace(error.place, words=_METHODS.get(kind, kind))
        raise error from None


#: the method that adds a kind of box, where its name is another
_METHODS = {"map": "select", "bsort": "sort", "aggregate": "window", "operator": "through"}


def find_analysing_session() -> SparkSession | None:
    """Return a session to analyse expressions with that only Spark knows; None unless the user has Spark running.

    It is a session of its own, as functions of the user's are registered in it.
    """
    if not session.is_running():
        return None
    running = session.build()
    context = running.sparkContext.applicationId
    if context not in _analysing:
        _analysing.clear()
        _analysing[context] = running.newSession()
    return _analysing[context]


_analysing: dict[Any, SparkSession] = {}


def _describe_kind(what: Box | Origin | Stored) -> str:
    return "read" if isinstance(what, Origin | Stored) else what.kind


def _describe_schema(schema: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {type_}" for name, type_ in schema.items())


def _list_names(by: str | Iterable[str]) -> tuple[str, ...]:
    return (by,) if isinstance(by, str) else tuple(by)


def _find_rules(rules: str | Rules | TollFunction) -> str | Rules:
    if isinstance(rules, str):
        return rules
    if not isinstance(rules, Rules):
        if not callable(rules):
            raise BadArgument(
                f"rules {rules!r}: neither a name nor a function.",
                hint=f"Known: {', '.join(RULES)}.",
                code="unknown-value",
                found=rules,
                expected=[*RULES],
            )
        own = find_registered(getattr(rules, "__name__", ""))
        rules = own if own and own.toll is rules else Rules(getattr(rules, "__name__", "own"), rules)
    if rules.name in RULES and rules != RULES[rules.name]:
        raise BadArgument(
            f"rules {rules.name!r}: that name is taken.",
            hint="Give your rules another name.",
            code="duplicate-name",
            found=rules.name,
        )
    ship(rules.toll)
    return rules
