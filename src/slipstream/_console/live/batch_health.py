"""The health of a stream, batch by batch, from the files that an engine writes while it runs.

The journal has the time at which answers became visible, and so the response times; the engine's metrics have the
commit time of each batch, and what remains of the batch's share of time is the query time capacity. The engine itself
is not involved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from slipstream._feeds.clock import FULL_SPEED
from slipstream._feeds.run import MINUTE
from slipstream._io.outputs import JOURNAL, Tail
from slipstream._linear_road.answers import NAMES
from slipstream._linear_road.job.toll_journal import TollBatch
from slipstream._runtime.watching import metrics
from slipstream._tools.logs import Follower
from slipstream._tools.quantiles import quantiles

#: response times are counted in hundredths of a second, up to ten minutes
_STEP, _MOST = 0.01, 60_000
#: seconds of the run that count as recent
RECENT = 60


@dataclass(frozen=True)
class ResponseQuantiles:
    """Response times of a kind of answer, in seconds."""

    p50: float
    p99: float
    most: float


@dataclass(frozen=True)
class BatchHealth:
    """One committed batch: its input, its output, and how long it took."""

    batch: int
    second: int  # its newest second of the run
    seconds: int  # of the run
    tuples: int | None
    answers: int
    rejects: int
    commit: float | None  # seconds from its trigger to its commit
    budget: float | None  # seconds it may take for the stream to keep up; None at full speed
    lag: float | None  # seconds from the end of its newest second to its visibility
    responses: tuple[ResponseQuantiles | None, ...]  # by kind; None without a clock


class FollowedJournal:
    """The committed batches of an engine's folder, read as they are written, and indexed by minute."""

    def __init__(self, out: Path) -> None:
        self._out, self._file, self._tail = out, out / JOURNAL, Tail(out)
        self.batches: list[TollBatch] = []
        self._minutes: dict[int, list[TollBatch]] = {}

    @property
    def newest(self) -> int:
        """The newest second with answers; -1 before the first."""
        return self.batches[-1].newest if self.batches else -1

    @property
    def committed_at(self) -> float:
        """When the last batch became visible, in seconds since 1970."""
        return self._file.stat().st_mtime if self._file.exists() else 0.0

    def of_minute(self, minute: int) -> list[TollBatch]:
        """Return the batches with answers of a minute."""
        return self._minutes.get(minute, [])

    def last(self, seconds: int) -> list[TollBatch]:
        """Return the batches with the last seconds of the run."""
        first = len(self.batches)
        while first and self.batches[first - 1].newest > self.newest - seconds:
            first -= 1
        return self.batches[first:]

    def refresh(self) -> list[TollBatch]:
        """Read what was committed since the last call."""
        fresh = [TollBatch.of(line, self._out) for line in self._tail.batches()]
        self.batches += fresh
        for batch in fresh:
            for minute in {time // MINUTE for _, time, *_ in batch.answers}:
                self._minutes.setdefault(minute, []).append(batch)
        return fresh


@dataclass
class ResponseHistogram:
    """The response times of a kind of answer, as counts."""

    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(_MOST, np.int64))

    def add(self, delays: npt.NDArray[np.float64], counts: npt.NDArray[np.int64]) -> None:
        """Add response times."""
        np.add.at(self.counts, np.clip(np.rint(delays / _STEP), 0, self.counts.size - 1).astype(np.int64), counts)

    def quantiles(self) -> ResponseQuantiles | None:
        """Return their quantiles; None without any."""
        steps = np.flatnonzero(self.counts)
        if not steps.size:
            return None
        found = quantiles(steps, (0.5, 0.99, 1), self.counts[steps])
        return ResponseQuantiles(*(round(step * _STEP, 2) for step in found))


class StreamHealth:
    """The health of all batches of an engine's folder, and response times over all of them."""

    def __init__(
        self, out: Path, speed: float, tuples_by_second: Callable[[int], npt.NDArray[np.int64]] | None
    ) -> None:
        self._metrics, self._commits = Follower(out / metrics.FILE), dict[int, float]()
        self.speed = speed
        self._tuples = tuples_by_second
        self._last = -1
        self.batches: list[BatchHealth] = []
        self.total = [ResponseHistogram() for _ in NAMES]
        self.answers = [0 for _ in NAMES]

    def add(self, batches: list[TollBatch]) -> list[BatchHealth]:
        """Add newly committed batches; return their health."""
        fresh = [self._measure(batch) for batch in batches]
        self.batches += fresh
        return fresh

    def _measure(self, batch: TollBatch) -> BatchHealth:
        end = batch.newest
        seconds = max(end - self._last, 0)
        budget = seconds / self.speed if self.speed != FULL_SPEED else None
        tuples = self._count_tuples(self._last + 1, end + 1)
        self._last = max(end, self._last)
        paced = self.speed != FULL_SPEED
        emit_ms = batch.emit_ms
        lag = emit_ms / 1000 - (end + 1) if paced and emit_ms is not None else None
        rows = np.array(batch.answers, np.int64).reshape(-1, 4)
        responses = tuple(self._add_responses(kind, rows) if paced else None for kind in range(len(NAMES)))
        answers = int(rows[:, 2].sum())
        for kind in range(len(NAMES)):
            self.answers[kind] += int(rows[rows[:, 0] == kind, 2].sum())
        return BatchHealth(batch.batch, end, seconds, tuples, answers, batch.rejects, None, budget, lag, responses)

    def _add_responses(self, kind: int, rows: npt.NDArray[np.int64]) -> ResponseQuantiles | None:
        mine = rows[rows[:, 0] == kind]
        delays = mine[:, 3] / 1000
        self.total[kind].add(delays, mine[:, 2])
        if not mine.size:
            return None
        here = ResponseHistogram(np.zeros(min(int(delays.max() / _STEP) + 2, _MOST), np.int64))
        here.add(delays, mine[:, 2])
        return here.quantiles()

    def _count_tuples(self, since: int, until: int) -> int | None:
        if self._tuples is None:
            return None
        total = 0
        for minute in range(since // MINUTE, (until - 1) // MINUTE + 1):
            counts = self._tuples(minute)
            total += int(counts[max(since - minute * MINUTE, 0) : max(until - minute * MINUTE, 0)].sum())
        return total

    def add_commit_times(self) -> None:
        """Add commit times, which the engine writes shortly after the journal."""
        self._commits |= {line["batch"]: line["commit_ms"] / 1000 for line in self._metrics.read_new()}
        for place in range(len(self.batches) - 1, -1, -1):
            batch = self.batches[place]
            if batch.commit is not None or not self._commits:
                break
            if (commit := self._commits.pop(batch.batch, None)) is not None:
                self.batches[place] = replace(batch, commit=commit)
