"""What a trip is, said once: the toll kernel charges by it and the archive cuts trajectories by it.

A trip is a vehicle's reports on one expressway and in one direction, each at most 30 s after the one before, up to the
exit. Reports of one vehicle on several expressways are compared with the last one on the same expressway.
"""

from __future__ import annotations

from slipstream._feeds.tuples import REPORT_EVERY
from slipstream._tools.numba_tools import compiled

EXIT_LANE = 4


@compiled
def begins_trip(t: int, lane: int, direction: int, last_t: int, last_lane: int, last_direction: int) -> bool:
    """Whether a report begins a trip, given the vehicle's report before it on that expressway.

    It does after a silence, in the other direction, and when the vehicle enters again after the exit lane.

    >>> begins_trip(60, 1, 0, 30, 1, 0), begins_trip(61, 1, 0, 30, 1, 0), begins_trip(60, 0, 0, 30, 4, 0)
    (False, True, True)
    """
    left = last_lane == EXIT_LANE and lane != EXIT_LANE
    return t - last_t > REPORT_EVERY or direction != last_direction or left
