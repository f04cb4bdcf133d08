"""Linear Road by the book: every tuple in turn, with dicts and exact fractions.

Written from docs/reference/linear-road.md and from nothing else: it imports no part of the package, so that the toll
engine and the validator can both be held against it. Slow on purpose; short enough to be read beside the rules.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor
from typing import NamedTuple, Protocol


class Tuple(NamedTuple):
    """The fifteen fields of an input tuple."""

    type: int
    time: int
    vid: int
    spd: int
    xway: int
    lane: int
    dir: int
    seg: int
    pos: int
    qid: int
    sinit: int
    send: int
    dow: int
    tod: int
    day: int


ANY = 2**31 - 1
RANGES = {
    "time": (0, ANY),
    "vid": (0, ANY),
    "spd": (0, 100),
    "xway": (0, ANY),
    "lane": (0, 4),
    "dir": (0, 1),
    "seg": (0, 99),
    "pos": (0, 527999),
    "qid": (0, ANY),
    "sinit": (0, 99),
    "send": (0, 99),
    "dow": (1, 7),
    "tod": (1, 1440),
    "day": (1, 69),
}
CARRIES = {
    0: ("time", "vid", "spd", "xway", "lane", "dir", "seg", "pos"),
    2: ("time", "vid", "qid"),
    3: ("time", "vid", "xway", "qid", "day"),
    4: ("time", "vid", "xway", "qid", "sinit", "send", "dow", "tod"),
}


class History(Protocol):
    """Ten weeks before the run."""

    def expenditure(self, vid: int, day: int, xway: int) -> int | None:
        """What the vehicle paid on that day on that expressway; None when there is no row."""

    def mean(self, xway: int, dir: int, seg: int, dow: int, minute: int) -> tuple[float, float] | None:
        """Mean speed and mean count at a minute 1..1440 of a day of the week; None when there are no rows."""


@dataclass(frozen=True)
class Rules:
    """What differs between the editions of Linear Road."""

    base_toll: int
    free_cars: int
    accident_minutes: int
    base_credit: int = 0
    frequent_traveller: int | None = None
    expenditure_is_today: bool = False

    def toll(self, lav: Fraction | int, cars: Fraction | int) -> Fraction | int:
        """The price of a segment without an accident."""
        return self.base_toll * (cars - self.free_cars) ** 2 if lav < 40 and cars > self.free_cars else 0


RULES = {
    "2004": Rules(base_toll=2, free_cars=50, accident_minutes=1),
    "2003": Rules(
        base_toll=2,
        free_cars=150,
        accident_minutes=20,
        base_credit=50,
        frequent_traveller=1000,
        expenditure_is_today=True,
    ),
}


@dataclass
class Answers:
    """Output tuples in the paper's field order without Emit, and rejected lines with the reason."""

    outputs: list[tuple[int, ...]] = field(default_factory=list)
    rejects: list[tuple[str, str]] = field(default_factory=list)


def answers(
    lines: Iterable[str | bytes],
    *,
    lateness: int = 60,
    history: History | None = None,
    rules: str = "2004",
    lanes: Sequence[int] = (),
) -> Answers:
    """All answers to a feed of Linear Road lines, and everything it rejects.

    Lines may come by several ``lanes``, each late by itself: the lane of each line.
    """
    accepted, rejects = sift(lines, lateness, lanes)
    road = Road(RULES[rules], history)
    seconds = defaultdict(list)
    for tup in accepted:
        seconds[tup.time].append(tup)
    for second in sorted(seconds):
        road.second(second, seconds[second])
    return Answers(road.outputs, rejects)


