"""Table maintenance while a job runs: merges small files and keeps the logs short.

A job that commits every second would leave a million files per output in two weeks. From time to time, a process with
the lowest priority merges the small files, writes a checkpoint of the table's log, and deletes files that no reader
needs. For Delta Lake this is a commit that changes no data: it does not conflict with the job's own appends. Rows that
are kept for a limited time only (``retention``) are removed first.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from slipstream._io.outputs.data_files import FOLDER
from slipstream._io.outputs.journal import last_batch
from slipstream._io.outputs.reading import output_names
from slipstream._io.outputs.removal.retention import expire
from slipstream._tools import object_logs
from slipstream._tools.files.locations import to_path
from slipstream._tools.files.remote_paths import RemotePath
from slipstream._tools.processes import child_processes
from slipstream._tools.processes.background import Ended, background_task
from slipstream._tools.processes.failpoints import failpoint

#: batches between two compactions; at one batch per second, eight minutes
COMPACT_EVERY = 500
#: files that compaction replaced are deleted after an hour, files of failed tasks after a day
_REPLACED_HOURS, _ABANDONED_HOURS = 1, 24
_LOOK_S = 5.0


def compact(folder: Path) -> int:
    """Remove what has expired, and merge the small files of all outputs; returns the number of replaced files."""
    expire(folder)
    if isinstance(folder, RemotePath):
        for log in folder.glob("*.jsonl"):
            object_logs.merge(log)
    return sum(_compact(folder / FOLDER / name) for name in output_names(folder))


def _compact(place: Path) -> int:
    from deltalake import DeltaTable

    table = DeltaTable(str(place.absolute()))
    failpoint("compaction.before-write")
    replaced = int(table.optimize.compact()["numFilesRemoved"])
    failpoint("compaction.after-write")
    table.create_checkpoint()
    table.cleanup_metadata()
    for hours, whole in ((_REPLACED_HOURS, False), (_ABANDONED_HOURS, True)):
        table.vacuum(retention_hours=hours, full=whole, dry_run=False, enforce_retention_duration=False)
    failpoint("compaction.after-removal")
    return replaced


@contextmanager
def compact_in_background(folder: Path, every: int = COMPACT_EVERY) -> Iterator[None]:
    """Compact after ``every`` batches while the block runs, in a process with low priority; 0 means never."""

    def watch(ended: Ended) -> None:
        done = _count_batches(folder)
        while every and not ended.wait(_LOOK_S):
            if (committed := _count_batches(folder)) >= done + every:
                done = committed
                command = [sys.executable, "-m", __name__, str(folder)]
                with child_processes.running(command, stderr=None) as child:
                    while child.code is None and not ended.wait(0.2):
                        pass

    with background_task(watch):
        yield


def _count_batches(folder: Path) -> int:
    last = last_batch(folder)
    return last.batch + 1 if last else 0


if __name__ == "__main__":
    from deltalake.exceptions import DeltaError

    os.nice(19)
    # the job reports a full disk, and what is not compacted now will be next time
    with suppress(OSError, DeltaError):
        compact(to_path(sys.argv[1]))
