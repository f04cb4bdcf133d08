"""Checks a network before it runs: names, arcs, loops, columns and types.

The columns of an expression are read from its text; its type is determined by Spark, which will run it. Everything else
is checked without Spark in a fraction of a second, so commands do that first. Every error names the network, the box
and the column.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, TypeVar

from slipstream._errors import BadInput, SlipstreamError, locate
from slipstream._io.outputs import BATCH
from slipstream._network import box_functions
from slipstream._network.algebra import (
    TUP,
    TYPES,
    Aggregate,
    Arc,
    BSort,
    Filter,
    Join,
    Latest,
    Map,
    Network,
    NetworkOutput,
    Node,
    Order,
    Resample,
    Running,
    Schema,
    Union,
)
from slipstream._network.boxes.cuboids import CuboidQuery, collect_cuboids
from slipstream._network.boxes.operators import UNKNOWN, Operator
from slipstream._network.column_types import plain_schema, plain_type, spark_schema, spark_type
from slipstream._network.flow import LIST
from slipstream._network.sql import box_expressions
from slipstream._network.sql.sql_values import Untranslatable
from slipstream._network.sql.vector import translate
from slipstream._sql.allowed import MAX_GROWTH, bound_growth

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NUMBERS = ("integer", "float")
#: columns that tuples have on their way
_RESERVED = {"_seq", "_ts", "_shed", "_tuple", BATCH}
#: the code of an error about a column that is not there
UNKNOWN_COLUMN = "unknown-column"
Read = TypeVar("Read")


@dataclass
class Checked:
    """A valid network: its boxes in topological order, and the schema of every arc."""

    network: Network
    nodes: list[Node]
    schemas: dict[Arc, Schema]
    warnings: list[str] = field(default_factory=list)
    types: dict[tuple[str, str], str] = field(default_factory=dict)

    @cached_property
    def ports(self) -> dict[str, list[Arc]]:
        """The arcs that begin at each place."""
        found: dict[str, list[Arc]] = {}
        for arc in self.schemas:
            found.setdefault(arc.origin, []).append(arc)
        return found

    def type_of(self, text: str, schema: Schema) -> str:
        """The type of an expression that was checked over this schema."""
        return self.types[text, _format_schema(schema)]

    def inputs(self, node: Node) -> list[Schema]:
        """The schemas a box's inputs have."""
        return [self.schemas[arc] for arc in node.inputs]

    def is_lookup(self, node: Node) -> bool:
        """Whether the box joins with a stored table."""
        return self.table_side(node) is not None

    def table_side(self, node: Node) -> int | None:
        """Which side of a join is a stored table, if one is."""
        tables = {table.name for table in self.network.tables}
        sides = [side for side, arc in enumerate(node.inputs) if arc.origin in tables]
        return sides[-1] if sides and isinstance(node.box, Join) else None


def check(network: Network, spark: SparkSession | None) -> Checked:
    """Infer every schema, or raise an error; without Spark, as far as that is possible."""
    _check_names(network)
    checked = Checked(network, _sort_nodes(network), {})
    for kind, origins in (("sources", network.sources), ("tables", network.tables)):
        for origin in origins:
            where = f"network {network.name}, {origin.name}"
            with locate(where, box=f"{kind}.{origin.name}"):
                _check_types(where, origin.schema)
            checked.schemas[Arc(origin.name)] = origin.schema
    checker = _Checker(checked, spark)
    for node in checked.nodes:
        checker.check(node)
    collect_cuboids((node.box, checked.inputs(node)) for node in checked.nodes)
    _check_ends(checked)
    return checked


def join_columns(left: Schema, right: Schema) -> dict[str, tuple[int, str]]:
    """The origin of each column of t ++ u; a right column whose name is taken gets the prefix ``right_``.

    >>> join_columns({"a": "integer", "b": "text"}, {"b": "text"})
    {'a': (0, 'a'), 'b': (0, 'b'), 'right_b': (1, 'b')}
    """
    names = {name: (0, name) for name in left}
    for name in right:
        names[f"right_{name}" if name in left else name] = (1, name)
    return names


