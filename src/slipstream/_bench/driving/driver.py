"""Delivers a run in real time: every tuple leaves in its second.

A reader prepares seconds ahead of time in a thread of its own (reading Parquet and encoding happen outside Python's
lock), the driver waits for each second and hands it over whole. What it measures is its own lateness: a run whose
tuples left late says nothing about the engine, and is void.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from slipstream._bench.driving.destinations import Destination
from slipstream._errors import BadArgument
from slipstream._feeds.clock import Clock
from slipstream._feeds.run import MINUTE, Run
from slipstream._tools.progress import bar

#: a driver that is later than this makes the run void
MAX_LAG = 1.0
#: seconds prepared ahead of the clock
AHEAD = 90

Encode = Callable[[pa.Table], bytes]


@dataclass(frozen=True)
class Plan:
    """Which seconds to deliver, and how fast: ``speed`` 2 is twice real time, 0 as fast as possible.

    The seconds from ``first`` to ``start`` are delivered at once; those before ``first`` are not.
    """

    start: int
    end: int
    speed: float = 1.0
    first: int = 0

    @classmethod
    def of(cls, run: Run, speed: float, fast_forward_to: int, until: int | None) -> Plan:
        """A plan that fits ``run``."""
        end = run.manifest.seconds if until is None else min(until, run.manifest.seconds)
        if not 0 <= fast_forward_to <= end:
            raise BadArgument(
                f"--fast-forward-to {fast_forward_to}, --until {until}: outside the run.",
                hint=f"{run.path} has the seconds 0 to {run.manifest.seconds - 1}.",
            )
        return cls(fast_forward_to, end, speed)


class Pace:
    """A plan's clock, which starts when the first second after the fast-forward is due."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._clock: Clock | None = None

    @property
    def started(self) -> bool:
        """Whether the fast-forward is over and the clock runs; without a speed it never does."""
        return self._clock is not None

    @property
    def epoch_ms(self) -> int:
        """The wall clock at second 0 of the run; 0 before the clock runs."""
        return round(self._clock.origin_ms - 1000 * self._plan.start / self._plan.speed) if self._clock else 0

    def start(self) -> None:
        """It is now the first second to be delivered on time."""
        self._clock = Clock.start(self._plan.speed, self._plan.start)

    def late(self, second: int) -> float:
        """How long ago ``second`` was due, in seconds of the wall clock; negative if it is still to come."""
        assert self._clock is not None
        return (self._clock.now_ms() / 1000 - second) / self._plan.speed

    def emit(self, second: int) -> float:
        """The second of the run at this moment; for what was fast-forwarded, the ``second`` of the tuple itself."""
        if self._clock is None or second < self._plan.start:
            return float(second)
        return self._clock.now_ms() / 1000


@dataclass(frozen=True)
class Drive:
    """What a drive did; lags are seconds of the wall clock."""

    tuples: int
    seconds: int  # of the run
    fast_forwarded: int  # seconds that were delivered at once
    speed: float
    took: float
    max_lag: float
    p99_lag: float
    latest_second: int  # the one that left with the largest lag
    origin_epoch_ms: int  # the wall clock at second 0 of the run

    @property
    def void(self) -> bool:
        """Whether the driver itself was late."""
        return self.max_lag > MAX_LAG

    def to_dict(self) -> dict[str, Any]:
        """For people and scripts."""
        return {**asdict(self), "void": self.void}


def seconds_of(run: Run, end: int, begin: int = 0) -> Iterator[tuple[int, pa.Table]]:
    """Every second before ``end`` that has tuples, with all of them: as the lines stood, else by expressway.

    It begins with the minute of second ``begin``.
    """
    by_line = run.manifest.has_lines and run.copies == 1
    for minute in range(begin // MINUTE, -(-end // MINUTE)):
        parts = [run.shift(run.minute(s, minute), k) for k in range(run.copies) for s in range(run.stored)]
        table = pa.concat_tables(parts)
        times = table.column("time").to_numpy()
        order = np.lexsort((table.column("line").to_numpy(), times)) if by_line else np.argsort(times, kind="stable")
        table, times = table.take(order), times[order]
        edges = np.arange(minute * MINUTE, min((minute + 1) * MINUTE, end) + 1)
        cuts = np.searchsorted(times, edges)
        for second, first, last in zip(edges[:-1], cuts[:-1], cuts[1:], strict=True):
            if last > first:
                yield int(second), table.slice(first, last - first)


def ahead(seconds: Iterator[tuple[int, pa.Table]], encode: Encode) -> Generator[tuple[int, int, bytes], None, None]:
    """(second, tuples, bytes), prepared in a thread; what goes wrong there is raised here.

    Close it if it may not be used up: a thread that is inside Arrow when Python ends takes the process down with it.
    """
    ready: queue.Queue[tuple[int, int, bytes] | BaseException | None] = queue.Queue(AHEAD)
    stop = threading.Event()

    def prepare() -> None:
        try:
            for second, table in seconds:
                if not _put(ready, (second, table.num_rows, encode(table)), stop):
                    return
            _put(ready, None, stop)
        except BaseException as error:
            _put(ready, error, stop)

    worker = threading.Thread(target=prepare, daemon=True)
    try:
        worker.start()
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stop.set()
        if worker.is_alive():  # not if its very start was interrupted
            worker.join()


def _put(ready: queue.Queue[Any], item: Any, stop: threading.Event) -> bool:
    while not stop.is_set():
        try:
            ready.put(item, timeout=0.5)
            return True
        except queue.Full:
            continue
    return False


def drive(run: Run, plan: Plan, encode: Encode, to: Destination, pace: Pace | None = None) -> Drive:
    """Deliver ``run`` as planned; ``pace`` is for those who want to know the time of the run meanwhile."""
    pace = pace or Pace(plan)
    began = time.monotonic()
    tuples = 0
    lags = {plan.start: 0.0}
    prepared = ahead(seconds_of(run, plan.end, plan.first), encode)
    with closing(prepared), bar("seconds", plan.end) as advance:
        for second, count, data in prepared:
            if plan.speed and second >= plan.start:
                _wait_for(pace, second)
            to.deliver(second, data)
            if pace.started:
                lags[second] = pace.late(second)
            tuples += count
            advance(1)
    latest = max(lags, key=lags.__getitem__)
    return Drive(
        tuples=tuples,
        seconds=plan.end,
        fast_forwarded=plan.start,
        speed=plan.speed,
        took=round(time.monotonic() - began, 3),
        max_lag=round(lags[latest], 3),
        p99_lag=round(float(np.percentile(list(lags.values()), 99)), 3),
        latest_second=latest,
        origin_epoch_ms=pace.epoch_ms,
    )


def _wait_for(pace: Pace, second: int) -> None:
    if not pace.started:
        pace.start()
    if (early := -pace.late(second)) > 0:
        time.sleep(early)
