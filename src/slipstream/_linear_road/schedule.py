"""Reports off the benchmark's schedule: Linear Road's rules assume that a car reports every 30 s.

A trip continues only if the previous report is at most 30 s old, and a car has stopped only if its reports are exactly
30 s apart. On a feed with another interval, those rules charge hardly anyone and find no accidents. So reports off
schedule are counted, and users are warned.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

from slipstream._feeds.tuples import REPORT_EVERY


@dataclass(frozen=True)
class Irregular:
    """Reports neither 30 s after their vehicle's previous one nor from an entry lane: how many, and the first."""

    count: int = 0
    time: int = -1
    vid: int = -1
    gap: int = -1  # seconds since the vehicle's previous report; -1 if there is none

    def to_bytes(self) -> bytes:
        """Encode as bytes."""
        return np.array(astuple(self), np.int64).tobytes()

    @classmethod
    def from_bytes(cls, blob: bytes) -> Irregular:
        """Decode from bytes."""
        return cls(*np.frombuffer(blob, np.int64).tolist())

    @classmethod
    def total(cls, parts: Iterable[Irregular]) -> Irregular:
        """Return their sum, and the earliest of them.

        >>> Irregular.total([Irregular(2, 61, 7, 31), Irregular(), Irregular(1, 31, 9, 31)])
        Irregular(count=3, time=31, vid=9, gap=31)
        """
        found = [part for part in parts if part.count]
        if not found:
            return cls()
        first = min(found, key=lambda part: (part.time, part.vid))
        return cls(sum(part.count for part in found), first.time, first.vid, first.gap)

    def to_dict(self) -> dict[str, Any]:
        """Return it as the summary shows it."""
        example = {
            "vehicle": self.vid,
            "time": self.time,
            "seconds_since_its_last": self.gap if self.gap >= 0 else None,
        }
        return {"count": self.count, "first": example} if self.count else {"count": 0}

    @classmethod
    def from_dict(cls, body: dict[str, Any]) -> Irregular:
        """Read it from a summary."""
        if not body["count"]:
            return cls()
        first = body["first"]
        gap = first["seconds_since_its_last"]
        return cls(body["count"], first["time"], first["vehicle"], -1 if gap is None else gap)

    def __str__(self) -> str:
        since = f"{self.gap} s after its previous one" if self.gap >= 0 else "its first, and not on an entry lane"
        return (
            f"{self.count:,} position reports are off the benchmark's schedule of one every {REPORT_EVERY} s "
            f"(first: vehicle {self.vid} at second {self.time}, {since}). By the benchmark's rules, such reports end "
            "trips: tolls are not charged and accidents are not found. Try --rules general."
        )
