"""What benchmarks print: the machine, and the memory that this process and its children took at most."""

from __future__ import annotations

import platform
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

GIB = 2**30


def machine() -> str:
    load = psutil.getloadavg()[0]
    memory = psutil.virtual_memory().total / GIB
    return f"{platform.machine()}, {psutil.cpu_count()} cores, {memory:.0f} GiB, load {load:.1f} at the start"


@dataclass
class Measured:
    """Wall-clock seconds, and GiB at the worst moment, counted per sample of a fifth of a second."""

    seconds: float = 0.0
    gib: float = 0.0


@contextmanager
def measured() -> Iterator[Measured]:
    """Measure the block: time, and proportional memory (shared pages once) of this process and all below it."""
    result, ended = Measured(), threading.Event()
    watcher = threading.Thread(target=_watch, args=(result, ended))
    watcher.start()
    start = time.perf_counter()
    try:
        yield result
    finally:
        result.seconds = time.perf_counter() - start
        ended.set()
        watcher.join()


def _watch(result: Measured, ended: threading.Event) -> None:
    me = psutil.Process()
    while not ended.wait(0.2):
        result.gib = max(result.gib, sum(map(_anonymous, [me, *me.children(recursive=True)])) / GIB)


def _anonymous(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except (psutil.Error, AttributeError):
        return 0
