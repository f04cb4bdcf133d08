"""Streams: values that describe what happens to tuples, from where they are read to where they are written.

A stream is an output of a source or of a box. Its methods return new streams and start nothing; a job turns the streams
that it writes into one network. Boxes are checked when they are added, so a misspelt column is reported in the line
that has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from slipstream._api import types
from slipstream._api.reports import toll_columns
from slipstream._errors import BadArgument, BadInput
from slipstream._linear_road.rules import RULES, Rules, TollFunction, registered
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
    Node,
    Order,
    Output,
    Running,
    Schema,
    Source,
    Union,
)
from slipstream._network.boxes import operators
from slipstream._network.boxes.cuboids import CuboidLookup, CuboidQuery, Keep
from slipstream._network.boxes.operators import Operator
from slipstream._network.boxes.toll import REJECTS, Toll
from slipstream._network.schemas import check
from slipstream._network.types import spark_schema
from slipstream._spark.shipping import ship

if TYPE_CHECKING:
    from slipstream._io.sources import Feed

Duration: TypeAlias = "str | float | timedelta"


@dataclass(frozen=True, eq=False)
class Origin:
    """Where tuples come from: the columns they have, and the feed that a job in some folder reads them from."""

    name: str
    schema: Schema
    where: str
    feed: Callable[[Path, Mapping[str, str]], Feed]
    needs_session_of: Any = None  # a DataFrame, which only its own Spark session can read
    is_copied: bool = False  # into the job's folder, which must be there first


@dataclass(frozen=True, eq=False)
class Place:
    """A box and its inputs, or an origin; the place of a network that a stream comes from."""

    what: Box | Origin
    inputs: tuple[Stream, ...] = ()
    name: str = ""


class Stream:
    """A stream of tuples. :func:`slipstream.read` and the methods of other streams return one.

    >>> import slipstream as ss
    >>> cars = ss.read("kafka://broker:9092/positions", {"id": "string", "time": "bigint", "speed": "double"})
    >>> slow = cars.filter("speed < 20").select("id", "time", kmh="speed * 1.609")
    >>> slow.schema
    {'id': 'string', 'time': 'bigint', 'kmh': 'double'}
    """

    def __init__(self, place: Place, port: int = 0) -> None:
        self._place, self._port = place, port

    # --- what it is

    @cached_property
    def _types(self) -> Schema:
        """The columns, in the types of networks; raises what is wrong with the box."""
        if isinstance(self._place.what, Origin):
            return dict(self._place.what.schema)
        network, arcs = assemble("stream", {"out": self})
        return check(network, None).schemas[arcs["out"]]

    @property
    def schema(self) -> dict[str, str]:
        """The columns and their Spark types; ``unknown`` where only Spark can tell.

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
        columns = ", ".join(f"{name} {type_}" for name, type_ in self.schema.items())
        return f"<Stream {columns}>"

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
        slipstream._errors.BadInput: filter: 'sped > 90': column 'sped' is not there.
        Did you mean 'speed'? There is: id, speed.
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

    def select(self, *columns: str, **expressions: str) -> Stream:
        """Keep some columns, and compute others with SQL expressions.

        >>> import slipstream as ss
        >>> cars = ss.read("kafka://broker:9092/positions", {"id": "string", "speed": "double"})
        >>> cars.select("id", kmh="speed * 1.609").schema
        {'id': 'string', 'kmh': 'double'}
        """
        return self._with(Map({**{name: name for name in columns}, **expressions}))

    def with_columns(self, **expressions: str) -> Stream:
        """Add or replace columns; the others stay.

        >>> import slipstream as ss
        >>> cars = ss.read("kafka://broker:9092/positions", {"id": "string", "speed": "double"})
        >>> cars.with_columns(kmh="speed * 1.609").columns
        ['id', 'speed', 'kmh']
        """
        return self._with(Map({**{name: name for name in self._types}, **expressions}))

    def sort(self, on: str, *, slack: int, by: str | Iterable[str] = ()) -> Stream:
        """Sort approximately: ``slack`` passes of bubble sort, so a tuple moves forward by at most ``slack`` places.

        >>> import slipstream as ss
        >>> cars = ss.read("kafka://broker:9092/positions", {"id": "string", "time": "bigint"})
        >>> cars.sort("time", slack=10, by="id").columns
        ['id', 'time']
        """
        return self._with(BSort(Order(on, slack, _names(by))))

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
        length = types.seconds(size, "size")
        step = length if every is None else types.seconds(every, "every")
        return Window(self, on, length, step, _names(by), types.seconds(lateness, "lateness"))

    def running(self, by: str | Iterable[str] = (), **functions: str) -> Stream:
        """Add aggregates over all tuples of a group so far: count, sum, avg, min or max.

        >>> import slipstream as ss
        >>> cars = ss.read("kafka://broker:9092/positions", {"id": "string", "speed": "double"})
        >>> cars.running(by="id", reports="count(*)", top="max(speed)").columns
        ['id', 'speed', 'reports', 'top']
        """
        return self._with(Running(functions, _names(by)))

    def through(self, box: Operator, *others: Stream, name: str = "") -> Stream:
        """Send the stream, and ``others``, through a box of your own; returns its first output.

        ``output(name)`` of the result returns another one. See :class:`slipstream.Box`.

        >>> import slipstream as ss
        >>> from slipstream._network.boxes.archive import Archive
        >>> gps = ss.read("kafka://b:9092/gps", {"vin": "string", "ts": "bigint", "x": "double", "y": "double"})
        >>> gps.through(Archive(id="vin", time="ts", x="x", y="y", gap=60)).columns
        ['vin', 'trip', 'time', 'x', 'y']
        """
        operators.register(type(box))
        ship(type(box))
        return self._with(box, *others, name=name)

    def output(self, name: str) -> Stream:
        """Return another output of the box that this stream comes from.

        >>> import slipstream as ss
        >>> from slipstream._network.boxes.archive import Archive
        >>> gps = ss.read("kafka://b:9092/gps", {"vin": "string", "ts": "bigint", "x": "double", "y": "double"})
        >>> gps.through(Archive(id="vin", time="ts", x="x", y="y", gap=60)).output("rejects").columns
        ['vin', 'ts', 'x', 'y', 'reason']
        """
        box = self._place.what
        if not isinstance(box, Operator):
            raise BadArgument(f"no output {name!r}: this box has one output.", hint="split() makes several streams.")
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

    def join(self, other: Stream, on: str, *, within: Duration, time: str = "time", slack: int = 0) -> Stream:
        """Pair tuples of two streams that are at most ``within`` apart in ``time`` and for which a condition holds.

        The condition speaks of ``left.column`` and ``right.column``.

        >>> import slipstream as ss
        >>> cars = ss.read("kafka://broker:9092/cars", {"id": "string", "time": "bigint"})
        >>> cams = ss.read("kafka://broker:9092/cameras", {"plate": "string", "time": "bigint"})
        >>> cars.join(cams, "left.id = right.plate", within="5 s").columns
        ['id', 'time', 'plate', 'right_time']
        """
        order = Order(time, slack)
        return self._with(Join(on, types.seconds(within, "within"), order, order), other)

    def latest(self, other: Stream, by: str | Iterable[str]) -> Stream:
        """Put beside each tuple the newest tuple of ``other`` with the same values in ``by``; null if there is none.

        >>> import slipstream as ss
        >>> cars = ss.read("kafka://broker:9092/cars", {"id": "string", "speed": "double"})
        >>> limits = ss.read("kafka://broker:9092/limits", {"id": "string", "limit_kmh": "double"})
        >>> cars.latest(limits, by="id").columns
        ['id', 'speed', 'limit_kmh']
        """
        return self._with(Latest(_names(by)), other)

    # --- cuboids

    def keep(self, cuboid: str) -> Kept:
        """Keep the latest values of each key in a cuboid that ``CREATE CUBOID`` declares, and publish it.

        >>> import slipstream as ss
        >>> cars = ss.read("kafka://broker:9092/cars", {"id": "bigint", "speed": "double"})
        >>> kept = cars.keep("CREATE CUBOID car (id INT KEY, speed AST(6))")
        >>> kept.query("SELECT id, avg(speed) AS mean FROM car WHERE delta(speed) < -10").columns
        ['id', 'mean']
        """
        box = Keep(cuboid)
        made = Kept(Place(box, (self,)))
        _checked(made)
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
        """Toll position reports by the rules of Linear Road: notifications, alerts, balances and more.

        The stream needs the columns of :data:`slipstream.REPORT` (Linear Road's own names will do). ``rules`` is
        "2004", "2003", a function from average speeds and car counts to tolls, or :class:`slipstream.Rules`.
        A report may be ``lateness`` late. ``history`` is a run with history, for travel time requests. With
        ``publish``, the cuboids of the toll box can be queried while it runs.

        >>> import slipstream as ss
        >>> tolled = ss.read("kafka://broker:9092/positions").toll(rules="2004", lateness="2s")
        >>> tolled.notifications.columns
        ['vid', 'time', 'lav', 'toll']
        """
        chosen = _rules(rules)
        late = types.seconds(lateness, "lateness")
        if late != int(late):
            raise BadArgument(f"lateness {lateness!r}: tolling works on whole seconds.", hint="Give whole seconds.")
        past = str(Path(history).absolute()) if history else ""
        reports = self._with(Map(toll_columns(self._types)))
        return Tolled(reports._with(Toll(chosen, int(late), past, publish))._place)

    # --- making more of them

    def _with(self, box: Box, *others: Stream, name: str = "") -> Stream:
        made = Stream(Place(box, (self, *others), name))
        _checked(made)
        return made


