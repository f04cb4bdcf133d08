"""The algebra as data: streams, order specifications, the boxes, and networks of them.

Everything here is a frozen value. A network describes what is computed; ``schemas`` checks it, and ``compiler`` turns
it into a Spark query. ``Builder`` and ``NetworkStream`` build one in Python:

>>> net = Builder("border")
>>> soldiers = net.source("soldiers", sid="integer", time="integer", pos="integer")
>>> crowd = soldiers.filter("pos >= 30").aggregate({"n": "count(*)"}, Order("time", slack=1), size=1)
>>> crowd.filter("n >= 3").to("alerts")
>>> [node.name for node in net.build().nodes]
['filter_1', 'aggregate_1', 'filter_2']
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeAlias

from slipstream._errors import BadInput
from slipstream._network.boxes.operators import Operator
from slipstream._network.column_types import SPARK_TYPES
from slipstream._network.quality.qos import Quality

#: column name -> one of TYPES, in order
Schema: TypeAlias = dict[str, str]

#: the types a column can have, and Spark's names for them
TYPES = SPARK_TYPES

#: the virtual attribute: a tuple's ordinal in its group, from 1
TUP = "Tup#"
#: the column in which a box over ``Tup#`` reports it
TUP_COLUMN = "tup"


@dataclass(frozen=True)
class Order:
    """The arrival order a box relies on: ascending ``on`` in each group, up to ``slack`` tuples late.

    A tuple is out of order, and ignored by the box, when more than ``slack`` earlier tuples of its group have a
    larger value.
    """

    on: str
    slack: int = 0
    group_by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "group_by", tuple(self.group_by))

    @property
    def column(self) -> str:
        """The name under which the order attribute appears in a box's output."""
        return TUP_COLUMN if self.on == TUP else self.on


@dataclass(frozen=True)
class Filter:
    """Routes each tuple to the output of the first predicate it satisfies; the last output takes the rest."""

    predicates: tuple[str, ...]
    kind: ClassVar[str] = "filter"

    def __post_init__(self) -> None:
        object.__setattr__(self, "predicates", tuple(self.predicates))


@dataclass(frozen=True)
class Map:
    """Generalised projection: each output column is an expression over the input tuple."""

    columns: dict[str, str]
    kind: ClassVar[str] = "map"


@dataclass(frozen=True)
class Union:
    """Merges streams of one schema; tuples caused by the same arrival are in the order of the inputs."""

    kind: ClassVar[str] = "union"


@dataclass(frozen=True)
class BSort:
    """Approximate sort: ``slack`` passes of bubble sort with a buffer of ``slack`` + 1 tuples; loses nothing."""

    order: Order
    kind: ClassVar[str] = "bsort"


@dataclass(frozen=True)
class Aggregate:
    """Window functions over windows [a, a + size - 1] of the order attribute in each group, sliding by ``advance``.

    Windows start at multiples of ``advance``; windows of tuples (``Tup#``) start at 1 + multiples of it. With a
    ``timeout`` (seconds) a window takes no tuple that arrived more than that after its first.

    A second input is a clock: a stream with the order attribute, whose tuples advance time. A window then closes in
    every group when the clock reaches its end, and a tuple is late when the clock had passed it before it arrived.
    Without a clock the tuples of a group close only the windows of that group.
    """

    functions: dict[str, str]
    order: Order
    size: float
    advance: float
    timeout: float | None = None
    kind: ClassVar[str] = "aggregate"


@dataclass(frozen=True)
class Join:
    """Pairs of tuples at most ``size`` apart in their order attributes for which ``predicate`` holds.

    The predicate refers to ``left.column`` and ``right.column``. One input may be a stored table: then there is no
    window (``size``, ``left`` and ``right`` are None), and with ``outer`` a tuple that matches no row is kept, with
    nulls in the table's columns.
    """

    predicate: str
    size: float | None = None
    left: Order | None = None
    right: Order | None = None
    outer: bool = False
    kind: ClassVar[str] = "join"


@dataclass(frozen=True)
class Resample:
    """For every left tuple and every right group, window functions over the right tuples at most ``size`` away.

    A left tuple waits until each group has passed it. With a ``lag`` it waits at most until some right tuple is more
    than size + lag ahead of it, which bounds memory when groups fall silent.
    """

    functions: dict[str, str]
    size: float
    left: Order
    right: Order
    lag: float | None = None
    kind: ClassVar[str] = "resample"


