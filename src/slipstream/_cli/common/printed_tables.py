"""Tables that commands print: titles do not wrap, figures are never cut, an empty table is reported as such."""

from __future__ import annotations

import math
import re
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

#: wider than any table: what is written to a pipe or a file has no screen to fit
_ANY_WIDTH = 10_000
#: how narrow a column of texts may become
_SHORTEST = 10
_FIGURE = re.compile(r"(-?[\d,.]+( ?(s|ms|µs|%|GiB))?)?")


def format_value(value: Any) -> str:
    """Format a value for people.

    >>> format_value(5208630.0), format_value(13.364784692391), format_value(0.000123456)
    ('5,208,630', '13.36', '0.000123')
    >>> format_value(True), format_value(12345), format_value(None)
    ('yes', '12,345', '')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return _format_decimal(value)
    if isinstance(value, list | tuple):
        return ", ".join(map(format_value, value)) or "none"
    return str(value)


def format_cell(value: Any) -> str:
    """Format a value of a tuple: integers may be keys, so they have no separators.

    >>> format_cell(12345), format_cell(0.5), format_cell(None)
    ('12345', '0.5', '')
    """
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else format_value(value)


def _format_decimal(value: float) -> str:
    """Format a number with two decimals, more if it is small, without trailing zeros or exponents."""
    if not math.isfinite(value):
        return str(value)
    places = 2 if abs(value) >= 1 or not value else min(12, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{places}f}"
    return text.rstrip("0").rstrip(".")


def count_nouns(count: int, noun: str) -> str:
    """Return a number with its noun in the singular or plural.

    >>> count_nouns(1, "stage"), count_nouns(2, "stage"), count_nouns(1000, "batch"), count_nouns(0, "query")
    ('1 stage', '2 stages', '1,000 batches', '0 queries')
    >>> count_nouns(2, "day")
    '2 days'
    """
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{count:,} {noun[:-1]}ies"
    return f"{count:,} {noun}{'es' if noun.endswith(('s', 'x', 'ch')) else 's'}"


def print_table(table: Table, *, nothing: str = "nothing", console: Console | None = None) -> None:
    """Print a table with its title; of one without rows, ``nothing``."""
    console, title = console or Console(), table.title
    if not table.rows:
        console.print(f"{title}: {nothing}" if title else nothing, soft_wrap=True, highlight=False)
        return
    if title:
        console.print(title, style="table.title", soft_wrap=True, highlight=False)
    table.title = None
    for column in table.columns:
        if _has_figures(column):
            column.justify, column.no_wrap = "right", True
        else:
            column.overflow = "fold"
    console.width = _fit_width(console, table)
    console.print(table)


def _has_figures(column: Column) -> bool:
    cells = _list_cells(column)
    return any(cells) and all(_FIGURE.fullmatch(cell) for cell in cells)


def _list_cells(column: Column) -> list[str]:
    return [Text.from_markup(cell).plain if isinstance(cell, str) else str(cell) for cell in column.cells]


def _fit_width(console: Console, table: Table) -> int:
    """Return the terminal's width, or more if a figure would be cut; without a terminal, the table's width."""
    wanted = Measurement.get(console, console.options.update(width=_ANY_WIDTH), table).maximum
    if not console.is_terminal:
        return wanted
    if wanted > console.width:
        _wrap_heads(table)
    return max(console.width, _measure_least_width(table))


def _wrap_heads(table: Table) -> None:
    """Put each word of a heading on a line of its own, where the figures below cannot be wrapped."""
    for column in table.columns:
        if column.no_wrap and isinstance(column.header, str):
            column.header = column.header.replace(" ", "\n")


def _measure_least_width(table: Table) -> int:
    """Return the width that all figures need, and texts of a few letters to a line."""
    widths = []
    for column in table.columns:
        lines = [line for cell in (str(column.header), *_list_cells(column)) for line in cell.split("\n")]
        widest = max(map(len, lines))
        widths.append(widest if column.no_wrap else min(widest, _SHORTEST))
    return sum(widths) + 3 * len(widths) + 1