class Window:
    """A stream divided into windows; :meth:`agg` computes something for each."""

    def __init__(
        self, stream: Stream, on: str, size: float, every: float, by: tuple[str, ...], lateness: float
    ) -> None:
        self._stream, self._on, self._size, self._every = stream, on, size, every
        self._by, self._lateness = by, lateness

    def agg(self, **functions: str) -> Stream:
        """Compute aggregates for every window: ``agg(cars="count(*)", mean="avg(speed)")``.

        The result has the columns of the groups, the beginning of the window under the name of its column, and the
        aggregates.

        >>> import slipstream as ss
        >>> cars = ss.read("kafka://broker:9092/positions")
        >>> cars.window("time", "5 minutes", every="1 minute").agg(cars="count(*)", mean="avg(speed)").columns
        ['time', 'cars', 'mean']
        """
        box = Aggregate(functions, Order(self._on, 0, self._by), self._size, self._every)
        return self._stream._with(box, self._clock())

    def _clock(self) -> Stream:
        """The stream that says how far time has come: this one, held back by the lateness."""
        if self._on not in self._stream._types:  # the window itself says so better
            return self._stream
        behind = f"{self._on} - {self._lateness}" if self._lateness else self._on
        return self._stream._with(Map({self._on: behind}))

    def __repr__(self) -> str:
        return f"<Window of {self._size} on {self._on}>"


