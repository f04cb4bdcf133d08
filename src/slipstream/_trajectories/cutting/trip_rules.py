"""What becomes of a position: part of a trip, or a reject with a reason.

The positions of a mover are taken in the order of time. Of several at one instant, the nearest to the position before
is kept (the first by coordinates if there is none); identical ones are duplicates, the others conflicts. A silence of
more than the gap ends a trip (``_feeds.trip``). With a greatest speed, a position that cannot be reached from the last
one is a jump. If the next one can be reached from it, though not from the last one, the mover really is there: a trip
ends, another begins with the two, and an ended trip of one position was a jump itself.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import timedelta

from slipstream._errors import BadArgument
from slipstream._moving.types import MICROS
from slipstream._tools.durations import seconds

#: why a position is in no trip, in the order in which reasons are looked for
REASONS = (
    "no id",
    "no time",
    "unreadable time",
    "no place",
    "unreadable place",
    "not finite",
    "off the globe",
    "outside",
    "duplicate",
    "conflict",
    "jump",
)
NO_ID, NO_TIME, BAD_TIME, NO_PLACE, BAD_PLACE, NOT_FINITE, OFF_GLOBE, OUTSIDE, *_ = REASONS
#: verdicts of the kernel, as indices of ``REASONS``; 0 is a vertex of a trip
VERTEX, DUPLICATE, CONFLICT, JUMP = 0, 8, 9, 10

#: metres per second in a unit of speed
_SPEEDS = {"": 1.0, "m/s": 1.0, "km/h": 1 / 3.6, "kmh": 1 / 3.6, "mph": 0.44704, "kn": 1852 / 3600}


@dataclass(frozen=True)
class TripRules:
    """When a trip ends, and which positions are impossible."""

    gap: int  # microseconds
    max_speed: float = math.inf  # metres per second

    @classmethod
    def parse(cls, gap: str | float | timedelta, max_speed: str | float | None) -> TripRules:
        """Return the rules that a gap and a greatest speed mean, as people write them.

        >>> TripRules.parse("5 minutes", "90 km/h")
        TripRules(gap=300000000, max_speed=25.0)
        """
        length = seconds(gap, "gap")
        # no number of microseconds is infinite or NaN
        return cls(round(length * MICROS) if math.isfinite(length) else 0, parse_speed(max_speed))

    def __post_init__(self) -> None:
        if self.gap <= 0:
            raise BadArgument("gap: not a time above 0.", hint='For example gap="5 minutes".', code="out-of-range")
        if not self.max_speed > 0:
            raise BadArgument(
                f"max_speed {self.max_speed:g}: not above 0.",
                hint='For example max_speed="200 km/h".',
                code="out-of-range",
            )


def parse_speed(given: str | float | None) -> float:
    """Return a speed in metres per second: a number, or text with a unit; without one, there is no limit.

    >>> parse_speed("180 km/h"), parse_speed(50), parse_speed(None)
    (50.0, 50.0, inf)
    """
    if given is None:
        return math.inf
    if isinstance(given, int | float) and not isinstance(given, bool):
        return float(given)
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z/]*)\s*", str(given).lower())
    if not found or found[2] not in _SPEEDS:
        raise BadArgument(
            f"max_speed {given!r}: not a speed.",
            hint='Write metres per second, or "200 km/h", "120 mph", "40 kn".',
            code="malformed-value",
            found=given,
        )
    return float(found[1]) * _SPEEDS[found[2]]
