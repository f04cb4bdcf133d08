"""General rules of some roads, each beside the conditions that the oracle knows them by.

Workers find them by name: ``linear_road.road_rules:GPS``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import slipstream as ss
from oracles.road_tolls import Conditions
from slipstream._linear_road.general import BENCHMARK
from slipstream._linear_road.rules import Rules
from slipstream._tools.numba_tools import Longs


def square(base: int, free_cars: int) -> Any:
    """The benchmark's toll as a general function."""

    def toll(at: ss.SegmentMinute) -> Longs:
        crowded = (at.speed < 40) & (at.cars > free_cars) & ~at.accident
        return np.where(crowded, base * (at.cars - free_cars) ** 2, 0)

    return toll


def plain_square(base: int, free_cars: int) -> Any:
    """The same for one segment."""

    def toll(*at: Any) -> Any:
        *_, speed, cars, accident = at
        return base * (cars - free_cars) ** 2 if speed < 40 and cars > free_cars and not accident else 0

    return toll


def by_everything(at: ss.SegmentMinute) -> Longs:
    """A toll that depends on all that it may depend on."""
    place = at.road + 3 * at.direction + 5 * at.segment
    time = at.minute_of_day % 7 + at.weekday
    traffic = np.where(at.speed >= 0, at.speed, 11) + 13 * at.cars
    return np.where(at.accident, at.vehicle_class, 10 * (at.vehicle_class + 1) + place + time + traffic)


def plainly_by_everything(
    road: int, direction: int, segment: int, kind: int, minute: int, weekday: int, speed: int, cars: int, accident: bool
) -> int:
    """The same for one segment."""
    if accident:
        return kind
    traffic = (speed if speed >= 0 else 11) + 13 * cars
    return 10 * (kind + 1) + road + 3 * direction + 5 * segment + minute % 7 + weekday + traffic


BENCHMARK_2004 = Rules("2004 as general rules", square(2, 50), road=BENCHMARK)
BENCHMARK_2003 = Rules(
    "2003 as general rules", square(2, 150), 20, base_credit=50, frequent_traveller=1000, expenditure_is_today=True,
    road=BENCHMARK,
)  # fmt: skip
#: general rules by the edition whose answers they give
EDITIONS = {
    "2004": "linear_road.road_rules:BENCHMARK_2004",
    "2003": "linear_road.road_rules:BENCHMARK_2003",
}

GPS = ss.Rules.general(
    "gps", by_everything, report_every=10, classes=("car", "lorry", "coach"), accident_minutes=3, frequent_traveller=200
)
LANES = ss.Rules.general(
    "lanes", by_everything, report_every=15, jitter=4, units="imperial", segment_length=1000, same_lane=True,
    stands_for=40, accident_cars=3, trip_gap=45, base_credit=7,
)  # fmt: skip
MINUTES = ss.Rules.general(
    "minutes", by_everything, report_every=60, segment_length=2000, stands_for=180, scatter=15, accident_within=25
)


def conditions(rules: Rules, toll: Any = plainly_by_everything) -> Conditions:
    """What the oracle needs to know of rules."""
    road = rules.road
    assert road is not None
    return Conditions(
        toll,
        road.segment_length,
        road.top_speed,
        len(road.classes),
        road.trip_gap,
        road.report_every,
        road.jitter,
        road.stands_for,
        road.scatter,
        road.accident_within,
        road.accident_cars,
        road.same_lane,
        rules.accident_minutes,
        rules.base_credit,
        rules.frequent_traveller if rules.frequent_traveller >= 0 else None,
        rules.expenditure_is_today,
    )
