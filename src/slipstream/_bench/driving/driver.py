"""Deliver a run in real time: every tuple is sent in its second.

A reader thread prepares seconds ahead of time (reading Parquet and encoding release Python's lock); the driver waits
for each second and sends it whole. The driver measures its own lag: if tuples were sent late, the run shows nothing
about the engine, and is void.
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
from slipstream._tools.quantiles import quantiles

#: a driver that lags more than this, in seconds, voids the run
MAX_LAG = 1.0
#: seconds prepared ahead of the clock
AHEAD = 90

Encode = Callable[[pa.Table], bytes]


@dataclass(frozen=True)
class DrivePlan:
    """Which seconds to deliver, and how fast: ``speed`` 2 is twice real time, 0 as fast as possible.

    The seconds from ``first`` to ``start`` are delivered immediately; those before ``first`` are skipped.
    """

    start: int
    end: int
    speed: float = 1.0
    first: int = 0

    @classmethod
    def for_run(cls, run: Run, speed: float, fast_forward_to: int, until: int | None) -> DrivePlan:
        """Return a plan for ``run``; reject seconds outside it."""
        end = run.manifest.seconds if until is None else min(until, run.manifest.seconds)
        if not 0 <= fast_forward_to <= end:
            raise BadArgument(
                f"--fast-forward-to {fast_forward_to}, --until {until}: outside the run.",
                hint=f"{run.path} has the seconds 0 to {run.manifest.seconds - 1}.",
                code="out-of-range",
                found=fast_forward_to,
            )
        return cls(fast_forward_to, end, speed)


class Pace:
    """The clock of a plan, which starts when the first second after the fast-forward is due."""

    def __init__(self, plan: DrivePlan) -> None:
        self._plan = plan
        self._clock: Clock | None = None

    @property
    def started(self) -> bool:
        """Whether the clock is running: after the fast-forward, and never without a speed."""
        return self._clock is not None

    @property
    def epoch_ms(self) -> int:
        """The wall clock time at second 0 of the run; 0 before the clock starts."""
        return round(self._clock.origin_ms - 1000 * self._plan.start / self._plan.speed) if self._clock else 0

    def start(self) -> None:
        """Start the clock: the first second to be delivered on time is now."""
        self._clock = Clock.start(self._plan.speed, self._plan.start)

    def lag(self, second: int) -> float:
        """Return how long ago ``second`` was due, in seconds of the wall clock; negative if it is still ahead."""
        assert self._clock is not None
        return (self._clock.now_ms() / 1000 - second) / self._plan.speed

    def emit(self, second: int) -> float:
        """Return the current second of the run; for a fast-forwarded tuple, its own ``second``."""
        if self._clock is None or second < self._plan.start:
            return float(second)
        return self._clock.now_ms() / 1000


@dataclass(frozen=True)
class DriveResult:
    """The result of a drive; lags are in seconds of the wall clock."""

    tuples: int
    seconds: int  # of the run
    fast_forwarded: int  # seconds that were delivered immediately
    speed: float
    took: float
    max_lag: float
    p99_lag: float
    latest_second: int  # the second with the largest lag
    origin_epoch_ms: int  # the wall clock time at second 0 of the run

    @property
    def void(self) -> bool:
        """Whether the driver itself was late."""
        return self.max_lag > MAX_LAG

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {**asdict(self), "void": self.void}


def read_seconds(run: Run, end: int, begin: int = 0) -> Iterator[tuple[int, pa.Table]]:
    """Return every second before ``end`` that has tuples, with all of them: in line order if known, else by expressway.

    Starts with the minute of second ``begin``.
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


def prepare_ahead(
    seconds: Iterator[tuple[int, pa.Table]], encode: Encode
) -> Generator[tuple[int, int, bytes], None, None]:
    """Return (second, tuples, bytes), prepared in a thread; errors of the thread are raised here.

    Close it if it may not be exhausted: a thread inside Arrow crashes the process when Python exits.
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
        if worker.is_alive():  # it is not if its start was interrupted
            worker.join()


def _put(ready: queue.Queue[Any], item: Any, stop: threading.Event) -> bool:
    while not stop.is_set():
        try:
            ready.put(item, timeout=0.5)
            return True
        except queue.Full:
            continue
    return False


def drive(run: Run, plan: DrivePlan, encode: Encode, to: Destination, pace: Pace | None = None) -> DriveResult:
    """Deliver ``run`` as planned; pass ``pace`` to read the time of the run meanwhile."""
    pace = pace or Pace(plan)
    began = time.monotonic()
    tuples = 0
    lags = {plan.start: 0.0}
    prepared = prepare_ahead(read_seconds(run, plan.end, plan.first), encode)
    with closing(prepared), bar("seconds", plan.end) as advance:
        for second, count, data in prepared:
            if plan.speed and second >= plan.start:
                _wait_for(pace, second)
            to.deliver(second, data)
            if pace.started:
                lags[second] = pace.lag(second)
            tuples += count
            advance(1)
    latest = max(lags, key=lags.__getitem__)
    return DriveResult(
        tuples=tuples,
        seconds=plan.end,
        fast_forwarded=plan.start,
        speed=plan.speed,
        took=round(time.monotonic() - began, 3),
        max_lag=round(lags[latest], 3),
        p99_lag=round(quantiles(list(lags.values()), (0.99,))[0], 3),
        latest_second=latest,
        origin_epoch_ms=pace.epoch_ms,
    )


def _wait_for(pace: Pace, second: int) -> None:
    if not pace.started:
        pace.start()
    if (early := -pace.lag(second)) > 0:
        time.sleep(early)
