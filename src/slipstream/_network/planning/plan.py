"""The plan of a network: its order-sensitive boxes, and the ways by which tuples get from one to the next.

Order-sensitive boxes and look-ups in stored tables have *levels*: each runs after all boxes upstream of it, which have
lower levels, and has its own position in the order key. The order-agnostic boxes between them are *ways* of plain
expressions. ``stages`` decides which boxes share a stateful operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from slipstream._errors import BadInput
from slipstream._network import box_functions
from slipstream._network.algebra import (
    TUP,
    Aggregate,
    Arc,
    BSort,
    Filter,
    Join,
    Latest,
    Map,
    Node,
    Order,
    Resample,
    Running,
    Schema,
    Union,
)
from slipstream._network.boxes.operators import Operator
from slipstream._network.boxes.windows.aggregate import AggregateKernel
from slipstream._network.boxes.windows.clocked import ClockedKernel
from slipstream._network.boxes.windows.kernels import ON, TS, BSortKernel, JoinKernel, Kernel
from slipstream._network.boxes.windows.latest import LatestKernel
from slipstream._network.boxes.windows.resample import ResampleKernel
from slipstream._network.boxes.windows.running_aggregates import RunningKernel
from slipstream._network.boxes.windows.window_functions import Function
from slipstream._network.schemas import Checked, join_columns, latest_columns, own_type
from slipstream._network.sql import box_expressions

#: to one place: a place in the order key has room for this many (``kernels.PLACES``)
_MOST_WAYS = 2000


@dataclass(frozen=True)
class TupleForm:
    """The form in which tuples are sent to or from one place: each column's expression and type."""

    id: int
    columns: dict[str, str]
    types: dict[str, str]


@dataclass(frozen=True)
class Way:
    """A way of order-agnostic boxes from an origin: the arcs passed, the origin's first."""

    arcs: tuple[Arc, ...]

    @property
    def origin(self) -> Arc:
        """Where it starts."""
        return self.arcs[0]


@dataclass(frozen=True)
class Recipient:
    """A place that receives tuples: a side of a box or an output, with the paths that lead to it."""

    layout: TupleForm
    level: int
    paths: tuple[Way, ...]
    name: str
    group_by: tuple[str, ...] = ()
    side: int = 0
    is_output: bool = False
    everywhere: bool = False  # whether all partitions of a box take all of its tuples


@dataclass(frozen=True)
class Runner:
    """An order-sensitive box: its kernel, its sides and the columns of its results, by the kernel's names.

    If only one side releases tuples, it is ``leading``: the kernel uses the numbers of arrivals, and the sides need not
    be merged into one order.
    """

    node: Node
    kernel: Kernel | None
    sides: tuple[Recipient, ...]
    origin: TupleForm
    results: tuple[str, ...]
    leading: int | None = None

    @property
    def group_by(self) -> tuple[str, ...]:
        """The columns by which its tuples may be spread over partitions."""
        return next((side.group_by for side in self.sides if not side.everywhere), ())

    @property
    def is_stateful(self) -> bool:
        """Whether it has state; a look-up in a stored table does not."""
        return self.kernel is not None or isinstance(self.node.box, Operator)


@dataclass
class Plan:
    """Everything the compiler needs to know."""

    checked: Checked
    levels: dict[str, int]
    origins: dict[Arc, TupleForm] = field(default_factory=dict)
    runners: list[Runner] = field(default_factory=list)
    outputs: dict[str, Recipient] = field(default_factory=dict)

    def at_origin(self, name: str, way: Way) -> str | None:
        """The column at the beginning of a way that a column at its end is, if it is one unchanged."""
        boxes = {node.name: node.box for node in self.checked.nodes}
        for place in range(len(way.arcs) - 1, 0, -1):
            box = boxes[way.arcs[place].origin]
            if isinstance(box, Map):
                column = box_expressions.bare(box.columns[name].strip())
                if column is None or column not in self.checked.schemas[way.arcs[place - 1]]:
                    return None
                name = column
        return name

    def is_behind(self, name: str, other: str) -> bool:
        """Whether what leaves a source or box depends on what leaves another box."""
        inputs = {node.name: node.inputs for node in self.checked.nodes}
        return any(arc.origin == other or self.is_behind(arc.origin, other) for arc in inputs.get(name, ()))

    @property
    def depth(self) -> int:
        """The highest level."""
        return max(self.levels.values(), default=0)

    @property
    def deliveries(self) -> Iterable[Recipient]:
        """All places that receive tuples."""
        return [*(side for runner in self.runners for side in runner.sides), *self.outputs.values()]

    @property
    def keys(self) -> list[str]:
        """The order key: the arrival number, one position per level, one for the outputs."""
        return [f"q{i}" for i in range(self.depth + 2)]


