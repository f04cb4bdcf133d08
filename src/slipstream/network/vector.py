"""Expressions over columns: what Spark makes of an expression, computed with NumPy where the tuples are.

A box that runs inside a stage must not hand its tuples to Spark's rows and take them back. So the expressions that
networks are mostly made of are compiled into functions of columns, with Spark's meaning: three-valued logic, ANSI
arithmetic (an overflow or a division by zero is an error, unless a branch not taken hides it), exact decimals, NaN
above all numbers. ``translate`` refuses what it does not know, and Spark computes that; the tests hold the two against
each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from slipstream.errors import BadInput
from slipstream.kernels import Bools
from slipstream.network import expressions, functions
from slipstream.network.windows import NULL_INTEGER, nulls

Array: TypeAlias = npt.NDArray[Any]

_LOWEST, _HIGHEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
#: digits of a decimal that Spark keeps exactly
_MOST_DIGITS = 38
_NONE = np.zeros((), dtype=bool)


class Untranslatable(Exception):
    """An expression that only Spark can compute."""


class Type(NamedTuple):
    """A type of Spark's: of an integer its bits, of a decimal its digits before and behind the point."""

    kind: str
    size: int = 0
    scale: int = 0


LONG, INT, DOUBLE, BOOLEAN = Type("integer", 64), Type("integer", 32), Type("float"), Type("boolean")
TEXT, NULL = Type("text"), Type("null")
OF_COLUMN = {"integer": LONG, "float": DOUBLE, "boolean": BOOLEAN, "text": TEXT}


class Column(NamedTuple):
    """Values, where they are null, and where computing them failed; arrays of one length, or of none for constants."""

    values: Array
    null: Bools
    bad: Bools


Function: TypeAlias = Callable[[Mapping[str, Column]], Column]


@dataclass(frozen=True)
class Expression:
    """An expression that was translated: its text, its type and what computes it."""

    text: str
    type: str
    columns: frozenset[str]
    compute: Function

    def over(self, columns: Mapping[str, Array], count: int) -> Array:
        """The expression for each tuple, encoded as columns are between boxes."""
        with np.errstate(all="ignore"):
            found = self.compute({name: decode(columns[name]) for name in self.columns})
        if found.bad.any():
            first = int(np.argmax(np.broadcast_to(found.bad, (count,))))
            tuple_ = ", ".join(f"{name} = {columns[name][first]}" for name in sorted(self.columns))
            raise BadInput(
                f"{self.text!r}: an overflow or a division by zero{' where ' * bool(tuple_)}{tuple_}.",
                hint="Filter out such tuples before it, or use try_divide, nullif or CASE.",
            )
        return encode(found, self.type, count)


def translate(text: str, schema: Mapping[str, str]) -> Expression:
    """The function of columns that an expression is; ``Untranslatable`` if only Spark can compute it.

    >>> fast = translate("speed > 3 * limit", {"speed": "integer", "limit": "integer"})
    >>> fast.over({"speed": np.array([10, 9]), "limit": np.array([3, 3])}, 2)
    array([1, 0])
    """
    tree = expressions.parse(text)
    typed = _Translator({name.lower(): (name, type_) for name, type_ in schema.items()})
    type_, compute = typed.value(tree)
    if type_.kind not in OF_COLUMN:
        raise Untranslatable(text)
    return Expression(text, type_.kind, frozenset(typed.used), compute)


def decode(values: Array) -> Column:
    """A column as it travels between boxes: null is the lowest integer, NaN or None."""
    null = nulls(values)
    if values.dtype.kind != "f" and null.any():
        values = np.where(null, "" if values.dtype == object else 0, values)
    return Column(values, null, _NONE)


def encode(column: Column, type_: str, count: int) -> Array:
    """A column as it travels between boxes; truth values are integers there."""
    dtype: Any = {"float": np.float64, "text": object}.get(type_, np.int64)
    values = np.broadcast_to(column.values, (count,)).astype(dtype, copy=False)
    if not column.null.any():
        return values
    missing: Any = {"float": np.nan, "text": None}.get(type_, NULL_INTEGER)
    return np.where(np.broadcast_to(column.null, (count,)), missing, values).astype(dtype, copy=False)


