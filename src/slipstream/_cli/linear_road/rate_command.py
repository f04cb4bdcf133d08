"""``slipstream rate``: the L-rating of this machine."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from slipstream._cli.common.checks import check_folder, check_there
from slipstream._cli.common.options import Conf, Json, Master, parse_seconds, show, start_spark
from slipstream._cli.common.printed_tables import count_nouns, print_table
from slipstream._errors import MALFORMED, BadArgument, BadInput, CheckFailed
from slipstream._spark import session
from slipstream._tools.progress import say

if TYPE_CHECKING:
    from slipstream._bench.rating.engines import RatedEngine
    from slipstream._bench.rating.full import FullRun
    from slipstream._bench.rating.outside import FromOutside
    from slipstream._bench.rating.programs import EngineProgram
    from slipstream._bench.rating.search import Rating, Search
    from slipstream._bench.rating.trial import ResponseSummary, Trial
    from slipstream._feeds.run import Run

HOURS_3 = 180


class Rated(StrEnum):
    """What can be rated."""

    SLIPSTREAM = "slipstream"
    POSTGRES = "postgres"


class DoorName(StrEnum):
    """How the driver reaches the engine."""

    KAFKA = "kafka"
    TCP = "tcp"


class Encoded(StrEnum):
    """How tuples are written on their way."""

    TRAIN = "train"
    TEXT = "text"
    JSON = "json"


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
    door: Annotated[
        DoorName | None,
        typer.Option(
            help="Drive through a Kafka broker or over TCP. By default kafka, if a broker can be started.",
            show_default=False,
        ),
    ] = None,
    format_: Annotated[
        Encoded | None,
        typer.Option(
            "--format", help="How tuples are written. By default train, for other engines text.", show_default=False
        ),
    ] = None,
    broker: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Use this broker instead of starting one.", show_default=False)
    ] = "",
    replay: Annotated[
        bool, typer.Option("--replay", help="Replay inside the engine instead of driving it from outside.")
    ] = False,
    distinct: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="Simulate N different expressways; L is a multiple of N."),
    ] = 10,
    cold: Annotated[
        bool, typer.Option("--cold", help="Start without the state of the seconds before the window.")
    ] = False,
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="Drive all three hours at 70 % of the rating in DIR, or --at L. The same command resumes it.",
        ),
    ] = False,
    at: Annotated[int | None, typer.Option(min=1, metavar="L", help="The L of --full.")] = None,
    engine: Annotated[Rated, typer.Option(help="slipstream, or postgres for the paper's System X.")] = Rated.SLIPSTREAM,
    engine_command: Annotated[
        str,
        typer.Option(
            metavar="COMMAND",
            help="Rate another engine, started by this command; docs/how-to/engine-builders.md has its words in "
            "braces, such as {host}, {port}, {topic}, {answers} and {out}.",
            show_default=False,
        ),
    ] = "",
    only: Annotated[
        str, typer.Option(metavar="KINDS", help="The kinds of answers that another engine gives.")
    ] = "0,1,2,3,4",
    parallel: Annotated[
        int, typer.Option(min=0, help="The number of fragments of the engine; 0 for its own choice.")
    ] = 0,
    run: Annotated[Path | None, typer.Option(metavar="RUN", help="Rate on this run instead of a standard one.")] = None,
    seed: Annotated[int, typer.Option(help="The seed of the standard run.")] = 1,
    as_json: Json = False,
    master: Master = session.LOCAL,
    conf: Conf = None,
) -> None:
    """Find the largest number of expressways that this machine sustains within Linear Road's limits.

    N expressways are simulated for three hours and presented L / N times. Each try starts an engine with the state of
    the busiest part of the three hours; a driver in a process of its own then sends its last minutes in real time,
    through a Kafka broker or over TCP. Response times count from arrival at that door. The largest L whose answers are
    all in time over the whole window and pass the validator, while the engine is busy at most 85 % of the time in each
    third of it, is the rating. If the driver itself is late, a try is void. Nothing else should run on the machine.

    Examples:

    `slipstream rate --min 20 --window 5m --out rating` # through a broker that it starts

    `slipstream rate --full --out rating` # three hours at 70 % of that

    `slipstream rate --engine-command './my-engine {host}:{port} {topic} {answers}' --only 0,1` # an engine of your own
    """
    check_there(run, option="--run", what="run", hint="`slipstream simulate --out RUN` makes one.")
    check_folder(out)
    asked, probed = parse_seconds("--window", window), parse_seconds("--probe", probe)
    _check(replay=replay, door=door, engine=engine, engine_command=engine_command, full=full, at=at, only=only)
    rating = _read_rating(out) if full and at is None else 0
    from slipstream._bench.rating.engines import OwnReplay, Postgres, make_engine_options
    from slipstream._bench.rating.programs import EngineCommand, TollEngine

    presented = _open(run, out, seed, distinct, master, conf)
    options = make_engine_options(master, conf or [], parallel)
    search = partial(_find, presented, asked, probed, out, (least, most), run, as_json=as_json)
    if engine == Rated.POSTGRES:
        search(Postgres(lambda: start_spark("rate", master, conf)))
    elif replay:
        search(OwnReplay(options))
    else:
        program = EngineCommand(engine_command, only) if engine_command else TollEngine(options, cold=cold)
        written = format_ or (Encoded.TEXT if engine_command else Encoded.TRAIN)
        with _reach(program, door, broker, written, stays=full) as rated:
            if full:
                _drive_full(rated, presented, at, rating, out, as_json=as_json)
            else:
                search(rated)


@contextmanager
def _reach(
    program: EngineProgram, door: DoorName | None, broker: str, written: Encoded, *, stays: bool
) -> Iterator[FromOutside]:
    """The engine that a program starts, reached through a broker or a socket."""
    from slipstream._bench.rating.doors import find_door
    from slipstream._bench.rating.outside import FromOutside

    with find_door(door or "", broker, stays=stays) as opened:
        yield FromOutside(program, opened, written.value)


def _drive_full(rated: FromOutside, presented: Run, at: int | None, rating: int, out: Path, *, as_json: bool) -> None:
    """Drive all seconds of the run, at L or at a share of the rating."""
    from slipstream._bench.rating.full import drive_full, take_share

    expressways = at or take_share(rating, presented.stored)
    _show_full(drive_full(rated, presented, expressways, out), out, as_json=as_json)


def _check(
    *,
    replay: bool,
    door: DoorName | None,
    engine: Rated,
    engine_command: str,
    full: bool,
    at: int | None,
    only: str,
) -> None:
    """Refuse options that exclude each other."""
    inside = "--replay" if replay else "--engine postgres" if engine == Rated.POSTGRES else ""
    if inside and (door or full or engine_command):
        raise BadArgument(
            f"{inside} cannot be combined with --door, --full or --engine-command.",
            hint="Leave them out, or rate from outside.",
            code="conflicting-options",
        )
    if at is not None and not full:
        raise BadArgument("--at is for --full.", hint="--min and --max limit the search.", code="conflicting-options")
    if not re.fullmatch("[0-4](,[0-4])*", only):
        raise BadArgument(
            f"--only {only}: not a list of kinds.", hint="Write, for example, --only 0,1,2.", code="malformed-value"
        )


def _read_rating(out: Path) -> int:
    """The rating that an earlier search has found."""
    try:
        return int(json.loads((out / "rating.json").read_text(encoding="utf-8"))["expressways"])
    except FileNotFoundError as error:
        raise BadArgument(
            f"--full: {out} has no rating yet.", hint="Rate the machine first, or give --at L.", code="missing-value"
        ) from error
    except MALFORMED as error:
        raise BadInput(
            f"{out / 'rating.json'}: damaged ({error}).", hint="Give --at L.", code="damaged-file"
        ) from error


def _find(
    presented: Run,
    window: int,
    probe: int,
    out: Path,
    limits: tuple[int, int],
    run: Path | None,
    rated: RatedEngine,
    *,
    as_json: bool,
) -> None:
    """Search for the rating, and write and print it."""
    from slipstream._bench.rating.rating_page import write_rating
    from slipstream._bench.rating.search import Search
    from slipstream._bench.rating.search import rate as find
    from slipstream._bench.rating.trial import TimeWindow

    whole = TimeWindow(0, presented.manifest.seconds)
    search = Search(rated, presented, whole.last(window), probe, out, *limits)
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
    held = max((tried.expressways for tried in tries if tried.in_time), default=0)
    if not held:
        say("Interrupted before any L was sustained. There is no rating.")
        return
    options = f"--min {held} --max {search.most} --window {search.window.seconds}s --probe {search.probe}s"
    options += f" --out {search.out}" + (f" --run {run}" if run else "")
    say(
        f"Interrupted. L = {held} was sustained so far. It is not a rating: it was not confirmed over the whole window."
    )
    say(f"To continue from there: slipstream rate {options}, and the other options as before.")


def _open(run: Path | None, out: Path, seed: int, distinct: int, master: str, conf: list[str] | None) -> Run:
    """The run to rate on; the standard one is made once and kept."""
    from slipstream._city.history_writer import make_history
    from slipstream._city.simulate import simulate
    from slipstream._city.traffic import Traffic
    from slipstream._feeds.run import Run

    if run is not None:
        return Run.open(run)
    folder = out / f"run-{seed}-{distinct}"
    if folder.exists():
        return Run.open(folder)
    say(f"Making the standard run in {folder} (about half a minute per expressway) ...")
    spark = start_spark("rate", master, conf)
    made = simulate(spark, Traffic(expressways=distinct, minutes=HOURS_3), seed, folder)
    make_history(made, spark)
    session.close()
    return made


def _make_table(engine: str, tries: Iterable[Trial]) -> Table:
    from slipstream._bench.rating.rating_page import TRIAL_HEADS, make_trial_row

    table = Table(*TRIAL_HEADS, title=f"Tries of {engine}")
    for tried in tries:
        table.add_row(*make_trial_row(tried))
    return table


def _show_responses(responses: dict[str, ResponseSummary]) -> None:
    table = Table("", "p50", "p99", "max", "limit", "late", title="Response times")
    for name, response in responses.items():
        times = (f"{getattr(response, what):.1f} s" for what in ("p50", "p99", "max", "limit"))
        table.add_row(name, *times, f"{response.late:,}")
    print_table(table)


def _show(rating: Rating) -> None:
    console = Console()
    print_table(_make_table(rating.engine, rating.tries))
    _show_responses(rating.confirmed.responses)
    console.print(
        f"[bold]L = {rating.expressways}[/] on {count_nouns(rating.cores, 'core')}: {rating.per_core} per core."
    )
    console.print(f"All answers were in time up to L = {rating.highest}, in trials without headroom.", highlight=False)
    console.print(f"{rating.statement} {rating.machine}.", highlight=False)


def _show_full(full: FullRun, out: Path, *, as_json: bool) -> None:
    trial = full.trial
    say(f"Report: {out / f'full-{trial.expressways}' / 'full.html'}")
    if as_json:
        show(full.to_dict(), as_json=True)
    else:
        print_table(_make_table(full.engine, [trial]))
        _show_responses(trial.responses)
        Console().print("; ".join(full.resumed) or "Not interrupted.", highlight=False)
    if not trial.validated or trial.void or (not trial.in_time and not full.resumed):
        raise CheckFailed(
            f"L = {trial.expressways} was not sustained: {trial.outcome}.",
            hint=f"See {full.output}.",
            code="check-failed",
        )


def add_to(app: typer.Typer) -> None:
    """Put the command on the command line."""
    app.command()(rate)
