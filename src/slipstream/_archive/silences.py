"""The trips of anything that moves: those of ``_feeds.trip``, with a configurable gap.

Points may be out of order, within limits: one that is older than the newest point of the stream by more than the
``lateness`` is rejected, and so is one that is not after the last point of its mover. The accepted points have this
property: a trip whose last point is older than the newest by more than gap and lateness cannot continue. So trips
depend only on the points, not on when they are checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slipstream._archive.open_trips import BEGINS, CONTINUES, REJECTED, Rows, mover_schema, point_schema
from slipstream._cuboid.schema import Plain, Schema
from slipstream._feeds.trip import begins_trip
from slipstream._tools.numba_tools import Bools, Bytes, Ints, Longs, compiled


@compiled
def judge_points(points: Rows, at: Ints, fresh: Bools, movers: Rows, gap: int, verdict: Bytes) -> None:
    """Decide which points begin trips, and reject those that are not after the last of their movers."""
    for i in range(points.size):
        time, mover = points[i].time, movers[at[i]]
        if not fresh[i] and time <= mover.time:
            verdict[i] = REJECTED
            continue
        lane, direction = points[i].lane, points[i].dir
        begins = fresh[i] or begins_trip(time, lane, direction, mover.time, mover.lane, mover.dir, gap)
        verdict[i] = BEGINS if begins else CONTINUES
        mover.time, mover.lane, mover.dir = time, lane, direction


@dataclass(frozen=True)
class SilenceRule:
    """Defines a trip that a silence of more than ``gap`` ends; gap and lateness are in microseconds.

    The ``lane`` of a point is the exit lane or 0; ``dir`` is any number for its direction.
    """

    point: ClassVar[Schema] = point_schema(
        "POINT", "i8", Plain("x", "f8"), Plain("y", "f8"), Plain("lane", "u1"), Plain("dir", "i8")
    )
    mover: ClassVar[Schema] = mover_schema("MOVER", "i8", Plain("lane", "u1"), Plain("dir", "i8"))
    gap: int
    lateness: int

    def judge(self, points: Rows, at: Ints, fresh: Bools, movers: Rows) -> Bytes:
        """Decide which points begin trips, and reject those that are not after the last of their movers."""
        verdict = np.empty(points.size, np.uint8)
        judge_points(points, at, fresh, movers, self.gap, verdict)
        return verdict

    def horizon(self, newest: int) -> int:
        """Return the time at or before which a point cannot be within the gap of a point that is not late."""
        return newest - self.gap - self.lateness - 1

    def reached(self, newest: int, time: Longs) -> Longs:
        """Return the newest time of the stream up to each point, starting with ``newest``."""
        return np.maximum.accumulate(np.maximum(time, newest))
