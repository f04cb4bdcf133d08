"""``slipstream history``: ten weeks of tolls and traffic before a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slipstream._cli.common.checks import check_new
from slipstream._cli.common.options import Conf, Json, Master, show, start_spark
from slipstream._spark import session
from slipstream._tools.progress import say

if TYPE_CHECKING:
    from slipstream._feeds.history import History
    from slipstream._feeds.run import Run


def history(
    run: Annotated[Path, typer.Argument(help="The run to generate it for.", show_default=False)],
    seed: Annotated[int, typer.Option(help="The same seed gives the same history.")] = 1,
    csv: Annotated[bool, typer.Option("--csv", help="Also write both tables as CSV, in RUN/history/csv.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing history.")] = False,
    as_json: Json = False,
    master: Master = session.LOCAL,
    conf: Conf = None,
) -> None:
    """Generate ten weeks of history, from which daily expenditures and travel times are answered.

    Two tables, as Parquet that any tool reads: **SegmentHistory** (Day, Min, XWay, Dir, Seg, Lav, Cnt, Toll), 20.16 M
    rows per expressway, and **TollHistory** (VID, Day, XWay, Tolls), a row per vehicle of the run and day; and the
    arrays of means in which the engine looks answers up. Day 1 is yesterday.

    An existing history is not generated again; `--csv` then only exports it: without a header, with the columns
    in the order above, in folders of parts that can be concatenated.

    Example: `slipstream history runs/first --csv`
    """
    from slipstream._feeds.run import Run

    opened = Run.open(run)
    known = None if overwrite else _find_known(opened, seed, csv=csv)
    if known is None or csv:
        from slipstream._city.history_writer import export_csv, list_stored_expressways, make_history

        list_stored_expressways(opened)
        spark = start_spark("history", master, conf)
        known = known or make_history(opened, spark, seed=seed, replace=overwrite)
        if csv:
            export_csv(opened, spark)
    else:
        say(f"{known.folder}: already complete.")
    assert known.index is not None
    result = {
        "history": str(known.folder),
        "seed": known.index.seed,
        "expressways": len(known.index.xways),
        "vehicles": known.index.vehicles,
        "segment_rows": known.index.rows["segments"],
        "toll_rows": known.index.rows["tolls"],
    }
    if csv:
        result["csv"] = str(known.folder / "csv")
    show(result, as_json=as_json, title="History")


def _find_known(run: Run, seed: int, *, csv: bool) -> History | None:
    """Return the history that exists; refuse one with another seed."""
    from slipstream._feeds.history import History

    history = History.open(run)
    if history.index is None:
        return None
    if csv:
        check_new(history.folder / "csv", label="", hint="Remove it to write it again.")
    elif history.index.seed != seed:
        check_new(
            history.folder,
            label="",
            hint=f"Its seed is {history.index.seed}. --overwrite makes it again with --seed {seed}.",
        )
    return history


def add_to(app: typer.Typer) -> None:
    """Put the command on the command line."""
    app.command()(history)