def latest_columns(box: Latest, left: Schema, right: Schema) -> dict[str, tuple[int, str]]:
    """The origin of each column of a latest box: as in a join, with the columns it matches on from the left only.

    >>> latest_columns(Latest(("a",)), {"a": "integer", "b": "text"}, {"a": "integer", "b": "text"})
    {'a': (0, 'a'), 'b': (0, 'b'), 'right_b': (1, 'b')}
    """
    return join_columns(left, {name: type_ for name, type_ in right.items() if name not in box.on})


def _check_names(network: Network) -> None:
    names = [place.name for place in network.places]
    for kind, group in (("box", names), ("output", [end.name for end in network.ends])):
        for name in group:
            if group.count(name) > 1:
                raise BadInput(
                    f"network {network.name}: the {kind} name {name!r} is used twice.",
                    hint="Rename one.",
                    code="duplicate-name",
                    found=name,
                )
            if not name.isidentifier():
                raise BadInput(
                    f"network {network.name}: {name!r} is not a valid name.",
                    hint="Use letters, digits and underscores.",
                    code="bad-name",
                    found=name,
                )
    known = set(names)
    for node in network.nodes:
        where = f"network {network.name}, box {node.name}"
        with locate(where, box=f"boxes.{node.name}"):
            for arc in node.inputs:
                _check_known(f"{where}: input", arc.origin, known)
    for kind, ends in (("outputs", network.outputs), ("points", network.points)):
        for end in ends:
            where = f"network {network.name}, output {end.name}"
            with locate(where, box=f"{kind}.{end.name}"):
                _check_known(f"{where}: arc", end.arc.origin, known)


def _check_known(what: str, name: str, names: Iterable[str], *, code: str = "unknown-name") -> None:
    """Refuse an unknown name, and suggest the nearest known one."""
    if name in names:
        return
    near = difflib.get_close_matches(name, names, 1)
    guess = f"Did you mean {near[0]!r}? " if near else ""
    there = sorted(names)
    hint = f"{guess}Known: {', '.join(there)}."
    raise BadInput(f"{what} {name!r} does not exist.", hint=hint, code=code, found=name, expected=there)


def _sort_nodes(network: Network) -> list[Node]:
    nodes = {node.name: node for node in network.nodes}
    graph = {node.name: [arc.origin for arc in node.inputs if arc.origin in nodes] for node in network.nodes}
    try:
        return [nodes[name] for name in TopologicalSorter(graph).static_order()]
    except CycleError as error:
        loop = " -> ".join(reversed(error.args[1]))
        raise BadInput(
            f"network {network.name}: boxes in a loop: {loop}.", hint="Remove one of these arcs.", code="bad-network"
        ) from error


def _check_types(where: str, schema: Schema, more: tuple[str, ...] = ()) -> None:
    if not schema:
        raise BadInput(f"{where}: no columns.", hint="Give at least one column and its type.", code="missing-value")
    for name, type_ in schema.items():
        if type_ not in (*TYPES, *more, UNKNOWN):
            hint = f"Types: {', '.join(TYPES.values())}."
            with locate(field=name):
                raise BadInput(
                    f"{where}, column {name}: unknown type {type_!r}.", hint=hint, found=type_, code="bad-type"
                )
        if not box_expressions.can_name(name):
            raise BadInput(
                f"{where}: {name!r} is not a valid column name.",
                hint="Use any printable characters except ` and \\.",
                code="bad-name",
                found=name,
            )
        if name in _RESERVED or re.fullmatch(r"_q\d+", name):
            raise BadInput(f"{where}: {name!r} is reserved.", hint="Choose another name.", code="bad-name", found=name)
    alike = Counter(name.lower() for name in schema)
    if twice := [name for name in schema if alike[name.lower()] > 1]:
        raise BadInput(
            f"{where}: {' and '.join(map(repr, twice[:2]))} are the same column in SQL.",
            hint="Rename one of them.",
            code="duplicate-name",
        )