class _Translator:
    def __init__(self, schema: Mapping[str, tuple[str, str]]) -> None:
        self._schema = schema
        self.used: set[str] = set()

    def value(self, node: exp.Expr) -> tuple[Type, Function]:
        if isinstance(node, exp.Paren):
            return self.value(node.this)
        for kind in type(node).__mro__:
            if found := _RULES.get(kind):
                return found(self, node)
        raise Untranslatable(node.sql())

    def values(self, nodes: Sequence[exp.Expr]) -> list[tuple[Type, Function]]:
        return [self.value(node) for node in nodes]

    def same(self, nodes: Sequence[exp.Expr]) -> tuple[Type, list[Function]]:
        """Expressions of which one is chosen: the type all are brought to."""
        found = self.values(nodes)
        type_ = reduce(_wider, (type_ for type_, _ in found))
        return type_, [_as(type_, have, compute) for have, compute in found]

    def truth(self, node: exp.Expr) -> Function:
        type_, compute = self.value(node)
        if type_.kind not in ("boolean", "null"):
            raise Untranslatable(node.sql())
        return _as(BOOLEAN, type_, compute)

    def comparable(self, left: exp.Expr, right: exp.Expr) -> tuple[Function, Function]:
        """Two values in the type in which they are compared."""
        _, (one, two) = self.same([left, right])
        return one, two

    def doubles(self, nodes: Sequence[exp.Expr]) -> list[Function]:
        found = self.values(nodes)
        return [_as(DOUBLE, _numeric(type_) if type_ != NULL else NULL, compute) for type_, compute in found]

    def texts(self, nodes: Sequence[exp.Expr]) -> list[Function]:
        found = self.values(nodes)
        if any(type_.kind not in ("text", "null") for type_, _ in found):
            raise Untranslatable("a text of a number")
        return [_as(TEXT, type_, compute) for type_, compute in found]

    def column(self, node: exp.Column) -> tuple[Type, Function]:
        name = f"{node.table}.{node.name}" if node.table else node.name
        if name.lower() not in self._schema:
            raise Untranslatable(name)
        own, kind = self._schema[name.lower()]
        self.used.add(own)
        if kind == "boolean":
            return BOOLEAN, lambda columns: columns[own]._replace(values=columns[own].values == 1)
        return OF_COLUMN[kind], lambda columns: columns[own]


# --- types


def _wider(a: Type, b: Type) -> Type:
    """The type in which Spark compares or adds values of two types."""
    if b in (a, NULL):
        return a
    if a == NULL:
        return b
    kinds = {a.kind, b.kind}
    if not kinds <= {"integer", "float", "decimal"}:
        raise Untranslatable(f"{a.kind} and {b.kind}")
    if "float" in kinds:
        return DOUBLE
    if kinds == {"integer"}:
        return LONG
    one, two = _decimal(a), _decimal(b)
    scale = max(one.scale, two.scale)
    return _bounded(max(one.size - one.scale, two.size - two.scale) + scale, scale)


def _decimal(type_: Type) -> Type:
    if type_.kind == "integer":
        return Type("decimal", 20 if type_.size == 64 else 10, 0)
    return type_


def _bounded(size: int, scale: int) -> Type:
    if size > _MOST_DIGITS:
        raise Untranslatable(f"decimal({size}, {scale})")
    return Type("decimal", size, scale)


def _as(wanted: Type, have: Type, compute: Function) -> Function:
    """A value brought to a wider type."""
    if have == wanted or (have.kind, wanted.kind) == ("integer", "integer"):
        return compute
    if have == NULL:
        zero: Any = "" if wanted.kind == "text" else 0
        dtype: Any = {"float": np.float64, "text": object, "boolean": bool}.get(wanted.kind, np.int64)
        return lambda _: Column(np.array(zero, dtype), np.ones((), dtype=bool), _NONE)
    if wanted.kind == "float":
        return lambda columns: _map(compute(columns), lambda values: _to_double(values, have.scale))
    if wanted.kind == "decimal":
        factor = 10 ** (wanted.scale - _decimal(have).scale)
        return lambda columns: _map(compute(columns), lambda values: _times(values, np.array(factor, object)))
    raise Untranslatable(f"{have.kind} as {wanted.kind}")


