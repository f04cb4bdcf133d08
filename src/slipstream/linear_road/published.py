"""The engine's state as cuboids that others can query while it runs: car, segment, accident, account.

CAR is the thesis': the latest report of a vehicle and the pasts of its speed and segment, kept beside the engine's own
state, in the state store like it, and asked the continuous queries at every report. SEGMENT and ACCIDENT follow from
the prices. ACCOUNT is the engine's. Stages that publish are subclasses of those that do not, so a run without a
snapshot pays nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstream.cuboid import declare, publish
from slipstream.cuboid.files import FILE, FOLDER, Catalogue
from slipstream.cuboid.fragment import Fragment
from slipstream.cuboid.keeper import Keeper
from slipstream.cuboid.schema import AST, KEY, Plain, Schema
from slipstream.cuboid.sql import Query
from slipstream.cuboid.views import joined
from slipstream.errors import BadArgument
from slipstream.feeds import trains
from slipstream.feeds.tuples import MILE, SEGMENTS
from slipstream.io.outputs import JOURNAL
from slipstream.linear_road.accounts import ACCOUNT, Accounts
from slipstream.linear_road.cars import CELLS, FORGET_AFTER, NOWHERE
from slipstream.linear_road.fragment import SPEED_MINUTES, TollFragment
from slipstream.linear_road.query import AccountStage, TollStage
from slipstream.linear_road.stages import Hop, trains_of
from slipstream.runtime.stage import batch_number
from slipstream.runtime.store import Store

_REPORT = (Plain("time", "i4"), Plain("xway", "i4"), Plain("lane", "u1"), Plain("dir", "u1"), Plain("pos", "i4"))
CAR = Schema("CAR", (*_REPORT, AST("speed", "u1", 6), AST("segment", "u1", 6)), key="vid", newest="time")

#: key: 200 * xway + 100 * direction + segment. What holds in the minute, and the minutes before it, the last one first.
SEGMENT = Schema(
    "SEGMENT",
    (
        *(Plain(name, "i4") for name in ("xway", "dir", "segment", "minute", "lav", "toll", "alert")),
        AST("cars", "i4", SPEED_MINUTES),
        AST("speed", "f4", SPEED_MINUTES),
    ),
    key="segment_id",
)

#: key as of a segment; the last minute in which the accident was seen. A row goes when the road is clear.
ACCIDENT = Schema(
    "ACCIDENT", tuple(Plain(name, "i4") for name in ("xway", "dir", "segment", "minute")), key="segment_id"
)

CUBOIDS = {"car": CAR, "segment": SEGMENT, "accident": ACCIDENT, "account": replace(ACCOUNT, key="vid")}


@dataclass(frozen=True)
class Watch:
    """Where the snapshot goes, and the continuous queries over CAR."""

    snapshot: str
    queries: dict[str, Query] = field(default_factory=dict)


def prepare(out: Path, *, snapshot: bool, script: str = "") -> Watch | None:
    """Lay out the snapshot of an engine's folder, if one is wanted."""
    wanted, there = snapshot or bool(script), (out / FOLDER / FILE).exists()
    if (out / "checkpoint" / "offsets").exists() and wanted != there:
        raise BadArgument(
            f"{out} was begun {'with' if there else 'without'} --snapshot.",
            hint="Go on as it was begun, or start afresh.",
        )
    if not wanted:
        return None
    said = declare.parse(script)
    if said.cuboids or said.selects:
        raise BadArgument(
            "The engine's queries are CREATE PATTERN and CREATE QUERY.", hint="FROM car, at every report."
        )
    queries = {name: Query.parse(text, {"car": CAR}, said.patterns) for name, text in said.queries.items()}
    for name, query in queries.items():
        query.check_continuous(name)
    Catalogue(CUBOIDS, said.patterns, journal=f"../{JOURNAL}").write(out / FOLDER)
    return Watch(str((out / FOLDER).absolute()), queries)


@dataclass
class Watched:
    """The state of a toll stage, and what is published beside it."""

    toll: TollFragment
    cars: Keeper
    segments: Fragment = field(default_factory=lambda: Fragment(SEGMENT))
    accidents: Fragment = field(default_factory=lambda: Fragment(ACCIDENT))
    second: int = 0
    derived: tuple[int, int] = (-1, 0)  # the minute and the expressways that segments and accidents are of


