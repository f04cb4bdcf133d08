"""Docstrings as the code has them, made Markdown: doctests and tables stand in blocks of code, roles become names."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_DOCTEST = re.compile(r"^([ ]*)>>> .*\n(?:\1\S.*\n)*", re.MULTILINE)
_TABLE = re.compile(r"^=+ +=+.*\n(?:.+\n)*?=+ +=+.*\n(?:(?:.+\n)*?=+ +=+.*\n)?", re.MULTILINE)
_ROLE = re.compile(r":(?:class|func|mod):`([^`]+)`")


def as_markdown(text: str) -> str:
    """A docstring in which Markdown finds what its writer meant.

    >>> as_markdown("Twice.\\n\\n>>> twice(2)\\n4")
    'Twice.\\n\\n```pycon\\n>>> twice(2)\\n4\\n```'
    """
    text = _ROLE.sub(r"`\1`", text + "\n")
    text = _TABLE.sub(lambda table: f"```text\n{table[0]}```\n", text)
    return _DOCTEST.sub(lambda test: f"```pycon\n{test[0]}```\n", text).rstrip("\n")


class Doctests(Extension):
    """Rewrites every docstring on its way into the site."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Called for every module, class, function and attribute."""
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)
