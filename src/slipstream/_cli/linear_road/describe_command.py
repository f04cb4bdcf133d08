"""``slipstream describe``: a run's figures next to the published ones, and its picture."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from slipstream._cli.common.checks import check_writable
from slipstream._cli.common.options import Conf, Json, Master, start_spark
from slipstream._cli.common.printed_tables import format_value, print_table
from slipstream._errors import Unavailable, classify
from slipstream._spark import session
from slipstream._tools.progress import say

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from slipstream._city.character import Character


def describe(
    run: Annotated[Path, typer.Argument(help="The run to describe.", show_default=False)],
    png: Annotated[
        Path | None, typer.Option("--png", metavar="FILE", help="The picture to write. [default: RUN/picture.png]")
    ] = None,
    expressway: Annotated[
        int | None, typer.Option(help="The expressway whose speeds the picture shows. [default: the first]")
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="First read all tuples and check their digests.")] = False,
    as_json: Json = False,
    master: Master = session.LOCAL,
    conf: Conf = None,
) -> None:
    """Describe a run: a table of figures, and a picture as a PNG file.

    Figures of the benchmark's published run (one expressway, three hours) are shown for comparison, scaled to the run's
    expressways, up to the run's length. The picture has tuples per second, vehicles on the road and mean speed over
    time, a map of speed by segment and time with the accidents on it, and the mix of requests.

    Example: `slipstream describe runs/first --png first.png`
    """
    from slipstream._feeds.history import History
    from slipstream._feeds.run import Run

    opened = Run.open(run)
    check_writable(png, "--png")
    history = History.open(opened)
    from slipstream._city.character import characterise, choose_expressway

    choose_expressway(opened, expressway)
    if verify:
        opened.verify()
        history.verify()
    character = characterise(opened, start_spark("describe", master, conf), xway=expressway)
    from slipstream._city.picture import draw

    picture = png or run / "picture.png"
    _save(draw(character), picture)
    if as_json:
        print(json.dumps(_to_json(character, picture, verified=verify, history=not history.missing)))
        return
    print_table(_make_table(character, verified=verify, history=not history.missing))
    say(f"Picture: {picture}")


def _save(drawing: Drawing, file: Path) -> None:
    try:
        drawing.savefig(file, format="png")
    except OSError as error:
        raise Unavailable(
            f"--png {file}: {error.strerror}.", hint="Give a file that can be written.", code=classify(error)
        ) from error


def _list_facts(character: Character, *, verified: bool, history: bool) -> dict[str, object]:
    """Return the properties of a run, as opposed to its counts."""
    manifest = character.run.manifest
    return {
        "run": str(character.run.path),
        "source": manifest.source,
        "seed": manifest.seed,
        "expressways": character.expressways,
        "stored_expressways": character.run.stored,
        "multiply": manifest.multiply,
        "seconds": manifest.seconds,
        "parameters": manifest.parameters,
        "history": history,
        "verified": verified,
    }


def _to_json(character: Character, picture: Path, *, verified: bool, history: bool) -> dict[str, object]:
    figures = [asdict(figure) for figure in character.figures()]
    facts = _list_facts(character, verified=verified, history=history)
    return {**facts, "standard": character.standard, "figures": figures, "picture": str(picture)}


def _make_table(character: Character, *, verified: bool, history: bool) -> Table:
    table = Table(title="Run", caption_justify="left")
    table.add_column("")
    table.add_column("this run", justify="right")
    table.add_column("published run", justify="right")
    for name, fact in _list_facts(character, verified=verified, history=history).items():
        table.add_row(name.replace("_", " "), _format_fact(fact))
    table.add_section()
    for figure in character.figures():
        known = figure.published is not None
        table.add_row(figure.name, _number(figure.value), _number(figure.published or 0) if known else "")
    table.caption = f"Published figures, scaled to the number of expressways ({character.expressways:g})."
    if not character.standard:
        table.caption += "\nThis run was not made to match them."
    return table


def _format_fact(fact: object) -> str:
    if isinstance(fact, dict):
        return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in fact.items()) or "none"
    return "none" if fact is None else format_value(fact)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) or value >= 1000 else f"{value:,.1f}"


def add_to(app: typer.Typer) -> None:
    """Put the command on the command line."""
    app.command()(describe)
