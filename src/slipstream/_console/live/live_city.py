"""The city on show: which run and engine are watched, where in time the page looks, and the frames it gets.

There is one city for all pages, so that two screens show the same and a reload finds what was there. A thread looks at
the engine's folder four times a second; what it finds becomes a new frame. The page may look at the newest committed
second or at any before it, and play on from there at any speed.
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

from slipstream._console.live.batch_health import RECENT, Beat, Delays, Journal, Pulse, Response
from slipstream._console.live.engines import Engine, stop_clock
from slipstream._console.live.notices import Told, Word
from slipstream._console.live.published_city import Published
from slipstream._console.live.roads import Roads, Traffic
from slipstream._console.live.vehicles import Lookup, SegmentMinute, Vehicle, has_snapshot
from slipstream._console.overview import is_at_work, state_of
from slipstream._console.refusals import NotNow
from slipstream._console.workspace import Workspace
from slipstream._feeds.clock import FULL_SPEED
from slipstream._feeds.run import Run
from slipstream._feeds.tuples import SEGMENTS
from slipstream._io.outputs import CHECKPOINT
from slipstream._linear_road.answers import LIMITS, NAMES
from slipstream._linear_road.job.layout import Layout
from slipstream._linear_road.rules import RULES
from slipstream._linear_road.state.cars import CELLS

LOOK_EVERY = 0.25
#: beats a page gets when it opens: a quarter of an hour at real time
SHOWN_BEATS = 900
#: newest beats that may still get their commit time: the engine writes it up to two seconds later
UNSETTLED = 12

Status = Literal["idle", "starting", "running", "stopping", "paused", "stopped", "finished", "failed"]


@dataclass(frozen=True)
class View:
    """Where in time the page looks: at the newest second, or at one before, standing or playing."""

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
    recent: Response | None
    whole: Response | None


@dataclass(frozen=True)
class Health:
    """The quantities of real-time consistency, over the last minute of the run."""

    arrival_rate: float | None = None  # tuples a second of the run
    interarrival: float | None = None  # seconds between tuples
    commit: float | None = None  # mean seconds to commit a batch
    capacity: float | None = None  # mean seconds left of a batch's share, for queries
    stable: bool | None = None  # commits take less than the time between batches
    lag: float | None = None  # seconds from the end of a second to its answers
    kinds: tuple[KindHealth, ...] = ()


@dataclass(frozen=True)
class Accident:
    """An accident that drivers are warned of."""

    xway: int
    dir: int
    seg: int


@dataclass(frozen=True)
class State:
    """What the page shows besides the map."""

    status: Status = "idle"
    run: str = ""
    result: str = ""
    error: str = ""
    speed: float = 1.0
    rules: str = "2004"
    seconds: int = 0  # of the run
    committed: int = -1  # newest second with answers
    shown: int = -1  # second on the map
    age: float | None = None  # seconds since the last commit
    view: View = field(default_factory=View)
    xways: tuple[int, ...] = ()
    cars: int = 0
    mean_speed: float | None = None
    accidents: tuple[Accident, ...] = ()
    health: Health = field(default_factory=Health)


@dataclass
class Subject:
    """An engine's folder that is watched."""

    name: str
    out: Path
    run_name: str
    run: Run | None
    speed: float
    rules: str
    journal: Journal = field(init=False)
    pulse: Pulse = field(init=False)
    roads: Roads | None = field(init=False)
    told: Told | None = field(init=False)
    published: Published | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.journal = Journal(self.out)
        self.roads = Roads(self.run) if self.run else None
        self.told = Told(self.roads, self.out) if self.roads else None
        self.pulse = Pulse(self.out, self.speed, self.roads.tuples_by_second if self.roads else None)

    @property
    def seconds(self) -> int:
        """The length of the run."""
        return self.run.manifest.seconds if self.run else self.journal.newest + 1

    @property
    def xways(self) -> list[int]:
        """The expressways that are known."""
        return self.roads.xways if self.roads else self.published.xways if self.published else []

    @property
    def visible(self) -> bool:
        """Whether there is traffic to show: a run that can be read, or a snapshot."""
        return self.journal.newest >= 0 and (self.roads is not None or has_snapshot(self.out))

    def seen(self, second: int) -> tuple[Traffic, Word]:
        """The traffic at a second, and what drivers were told."""
        if self.roads is not None and self.told is not None:
            return self.roads.traffic(second), self.told.at(second, self.journal)
        self.published = self.published or Published(self.out)
        self.published.refresh(self.journal.batches[-1].batch)
        return self.published.traffic(second), self.published.word()


