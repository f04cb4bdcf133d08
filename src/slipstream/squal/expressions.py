"""The SQL in boxes: read with sqlglot to learn which columns it uses, run by Spark as it was written.

Text is never regenerated: names are replaced in place, so Spark sees what the user wrote. Nothing is ever evaluated
as Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlglot import exp, parse_one
from sqlglot.tokenizer_core import Token, TokenType

from slipstream.errors import BadInput
from slipstream.sqltext import UNREADABLE

_DIALECT = "spark"


def parse(text: str) -> exp.Expr:
    """The syntax tree of one expression."""
    try:
        tree = parse_one(text, dialect=_DIALECT)
    except UNREADABLE as error:
        said = str(error).splitlines() or ["Write an expression."]
        raise BadInput(f"{text[:200]!r} is not an SQL expression.", hint=said[0]) from error
    if isinstance(tree, exp.Query | exp.DDL | exp.Command):
        raise BadInput(f"{text!r} is a statement.", hint="A box takes an expression over its input's columns.")
    return tree


def columns(text: str) -> list[tuple[str, str]]:
    """The (qualifier, column) pairs an expression uses, sorted.

    >>> columns("left.pos = right.pos and speed > 3")
    [('', 'speed'), ('left', 'pos'), ('right', 'pos')]
    """
    return sorted({(column.table, column.name) for column in parse(text).find_all(exp.Column)})


def calls(text: str) -> set[str]:
    """The functions an expression calls that SQL does not know.

    >>> calls("near_school(lon, lat) and abs(speed) > 3")
    {'near_school'}
    """
    return {function.name for function in parse(text).find_all(exp.Anonymous)}


def is_column(name: str) -> bool:
    """Whether SQL takes a name as that of a column.

    >>> is_column("speed"), is_column("case")
    (True, False)
    """
    try:
        return columns(name) == [("", name)]
    except BadInput:
        return False


def mentions(text: str) -> list[str]:
    """The columns of an expression, one entry for each time it names one.

    >>> mentions("a + a * b")
    ['a', 'a', 'b']
    """
    return sorted(column.name for column in parse(text).find_all(exp.Column))


def substituted(text: str, texts: Mapping[str, str]) -> str:
    """The expression with each column replaced by the text given for it.

    >>> substituted("a + b", {"a": "(x * 2)", "b": "y"})
    '(x * 2) + y'
    """
    return renamed(text, lambda _, name: texts[name])


def renamed(text: str, rename: Callable[[str, str], str]) -> str:
    """The same expression with each column replaced by what ``rename(qualifier, column)`` says.

    >>> renamed("a + abs(x.b) * 2", lambda q, c: f"`{c}_{q}`")
    '`a_` + abs(`b_x`) * 2'
    """
    spots = []
    for column in parse(text).find_all(exp.Column):
        marks = [part.meta for part in column.find_all(exp.Identifier)]
        if not all("start" in mark and "end" in mark for mark in marks):
            raise BadInput(
                f"{text[:200]!r}: {column.sql()} is no column's name.", hint="Quote names that SQL uses itself."
            )
        start, end = min(m["start"] for m in marks), max(m["end"] for m in marks)
        spots.append((start, end, rename(column.table, column.name)))
    for start, end, new in sorted(spots, reverse=True):
        text = text[:start] + new + text[end + 1 :]
    return text


@dataclass(frozen=True)
class Call:
    """A window function called on expressions: ``avg(price)``."""

    function: str
    arguments: tuple[str, ...]


def call(text: str) -> Call:
    """Read one window function call; ``count(*)`` counts tuples.

    >>> call("avg(price * 2)")
    Call(function='avg', arguments=('price * 2',))
    >>> call("count(distinct vid)")
    Call(function='count_distinct', arguments=('vid',))
    >>> call("count(*)")
    Call(function='count', arguments=())
    """
    parse(text)
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[1].token_type != TokenType.L_PAREN or _closing(tokens, 1) != len(tokens) - 1:
        raise BadInput(f"{text!r} is not a call of a window function.", hint="Write avg(speed), count(*), my_f(a, b).")
    name, inner = tokens[0].text.lower(), tokens[2:-1]
    if name == "mean":
        name = "avg"
    if inner and inner[0].token_type == TokenType.DISTINCT:
        name, inner = f"{name}_distinct", inner[1:]
    if [token.token_type for token in inner] == [TokenType.STAR]:
        inner = []
    return Call(name, tuple(text[part[0].start : part[-1].end + 1] for part in _split(inner)))


def _tokens(text: str) -> list[Token]:
    from sqlglot.dialects.spark import Spark

    return list(Spark().tokenize(text))


def _closing(tokens: list[Token], opening: int) -> int:
    depth = 0
    for place in range(opening, len(tokens)):
        depth += (tokens[place].token_type == TokenType.L_PAREN) - (tokens[place].token_type == TokenType.R_PAREN)
        if depth == 0:
            return place
    return -1


def _split(tokens: list[Token]) -> list[list[Token]]:
    """The tokens between the commas that no parenthesis encloses."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if token.token_type == TokenType.COMMA and not depth:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def equalities(predicate: str) -> list[tuple[str, str]]:
    """The (left column, right column) pairs that a join predicate equates.

    >>> equalities("left.pos = right.place and left.time > 3")
    [('pos', 'place')]
    """
    tree = parse(predicate)
    parts = list(tree.flatten()) if isinstance(tree, exp.And) else [tree]
    found = []
    for part in parts:
        ends = (part.this, part.expression) if isinstance(part, exp.EQ) else ()
        sides = {end.table: end.name for end in ends if isinstance(end, exp.Column)}
        if sides.keys() == {"left", "right"}:
            found.append((sides["left"], sides["right"]))
    return found
