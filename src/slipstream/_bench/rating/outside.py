"""A trial from outside: broker, engine and driver are separate processes, and the engine is only observed.

The engine is started first. When it is ready, the driver sends the window in real time. Response times are those by
arrival at the door. If the driver itself was late, the trial is void. An engine that dies is started again where the
door keeps what it has not read: its answers are late, but none is lost.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from slipstream._bench.driving.driver import MAX_LAG, Sent, read_sent
from slipstream._bench.rating.doors import Door, Entry
from slipstream._bench.rating.programs import EngineFeed, EngineProgram, EngineStart, check_exit, read_last_printed
from slipstream._bench.rating.resource_use import ProcessorMeter, measure_memory
from slipstream._bench.rating.trial import ResponseSummary, TimeWindow, Trial, describe_late
from slipstream._errors import CheckFailed, Unavailable
from slipstream._feeds.run import Run
from slipstream._tools.logs import append_lines, read_last_line
from slipstream._tools.processes import child_processes
from slipstream._tools.processes.child_processes import Child
from slipstream._tools.progress import say

#: a trial that is further behind than this, in seconds, is aborted
ABORT_LAG = 20.0
#: seconds until an engine must be ready: it may have to compute the state before the window
_READY_S = 1200.0
#: seconds that an engine has to end after its input, and to be silent before it is stopped if it does not end
_END_S, _QUIET_S = 600.0, 6.0
#: seconds between two looks at the processes, and between two samples that are kept
_LOOK_S, _SAMPLE_S = 1.0, 5.0

SENT, SAMPLES, STARTS = "sent.jsonl", "samples.jsonl", "starts.jsonl"
DRIVER, BROKER, ENGINE = "driver", "broker", "engine"


@dataclass(frozen=True)
class Sample:
    """The state of a trial at an instant."""

    at: float  # seconds since 1970
    second: int  # the newest one that was sent
    lag: float  # how far the newest answer is behind it, in seconds; -1 if unknown
    gib: float  # memory of the engine
    cores: dict[str, float]  # used since the previous sample


@dataclass
class _Watch:
    """What is measured while a trial runs."""

    gib: float = 0.0
    meters: dict[str, ProcessorMeter] = field(default_factory=dict)
    began: float = 0.0
    ended: float = 0.0
    _sampled: float = 0.0
    _before: dict[str, float] = field(default_factory=dict)

    def read(self, pids: dict[str, int | None]) -> None:
        """Read the processor time of all processes; memory is that of the engine."""
        now = time.time()
        self.began = self.began or now
        self.ended = now
        for name, pid in pids.items():
            if pid is not None:
                self.meters.setdefault(name, ProcessorMeter()).read(pid)

    @property
    def cores(self) -> dict[str, float]:
        """The cores that each has used on average."""
        took = max(self.ended - self.began, 1e-9)
        return {name: round(meter.seconds / took, 2) for name, meter in self.meters.items()}

    @property
    def is_due(self) -> bool:
        """Whether it is time for a sample."""
        return self.ended - self._sampled >= _SAMPLE_S

    def sample(self, second: int, lag: float, gib: float) -> Sample:
        """Return what was used since the last sample."""
        now, used = self.ended, {name: meter.seconds for name, meter in self.meters.items()}
        took = now - (self._sampled or self.began)
        cores = {name: round((used[name] - self._before.get(name, 0.0)) / took, 2) for name in used} if took else {}
        self._sampled, self._before, self.gib = now, used, max(self.gib, gib)
        return Sample(round(now, 3), second, round(lag, 1), round(gib, 2), cores)


@dataclass
class Attendance:
    """One trial: starts engine and driver, and watches them; both continue what an earlier start left in ``folder``."""

    program: EngineProgram
    feed: EngineFeed
    door: Door
    folder: Path  # of the logs
    aborts: bool = True  # when the engine falls too far behind; otherwise it may be resumed
    restarts: int = 0
    startup: float = 0.0
    _watch: _Watch = field(default_factory=_Watch)

    def run(self) -> str:
        """Run it to the end; return why it was aborted."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            engine = stack.enter_context(_Engine(self.program, self.feed))
            self._wait_until_ready(engine)
            append_lines(self.folder / STARTS, [{"at": round(time.time(), 3), "second": self._find_newest_sent()}])
            driver = stack.enter_context(self._start_driver())
            try:
                why = self._follow(engine, driver)
            except KeyboardInterrupt:
                self._settle(engine, driver)
                raise
            if not why:
                self._end(engine)
        return why

    @property
    def sent(self) -> list[Sent]:
        """The seconds that were sent."""
        return read_sent(self.folder / SENT)

    @property
    def cores(self) -> dict[str, float]:
        """The cores that driver, broker and engine used on average, while the driver sent."""
        return self._watch.cores

    @property
    def gib(self) -> float:
        """The largest memory of the engine."""
        return self._watch.gib

    def _wait_until_ready(self, engine: _Engine) -> None:
        began = time.monotonic()
        while not self.program.is_ready(self.feed, engine.start):
            engine.check()
            if time.monotonic() - began > _READY_S:
                raise Unavailable(
                    f"{self.program.name} was not ready after {_READY_S:.0f} s.",
                    hint=f"See {self.feed.log}; an engine given by --engine-command prints a line that begins with "
                    "ready.",
                    code="engine-failed",
                )
            time.sleep(0.1)
        self.startup = round(time.monotonic() - began, 1)

    def _start_driver(self) -> AbstractContextManager[Child]:
        feed, window = self.feed, self.feed.window
        command = [sys.executable, "-m", "slipstream", "drive", str(feed.run.path), "--to", feed.entry.source]
        command += ["--multiply", str(feed.run.copies), "--format", feed.encoding, "--spread", "--end", "--json"]
        command += ["--since", str(window.since), "--until", str(window.until), "--timings", str(self.folder / SENT)]
        return child_processes.logging(command, self.folder / "driver.log")

    def _follow(self, engine: _Engine, driver: Child) -> str:
        """Watch until the driver has sent everything; return why the trial was aborted."""
        while driver.code is None:
            time.sleep(_LOOK_S)
            if engine.code:  # with 0 it has seen the end of its input, just before the driver exits
                self._restart(engine)
            second = self._find_newest_sent()
            if second < 0:
                continue
            self._watch.read({DRIVER: driver.pid, BROKER: self.door.server(), ENGINE: engine.pid})
            newest = self.program.newest(self.feed)
            lag = -1.0 if newest is None else float(second - newest)
            if self._watch.is_due:
                sample = self._watch.sample(second, lag, measure_memory(engine.pid))
                append_lines(self.folder / SAMPLES, [asdict(sample)])
            if self.aborts and not self.restarts and lag > ABORT_LAG:
                return f"more than {ABORT_LAG:.0f} s behind"
        if driver.code != CheckFailed.exit_code:  # which says that it was late: the lags say so, too
            check_exit(DRIVER, driver.code, self.folder / "driver.log")
        return ""

    def _restart(self, engine: _Engine) -> None:
        """Start a dead engine again: it continues, as the broker has kept what it had not read."""
        if engine.code and (not self.door.can_resume or self.restarts):
            check_exit("engine", engine.code, self.feed.log)
        say(f"The engine exited with code {engine.code}; it is started again.")
        self.restarts += 1
        append_lines(
            self.folder / STARTS,
            [{"at": round(time.time(), 3), "second": self._find_newest_sent(), "code": engine.code}],
        )
        engine.restart()

    def _end(self, engine: _Engine) -> None:
        """Wait until the engine has answered everything."""
        began = quiet = time.monotonic()
        answered = -1
        while engine.code is None and time.monotonic() - began < _END_S:
            time.sleep(_LOOK_S)
            now = self.program.answered(self.feed)
            quiet, answered = (quiet, answered) if now == answered else (time.monotonic(), now)
            if not self.program.ends and time.monotonic() - quiet > _QUIET_S:
                return
        if engine.code and not self.restarts:
            self._restart(engine)
            self._end(engine)
        elif engine.code is None and self.program.ends:
            raise Unavailable(
                f"{self.program.name} has not ended {_END_S:.0f} s after its input.",
                hint=f"See {self.feed.log}.",
                code="engine-failed",
            )
        elif self.program.ends:
            check_exit("engine", engine.code or 0, self.feed.log)

    def _settle(self, engine: _Engine, driver: Child) -> None:
        """End an interrupted trial so that it can be resumed: the engine answers what was sent."""
        driver.stop()
        if not self.aborts and engine.code is None and self.program.newest(self.feed) is not None:
            say("Interrupted: the engine answers what was sent ...")
            deadline = time.monotonic() + ABORT_LAG
            while engine.code is None and time.monotonic() < deadline:
                if (self.program.newest(self.feed) or 0) >= self._find_newest_sent():
                    return
                time.sleep(_LOOK_S)

    def _find_newest_sent(self) -> int:
        last = read_last_line(self.folder / SENT)
        return int(last["second"]) if last else -1


