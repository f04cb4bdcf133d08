"""The health of a job, from what it has committed: how fast it is, how late, and where its time goes.

A result's *response time* runs from the arrival of the input behind it until it is committed. The *lag* of a job is the
longest response time of its last batch. A job that reads in real time *falls behind* if results exceed their limits or,
where there are none, if its lag keeps growing. A job that processes recorded input as fast as it can is never late.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from slipstream._io.outputs import Batch
    from slipstream._runtime.watching.metrics import BatchMetrics

#: seconds of commits that count as recent
WINDOW_S = 60.0
#: batches whose median decides whether limits are met: a single late batch is no alarm
_JUDGED = 5
#: a lag is growing if its last third exceeds its first third by this factor and these seconds
_GROWTH, _GROWTH_S = 1.5, 2.0
_REAL_TIME = 1.0

Trend = Literal["growing", "steady", "shrinking"]

#: Spark's names for the phases of a batch -> what they do
_PHASES = {
    "latestOffset": "reading the source",
    "getBatch": "reading the source",
    "queryPlanning": "planning",
    "addBatch": "processing",
    "walCommit": "checkpointing",
    "commitOffsets": "checkpointing",
    "commitBatch": "checkpointing",
}


@dataclass(frozen=True)
class TimedBatch:
    """A committed batch; what is not known is None or empty."""

    committed_at: float  # seconds of the Unix clock
    tuples: int
    commit_s: float | None = None  # from its trigger to its commit
    responses: Mapping[str, float] = field(default_factory=dict)  # the longest response time of each result, in seconds
    phases_ms: Mapping[str, int] = field(default_factory=dict)
    stages_ms: Mapping[str, int] = field(default_factory=dict)

    @property
    def lag(self) -> float | None:
        """The longest response time."""
        return max(self.responses.values(), default=None)


@dataclass(frozen=True)
class Response:
    """The recent response times of one kind of result, and their limit, if it applies."""

    name: str
    typical: float  # the median over recent batches of the longest
    longest: float
    limit: float | None = None


@dataclass(frozen=True)
class Health:
    """The health of a job over its recent batches; None where nothing is known."""

    rate: float | None = None  # tuples per second
    lag: float | None = None  # seconds
    trend: Trend = "steady"  # of the lag
    busy: float | None = None  # share of the time spent on batches
    bottleneck: str = ""  # where most of that time goes
    is_behind: bool = False
    responses: tuple[Response, ...] = ()


def judge(batches: Sequence[TimedBatch], limits: Mapping[str, float], pace: float, now: float | None = None) -> Health:
    """Return the health of a job from its batches, in order; ``now`` is given while it runs.

    >>> late = [TimedBatch(float(second), 100, 0.9, {"toll": 7.5}) for second in range(10)]
    >>> judge(late, {"toll": 5.0}, pace=1.0, now=10.0).is_behind
    True
    >>> judge(late, {"toll": 5.0}, pace=0.0).is_behind
    False
    """
    if not batches:
        return Health()
    end = batches[-1].committed_at if now is None else now
    recent = [one for one in batches if one.committed_at > end - WINDOW_S] if now is not None else list(batches)
    timed = recent or [batches[-1]]
    trend = _trend([one.lag for one in timed if one.lag is not None])
    lag = batches[-1].lag
    responses = tuple(_responses(timed, limits if pace == _REAL_TIME else {}))
    over = [one.name for one in responses if one.limit is not None and one.typical > one.limit]
    has_limit = any(one.limit is not None for one in responses)
    return Health(
        rate=_rate(recent, end),
        lag=lag if pace > 0 else None,
        trend=trend,
        busy=_busy(recent, end),
        bottleneck=_bottleneck(timed),
        is_behind=now is not None and pace > 0 and (bool(over) if has_limit else trend == "growing"),
        responses=responses if pace > 0 else (),
    )


def _span(batches: Sequence[TimedBatch], end: float) -> float:
    """The seconds from the trigger of the first batch to the end."""
    first = batches[0]
    return max(end - first.committed_at + (first.commit_s or 0.0), 0.0)


def _rate(batches: Sequence[TimedBatch], end: float) -> float | None:
    if not batches:
        return 0.0
    span = _span(batches, end)
    return sum(one.tuples for one in batches) / span if span > 0 else None


def _busy(batches: Sequence[TimedBatch], end: float) -> float | None:
    known = [one.commit_s for one in batches if one.commit_s is not None]
    span = _span(batches, end) if batches else 0.0
    return min(sum(known) / span, 1.0) if known and span > 0 else None


def _responses(batches: Sequence[TimedBatch], limits: Mapping[str, float]) -> list[Response]:
    names = dict.fromkeys(name for one in batches for name in one.responses)
    found = {name: [one.responses[name] for one in batches if name in one.responses] for name in names}
    return [
        Response(name, median(times[-_JUDGED:]), max(times), limits.get(name)) for name, times in found.items() if times
    ]


def _trend(lags: Sequence[float]) -> Trend:
    third = len(lags) // 3
    if third < 2:
        return "steady"
    first, last = fmean(lags[:third]), fmean(lags[-third:])
    if last > first * _GROWTH and last > first + _GROWTH_S:
        return "growing"
    return "shrinking" if first > last * _GROWTH and first > last + _GROWTH_S else "steady"


def _bottleneck(batches: Sequence[TimedBatch]) -> str:
    """Return where most of the time of the batches goes: a stage, or a phase if stages are not known."""
    phases: Counter[str] = Counter()
    for one in batches:
        for name, ms in one.phases_ms.items():
            phases[_PHASES.get(name, "processing")] += ms
    longest = _longest(phases)
    if longest != "processing":
        return longest
    stages: Counter[str] = Counter()
    for one in batches:
        stages.update(one.stages_ms)
    return _longest(stages).replace("+", " and ") or longest


def _longest(times: Counter[str]) -> str:
    return max(times, key=lambda name: (times[name], name)) if any(times.values()) else ""


def time_batch(batch: Batch, cost: BatchMetrics | None, responses: Mapping[str, float]) -> TimedBatch:
    """Return a batch of the journal with what it cost (``_runtime.watching.metrics``), if that is known."""
    return TimedBatch(
        committed_at=batch.committed_ms / 1000,
        tuples=batch.tuples,
        commit_s=cost.commit_ms / 1000 if cost else None,
        responses=responses,
        phases_ms=cost.phases_ms if cost else {},
        stages_ms=cost.stages_ms if cost else {},
    )
