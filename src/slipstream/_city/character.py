"""The character of a run: what ``slipstream describe`` measures, compared with the benchmark's published run.

Everything is aggregated by Spark SQL over the stored tuples; the figures of a multiplied run are those of the stored
one times the number of copies. Published figures are those of one expressway over three hours, scaled to the run's
expressways and shown only for times that the run reaches.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from slipstream._errors import BadArgument
from slipstream._feeds.run import MINUTE, Accident, Run
from slipstream._feeds.tuples import KINDS, POSITION, REPORT_EVERY, SEGMENTS
from slipstream._spark.session import task_errors
from slipstream._tools.numba_tools import Floats, Longs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FULL_RUN = 10_800

#: (from second, to second, tuples per second) of the published run
PUBLISHED_RATES = (
    (0, 60, 18),
    (60, 120, 42),
    (380, 400, 126),
    (500, 520, 161),
    (5_290, 5_310, 1_240),
    (10_740, 10_800, 1_700),
)
#: (from second, to second, mph)
PUBLISHED_SPEEDS = ((0, 420, 49), (5_290, 5_310, 23))
#: (from second, to second, vehicles on the road, each of which reports once in half a minute)
PUBLISHED_VEHICLES = (5_290, 5_310, 37_200)
#: half a minute, in which every car on the road reports once
CROWDED = (5_285, 5_315)
#: the speed range of a congested segment in mph, and the cars in the fullest one
CONGESTED = (7, 13)
PUBLISHED_CROWD = 400
PUBLISHED_TOTALS = {"tuples": 12_000_000, "vehicles": 137_000}
#: the share of reports with a request, and the kinds of requests
PUBLISHED_SHARE = 0.01
PUBLISHED_MIX = {"balance": 0.5, "expenditure": 0.1, "travel_time": 0.4}
ACCIDENT_EVERY = 1_200


@dataclass(frozen=True)
class Figure:
    """One figure of the run, and the published one if there is one."""

    name: str
    value: float
    published: float | None = None


@dataclass(frozen=True)
class Seconds:
    """Totals of each second with tuples."""

    time: Longs
    tuples: Longs
    reports: Longs
    speed: Longs

    def between(self, start: int, end: int) -> Seconds:
        """Return the seconds from ``start`` to ``end``, exclusive."""
        part = (self.time >= start) & (self.time < end)
        return Seconds(self.time[part], self.tuples[part], self.reports[part], self.speed[part])

    def sum_by_bin(self, values: Longs, width: int, bins: int) -> Floats:
        """Return sums of ``values`` over bins of ``width`` seconds."""
        return np.bincount(self.time // width, weights=values, minlength=bins)[:bins].astype(np.float64)


@dataclass(frozen=True)
class Crowds:
    """Every segment with cars during ``CROWDED``: how many, and how fast."""

    cars: Longs
    speed: Floats

    def fullest(self, slowest: float = 0.0, fastest: float = np.inf) -> int:
        """Return the most cars in a segment with a mean speed in this range; 0 if there is none."""
        within = (self.speed >= slowest) & (self.speed <= fastest)
        return int(self.cars[within].max(initial=0))


@dataclass(frozen=True)
class Character:
    """Everything in the table and the picture."""

    run: Run
    seconds: Seconds
    crowds: Crowds
    trips: int
    xway: int
    #: mean speed in mph by [direction, segment, bin of ``speed_bin`` seconds], NaN without reports
    speeds: Floats
    speed_bin: int

    @property
    def standard(self) -> bool:
        """Whether the run has the published demand, so that the published figures apply."""
        parameters = self.run.manifest.parameters
        return "minutes" in parameters and parameters.get("demand", 1.0) == 1.0

    @property
    def expressways(self) -> float:
        """The number of expressways, copies included; a half is one direction."""
        return float(self.run.manifest.parameters.get("expressways", self.run.stored)) * self.run.copies

    @property
    def accidents(self) -> tuple[Accident, ...]:
        """The accidents on the displayed expressway."""
        return tuple(accident for accident in self.run.manifest.accidents if accident.xway == self.xway)

    @property
    def directions(self) -> list[int]:
        """The directions with traffic on it."""
        return [direction for direction in (0, 1) if not np.isnan(self.speeds[direction]).all()]

    @cached_property
    def mix(self) -> dict[str, float]:
        """The share of each kind of request among all requests."""
        counts = {name: count for name, count in self.run.manifest.counts.items() if name != KINDS[POSITION]}
        total = sum(counts.values())
        return {name: count / total for name, count in counts.items()} if total else {}

    def rate(self, start: int, end: int) -> float:
        """Return tuples per second, copies included."""
        return float(self.run.copies * self.seconds.between(start, end).tuples.sum() / (end - start))

    def vehicles(self, start: int, end: int) -> float:
        """Return the vehicles on the road: each reports once in half a minute."""
        reports = self.seconds.between(start, end).reports.sum()
        return float(self.run.copies * reports * REPORT_EVERY / (end - start))

    def speed(self, start: int, end: int) -> float:
        """Return the mean speed of the reports in mph."""
        part = self.seconds.between(start, end)
        return float(part.speed.sum() / max(1, part.reports.sum()))

    def published(self, value: float) -> float:
        """Scale a published figure of one expressway to this run."""
        return value * self.expressways

    def figures(self) -> list[Figure]:
        """Return the rows of the table."""
        return [
            *self._describe_totals(),
            *self._describe_rates(),
            *self._describe_speeds(),
            *self._crowds(),
            *self._describe_requests(),
            *self._describe_accidents(),
        ]

    def _describe_totals(self) -> list[Figure]:
        manifest = self.run.manifest
        whole = manifest.seconds == FULL_RUN
        values = {
            "tuples": sum(manifest.counts.values()),
            **{f"{name.replace('_', ' ')} tuples": count for name, count in manifest.counts.items()},
            "vehicles": manifest.vehicles * self.run.copies,
            "trips": self.trips * self.run.copies,
        }
        known = {name: self.published(value) for name, value in PUBLISHED_TOTALS.items()} if whole else {}
        return [Figure(name, value, known.get(name)) for name, value in values.items()]

    def _is_within_run(self, end: int) -> bool:
        return end <= self.run.manifest.seconds + 1

    def _describe_rates(self) -> list[Figure]:
        rates = [
            Figure(f"tuples/s, {_format_moment(start, end)}", self.rate(start, end), self.published(rate))
            for start, end, rate in PUBLISHED_RATES
            if self._is_within_run(end)
        ]
        last = self.run.manifest.seconds
        if last % FULL_RUN:
            rates.append(Figure("tuples/s, at the end", self.rate(max(0, last - REPORT_EVERY), last)))
        start, end, vehicles = PUBLISHED_VEHICLES
        if self._is_within_run(end):
            name = f"vehicles on the road, {_format_moment(start, end)}"
            rates.append(Figure(name, self.vehicles(start, end), self.published(vehicles)))
        return rates

    def _describe_speeds(self) -> list[Figure]:
        last = self.run.manifest.seconds
        speeds = [
            Figure(f"mean speed in mph, {_format_moment(start, end)}", self.speed(start, end), speed)
            for start, end, speed in PUBLISHED_SPEEDS
            if self._is_within_run(end)
        ]
        return [*speeds, Figure("mean speed in mph, whole run", self.speed(0, last))]

    def _crowds(self) -> list[Figure]:
        start, end = CROWDED
        if not self._is_within_run(end):
            return []
        slowest, fastest = CONGESTED
        name, moment = "cars in the fullest segment", _format_moment(start, end)
        congested = self.crowds.fullest(slowest, fastest)
        return [
            Figure(f"{name} at {slowest} to {fastest} mph, {moment}", congested, PUBLISHED_CROWD),
            Figure(f"{name} at any speed, {moment}", self.crowds.fullest()),
        ]

    def _describe_requests(self) -> list[Figure]:
        counts = self.run.manifest.counts
        reports = counts[KINDS[POSITION]]
        share = (sum(counts.values()) - reports) / max(1, reports)
        return [
            Figure("requests, % of reports", 100 * share, 100 * PUBLISHED_SHARE),
            *(
                Figure(f"{name.replace('_', ' ')}, % of requests", 100 * part, 100 * PUBLISHED_MIX[name])
                for name, part in self.mix.items()
            ),
        ]

    def _describe_accidents(self) -> list[Figure]:
        manifest = self.run.manifest
        known = bool(manifest.parameters.get("minutes"))
        expected = self.published(manifest.seconds // ACCIDENT_EVERY) if known else None
        return [Figure("accidents", len(manifest.accidents) * self.run.copies, expected)] if known else []


def _format_moment(start: int, end: int) -> str:
    """Return the name of a span of seconds."""
    if end - start == MINUTE:
        return f"minute {end // MINUTE}"
    return f"t = {(start + end) // 2} s" if end - start < MINUTE else f"first {end // MINUTE} minutes"


def characterise(run: Run, spark: SparkSession, *, xway: int | None = None) -> Character:
    """Measure a run; ``xway`` is the expressway whose speeds are shown by segment, by default the first."""
    shown = choose_expressway(run, xway)
    tuples = run.multiplied(1).dataframe(spark)
    width = REPORT_EVERY * max(1, -(-run.manifest.seconds // (360 * REPORT_EVERY)))
    with task_errors():
        trips = run.manifest.trips
        return Character(
            run,
            _to_seconds(tuples),
            _crowds(tuples),
            _count_trips(tuples) if trips is None else trips,
            shown,
            _map_speeds(tuples.where(f"xway = {shown}"), width, run.manifest.seconds),
            width,
        )


def choose_expressway(run: Run, xway: int | None) -> int:
    """Return the expressway whose speeds are shown by segment: ``xway`` if the run has it, by default the first."""
    known = [expressway.xway for expressway in run.manifest.expressways]
    shown = known[0] if xway is None else xway
    if shown not in known:
        raise BadArgument(
            f"--expressway {shown}: not stored in this run.",
            hint=f"Use one of: {_list_some(known)}.",
            code="unknown-name",
            found=shown,
        )
    return shown


def _list_some(xways: list[int]) -> str:
    return ", ".join(map(str, xways[:10])) + (", ..." if len(xways) > 10 else "")


def _to_seconds(tuples: DataFrame) -> Seconds:
    from pyspark.sql import functions as sf

    report = sf.col("type") == POSITION
    sums = (sf.count("*"), sf.count_if(report), sf.sum(sf.when(report, sf.col("spd")).otherwise(0)))
    table = tuples.groupBy("time").agg(*sums).toArrow()
    return Seconds(*(column.to_numpy().astype(np.int64) for column in table.columns))


def _crowds(tuples: DataFrame) -> Crowds:
    start, end = CROWDED
    reports = tuples.where(f"type = {POSITION} and time >= {start} and time < {end}")
    table = reports.groupBy("xway", "dir", "seg").agg({"vid": "count", "spd": "avg"}).toArrow()
    return Crowds(table["count(vid)"].to_numpy(), table["avg(spd)"].to_numpy())


def _count_trips(tuples: DataFrame) -> int:
    """Count trips by the benchmark's rule.

    A report continues a trip if the vehicle's previous one is at most 30 s old, on the same expressway and direction,
    and not from the exit lane.
    """
    latest = "over (partition by vid order by time, xway, dir, lane)"
    before = f"lag(struct(time, xway, dir, lane)) {latest}"
    continues = (
        f"time - before.time <= {REPORT_EVERY} and xway = before.xway and dir = before.dir "
        "and not (before.lane = 4 and lane <> 4)"
    )
    reports = tuples.where(f"type = {POSITION}").selectExpr("time", "xway", "dir", "lane", f"{before} as before")
    row = reports.selectExpr(f"count_if(not coalesce({continues}, false))").first()
    return int(row[0]) if row else 0


def _map_speeds(tuples: DataFrame, width: int, seconds: int) -> Floats:
    speeds = np.full((2, SEGMENTS, -(-seconds // width)), np.nan)
    table = (
        tuples.where(f"type = {POSITION} and dir between 0 and 1 and seg between 0 and {SEGMENTS - 1}")
        .selectExpr("dir", "seg", f"time div {width} as bin", "spd")
        .groupBy("dir", "seg", "bin")
        .avg("spd")
        .toArrow()
    )
    direction, segment, bin_, speed = (column.to_numpy() for column in table.columns)
    speeds[direction, segment, bin_] = speed
    return speeds
