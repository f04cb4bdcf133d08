"""What processes use: memory and processor time of engines, drivers and brokers."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress

import psutil

from slipstream._runtime.state import shared_arrays
from slipstream._runtime.state.state_cache import WARM
from slipstream._tools.files.temporary import PREFIX

#: seconds between two listings of a process tree: each reads the parents of all processes of the machine
_LIST_S = 5.0


def shared_bytes() -> int:
    """Return how much shared memory engines hold."""
    return sum(file.stat().st_size for file in shared_arrays.root().glob(f"{PREFIX}*-{WARM}-*/*/*"))


def own_bytes(process: psutil.Process) -> int:
    """Return the unshared memory of a process."""
    info = process.memory_info()
    return int(info.rss - getattr(info, "shared", 0))


def list_family(pid: int) -> list[psutil.Process]:
    """Return a process and its descendants; empty if it has ended."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.Error:
        return []


def measure_memory(pid: int) -> float:
    """Return the memory of a process tree in GiB: unshared memory of each process, and shared memory once.

    Proportional shares would be exact, but the kernel walks all pages to count them, which would slow the engine down.
    """
    total = shared_bytes()
    for process in list_family(pid):
        with suppress(psutil.Error):
            total += own_bytes(process)
    return float(total / 2**30)


def measure_processor_seconds(family: Iterable[psutil.Process]) -> float:
    """Return the processor time of processes so far, in seconds, with that of their children that have ended."""
    total = 0.0
    for process in family:
        with suppress(psutil.Error):
            total += sum(process.cpu_times()[:4])  # user and system, of the process and of its ended children
    return total


class ProcessorMeter:
    """Adds up the processor time of a process tree, which may be replaced by another after a restart."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._pid = 0
        self._last = 0.0
        self._family: list[psutil.Process] = []
        self._listed = 0.0

    def read(self, pid: int) -> None:
        """Add what the tree has used since the last reading; the first reading adds nothing."""
        if pid != self._pid or time.monotonic() - self._listed > _LIST_S:
            self._family, self._listed = list_family(pid), time.monotonic()
        used = measure_processor_seconds(self._family)
        if pid != self._pid:
            self._last = 0.0 if self._pid else used
            self._pid = pid
        self.seconds += max(0.0, used - self._last)
        self._last = max(used, self._last)  # a tree that has just ended shows less


def find_listener(port: int) -> int | None:
    """Return the process that listens at a TCP port, if it can be seen."""
    with suppress(psutil.Error):
        for connection in psutil.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port:
                return connection.pid
    return None
