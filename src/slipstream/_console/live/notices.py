"""What drivers were told: the price and speed of each segment, and where accidents are, minute by minute.

Read from the committed answers alone. Notifications name a vehicle and a second; the run's report of that vehicle in
that second says where it was. What was told in a minute holds for that minute.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from slipstream._console.live.batch_health import Journal
from slipstream._console.live.roads import Cells, Roads, cell_of
from slipstream._feeds.run import MINUTE
from slipstream._feeds.tuples import SEGMENTS
from slipstream._linear_road.answers import ALERT, TOLL
from slipstream._linear_road.job.journal import Batch
from slipstream._linear_road.state.cars import CELLS
from slipstream._linear_road.tables import read_rows

UNTOLD = -1
_KEPT = 240


@dataclass
class Word:
    """What was told in a minute, by cell; UNTOLD where nobody asked."""

    toll: Cells
    lav: Cells
    accident: npt.NDArray[np.bool_]

    @classmethod
    def nothing(cls, cells: int) -> Word:
        """Nobody was told anything."""
        return cls(np.full(cells, UNTOLD, np.int32), np.full(cells, UNTOLD, np.int32), np.zeros(cells, np.bool_))

    def or_else(self, before: Word) -> Word:
        """This, and where nothing was told, what was told before."""
        known = self.toll != UNTOLD
        return Word(
            np.where(known, self.toll, before.toll),
            np.where(known, self.lav, before.lav),
            self.accident | before.accident,
        )


class Told:
    """The answers in an engine's folder, looked at by minute."""

    def __init__(self, roads: Roads, out: Path) -> None:
        self._roads = roads
        self._out = out
        self._cells = len(roads.xways) * CELLS
        self._minutes: OrderedDict[int, tuple[set[int], Word]] = OrderedDict()

    def at(self, second: int, journal: Journal) -> Word:
        """What holds at a second; early in a minute, what the minute before told fills the gaps."""
        minute = second // MINUTE
        now, before = self.minute(minute, journal), self.minute(minute - 1, journal)
        return now.or_else(before) if second % MINUTE < MINUTE // 2 else Word(*_filled(now, before), now.accident)

    def minute(self, minute: int, journal: Journal) -> Word:
        """What was told in a minute (0 is the first), by the batches committed so far."""
        read, word = self._minutes.setdefault(minute, (set(), Word.nothing(self._cells)))
        for batch in journal.of_minute(minute):
            if batch.batch not in read:
                self._take(word, minute, batch)
                read.add(batch.batch)
        while len(self._minutes) > _KEPT:
            self._minutes.popitem(last=False)
        return word

    def _take(self, word: Word, minute: int, batch: Batch) -> None:
        answers = read_answers(self._out, batch.batch, kinds=(TOLL, ALERT))
        mine = answers["time"] // MINUTE == minute
        kind, time, vid, a, b = (answers[name][mine] for name in ("kind", "time", "vid", "a", "b"))
        cell = self._cells_of(time, vid)
        tolls, alerts = (kind == TOLL) & (cell >= 0), (kind == ALERT) & (cell >= 0)
        word.toll[cell[tolls]], word.lav[cell[tolls]] = b[tolls], a[tolls]
        word.accident[cell[alerts] - cell[alerts] % SEGMENTS + a[alerts]] = True

    def _cells_of(self, time: npt.NDArray[np.int64], vid: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Where each vehicle was at its time: a cell of the city, or -1."""
        if not time.size:
            return np.empty(0, np.int64)
        stride, stored = self._roads.run.manifest.vid_stride, self._roads.run.stored
        keys, cells = [], []
        for place in range(stored):
            reports = self._roads.reports(place, int(time.min()), int(time.max()) + 1)
            keys.append(reports["time"].astype(np.int64) << 32 | reports["vid"])
            cells.append(cell_of(reports) + place * CELLS)
        known, where = np.concatenate(keys), np.concatenate(cells)
        order = np.argsort(known)
        known, where = known[order], where[order]
        copy, own = np.divmod(vid, stride) if self._roads.run.copies > 1 else (np.zeros_like(vid), vid)
        wanted = time << 32 | own
        at = np.minimum(np.searchsorted(known, wanted), known.size - 1)
        found = known[at] == wanted if known.size else np.zeros(wanted.size, np.bool_)
        return np.where(found, where[at] + copy * stored * CELLS, -1) if known.size else np.full(wanted.size, -1)


def _filled(now: Word, before: Word) -> tuple[Cells, Cells]:
    both = now.or_else(before)
    return both.toll, both.lav


def read_answers(out: Path, batch: int, kinds: tuple[int, ...]) -> dict[str, npt.NDArray[np.int64]]:
    """The answers of a committed batch of some kinds, as columns."""
    table = read_rows(out, kinds, batch, batch)
    return {name: table.column(name).to_numpy().astype(np.int64) for name in table.column_names}
