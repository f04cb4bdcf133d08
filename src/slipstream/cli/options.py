"""Options that several commands share, and how every command prints its result."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from slipstream import session
from slipstream.errors import BadArgument, BadInput

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


def share(text: str | float) -> float:
    """A share between 0 and 1, as a number or in percent.

    >>> share("0.1"), share("10%"), share("100 %")
    (0.1, 0.1, 1.0)
    """
    number, percent, _ = str(text).partition("%")
    try:
        value = float(number) / (100 if percent else 1)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise BadArgument(f"--max-rejects {text}: not a share.", hint="Write 0.1 or 10%.")
    return value


MaxRejects = Annotated[
    float,
    typer.Option(
        "--max-rejects",
        parser=share,
        metavar="SHARE",
        help="Exit with code 3 if more than this share of the input is rejected, or all of it: 0.1 or 10%.",
    ),
]


def check_rejects(rejected: int, total: int, most: float, rejects: Path | str) -> None:
    """Refuse a result of which too much was rejected: more than the share ``most``, or all there was.

    >>> check_rejects(3, 10, 1.0, "out/rejects.csv")
    """
    if rejected and (rejected >= total or rejected > most * total):
        raise BadInput(
            f"{rejected:,} of {total:,} rejected ({rejected / total:.1%}); --max-rejects is {most:.4g}.",
            hint=f"{rejects} has each of them with the reason.",
        )


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
