"""Commands of the benchmark kit: they serve any engine that runs Linear Road."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from slipstream._bench.validation.editions import find_edition
from slipstream._bench.validation.outputs import FieldOrder, check_outputs
from slipstream._cli.common.checks import check_folder, check_there, check_writable
from slipstream._cli.common.command_style import Family
from slipstream._cli.common.options import Conf, Json, Master, show, start_spark
from slipstream._cli.common.overwriting import Overwrite, replacing
from slipstream._cli.common.printed_tables import print_table
from slipstream._cli.linear_road.drive_command import drive
from slipstream._errors import BadArgument, CheckFailed
from slipstream._spark import session
from slipstream._tools.progress import say

if TYPE_CHECKING:
    from slipstream._bench.validation.validator import Verdict

RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="The run that was fed to the engine.")]


def validate(
    run: RunPath,
    outputs: Annotated[list[Path], typer.Argument(metavar="OUTPUT", help="Files or folders the engine wrote.")],
    *,
    no_response_times: Annotated[
        bool, typer.Option("--no-response-times", help="Do not check response times: for runs at full speed.")
    ] = False,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a report with plots, as HTML.")] = None,
    multiply: Annotated[int, typer.Option(min=1, metavar="K", help="The engine was fed the run K times.")] = 1,
    since: Annotated[int, typer.Option(metavar="T", help="Check from this second on.")] = 0,
    until: Annotated[int | None, typer.Option(metavar="T", help="Check up to this second, not included.")] = None,
    fed_since: Annotated[
        int, typer.Option(metavar="T", help="The engine was fed from this second on, and knows nothing before it.")
    ] = 0,
    order: Annotated[
        FieldOrder,
        typer.Option(help="Field order of text: the paper's, or that of the benchmark's original validator."),
    ] = FieldOrder.AUTO,
    rules: Annotated[
        str, typer.Option(metavar="RULES", help="The rule set: 2004, or 2003 for the thesis' edition.")
    ] = "2004",
    only: Annotated[
        str,
        typer.Option(
            metavar="KINDS", help="Judge only these kinds of answers; 4, travel times, is often not implemented."
        ),
    ] = "0,1,2,3,4",
    examples: Annotated[int, typer.Option(min=0, help="How many examples of each fault to show.")] = 5,
    as_json: Json = False,
    master: Master = session.LOCAL,
    conf: Conf = None,
) -> None:
    """Check the output of any engine against the correct answers.

    OUTPUT may be Parquet, or text in the field order of the paper or of the original validator. For every kind of
    answer it counts what is missing, extra, wrong, late or duplicated, and shows the first of each with the rule it
    breaks. Exits with code 0 for a clean pass, 5 for any fault, 3 for input that cannot be judged.

    Example: `slipstream validate runs/first out --report report.html`
    """
    rule_set, judged = find_edition(rules), _parse_kinds(only)
    check_there(run, *outputs, hint="Give the run that was fed to the engine, and what the engine wrote.")
    check_writable(report, "--report", makes_folder=True)
    from slipstream._bench.validation.validator import find_last_second
    from slipstream._bench.validation.validator import validate as check
    from slipstream._feeds.run import Run

    stored = Run.open(run)
    check_outputs(outputs)
    opened = stored.multiplied(multiply * stored.copies)
    since = max(since, fed_since)
    find_last_second(opened, since, until)
    spark = start_spark("validate", master, conf)
    with session.task_errors():
        verdict = check(
            spark,
            opened,
            outputs,
            edition=rule_set,
            order=order,
            response_times=not no_response_times,
            since=since,
            until=until,
            fed_since=fed_since,
            kinds=judged,
            examples=examples,
        )
    _present(verdict, report, as_json)


def _present(verdict: Verdict, report: Path | None, as_json: bool) -> None:
    """Write the report, print the verdict, and fail if it is not a clean pass."""
    if report:
        from slipstream._bench.validation.validation_page import write_report

        write_report(verdict, report)
        say(f"Report: {report}")
    if as_json:
        print(json.dumps(verdict.to_dict()))
    else:
        _show(verdict)
    if not verdict.passed:
        faulty = [tally.name for tally in verdict.tallies if not tally.clean]
        names = ", ".join([*faulty, *(["unreadable lines"] if verdict.unreadable else [])])
        raise CheckFailed(f"Not a clean pass: {names}.", hint=" ".join(verdict.hints), code="check-failed")


def _parse_kinds(text: str) -> list[int]:
    if not re.fullmatch("[0-4](,[0-4])*", text):
        raise BadArgument(
            f"--only {text}: not a list of kinds.",
            hint="Write, for example, --only 0,1,2.",
            code="malformed-value",
            found=text,
        )
    return [int(kind) for kind in text.split(",")]


def _show(verdict: Verdict) -> None:
    console = Console()
    table = Table("", title="Answers")
    for tally in verdict.tallies:
        table.add_column(tally.name, justify="right")
    for count in ("expected", "given"):
        table.add_row(count, *(f"{getattr(tally, count):,}" for tally in verdict.tallies))
    for problem in verdict.problems:
        faults = [getattr(tally, problem) for tally in verdict.tallies]
        table.add_row(problem, *(f"[red]{fault:,}[/]" if fault else "0" for fault in faults))
    for time in ("median", "p99", "max") if verdict.response_times else ():
        responses = [tally.response for tally in verdict.tallies]
        table.add_row(time, *(f"{getattr(response, time):.1f} s" if response else "" for response in responses))
    if verdict.response_times:
        table.add_row("limit", *(f"{tally.limit} s" for tally in verdict.tallies))
    print_table(table)
    for line in verdict.unreadable_examples:
        console.print(f"unreadable: {line}", markup=False, highlight=False)
    for example in verdict.examples:
        name = verdict.name(example.kind)
        console.print(f"{name}, {example.problem}: {example.text}. {example.rule}", markup=False, highlight=False)
    if verdict.passed:
        timed = "in time" if verdict.response_times else "response times not judged"
        console.print(f"[green]Clean pass[/]: every answer is there, right, once; {timed}.")


def postgres(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run to feed to the database.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder for output.csv.")],
    seconds: Annotated[int | None, typer.Option(min=1, metavar="N", help="Run only the first N seconds.")] = None,
    speed: Annotated[
        float, typer.Option(min=0, metavar="K", help="Replay at this multiple of real time; 0 is full speed.")
    ] = 1.0,
    server: Annotated[
        str,
        typer.Option(
            metavar="CONNINFO", envvar="SLIPSTREAM_POSTGRES", help="The server, as a connection string of libpq."
        ),
    ] = "",
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Run Linear Road on PostgreSQL: the paper's System X, a database that is polled.

    Start a server with scripts/postgres.sh start; its schema linear_road is replaced. The answers are judged like
    those of any engine: `slipstream validate RUN DIR` (with --no-response-times after --speed 0).

    Example: `slipstream bench postgres runs/first --seconds 300 --out postgres`
    """
    from dataclasses import asdict

    from slipstream._feeds.run import Run

    opened = Run.open(run)
    check_folder(out)
    from slipstream._bench.postgres import OUTPUT, SERVER, run_postgres

    with replacing(out, overwrite, OUTPUT):
        result = run_postgres(opened, out, seconds=seconds, speed=speed, server=server or SERVER)
    driven = result.driver.to_dict()
    body = {name: value for name, value in asdict(result).items() if name != "spans"}
    show(
        body | {"driver": driven if as_json else f"{driven['max_lag']} s late"},
        as_json=as_json,
        title="Linear Road on PostgreSQL",
    )
    if result.driver.void:
        raise CheckFailed(
            f"The run is void: the driver was {result.driver.max_lag} s late.",
            hint="Try a smaller run.",
            code="run-void",
        )


def add_to(app: typer.Typer) -> None:
    """Put the commands on the command line."""
    app.command()(drive)
    app.command()(validate)
    baselines = Family(help="Run Linear Road on systems other than Slipstream.", no_args_is_help=True)
    baselines.command()(postgres)
    baselines.callback()(_describe_group)
    app.add_typer(baselines, name="bench")


def _describe_group() -> None:
    """Run Linear Road on systems other than Slipstream."""
