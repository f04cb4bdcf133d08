"""The words of user-written SQL, and limits on its size.

An expression is parsed by sqlglot here and by Spark where it runs, and the two can disagree: on comments, escapes,
string prefixes, or letters that change with their case. So an expression is first split into words here, and only what
every parser splits alike is accepted. Spark then gets nothing but known words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import SqlglotError

from slipstream._errors import MALFORMED, BadInput

#: exceptions sqlglot raises for invalid SQL: mostly its own, but some inputs, such as ``map(a``, make its parser fail
UNREADABLE = (SqlglotError, *MALFORMED)

#: limits of one expression or query: parsing it takes milliseconds, and neither parser runs out of stack
MAX_CHARACTERS, MAX_WORDS, MAX_NESTING = 10_000, 1_000, 25
#: levels of an expression's syntax tree
MAX_DEPTH = 100

NAME, QUOTED, NUMBER, TEXT, MARK = "name", "quoted name", "number", "text", "mark"
_WORD = re.compile(
    r"""
      (?P<blank>[ \t\r\n]+)
    | (?P<comment>--|/\*)
    | (?P<number>(?:[0-9]{1,40}(?:\.[0-9]{1,40})?|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,3})?[LSYDFlsydf]?)(?![\w.])
    | (?P<name>[^\W\d]\w*)
    | (?P<quoted>`[^`\\\x00-\x1f\x7f]+`)
    | (?P<text>'(?:[^'\\]|'')*'|"(?:[^"\\]|"")*")
    | (?P<mark><=>|<>|!=|==|<=|>=|\|\||[-+*/%=<>|&^~(),.])
    """,
    re.VERBOSE,
)
_KINDS = {"number": NUMBER, "name": NAME, "quoted": QUOTED, "text": TEXT, "mark": MARK}
_OPERATORS, _SIGNS = set("+-*/%=<>!|&^~"), set("+-~")
_OPENING, _CLOSING, _PREFIXES = {"(", "[", "case"}, {")", "]", "end"}, {"-", "+", "~", "not"}


@dataclass(frozen=True)
class Word:
    """One word of an expression and its position; ``end`` is the position after it."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def lower(self) -> str:
        """A name as SQL compares it; empty for other words."""
        return self.text.lower() if self.kind == NAME else ""


def split_words(text: str) -> list[Word]:
    """Split an expression into words; refuse what SQL parsers may read differently.

    >>> [word.text for word in split_words("speed >= 3.5 and plate = 'it''s'")]
    ['speed', '>=', '3.5', 'and', 'plate', '=', "'it''s'"]
    >>> split_words("speed /* really */ > 3")
    Traceback (most recent call last):
        ...
    slipstream._errors.BadInput: 'speed /* really */ > 3': a comment at character 7.
    Remove it; a box has a note for comments.
    """
    if len(text) > MAX_CHARACTERS:
        _refuse_size(f"{text[:60]!r}...: {len(text):,} characters")
    found: list[Word] = []
    place = 0
    while place < len(text):
        match = _WORD.match(text, place)
        if match is None or match.lastgroup == "comment":
            _refuse_place(text, place)
        assert match is not None
        if match.lastgroup != "blank":
            found.append(Word(_KINDS[str(match.lastgroup)], match[0], place, match.end()))
            _check_word(text, found)
        place = match.end()
    check_size(text, [word.text for word in found])
    return found


def check_size(text: str, found: Sequence[str]) -> None:
    """Refuse a text with too many words, nested too deeply, or with unbalanced brackets."""
    if len(text.strip()) > MAX_CHARACTERS:
        _refuse_size(f"{text.strip()[:60]!r}...: {len(text.strip()):,} characters")
    if len(found) > MAX_WORDS:
        _refuse_size(f"{text.strip()[:60]!r}...: {len(found):,} words")
    depth = run = 0
    for word in map(str.lower, found):
        run = run + 1 if word in _PREFIXES else 0
        depth += (word in _OPENING) - (word in _CLOSING)
        if depth + run > MAX_NESTING:
            _refuse_size(f"{text.strip()[:60]!r}...: nested more than {MAX_NESTING} deep")
        if depth < 0:
            break
    if depth:
        raise BadInput(
            f"{quote(text)}: unbalanced brackets or CASE.",
            hint="Close every bracket and CASE once.",
            code="bad-expression",
        )


def check_depth(text: str, tree: exp.Expr) -> None:
    """Refuse a chain of too many operators: it is a deep tree, and engines walk it recursively."""
    level, depth = [tree], 0
    while level:
        level, depth = [child for node in level for child in node.iter_expressions()], depth + 1
    if depth > MAX_DEPTH:
        raise BadInput(
            f"{quote(text)}: a chain of more than {MAX_DEPTH} operators.",
            hint="Use IN (...), greatest or concat, or split it over several boxes.",
            code="bad-expression",
        )


def split_arguments(found: Sequence[Word]) -> list[list[Word]]:
    """Split words at the commas outside brackets."""
    parts: list[list[Word]] = [[]]
    depth = 0
    for word in found:
        depth += (word.text == "(") - (word.text == ")")
        if word.text == "," and not depth:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts if found else []


def find_closing_bracket(found: Sequence[Word], opening: int) -> int:
    """The position of the bracket that closes the one at ``opening``."""
    depth = 0
    for place in range(opening, len(found)):
        depth += (found[place].text == "(") - (found[place].text == ")")
        if not depth:
            return place
    return -1


def quote(text: str) -> str:
    """Quote an expression for a message, shortened if it is long."""
    return repr(text if len(text) <= 200 else f"{text[:200]}...")


def suggest(name: str, known: Iterable[str]) -> str:
    """Suggest the closest known name, for a hint.

    >>> suggest("cosh_", ["cosh", "sin"])
    "Did you mean 'cosh'? "
    """
    import difflib

    found = difflib.get_close_matches(name.lower(), sorted(known), 1)
    return f"Did you mean {found[0]!r}? " if found else ""


def _check_word(text: str, found: list[Word]) -> None:
    """Refuse what a parser might read as another word, or join with its neighbour: r'..', 1a, ->, |>."""
    word = found[-1]
    if len(found) > 1 and found[-2].end == word.start and _may_merge(found[-2], word):
        raise BadInput(
            f"{quote(text)}: no space before {word.text[:40]}.",
            hint="Put a space or an operator there.",
            code="bad-expression",
        )
    if "${" in word.text:
        # Spark substitutes settings and environment variables before it parses the text
        raise BadInput(
            f"{quote(text)}: ${{ in {word.text[:40]}.",
            hint="Write '$' || '{...' for these characters.",
            code="bad-expression",
        )
    odd = [letter for letter in word.text if _is_odd(letter, word.kind)]
    if odd:
        what = unicodedata.name(odd[0], f"the character U+{ord(odd[0]):04X}")
        raise BadInput(
            f"{quote(text)}: {what} in {word.text[:40]!r}.", hint="Use plain letters there.", code="bad-expression"
        )


def _may_merge(before: Word, word: Word) -> bool:
    if MARK in (before.kind, word.kind):
        return word.text[0] in _OPERATORS - _SIGNS and before.text[-1] in _OPERATORS
    return True


def _is_odd(letter: str, kind: str) -> bool:
    """Whether a letter is a control character, or becomes ASCII in the other case, as a dotless i does."""
    if letter.isascii():
        return not letter.isprintable()
    if kind == TEXT:
        return unicodedata.category(letter) in ("Cc", "Cs")
    return letter != "ß" and any(other.isascii() for other in letter.upper() + letter.lower())


def _refuse_size(what: str) -> None:
    raise BadInput(
        f"{what}.",
        hint=f"The limit is {MAX_CHARACTERS:,} characters, {MAX_WORDS:,} words and {MAX_NESTING} levels: "
        "split it into several.",
        code="bad-expression",
    )


def _refuse_place(text: str, place: int) -> None:
    if text.startswith(("--", "/*"), place):
        raise BadInput(
            f"{quote(text)}: a comment at character {place + 1}.",
            hint="Remove it; a box has a note for comments.",
            code="bad-expression",
        )
    hints = {
        "\\": "Write chr(92) for a backslash.",
        "'": "A text ends with the quote it begins with and contains no backslash.",
        '"': "A text ends with the quote it begins with and contains no backslash.",
        "`": "A quoted name ends with ` and contains neither ` nor a backslash.",
        ";": "A box takes one expression.",
    }
    if text[place] in ".0123456789":
        hints[text[place]] = "A number has at most 40 digits and 3 in its exponent; names begin with a letter."
    hint = hints.get(text[place], "Expressions consist of names, numbers, texts, operators and brackets.")
    raise BadInput(
        f"{quote(text)}: unexpected {text[place]!r} at character {place + 1}.", hint=hint, code="bad-expression"
    )
