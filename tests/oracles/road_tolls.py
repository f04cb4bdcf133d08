"""Tolls under the rule set ``general`` as plain Python: one report after the other, dictionaries, exact arithmetic.

Beside the oracle of the benchmark it imports nothing. What the two have in common (requests, accounts, what is late
or doubled) is the benchmark's; what settings change is written anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import floor

from oracles.linear_road import (
    CARRIES,
    RANGES,
    Answers,
    History,
    Rules,
    Tuple,
    integer,
    minute_of,
    sift,
)
from oracles.linear_road import Road as LinearRoad

#: (road, direction, segment, class, minute of the day, weekday, speed, cars, accident near) -> toll
Toll = Callable[[int, int, int, int, int, int, int, int, bool], int]


@dataclass(frozen=True)
class Conditions:
    """The settings, with distances in the units of positions and times in seconds."""

    toll: Toll
    length: int
    top_speed: int
    classes: int
    trip_gap: int
    report_every: int
    jitter: int | None
    stands_for: int
    scatter: int
    accident_within: int
    accident_cars: int
    same_lane: bool
    accident_minutes: int = 1
    base_credit: int = 0
    frequent_traveller: int | None = None
    expenditure_is_today: bool = True
    clock: Callable[[int], tuple[int, int]] = lambda second: (second // 60 % 1440, (second // 86400 + 3) % 7)


def answers(
    lines: Iterable[str], conditions: Conditions, *, lateness: int = 60, history: History | None = None
) -> Answers:
    """All answers to a feed, and everything it rejects."""
    accepted, rejects = sift(lines, lateness, (), lambda text: parse(text, conditions))
    road = Road(conditions, history)
    seconds = defaultdict(list)
    for tup in accepted:
        seconds[tup.time].append(tup)
    for second in sorted(seconds):
        road.second(second, seconds[second])
    return Answers(road.outputs, rejects)


def parse(text: str, conditions: Conditions) -> tuple[Tuple | None, str]:
    """The tuple in a line, or the reason why there is none; ``lane`` also has sixteen times the class."""
    parts = text.split(",")
    values = [value for part in parts if (value := integer(part)) is not None]
    if len(parts) != 15 or len(values) != 15:
        return None, "fields" if len(parts) != 15 else "integer"
    tup = Tuple(*values)
    if tup.type not in CARRIES:
        return None, "type"
    ranges = RANGES | {"spd": (0, conditions.top_speed), "pos": (0, 100 * conditions.length - 1)}
    for name in CARRIES[tup.type]:
        least, most = ranges[name]
        value = getattr(tup, name)
        if name == "lane":
            kind, value = divmod(value, 16)
            if not 0 <= kind < conditions.classes:
                return None, "range:lane"
        if name == "seg" and not conditions.same_lane:
            continue
        if not least <= value <= most:
            return None, f"range:{name}"
    if tup.type == 0 and conditions.same_lane and tup.seg != tup.pos // conditions.length:
        return None, "segment"
    return tup, ""


@dataclass
class Vehicle:
    """What is remembered of a vehicle on a road."""

    last: Tuple
    segment: int
    stayed_at: int
    stays_since: int
    quote: int | None = None
    credited: bool = False

    @property
    def lane(self) -> int:
        """The lane of the last report."""
        return self.last.lane % 16


class Road(LinearRoad):
    """All roads, second by second."""

    def __init__(self, conditions: Conditions, history: History | None) -> None:
        # the benchmark's part: requests, half price, credit; its tolls and accidents are not used
        super().__init__(
            Rules(
                0, 0, conditions.accident_minutes, conditions.base_credit, conditions.frequent_traveller,
                conditions.expenditure_is_today,
            ),
            history,
        )  # fmt: skip
        self.conditions = conditions
        self.vehicles: dict[tuple[int, int], Vehicle] = {}

    def report(self, tup: Tuple) -> None:
        """A position report: statistics, charge, notification, alert."""
        kind, lane = divmod(tup.lane, 16)
        account = self.accounts[tup.vid]
        before = self.vehicles.get((tup.vid, tup.xway))
        if (before is not None and not self.continues(before, tup)) or before is None:
            now = self.begin(tup)
            moved = True
        else:
            now, moved = before, self.move(before, tup)
        self.vehicles[tup.vid, tup.xway] = now
        if moved and before is now and now.quote is not None:
            self.charge(account, now.quote)
            now.quote = None
        here = (tup.xway, tup.dir, now.segment)
        minute = minute_of(tup.time)
        self.speeds[minute, here][tup.vid].append(tup.spd)
        accident = self.nearest_accident(minute, here)
        if lane == 4:
            if accident is not None and not now.credited:
                account.credits += self.rules.base_credit
                now.credited = True
        elif moved:
            lav, now.quote = self.price_for(minute, here, kind, accident is not None)
            self.outputs.append((0, tup.vid, tup.time, lav, now.quote))
            if accident is not None:
                self.outputs.append((1, tup.time, tup.vid, accident))

    def continues(self, vehicle: Vehicle, tup: Tuple) -> bool:
        """Whether a report belongs to the trip of the one before it."""
        back_on = vehicle.lane == 4 and tup.lane % 16 != 4
        in_time = tup.time - vehicle.last.time <= self.conditions.trip_gap
        return in_time and vehicle.last.dir == tup.dir and not back_on

    def begin(self, tup: Tuple) -> Vehicle:
        """A vehicle whose trip begins."""
        return Vehicle(tup, tup.pos // self.conditions.length, tup.pos, tup.time)

    def move(self, vehicle: Vehicle, tup: Tuple) -> bool:
        """Take the next report of a trip; returns whether the vehicle is in another segment."""
        c = self.conditions
        gap = tup.time - vehicle.last.time
        regular = c.jitter is None or c.report_every - c.jitter <= gap <= c.report_every + c.jitter
        same_lane = not c.same_lane or vehicle.lane == tup.lane % 16
        if not (regular and same_lane and abs(tup.pos - vehicle.stayed_at) <= c.scatter):
            vehicle.stayed_at, vehicle.stays_since = tup.pos, tup.time
        first, last = vehicle.segment * c.length, (vehicle.segment + 1) * c.length - 1
        is_near = first - c.scatter <= tup.pos <= last + c.scatter
        segment = vehicle.segment if is_near else tup.pos // c.length
        moved = segment != vehicle.segment
        vehicle.last, vehicle.segment = tup, segment
        return moved

    def price_for(self, minute: int, here: tuple[int, int, int], kind: int, accident: bool) -> tuple[int, int]:
        """Lav and toll of a segment in a minute for a class of vehicles."""
        speed = self.lav(minute, here)
        cars = len(self.speeds.get((minute - 1, here), ()))
        return speed, self.conditions.toll(
            *here, kind, *self.conditions.clock(60 * (minute - 1)), speed, cars, accident
        )

    def look_for_accidents(self, now: int, tuples: list[Tuple]) -> None:
        """Enough vehicles that stand near one another in travel lanes, one of them reporting now."""
        c = self.conditions
        standing = [vehicle for vehicle in self.vehicles.values() if self.stands(vehicle, now)]
        for one in standing:
            if (
                one.last.time == now
                and sum(self.are_near(one.last, other.last) for other in standing) >= c.accident_cars
            ):
                segment = one.last.pos // c.length
                self.accidents.add((minute_of(now), (one.last.xway, one.last.dir, segment)))

    def stands(self, vehicle: Vehicle, now: int) -> bool:
        """Whether a vehicle has stayed for long enough in a travel lane, by a report that is not too old."""
        stayed = vehicle.last.time - vehicle.stays_since >= self.conditions.stands_for
        return stayed and 1 <= vehicle.lane <= 3 and now - vehicle.last.time <= self.conditions.trip_gap

    def are_near(self, one: Tuple, other: Tuple) -> bool:
        """Whether two reports are at about one place."""
        same_road = (one.xway, one.dir) == (other.xway, other.dir)
        same_lane = one.lane % 16 == other.lane % 16 or not self.conditions.same_lane
        return same_road and same_lane and abs(one.pos - other.pos) <= self.conditions.accident_within

    def travel_time(self, tup: Tuple) -> tuple[int, int]:
        """Seconds and tolls of a journey by the means of weeks: of a place and a time that are not known."""
        direction, step = (0, 1) if tup.send > tup.sinit else (1, -1)
        start, seconds, toll = (tup.tod - 1) * 60, Fraction(0), Fraction(0)
        for seg in range(tup.sinit, tup.send, step):
            days, minute = divmod(floor((start + seconds) / 60), 1440)
            dow = (tup.dow - 1 + days) % 7 + 1
            mean = self.history.mean(tup.xway, direction, seg, dow, minute + 1) if self.history else None
            if mean is None:
                return -1, -1
            speed, count = Fraction(mean[0]), Fraction(mean[1])
            seconds += 3600 / max(speed, Fraction(1))
            toll += self.conditions.toll(-1, -1, -1, 0, -1, -1, speed, count, False)  # type: ignore[arg-type]
        return floor(seconds), floor(toll)
