"""Named places at which a process can be stopped and killed, or a disk made to fail: before a write, after it, before a
commit, after it.

Random kills find little; a kill at the worst moment finds the bug at once. With ``SLIPSTREAM_FAILPOINT=name:file`` set,
the first process to come to ``name`` while the folder of ``file`` is there makes ``file`` and waits there to be killed;
whoever makes the folder chooses the moment. With ``name:file:ENOSPC`` it goes on with that error instead. Otherwise
nothing happens.
"""

from __future__ import annotations

import errno
import os
import time

VARIABLE = "SLIPSTREAM_FAILPOINT"

#: where any job writes and commits its outputs, in the order in which a batch gets there
OUTPUT_POINTS = (
    "outputs.before-write",
    "outputs.after-write",
    "outputs.before-commit",
    "outputs.between-tables",
    "outputs.after-tables",
    "outputs.before-journal",
    "outputs.after-journal",
)

#: where tables are compacted, beside the batches
COMPACTION_POINTS = ("compaction.before-write", "compaction.after-write", "compaction.after-removal")

#: where answers go on to a topic
TOPIC_POINTS = ("topic.before-send", "topic.before-commit", "topic.after-commit")


def _saving(*stages: str) -> tuple[str, ...]:
    return tuple(f"{stage}.{moment}-save" for stage in stages for moment in ("before", "after"))


_WITH_TEXT = (*OUTPUT_POINTS[:-2], "text.before-append", *OUTPUT_POINTS[-2:])
TRIP_POINTS = _saving("trips")

#: the failpoints that every batch of a kind of job can reach
JOB_POINTS = {
    "toll": (*_saving("tolls", "accounts"), *_WITH_TEXT),
    "archive": (*TRIP_POINTS, *_WITH_TEXT),
    "network": (*_saving("network-1"), *OUTPUT_POINTS),
    "cuboid": (*_saving("network-1"), *OUTPUT_POINTS),
}


def failpoint(name: str) -> None:
    """Stop or fail here if that was asked for, once."""
    asked = os.environ.get(VARIABLE)
    if asked is None or not asked.startswith(f"{name}:"):
        return
    file, _, error = asked.removeprefix(f"{name}:").partition(":")
    try:
        os.close(os.open(file, os.O_CREAT | os.O_EXCL))
    except (FileExistsError, FileNotFoundError):
        return
    if error:
        raise OSError(getattr(errno, error), os.strerror(getattr(errno, error)), file)
    time.sleep(600)
