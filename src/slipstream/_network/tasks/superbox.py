"""A network, or a part of it, as one function of trains.

Aurora's superbox: all boxes run where the tuples are, one after the other, each on everything that arrived together.
Tuples have an order key, the arrival that caused them and their positions under it, so that a box sees its input in
the order of arrivals however many ways the tuples took, and however the stream is cut into trains.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from slipstream._network.algebra import Arc, Filter, Join, Map, Node, Schema
from slipstream._network.boxes.operators import Operator, OperatorState, run
from slipstream._network.boxes.windows.kernels import ARRIVAL, INSTANT, PLACE, PLACES, TRIGGER, TS, State
from slipstream._network.boxes.windows.window_functions import NULL_INTEGER, expand
from slipstream._network.column_types import spark_schema
from slipstream._network.flow import Train, merge_order, no_tuples, ordinals, sort_train
from slipstream._network.planning.plan import Plan, Recipient, Runner, TupleForm, Way
from slipstream._network.planning.stages import plan_stages
from slipstream._network.schemas import join_columns
from slipstream._network.sql import box_expressions
from slipstream._network.sql.translation import Prefix, Translations, answer_to, asked_by
from slipstream._network.state.groups import hashes
from slipstream._network.state.stored import StoredTable
from slipstream._tools.numba_tools import Bools, Longs

Array = npt.NDArray[Any]
States: TypeAlias = Mapping[str, State | OperatorState]

#: the n-th path by which a tuple reaches a box is so much later there than the first
PATHS = PLACES
#: the address of tuples of which Spark computes something
SPARK = 0
#: for pairs of an outer look-up that Spark has yet to check: the tuple, and the row (-1 for none)
_TUPLE, _ROW = answer_to("tuple of the pair"), answer_to("row of the pair")


class TrainParcel(NamedTuple):
    """Tuples for another stage, or for Spark, which computes something for them and returns them."""

    stage: int  # SPARK, or the number of a stage
    address: int  # of the delivery that receives them, or of the prefix at the end of which they are
    train: Train


@dataclass
class Cargo:
    """The input of a stage: tuples from sources, for sides of boxes and outputs, or back from Spark."""

    sources: dict[str, Train] = field(default_factory=dict)
    inboxes: dict[int, list[Train]] = field(default_factory=dict)
    computed: dict[Prefix, Train] = field(default_factory=dict)


@dataclass
class _Passage:
    """The state of one pass through a stage."""

    number: int  # of the stage
    between: bool  # whether it is the way to the stage, where boxes have no state
    inboxes: dict[int, list[Train]]
    computed: Mapping[Prefix, Train]
    trains: dict[Arc, Train]  # released in this pass
    ways: dict[Prefix, Train | None] = field(default_factory=dict)
    asked: dict[Prefix, Train] = field(default_factory=dict)
    parcels: list[TrainParcel] = field(default_factory=list)
    work_ns: Counter[str] = field(default_factory=Counter)  # the time in each box

    @contextmanager
    def timed(self, box: str) -> Iterator[None]:
        """Add the time of the block to that of a box."""
        began = time.perf_counter_ns()
        yield
        self.work_ns[box] += time.perf_counter_ns() - began


class StageOutput(NamedTuple):
    """The output of a stage: tuples of outputs, parcels, and the nanoseconds that each box worked."""

    outputs: list[tuple[str, Train]]
    parcels: list[TrainParcel]
    work_ns: Mapping[str, int]


@dataclass(repr=False)
class Superbox:
    """A translated network: ``step`` runs the trains of its sources through all of its boxes.

    With several stages, ``visit`` runs the input of one of them through its boxes.
    """

    plan: Plan
    tables: Mapping[str, StoredTable] = field(default_factory=dict)
    drops: Mapping[tuple[str, int, bool], int] = field(default_factory=dict)
    parallel: int = 1

    def __post_init__(self) -> None:
        self._nodes = {node.name: node for node in self.plan.checked.nodes}
        self.translations = Translations(self.plan, self.tables)
        self.stages = plan_stages(self.plan, self.translations, self.parallel)
        self._numbers = {prefix: number for number, prefix in enumerate(self.translations.prefixes)}

    # --- a batch

    def fresh(self, stage: int = 1) -> dict[str, State | OperatorState]:
        """The initial state of the order-sensitive boxes of a stage, by name."""
        states: dict[str, State | OperatorState] = {}
        for runner in self.plan.runners:
            box = runner.node.box
            if self.stages.of.get(runner.node.name) != stage:
                continue
            if runner.kernel:
                states[runner.node.name] = runner.kernel.fresh()
            elif isinstance(box, Operator) and not box.borrows:
                states[runner.node.name] = self._state(runner.node, box)
        return states

    def _state(self, node: Node, box: Operator) -> OperatorState:
        state = OperatorState(box.fresh(*map(spark_schema, self.plan.checked.inputs(node))))
        takers = (other.box for other in self.plan.checked.network.consumers(node.name))
        if not any(isinstance(taker, Operator) and taker.borrows for taker in takers):
            box.unshared(state.parts)
        return state

    def step(self, states: States, sources: Mapping[str, Train], *, last: bool = False) -> Iterator[tuple[str, Train]]:
        """Run trains through a network of one stage; yields the tuples of each output and tap.

        ``states`` is the state of the order-sensitive boxes, which is updated. With ``last``, the input ends, and
        operators emit what they have held back.
        """
        return iter(self.visit(1, states, Cargo(sources=dict(sources)), last=last).outputs)

    def carry(self, number: int, cargo: Cargo) -> list[TrainParcel]:
        """Carry tuples towards a stage, as far as they get without stateful boxes."""
        return self._run_pass(number, {}, cargo, between=True).parcels

    def visit(self, number: int, states: States, cargo: Cargo, *, last: bool = False) -> StageOutput:
        """Run the input of a stage through its boxes, level by level; updates ``states``."""
        done = self._run_pass(number, states, cargo, last=last)
        found = ((name, done.inboxes.get(delivery.layout.id)) for name, delivery in self.plan.outputs.items())
        delivered = [(name, Train.concat(trains)) for name, trains in found if trains]
        return StageOutput(delivered, done.parcels, done.work_ns)

    def _run_pass(
        self, number: int, states: States, cargo: Cargo, *, between: bool = False, last: bool = False
    ) -> _Passage:
        trains = {Arc(name): train for name, train in cargo.sources.items() if len(train)}
        inboxes = {address: list(parts) for address, parts in cargo.inboxes.items()}
        now = _Passage(number, between, inboxes, self._match(cargo.computed), trains)
        for level in range(self.plan.depth + 1):
            for runner in self._runners[level]:
                if not runner.is_stateful or (not between and self.stages.of[runner.node.name] == number):
                    with now.timed(runner.node.name):
                        ran = self._run(runner, states, now.inboxes, last=last)
                    for port, released in enumerate(ran):
                        if len(released):
                            now.trains[Arc(runner.node.name, port)] = released
            for delivery, place, way in self._deliveries[level]:
                found = self._find_before(way.arcs, delivery, now)
                if found is not None and len(found):
                    self._send(self._convert(found, delivery, place, way), delivery, now)
        now.parcels += [TrainParcel(SPARK, self._numbers[prefix], train) for prefix, train in now.asked.items()]
        return now

    def _send(self, train: Train, delivery: Recipient, now: _Passage) -> None:
        """Put tuples into an inbox of this stage, or into a parcel."""
        address = delivery.layout.id
        home = self.stages.homes.get(address)
        if home is None or (not now.between and (home.anywhere or home.stage == now.number)):
            now.inboxes.setdefault(address, []).append(train)
        elif len(train):
            now.parcels.append(TrainParcel(now.number if home.anywhere else home.stage, address, train))

    @cached_property
    def _runners(self) -> list[list[Runner]]:
        return [
            [runner for runner in self.plan.runners if self.plan.levels[runner.node.name] == level]
            for level in range(self.plan.depth + 1)
        ]

    @cached_property
    def _deliveries(self) -> list[list[tuple[Recipient, int, Way]]]:
        """The paths that begin at the origins of each level, and their deliveries."""
        found: list[list[tuple[Recipient, int, Way]]] = [[] for _ in range(self.plan.depth + 1)]
        for delivery in self.plan.deliveries:
            for place, way in enumerate(delivery.paths):
                found[self.plan.levels[way.origin.origin]].append((delivery, place, way))
        return found

    # --- order-agnostic boxes

    def _find_before(self, prefix: Prefix, target: Arc | Recipient, now: _Passage) -> Train | None:
        """The tuples at the end of a prefix, for the next box or a delivery; they may have to pass through Spark."""
        found = self._follow(prefix, now)
        if (prefix, target.layout.id if isinstance(target, Recipient) else target) not in self._spark:
            return found
        if found is not None and len(found):
            now.asked[prefix] = found
        return now.computed.get(prefix)

    @cached_property
    def _spark(self) -> set[tuple[Prefix, Arc | int]]:
        """The steps of ways before which tuples pass through Spark: the prefix, and the next arc or the delivery."""
        return {
            (prefix, way.arcs[len(prefix)] if len(prefix) < len(way.arcs) else delivery.layout.id)
            for delivery in self.plan.deliveries
            for way in delivery.paths
            for prefix in self.translations.cuts(delivery, way)
        }

    def _follow(self, arcs: Prefix, now: _Passage) -> Train | None:
        """The tuples at the end of a way; what ways have in common is computed once."""
        if len(arcs) == 1:
            return now.trains.get(arcs[0])
        if arcs not in now.ways:
            before = self._find_before(arcs[:-1], arcs[-1], now)
            now.ways[arcs] = None
            if before is not None and len(before):
                with now.timed(arcs[-1].origin):
                    now.ways[arcs] = self.pass_through(before, arcs[-2], arcs[-1])
        return now.ways[arcs]

    def _match(self, computed: Mapping[Prefix, Train]) -> dict[Prefix, Train]:
        """Tuples back from Spark; of the pairs of a join, only those that satisfy it."""
        found = dict(computed)
        for prefix, train in computed.items():
            if len(prefix) == 1 and self.translations.is_filtered(prefix[0]):
                box = self._nodes[prefix[0].origin].box
                assert isinstance(box, Join)
                found[prefix] = train.take(_find_satisfied(train, box))
        return found

    def pass_through(self, train: Train, before: Arc, arc: Arc) -> Train:
        """Pass tuples through one order-agnostic box to one of its outputs."""
        node = self._nodes[arc.origin]
        train = self._shed(train, (node.name, node.inputs.index(before), False))
        if isinstance(node.box, Filter):
            return self._filter(train, node, before, arc.port)
        if isinstance(node.box, Map):
            return train.with_columns(
                {name: self._column(train, text, before) for name, text in node.box.columns.items()}
            )
        return train

    def _filter(self, train: Train, node: Node, before: Arc, port: int) -> Train:
        assert isinstance(node.box, Filter)
        for place, predicate in enumerate(node.box.predicates[: port + 1]):
            asked = answer_to(asked_by(node, predicate))
            found = train.columns[asked] if asked in train.columns else self._column(train, predicate, before)
            train = train.take((found == 1) == (place == port))
        return train

    def _column(self, train: Train, text: str, arc: Arc) -> Array:
        for name in (box_expressions.bare(text), answer_to(text)):
            if name in train.columns:
                return train.columns[name]
        return self.translations.expression(text, arc).over(train.columns, len(train))

    def _shed(self, train: Train, place: tuple[str, int, bool]) -> Train:
        """What load shedding leaves of a train at a place."""
        bit = self.drops.get(place)
        if bit is None or not train.shed.any():
            return train
        return train.take((train.shed >> bit) & 1 == 0)

    def _convert(self, train: Train, delivery: Recipient, place: int, way: Way) -> Train:
        """Convert tuples to the layout of a side of a box or an output."""
        train = self._shed(train, (delivery.name, delivery.side, delivery.is_output))
        columns = {name: self._column(train, text, way.arcs[-1]) for name, text in delivery.layout.columns.items()}
        order = train.order
        if place:
            order = order.copy()
            order[:, delivery.level] += place * PATHS
        return Train(train.ts, train.shed, order, columns)

    # --- order-sensitive boxes

    def _run(self, runner: Runner, states: States, inboxes: Mapping[int, list[Train]], *, last: bool) -> list[Train]:
        """Run one box on everything in its inboxes, in the order of arrival; returns the train of each output."""
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
        """Run an operator; one that borrows uses the state of the box before it."""
        node, checked = runner.node, self.plan.checked
        width = len(self.plan.keys)
        inputs = [
            sort_train(Train.concat(trains)) if trains else Train.nothing(side.layout.types, width)
            for side, trains in zip(runner.sides, sides, strict=True)
        ]
        lender = self._nodes[node.inputs[0].origin] if box.borrows else node
        state = states[lender.name]
        assert isinstance(state, OperatorState)
        assert isinstance(lender.box, Operator)
        schemas = [checked.schemas[arc] for arc in checked.ports[node.name]]
        level = self.plan.levels[node.name]
        if not box.borrows:
            return run(box, state.parts, inputs, schemas, level, last=last)
        with lender.box.timed(state.parts, node.name):
            return run(box, state.parts, inputs, schemas, level, lender.box, last=last)

    def _release(self, runner: Runner, state: Any, sides: Sequence[Sequence[Train]]) -> Train:
        """Run a box with a kernel."""
        assert runner.kernel is not None
        order, shed, inputs = _merge_sides(runner, sides) if runner.leading is None else _sort_sides(runner, sides)
        released = runner.kernel.step(state, inputs)
        trigger = released[TRIGGER]
        # a box that emits one tuple per input tuple returns the arrivals themselves
        if not any(trigger is side[ARRIVAL] for side in inputs):
            order, shed = order[trigger], shed[trigger]
            place = released[PLACE] if PLACE in released else ordinals(trigger)
            order[:, self.plan.levels[runner.node.name]] += place
        columns = {name: released[old] for name, old in zip(runner.origin.columns, runner.results, strict=True)}
        train = Train(released[TS], shed, order, columns)
        return self._keep_matching(runner, train) if isinstance(runner.node.box, Join) else train

    def _keep_matching(self, runner: Runner, train: Train) -> Train:
        """Apply the predicate of a join; its kernel has checked only the window and the equalities."""
        predicate = self.translations.predicate(runner)
        if predicate is None:
            return train  # Spark evaluates it
        sides = ("left.", "right.")
        names = join_columns(*self.plan.checked.inputs(runner.node))
        columns = {sides[side] + column: train.columns[out] for out, (side, column) in names.items()}
        return train.take(predicate.over(columns, len(train)) == 1)

    def _look_up(self, runner: Runner, train: Train) -> Train:
        """Join with a stored table: every match of the whole table, in the order of the table's rows."""
        node, side = runner.node, runner.sides[0].side
        assert isinstance(node.box, Join)
        table = self.tables[node.inputs[1 - side].origin]
        known = table.indexes
        schema = self.plan.checked.inputs(node)[side]
        wanted = (node.inputs[1 - side].origin, node.box.predicate, side, tuple(schema.items()))
        if wanted not in known:
            known[wanted] = LookUp.build(node.box, side, schema, table)
        one, two = known[wanted].pairs(train)
        sides = ("left.", "right.")
        columns = {sides[side] + name: values[one] for name, values in train.columns.items()}
        columns |= {sides[1 - side] + name: values[two] for name, values in table.items()}
        predicate = self.translations.predicate(runner)
        met = np.ones(one.size, np.bool_) if predicate is None else predicate.over(columns, one.size) == 1
        if node.box.outer:
            every = np.arange(len(train))
            alone = every if predicate is None else np.setdiff1d(every, one[met])
            return self._with_all(runner, train, table, (one[met], two[met]), alone)
        order = train.order[one[met]]
        order[:, self.plan.levels[node.name]] += two[met]
        names = join_columns(*self.plan.checked.inputs(node))
        found = {out: columns[sides[where] + column][met] for out, (where, column) in names.items()}
        return Train(train.ts[one[met]], train.shed[one[met]], order, found)

    def _with_all(
        self, runner: Runner, train: Train, table: Mapping[str, Array], pairs: tuple[Longs, Longs], alone: Longs
    ) -> Train:
        """Join tuples with their rows of a table, and those that are ``alone`` with nulls."""
        node, side = runner.node, runner.sides[0].side
        one, two = np.r_[pairs[0], alone], np.r_[pairs[1], np.full(alone.size, -1)]
        order = np.argsort(one, kind="stable")
        one, two = one[order], two[order]
        keys = train.order[one]
        keys[:, self.plan.levels[node.name]] += np.maximum(two, 0)
        names = join_columns(*self.plan.checked.inputs(node))
        found = {
            out: train.columns[column][one] if where == side else _take_or_null(table[column], two)
            for out, (where, column) in names.items()
        }
        if self.translations.is_filtered(Arc(node.name)):
            found |= {_TUPLE: one, _ROW: two}
        return Train(train.ts[one], train.shed[one], keys, found)


