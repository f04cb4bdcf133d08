"""The options in a help, in two columns: Typer's own have six, and cut names and words in a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from rich.console import Group
from rich.table import Table
from rich.text import Text
from typer import rich_utils

#: the cells of an option in Typer's table: long and short names, those of its opposite, the value, the help
_CELLS = 6


class HelpTable(Table):
    """A table in which an option has two cells: its names with its value, and its help."""

    def add_row(self, *cells: Any, **settings: Any) -> None:
        """Add a row of Typer's; rows of commands stay as they are."""
        if len(cells) < _CELLS:
            super().add_row(*cells, **settings)
            return
        *required, long, short, long_opposite, short_opposite, value, text = cells
        names = Text(", ").join(
            filter(None, (short, short_opposite, Text("/").join(filter(None, (long, long_opposite)))))
        )
        parts = getattr(text, "renderables", [text])
        super().add_row(*required, Text(" ").join(filter(None, (names, value))), Group(*parts), **settings)
        for column in self.columns:
            column.overflow = "fold"


@contextmanager
def help_tables() -> Iterator[None]:
    """Print help with these tables."""
    with patch.object(rich_utils, "Table", HelpTable):
        yield
