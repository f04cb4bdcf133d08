"""Retention by age: rows of batches that were committed long ago expire from all outputs of a job.

    OUT/retention.json    how long rows are kept; without it, forever

The age of a row is that of its batch, so one rule fits every output: answers, trips, rejects, results of queries. Text
files keep their length, as the journal records it: expired lines become line breaks. Of the histories of connection
points and views, whole files expire, by the arrival of their tuples. A running job removes what has expired whenever it
compacts its tables.
"""

from __future__ import annotations

import fcntl
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from slipstream._errors import MALFORMED, BadInput
from slipstream._io.outputs.data_files import FOLDER
from slipstream._io.outputs.delta_tables import OutputTable
from slipstream._io.outputs.journal import read_journal, text_lengths
from slipstream._io.outputs.reading import output_names
from slipstream._io.outputs.text_files import blank
from slipstream._io.train_files import last_arrival
from slipstream._tools.files.staging import atomic_write
from slipstream._tools.strict_json import decode_as, parse_json

FILE = "retention.json"


@dataclass(frozen=True)
class Retention:
    """How long the rows of a job are kept, in seconds."""

    keep_seconds: float

    def write(self, folder: Path) -> None:
        """Set it for a job."""
        with atomic_write(folder / FILE) as file:
            file.write(json.dumps(asdict(self)).encode() + b"\n")

    @classmethod
    def read(cls, folder: Path) -> Retention | None:
        """Return the retention of a job; None if it keeps everything."""
        try:
            return decode_as(cls, parse_json((folder / FILE).read_bytes()))
        except FileNotFoundError:
            return None
        except MALFORMED as error:
            raise BadInput(
                f"{folder / FILE}: damaged ({error}).",
                hint="Set it again: slipstream job retain OUT --age DURATION.",
                code="damaged-output",
            ) from error


def expire(folder: Path, now: float | None = None) -> dict[str, int]:
    """Remove what is older than the job keeps; returns how many rows of each output, empty if it keeps everything."""
    kept = Retention.read(folder)
    if kept is None:
        return {}
    before_ms = 1000 * ((time.time() if now is None else now) - kept.keep_seconds)
    _expire_histories(folder, 1000 * before_ms)
    old = [batch for batch in read_journal(folder) if batch.committed_ms < before_ms]
    if not old:
        return {}
    for name, length in text_lengths(old[-1]).items():
        if (folder / name).is_file():
            blank(folder / name, length)
    return {name: _remove_until(folder / FOLDER / name, old[-1].batch) for name in output_names(folder)}


def _expire_histories(folder: Path, before_us: float) -> None:
    """Delete the trains of connection points that arrived long ago; a lock keeps the job from using them meanwhile."""
    for place in folder.glob("points/*"):
        with (place / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for train in place.glob("train-*.parquet"):
                if last_arrival(train) < before_us:
                    train.unlink()


def _remove_until(place: Path, last: int) -> int:
    table = OutputTable.open(place)
    return table.remove("true", last) if table else 0
