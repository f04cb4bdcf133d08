"""What is left of a process once it has ended: looks for its descendants by a variable in their environment."""

from __future__ import annotations

import time
from contextlib import suppress

import psutil

#: everything must be gone in so many seconds after the end of its parent
WITHIN_S = 10.0


def marked(marker: str) -> list[psutil.Process]:
    """The processes with this word in the variable MARKER."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("MARKER") == marker and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def has_started(marker: str, program: str) -> bool:
    """Whether a process with the marker runs a program; those that end while we look do not."""
    for process in marked(marker):
        with suppress(psutil.Error):
            if program in process.name():
                return True
    return False


def ended(marker: str) -> list[str]:
    """Wait until no process has the marker; what is left when it should not be, which is ended then."""
    until = time.monotonic() + WITHIN_S
    while (left := marked(marker)) and time.monotonic() < until:
        time.sleep(0.05)
    for process in left:
        with suppress(psutil.Error):
            process.kill()
    return [str(process) for process in left]
