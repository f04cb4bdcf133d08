"""``slipstream job pause|resume|step|stop``: control a running job of any kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from slipstream._cli.common.command_style import Family
from slipstream._cli.common.options import Json
from slipstream._cli.common.printed_tables import count_nouns
from slipstream._tools.progress import say

Folder = Annotated[Path, typer.Argument(metavar="OUT", help="The --out folder of a job.")]


def pause(folder: Folder, as_json: Json = False) -> None:
    """Stop taking input; the current batch is finished.

    The clock of a replayed run stops meanwhile. `slipstream job resume` and `slipstream job step` continue.

    Example: `slipstream job pause tolls`
    """
    _send_request(folder, "pause", "paused: `slipstream job resume` or `step` continues", as_json)


def resume(folder: Folder, as_json: Json = False) -> None:
    """Take input again.

    Example: `slipstream job resume tolls`
    """
    _send_request(folder, "run", "running", as_json)


def step(
    folder: Folder,
    batches: Annotated[int, typer.Option(min=1, help="How many batches to run.")] = 1,
    as_json: Json = False,
) -> None:
    """Run one batch, then pause; of a recording, that is one train of each source.

    Example: `slipstream job step tolls --batches 3`
    """
    _send_request(folder, str(batches), f"{count_nouns(batches, 'batch')} to run, then paused", as_json)


def stop(folder: Folder, as_json: Json = False) -> None:
    """End the job after the current batch; the command that started it resumes it.

    Example: `slipstream job stop tolls`
    """
    _send_request(folder, "stop", "stopping after the current batch", as_json)


def _send_request(folder: Path, word: str, said: str, as_json: bool) -> None:
    from slipstream._runtime import job

    job.Job.read(folder)
    job.control(folder).request(word)
    if as_json:
        print(json.dumps({"job": str(folder), "control": word}))
    else:
        say(said)


def add_to(root: typer.Typer) -> None:
    """Put the commands on the command line."""
    app = Family(help="Pause, resume, step and stop a running job.")
    for command in (pause, resume, step, stop):
        app.command()(command)
    root.add_typer(app, name="job")
