"""The CAR cuboid and the kernel that applies position reports to it.

One pass over the reports of a minute: each finds its car in O(1), is compared with the car's previous report, counts in
the minute's statistics, and may charge a toll and quote the next one. Reports of different vehicles are independent,
so their order within a second does not matter.

What the settings of a road say is compiled into the kernel as constants (``compile_for``). The benchmark costs no more
than if there were no other rules, and a division by the length of a segment stays a multiplication.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from slipstream._cuboid.fragment import EMPTY, Parts, insert, locate, touch, touch_all
from slipstream._cuboid.schema import AST, Plain, Schema
from slipstream._feeds.trip import begins_trip
from slipstream._feeds.tuples import MILE, REPORT_EVERY, SEGMENTS
from slipstream._linear_road.general import RoadSettings
from slipstream._tools.numba_tools import Bools, Bytes, Floats, Ints, Longs, compiled

#: segments of both directions of an expressway
CELLS = 2 * SEGMENTS
NOWHERE = -1
NO_CELL = 255
#: how many reports at one place, a reporting interval apart, make a stop
STOPPED = 4

#: bits of a key below the expressway: for a car, the vehicle; for a place, direction, lane and position
CAR_BITS = 31
PLACE_BITS = 24
#: bits of a place that are its position
POS_BITS = 20

#: how many cars are looked up ahead of their reports: their rows fit into the cache
AHEAD = 512

#: The state of a car: its last report, how long it has been standing, its quote, and its reports in the minute of the
#: last one: those from the segment of the last report (``n``, ``sum``) and those from the segment before it. A car on
#: schedule reports twice a minute, so two segments suffice; others go to VISITS. A row is half a cache line, so that
#: reading a car never reads two.
CAR = Schema(
    "CAR",
    (
        Plain("time", "i4"),
        Plain("pos", "i4"),
        Plain("quote", "i4"),
        Plain("lane", "u1"),
        Plain("dir", "u1"),
        Plain("still", "u1"),
        Plain("credited", "u1"),
        Plain("n", "u1"),
        Plain("sum", "u2"),
        Plain("last_cell", "u1"),
        Plain("last_n", "u1"),
        Plain("last_sum", "u2"),
        Plain("spilled", "u1"),
    ),
)
#: CAR on a road where positions scatter: also its segment, and where and since when it has stayed. What a row has
#: besides CAR's attributes comes first: Numba takes a row that begins like another for a kind of it, and would run the
#: functions on cars that it compiled for the other.
CAR_THAT_SCATTERS = Schema(
    "CAR", (Plain("stayed_at", "i4"), Plain("stays_since", "i4"), *CAR.attributes, Plain("segment_now", "u1"))
)

#: how many elements of a car's past readers see
PAST = 6
_PASTS = (AST("speed", "u1", PAST), AST("segment", "u1", PAST))
#: CAR for readers: besides what tolling needs, the pasts of speed and segment
CAR_WITH_PAST = Schema("CAR", (*_PASTS, *CAR.attributes))

#: Reports of a car from a segment in a minute that do not fit into CAR; the key is car and segment.
VISITS = Schema("VISITS", (Plain("minute", "i4"), Plain("n", "i4"), Plain("sum", "i4")))


class Terms(NamedTuple):
    """The conditions that are compiled into the kernel; the defaults are the benchmark's."""

    length: int = MILE
    trip_gap: int = REPORT_EVERY
    every: int = REPORT_EVERY
    jitter: int = 0  # -1: reports may come at any interval
    stands_for: int = (STOPPED - 1) * REPORT_EVERY
    scatter: int = 0
    same_lane: bool = True
    exact: bool = True  # reports at one place are counted; otherwise positions scatter, and reports come at any time

    @classmethod
    def of(cls, road: RoadSettings | None) -> Terms:
        """Return the conditions of a road; None is the benchmark's."""
        if road is None:
            return cls()
        jitter = -1 if road.jitter is None else road.jitter
        rest = (road.stands_for, road.scatter, road.same_lane)
        return cls(road.segment_length, road.trip_gap, road.report_every, jitter, *rest, exact=False)

    @property
    def forget_after(self) -> int:
        """A car silent for more seconds than this is on no trip, and its minute is over."""
        return self.trip_gap + 60

    def car(self, *, keeps_past: bool) -> Schema:
        """The state of a car."""
        if self.exact:
            return CAR_WITH_PAST if keeps_past else CAR
        return Schema("CAR", (*_PASTS, *CAR_THAT_SCATTERS.attributes)) if keeps_past else CAR_THAT_SCATTERS


class MinuteReports(NamedTuple):
    """Position reports of one minute."""

    time: Ints
    vid: Ints
    local: Ints  # index of the expressway within the fragment
    spd: Bytes
    lane_dir: Bytes  # lane + 8 * direction + 16 * class of the vehicle
    pos: Ints


class Prices(NamedTuple):
    """What applies in a minute, for each segment of the fragment."""

    lav: Ints
    toll: Longs  # of the first class of vehicles, then of the second, ...
    alert: Ints  # the nearest accident's segment, NOWHERE if there is none


