"""``slipstream berlinmod stream``: Streaming BerlinMOD, nine queries in three forms on a stream of positions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from slipstream._cli.common.checks import check_new, check_there
from slipstream._cli.common.command_style import Family
from slipstream._cli.common.options import Conf, Json, Master, MaxRejects, check_rejects, start_spark
from slipstream._cli.common.overwriting import HINT, replacing
from slipstream._cli.common.printed_tables import count_nouns, format_value, print_table
from slipstream._errors import BadArgument, CheckFailed
from slipstream._spark.session import LOCAL
from slipstream._tools.progress import bar, say

if TYPE_CHECKING:
    from slipstream._bench.berlinmod.cell_runs import Bench, Result
    from slipstream._bench.berlinmod.cells import Cell
    from slipstream._bench.berlinmod.position_events import Events

#: in --rows: the events that were not used, with their lines
REJECTS = "rejects.csv"
#: how many rejected lines a message names
_NAMED = 5


def add_to(app: Family) -> None:
    """Put the command into its family."""
    app.command()(stream)


def stream(
    data: Annotated[Path, typer.Argument(help="A data set, or a CSV file of events or instants, gzipped or not.")],
    queries: Annotated[
        str, typer.Option("--queries", "--only", metavar="QUERIES", help="Only these queries, such as 1-5,9.")
    ] = "1-9",
    forms: Annotated[
        str, typer.Option("--forms", metavar="FORM,...", help="Only these forms, separated by commas.")
    ] = "continuous,windowed,snapshot",
    rows: Annotated[
        Path | None,
        typer.Option("--rows", metavar="DIR", help="A folder for the rows of each cell, such as Q3-snapshot.csv."),
    ] = None,
    snapshots: Annotated[
        str,
        typer.Option(
            "--snapshots",
            metavar="active|complete",
            help="Which vehicles a snapshot has: those with an event since the last tick, or all that are known.",
        ),
    ] = "active",
    limit_rows: Annotated[
        int,
        typer.Option("--limit-rows", help="Give Q5 continuous only as many events as produce this many answers."),
    ] = 5_000_000,
    limit_events: Annotated[
        int | None, typer.Option("--limit-events", help="Use only the first N events of the input.")
    ] = None,
    parts: Annotated[
        int, typer.Option("--parts", help="Cut each step of a trip into this many parts of equal time.")
    ] = 1,
    max_rejects: MaxRejects = 1.0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing --rows.")] = False,
    master: Master = LOCAL,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """Run Streaming BerlinMOD: nine queries on a stream of positions, each continuous, windowed and as snapshots.

    Each of these 27 cells is a streaming query. Snapshots are compared with a batch evaluation of the same events.

    Example: `slipstream berlinmod stream data/small --queries 1-3 --forms snapshot`
    """
    check_there(data)
    _check_counts({"--limit-rows": limit_rows, "--limit-events": limit_events, "--parts": parts})
    if rows is not None and not overwrite:
        check_new(rows, label="--rows ", hint=HINT)
    cells = _parse_cells(queries, forms, snapshots)
    from slipstream._bench.berlinmod.cell_runs import Bench
    from slipstream._bench.berlinmod.position_events import read_events
    from slipstream._bench.berlinmod.query_parameters import Parameters

    events = read_events(data, limit=limit_events, parts=parts)
    _report_rejects(events, data, max_rejects)
    given = Parameters.derive(events)
    say(f"{count_nouns(len(events), 'event')}, windows of {given.window / 1000:g} s, ticks of {given.tick / 1000:g} s")
    bench = Bench.prepare(start_spark("berlinmod stream", master, conf), events, given)
    if rows is None:
        results = _run(bench, cells, None, limit_rows)
    else:
        with replacing(rows, overwrite, "Q*.csv"):
            rows.mkdir(parents=True, exist_ok=True)
            results = _run(bench, cells, rows, limit_rows)
            _write_rejects(events, rows)
    _print(results, as_json=as_json)
    _check(results)


def _check_counts(counts: dict[str, int | None]) -> None:
    for option, count in counts.items():
        if count is not None and count < 1:
            raise BadArgument(f"{option} {count}: below 1.", hint="Give 1 or more.", code="out-of-range", found=count)


def _parse_cells(queries: str, forms: str, snapshots: str) -> list[Cell]:
    from slipstream._bench.berlinmod.cells import QUERIES, SNAPSHOTS, list_cells, parse_forms
    from slipstream._berlinmod.queries import parse_numbers

    if snapshots not in SNAPSHOTS:
        raise BadArgument(
            f"--snapshots {snapshots}: no such kind.",
            hint=f"Use {' or '.join(SNAPSHOTS)}.",
            code="unknown-value",
            found=snapshots,
            expected=[*SNAPSHOTS],
        )
    wanted = tuple(parse_numbers(queries, "--queries", QUERIES[-1]))
    return list_cells(wanted, parse_forms(forms), complete=snapshots == SNAPSHOTS[1])


def _run(bench: Bench, cells: list[Cell], rows: Path | None, most_rows: int) -> list[Result]:
    results = []
    with bar("cells", len(cells)) as advance:
        for cell in cells:
            results.append(bench.run(cell, rows, most_rows))
            advance(1)
    return results


def _report_rejects(events: Events, data: Path, most: float) -> None:
    """Say which lines were not used; refuse the input if they are too many."""
    if not events.rejects:
        return
    named = "; ".join(f"line {line}: {reason}" for line, reason in events.rejects[:_NAMED])
    total = len(events) + len(events.rejects)
    more = "; ..." if len(events.rejects) > _NAMED else ""
    say(f"{data}: {total:,} events, {len(events):,} used, {len(events.rejects):,} rejected ({named}{more})")
    check_rejects(len(events.rejects), total, most, data, hint=f"The first: {named}{more}.")


def _write_rejects(events: Events, rows: Path) -> None:
    if events.rejects:
        lines = (f"{line},{reason}\n" for line, reason in events.rejects)
        (rows / REJECTS).write_text("line,reason\n" + "".join(lines), encoding="utf-8")


def _print(results: list[Result], *, as_json: bool) -> None:
    found = [result.to_dict() for result in results]
    if as_json:
        print(json.dumps(found))
        return
    table = Table()
    for name in found[0]:
        table.add_column(name)
    for row in found:
        table.add_row(*map(format_value, row.values()))
    print_table(table)


def _check(results: list[Result]) -> None:
    if wrong := [f"{result.query} {result.form}" for result in results if result.snapshot_equals_batch is False]:
        raise CheckFailed(
            f"{', '.join(wrong)}: differs from a batch evaluation of the same events.",
            hint="Please report it, with the events.",
            code="check-failed",
        )
