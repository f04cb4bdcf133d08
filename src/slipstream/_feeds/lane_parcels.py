"""Parcels: how the tuples of a feed get from the tasks that read it to the fragments of a job's state.

A feed consists of lanes, such as the partitions of a topic; a file is a single lane. A lane is ordered, but nothing is
assumed about the order between lanes. Tasks read lanes in parallel and do not know what was read before, so the
fragments decide which tuples are late (``_linear_road/tasks/intake.py``). For each chunk, a task therefore sends every
fragment the progress of the lane, together with the tuples for that fragment.

This module also finds duplicates and conflicts among the tuples of a complete second, for feeds and for recorded runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slipstream._errors import BadInput
from slipstream._feeds.parse import Columns, format_lines, select
from slipstream._feeds.tuples import FIELDS, POSITION
from slipstream._tools.numba_tools import Bools, Longs

#: the progress of a lane that has ended: beyond every second
DONE = 1 << 40

#: the progress that a task reports for a chunk: the lane, the position in the lane, the largest time of its tuples (-1
#: without any), when it arrived, whether more of the lane could be read, and how many of its tuples are in the parcel
PROGRESS = np.dtype(
    [("lane", "<i4"), ("seq", "<i8"), ("newest", "<i8"), ("arrived", "<i8"), ("behind", "?"), ("tuples", "<i4")]
)
Progress = npt.NDArray[np.void]

Reject = tuple[bytes, str]


class Released(NamedTuple):
    """Tuples of complete seconds, in order; when each arrived; and the rejects among them."""

    tuples: Columns
    arrived: Longs  # milliseconds
    rejects: list[Reject]


def no_tuples() -> Columns:
    """No tuples."""
    return {name: np.empty(0, np.int32) for name in FIELDS}


def concat_tuples(parts: Sequence[Columns]) -> Columns:
    """Concatenate tuples."""
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([np.empty(0, np.int32), *(part[name] for part in parts)]) for name in FIELDS}


class Parcel(NamedTuple):
    """What a task sends to one fragment: the progress of all chunks it read, and the tuples for that fragment."""

    progress: Progress
    tuples: Columns  # of the first chunk, then of the second, ...

    def encode(self) -> bytes:
        """Convert to bytes; a column with a single value takes the space of that value."""
        count = self.tuples["type"].size
        columns = [self.tuples[name].astype(np.int32, copy=False) for name in FIELDS]
        single = np.array([count > 0 and bool((column == column[0]).all()) for column in columns])
        head = np.array([self.progress.size, count], "<i4").tobytes() + single.tobytes()
        values = (column[:1] if one else column for column, one in zip(columns, single, strict=True))
        return head + self.progress.tobytes() + b"".join(value.tobytes() for value in values)

    @classmethod
    def decode(cls, blob: bytes) -> Parcel:
        """Convert from bytes."""
        try:
            chunks, count = (int(number) for number in np.frombuffer(blob, "<i4", 2))
            single = np.frombuffer(blob, np.bool_, len(FIELDS), 8)
            progress = np.frombuffer(blob, PROGRESS, chunks, 8 + len(FIELDS))
            place, tuples = 8 + len(FIELDS) + progress.nbytes, {}
            for name, one in zip(FIELDS, single.tolist(), strict=True):
                column = np.frombuffer(blob, np.int32, 1 if one else count, place)
                place += column.nbytes
                tuples[name] = np.repeat(column, count) if one else column
            if place != len(blob) or progress["tuples"].sum() != count or (progress["tuples"] < 0).any():
                raise ValueError
        except ValueError as error:
            raise BadInput(
                "A parcel of tuples is damaged.", hint="Use an earlier checkpoint.", code="damaged-checkpoint"
            ) from error
        return cls(progress, tuples)


def make_parcel(tuples: Columns, arrived_ms: int = 0, *, lane: int = 0, seq: int = 0) -> Parcel:
    """Make a parcel of a single chunk."""
    times = tuples["time"]
    newest = int(times.max()) if times.size else -1
    return Parcel(np.array([(lane, seq, newest, arrived_ms, False, times.size)], PROGRESS), tuples)


def end_lanes(lanes: Iterable[int] = (0,)) -> Parcel:
    """Make a parcel that marks lanes as ended."""
    return Parcel(np.array([(lane, 1 << 62, DONE, 0, False, 0) for lane in lanes], PROGRESS), no_tuples())


def find_late_in_chunk(times: npt.NDArray[np.int32], lateness: int) -> Bools:
    """Which tuples of a chunk are late, whatever preceded the chunk."""
    return times < np.maximum.accumulate(times) - lateness if times.size else np.empty(0, np.bool_)


def reject_rivals(tuples: Columns, arrived: Longs) -> Released:
    """Reject duplicates and conflicts among the tuples of complete seconds."""
    duplicate, conflict = find_rivals(tuples)
    rejects = [(line, "duplicate") for line in format_lines(select(tuples, duplicate))]
    rejects += [(line, "conflict") for line in format_lines(select(tuples, conflict))]
    single = ~(duplicate | conflict)
    return Released(select(tuples, single), arrived[single], rejects)


def find_rivals(tuples: Columns) -> tuple[Bools, Bools]:
    """Which tuples are exact duplicates of an earlier one, and which are reports in conflict with another.

    Of several different reports of one vehicle on one expressway in one second, the smallest, field by field, is kept.
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
        conflict[_find_outranked(table[:, ~same], tied[~same])] = True
    return duplicate, conflict


def _find_outranked(reports: npt.NDArray[np.int32], places: Longs) -> Longs:
    """The positions of reports for which there is a smaller one of the same vehicle, expressway and second.

    The reports must be sorted by all fields.
    """
    who = [FIELDS.index(name) for name in ("type", "time", "vid", "xway")]
    by_vehicle = np.lexsort(reports[who[::-1]])
    table = reports[:, by_vehicle]
    rival = np.r_[False, (table[who, 1:] == table[who, :-1]).all(axis=0)] & (table[0] == POSITION)
    outranked: Longs = places[by_vehicle[rival]]
    return outranked