@dataclass(frozen=True)
class Latest:
    """Each left tuple with the newest right tuple that has the same values in ``on``; nulls where there is none yet.

    The order of arrival decides. A left tuple sees everything up to and including its own arrival or, with ``before``,
    only earlier arrivals: a stream joined with itself pairs each tuple with the previous one.
    """

    on: tuple[str, ...]
    before: bool = False
    kind: ClassVar[str] = "latest"

    def __post_init__(self) -> None:
        object.__setattr__(self, "on", tuple(self.on))


@dataclass(frozen=True)
class Running:
    """Each tuple with aggregates over all tuples of its group so far, itself included: running totals."""

    functions: dict[str, str]
    group_by: tuple[str, ...] = ()
    kind: ClassVar[str] = "running"

    def __post_init__(self) -> None:
        object.__setattr__(self, "group_by", tuple(self.group_by))


Box: TypeAlias = Filter | Map | Union | BSort | Aggregate | Join | Resample | Latest | Running | Operator


def _name_prefix(box: Box) -> str:
    """The prefix of the names of unnamed boxes."""
    return (isinstance(box, Operator) and box.name) or box.kind


@dataclass(frozen=True)
class Arc:
    """One output of a source, a table or a box."""

    origin: str
    port: int = 0

    def __str__(self) -> str:
        return f"{self.origin}.{self.port}" if self.port else self.origin

    @classmethod
    def parse(cls, text: str) -> Arc:
        """Parse what ``str`` returns.

        >>> Arc.parse("route.1")
        Arc(origin='route', port=1)
        """
        origin, dot, port = text.partition(".")
        if dot and not port.isdigit():
            raise BadInput(
                f"{text!r} is not an arc.",
                hint="Write the name of a source or box, or NAME.PORT.",
                code="malformed-value",
                found=text,
            )
        return cls(origin, int(port) if dot else 0)


@dataclass(frozen=True)
class Node:
    """A box in a network: its name, its inputs, and the group in which it is drawn."""

    name: str
    box: Box
    inputs: tuple[Arc, ...]
    group: str = ""
    note: str = ""


@dataclass(frozen=True)
class NetworkSource:
    """A stream from outside."""

    name: str
    schema: Schema


@dataclass(frozen=True)
class NetworkTable:
    """A stored data set: a connection point with nothing upstream."""

    name: str
    schema: Schema


@dataclass(frozen=True)
class ConnectionPoint:
    """An arc whose history is kept, all of it by default, so that ad hoc queries can start from it.

    With a storage ``key`` the history is sorted by that column, and queries that filter on it skip what they can.
    """

    name: str
    arc: Arc
    keep_seconds: float | None = None
    keep_tuples: int | None = None
    key: str = ""


@dataclass(frozen=True)
class NetworkOutput:
    """A stream that leaves the network, and its quality of service.

    A view has no application yet: its tuples are kept, like those of a connection point, for later queries. Tuples of
    other outputs are stored in a table, and also sent to the destinations in ``to`` (``_io.outputs.destinations``).
    """

    name: str
    arc: Arc
    quality: Quality = field(default_factory=Quality)
    view: bool = False
    keep_seconds: float | None = None
    keep_tuples: int | None = None
    to: tuple[str, ...] = ()


