"""The toll state of some expressways: cars, the last minutes' statistics, accidents, and the resulting prices.

Prices apply for a minute and follow from the minutes before, so they are computed once a minute for all segments at
once by a rule set's toll function, and the kernel only looks them up. The class does not depend on Spark: it takes
trains, returns columns, and writes its changes to a store.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from slipstream._cuboid.fragment import EMPTY, Fragment, append_all
from slipstream._cuboid.log import DeltaLog, compress_rows, decompress_rows
from slipstream._cuboid.query.access import Ring
from slipstream._cuboid.query.relations import ArrivedTuples, append_and_show
from slipstream._cuboid.schema import KEY, Schema
from slipstream._feeds.trains import FeedTrain
from slipstream._feeds.tuples import CLASS_STEP, SEGMENTS
from slipstream._linear_road.general import SegmentMinute
from slipstream._linear_road.rules import Rules
from slipstream._linear_road.schedule import Irregular
from slipstream._linear_road.state.accidents import Collision, Stops, cells_with_accident
from slipstream._linear_road.state.cars import (
    CAR_BITS,
    CELLS,
    NOWHERE,
    PLACE_BITS,
    VISITS,
    Minute,
    MinuteReports,
    Prices,
    Terms,
    allocate_output,
    car_keys,
    compile_for,
)
from slipstream._runtime.state.store import Store
from slipstream._tools.numba_tools import Bools, Bytes, Ints, Longs

SPEED_MINUTES = 5


class Entries(NamedTuple):
    """Reports that entered a segment, with the notification for each."""

    vid: Ints
    time: Ints
    lav: Ints
    toll: Longs
    alert: Ints  # NOWHERE: no alert
    arrived: Longs  # milliseconds


class Charges(NamedTuple):
    """Tolls charged; credits are negative."""

    vid: Ints
    time: Ints
    amount: Longs


_INTS, _LONGS = np.empty(0, np.int32), np.empty(0, np.int64)
NO_ENTRIES = Entries(_INTS, _INTS, _INTS, _LONGS, _INTS, _LONGS)
NO_CHARGES = Charges(_INTS, _INTS, _LONGS)


#: one segment in a minute, as it is stored
_STATISTICS = np.dtype([("cars", "<i4"), ("speeds", "<f8"), ("accident", "?")])


@dataclass
class MinuteStatistics:
    """One minute of all segments."""

    minute: Minute
    accident: Bools

    @classmethod
    def blank(cls, expressways: int) -> MinuteStatistics:
        """Return statistics without reports."""
        cells = expressways * CELLS
        return cls(Minute(np.zeros(cells, np.int32), np.zeros(cells)), np.zeros(cells, np.bool_))

    def widen(self, expressways: int) -> None:
        """Make room for more expressways."""
        more = expressways * CELLS - self.accident.size
        if more > 0:
            cars, speeds = np.pad(self.minute.cars, (0, more)), np.pad(self.minute.speeds, (0, more))
            self.minute, self.accident = Minute(cars, speeds), np.pad(self.accident, (0, more))

    def encode(self) -> bytes:
        """Encode as bytes."""
        rows = np.empty(self.accident.size, _STATISTICS)
        rows["cars"], rows["speeds"], rows["accident"] = *self.minute, self.accident
        return compress_rows(rows, _STATISTICS.itemsize)

    @classmethod
    def decode(cls, blob: bytes) -> MinuteStatistics:
        """Decode from bytes."""
        rows = np.frombuffer(decompress_rows(blob, _STATISTICS.itemsize), _STATISTICS)
        cars, speeds, accident = (np.ascontiguousarray(rows[name]) for name in ("cars", "speeds", "accident"))
        return cls(Minute(cars, speeds), accident)


@dataclass
class TollFragment:
    """Cars and segments of some expressways."""

    rules: Rules
    cars: Fragment = field(init=False)
    visits: Fragment = field(default_factory=lambda: Fragment(VISITS))
    xways: list[int] = field(default_factory=list)
    minutes: dict[int, MinuteStatistics] = field(default_factory=dict)
    stops: Stops = field(default_factory=Stops.none)
    minute: int = 0
    first: int = -1  # the second of the first report, -1 before it
    irregular: list[Irregular] = field(default_factory=list)  # since they were last taken
    keeps_past: bool = False  # of each car, for readers
    shows_arrivals: bool = False  # to continuous queries
    arrivals: list[ArrivedTuples] = field(default_factory=list)  # since they were last taken
    _prices: Prices | None = None
    _places: dict[int, int] = field(default_factory=dict)
    _log: DeltaLog = field(default_factory=DeltaLog)
    _visits_log: DeltaLog = field(default_factory=DeltaLog)
    _second: int = 0
    _unsaved: set[int] = field(default_factory=set)
    _stored: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.cars = Fragment(self.terms.car(keeps_past=self.keeps_past))

    @property
    def terms(self) -> Terms:
        """The conditions on these roads."""
        return Terms.of(self.rules.road)

    @property
    def horizon(self) -> int:
        """The second before which a car's last report has expired."""
        return (self.minute - 1) * 60 - self.terms.forget_after

    def take(self, trains: list[FeedTrain]) -> tuple[Entries, Charges]:
        """Process trains of whole seconds, in time order."""
        parts = [(NO_ENTRIES, NO_CHARGES)]
        trains = sorted((train for train in trains if train.vid.size), key=lambda train: train.second)
        first = 0
        for end in range(1, len(trains) + 1):
            if end == len(trains) or trains[end].second // 60 != trains[first].second // 60:
                parts.append(self._take_minute(trains[first:end]))
                first = end
        entries, charges = zip(*parts, strict=True)
        return Entries(*map(np.concatenate, zip(*entries, strict=True))), Charges(
            *map(np.concatenate, zip(*charges, strict=True))
        )

    def _take_minute(self, trains: list[FeedTrain]) -> tuple[Entries, Charges]:
        time = np.concatenate([np.full(train.vid.size, train.second, np.int32) for train in trains])
        vid, xway, spd, lane_dir, pos = (
            np.concatenate([getattr(train, name) for train in trains])
            for name in ("vid", "xway", "spd", "lane_dir", "pos")
        )
        arrived = np.repeat([train.arrived for train in trains], [train.vid.size for train in trains])
        return self.take_minute(time, vid, xway, spd, lane_dir, pos, arrived)

    def take_minute(
        self, time: Ints, vid: Ints, xway: Ints, spd: Bytes, lane_dir: Bytes, pos: Ints, arrived: Longs
    ) -> tuple[Entries, Charges]:
        """Process the reports of one minute: whole seconds, in time order."""
        local = self._find_local(xway)
        reports = MinuteReports(time, vid, local, spd, lane_dir, pos)
        self.first = int(time[0]) if self.first < 0 else self.first
        self._roll(int(time[0]) // 60 + 1)
        self._second = int(time[-1])
        prices = self.current_prices()
        # moving cars report twice a minute, so half a minute sweeps all of them
        self.cars.sweep("time", self.horizon if self.keeps_past else int(time[0]) - self.terms.forget_after, vid.size)
        self.cars.make_room(vid.size)
        self.visits.make_room(vid.size)
        if self.keeps_past:
            self._forget_pasts(reports)
        output = allocate_output(vid.size)
        compile_for(self.terms)(
            reports,
            self.cars.parts,
            self.visits.parts,
            self.minutes[self.minute].minute,
            self.minute,
            prices,
            self.rules.base_credit,
            self.first + self.terms.every,
            output,
        )
        if self.keeps_past:
            self._append_pasts(reports, xway)
        entered, charged, stopped = output.counts
        self.stops = self.stops.plus(
            Stops(output.stop_car[:stopped], output.stop_time[:stopped], output.stop_place[:stopped])
        )
        at, cell = output.entry[:entered], output.entry_cell[:entered]
        quoted = cell if prices.toll.size == prices.lav.size else _find_class(lane_dir[at]) * prices.lav.size + cell
        entries = Entries(vid[at], time[at], prices.lav[cell], prices.toll[quoted], prices.alert[cell], arrived[at])
        self.irregular.append(Irregular(*output.irregular.tolist()))
        return entries, Charges(output.charge_vid[:charged], output.charge_time[:charged], output.charge[:charged])

    def _forget_pasts(self, reports: MinuteReports) -> None:
        """Clear the pasts of cars that have expired, whether or not their rows have been swept."""
        rows = self.cars.find(car_keys(reports.local, reports.vid))
        rows = rows[rows != EMPTY]
        held = self.cars.parts.rows
        silent = rows[held["time"][rows] < self.horizon]
        for past in ("speed", "segment"):
            held[past][silent] = held[f"{past}#"][silent] = 0

    def _append_pasts(self, reports: MinuteReports, xway: Ints) -> None:
        """Append reports to the pasts of their cars; queries see each report with the past at that time."""
        rows, held = self.cars.find(car_keys(reports.local, reports.vid)), self.cars.parts.rows
        pasts = {"speed": reports.spd, "segment": (reports.pos // self.terms.length).astype(np.uint8)}
        if not self.shows_arrivals:
            for name, values in pasts.items():
                append_all(held[name], held[f"{name}#"], rows, values)
            return
        rings = {
            name: Ring(*append_and_show(held[name], held[f"{name}#"], rows, values)) for name, values in pasts.items()
        }
        plains: dict[str, npt.NDArray[Any]] = {
            KEY: reports.vid.astype(np.int64),
            "time": reports.time,
            "xway": xway,
            "lane": reports.lane_dir % 8,
            "dir": reports.lane_dir >> 3 & 1,
            "pos": reports.pos,
        }
        self.arrivals.append(ArrivedTuples(plains, rings))

    def take_irregular(self) -> Irregular:
        """Return the reports off schedule since the last call."""
        found, self.irregular = Irregular.total(self.irregular), []
        return found

    def _find_local(self, xway: Ints) -> Ints:
        """Return the index of each report's expressway within the fragment; new ones are appended."""
        # reports usually come expressway by expressway: one lookup for each run of equal ones
        starts = np.concatenate([[0], np.flatnonzero(xway[1:] != xway[:-1]) + 1])
        return np.repeat(self._look_up(xway[starts]), np.diff(starts, append=xway.size))

    def _look_up(self, xway: Ints) -> Ints:
        known = np.sort(np.array(self.xways, np.int64))
        at = np.searchsorted(known, xway)
        found = known[np.minimum(at, known.size - 1)] == xway if known.size else np.zeros(xway.size, np.bool_)
        if not found.all():
            for number in np.unique(xway[~found]).tolist():
                self._places[number] = len(self.xways)
                self.xways.append(number)
            self._prices = None
            for statistics in self.minutes.values():
                statistics.widen(len(self.xways))
            return self._look_up(xway)
        return np.array([self._places[number] for number in known.tolist()], dtype=np.int32)[at]

    def _roll(self, minute: int) -> None:
        """Start a minute: find the accidents of the previous one and drop minutes that no longer count."""
        if minute == self.minute:
            return
        if self.minute:
            start = (self.minute - 1) * 60
            hit = cells_with_accident(self.stops, start, start + 60, Collision.of(self.rules.road))
            self.minutes[self.minute].accident[hit] = True
        self.stops = self.stops.since((minute - 1) * 60 - self.terms.trip_gap - 1)
        horizon = minute - max(SPEED_MINUTES, self.rules.accident_minutes)
        self.minutes = {number: minute for number, minute in self.minutes.items() if number >= horizon}
        self.minutes[minute] = MinuteStatistics.blank(len(self.xways))
        # the accidents of the previous minute were added just now
        self._unsaved |= {self.minute, minute}
        self.minute, self._prices = minute, None
        self.visits.clear()

    def current_prices(self) -> Prices:
        """Return what applies in the current minute."""
        if self._prices is None:
            self._prices = self._compute_prices()
        return self._prices

    def _compute_prices(self) -> Prices:
        """Compute Lav, toll and alert of all segments in the current minute."""
        cells = len(self.xways) * CELLS
        blank = MinuteStatistics.blank(len(self.xways))
        total, known = np.zeros(cells), np.zeros(cells, np.int64)
        for back in range(1, SPEED_MINUTES + 1):
            cars, speeds = self.minutes.get(self.minute - back, blank).minute
            seen = cars > 0
            total[seen] += speeds[seen] / cars[seen]
            known += seen
        # sums of thirds and the like may fall just below whole numbers
        lav = np.where(known > 0, np.floor(total / np.maximum(known, 1) + 1e-9), -1).astype(np.int64)
        before = self.minutes.get(self.minute - 1, blank).minute.cars.astype(np.int64)
        alert = self._alerts(cells)
        toll = self.rules.price(self._describe(lav, before, alert != NOWHERE))
        return Prices(lav.astype(np.int32), toll, alert)

    def _describe(self, speed: Longs, cars: Longs, accident: Bools) -> SegmentMinute:
        """Return what tolls may depend on, for each class of vehicles and each segment."""
        road = self.rules.road
        classes = len(road.classes) if road else 1
        minute_of_day, weekday = road.local_time((self.minute - 1) * 60) if road else (-1, -1)
        cells = np.arange(speed.size)
        return SegmentMinute(
            road=np.tile(np.array(self.xways, np.int64)[cells // CELLS], classes),
            direction=np.tile(cells % CELLS // SEGMENTS, classes),
            segment=np.tile(cells % SEGMENTS, classes),
            vehicle_class=np.repeat(np.arange(classes), speed.size),
            minute_of_day=np.full(classes * speed.size, minute_of_day),
            weekday=np.full(classes * speed.size, weekday),
            speed=np.tile(speed, classes),
            cars=np.tile(cars, classes),
            accident=np.tile(accident, classes),
        )

    def _alerts(self, cells: int) -> Ints:
        """Return the nearest segment with an accident among the next five from each segment, or NOWHERE."""
        blank = np.zeros(cells, np.bool_)
        recent = blank.copy()
        for back in range(1, self.rules.accident_minutes + 1):
            if (then := self.minutes.get(self.minute - back)) is not None:
                recent |= then.accident
        by_direction = recent.reshape(-1, 2, SEGMENTS)
        alert = np.full(by_direction.shape, NOWHERE, dtype=np.int32)
        here = np.arange(SEGMENTS)
        for ahead in range(4, -1, -1):
            for direction, there in ((0, np.minimum(here + ahead, SEGMENTS - 1)), (1, np.maximum(here - ahead, 0))):
                hit = by_direction[:, direction, there]
                alert[:, direction] = np.where(hit, there, alert[:, direction])
        return alert.reshape(-1)

    # --- starting in the middle of a run --------------------

    def advance_to(self, second: int) -> None:
        """Advance to the start of the minute that begins with ``second``, and drop cars that have expired."""
        self._roll(second // 60 + 1)
        self.cars.keep(self.cars.rows["time"] >= second - self.terms.forget_after)
        self._second = second - 1

    def add_copy(self, other: TollFragment, xway: int, vid_shift: int) -> None:
        """Add a fragment with a single expressway as expressway ``xway``, vehicles shifted."""
        local = len(self.xways)
        self.xways.append(xway)
        self._places[xway] = local
        self.minute, self.first, self._second = other.minute, other.first, other._second
        for number, theirs in other.minutes.items():
            mine = self.minutes.setdefault(number, MinuteStatistics.blank(0))
            mine.widen(local + 1)
            cells = slice(local * CELLS, (local + 1) * CELLS)
            mine.minute.cars[cells], mine.minute.speeds[cells] = theirs.minute
            mine.accident[cells] = theirs.accident
        self._unsaved |= self.minutes.keys()
        stops = other.stops
        places = np.where(stops.place == NOWHERE, NOWHERE, stops.place + (local << PLACE_BITS))
        self.stops = self.stops.plus(Stops(stops.car + (local << CAR_BITS) + vid_shift, stops.time, places))
        rows = _copy_as(self.cars.schema, other.cars.rows)
        rows[KEY] += (local << CAR_BITS) + vid_shift
        self.cars.put(rows)

    # --- storage --------------------

    def save(self, cars: Store, visits: Store, minutes: Store, notes: Store) -> None:
        """Save the changes since the last save."""
        self._log.write_by(self.cars, "time", self._second, cars)
        self._log.expire(self.horizon, cars)
        self._visits_log.expire((self.minute - 1) * 60, visits)
        self._visits_log.write(self._second, self.visits.delta(), self.visits, visits)
        for number in sorted(self._unsaved & self.minutes.keys()):
            minutes.put(number, self.minutes[number].encode())
        for number in self._stored - self.minutes.keys():
            minutes.remove(number)
        self._stored, self._unsaved = set(self.minutes), {self.minute}
        first = np.array([self.first], np.int32)
        columns: list[Any] = [np.array(self.xways, np.int64), self.stops.car, self.stops.time, self.stops.place, first]
        for number, column in enumerate(columns):
            notes.put(number, compress_rows(column, column.itemsize))

    @classmethod
    def load(
        cls, rules: Rules, cars: Store, visits: Store, minutes: Store, notes: Store, *, keeps_past: bool = False
    ) -> TollFragment:
        """Load the fragment as last saved."""
        fragment = cls(rules, keeps_past=keeps_past)
        fragment._log.load(fragment.cars, cars)
        fragment._visits_log.load(fragment.visits, visits)
        fragment.minutes = {number: MinuteStatistics.decode(blob) for number, blob in minutes.items()}
        fragment.minute = max(fragment.minutes, default=0)
        types = (np.int64, np.int64, np.int32, np.int64, np.int32)
        blobs = dict(notes.items())
        xways, car, time, place, first = (
            np.frombuffer(decompress_rows(blobs[number], np.dtype(kind).itemsize), kind)
            for number, kind in enumerate(types)
        )
        fragment.xways, fragment.first = xways.tolist(), int(first[0])
        fragment._places = {xway: place for place, xway in enumerate(fragment.xways)}
        for statistics in fragment.minutes.values():
            statistics.widen(len(fragment.xways))
        fragment.stops = Stops(car, time, place)
        fragment._stored, fragment._unsaved = set(fragment.minutes), {fragment.minute}
        return fragment


def _find_class(lane_dir: Bytes) -> Longs:
    """Return the classes of the vehicles of reports."""
    return (lane_dir // CLASS_STEP).astype(np.int64)


def _copy_as(schema: Schema, rows: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    """Copy rows into another schema; missing fields are zero."""
    if rows.dtype == schema.dtype:
        return rows.copy()
    made = np.zeros(rows.size, schema.dtype)
    for name in rows.dtype.names or ():
        made[name] = rows[name]
    return made
