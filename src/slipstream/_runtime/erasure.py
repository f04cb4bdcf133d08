"""Erasure of one vehicle from the folder of a job: tables, histories, snapshots, logs and state.

State is in Spark's checkpoint, in the form of whatever keeps it, and in a hundred earlier versions, so it is deleted as
a whole: the job has ended then, and its results stay. Everything else loses just what belongs to the vehicle. The order
is such that an erasure that was interrupted is completed by the next one.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slipstream._errors import MALFORMED, BadArgument
from slipstream._io.outputs import CHECKPOINT
from slipstream._io.outputs.removal.forgetting import find_id_columns, remove_rows, word_pattern
from slipstream._runtime.job import CONTROL, JobFile, lock_folder
from slipstream._runtime.watching.starts import FILE as STARTS
from slipstream._runtime.watching.starts import LOG, SPARK_LOG
from slipstream._runtime.watching.status import FILE as STATUS
from slipstream._runtime.watching.status import FINISHED, STOPPED
from slipstream._tools.files.staging import atomic_write
from slipstream._tools.strict_json import parse_json

#: what has no results: state, and input that is read or waits to be read
_STATE = (CHECKPOINT, "snapshot", "in", "waiting", "tables")
#: why a job has ended, in its ``job.json``
ENDED = "its state was deleted to forget a vehicle"
_HIDDEN = "[forgotten]"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep the job from starting while the block runs; refuse one that runs."""
    JobFile.read(folder)
    try:
        with lock_folder(folder):
            yield
    except BadArgument as error:
        if error.code != "job-running":
            raise
        raise error.within(hint=f"Stop it first: slipstream job stop {folder}") from error


def check_erasable(folder: Path, *, end_job: bool) -> None:
    """Refuse a job that may be resumed, unless its end is asked for; its state may still have the vehicle."""
    job = JobFile.read(folder)
    if not (job.ended or end_job or _has_finished(folder)):
        raise BadArgument(
            f"{folder}: the job has not finished, and its state may have the vehicle.",
            hint="Let it finish, or add --end-job: its results stay, but it cannot be resumed then.",
            code="conflict",
        )


def _has_finished(folder: Path) -> bool:
    try:
        body = parse_json((folder / STATUS).read_bytes())
    except (FileNotFoundError, *MALFORMED):
        return False
    return bool(body.get("state") == STOPPED and body.get("why") == FINISHED)


def end_job(folder: Path) -> None:
    """Delete the state of a job that does not run, and record that it cannot be resumed."""
    job = JobFile.read(folder)
    if not job.ended:
        replace(job, ended=ENDED).write(folder)
    for name in _STATE:
        shutil.rmtree(folder / name, ignore_errors=True)


def erase(folder: Path, id_: str, columns: Sequence[str] = ()) -> dict[str, int]:
    """Erase a vehicle from a job that has ended; returns how many rows of each output and history it had."""
    histories = {f"point {place.name}": _clean_history(place, id_, columns) for place in folder.glob("points/*")}
    for name in (LOG, f"{LOG}.1", SPARK_LOG, f"{SPARK_LOG}.1", STATUS, STARTS, CONTROL):
        _hide_in_text(folder / name, id_)
    return {**remove_rows(folder, id_, columns), **histories}


def _clean_history(place: Path, id_: str, columns: Sequence[str]) -> int:
    """Remove a vehicle's tuples from the trains of a connection point; each keeps its time, which orders it."""
    removed = 0
    for train in sorted(place.glob("train-*.parquet")):
        rows = pq.read_table(train, partitioning=None)
        mine = pa.chunked_array([pa.nulls(rows.num_rows, pa.bool_()).fill_null(False)])
        for name in find_id_columns(rows.schema, id_, columns):
            mine = pc.or_(mine, pc.fill_null(pc.equal(rows[name].cast(pa.string()), id_), False))
        if count := int(pc.sum(mine).as_py() or 0):
            time = train.stat().st_mtime_ns
            stage = train.with_name(f".{train.name}.partial")
            pq.write_table(rows.filter(pc.invert(mine)), stage)
            os.utime(stage, ns=(time, time))
            stage.rename(train)
            removed += count
    return removed


def _hide_in_text(file: Path, id_: str) -> None:
    """Replace an id in a log; numbers are left, as they may be anything."""
    if id_.isdigit() or not file.is_file():
        return
    text = file.read_text(encoding="utf-8", errors="replace")
    hidden = re.sub(word_pattern(id_), rf"\1{_HIDDEN}\2", text)
    if hidden != text:
        with atomic_write(file) as out:
            out.write(hidden.encode())
