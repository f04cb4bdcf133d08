"""The demand: how many trips start when and where, desired speeds, and when accidents happen.

The plan of an expressway depends only on the seed, the expressway and the minute, so that any part of a city can be
simulated anywhere, and a longer run begins like a shorter one.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from slipstream._city.kernel import MPH, AccidentPlan, PlannedTrips
from slipstream._errors import BadArgument
from slipstream._feeds.tuples import ROAD, SEGMENTS

EAST, WEST = 0, 1
MINUTE = 60

#: (second, trips that start per second on an expressway): from the benchmark's own file for its first seven minutes,
#: then chosen so that the tuple rate follows the published one
DEMAND = ((0, 12.6), (90, 11.4), (240, 8.6), (420, 8.5), (900, 12.0), (4500, 15.5), (6500, 32.0), (10800, 58.0))


@dataclass(frozen=True)
class Traffic:
    """The parameters of a simulated run, without its seed; recorded in the manifest.

    >>> Traffic(expressways=1.5).directions()
    [(0, 0), (0, 1), (1, 0)]
    """

    expressways: float = 1.0
    minutes: int = 180
    demand: float = 1.0
    accident_every: int = 20
    returning: float = 0.02
    requests: float = 0.01

    def __post_init__(self) -> None:
        checks = (
            (
                self.expressways >= 0.5 and 2 * self.expressways == int(2 * self.expressways),
                "expressways",
                "0.5, 1, 1.5, 2 ...",
            ),
            (self.expressways <= 10_000, "expressways", "at most 10000"),
            (1 <= self.minutes <= 1440, "minutes", "1 to 1440"),
            (0 < self.demand <= 20, "demand", "above 0, at most 20"),
            (self.accident_every >= 0, "accident-every", "minutes, or 0 for none"),
            (0 <= self.requests <= 1, "requests", "a share between 0 and 1"),
            (0 <= self.returning < 1, "returning", "a share from 0 to below 1"),
        )
        for good, name, wanted in checks:
            if not good:
                found = getattr(self, name.replace("-", "_"))
                raise BadArgument(f"--{name} {found} is out of range.", hint=f"Use {wanted}.", code="out-of-range")

    @property
    def seconds(self) -> int:
        """The length of the run."""
        return self.minutes * MINUTE

    def directions(self) -> list[tuple[int, int]]:
        """Return the (expressway, direction) pairs to simulate; half an expressway is its eastbound direction."""
        return [(half // 2, half % 2) for half in range(int(2 * self.expressways))]

    def parameters(self) -> dict[str, Any]:
        """Return the parameters for the manifest."""
        return asdict(self)


def demand_at(t: int) -> float:
    """Return the trips that start per second on one expressway at second ``t``."""
    seconds, rates = zip(*DEMAND, strict=True)
    return float(np.interp(t, seconds, rates))


def plan_trips(traffic: Traffic, seed: int, xway: int, direction: int) -> PlannedTrips:
    """Plan the trips of one direction of one expressway."""
    minutes = [_draw_trips(traffic, seed, xway, minute) for minute in range(traffic.minutes)]
    columns = [np.concatenate(column) for column in zip(*minutes, strict=True)]
    start, entry, exit_, offset, first_speed, desired = columns
    mine = (exit_ > entry) if direction == EAST else (exit_ < entry)
    if direction == WEST:
        entry, exit_ = SEGMENTS - 1 - entry, SEGMENTS - 1 - exit_
    starts, entries, exits = (array[mine].astype(np.int32) for array in (start, entry, exit_))
    return PlannedTrips(starts, entries, exits, offset[mine], first_speed[mine], desired[mine])


def _draw_trips(traffic: Traffic, seed: int, xway: int, minute: int) -> list[np.ndarray[Any, Any]]:
    """Return start, entry, exit, offset, first speed and desired speed of the trips that start in a minute."""
    random = np.random.Generator(np.random.PCG64([seed, xway, minute, 1]))
    n = random.poisson(MINUTE * traffic.demand * demand_at(minute * MINUTE + MINUTE // 2))
    start = np.sort(random.integers(minute * MINUTE, (minute + 1) * MINUTE, n))
    entry = random.integers(0, SEGMENTS, n)
    exit_ = _draw_exits(random, entry)
    offset = random.uniform(230.0, 520.0, n)
    first_speed = np.clip(random.normal(26.0, 4.0, n), 14.0, 34.0) * MPH
    desired = np.clip(random.normal(57.5, 7.5, n), 42.0, 76.0) * MPH
    return [start, entry, exit_, offset, first_speed, desired]


def _draw_exits(random: np.random.Generator, entry: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Draw exit segments: normal(50, 20 miles), different from the entry."""
    exit_ = np.full(entry.size, -1)
    missing = np.arange(entry.size)
    while missing.size:
        drawn = np.rint(random.normal(50.0, 20.0, missing.size)).astype(np.int64)
        good = (drawn >= 0) & (drawn < SEGMENTS) & (drawn != entry[missing])
        exit_[missing[good]] = drawn[good]
        missing = missing[~good]
    return exit_


def plan_accidents(traffic: Traffic, seed: int, xway: int, direction: int) -> AccidentPlan:
    """Plan the accidents of one direction: one per expressway and period, at a random time and place."""
    every = traffic.accident_every * MINUTE
    rows = []
    for number in range(-(-traffic.seconds // every) if every else 0):
        random = np.random.Generator(np.random.PCG64([seed, xway, number, 2]))
        side = random.integers(0, 2) if (xway, WEST) in traffic.directions() else EAST
        # not before two minutes into the period, so that the first one finds cars on the road
        when = number * every + int(random.uniform(0.1, 0.9) * every)
        where = random.uniform(0.0, ROAD)
        row = (when, where, random.integers(1, 4), random.integers(10 * MINUTE, 20 * MINUTE + 1))
        if side == direction:
            rows.append(row)
    table = np.array(rows, dtype=np.float64).reshape(len(rows), 4)
    whens, lanes, clear_afters = (table[:, column].astype(np.int32) for column in (0, 2, 3))
    return AccidentPlan(whens, table[:, 1].copy(), lanes, clear_afters)
