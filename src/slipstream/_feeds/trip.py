"""The definition of a trip: the toll kernel charges by it, and every archive cuts trajectories by it.

A trip is the reports of one mover in one direction, none of them more than a gap after the one before, up to the exit.
On Linear Road a mover is a vehicle on one expressway and the gap is 30 s. A stream without lanes or directions has one
of each, so that only a silence ends a trip.
"""

from __future__ import annotations

from slipstream._tools.numba_tools import compiled

EXIT_LANE = 4


@compiled
def begins_trip(t: int, lane: int, direction: int, last_t: int, last_lane: int, last_direction: int, gap: int) -> bool:
    """Return whether a report begins a trip, given the mover's report before it.

    It does after a silence, in another direction, and when the mover enters again after the exit lane.

    >>> begins_trip(60, 1, 0, 30, 1, 0, 30), begins_trip(61, 1, 0, 30, 1, 0, 30), begins_trip(60, 0, 0, 30, 4, 0, 30)
    (False, True, True)
    """
    left = last_lane == EXIT_LANE and lane != EXIT_LANE
    return t - last_t > gap or direction != last_direction or left
