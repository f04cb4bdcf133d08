"""The engine's state as cuboids that can be queried while it runs: car, segment, accident, account.

They are the engine's own tables, written in a form for readers when a batch is saved. CAR follows the thesis: the
latest report of a vehicle and the pasts of its speed and segment. SEGMENT and ACCIDENT are derived from the minutes'
statistics.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from slipstream._cuboid.schema import AST, KEY, Plain, Schema
from slipstream._cuboid.snapshots import publish
from slipstream._feeds.tuples import SEGMENTS
from slipstream._linear_road.state.accounts import ACCOUNT
from slipstream._linear_road.state.cars import CAR_BITS, CELLS, NOWHERE, PAST
from slipstream._linear_road.state.toll_fragment import SPEED_MINUTES, TollFragment
from slipstream._tools.numba_tools import Longs

_REPORT = (Plain("time", "i4"), Plain("xway", "i4"), Plain("lane", "u1"), Plain("dir", "u1"), Plain("pos", "i4"))
CAR = Schema("CAR", (*_REPORT, AST("speed", "u1", PAST), AST("segment", "u1", PAST)), key="vid", newest="time")

#: key: 200 * xway + 100 * direction + segment. What applies in the minute, and the previous minutes, latest first.
SEGMENT = Schema(
    "SEGMENT",
    (
        *(Plain(name, "i4") for name in ("xway", "dir", "segment", "minute", "lav", "toll", "alert")),
        AST("cars", "i4", SPEED_MINUTES),
        AST("speed", "f4", SPEED_MINUTES),
    ),
    key="segment_id",
)

#: key as in SEGMENT; the last minute in which the accident was seen. The row is removed when the road is clear.
ACCIDENT = Schema(
    "ACCIDENT", tuple(Plain(name, "i4") for name in ("xway", "dir", "segment", "minute")), key="segment_id"
)

CUBOIDS = {"car": CAR, "segment": SEGMENT, "accident": ACCIDENT, "account": replace(ACCOUNT, key="vid")}


_VID = (1 << CAR_BITS) - 1


@dataclass(frozen=True)
class _CarView:
    """The cars of a fragment as readers see them: by vehicle, without those that have expired.

    A vehicle that changed between expressways of the fragment appears where it reported last. ``before`` is the
    horizon at the last publication.
    """

    toll: TollFragment
    before: int
    schema: ClassVar[Schema] = CAR

    def rows(self, held: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        """Return the rows of cars, by vehicle."""
        held = held[(held["time"] >= self.toll.horizon) & (held["speed#"] > 0)]
        held = held[np.argsort(held["time"], kind="stable")[::-1]]
        _, latest = np.unique(held[KEY] & _VID, return_index=True)
        held = held[latest]
        made = np.zeros(held.size, CAR.dtype)
        made[KEY] = held[KEY] & _VID
        made["xway"] = np.array(self.toll.xways, np.int64)[held[KEY] >> CAR_BITS]
        for name in ("time", "lane", "dir", "pos", "speed", "speed#", "segment", "segment#"):
            made[name] = held[name]
        return made

    def gone(self, forgotten: Longs) -> Longs:
        """Return the vehicles whose last report is before the horizon, which moves once a minute."""
        if self.toll.horizon == self.before:
            return np.empty(0, np.int64)
        keys, time = self.toll.cars.rows[KEY], self.toll.cars.rows["time"]
        old = keys[(time >= self.before) & (time < self.toll.horizon)]
        vehicles = np.unique(np.concatenate([forgotten, old]) & _VID)
        return np.asarray(vehicles[~np.isin(vehicles, keys[time >= self.toll.horizon] & _VID)])


@dataclass
class RoadPublisher:
    """Publishes the road of a fragment, and remembers what was published last."""

    horizon: int = 0
    derived: tuple[int, int] = (-1, 0)  # minute and number of expressways of the published segments and accidents

    def publish(self, toll: TollFragment, snapshot: Path, number: int, batch: int) -> None:
        """Publish the changes of a fragment in ``batch``, after it was saved."""
        publish.publish(snapshot, "car", number, batch, toll.cars, _CarView(toll, self.horizon))
        self.horizon = toll.horizon
        now = (toll.minute, len(toll.xways))
        if now != self.derived and toll.xways:
            publish.publish_rows(snapshot, "segment", number, batch, SEGMENT, segments(toll))
            publish.publish_rows(snapshot, "accident", number, batch, ACCIDENT, accidents(toll))
            self.derived = now


def _places(schema: Schema, xways: npt.NDArray[np.int64], cells: npt.NDArray[np.int64]) -> npt.NDArray[np.void]:
    """Return rows for some cells of a fragment's expressways."""
    rows = np.zeros(cells.size, schema.dtype)
    rows["xway"] = xways[cells // CELLS]
    rows["dir"], rows["segment"] = cells % CELLS // SEGMENTS, cells % SEGMENTS
    rows[KEY] = rows["xway"].astype(np.int64) * CELLS + cells % CELLS
    return rows


def segments(toll: TollFragment) -> npt.NDArray[np.void]:
    """Return what applies now in every segment, and its last minutes."""
    prices = toll.current_prices()
    rows = _places(SEGMENT, np.array(toll.xways, np.int64), np.arange(prices.lav.size))
    rows["minute"], rows["lav"], rows["toll"], rows["alert"] = toll.minute, prices.lav, prices.toll, prices.alert
    held = min(SPEED_MINUTES, toll.minute - 1)
    rows["cars#"] = rows["speed#"] = max(held, 0)
    for back in range(held):
        then = toll.minutes.get(toll.minute - 1 - back)
        cars = then.minute.cars if then is not None else np.zeros(rows.size, np.int32)
        speeds = then.minute.speeds if then is not None else np.zeros(rows.size)
        rows["cars"][:, held - 1 - back] = cars
        rows["speed"][:, held - 1 - back] = np.where(cars > 0, speeds / np.maximum(cars, 1), np.nan)
    return rows


def accidents(toll: TollFragment) -> npt.NDArray[np.void]:
    """Return the segments in which an accident was seen in the minutes that count for alerts."""
    last = np.full(len(toll.xways) * CELLS, NOWHERE)
    for back in range(toll.rules.accident_minutes, 0, -1):
        if (then := toll.minutes.get(toll.minute - back)) is not None:
            last[: then.accident.size][then.accident] = toll.minute - back
    cells = np.flatnonzero(last != NOWHERE)
    rows = _places(ACCIDENT, np.array(toll.xways, np.int64), cells)
    rows["minute"] = last[cells]
    return rows
