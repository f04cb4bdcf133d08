"""A backup of a job, also while it runs: a copy of its folder from which the job resumes with equal results.

Outputs, journal and checkpoint must be as of the same batch. So most is copied while the job runs; then the job is
paused between two batches, what has changed meanwhile is copied, and the job continues.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from slipstream._errors import BadArgument, Unavailable
from slipstream._io.control_file import PAUSE
from slipstream._io.outputs import CHECKPOINT, check_journal, check_tables, last_batch
from slipstream._io.outputs.journal import last_in_checkpoint
from slipstream._io.outputs.leases import LOCK
from slipstream._runtime.job import CONTROL, JobFile, control, lock_folder
from slipstream._runtime.watching.status import FILE as STATUS
from slipstream._tools.files.staging import staged_folder
from slipstream._tools.progress import say

#: what belongs to a start and not to the job
_LEFT_OUT = (LOCK, CONTROL, STATUS)
#: the log of a Delta table is copied first: the files that it names exist already then
_FIRST = "_delta_log"
_POLL_S = 0.2
#: how long nothing may happen before a paused job counts as idle, and how long a batch may take
_IDLE_S, _BATCH_S = 1.0, 600.0


def back_up(folder: Path, copy: Path) -> int:
    """Copy the folder of a job to a new one; returns the number of batches that it has."""
    job = JobFile.read(folder)
    with staged_folder(copy, label="", hint="Give a new folder for the copy.") as stage:
        with _paused(folder, stage):
            _copy_changes(folder, stage)
        check_journal(stage)
        check_tables(stage, job.id)
    return _count_batches(copy)


@contextmanager
def _paused(folder: Path, stage: Path) -> Iterator[None]:
    """Keep the job from working while the block runs; what it has is copied to ``stage`` before."""
    try:
        with lock_folder(folder):
            yield
        return
    except BadArgument as error:
        if error.code != "job-running":
            raise
    _copy_changes(folder, stage)
    before = control(folder).requested
    control(folder).request(PAUSE)
    try:
        _wait_until_idle(folder)
        yield
    finally:
        control(folder).request(before)


def _wait_until_idle(folder: Path) -> None:
    """Wait until the batch under way is committed, everywhere, and no other begins."""
    say("Waiting for the batch under way ...")
    deadline, since, seen = time.monotonic() + _BATCH_S, time.monotonic(), (-1, -1, -1)
    while True:
        found = (_last_planned(folder), last_in_checkpoint(folder / CHECKPOINT), _count_batches(folder) - 1)
        if found != seen or len({*found}) > 1:
            since, seen = time.monotonic(), found
        elif time.monotonic() > since + _IDLE_S:
            return
        if time.monotonic() > deadline:
            raise Unavailable(
                f"{folder}: a batch takes longer than {_BATCH_S:.0f} s.",
                hint="Stop the job (slipstream job stop), back it up, and start it again.",
                code="not-ready",
            )
        time.sleep(_POLL_S)


def _last_planned(folder: Path) -> int:
    """The last batch that Spark has begun."""
    planned = (folder / CHECKPOINT / "offsets").glob("[0-9]*")
    return max((int(file.name) for file in planned if file.name.isdigit()), default=-1)


def _count_batches(folder: Path) -> int:
    last = last_batch(folder)
    return last.batch + 1 if last else 0


def _copy_changes(source: Path, target: Path) -> None:
    """Make ``target`` equal to ``source``, copying only what differs in size or time."""
    files = [path for path in source.rglob("*") if path.is_file() and path.name not in _LEFT_OUT]
    there = {path.relative_to(source) for path in files}
    for path in sorted(files, key=lambda path: _FIRST not in path.parts):
        place = target / path.relative_to(source)
        with suppress(FileNotFoundError):  # Spark and compaction delete what is no longer needed
            if not _is_same(path, place):
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, place)
    for path in [path for path in target.rglob("*") if path.is_file()]:
        if path.relative_to(target) not in there:
            path.unlink()


def _is_same(one: Path, other: Path) -> bool:
    if not other.exists():
        return False
    mine, its = one.stat(), other.stat()
    return (mine.st_size, mine.st_mtime_ns) == (its.st_size, its.st_mtime_ns)
