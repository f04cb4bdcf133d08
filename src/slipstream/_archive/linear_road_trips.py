"""The trips of Linear Road: position reports, split by the rule that tolls are charged by (``_feeds.trip``)."""

from __future__ import annotations

import numpy as np

from slipstream._archive.ended_trips import NO_TRIPS, EndedTrips
from slipstream._archive.open_trips import (
    BEGINS,
    CONTINUES,
    Ended,
    OpenTrips,
    Rows,
    mover_schema,
    point_schema,
)
from slipstream._cuboid.schema import KEY, Plain, Schema
from slipstream._feeds.trains import FeedTrain
from slipstream._feeds.trip import begins_trip
from slipstream._feeds.tuples import REPORT_EVERY
from slipstream._runtime.state.store import Store
from slipstream._tools.numba_tools import Bools, Bytes, Ints, compiled

#: bits of a car's key below the expressway: the vehicle
VID_BITS = 31
#: Seconds of the stream between two checks for silent cars. A check visits all cars on the road, a thirtieth of which
#: report every second: three rows per report.
LOOK_EVERY = 10


@compiled
def judge_reports(reports: Rows, at: Ints, fresh: Bools, cars: Rows, gap: int, verdict: Bytes) -> None:
    """Decide which reports begin trips."""
    for i in range(reports.size):
        report, car = reports[i], cars[at[i]]
        begins = fresh[i] or begins_trip(report.time, report.lane, report.dir, car.time, car.lane, car.dir, gap)
        verdict[i] = BEGINS if begins else CONTINUES
        car.time, car.lane, car.dir = report.time, report.lane, report.dir


class ReportRule:
    """The definition of a trip that tolls are charged by; a mover is a vehicle on a road.

    A silence of more than ``gap`` seconds ends a trip.
    """

    def __init__(self, gap: int = REPORT_EVERY) -> None:
        self.gap = gap

    point: Schema = point_schema("REPORT", "i4", Plain("pos", "i4"), Plain("lane", "u1"), Plain("dir", "u1"))
    mover: Schema = mover_schema("CAR", "i4", Plain("lane", "u1"), Plain("dir", "u1"))

    def judge(self, points: Rows, at: Ints, fresh: Bools, movers: Rows) -> Bytes:
        """Decide which reports begin trips."""
        verdict = np.empty(points.size, np.uint8)
        judge_reports(points, at, fresh, movers, self.gap, verdict)
        return verdict

    def horizon(self, newest: int) -> int:
        """Return the time from which a future report is more than the gap away."""
        return newest // LOOK_EVERY * LOOK_EVERY - self.gap


class ReportTrips:
    """The open trips of some expressways; a silence of more than ``gap`` seconds ends a trip.

    >>> ReportTrips().take([]).vid.size
    0
    """

    def __init__(self, gap: int = REPORT_EVERY) -> None:
        self.open = OpenTrips(ReportRule(gap), -1)

    def take(self, trains: list[FeedTrain], *, last: bool = False) -> EndedTrips:
        """Add the reports of whole seconds; return the trips that ended, all of them after the ``last`` one."""
        ended, _ = self.open.take(_read_points(trains), last=last)
        return _make_trips(ended)

    def save(self, store: Store) -> None:
        """Save the reports of a batch, and some earlier ones."""
        self.open.save(store, self.open.newest)

    @classmethod
    def load(cls, store: Store, gap: int = REPORT_EVERY) -> ReportTrips:
        """Load the open trips as last saved."""
        trips = cls(gap)
        trips.open.load(store)
        return trips


def _read_points(trains: list[FeedTrain]) -> Rows:
    """Return the reports of trains in time order."""
    trains = sorted((train for train in trains if train.vid.size), key=lambda train: train.second)
    sizes = [train.vid.size for train in trains]
    points = np.zeros(sum(sizes), ReportRule.point.dtype)
    points["time"] = np.repeat(np.array([train.second for train in trains], np.int32), sizes)
    for train, end in zip(trains, np.cumsum(sizes).tolist(), strict=True):
        part = points[end - train.vid.size : end]
        part[KEY] = (train.xway.astype(np.int64) << VID_BITS) | train.vid
        part["pos"] = train.pos
        part["lane"], part["dir"] = train.lane_dir % 8, train.lane_dir >> 3 & 1
    return points


def _make_trips(ended: Ended) -> EndedTrips:
    if not ended.key.size:
        return NO_TRIPS
    vid, xway = ended.key & ((1 << VID_BITS) - 1), ended.key >> VID_BITS
    ends = np.cumsum(ended.size)
    time, pos, lane, direction = (np.ascontiguousarray(ended.points[name]) for name in ("time", "pos", "lane", "dir"))
    return EndedTrips(vid.astype(np.int32), xway.astype(np.int32), ended.size, direction[ends - 1], time, pos, lane)
