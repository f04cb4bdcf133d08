"""The definition of a trip, shared by the toll kernel, which charges by it, and the archive, which cuts trajectories.

A trip is a vehicle's reports on one expressway in one direction, each at most 30 s after the previous one, up to the
exit. A report is compared with the vehicle's previous one on the same expressway.
"""

from __future__ import annotations

from slipstream._feeds.tuples import REPORT_EVERY
from slipstream._tools.numba_tools import compiled

EXIT_LANE = 4


@compiled
def begins_trip(t: int, lane: int, direction: int, last_t: int, last_lane: int, last_direction: int) -> bool:
    """Whether a report begins a trip, given the vehicle's previous report on that expressway.

    It does after a silence, in the other direction, and when the vehicle re-enters after the exit lane.

    >>> begins_trip(60, 1, 0, 30, 1, 0), begins_trip(61, 1, 0, 30, 1, 0), begins_trip(60, 0, 0, 30, 4, 0)
    (False, True, True)
    """
    left = last_lane == EXIT_LANE and lane != EXIT_LANE
    return t - last_t > REPORT_EVERY or direction != last_direction or left
