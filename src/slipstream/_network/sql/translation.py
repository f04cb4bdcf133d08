"""Decides which expressions of a network are computed where the tuples are, and which by Spark between stages.

Most expressions translate into functions of columns (``vector``). The others are left to Spark: tuples that reach such
an expression leave their stage, pass through a projection (``projection``), and continue after it. This module finds
the places on the ways of a plan where that happens, and what Spark computes there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from slipstream._network import box_functions
from slipstream._network.algebra import TYPES, Arc, Filter, Join, Map, Node
from slipstream._network.planning.plan import Plan, Recipient, Runner, Way
from slipstream._network.schemas import join_columns
from slipstream._network.sql import box_expressions
from slipstream._network.sql.sql_values import Untranslatable
from slipstream._network.sql.vector import Expression, translate

#: the first arcs of a way
Prefix: TypeAlias = tuple[Arc, ...]
#: the tuple in the SQL of a program
TUPLE = "`_tuple`"


@dataclass(frozen=True)
class Program:
    """What Spark computes for the tuples on an arc: the name, SQL and type of each expression."""

    arc: Arc
    columns: dict[str, str]
    texts: tuple[tuple[str, str, str], ...]


class Translations:
    """The expressions of a plan, translated before anything runs."""

    def __init__(self, plan: Plan, tables: box_functions.Stored | None = None) -> None:
        self._plan = plan
        self._tables = tables or {}
        self._nodes = {node.name: node for node in plan.checked.nodes}
        self._runners = {runner.node.name: runner for runner in plan.runners}
        self._expressions: dict[tuple[str, Arc], Expression | None] = {}
        for delivery in plan.deliveries:
            for name, text in delivery.layout.columns.items():
                for way in delivery.paths:
                    found = self._look_up(text, way.arcs[-1])
                    if found is not None and found.type != delivery.layout.types[name]:
                        self._expressions[text, way.arcs[-1]] = None

    def expression(self, text: str, arc: Arc) -> Expression:
        """An expression over an arc's columns that does not need Spark."""
        found = self._look_up(text, arc)
        assert found is not None
        return found

    def predicate(self, runner: Runner) -> Expression | None:
        """The predicate of a join over the columns of both sides; None if only Spark can compute it."""
        text, arc = runner.node.box.predicate, Arc(runner.node.name)  # type: ignore[union-attr]
        left, right = self._plan.checked.inputs(runner.node)
        schema = {f"left.{name}": type_ for name, type_ in left.items()}
        return self._cache(text, arc, schema | {f"right.{name}": type_ for name, type_ in right.items()})

    def _look_up(self, text: str, arc: Arc) -> Expression | None:
        return self._cache(text, arc, self._plan.checked.schemas[arc])

    def _cache(self, text: str, arc: Arc, schema: dict[str, str]) -> Expression | None:
        if (text, arc) not in self._expressions:
            try:
                self._expressions[text, arc] = translate(text, schema, self._tables)
            except Untranslatable:
                self._expressions[text, arc] = None
        return self._expressions[text, arc]

    # --- where Spark has to compute

    def needs_spark(self, prefix: Prefix, target: Arc | Recipient) -> bool:
        """Whether tuples at the end of a prefix must pass through Spark before the next arc or a delivery."""
        arc = prefix[-1]
        if len(prefix) == 1 and self.is_filtered(arc):
            return True
        if isinstance(target, Recipient):
            return any(self._look_up(text, arc) is None for text in target.layout.columns.values())
        box = self._nodes[target.origin].box
        if isinstance(box, Filter):
            return any(self._look_up(text, arc) is None for text in box.predicates[: target.port + 1])
        return isinstance(box, Map) and any(self._look_up(text, arc) is None for text in box.columns.values())

    def is_filtered(self, arc: Arc) -> bool:
        """Whether tuples result from a join whose predicate only Spark can check."""
        runner = self._runners.get(arc.origin)
        return runner is not None and isinstance(runner.node.box, Join) and self.predicate(runner) is None

    def asks_spark(self, node: Node) -> bool:
        """Whether Spark computes something for a box."""
        if self.is_filtered(Arc(node.name)):
            return True
        sides = self._runners[node.name].sides if node.name in self._runners else ()
        texts = node.box.predicates if isinstance(node.box, Filter) else ()
        texts = tuple(node.box.columns.values()) if isinstance(node.box, Map) else texts
        return any(self._look_up(text, node.inputs[0]) is None for text in texts) or any(
            self.needs_spark(way.arcs, side) for side in sides for way in side.paths
        )

    def cuts(self, delivery: Recipient, way: Way) -> list[Prefix]:
        """The places on a way at which tuples pass through Spark."""
        targets: list[Arc | Recipient] = [*way.arcs[1:], delivery]
        prefixes = [way.arcs[: place + 1] for place in range(len(way.arcs))]
        return [prefix for prefix, target in zip(prefixes, targets, strict=True) if self.needs_spark(prefix, target)]

    @cached_property
    def prefixes(self) -> tuple[Prefix, ...]:
        """All places at which tuples pass through Spark; a parcel refers to one by its index."""
        found = [p for d in self._plan.deliveries for way in d.paths for p in self.cuts(d, way)]
        return tuple(dict.fromkeys(found))

    @cached_property
    def programs(self) -> tuple[Program, ...]:
        """What Spark computes, per arc."""
        return tuple(self._program(arc) for arc in dict.fromkeys(prefix[-1] for prefix in self.prefixes))

    def _program(self, arc: Arc) -> Program:
        asked: dict[str, tuple[str, str]] = {}
        for node in self._plan.checked.nodes:
            if arc in node.inputs and isinstance(node.box, Filter | Map):
                asked |= (
                    self._translate_filter(node, arc)
                    if isinstance(node.box, Filter)
                    else self._translate_map(node, arc)
                )
        for delivery in self._plan.deliveries:
            if any(way.arcs[-1] == arc for way in delivery.paths):
                for name, text in delivery.layout.columns.items():
                    if self._look_up(text, arc) is None:
                        asked[text] = (_refer_to_tuple(text), delivery.layout.types[name])
        if self.is_filtered(arc):
            box, condition = self._runners[arc.origin].node.box, self._condition(self._runners[arc.origin])
            assert isinstance(box, Join)
            if not box.outer:
                # what follows the join is computed only for tuples that satisfy it
                asked = {text: (f"if({condition}, {sql}, null)", type_) for text, (sql, type_) in asked.items()}
            asked[box.predicate] = (condition, "boolean")
        texts = tuple((text, f"cast({sql} as {TYPES[type_]})", type_) for text, (sql, type_) in asked.items())
        return Program(arc, self._plan.checked.schemas[arc], texts)

    def _translate_filter(self, node: Node, arc: Arc) -> dict[str, tuple[str, str]]:
        """The predicates that need Spark; each is computed only for tuples that satisfy none before it."""
        assert isinstance(node.box, Filter)
        found, before = {}, "true"
        for text in node.box.predicates:
            if self._look_up(text, arc) is None:
                found[asked_by(node, text)] = (f"if({before}, {_refer_to_tuple(text)}, null)", "boolean")
            before += f" and not coalesce({_refer_to_tuple(text)}, false)"
        return found

    def _translate_map(self, node: Node, arc: Arc) -> dict[str, tuple[str, str]]:
        assert isinstance(node.box, Map)
        types = self._plan.checked.schemas[Arc(node.name)]
        return {
            text: (_refer_to_tuple(text), types[name])
            for name, text in node.box.columns.items()
            if self._look_up(text, arc) is None
        }

    def _condition(self, runner: Runner) -> str:
        """The predicate of a join, with the column names of its output."""
        assert isinstance(runner.node.box, Join)
        names = {source: out for out, source in join_columns(*self._plan.checked.inputs(runner.node)).items()}
        return box_expressions.rename_columns(
            runner.node.box.predicate, lambda side, column: _member(names[int(side == "right"), column])
        )


def asked_by(node: Node, predicate: str) -> str:
    """The column with Spark's result for a predicate, which is valid for this box only."""
    return f"{node.name}: {predicate}"


def answer_to(text: str) -> str:
    """The column with Spark's result for an expression; no column of a user can have this name."""
    return f"`{text}"


def _refer_to_tuple(text: str) -> str:
    return f"({box_expressions.rename_columns(text, lambda _, column: _member(column))})"


def _member(column: str) -> str:
    return f"{TUPLE}.`{column}`"