def _check_ends(checked: Checked) -> None:
    network = checked.network
    published = [node for node in network.nodes if isinstance(node.box, Operator) and node.box.published()]
    if not network.outputs and not published:
        raise BadInput(f"network {network.name}: no output.", hint="Add an output.", code="bad-network")
    for output in network.outputs:
        where = f"network {network.name}, output {output.name}"
        with locate(where, box=f"outputs.{output.name}"):
            _check_output(checked, where, output)
    for point in network.points:
        where = f"network {network.name}, connection point {point.name}"
        with locate(where, box=f"points.{point.name}"):
            _check_arc(checked, where, point.arc)
            _check_has_no_lists(where, point.arc, checked.schemas[point.arc])
            if point.key:
                _check_known(f"{where}: key", point.key, checked.schemas[point.arc], code=UNKNOWN_COLUMN)
    used = {arc.origin for node in network.nodes for arc in node.inputs} | {end.arc.origin for end in network.ends}
    for place in network.places:
        if place.name not in used:
            checked.warnings.append(f"{place.name}: its output is not used")


def _check_output(checked: Checked, where: str, output: NetworkOutput) -> None:
    _check_arc(checked, where, output.arc)
    schema = checked.schemas[output.arc]
    if output.quality.value and output.quality.value_column not in schema:
        raise BadInput(
            f"{where}: the value graph is on column {output.quality.value_column!r}, which does not exist.",
            hint=f"Columns: {', '.join(schema)}.",
            code=UNKNOWN_COLUMN,
            found=output.quality.value_column,
            expected=list(schema),
        )
    if output.view:
        _check_has_no_lists(where, output.arc, schema)
    if not output.view and (output.keep_seconds, output.keep_tuples) != (None, None):
        raise BadInput(
            f"{where}: only a view can have keep_...", hint="Add view: true, or remove keep_....", code="bad-network"
        )


def _check_has_no_lists(where: str, arc: Arc, schema: Schema) -> None:
    for name, type_ in schema.items():
        if type_ == LIST:
            raise BadInput(
                f"{where}: column {name!r} of {arc} is an atomic stream.",
                hint=f"Only an output can have one. Write {name}[0], or a function of it.",
                code="bad-type",
            )


def _check_arc(checked: Checked, where: str, arc: Arc) -> None:
    if arc not in checked.schemas:
        ports = sum(other.origin == arc.origin for other in checked.schemas)
        raise BadInput(
            f"{where}: {arc.origin} has no output {arc.port}.", hint=f"It has 0 to {ports - 1}.", code="unknown-name"
        )
    if arc.origin in {table.name for table in checked.network.tables}:
        raise BadInput(
            f"{where}: {arc.origin} is a stored table.",
            hint="A stored table can only be joined with.",
            code="bad-network",
        )


