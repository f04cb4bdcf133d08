"""Observe a running toll engine from outside: memory of its processes, disk usage, response times."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import psutil

from slipstream._bench.rating.resource_use import own_bytes, shared_bytes
from slipstream._chaos.process import JobProcess
from slipstream._feeds.clock import Clock
from slipstream._io.named_feeds import CLOCK
from slipstream._io.outputs import CHECKPOINT, FOLDER
from slipstream._linear_road.answers import TOLL
from slipstream._linear_road.job.toll_journal import read_journal
from slipstream._runtime.watching import metrics
from slipstream._tools.processes.background import Ended, background_task
from slipstream._tools.quantiles import quantiles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MIB = 2**20
EVERY_S = 5.0
STATE = "state in shared memory"
Floats = npt.NDArray[np.float64]


@dataclass
class Watched:
    """Samples by name: seconds since the start, and what was found."""

    samples: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def add(self, name: str, second: float, value: float) -> None:
        self.samples.setdefault(name, []).append((second, value))

    def of(self, name: str) -> tuple[Floats, Floats]:
        times, values = np.array(self.samples[name], np.float64).T
        return times, values

    def slope(self, name: str, since: float) -> tuple[float, float, float]:
        """Mean after ``since`` seconds, growth an hour, and the standard error of that, from the means of minutes."""
        times, values = self.of(name)
        minutes = (times[times >= since] // 60).astype(int)
        later = values[times >= since]
        at = np.unique(minutes)
        means = np.array([later[minutes == minute].mean() for minute in at])
        hours = at / 60.0
        slope, start = np.polyfit(hours, means, 1)
        residuals = means - (slope * hours + start)
        spread = float(np.sqrt((residuals**2).sum() / max(1, at.size - 2)))
        error = spread / float(np.sqrt(((hours - hours.mean()) ** 2).sum()))
        return float(means.mean()), float(slope), error


def started(run: Path, out: Path, *options: object) -> JobProcess:
    command = [sys.executable, "-m", "slipstream", "toll", str(run), "--out", str(out), "--no-text"]
    return JobProcess([*command, *map(str, options)], out, out.with_suffix(".log"), {})


def clock_of(out: Path) -> Path:
    return out / CHECKPOINT / CLOCK


def wait_for_clock(engine: JobProcess) -> None:
    assert engine.wait_for(lambda: Clock.read(clock_of(engine.out)) is not None, 900), engine.stderr


@contextmanager
def watching(engine: JobProcess) -> Iterator[Watched]:
    """Samples in a thread while the block runs."""
    watched, began = Watched(), time.monotonic()

    def watch(ended: Ended) -> None:
        while not ended.wait(EVERY_S):
            _sample(engine, watched, time.monotonic() - began)

    with background_task(watch):
        yield watched


def _sample(engine: JobProcess, watched: Watched, second: float) -> None:
    if not (family := engine.family()) or not shared_bytes():
        return  # it ends
    jvm = engine.jvm()
    kinds = {"driver": [family[0]], "JVM": [jvm] if jvm else [], "Python workers": engine.workers()}
    for name, processes in kinds.items():
        watched.add(name, second, sum(map(_own, processes)) / MIB)
    watched.add(STATE, second, shared_bytes() / MIB)
    if len(watched.samples["driver"]) % 6 == 1:
        _sample_disk(engine.out, watched, second)


def _sample_disk(out: Path, watched: Watched, second: float) -> None:
    count, size = _on_disk(out / CHECKPOINT)
    watched.add("checkpoint files", second, count)
    watched.add("checkpoint MiB", second, size / MIB)
    count, size = _on_disk(out / FOLDER)
    watched.add("answer files", second, count)
    watched.add("answers MiB", second, size / MIB)


def _on_disk(folder: Path) -> tuple[int, int]:
    """Files and bytes; some are removed meanwhile."""
    sizes = []
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                sizes.append(Path(place, name).stat().st_size)
    return len(sizes), sum(sizes)


def _own(process: psutil.Process) -> int:
    """Its own memory, none when it is gone."""
    try:
        return own_bytes(process)
    except psutil.Error:
        return 0


def delays(out: Path) -> tuple[Floats, Floats, npt.NDArray[np.int64]]:
    """Of tolls: seconds of the run at which they became visible, how late they were, and how many of them."""
    rows = [
        (time + response_ms / 1000, response_ms / 1000, count)
        for batch in read_journal(out)
        for kind, time, count, response_ms in batch.answers
        if kind == TOLL
    ]
    at, late, counts = np.array(rows, np.float64).T
    return at, late, counts.astype(np.int64)


def summarise_minutes(out: Path, since: int) -> list[tuple[int, float, float, float]]:
    """Minute, p50, p99 and max of the delays of the tolls that became visible in it."""
    at, late, counts = delays(out)
    minutes = ((at - since) // 60).astype(int)
    found = []
    for minute in np.unique(minutes):
        mine = minutes == minute
        p50, p99, longest = quantiles(late[mine], (0.5, 0.99, 1), counts[mine])
        found.append((int(minute), p50, p99, longest))
    return found


def draw(watched: Watched, out: Path, since: int, title: str, to: Path) -> None:
    """Memory, disk and response times over the minutes of a soak."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 8), layout="constrained")
    above, middle, below = figure.subplots(3, 1, sharex=True)
    for name in ("JVM", "Python workers", "driver", STATE):
        times, values = watched.of(name)
        above.plot(times / 60, values / 1024, label=name)
    _label(above, "GiB")
    for name in ("checkpoint files", "answer files"):
        times, values = watched.of(name)
        middle.plot(times / 60, values, label=name)
    times, values = watched.of("checkpoint MiB")
    middle.plot(times / 60, values, label="checkpoint, MiB", linestyle=":")
    _label(middle, "files, MiB")
    minutes, *lines = zip(*summarise_minutes(out, since), strict=True)
    for name, line in zip(("p50", "p99", "max"), lines, strict=True):
        below.plot(minutes, line, label=name)
    below.axhline(5, color="black", linewidth=0.8, linestyle="--", label="limit")
    _label(below, "seconds to a toll")
    below.set_xlabel("minutes")
    figure.suptitle(title)
    figure.savefig(to, dpi=110)


def _label(axes: Axes, what: str) -> None:
    axes.set_ylabel(what)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)


def state_mib(out: Path) -> tuple[float, float]:
    """What RocksDB held for Spark in the first and the last batch."""
    found = [batch.state_bytes / MIB for batch in metrics.read(out) if batch.state_bytes]
    return found[0], found[-1]
