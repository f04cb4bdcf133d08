"""The correct answers to a run: Linear Road as set-based SQL over the whole run.

Deliberately not a stream engine's algorithm. Nothing is processed tuple by tuple and no state is carried: reports are
sorted by vehicle once, windows look one report back and ahead, minutes are joined with minutes. The rules are in
docs/reference/linear-road.md; each query below is one of its paragraphs.

Copies of a multiplied run do not interact, so its answers are those of the stored run, shifted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from slipstream._bench.validation.editions import ALERT, BALANCE, EXPENDITURE, TOLL, TRAVEL_TIME, Edition
from slipstream._bench.validation.sql_workspace import SqlWorkspace
from slipstream._bench.validation.travel_times import COLUMNS as TRAVEL_COLUMNS
from slipstream._bench.validation.travel_times import answer_journeys
from slipstream._feeds.run import Run
from slipstream._feeds.tuples import CARRIES, FIELDS, MILE, POSITION, RANGES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: a table of prices up to this many rows is broadcast instead of shuffled with the reports
BROADCAST_ROWS = 4_000_000

SLOW_STEPS = ("track", "prices", "stays", "charges", "balances", "travel_times")

# Two reports of one vehicle on one expressway in one second: the smallest is kept.
REPORTS = """
select vid, time, spd, xway, lane, dir, seg, pos
from (
  select *, lag(time) over (partition by vid, xway order by time, spd, lane, dir, pos) as rival
  from {tuples} where type = 0
)
where rival is null or rival <> time
"""

NEIGHBOURS = """
select *, lag(time) over w as last_time, lag(dir) over w as last_dir,
  lag(lane) over w as last_lane, lag(seg) over w as last_seg, lag(pos) over w as last_pos,
  lead(time) over w as next_time
from {reports}
window w as (partition by vid, xway order by time)
"""

TRIPS = """
select *, last_time is null or time - last_time > 30 or dir <> last_dir
  or (last_lane = 4 and lane <> 4) as new_trip
from {neighbours}
"""

STEPS = """
select *, new_trip or seg <> last_seg as entered,
  not new_trip and time - last_time = 30 and lane = last_lane and pos = last_pos as stands
from {trips}
"""

# Stopped from the fourth report at a place on: three consecutive reports that stand. `stop` is the place of a stopped
# vehicle in a travel lane, valid until `stop_until`; `trip` is the second in which the trip started.
TRACK = """
select vid, time, spd, xway, dir, seg, lane, new_trip, entered,
  if(stopped and lane between 1 and 3, pos, null) as stop,
  if(stopped, least(time + 30, coalesce(next_time - 1, time + 30)), null) as stop_until,
  {trip} as trip
from (
  select *, stands and lag(stands, 1, false) over w and lag(stands, 2, false) over w as stopped
  from {steps}
  window w as (partition by vid, xway order by time)
)
window w as (partition by vid, xway order by time)
"""
TRIP_START = "last_value(if(new_trip, time, null), true) over w"

STATISTICS = """
select minute, xway, dir, seg, count(*) as cars, avg(speed) as speed
from (
  select vid, cast(time div 60 + 1 as int) as minute, xway, dir, seg, avg(spd) as speed
  from {track}
  group by vid, minute, xway, dir, seg
)
group by minute, xway, dir, seg
"""

# The speeds of a minute count for the following five minutes; its cars only for the next one.
LATEST_SPEEDS = """
select minute + back as minute, xway, dir, seg, cast(floor(avg(speed) + 1e-9) as int) as lav,
  max(if(back = 1, cars, 0)) as cars
from {statistics} lateral view explode(sequence(1, 5)) as back
group by 1, 2, 3, 4
"""

# All vehicles stopped at a place, second by second; an accident requires two, one of them reporting.
ACCIDENTS = """
select distinct cast(second div 60 + 1 as int) as minute, xway, dir, cast(stop div {mile} as int) as seg
from (
  select xway, dir, lane, stop, second
  from {track} lateral view explode(sequence(time, stop_until)) as second
  where stop is not null
  group by xway, dir, lane, stop, second
  having count(*) >= 2 and bool_or(second = time)
)
"""

AFFECTED = """
select minute + back as minute, xway, dir, seg - if(dir = 0, i, -i) as seg, min_by(seg, i) as alert
from {accidents}
  lateral view explode(sequence(1, {accident_minutes})) as back
  lateral view explode(sequence(0, 4)) as i
where seg - if(dir = 0, i, -i) between 0 and 99
group by 1, 2, 3, 4
"""

PRICES = """
select minute, xway, dir, seg, coalesce(lav, -1) as lav, alert,
  if(lav < 40 and cars > {free_cars} and alert is null,
     {base_toll} * (cars - {free_cars}) * (cars - {free_cars}), 0) as toll
