"""The journal of a job: one line per committed batch. A batch without a line was never committed.

In a store it is one object per batch, written only if there is none, so no two processes commit the same batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from slipstream._errors import MALFORMED, BadInput
from slipstream._tools.logs import Follower, append_lines, read_last_line, read_lines
from slipstream._tools.strict_json import decode_as

JOURNAL = "batches.jsonl"
#: Spark's own folder in the folder of a job
CHECKPOINT = "checkpoint"
#: text files beside the tables, and where a batch's detail has their length
_TEXTS = {"output.csv": "text_bytes", "rejects.csv": "rejects_bytes"}
#: the hint for a damaged file in the folder of a job
RESCUE = "Restore it from a backup, or start again in another --out folder."


@dataclass(frozen=True)
class Batch:
    """A committed batch; every kind of job writes the same fields and puts its own into ``detail``."""

    batch: int
    committed_ms: int  # wall clock, milliseconds since 1970
    outputs: dict[str, int] = field(default_factory=dict)  # rows added to each output
    rejects: int = 0  # rejected input
    tuples: int = 0  # accepted input
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class InDoubt:
    """A batch whose commit a crash interrupted: its rows may have been sent elsewhere, but not before ``since_ms``."""

    batch: int
    since_ms: int


def text_lengths(batch: Batch | None) -> dict[str, int]:
    """Return the length of each text file after a batch."""
    detail = batch.detail if batch else {}
    return {name: int(detail[key]) for name, key in _TEXTS.items() if detail.get(key)}


def read_journal(folder: Path) -> list[Batch]:
    """Return the committed batches in order; a truncated last line is ignored."""
    with _report_unreadable(folder / JOURNAL) as file:
        batches = [decode_as(Batch, line) for line in read_lines(file)]
        for number, batch in enumerate(batches):
            if batch.batch != number:
                raise ValueError(f"line {number + 1} is batch {batch.batch}, not {number}")
        return batches


def last_batch(folder: Path) -> Batch | None:
    """Return the last committed batch, without reading the rest of the journal."""
    with _report_unreadable(folder / JOURNAL) as file:
        last = read_last_line(file)
        return None if last is None else decode_as(Batch, last)


class Tail:
    """Reads the journal of a job as it grows, from its beginning or from now on."""

    def __init__(self, folder: Path, *, from_now_on: bool = False) -> None:
        self._file = folder / JOURNAL
        self._lines = Follower(self._file, from_now_on=from_now_on)

    def batches(self) -> list[Batch]:
        """Return what was committed since the last call; an unfinished last line is left for the next one."""
        with _report_unreadable(self._file):
            return [decode_as(Batch, line) for line in self._lines.read_new()]


def append(folder: Path, batch: Batch) -> None:
    """Append a line; the batch is committed when this returns."""
    try:
        append_lines(folder / JOURNAL, [asdict(batch)], durable=True, number=batch.batch)
    except FileExistsError as error:
        raise BadInput(
            f"{folder / JOURNAL}: another process has committed batch {batch.batch}.",
            hint="Run one job per folder: stop one of the two. Nothing is lost.",
            code="job-running",
        ) from error


@contextmanager
def _report_unreadable(file: Path) -> Iterator[Path]:
    try:
        yield file
    except MALFORMED as error:
        raise BadInput(f"{file}: damaged ({error}).", hint=RESCUE, code="damaged-output") from error


def last_in_checkpoint(checkpoint: Path) -> int:
    """Return the last batch that Spark committed; -1 before the first."""
    done = (checkpoint / "commits").glob("[0-9]*")
    return max((int(file.name) for file in done if file.name.isdigit()), default=-1)


def check_journal(folder: Path) -> None:
    """Refuse a journal that is damaged, or that lacks batches which Spark has committed."""
    check_complete(folder / JOURNAL, len(read_journal(folder)), folder / CHECKPOINT)


def check_complete(file: Path, known: int, checkpoint: Path) -> None:
    """Refuse a journal of ``known`` batches if Spark has committed more."""
    committed = last_in_checkpoint(checkpoint) + 1
    if known < committed:
        raise BadInput(
            f"{file}: damaged ({known} batches, but {committed} were committed).", hint=RESCUE, code="damaged-output"
        )
