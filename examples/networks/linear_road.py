"""The functions of linear_road.yaml: aggregates that SQL lacks, and journeys by the means of ten weeks.

slipstream network check examples/networks/linear_road.yaml --functions examples/networks/linear_road.py

A window function takes all windows of a batch at once, a journey all requests of a batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import slipstream as ss

Array = np.ndarray[Any, Any]

MINUTES, WEEK, SEGMENTS = 1440, 7, 100


@ss.udf.window("double")
def mean_speed(windows: ss.udf.Windows) -> Array:
    """The mean over the vehicles of each one's own mean speed; null where nobody reported."""
    vid, spd = windows.columns
    window, place = windows.sorted_by(vid)
    known = windows.known(spd)[place]
    window, place = window[known], place[known]
    cars = np.flatnonzero((np.diff(window, prepend=-1) != 0) | (np.diff(vid[place], prepend=-1) != 0))
    if not cars.size:
        return np.ma.array(np.zeros(len(windows)), mask=True)
    means = np.add.reduceat(spd[place], cars) / np.diff(cars, append=window.size)
    count = np.bincount(window[cars], minlength=len(windows))
    total = np.bincount(window[cars], means, minlength=len(windows))
    return np.ma.masked_where(count == 0, total / np.maximum(count, 1))


@ss.udf.window("bigint")
def nearest(windows: ss.udf.Windows) -> Array:
    """The accident that is nearest to the segment; null if there is none."""
    seg, accident = windows.columns
    if not windows.known(accident).any():
        return np.ma.array(np.zeros(len(windows), np.int64), mask=True)
    window, place = windows.pairs()
    hit = np.flatnonzero(windows.known(accident)[place])
    window, place = window[hit], place[hit]
    # the nearest of each window is written last
    order = np.argsort(-np.abs(accident[place] - seg[place]), kind="stable")
    found = np.full(len(windows), -1)
    found[window[order]] = accident[place[order]]
    return np.ma.masked_equal(found, -1)


class Means:
    """Mean speeds and counts of ten weeks, found by expressway, direction, segment, day of the week and minute."""

    def __init__(self, table: ss.udf.StoredTable) -> None:
        place = [table[name] for name in ("xway", "dir", "seg", "dow", "minute")]
        keys = self._key(*place)
        order = np.argsort(keys, kind="stable")
        self._keys = keys[order]
        self._speed, self._cars = table["speed"][order], table["cars"][order]

    @staticmethod
    def _key(xway: Array, direction: Array, seg: Array, dow: Array, minute: Array) -> Array:
        return np.asarray((((xway * 2 + direction) * SEGMENTS + seg) * WEEK + dow - 1) * MINUTES + minute - 1)

    def find(self, xway: Array, direction: Array, seg: Array, dow: Array, minute: Array) -> tuple[Array, Array]:
        """Speed and number of cars; NaN where there is no history."""
        wanted = self._key(xway, direction, seg, dow, minute)
        place = np.minimum(np.searchsorted(self._keys, wanted), max(self._keys.size - 1, 0))
        if not self._keys.size:
            return np.full(wanted.size, np.nan), np.full(wanted.size, np.nan)
        known = self._keys[place] == wanted
        return np.where(known, self._speed[place], np.nan), np.where(known, self._cars[place], np.nan)


def journeys(
    xway: Array, sinit: Array, send: Array, dow: Array, tod: Array, table: ss.udf.StoredTable
) -> tuple[Array, Array]:
    """Seconds and tolls of journeys through the mean traffic, segment by segment; masked where that is not known."""
    means = table.remember(Means)
    direction, step = np.where(send > sinit, 0, 1), np.sign(send - sinit)
    seconds, toll = np.zeros(xway.size), np.zeros(xway.size)
    for number in range(int(np.abs(send - sinit).max(initial=0))):
        go = np.flatnonzero(np.abs(send - sinit) > number)
        minute = (tod[go] - 1) + (seconds[go] // 60)
        # a journey that is lost stays lost
        minute = np.where(np.isnan(minute), 0, minute).astype(np.int64)
        day = (dow[go] - 1 + minute // MINUTES) % WEEK + 1
        seg = sinit[go] + number * step[go]
        speed, cars = means.find(xway[go], direction[go], seg, day, minute % MINUTES + 1)
        seconds[go] += 3600 / np.maximum(speed, 1)
        toll[go] += np.where((speed < 40) & (cars > 50), 2 * (cars - 50) ** 2, 0)
    lost = np.isnan(seconds)
    whole = (np.floor(np.where(lost, -1, values)).astype(np.int64) for values in (seconds, toll))
    first, second = whole
    return np.where(lost, -1, first), np.where(lost, -1, second)


@ss.udf.scalar("bigint", tables=["means"])
def journey_seconds(xway: Array, sinit: Array, send: Array, dow: Array, tod: Array, means: ss.udf.StoredTable) -> Array:
    """How long journeys take by the means of ten weeks; -1 where these are missing."""
    return journeys(xway, sinit, send, dow, tod, means)[0]


@ss.udf.scalar("bigint", tables=["means"])
def journey_toll(xway: Array, sinit: Array, send: Array, dow: Array, tod: Array, means: ss.udf.StoredTable) -> Array:
    """What journeys cost by the means of ten weeks; -1 where these are missing."""
    return journeys(xway, sinit, send, dow, tod, means)[1]
