"""Named points at which tests kill a process or make a disk fail: before and after each write and each commit.

Random kills find little; a kill at the worst moment finds the bug at once. With ``SLIPSTREAM_FAILPOINT=name:file`` set,
the first process to reach ``name`` while the folder of ``file`` exists creates ``file`` and waits there to be killed;
a test chooses the moment by creating the folder. With ``name:file:ENOSPC`` that error is raised instead. Otherwise a
failpoint does nothing.
"""

from __future__ import annotations

import errno
import os
import time

VARIABLE = "SLIPSTREAM_FAILPOINT"

#: where any job writes and commits its outputs, in the order in which a batch reaches them
OUTPUT_POINTS = (
    "outputs.before-write",
    "outputs.after-write",
    "outputs.before-commit",
    "outputs.between-tables",
    "outputs.after-tables",
    "outputs.before-journal",
    "outputs.after-journal",
)

#: where tables are compacted, in the background
COMPACTION_POINTS = ("compaction.before-write", "compaction.after-write", "compaction.after-removal")

#: where results are sent to a topic
TOPIC_POINTS = ("topic.before-send", "topic.before-commit", "topic.after-commit")


def _name_saving_points(*stages: str) -> tuple[str, ...]:
    return tuple(f"{stage}.{moment}-save" for stage in stages for moment in ("before", "after"))


_WITH_TEXT = (*OUTPUT_POINTS[:-2], "text.before-append", *OUTPUT_POINTS[-2:])
TRIP_POINTS = _name_saving_points("trips")

#: the failpoints that every batch of a kind of job can reach
JOB_POINTS = {
    "toll": (*_name_saving_points("tolls", "accounts"), *_WITH_TEXT),
    "archive": (*TRIP_POINTS, *_WITH_TEXT),
    "network": (*_name_saving_points("network-1"), *OUTPUT_POINTS),
    "cuboid": (*_name_saving_points("network-1"), *OUTPUT_POINTS),
}


def failpoint(name: str) -> None:
    """Wait or fail here, once, if ``SLIPSTREAM_FAILPOINT`` names this point."""
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
