"""The engine's state as cuboids that can be queried while it runs: car, segment, accident, account.

They are the engine's own tables, written in a form for readers when a batch is saved. CAR follows the thesis: the
latest report of a vehicle and the pasts of its speed and segment. SEGMENT and ACCIDENT are derived from the minutes'
statistics.

Where vehicles are known by text, so are the cars and accounts that readers see (``Vehicles``).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from slipstream._cuboid.fragment import EMPTY, Fragment
from slipstream._cuboid.schema import AST, KEY, Plain, Schema
from slipstream._cuboid.snapshots import publish
from slipstream._feeds.tuples import SEGMENTS
from slipstream._linear_road.state.accounts import ACCOUNT
from slipstream._linear_road.state.cars import CAR_BITS, CELLS, NOWHERE, PAST
from slipstream._linear_road.state.toll_fragment import SPEED_MINUTES, TollFragment
from slipstream._runtime.state.id_numbers import Names, Register
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
CUBOIDS_BY_TEXT = CUBOIDS | {name: replace(CUBOIDS[name], text_key=True) for name in ("car", "account")}


_VID = (1 << CAR_BITS) - 1


@dataclass
class Vehicles:
    """The texts by which readers know the vehicles of a fragment.

    A snapshot has the texts of a fragment's keys from 0 on. If ``register`` has the texts of the job's numbers, these
    are of all fragments; then a fragment's vehicles get numbers of their own, in the order in which they are published.
    """

    names: Names = field(default_factory=Names)
    register: Register | None = None

    def number(self, vehicles: Longs) -> Longs:
        """Return the numbers for readers of the job's vehicles."""
        return vehicles if self.register is None else self.names.number(self.register.texts(vehicles))


def _number(vehicles: Vehicles | None, keys: Longs) -> Longs:
    return keys if vehicles is None else vehicles.number(keys)


@dataclass(frozen=True)
class _CarView:
    """The cars of a fragment as readers see them: by vehicle, without those that have expired.

    A vehicle that changed between expressways of the fragment appears where it reported last. ``before`` is the
    horizon at the last publication.
    """

    toll: TollFragment
    before: int
    vehicles: Vehicles | None

    @property
    def schema(self) -> Schema:
        """The schema that readers see."""
        return (CUBOIDS if self.vehicles is None else CUBOIDS_BY_TEXT)["car"]

    def rows(self, held: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        """Return the rows of cars, by vehicle."""
        held = held[(held["time"] >= self.toll.horizon) & (held["speed#"] > 0)]
        held = held[np.argsort(held["time"], kind="stable")[::-1]]
        _, latest = np.unique(held[KEY] & _VID, return_index=True)
        held = held[latest]
        made = np.zeros(held.size, CAR.dtype)
        made[KEY] = _number(self.vehicles, held[KEY] & _VID)
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
        return _number(self.vehicles, vehicles[~np.isin(vehicles, keys[time >= self.toll.horizon] & _VID)])


@dataclass(frozen=True)
class _AccountView:
    """Accounts as readers see them, where vehicles have other numbers for them."""

    accounts: Fragment
    vehicles: Vehicles

    @property
    def schema(self) -> Schema:
        """The schema that readers see."""
        return CUBOIDS_BY_TEXT["account"]

    def rows(self, held: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        """Return the rows with the numbers for readers."""
        made = held.astype(self.schema.dtype)
        made[KEY] = self.vehicles.number(held[KEY])
        return made

    def gone(self, forgotten: Longs) -> Longs:
        """Return the vehicles whose accounts were removed."""
        return self.vehicles.number(forgotten[self.accounts.find(forgotten) == EMPTY])


def publish_accounts(
    accounts: Fragment, snapshot: Path, number: int, batch: int, vehicles: Vehicles | None = None
) -> None:
    """Publish the changes of accounts in ``batch``, after they were saved."""
    shown = _AccountView(accounts, vehicles) if vehicles else None
    publish.publish(snapshot, "account", number, batch, accounts, shown, vehicles.names if vehicles else None)


@dataclass
class RoadPublisher:
    """Publishes the road of a fragment, and remembers what was published last."""

    horizon: int = 0
    derived: tuple[int, int] = (-1, 0)  # minute and number of expressways of the published segments and accidents

    def publish(
        self, toll: TollFragment, snapshot: Path, number: int, batch: int, vehicles: Vehicles | None = None
    ) -> None:
        """Publish the changes of a fragment in ``batch``, after it was saved."""
        view = _CarView(toll, self.horizon, vehicles)
        publish.publish(snapshot, "car", number, batch, toll.cars, view, vehicles.names if vehicles else None)
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
    rows["minute"], rows["lav"], rows["toll"], rows["alert"] = (
        toll.minute,
        prices.lav,
        prices.toll[: prices.lav.size],
        prices.alert,
    )
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
