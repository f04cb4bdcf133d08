"""Rewrites of a network that change its cost but not its results.

Catalyst sees one expression at a time; these rules see boxes: a filter on a group's columns may move before an
order-sensitive box, measured costs decide the cheapest order of user-defined predicates, and a sort or a join need not
carry unused columns. Each rule does one thing at one place; ``RULES`` are applied until nothing changes.

An arc that is an output or a connection point, or that has several consumers, is never changed: it is visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeVar

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
    Network,
    Node,
    Order,
    Resample,
    Running,
    Union,
)
from slipstream._network.boxes.operators import Operator
from slipstream._network.quality.statistics import Statistics
from slipstream._network.schemas import Checked, join_columns, own_type
from slipstream._network.sql import box_expressions

Rule = Callable[[Checked, Statistics], "tuple[Network, str] | None"]


@dataclass(frozen=True)
class Optimised:
    """The rewritten network, and a description of each step."""

    network: Network
    steps: tuple[str, ...]


def optimise(checked: Checked, statistics: Statistics, check: Callable[[Network], Checked]) -> Optimised:
    """Apply the rules until nothing changes; ``check`` infers the schemas of the result."""
    steps: list[str] = []
    while True:
        for rule in RULES:
            done = rule(checked, statistics)
            if done:
                network, what = done
                steps.append(what)
                checked = check(network)
                break
        else:
            return Optimised(checked.network, tuple(steps))


# --- the rules


def put_cheapest_filter_first(checked: Checked, statistics: Statistics) -> tuple[Network, str] | None:
    """Of two consecutive filters, put the one with the larger (1 - selectivity) / cost first."""
    for first, _, second, _ in _private_pairs(checked.network, Filter, Filter):
        if statistics.worth(second.name) > statistics.worth(first.name):
            return _swap(checked.network, first, second), f"{second.name} before {first.name}"
    return None


def filter_before_map(checked: Checked, _: Statistics) -> tuple[Network, str] | None:
    """A filter on columns that a map only passes on goes before it."""
    for node, map_, filter_, test in _private_pairs(checked.network, Map, Filter):
        source = checked.inputs(node)[0]
        plain = {name: text for name, text in map_.columns.items() if own_type(text, source)}
        (predicate,) = test.predicates
        if _uses(predicate) <= plain.keys():
            moved = replace(filter_, box=Filter((box_expressions.substitute(predicate, plain),)))
            network = checked.network.with_nodes({filter_.name: moved})
            return _swap(network, node, moved), f"{filter_.name} before {node.name}"
    return None


def filter_before_groups(checked: Checked, _: Statistics) -> tuple[Network, str] | None:
    """A filter on the group columns of a sort or an aggregate goes before it: groups are independent."""
    pairs: Iterator[tuple[Node, BSort | Aggregate, Node, Filter]] = chain(
        _private_pairs(checked.network, BSort, Filter), _private_pairs(checked.network, Aggregate, Filter)
    )
    for node, grouped, filter_, test in pairs:
        # with a clock the boxes cannot just change places: the clock's tuples are not the filter's
        if len(node.inputs) == 1 and _uses(test.predicates[0]) <= set(grouped.order.group_by):
            return _swap(checked.network, node, filter_), f"{filter_.name} before {node.name}"
    return None


def merge_filters(checked: Checked, _: Statistics) -> tuple[Network, str] | None:
    """Merge two consecutive filters, unless they call user functions, which Spark would then call for all tuples."""
    for first, outer, second, inner in _private_pairs(checked.network, Filter, Filter):
        one, two = outer.predicates[0], inner.predicates[0]
        if not box_functions.is_python(box_expressions.user_calls(one) | box_expressions.user_calls(two)):
            both = f"({one}) and ({two})"
            if box_expressions.is_within_limits(both):
                return _merge(checked.network, first, second, Filter((both,))), f"{first.name} and {second.name} in one"
    return None


def merge_maps(checked: Checked, _: Statistics) -> tuple[Network, str] | None:
    """Merge two consecutive maps, unless that would compute something twice."""
    for first, before, second, after in _private_pairs(checked.network, Map, Map):
        inner, outer = before.columns, after.columns
        source = checked.inputs(first)[0]
        uses = [name for text in outer.values() for name in box_expressions.mentions(text)]
        if all(uses.count(name) <= 1 or own_type(text, source) for name, text in inner.items()):
            texts = {name: text if own_type(text, source) else f"({text})" for name, text in inner.items()}
            one = {name: box_expressions.substitute(text, texts) for name, text in outer.items()}
            if all(map(box_expressions.is_within_limits, one.values())):
                return _merge(checked.network, first, second, Map(one)), f"{first.name} and {second.name} in one"
    return None


def carry_less(checked: Checked, _: Statistics) -> tuple[Network, str] | None:
    """A sort or a join carries only the columns that are used downstream."""
    needs = _needs(checked)
    for node in checked.nodes:
        if not isinstance(node.box, BSort | Join):
            continue
        for side, arc in enumerate(node.inputs):
            table = side == checked.table_side(node)
            schema = checked.schemas[arc]
            wanted = _columns_to_keep(checked, node, side, needs[Arc(node.name)])
            if not table and 0 < len(wanted) < len(schema):
                return _insert_projection(checked.network, node, side, [c for c in schema if c in wanted])
    return None


RULES: tuple[Rule, ...] = (
    filter_before_groups,
    filter_before_map,
    put_cheapest_filter_first,
    merge_filters,
    merge_maps,
    carry_less,
)


# --- what the rules share


First = TypeVar("First")
Second = TypeVar("Second")


def _private_pairs(
    network: Network, first: type[First], second: type[Second]
) -> Iterator[tuple[Node, First, Node, Second]]:
    """Consecutive boxes with no other consumer between them; filters must have one predicate and no rest."""
    for node in network.nodes:
        box, takers = node.box, list(network.consumers(node.name))
        seen = any(end.arc.origin == node.name for end in network.ends)
        if not isinstance(box, first) or seen or len(takers) != 1 or takers[0].inputs != (Arc(node.name),):
            continue
        next_box = takers[0].box
        if isinstance(next_box, second) and _is_one_way(network, node) and _is_one_way(network, takers[0]):
            yield node, box, takers[0], next_box


def _is_one_way(network: Network, node: Node) -> bool:
    if not isinstance(node.box, Filter):
        return True
    arcs = [arc for other in network.nodes for arc in other.inputs] + [end.arc for end in network.ends]
    return len(node.box.predicates) == 1 and all(arc.port == 0 for arc in arcs if arc.origin == node.name)


def _swap(network: Network, first: Node, second: Node) -> Network:
    """Move ``second`` before ``first``; the consumers of ``second`` become those of ``first``."""
    network = _redirect(network, Arc(second.name), Arc(first.name))
    moved = {
        second.name: replace(network.node(second.name), inputs=first.inputs),
        first.name: replace(network.node(first.name), inputs=(Arc(second.name),)),
    }
    return network.with_nodes(moved)


def _merge(network: Network, first: Node, second: Node, box: Filter | Map) -> Network:
    """Replace two boxes by one with the place and the name of the second."""
    note = "; ".join(note for note in (first.note, second.note) if note)
    network = network.with_nodes({second.name: replace(second, box=box, inputs=first.inputs, note=note)})
    return replace(network, nodes=tuple(node for node in network.nodes if node.name != first.name))


def _redirect(network: Network, old: Arc, new: Arc) -> Network:
    nodes = {n.name: replace(n, inputs=tuple(new if a == old else a for a in n.inputs)) for n in network.nodes}
    return replace(
        network.with_nodes(nodes),
        outputs=tuple(replace(o, arc=new) if o.arc == old else o for o in network.outputs),
        points=tuple(replace(p, arc=new) if p.arc == old else p for p in network.points),
    )


def _insert_projection(network: Network, node: Node, side: int, columns: list[str]) -> tuple[Network, str]:
    """Insert a map before one side of a box that selects some columns."""
    name = f"{node.name}_needs" + (f"_{side}" if len(node.inputs) > 1 else "")
    inputs = tuple(Arc(name) if i == side else arc for i, arc in enumerate(node.inputs))
    projection = Node(
        name, Map({column: box_expressions.column(column) for column in columns}), (node.inputs[side],), node.group
    )
    network = network.with_nodes({node.name: replace(node, inputs=inputs)})
    return replace(network, nodes=(*network.nodes, projection)), f"{node.name} carries only {', '.join(columns)}"


def _uses(text: str) -> set[str]:
    return {name for _, name in box_expressions.columns(text)}


def _find_arguments(box: Aggregate | Resample) -> set[str]:
    """The columns that the arguments of a box's window functions use."""
    calls = map(box_expressions.parse_call, box.functions.values())
    return {name for call in calls for argument in call.arguments for name in _uses(argument)}


