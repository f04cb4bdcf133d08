"""The traffic kernel against a plain twin and against what must hold on any road."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.city import kernel
from slipstream.city.traffic import EAST, MINUTE, Traffic, plan_accidents, plan_trips
from slipstream.feeds.tuples import MILE, ROAD

speeds = st.floats(0, 110)


@given(v=speeds, desired=st.floats(60, 110), gap=st.floats(0.2, 2000), leader=speeds)
def test_car_following_is_the_published_formula(v: float, desired: float, gap: float, leader: float) -> None:
    a, b, s0, headway = kernel.ACCELERATION, kernel.COMFORT, kernel.JAM_GAP, kernel.HEADWAY
    wish = s0 + max(0.0, v * headway + v * (v - leader) / (2 * (a * b) ** 0.5))
    formula = a * (1 - (v / desired) ** 4 - (wish / gap) ** 2)
    assert kernel.follow(v, desired, gap, leader) == pytest.approx(max(formula, -kernel.HARDEST), rel=1e-9, abs=1e-9)


def test_a_free_car_settles_at_its_desired_speed() -> None:
    v = 0.0
    for _ in range(120):
        v = max(0.0, v + kernel.follow(v, 80.0, kernel.FREE, 0.0))
    assert v == pytest.approx(80.0, abs=0.5)


@pytest.fixture(scope="module")
def busy() -> tuple[kernel.Road, np.ndarray]:
    """Twenty minutes of heavy traffic with accidents, east, watched once a second."""
    traffic = Traffic(minutes=20, demand=5.0, accident_every=4)
    trips, plan = plan_trips(traffic, 5, 0, EAST), plan_accidents(traffic, 5, 0, EAST)
    room = trips.start.size + 1
    road, wrecks = kernel.new_road(trips.start.size, room), kernel.new_wrecks(plan.when.size)
    incoming = np.zeros(room, dtype=np.int32)
    seen = []
    for t in range(traffic.minutes * MINUTE):
        out = kernel.new_reports(room)
        n = kernel.simulate(road, trips, plan, wrecks, out, incoming, t, t + 1, True)
        seen.append(np.stack([np.asarray(column[:n], dtype=np.int64) for column in out]))
        if t % 60 == 59:
            check_order(road)
    return road, np.concatenate(seen, axis=1)


def check_order(road: kernel.Road) -> None:
    """Cars of a lane stand from the front to the back, and never within each other unless they crashed."""
    for lane in range(3):
        cars = road.lanes[lane, : road.counts[lane]]
        gaps = -np.diff(road.u[cars])
        whole = (road.trouble[cars][1:] == kernel.DRIVING) & (road.trouble[cars][:-1] == kernel.DRIVING)
        assert (gaps >= 0).all()
        # the two of a cleared accident part again within seconds
        assert np.count_nonzero(gaps[whole] < kernel.LENGTH) <= 2


def test_no_car_is_lost_or_doubled(busy: tuple[kernel.Road, np.ndarray]) -> None:
    road, _ = busy
    lanes = [road.lanes[lane, : road.counts[lane]] for lane in range(3)]
    ramps = [road.ramps[s, : road.ramp_counts[s]] for s in range(100)]
    held = np.concatenate([*lanes, *ramps, road.leaving[: road.counts[3]], road.free[: road.counts[4]]])
    assert sorted(held) == list(range(road.u.size))


def test_every_report_is_thirty_seconds_after_the_last(busy: tuple[kernel.Road, np.ndarray]) -> None:
    road, (time, trip, _, lane, _) = busy
    order = np.lexsort((time, trip))
    same = np.diff(trip[order]) == 0
    assert (np.diff(time[order])[same] == 30).all()
    first, last = np.r_[True, ~same], np.r_[~same, True]
    assert (lane[order][first] == 0).all()
    finished = road.ended[trip[order][last]] >= 0
    assert ((lane[order][last] == 4) == finished).all()
    assert (time[order][first] == road.began[trip[order][first]]).all()


def test_positions_and_speeds_stay_on_the_road(busy: tuple[kernel.Road, np.ndarray]) -> None:
    _, (time, trip, speed, _, pos) = busy
    assert speed.max() <= 100
    assert 0 <= pos.min() <= pos.max() < ROAD
    order = np.lexsort((time, trip))
    same = np.diff(trip[order]) == 0
    crossed = np.diff(pos[order] // MILE)[same]
    assert set(np.unique(crossed)) <= {0, 1}, "cars drive east and report from every segment they cross"
