"""``slipstream rate``: the L-rating of this machine."""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from slipstream._cli.common.checks import check_folder, check_there
from slipstream._cli.common.options import Conf, Json, Master, parse_seconds, show, start_spark
from slipstream._cli.common.tables import count_nouns, print_table
from slipstream._spark import session
from slipstream._tools.progress import say

if TYPE_CHECKING:
    from slipstream._bench.rating import Rating, Search, Trial
    from slipstream._feeds.run import Run

HOURS_3 = 180


class Rated(StrEnum):
    """What can be rated."""

    SLIPSTREAM = "slipstream"
    POSTGRES = "postgres"


def rate(
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder for data, tries and the report.")] = Path(
        "rating"
    ),
    least: Annotated[
        int, typer.Option("--min", min=1, metavar="L", help="The number of expressways to start with.")
    ] = 1,
    most: Annotated[int, typer.Option("--max", min=1, metavar="L", help="The largest number to try.")] = 600,
    window: Annotated[
        str, typer.Option(metavar="TIME", help="How long the machine must sustain the rating: 90s, 20m, 3h.")
    ] = "20m",
    probe: Annotated[str, typer.Option(metavar="TIME", help="How long each try of the search takes: 30s, 2m.")] = "2m",
    full: Annotated[bool, typer.Option("--full", help="Sustain all three hours, from the first second on.")] = False,
    engine: Annotated[Rated, typer.Option(help="slipstream, or postgres for the paper's System X.")] = Rated.SLIPSTREAM,
    run: Annotated[Path | None, typer.Option(metavar="RUN", help="Rate on this run instead of a standard one.")] = None,
    seed: Annotated[int, typer.Option(help="The seed of the standard run.")] = 1,
    as_json: Json = False,
    master: Master = session.LOCAL,
    conf: Conf = None,
) -> None:
    """Find the largest number of expressways that this machine sustains within Linear Road's limits.

    One expressway is simulated for three hours and presented L times. Each try starts an engine with the state of the
    busiest part of the three hours and drives its last minutes in real time. The largest L whose answers are all in
    time over the whole window, and pass the validator, is the rating. Nothing else should run on the machine.

    Example: `slipstream rate --min 20 --window 5m --out rating`
    """
    check_there(run, option="--run", what="run", hint="`slipstream simulate --out RUN` makes one.")
    check_folder(out)
    asked, probed = parse_seconds("--window", window), parse_seconds("--probe", probe)
    from slipstream._bench.rating import Search, Window, find_engine
    from slipstream._bench.rating import rate as find
    from slipstream._bench.rating_report import write_rating

    rated = find_engine(engine, master, conf or [], lambda: start_spark("rate", master, conf))
    presented = _open(run, out, seed, master, conf)
    whole = Window(0, presented.manifest.seconds)
    search = Search(rated, presented, whole if full else whole.last(asked), probed, out, least, most)
    try:
        rating = find(search)
    except KeyboardInterrupt:
        _tell_progress(search, run)
        raise
    write_rating(rating, out / "rating.html")
    (out / "rating.json").write_text(json.dumps(rating.to_dict(), indent=2) + "\n", encoding="utf-8")
    say(f"Report: {out / 'rating.html'}")
    if as_json:
        show(rating.to_dict(), as_json=True)
    else:
        _show(rating)


def _tell_progress(search: Search, run: Path | None) -> None:
    """Print what an interrupted search has found, and how to continue from there."""
    tries = list(search.made.values())
    if tries:
        print_table(_make_table(search.engine.name, tries), console=Console(stderr=True))
    held = max((tried.expressways for tried in tries if tried.held), default=0)
    if not held:
        say("Interrupted before any L held. Nothing is rated.")
        return
    options = f"--min {held} --max {search.most} --window {search.window.seconds}s --probe {search.probe}s"
    options += f" --engine {search.engine.name} --out {search.out}" + (f" --run {run}" if run else "")
    say(f"Interrupted. L = {held} held so far, not confirmed over the whole window and validated: it is no rating yet.")
    say(f"To continue from there: slipstream rate {options}")


def _open(run: Path | None, out: Path, seed: int, master: str, conf: list[str] | None) -> Run:
    """The run to rate on; the standard one is made once and kept."""
    from slipstream._city.history import make_history
    from slipstream._city.simulate import simulate
    from slipstream._city.traffic import Traffic
    from slipstream._feeds.run import Run

    if run is not None:
        return Run.open(run)
    folder = out / f"run-{seed}"
    if folder.exists():
        return Run.open(folder)
    say(f"Making the standard run in {folder} (about a minute) ...")
    spark = start_spark("rate", master, conf)
    made = simulate(spark, Traffic(expressways=1, minutes=HOURS_3), seed, folder)
    make_history(made, spark)
    session.close()
    return made


def _make_table(engine: str, tries: Iterable[Trial]) -> Table:
    table = Table("L", "seconds", "", "slowest answer", "memory", title=f"Tries of {engine}")
    for tried in tries:
        table.add_row(
            str(tried.expressways), str(tried.seconds), tried.outcome, f"{tried.slowest:.1f} s", f"{tried.gib:.1f} GiB"
        )
    return table


def _show(rating: Rating) -> None:
    console = Console()
    print_table(_make_table(rating.engine, rating.tries))
    responses = Table("", "p50", "p99", "max", "limit", title="Response times at the rating")
    for name, response in rating.confirmed.responses.items():
        responses.add_row(
            name.replace("_", " "), *(f"{getattr(response, what):.1f} s" for what in ("p50", "p99", "max", "limit"))
        )
    print_table(responses)
    console.print(
        f"[bold]L = {rating.expressways}[/] on {count_nouns(rating.cores, 'core')}: {rating.per_core} per core."
    )
    console.print(f"{rating.statement} {rating.machine}.", highlight=False)


def add_to(app: typer.Typer) -> None:
    """Put the command on the command line."""
    app.command(rich_help_panel="Benchmark kit")(rate)
