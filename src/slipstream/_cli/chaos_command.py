"""``slipstream chaos``: inject faults into a job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slipstream._cli.common.checks import check_folder
from slipstream._cli.common.options import Json, show
from slipstream._cli.common.overwriting import clear
from slipstream._errors import CheckFailed
from slipstream._tools.progress import say

if TYPE_CHECKING:
    from slipstream._chaos.campaign import Campaign, Record

#: the first campaign in a folder; one that was interrupted resumes with its own
SEED = 1


def chaos(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN | -- COMMAND",
            help="A run to toll, or after -- the command of any job, without --out. A few minutes of input will do.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder for the jobs and the report.")],
    faults: Annotated[int, typer.Option(min=1, help="The number of faults.")] = 200,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same faults. [default: 1]")] = None,
    only: Annotated[
        str | None,
        typer.Option(metavar="KINDS", help="Only these kinds of faults, separated by commas. [default: all]"),
    ] = None,
    batch_seconds: Annotated[
        int,
        typer.Option(min=1, help="Seconds of a run per batch, for toll and archive. Fewer seconds make more commits."),
    ] = 3,
    pause_seconds: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="How long a paused process stays paused.")
    ] = 60.0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Delete the campaign in --out first, and start afresh.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Inject faults into a job, and check that its outputs stay the same.

    The job runs once undisturbed. Then it is killed at named points and at random ones, paused, given a full disk, a
    read-only or damaged checkpoint and another time of day, and started again. After every fault, what it has committed
    must be what the undisturbed job commits: all tables of its outputs, its text files, its cuboids and connection
    points, except for columns that contain times. Or it has stopped with advice on what to do. Anything else is
    reported, and the exit code is 5.

    The job needs input that ends, within some dozens of batches, and outputs that depend on that input alone. DIR gets
    report.md, the table, and faults.jsonl, every fault and its outcome; the same command resumes a campaign that was
    interrupted. Kinds: failpoints, kill, signal, worker, pause, clock, disk, read-only, damage.

    Examples:

    `slipstream chaos runs/first --faults 20 --out chaos` # tolls the run

    `slipstream chaos --only failpoints --out chaos -- archive runs/first`

    `slipstream chaos --out chaos -- network run net.yaml --input cars=cars.csv --train 100` # 100 tuples per batch

    `slipstream chaos --out chaos -- cuboid run --input ticks --schema stocks.sql` # a batch per file
    """
    from slipstream._chaos import NOTES
    from slipstream._feeds.run import Run

    if len(words) == 1:
        Run.open(Path(words[0]))
    clear(out, overwrite, NOTES)
    check_folder(out, mark=NOTES)
    from slipstream._chaos.campaign import SHARES, Campaign, read_seed
    from slipstream._chaos.campaign_table import describe_bad
    from slipstream._chaos.subject import Subject

    subject = Subject.of(words, batch_seconds=batch_seconds)
    begun = read_seed(out) if seed is None else seed
    chosen = SEED if begun is None else begun
    wanted = tuple(only.split(",")) if only else tuple(SHARES)
    campaign = Campaign(subject, out.absolute(), faults, chosen, wanted, pause_s=pause_seconds)
    say(f"seed {chosen}")
    records = _run(campaign, out)
    bad = describe_bad(records)
    show({"seed": chosen, "faults": len(records), "bad": len(bad)}, as_json=as_json, title=f"Faults in {out}")
    if bad:
        raise CheckFailed("\n\n".join(bad), hint=f"To repeat the campaign: --seed {chosen}", code="check-failed")


def _run(campaign: Campaign, out: Path) -> list[Record]:
    """Run the campaign; the report is written even if it is interrupted."""
    from slipstream._chaos.campaign_table import describe_bad, format_markdown

    try:
        return campaign.run()
    except KeyboardInterrupt:
        done, bad = len(campaign.records), len(describe_bad(campaign.records))
        found = f"{done} of {campaign.wanted} faults so far, {bad} bad"
        say(f"Interrupted: {found}; see {out / 'report.md'}. The same command resumes.")
        raise
    finally:
        out.mkdir(parents=True, exist_ok=True)
        (out / "report.md").write_text(format_markdown(campaign.records, campaign.seed), encoding="utf-8")


def add_to(app: typer.Typer) -> None:
    """Put the command on the command line."""
    app.command()(chaos)
