"""The traffic kernel compared with a plain implementation, and invariants of any road."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream._city import kernel
from slipstream._city.traffic import EAST, MINUTE, WEST, Traffic, plan_accidents, plan_trips
from slipstream._feeds.tuples import MILE, ROAD

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


def test_a_car_waits_while_the_light_at_its_ramp_is_red() -> None:
    one, where = np.zeros(1, dtype=np.int32), np.full(1, 3, dtype=np.int32)
    trips = kernel.PlannedTrips(one, where, where + 9, np.full(1, 300.0), np.full(1, 40.0), np.full(1, 80.0))
    road = kernel.make_road(1, 2)
    kernel.enqueue(road, trips, 0)
    road.cars[3] = kernel.FULL
    kernel.enter(road, trips, 0)
    assert road.ramp_counts.sum() == 0
    road.cars[3] = kernel.FULL - 1
    kernel.enter(road, trips, 1)
    assert road.ramp_counts[3] == 1
    assert road.began[0] == 1


def test_drivers_slow_down_where_they_see_an_accident_and_where_they_are_told_of_one() -> None:
    wrecks = kernel.make_wrecks(2)
    wrecks.stage[1], wrecks.place[1] = kernel.STOPPED, 10.0 * MILE
    near, far = 10.0 * MILE - 500.0, 7.0 * MILE
    assert kernel.speed_limit(wrecks, near) == kernel.GAPE_SPEED
    assert kernel.speed_limit(wrecks, far) == kernel.FREE
    wrecks.detected[1] = 99
    assert kernel.speed_limit(wrecks, near) == kernel.GAPE_SPEED
    assert kernel.speed_limit(wrecks, far) == kernel.WARNED_SPEED
    assert kernel.speed_limit(wrecks, 4.9 * MILE) == kernel.speed_limit(wrecks, 10.1 * MILE) == kernel.FREE
    wrecks.stage[1] = kernel.CLEARED
    assert kernel.speed_limit(wrecks, near) == kernel.FREE


def drive(traffic: Traffic, seed: int, direction: int) -> tuple[kernel.DirectionState, np.ndarray]:
    """Simulate one direction, looking at the order of the cars every minute; returns the road and all reports."""
    trips, plan = plan_trips(traffic, seed, 0, direction), plan_accidents(traffic, seed, 0, direction)
    room = trips.start.size + 1
    road, wrecks = kernel.make_road(trips.start.size, room), kernel.make_wrecks(plan.when.size)
    incoming = np.zeros(room, dtype=np.int32)
    seen = []
    for minute in range(traffic.minutes):
        out = kernel.make_reports(4 * room + 100)
        since = minute * MINUTE
        n = kernel.simulate(road, trips, plan, wrecks, out, incoming, since, since + MINUTE, direction == EAST)
        seen.append(np.stack([np.asarray(column[:n], dtype=np.int64) for column in out]))
        check_order(road)
    return road, np.concatenate(seen, axis=1)


@settings(max_examples=15)
@given(
    seed=st.integers(0, 2**32),
    demand=st.sampled_from([0.3, 1.0, 6.0, 20.0]),
    minutes=st.integers(1, 12),
    direction=st.sampled_from([EAST, WEST]),
    accident_every=st.sampled_from([0, 2, 20]),
)
def test_any_traffic_keeps_the_rules_of_reporting(
    seed: int, demand: float, minutes: int, direction: int, accident_every: int
) -> None:
    traffic = Traffic(minutes=minutes, demand=demand, accident_every=accident_every)
    road, (time, trip, speed, lane, pos) = drive(traffic, seed, direction)
    order = np.lexsort((time, trip))
    same = np.diff(trip[order]) == 0
    first, last = np.r_[True, ~same], np.r_[~same, True]
    assert (np.diff(time[order])[same] == 30).all()
    assert (lane[order][first] == 0).all()
    assert ((lane[order][last] == 4) == (road.ended[trip[order][last]] >= 0)).all()
    assert (lane[order][~last] != 4).all()
    assert speed.max() <= 100
    assert 0 <= pos.min() <= pos.max() < ROAD
    forward = np.diff(pos[order] // MILE)[same] * (1 if direction == EAST else -1)
    assert set(np.unique(forward)) <= {0, 1}


@pytest.fixture(scope="module")
def busy() -> kernel.DirectionState:
    """Twenty minutes of heavy traffic with accidents."""
    return drive(Traffic(minutes=20, demand=5.0, accident_every=4), 5, EAST)[0]


def check_order(road: kernel.DirectionState) -> None:
    """Cars of a lane stand from the front to the back, and never within each other unless they crashed."""
    for lane in range(3):
        cars = road.lanes[lane, : road.counts[lane]]
        gaps = -np.diff(road.u[cars])
        whole = (road.trouble[cars][1:] == kernel.DRIVING) & (road.trouble[cars][:-1] == kernel.DRIVING)
        assert (gaps >= 0).all()
        # the two of a cleared accident part again within seconds
        assert np.count_nonzero(gaps[whole] < kernel.LENGTH) <= 2


def test_no_car_is_lost_or_doubled(busy: kernel.DirectionState) -> None:
    lanes = [busy.lanes[lane, : busy.counts[lane]] for lane in range(3)]
    ramps = [busy.ramps[s, : busy.ramp_counts[s]] for s in range(100)]
    held = np.concatenate([*lanes, *ramps, busy.leaving[: busy.counts[3]], busy.free[: busy.counts[4]]])
    assert sorted(held) == list(range(busy.u.size))