@dataclass(frozen=True)
class Network:
    """A loop-free graph of boxes from sources and tables to outputs.

    >>> net = Builder("fast")
    >>> net.source("cars", speed="integer").filter("speed > 90").to("fast")
    >>> [output.name for output in net.build().outputs]
    ['fast']
    """

    name: str
    sources: tuple[NetworkSource, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[NetworkOutput, ...]
    tables: tuple[NetworkTable, ...] = ()
    points: tuple[ConnectionPoint, ...] = ()
    note: str = ""

    def _repr_html_(self) -> str:
        from slipstream._network.drawing import draw

        return draw(self)

    def node(self, name: str) -> Node:
        """The box called ``name``."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise BadInput(
            f"network {self.name}: no box {name!r}.",
            hint=f"It has: {', '.join(n.name for n in self.nodes)}.",
            code="unknown-name",
            found=name,
            expected=[n.name for n in self.nodes],
        )

    @property
    def places(self) -> tuple[NetworkSource | NetworkTable | Node, ...]:
        """Everything an arc can start from."""
        return (*self.sources, *self.tables, *self.nodes)

    @property
    def ends(self) -> tuple[NetworkOutput | ConnectionPoint, ...]:
        """Everything that takes tuples out of the network."""
        return (*self.outputs, *self.points)

    @property
    def kept(self) -> tuple[ConnectionPoint, ...]:
        """Every arc with a history, by the name that queries attach to: the connection points and the views."""
        views = (ConnectionPoint(o.name, o.arc, o.keep_seconds, o.keep_tuples) for o in self.outputs if o.view)
        return (*self.points, *views)

    def with_nodes(self, nodes: Mapping[str, Node]) -> Network:
        """The same network with some boxes replaced by others of the same name."""
        return replace(self, nodes=tuple(nodes.get(node.name, node) for node in self.nodes))

    def consumers(self, origin: str) -> Iterator[Node]:
        """The boxes that take input from ``origin``."""
        return (node for node in self.nodes if any(arc.origin == origin for arc in node.inputs))


class Builder:
    """Collects sources, boxes and outputs into a network."""

    def __init__(self, name: str, note: str = "") -> None:
        self._network = Network(name, (), (), (), note=note)
        self._group = ""

    def source(self, name: str, **schema: str) -> NetworkStream:
        """A stream from outside: its columns and their types."""
        self._network = replace(self._network, sources=(*self._network.sources, NetworkSource(name, schema)))
        return NetworkStream(self, Arc(name))

    def table(self, name: str, **schema: str) -> NetworkStream:
        """A stored table, to join with."""
        self._network = replace(self._network, tables=(*self._network.tables, NetworkTable(name, schema)))
        return NetworkStream(self, Arc(name))

    def group(self, name: str) -> Builder:
        """Put the boxes added from here on into this group (an empty name ends it)."""
        self._group = name
        return self

    def add(self, box: Box, inputs: tuple[Arc, ...], name: str | None, note: str = "") -> NetworkStream:
        """Add a box."""
        kind = _name_prefix(box)
        serial = 1 + sum(_name_prefix(node.box) == kind for node in self._network.nodes)
        node = Node(name or f"{kind}_{serial}", box, inputs, self._group, note)
        self._network = replace(self._network, nodes=(*self._network.nodes, node))
        return NetworkStream(self, Arc(node.name))

    def add_output(self, output: NetworkOutput) -> None:
        """Add an output."""
        self._network = replace(self._network, outputs=(*self._network.outputs, output))

    def add_point(self, point: ConnectionPoint) -> None:
        """Add a connection point."""
        self._network = replace(self._network, points=(*self._network.points, point))

    def build(self) -> Network:
        """The network as it stands."""
        return self._network


@dataclass(frozen=True)
class NetworkStream:
    """An arc of a network that is being built; its methods add boxes to it."""

    builder: Builder
    arc: Arc

    def __getitem__(self, port: int | str) -> NetworkStream:
        """Another output of the same box: ``filter(p, q)[1]`` is where q holds and p does not.

        Outputs of an operator have names: ``stream.through(Stopped())["resumed"]``.
        """
        if isinstance(port, str):
            box = self.builder.build().node(self.arc.origin).box
            if not isinstance(box, Operator):
                raise BadInput(
                    f"{self.arc.origin}: outputs of a {box.kind} are numbered.",
                    hint="Write [0], [1]...",
                    code="unknown-name",
                )
            port = box.port(port)
        return NetworkStream(self.builder, Arc(self.arc.origin, port))

    def filter(self, *predicates: str, name: str | None = None, note: str = "") -> NetworkStream:
        """Filter: the stream of the first predicate; ``[i]`` gives the others, ``[len(predicates)]`` the rest."""
        return self.builder.add(Filter(predicates), (self.arc,), name, note)

    def map(self, columns: dict[str, str], *, name: str | None = None, note: str = "") -> NetworkStream:
        """Map: new columns from expressions."""
        return self.builder.add(Map(columns), (self.arc,), name, note)

    def union(self, *others: NetworkStream, name: str | None = None, note: str = "") -> NetworkStream:
        """Union with other streams of the same schema."""
        return self.builder.add(Union(), (self.arc, *(other.arc for other in others)), name, note)

    def bsort(self, order: Order, *, name: str | None = None, note: str = "") -> NetworkStream:
        """BSort: approximately sorted, nothing lost."""
        return self.builder.add(BSort(order), (self.arc,), name, note)

    def aggregate(
        self,
        functions: dict[str, str],
        order: Order,
        *,
        size: float,
        advance: float | None = None,
        timeout: float | None = None,
        clock: NetworkStream | None = None,
        name: str | None = None,
        note: str = "",
    ) -> NetworkStream:
        """Aggregate: window functions over sliding windows (``advance`` is ``size`` unless given).

        With a ``clock``, a stream that has the order attribute, windows close when that stream has passed them.
        """
        box = Aggregate(functions, order, size, size if advance is None else advance, timeout)
        return self.builder.add(box, (self.arc, *([clock.arc] if clock else [])), name, note)

    def join(
        self,
        other: NetworkStream,
        predicate: str,
        *,
        size: float | None = None,
        left: Order | None = None,
        right: Order | None = None,
        outer: bool = False,
        name: str | None = None,
        note: str = "",
    ) -> NetworkStream:
        """Join with another stream (within ``size``), or with a stored table (``outer`` keeps what matches nothing)."""
        return self.builder.add(Join(predicate, size, left, right, outer), (self.arc, other.arc), name, note)

    def latest(
        self, other: NetworkStream, *on: str, before: bool = False, name: str | None = None, note: str = ""
    ) -> NetworkStream:
        """Latest: each tuple with the newest tuple of ``other`` that has the same values in the columns ``on``."""
        return self.builder.add(Latest(on, before), (self.arc, other.arc), name, note)

    def running(
        self, functions: dict[str, str], *group_by: str, name: str | None = None, note: str = ""
    ) -> NetworkStream:
        """Running: each tuple with aggregates over all tuples of its group so far."""
        return self.builder.add(Running(functions, group_by), (self.arc,), name, note)

    def resample(
        self,
        other: NetworkStream,
        functions: dict[str, str],
        *,
        size: float,
        left: Order,
        right: Order,
        lag: float | None = None,
        name: str | None = None,
        note: str = "",
    ) -> NetworkStream:
        """Resample ``other`` at the moments of this stream."""
        box = Resample(functions, size, left, right, lag)
        return self.builder.add(box, (self.arc, other.arc), name, note)

    def through(
        self, operator: Operator, *others: NetworkStream, name: str | None = None, note: str = ""
    ) -> NetworkStream:
        """An operator on this stream and ``others``: its first output; ``["name"]`` gives another."""
        inputs = (self.arc, *(other.arc for other in others))
        return self.builder.add(operator, inputs, name, note)

    def keep(
        self, name: str, *, seconds: float | None = None, tuples: int | None = None, key: str = ""
    ) -> NetworkStream:
        """Make this arc a connection point with this much history, sorted by ``key`` if given."""
        self.builder.add_point(ConnectionPoint(name, self.arc, seconds, tuples, key))
        return self

    def to(self, name: str, quality: Quality | None = None, *destinations: str) -> None:
        """Make this stream the output ``name``: it is written to a table, and also sent to ``destinations``."""
        self.builder.add_output(NetworkOutput(name, self.arc, quality or Quality(), to=destinations))

    def archive(
        self, name: str, *, id: str, time: str, x: str, y: str, gap: float, lateness: float | None = None
    ) -> None:
        """Cut this stream into trips, the output ``name``; tuples that are in no trip become ``name_rejects``."""
        from slipstream._network.boxes.archive import Archive

        trips = self.through(Archive(id, time, x, y, gap, lateness), name=f"archive_{name}")
        trips.to(name)
        trips["rejects"].to(f"{name}_rejects")

    def view(
        self, name: str, quality: Quality | None = None, *, seconds: float | None = None, tuples: int | None = None
    ) -> None:
        """Keep this much of the stream as the view ``name``, which applications can query when they need it."""
        self.builder.add_output(NetworkOutput(name, self.arc, quality or Quality(), True, seconds, tuples))
