"""Expressions of Streamonas-SQL, compiled into functions of columns, with mistakes shown at their place.

Kinds are checked when a query is read: a number per key, the text of a key, an atomic stream, a pattern, a condition.
NaN is SQL's NULL: a condition on it is unknown, and a condition knows what is surely true and what is surely false.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn, cast

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from slipstream._cuboid.declare import complain
from slipstream._cuboid.query import stream_functions
from slipstream._cuboid.query.access import Ring
from slipstream._cuboid.query.relations import View
from slipstream._cuboid.query.stream_functions import Pattern, take_element
from slipstream._cuboid.schema import AST, KEY, KEY_TEXT, Schema
from slipstream._sql.parsing import suggest
from slipstream._tools.numba_tools import Bools

Array = npt.NDArray[Any]
NUMBER, STREAM, PATTERN, TRUTH = "a number", "an atomic stream", "a pattern", "a condition"
TEXT = "text"
AGGREGATES = ("count", "sum", "avg", "min", "max")


class Truth(NamedTuple):
    """A condition in three-valued logic: the rows where it is true and those where it is false; others are unknown."""

    true: Bools
    false: Bools


@dataclass(frozen=True)
class Value:
    """A compiled expression."""

    kind: str
    of: Callable[[View], Any]


@dataclass(frozen=True)
class KeyAggregate:
    """An aggregate over keys; ``count(*)`` has no argument."""

    function: str
    argument: Value | None


_ARITHMETIC: dict[type[exp.Expr], Callable[[Any, Any], Any]] = {
    exp.Add: lambda a, b: a + b,
    exp.Sub: lambda a, b: a - b,
    exp.Mul: lambda a, b: a * b,
    exp.Div: lambda a, b: a / np.where(b == 0, np.nan, b),
    exp.Mod: lambda a, b: a % np.where(b == 0, np.nan, b),
}
_COMPARISONS: dict[type[exp.Expr], Callable[[Any, Any], Any]] = {
    exp.LT: np.less,
    exp.LTE: np.less_equal,
    exp.GT: np.greater,
    exp.GTE: np.greater_equal,
    exp.EQ: np.equal,
    exp.NEQ: np.not_equal,
}


def as_number(values: Any) -> Array:
    """Widen numbers for arithmetic: integers to 64 bits, others to double."""
    array = np.asarray(values)
    return array.astype(np.float64 if array.dtype.kind == "f" else np.int64, copy=False)


def to_plain_column(values: Any) -> Array:
    """Convert a column of numbers or texts to the type that expressions use."""
    return np.asarray(values, object) if np.asarray(values).dtype.kind in "OU" else as_number(values)


def _compare(compare: Callable[[Any, Any], Any], a: Array, b: Array) -> Truth:
    true = compare(a, b)
    known = ~(np.isnan(a) | np.isnan(b))
    return Truth(true & known, ~true & known)


def _compare_texts(compare: Callable[[Any, Any], Any], a: Array, b: Array) -> Truth:
    """Texts compare by their code points; a key is never missing."""
    true = np.asarray(compare(a, b), np.bool_)
    return Truth(true, ~true)


@dataclass
class Compiler:
    """Compiles the expressions of one query to functions of a view."""

    text: str
    schema: Schema
    patterns: Mapping[str, Pattern]
    functions: Mapping[str, Callable[..., Any]]
    groups: list[str] = field(default_factory=list)  # as sqlglot writes them
    aggregates: list[KeyAggregate] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)  # of the groups
    slots: dict[str, int] = field(default_factory=dict)

    def complain(self, node: exp.Expr, message: str) -> NoReturn:
        """Raise an error that points at a node."""
        marks = [found.meta for found in node.walk() if "start" in found.meta]
        start = min((mark["start"] for mark in marks), default=0)
        end = max((mark["end"] for mark in marks), default=len(self.text) - 1)
        complain(self.text, start, end, message)

    def number(self, node: exp.Expr) -> Value:
        """An expression that must be a number."""
        return self._expect(node, NUMBER)

    def compile_plain(self, node: exp.Expr) -> Value:
        """Compile an expression that must be a number or text."""
        value = self.compile_value(node)
        return value if value.kind == TEXT else self._expect(node, NUMBER)

    def compile_truth(self, node: exp.Expr) -> Value:
        """Compile an expression that must be a condition."""
        return self._expect(node, TRUTH)

    def _expect(self, node: exp.Expr, kind: str) -> Value:
        value = self.compile_value(node)
        if value.kind != kind:
            self.complain(node, f"{node.sql('spark')} is {value.kind}, {kind} is needed{_advise(value.kind)}")
        return value

    def compile_value(self, node: exp.Expr) -> Value:
        """Compile any expression."""
        slot = self.slots.get(node.sql("spark"))
        if slot is not None:
            return Value(self._find_kind(slot), lambda view: view.plain(f"${slot}"))
        for kind, compile_ in _BY_KIND:
            if isinstance(node, kind):
                return compile_(self, node)
        return self.complain(node, f"{node.sql('spark')} is not part of Streamonas-SQL")

    def _find_kind(self, slot: int) -> str:
        return self.kinds[slot] if slot < len(self.kinds) else NUMBER

    def _compile_inner(self, node: exp.Expr) -> Value:
        return self.compile_value(node.this)

    def _compile_negative(self, node: exp.Neg) -> Value:
        inner = self.number(node.this)
        return Value(NUMBER, lambda view: -as_number(inner.of(view)))

    def _compile_column(self, node: exp.Column) -> Value:
        name = node.name
        if node.table and node.table.lower() != self.schema.name.lower():
            self.complain(node, f"no cuboid '{node.table}' in this query; it is over {self.schema.name}")
        if name.lower() in (self.schema.key.lower(), KEY):
            if self.schema.text_key:
                return self._compile_attribute(node, Value(TEXT, lambda view: view.plain(KEY_TEXT)))
            return self._compile_attribute(node, Value(NUMBER, lambda view: view.plain(KEY)))
        if name.lower() in {known.lower() for known in self.schema.names}:
            attribute = self.schema.attribute(name)
            if isinstance(attribute, AST):
                return self._compile_attribute(node, Value(STREAM, lambda view: view.ring(attribute.name)))
            return self._compile_attribute(node, Value(NUMBER, lambda view: view.plain(attribute.name)))
        if name.lower() in self.patterns:
            pattern = self.patterns[name.lower()]
            return Value(PATTERN, lambda _: pattern)
        known = ", ".join((self.schema.key, *self.schema.names))
        stored = f"; patterns: {', '.join(self.patterns)}" if self.patterns else ""
        return self.complain(node, f"no attribute '{name}' in {self.schema.name}; it has {known}{stored}")

    def _compile_attribute(self, node: exp.Expr, value: Value) -> Value:
        if self.slots:
            self.complain(node, f"{node.sql('spark')} is neither grouped by nor in an aggregate")
        return value

    def _compile_literal(self, node: exp.Literal) -> Value:
        if node.is_string:
            if not self.schema.text_key:
                self.complain(node, f"text {node.sql('spark')}: {self.schema.name} holds numbers, and its key is one")
            text = str(node.this)
            return Value(TEXT, lambda _: np.asarray(text, object))
        is_whole = node.this.isdecimal() and len(node.this) <= 18  # what 64 bits hold
        try:
            given = int(node.this) if is_whole else float(node.this)
        except ValueError:
            self.complain(node, f"{node.this} is not a number")
        return Value(NUMBER, lambda _: np.asarray(given))

    def _compile_bracket(self, node: exp.Bracket) -> Value:
        stream = self.compile_value(node.this)
        if stream.kind != STREAM:
            self.complain(node, f"{node.this.sql('spark')} is {stream.kind}; only an atomic stream has elements")
        place = node.expressions[0]
        if isinstance(place, exp.Slice):
            if place.this is not None or place.expression is not None:
                self.complain(node, "the only range of elements is [:]")
            return stream
        back = place.this if isinstance(place, exp.Neg) else place
        if not (isinstance(back, exp.Literal) and not back.is_string and back.this.isdecimal() and len(back.this) < 10):
            self.complain(node, "the index of an element is a number: [0] is the latest, [-5] the sixth latest")
        number = int(back.this)
        if number and not isinstance(place, exp.Neg):
            self.complain(node, f"[{number}] is in the future: [0] is the latest, [-{number}] is {number} before")
        depth = self.schema.stream(node.this.name).depth
        if number >= depth:
            self.complain(node, f"{node.this.name} keeps {depth} elements; the oldest is [-{depth - 1}]")
        return Value(NUMBER, lambda view: _take_element(stream.of(view), number))

    def _compile_binary(self, node: exp.Expr) -> Value:
        if type(node) in _COMPARISONS:
            compare = _COMPARISONS[type(node)]
            a, b = self.compile_plain(node.this), self.compile_plain(node.expression)
            if a.kind != b.kind:
                self.complain(node, f"{node.sql('spark')} compares {a.kind} with {b.kind}")
            if a.kind == TEXT:
                return Value(TRUTH, lambda view: _compare_texts(compare, a.of(view), b.of(view)))
            return Value(TRUTH, lambda view: _compare(compare, as_number(a.of(view)), as_number(b.of(view))))
        operate = _ARITHMETIC[type(node)]
        a, b = self.number(node.this), self.number(node.expression)
        return Value(NUMBER, lambda view: operate(as_number(a.of(view)), as_number(b.of(view))))

    def _compile_logic(self, node: exp.Expr) -> Value:
        if isinstance(node, exp.Not):
            inner = self.compile_truth(node.this)
            return Value(TRUTH, lambda view: Truth(*inner.of(view)[::-1]))
        if isinstance(node, exp.Between):
            low, high = exp.GTE(this=node.this, expression=node.args["low"]), node.args["high"]
            return self._compile_logic(exp.And(this=low, expression=exp.LTE(this=node.this, expression=high)))
        if isinstance(node, exp.In):
            if not node.expressions:
                self.complain(node, "IN takes a list of values")
            tests = [self._compile_binary(exp.EQ(this=node.this, expression=item)) for item in node.expressions]
            return Value(TRUTH, lambda view: _combine_any([test.of(view) for test in tests]))
        if isinstance(node, exp.Is):
            if not isinstance(node.expression, exp.Null):
                self.complain(node, "IS is followed by NULL or NOT NULL")
            tested = self.number(node.this)
            return Value(TRUTH, lambda view: _is_null(as_number(tested.of(view))))
        a, b = self.compile_truth(node.this), self.compile_truth(node.expression)
        if isinstance(node, exp.Or):
            return Value(TRUTH, lambda view: _combine_any([a.of(view), b.of(view)]))
        return Value(TRUTH, lambda view: _combine_all(a.of(view), b.of(view)))

    def _call(self, node: exp.Func) -> Value:
        name = self._name(node)
        arguments = node.expressions if isinstance(node, exp.Anonymous) else _list_arguments(node)
        if name == "count" and isinstance(node.this, exp.Star):
            return self._compile_aggregate(node, KeyAggregate("count", None))
        if name not in stream_functions.BUILT_IN and name not in self.functions and name not in AGGREGATES:
            known = sorted({*stream_functions.BUILT_IN, *self.functions, *AGGREGATES})
            self.complain(
                node, f"no function '{name[:60]}'; {suggest(name, known).lower()}there are {', '.join(known)}"
            )
        saved, self.slots = self.slots, {}
        values = [self.compile_value(argument) for argument in arguments]
        self.slots = saved
        if not values:
            self.complain(node, f"{name}() needs an argument")
        if values[0].kind == NUMBER and name in AGGREGATES and len(values) == 1:
            return self._compile_aggregate(node, KeyAggregate(name, values[0]))
        if values[0].kind == TEXT and name == "count" and len(values) == 1:
            # every row has a key
            return self._compile_aggregate(node, KeyAggregate(name, None))
        return self._compile_atomic(node, name, values)

    def _compile_atomic(self, node: exp.Func, name: str, values: list[Value]) -> Value:
        """A function over atomic streams."""
        if values[0].kind != STREAM or any(value.kind == TRUTH for value in values):
            self.complain(node, f"{name} takes an atomic stream, not {values[0].kind}")
        if name not in stream_functions.BUILT_IN and name not in self.functions:
            self.complain(node, f"{name} takes a number per key, such as {name}(stream[0]), not an atomic stream")
        if name == "delta" and any(argument.find(exp.Column) for argument in node.expressions[1:]):
            self.complain(node, "the second argument of delta must be the same for every key")
        streams = 2 if name in ("correlation", "correlation_function", "corr") else 1
        most = streams + (name == "delta")
        if name in stream_functions.BUILT_IN and not streams <= len(values) <= most:
            self.complain(node, f"{name} takes {streams} argument{'s' * (streams > 1)}, not {len(values)}")
        if streams == 2 and values[1].kind not in (STREAM, PATTERN):
            self.complain(node, f"{name} compares with an atomic stream or a pattern, not {values[1].kind}")
        if streams == 2 and values[1].kind == PATTERN:
            self._check_fits(node, values[1])
        if self.slots:
            self.complain(node, f"{node.sql('spark')} is neither grouped by nor in an aggregate")
        more = dict(self.functions)
        return Value(
            NUMBER, lambda view: stream_functions.call(name, [_evaluate_argument(v, view) for v in values], more)
        )

    def _check_fits(self, node: exp.Func, value: Value) -> None:
        pattern = cast(Pattern, value.of(cast(View, None)))
        column = node.find(exp.Column)
        assert column is not None
        depth = self.schema.stream(column.name).depth
        if len(pattern.values) > depth:
            self.complain(
                node, f"pattern {pattern.name} has {len(pattern.values)} elements, {column.name} keeps {depth}"
            )

    def _compile_aggregate(self, node: exp.Func, aggregate: KeyAggregate) -> Value:
        if not self.slots:
            self.complain(node, f"the aggregate {node.sql('spark')} is not allowed here")
        place = len(self.groups) + len(self.aggregates)
        self.aggregates.append(aggregate)
        self.slots[node.sql("spark")] = place
        return Value(NUMBER, lambda view: view.plain(f"${place}"))

    def _name(self, node: exp.Func) -> str:
        """The function's name as it was written."""
        if "start" in node.meta:
            return self.text[node.meta["start"] : node.meta["end"] + 1].lower()
        return str(node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()


def _take_element(ring: Ring, back: int) -> Array:
    return take_element(ring.values, ring.counts, back)


def _list_arguments(node: exp.Func) -> list[exp.Expr]:
    found = [node.this, node.args.get("expression"), *node.expressions]
    return [argument for argument in found if isinstance(argument, exp.Expr)]


def _evaluate_argument(value: Value, view: View) -> Any:
    given = value.of(view)
    return float(given) if value.kind == NUMBER and np.ndim(given) == 0 else given


def _advise(kind: str) -> str:
    return "; write [0] for its latest element, or a function such as avg(...)" if kind == STREAM else ""


def _combine_any(parts: list[Truth]) -> Truth:
    true, false = parts[0]
    for part in parts[1:]:
        true, false = true | part.true, false & part.false
    return Truth(true, false)


def _combine_all(a: Truth, b: Truth) -> Truth:
    return Truth(a.true & b.true, a.false | b.false)


def _is_null(values: Array) -> Truth:
    null = np.isnan(values)
    return Truth(null, ~null)


_BY_KIND: tuple[tuple[Any, Callable[[Compiler, Any], Value]], ...] = (
    ((exp.Paren, exp.Alias), Compiler._compile_inner),
    (exp.Column, Compiler._compile_column),
    (exp.Literal, Compiler._compile_literal),
    (exp.Bracket, Compiler._compile_bracket),
    (exp.Neg, Compiler._compile_negative),
    ((exp.And, exp.Or, exp.Not, exp.In, exp.Between, exp.Is), Compiler._compile_logic),
    ((*_ARITHMETIC, *_COMPARISONS), Compiler._compile_binary),
    (exp.Func, Compiler._call),
)
