"""Historical queries over ten weeks: daily expenditures and travel times, looked up in memory-mapped arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from slipstream._feeds.history import FOLDER, INDEX, MINUTES, WEEK, History, Means
from slipstream._feeds.run import Run
from slipstream._feeds.tuples import SEGMENTS
from slipstream._tools.numba_tools import Floats, Ints, Longs, compiled

UNKNOWN = -1


class Past:
    """The history of a run, as its copies see it; empty without a run."""

    def __init__(self, run: Run | None) -> None:
        self._run = run
        self._history = History.open(run) if run is not None else None
        self._xway_stride = run.xway_stride if run is not None else 1
        self._vid_stride = max(run.manifest.vid_stride, 1) if run is not None else 1

    def __reduce__(self) -> tuple[Callable[[str | None], Past], tuple[str | None]]:
        """Pickle as the path of the run: the mapped arrays are not copied."""
        return open_past, (str(self._run.path) if self._run is not None else None,)

    def expenditures(self, vid: Ints, day: Ints, xway: Ints) -> Longs:
        """Return the tolls that vehicles paid on past days on expressways; 0 where unknown."""
        answers = np.zeros(vid.size, np.int64)
        if self._history is None or self._history.missing:
            return answers
        base, stored = vid % self._vid_stride, xway % self._xway_stride
        known = np.flatnonzero(base < self._history.tolls.shape[0])
        row, column = base[known], day[known] - 1
        same = self._history.toll_xways[row, column] == stored[known]
        answers[known[same]] = self._history.tolls[row[same], column[same]]
        return answers

    def journeys(self, asked: dict[str, Ints], toll: Callable[[Floats, Floats], Any]) -> tuple[Longs, Longs]:
        """Return seconds and tolls of journeys; UNKNOWN if the expressway has no history."""
        seconds = np.full(asked["vid"].size, UNKNOWN, np.int64)
        tolls = seconds.copy()
        stay = asked["sinit"] == asked["send"]
        seconds[stay] = tolls[stay] = 0
        if self._history is None or self._history.missing:
            return seconds, tolls
        stored = asked["xway"] % self._xway_stride
        for xway in np.unique(stored[~stay]):
            if xway not in self._history.speeds:
                continue
            mine = np.flatnonzero((stored == xway) & ~stay)
            fields = [asked[name][mine] for name in ("sinit", "send", "dow", "tod")]
            means = self._history.speeds[int(xway)], self._history.counts[int(xway)]
            speeds, cars, taken, journey = _drive(*means, *fields)
            seconds[mine] = np.floor(taken)
            # the toll function gets the means unrounded
            price = np.asarray(toll(speeds, cars), dtype=np.float64)
            tolls[mine] = np.floor(np.bincount(journey, weights=price, minlength=mine.size))
        return seconds, tolls


def open_past(run: str | None) -> Past:
    """Return the history of the run at a path, opened once per process and again when it was made anew."""
    return _open(run, _stamp(run) if run is not None else None)


@lru_cache(maxsize=8)
def _open(run: str | None, stamp: tuple[int, int] | None) -> Past:  # noqa: ARG001 - distinguishes histories
    return Past(Run.open(run) if run is not None else None)


def _stamp(run: str) -> tuple[int, int] | None:
    """Return what changes with the history of a run: the inode of its index and when it was written; None without."""
    try:
        found = (Path(run) / FOLDER / INDEX).stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


@compiled
def _drive(
    speeds: Means, counts: Means, sinit: Ints, send: Ints, dow: Ints, tod: Ints
) -> tuple[Floats, Floats, Floats, Ints]:
    """Simulate journeys through the mean traffic.

    Returns speed, count and journey of every segment, and the seconds of every journey.
    """
    room = sinit.size * (SEGMENTS - 1)
    speed, count, journey = np.empty(room), np.empty(room), np.empty(room, np.int32)
    taken = np.zeros(sinit.size)
    n = 0
    for i in range(sinit.size):
        direction, step = (0, 1) if send[i] > sinit[i] else (1, -1)
        segment, clock = sinit[i], (tod[i] - 1) * 60.0
        while segment != send[i]:
            minute = int(clock // 60)
            day = (dow[i] - 1 + minute // MINUTES) % WEEK
            speed[n] = speeds[day, minute % MINUTES, direction, segment]
            count[n] = counts[day, minute % MINUTES, direction, segment]
            journey[n] = i
            clock += 3600.0 / max(speed[n], 1.0)
            segment += step
            n += 1
        taken[i] = clock - (tod[i] - 1) * 60.0
    return speed[:n], count[:n], taken, journey[:n]
