"""Rows as a table in HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], caption: str = "") -> str:
    """Return rows as a table.

    >>> table([{"id": "<a>"}], ["id"])
    '<table><thead><tr><th>id</th></tr></thead><tbody><tr><td>&lt;a&gt;</td></tr></tbody></table>'
    """
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(row.get(name)))}</td>" for name in columns) + "</tr>" for row in rows
    )
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
