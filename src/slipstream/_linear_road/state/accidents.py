"""Find accidents at the end of a minute: vehicles stopped at about one place at a time at which one of them reports.

The CAR kernel records every report of a stopped car (where it stands) and the next one after it (that it has left).
Sorted by car, these records are intervals during which a car stands at a place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slipstream._feeds.tuples import MILE, REPORT_EVERY, SEGMENTS
from slipstream._linear_road.general import RoadSettings
from slipstream._linear_road.state.cars import CELLS, NOWHERE, PLACE_BITS, POS_BITS
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


class Collision(NamedTuple):
    """What counts as an accident; the defaults are the benchmark's."""

    gap: int = REPORT_EVERY  # for how long after its last report a car is taken to stand
    within: int = 0
    cars: int = 2
    length: int = MILE

    @classmethod
    def of(cls, road: RoadSettings | None) -> Collision:
        """Return what counts on a road; None is the benchmark's."""
        return cls(road.trip_gap, road.accident_within, road.accident_cars, road.segment_length) if road else cls()


def cells_with_accident(stops: Stops, since: int, until: int, collision: Collision) -> Longs:
    """Return the segments (as cells of the fragment) with an accident at a report time in [since, until)."""
    if not stops.car.size:
        return np.empty(0, np.int64)
    order = np.lexsort((stops.time, stops.car))
    car, time, place = stops.car[order], stops.time[order], stops.place[order]
    followed = np.r_[car[1:] == car[:-1], False]
    following = np.r_[time[1:], 0]
    stands_until = np.where(followed, np.minimum(following - 1, time + collision.gap), time + collision.gap)
    standing = np.flatnonzero(place != NOWHERE)
    standing = standing[np.argsort(place[standing], kind="stable")]
    car, time, place, stands_until = car[standing], time[standing], place[standing], stands_until[standing]
    met = _meet(car, time, place, stands_until.astype(np.int32), collision.within, collision.cars - 1)
    places = place[met & (time >= since) & (time < until)]
    local, direction, pos = places >> PLACE_BITS, (places >> 23) & 1, places & ((1 << POS_BITS) - 1)
    return np.unique(local * CELLS + direction * SEGMENTS + pos // collision.length)


@compiled
def _meet(car: Longs, time: Ints, place: Longs, until: Ints, within: int, others: int) -> Bools:
    """Mark the records, sorted by place, that fall into the standing times of that many other cars near the place.

    The standing times of a car do not overlap, so each of them is of another car.
    """
    found = np.zeros(car.size, dtype=np.bool_)
    first = 0
    for i in range(car.size):
        while place[first] < place[i] - within or place[first] >> POS_BITS != place[i] >> POS_BITS:
            first += 1
        j, near = first, 0
        while near < others and j < car.size and place[j] <= place[i] + within:
            near += place[j] >> POS_BITS == place[i] >> POS_BITS and car[j] != car[i] and time[j] <= time[i] <= until[j]
            j += 1
        found[i] = near == others
    return found
