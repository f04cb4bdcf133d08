"""Intake: from tuples as they arrive, in any order, to whole seconds in order.

A tuple may be late by up to ``lateness`` seconds behind the newest one. A second is whole, and is released, when
nothing that may still be accepted belongs to it. Duplicates and conflicting reports of one second are found then; a
released second never changes, so neither does anything computed from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from slipstream.errors import BadArgument, BadInput
from slipstream.feeds.parse import Columns, kept, lines
from slipstream.feeds.tuples import FIELDS, POSITION
from slipstream.kernels import Bools, Longs

MOST_LATENESS = 60

Reject = tuple[bytes, str]


class Released(NamedTuple):
    """Tuples of whole seconds, in order; when each arrived; and what was rejected among them."""

    tuples: Columns
    arrived: Longs  # milliseconds
    rejects: list[Reject]


def nothing() -> Columns:
    """No tuples."""
    return {name: np.empty(0, np.int32) for name in FIELDS}


def joined(first: Columns, second: Columns) -> Columns:
    """The tuples of both, in order."""
    return {name: np.concatenate([first[name], second[name]]) for name in FIELDS}


@dataclass
class Intake:
    """What has arrived and is not released yet."""

    lateness: int
    latest: int = -1
    pending: Columns = field(default_factory=nothing)
    arrived: Longs = field(
        default_factory=lambda: np.empty(0, np.int64)
    )  # when each pending tuple did, in milliseconds

    def __post_init__(self) -> None:
        if not 0 <= self.lateness <= MOST_LATENESS:
            raise BadArgument(f"--lateness {self.lateness}: out of range.", hint=f"Give 0 to {MOST_LATENESS} seconds.")

    def take(self, tuples: Columns, arrived_ms: int = 0) -> list[Reject]:
        """Accept valid tuples in the order of arrival; those too late are rejected."""
        times = tuples["time"]
        if not times.size:
            return []
        newest = np.maximum(np.maximum.accumulate(times), self.latest)
        late = times < newest - self.lateness
        self.latest = int(newest[-1])
        accepted = kept(tuples, ~late) if late.any() else tuples
        self.pending = joined(self.pending, accepted)
        self.arrived = np.concatenate([self.arrived, np.full(accepted["time"].size, arrived_ms, np.int64)])
        return [(line, "late") for line in lines(kept(tuples, late))]

    def release(self, *, everything: bool = False) -> Released:
        """The tuples of all whole seconds, in order, without duplicates and conflicts; and those as rejects."""
        whole = self.pending["time"] < (self.latest + 1 if everything else self.latest - self.lateness)
        ready, arrived = kept(self.pending, whole), self.arrived[whole]
        self.pending, self.arrived = kept(self.pending, ~whole), self.arrived[~whole]
        order = np.argsort(ready["time"], kind="stable")
        return sift({name: column[order] for name, column in ready.items()}, arrived[order])

    def encode(self) -> bytes:
        """The state as bytes."""
        numbers = np.concatenate([[self.latest], *(self.pending[name] for name in FIELDS)]).astype(np.int32)
        return self.arrived.tobytes() + numbers.tobytes()

    @classmethod
    def decode(cls, lateness: int, blob: bytes) -> Intake:
        """The state from bytes."""
        count, rest = divmod(len(blob) - 4, 8 + 4 * len(FIELDS))
        if rest or count < 0:
            raise BadInput("Stored intake state is damaged.", hint="Use an earlier checkpoint.")
        arrived = np.frombuffer(blob, np.int64, count)
        values = np.frombuffer(blob, np.int32, offset=8 * count)
        columns = values[1:].reshape(len(FIELDS), -1)
        return cls(lateness, int(values[0]), dict(zip(FIELDS, columns, strict=True)), arrived)


def sift(tuples: Columns, arrived: Longs) -> Released:
    """Tuples of whole seconds without duplicates and conflicts; and those as rejects."""
    duplicate, conflict = rivals(tuples)
    rejects = [(line, "duplicate") for line in lines(kept(tuples, duplicate))]
    rejects += [(line, "conflict") for line in lines(kept(tuples, conflict))]
    single = ~(duplicate | conflict)
    return Released(kept(tuples, single), arrived[single], rejects)


def rivals(tuples: Columns) -> tuple[Bools, Bools]:
    """Which tuples are exact duplicates of an earlier one, and which are reports that another one outranks.

    Of several different reports of one vehicle in one second the smallest, field by field, is kept.
    """
    n = tuples["type"].size
    duplicate, conflict = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    order = np.lexsort((tuples["vid"], tuples["time"]))
    time, vid = tuples["time"][order], tuples["vid"][order]
    tie = (time[1:] == time[:-1]) & (vid[1:] == vid[:-1])
    tied = np.sort(order[np.r_[tie, False] | np.r_[False, tie]]) if n else order
    if tied.size:
        table = np.stack([tuples[name][tied] for name in FIELDS])
        ranked = np.lexsort(table[::-1])
        table, tied = table[:, ranked], tied[ranked]
        same = np.r_[False, (table[:, 1:] == table[:, :-1]).all(axis=0)]
        duplicate[tied[same]] = True
        left = tied[~same]
        reports = table[:, ~same]
        outranked = np.r_[False, (reports[:3, 1:] == reports[:3, :-1]).all(axis=0)] & (reports[0] == POSITION)
        conflict[left[outranked]] = True
    return duplicate, conflict