def _to_double(values: Array, scale: int) -> Array:
    if values.dtype != object:
        return values.astype(np.float64) / 10.0**scale if scale else values.astype(np.float64)
    return np.array([int(value) / 10**scale for value in values.ravel()], np.float64).reshape(values.shape)


def _map(column: Column, function: Callable[[Array], Array]) -> Column:
    return column._replace(values=np.asarray(function(column.values)))


def _strict(parts: Sequence[Column], values: Array) -> Column:
    """Null where a part is; what comes behind a part that is null is not computed, so it cannot fail."""
    null, bad = parts[0].null, parts[0].bad
    for part in parts[1:]:
        bad = bad | (part.bad & ~null)
        null = null | part.null
    return Column(values, null, bad)


def _failing(column: Column, where: Bools) -> Column:
    """The column, failed where ``where`` says so and it is not null anyway."""
    return column._replace(bad=column.bad | (where & ~column.null))


# --- arithmetic


def _times(a: Array, b: Array) -> Array:
    """Products of whole numbers, as wide as they need to be."""
    if object in (a.dtype, b.dtype) or _largest(a) * _largest(b) > _HIGHEST:
        return _narrow(a.astype(object) * b.astype(object))
    return a * b


def _sum(a: Array, b: Array) -> Array:
    if object in (a.dtype, b.dtype) or _largest(a) + _largest(b) > _HIGHEST:
        return _narrow(a.astype(object) + b.astype(object))
    return a + b


def _difference(a: Array, b: Array) -> Array:
    if object in (a.dtype, b.dtype) or _largest(a) + _largest(b) > _HIGHEST:
        return _narrow(a.astype(object) - b.astype(object))
    return a - b


def _largest(values: Array) -> int:
    """The largest amount among whole numbers."""
    return max(abs(int(values.max())), abs(int(values.min()))) if values.size else 0


def _narrow(values: Any) -> Array:
    """Whole numbers of any size as 64-bit ones, if they are."""
    array = np.asarray(values, object)
    if array.size and (max(array.ravel()) > _HIGHEST or min(array.ravel()) < _LOWEST):
        return array
    return array.astype(np.int64)


def _fit(column: Column, size: int) -> Column:
    """Integers of so many bits: those that are larger have failed."""
    low, high = -(1 << (size - 1)), (1 << (size - 1)) - 1
    values = column.values
    if values.dtype != object and size == 64:
        return column
    over = (values > high) | (values < low)
    return _failing(column, np.asarray(over, bool))._replace(values=np.where(over, 0, values).astype(np.int64))


# --- one rule for each kind of node: its type, and what computes it

Rule: TypeAlias = Callable[[_Translator, Any], tuple[Type, Function]]
_RULES: dict[type[exp.Expr], Rule] = {}


def _rule(*kinds: type[exp.Expr]) -> Callable[[Rule], Rule]:
    def note(rule: Rule) -> Rule:
        _RULES.update(dict.fromkeys(kinds, rule))
        return rule

    return note


def _strictly(type_: Type, parts: Sequence[Function], operation: Callable[..., Any]) -> tuple[Type, Function]:
    """A function that is null where an argument is."""

    def compute(columns: Mapping[str, Column]) -> Column:
        found = [part(columns) for part in parts]
        return _strict(found, np.asarray(operation(*(part.values for part in found))))

    return type_, compute


def _constant(type_: Type, value: Any) -> tuple[Type, Function]:
    dtype: Any = {"float": np.float64, "text": object, "boolean": bool}.get(type_.kind, np.int64)
    made = Column(np.array(value, dtype), _NONE, _NONE)
    return type_, lambda _: made


@_rule(exp.Column)
def _column(self: _Translator, node: exp.Column) -> tuple[Type, Function]:
    return self.column(node)


@_rule(exp.Null)
def _null(_: _Translator, __: exp.Null) -> tuple[Type, Function]:
    return NULL, lambda _: Column(np.zeros((), np.int64), np.ones((), dtype=bool), _NONE)


