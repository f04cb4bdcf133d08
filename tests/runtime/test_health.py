"""The health of a job follows from its batches alone."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream._runtime.watching.health import TimedBatch, judge

LIMITS = {"toll": 5.0}


def batches(lags: list[float], *, tuples: int = 100, commit_s: float = 0.5) -> list[TimedBatch]:
    """One batch per second."""
    return [TimedBatch(1000.0 + n, tuples, commit_s, {"toll": lag}) for n, lag in enumerate(lags)]


def test_a_job_within_its_limits_keeps_up() -> None:
    found = judge(batches([1.0] * 20), LIMITS, pace=1.0, now=1019.0)
    assert (found.is_behind, found.lag, found.trend) == (False, 1.0, "steady")
    assert found.rate == pytest.approx(100 * 20 / 19.5)
    assert found.busy == pytest.approx(20 * 0.5 / 19.5)
    assert [(one.name, one.typical, one.limit) for one in found.responses] == [("toll", 1.0, 5.0)]


def test_one_late_batch_is_no_alarm_but_many_are() -> None:
    assert not judge(batches([1.0] * 19 + [30.0]), LIMITS, pace=1.0, now=1019.0).is_behind
    assert judge(batches([1.0] * 10 + [30.0] * 10), LIMITS, pace=1.0, now=1019.0).is_behind


def test_without_limits_a_growing_lag_is_behind_and_a_constant_one_is_not() -> None:
    """The results of windows are always as old as the window."""
    assert not judge(batches([60.0] * 30), {}, pace=1.0, now=1029.0).is_behind
    assert judge(batches([1.0 + n for n in range(30)]), {}, pace=1.0, now=1029.0).is_behind
    assert judge(batches([60.0 - n for n in range(30)]), {}, pace=1.0, now=1029.0).trend == "shrinking"


@pytest.mark.parametrize(("pace", "now"), [(0.0, 1019.0), (1.0, None), (0.0, None)])
def test_recorded_input_at_full_speed_and_finished_jobs_are_never_late(pace: float, now: float | None) -> None:
    found = judge(batches([99.0] * 20), LIMITS, pace=pace, now=now)
    assert not found.is_behind
    assert (found.lag is None) == (pace == 0)


def test_limits_apply_in_real_time_only() -> None:
    found = judge(batches([9.0] * 20), LIMITS, pace=10.0, now=1019.0)
    assert not found.is_behind
    assert [one.limit for one in found.responses] == [None]


def test_the_bottleneck_is_a_phase_or_a_stage() -> None:
    phases = {"addBatch": 80, "latestOffset": 10, "queryPlanning": 5}
    one = TimedBatch(1.0, 1, 0.1, {}, phases, {"tolls": 20, "accounts+write": 50})
    assert judge([one], {}, 1.0).bottleneck == "accounts and write"
    assert judge([TimedBatch(1.0, 1, 0.1, {}, phases)], {}, 1.0).bottleneck == "processing"
    slow = TimedBatch(1.0, 1, 0.1, {}, {**phases, "getBatch": 200})
    assert judge([slow], {}, 1.0).bottleneck == "reading the source"


def test_a_job_without_batches_has_no_figures() -> None:
    found = judge([], LIMITS, pace=1.0, now=5.0)
    assert (found.rate, found.lag, found.busy, found.bottleneck, found.responses) == (None, None, None, "", ())


def test_a_job_that_gets_nothing_any_more_has_no_rate() -> None:
    assert judge(batches([1.0] * 3), LIMITS, pace=1.0, now=5000.0).rate == 0


@given(
    st.lists(st.tuples(st.floats(0.01, 100), st.integers(0, 10**6), st.floats(0, 10), st.floats(0, 1000)), min_size=1),
    st.floats(0, 100),
)
def test_figures_are_in_their_ranges(made: list[tuple[float, int, float, float]], later: float) -> None:
    ends, end = [], 0.0
    for step, *_ in made:
        ends.append(end := end + step)
    found = [TimedBatch(at, n, took, {"toll": lag}) for at, (_, n, took, lag) in zip(ends, made, strict=True)]
    assert all(one.committed_at <= two.committed_at for one, two in pairwise(found))
    health = judge(found, LIMITS, 1.0, ends[-1] + later)
    assert health.rate is None or health.rate >= 0
    assert health.busy is None or 0 <= health.busy <= 1
    assert all(one.typical <= one.longest for one in health.responses)
    assert health.lag == made[-1][3]
