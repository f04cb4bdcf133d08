"""The L-rating: how many expressways this machine sustains within Linear Road's limits.

Every trial is a run in real time: an engine is started as its users would start it, on a run of one stored expressway
multiplied L times, from a state fast-forwarded to the busiest part. A trial ends early when it falls too far behind.
Short trials locate the limit; the largest L then has to sustain the whole window and pass the validator, which shares
no code with the engine. Only that is called a rating.
"""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import psutil

from slipstream._bench.postgres import run_postgres
from slipstream._bench.validation.editions import ANSWERS, find_edition
from slipstream._errors import BadArgument, CheckFailed, Unavailable
from slipstream._feeds.clock import Clock
from slipstream._feeds.run import Run, versions
from slipstream._linear_road.fast_forward import FastForward
from slipstream._runtime import metrics, shared_arrays
from slipstream._runtime.state_cache import WARM
from slipstream._tools import child_processes
from slipstream._tools.progress import say
from slipstream._tools.quantiles import quantiles
from slipstream._tools.temporary import PREFIX

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: a trial that is further behind than this, in seconds, is aborted
ABORT_LAG = 20.0


@dataclass(frozen=True)
class ResponseSummary:
    """Response times of one kind of answer in seconds, their limit, and how many exceeded it."""

    p50: float
    p99: float
    max: float
    limit: float
    late: int = 0
    negative: int = 0  # answers before their requests: the clocks are not synchronised

    @property
    def held(self) -> bool:
        """Whether all were on time."""
        return self.max <= self.limit and not self.negative


@dataclass(frozen=True)
class Trial:
    """One run in real time at some L."""

    expressways: int
    seconds: int
    held: bool  # whether the engine sustained it
    responses: dict[str, ResponseSummary]  # by kind
    why: str = ""  # why it was not sustained
    validated: bool = False
    gib: float = 0.0  # peak memory of all processes

    @property
    def outcome(self) -> str:
        """How it ended."""
        return "validated" if self.validated else "sustained" if self.held else self.why

    @property
    def slowest(self) -> float:
        """The longest response time."""
        return max((response.max for response in self.responses.values()), default=float("inf"))


