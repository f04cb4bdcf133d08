"""The live city: which run and engine are on display, the displayed second, and the frames that pages receive.

There is one city for all pages, so that two screens show the same, and a reload changes nothing. A thread reads the
engine's folder four times a second and makes a new frame of it. The page may show the newest committed second or any
earlier one, and play from there at any speed.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from slipstream._console.errors import Conflict
from slipstream._console.jobs.states import is_at_work, state_of
from slipstream._console.live.batch_health import (
    RECENT,
    BatchHealth,
    FollowedJournal,
    ResponseHistogram,
    ResponseQuantiles,
    StreamHealth,
)
from slipstream._console.live.live_roads import LiveRoads, SegmentTraffic
from slipstream._console.live.notices import MinuteNotices, Notices
from slipstream._console.live.published_city import PublishedCity
from slipstream._console.live.toll_processes import EngineProcess, stop_clock
from slipstream._console.live.vehicles import Lookup, PlottedMinute, VehicleDetail, has_snapshot
from slipstream._console.workspace import Workspace
from slipstream._feeds.clock import FULL_SPEED, Clock
from slipstream._feeds.run import Run
from slipstream._feeds.tuples import SEGMENTS
from slipstream._io.named_feeds import CLOCK
from slipstream._io.outputs import CHECKPOINT
from slipstream._linear_road.answers import LIMITS, NAMES
from slipstream._linear_road.job.toll_layout import Layout
from slipstream._linear_road.rules import RULES
from slipstream._linear_road.state.cars import CELLS

LOOK_EVERY = 0.25
#: batches that a page receives when it opens: a quarter of an hour in real time
SHOWN_BATCHES = 900
#: newest batches whose commit time may still be missing: the engine writes it up to two seconds later
WITHOUT_COMMIT_TIME = 12

Status = Literal["idle", "starting", "running", "stopping", "paused", "stopped", "finished", "failed"]


@dataclass(frozen=True)
class DisplayedTime:
    """The displayed time: the newest second, or an earlier one, paused or playing."""

    follow: bool = True
    second: float = 0.0
    playing: bool = False
    speed: float = 1.0


@dataclass(frozen=True)
class KindHealth:
    """Response times of one kind of answer against its limit."""

    kind: str
    limit: float
    answers: int
    recent: ResponseQuantiles | None
    whole: ResponseQuantiles | None


@dataclass(frozen=True)
class Consistency:
    """The measures of real-time consistency, over the last minute of the run."""

    arrival_rate: float | None = None  # tuples per second of the run
    interarrival: float | None = None  # seconds between tuples
    commit: float | None = None  # mean seconds to commit a batch
    capacity: float | None = None  # mean seconds per batch left for queries
    stable: bool | None = None  # commits take less than the time between batches
    lag: float | None = None  # seconds from the end of a second to its answers
    kinds: tuple[KindHealth, ...] = ()


@dataclass(frozen=True)
class AlertedAccident:
    """An accident with alerts."""

    xway: int
    dir: int
    seg: int


@dataclass(frozen=True)
class CityState:
    """What the page shows in addition to the map."""

    status: Status = "idle"
    run: str = ""
    result: str = ""
    error: str = ""
    speed: float = 1.0
    rules: str = "2004"
    seconds: int = 0  # of the run
    committed: int = -1  # newest second with answers
    shown: int = -1  # the displayed second
    age: float | None = None  # seconds since the last commit
    view: DisplayedTime = field(default_factory=DisplayedTime)
    xways: tuple[int, ...] = ()
    cars: int = 0
    mean_speed: float | None = None
    accidents: tuple[AlertedAccident, ...] = ()
    health: Consistency = field(default_factory=Consistency)


@dataclass
class DisplayedResult:
    """The engine's folder on display."""

    name: str
    out: Path
    run_name: str
    run: Run | None
    speed: float
    rules: str
    journal: FollowedJournal = field(init=False)
    health: StreamHealth = field(init=False)
    roads: LiveRoads | None = field(init=False)
    notices: Notices | None = field(init=False)
    published: PublishedCity | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.journal = FollowedJournal(self.out)
        self.roads = LiveRoads(self.run) if self.run else None
        self.notices = Notices(self.roads, self.out) if self.roads else None
        self.health = StreamHealth(self.out, self.speed, self.roads.tuples_by_second if self.roads else None)

    @property
    def seconds(self) -> int:
        """The length of the run."""
        return self.run.manifest.seconds if self.run else self.journal.newest + 1

    @property
    def xways(self) -> list[int]:
        """The known expressways."""
        return self.roads.xways if self.roads else self.published.xways if self.published else []

    @property
    def visible(self) -> bool:
        """Whether there is traffic to display: from a run, or from a snapshot."""
        return self.journal.newest >= 0 and (self.roads is not None or has_snapshot(self.out))

    def map_at(self, second: int) -> tuple[SegmentTraffic, MinuteNotices]:
        """Return the traffic and the notices at a second."""
        if self.roads is not None and self.notices is not None:
            return self.roads.traffic(second), self.notices.at(second, self.journal)
        self.published = self.published or PublishedCity(self.out)
        self.published.refresh(self.journal.batches[-1].batch)
        return self.published.traffic(second), self.published.notices()