@_rule(exp.Boolean)
def _boolean(_: _Translator, node: exp.Boolean) -> tuple[Type, Function]:
    return _constant(BOOLEAN, bool(node.this))


@_rule(exp.Literal)
def _literal(self: _Translator, node: exp.Literal) -> tuple[Type, Function]:
    del self
    text = str(node.this)
    if node.is_string:
        return _constant(TEXT, text)
    if text.isdigit():
        if int(text) > _HIGHEST:
            raise Untranslatable(text)
        return _constant(INT if int(text) < 1 << 31 else LONG, int(text))
    if "e" in text.lower():
        return _constant(DOUBLE, float(text))
    whole, _, part = text.partition(".")
    digits = (whole.lstrip("0") + part) or "0"
    if len(digits) > 18:
        raise Untranslatable(text)
    return _constant(_bounded(max(len(digits), len(part)), len(part)), int(digits))


@_rule(exp.Pi)
def _pi(_: _Translator, __: exp.Pi) -> tuple[Type, Function]:
    return _constant(DOUBLE, np.pi)


_EXACT: dict[type[exp.Expr], Callable[[Array, Array], Array]] = {
    exp.Add: _sum,
    exp.Sub: _difference,
    exp.Mul: _times,
}
_ROUNDED: dict[type[exp.Expr], Callable[[Array, Array], Array]] = {
    exp.Add: np.add,
    exp.Sub: np.subtract,
    exp.Mul: np.multiply,
}


@_rule(*_EXACT)
def _arithmetic(self: _Translator, node: exp.Binary) -> tuple[Type, Function]:
    (a, one), (b, two) = self.value(node.this), self.value(node.expression)
    type_ = _numeric(_wider(a, b))
    if type_.kind == "decimal" and isinstance(node, exp.Mul):
        a, b = _decimal(a), _decimal(b)
        return _strictly(_bounded(a.size + b.size + 1, a.scale + b.scale), (one, two), _times)
    parts = (_as(type_, a, one), _as(type_, b, two))
    if type_.kind == "float":
        return _strictly(DOUBLE, parts, _ROUNDED[type(node)])
    if type_.kind == "decimal":
        return _strictly(_bounded(type_.size + 1, type_.scale), parts, _EXACT[type(node)])
    _, exact = _strictly(type_, parts, _EXACT[type(node)])
    return type_, lambda columns: _fit(exact(columns), type_.size)


@_rule(exp.Neg, exp.Negative)
def _negative(self: _Translator, node: exp.Expr) -> tuple[Type, Function]:
    type_, of = self.value(node.this)
    _numeric(type_)
    if type_.kind == "float":
        return _strictly(type_, [of], np.negative)
    _, exact = _strictly(type_, [of], lambda values: _difference(np.zeros((), np.int64), values))
    return type_, (lambda columns: _fit(exact(columns), type_.size)) if type_.kind == "integer" else exact


def _numeric(type_: Type) -> Type:
    if type_.kind not in ("integer", "float", "decimal"):
        raise Untranslatable(type_.kind)
    return type_


@_rule(exp.Div, exp.SafeDivide)
def _quotient(self: _Translator, node: exp.Binary) -> tuple[Type, Function]:
    """``/`` is a double unless decimals are divided; ``try_divide`` is null where that fails."""
    (a, one), (b, two) = self.value(node.this), self.value(node.expression)
    if "decimal" in (a.kind, b.kind) and "float" not in (a.kind, b.kind):
        raise Untranslatable("a quotient of decimals")
    _numeric(_wider(a, b))
    one, two, safe = _as(DOUBLE, a, one), _as(DOUBLE, b, two), isinstance(node, exp.SafeDivide)

    def compute(columns: Mapping[str, Column]) -> Column:
        x, y = one(columns), two(columns)
        zero = y.values == 0
        found = _strict((x, y), x.values / np.where(zero, 1.0, y.values))
        return found._replace(null=found.null | zero) if safe else _failing(found, zero)

    return DOUBLE, compute


