"""PyMEOS, the library behind MobilityDB, as a second opinion on random movements."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest
from hypothesis import given, settings

from moving.oracle import moving_points
from moving.test_operators import RINGS, call, periods, point, region, value_of
from slipstream._moving import MovingPoint
from slipstream._moving.value import instant

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
