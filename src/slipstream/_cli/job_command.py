"""``slipstream job``: control a running job of any kind, back it up, and remove what it need not keep."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from slipstream._cli.common.command_style import Family
from slipstream._cli.common.options import Json, show
from slipstream._cli.common.printed_tables import count_nouns
from slipstream._errors import BadArgument
from slipstream._tools.progress import say

#: no limit of time
_FOREVER = "forever"

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


def backup(
    folder: Folder,
    copy: Annotated[Path, typer.Argument(metavar="COPY", help="A new folder for the copy.")],
    as_json: Json = False,
) -> None:
    """Copy the folder of a job, also while it runs; it pauses only for what changed during the copy.

    The same command with `--out COPY` resumes from the copy. A Kafka topic must still have the messages from there on.

    Example: `slipstream job backup tolls /backup/tolls`
    """
    from slipstream._runtime.backup import back_up

    batches = back_up(folder, copy)
    show({"copy": str(copy), "batches": batches}, as_json=as_json, title=f"Backup of {folder}")


def retain(
    folder: Folder,
    age: Annotated[
        str, typer.Option(metavar="DURATION", help='How long rows are kept: "30 days", "12 h", or forever.')
    ],
    as_json: Json = False,
) -> None:
    """Keep the rows of all outputs for a limited time: answers, trips, rejects, results of queries.

    The age of a row is that of the batch that wrote it. What is older is removed now and, from now on, by the running
    job whenever it compacts its tables (`--compact-every`); deleted files disappear within an hour after that.

    Examples:

    `slipstream job retain tolls --age "30 days"`

    `slipstream job retain tolls --age forever`
    """
    from slipstream._io.outputs.removal import retention
    from slipstream._runtime.job import JobFile
    from slipstream._tools.durations import seconds

    JobFile.read(folder)
    if age == _FOREVER:
        (folder / retention.FILE).unlink(missing_ok=True)
    else:
        retention.Retention(float(seconds(age, "--age"))).write(folder)
    removed = retention.expire(folder)
    show({"age": age, **removed}, as_json=as_json, title=f"Rows removed from {folder}")


def forget(
    folder: Folder,
    id_: Annotated[str, typer.Option("--id", metavar="ID", help="The vehicle, as the feed names it.")],
    column: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A column with ids; by default all texts, id and vid. Repeatable."),
    ] = None,
    pseudonyms: Annotated[
        Path | None, typer.Option(metavar="KEYFILE", help="The key of the job's pseudonyms; --id is the real id then.")
    ] = None,
    end_job: Annotated[
        bool, typer.Option("--end-job", help="Also of a job that has not finished: it cannot be resumed then.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Erase one vehicle everywhere in the folder of a job: tables, text, rejects, histories, logs and state.

    The job must not run. Its state is deleted as a whole, so it cannot be resumed; its results stay, without the
    vehicle. No earlier version of a table is left.

    Examples:

    `slipstream job forget tolls --id 4711`

    `slipstream job forget border --id s1 --column soldier`
    """
    from slipstream._runtime import erasure

    if not id_.strip():
        raise BadArgument("--id: empty.", hint="Give the id as the feed writes it.", code="missing-value")
    removed: Counter[str] = Counter()
    names = _find_pseudonyms(id_, pseudonyms) if pseudonyms else [id_]
    with erasure.locked(folder):
        erasure.check_erasable(folder, end_job=end_job)
        from slipstream._linear_road.job.answer_erasure import erase_from_texts

        erasure.end_job(folder)
        for name in names:
            removed["lines_of_text"] += erase_from_texts(folder, name)
            removed.update(erasure.erase(folder, name, tuple(column or ())))
    show(removed, as_json=as_json, title=f"Rows of {id_} removed from {folder}")


def _find_pseudonyms(id_: str, file: Path) -> list[str]:
    """Return what an id became at intake: as a text and, if it is one, as a number."""
    from slipstream._io.formats.pseudonyms import hash_id, read_key

    key = read_key(file)
    return [str(hash_id(key, id_)), *([str(hash_id(key, int(id_)))] if id_.isdigit() else [])]


def _send_request(folder: Path, word: str, said: str, as_json: bool) -> None:
    from slipstream._runtime import job

    job.JobFile.read(folder)
    job.control(folder).request(word)
    if as_json:
        print(json.dumps({"job": str(folder), "control": word}))
    else:
        say(said)


def add_to(root: typer.Typer) -> None:
    """Put the commands on the command line."""
    app = Family(help="Pause, resume, step and stop a running job; back it up; limit or erase what it keeps.")
    for command in (pause, resume, step, stop, backup, retain, forget):
        app.command()(command)
    root.add_typer(app, name="job")