@dataclass(frozen=True)
class Window:
    """The part of the run that is replayed in real time."""

    since: int
    until: int

    @property
    def seconds(self) -> int:
        """Its length."""
        return self.until - self.since

    def last(self, seconds: int) -> Window:
        """Return its last seconds, or the whole run; it starts at a minute, where fast-forwards can end.

        >>> Window(9600, 10800).last(120), Window(9600, 10800).last(30), Window(9600, 10800).last(5000)
        (Window(since=10680, until=10800), Window(since=10740, until=10770), Window(since=9600, until=10800))
        """
        since = max(self.since, (self.until - seconds) // 60 * 60)
        return Window(since, min(self.until, since + seconds))


class RatedEngine(Protocol):
    """An engine that can be rated."""

    name: str
    kinds: str  # the kinds of answers that it gives

    def drive(self, run: Run, expressways: int, window: Window, out: Path) -> Trial:
        """DriveResult the window of ``run``, multiplied to ``expressways``, in real time; answers go to ``out``."""


class Slipstream:
    """The toll engine, as ``slipstream toll`` starts it."""

    name = "slipstream"
    kinds = "0,1,2,3,4"

    def __init__(self, options: Sequence[str] = ()) -> None:
        self._options = options

    def drive(self, run: Run, expressways: int, window: Window, out: Path) -> Trial:
        """Toll the window."""
        command = [sys.executable, "-m", "slipstream", "toll", str(run.path), "--out", str(out), "--no-text"]
        command += ["--multiply", str(expressways), "--speed", "1", "--json", *self._options]
        command += ["--fast-forward-to", str(window.since), "--until", str(window.until)]
        ended, gib = run_engine(command, out)
        summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
        responses = {name: ResponseSummary(**response) for name, response in summary["response_seconds"].items()}
        why = ended or describe_late(responses) or ("" if responses else "no answers")
        return Trial(expressways, window.seconds, not why, responses, why, gib=round(gib, 1))


class Postgres:
    """System X: PostgreSQL, polled. Travel times are excluded, as in the paper."""

    name = "postgres"
    kinds = "0,1,2,3"

    def __init__(self, spark: Callable[[], SparkSession]) -> None:
        self._spark = spark

    def drive(self, run: Run, expressways: int, window: Window, out: Path) -> Trial:
        """Feed the window to the database."""
        multiplied = run.multiplied(expressways * run.copies)
        forward = None
        if window.since:
            folder = out.parent / f"forward-{window.since}"
            forward = FastForward(
                str(folder.absolute()), str(run.path.absolute()), multiplied.copies, "2004", window.since
            )
            forward.compute(self._spark())
        result = run_postgres(multiplied, out, seconds=window.until, forward=forward)
        responses = read_responses(Path(result.output))
        why = "the driver was late" if result.driver.void else describe_late(responses)
        return Trial(expressways, window.seconds, not why, responses, why)


def describe_late(responses: dict[str, ResponseSummary]) -> str:
    """Describe which answers were late; empty if none was."""
    words = [f"{name} {response.max:.1f} s" for name, response in responses.items() if not response.held]
    return "late: " + ", ".join(words) if words else ""


def read_responses(output: Path) -> dict[str, ResponseSummary]:
    """Summarise the response times in an output in the paper's format, without travel times."""
    fields = [line.split(",")[:4] for line in output.read_text(encoding="utf-8").splitlines()]
    found: dict[str, list[float]] = {}
    for kind, a, b, c in (line for line in fields if line[0] != "4"):
        asked, emit = (b, c) if kind == "0" else (a, b)
        found.setdefault(kind, []).append(float(emit) - int(asked))
    limits = find_edition("2004").limits
    responses = {}
    for kind, delays in sorted(found.items()):
        p50, p99, longest = (round(value, 3) for value in quantiles(delays, (0.5, 0.99, 1)))
        responses[ANSWERS[int(kind)]] = ResponseSummary(p50, p99, longest, limits[int(kind)])
    return responses


def find_engine(name: str, master: str, conf: Sequence[str], spark: Callable[[], SparkSession]) -> RatedEngine:
    """Return the engine called ``name``."""
    if name == Postgres.name:
        return Postgres(spark)
    if name == Slipstream.name:
        return Slipstream(["--master", master, *(word for setting in conf for word in ("--conf", setting))])
    raise BadArgument(
        f"--engine {name}: no such engine.", hint="Use slipstream or postgres.", code="unknown-value", found=name
    )


def run_engine(command: list[str], out: Path) -> tuple[str, float]:
    """Run an engine until it exits or falls too far behind; return why it was aborted, and its peak memory in GiB."""
    from slipstream._linear_road.job.journal import last_batch

    gib = 0.0
    file = out.parent / f"{out.name}.log"
    with file.open("wb") as log, child_processes.running(command, stdout=log, stderr=subprocess.STDOUT) as child:
        while child.code is None:
            time.sleep(1)
            gib = max(gib, measure_memory(child.pid))
            if (last := last_batch(out)) and _lag(out, last.newest) > ABORT_LAG:
                return f"more than {ABORT_LAG:.0f} s behind", gib
    if child.code:
        lines = file.read_text(errors="replace").strip().splitlines()[-1:]
        raise Unavailable(
            f"The engine exited with code {child.code}: {' '.join(lines)}", hint=f"See {file}.", code="engine-failed"
        )
    return "", gib


def _lag(out: Path, newest: int) -> float:
    """Return how far the answers lag behind the engine's clock, in seconds."""
    clock = Clock.read(out / "checkpoint" / "clock.json")
    return clock.now_ms() / 1000 - max(newest, clock.since) if clock and clock.runs else 0.0


def shared_bytes() -> int:
    """Return how much shared memory engines hold."""
    return sum(file.stat().st_size for file in shared_arrays.root().glob(f"{PREFIX}*-{WARM}-*/*/*"))


def own_bytes(process: psutil.Process) -> int:
    """Return the unshared memory of a process."""
    info = process.memory_info()
    return int(info.rss - getattr(info, "shared", 0))


def measure_memory(pid: int) -> float:
    """Return the memory of a process tree in GiB: unshared memory of each process, and shared memory once.

    Proportional shares would be exact, but the kernel walks all pages to count them, which would slow the engine down.
    """
    total = shared_bytes()
    try:
        for process in (root := psutil.Process(pid), *root.children(recursive=True)):
            total += own_bytes(process)
    except psutil.Error:
        pass
    return float(total / 2**30)


@dataclass(frozen=True)
class Rating:
    """The result: the largest L that was sustained, and how it was found."""

    engine: str
    expressways: int
    cores: int
    per_core: float
    window: Window  # seconds of the run
    run: str
    output: str  # of the confirmed trial
    tries: tuple[Trial, ...]
    stable: bool
    commit_seconds: float  # mean over the confirmed window
    capacity: float  # share of its time left for queries
    statement: str  # what was fast-forwarded and multiplied
    machine: str
    versions: dict[str, str]

    @property
    def confirmed(self) -> Trial:
        """The trial that confirmed the rating."""
        return next(tried for tried in reversed(self.tries) if tried.validated)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)


