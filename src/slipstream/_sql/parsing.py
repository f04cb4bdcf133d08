"""SQL that people write: its words, and how much of it is read.

An expression is read by sqlglot here and by Spark where it runs, and two readers of one text can disagree: on comments,
escapes, prefixes of strings, letters that are others in upper case. So an expression is first cut into words here, and
only what every reader cuts alike is let through. What Spark is given is then made of known words, whatever it takes
them to mean together.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import SqlglotError

from slipstream._errors import MALFORMED, BadInput

#: what sqlglot raises for a text that is no SQL: mostly errors of its own, but its parser can also stumble over what it
#: has read so far, as in ``map(a``
UNREADABLE = (SqlglotError, *MALFORMED)

#: bounds of one expression or query: reading it takes milliseconds, and neither parser runs out of stack
MOST_CHARACTERS, MOST_WORDS, MOST_NESTED = 10_000, 1_000, 25
#: levels of the tree of an expression
MOST_DEEP = 100

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
    """One word of an expression and where it stands; ``end`` is the place after it."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def lower(self) -> str:
        """A name as SQL compares it; nothing for other words."""
        return self.text.lower() if self.kind == NAME else ""


def words(text: str) -> list[Word]:
    """The words of an expression, or why it is not one that all readers of SQL read alike.

    >>> [word.text for word in words("speed >= 3.5 and plate = 'it''s'")]
    ['speed', '>=', '3.5', 'and', 'plate', '=', "'it''s'"]
    >>> words("speed /* really */ > 3")
    Traceback (most recent call last):
        ...
    slipstream._errors.BadInput: 'speed /* really */ > 3': a comment at character 7.
    Leave it out; a box has a note for remarks.
    """
    if len(text) > MOST_CHARACTERS:
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
    """Refuse a text of too many words or nested too deeply, and brackets without a pair."""
    if len(text.strip()) > MOST_CHARACTERS:
        _refuse_size(f"{text.strip()[:60]!r}...: {len(text.strip()):,} characters")
    if len(found) > MOST_WORDS:
        _refuse_size(f"{text.strip()[:60]!r}...: {len(found):,} words")
    depth = run = 0
    for word in map(str.lower, found):
        run = run + 1 if word in _PREFIXES else 0
        depth += (word in _OPENING) - (word in _CLOSING)
        if depth + run > MOST_NESTED:
            _refuse_size(f"{text.strip()[:60]!r}...: nested more than {MOST_NESTED} deep")
        if depth < 0:
            break
    if depth:
        raise BadInput(f"{shown(text)}: a bracket or CASE without its pair.", hint="Close what is opened, and no more.")


def check_depth(text: str, tree: exp.Expr) -> None:
    """A chain of operators is a deep tree, and whoever runs it goes through it by recursion."""
    level, depth = [tree], 0
    while level:
        level, depth = [child for node in level for child in node.iter_expressions()], depth + 1
    if depth > MOST_DEEP:
        raise BadInput(
            f"{shown(text)}: a chain of more than {MOST_DEEP} operators.",
            hint="Use IN (...), greatest or concat, or share the work among several.",
        )


def split(found: Sequence[Word]) -> list[list[Word]]:
    """The words between the commas that no bracket encloses."""
    parts: list[list[Word]] = [[]]
    depth = 0
    for word in found:
        depth += (word.text == "(") - (word.text == ")")
        if word.text == "," and not depth:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts if found else []


def closing(found: Sequence[Word], opening: int) -> int:
    """The place of the bracket that closes the one at a place."""
    depth = 0
    for place in range(opening, len(found)):
        depth += (found[place].text == "(") - (found[place].text == ")")
        if not depth:
            return place
    return -1


def shown(text: str) -> str:
    """An expression in a message: its beginning, if it is long."""
    return repr(text if len(text) <= 200 else f"{text[:200]}...")


def near(name: str, known: Iterable[str]) -> str:
    """A guess at what was meant, for a hint.

    >>> near("cosh_", ["cosh", "sin"])
    "Did you mean 'cosh'? "
    """
    import difflib

    found = difflib.get_close_matches(name.lower(), sorted(known), 1)
    return f"Did you mean {found[0]!r}? " if found else ""


def _check_word(text: str, found: list[Word]) -> None:
    """Refuse what one reader might take for another word, or as one with its neighbour: r'..', 1a, ->, |>."""
    word = found[-1]
    if len(found) > 1 and found[-2].end == word.start and _is_joined(found[-2], word):
        raise BadInput(f"{shown(text)}: no space before {word.text[:40]}.", hint="Put a space or an operator there.")
    if "${" in word.text:
        # Spark puts settings and the environment there before it reads the text
        raise BadInput(f"{shown(text)}: ${{ in {word.text[:40]}.", hint="Write '$' || '{...' for these characters.")
    odd = [letter for letter in word.text if _is_odd(letter, word.kind)]
    if odd:
        what = unicodedata.name(odd[0], f"the character U+{ord(odd[0]):04X}")
        raise BadInput(f"{shown(text)}: {what} in {word.text[:40]!r}.", hint="Use plain letters there.")


def _is_joined(before: Word, word: Word) -> bool:
    if MARK in (before.kind, word.kind):
        return word.text[0] in _OPERATORS - _SIGNS and before.text[-1] in _OPERATORS
    return True


def _is_odd(letter: str, kind: str) -> bool:
    """Whether a letter is a control character, or one that is plain in the other case, as a dotless i is."""
    if letter.isascii():
        return not letter.isprintable()
    if kind == TEXT:
        return unicodedata.category(letter) in ("Cc", "Cs")
    return letter != "ß" and any(other.isascii() for other in letter.upper() + letter.lower())


def _refuse_size(what: str) -> None:
    raise BadInput(
        f"{what}.",
        hint=f"At most {MOST_CHARACTERS:,} characters, {MOST_WORDS:,} words and {MOST_NESTED} levels are read: "
        "share the work among several.",
    )


def _refuse_place(text: str, place: int) -> None:
    if text.startswith(("--", "/*"), place):
        raise BadInput(
            f"{shown(text)}: a comment at character {place + 1}.",
            hint="Leave it out; a box has a note for remarks.",
        )
    hints = {
        "\\": "Write chr(92) for a backslash.",
        "'": "A text ends with the quote it began with, and has no backslash in it.",
        '"': "A text ends with the quote it began with, and has no backslash in it.",
        "`": "A quoted name ends with `, and has neither ` nor a backslash in it.",
        ";": "A box takes one expression.",
    }
    if text[place] in ".0123456789":
        hints[text[place]] = "A number has at most 40 digits, and an exponent of three; names begin with a letter."
    hint = hints.get(text[place], "Expressions are made of names, numbers, texts, operators and brackets.")
    raise BadInput(f"{shown(text)}: unexpected {text[place]!r} at character {place + 1}.", hint=hint)
