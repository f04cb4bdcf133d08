"""The SQL in boxes: checked against the list of what is allowed, and run as it was written.

Every function here parses an expression with that check (``_sql.allowed``). Text is never regenerated: names are
replaced in place, so Spark sees what the user wrote. Nothing is ever evaluated as Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from sqlglot import exp

from slipstream._errors import BadInput
from slipstream._network import box_functions
from slipstream._sql import allowed
from slipstream._sql.parsing import MAX_CHARACTERS, NAME, find_closing_bracket, quote, split_arguments, split_words


def parse(text: str) -> exp.Expr:
    """Parse one expression and check that it may be run."""
    return allowed.parse_expression(text, box_functions.scalars())


def is_within_limits(text: str) -> bool:
    """Whether an expression composed of others is still within the limits.

    >>> is_within_limits("a > 3"), is_within_limits(" and ".join(["a > 3"] * 1000))
    (True, False)
    """
    try:
        parse(text)
    except BadInput:
        return False
    return len(text) <= MAX_CHARACTERS


def columns(text: str) -> list[tuple[str, str]]:
    """The (qualifier, column) pairs an expression uses, sorted.

    >>> columns("left.pos = right.pos and speed > 3")
    [('', 'speed'), ('left', 'pos'), ('right', 'pos')]
    """
    return sorted({(column.table, column.name) for column in parse(text).find_all(exp.Column)})


def user_calls(text: str) -> set[str]:
    """The users' functions that an expression calls.

    >>> from slipstream._network import box_functions
    >>> own = box_functions.register(box_functions.ScalarFunction("near_school", lambda lon, lat: lon > lat, "boolean"))
    >>> user_calls("near_school(lon, lat) and abs(speed) > 3")
    {'near_school'}
    """
    parse(text)
    return allowed.find_called_functions(text) - allowed.FUNCTIONS


@lru_cache(maxsize=4096)
def is_column(text: str) -> bool:
    """Return whether a text is the name of a column in SQL, without quotes.

    >>> is_column("speed"), is_column("case"), is_column("top speed")
    (True, False, False)
    """
    try:
        return text.isidentifier() and columns(text) == [("", text)]
    except BadInput:
        return False


@lru_cache(maxsize=4096)
def can_name(name: str) -> bool:
    """Return whether a column may have a name: any that SQL takes in backquotes.

    >>> can_name("speed"), can_name("top speed (km/h)"), can_name("case"), can_name("`"), can_name("")
    (True, True, True, False, False)
    """
    try:
        return columns(f"`{name}`") == [("", name)]
    except BadInput:
        return False


def column(name: str) -> str:
    """Return a column as SQL writes it: in backquotes if it must be.

    >>> column("speed"), column("top speed")
    ('speed', '`top speed`')
    """
    return name if is_column(name) else f"`{name}`"


def bare(text: str) -> str | None:
    """Return the column that an expression consists of; None if it is more than a column.

    >>> bare("speed"), bare("`top speed`"), bare("speed + 1"), bare("true")
    ('speed', 'top speed', None, None)
    """
    if len(text) > 2 and text[0] == text[-1] == "`" and "`" not in text[1:-1]:
        return text[1:-1]
    return text if is_column(text) else None


def mentions(text: str) -> list[str]:
    """The columns of an expression, one entry per occurrence.

    >>> mentions("a + a * b")
    ['a', 'a', 'b']
    """
    return sorted(column.name for column in parse(text).find_all(exp.Column))


def substitute(text: str, texts: Mapping[str, str]) -> str:
    """The expression with each column replaced by the text given for it.

    >>> substitute("a + b", {"a": "(x * 2)", "b": "y"})
    '(x * 2) + y'
    """
    return rename_columns(text, lambda _, name: texts[name])


def rename_columns(text: str, rename: Callable[[str, str], str]) -> str:
    """The same expression with each column replaced by ``rename(qualifier, column)``.

    >>> rename_columns("a + abs(x.b) * 2", lambda q, c: f"`{c}_{q}`")
    '`a_` + abs(`b_x`) * 2'
    """
    spots = []
    for column in parse(text).find_all(exp.Column):
        marks = [part.meta for part in column.find_all(exp.Identifier)]
        if not all("start" in mark and "end" in mark for mark in marks):
            raise BadInput(
                f"{text[:200]!r}: {column.sql()} is not a column.",
                hint="Quote names that are SQL keywords.",
                code="bad-expression",
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


def parse_call(text: str) -> Call:
    """Read one window function call; ``count(*)`` counts tuples.

    >>> parse_call("avg(price * 2)")
    Call(function='avg', arguments=('price * 2',))
    >>> parse_call("count(distinct vid)")
    Call(function='count_distinct', arguments=('vid',))
    >>> parse_call("count(*)")
    Call(function='count', arguments=())
    """
    found = split_words(text)
    if (
        len(found) < 3
        or found[0].kind != NAME
        or found[1].text != "("
        or find_closing_bracket(found, 1) != len(found) - 1
    ):
        raise BadInput(
            f"{quote(text)} is not a window function call.",
            hint="Write avg(speed), count(*), my_f(a, b).",
            code="bad-expression",
        )
    name, inner = found[0].lower, found[2:-1]
    if name == "mean":
        name = "avg"
    if inner and inner[0].lower == "distinct":
        name, inner = f"{name}_distinct", inner[1:]
    if [word.text for word in inner] == ["*"]:
        inner = []
    arguments = tuple(text[part[0].start : part[-1].end] if part else "" for part in split_arguments(inner))
    for argument in arguments:
        parse(argument)
    return Call(name, arguments)


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