class WatchedTollStage(TollStage):
    """The toll stage; its cars, segments and accidents are published."""

    maps = (*TollStage.maps, "seen")

    def __init__(self, watch: Watch, *rest: Any) -> None:
        super().__init__(*rest)
        self._watch = watch

    def fresh(self) -> Any:
        """An empty road."""
        return Watched(super().fresh(), Keeper(CAR))

    def load(self, stores: list[Store]) -> Any:
        """Both from the store."""
        return Watched(super().load(stores[:-1]), Keeper.load(CAR, stores[-1]))

    def take(self, state: Any, rows: list[Any]) -> Iterator[Hop]:
        """Trains in, answers and charges out; and the reports into CAR."""
        hops = [Hop(*row) for row in rows]
        state.cars.take(*_reports(hops), self._watch.queries)
        state.second = max([state.second, *(hop.second for hop in hops)])
        return super().take(state.toll, rows)

    def save(self, state: Any, stores: list[Store]) -> None:
        """Write what changed, and publish it."""
        super().save(state.toll, stores[:-1])
        horizon = (state.toll.minute - 1) * 60 - FORGET_AFTER
        cars = state.cars
        now = (state.toll.minute, len(state.toll.xways))
        if now != state.derived:
            cars.fragment.remove(cars.fragment.rows[KEY][cars.fragment.rows["time"] < horizon])
        cars.save_recent(state.second, stores[-1], "time", horizon)
        batch, snapshot = batch_number(), Path(self._watch.snapshot)
        if now != state.derived and state.toll.xways:
            with cars.timed("derive"):
                publish.become(state.segments, segments(state.toll))
                publish.become(state.accidents, accidents(state.toll))
                publish.publish(snapshot, "segment", self.key, batch, state.segments)
                publish.publish(snapshot, "accident", self.key, batch, state.accidents)
        state.derived = now
        cars.publish(snapshot, "car", self.key, batch)


class WatchedAccountStage(AccountStage):
    """The account stage; its accounts are published."""

    def __init__(self, watch: Watch, *rest: Any) -> None:
        super().__init__(*rest)
        self._watch = watch

    def save(self, state: Accounts, stores: list[Store]) -> None:
        """Write what changed, and publish it."""
        super().save(state, stores)
        publish.publish(Path(self._watch.snapshot), "account", self.key, batch_number(), state.accounts)


def _reports(hops: list[Hop]) -> tuple[npt.NDArray[np.int64], dict[str, npt.NDArray[Any]]]:
    """The position reports of a batch, in the order of time, as CAR takes them."""
    return joined(CAR, [_columns(train) for train in sorted(trains_of(hops), key=lambda train: train.second)])


def _columns(train: trains.Train) -> dict[str, npt.NDArray[Any]]:
    return {
        KEY: train.vid.astype(np.int64),
        "time": np.full(train.vid.size, train.second, np.int32),
        "xway": train.xway,
        "lane": train.lane_dir % 8,
        "dir": train.lane_dir // 8,
        "pos": train.pos,
        "speed": train.spd,
        "segment": (train.pos // MILE).astype(np.uint8),
    }


def _places(schema: Schema, xways: npt.NDArray[np.int64], cells: npt.NDArray[np.int64]) -> npt.NDArray[np.void]:
    """Rows for some cells of a fragment's expressways."""
    rows = np.zeros(cells.size, schema.dtype)
    rows["xway"] = xways[cells // CELLS]
    rows["dir"], rows["segment"] = cells % CELLS // SEGMENTS, cells % SEGMENTS
    rows[KEY] = rows["xway"].astype(np.int64) * CELLS + cells % CELLS
    return rows


def segments(toll: TollFragment) -> npt.NDArray[np.void]:
    """What holds now in every segment, and its last minutes."""
    prices = toll._current_prices()
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
    """The segments in which an accident was seen in the minutes that count for alerts."""
    last = np.full(len(toll.xways) * CELLS, NOWHERE)
    for back in range(toll.rules.accident_minutes, 0, -1):
        if (then := toll.minutes.get(toll.minute - back)) is not None:
            last[: then.accident.size][then.accident] = toll.minute - back
    cells = np.flatnonzero(last != NOWHERE)
    rows = _places(ACCIDENT, np.array(toll.xways, np.int64), cells)
    rows["minute"] = last[cells]
    return rows
