"""The CAR cuboid and the kernel that applies position reports to it.

One pass over the reports of a minute: each finds its car in O(1), is compared with the car's previous report, counts in
the minute's statistics, and may charge a toll and quote the next one. Reports of different vehicles are independent,
so their order within a second does not matter.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from slipstream._cuboid.fragment import EMPTY, Parts, insert, locate
from slipstream._cuboid.schema import AST, Plain, Schema
from slipstream._feeds.trip import begins_trip
from slipstream._feeds.tuples import MILE, REPORT_EVERY, SEGMENTS
from slipstream._tools.numba_tools import Bytes, Floats, Ints, Longs, compiled

#: segments of both directions of an expressway
CELLS = 2 * SEGMENTS
NOWHERE = -1
#: a car silent for more seconds than this is on no trip, and its minute is over
FORGET_AFTER = 90

#: bits of a key below the expressway: for a car, the vehicle; for a place, direction, lane and position
CAR_BITS = 31
PLACE_BITS = 24

#: The state of a car: its last report, how long it has been standing, its quote, and its segments in the minute of that
#: report: the current and the previous one. A car on schedule reports twice a minute, so two segments suffice; others
#: go to VISITS.
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
        Plain("cell", "i2"),
        Plain("n", "u1"),
        Plain("sum", "u2"),
        Plain("last_cell", "i2"),
        Plain("last_n", "u1"),
        Plain("last_sum", "u2"),
        Plain("spilled", "u1"),
    ),
)

#: how many elements of a car's past readers see
PAST = 6
#: CAR for readers: besides what tolling needs, the pasts of speed and segment
CAR_WITH_PAST = Schema("CAR", (*CAR.attributes, AST("speed", "u1", PAST), AST("segment", "u1", PAST)))

#: Reports of a car from a segment in a minute that do not fit into CAR; the key is car and segment.
VISITS = Schema("VISITS", (Plain("minute", "i4"), Plain("n", "i4"), Plain("sum", "i4")))


class Reports(NamedTuple):
    """Position reports of one minute."""

    time: Ints
    vid: Ints
    local: Ints  # index of the expressway within the fragment
    spd: Bytes
    lane_dir: Bytes
    pos: Ints


class Prices(NamedTuple):
    """What applies in a minute, for each segment of the fragment."""

    lav: Ints
    toll: Longs
    alert: Ints  # the nearest accident's segment, NOWHERE if there is none


class Minute(NamedTuple):
    """The statistics of a minute, updated by every report."""

    cars: Ints
    speeds: Floats  # sum over cars of each car's mean speed


class KernelOutput(NamedTuple):
    """The output of the kernel: columns to be truncated to ``counts`` (entries, charges, stops)."""

    counts: Ints
    entry: Ints  # indices of the reports that entered a segment
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
    return (int(local) << PLACE_BITS) | (int(direction) << 23) | (int(lane) << 20) | int(pos)


@compiled
def add_charge(output: KernelOutput, vid: int, t: int, amount: int) -> None:
    """Record a charge, or a credit as a negative charge."""
    k = output.counts[1]
    output.charge_vid[k], output.charge_time[k], output.charge[k] = vid, t, amount
    output.counts[1] = k + 1


@compiled
def add_stop(output: KernelOutput, car: int, t: int, place: int) -> None:
    """Record that a car stands at a place, or has left it."""
    k = output.counts[2]
    output.stop_car[k], output.stop_time[k], output.stop_place[k] = car, t, place
    output.counts[2] = k + 1


@compiled
def add_irregular(output: KernelOutput, vid: int, t: int, gap: int) -> None:
    """Count a report off schedule, and record the first."""
    first = output.irregular
    if first[0] == 0:
        first[1], first[2], first[3] = t, vid, gap
    first[0] += 1


@compiled
def enter_cell(car: Any, visits: Parts, key: int, cell: int, minute: int) -> None:
    """Make ``cell`` the car's current segment in this minute, with its reports from there so far."""
    if car.cell == cell:
        return
    spare, spare_n, spare_sum = car.last_cell, car.last_n, car.last_sum
    car.last_cell, car.last_n, car.last_sum = car.cell, car.n, car.sum
    car.cell, car.n, car.sum = cell, 0, 0
    if spare == cell:
        car.n, car.sum = spare_n, spare_sum
        return
    if spare != NOWHERE:
        row = locate(visits, key * 256 + spare)
        if row == EMPTY:
            row = insert(visits, key * 256 + spare)
        visits.touched[row] = True
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
def take_reports(
    reports: Reports,
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
    for i in range(reports.vid.size):
        t, vid, local, pos = reports.time[i], reports.vid[i], reports.local[i], reports.pos[i]
        lane, direction = reports.lane_dir[i] % 8, reports.lane_dir[i] // 8
        segment = pos // MILE
        at = local * CELLS + direction * SEGMENTS + segment
        key = car_key(local, vid)
        row = locate(cars, key)
        fresh = row == EMPTY
        if fresh:
            row = insert(cars, key)
        cars.touched[row] = True
        car = cars.rows[row]
        gap = t - car.time if not fresh and t - car.time <= FORGET_AFTER else -1
        if lane != 0 and gap != REPORT_EVERY and (gap >= 0 or t >= known_from):
            add_irregular(output, vid, t, gap)
        recent = not fresh and t - car.time <= REPORT_EVERY
        same_trip = not fresh and not begins_trip(t, lane, direction, car.time, car.lane, car.dir, REPORT_EVERY)
        entered = not same_trip or segment != car.pos // MILE
        stood = recent and car.still >= 4 and 1 <= car.lane <= 3
        stands = same_trip and t - car.time == REPORT_EVERY and car.lane == lane and car.pos == pos
        if same_trip and entered and car.quote > 0:
            add_charge(output, vid, t, car.quote)
        if entered:
            car.quote = prices.toll[at] if lane != 4 else 0
            if lane != 4:
                output.entry[output.counts[0]] = i
                output.counts[0] += 1
        if not same_trip:
            car.credited = 0
        if credit > 0 and lane == 4 and car.credited == 0 and prices.alert[at] != NOWHERE:
            add_charge(output, vid, t, -credit)
            car.credited = 1
        car.still = min(car.still + 1, 255) if stands else 1
        if 1 <= lane <= 3 and car.still >= 4:
            add_stop(output, key, t, place_key(local, direction, lane, pos))
        elif stood:
            add_stop(output, key, t, NOWHERE)
        if fresh or car.time // 60 + 1 != number:
            car.cell, car.last_cell, car.n, car.last_n, car.sum, car.spilled = NOWHERE, NOWHERE, 0, 0, 0, 0
        enter_cell(car, visits, key, direction * SEGMENTS + segment, number)
        count_visit(car, reports.spd[i], minute, at)
        car.time, car.pos, car.lane, car.dir = t, pos, lane, direction