def _find_satisfied(train: Train, box: Join) -> Bools:
    """Which pairs satisfy a join, now that Spark has evaluated its predicate."""
    met = np.asarray(train.columns[answer_to(box.predicate)] == 1)
    if not box.outer:
        return met
    met &= train.columns[_ROW] >= 0
    with_some = np.isin(train.columns[_TUPLE], train.columns[_TUPLE][met])
    return np.asarray(met | ((train.columns[_ROW] < 0) & ~with_some))


def _take_or_null(values: Array, places: Longs) -> Array:
    """Values at places, null where the place is -1."""
    null: Any = {"f": np.nan, "O": None}.get(values.dtype.kind, NULL_INTEGER)
    padded = np.append(values, np.array([null], values.dtype))
    return np.asarray(padded[places])


def _merge_sides(runner: Runner, sides: Sequence[Sequence[Train]]) -> tuple[Longs, Longs, list[dict[str, Array]]]:
    """Merge the sides of a box in the order of arrival: the keys, the marks, and each side's tuples with positions."""
    parts = [train for side in sides for train in side]
    sorted_ = merge_order([train.order for train in parts])
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
            inputs.append(_make_empty(side.layout))
            continue
        train = Train.concat(trains)
        mine = np.arange(len(train)) if sorted_ is None else place[begin : begin + len(train)]
        begin += len(train)
        inputs.append(_input(train, mine))
    return order, shed, inputs