class Kept(Stream):
    """A stream whose tuples a cuboid keeps; the cuboid can be queried at every tuple, and by readers."""

    @property
    def rejects(self) -> Stream:
        """The tuples that the cuboid cannot hold, each with a reason.

        >>> import slipstream as ss
        >>> cars = ss.read("kafka://broker:9092/cars", {"id": "bigint", "speed": "double"})
        >>> cars.keep("CREATE CUBOID car (id INT KEY, speed AST(6))").rejects.columns
        ['id', 'speed', 'reason']
        """
        return self.output("rejects")

    def query(self, select: str) -> Stream:
        """Run a continuous query in Streamonas-SQL over the cuboid: at every tuple, for its key.

        >>> import slipstream as ss
        >>> cars = ss.read("kafka://broker:9092/cars", {"id": "bigint", "speed": "double"})
        >>> kept = cars.keep("CREATE CUBOID car (id INT KEY, speed AST(6))")
        >>> kept.query("SELECT id, avg(speed) AS mean FROM car").columns
        ['id', 'mean']
        """
        return self._with(CuboidQuery(select))

    def lookup(self, stream: Stream, by: str, **columns: str) -> Stream:
        """Add to the tuples of another stream what the cuboid knows of their key ``by`` at that moment.

        >>> import slipstream as ss
        >>> cars = ss.read("kafka://broker:9092/cars", {"id": "bigint", "speed": "double"})
        >>> tickets = ss.read("kafka://broker:9092/tickets", {"car": "bigint"})
        >>> kept = cars.keep("CREATE CUBOID car (id INT KEY, speed AST(6))")
        >>> kept.lookup(tickets, by="car", last="speed[0]").columns
        ['car', 'last']
        """
        return self._with(CuboidLookup(columns, by), stream)


