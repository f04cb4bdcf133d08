"""The traffic of a run at any second, read from its tuples.

Every vehicle reports every 30 seconds, so the reports of the last 30 seconds contain each car once.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slipstream._feeds.parse import Columns, select
from slipstream._feeds.run import MINUTE, Run
from slipstream._feeds.tuples import MILE, POSITION, REPORT_EVERY, SEGMENTS
from slipstream._linear_road.state.cars import CELLS

#: cached minutes of expressways; one takes up to about 2 MB
_CACHED = 48
_COLUMNS = ("type", "time", "vid", "spd", "lane", "dir", "pos")
_EMPTY = np.empty(0, np.int32)

Cells = npt.NDArray[np.int32]


@dataclass(frozen=True)
class SegmentTraffic:
    """Cars and their mean speed by cell (expressway, direction, segment); speed is -1 in empty cells."""

    cars: Cells
    speed: Cells


class LiveRoads:
    """The expressways of a run, stored and multiplied."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._lock = threading.Lock()
        self._minutes: OrderedDict[tuple[int, int], Columns] = OrderedDict()

    @property
    def xways(self) -> list[int]:
        """The numbers of all expressways, copy by copy."""
        stored = [expressway.xway for expressway in self.run.manifest.expressways]
        return [copy * self.run.xway_stride + xway for copy in range(self.run.copies) for xway in stored]

    def minute(self, stored: int, minute: int) -> Columns:
        """Return all tuples of a stored expressway in a minute, in time order."""
        key = (stored, minute)
        with self._lock:
            if key not in self._minutes:
                table = self.run.minute(stored, minute)
                self._minutes[key] = {name: table.column(name).to_numpy() for name in _COLUMNS}
            self._minutes.move_to_end(key)
            # a window over all stored expressways spans two minutes of each
            while len(self._minutes) > max(_CACHED, 3 * self.run.stored):
                self._minutes.popitem(last=False)
            return self._minutes[key]

    def reports(self, stored: int, since: int, until: int) -> Columns:
        """Return the position reports of a stored expressway in seconds [since, until)."""
        since = max(since, 0)
        parts = [
            self._part(stored, minute, since, until) for minute in range(since // MINUTE, (until - 1) // MINUTE + 1)
        ]
        return {name: np.concatenate([_EMPTY, *(part[name] for part in parts)]) for name in _COLUMNS}

    def _part(self, stored: int, minute: int, since: int, until: int) -> Columns:
        columns = self.minute(stored, minute)
        first, last = np.searchsorted(columns["time"], (since, until))
        part = {name: column[first:last] for name, column in columns.items()}
        return select(part, part["type"] == POSITION)

    def now(self, stored: int, second: int) -> Columns:
        """Return the last report of every car on a stored expressway at the end of ``second``."""
        return self.reports(stored, second - REPORT_EVERY + 1, second + 1)

    def traffic(self, second: int) -> SegmentTraffic:
        """Return cars and speeds on all expressways at the end of ``second``."""
        cars, speeds = [], []
        for stored in range(self.run.stored):
            reports = self.now(stored, second)
            cell = find_cell(reports)
            count = np.bincount(cell, minlength=CELLS)
            total = np.bincount(cell, weights=reports["spd"], minlength=CELLS)
            cars.append(count)
            speeds.append(np.where(count > 0, np.rint(total / np.maximum(count, 1)), -1))
        copies = self.run.copies
        return SegmentTraffic(
            np.tile(np.concatenate(cars), copies).astype(np.int32),
            np.tile(np.concatenate(speeds), copies).astype(np.int32),
        )

    def tuples_by_second(self, minute: int) -> npt.NDArray[np.int64]:
        """Return the number of tuples in each second of a minute."""
        total = np.zeros(MINUTE, np.int64)
        for stored in range(self.run.stored):
            total += np.bincount(self.minute(stored, minute)["time"] - minute * MINUTE, minlength=MINUTE)
        return total * self.run.copies

    def place(self, xway: int) -> tuple[int, int] | None:
        """Return the stored expressway and copy of an expressway number."""
        copy, own = divmod(xway, self.run.xway_stride)
        stored = next((k for k, e in enumerate(self.run.manifest.expressways) if e.xway == own), None)
        return (stored, copy) if stored is not None and 0 <= copy < self.run.copies else None


def find_cell(reports: Columns) -> npt.NDArray[np.int64]:
    """Return the cell of each report within its expressway."""
    return reports["dir"].astype(np.int64) * SEGMENTS + reports["pos"] // MILE
