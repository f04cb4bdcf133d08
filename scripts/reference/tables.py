"""Markdown tables of what the code declares."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from slipstream._cuboid.schema import AST, Schema

WRITTEN = "Written by `make docs` from the code.\n"
_FIELD = re.compile(r"^\s+(\w+): .*?#:? (.*)$", re.MULTILINE)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table; what would end a cell is escaped.

    >>> table(("a", "b"), [(1, "x | y")])
    '| a | b |\\n|---|---|\\n| 1 | x \\\\| y |\\n'
    """
    cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in line] for line in (head, *rows)]
    lines = ["| " + " | ".join(line) + " |" for line in cells]
    lines.insert(1, "|---" * len(head) + "|")
    return "\n".join(lines) + "\n"


def fields(kind: Any) -> str:
    """The fields of a dataclass: name, type, and the comment beside it."""
    comments = dict(_FIELD.findall(inspect.getsource(kind)))
    rows = [(f"`{f.name}`", f"`{f.type}`", comments.get(f.name, "")) for f in dataclasses.fields(kind)]
    return table(("field", "type", ""), rows)


def meanings(words: Mapping[str, str]) -> str:
    """Names and what they mean."""
    return table(("name", ""), [(f"`{name}`", meaning) for name, meaning in words.items()])


def cuboid(schema: Schema) -> str:
    """A cuboid's attributes, the key first."""
    rows = [(f"`{schema.key}`", "`i8`", "key")]
    for attribute in schema.attributes:
        what = f"the latest {attribute.depth}" if isinstance(attribute, AST) else ""
        rows.append((f"`{attribute.name}`", f"`{attribute.dtype}`", what))
    return table(("attribute", "type", ""), rows)


def layout(module: Any) -> str:
    """The folder that a module's docstring draws: its lines with two columns."""
    lines = [line.strip() for line in (module.__doc__ or "").splitlines()]
    drawn = [line for line in lines if re.match(r"[A-Za-z]+/\S+ {2,}\S", line)]
    return "```text\n" + "\n".join(drawn) + "\n```\n"


def first_line(thing: Any) -> str:
    """The first line of a docstring."""
    return (inspect.getdoc(thing) or "").partition("\n\n")[0].replace("\n", " ")