def plan(checked: Checked, taps: dict[str, Arc] | None = None) -> Plan:
    """Plan a network; ``taps`` are arcs to deliver in addition to its outputs."""
    return _Planner(checked).plan(taps or {})


def is_agnostic(node: Node) -> bool:
    """Whether a box does not depend on order, and so needs no state."""
    return isinstance(node.box, Filter | Map | Union)


class _Planner:
    def __init__(self, checked: Checked) -> None:
        self._checked = checked
        self._nodes = {node.name: node for node in checked.nodes}
        self._ids = 0
        self._plan = Plan(checked, self._levels())

    def plan(self, taps: dict[str, Arc]) -> Plan:
        for source in self._checked.network.sources:
            self._origin(Arc(source.name))
        for node in self._checked.nodes:
            if not is_agnostic(node):
                for arc in self._checked.ports[node.name]:
                    self._origin(arc)
        for node in self._checked.nodes:
            if not is_agnostic(node):
                self._plan.runners.append(self._runner(node))
        ends = {output.name: output.arc for output in self._checked.network.outputs} | taps
        for name, arc in ends.items():
            schema = self._checked.schemas[arc]
            delivery = self._delivery(arc, name, dict.fromkeys(schema), self._plan.depth + 1, ())
            self._plan.outputs[name] = replace(delivery, is_output=True)
        return self._plan

    def _levels(self) -> dict[str, int]:
        """A source is at 0, an order-sensitive box one above the highest level upstream of it."""
        levels = {source.name: 0 for source in self._checked.network.sources}
        for node in self._checked.nodes:
            below = max(levels.get(arc.origin, 0) for arc in node.inputs)
            levels[node.name] = below + (not is_agnostic(node))
        return levels

    def _next_id(self) -> int:
        self._ids += 1
        return self._ids

    def _origin(self, arc: Arc) -> None:
        schema = self._checked.schemas[arc]
        self._plan.origins[arc] = TupleForm(self._next_id(), {name: name for name in schema}, schema)

    def _paths(self, arc: Arc) -> tuple[Way, ...]:
        """All ways to an arc, in the order of precedence in a Union."""
        node = self._nodes.get(arc.origin)
        if node is None or not is_agnostic(node):
            return (Way((arc,)),)
        found = tuple(Way((*path.arcs, arc)) for input_ in node.inputs for path in self._paths(input_))
        if len(found) > _MOST_WAYS:
            raise BadInput(
                f"{arc}: more than {_MOST_WAYS:,} paths lead there.", hint="Use fewer unions.", code="too-large"
            )
        return found

    def _delivery(
        self, arc: Arc, name: str, columns: dict[str, str | None], level: int, group_by: tuple[str, ...]
    ) -> Recipient:
        """``columns``: name -> expression, None when it is the column of that name."""
        schema = self._checked.schemas[arc]
        texts = {name: box_expressions.column(name) if text is None else text for name, text in columns.items()}
        types = {name: own_type(text, schema) or self._type(text, schema) for name, text in texts.items()}
        return Recipient(TupleForm(self._next_id(), texts, types), level, self._paths(arc), name, group_by)

    def _type(self, text: str, schema: Schema) -> str:
        return self._checked.type_of(text, schema)

    def _runner(self, node: Node) -> Runner:
        origin = self._plan.origins[Arc(node.name)]
        match node.box:
            case Aggregate():
                make = self._aggregate if len(node.inputs) == 1 else self._clocked
                return make(node, node.box, origin)
            case Join() if self._checked.is_lookup(node):
                return self._lookup(node, origin)
            case Operator():
                return self._operator(node, origin)
        made: dict[type[Any], Callable[[Node, Any, TupleForm], Runner]] = {
            BSort: self._bsort,
            Join: self._join,
            Resample: self._resample,
            Latest: self._latest,
            Running: self._running,
        }
        return made[type(node.box)](node, node.box, origin)

    def _side(self, node: Node, side: int, columns: dict[str, str | None], group_by: tuple[str, ...]) -> Recipient:
        delivery = self._delivery(node.inputs[side], node.name, columns, self._plan.levels[node.name], group_by)
        return replace(delivery, side=side)

    def _bsort(self, node: Node, box: BSort, origin: TupleForm) -> Runner:
        payload = {f"p_{name}": box_expressions.column(name) for name in origin.columns}
        columns: dict[str, str | None] = {**_list_order_columns(box.order), **payload}
        side = self._side(node, 0, columns, box.order.group_by)
        kernel = BSortKernel(_types(side), box.order.slack, _groups(box.order), tuple(payload))
        return Runner(node, kernel, (side,), origin, tuple(payload))

    def _aggregate(self, node: Node, box: Aggregate, origin: TupleForm) -> Runner:
        bound, arguments = _bound(box.functions)
        by_tuple = box.order.on == TUP
        side = self._side(node, 0, _list_order_columns(box.order) | arguments, box.order.group_by)
        kernel = AggregateKernel(
            _types(side),
            box.order.slack,
            _groups(box.order),
            by_tuple,
            box.size,
            box.advance,
            box.timeout,
            bound,
            "start",
        )
        return Runner(node, kernel, (side,), origin, (*_groups(box.order), "start", *(f.name for f in bound)))

    def _clocked(self, node: Node, box: Aggregate, origin: TupleForm) -> Runner:
        bound, arguments = _bound(box.functions)
        side = self._side(node, 0, _list_order_columns(box.order) | arguments, box.order.group_by)
        # the clock closes windows of all groups, wherever they are
        clock = replace(
            self._side(node, 1, {ON: box_expressions.column(box.order.on)}, ()), everywhere=bool(box.order.group_by)
        )
        groups = _groups(box.order)
        kernel = ClockedKernel(_types(side), box.order.slack, groups, box.size, box.advance, bound, "start")
        return Runner(node, kernel, (side, clock), origin, (*groups, "start", *(f.name for f in bound)), leading=1)

    def _latest(self, node: Node, box: Latest, origin: TupleForm) -> Runner:
        payload: tuple[list[str], list[str]] = ([], [])
        sides = []
        for side in (0, 1):
            sources = latest_columns(box, *self._checked.inputs(node))
            mine = {
                f"p{side}_{out}": box_expressions.column(own) for out, (where, own) in sources.items() if where == side
            }
            payload[side].extend(mine)
            keys: dict[str, str | None] = {f"g{i}": box_expressions.column(name) for i, name in enumerate(box.on)}
            sides.append(self._side(node, side, {**keys, **mine}, box.on))
        names = tuple(f"g{i}" for i in range(len(box.on)))
        types = (_types(sides[0]), _types(sides[1]))
        kernel = LatestKernel(types, names, box.before, (tuple(payload[0]), tuple(payload[1])))
        return Runner(node, kernel, tuple(sides), origin, (*payload[0], *payload[1]), leading=0)

    def _running(self, node: Node, box: Running, origin: TupleForm) -> Runner:
        bound, arguments = _bound(box.functions)
        payload = {f"p_{name}": box_expressions.column(name) for name in self._checked.inputs(node)[0]}
        keys: dict[str, str | None] = {f"g{i}": box_expressions.column(name) for i, name in enumerate(box.group_by)}
        side = self._side(node, 0, {**keys, **arguments, **payload}, box.group_by)
        kernel = RunningKernel(_types(side), tuple(keys), tuple(payload), bound)
        return Runner(node, kernel, (side,), origin, (*payload, *(f.name for f in bound)))

    def _join(self, node: Node, box: Join, origin: TupleForm) -> Runner:
        assert box.left is not None
        assert box.right is not None
        assert box.size is not None
        names = join_columns(*self._checked.inputs(node))
        equal = box_expressions.equalities(box.predicate)
        payload: tuple[list[str], list[str]] = ([], [])
        sides = []
        for side, order in enumerate((box.left, box.right)):
            mine = {
                f"p{side}_{out}": box_expressions.column(own) for out, (where, own) in names.items() if where == side
            }
            payload[side].extend(mine)
            keys = {f"k{i}": box_expressions.column(pair[side]) for i, pair in enumerate(equal)}
            columns: dict[str, str | None] = {**_list_order_columns(order), **keys, **mine}
            sides.append(self._side(node, side, columns, order.group_by))
        kernel = JoinKernel(
            (_types(sides[0]), _types(sides[1])),
            (box.left.slack, box.right.slack),
            _groups(box.left),
            tuple(f"k{i}" for i in range(len(equal))),
            box.size,
            (tuple(payload[0]), tuple(payload[1])),
        )
        return Runner(node, kernel, tuple(sides), origin, (*payload[0], *payload[1]))

    def _resample(self, node: Node, box: Resample, origin: TupleForm) -> Runner:
        bound, arguments = _bound(box.functions)
        is_grouped = bool(box.right.group_by)
        left = replace(self._side(node, 0, _list_order_columns(box.left), ()), everywhere=is_grouped)
        sides = [left, self._side(node, 1, _list_order_columns(box.right) | arguments, box.right.group_by)]
        if is_grouped and box.lag is not None:
            # how far the right side is retires left tuples for all groups, wherever they are
            pace = self._side(node, 1, {ON: _list_order_columns(box.right)[ON]}, ())
            sides.append(replace(pace, everywhere=True))
        types = (_types(sides[0]), _types(sides[1]))
        slack = (box.left.slack, box.right.slack)
        kernel = ResampleKernel(types, slack, _groups(box.right), box.size, box.lag, bound, "start")
        return Runner(node, kernel, tuple(sides), origin, (*_groups(box.right), "start", *(f.name for f in bound)))

    def _operator(self, node: Node, origin: TupleForm) -> Runner:
        key, asking = self._keys(node)
        sides = tuple(
            self._side(node, side, dict.fromkeys(schema), asking if side and _borrows(node) else key)
            for side, schema in enumerate(self._checked.inputs(node))
        )
        return Runner(node, None, sides, origin, ())

    def _keys(self, node: Node) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the columns by which the input of an operator, and its queries to another box, may be spread.

        They are those of the box whose state it works on. If another box queries it, and its queries cannot be sent
        by their key, it runs in one partition.
        """
        lender = self._nodes[node.inputs[0].origin] if _borrows(node) else node
        takers = self._checked.network.consumers(lender.name)
        asking = [taker for taker in takers if _borrows(taker) and len(taker.inputs) > 1]
        if not isinstance(lender.box, Operator) or not all(self._asks_by_key(taker, lender) for taker in asking):
            return (), ()
        assert isinstance(node.box, Operator)
        return lender.box.key, node.box.key

    def _asks_by_key(self, node: Node, lender: Node) -> bool:
        """Whether the questions of a box can be in the partition of the row that they ask for.

        They are tuples of the box it asks, which are with their key, or come from anywhere but behind that box: those
        of a box with state there would come a stage too late.
        """
        assert isinstance(node.box, Operator)
        assert isinstance(lender.box, Operator)
        if not node.box.key or len(node.box.key) != len(lender.box.key):
            return False
        for way in (way for arc in node.inputs[1:] for way in self._paths(arc)):
            if way.origin.origin == lender.name:
                asked = tuple(self._plan.at_origin(name, way) for name in node.box.key)
                if not lender.box.passes_key or asked != lender.box.key:
                    return False
            elif self._plan.is_behind(way.origin.origin, lender.name):
                return False
        return True

    def _lookup(self, node: Node, origin: TupleForm) -> Runner:
        stream = 1 - (self._checked.table_side(node) or 0)
        columns: dict[str, str | None] = dict.fromkeys(self._checked.inputs(node)[stream])
        return Runner(node, None, (self._side(node, stream, columns, ()),), origin, ())


def _borrows(node: Node) -> bool:
    return isinstance(node.box, Operator) and node.box.borrows


def _types(side: Recipient) -> dict[str, str]:
    """The types of a kernel's input on a side."""
    return {TS: "integer", **side.layout.types}


def _groups(order: Order) -> tuple[str, ...]:
    return tuple(f"g{i}" for i in range(len(order.group_by)))


def _list_order_columns(order: Order) -> dict[str, str | None]:
    """The columns of every ordered input: the order attribute and its groups, by the kernels' names."""
    columns: dict[str, str | None] = {ON: "0L" if order.on == TUP else box_expressions.column(order.on)}
    return columns | dict(zip(_groups(order), map(box_expressions.column, order.group_by), strict=True))


def _bound(wanted: dict[str, str]) -> tuple[tuple[Function, ...], dict[str, str | None]]:
    """The window functions, and the columns of their arguments; a shared argument has one column."""
    bound: list[Function] = []
    names: dict[str, str] = {}
    for place, text in enumerate(wanted.values()):
        call = box_expressions.parse_call(text)
        mine = tuple(names.setdefault(argument, f"a{len(names)}") for argument in call.arguments)
        bound.append(Function(f"f{place}", call.function, mine, box_functions.find_registered(call.function)))
    return tuple(bound), {name: argument for argument, name in names.items()}