class _Engine:
    """The engine's process, which may be started again."""

    def __init__(self, program: EngineProgram, feed: EngineFeed) -> None:
        self._program, self._feed = program, feed
        self._stack = ExitStack()
        self._child: Child
        self.start: EngineStart

    def __enter__(self) -> _Engine:
        self.restart()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def restart(self) -> None:
        """Start it, or start it again."""
        self._stack.close()
        command, log = self._program.command(self._feed), self._feed.log
        self.start = EngineStart(time.time(), log.stat().st_size if log.exists() else 0)
        try:
            self._child = self._stack.enter_context(child_processes.logging(command, log))
        except OSError as error:
            raise Unavailable(
                f"{command[0]}: {error.strerror}.", hint="Check the command of the engine.", code="engine-failed"
            ) from error

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._child.pid

    @property
    def code(self) -> int | None:
        """Its exit code, or None while it runs."""
        return self._child.code

    def check(self) -> None:
        """Raise an error if it has ended."""
        if self.code is not None:
            raise Unavailable(
                f"The engine exited with code {self.code} before it was ready: {read_last_printed(self._feed.log)}",
                hint=f"See {self._feed.log}.",
                code="engine-failed",
            )


@dataclass
class FromOutside:
    """Rates a program through a door."""

    program: EngineProgram
    door: Door
    encoding: str

    @property
    def name(self) -> str:
        """The name of the engine."""
        return self.program.name

    @property
    def kinds(self) -> str:
        """The kinds of answers that it gives."""
        return self.program.kinds

    @property
    def cold(self) -> bool:
        """Whether it starts without the state of the seconds before the window."""
        return self.program.cold

    @property
    def how(self) -> str:
        """How tuples reach it, in words."""
        through = {"kafka": "a Kafka broker", "tcp": "TCP"}[self.door.name]
        return f"from outside, through {through}, as {self.encoding}, driver in a process of its own"

    def drive(self, run: Run, expressways: int, window: TimeWindow, out: Path) -> Trial:
        """Run a trial; its topics are deleted at its end."""
        presented = run.multiplied(expressways // run.stored)
        entry = self.door.open(f"rating-{out.name}", expressways)
        try:
            return self.attend(presented, entry, window, out)[1]
        finally:
            with suppress(Unavailable):
                self.door.close(entry)

    def attend(
        self, run: Run, entry: Entry, window: TimeWindow, out: Path, *, aborts: bool = True
    ) -> tuple[Attendance, Trial]:
        """Run or resume a trial through an open door."""
        folder = out.parent / f"{out.name}.logs"
        folder.mkdir(parents=True, exist_ok=True)
        feed = EngineFeed(entry, self.encoding, run, window, out, folder / "engine.log")
        attendance = Attendance(self.program, feed, self.door, folder, aborts)
        ended = attendance.run()
        sent = attendance.sent
        responses = self.program.finish(feed, sent)
        trial = judge(run.stored * run.copies, window, responses, sent, ended)
        busy = self.program.busy(feed, sent[0].sent_ms / 1000, sent[-1].sent_ms / 1000 + 1) if sent else ()
        return attendance, replace(
            trial,
            busy=busy,
            gib=round(attendance.gib, 1),
            cores=attendance.cores,
            startup=attendance.startup,
            restarts=attendance.restarts,
        )


def judge(
    expressways: int, window: TimeWindow, responses: dict[str, ResponseSummary], sent: Sequence[Sent], ended: str
) -> Trial:
    """Return the trial that response times and the driver's own lag make."""
    latest = max(sent, key=lambda one: one.lag, default=None)
    lag = latest.lag if latest else 0.0
    void = f"void: the driver was {lag:.1f} s late at second {latest.second}" if latest and lag > MAX_LAG else ""
    why = ended or describe_late(responses) or ("" if responses else "no answers")
    return Trial(expressways, window.seconds, responses, why, void, lag=lag)