def _sort_sides(runner: Runner, sides: Sequence[Sequence[Train]]) -> tuple[Longs, Longs, list[dict[str, Array]]]:
    """Sort each side of a box by arrival; also returns the keys and the marks of the leading one."""
    assert runner.leading is not None
    trains = [_merge_trains(side) for side in sides]
    inputs = []
    for side, train in zip(runner.sides, trains, strict=True):
        if train is None:
            inputs.append(_make_empty(side.layout) | {INSTANT: np.empty(0, np.int64)})
        else:
            place, instant = np.arange(len(train)), np.ascontiguousarray(train.order[:, 0])
            inputs.append({TS: train.ts, ARRIVAL: place, INSTANT: instant, **train.columns})
    keys = next(train.order for train in trains if train is not None)
    leading = trains[runner.leading]
    if leading is None:  # nothing will be released
        return keys[:0], np.empty(0, np.int64), inputs
    return leading.order, leading.shed, inputs


def _merge_trains(trains: Sequence[Train]) -> Train | None:
    """Merge trains in the order of arrival."""
    if not trains:
        return None
    places = merge_order([train.order for train in trains])
    train = Train.concat(trains)
    return train if places is None else train.take(places)


def _input(train: Train, place: Longs) -> dict[str, Array]:
    if (place[1:] < place[:-1]).any():
        sorted_ = np.argsort(place, kind="stable")
        train, place = train.take(sorted_), place[sorted_]
    return {TS: train.ts, ARRIVAL: place, **train.columns}


