"""Details of one vehicle or one segment, at any second up to the newest committed one.

At the newest second, a balance is read from the engine's snapshot of accounts, if there is one. At any other second,
and without a snapshot, it is computed from notifications: a toll is charged when the vehicle leaves the segment.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slipstream._console.errors import NotFound
from slipstream._console.live.batch_health import FollowedJournal
from slipstream._console.live.live_roads import LiveRoads, find_cell
from slipstream._console.live.notices import NO_DATA, Notices, read_batch_answers
from slipstream._cuboid.snapshots.snapshot import Snapshot
from slipstream._cuboid.snapshots.snapshot_files import FILE, FOLDER
from slipstream._feeds.parse import select
from slipstream._feeds.run import MINUTE, TRIPS
from slipstream._feeds.trip import begins_trip
from slipstream._feeds.tuples import MILE, POSITION, REPORT_EVERY, SEGMENTS
from slipstream._linear_road.answers import ALERT, TOLL
from slipstream._linear_road.state.cars import CELLS


@dataclass(frozen=True)
class Report:
    """A position report."""

    time: int
    xway: int
    dir: int
    lane: int
    seg: int
    pos: int
    spd: int


@dataclass(frozen=True)
class Notice:
    """The notification for a segment that a vehicle entered, and whether it was charged."""

    time: int
    xway: int
    dir: int
    seg: int
    toll: int
    lav: int
    alert: int | None  # the segment of an accident ahead
    charged: bool


@dataclass(frozen=True)
class VehicleDetail:
    """Everything known about a vehicle at a second."""

    vid: int
    second: int
    on_the_road: bool
    last: Report
    trips: int
    since: int  # when its trip began
    entered: int  # the segment where its trip began
    exit: int | None  # the segment where it will leave, if the run has this information
    notices: tuple[Notice, ...]  # of this trip, latest first
    balance: int | None
    balance_from: Literal["snapshot", "answers", "nowhere"]


@dataclass(frozen=True)
class PlottedMinute:
    """One minute of a segment."""

    minute: int
    cars: int
    speed: float | None
    lav: int | None
    toll: int | None
    accident: bool


def has_snapshot(out: Path) -> bool:
    """Return whether the engine of a folder publishes its state."""
    return (out / FOLDER / FILE).is_file()


class Lookup:
    """Looks up vehicles and segments in an engine's folder."""

    def __init__(self, roads: LiveRoads, notices: Notices, journal: FollowedJournal, out: Path, rules: str) -> None:
        self._roads, self._minutes, self._journal, self._out, self._rules = roads, notices, journal, out, rules

    def vehicle(self, vid: int, second: int) -> VehicleDetail:
        """Return a vehicle at the end of a second."""
        copy, own = divmod(vid, self._roads.run.manifest.vid_stride) if self._roads.run.copies > 1 else (0, vid)
        reports = self._reports(own, copy, second)
        if not reports:
            raise NotFound(
                f"Vehicle {vid} has not reported up to this second.", hint="Try a later second, or another vehicle."
            )
        notices = self._notices(vid, reports)
        began = max(place for place, (_, starts) in enumerate(_trips(reports)) if starts)
        trip, last = reports[began:], reports[-1]
        balance, source = self._balance(vid, second, notices)
        return VehicleDetail(
            vid=vid,
            second=second,
            on_the_road=second - last.time < REPORT_EVERY,
            last=last,
            trips=sum(starts for _, starts in _trips(reports)),
            since=trip[0].time,
            entered=trip[0].seg,
            exit=self._exit(own, trip[0]),
            notices=tuple(notice for notice in reversed(notices) if notice.time >= trip[0].time),
            balance=balance,
            balance_from=source,
        )

    def segment(self, xway: int, direction: int, seg: int, second: int, minutes: int) -> list[PlottedMinute]:
        """Return the last minutes of a segment up to ``second``, oldest first."""
        place = self._roads.place(xway)
        if place is None:
            raise NotFound(f"There is no expressway {xway}.", hint="Choose one on the map.")
        cell = self._roads.xways.index(xway) * CELLS + direction * SEGMENTS + seg
        last = second // MINUTE
        return [
            self._minute(place[0], cell, number, min(second + 1, (number + 1) * MINUTE))
            for number in range(max(last - minutes + 1, 0), last + 1)
        ]

    def _minute(self, stored: int, cell: int, minute: int, until: int) -> PlottedMinute:
        reports = self._roads.reports(stored, minute * MINUTE, until)
        mine = select(reports, find_cell(reports) == cell % CELLS)
        vids, which = np.unique(mine["vid"], return_inverse=True)
        means = np.bincount(which, weights=mine["spd"]) / np.maximum(np.bincount(which), 1)
        notices = self._minutes.minute(minute, self._journal)
        known = notices.toll[cell] != NO_DATA
        return PlottedMinute(
            minute=minute + 1,
            cars=int(vids.size),
            speed=round(float(means.mean()), 1) if vids.size else None,
            lav=int(notices.lav[cell]) if known else None,
            toll=int(notices.toll[cell]) if known else None,
            accident=bool(notices.accident[cell]),
        )

    # --- internals --------------------

    def _reports(self, own: int, copy: int, second: int) -> list[Report]:
        """Return all reports of a vehicle up to a second, in time order."""
        found: list[Report] = []
        stride = self._roads.run.xway_stride
        columns = ["time", "xway", "dir", "lane", "pos", "spd"]
        for expressway in self._roads.run.manifest.expressways:
            mine = (pc.field("vid") == own) & (pc.field("time") <= second) & (pc.field("type") == POSITION)
            table = pq.read_table(self._roads.run.path / expressway.file, columns=columns, filters=mine)
            for row in table.to_pylist():
                found.append(Report(**{**row, "xway": row["xway"] + copy * stride}, seg=row["pos"] // MILE))
        return sorted(found, key=lambda report: report.time)

    def _notices(self, vid: int, reports: list[Report]) -> list[Notice]:
        """Return the notification for each segment that the vehicle entered, and whether it was charged."""
        entries = [report for report, _ in _entries(reports)]
        sent = self._find_sent_to(vid, {report.time for report in entries})
        notices = []
        for report, paid in _entries(reports):
            if (notice := sent.get(report.time)) is not None:
                place = (report.time, report.xway, report.dir, report.seg)
                charged = paid and notice["toll"] > 0
                notices.append(Notice(*place, notice["toll"], notice["lav"], notice["alert"], charged))
        return notices

    def _find_sent_to(self, vid: int, times: set[int]) -> dict[int, dict[str, Any]]:
        batches = {
            batch.batch
            for minute in {time // MINUTE for time in times}
            for batch in self._journal.of_minute(minute)
            if any(kind == TOLL and time in times for kind, time, *_ in batch.answers)
        }
        sent: dict[int, dict[str, Any]] = {}
        for batch in sorted(batches):
            answers = read_batch_answers(self._out, batch, (TOLL, ALERT))
            for place in np.flatnonzero(answers["vid"] == vid).tolist():
                kind, time, a, b = (int(answers[name][place]) for name in ("kind", "time", "a", "b"))
                notice = sent.setdefault(time, {"toll": 0, "lav": NO_DATA, "alert": None})
                notice |= {"toll": b, "lav": a} if kind == TOLL else {"alert": a}
        return sent

    def _balance(
        self, vid: int, second: int, notices: list[Notice]
    ) -> tuple[int | None, Literal["snapshot", "answers", "nowhere"]]:
        if second >= self._journal.newest and has_snapshot(self._out):
            account = Snapshot.open(self._out, only="account", batch=self._journal.batches[-1].batch)["account"].get(
                vid
            )
            return (account["charged"] - account["credits"] if account else 0), "snapshot"
        if self._rules != "2004":
            # discounts and credits are not in the answers
            return None, "nowhere"
        return sum(notice.toll for notice in notices if notice.charged), "answers"

    def _exit(self, own: int, first: Report) -> int | None:
        file = self._roads.run.path / TRIPS
        if not file.is_file():
            return None
        mine = (pc.field("vid") == own) & (pc.field("start") <= first.time)
        trips = pq.read_table(file, columns=["start", "exit"], filters=mine).sort_by("start")
        return int(trips.column("exit")[-1].as_py()) if trips.num_rows else None


def _trips(reports: list[Report]) -> list[tuple[Report, bool]]:
    """Return each report, and whether it starts a trip: after a gap, a turn, another expressway, or an exit."""
    starts = [True] + [not _same_trip(before, after) for before, after in pairwise(reports)]
    return list(zip(reports, starts, strict=True))


def _same_trip(before: Report, after: Report) -> bool:
    begins = begins_trip(after.time, after.lane, after.dir, before.time, before.lane, before.dir, REPORT_EVERY)
    return before.xway == after.xway and not begins


def _entries(reports: list[Report]) -> list[tuple[Report, bool]]:
    """Return the reports that entered a segment, and whether the vehicle later left it on the same trip."""
    entered = [
        report
        for place, (report, starts) in enumerate(_trips(reports))
        if starts or report.seg != reports[place - 1].seg
    ]
    marks = dict(_trips(reports))
    left = [not marks[after] for after in entered[1:]] + [False]
    return list(zip(entered, left, strict=True))
