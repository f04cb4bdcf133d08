"""``slipstream network shed|tap|monitor|inspect``: control and observe a running network."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from slipstream._cli.common.options import Json, show
from slipstream._cli.common.printed_tables import count_nouns, format_cell, print_table
from slipstream._cli.network.network_options import Folder
from slipstream._errors import BadArgument
from slipstream._tools.progress import say


def shed_network(
    folder: Folder,
    drops: Annotated[
        list[str] | None,
        typer.Option("--drop", metavar="PLACE=SHARE", help='How much to drop where, such as "cars -> sort=0.3".'),
    ] = None,
    stop: Annotated[bool, typer.Option("--stop", help="Stop dropping.")] = False,
    as_json: Json = False,
) -> None:
    """Drop a share of the arriving tuples at some places, and show what was dropped so far.

    Without options it shows the places. The choice is written into the trains as they arrive, so a restart drops the
    same tuples again.

    Example: `slipstream network shed out --drop "soldiers -> over=0.3"`
    """
    from slipstream._network.running.run_folder import Execution

    execution = Execution.open(folder)
    if drops or stop:
        execution.shares = {place: float(share) for place, share in (_share(drop) for drop in drops or [])}
    dropped: dict[str, int] = {}
    for line in execution.shed():
        for place, count in line["dropped"].items():
            dropped[place] = dropped.get(place, 0) + count
    shares = execution.shares
    result = {str(p): f"{shares.get(str(p), 0.0):.0%}, so far {dropped.get(str(p), 0):,}" for p in execution.places}
    show(result, as_json=as_json, title="Dropped: share now, tuples so far")


def _share(text: str) -> tuple[str, float]:
    place, _, share = text.rpartition("=")
    try:
        return place, float(share)
    except ValueError as error:
        raise BadArgument(
            f"--drop {text}: not PLACE=SHARE.",
            hint='Write --drop "cars -> sort=0.3".',
            code="malformed-value",
            found=text,
        ) from error


def monitor_network(folder: Folder, as_json: Json = False) -> None:
    """Show each output's tuples, delay, share delivered and utility, batch by batch.

    Example: `slipstream network monitor out`
    """
    from slipstream._network.running.run_folder import Execution

    entries = Execution.open(folder).monitor.entries()
    if as_json:
        print(json.dumps(entries))
        return
    if not any(entry["outputs"] for entry in entries):
        say(f"{folder}: nothing has been delivered so far")
        return
    table = Table("batch", "output", "tuples", "mean delay s", "worst s", "on time", "delivered", "utility")
    for entry in entries:
        for name, line in entry["outputs"].items():
            delays = (f"{line[key]:.2f}" for key in ("delay", "worst"))
            shares = (f"{line[key]:.0%}" for key in ("good", "delivered"))
            table.add_row(str(entry["batch"]), name, f"{line['tuples']:,}", *delays, *shares, f"{line['utility']:.2f}")
    print_table(table)


def inspect_network(
    folder: Folder,
    name: Annotated[
        str, typer.Argument(help="An output (rejects is one), a view, a connection point, or a tapped arc (tap_BOX).")
    ],
    last: Annotated[int, typer.Option(min=1, help="How many of the newest tuples to show.")] = 20,
    as_json: Json = False,
) -> None:
    """Show the newest tuples on an output, a connection point or a tapped arc.

    Of any other job (`toll`, `archive`, `cuboid run`) it shows the newest rows of an output, such as `rejects`.

    Example: `slipstream network inspect out alerts --last 5`
    """
    from slipstream._network.running.run_folder import newest_tuples

    rows = newest_tuples(folder, name, last)
    if as_json:
        print(json.dumps(rows, default=str))
        return
    if not rows:
        say(f"{name}: no tuples so far")
        return
    table = Table(*map(escape, rows[0]), title=f"{name}: the last {count_nouns(len(rows), 'tuple')}")
    for row in rows:
        table.add_row(*(escape(format_cell(value)) for value in row.values()))
    print_table(table)


def tap_network(
    folder: Folder,
    arcs: Annotated[
        list[str] | None, typer.Argument(metavar="BOX[.PORT]", help="The arcs to record; none to stop recording.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Record arcs in addition to the outputs, from the next start of the network on.

    `slipstream network inspect FOLDER tap_BOX` shows what was recorded.

    Example: `slipstream network tap out over`
    """
    from slipstream._network.algebra import Arc
    from slipstream._network.running.run_folder import Execution

    execution = Execution.open(folder)
    execution.taps = [Arc.parse(text) for text in arcs or []]
    if as_json:
        print(json.dumps({"taps": list(execution.taps)}))
    else:
        say("tapped: " + (", ".join(execution.taps) or "nothing"))


def add_to(app: typer.Typer) -> None:
    """Put these commands on the command line."""
    app.command("shed")(shed_network)
    app.command("monitor")(monitor_network)
    app.command("inspect")(inspect_network)
    app.command("tap")(tap_network)