from {latest_speeds} full outer join {affected} using (minute, xway, dir, seg)
"""

# The first report of every stay in a segment, with its price and when the vehicle moved on.
STAYS = """
select {hint} vid, time, lane, coalesce(lav, -1) as lav, coalesce(toll, 0) as toll, alert,
  lead(time) over w as left_at, lead(new_trip) over w as lost
from (select *, cast(time div 60 + 1 as int) as minute from {track} where entered) as entries
  left join {prices} as prices using (minute, xway, dir, seg)
window w as (partition by vid, xway order by time)
"""

CHARGES = """
select vid, left_at as time, toll
from {stays}
where lane <> 4 and toll > 0 and not lost
"""

DISCOUNTED = """
select vid, time, if(coalesce(sum(toll) over (partition by vid order by time
  rows between unbounded preceding and 1 preceding), 0) >= {frequent_traveller}, toll div 2, toll) as toll
from {charges}
"""

CREDITS = """
select vid, min(time) as time, cast(-{base_credit} as bigint) as toll
from (select *, cast(time div 60 + 1 as int) as minute from {track} where lane = 4)
  join {affected} using (minute, xway, dir, seg)
group by vid, xway, trip
"""

BALANCES = """
select r.number, r.qid, r.time, r.vid, coalesce(sum(c.toll), 0) as balance
from {requests} as r left join {charges} as c on c.vid = r.vid and c.time <= r.time
group by r.number, r.qid, r.time, r.vid
"""

EXPENDITURES = """
select r.qid, r.time, coalesce(h.tolls, 0) as tolls
from {requests} as r left join {history} as h on h.vid = r.vid and h.day = r.day and h.xway = r.xway
where r.type = 3
"""

SHIFTED = """
select kind, cast(id + copy * if(kind < 2, {vid_stride}, {qid_stride}) as int) as id, time, a, b
from {answers} cross join (select cast(id as int) as copy from range({copies}))
"""


def is_valid() -> str:
    """Return the SQL condition for a tuple to be valid on its own."""
    kinds = []
    for kind, names in CARRIES.items():
        ranges = [f"{name} between {RANGES[name].least} and {RANGES[name].most}" for name in names]
        kinds.append(" and ".join([f"type = {kind}", *ranges]))
    kinds[list(CARRIES).index(POSITION)] += f" and seg = pos div {MILE}"
    return " or ".join(f"({kind})" for kind in kinds)


def estimate_rows_to_sort(run: Run, seconds: int) -> int:
    """Estimate the most rows sorted at once: the tuples that answers are computed from, or the answers.

    On a free road, cars enter a segment with every other report, so about every other tuple has an answer.
    """
    tuples = sum(run.manifest.counts.values())
    return max(tuples // run.copies, tuples * seconds // run.manifest.seconds // 2)


@dataclass
class CorrectAnswers:
    """The answers to a run, computed on demand; intermediate results that are used several times are cached."""

    space: SqlWorkspace
    run: Run
    edition: Edition
    until: int | None = None
    since: int = 0  # nothing before it was presented

    @property
    def copies(self) -> int:
        """How many times the answers of the stored run repeat."""
        return self.run.copies

    @property
    def stored_id(self) -> str:
        """The SQL expression that maps a request ``o.id`` of a copy to the stored run."""
        return "o.id" if self.copies == 1 else f"(o.id % {self.run.manifest.qid_stride})"

    @property
    def history(self) -> Path:
        """The folder of the run's history, if it has one."""
        return self.run.path / "history"

    @cached_property
    def tuples(self) -> DataFrame:
        """All tuples that are valid by themselves."""
        valid = self.run.multiplied(1).dataframe(self.space.spark).where(is_valid())
        valid = valid.where(f"time >= {self.since}") if self.since else valid
        return valid if self.until is None else valid.where(f"time < {self.until}")

    @cached_property
    def requests(self) -> DataFrame:
        """Requests without exact duplicates; numbered, as nothing else is sure to distinguish two of them."""
        requests = self.tuples.where("type <> 0").dropDuplicates(list(FIELDS))
        return self.space.keep(requests.selectExpr("*", "monotonically_increasing_id() as number"))

    @cached_property
    def track(self) -> DataFrame:
        """Reports by vehicle and time, with what follows from the previous report."""
        neighbours = self.space.sql(NEIGHBOURS, reports=self.space.sql(REPORTS, tuples=self.tuples))
        steps = self.space.sql(STEPS, trips=self.space.sql(TRIPS, neighbours=neighbours))
        trip = TRIP_START if self.edition.base_credit else "cast(null as int)"
        return self.space.keep(self.space.sql(TRACK, steps=steps, trip=trip))

    @cached_property
    def affected(self) -> DataFrame:
        """Segments shortly before an accident, by minute, with the segment of the nearest accident."""
        accidents = self.space.sql(ACCIDENTS, track=self.track, mile=MILE)
        return self.space.keep(
            self.space.sql(AFFECTED, accidents=accidents, accident_minutes=self.edition.accident_minutes)
        )

    @cached_property
    def prices(self) -> DataFrame:
        """Lav, toll and alert of every segment and minute that has any."""
        statistics = self.space.sql(STATISTICS, track=self.track)
        edition = self.edition
        prices = self.space.sql(
            PRICES,
            latest_speeds=self.space.sql(LATEST_SPEEDS, statistics=statistics),
            affected=self.affected,
            free_cars=edition.free_cars,
            base_toll=edition.base_toll,
        )
        return self.space.keep(prices)

    @cached_property
    def stays(self) -> DataFrame:
        """One row per stay of a vehicle in a segment."""
        hint = "/*+ broadcast(prices) */" if self.prices.count() <= BROADCAST_ROWS else ""
        return self.space.keep(self.space.sql(STAYS, track=self.track, prices=self.prices, hint=hint))

    @cached_property
    def charges(self) -> DataFrame:
        """Return the charges to accounts (vid, time, toll); credits are negative."""
        charges = self.space.sql(CHARGES, stays=self.stays)
        if self.edition.frequent_traveller is not None:
            charges = self.space.sql(DISCOUNTED, charges=charges, frequent_traveller=self.edition.frequent_traveller)
        if self.edition.base_credit:
            base_credit = self.edition.base_credit
            credits = self.space.sql(CREDITS, track=self.track, affected=self.affected, base_credit=base_credit)
            charges = charges.unionByName(credits)
        return self.space.keep(charges)

    @cached_property
    def balances(self) -> DataFrame:
        """Balance requests with the balance as of their time (qid, time, vid, balance)."""
        return self._compute_balances("type = 2")

    def compute(self) -> Iterator[str]:
        """Compute the slow steps, and yield the name of each when it is done."""
        for step in SLOW_STEPS:
            getattr(self, step).count()
            yield step

    def _compute_balances(self, which: str) -> DataFrame:
        return self.space.keep(self.space.sql(BALANCES, requests=self.requests.where(which), charges=self.charges))

    def _compute_expenditures(self) -> DataFrame:
        if self.edition.expenditure_is_today:
            return self._compute_balances("type = 3").selectExpr("qid", "time", "balance as tolls")
        if not self.history.is_dir():
            return self.requests.where("type = 3").selectExpr("qid", "time", "0L as tolls")
        past = self.space.spark.read.parquet(str(self.history / "tolls"))
        return self.space.sql(EXPENDITURES, requests=self.requests, history=past)

    @cached_property
    def travel_times(self) -> DataFrame:
        """Travel time requests with their answers (qid, time, seconds, toll)."""
        asked = self.requests.where("type = 4").select("qid", "time", "xway", "sinit", "send", "dow", "tod")
        answer = answer_journeys(self.history.absolute(), self.edition)
        return self.space.keep(asked.mapInArrow(answer, TRAVEL_COLUMNS))

    @cached_property
    def stored(self) -> DataFrame:
        """All answers to the stored run: kind, id (vehicle or request), time, and the two values of its kind."""
        notified = self.stays.where("lane <> 4")
        parts = [
            notified.selectExpr(f"{TOLL} as kind", "vid as id", "time", "cast(lav as bigint) as a", "toll as b"),
            notified.where("alert is not null").selectExpr(
                f"{ALERT} as kind", "vid as id", "time", "cast(alert as bigint) as a", "-1L as b"
            ),
            self.balances.selectExpr(
                f"{BALANCE} as kind", "qid as id", "time", "cast(time as bigint) as a", "balance as b"
            ),
            self._compute_expenditures().selectExpr(
                f"{EXPENDITURE} as kind", "qid as id", "time", "cast(tolls as bigint) as a", "-1L as b"
            ),
            self.travel_times.selectExpr(f"{TRAVEL_TIME} as kind", "qid as id", "time", "seconds as a", "toll as b"),
        ]
        whole = parts[0]
        for part in parts[1:]:
            whole = whole.unionByName(part)
        return whole

    def repeat_for_copies(self, stored: DataFrame) -> DataFrame:
        """Repeat answers to the stored run for all copies, with shifted ids."""
        if self.copies == 1:
            return stored
        manifest = self.run.manifest
        strides = {"vid_stride": manifest.vid_stride, "qid_stride": manifest.qid_stride}
        return self.space.sql(SHIFTED, answers=stored, copies=self.copies, **strides)