def sift(
    lines: Iterable[str | bytes],
    lateness: int,
    lanes: Sequence[int] = (),
    parse: Callable[[str], tuple[Tuple | None, str]] | None = None,
) -> tuple[list[Tuple], list[tuple[str, str]]]:
    """The accepted tuples, and the rejected lines in order of arrival."""
    parse = parse or parse_line
    texts: list[str] = []
    reasons: dict[int, str] = {}
    first: dict[Tuple, int] = {}
    latest: dict[int, int] = defaultdict(lambda: -1)
    for number, line in enumerate(lines):
        lane = lanes[number] if lanes else 0
        text = (line.decode(errors="replace") if isinstance(line, bytes) else line).rstrip("\r\n")
        texts.append(text)
        tup, reason = parse(text)
        if tup and tup.time < latest[lane] - lateness:
            reason = "late"
        elif tup and tup in first:
            reason = "duplicate"
            latest[lane] = max(latest[lane], tup.time)
        elif tup:
            first[tup] = number
            latest[lane] = max(latest[lane], tup.time)
        if reason:
            reasons[number] = reason
    reports: dict[tuple[int, int, int], list[Tuple]] = defaultdict(list)
    for tup in first:
        if tup.type == 0:
            reports[tup.vid, tup.xway, tup.time].append(tup)
    for rivals in reports.values():
        for loser in sorted(rivals)[1:]:
            reasons[first.pop(loser)] = "conflict"
    return list(first), [(texts[number], reasons[number]) for number in sorted(reasons)]


def parse_line(text: str) -> tuple[Tuple | None, str]:
    """The tuple in a line, or the reason why there is none."""
    parts = text.split(",")
    if len(parts) != 15:
        return None, "fields"
    values = [value for part in parts if (value := integer(part)) is not None]
    if len(values) != 15:
        return None, "integer"
    tup = Tuple(*values)
    if tup.type not in CARRIES:
        return None, "type"
    for name in CARRIES[tup.type]:
        least, most = RANGES[name]
        if not least <= getattr(tup, name) <= most:
            return None, f"range:{name}"
    if tup.type == 0 and tup.seg != tup.pos // 5280:
        return None, "segment"
    return tup, ""


def integer(part: str) -> int | None:
    """A 32-bit whole number: an optional minus and ASCII digits, leading zeros allowed."""
    match = re.fullmatch("(-?)0*([0-9]{1,10})", part)
    value = int(match[1] + match[2]) if match else None
    return value if value is not None and -(2**31) <= value < 2**31 else None


def minute_of(time: int) -> int:
    """M(t)."""
    return time // 60 + 1


Segment = tuple[int, int, int]
"""(expressway, direction, segment)"""


@dataclass
class Car:
    """What is remembered of a vehicle on an expressway."""

    last: Tuple | None = None
    still: int = 0
    quote: int | None = None
    credited: bool = False


@dataclass
class Account:
    """What a vehicle was charged and credited, on all expressways."""

    charged: int = 0
    credits: int = 0

    @property
    def balance(self) -> int:
        """What the vehicle owes."""
        return self.charged - self.credits


