"""A whole network, or a part of it, as one function of trains: what is in its boxes now, and what leaves it.

Aurora's superbox: all boxes run where the tuples are, one after the other, each on everything that arrived together.
Tuples carry an order key, the arrival that caused them and their places under it, so that a box sees its input in
the order of arrivals however many ways the tuples took, and however the stream is cut into trains.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from slipstream.kernels import Longs
from slipstream.network import expressions
from slipstream.network.algebra import Arc, Filter, Join, Map, Schema
from slipstream.network.flow import Train, merging, no_tuples, ordinals, sorted_train
from slipstream.network.groups import hashes
from slipstream.network.kernels import ARRIVAL, INSTANT, TRIGGER, TS, State
from slipstream.network.operators import Operator, OperatorState, run
from slipstream.network.plan import Delivery, Layout, Plan, Runner, Way
from slipstream.network.schemas import joined
from slipstream.network.values import Untranslatable
from slipstream.network.vector import Expression, translate
from slipstream.network.windows import NULL_INTEGER, expand

Array = npt.NDArray[Any]
States: TypeAlias = Mapping[str, State | OperatorState]

#: the n-th path by which a tuple reaches a box is so much later there than the first
PATHS = 1 << 40


@dataclass(repr=False)
class Superbox:
    """A network that was translated: ``step`` takes trains of its sources through all of its boxes."""

    plan: Plan
    tables: Mapping[str, Mapping[str, Array]] = field(default_factory=dict)
    drops: Mapping[tuple[str, int, bool], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._nodes = {node.name: node for node in self.plan.checked.nodes}
        self._expressions: dict[tuple[str, Arc], Expression] = {}
        self._look_ups: dict[str, LookUp] = {}
        self._translate_all()

    # --- expressions, translated before anything runs

    def _translate_all(self) -> None:
        """Translate every expression; ``Untranslatable`` if there is one that only Spark can compute."""
        for node in self.plan.checked.nodes:
            if isinstance(node.box, Filter | Map):
                texts = node.box.predicates if isinstance(node.box, Filter) else node.box.columns.values()
                for text in texts:
                    self._expression(text, node.inputs[0])
        for delivery in self.plan.deliveries:
            for name, text in delivery.layout.columns.items():
                if self._expression(text, delivery.paths[0].arcs[-1]).type != delivery.layout.types[name]:
                    raise Untranslatable(text)
        for runner in self.plan.runners:
            if isinstance(runner.node.box, Join):
                self._predicate(runner)

    def _expression(self, text: str, arc: Arc) -> Expression:
        """An expression over an arc's columns."""
        if (text, arc) not in self._expressions:
            self._expressions[text, arc] = translate(text, self.plan.checked.schemas[arc], self.tables)
        return self._expressions[text, arc]

    def _predicate(self, runner: Runner) -> Expression:
        """What a join asks, over the columns of both sides."""
        key = (runner.node.box.predicate, Arc(runner.node.name))  # type: ignore[union-attr]
        if key not in self._expressions:
            left, right = self.plan.checked.inputs(runner.node)
            schema = {f"left.{name}": type_ for name, type_ in left.items()}
            schema |= {f"right.{name}": type_ for name, type_ in right.items()}
            self._expressions[key] = translate(key[0], schema, self.tables)
        return self._expressions[key]

    # --- a batch

    def fresh(self) -> dict[str, State | OperatorState]:
        """What the order-sensitive boxes keep before anything has come, by their names."""
        states: dict[str, State | OperatorState] = {}
        for runner in self.plan.runners:
            box = runner.node.box
            if runner.kernel:
                states[runner.node.name] = runner.kernel.fresh()
            elif isinstance(box, Operator) and not box.borrows:
                states[runner.node.name] = OperatorState(box.fresh(*self.plan.checked.inputs(runner.node)))
        return states

    def step(self, states: States, sources: Mapping[str, Train], *, last: bool = False) -> Iterator[tuple[str, Train]]:
        """Take what arrived through the boxes, level by level; yields what each output and tap gets.

        ``states`` is what the order-sensitive boxes keep: it is brought up to date. After the ``last`` trains nothing
        more will come, and operators let go what they held back.
        """
        trains: dict[Arc, Train] = {Arc(name): train for name, train in sources.items() if len(train)}
        inboxes: dict[int, list[Train]] = {}
        for level in range(self.plan.depth + 1):
            for runner in self._runners[level]:
                for port, released in enumerate(self._run(runner, states, inboxes, last=last)):
                    if len(released):
                        trains[Arc(runner.node.name, port)] = released
            ways: dict[tuple[Arc, ...], Train | None] = {}
            for delivery, place, way in self._deliveries[level]:
                found = self._follow(way.arcs, trains, ways)
                if found is not None and len(found):
                    inboxes.setdefault(delivery.layout.id, []).append(self._delivered(found, delivery, place, way))
        for name, delivery in self.plan.outputs.items():
            if delivery.layout.id in inboxes:
                yield name, Train.concat(inboxes[delivery.layout.id])

    @cached_property
    def _runners(self) -> list[list[Runner]]:
        return [
            [runner for runner in self.plan.runners if self.plan.levels[runner.node.name] == level]
            for level in range(self.plan.depth + 1)
        ]

    @cached_property
    def _deliveries(self) -> list[list[tuple[Delivery, int, Way]]]:
        """Which paths begin at the origins of each level, and where they lead."""
        found: list[list[tuple[Delivery, int, Way]]] = [[] for _ in range(self.plan.depth + 1)]
        for delivery in self.plan.deliveries:
            for place, way in enumerate(delivery.paths):
                found[self.plan.levels[way.origin.origin]].append((delivery, place, way))
        return found

    # --- order-agnostic boxes

    def _follow(
        self, arcs: tuple[Arc, ...], trains: Mapping[Arc, Train], ways: dict[tuple[Arc, ...], Train | None]
    ) -> Train | None:
        """The tuples that come along a way; what ways have in common is computed once."""
        if len(arcs) == 1:
            return trains.get(arcs[0])
        if arcs not in ways:
            before = self._follow(arcs[:-1], trains, ways)
            ways[arcs] = self._pass(before, arcs[-2], arcs[-1]) if before is not None and len(before) else None
        return ways[arcs]

    def _pass(self, train: Train, before: Arc, arc: Arc) -> Train:
        """Tuples through one box to one of its outputs."""
        node = self._nodes[arc.origin]
        train = self._left(train, (node.name, node.inputs.index(before), False))
        if isinstance(node.box, Filter):
            return self._filter(train, node.box, before, arc.port)
        if isinstance(node.box, Map):
            return train.with_columns(
                {name: self._column(train, text, before) for name, text in node.box.columns.items()}
            )
        return train

    def _filter(self, train: Train, box: Filter, before: Arc, port: int) -> Train:
        for place, predicate in enumerate(box.predicates[: port + 1]):
            train = train.take((self._column(train, predicate, before) == 1) == (place == port))
        return train

    def _column(self, train: Train, text: str, arc: Arc) -> Array:
        return (
            train.columns[text]
            if text in train.columns
            else self._expression(text, arc).over(train.columns, len(train))
        )

    def _left(self, train: Train, place: tuple[str, int, bool]) -> Train:
        """What load shedding leaves of a train at a place."""
        bit = self.drops.get(place)
        if bit is None or not train.shed.any():
            return train
        return train.take((train.shed >> bit) & 1 == 0)

    def _delivered(self, train: Train, delivery: Delivery, place: int, way: Way) -> Train:
        """Tuples as a side of a box or an output wants them."""
        train = self._left(train, (delivery.name, delivery.side, delivery.is_output))
        columns = {name: self._column(train, text, way.arcs[-1]) for name, text in delivery.layout.columns.items()}
        order = train.order
        if place:
            order = order.copy()
            order[:, delivery.level] += place * PATHS
        return Train(train.ts, train.shed, order, columns)

    # --- order-sensitive boxes

    def _run(self, runner: Runner, states: States, inboxes: Mapping[int, list[Train]], *, last: bool) -> list[Train]:
        """One box on everything that came to its sides, in the order of arrival: what leaves by each of its outputs."""
        sides = [inboxes.get(side.layout.id, []) for side in runner.sides]
        if isinstance(runner.node.box, Operator) and (last or any(sides)):
            return self._operate(runner, runner.node.box, states, sides, last=last)
        if not any(sides):
            return []
        if runner.kernel is None:
            return [self._look_up(runner, Train.concat(sides[0]))]
        return [self._release(runner, states[runner.node.name], sides)]

    def _operate(
        self, runner: Runner, box: Operator, states: States, sides: Sequence[Sequence[Train]], *, last: bool
    ) -> list[Train]:
        """An operator on everything that came; one that borrows works on the state of the box it takes from."""
        node, checked = runner.node, self.plan.checked
        width = len(self.plan.keys)
        inputs = [
            sorted_train(Train.concat(trains)) if trains else Train.nothing(side.layout.types, width)
            for side, trains in zip(runner.sides, sides, strict=True)
        ]
        state = states[node.inputs[0].origin if box.borrows else node.name]
        assert isinstance(state, OperatorState)
        schemas = [checked.schemas[arc] for arc in checked.ports[node.name]]
        return run(box, state.parts, inputs, schemas, self.plan.levels[node.name], last=last)

    def _release(self, runner: Runner, state: Any, sides: Sequence[Sequence[Train]]) -> Train:
        """A box with a kernel."""
        assert runner.kernel is not None
        order, shed, inputs = _merged(runner, sides) if runner.leading is None else _led(runner, sides)
        released = runner.kernel.step(state, inputs)
        trigger = released[TRIGGER]
        keys = order[trigger]
        keys[:, self.plan.levels[runner.node.name]] += ordinals(trigger)
        columns = {name: released[old] for name, old in zip(runner.origin.columns, runner.results, strict=True)}
        train = Train(released[TS], shed[trigger], keys, columns)
        return self._matching(runner, train) if isinstance(runner.node.box, Join) else train

    def _matching(self, runner: Runner, train: Train) -> Train:
        """What a join asks beyond the window and the equalities that its kernel has seen to."""
        sides = ("left.", "right.")
        names = joined(*self.plan.checked.inputs(runner.node))
        columns = {sides[side] + column: train.columns[out] for out, (side, column) in names.items()}
        return train.take(self._predicate(runner).over(columns, len(train)) == 1)

    def _look_up(self, runner: Runner, train: Train) -> Train:
        """Join with a stored table: every match of the whole table, in the order of the table's rows."""
        node, side = runner.node, runner.sides[0].side
        assert isinstance(node.box, Join)
        table = self.tables[node.inputs[1 - side].origin]
        if node.name not in self._look_ups:
            schema = self.plan.checked.inputs(node)[side]
            self._look_ups[node.name] = LookUp.of(node.box, side, schema, table)
        one, two = self._look_ups[node.name].pairs(train)
        sides = ("left.", "right.")
        columns = {sides[side] + name: values[one] for name, values in train.columns.items()}
        columns |= {sides[1 - side] + name: values[two] for name, values in table.items()}
        met = self._predicate(runner).over(columns, one.size) == 1
        if node.box.outer:
            return self._with_all(runner, train, table, one[met], two[met])
        order = train.order[one[met]]
        order[:, self.plan.levels[node.name]] += two[met]
        names = joined(*self.plan.checked.inputs(node))
        found = {out: columns[sides[where] + column][met] for out, (where, column) in names.items()}
        return Train(train.ts[one[met]], train.shed[one[met]], order, found)

    def _with_all(self, runner: Runner, train: Train, table: Mapping[str, Array], one: Longs, two: Longs) -> Train:
        """Tuples beside their rows of a table, those without any beside nulls."""
        node, side = runner.node, runner.sides[0].side
        alone = np.setdiff1d(np.arange(len(train)), one)
        order = np.argsort(np.r_[one, alone], kind="stable")
        one, two = np.r_[one, alone][order], np.r_[two, np.full(alone.size, -1)][order]
        keys = train.order[one]
        keys[:, self.plan.levels[node.name]] += np.maximum(two, 0)
        names = joined(*self.plan.checked.inputs(node))
        found = {
            out: train.columns[column][one] if where == side else _or_null(table[column], two)
            for out, (where, column) in names.items()
        }
        return Train(train.ts[one], train.shed[one], keys, found)


