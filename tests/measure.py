"""What benchmarks print: the machine, and the memory that this process and its children took at most."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psutil

from slipstream._bench.rating.resource_use import measure_memory
from slipstream._tools.processes.background import Ended, background_task

GIB = 2**30


def machine() -> str:
    load = psutil.getloadavg()[0]
    memory = psutil.virtual_memory().total / GIB
    return f"{platform.machine()}, {psutil.cpu_count()} cores, {memory:.0f} GiB, load {load:.1f} at the start"


def processor_seconds() -> float:
    """The seconds that processors have worked for this process and all below it."""
    me = psutil.Process()
    taken = 0.0
    for process in (me, *me.children(recursive=True)):
        with suppress(psutil.Error):
            taken += sum(process.cpu_times()[:2])
    return taken


@dataclass
class Measured:
    """Wall-clock seconds, and GiB at the worst moment, looked at twice a second."""

    seconds: float = 0.0
    gib: float = 0.0


@contextmanager
def measured() -> Iterator[Measured]:
    """Measure the block: time, and memory (shared memory once) of this process and all below it."""
    result = Measured()
    with background_task(lambda ended: _watch(result, ended)):
        start = time.perf_counter()
        try:
            yield result
        finally:
            result.seconds = time.perf_counter() - start


def _watch(result: Measured, ended: Ended) -> None:
    while not ended.wait(0.5):
        result.gib = max(result.gib, measure_memory(os.getpid()))