def _make_empty(layout: TupleForm) -> dict[str, Array]:
    return {TS: np.empty(0, np.int64), ARRIVAL: np.empty(0, np.int64), **no_tuples(layout.types)}


@dataclass(frozen=True)
class LookUp:
    """An index of a stored table, by hashes of the columns that a predicate equates with the stream's."""

    columns: tuple[str, ...]  # of the stream
    floats: tuple[bool, ...]  # columns to compare as floats: an integer can equal one
    hashes: Longs
    rows: Longs

    @classmethod
    def build(cls, box: Join, side: int, schema: Schema, table: Mapping[str, Array]) -> LookUp:
        """Build the index for a stream on one side of a join."""
        equal = box_expressions.equalities(box.predicate)
        mine, theirs = [pair[side] for pair in equal], [table[pair[1 - side]] for pair in equal]
        floats = [
            values.dtype != object and (values.dtype.kind == "f" or schema[name] == "float")
            for name, values in zip(mine, theirs, strict=True)
        ]
        found = hashes(_to_comparable(theirs, floats), len(next(iter(table.values()))))
        rows = np.argsort(found, kind="stable")
        return cls(tuple(mine), tuple(floats), found[rows], rows)

    def pairs(self, train: Train) -> tuple[Longs, Longs]:
        """All (tuple, row) pairs that may match, in the order of both."""
        wanted = hashes(_to_comparable([train.columns[name] for name in self.columns], self.floats), len(train))
        first, last = (np.searchsorted(self.hashes, wanted, side) for side in ("left", "right"))
        one, place = expand(first, last)
        return one, self.rows[place]


def _to_comparable(columns: Sequence[Array], floats: Sequence[bool]) -> list[Array]:
    return [values.astype(np.float64) if is_float else values for values, is_float in zip(columns, floats, strict=True)]