def _or_null(values: Array, places: Longs) -> Array:
    """Values at places, null where the place is -1."""
    null: Any = {"f": np.nan, "O": None}.get(values.dtype.kind, NULL_INTEGER)
    padded = np.append(values, np.array([null], values.dtype))
    return np.asarray(padded[places])


def _merged(runner: Runner, sides: Sequence[Sequence[Train]]) -> tuple[Longs, Longs, list[dict[str, Array]]]:
    """The sides of a box in one order of arrival: the keys, the marks, and each side's tuples with their places."""
    parts = [train for side in sides for train in side]
    sorted_ = merging([train.order for train in parts])
    inputs, begin = [], 0
    if sorted_ is None:
        order, shed = parts[0].order, parts[0].shed
    else:
        order = np.concatenate([train.order for train in parts])[sorted_]
        shed = np.concatenate([train.shed for train in parts])[sorted_]
        place = np.empty_like(sorted_)
        place[sorted_] = np.arange(sorted_.size)
    for side, trains in zip(runner.sides, sides, strict=True):
        if not trains:
            inputs.append(_nothing(side.layout))
            continue
        train = Train.concat(trains)
        mine = np.arange(len(train)) if sorted_ is None else place[begin : begin + len(train)]
        begin += len(train)
        inputs.append(_input(train, mine))
    return order, shed, inputs


