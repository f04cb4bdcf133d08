"""PyMEOS, the library behind MobilityDB, as a second opinion on random movements."""

from __future__ import annotations

import math
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moving.oracle import moving_points, over_time, sequences_of
from moving.test_operators import RINGS, call, periods, point, region, value_of
from moving.test_over_time import call as call_over_time
from slipstream._moving import MovingPoint, types
from slipstream._moving.moving_point import instant

pymeos = pytest.importorskip("pymeos", reason="PyMEOS is not installed; `make setup` installs it")


@pytest.fixture(scope="module", autouse=True)
def _meos():
    pymeos.pymeos_initialize(timezone="UTC")


def meos(m: MovingPoint):
    """The same moving point in PyMEOS, or nothing if it is empty or has a jump (which MEOS refuses)."""
    parts = []
    for s in m.sequences:
        instants = [f"POINT({x} {y})@{instant(t)}" for t, x, y in zip(m.t[s].tolist(), m.x[s], m.y[s], strict=True)]
        parts.append("[" + ", ".join(instants) + "]")
    touching = any(m.t[s.start] == m.t[s.start - 1] for s in m.sequences[1:])
    return None if not parts or touching else pymeos.TGeomPointSeqSet("{" + ", ".join(parts) + "}")


@settings(max_examples=60)
@given(moving_points())
def test_length_and_restriction_to_a_period(m):
    if (other := meos(m)) is None:
        return
    assert call("travelled", m)[0].as_py() == pytest.approx(other.length(), abs=1e-6)
    span = pymeos.TsTzSpan(f"[{instant(2_500_000)}, {instant(9_000_000)}]")
    ours, theirs = value_of(call("atperiods", m, periods((2_500_000, 9_000_000)))), other.at(span)
    assert (theirs is None) == (len(ours.t) == 0)
    if theirs is not None:
        assert ours.length == pytest.approx(theirs.length(), abs=1e-4)


@settings(max_examples=60)
@given(moving_points(), moving_points())
def test_how_near_two_points_come(a, b):
    first, second = meos(a), meos(b)
    if first is None or second is None:
        return
    theirs, ours = first.distance(second), call("distance", a, b)[0].as_py()
    assert (theirs is None) == (not ours["begin"])
    if theirs is None:
        return
    least = theirs.min_value()
    for limit, expected in ((least + 1e-3, True), (least - 1e-3, False)):
        if limit >= 0:
            assert call("sometimes", call("at_most", call("distance", a, b), limit))[0].as_py() == expected


@settings(max_examples=60)
@given(moving_points())
def test_time_in_a_region_and_at_a_point(m):
    if (other := meos(m)) is None:
        return
    import shapely

    for ring in RINGS:
        theirs = other.at(shapely.Polygon(ring))
        ours = value_of(call("at", m, region(ring)))
        ours_time = sum(int(ours.t[s.stop - 1] - ours.t[s][0]) for s in ours.sequences) / 1e6
        parts = theirs.sequences() if hasattr(theirs, "sequences") else []
        duration = sum((part.duration() for part in parts), timedelta())
        assert ours_time == pytest.approx(duration.total_seconds(), abs=1e-4)
    theirs = other.at(shapely.Point(1, 1))
    if theirs is not None:  # MEOS compares exactly; we allow for rounding, so we may find more
        assert call("passes", m, point(1.0, 1.0))[0].as_py()
    assert math.isfinite(m.length)


def temporal(row, kind):
    """The same value over time in PyMEOS, or nothing if it is empty or has a jump."""
    parts = [sequence for sequence in sequences_of(row) if sequence]
    if not parts or any(after[0][0] == before[-1][0] for before, after in pairwise(parts)):
        return None
    text = ", ".join("[" + ", ".join(f"{v}@{instant(t)}" for t, v in part) + "]" for part in parts)
    step = "Interp=Step;" if row["interpolation"] == "step" and kind is pymeos.TFloatSeqSet else ""
    return kind(f"{step}{{{text}}}")


@settings(max_examples=40)
@given(moving_points(), moving_points())
def test_movement_and_similarity(a, b):
    one, other = meos(a), meos(b)
    if one is None:
        return
    speed = one.speed()
    if speed is not None:
        ours = call("speed", a)
        assert call_over_time("max_value", ours[0].as_py()) == pytest.approx(speed.max_value(), abs=1e-9)
        assert call_over_time("twavg", ours[0].as_py()) == pytest.approx(speed.time_weighted_average(), abs=1e-9)
    centroid, ours = one.time_weighted_centroid(), call("twcentroid", a)[0].as_py()
    if call("duration", a)[0].as_py():  # of single instants, MEOS takes the mean as well
        assert (ours["x"], ours["y"]) == pytest.approx((centroid.x, centroid.y), abs=1e-6)
    total = call_over_time("max_value", call("cumulative_length", a)[0].as_py())
    assert total == pytest.approx(one.cumulative_length().max_value(), abs=1e-9)
    if other is None:
        return
    assert call("frechet", a, b)[0].as_py() == pytest.approx(one.frechet_distance(other), abs=1e-9)
    assert call("dtw", a, b)[0].as_py() == pytest.approx(one.dyntimewarp_distance(other), abs=1e-9)
    assert call("hausdorff", a, b)[0].as_py() == pytest.approx(one.hausdorff_distance(other), abs=1e-9)
    metres = call("nearest_approach_distance", a, b)[0].as_py()
    if metres is not None:
        assert metres == pytest.approx(one.nearest_approach_distance(other), abs=1e-4)
        assert call("dwithin", a, b, metres + 1e-6)[0].as_py()


@settings(max_examples=40)
@given(over_time(st.integers(-5, 5).map(float), ("linear", "step")), st.integers(-5, 5).map(float))
def test_numbers_over_time(row, limit):
    other = temporal(row, pymeos.TFloatSeqSet)
    if other is None:
        return
    assert call_over_time("min_value", row) == other.min_value()
    assert call_over_time("max_value", row) == other.max_value()
    assert call_over_time("integral", row) == pytest.approx(other.integral() / 1e6, abs=1e-9)  # MEOS: microseconds
    if call_over_time("duration", row):
        assert call_over_time("twavg", row) == pytest.approx(other.time_weighted_average(), abs=1e-9)
    compare = {
        "tlt": (other.temporal_less, other.ever_less),
        "tge": (other.temporal_greater_or_equal, other.ever_greater_or_equal),
    }
    for name, (temporally, ever) in compare.items():
        truth = call_over_time(name, row, limit)
        time = temporally(limit).when_true()
        lasting = call_over_time("duration", call_over_time("when_true", truth, kind=types.TBOOL), kind=types.PERIODS)
        assert lasting == pytest.approx(time.duration().total_seconds() if time else 0.0, abs=1e-4)
        assert call_over_time("sometimes", truth, kind=types.TBOOL) == ever(limit)


@settings(max_examples=40)
@given(moving_points(most=8), st.sampled_from([0.7, 2.3, 6.1]))
def test_simplified_and_split_movements(m, metres):
    if (other := meos(m)) is None:
        return
    short = value_of(call("simplify", m, metres))
    assert len(short.t) == other.simplify_douglas_peucker(metres, False).num_instants()
    parts = call("split_by_time", m, 3.0)[0].as_py()
    # what ends exactly where a span begins is one instant of that span here; MEOS has it in the span before
    assert abs(len(parts) - len(other.time_split(timedelta(seconds=3), instant(0)))) <= len(m.starts)