#: the state of a job of another process -> what the page shows; otherwise the job has ended
_ELSEWHERE: dict[str, Status] = {"starting": "starting", "ready": "running", "running": "running", "paused": "paused"}


class LiveCity:
    """The result on display, and the running engine, if the console started one."""

    def __init__(self, workspace: Workspace, master: str) -> None:
        self.workspace = workspace
        self._master = master
        self._lock = threading.RLock()
        self._subject: DisplayedResult | None = None
        self._engine: EngineProcess | None = None
        self._after: Status = "stopped"
        self._error = ""
        self._view = DisplayedTime()
        self._looked = time.monotonic()
        self._since = -1
        self._drawn: tuple[str, int, int] | None = None
        self.state = CityState()
        self.grid = ""
        self.grid_version = 0
        self.closed = threading.Event()

    # --- actions --------------------

    def start(self, run_name: str, speed: float, rules: str) -> CityState:
        """Toll a run from the beginning, into a new folder."""
        with self._lock:
            self._refuse_if_busy()
            run = self.workspace.run(run_name)
            name, out = self.workspace.new(f"{Path(run_name).name}-tolls")
            self._show(DisplayedResult(name, out, run_name, run, speed, rules))
            self._launch(speed)
            return self.look()

    def resume(self, speed: float) -> CityState:
        """Resume a paused or stopped engine."""
        with self._lock:
            self._refuse_if_busy()
            subject = self._displayed()
            if is_at_work(state_of(subject.out)):
                raise Conflict(
                    "Another process is running this job.", hint="Control it on the Jobs page.", code="job-running"
                )
            if subject.run is None:
                raise Conflict("Only runs of the workspace can be resumed here.", hint="Start a run.")
            if subject.rules not in RULES:
                # the folder may come from anyone, and an engine would import the module that its layout names
                raise Conflict(
                    f"Its rules are custom code ({subject.rules[:100]!r}), which the console does not load.",
                    hint="Resume it on the command line: slipstream toll RUN --out FOLDER --rules MODULE:FUNCTION",
                )
            if subject.journal.newest >= subject.seconds - 1:
                raise Conflict("The run is finished.", hint="Start it again, or replay it.")
            stop_clock(subject.out)
            subject.speed = speed
            self._launch(speed)
            return self.look()

    def halt(self, after: Status) -> CityState:
        """Stop the engine after its batch; ``after`` is the resulting status: paused or stopped."""
        with self._lock:
            if self._engine is None or not self._engine.runs:
                raise Conflict(
                    "No engine of this console is running.",
                    hint="Start a run first; stop jobs of other processes on the Jobs page.",
                )
            self._after = after
            self._engine.request_stop()
            return self.look()

    def open(self, name: str) -> CityState:
        """Display a folder that an engine has written or is writing."""
        with self._lock:
            self._refuse_if_busy()
            out = self.workspace.result(name)
            layout = Layout.read(out)
            run = self.workspace.run_of(out)
            run_name = self.workspace.name(run.path) if run else layout.source.partition(" ")[2]
            self._engine, self._error = None, ""
            self._show(DisplayedResult(name, out, run_name, run, _speed(out), layout.rules))
            return self.look()

    def look_at(self, view: DisplayedTime) -> CityState:
        """Display another second."""
        with self._lock:
            newest = self._displayed().journal.newest
            if self._displayed().roads is None and not view.follow:
                raise Conflict("This feed cannot be replayed.", hint="Only runs in the workspace can be replayed.")
            self._view = replace(view, second=min(max(view.second, 0.0), max(newest, 0)))
            return self.look()

    def close(self) -> None:
        """Stop, including the engine."""
        self.closed.set()
        with self._lock:
            if self._engine is not None:
                self._engine.stop()

    # --- what pages receive --------------------

    def watch(self) -> None:
        """Refresh repeatedly, until closed."""
        while not self.closed.wait(LOOK_EVERY):
            try:
                self.look()
            except Exception as error:  # a wall display must survive unreadable files
                self.state = replace(self.state, error=f"The console cannot read {self.state.result}: {error}")

    def look(self) -> CityState:
        """Read what the engine has committed, and update the state and the map."""
        with self._lock:
            now = time.monotonic()
            passed, self._looked = now - self._looked, now
            subject = self._subject
            if subject is None:
                return self.state
            subject.health.speed = subject.speed
            subject.health.add(subject.journal.refresh())
            subject.health.add_commit_times()
            self._move(passed, subject.journal.newest)
            self._draw(subject)
            return self.state

    def batches_after(self, batch: int) -> list[BatchHealth]:
        """Return the batches after ``batch``, and the last ones before it again, as they may have changed."""
        if self._subject is None:
            return []
        shown = self._subject.health.batches[-SHOWN_BATCHES:]
        return [one for one in shown if one.batch > batch - WITHOUT_COMMIT_TIME]

    @property
    def subject(self) -> DisplayedResult:
        """The result on display."""
        return self._displayed()

    def displayed_map(self) -> tuple[int, list[int], SegmentTraffic, MinuteNotices]:
        """Return the displayed second, the expressways, their traffic, and the notices."""
        with self._lock:
            subject, second = self._visible(), self.state.shown
            return second, subject.xways, *subject.map_at(second)

    def vehicle(self, vid: int) -> VehicleDetail:
        """Return a vehicle at the displayed second."""
        subject = self._visible()
        if subject.published is not None:
            return subject.published.vehicle(vid, self.state.shown)
        return self._lookup(subject).vehicle(vid, self.state.shown)

    def segment(self, xway: int, direction: int, seg: int, minutes: int) -> list[PlottedMinute]:
        """Return the last minutes of a segment up to the displayed second."""
        subject = self._visible()
        if subject.published is not None:
            return subject.published.segment(xway, direction, seg)
        return self._lookup(subject).segment(xway, direction, seg, self.state.shown, minutes)

    def _lookup(self, subject: DisplayedResult) -> Lookup:
        assert subject.roads is not None
        assert subject.notices is not None
        return Lookup(subject.roads, subject.notices, subject.journal, subject.out, subject.rules)

    def _visible(self) -> DisplayedResult:
        subject = self._displayed()
        if not subject.visible or self.state.shown < 0:
            raise Conflict("There is no traffic to display yet.", hint="Start a run and wait for its first batch.")
        return subject

    @property
    def engine_runs(self) -> bool:
        """Whether an engine of this console is running."""
        return self._engine is not None and self._engine.runs

    # --- internals --------------------

    def _launch(self, speed: float) -> None:
        subject = self._displayed()
        assert subject.run is not None
        self._error, self._after = "", "stopped"
        self._view, self._since = DisplayedTime(), subject.journal.newest
        # a folder that was started without a snapshot resumes without one
        snapshot = has_snapshot(subject.out) or not subject.out.exists()
        self._engine = EngineProcess(subject.run, subject.out, speed, subject.rules, self._master, snapshot=snapshot)

    def _show(self, subject: DisplayedResult) -> None:
        self._subject, self._view, self._drawn = subject, DisplayedTime(), None
        self.grid, self.grid_version = "", self.grid_version + 1

    def _displayed(self) -> DisplayedResult:
        if self._subject is None:
            raise Conflict("Nothing is on display yet.", hint="Start a run, or open a result.")
        return self._subject

    def _refuse_if_busy(self) -> None:
        if self.engine_runs:
            raise Conflict("An engine is running.", hint="Stop it first.")

    def _move(self, passed: float, newest: int) -> None:
        view = self._view
        if view.playing and not view.follow:
            second = view.second + passed * view.speed
            self._view = replace(view, second=min(second, max(newest, 0)), playing=second < newest)

    def _status(self, subject: DisplayedResult) -> Status:
        engine = self._engine
        newest, done = subject.journal.newest, subject.journal.newest >= subject.seconds - 1
        if engine is None:
            return _ELSEWHERE.get(state_of(subject.out), "finished" if done else "stopped")
        if engine.runs:
            return "stopping" if engine.is_stopping else "running" if newest > self._since else "starting"
        if engine.failure:
            self._error = engine.failure
            return "failed"
        return "finished" if done else self._after

    def _draw(self, subject: DisplayedResult) -> None:
        """Update the state, and the map if the second or the notices have changed; pages see both or neither."""
        newest = subject.journal.newest
        shown = newest if self._view.follow else int(self._view.second)
        drawn = (subject.name, shown, newest if shown >= newest - RECENT else -1)
        state = replace(
            self.state if self.state.result == subject.name else CityState(),
            status=self._status(subject),
            run=subject.run_name,
            result=subject.name,
            error=self._error,
            speed=subject.speed,
            rules=subject.rules,
            seconds=subject.seconds,
            committed=newest,
            shown=shown,
            age=round(time.time() - subject.journal.committed_at, 1) if newest >= 0 else None,
            view=self._view,
            xways=tuple(subject.xways),
            health=measure_health(subject),
        )
        if drawn != self._drawn and subject.visible and shown >= 0:
            self._drawn = drawn
            state = self._paint(subject, state)
        self.state = state

    def _paint(self, subject: DisplayedResult, state: CityState) -> CityState:
        """Draw the map of the displayed second; return the state with its counts."""
        traffic, notices = subject.map_at(state.shown)
        xways = tuple(subject.xways)
        cars = int(traffic.cars.sum())
        mean = float((traffic.cars * np.maximum(traffic.speed, 0)).sum() / cars) if cars else None
        self.grid = json.dumps({"second": state.shown, "xways": xways, **encode_map(traffic, notices)})
        self.grid_version += 1
        mean_speed = round(mean, 1) if mean is not None else None
        return replace(state, cars=cars, mean_speed=mean_speed, xways=xways, accidents=find_accidents(notices, xways))


