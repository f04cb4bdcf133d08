"""Parcels: how the tuples of a feed get from the tasks that read it to the fragments of a job's state.

A feed consists of lanes, such as the partitions of a topic; a file is a single lane. Lanes have an order, and nothing
is assumed about the order between them. Tasks read lanes in parallel and know nothing of what was read before: which
tuples are late is decided where they go (``_linear_road/tasks/intake.py``). So for each chunk, a task sends every
fragment a word on how far the lane has come, together with the tuples that are for this fragment.

What makes tuples of a whole second duplicates or rivals is said here too: for feeds, and for runs that others recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slipstream._errors import BadInput
from slipstream._feeds.parse import Columns, kept, lines
from slipstream._feeds.tuples import FIELDS, POSITION
from slipstream._tools.numba_tools import Bools, Longs

#: how far a lane has come that will bring nothing more: beyond every second
DONE = 1 << 40

#: what a task says of a chunk: the lane, its place in the lane, the largest time among its tuples (-1 without any),
#: when it arrived, whether more of the lane was there to be read, and how many of its tuples are in the parcel
WORD = np.dtype(
    [("lane", "<i4"), ("seq", "<i8"), ("newest", "<i8"), ("arrived", "<i8"), ("behind", "?"), ("tuples", "<i4")]
)
Words = npt.NDArray[np.void]

Reject = tuple[bytes, str]


class Released(NamedTuple):
    """Tuples of whole seconds, in order; when each arrived; and what was rejected among them."""

    tuples: Columns
    arrived: Longs  # milliseconds
    rejects: list[Reject]


def nothing() -> Columns:
    """No tuples."""
    return {name: np.empty(0, np.int32) for name in FIELDS}


def joined(parts: Sequence[Columns]) -> Columns:
    """The tuples of all parts, in order."""
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([np.empty(0, np.int32), *(part[name] for part in parts)]) for name in FIELDS}


class Parcel(NamedTuple):
    """What a task sends to one fragment: words on all chunks it read, and those of their tuples that belong there."""

    words: Words
    tuples: Columns  # of the first word, then of the second, ...

    def encode(self) -> bytes:
        """As bytes; a column with a single value takes the room of that value."""
        count = self.tuples["type"].size
        columns = [self.tuples[name].astype(np.int32, copy=False) for name in FIELDS]
        single = np.array([count > 0 and bool((column == column[0]).all()) for column in columns])
        head = np.array([self.words.size, count], "<i4").tobytes() + single.tobytes()
        values = (column[:1] if one else column for column, one in zip(columns, single, strict=True))
        return head + self.words.tobytes() + b"".join(value.tobytes() for value in values)

    @classmethod
    def decode(cls, blob: bytes) -> Parcel:
        """From bytes."""
        try:
            words, count = (int(number) for number in np.frombuffer(blob, "<i4", 2))
            single = np.frombuffer(blob, np.bool_, len(FIELDS), 8)
            said = np.frombuffer(blob, WORD, words, 8 + len(FIELDS))
            place, tuples = 8 + len(FIELDS) + said.nbytes, {}
            for name, one in zip(FIELDS, single.tolist(), strict=True):
                column = np.frombuffer(blob, np.int32, 1 if one else count, place)
                place += column.nbytes
                tuples[name] = np.repeat(column, count) if one else column
            if place != len(blob) or said["tuples"].sum() != count or (said["tuples"] < 0).any():
                raise ValueError
        except ValueError as error:
            raise BadInput("A parcel of tuples is damaged.", hint="Use an earlier checkpoint.") from error
        return cls(said, tuples)


def parcel(tuples: Columns, arrived_ms: int = 0, *, lane: int = 0, seq: int = 0) -> Parcel:
    """A single chunk as a parcel."""
    times = tuples["time"]
    newest = int(times.max()) if times.size else -1
    return Parcel(np.array([(lane, seq, newest, arrived_ms, False, times.size)], WORD), tuples)


def closing(lanes: Iterable[int] = (0,)) -> Parcel:
    """The word that lanes will bring nothing more."""
    return Parcel(np.array([(lane, 1 << 62, DONE, 0, False, 0) for lane in lanes], WORD), nothing())


def late_in_chunk(times: npt.NDArray[np.int32], lateness: int) -> Bools:
    """Which tuples of a chunk are late whatever was there before it."""
    return times < np.maximum.accumulate(times) - lateness if times.size else np.empty(0, np.bool_)


def sift(tuples: Columns, arrived: Longs) -> Released:
    """Tuples of whole seconds without duplicates and conflicts; and those as rejects."""
    duplicate, conflict = rivals(tuples)
    rejects = [(line, "duplicate") for line in lines(kept(tuples, duplicate))]
    rejects += [(line, "conflict") for line in lines(kept(tuples, conflict))]
    single = ~(duplicate | conflict)
    return Released(kept(tuples, single), arrived[single], rejects)


def rivals(tuples: Columns) -> tuple[Bools, Bools]:
    """Which tuples are exact duplicates of an earlier one, and which are reports that another one outranks.

    Of several different reports of one vehicle on one expressway in one second the smallest, field by field, is kept.
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
        conflict[_outranked(table[:, ~same], tied[~same])] = True
    return duplicate, conflict


def _outranked(reports: npt.NDArray[np.int32], places: Longs) -> Longs:
    """The places of reports that a smaller one of the same vehicle, expressway and second outranks.

    Tuples come sorted by all fields.
    """
    who = [FIELDS.index(name) for name in ("type", "time", "vid", "xway")]
    by_vehicle = np.lexsort(reports[who[::-1]])
    table = reports[:, by_vehicle]
    rival = np.r_[False, (table[who, 1:] == table[who, :-1]).all(axis=0)] & (table[0] == POSITION)
    outranked: Longs = places[by_vehicle[rival]]
    return outranked