def _needs(checked: Checked) -> dict[Arc, set[str]]:
    """For every arc, the columns that are used downstream."""
    needs: dict[Arc, set[str]] = {arc: set() for arc in checked.schemas}
    for end in checked.network.ends:
        needs[end.arc] |= set(checked.schemas[end.arc])
    for node in reversed(checked.nodes):
        ports = [needs[arc] for arc in checked.schemas if arc.origin == node.name]
        for side, arc in enumerate(node.inputs):
            needs[arc] |= _input_needs(checked, node, side, ports)
    return needs


def _input_needs(checked: Checked, node: Node, side: int, ports: list[set[str]]) -> set[str]:
    box, schema = node.box, checked.inputs(node)[side]
    match box:
        case Filter():
            return set().union(*ports, *map(_uses, box.predicates))
        case Map():
            return set().union(*map(_uses, box.columns.values()))
        case Union() | Latest() | Running() | Operator():
            return set(schema)
        case BSort() | Join():
            return _columns_to_keep(checked, node, side, ports[0])
        case Aggregate():
            return {box.order.on} if side else _order_needs(box.order) | _find_arguments(box)
        case Resample():
            order = (box.left, box.right)[side]
            return _order_needs(order) | (_find_arguments(box) if side else set())


def _columns_to_keep(checked: Checked, node: Node, side: int, wanted: set[str]) -> set[str]:
    """The columns of one input that a sort or a join must carry for its output to have the wanted ones."""
    box = node.box
    if isinstance(box, BSort):
        return wanted | _order_needs(box.order)
    assert isinstance(box, Join)
    inputs = checked.inputs(node)
    names = join_columns(*inputs)
    order = (box.left, box.right)[side]
    kept = {column for out, (where, column) in names.items() if where == side and out in wanted}
    kept |= {name for which, name in box_expressions.columns(box.predicate) if (which == "right") == bool(side)}
    if side == 0:
        # a right column is called right_x because the left has an x
        kept |= {
            column for out, (where, column) in names.items() if where == 1 and column in inputs[0] and out in wanted
        }
    return kept | (_order_needs(order) if order else set())


def _order_needs(order: Order) -> set[str]:
    return set(order.group_by) | ({order.on} if order.on != TUP else set())