def _led(runner: Runner, sides: Sequence[Sequence[Train]]) -> tuple[Longs, Longs, list[dict[str, Array]]]:
    """The sides of a box, each in its own order of arrival: the keys and the marks of the one that leads."""
    assert runner.leading is not None
    trains = [_sorted(side) for side in sides]
    inputs = []
    for side, train in zip(runner.sides, trains, strict=True):
        if train is None:
            inputs.append(_nothing(side.layout) | {INSTANT: np.empty(0, np.int64)})
        else:
            place, instant = np.arange(len(train)), np.ascontiguousarray(train.order[:, 0])
            inputs.append({TS: train.ts, ARRIVAL: place, INSTANT: instant, **train.columns})
    keys = next(train.order for train in trains if train is not None)
    leading = trains[runner.leading]
    if leading is None:  # nothing will be released
        return keys[:0], np.empty(0, np.int64), inputs
    return leading.order, leading.shed, inputs


def _sorted(trains: Sequence[Train]) -> Train | None:
    """Trains as one, in the order of arrival."""
    if not trains:
        return None
    places = merging([train.order for train in trains])
    train = Train.concat(trains)
    return train if places is None else train.take(places)


def _input(train: Train, place: Longs) -> dict[str, Array]:
    if (place[1:] < place[:-1]).any():
        sorted_ = np.argsort(place, kind="stable")
        train, place = train.take(sorted_), place[sorted_]
    return {TS: train.ts, ARRIVAL: place, **train.columns}


