"""The traffic of a run at any second, read from its tuples.

Every vehicle reports each 30 seconds, so the reports of the last 30 are the traffic: each car once.
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

#: minutes of an expressway kept decoded; one is about 2 MB at the busiest
_KEPT = 48
_COLUMNS = ("type", "time", "vid", "spd", "lane", "dir", "pos")
_EMPTY = np.empty(0, np.int32)

Cells = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Traffic:
    """Cars and their mean speed, by cell: (expressway, direction, segment) in one row; speed -1 where nobody is."""

    cars: Cells
    speed: Cells


class Roads:
    """A run's expressways, stored and presented."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._lock = threading.Lock()
        self._minutes: OrderedDict[tuple[int, int], Columns] = OrderedDict()

    @property
    def xways(self) -> list[int]:
        """The numbers of the expressways as presented: copy by copy."""
        stored = [expressway.xway for expressway in self.run.manifest.expressways]
        return [copy * self.run.xway_stride + xway for copy in range(self.run.copies) for xway in stored]

    def minute(self, stored: int, minute: int) -> Columns:
        """All tuples of a stored expressway in a minute, in the order of time."""
        key = (stored, minute)
        with self._lock:
            if key not in self._minutes:
                table = self.run.minute(stored, minute)
                self._minutes[key] = {name: table.column(name).to_numpy() for name in _COLUMNS}
            self._minutes.move_to_end(key)
            # a window over all stored expressways needs two minutes of each
            while len(self._minutes) > max(_KEPT, 3 * self.run.stored):
                self._minutes.popitem(last=False)
            return self._minutes[key]

    def reports(self, stored: int, since: int, until: int) -> Columns:
        """The position reports of a stored expressway in seconds [since, until)."""
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
        """The last report of every car on a stored expressway at the end of ``second``."""
        return self.reports(stored, second - REPORT_EVERY + 1, second + 1)

    def traffic(self, second: int) -> Traffic:
        """Cars and speeds on all presented expressways at the end of ``second``."""
        cars, speeds = [], []
        for stored in range(self.run.stored):
            reports = self.now(stored, second)
            cell = cell_of(reports)
            count = np.bincount(cell, minlength=CELLS)
            total = np.bincount(cell, weights=reports["spd"], minlength=CELLS)
            cars.append(count)
            speeds.append(np.where(count > 0, np.rint(total / np.maximum(count, 1)), -1))
        copies = self.run.copies
        return Traffic(
            np.tile(np.concatenate(cars), copies).astype(np.int32),
            np.tile(np.concatenate(speeds), copies).astype(np.int32),
        )

    def tuples_by_second(self, minute: int) -> npt.NDArray[np.int64]:
        """How many tuples of any kind arrive in each second of a minute."""
        total = np.zeros(MINUTE, np.int64)
        for stored in range(self.run.stored):
            total += np.bincount(self.minute(stored, minute)["time"] - minute * MINUTE, minlength=MINUTE)
        return total * self.run.copies

    def place(self, xway: int) -> tuple[int, int] | None:
        """Which stored expressway and copy an expressway's number means."""
        copy, own = divmod(xway, self.run.xway_stride)
        stored = next((k for k, e in enumerate(self.run.manifest.expressways) if e.xway == own), None)
        return (stored, copy) if stored is not None and 0 <= copy < self.run.copies else None


def cell_of(reports: Columns) -> npt.NDArray[np.int64]:
    """The cell of each report within its expressway."""
    return reports["dir"].astype(np.int64) * SEGMENTS + reports["pos"] // MILE
