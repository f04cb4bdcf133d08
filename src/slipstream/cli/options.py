"""Options that several commands share, and how every command prints its result."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from slipstream import session
from slipstream.errors import BadArgument

Master = Annotated[
    str,
    typer.Option(
        "--master",
        envvar="SLIPSTREAM_MASTER",
        help="Where Spark runs: local[*], spark://host:7077, yarn, k8s://...",
        rich_help_panel="Spark",
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", help="A Spark setting key=value; may be given again.", rich_help_panel="Spark"),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for scripts.")]


_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


def seconds_of(option: str, text: str) -> int:
    """A length of time that an option gives, in seconds.

    >>> [seconds_of("--window", text) for text in ("90", "90s", "20m", "3h")]
    [90, 90, 1200, 10800]
    """
    found = re.fullmatch(r"([0-9]{1,9})([smh]?)", text.strip())
    length = int(found[1]) * _UNITS[found[2]] if found else 0
    if not length:
        raise BadArgument(
            f"{option} {text}: not a length of time.", hint="Write whole seconds, minutes or hours: 90s, 20m or 3h."
        )
    return length


def spark_session(name: str, master: str, conf: list[str] | None) -> Any:
    """The session for one command."""
    return session.build(name, master=master, conf=session.parse_conf(conf or []))


def show(result: Mapping[str, Any], *, as_json: bool, title: str = "") -> None:
    """Print a command's result: a table for people, one JSON object for scripts."""
    if as_json:
        print(json.dumps(result))
        return
    table = Table(title=title or None, show_header=False, title_justify="left")
    for key, value in result.items():
        table.add_row(key.replace("_", " "), f"{value:,}" if isinstance(value, int) else str(value))
    Console().print(table)
