"""Assign vehicles to trips.

Trips are simulated first and in parallel, as the behaviour of a car does not depend on its identity. Afterwards some
trips are assigned to vehicles that have finished an earlier one, on any expressway: so a vehicle is never in two
places, and expressways can be simulated independently.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstream._tools.numba_tools import Bools, Ints, Longs, compiled, uniform

#: a vehicle stays away for more than a minute, so that its next report is not part of the same trip
AWAY_AT_LEAST = 61
#: and usually for some minutes
AWAY_MEAN = 900.0


@dataclass(frozen=True)
class TripTable:
    """All started trips of a run, ordered by (start, expressway, direction, number)."""

    xway: Ints
    dir: Ints
    number: Ints
    start: Ints
    end: Ints  # -1: still on the road when the run ends


def assign_vehicles(trips: TripTable, seed: int, returning: float) -> tuple[Ints, int]:
    """Return the vehicle of each trip, and the number of vehicles.

    A share ``returning`` of the trips are a vehicle's second or later one, once there are vehicles that have left.
    """
    with np.errstate(over="ignore"):
        keys = (trips.xway.astype(np.uint64) << np.uint64(40)) | (trips.dir.astype(np.uint64) << np.uint64(39))
        keys = (keys | trips.number.astype(np.uint64)) ^ (np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15))
        comes_back = uniform(keys + np.uint64(1)) < returning
        rest = AWAY_AT_LEAST - AWAY_MEAN * np.log1p(-uniform(keys + np.uint64(2)))
    never = np.iinfo(np.int64).max
    ready = np.where(trips.end >= 0, trips.end + rest.astype(np.int64), never)
    order = np.argsort(ready, kind="stable")
    vids, count = _assign(trips.start, comes_back, ready, order)
    return vids, int(count)


@compiled
def _assign(start: Ints, comes_back: Bools, ready: Longs, order: Longs) -> tuple[Ints, int]:
    n = start.size
    vids = np.empty(n, dtype=np.int32)
    waiting = np.empty(n, dtype=np.int32)
    first = last = nearest = count = 0
    for trip in range(n):
        while nearest < n and ready[order[nearest]] <= start[trip]:
            waiting[last] = vids[order[nearest]]
            last += 1
            nearest += 1
        if comes_back[trip] and first < last:
            vids[trip] = waiting[first]
            first += 1
        else:
            vids[trip] = count
            count += 1
    return vids, count
