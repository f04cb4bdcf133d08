"""Declarations: ``CREATE CUBOID``, ``CREATE PATTERN``, ``CREATE QUERY``, separated by ``;``.

    CREATE CUBOID stock (stock_id INT KEY, price AST(10), volume BIGINT);
    CREATE PATTERN w AS (9, 3, 6, 3, 9);
    CREATE QUERY members AS SELECT stock_id, correlation(price, w) AS r FROM stock WHERE correlation(price, w) > 0.95;

An attribute is ``name TYPE`` for one value, or ``name [TYPE] AST(n)`` for the latest n elements (DOUBLE if no type is
said). The key is an integer, or text: ``vin STRING KEY``. A pattern has its oldest element first, as one would draw it.
Errors point at the place.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from slipstream._cuboid.query.stream_functions import Pattern
from slipstream._cuboid.schema import AST, KEY, MOST_ELEMENTS, Plain, Schema
from slipstream._errors import BadArgument

#: SQL's names, and those of small unsigned numbers, which most reports of vehicles are
TYPES = {
    "TINYINT": "i1",
    "SMALLINT": "i2",
    "INT": "i4",
    "INTEGER": "i4",
    "BIGINT": "i8",
    "UTINYINT": "u1",
    "USMALLINT": "u2",
    "UINT": "u4",
    "FLOAT": "f4",
    "DOUBLE": "f8",
}
#: of a key
TEXTS = ("STRING", "TEXT", "VARCHAR")
_TEXT = "text"


def complain(text: str, start: int, end: int, message: str) -> NoReturn:
    """Raise an error that points at a place of the text."""
    line_start = text.rfind("\n", 0, start) + 1
    line = text[line_start:].partition("\n")[0]
    column = start - line_start
    marks = " " * column + "^" * max(1, min(end, line_start + len(line) - 1) - start + 1)
    number = text.count("\n", 0, start) + 1
    raise BadArgument(f"line {number}, column {column + 1}: {message}", hint=f"{line}\n{marks}", code="bad-expression")


@dataclass
class Script:
    """The declarations and queries of a text."""

    cuboids: dict[str, Schema] = field(default_factory=dict)
    patterns: dict[str, Pattern] = field(default_factory=dict)
    queries: dict[str, str] = field(default_factory=dict)  # named SELECTs, to be run continuously
    selects: list[str] = field(default_factory=list)


def parse(text: str) -> Script:
    """Parse declarations and queries.

    >>> parse("CREATE CUBOID stock (stock_id INT KEY, price AST(10))").cuboids["stock"].attributes
    (AST(name='price', dtype='f8', depth=10, ticks='i8'),)
    >>> parse("CREATE CUBOID car (vin STRING KEY, speed AST(6))").cuboids["car"].text_key
    True
    >>> parse("CREATE PATTERN w AS (9, 3, -6.5)").patterns["w"].values
    (9.0, 3.0, -6.5)
    """
    script = Script()
    tokens = tokenise(text)
    statement: list[Token] = []
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            _Statement(text, statement).into(script)
            statement = []
        else:
            statement.append(token)
    _Statement(text, statement).into(script)
    return script


def format_declarations(name: str, schema: Schema, patterns: Mapping[str, Pattern]) -> str:
    """Return the declarations of a cuboid and of patterns, which :func:`parse` reads as the same.

    >>> stock = parse("CREATE CUBOID stock (id INT KEY, price AST(10), at BIGINT)").cuboids["stock"]
    >>> format_declarations("stock", stock, {"w": Pattern("w", (9.0, -3.5))})
    'CREATE CUBOID stock (id BIGINT KEY, price DOUBLE AST(10), at BIGINT); CREATE PATTERN w AS (9.0, -3.5)'
    """
    types = {dtype: word for word, dtype in TYPES.items() if word != "INTEGER"}
    forms = [f"{schema.key} {'STRING' if schema.text_key else 'BIGINT'} KEY"]
    for attribute in schema.attributes:
        past = f" AST({attribute.depth})" if isinstance(attribute, AST) else ""
        forms.append(f"{attribute.name} {types[attribute.dtype]}{past}")
    declared = [f"CREATE CUBOID {name} ({', '.join(forms)})"]
    for pattern in patterns.values():
        declared.append(f"CREATE PATTERN {pattern.name} AS ({', '.join(map(repr, pattern.values))})")
    return "; ".join(declared)


def tokenise(text: str) -> list[Token]:
    """Split a text into tokens."""
    try:
        return list(Spark().tokenize(text))
    except SqlglotError as error:
        raise BadArgument(
            f"Not SQL: {error}", hint="A quote, comment or bracket is not closed.", code="bad-expression"
        ) from error


class _Statement:
    """Parses one statement, from left to right."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self._text, self._tokens, self._at = text, tokens, 0

    def into(self, script: Script) -> None:
        """Add the statement to a script."""
        if not self._tokens:
            return
        if self._is("SELECT") or self._is("WITH"):
            script.selects.append(self._take_rest())
            return
        self._expect("CREATE", "a statement begins with CREATE or SELECT")
        what = self._take_word("CUBOID, PATTERN or QUERY").upper()
        name = self._name("a name").lower()
        if what == "CUBOID":
            script.cuboids[name] = self._parse_cuboid(name)
        elif what == "PATTERN":
            self._expect("AS", "CREATE PATTERN name AS (1, 2, 3)")
            script.patterns[name] = Pattern(name, self._parse_numbers())
        elif what == "QUERY":
            self._expect("AS", "CREATE QUERY name AS SELECT ...")
            script.queries[name] = self._take_rest()
        else:
            self._complain(f"cannot create a {what}; there are CUBOID, PATTERN, QUERY", back=2)

    def _parse_cuboid(self, name: str) -> Schema:
        key, attributes, text_key = "", list[Plain | AST](), False
        self._expect("(", "the attributes in parentheses")
        while True:
            attribute = self._name("an attribute's name")
            dtype, depth, is_key = self._parse_form(attribute)
            if is_key and key:
                self._complain(f"a second key in addition to {key}", back=1)
            if is_key:
                key, text_key = attribute, dtype == _TEXT
            else:
                attributes.append(AST(attribute, dtype or "f8", depth, "i8") if depth else Plain(attribute, dtype))
            if self._is(")"):
                self._at += 1
                break
            self._expect(",", "attributes are separated by commas")
        self._end()
        if not key:
            self._complain("no key; declare one: car_id INT KEY", back=1)
        if key != KEY and KEY in (attribute.name for attribute in attributes):
            self._complain(f"'{KEY}' is how every key can be called; give the attribute another name", back=1)
        return Schema(name.upper(), tuple(attributes), key, text_key=text_key)

    def _parse_form(self, attribute: str) -> tuple[str, int, bool]:
        """The type and depth of an attribute, and whether it is the key."""
        dtype, depth, is_key = "", 0, False
        while not self._is(",") and not self._is(")") and self._at < len(self._tokens):
            word = self._take_word("a type").upper()
            if word in TYPES or word in TEXTS:
                dtype = TYPES.get(word, _TEXT)
            elif word == "KEY":
                is_key = True
            elif word == "AST":
                self._expect("(", "AST(n) keeps the latest n elements")
                depth = self._parse_depth()
                self._expect(")", "AST(n) keeps the latest n elements")
            else:
                self._complain(f"unknown type {word}; there are {', '.join(TYPES)}, AST(n), KEY", back=1)
        if is_key and (depth or dtype[:1] == "f"):
            self._complain(f"the key {attribute} must be an integer or text", back=1)
        if dtype == _TEXT and not is_key:
            self._complain(f"{attribute} is text: only the key can be; attributes are numbers", back=1)
        if not (dtype or depth or is_key):
            self._complain(f"{attribute} has no type; there are {', '.join(TYPES)}, AST(n)", back=1)
        return dtype, depth, is_key

    def _parse_depth(self) -> int:
        word = self._take_word("a number of elements")
        if not word.isdecimal() or len(word) > 9 or not 1 <= int(word) <= MOST_ELEMENTS:
            self._complain(f"AST({word}): the number of elements is 1 to {MOST_ELEMENTS:,}", back=1)
        return int(word)

    def _parse_numbers(self) -> tuple[float, ...]:
        self._expect("(", "elements are in parentheses, the oldest first")
        found = []
        while True:
            sign = -1.0 if self._is("-") else 1.0
            self._at += sign < 0
            word = self._take_word("a number")
            try:
                found.append(sign * float(word))
            except ValueError:
                self._complain(f"{word} is not a number", back=1)
            if not math.isfinite(found[-1]):
                self._complain(f"{word} is not finite", back=1)
            if self._is(")"):
                self._at += 1
                self._end()
                break
            self._expect(",", "elements are separated by commas")
        if len(found) < 2:
            self._complain("a pattern must have at least two elements", back=1)
        return tuple(found)

    # --- words

    def _is(self, word: str) -> bool:
        return self._at < len(self._tokens) and self._tokens[self._at].text.upper() == word

    def _take_word(self, what: str) -> str:
        if self._at >= len(self._tokens):
            self._complain(f"the text ends where {what} is expected", back=1)
        self._at += 1
        return str(self._tokens[self._at - 1].text)

    def _name(self, what: str) -> str:
        """A name that is valid for a column and a file."""
        word = self._take_word(what)
        if not re.fullmatch(r"[^\W\d]\w{0,99}", word):
            self._complain(f"{word[:60]!r} is not a valid name; use letters, digits and underscores", back=1)
        return word

    def _expect(self, word: str, why: str) -> None:
        if not self._is(word):
            self._complain(f"expected {word}: {why}", back=0)
        self._at += 1

    def _end(self) -> None:
        if self._at < len(self._tokens):
            self._complain("nothing is expected here; statements are separated by ;", back=0)

    def _take_rest(self) -> str:
        """The rest of the statement, preceded by spaces, so that positions are those of the text."""
        if self._at >= len(self._tokens):
            self._complain("the text ends where SELECT is expected", back=1)
        first, last = self._tokens[self._at].start, self._tokens[-1].end + 1
        return "".join(c if c == "\n" else " " for c in self._text[:first]) + self._text[first:last]

    def _complain(self, message: str, back: int) -> NoReturn:
        token = self._tokens[max(0, min(self._at - back, len(self._tokens) - 1))]
        complain(self._text, token.start, token.end, message)
