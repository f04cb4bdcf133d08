"""Durations as people write them: a number of seconds, a ``timedelta``, or text such as "30 s"."""

from __future__ import annotations

import re
from datetime import timedelta

from slipstream._errors import BadArgument

_SECONDS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hour", "hours"), 3600),
    **dict.fromkeys(("d", "day", "days"), 86400),
}


def seconds(duration: str | float | timedelta, what: str = "duration") -> float:
    """Return a duration in seconds: a number, a ``timedelta``, or text such as "90 s", "1 minute" or "2h".

    >>> seconds("1 minute"), seconds("2h"), seconds(30), seconds("500 ms")
    (60, 7200, 30, 0.5)
    >>> seconds("soon", "size")
    Traceback (most recent call last):
        ...
    slipstream._errors.BadArgument: size 'soon': not a duration.
    Write a number of seconds, or "30 s", "1 minute", "2 hours", "1 day".
    """
    if isinstance(duration, timedelta):
        return _drop_fraction(duration.total_seconds())
    if isinstance(duration, int | float) and not isinstance(duration, bool):
        return duration
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", str(duration).lower())
    if not found or found[2] not in {"", *_SECONDS}:
        raise BadArgument(
            f"{what} {duration!r}: not a duration.",
            hint='Write a number of seconds, or "30 s", "1 minute", "2 hours", "1 day".',
            code="malformed-value",
            found=duration,
        )
    return _drop_fraction(float(found[1]) * _SECONDS.get(found[2], 1))


def _drop_fraction(number: float) -> float:
    """A whole number as an integer: windows of integers have whole sizes."""
    return int(number) if number == int(number) else number
