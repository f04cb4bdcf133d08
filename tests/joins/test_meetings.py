"""Meetings through the grid are those of brute force, whatever the cells, batches and units."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joins.plainly import as_meetings, brute_force, compare, distances, table, through_the_grid
from moving.oracle import moving, moving_points
from slipstream._errors import BadInput
from slipstream._joins.trip_meetings import Nearness
from slipstream._moving import MovingPoint

MINUTE, HOUR = 60, 3600


def scaled(m: MovingPoint, metres: float, times: int) -> MovingPoint:
    """Places ``metres`` and seconds ``times`` as large: a grid of the oracle's points that has many cells and times."""
    return MovingPoint(m.t * times, m.x * metres, m.y * metres, m.starts)


objects = st.lists(st.lists(moving_points(), min_size=1, max_size=2), min_size=2, max_size=5)
#: 500 m is 3-4-5: exactly at the distance
limits = st.sampled_from([0.0, 50.0, 100.0, 200.0, 500.0, 1000.0])


def same(found, expected):
    assert [row[:4] for row in found] == [row[:4] for row in expected]
    np.testing.assert_allclose([row[4] for row in found], [row[4] for row in expected], atol=1e-4)


@settings(max_examples=150)
@given(objects, limits, st.sampled_from([1, MINUTE, HOUR]), st.sampled_from([0, MINUTE]), st.integers(1, 9))
def test_a_table_with_itself(trips, limit, times, duration, size):
    named = {f"car-{n}": [scaled(m, 100.0, times) for m in some] for n, some in enumerate(trips)}
    near = Nearness(limit, duration * times * 1_000_000)
    found = as_meetings(through_the_grid(near, table(named), size=size))
    same(found, brute_force(near, [(a, named[a], b, named[b]) for a, b in combinations(sorted(named), 2)]))


@settings(max_examples=75)
@given(objects, objects, limits, st.sampled_from([1, HOUR]))
def test_two_tables(first, second, limit, times):
    one = {n: [scaled(m, 100.0, times) for m in some] for n, some in enumerate(first)}
    two = {n: [scaled(m, 100.0, times) for m in some] for n, some in enumerate(second)}
    near = Nearness(limit)
    found = as_meetings(through_the_grid(near, table(one), table(two)))
    same(found, brute_force(near, [(a, one[a], b, two[b]) for a in one for b in two]))


@settings(max_examples=75)
@given(moving_points(), moving_points(), limits)
def test_meetings_hold_what_exact_arithmetic_says(a, b, limit):
    a, b = scaled(a, 100.0, 1), scaled(b, 100.0, 1)
    met = as_meetings(through_the_grid(Nearness(limit), table({"a": [a], "b": [b]})))
    for t, squared in distances(a, b):
        covered = any(begin - 1 <= t <= end + 1 for _, _, begin, end, _ in met)
        inner = any(begin + 1 < t < end - 1 for _, _, begin, end, _ in met)
        assert covered or squared > limit * limit - 1e-6
        assert not inner or squared <= limit * limit + 1e-6


def two_vans(gap: float, offset: float):
    """Two that drive side by side ``gap`` metres apart, from ``offset``, each a vertex per 100 m."""
    return {
        name: [moving([[(10 * k, offset + 100.0 * k, y) for k in range(20)]])]
        for name, y in (("a", offset), ("b", offset + gap))
    }


@pytest.mark.parametrize("offset", [0.0, 200.0, -200.0, 199.999999, 1e6])
@pytest.mark.parametrize("gap", [50.0, 25.0, 0.0])
def test_exactly_at_the_distance_and_at_the_border_of_a_cell(offset, gap):
    (met,) = as_meetings(through_the_grid(Nearness(gap), table(two_vans(gap, offset))))
    assert met == ("a", "b", 0, 190_000_000, pytest.approx(gap))
    assert not as_meetings(through_the_grid(Nearness(gap - 0.001), table(two_vans(gap, offset))))


@pytest.mark.parametrize("offset", [0.0, -130.0, 199.0])
def test_two_pieces_are_compared_in_one_cell(offset):
    """Side by side at the corners of cells they share many; joining times would hide that one counted twice."""
    rows = pa.Table.from_batches(compare(Nearness(150.0), table(two_vans(100.0, offset)))).to_pylist()
    times = [(row["begin"], row["end"]) for row in rows if row["begin"] < row["end"]]
    assert len(times) == len(set(times)) > 5


def test_a_ship_that_reports_once_per_day_is_met_at_sea():
    ship = moving([[(0, 0.0, 0.0), (86_400, 400_000.0, 300_000.0)]])
    buoy = moving([[(0, 200_000.0, 150_000.0), (86_400, 200_000.0, 150_000.0)]])
    (met,) = as_meetings(through_the_grid(Nearness(1000.0), table({"ship": [ship], "buoy": [buoy]})))
    assert met[:2] == ("buoy", "ship")
    assert [t / 1e6 for t in met[2:4]] == pytest.approx([43_200 - 172.8, 43_200 + 172.8])
    assert met[4] == pytest.approx(0.0, abs=1e-3)


def test_trips_that_jump_are_refused():
    fast = MovingPoint(np.array([0, 1]), np.array([0.0, 1e7]), np.array([0.0, 0.0]), np.array([0]))
    with pytest.raises(BadInput, match="10,000,000 m within 1 microseconds"):
        through_the_grid(Nearness(10.0), table({"a": [fast], "b": [fast]}))
