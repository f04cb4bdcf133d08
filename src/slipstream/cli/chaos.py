"""``slipstream chaos``: faults on purpose."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Annotated

import typer

from slipstream.cli.checks import check_folder
from slipstream.cli.options import Json, show
from slipstream.errors import CheckFailed
from slipstream.progress import say


def chaos(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run to toll; two or three minutes are enough.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where engines work and the report goes.")],
    faults: Annotated[int, typer.Option(min=1, help="How many faults.")] = 200,
    seed: Annotated[int | None, typer.Option(help="Which faults, where chance decides. [default: any]")] = None,
    kinds: Annotated[str | None, typer.Option(help="Only these, with commas between them. [default: all]")] = None,
    batch_seconds: Annotated[
        int, typer.Option(min=1, help="Seconds of the run in one batch: fewer, more commits.")
    ] = 3,
    pause_seconds: Annotated[float, typer.Option(min=0, help="How long a paused process is paused.")] = 60.0,
    as_json: Json = False,
) -> None:
    """Disturb toll engines and check that they put out what they would have anyway.

    Engines on RUN are killed at named points and at random ones, paused, given a full disk, a read-only or damaged
    checkpoint and another time of day. After every fault what they committed must be what an undisturbed engine
    commits, or they have stopped and said what to do; anything else is told, and the exit code is 5.

    DIR gets report.md, the table, and faults.jsonl, every fault and what came of it; the same command goes on with a
    campaign that was interrupted. Kinds: failpoints, kill, signal,
    worker, pause, clock, disk, read-only, damage.

    Example: `slipstream chaos runs/first --faults 20 --out chaos`
    """
    from slipstream.chaos import NOTES
    from slipstream.feeds.run import Run

    Run.open(run)
    check_folder(out, mark=NOTES)
    from slipstream.chaos.campaign import SHARES, Campaign, seed_in
    from slipstream.chaos.report import as_markdown, bad_ones

    begun = seed_in(out) if seed is None else seed
    chosen = random.SystemRandom().randrange(10**9) if begun is None else begun
    wanted = tuple(kinds.split(",")) if kinds else tuple(SHARES)
    campaign = Campaign(
        run.absolute(), out.absolute(), faults, chosen, wanted, batch_seconds=batch_seconds, pause_s=pause_seconds
    )
    say(f"seed {chosen}")
    try:
        records = campaign.carry_out()
    except KeyboardInterrupt:
        found = f"{len(campaign.records)} of {faults} faults so far, {len(bad_ones(campaign.records))} bad"
        say(f"Interrupted: {found}; see {out / 'report.md'}. The same command resumes.")
        raise
    finally:
        out.mkdir(parents=True, exist_ok=True)
        (out / "report.md").write_text(as_markdown(campaign.records, chosen), encoding="utf-8")
    bad = bad_ones(records)
    show({"seed": chosen, "faults": len(records), "bad": len(bad)}, as_json=as_json, title=f"Faults in {out}")
    if bad:
        raise CheckFailed("\n\n".join(bad), hint=f"The same again: --seed {chosen}")


def add_to(app: typer.Typer) -> None:
    """Put the command on the command line."""
    app.command()(chaos)
