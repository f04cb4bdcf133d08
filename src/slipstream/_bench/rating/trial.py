"""One run in real time at some L: what was measured, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from slipstream._bench.validation.editions import ANSWERS, find_edition
from slipstream._linear_road.job.summary import summarise_responses
from slipstream._linear_road.job.toll_journal import read_journal
from slipstream._runtime.watching import metrics

#: an engine that is busy for a larger share of its time has no headroom
MOST_BUSY = 0.85
#: the windows in a row in which an engine must have headroom: parts of the time that is driven
PARTS = 3


@dataclass(frozen=True)
class ResponseSummary:
    """Response times of one kind of answer in seconds, their limit, and how many exceeded it."""

    p50: float
    p99: float
    max: float
    limit: float
    late: int = 0
    negative: int = 0  # answers before their requests: the clocks are not synchronised

    @property
    def held(self) -> bool:
        """Whether all were on time."""
        return self.max <= self.limit and not self.negative


@dataclass(frozen=True)
class Trial:
    """One run in real time at some L."""

    expressways: int
    seconds: int
    responses: dict[str, ResponseSummary] = field(default_factory=dict)  # by kind
    why: str = ""  # why the answers were not all in time, or not correct
    void: str = ""  # why it says nothing about the engine
    busy: tuple[float, ...] = ()  # the share of time in which the engine was busy, by part of the window, if known
    validated: bool = False
    gib: float = 0.0  # peak memory of all processes of the engine
    cores: dict[str, float] = field(default_factory=dict)  # used on average by driver, broker and engine
    lag: float = 0.0  # the largest of the driver, in seconds
    startup: float = 0.0  # seconds from the engine's start until it was ready
    restarts: int = 0  # of the engine, after it had died

    @property
    def in_time(self) -> bool:
        """Whether all answers were in time."""
        return not self.why and not self.void

    @property
    def has_headroom(self) -> bool:
        """Whether the engine had time to spare in every part of the window, as far as that is known."""
        return all(share <= MOST_BUSY for share in self.busy)

    @property
    def held(self) -> bool:
        """Whether the engine sustained it with headroom."""
        return self.in_time and self.has_headroom

    @property
    def outcome(self) -> str:
        """How it ended."""
        if not self.in_time:
            return self.void or self.why
        said = "validated" if self.validated else "in time"
        return said if self.has_headroom else f"{said}, without headroom"

    @property
    def slowest(self) -> float:
        """The longest response time."""
        return max((response.max for response in self.responses.values()), default=float("inf"))


@dataclass(frozen=True)
class TimeWindow:
    """The part of the run that is driven in real time."""

    since: int
    until: int

    @property
    def seconds(self) -> int:
        """Its length."""
        return self.until - self.since

    def last(self, seconds: int) -> TimeWindow:
        """Return its last seconds, or all of it; starts at a minute, where fast-forwards can end.

        >>> whole = TimeWindow(9600, 10800)
        >>> whole.last(120), whole.last(30)
        (TimeWindow(since=10680, until=10800), TimeWindow(since=10740, until=10770))
        >>> whole.last(5000) == whole
        True
        """
        since = max(self.since, (self.until - seconds) // 60 * 60)
        return TimeWindow(since, min(self.until, since + seconds))


def describe_late(responses: dict[str, ResponseSummary]) -> str:
    """Describe which answers were late; empty if none was."""
    words = [f"{name} {response.max:.1f} s" for name, response in responses.items() if not response.held]
    return "late: " + ", ".join(words) if words else ""


def summarise_answers(answers: Iterable[Sequence[int]]) -> dict[str, ResponseSummary]:
    """Summarise answers given as kind, time, number and response time in milliseconds."""
    rows = np.array([list(row) for row in answers], np.int64).reshape(-1, 4)
    limits = find_edition("2004").limits
    found = {}
    for kind, name in ANSWERS.items():
        mine = rows[rows[:, 0] == kind]
        if mine.size:
            found[name] = ResponseSummary(**summarise_responses(mine[:, 3] / 1000.0, mine[:, 2], limits[kind]))
    return found


def read_journal_responses(out: Path) -> dict[str, ResponseSummary]:
    """Summarise the response times in the journal of a toll job: commit minus arrival."""
    return summarise_answers(row for batch in read_journal(out) for row in batch.answers)


def read_text_responses(output: Path) -> dict[str, ResponseSummary]:
    """Summarise the response times in an output in the paper's format."""
    return summarise_answers(
        (int(kind), int(asked), 1, round(1000 * (emit - int(asked)))) for kind, asked, emit in _read_times(output)
    )


def _read_times(output: Path) -> Iterable[tuple[str, str, float]]:
    with output.open(encoding="utf-8") as lines:
        for line in lines:
            kind, *values = line.split(",", 4)[:4]
            time, emit = (values[1], values[2]) if kind == "0" else (values[0], values[1])
            yield kind, time, float(emit)


def measure_busy_shares(out: Path, begin: float, end: float, parts: int = PARTS) -> tuple[float, ...]:
    """Return the share of each part of a time (seconds since 1970) in which a job worked on a batch."""
    spans = [(batch.start, batch.start + batch.commit_ms / 1000) for batch in metrics.read(out)]
    return compute_overlap_shares(spans, begin, end, parts)


def compute_overlap_shares(
    spans: Sequence[tuple[float, float]], begin: float, end: float, parts: int = PARTS
) -> tuple[float, ...]:
    """Return the share of each part of a time that spans cover; empty without spans in it.

    >>> compute_overlap_shares([(0, 1), (2, 4)], 0, 6)
    (0.5, 1.0, 0.0)
    """
    if end <= begin or not any(last > begin and first < end for first, last in spans):
        return ()
    edges = np.linspace(begin, end, parts + 1)
    covered = [
        sum(max(0.0, min(last, right) - max(first, left)) for first, last in spans) / (right - left)
        for left, right in pairwise(edges)
    ]
    return tuple(round(float(share), 3) for share in covered)