#: what a job of another process does -> what the page calls it; it has ended otherwise
_ELSEWHERE: dict[str, Status] = {"starting": "starting", "ready": "running", "running": "running", "paused": "paused"}


class City:
    """What is watched, and the engine that is at work, if the console started one."""

    def __init__(self, workspace: Workspace, master: str) -> None:
        self.workspace = workspace
        self._master = master
        self._lock = threading.RLock()
        self._subject: Subject | None = None
        self._engine: Engine | None = None
        self._after: Status = "stopped"
        self._error = ""
        self._view = View()
        self._looked = time.monotonic()
        self._since = -1
        self._drawn: tuple[str, int, int] | None = None
        self.state = State()
        self.grid = ""
        self.grid_version = 0
        self.closed = threading.Event()

    # --- what people do --------------------

    def start(self, run_name: str, speed: float, rules: str) -> State:
        """Toll a run from its beginning, into a new folder."""
        with self._lock:
            self._refuse_if_busy()
            run = self.workspace.run(run_name)
            name, out = self.workspace.new(f"{Path(run_name).name}-tolls")
            self._show(Subject(name, out, run_name, run, speed, rules))
            self._launch(speed)
            return self.look()

    def resume(self, speed: float) -> State:
        """Go on where a paused or stopped engine was."""
        with self._lock:
            self._refuse_if_busy()
            subject = self._watched()
            if is_at_work(state_of(subject.out)):
                raise NotNow("Another process is at work in this folder.", hint="Steer it on the Jobs page.")
            if subject.run is None:
                raise NotNow("Only runs of the workspace can go on from here.", hint="Start a run.")
            if subject.rules not in RULES:
                # the folder may be anyone's, and an engine would import what its layout names
                raise NotNow(
                    f"Its rules are code, {subject.rules[:100]!r}, which the console does not load.",
                    hint="Resume it on the command line: slipstream toll RUN --out FOLDER --rules MODULE:FUNCTION",
                )
            if subject.journal.newest >= subject.seconds - 1:
                raise NotNow("The run is over.", hint="Start it again, or replay it.")
            stop_clock(subject.out)
            subject.speed = speed
            self._launch(speed)
            return self.look()

    def halt(self, after: Status) -> State:
        """Stop the engine after its batch; ``after`` says what that means: paused or stopped."""
        with self._lock:
            if self._engine is None or not self._engine.runs:
                raise NotNow(
                    "No engine of this console is at work.",
                    hint="Start a run first; what another process runs is stopped on the Jobs page.",
                )
            self._after = after
            self._engine.request_stop()
            return self.look()

    def open(self, name: str) -> State:
        """Watch a folder that an engine wrote, or is writing."""
        with self._lock:
            self._refuse_if_busy()
            out = self.workspace.result(name)
            layout = Layout.read(out)
            run = self.workspace.run_of(out)
            run_name = self.workspace.name(run.path) if run else layout.source.partition(" ")[2]
            self._engine, self._error = None, ""
            self._show(Subject(name, out, run_name, run, _speed(out), layout.rules))
            return self.look()

    def look_at(self, view: View) -> State:
        """Look at another second."""
        with self._lock:
            newest = self._watched().journal.newest
            if self._watched().roads is None and not view.follow:
                raise NotNow("This feed cannot be replayed.", hint="Only runs in the workspace can be read again.")
            self._view = replace(view, second=min(max(view.second, 0.0), max(newest, 0)))
            return self.look()

    def close(self) -> None:
        """End, and the engine with it."""
        self.closed.set()
        with self._lock:
            if self._engine is not None:
                self._engine.stop()

    # --- what the pages get --------------------

    def watch(self) -> None:
        """Look again and again, until closed."""
        while not self.closed.wait(LOOK_EVERY):
            try:
                self.look()
            except Exception as error:  # a page on a wall outlives what it cannot read
                self.state = replace(self.state, error=f"The console cannot read {self.state.result}: {error}")

    def look(self) -> State:
        """See what the engine has committed, and make of it what the pages get."""
        with self._lock:
            now = time.monotonic()
            passed, self._looked = now - self._looked, now
            subject = self._subject
            if subject is None:
                return self.state
            subject.pulse.speed = subject.speed
            subject.pulse.take(subject.journal.refresh())
            subject.pulse.settle()
            self._move(passed, subject.journal.newest)
            self._draw(subject)
            return self.state

    def beats_after(self, batch: int) -> list[Beat]:
        """The beats a page that has seen ``batch`` lacks; the last ones again, for they may have changed."""
        subject = self._subject
        return (
            [beat for beat in subject.pulse.beats[-SHOWN_BEATS:] if beat.batch > batch - UNSETTLED] if subject else []
        )

    @property
    def subject(self) -> Subject:
        """What is watched."""
        return self._watched()

    def seen(self) -> tuple[int, list[int], Traffic, Word]:
        """The second on show, the expressways, their traffic, and what drivers were told."""
        with self._lock:
            subject, second = self._visible(), self.state.shown
            return second, subject.xways, *subject.seen(second)

    def vehicle(self, vid: int) -> Vehicle:
        """A vehicle at the second on show."""
        subject = self._visible()
        if subject.published is not None:
            return subject.published.vehicle(vid, self.state.shown)
        return self._lookup(subject).vehicle(vid, self.state.shown)

    def segment(self, xway: int, direction: int, seg: int, minutes: int) -> list[SegmentMinute]:
        """The last minutes of a segment up to the second on show."""
        subject = self._visible()
        if subject.published is not None:
            return subject.published.segment(xway, direction, seg)
        return self._lookup(subject).segment(xway, direction, seg, self.state.shown, minutes)

    def _lookup(self, subject: Subject) -> Lookup:
        assert subject.roads is not None
        assert subject.told is not None
        return Lookup(subject.roads, subject.told, subject.journal, subject.out, subject.rules)

    def _visible(self) -> Subject:
        subject = self._watched()
        if not subject.visible or self.state.shown < 0:
            raise NotNow("There is no traffic to look at yet.", hint="Start a run and wait for its first batch.")
        return subject

    @property
    def engine_runs(self) -> bool:
        """Whether an engine of this console is at work."""
        return self._engine is not None and self._engine.runs

    # --- how --------------------

    def _launch(self, speed: float) -> None:
        subject = self._watched()
        assert subject.run is not None
        self._error, self._after = "", "stopped"
        self._view, self._since = View(), subject.journal.newest
        # a folder that was begun without a snapshot goes on without
        snapshot = has_snapshot(subject.out) or not subject.out.exists()
        self._engine = Engine(subject.run, subject.out, speed, subject.rules, self._master, snapshot=snapshot)

    def _show(self, subject: Subject) -> None:
        self._subject, self._view, self._drawn = subject, View(), None
        self.grid, self.grid_version = "", self.grid_version + 1

    def _watched(self) -> Subject:
        if self._subject is None:
            raise NotNow("Nothing is watched yet.", hint="Start a run, or open a result.")
        return self._subject

    def _refuse_if_busy(self) -> None:
        if self.engine_runs:
            raise NotNow("An engine is at work.", hint="Stop it first.")

    def _move(self, passed: float, newest: int) -> None:
        view = self._view
        if view.playing and not view.follow:
            second = view.second + passed * view.speed
            self._view = replace(view, second=min(second, max(newest, 0)), playing=second < newest)

    def _status(self, subject: Subject) -> Status:
        engine = self._engine
        newest, done = subject.journal.newest, subject.journal.newest >= subject.seconds - 1
        if engine is None:
            return _ELSEWHERE.get(state_of(subject.out), "finished" if done else "stopped")
        if engine.runs:
            return "stopping" if engine.leaving else "running" if newest > self._since else "starting"
        if engine.failure:
            self._error = engine.failure
            return "failed"
        return "finished" if done else self._after

    def _draw(self, subject: Subject) -> None:
        """A new state, and a new map where the second or what was told has changed; pages see both or neither."""
        newest = subject.journal.newest
        shown = newest if self._view.follow else int(self._view.second)
        drawn = (subject.name, shown, newest if shown >= newest - RECENT else -1)
        state = replace(
            self.state if self.state.result == subject.name else State(),
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
            health=health(subject),
        )
        if drawn != self._drawn and subject.visible and shown >= 0:
            self._drawn = drawn
            state = self._paint(subject, state)
        self.state = state

    def _paint(self, subject: Subject, state: State) -> State:
        """Draw the map of the second on show; returns the state with what is to be seen on it."""
        traffic, word = subject.seen(state.shown)
        xways = tuple(subject.xways)
        cars = int(traffic.cars.sum())
        mean = float((traffic.cars * np.maximum(traffic.speed, 0)).sum() / cars) if cars else None
        self.grid = json.dumps({"second": state.shown, "xways": xways, **packed(traffic, word)})
        self.grid_version += 1
        mean_speed = round(mean, 1) if mean is not None else None
        return replace(state, cars=cars, mean_speed=mean_speed, xways=xways, accidents=accidents(word, xways))


