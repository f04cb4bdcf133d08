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

#: the places where any job writes and commits its outputs
OUTPUT_POINTS = (
    "outputs.before-write",
    "outputs.after-write",
    "outputs.before-commit",
    "outputs.between-tables",
    "outputs.after-tables",
    "outputs.before-journal",
    "outputs.after-journal",
)

#: the places of a toll job, in the order in which a batch comes to them
POINTS = (
    "tolls.before-save",
    "tolls.after-save",
    "accounts.before-save",
    "accounts.after-save",
    *OUTPUT_POINTS[:-2],
    "text.before-append",
    *OUTPUT_POINTS[-2:],
)

#: the places of a job that archives, besides
TRIP_POINTS = ("trips.before-save", "trips.after-save")

#: the places where tables are compacted, beside the batches
COMPACTION_POINTS = ("compaction.before-write", "compaction.after-write", "compaction.after-removal")

#: the places of a network, besides
NETWORK_POINTS = ("network.before-save", "network.after-save")

#: the places of a stream that fills a cuboid, besides
FILL_POINTS = ("cuboid.before-save", "cuboid.after-save")

#: the places where answers go on to a topic
TOPIC_POINTS = ("topic.before-send", "topic.before-commit", "topic.after-commit")


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
