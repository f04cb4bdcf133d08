"""The trips of anything that moves: those of ``feeds.trip``, with a gap that the user chooses.

Points come in any order, within limits: one that is older than the newest point of the stream by more than the
``lateness`` is refused, and so is one that is not after the last point of its mover. What is left has this property: a
trip whose last point is older than the newest by more than gap and lateness cannot go on, whoever reports next. So what
the trips are depends on the points alone, not on when anybody looks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slipstream._archive.open_trips import BEGINS, GOES_ON, REFUSED, Rows, mover_schema, point_schema
from slipstream._cuboid.schema import Plain, Schema
from slipstream._feeds.trip import begins_trip
from slipstream._tools.numba_tools import Bools, Bytes, Ints, Longs, compiled


@compiled
def judge_points(points: Rows, at: Ints, fresh: Bools, movers: Rows, gap: int, verdict: Bytes) -> None:
    """Which points begin trips, and which are not after the last of their movers."""
    for i in range(points.size):
        time, mover = points[i].time, movers[at[i]]
        if not fresh[i] and time <= mover.time:
            verdict[i] = REFUSED
            continue
        lane, direction = points[i].lane, points[i].dir
        begins = fresh[i] or begins_trip(time, lane, direction, mover.time, mover.lane, mover.dir, gap)
        verdict[i] = BEGINS if begins else GOES_ON
        mover.time, mover.lane, mover.dir = time, lane, direction


@dataclass(frozen=True)
class SilenceRule:
    """What a trip is, where a silence of more than ``gap`` ends one; both are in microseconds.

    A point on the exit lane has that for its ``lane``, others 0; ``dir`` is any number for its direction.
    """

    point: ClassVar[Schema] = point_schema(
        "POINT", "i8", Plain("x", "f8"), Plain("y", "f8"), Plain("lane", "u1"), Plain("dir", "i8")
    )
    mover: ClassVar[Schema] = mover_schema("MOVER", "i8", Plain("lane", "u1"), Plain("dir", "i8"))
    gap: int
    lateness: int

    def judge(self, points: Rows, at: Ints, fresh: Bools, movers: Rows) -> Bytes:
        """Which points begin trips, and which are not after the last of their movers."""
        verdict = np.empty(points.size, np.uint8)
        judge_points(points, at, fresh, movers, self.gap, verdict)
        return verdict

    def horizon(self, newest: int) -> int:
        """What is not late cannot be within the gap of a point that is as old as this."""
        return newest - self.gap - self.lateness - 1

    def reached(self, newest: int, time: Longs) -> Longs:
        """The newest time of the stream up to each point, when it was at ``newest`` before them."""
        return np.maximum.accumulate(np.maximum(time, newest))