@_rule(exp.IntDiv, exp.Mod)
def _division(self: _Translator, node: exp.Binary) -> tuple[Type, Function]:
    """``div`` and ``%`` of integers: towards zero, a remainder has the sign of what is divided."""
    (a, one), (b, two) = self.value(node.this), self.value(node.expression)
    if (a.kind, b.kind) != ("integer", "integer"):
        raise Untranslatable(node.sql())
    rest = isinstance(node, exp.Mod)

    def compute(columns: Mapping[str, Column]) -> Column:
        x, y = one(columns), two(columns)
        zero = y.values == 0
        by = np.where(zero, 1, y.values)
        rests = np.fmod(x.values, by)
        found = _strict((x, y), rests if rest else (x.values - rests) // by)
        found = _failing(found, zero)
        return found if rest else _failing(found, (x.values == _LOWEST) & (by == -1))

    return LONG if not rest else _wider(a, b), compute


# --- truth


def _bits(a: Array, b: Array) -> tuple[Array, Array]:
    return np.isnan(a), np.isnan(b)


def _equal(a: Array, b: Array) -> Array:
    found = a == b
    if a.dtype.kind == "f":
        one, two = _bits(a, b)
        found = found | (one & two)
    return np.asarray(found, bool)


def _less(a: Array, b: Array) -> Array:
    """NaN is above all numbers."""
    found = a < b
    if a.dtype.kind == "f":
        one, two = _bits(a, b)
        found = found | (two & ~one)
    return np.asarray(found, bool)


_COMPARISONS: dict[type[exp.Expr], Callable[[Array, Array], Array]] = {
    exp.EQ: _equal,
    exp.NEQ: lambda a, b: ~_equal(a, b),
    exp.LT: _less,
    exp.GTE: lambda a, b: ~_less(a, b),
    exp.GT: lambda a, b: _less(b, a),
    exp.LTE: lambda a, b: ~_less(b, a),
}


@_rule(*_COMPARISONS)
def _comparison(self: _Translator, node: exp.Binary) -> tuple[Type, Function]:
    return _strictly(BOOLEAN, self.comparable(node.this, node.expression), _COMPARISONS[type(node)])


@_rule(exp.NullSafeEQ, exp.EqualNull)
def _same(self: _Translator, node: exp.Binary) -> tuple[Type, Function]:
    one, two = self.comparable(node.this, node.expression)

    def compute(columns: Mapping[str, Column]) -> Column:
        a, b = one(columns), two(columns)
        both = a.null & b.null
        found = both | (~a.null & ~b.null & _equal(a.values, b.values))
        return Column(np.asarray(found, bool), _NONE, a.bad | b.bad)

    return BOOLEAN, compute


@_rule(exp.Between)
def _between(self: _Translator, node: exp.Between) -> tuple[Type, Function]:
    low, high = (
        exp.GTE(this=node.this, expression=node.args["low"]),
        exp.LTE(this=node.this, expression=node.args["high"]),
    )
    return self.value(exp.And(this=low, expression=high))


@_rule(exp.In)
def _in(self: _Translator, node: exp.In) -> tuple[Type, Function]:
    tests: list[exp.Expr] = [exp.EQ(this=node.this, expression=option) for option in node.expressions]
    # all options are brought to one type in Spark; a text among numbers is not for us
    self.same([node.this, *node.expressions])
    return self.value(reduce(lambda a, b: exp.Or(this=a, expression=b), tests[1:], tests[0]))


@_rule(exp.Is)
def _is(self: _Translator, node: exp.Is) -> tuple[Type, Function]:
    if isinstance(node.expression, exp.Null):
        return _is_null(self, node.this)
    if not isinstance(node.expression, exp.Boolean):
        raise Untranslatable(node.sql())
    of, wanted = self.truth(node.this), bool(node.expression.this)

    def compute(columns: Mapping[str, Column]) -> Column:
        found = of(columns)
        return Column(~found.null & (found.values == wanted), _NONE, found.bad)

    return BOOLEAN, compute


def _is_null(self: _Translator, node: exp.Expr) -> tuple[Type, Function]:
    _, of = self.value(node)

    def compute(columns: Mapping[str, Column]) -> Column:
        found = of(columns)
        return Column(np.asarray(found.null, bool), _NONE, found.bad)

    return BOOLEAN, compute


@_rule(exp.Not)
def _not(self: _Translator, node: exp.Not) -> tuple[Type, Function]:
    return _strictly(BOOLEAN, [self.truth(node.this)], np.logical_not)


@_rule(exp.And, exp.Or)
def _and(self: _Translator, node: exp.Connector) -> tuple[Type, Function]:
    """The right side counts only where the left has not decided: what fails there is not looked at."""
    one, two = self.truth(node.this), self.truth(node.expression)
    decides = isinstance(node, exp.Or)

    def compute(columns: Mapping[str, Column]) -> Column:
        a, b = one(columns), two(columns)
        first, second = ~a.null & (a.values == decides), ~b.null & (b.values == decides)
        decided = first | second
        values = decided if decides else ~decided
        return Column(values, ~decided & (a.null | b.null), a.bad | (b.bad & ~first))

    return BOOLEAN, compute


# --- choices


@_rule(exp.If)
def _if(self: _Translator, node: exp.If) -> tuple[Type, Function]:
    return _choice(self, [(node.this, node.args["true"])], node.args.get("false") or exp.Null())


@_rule(exp.Nvl2)
def _nvl2(self: _Translator, node: exp.Nvl2) -> tuple[Type, Function]:
    test = exp.Not(this=exp.Is(this=node.this, expression=exp.Null()))
    return _choice(self, [(test, node.args["true"])], node.args["false"])


@_rule(exp.Case)
def _case(self: _Translator, node: exp.Case) -> tuple[Type, Function]:
    ways = []
    for way in node.args["ifs"]:
        test = exp.EQ(this=node.this, expression=way.this) if node.this else way.this
        ways.append((test, way.args["true"]))
    return _choice(self, ways, node.args.get("default") or exp.Null())


@_rule(exp.Nullif)
def _nullif(self: _Translator, node: exp.Nullif) -> tuple[Type, Function]:
    return _choice(self, [(exp.EQ(this=node.this, expression=node.expression), exp.Null())], node.this)


@_rule(exp.Coalesce)
def _coalesce(self: _Translator, node: exp.Coalesce) -> tuple[Type, Function]:
    type_, parts = self.same([node.this, *node.expressions])

    def compute(columns: Mapping[str, Column]) -> Column:
        found = parts[-1](columns)
        for part in reversed(parts[:-1]):
            here = part(columns)
            found = _chosen(Column(~here.null, _NONE, here.bad), here, found)
        return found

    return type_, compute


def _choice(self: _Translator, ways: Sequence[tuple[exp.Expr, exp.Expr]], rest: exp.Expr) -> tuple[Type, Function]:
    if any(isinstance(test, exp.Null) for test, _ in ways):
        raise Untranslatable("a condition without a type")
    tests = [self.truth(test) for test, _ in ways]
    type_, parts = self.same([*(value for _, value in ways), rest])

    def compute(columns: Mapping[str, Column]) -> Column:
        found = parts[-1](columns)
        for test, part in zip(reversed(tests), reversed(parts[:-1]), strict=True):
            found = _chosen(test(columns), part(columns), found)
        return found

    return type_, compute


def _chosen(test: Column, yes: Column, no: Column) -> Column:
    """One of two where a test holds, the other where it does not or is unknown; only what is chosen can fail."""
    here = np.asarray(test.values & ~test.null, bool)
    values, null, bad = (np.where(here, a, b) for a, b in zip(yes, no, strict=True))
    return Column(values, null, bad | test.bad)


@_rule(exp.Greatest, exp.Least)
def _extreme(self: _Translator, node: exp.Expr) -> tuple[Type, Function]:
    """The largest or smallest of those that are not null."""
    type_, parts = self.same([node.this, *node.expressions])
    greatest = isinstance(node, exp.Greatest)
    if type_.kind not in ("integer", "float", "decimal"):
        raise Untranslatable(node.sql())

    def compute(columns: Mapping[str, Column]) -> Column:
        found = parts[0](columns)
        for part in parts[1:]:
            other = part(columns)
            better = _less(found.values, other.values) if greatest else _less(other.values, found.values)
            take = ~other.null & (found.null | better)
            values = np.where(take, other.values, found.values)
            found = Column(values, found.null & other.null, found.bad | other.bad)
        return found

    return type_, compute


# --- casts and functions

_CASTS = {"BIGINT": LONG, "INT": INT, "DOUBLE": DOUBLE, "BOOLEAN": BOOLEAN, "TEXT": TEXT}


@_rule(exp.Cast)
def _cast(self: _Translator, node: exp.Cast) -> tuple[Type, Function]:
    wanted = _CASTS.get(node.to.this.name)
    if wanted is None or node.to.expressions or node.args.get("safe"):
        raise Untranslatable(node.sql())
    type_, of = self.value(node.this)
    pair = (type_.kind, wanted.kind)
    if type_ in (NULL, wanted) or pair in (("integer", "float"), ("decimal", "float")):
        return wanted, _as(wanted, type_, of)
    if pair == ("integer", "integer"):
        return wanted, (lambda columns: _fit(of(columns), wanted.size)) if wanted.size < type_.size else of
    if pair == ("float", "integer"):
        return wanted, lambda columns: _truncated(of(columns), wanted.size)
    if pair == ("boolean", "integer"):
        return _strictly(wanted, [of], lambda values: values.astype(np.int64))
    if pair == ("integer", "text"):
        return _strictly(TEXT, [of], np.vectorize(str, otypes=[object]))
    raise Untranslatable(node.sql())


def _truncated(column: Column, size: int) -> Column:
    """Doubles as integers, towards zero; those that are none, or too large, have failed."""
    limit = 2.0 ** (size - 1)
    whole = np.trunc(column.values)
    over = ~((whole >= -limit) & (whole < limit))
    return _failing(column, over)._replace(values=np.where(over, 0, whole).astype(np.int64))


@_rule(exp.Floor, exp.Ceil)
def _floor(self: _Translator, node: exp.Expr) -> tuple[Type, Function]:
    type_, of = self.value(node.this)
    if node.args.get("decimals") or type_.kind not in ("integer", "float"):
        raise Untranslatable(node.sql())
    if type_.kind == "integer":
        return LONG, of
    rounded = np.floor if isinstance(node, exp.Floor) else np.ceil
    return LONG, lambda columns: _truncated(_map(of(columns), rounded), 64)


@_rule(exp.Abs)
def _abs(self: _Translator, node: exp.Abs) -> tuple[Type, Function]:
    type_, of = self.value(node.this)
    _numeric(type_)
    if type_.kind == "float":
        return _strictly(type_, [of], np.abs)

    def compute(columns: Mapping[str, Column]) -> Column:
        found = of(columns)
        low = -(1 << (type_.size - 1)) if type_.kind == "integer" else None
        made = found._replace(values=np.abs(found.values))
        return made if low is None else _failing(made, np.asarray(found.values == low, bool))

    return type_, compute


_OF_DOUBLES: dict[type[exp.Expr], Callable[[Array], Array]] = {
    exp.Sqrt: np.sqrt,
    exp.Exp: np.exp,
    exp.Sin: np.sin,
    exp.Cos: np.cos,
    exp.Tan: np.tan,
    exp.Asin: np.arcsin,
    exp.Acos: np.arccos,
    exp.Atan: np.arctan,
    exp.Radians: np.radians,
    exp.Degrees: np.degrees,
    exp.Sign: np.sign,
}


@_rule(*_OF_DOUBLES)
def _of_double(self: _Translator, node: exp.Expr) -> tuple[Type, Function]:
    return _strictly(DOUBLE, self.doubles([node.this]), _OF_DOUBLES[type(node)])


@_rule(exp.Pow, exp.Atan2)
def _of_two_doubles(self: _Translator, node: exp.Binary) -> tuple[Type, Function]:
    return _strictly(
        DOUBLE, self.doubles([node.this, node.expression]), np.power if isinstance(node, exp.Pow) else np.arctan2
    )


@_rule(exp.Ln)
def _ln(self: _Translator, node: exp.Ln) -> tuple[Type, Function]:
    """Null of what has none."""
    (of,) = self.doubles([node.this])

    def compute(columns: Mapping[str, Column]) -> Column:
        found = of(columns)
        return Column(np.log(found.values), found.null | (found.values <= 0), found.bad)

    return DOUBLE, compute


@_rule(exp.IsNan)
def _is_nan(self: _Translator, node: exp.IsNan) -> tuple[Type, Function]:
    (of,) = self.doubles([node.this])

    def compute(columns: Mapping[str, Column]) -> Column:
        found = of(columns)
        return Column(np.isnan(found.values) & ~found.null, _NONE, found.bad)

    return BOOLEAN, compute


@_rule(exp.Length)
def _length(self: _Translator, node: exp.Length) -> tuple[Type, Function]:
    return _strictly(INT, self.texts([node.this]), np.vectorize(len, otypes=[np.int64]))


@_rule(exp.Concat, exp.DPipe)
def _concat(self: _Translator, node: exp.Expr) -> tuple[Type, Function]:
    parts = self.texts(node.expressions if isinstance(node, exp.Concat) else [node.this, node.expression])
    return _strictly(TEXT, parts, np.vectorize(lambda *texts: "".join(texts), otypes=[object]))


@_rule(exp.Anonymous)
def _named(self: _Translator, node: exp.Anonymous) -> tuple[Type, Function]:
    name, arguments = str(node.this).lower(), node.expressions
    if name in ("isnull", "isnotnull"):
        test = exp.Is(this=arguments[0], expression=exp.Null())
        return self.value(test if name == "isnull" else exp.Not(this=test))
    if name == "positive":
        return self.value(arguments[0])
    if name == "pmod":
        return _pmod(self, *arguments)
    scalar = functions.scalar(name)
    if scalar is None:
        raise Untranslatable(name)
    return _own(scalar, self.values(arguments))


def _pmod(self: _Translator, left: exp.Expr, right: exp.Expr) -> tuple[Type, Function]:
    """The remainder that is not negative, of integers by a positive one."""
    type_, rest = self.value(exp.Mod(this=left, expression=right))
    _, by = self.value(right)

    def compute(columns: Mapping[str, Column]) -> Column:
        found, divisor = rest(columns), by(columns)
        values = np.where(
            found.values < 0,
            np.fmod(found.values + divisor.values, np.where(divisor.values == 0, 1, divisor.values)),
            found.values,
        )
        return found._replace(values=values)

    return type_, compute


def _own(scalar: functions.ScalarFunction, arguments: Sequence[tuple[Type, Function]]) -> tuple[Type, Function]:
    """A function of the user's: it gets what pandas would give it."""
    import pandas as pd

    for type_, _ in arguments:
        if type_.kind not in OF_COLUMN:
            raise Untranslatable(scalar.name)
    wanted = OF_COLUMN[scalar.returns]

    def compute(columns: Mapping[str, Column]) -> Column:
        found = [of(columns) for _, of in arguments]
        count = max((part.values.size for part in found if part.values.ndim), default=1)
        series = [pd.Series(_boxed(part, count)) for part in found]
        made = scalar.over(*series)
        null = made.isna().to_numpy()
        zero: Any = "" if wanted == TEXT else 0
        dtype: Any = {"float": np.float64, "text": object, "boolean": bool}.get(wanted.kind, np.int64)
        values = (
            made.where(~made.isna(), zero).to_numpy().astype(dtype) if null.any() else made.to_numpy().astype(dtype)
        )
        bad = reduce(np.logical_or, (part.bad for part in found), _NONE)
        return Column(values, null, bad)

    return wanted, compute


def _boxed(column: Column, count: int) -> Array:
    values, null = np.broadcast_to(column.values, (count,)), np.broadcast_to(column.null, (count,))
    if not null.any():
        return values
    if values.dtype.kind in "if":
        return np.asarray(np.where(null, np.nan, values))
    missing: Any = None
    return np.asarray(np.where(null, missing, values.astype(object)))