class _Checker:
    """Checks boxes one by one and records the schemas of their outputs."""

    def __init__(self, checked: Checked, spark: SparkSession | None) -> None:
        self._checked = checked
        self._spark = spark
        #: an upper bound on the length of texts at each place, as a multiple of the inputs'
        self._growth: dict[str, float] = {}
        self._longest = 1.0

    def check(self, node: Node) -> None:
        where = f"network {self._checked.network.name}, box {node.name} ({node.box.kind})"
        with locate(where, box=f"boxes.{node.name}"):
            self._check(where, node)

    def _check(self, where: str, node: Node) -> None:
        self._check_inputs(where, node)
        self._longest = 1.0
        outputs = self._outputs(where, node, self._checked.inputs(node))
        self._check_growth(where, node)
        for port, schema in enumerate(outputs):
            _check_types(where, schema, (LIST,) if isinstance(node.box, CuboidQuery) else ())
            self._checked.schemas[Arc(node.name, port)] = schema

    def _check_growth(self, where: str, node: Node) -> None:
        """Refuse texts that grow too long: doubled in each of forty boxes, they would fill any memory."""
        before = max(self._growth.get(arc.origin, 1.0) for arc in node.inputs)
        self._growth[node.name] = before * self._longest
        if self._growth[node.name] > MAX_GROWTH:
            raise BadInput(
                f"{where}: its texts may be {self._growth[node.name]:,.0f} times as long as the input's.",
                hint=f"At most {MAX_GROWTH:,} times: concatenate or replace less.",
                code="too-large",
            )

    def _outputs(self, where: str, node: Node, inputs: list[Schema]) -> list[Schema]:
        match node.box:
            case Filter():
                outputs = self._filter(where, node.box, inputs[0])
            case Map():
                outputs = [self._types(where, inputs[0], node.box.columns)]
            case Union():
                outputs = [self._union(where, node, inputs)]
            case BSort():
                self._order(where, node.box.order, inputs[0])
                if node.box.order.on == TUP:
                    raise BadInput(
                        f"{where}: tuples are already in the order of {TUP}.",
                        hint="Sort on a column.",
                        code="bad-network",
                    )
                outputs = [inputs[0]]
            case Aggregate():
                outputs = [self._aggregate(where, node.box, inputs[0])]
                if len(inputs) > 1:
                    self._clock(where, node.box, inputs)
            case Latest():
                outputs = [self._latest(where, node.box, inputs)]
            case Running():
                outputs = [self._running(where, node.box, inputs[0])]
            case Join():
                outputs = [self._join(where, node, node.box, inputs)]
            case Resample():
                outputs = [self._resample(where, node, node.box, inputs)]
            case Operator():
                outputs = self._operator(where, node, node.box, inputs)
        return outputs

    def _check_inputs(self, where: str, node: Node) -> None:
        two = dict.fromkeys(("join", "resample", "latest"), (2, 2))
        wanted = {"union": (2, 99), "aggregate": (1, 2), **two}.get(node.box.kind, (1, 1))
        if isinstance(node.box, Operator):
            wanted = (node.box.takes, node.box.takes)
        if not wanted[0] <= len(node.inputs) <= wanted[1]:
            raise BadInput(f"{where}: {len(node.inputs)} inputs.", hint=f"It takes {wanted[0]}.", code="bad-network")
        for side, arc in enumerate(node.inputs):
            if side == self._checked.table_side(node):
                continue
            _check_arc(self._checked, where, arc)
            _check_has_no_lists(where, arc, self._checked.schemas[arc])

    def _operator(self, where: str, node: Node, box: Operator, inputs: list[Schema]) -> list[Schema]:
        """The schemas of an operator's outputs; its code may be a user's."""
        try:
            lender = [self._lender(node)] if box.borrows else []
            found = box.outputs(*lender, *map(spark_schema, inputs))
            schemas = [plain_schema(found[port]) for port in box.ports]
        except SlipstreamError as error:
            raise error.within(where, BadInput) from error
        except Exception as error:
            raise BadInput(
                f"{where}: its outputs cannot be derived: {type(error).__name__}: {error}.",
                hint=f"Fix {type(box).__name__}.outputs: it must return a schema for each of {', '.join(box.ports)}.",
                code="user-code",
            ) from error
        for schema in inputs[len(lender) :]:
            for column in box.key:
                _check_known(f"{where}: key column", column, schema, code=UNKNOWN_COLUMN)
        return schemas

    def _lender(self, node: Node) -> Any:
        """The box whose state another uses: that of its first input."""
        arc = node.inputs[0]
        origin = next((other for other in self._checked.nodes if other.name == arc.origin), None)
        lends = isinstance(origin, Node) and isinstance(origin.box, Operator) and not origin.box.borrows
        if not lends or arc.port:
            raise BadInput(
                f"its first input {arc} is not a keep box.",
                hint="Give the name of a keep box first.",
                code="bad-network",
            )
        assert origin is not None
        return origin.box

    def _filter(self, where: str, box: Filter, schema: Schema) -> list[Schema]:
        if not box.predicates:
            raise BadInput(f"{where}: no predicate.", hint="Give at least one.", code="missing-value")
        for predicate in box.predicates:
            self._predicate(where, schema, predicate)
        return [schema] * (len(box.predicates) + 1)

    def _predicate(self, where: str, schema: Schema, predicate: str) -> None:
        found = self._types(where, schema, {"predicate": predicate})["predicate"]
        if found not in ("boolean", UNKNOWN):
            raise BadInput(
                f"{where}: {predicate!r} is {spark_type(found)}, not a condition.",
                hint="Write a condition, such as speed > 90.",
                code="bad-expression",
                found=predicate,
            )

    def _union(self, where: str, node: Node, inputs: list[Schema]) -> Schema:
        for arc, schema in zip(node.inputs[1:], inputs[1:], strict=True):
            if not _same_schema(schema, inputs[0]):
                raise BadInput(
                    f"{where}: {arc} has {_format_schema(schema)}, {node.inputs[0]} has {_format_schema(inputs[0])}.",
                    hint="Convert them to one schema with a map box.",
                    code="bad-type",
                )
        return inputs[0]

    def _order(self, where: str, order: Order, schema: Schema) -> None:
        if order.slack < 0:
            raise BadInput(
                f"{where}: slack {order.slack}.", hint="Slack is a number of tuples, 0 or more.", code="out-of-range"
            )
        for name in order.group_by:
            _check_known(f"{where}: group_by column", name, schema, code=UNKNOWN_COLUMN)
        self._checked.types["0L", _format_schema(schema)] = "integer"
        if order.on == TUP:
            return
        _check_known(f"{where}: order column", order.on, schema, code=UNKNOWN_COLUMN)
        if schema[order.on] not in (*_NUMBERS, UNKNOWN):
            with locate(field=order.on):
                raise BadInput(
                    f"{where}: order column {order.on!r} is {spark_type(schema[order.on])}.",
                    hint="It must be a number.",
                    code="bad-type",
                )

    def _aggregate(self, where: str, box: Aggregate, schema: Schema) -> Schema:
        self._order(where, box.order, schema)
        if box.size <= 0 or box.advance <= 0 or (box.timeout is not None and box.timeout <= 0):
            raise BadInput(
                f"{where}: size, advance and timeout must be above 0.",
                hint="Fix size, advance or timeout.",
                code="out-of-range",
            )
        on = "integer" if box.order.on == TUP else schema[box.order.on]
        if on == "integer" and (box.size % 1 or box.advance % 1):
            raise BadInput(
                f"{where}: size or advance is not an integer, but {box.order.on} is.",
                hint="Use integers.",
                code="malformed-value",
            )
        keys = {name: schema[name] for name in box.order.group_by} | {box.order.column: on}
        return keys | self._functions(where, box.functions, schema, keys)

    def _clock(self, where: str, box: Aggregate, inputs: list[Schema]) -> None:
        """A clock must have the order attribute; windows of tuples cannot have a clock."""
        on, (mine, clock) = box.order.on, inputs
        if on == TUP or box.timeout is not None:
            raise BadInput(
                f"{where}: a clock cannot be used with {TUP} or a timeout.",
                hint="Remove one of them.",
                code="bad-network",
            )
        _check_known(f"{where}: the clock's column", on, clock, code=UNKNOWN_COLUMN)
        if UNKNOWN not in (mine[on], clock[on]) and mine[on] != clock[on]:
            raise BadInput(
                f"{where}: {on!r} is {spark_type(mine[on])} in the input and {spark_type(clock[on])} in the clock.",
                hint="Convert them to one type with a map box.",
                code="bad-type",
            )

    def _latest(self, where: str, box: Latest, inputs: list[Schema]) -> Schema:
        left, right = inputs
        for name in box.on:
            for schema in inputs:
                _check_known(f"{where}: column", name, schema, code=UNKNOWN_COLUMN)
            if UNKNOWN not in (left[name], right[name]) and left[name] != right[name]:
                here, there = spark_type(left[name]), spark_type(right[name])
                raise BadInput(
                    f"{where}: {name!r} is {here} on the left and {there} on the right.",
                    hint="Convert them to one type with a map box.",
                    code="bad-type",
                )
        return {out: inputs[side][name] for out, (side, name) in latest_columns(box, *inputs).items()}

    def _running(self, where: str, box: Running, schema: Schema) -> Schema:
        for name in box.group_by:
            _check_known(f"{where}: group_by column", name, schema, code=UNKNOWN_COLUMN)
        for name, text in box.functions.items():
            function = _parse_in(where, box_expressions.parse_call, text).function
            if function not in box_functions.RUNNING:
                raise BadInput(
                    f"{where}, column {name}: {function} over all tuples so far would have to keep all of them.",
                    hint=f"Use one of: {', '.join(box_functions.RUNNING)}.",
                    code="bad-network",
                )
        found = self._functions(where, box.functions, schema, schema)
        for name, type_ in found.items():
            if type_ not in (*_NUMBERS, UNKNOWN):
                raise BadInput(
                    f"{where}, column {name}: it is {spark_type(type_)}.",
                    hint="A running value must be a number.",
                    code="bad-type",
                )
        return schema | found

    def _functions(self, where: str, wanted: dict[str, str], schema: Schema, keys: Schema) -> Schema:
        if not wanted:
            raise BadInput(
                f"{where}: no window function.", hint='Give at least one, such as n: "count(*)".', code="missing-value"
            )
        found = {}
        for name, text in wanted.items():
            if name in keys:
                raise BadInput(
                    f"{where}: column {name!r} already exists.",
                    hint="Rename the result.",
                    code="duplicate-name",
                    found=name,
                )
            with locate(field=name):
                found[name] = self._function(f"{where}, column {name}", text, schema)
        return found

    def _function(self, where: str, text: str, schema: Schema) -> str:
        call = _parse_in(where, box_expressions.parse_call, text)
        user = box_functions.find_registered(call.function)
        if not user:
            _check_known(f"{where}: window function", call.function, box_functions.known())
        types = self._types(where, schema, {f"argument_{i}": a for i, a in enumerate(call.arguments)})
        if user:
            return user.returns
        if len(call.arguments) != 1 and not (call.function == "count" and not call.arguments):
            raise BadInput(
                f"{where}: {text!r} must have one argument.",
                hint="Write it as in SQL: avg(speed).",
                code="bad-expression",
            )
        if not call.arguments:
            return "integer"
        (argument,) = types.values()
        allowed = {
            "sum": _NUMBERS,
            "avg": _NUMBERS,
            "stddev": _NUMBERS,
            "bool_and": ("boolean",),
            "bool_or": ("boolean",),
        }
        if argument not in (*allowed.get(call.function, tuple(TYPES)), UNKNOWN):
            raise BadInput(
                f"{where}: {text!r}: the argument is {spark_type(argument)}.",
                hint=f"It takes: {', '.join(map(spark_type, allowed[call.function]))}.",
                code="bad-type",
            )
        return box_functions.SQL_AGGREGATES[call.function] or argument

    def _join(self, where: str, node: Node, box: Join, inputs: list[Schema]) -> Schema:
        names = join_columns(*inputs)
        flat = {f"{('left', 'right')[side]}_{name}": inputs[side][name] for side, name in names.values()}
        for qualifier, name in _parse_in(where, box_expressions.columns, box.predicate):
            if qualifier not in ("left", "right"):
                raise BadInput(
                    f"{where}: {name!r} is ambiguous.",
                    hint=f"Write left.{name} or right.{name}.",
                    code="ambiguous-name",
                )
            _check_known(f"{where}: column", name, inputs[qualifier == "right"], code=UNKNOWN_COLUMN)
        self._predicate(where, flat, box_expressions.rename_columns(box.predicate, _qualify))
        if box.outer and not self._checked.is_lookup(node):
            raise BadInput(
                f"{where}: outer requires a stored table.", hint="Remove it, or use a latest box.", code="bad-network"
            )
        if self._checked.is_lookup(node):
            if box.size is not None or box.left or box.right:
                raise BadInput(
                    f"{where}: a stored table has no window.", hint="Remove size, left and right.", code="bad-network"
                )
        else:
            self._window(where, box, inputs)
        return {out: inputs[side][name] for out, (side, name) in names.items()}

    def _window(self, where: str, box: Join, inputs: list[Schema]) -> None:
        if box.size is None or box.size < 0 or box.left is None or box.right is None:
            raise BadInput(
                f"{where}: a join of streams needs size, left and right.",
                hint="Give an order to each side.",
                code="missing-value",
            )
        for order, schema in zip((box.left, box.right), inputs, strict=True):
            self._order(where, order, schema)
        pairs = list(zip(box.left.group_by, box.right.group_by, strict=False))
        same = len(box.left.group_by) == len(box.right.group_by) and set(pairs) <= set(
            box_expressions.equalities(box.predicate)
        )
        if not same:
            raise BadInput(
                f"{where}: it could never discard a tuple, as a new group may always have older ones.",
                hint="Remove group_by, or group both sides by columns that the predicate equates.",
                code="bad-network",
            )

    def _resample(self, where: str, node: Node, box: Resample, inputs: list[Schema]) -> Schema:
        self._order(where, box.left, inputs[0])
        self._order(where, box.right, inputs[1])
        if box.size < 0 or (box.lag is not None and box.lag < 0):
            raise BadInput(f"{where}: size and lag must be 0 or more.", hint="Fix size or lag.", code="out-of-range")
        if box.left.group_by or TUP in (box.left.on, box.right.on):
            raise BadInput(
                f"{where}: the left order cannot have group_by, and neither side {TUP}.",
                hint="Name a column.",
                code="bad-network",
            )
        if box.lag is None:
            self._checked.warnings.append(f"{node.name}: keeps every left tuple for future groups; give a lag")
        keys = {name: inputs[1][name] for name in box.right.group_by} | {box.left.on: inputs[0][box.left.on]}
        return keys | self._functions(where, box.functions, inputs[1], keys)

    def _types(self, where: str, schema: Schema, wanted: dict[str, str]) -> Schema:
        """The types of some expressions over a schema."""
        for text in wanted.values():
            for qualifier, column in _parse_in(where, box_expressions.columns, text):
                if qualifier:
                    quoted = f"`{qualifier}.{column}`"
                    raise BadInput(
                        f"{where}: {text!r}: no {qualifier}.",
                        hint=f"Is it a column? Write {quoted}.",
                        code="unknown-name",
                        found=text,
                    )
                _check_known(f"{where}: {text!r}: column", column, schema, code=UNKNOWN_COLUMN)
            self._stored_tables(where, text)
        asked = [text for text in dict.fromkeys(wanted.values()) if not own_type(text, schema)]
        types = dict(zip(asked, self._spark_types(where, schema, asked), strict=True)) if asked else {}
        found = {name: own_type(text, schema) or types[text] for name, text in wanted.items()}
        for name, text in wanted.items():
            self._checked.types[text, _format_schema(schema)] = found[name]
            if found[name] == "text":
                self._longest = max(self._longest, bound_growth(text, schema))
        return found

    def _stored_tables(self, where: str, text: str) -> None:
        """Refuse users' functions that read tables which the network does not have."""
        stored = [table.name for table in self._checked.network.tables]
        for name in box_expressions.user_calls(text) & box_functions.with_tables():
            for table in box_functions.find_tables(name):
                _check_known(f"{where}: {name} reads the stored table", table, stored)

    def _spark_types(self, where: str, schema: Schema, texts: list[str]) -> list[str]:
        """The types that Spark infers, for all expressions at once; if it fails, one by one to find the cause."""
        if self._spark is None:
            return [_type_without_spark(text, schema) for text in texts]
        from pyspark.errors import PySparkException

        box_functions.install(self._spark, {name for text in texts for name in box_expressions.user_calls(text)})
        empty = self._spark.range(0).selectExpr(*(f"cast(null as {TYPES[t]}) as `{n}`" for n, t in schema.items()))
        try:
            asked = empty.selectExpr(*(f"({text}) as x{i}" for i, text in enumerate(texts)))
            found = asked.schema
        except PySparkException as error:
            if len(texts) == 1:
                hint = str(error).splitlines()[0]
                raise BadInput(
                    f"{where}: Spark rejects {texts[0]!r}.", hint=hint, code="bad-expression", found=texts[0]
                ) from error
            return [self._spark_types(where, schema, [text])[0] for text in texts]
        if not _is_deterministic(asked):
            raise BadInput(
                f"{where}: {', '.join(map(repr, texts))}: not deterministic.",
                hint="A network must give the same results when it runs again.",
                code="not-deterministic",
            )
        types = [column.dataType.simpleString() for column in found]
        return [_our_type(where, text, type_) for text, type_ in zip(texts, types, strict=True)]


