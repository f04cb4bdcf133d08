"""``slipstream job pause|resume|step|stop``: a hand on a running job of any kind."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slipstream._cli.common.commands import Family
from slipstream._tools.progress import say

Folder = Annotated[Path, typer.Argument(metavar="OUT", help="The --out folder of a job.")]


def pause(folder: Folder) -> None:
    """Let no more input arrive; the batch under way ends normally.

    The clock of a replayed run stands still meanwhile.
    """
    _want(folder, "pause")
    say("paused: `slipstream job resume` or `step` continues")


def resume(folder: Folder) -> None:
    """Let input arrive again."""
    _want(folder, "run")
    say("running")


def step(folder: Folder, batches: Annotated[int, typer.Option(min=1, help="How many batches to run.")] = 1) -> None:
    """Run one batch, then pause; of a recording, that is one train of each source."""
    _want(folder, str(batches))
    say(f"{batches} to come, then paused")


def stop(folder: Folder) -> None:
    """End the job after the batch under way; the command that started it resumes it."""
    _want(folder, "stop")
    say("stopping after the batch under way")


def _want(folder: Path, word: str) -> None:
    from slipstream._runtime import job

    job.Job.read(folder)
    job.control(folder).want(word)


def add_to(root: typer.Typer) -> None:
    """Put the commands on the command line."""
    app = Family(no_args_is_help=True, help="Pause, resume, step and stop a running job.")
    for command in (pause, resume, step, stop):
        app.command()(command)
    root.add_typer(app, name="job")