@dataclass(frozen=True)
class Tolled:
    """The outputs of tolling, each a stream; :meth:`slipstream.Job.write` writes all of them.

    >>> import slipstream as ss
    >>> tolled = ss.read("kafka://broker:9092/positions").toll()
    >>> [name for name, _ in tolled.streams()]
    ['notifications', 'alerts', 'balances', 'expenditures', 'travel_times', 'toll_rejects']
    """

    _place: Place = field(repr=False)

    def _port(self, name: str) -> Stream:
        return Stream(self._place, Toll().port(name))

    @property
    def notifications(self) -> Stream:
        """The toll of the segment that a vehicle enters: vid, time, lav, toll."""
        return self._port("notifications")

    @property
    def alerts(self) -> Stream:
        """Accidents ahead, for vehicles that approach them: vid, time, seg."""
        return self._port("alerts")

    @property
    def balances(self) -> Stream:
        """Answers to balance requests: qid, vid, time, balance."""
        return self._port("balances")

    @property
    def expenditures(self) -> Stream:
        """Answers to expenditure requests: qid, vid, time, spent."""
        return self._port("expenditures")

    @property
    def travel_times(self) -> Stream:
        """Answers to travel time requests: qid, vid, time, seconds, toll."""
        return self._port("travel_times")

    @property
    def rejects(self) -> Stream:
        """Reports that cannot be tolled, each with a reason."""
        return self._port(REJECTS)

    def streams(self) -> Iterator[tuple[str, Stream]]:
        """Yield all outputs, each with the name under which a job writes it."""
        for name in Toll.ports:
            yield (f"toll_{name}" if name == REJECTS else name), self._port(name)


# --- networks of streams


def assemble(
    name: str,
    outputs: Mapping[str, Stream],
    to: Mapping[str, tuple[str, ...]] | None = None,
) -> tuple[Network, dict[str, Arc]]:
    """Return the network of all boxes that some streams need, and the arc of each stream."""
    places = _places(outputs.values())
    names = _named(places)
    arcs = {output: Arc(names[id(stream._place)], stream._port) for output, stream in outputs.items()}
    nodes = tuple(
        Node(names[id(place)], place.what, tuple(Arc(names[id(i._place)], i._port) for i in place.inputs))
        for place in places
        if not isinstance(place.what, Origin)
    )
    sources = tuple(
        Source(names[id(place)], dict(place.what.schema)) for place in places if isinstance(place.what, Origin)
    )
    ends = tuple(Output(output, arc, to=(to or {}).get(output, ())) for output, arc in arcs.items())
    return Network(name, sources, nodes, ends), arcs


def origins(streams: Iterable[Stream]) -> dict[str, Origin]:
    """Return the sources that some streams read, by their names in the network of these streams."""
    places = _places(streams)
    names = _named(places)
    return {names[id(place)]: place.what for place in places if isinstance(place.what, Origin)}


def _places(streams: Iterable[Stream]) -> list[Place]:
    """Everything upstream of some streams, inputs first."""
    found: dict[int, Place] = {}

    def visit(place: Place) -> None:
        if id(place) not in found:
            for one in place.inputs:
                visit(one._place)
            found[id(place)] = place

    for stream in streams:
        visit(stream._place)
    return list(found.values())


def _named(places: list[Place]) -> dict[int, str]:
    """A name for every place: its own, or its kind and a number."""
    taken: set[str] = set()
    names = {}
    for place in places:
        what = place.what
        kind = what.name if isinstance(what, Origin) else (isinstance(what, Operator) and what.name) or what.kind
        name = place.name or (kind if isinstance(what, Origin) else f"{kind}_1")
        number = 1
        while name in taken:
            number += 1
            name = f"{kind}_{number}"
        taken.add(name)
        names[id(place)] = name
    return names


def _checked(stream: Stream) -> None:
    """Refuse a box that makes no sense, in the words of the method that added it."""
    try:
        stream._types  # noqa: B018
    except BadInput as error:
        # "network stream, box filter_1 (filter): ..." is what a network file would be told
        _, box, message = error.message.rpartition(f" ({getattr(stream._place.what, 'kind', '')}): ")
        if not box:
            raise
        kind = stream._place.what.kind if not isinstance(stream._place.what, Origin) else "read"
        raise BadInput(f"{_METHODS.get(kind, kind)}: {message}", hint=error.hint) from None


#: the method that adds a kind of box, where its name is another
_METHODS = {"map": "select", "bsort": "sort", "aggregate": "window", "operator": "through"}


def _names(by: str | Iterable[str]) -> tuple[str, ...]:
    return (by,) if isinstance(by, str) else tuple(by)


def _rules(rules: str | Rules | TollFunction) -> str | Rules:
    if isinstance(rules, str):
        return rules
    if not isinstance(rules, Rules):
        if not callable(rules):
            raise BadArgument(f"rules {rules!r}: neither a name nor a function.", hint=f"Known: {', '.join(RULES)}.")
        own = registered(getattr(rules, "__name__", ""))
        rules = own if own and own.toll is rules else Rules(getattr(rules, "__name__", "own"), rules)
    if rules.name in RULES and rules != RULES[rules.name]:
        raise BadArgument(f"rules {rules.name!r}: that name is taken.", hint="Give your rules another name.")
    ship(rules.toll)
    return rules
