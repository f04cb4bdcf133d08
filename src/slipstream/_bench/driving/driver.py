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
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from slipstream._bench.driving.receivers import FeedReceiver
from slipstream._errors import BadArgument
from slipstream._feeds.clock import Clock
from slipstream._feeds.parse import Columns
from slipstream._feeds.run import MINUTE, Run
from slipstream._feeds.tuples import FIELDS
from slipstream._io.report_packing import assign_fragments
from slipstream._tools.logs import append_lines, read_lines
from slipstream._tools.progress import bar
from slipstream._tools.quantiles import quantiles

#: a driver that lags more than this, in seconds, voids the run
MAX_LAG = 1.0
#: seconds prepared ahead of the clock
AHEAD = 20

#: the bytes of a second, for each partition of the destination
Parts = list[bytes]
Encode = Callable[[pa.Table], bytes]
EncodeParts = Callable[[pa.Table], Parts]


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
    def for_run(cls, run: Run, speed: float, fast_forward_to: int, until: int | None, since: int = 0) -> DrivePlan:
        """Return a plan for ``run`` from ``since`` on; reject seconds outside it."""
        end = run.manifest.seconds if until is None else min(until, run.manifest.seconds)
        for option, second in (("--fast-forward-to", fast_forward_to), ("--since", since)):
            if not 0 <= second <= end:
                raise BadArgument(
                    f"{option} {second}, --until {until}: outside the run.",
                    hint=f"{run.path} has the seconds 0 to {run.manifest.seconds - 1}.",
                    code="out-of-range",
                    found=second,
                )
        return cls(max(since, fast_forward_to), end, speed, since)

    def after(self, second: int) -> DrivePlan:
        """Return the plan for what follows ``second``, which was sent already."""
        following = max(self.first, min(second + 1, self.end))
        return replace(self, first=following, start=max(self.start, following))


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
class Sent:
    """A second that was sent: how many tuples, when sending began, and how late it ended."""

    second: int
    tuples: int
    sent_ms: int  # wall clock, milliseconds since 1970
    lag: float  # seconds of the wall clock


def log_to(file: Path) -> Callable[[Sent], None]:
    """Return a function that appends every second to a file."""
    return lambda sent: append_lines(file, [asdict(sent)])


def read_sent(file: Path) -> list[Sent]:
    """Read what :func:`log_to` has written; empty if there is no such file."""
    return [Sent(**line) for line in read_lines(file)]


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
    """Return every second from ``begin`` to ``end`` that has tuples, with all of them.

    They are in line order if it is known, else by copy and expressway. Copies are made second by second: a minute of
    hundreds of expressways would not fit into memory.
    """
    by_line = run.manifest.has_lines and run.copies == 1
    for minute in range(begin // MINUTE, -(-end // MINUTE)):
        stored = [_list_columns(run.minute(number, minute), by_line=by_line) for number in range(run.stored)]
        for second in range(max(begin, minute * MINUTE), min((minute + 1) * MINUTE, end)):
            columns = _read_second(stored, second)
            if by_line:
                order = np.argsort(columns.pop("line"), kind="stable")
                columns = {name: column[order] for name, column in columns.items()}
            if columns["time"].size:
                yield second, pa.table(run.present(columns))


def _list_columns(tuples: pa.Table, *, by_line: bool) -> Columns:
    return {name: tuples.column(name).to_numpy() for name in (*FIELDS, *(["line"] if by_line else []))}


def _read_second(stored: list[Columns], second: int) -> Columns:
    """Return the tuples of a second of all stored expressways, one after the other."""
    cuts = [np.searchsorted(columns["time"], (second, second + 1)) for columns in stored]
    return {
        name: np.concatenate([columns[name][slice(*cut)] for columns, cut in zip(stored, cuts, strict=True)])
        for name in stored[0]
    }


def split_by_partition(tuples: pa.Table, partitions: int) -> list[pa.Table]:
    """Divide the tuples of a second among the partitions of a topic: reports by expressway, requests by vehicle."""
    if partitions == 1:
        return [tuples]
    part = assign_fragments({name: tuples.column(name).to_numpy() for name in ("type", "xway", "vid")}, partitions)
    return [tuples.filter(pa.array(part == number)) for number in range(partitions)]


def prepare_ahead(
    seconds: Iterator[tuple[int, pa.Table]], encode: EncodeParts, *, prime: bool = False
) -> Generator[tuple[int, int, Parts], None, None]:
    """Return (second, tuples, bytes), prepared in a thread; errors of the thread are raised here.

    With ``prime``, the first is returned when all that may wait are prepared: a clock that starts then does not
    compete with the preparation. Close it if it may not be exhausted: a thread inside Arrow crashes the process when
    Python exits.
    """
    ready: queue.Queue[tuple[int, int, Parts] | BaseException | None] = queue.Queue(AHEAD)
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
        while prime and worker.is_alive() and not ready.full():
            time.sleep(0.05)
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


def drive(
    run: Run,
    plan: DrivePlan,
    encode: Encode,
    to: FeedReceiver,
    pace: Pace | None = None,
    note: Callable[[Sent], None] = lambda _: None,
    empty: Callable[[int], bytes] = lambda _: b"",
) -> DriveResult:
    """Deliver ``run`` as planned; pass ``pace`` to read the time of the run meanwhile.

    ``note`` is called with every second that was sent; ``empty`` has what a partition without tuples gets.
    """

    def encode_parts(table: pa.Table) -> Parts:
        second = table.column("time")[0].as_py()
        return [encode(part) if part.num_rows else empty(second) for part in split_by_partition(table, to.partitions)]

    return drive_seconds(read_seconds(run, plan.end, plan.first), plan, encode_parts, to, pace, note)


def drive_seconds(
    seconds: Iterator[tuple[int, pa.Table]],
    plan: DrivePlan,
    encode: EncodeParts,
    to: FeedReceiver,
    pace: Pace | None = None,
    note: Callable[[Sent], None] = lambda _: None,
) -> DriveResult:
    """Deliver seconds as planned, whatever they hold."""
    pace = pace or Pace(plan)
    began = time.monotonic()
    tuples = 0
    lags = {plan.start: 0.0}
    prepared = prepare_ahead(seconds, encode, prime=plan.first == plan.start)
    with closing(prepared), bar("seconds", plan.end - plan.first) as advance:
        for second, count, parts in prepared:
            if plan.speed and second >= plan.start:
                _wait_for(pace, second)
            began_ms = round(time.time() * 1000)
            to.deliver(second, parts)
            if pace.started:
                lags[second] = pace.lag(second)
            note(Sent(second, count, began_ms, round(lags.get(second, 0.0), 3)))
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