def _nothing(layout: Layout) -> dict[str, Array]:
    return {TS: np.empty(0, np.int64), ARRIVAL: np.empty(0, np.int64), **no_tuples(layout.types)}


@dataclass(frozen=True)
class LookUp:
    """A stored table, found by hashes of the columns that a predicate equates with the stream's."""

    columns: tuple[str, ...]  # of the stream
    floats: tuple[bool, ...]  # columns to compare as floats: an integer can equal one
    hashes: Longs
    rows: Longs

    @classmethod
    def of(cls, box: Join, side: int, schema: Schema, table: Mapping[str, Array]) -> LookUp:
        """For a stream on one side of a join."""
        equal = expressions.equalities(box.predicate)
        mine, theirs = [pair[side] for pair in equal], [table[pair[1 - side]] for pair in equal]
        floats = [
            values.dtype != object and (values.dtype.kind == "f" or schema[name] == "float")
            for name, values in zip(mine, theirs, strict=True)
        ]
        found = hashes(_compared(theirs, floats), len(next(iter(table.values()))))
        rows = np.argsort(found, kind="stable")
        return cls(tuple(mine), tuple(floats), found[rows], rows)

    def pairs(self, train: Train) -> tuple[Longs, Longs]:
        """All (tuple, row) pairs that may match, in the order of both."""
        wanted = hashes(_compared([train.columns[name] for name in self.columns], self.floats), len(train))
        first, last = (np.searchsorted(self.hashes, wanted, side) for side in ("left", "right"))
        one, place = expand(first, last)
        return one, self.rows[place]


def _compared(columns: Sequence[Array], floats: Sequence[bool]) -> list[Array]:
    return [values.astype(np.float64) if is_float else values for values, is_float in zip(columns, floats, strict=True)]
