"""The window functions of linear_road.yaml: what SQL's aggregates do not say in one word.

slipstream network check examples/networks/linear_road.yaml --functions examples/networks/linear_road.py

Each takes all windows of a batch at once. The tuples of a window are in the order of its minutes, and windows that
overlap share the minutes they have in common: what is computed of a minute is computed once for all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from slipstream.network import VectorFunction, Windows, register

Array = np.ndarray[Any, Any]


def by_vehicle(windows: Windows, minute: Array, vid: Array, known: Array) -> tuple[Array, Array, Array, Array]:
    """Where the windows' minutes begin; the tuples by minute and vehicle, where each vehicle begins, and its minute."""
    minutes = windows.runs(minute)
    run = np.repeat(np.arange(minutes.size), np.diff(minutes, append=minute.size))
    order = np.flatnonzero(known)
    order = order[np.lexsort((vid[order], run[order]))]
    new = np.diff(run[order], prepend=-1) != 0
    new[1:] |= np.diff(vid[order]) != 0
    cars = np.flatnonzero(new)
    return minutes, order, cars, run[order[cars]]


def lav(windows: Windows) -> Array:
    """Mean of the minutes' means of the vehicles' means over the first five minutes of the window; -1 for none."""
    minute, vid, spd = windows.columns
    minutes, order, cars, run = by_vehicle(windows, minute, vid, windows.known(vid, spd))
    if not cars.size:
        return np.full(len(windows), -1)
    speeds = np.add.reduceat(spd[order], cars) / np.diff(cars, append=order.size)
    counts = np.bincount(run, minlength=minutes.size)
    means = np.bincount(run, speeds, minlength=minutes.size) / np.maximum(counts, 1)
    window, place = windows.over(minutes).pairs()
    early = (counts[place] > 0) & (minute[minutes[place]] < windows.at[window] + 5)
    window, place = window[early], place[early]
    total = np.bincount(window, means[place], minlength=len(windows))
    count = np.bincount(window, minlength=len(windows))
    # a mean that is whole must not fall below itself
    return np.where(count > 0, np.floor(total / np.maximum(count, 1) + 1e-9), -1).astype(np.int64)


def fifth_minute(windows: Windows, minute: Array, minutes: Array, values: Array, otherwise: int) -> Array:
    """Of values of minutes, the one of each window's fifth."""
    window, place = windows.over(minutes).pairs()
    fifth = minute[minutes[place]] == windows.at[window] + 4
    found = np.full(len(windows), otherwise)
    found[window[fifth]] = values[place[fifth]]
    return found


def cars(windows: Windows) -> Array:
    """The number of vehicles in the fifth minute."""
    minute, vid = windows.columns
    minutes, _, _, run = by_vehicle(windows, minute, vid, windows.known(vid))
    return fifth_minute(windows, minute, minutes, np.bincount(run, minlength=minutes.size), 0)


def nearest(windows: Windows) -> Array:
    """The accident of the fifth minute that is nearest to the segment, the first of such; null if there is none."""
    minute, seg, accident = windows.columns
    minutes = windows.runs(minute)
    hit = np.flatnonzero(windows.known(accident))
    run = np.searchsorted(minutes, hit, "right") - 1
    # the nearest of each minute is written last
    order = np.lexsort((-hit, -np.abs(accident[hit] - seg[hit])))
    found = np.full(minutes.size, -1)
    found[run[order]] = accident[hit[order]]
    accidents = fifth_minute(windows, minute, minutes, found, -1)
    return np.ma.masked_equal(accidents, -1)


def standing(windows: Windows) -> Array:
    """Whether reports 30 seconds apart all came from one place."""
    time, *place = windows.columns
    stays = np.diff(time, prepend=time[:1]) == 30
    for column in place:
        stays &= np.diff(column, prepend=column[:1]) == 0
    # the first report of a window follows none of the others
    return windows.reduce(np.add, stays) - stays[windows.first] == windows.lengths - 1


register(VectorFunction("lav", lav, "integer"))
register(VectorFunction("cars", cars, "integer"))
register(VectorFunction("nearest", nearest, "integer"))
register(VectorFunction("standing", standing, "boolean"))