def own_type(text: str, schema: Schema) -> str | None:
    """Return the type of an expression that is nothing but a column; None if it is more.

    >>> own_type("speed", {"speed": "integer"}), own_type("speed + 1", {"speed": "integer"})
    ('integer', None)
    """
    name = box_expressions.bare(text)
    return None if name is None else schema.get(name)


def _qualify(side: str, column: str) -> str:
    """A column of one side of a join, as one name."""
    return box_expressions.column(f"{side}_{column}")


def _parse_in(where: str, read: Callable[[str], Read], text: str) -> Read:
    """Parse an expression; errors name the box."""
    try:
        return read(text)
    except BadInput as error:
        located = error.within(where)
        located.found = text
        raise located from error


def _type_without_spark(text: str, schema: Schema) -> str:
    """The type of an expression that can be computed without Spark; unknown otherwise."""
    if UNKNOWN in schema.values():
        schema = {name: type_ for name, type_ in schema.items() if type_ != UNKNOWN}
    try:
        return translate(text, schema).type
    except (Untranslatable, BadInput):
        return UNKNOWN


def _is_deterministic(frame: Any) -> bool:
    """Whether Spark's plan is deterministic: a second check, in case Spark parses a text differently."""
    return bool(frame._jdf.queryExecution().analyzed().deterministic())


def _our_type(where: str, text: str, found: str) -> str:
    """Our name for the type that Spark infers for an expression."""
    plain = plain_type("double" if found.startswith("decimal") else found)
    if plain not in TYPES:
        raise BadInput(
            f"{where}: {text!r} is of type {found}.",
            hint=f"A column is one of: {', '.join(TYPES.values())}.",
            code="bad-expression",
            found=text,
        )
    return plain


def _same_schema(one: Schema, other: Schema) -> bool:
    """Whether two schemas are equal, as far as their types are known."""
    pairs = zip(one.values(), other.values(), strict=False)
    return list(one) == list(other) and all(a == b or UNKNOWN in (a, b) for a, b in pairs)


def _format_schema(schema: Schema) -> str:
    return ", ".join(f"{name} {spark_type(type_)}" for name, type_ in schema.items())
