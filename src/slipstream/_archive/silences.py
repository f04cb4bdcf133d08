"""The trips of anything that moves: a silence longer than a gap ends a trip.

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
from slipstream._tools.numba_tools import Bools, Bytes, Ints, Longs, compiled


@compiled
def judge_points(points: Rows, at: Ints, fresh: Bools, movers: Rows, gap: int, verdict: Bytes) -> None:
    """Which points begin trips, and which are not after the last of their movers."""
    for i in range(points.size):
        time, mover = points[i].time, movers[at[i]]
        if not fresh[i] and time <= mover.time:
            verdict[i] = REFUSED
            continue
        verdict[i] = BEGINS if fresh[i] or time - mover.time > gap else GOES_ON
        mover.time = time


@dataclass(frozen=True)
class SilenceRule:
    """A trip ends with a silence of more than ``gap``; both are in microseconds."""

    point: ClassVar[Schema] = point_schema("POINT", "i8", Plain("x", "f8"), Plain("y", "f8"))
    mover: ClassVar[Schema] = mover_schema("MOVER", "i8")
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
