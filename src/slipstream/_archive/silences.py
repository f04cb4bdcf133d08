"""The trips of anything that moves: a silence longer than a gap ends a trip.

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
from slipstream._tools.numba_tools import Bools, Bytes, Ints, Longs, compiled


@compiled
def judge_points(points: Rows, at: Ints, fresh: Bools, movers: Rows, gap: int, verdict: Bytes) -> None:
    """Decide which points begin trips, and reject those that are not after the last of their movers."""
    for i in range(points.size):
        time, mover = points[i].time, movers[at[i]]
        if not fresh[i] and time <= mover.time:
            verdict[i] = REJECTED
            continue
        verdict[i] = BEGINS if fresh[i] or time - mover.time > gap else CONTINUES
        mover.time = time


@dataclass(frozen=True)
class SilenceRule:
    """A trip ends with a silence of more than ``gap``; gap and lateness are in microseconds."""

    point: ClassVar[Schema] = point_schema("POINT", "i8", Plain("x", "f8"), Plain("y", "f8"))
    mover: ClassVar[Schema] = mover_schema("MOVER", "i8")
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