class Minute(NamedTuple):
    """The statistics of a minute, updated by every report."""

    cars: Ints
    speeds: Floats  # sum over cars of each car's mean speed


class KernelOutput(NamedTuple):
    """The output of the kernel: columns to be truncated to ``counts`` (entries, charges, stops)."""

    counts: Ints
    entry: Ints  # indices of the reports that entered a segment
    entry_cell: Ints  # that segment, among those of the fragment
    charge_vid: Ints
    charge_time: Ints
    charge: Longs
    stop_car: Longs
    stop_time: Ints
    stop_place: Longs
    irregular: Longs  # count, then time, vehicle and gap of the first


def allocate_output(reports: int) -> KernelOutput:
    """Allocate the output for this many reports."""
    return KernelOutput(
        np.zeros(3, dtype=np.int32),
        np.empty(reports, dtype=np.int32),
        np.empty(reports, dtype=np.int32),
        np.empty(2 * reports, dtype=np.int32),
        np.empty(2 * reports, dtype=np.int32),
        np.empty(2 * reports, dtype=np.int64),
        np.empty(reports, dtype=np.int64),
        np.empty(reports, dtype=np.int32),
        np.empty(reports, dtype=np.int64),
        np.zeros(4, dtype=np.int64),
    )


@compiled
def car_key(local: int, vid: int) -> int:
    """Return the key of a car: a vehicle on an expressway."""
    return (int(local) << CAR_BITS) | int(vid)


def car_keys(local: Ints, vid: Ints) -> Longs:
    """Return the keys of many cars."""
    return np.asarray((local.astype(np.int64) << CAR_BITS) | vid)


@compiled
def place_key(local: int, direction: int, lane: int, pos: int) -> int:
    """Return the key of a place in a travel lane."""
    return (int(local) << PLACE_BITS) | (int(direction) << 23) | (int(lane) << POS_BITS) | int(pos)


@compiled
def add_charge(output: KernelOutput, count: int, vid: int, t: int, amount: int) -> int:
    """Record a charge, or a credit as a negative charge, after ``count`` others; returns how many there are."""
    output.charge_vid[count], output.charge_time[count], output.charge[count] = vid, t, amount
    return count + 1


@compiled
def add_stop(output: KernelOutput, count: int, car: int, t: int, place: int) -> int:
    """Record that a car stands at a place, or has left it, after ``count`` others; returns how many there are."""
    output.stop_car[count], output.stop_time[count], output.stop_place[count] = car, t, place
    return count + 1


@compiled
def add_irregular(output: KernelOutput, vid: int, t: int, gap: int) -> None:
    """Count a report off schedule, and record the first."""
    first = output.irregular
    if first[0] == 0:
        first[1], first[2], first[3] = t, vid, gap
    first[0] += 1


@compiled
def begin_minute(car: Any) -> None:
    """Forget the segments of an earlier minute."""
    car.n, car.sum, car.spilled = 0, 0, 0
    car.last_cell, car.last_n, car.last_sum = NO_CELL, 0, 0


@compiled
def change_cell(car: Any, visits: Parts, key: int, before: int, cell: int, minute: int) -> None:
    """Move a car on to another segment in this minute; its reports from there so far count."""
    spare, spare_n, spare_sum = car.last_cell, car.last_n, car.last_sum
    car.last_cell, car.last_n, car.last_sum = before, car.n, car.sum
    car.n, car.sum = 0, 0
    if spare == cell:
        car.n, car.sum = spare_n, spare_sum
        return
    if spare != NO_CELL:
        row = locate(visits, key * 256 + spare)
        if row == EMPTY:
            row = insert(visits, key * 256 + spare)
        touch(visits, row)
        aside = visits.rows[row]
        aside.minute, aside.n, aside.sum = minute, spare_n, spare_sum
        car.spilled = 1
    if car.spilled:
        row = locate(visits, key * 256 + cell)
        if row != EMPTY and visits.rows[row].minute == minute:
            car.n, car.sum = visits.rows[row].n, visits.rows[row].sum


@compiled
def count_visit(car: Any, spd: int, minute: Minute, at: int) -> None:
    """Count a report in the minute's statistics: each car once, with the mean of its speeds there."""
    before = 0.0
    if car.n:
        before = car.sum / car.n
    else:
        minute.cars[at] += 1
    car.n += 1
    car.sum += spd
    minute.speeds[at] += car.sum / car.n - before


@compiled
def find_cars(reports: MinuteReports, first: int, last: int, cars: Parts, rows: Ints, fresh: Bools) -> None:
    """Find the rows of the cars of some reports, insert missing ones, and mark them as changed.

    This loop is short, so that the processor waits for the memory of many cars at once.
    """
    for i in range(first, last):
        key = car_key(reports.local[i], reports.vid[i])
        row = locate(cars, key)
        fresh[i - first] = row == EMPTY
        rows[i - first] = insert(cars, key) if row == EMPTY else row
    touch_all(cars, rows[: last - first])