def packed(traffic: Traffic, word: Word) -> dict[str, str]:
    """The map as little bytes: speed 255 where nobody is."""
    columns = {
        "speed": np.where(traffic.speed < 0, 255, traffic.speed).astype("u1"),
        "cars": np.minimum(traffic.cars, 0xFFFF).astype("<u2"),
        "toll": np.maximum(word.toll, 0).astype("<u4"),
        "accident": word.accident.astype("u1"),
    }
    return {name: base64.b64encode(column.tobytes()).decode() for name, column in columns.items()}


def accidents(word: Word, xways: tuple[int, ...]) -> tuple[Accident, ...]:
    """Where drivers are warned of accidents."""
    cells = np.flatnonzero(word.accident).tolist()
    return tuple(Accident(xways[cell // CELLS], cell % CELLS // SEGMENTS, cell % SEGMENTS) for cell in cells)


def health(subject: Subject) -> Health:
    """How the stream does now."""
    beats = [beat for beat in subject.pulse.beats[-RECENT * 4 :] if beat.second > subject.journal.newest - RECENT]
    seconds = sum(beat.seconds for beat in beats)
    counted = [beat.tuples for beat in beats if beat.tuples is not None]
    rate = sum(counted) / seconds if counted and seconds else None
    commits = [beat.commit for beat in beats if beat.commit is not None]
    timed = [(beat.budget, beat.commit) for beat in beats if beat.commit is not None and beat.budget is not None]
    left = sum(budget - commit for budget, commit in timed) / len(timed) if timed else None
    return Health(
        arrival_rate=rate,
        interarrival=1 / rate if rate else None,
        commit=sum(commits) / len(commits) if commits else None,
        capacity=left,
        stable=left > 0 if left is not None else None,
        lag=beats[-1].lag if beats else None,
        kinds=tuple(_kind(subject, kind) for kind in range(len(NAMES))),
    )


def _kind(subject: Subject, kind: int) -> KindHealth:
    recent = Delays()
    if subject.speed != FULL_SPEED:
        for batch in subject.journal.last(RECENT):
            rows = np.array([row for row in batch.answers if row[0] == kind], np.int64).reshape(-1, 4)
            recent.add(rows[:, 3] / 1000, rows[:, 2])
    whole = subject.pulse.whole[kind]
    answers = subject.pulse.answers[kind]
    return KindHealth(NAMES[kind], LIMITS[kind], answers, recent.response(), whole.response())


def _speed(out: Path) -> float:
    file = out / CHECKPOINT / "clock.json"
    return float(json.loads(file.read_text(encoding="utf-8"))["speed"]) if file.exists() else FULL_SPEED


def as_event(name: str, body: str) -> str:
    """A server-sent event."""
    return f"event: {name}\ndata: {body}\n\n"


def beats_json(beats: list[Beat]) -> str:
    """Beats as the page reads them."""
    return json.dumps([asdict(beat) for beat in beats])


def state_json(state: State) -> str:
    """The state as the page reads it."""
    body: dict[str, Any] = asdict(state)
    return json.dumps(body)
