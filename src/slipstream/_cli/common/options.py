"""Options that several commands share, and how every command prints its result."""

from __future__ import annotations

import json
import math
import re
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from slipstream._cli.common.printed_tables import format_value, print_table
from slipstream._cli.common.verbosity import set_json
from slipstream._errors import BadArgument, BadInput
from slipstream._spark import session
from slipstream._tools.progress import COMPILING, say_once


def _check_master(master: str) -> str:
    if master.startswith("sc:"):
        raise BadArgument(
            f"--master {master}: Spark Connect cannot run this: tasks and driver share files and state.",
            hint="Give the cluster's own address, such as spark://HOST:7077 (docs/how-to/cluster.md).",
            code="not-allowed",
            found=master,
        )
    if not re.fullmatch(r"local(\[[\d*, ]+\])?|local-cluster\[[\d, ]+\]|(spark|k8s)://.+|yarn", master):
        raise BadArgument(
            f"--master {master}: not a Spark master.",
            hint="Give local[*], spark://HOST:7077, yarn or k8s://URL.",
            code="malformed-value",
            found=master,
        )
    return master


def _check_conf(pairs: list[str] | None) -> list[str] | None:
    session.parse_conf(pairs or [])
    return pairs


Master = Annotated[
    str,
    typer.Option(
        "--master",
        callback=_check_master,
        metavar="URL",
        envvar="SLIPSTREAM_MASTER",
        help="Where Spark runs: local[*], spark://HOST:7077, yarn or k8s://URL.",
        rich_help_panel="Spark",
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option(
        "--conf",
        callback=_check_conf,
        metavar="KEY=VALUE",
        help="A Spark setting. Repeatable.",
        rich_help_panel="Spark",
    ),
]
Json = Annotated[
    bool,
    typer.Option("--json", callback=set_json, help="Print the result, or the error, as JSON."),
]


EXPORTER = "slipstream._runtime.watching.exporter"


def _set_metrics(where: str) -> str:
    if where or EXPORTER in sys.modules:  # nobody else waits for its imports
        from slipstream._runtime.watching.exporter import Where, export_to

        export_to(Where.parse(where) if where else None)
    return where


Metrics = Annotated[
    str,
    typer.Option(
        "--metrics",
        callback=_set_metrics,
        metavar="WHERE",
        help="Metrics while the job runs. For Prometheus: a PORT or HOST:PORT to serve them at, or a FILE.prom. For "
        "OpenTelemetry: otlp:http://HOST:4318.",
    ),
]


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
        raise BadArgument(
            f"--max-rejects {text}: not a share.", hint="Write 0.1 or 10%.", code="malformed-value", found=text
        )
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


def check_rejects(rejected: int, total: int, most: float, rejects: Path | str, *, hint: str = "") -> None:
    """Refuse a result of which too much was rejected: more than the share ``most``, or all there was.

    >>> check_rejects(3, 10, 1.0, "out/rejects.csv")
    """
    if rejected and (rejected >= total or rejected > most * total):
        raise BadInput(
            f"{rejects}: {rejected:,} of {total:,} rejected ({rejected / total:.1%}); --max-rejects is {most:.4g}.",
            hint=hint or f"{rejects} has each of them with the reason.",
            code="too-many-rejects",
            found=rejected / total,
            expected=most,
        )


def start_spark(name: str, master: str, conf: list[str] | None, *, quick: bool = False) -> Any:
    """Start the session of a command, which must have checked its arguments before.

    ``quick`` is for sessions with many small batches.
    """
    joined = session.is_running()
    spark = session.build(name, master=master, conf=session.parse_conf(conf or []), quick=quick)
    if not joined:
        threading.Thread(target=_repeat_workers, args=(session.spark_log(),), daemon=True).start()
    return spark


def _repeat_workers(log: Path) -> None:
    """Report that workers compile kernels: their own messages go to Spark's log."""
    looked_at = 0
    with suppress(FileNotFoundError):  # the session has ended
        while COMPILING not in (log.read_text(errors="replace") if log.stat().st_size > looked_at else ""):
            looked_at = log.stat().st_size
            time.sleep(0.5)
        say_once(COMPILING)


_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


def parse_seconds(option: str, text: str) -> int:
    """Parse a duration into seconds.

    >>> [parse_seconds("--window", text) for text in ("90", "90s", "20m", "3h")]
    [90, 90, 1200, 10800]
    """
    found = re.fullmatch(r"([0-9]{1,9})([smh]?)", text.strip())
    length = int(found[1]) * _UNITS[found[2]] if found else 0
    if not length:
        raise BadArgument(
            f"{option} {text}: not a length of time.",
            hint="Write whole seconds, minutes or hours: 90s, 20m or 3h.",
            code="malformed-value",
        )
    return length


def show(result: Mapping[str, Any], *, as_json: bool, title: str = "") -> None:
    """Print a command's result: a table for people, one JSON object for scripts."""
    if as_json:
        print(json.dumps(result))
        return
    table = Table(title=title or None, show_header=False)
    for key, value in result.items():
        table.add_row(key.replace("_", " "), escape(format_value(value)))
    print_table(table)
