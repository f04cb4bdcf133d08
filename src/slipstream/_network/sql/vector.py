"""Expressions over columns, computed with NumPy where the tuples are, with Spark's semantics.

Converting the tuples of a stage to Spark's rows and back for an expression would be expensive. So the expressions that
networks mostly use are compiled into functions of columns, with Spark's semantics: three-valued logic, ANSI arithmetic
(an overflow or a division by zero is an error, unless it is in a branch that is not taken), exact decimals, NaN above
all numbers. ``translate`` refuses what it does not support, and Spark computes that; the tests compare the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
from sqlglot import exp

from slipstream._errors import BadInput
from slipstream._network import box_functions
from slipstream._network.sql import box_expressions
from slipstream._network.sql.sql_values import (
    BOOLEAN,
    DOUBLE,
    HIGHEST,
    INT,
    LONG,
    LOWEST,
    NONE,
    NULL,
    OF_COLUMN,
    TEXT,
    Array,
    Column,
    Function,
    SqlType,
    Untranslatable,
    as_decimal,
    choose_dtype,
    combine_strict,
    convert,
    decimal_type,
    decode,
    difference,
    encode,
    fit,
    map_values,
    mark_failed,
    product,
    total,
    wider,
)


@dataclass(frozen=True)
class Expression:
    """A translated expression: its text, its type and the function that computes it."""

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
                f"{self.text!r}: overflow or division by zero{' where ' * bool(tuple_)}{tuple_}.",
                hint="Filter out such tuples first, or use try_divide, nullif or CASE.",
                code="arithmetic-error",
            )
        return encode(found, self.type, count)


def translate(text: str, schema: Mapping[str, str], tables: box_functions.Stored | None = None) -> Expression:
    """Translate an expression to a function of columns; raises ``Untranslatable`` if only Spark can compute it.

    ``tables`` are the stored tables that users' functions read.

    >>> fast = translate("speed > 3 * limit", {"speed": "integer", "limit": "integer"})
    >>> fast.over({"speed": np.array([10, 9]), "limit": np.array([3, 3])}, 2)
    array([1, 0])
    """
    tree = box_expressions.parse(text)
    typed = _Translator({name.lower(): (name, type_) for name, type_ in schema.items()}, tables or {})
    type_, compute = typed.value(tree)
    if type_.kind not in OF_COLUMN:
        raise Untranslatable(text)
    return Expression(text, type_.kind, frozenset(typed.used), compute)


class _Translator:
    def __init__(self, schema: Mapping[str, tuple[str, str]], tables: box_functions.Stored) -> None:
        self.schema = schema
        self.tables = tables
        self.used: set[str] = set()

    def value(self, node: exp.Expr) -> tuple[SqlType, Function]:
        if isinstance(node, exp.Paren):
            return self.value(node.this)
        for kind in type(node).__mro__:
            if found := _RULES.get(kind):
                return found(self, node)
        raise Untranslatable(node.sql())

    def values(self, nodes: Sequence[exp.Expr]) -> list[tuple[SqlType, Function]]:
        return [self.value(node) for node in nodes]

    def same(self, nodes: Sequence[exp.Expr]) -> tuple[SqlType, list[Function]]:
        """Convert alternatives to a common type."""
        found = self.values(nodes)
        type_ = reduce(wider, (type_ for type_, _ in found))
        return type_, [convert(type_, have, compute) for have, compute in found]

    def truth(self, node: exp.Expr) -> Function:
        type_, compute = self.value(node)
        if type_.kind not in ("boolean", "null"):
            raise Untranslatable(node.sql())
        return convert(BOOLEAN, type_, compute)

    def comparable(self, left: exp.Expr, right: exp.Expr) -> tuple[Function, Function]:
        """Convert two values to the type in which they are compared."""
        _, (one, two) = self.same([left, right])
        return one, two

    def doubles(self, nodes: Sequence[exp.Expr]) -> list[Function]:
        found = self.values(nodes)
        return [convert(DOUBLE, _numeric(type_) if type_ != NULL else NULL, compute) for type_, compute in found]

    def texts(self, nodes: Sequence[exp.Expr]) -> list[Function]:
        found = self.values(nodes)
        if any(type_.kind not in ("text", "null") for type_, _ in found):
            raise Untranslatable("a text of a number")
        return [convert(TEXT, type_, compute) for type_, compute in found]


# --- one rule for each kind of node: its type, and what computes it

Rule: TypeAlias = Callable[[_Translator, Any], tuple[SqlType, Function]]
_RULES: dict[type[exp.Expr], Rule] = {}


def _rule(*kinds: type[exp.Expr]) -> Callable[[Rule], Rule]:
    def note(rule: Rule) -> Rule:
        _RULES.update(dict.fromkeys(kinds, rule))
        return rule

    return note


def _strictly(type_: SqlType, parts: Sequence[Function], operation: Callable[..., Any]) -> tuple[SqlType, Function]:
    """A function that is null where an argument is."""

    def compute(columns: Mapping[str, Column]) -> Column:
        found = [part(columns) for part in parts]
        return combine_strict(found, np.asarray(operation(*(part.values for part in found))))

    return type_, compute


def _constant(type_: SqlType, value: Any) -> tuple[SqlType, Function]:
    dtype = choose_dtype(type_.kind)
    made = Column(np.array(value, dtype), NONE, NONE)
    return type_, lambda _: made


@_rule(exp.Column)
def _column(self: _Translator, node: exp.Column) -> tuple[SqlType, Function]:
    name = f"{node.table}.{node.name}" if node.table else node.name
    if name.lower() not in self.schema:
        raise Untranslatable(name)
    own, kind = self.schema[name.lower()]
    self.used.add(own)
    if kind == "boolean":
        return BOOLEAN, lambda columns: columns[own]._replace(values=columns[own].values == 1)
    return OF_COLUMN[kind], lambda columns: columns[own]


@_rule(exp.Null)
def _null(_: _Translator, __: exp.Null) -> tuple[SqlType, Function]:
    return NULL, lambda _: Column(np.zeros((), np.int64), np.ones((), dtype=bool), NONE)


@_rule(exp.Boolean)
def _boolean(_: _Translator, node: exp.Boolean) -> tuple[SqlType, Function]:
    return _constant(BOOLEAN, bool(node.this))


@_rule(exp.Literal)
def _literal(self: _Translator, node: exp.Literal) -> tuple[SqlType, Function]:
    del self
    text = str(node.this)
    if node.is_string:
        return _constant(TEXT, text)
    if text.isdigit():
        if int(text) > HIGHEST:
            raise Untranslatable(text)
        return _constant(INT if int(text) < 1 << 31 else LONG, int(text))
    if "e" in text.lower():
        return _constant(DOUBLE, float(text))
    whole, _, part = text.partition(".")
    digits = (whole.lstrip("0") + part) or "0"
    if len(digits) > 18:
        raise Untranslatable(text)
    return _constant(decimal_type(max(len(digits), len(part)), len(part)), int(digits))


@_rule(exp.Pi)
def _pi(_: _Translator, __: exp.Pi) -> tuple[SqlType, Function]:
    return _constant(DOUBLE, np.pi)


_EXACT: dict[type[exp.Expr], Callable[[Array, Array], Array]] = {
    exp.Add: total,
    exp.Sub: difference,
    exp.Mul: product,
}
_ROUNDED: dict[type[exp.Expr], Callable[[Array, Array], Array]] = {
    exp.Add: np.add,
    exp.Sub: np.subtract,
    exp.Mul: np.multiply,
}


@_rule(*_EXACT)
def _arithmetic(self: _Translator, node: exp.Binary) -> tuple[SqlType, Function]:
    (a, one), (b, two) = self.value(node.this), self.value(node.expression)
    type_ = _numeric(wider(a, b))
    if type_.kind == "decimal" and isinstance(node, exp.Mul):
        a, b = as_decimal(a), as_decimal(b)
        return _strictly(decimal_type(a.size + b.size + 1, a.scale + b.scale), (one, two), product)
    parts = (convert(type_, a, one), convert(type_, b, two))
    if type_.kind == "float":
        return _strictly(DOUBLE, parts, _ROUNDED[type(node)])
    if type_.kind == "decimal":
        return _strictly(decimal_type(type_.size + 1, type_.scale), parts, _EXACT[type(node)])
    _, exact = _strictly(type_, parts, _EXACT[type(node)])
    return type_, lambda columns: fit(exact(columns), type_.size)


@_rule(exp.Neg, exp.Negative)
def _negative(self: _Translator, node: exp.Expr) -> tuple[SqlType, Function]:
    type_, of = self.value(node.this)
    _numeric(type_)
    if type_.kind == "float":
        return _strictly(type_, [of], np.negative)
    _, exact = _strictly(type_, [of], lambda values: difference(np.zeros((), np.int64), values))
    return type_, (lambda columns: fit(exact(columns), type_.size)) if type_.kind == "integer" else exact


def _numeric(type_: SqlType) -> SqlType:
    if type_.kind not in ("integer", "float", "decimal"):
        raise Untranslatable(type_.kind)
    return type_


@_rule(exp.Div, exp.SafeDivide)
def _quotient(self: _Translator, node: exp.Binary) -> tuple[SqlType, Function]:
    """``/`` is a double unless decimals are divided; ``try_divide`` is null where that fails."""
    (a, one), (b, two) = self.value(node.this), self.value(node.expression)
    if "decimal" in (a.kind, b.kind) and "float" not in (a.kind, b.kind):
        raise Untranslatable("a quotient of decimals")
    _numeric(wider(a, b))
    one, two, safe = convert(DOUBLE, a, one), convert(DOUBLE, b, two), isinstance(node, exp.SafeDivide)

    def compute(columns: Mapping[str, Column]) -> Column:
        x, y = one(columns), two(columns)
        zero = y.values == 0
        found = combine_strict((x, y), x.values / np.where(zero, 1.0, y.values))
        return found._replace(null=found.null | zero) if safe else mark_failed(found, zero)

    return DOUBLE, compute


@_rule(exp.IntDiv, exp.Mod)
def _division(self: _Translator, node: exp.Binary) -> tuple[SqlType, Function]:
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
        found = combine_strict((x, y), rests if rest else (x.values - rests) // by)
        found = mark_failed(found, zero)
        return found if rest else mark_failed(found, (x.values == LOWEST) & (by == -1))

    return LONG if not rest else wider(a, b), compute


# --- truth


def _equal(a: Array, b: Array) -> Array:
    found = a == b
    if a.dtype.kind == "f":
        found = found | (np.isnan(a) & np.isnan(b))
    return np.asarray(found, bool)


def _less(a: Array, b: Array) -> Array:
    """NaN is above all numbers."""
    found = a < b
    if a.dtype.kind == "f":
        found = found | (np.isnan(b) & ~np.isnan(a))
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
def _comparison(self: _Translator, node: exp.Binary) -> tuple[SqlType, Function]:
    return _strictly(BOOLEAN, self.comparable(node.this, node.expression), _COMPARISONS[type(node)])


@_rule(exp.NullSafeEQ, exp.EqualNull)
def _same(self: _Translator, node: exp.Binary) -> tuple[SqlType, Function]:
    one, two = self.comparable(node.this, node.expression)

    def compute(columns: Mapping[str, Column]) -> Column:
        a, b = one(columns), two(columns)
        both = a.null & b.null
        found = both | (~a.null & ~b.null & _equal(a.values, b.values))
        return Column(np.asarray(found, bool), NONE, a.bad | b.bad)

    return BOOLEAN, compute


@_rule(exp.Between)
def _between(self: _Translator, node: exp.Between) -> tuple[SqlType, Function]:
    low, high = (
        exp.GTE(this=node.this, expression=node.args["low"]),
        exp.LTE(this=node.this, expression=node.args["high"]),
    )
    return self.value(exp.And(this=low, expression=high))


@_rule(exp.In)
def _in(self: _Translator, node: exp.In) -> tuple[SqlType, Function]:
    tests: list[exp.Expr] = [exp.EQ(this=node.this, expression=option) for option in node.expressions]
    # Spark converts all options to one type; a text among numbers is not supported here
    self.same([node.this, *node.expressions])
    return self.value(reduce(lambda a, b: exp.Or(this=a, expression=b), tests[1:], tests[0]))


@_rule(exp.Is)
def _is(self: _Translator, node: exp.Is) -> tuple[SqlType, Function]:
    if isinstance(node.expression, exp.Null):
        return _is_null(self, node.this)
    if not isinstance(node.expression, exp.Boolean):
        raise Untranslatable(node.sql())
    of, wanted = self.truth(node.this), bool(node.expression.this)

    def compute(columns: Mapping[str, Column]) -> Column:
        found = of(columns)
        return Column(~found.null & (found.values == wanted), NONE, found.bad)

    return BOOLEAN, compute


def _is_null(self: _Translator, node: exp.Expr) -> tuple[SqlType, Function]:
    _, of = self.value(node)

    def compute(columns: Mapping[str, Column]) -> Column:
        found = of(columns)
        return Column(np.asarray(found.null, bool), NONE, found.bad)

    return BOOLEAN, compute


@_rule(exp.Not)
def _not(self: _Translator, node: exp.Not) -> tuple[SqlType, Function]:
    return _strictly(BOOLEAN, [self.truth(node.this)], np.logical_not)


@_rule(exp.And, exp.Or)
def _and(self: _Translator, node: exp.Connector) -> tuple[SqlType, Function]:
    """The right side counts only where the left does not decide: elsewhere its failures are ignored."""
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
def _if(self: _Translator, node: exp.If) -> tuple[SqlType, Function]:
    return _choice(self, [(node.this, node.args["true"])], node.args.get("false") or exp.Null())


@_rule(exp.Nvl2)
def _nvl2(self: _Translator, node: exp.Nvl2) -> tuple[SqlType, Function]:
    test = exp.Not(this=exp.Is(this=node.this, expression=exp.Null()))
    return _choice(self, [(test, node.args["true"])], node.args["false"])


@_rule(exp.Case)
def _case(self: _Translator, node: exp.Case) -> tuple[SqlType, Function]:
    ways = []
    for way in node.args["ifs"]:
        test = exp.EQ(this=node.this, expression=way.this) if node.this else way.this
        ways.append((test, way.args["true"]))
    return _choice(self, ways, node.args.get("default") or exp.Null())


@_rule(exp.Nullif)
def _nullif(self: _Translator, node: exp.Nullif) -> tuple[SqlType, Function]:
    return _choice(self, [(exp.EQ(this=node.this, expression=node.expression), exp.Null())], node.this)


@_rule(exp.Coalesce)
def _coalesce(self: _Translator, node: exp.Coalesce) -> tuple[SqlType, Function]:
    type_, parts = self.same([node.this, *node.expressions])

    def compute(columns: Mapping[str, Column]) -> Column:
        found = parts[-1](columns)
        for part in reversed(parts[:-1]):
            here = part(columns)
            found = _chosen(Column(~here.null, NONE, here.bad), here, found)
        return found

    return type_, compute


def _choice(self: _Translator, ways: Sequence[tuple[exp.Expr, exp.Expr]], rest: exp.Expr) -> tuple[SqlType, Function]:
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
    """One value where a test holds, the other where it does not or is unknown; only the chosen one can fail."""
    here = np.asarray(test.values & ~test.null, bool)
    values, null, bad = (np.where(here, a, b) for a, b in zip(yes, no, strict=True))
    return Column(values, null, bad | test.bad)


@_rule(exp.Greatest, exp.Least)
def _extreme(self: _Translator, node: exp.Expr) -> tuple[SqlType, Function]:
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
def _cast(self: _Translator, node: exp.Cast) -> tuple[SqlType, Function]:
    wanted = _CASTS.get(node.to.this.name)
    if wanted is None or node.to.expressions or node.args.get("safe"):
        raise Untranslatable(node.sql())
    type_, of = self.value(node.this)
    pair = (type_.kind, wanted.kind)
    if type_ in (NULL, wanted) or pair in (("integer", "float"), ("decimal", "float")):
        return wanted, convert(wanted, type_, of)
    if pair == ("integer", "integer"):
        return wanted, (lambda columns: fit(of(columns), wanted.size)) if wanted.size < type_.size else of
    if pair == ("float", "integer"):
        return wanted, lambda columns: _truncate(of(columns), wanted.size)
    if pair == ("boolean", "integer"):
        return _strictly(wanted, [of], lambda values: values.astype(np.int64))
    if pair == ("integer", "text"):
        return _strictly(TEXT, [of], np.vectorize(str, otypes=[object]))
    raise Untranslatable(node.sql())


def _truncate(column: Column, size: int) -> Column:
    """Convert doubles to integers, towards zero; NaN and numbers that are too large have failed."""
    limit = 2.0 ** (size - 1)
    whole = np.trunc(column.values)
    over = ~((whole >= -limit) & (whole < limit))
    return mark_failed(column, over)._replace(values=np.where(over, 0, whole).astype(np.int64))


@_rule(exp.Floor, exp.Ceil)
def _floor(self: _Translator, node: exp.Expr) -> tuple[SqlType, Function]:
    type_, of = self.value(node.this)
    if node.args.get("decimals") or type_.kind not in ("integer", "float"):
        raise Untranslatable(node.sql())
    if type_.kind == "integer":
        return LONG, of
    rounded = np.floor if isinstance(node, exp.Floor) else np.ceil
    return LONG, lambda columns: _truncate(map_values(of(columns), rounded), 64)


@_rule(exp.Abs)
def _abs(self: _Translator, node: exp.Abs) -> tuple[SqlType, Function]:
    type_, of = self.value(node.this)
    _numeric(type_)
    if type_.kind == "float":
        return _strictly(type_, [of], np.abs)

    def compute(columns: Mapping[str, Column]) -> Column:
        found = of(columns)
        low = -(1 << (type_.size - 1)) if type_.kind == "integer" else None
        made = found._replace(values=np.abs(found.values))
        return made if low is None else mark_failed(made, np.asarray(found.values == low, bool))

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
def _of_double(self: _Translator, node: exp.Expr) -> tuple[SqlType, Function]:
    return _strictly(DOUBLE, self.doubles([node.this]), _OF_DOUBLES[type(node)])


@_rule(exp.Pow, exp.Atan2)
def _of_two_doubles(self: _Translator, node: exp.Binary) -> tuple[SqlType, Function]:
    return _strictly(
        DOUBLE, self.doubles([node.this, node.expression]), np.power if isinstance(node, exp.Pow) else np.arctan2
    )


@_rule(exp.Ln)
def _ln(self: _Translator, node: exp.Ln) -> tuple[SqlType, Function]:
    """The logarithm; null for zero and below."""
    (of,) = self.doubles([node.this])

    def compute(columns: Mapping[str, Column]) -> Column:
        found = of(columns)
        return Column(np.log(found.values), found.null | (found.values <= 0), found.bad)

    return DOUBLE, compute


@_rule(exp.IsNan)
def _is_nan(self: _Translator, node: exp.IsNan) -> tuple[SqlType, Function]:
    (of,) = self.doubles([node.this])

    def compute(columns: Mapping[str, Column]) -> Column:
        found = of(columns)
        return Column(np.isnan(found.values) & ~found.null, NONE, found.bad)

    return BOOLEAN, compute


@_rule(exp.Length)
def _length(self: _Translator, node: exp.Length) -> tuple[SqlType, Function]:
    return _strictly(INT, self.texts([node.this]), np.vectorize(len, otypes=[np.int64]))


@_rule(exp.Concat, exp.DPipe)
def _concat(self: _Translator, node: exp.Expr) -> tuple[SqlType, Function]:
    parts = self.texts(node.expressions if isinstance(node, exp.Concat) else [node.this, node.expression])
    return _strictly(TEXT, parts, np.vectorize(lambda *texts: "".join(texts), otypes=[object]))


_OF_TEXT: dict[type[exp.Expr], Callable[[str], str]] = {exp.Upper: str.upper, exp.Lower: str.lower}


@_rule(*_OF_TEXT)
def _of_text(self: _Translator, node: exp.Expr) -> tuple[SqlType, Function]:
    return _strictly(TEXT, self.texts([node.this]), np.vectorize(_OF_TEXT[type(node)], otypes=[object]))


_STRIPS: dict[str, Callable[[str, str], str]] = {"": str.strip, "LEADING": str.lstrip, "TRAILING": str.rstrip}


@_rule(exp.Trim)
def _trim(self: _Translator, node: exp.Trim) -> tuple[SqlType, Function]:
    """Remove surrounding spaces, but not tabs, as Spark does."""
    strip = _STRIPS.get(str(node.args.get("position") or ""))
    if strip is None or node.args.get("expression"):
        raise Untranslatable(node.sql())
    return _strictly(TEXT, self.texts([node.this]), np.vectorize(lambda text: strip(text, " "), otypes=[object]))


_TESTS: dict[type[exp.Expr], Callable[[str, str], bool]] = {
    exp.StartsWith: str.startswith,
    exp.EndsWith: str.endswith,
    exp.Contains: str.__contains__,
}


@_rule(*_TESTS)
def _text_test(self: _Translator, node: exp.Binary) -> tuple[SqlType, Function]:
    test = np.vectorize(_TESTS[type(node)], otypes=[bool])
    return _strictly(BOOLEAN, self.texts([node.this, node.expression]), test)


@_rule(exp.Substring)
def _substring(self: _Translator, node: exp.Substring) -> tuple[SqlType, Function]:
    """Part of a text by fixed positions: from the left, counted from 1, or from the right, counted from -1."""
    start, length = (_whole(node.args.get(name)) for name in ("start", "length"))
    if start is None or (length is None and node.args.get("length") is not None):
        raise Untranslatable(node.sql())

    def part(text: str) -> str:
        first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
        end = len(text) if length is None else first + length
        return text[max(first, 0) : max(end, 0)]

    return _strictly(TEXT, self.texts([node.this]), np.vectorize(part, otypes=[object]))


def _whole(node: exp.Expr | None) -> int | None:
    """The integer literal at a node, if it is one."""
    sign = -1 if isinstance(node, exp.Neg) else 1
    literal = node.this if isinstance(node, exp.Neg) else node
    if isinstance(literal, exp.Literal) and not literal.is_string and literal.this.isdigit():
        return sign * int(literal.this)
    return None


@_rule(exp.Anonymous)
def _named(self: _Translator, node: exp.Anonymous) -> tuple[SqlType, Function]:
    name, arguments = str(node.this).lower(), node.expressions
    if name in ("isnull", "isnotnull"):
        test = exp.Is(this=arguments[0], expression=exp.Null())
        return self.value(test if name == "isnull" else exp.Not(this=test))
    if name == "positive":
        return self.value(arguments[0])
    if name == "pmod":
        return _pmod(self, *arguments)
    scalar = box_functions.scalar(name)
    if scalar is None:
        raise Untranslatable(name)
    return _own(scalar, self.values(arguments), self.tables)


def _pmod(self: _Translator, left: exp.Expr, right: exp.Expr) -> tuple[SqlType, Function]:
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


def _own(
    scalar: box_functions.ScalarFunction, arguments: Sequence[tuple[SqlType, Function]], tables: box_functions.Stored
) -> tuple[SqlType, Function]:
    """A user's function: it gets what pandas would pass."""
    import pandas as pd

    for type_, _ in arguments:
        if type_.kind not in OF_COLUMN:
            raise Untranslatable(scalar.name)
    wanted = OF_COLUMN[scalar.returns]

    def compute(columns: Mapping[str, Column]) -> Column:
        found = [of(columns) for _, of in arguments]
        count = max((part.values.size for part in found if part.values.ndim), default=1)
        series = [pd.Series(_box_values(part, count)) for part in found]
        made = scalar.over(*series, tables=tables)
        null = made.isna().to_numpy()
        zero: Any = "" if wanted == TEXT else 0
        dtype = choose_dtype(wanted.kind)
        values = (
            made.where(~made.isna(), zero).to_numpy().astype(dtype) if null.any() else made.to_numpy().astype(dtype)
        )
        bad = reduce(np.logical_or, (part.bad for part in found), NONE)
        return Column(values, null, bad)

    return wanted, compute


def _box_values(column: Column, count: int) -> Array:
    values, null = np.broadcast_to(column.values, (count,)), np.broadcast_to(column.null, (count,))
    if not null.any():
        return values
    if values.dtype.kind in "if":
        return np.asarray(np.where(null, np.nan, values))
    missing: Any = None
    return np.asarray(np.where(null, missing, values.astype(object)))
