"""Rules for real roads: how vehicles report there, what counts as standing, and what a segment costs, all as settings.

Linear Road's rules assume a report every 30 s, miles, and a toll that follows from speeds and cars alone. A GPS feed
has another interval, jitter and losses, and a road's operator has prices by the hour and the class of vehicles.
docs/how-to/road-tolls.md is for those who set them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

from slipstream._errors import MALFORMED, BadArgument
from slipstream._feeds.tuples import CLASSES, SEGMENTS, ReportForm
from slipstream._tools.numba_tools import Bools, Longs
from slipstream._tools.strict_json import decode_as

#: positions have twenty bits
LONGEST_ROAD = 1 << 20
#: trips outlast this many lost reports
LOST_REPORTS = 6
DAY = 24 * 60
#: units -> what distances and speeds are, for those who leave them out
UNITS = {
    "metric": {"segment_length": 1000, "top_speed": 250, "scatter": 30, "accident_within": 50},
    "imperial": {"segment_length": 5280, "top_speed": 155, "scatter": 100, "accident_within": 160},
}
#: setting -> the least and the greatest value
_RANGES = {
    "report_every": (1, 600),
    "segment_length": (10, LONGEST_ROAD // SEGMENTS),
    "top_speed": (1, 255),
    "trip_gap": (1, 3600),
    "stands_for": (1, 3600),
    "scatter": (0, 10_000),
    "accident_within": (0, 10_000),
    "accident_cars": (2, 100),
    "lateness": (0, 60),
}


class SegmentMinute(NamedTuple):
    """What a toll may depend on: arrays with an element for each segment and class of vehicles, for one minute.

    ``speed`` is -1 where nobody drove in the last five minutes; ``cars`` counts those of the minute before. In answers
    to travel time requests, which ask for means of weeks, whatever is not known is -1 and ``accident`` is False.

    >>> import slipstream as ss
    >>> def twice_at_night(at: ss.SegmentMinute):
    ...     return np.where(at.minute_of_day < 300, 20, 10)
    >>> twice_at_night(SegmentMinute.of_means([50.0], [7.0])._replace(minute_of_day=np.array([60]))).tolist()
    [20]
    """

    road: Longs
    direction: Longs
    segment: Longs
    vehicle_class: Longs
    minute_of_day: Longs  # by the clocks of the settings' time zone
    weekday: Longs  # 0 is Monday
    speed: Longs
    cars: Longs
    accident: Bools  # near: on the segment, or ahead of it

    @classmethod
    def of_means(cls, speed: Any, cars: Any) -> SegmentMinute:
        """Return what is known of means of weeks: speeds and cars."""
        unknown = np.full(np.size(speed), -1, np.int64)
        first = np.zeros(unknown.size, np.int64)
        return cls(unknown, unknown, unknown, first, unknown, unknown, speed, cars, first > 0)


@dataclass(frozen=True)
class RoadSettings:
    """How vehicles report on a road, and what counts as a trip, as standing and as an accident there.

    Times are in seconds. ``units`` is "metric" (metres and km/h) or "imperial" (feet and mph); distances that are None
    follow from it. ``trip_gap`` is the silence that ends a trip; None lets a trip outlast six lost reports. Positions
    scatter by up to ``scatter``: a vehicle changes its segment when it is over the border by more, and stands when it
    has stayed within it for ``stands_for``. With ``jitter``, only reports that are that close to ``report_every`` apart
    show that. Two vehicles (``accident_cars``) that stand ``accident_within`` are an accident; with ``same_lane`` only
    in one lane.

    >>> RoadSettings(report_every=30).trip_gap, RoadSettings(units="imperial").segment_length
    (180, 5280)
    """

    report_every: int = 10
    units: str = "metric"
    segment_length: int = None  # type: ignore[assignment]
    top_speed: int = None  # type: ignore[assignment]
    classes: tuple[str, ...] = ("any",)
    trip_gap: int = None  # type: ignore[assignment]
    stands_for: int = 120
    scatter: int = None  # type: ignore[assignment]
    jitter: int | None = None
    accident_within: int = None  # type: ignore[assignment]
    accident_cars: int = 2
    same_lane: bool = False
    lateness: int = 30
    time_zone: str = "UTC"

    def __post_init__(self) -> None:
        if self.units not in UNITS:
            raise _wrong("units", self.units, f"Use {' or '.join(UNITS)}.")
        implied = {**UNITS[self.units], "trip_gap": max(60, LOST_REPORTS * self.report_every)}
        for name, value in implied.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        for name, (least, most) in _RANGES.items():
            if not least <= getattr(self, name) <= most:
                raise _wrong(name, getattr(self, name), f"Give {least} to {most}.")
        if self.jitter is not None and not self.jitter >= 0:
            raise _wrong("jitter", self.jitter, "Give 0 or more seconds, or leave it out.")
        if not 1 <= len(self.classes) <= CLASSES or len({*self.classes}) < len(self.classes):
            raise _wrong("classes", list(self.classes), f"Give 1 to {CLASSES} different names.")
        try:
            ZoneInfo(self.time_zone)
        except (*MALFORMED, OSError) as error:
            raise _wrong("time_zone", self.time_zone, "Give a name such as Europe/Berlin.") from error

    @property
    def form(self) -> ReportForm:
        """The form of reports."""
        return ReportForm(self.segment_length, self.top_speed, len(self.classes), needs_lanes=self.same_lane)

    def local_time(self, second: int) -> tuple[int, int]:
        """Return the minute of the day and the day of the week at a second since 1970.

        >>> RoadSettings(time_zone="Europe/Berlin").local_time(0)
        (60, 3)
        """
        local = datetime.fromtimestamp(second, UTC).astimezone(ZoneInfo(self.time_zone))
        return local.hour * 60 + local.minute, local.weekday()


#: the benchmark's own conditions
BENCHMARK = RoadSettings(
    report_every=30, units="imperial", top_speed=100, trip_gap=30, stands_for=90, scatter=0, jitter=0,
    accident_within=0, same_lane=True, lateness=60,
)  # fmt: skip


def _wrong(name: str, value: Any, hint: str) -> BadArgument:
    return BadArgument(f"{name} {value!r}: not possible.", hint=hint, code="out-of-range", found=value)


@dataclass(frozen=True)
class Peak:
    """Hours of the day at which tolls are a percentage of the usual: from and to are HH:MM, and may pass midnight."""

    start: str
    end: str
    percent: int

    @property
    def minutes(self) -> tuple[int, int]:
        """The first minute of the day, and the one after the last."""
        return _parse_clock(self.start), _parse_clock(self.end)

    def contains(self, minute: Longs) -> Bools:
        """Return which minutes of the day it contains.

        >>> Peak("22:00", "05:00", 50).contains(np.array([0, 299, 300, 1320])).tolist()
        [True, True, False, True]
        """
        start, end = self.minutes
        return (minute >= start) & (minute < end) if start < end else (minute >= start) | (minute < end)


def _parse_clock(text: str) -> int:
    hours, _, minutes = text.partition(":")
    if not (hours.isdecimal() and minutes.isdecimal() and int(hours) <= 24 and int(minutes) < 60):
        raise _wrong("time of day", text, "Write it as 07:30.")
    return int(hours) * 60 + int(minutes)


@dataclass(frozen=True)
class Tariff:
    """Tolls as data: a price per segment for each class of vehicles, at a percentage at some hours and in congestion.

    A segment is congested if its average speed is below ``congested_below`` and ``congested_cars`` were there.

    >>> at = SegmentMinute(*(np.array([value, value]) for value in (0, 0, 7)), np.array([0, 1]),
    ...     *(np.array([value, value]) for value in (480, 0, 90, 12)), np.array([False, False]))
    >>> Tariff(prices=(10, 25), peaks=(Peak("07:00", "09:00", 200),))(at).tolist()
    [20, 50]
    """

    prices: tuple[int, ...] = (10,)
    peaks: tuple[Peak, ...] = ()
    congested_below: int = 0
    congested_cars: int = 0
    congested_percent: int = 100
    free_near_accident: bool = True

    def __post_init__(self) -> None:
        percents = [self.congested_percent, *(peak.percent for peak in self.peaks)]
        if not self.prices or min(*self.prices, *percents) < 0:
            raise _wrong("tariff", [*self.prices, *percents], "Prices and percentages are 0 or more.")
        for peak in self.peaks:
            peak.minutes  # noqa: B018 - refuses what is no time of day

    def __call__(self, at: SegmentMinute) -> Longs:
        """Return the toll of each segment, rounded down."""
        prices = np.array(self.prices, np.int64)
        toll = prices[np.minimum(at.vehicle_class, prices.size - 1)]
        for peak in self.peaks:
            toll = np.where(peak.contains(at.minute_of_day), toll * peak.percent // 100, toll)
        congested = (at.speed >= 0) & (at.speed < self.congested_below) & (at.cars >= self.congested_cars)
        toll = np.where(congested, toll * self.congested_percent // 100, toll)
        return np.where(at.accident & self.free_near_accident, 0, toll)


@dataclass(frozen=True)
class GeneralRules:
    """All settings of the rule set ``general``, as a file has them."""

    road: RoadSettings = RoadSettings()
    tariff: Tariff = Tariff()
    accident_minutes: int = 1
    base_credit: int = 0
    frequent_traveller: int = -1
    expenditure_is_today: bool = True

    def __post_init__(self) -> None:
        if len(self.tariff.prices) not in (1, len(self.road.classes)):
            raise _wrong(
                "tariff.prices", list(self.tariff.prices), "Give one price, or one for each of the classes of vehicles."
            )
        if not 1 <= self.accident_minutes <= 60:
            raise _wrong("accident_minutes", self.accident_minutes, "Give 1 to 60.")

    def to_text(self) -> str:
        """Return the settings as a line of JSON, by which a job knows them."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> GeneralRules:
        """Return settings from a mapping; raises ``ValueError`` for what is not one."""
        return decode_as(cls, dict(body))


_ROAD = {one.name for one in fields(RoadSettings)}


def parse_settings(text: str, file: str = "--settings") -> GeneralRules:
    """Parse a file of settings (TOML): those of the road at the top, prices in [tariff].

    >>> parse_settings('report_every = 5\\n[tariff]\\nprices = [12]').road.trip_gap
    60
    """
    import tomllib

    try:
        body = tomllib.loads(text)
        road = {name: body.pop(name) for name in list(body) if name in _ROAD}
        return GeneralRules.from_body({**body, "road": road})
    except BadArgument as error:
        raise error.within(file) from error
    except MALFORMED as error:
        raise BadArgument(
            f"{file}: {error}.",
            hint="docs/how-to/road-tolls.md lists the settings.",
            code="malformed-value",
        ) from error


def read_settings(file: Path) -> GeneralRules:
    """Read a file of settings."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadArgument(f"{file}: {error}.", hint="The file must be TOML.", code="no-such-file") from error
    return parse_settings(text, str(file))
