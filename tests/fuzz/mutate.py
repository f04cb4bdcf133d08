"""Small damage to valid inputs: bytes, words, lines, numbers, and the trees of JSON, YAML and XML.

Random bytes are turned away at the first check of a reader. What is almost right gets further, so most mutations keep
the form of the input and change what stands in it. Everything comes from one generator, so a seed and a number give an
input again.
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any
from xml.etree import ElementTree

import yaml

NUMBERS = (
    *("0", "-0", "1", "-1", "2", "99", "100", "255", "256", "527999", "528000", "32767", "32768", "65536"),
    *("2147483647", "2147483648", "-2147483648", "-2147483649", "4294967296", "9223372036854775807"),
    *("9223372036854775808", "18446744073709551616", "1e308", "1e309", "-1e309", "1e-320", "0.1", "-0.0", "1.5"),
    *("NaN", "nan", "inf", "-Infinity", "Infinity", "007", "+5", "1_000", "0x10", "٣", "½", "", "9" * 30, "9" * 5000),
)
WORDS = (
    *("null", "true", "false", "None", "''", '"', "'", "`", ";", ",", ",,", "\t", " ", "\r", "\r\n", "\n", "\x00"),
    *("(", ")", "((", "[", "]", "{", "}", "<", ">", "&", "&amp;", "<!--", "*", "-", "--", "/*", "#", "@", ":", "%s"),
    *(
        "é",
        "\u2028",
        "\ud7ff",
        "😀",
        "\ufeff",
        "../../etc/passwd",
        "a" * 300,
        "0001-01-01",
        "9999-12-31T23:59:59+23:59",
    ),
    *("2024-02-30", "1970-01-01", "24:00:00", "select", "from", "where", "and", "or", "not", "case", "avg", "EMPTY"),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 2**70, -(2**31) - 1, 1.5, 1e308, float("inf"), float("nan")),
    *("", "0", "-1", "x", "é", "\x00", "a" * 300, [], {}, [[]], [None], {"": None}, [1, 2, 3], "on", "2004"),
)
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
_WORD = re.compile(rb"\w+|[^\w\s]|\s+")
_DEEP = 3000

Step = Callable[[bytes], bytes]


class Mutator:
    """Mutations of one form of input; ``form`` is text, bytes, json, jsonl, yaml or xml."""

    def __init__(self, random_: random.Random, form: str, corpus: Sequence[bytes]) -> None:
        self._random = random_
        self._corpus = corpus
        flat: list[Step] = [self._flip, self._cut, self._insert, self._drop, self._repeat, self._splice]
        text: list[Step] = [self._number, self._number, self._word, self._swap, self._line, self._word_drop]
        trees: dict[str, list[Step]] = {
            "json": [self._json],
            "jsonl": [self._jsonl],
            "yaml": [self._yaml],
            "xml": [self._xml, self._xml, self._entities],
        }
        tree = trees.get(form, [])
        self._steps = flat if form == "bytes" else [*flat, *text, *text, *tree, *tree, *tree, *tree]

    def mutated(self) -> bytes:
        """A valid input with one to four mutations."""
        data = self._random.choice(self._corpus)
        for _ in range(self._random.choice((1, 1, 1, 2, 2, 3, 4))):
            data = self._random.choice(self._steps)(data)
        return data

    # --- bytes

    def _span(self, data: bytes, most: int = 40) -> tuple[int, int]:
        start = self._random.randint(0, len(data))
        return start, min(len(data), start + self._random.randint(1, most))

    def _flip(self, data: bytes) -> bytes:
        changed = bytearray(data or b"\0")
        for _ in range(self._random.choice((1, 1, 2, 8))):
            changed[self._random.randrange(len(changed))] ^= 1 << self._random.randrange(8)
        return bytes(changed)

    def _cut(self, data: bytes) -> bytes:
        return data[: self._random.randint(0, len(data))]

    def _insert(self, data: bytes) -> bytes:
        at = self._random.randint(0, len(data))
        return data[:at] + self._random.randbytes(self._random.choice((1, 1, 2, 4, 16))) + data[at:]

    def _drop(self, data: bytes) -> bytes:
        start, end = self._span(data)
        return data[:start] + data[end:]

    def _repeat(self, data: bytes) -> bytes:
        start, end = self._span(data)
        return data[:end] + data[start:end] * self._random.choice((1, 1, 2, 50)) + data[end:]

    def _splice(self, data: bytes) -> bytes:
        other = self._random.choice(self._corpus)
        return data[: self._random.randint(0, len(data))] + other[self._random.randint(0, len(other)) :]

    # --- text

    def _replace(self, data: bytes, pattern: re.Pattern[bytes], new: Sequence[str]) -> bytes:
        found = list(pattern.finditer(data))
        if not found:
            return data
        spot = self._random.choice(found)
        return data[: spot.start()] + self._random.choice(new).encode("utf-8", "surrogatepass") + data[spot.end() :]

    def _number(self, data: bytes) -> bytes:
        return self._replace(data, _NUMBER, NUMBERS)

    def _word(self, data: bytes) -> bytes:
        return self._replace(data, _WORD, WORDS)

    def _word_drop(self, data: bytes) -> bytes:
        return self._replace(data, _WORD, ("",))

    def _swap(self, data: bytes) -> bytes:
        """One word in the place of another."""
        words = _WORD.findall(data)
        if len(words) < 2:
            return data
        a, b = self._random.randrange(len(words)), self._random.randrange(len(words))
        words[a], words[b] = words[b], words[a]
        return b"".join(words)

    def _line(self, data: bytes) -> bytes:
        """A line twice, away, or in another place."""
        lines = data.splitlines(keepends=True)
        if not lines:
            return data
        at, what = self._random.randrange(len(lines)), self._random.randrange(3)
        line = lines[at] if what == 0 else lines.pop(at)
        if what != 1:
            lines.insert(self._random.randint(0, len(lines)), line)
        return b"".join(lines)

    # --- trees

    def _json(self, data: bytes) -> bytes:
        try:
            body = json.loads(data)
        except (ValueError, RecursionError):
            return data
        text = json.dumps(self._tree(body), ensure_ascii=self._random.random() < 0.5)
        if self._random.random() < 0.1:
            text = self._deep(text, "[", "]")
        return text.encode("utf-8", "surrogatepass")

    def _jsonl(self, data: bytes) -> bytes:
        lines = data.splitlines()
        if not lines:
            return data
        at = self._random.randrange(len(lines))
        lines[at] = self._json(lines[at])
        return b"\n".join(lines)

    def _yaml(self, data: bytes) -> bytes:
        if b"*a" in data:
            # a tree that shares its branches is too large to walk through
            return data
        try:
            body = yaml.safe_load(data)
        except (yaml.YAMLError, ValueError, RecursionError, OverflowError, AttributeError, TypeError):
            return data
        text = str(yaml.safe_dump(self._tree(body), sort_keys=False))
        what = self._random.random()
        if what < 0.05:
            text = self._deep(text, "[", "]")
        elif what < 0.1:
            text = _LAUGHS_YAML + text
        return text.encode("utf-8", "surrogatepass")

    def _deep(self, text: str, opening: str, closing: str) -> str:
        at = self._random.randint(0, len(text))
        return text[:at] + opening * _DEEP + closing * self._random.choice((0, _DEEP)) + text[at:]

    def _tree(self, body: Any) -> Any:
        """Change one place of a tree of mappings and lists."""
        body = copy.deepcopy(body)
        places = list(_places(body))
        if not places:
            return self._random.choice(VALUES)
        parent, key = self._random.choice(places)
        other_parent, other_key = self._random.choice(places)
        what = self._random.randrange(6)
        if what == 0:
            del parent[key]
        elif what == 1:
            parent[key] = copy.deepcopy(other_parent[other_key])
        elif what == 2 and isinstance(parent, dict):
            parent[self._random.choice((str(other_key), "x", "", "on", "from"))] = parent.pop(key)
        elif what == 3:
            parent[key] = [parent[key], copy.deepcopy(parent[key])]
        elif what == 4 and isinstance(parent[key], int | float):
            parent[key] = self._random.choice((-parent[key], parent[key] + 1, parent[key] * 2**31, str(parent[key])))
        else:
            parent[key] = self._random.choice(VALUES)
        return body

    def _xml(self, data: bytes) -> bytes:
        try:
            root = ElementTree.fromstring(data)
        except (ElementTree.ParseError, ValueError):
            return data
        elements = list(root.iter())
        chosen = self._random.choice(elements)
        what = self._random.randrange(6)
        if what == 0 and chosen.attrib:
            del chosen.attrib[self._random.choice(list(chosen.attrib))]
        elif what == 1 and chosen.attrib:
            chosen.set(self._random.choice(list(chosen.attrib)), self._random.choice((*NUMBERS, *WORDS)))
        elif what == 2:
            chosen.tag = self._random.choice(elements).tag
        elif what == 3:
            chosen.text = self._random.choice((*NUMBERS, *WORDS))
        elif what == 4 and len(chosen):
            chosen.remove(self._random.choice(list(chosen)))
        else:
            self._random.choice(elements[:3]).append(copy.deepcopy(chosen))
        try:
            return bytes(ElementTree.tostring(root))
        except (ValueError, RecursionError):
            return data

    def _entities(self, data: bytes) -> bytes:
        """Entities that grow, or that name a file: what hostile XML does."""
        head = self._random.choice((_LAUGHS, _FOREIGN))
        at = data.find(b">", data.find(b"<", data.find(b"?>") + 1)) + 1
        return head + data[:at] + b"&x;" + data[at:] if self._random.random() < 0.2 else data


def _places(body: Any) -> Any:
    """Every (container, key) of a tree."""
    items = list(body.items()) if isinstance(body, dict) else list(enumerate(body)) if isinstance(body, list) else []
    for key, value in items:
        yield body, key
        yield from _places(value)


_LAUGHS = (
    b"""<!DOCTYPE a [<!ENTITY y "yyyyyyyyyy"><!ENTITY z "&y;&y;&y;&y;&y;&y;&y;&y;"><!ENTITY x "&z;&z;&z;&z;&z;">]>"""
)
_FOREIGN = b"""<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/hostname">]>"""
_LAUGHS_YAML = "".join(
    ["a0: &a0 [x, x]\n", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))]
)