class Road:
    """All expressways, second by second."""

    def __init__(self, rules: Rules, history: History | None) -> None:
        self.rules = rules
        self.history = history
        self.outputs: list[tuple[int, ...]] = []
        self.cars: dict[tuple[int, int], Car] = defaultdict(Car)
        self.accounts: dict[int, Account] = defaultdict(Account)
        self.speeds: dict[tuple[int, Segment], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        self.accidents: set[tuple[int, Segment]] = set()
        self.lavs: dict[tuple[int, Segment], int] = {}
        self.places: dict[tuple[int, int, int, int], set[int]] = defaultdict(set)

    def second(self, now: int, tuples: list[Tuple]) -> None:
        """All reports of a second, then its requests."""
        for tup in tuples:
            if tup.type == 0:
                self.report(tup)
        self.look_for_accidents(now, tuples)
        for tup in tuples:
            if tup.type == 2:
                self.outputs.append((2, now, now, tup.qid, self.accounts[tup.vid].balance))
            elif tup.type == 3:
                self.outputs.append((3, now, tup.qid, self.expenditure(tup)))
            elif tup.type == 4:
                self.outputs.append((4, now, tup.qid, *self.travel_time(tup)))

    def report(self, tup: Tuple) -> None:
        """A position report: statistics, charge, notification, alert."""
        car, account = self.cars[tup.vid, tup.xway], self.accounts[tup.vid]
        last, car.last = car.last, tup
        same_trip = last is not None and continues(last, tup)
        moved = not same_trip or last is None or last.seg != tup.seg
        if not same_trip:
            car.quote, car.credited, car.still = None, False, 0
        elif moved and car.quote is not None:
            self.charge(account, car.quote)
            car.quote = None
        car.still = car.still + 1 if same_trip and last is not None and stands(last, tup) else 1
        here = (tup.xway, tup.dir, tup.seg)
        self.speeds[minute_of(tup.time), here][tup.vid].append(tup.spd)
        accident = self.nearest_accident(minute_of(tup.time), here)
        if tup.lane == 4:
            if accident is not None and not car.credited:
                account.credits += self.rules.base_credit
                car.credited = True
        elif moved:
            lav, car.quote = self.price(minute_of(tup.time), here, accident is not None)
            self.outputs.append((0, tup.vid, tup.time, lav, car.quote))
            if accident is not None:
                self.outputs.append((1, tup.time, tup.vid, accident))

    def charge(self, account: Account, toll: int) -> None:
        """Put a toll on the account, at half price for a frequent traveller."""
        threshold = self.rules.frequent_traveller
        account.charged += toll // 2 if threshold is not None and account.charged >= threshold else toll

    def price(self, minute: int, here: Segment, accident: bool) -> tuple[int, int]:
        """Lav and toll of a segment in a minute."""
        lav = self.lav(minute, here)
        cars = len(self.speeds.get((minute - 1, here), ()))
        return lav, 0 if accident else int(self.rules.toll(lav, cars))

    def lav(self, minute: int, here: Segment) -> int:
        """The floor of the mean of the average speeds of the five minutes before; -1 when there is none."""
        if (minute, here) not in self.lavs:
            averages = [self.average(m, here) for m in range(minute - 5, minute) if (m, here) in self.speeds]
            self.lavs[minute, here] = floor(sum(averages) / len(averages)) if averages else -1
        return self.lavs[minute, here]

    def average(self, minute: int, here: Segment) -> Fraction:
        """Avgs: the mean over the vehicles of each one's own mean speed."""
        cars = self.speeds[minute, here].values()
        return sum((Fraction(sum(speeds), len(speeds)) for speeds in cars), Fraction(0)) / len(cars)

    def nearest_accident(self, minute: int, here: Segment) -> int | None:
        """The nearest of the downstream segments 0..4 with an accident in the minutes that count."""
        xway, direction, seg = here
        for i in range(5):
            downstream = min(seg + i, 99) if direction == 0 else max(seg - i, 0)
            for back in range(1, self.rules.accident_minutes + 1):
                if (minute - back, (xway, direction, downstream)) in self.accidents:
                    return downstream
        return None

    def look_for_accidents(self, now: int, tuples: list[Tuple]) -> None:
        """Two vehicles stopped at one place in a travel lane, one of them reporting now."""
        places = set()
        for tup in tuples:
            if tup.type == 0 and 1 <= tup.lane <= 3 and self.cars[tup.vid, tup.xway].still >= 4:
                place = (tup.xway, tup.lane, tup.pos, tup.dir)
                self.places[place].add(tup.vid)
                places.add(place)
        for place in places:
            self.places[place] = {vid for vid in self.places[place] if self.stopped_at(vid, place, now)}
            if len(self.places[place]) >= 2:
                xway, _, pos, direction = place
                self.accidents.add((minute_of(now), (xway, direction, pos // 5280)))

    def stopped_at(self, vid: int, place: tuple[int, int, int, int], now: int) -> bool:
        """Whether the vehicle's latest report, at most 30 s old, is that of a vehicle stopped there."""
        car = self.cars[vid, place[0]]
        last = car.last
        if last is None or car.still < 4 or last.time < now - 30:
            return False
        return (last.xway, last.lane, last.pos, last.dir) == place

    def expenditure(self, tup: Tuple) -> int:
        """What the vehicle spent on a day."""
        if self.rules.expenditure_is_today:
            return self.accounts[tup.vid].balance
        found = self.history.expenditure(tup.vid, tup.day, tup.xway) if self.history else None
        return found or 0

    def travel_time(self, tup: Tuple) -> tuple[int, int]:
        """Seconds and tolls of a journey by the ten-week means; -1, -1 where they are missing."""
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
            toll += self.rules.toll(speed, count)
        return floor(seconds), floor(toll)


def continues(last: Tuple, tup: Tuple) -> bool:
    """Whether a report belongs to the trip of the one before it on that expressway."""
    back_on = last.lane == 4 and tup.lane != 4
    return tup.time - last.time <= 30 and last.dir == tup.dir and not back_on


def stands(last: Tuple, tup: Tuple) -> bool:
    """Whether a report of a trip repeats the place of the one exactly 30 s before it."""
    return tup.time - last.time == 30 and (last.lane, last.pos) == (tup.lane, tup.pos)