def encode_map(traffic: SegmentTraffic, notices: MinuteNotices) -> dict[str, str]:
    """Encode the map compactly; speed is 255 in empty segments."""
    columns = {
        "speed": np.where(traffic.speed < 0, 255, traffic.speed).astype("u1"),
        "cars": np.minimum(traffic.cars, 0xFFFF).astype("<u2"),
        "toll": np.maximum(notices.toll, 0).astype("<u4"),
        "accident": notices.accident.astype("u1"),
    }
    return {name: base64.b64encode(column.tobytes()).decode() for name, column in columns.items()}


def find_accidents(notices: MinuteNotices, xways: tuple[int, ...]) -> tuple[AlertedAccident, ...]:
    """Return the accidents with alerts."""
    cells = np.flatnonzero(notices.accident).tolist()
    return tuple(AlertedAccident(xways[cell // CELLS], cell % CELLS // SEGMENTS, cell % SEGMENTS) for cell in cells)


def measure_health(subject: DisplayedResult) -> Consistency:
    """Return the current health of the stream."""
    newest = subject.journal.newest
    batches = [batch for batch in subject.health.batches[-RECENT * 4 :] if batch.second > newest - RECENT]
    seconds = sum(batch.seconds for batch in batches)
    counted = [batch.tuples for batch in batches if batch.tuples is not None]
    rate = sum(counted) / seconds if counted and seconds else None
    commits = [batch.commit for batch in batches if batch.commit is not None]
    timed = [(one.budget, one.commit) for one in batches if one.commit is not None and one.budget is not None]
    left = sum(budget - commit for budget, commit in timed) / len(timed) if timed else None
    return Consistency(
        arrival_rate=rate,
        interarrival=1 / rate if rate else None,
        commit=sum(commits) / len(commits) if commits else None,
        capacity=left,
        stable=left > 0 if left is not None else None,
        lag=batches[-1].lag if batches else None,
        kinds=tuple(_kind(subject, kind) for kind in range(len(NAMES))),
    )


def _kind(subject: DisplayedResult, kind: int) -> KindHealth:
    recent = ResponseHistogram()
    if subject.speed != FULL_SPEED:
        for batch in subject.journal.last(RECENT):
            rows = np.array([row for row in batch.answers if row[0] == kind], np.int64).reshape(-1, 4)
            recent.add(rows[:, 3] / 1000, rows[:, 2])
    total = subject.health.total[kind]
    answers = subject.health.answers[kind]
    return KindHealth(NAMES[kind], LIMITS[kind], answers, recent.quantiles(), total.quantiles())


def _speed(out: Path) -> float:
    clock = Clock.read(out / CHECKPOINT / CLOCK)
    return clock.speed if clock else FULL_SPEED


def format_event(name: str, body: str) -> str:
    """Format a server-sent event."""
    return f"event: {name}\ndata: {body}\n\n"


def batches_json(batches: list[BatchHealth]) -> str:
    """Encode the health of batches for the page."""
    return json.dumps([asdict(batch) for batch in batches])


def state_json(state: CityState) -> str:
    """Encode the state for the page."""
    body: dict[str, Any] = asdict(state)
    return json.dumps(body)