@compiled
def count_reports(car: Any, same_trip: bool, t: int, lane: int, pos: int, every: int) -> int:
    """Return how many reports in a row, each ``every`` seconds after the one before, are from one place."""
    stands = same_trip and t - car.time == every and car.lane == lane and car.pos == pos
    return min(car.still + 1, 255) if stands else 1


@compiled
def count_stay(car: Any, stays: bool, t: int, pos: int, stands_for: int, scatter: int) -> int:
    """Return STOPPED if a car has stayed at about one place for long enough, else 1; remember where it stays."""
    if not stays or abs(pos - car.stayed_at) > scatter:
        car.stayed_at, car.stays_since = pos, t
    return STOPPED if t - car.stays_since >= stands_for else 1


@compiled
def find_segment(car: Any, same_trip: bool, pos: int, length: int, scatter: int) -> int:
    """Return the segment of a report: in a trip, that of the last one until the car is over the border by more."""
    begin = car.segment_now * length
    if not (same_trip and begin - scatter <= pos < begin + length + scatter):
        car.segment_now = pos // length
    return int(car.segment_now)


TakeReports = Callable[[MinuteReports, Parts, Parts, Minute, int, Prices, int, int, KernelOutput], None]


@cache
def compile_for(terms: Terms) -> TakeReports:
    """Return the kernel for a road."""
    (length, trip_gap, every, jitter, stands_for, scatter, same_lane, exact), forget = terms, terms.forget_after

    @compiled
    def take_reports(
        reports: MinuteReports,
        cars: Parts,
        visits: Parts,
        minute: Minute,
        number: int,
        prices: Prices,
        credit: int,
        known_from: int,
        output: KernelOutput,
    ) -> None:
        """Apply the reports of minute ``number``, ordered by time, to the cuboid.

        From second ``known_from`` on, every car on the road has reported before.
        """
        entries, charges, stops = 0, 0, 0  # not in memory, where they would be read again after every other write
        rows, new = np.empty(AHEAD, dtype=np.int32), np.empty(AHEAD, dtype=np.bool_)
        for i in range(reports.vid.size):
            if i % AHEAD == 0:
                find_cars(reports, i, min(i + AHEAD, reports.vid.size), cars, rows, new)
            t, vid, local, pos = reports.time[i], reports.vid[i], reports.local[i], reports.pos[i]
            lane, direction, kind = reports.lane_dir[i] & 7, reports.lane_dir[i] >> 3 & 1, reports.lane_dir[i] >> 4
            key, car, fresh = car_key(local, vid), cars.rows[rows[i % AHEAD]], new[i % AHEAD]
            gap = t - car.time if not fresh and t - car.time <= forget else -1
            in_time = jitter < 0 or abs(gap - every) <= jitter
            if lane != 0 and not in_time and (gap >= 0 or t >= known_from):
                add_irregular(output, vid, t, gap)
            same_trip = not fresh and not begins_trip(t, lane, direction, car.time, car.lane, car.dir, trip_gap)
            stood = not fresh and t - car.time <= trip_gap and car.still >= STOPPED and 1 <= car.lane <= 3
            if exact:
                segment_before, segment = car.pos // length, pos // length
                car.still = count_reports(car, same_trip, t, lane, pos, every)
            else:
                segment_before, segment = car.segment_now, find_segment(car, same_trip, pos, length, scatter)
                goes_on = same_trip and in_time and (not same_lane or car.lane == lane)
                car.still = count_stay(car, goes_on, t, pos, stands_for, scatter)
            cell = direction * SEGMENTS + segment
            at = local * CELLS + cell
            entered = not same_trip or segment != segment_before
            if same_trip and entered and car.quote > 0:
                charges = add_charge(output, charges, vid, t, car.quote)
            if entered:
                car.quote = prices.toll[kind * prices.lav.size + at] if lane != 4 else 0
                if lane != 4:
                    output.entry[entries], output.entry_cell[entries] = i, at
                    entries += 1
            car.credited = car.credited if same_trip else 0
            if credit > 0 and lane == 4 and car.credited == 0 and prices.alert[at] != NOWHERE:
                charges = add_charge(output, charges, vid, t, -credit)
                car.credited = 1
            stands = 1 <= lane <= 3 and car.still >= STOPPED
            if stands or stood:
                place = place_key(local, direction, lane if same_lane else 0, pos) if stands else NOWHERE
                stops = add_stop(output, stops, key, t, place)
            cell_before = car.dir * SEGMENTS + segment_before
            if fresh or car.time // 60 + 1 != number:
                begin_minute(car)
            elif cell != cell_before:
                change_cell(car, visits, key, cell_before, cell, number)
            count_visit(car, reports.spd[i], minute, at)
            car.time, car.pos, car.lane, car.dir = t, pos, lane, direction
        output.counts[0], output.counts[1], output.counts[2] = entries, charges, stops

    return take_reports