@dataclass
class Search:
    """Searches the largest L in [least, most] that an engine sustains."""

    engine: RatedEngine
    run: Run
    window: Window
    probe: int
    out: Path
    least: int = 1
    most: int = 600
    made: dict[Path, Trial] = field(default_factory=dict)  # finished trials

    def tries(self) -> Iterator[Trial]:
        """Double L while it is sustained, then bisect down to a twentieth of L; confirm from the top down."""
        self.out.mkdir(parents=True, exist_ok=True)
        good, bad = 0, self.most + 1
        at = self.least
        while at < bad and at > good and bad - good > max(1, good // 20):
            tried = self._drive(at, self.window.last(self.probe))
            yield tried
            good, bad = (at, bad) if tried.held else (good, at)
            at = min(2 * at, self.most) if bad > self.most else (good + bad) // 2
        while good > 0:
            confirmed = self._confirm(good)
            yield confirmed
            if confirmed.held:
                return
            good = min(good - 1, good * 9 // 10)

    def folder(self, expressways: int, window: Window) -> Path:
        """Return the folder of a trial."""
        return self.out / f"{self.engine.name}-{expressways}-{window.seconds}s"

    def _drive(self, expressways: int, window: Window) -> Trial:
        out = self.folder(expressways, window)
        if out in self.made:  # a window no longer than the short trials
            return self.made[out]
        # leftovers of an interrupted search would resume hours behind their clock
        shutil.rmtree(out, ignore_errors=True)
        say(f"L = {expressways}: running {window.seconds} s in real time ...")
        tried = self.made[out] = self.engine.drive(self.run, expressways, window, out)
        say(f"L = {expressways}: {'sustained' if tried.held else tried.why}, slowest answer {tried.slowest:.1f} s")
        return tried

    def _confirm(self, expressways: int) -> Trial:
        """Run the whole window and validate the output."""
        tried = self._drive(expressways, self.window)
        if not tried.held:
            return tried
        out = self.folder(expressways, self.window)
        command = [sys.executable, "-m", "slipstream", "validate", str(self.run.path), str(out)]
        command += ["--multiply", str(expressways), "--only", self.engine.kinds]
        command += ["--since", str(self.window.since), "--until", str(self.window.until)]
        say(f"L = {expressways}: validating ...")
        command += ["--report", str(out / "report.html")]
        file = out / "validation.log"
        with file.open("wb") as log, child_processes.running(command, stdout=log, stderr=subprocess.STDOUT) as child:
            passed = child.wait() == 0
        why = "" if passed else f"the validator found errors: see {file}"
        return replace(tried, held=passed, validated=passed, why=why)


def capacity_left(out: Path, window: Window) -> tuple[float, float]:
    """Return the mean RTC commit time in seconds, and the share of time left for queries; zeros without metrics."""
    batches = [batch for batch in metrics.read(out) if batch.since >= window.since]
    if not batches:
        return 0.0, 0.0
    took = sum(batch.commit_ms for batch in batches) / 1000
    return round(took / len(batches), 3), round(1 - took / sum(batch.until - batch.since for batch in batches), 3)


def rate(search: Search) -> Rating:
    """Search for the rating and describe how it was found."""
    tries = tuple(search.tries())
    confirmed = [tried for tried in tries if tried.validated]
    if not confirmed:
        raise CheckFailed(
            f"No L from {search.least} on was sustained: {tries[-1].why if tries else 'nothing was tried'}.",
            hint=f"The trials are in {search.out}; use a smaller --min to start lower.",
            code="check-failed",
        )
    best, window = confirmed[-1], search.window
    cores = psutil.cpu_count() or 1
    statement = (
        f"{search.run.stored} simulated expressway(s) of {search.run.path.name}, multiplied {best.expressways} times "
        f"with shifted ids; the state as of second {window.since} computed by a batch job, seconds "
        f"{window.since} to {window.until - 1} replayed in real time on the same machine as engine and sink; "
        f"found with trials of {search.probe} s, confirmed over {window.seconds} s, and validated."
    )
    output = search.folder(best.expressways, window)
    commit, capacity = capacity_left(output, window)
    return Rating(
        search.engine.name,
        best.expressways,
        cores,
        round(best.expressways / cores, 1),
        window,
        str(search.run.path),
        str(output),
        tries,
        capacity >= 0,
        commit,
        capacity,
        statement,
        f"{platform.machine()}, {cores} cores, {psutil.virtual_memory().total / 2**30:.0f} GiB",
        versions(),
    )
