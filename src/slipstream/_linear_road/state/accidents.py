"""Find accidents at the end of a minute: two vehicles stopped at one place at a time at which one of them reports.

The CAR kernel records every report of a stopped car (where it stands) and the next one after it (that it has left).
Sorted by car, these records are intervals during which a car stands at a place.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstream._feeds.tuples import MILE, REPORT_EVERY, SEGMENTS
from slipstream._linear_road.state.cars import CELLS, NOWHERE
from slipstream._tools.numba_tools import Bools, Ints, Longs, compiled


@dataclass(frozen=True)
class Stops:
    """Records of stopped cars: which car, when, and the place, or NOWHERE when it has left."""

    car: Longs
    time: Ints
    place: Longs

    @classmethod
    def none(cls) -> Stops:
        """Return no records."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int64))

    def plus(self, more: Stops) -> Stops:
        """Return these records followed by ``more``."""
        return Stops(
            np.concatenate([self.car, more.car]),
            np.concatenate([self.time, more.time]),
            np.concatenate([self.place, more.place]),
        )

    def since(self, time: int) -> Stops:
        """Return the records from ``time`` on."""
        late = self.time >= time
        return Stops(self.car[late], self.time[late], self.place[late])


def cells_with_accident(stops: Stops, since: int, until: int) -> Longs:
    """Return the segments (as cells of the fragment) with an accident at a report time in [since, until)."""
    if not stops.car.size:
        return np.empty(0, np.int64)
    order = np.lexsort((stops.time, stops.car))
    car, time, place = stops.car[order], stops.time[order], stops.place[order]
    followed = np.r_[car[1:] == car[:-1], False]
    following = np.r_[time[1:], 0]
    stands_until = np.where(followed, np.minimum(following - 1, time + REPORT_EVERY), time + REPORT_EVERY)
    standing = np.flatnonzero(place != NOWHERE)
    standing = standing[np.argsort(place[standing], kind="stable")]
    car, time, place, stands_until = car[standing], time[standing], place[standing], stands_until[standing]
    places = place[_meet(car, time, place, stands_until.astype(np.int32)) & (time >= since) & (time < until)]
    local, direction, pos = places >> 24, (places >> 23) & 1, places & ((1 << 20) - 1)
    return np.unique(local * CELLS + direction * SEGMENTS + pos // MILE)


@compiled
def _meet(car: Longs, time: Ints, place: Longs, until: Ints) -> Bools:
    """Mark the records, sorted by place, that fall into the standing time of another car at that place."""
    found = np.zeros(car.size, dtype=np.bool_)
    first = 0
    for i in range(car.size):
        if place[i] != place[first]:
            first = i
        j = first
        while j < car.size and place[j] == place[i]:
            if car[j] != car[i] and time[j] <= time[i] <= until[j]:
                found[i] = True
                break
            j += 1
    return found
