"""Notifications by minute: the toll and speed of each segment, and the accidents, as sent to drivers.

Read from the committed answers only. A notification has a vehicle and a second; the run's report of that vehicle in
that second has its position. A minute's notifications apply to that minute.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from slipstream._console.live.batch_health import FollowedJournal
from slipstream._console.live.live_roads import Cells, LiveRoads, find_cell
from slipstream._feeds.run import MINUTE
from slipstream._feeds.tuples import SEGMENTS
from slipstream._linear_road.answers import ALERT, TOLL
from slipstream._linear_road.job.toll_journal import TollBatch
from slipstream._linear_road.output_tables import read_rows
from slipstream._linear_road.state.cars import CELLS

NO_DATA = -1
#: minutes to cache
_CACHED = 240


@dataclass
class MinuteNotices:
    """Latest toll, Lav and accident per segment in a minute; NO_DATA where no notification was sent."""

    toll: Cells
    lav: Cells
    accident: npt.NDArray[np.bool_]

    @classmethod
    def empty(cls, cells: int) -> MinuteNotices:
        """Return notices without data."""
        return cls(np.full(cells, NO_DATA, np.int32), np.full(cells, NO_DATA, np.int32), np.zeros(cells, np.bool_))

    def fill_from(self, before: MinuteNotices) -> MinuteNotices:
        """Return these notices, with missing ones taken from an earlier minute."""
        known = self.toll != NO_DATA
        return MinuteNotices(
            np.where(known, self.toll, before.toll),
            np.where(known, self.lav, before.lav),
            self.accident | before.accident,
        )


class Notices:
    """The notifications in an engine's folder, by minute."""

    def __init__(self, roads: LiveRoads, out: Path) -> None:
        self._roads = roads
        self._out = out
        self._cells = len(roads.xways) * CELLS
        self._minutes: OrderedDict[int, tuple[set[int], MinuteNotices]] = OrderedDict()

    def at(self, second: int, journal: FollowedJournal) -> MinuteNotices:
        """Return what applies at a second; gaps are filled from the previous minute."""
        minute = second // MINUTE
        now = self.minute(minute, journal)
        filled = now.fill_from(self.minute(minute - 1, journal))
        # in the second half of a minute, an accident without new alerts is over
        return filled if second % MINUTE < MINUTE // 2 else replace(filled, accident=now.accident)

    def minute(self, minute: int, journal: FollowedJournal) -> MinuteNotices:
        """Return the notices of a minute (0 is the first) in the batches committed so far."""
        read, notices = self._minutes.setdefault(minute, (set(), MinuteNotices.empty(self._cells)))
        for batch in journal.of_minute(minute):
            if batch.batch not in read:
                self._add(notices, minute, batch)
                read.add(batch.batch)
        while len(self._minutes) > _CACHED:
            self._minutes.popitem(last=False)
        return notices

    def _add(self, notices: MinuteNotices, minute: int, batch: TollBatch) -> None:
        answers = read_batch_answers(self._out, batch.batch, kinds=(TOLL, ALERT))
        mine = answers["time"] // MINUTE == minute
        kind, time, vid, a, b = (answers[name][mine] for name in ("kind", "time", "vid", "a", "b"))
        cell = self._find_cells(time, vid)
        tolls, alerts = (kind == TOLL) & (cell >= 0), (kind == ALERT) & (cell >= 0)
        notices.toll[cell[tolls]], notices.lav[cell[tolls]] = b[tolls], a[tolls]
        notices.accident[cell[alerts] - cell[alerts] % SEGMENTS + a[alerts]] = True

    def _find_cells(self, time: npt.NDArray[np.int64], vid: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the cell of the city in which each vehicle was at its time, or -1."""
        if not time.size:
            return np.empty(0, np.int64)
        stride, stored = self._roads.run.manifest.vid_stride, self._roads.run.stored
        keys, cells = [], []
        for place in range(stored):
            reports = self._roads.reports(place, int(time.min()), int(time.max()) + 1)
            keys.append(reports["time"].astype(np.int64) << 32 | reports["vid"])
            cells.append(find_cell(reports) + place * CELLS)
        known, where = np.concatenate(keys), np.concatenate(cells)
        order = np.argsort(known)
        known, where = known[order], where[order]
        copy, own = np.divmod(vid, stride) if self._roads.run.copies > 1 else (np.zeros_like(vid), vid)
        wanted = time << 32 | own
        at = np.minimum(np.searchsorted(known, wanted), known.size - 1)
        found = known[at] == wanted if known.size else np.zeros(wanted.size, np.bool_)
        return np.where(found, where[at] + copy * stored * CELLS, -1) if known.size else np.full(wanted.size, -1)


def read_batch_answers(out: Path, batch: int, kinds: tuple[int, ...]) -> dict[str, npt.NDArray[np.int64]]:
    """Return the answers of some kinds in a committed batch, as columns."""
    table = read_rows(out, kinds, batch, batch)
    return {name: table.column(name).to_numpy().astype(np.int64) for name in table.column_names}
