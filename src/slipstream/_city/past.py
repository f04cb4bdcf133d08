"""The model behind a run's history: traffic and tolls in the ten weeks before it.

Every value is a hash of what it is for (seed, expressway, day, minute, ...), so the result depends neither on the
number of cores nor on the order of the work.

A segment. Cars per minute follow the hour (two rush hours on working days, eastbound in the morning and westbound in
the evening; one broad rise at noon on days 6 and 7 of the week) and the place (the middle of the road is busier, as
exits are normally distributed around mile 50); speed decreases with the cars as v = v0 exp(-cars / k) (Underwood 1961),
fitted to the published run: 400 cars drive at 10 mph. Tolls follow from the row's own speed and cars.

A vehicle. Six of ten commute on working days, the others travel occasionally. A day's tolls are those of the tolled
segments of a habitual trip, 2 * (cars - 50)^2 each, on the expressway of its first report or, one time in five, on
another expressway of the run.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from slipstream._feeds.history import MINUTES, day_of_week
from slipstream._feeds.tuples import SEGMENTS
from slipstream._tools.numba_tools import Floats, Ints, compiled, mix

FREE_SPEED = 65.0
CROWD = 214.0
BUSIEST = 260.0
WEEKEND = 6


def demand(day: int) -> Floats:
    """Return the share of the busiest traffic by [minute, direction], ``day`` days before the run."""
    minute = np.arange(MINUTES)[:, None]

    def rush(hour: float, width: float, *strength: float) -> Floats:
        peak: Floats = np.exp(-0.5 * ((minute / 60 - hour) / width) ** 2) * np.array(strength)
        return peak

    if day_of_week(day) >= WEEKEND:
        return 0.06 + rush(13.5, 3.5, 0.45, 0.45)
    return 0.06 + rush(7.75, 1.1, 0.85, 0.5) + rush(17.25, 1.4, 0.5, 0.85) + rush(12.5, 3.0, 0.25, 0.25)


def profile() -> Floats:
    """Return the share of the busiest traffic by segment."""
    away = (np.arange(SEGMENTS) - 50) / 22
    return 0.35 + 0.65 * np.exp(-0.5 * away**2)


def expected_cars(seed: int, xway: int, day: int) -> Floats:
    """Return the expected cars by [minute, direction, segment] of a day; days vary by a tenth either way."""
    mood = 0.9 + 0.2 * (int(stream(seed, 1, xway, day)) >> 11) * 2.0**-53
    return BUSIEST * mood * demand(day)[:, :, None] * profile()


def speed_with_cars() -> Floats:
    """Return the speed in mph by number of cars in the segment (Underwood 1961)."""
    return FREE_SPEED * np.exp(-np.arange(2 * int(BUSIEST)) / CROWD)


def stream(*purpose: int) -> np.uint64:
    """Return the start of the random numbers for a purpose: a hash of the numbers that identify it."""
    state = np.uint64(0)
    for part in purpose:
        state = np.uint64(mix(np.uint64(state ^ np.uint64(part & (2**64 - 1)))))
    return state


@compiled
def compute_toll(lav: int, cars: int) -> int:
    """Return Linear Road's toll for a segment."""
    return 2 * (cars - 50) * (cars - 50) if lav < 40 and cars > 50 else 0


@compiled
def fill_segment_day(start: np.uint64, expected: Floats, speeds: Floats, lav: Ints, cnt: Ints, toll: Ints) -> None:
    """Fill one day of an expressway: cars within 15 % of ``expected``, speeds within 8 % of those for that many."""
    for cell in range(expected.size):
        noise = mix(start + np.uint64(cell))
        high = np.float64(noise >> np.uint64(32)) * 2.0**-32
        low = np.float64(noise & np.uint64(0xFFFFFFFF)) * 2.0**-32
        cars = max(1, int(expected[cell] * (0.85 + 0.3 * high)))
        cnt[cell] = cars
        lav[cell] = int(speeds[cars] * (0.92 + 0.16 * low))
        toll[cell] = compute_toll(lav[cell], cars)


@compiled
def fill_vehicle_days(
    start: np.uint64,
    vids: Ints,
    homes: Ints,
    xways: Ints,
    working: npt.NDArray[np.bool_],
    tolls: npt.NDArray[np.uint16],
    where: npt.NDArray[np.int16],
) -> None:
    """Fill one row per vehicle, one column per day: tolls paid and the expressway; at most 6 * 2 * 70^2 = 58,800."""
    for row in range(vids.size):
        self = mix(start + np.uint64(vids[row]))
        commuter = self % np.uint64(10) < np.uint64(6)
        segments = 1 + int((self >> np.uint64(8)) % np.uint64(6))
        for day in range(working.size):
            noise = mix(self + np.uint64(day))
            if commuter:
                travels = noise % np.uint64(100) < np.uint64(90 if working[day] else 30)
            else:
                travels = noise % np.uint64(100) < np.uint64(35 if working[day] else 45)
            crowd = 50 + 1 + int((noise >> np.uint64(8)) % np.uint64(70 if working[day] else 35))
            tolls[row, day] = segments * compute_toll(0, crowd) if travels else 0
            elsewhere = (noise >> np.uint64(24)) % np.uint64(5) == np.uint64(0)
            other = xways[(noise >> np.uint64(32)) % np.uint64(xways.size)]
            where[row, day] = other if elsewhere else homes[row]
