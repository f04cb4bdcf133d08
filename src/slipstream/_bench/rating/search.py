"""Search for the rating: the largest L that an engine sustains with headroom, confirmed and validated.

Every trial is a run in real time, of N simulated expressways that are presented L / N times, from a state
fast-forwarded to the busiest part. Short trials find the largest L with all answers in time, and the largest at which
the engine also has headroom. That one then has to sustain the whole window, with headroom in each third of it, and
pass the validator, which shares no code with the engine. Only that is called a rating.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from slipstream._bench.rating.engines import RatedEngine
from slipstream._bench.rating.trial import MOST_BUSY, PARTS, TimeWindow, Trial
from slipstream._errors import BadArgument, CheckFailed
from slipstream._feeds.run import Run, versions
from slipstream._tools.processes import child_processes
from slipstream._tools.progress import say

#: how often a trial whose driver was late is made again
_AGAIN = 1


@dataclass(frozen=True)
class Rating:
    """The result: the largest L that was sustained with headroom, and how it was found."""

    engine: str
    how: str  # how tuples reached the engine
    expressways: int
    highest: int  # with all answers in time in a short trial
    distinct: int  # expressways that differ
    cores: int
    per_core: float
    window: TimeWindow  # seconds of the run
    run: str
    output: str  # of the confirmed trial
    tries: tuple[Trial, ...]
    statement: str  # what was fast-forwarded and multiplied
    machine: str
    versions: dict[str, str]

    @property
    def confirmed(self) -> Trial:
        """The trial that confirmed the rating."""
        return next(tried for tried in reversed(self.tries) if tried.validated and tried.held)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)


@dataclass
class Search:
    """Searches the largest L in [least, most] that an engine sustains; L is a multiple of the stored expressways."""

    engine: RatedEngine
    run: Run
    window: TimeWindow
    probe: int
    out: Path
    least: int = 1
    most: int = 600
    made: dict[Path, Trial] = field(default_factory=dict)  # finished trials

    def __post_init__(self) -> None:
        unit = self.run.stored
        self.least, self.most = max(1, -(-self.least // unit)) * unit, self.most // unit * unit
        if self.least > self.most:
            raise BadArgument(
                f"No multiple of {unit} expressways is between --min and --max.",
                hint="Give a smaller --distinct, or a larger --max.",
                code="out-of-range",
            )

    def tries(self) -> Iterator[Trial]:
        """Double L while answers are in time, then bisect; bisect for headroom; confirm from the top down."""
        self.out.mkdir(parents=True, exist_ok=True)
        good, bad = 0, self.most // self.run.stored + 1
        at = self.least // self.run.stored
        while at < bad and at > good and bad - good > max(1, good // 20):
            tried = self._probe(at)
            yield tried
            good, bad = (at, bad) if tried.in_time else (good, at)
            at = min(2 * at, self.most // self.run.stored) if bad > self.most // self.run.stored else (good + bad) // 2
        good = yield from self._find_headroom(good)
        while good > 0:
            confirmed = self._confirm(good * self.run.stored)
            yield confirmed
            if confirmed.held:
                return
            good = min(good - 1, good * 9 // 10)

    def _find_headroom(self, highest: int) -> Generator[Trial, None, int]:
        """Try between the largest L with headroom and the smallest without; return the former, in multiples."""
        units = {tried.expressways // self.run.stored: tried for tried in self.made.values()}
        good = max((at for at, tried in units.items() if tried.held), default=0)
        bad = min((at for at, tried in units.items() if good < at <= highest), default=highest + 1)
        while bad <= highest and bad - good > max(1, good // 20):
            at = (good + bad) // 2
            tried = self._probe(at)
            yield tried
            good, bad = (at, bad) if tried.held else (good, at)
        return good

    @property
    def highest(self) -> int:
        """The largest L with all answers in time."""
        return max((tried.expressways for tried in self.made.values() if tried.in_time), default=0)

    def folder(self, expressways: int, window: TimeWindow) -> Path:
        """Return the folder of a trial."""
        return self.out / f"{self.engine.name}-{expressways}-{window.seconds}s"

    def _probe(self, copies: int) -> Trial:
        return self._drive(copies * self.run.stored, self.window.last(self.probe))

    def _drive(self, expressways: int, window: TimeWindow) -> Trial:
        out = self.folder(expressways, window)
        if out in self.made:  # a window no longer than the short trials
            return self.made[out]
        for _ in range(_AGAIN + 1):
            # leftovers of an interrupted search would resume hours behind their clock
            for left in (out, out.parent / f"{out.name}.logs"):
                shutil.rmtree(left, ignore_errors=True)
            say(f"L = {expressways}: {window.seconds} s in real time, {self.engine.how} ...")
            tried = self.made[out] = self.engine.drive(self.run, expressways, window, out)
            say(f"L = {expressways}: {tried.outcome}, slowest answer {tried.slowest:.1f} s{_describe_busy(tried)}")
            if not tried.void:
                break
        return tried

    def _confirm(self, expressways: int) -> Trial:
        """Run the whole window and validate the output."""
        tried = self._drive(expressways, self.window)
        if not tried.held:
            return tried
        out = self.folder(expressways, self.window)
        say(f"L = {expressways}: validating ...")
        return validate_trial(tried, self.engine, self.run, out, self.window)


def validate_trial(
    trial: Trial, engine: RatedEngine, run: Run, out: Path, window: TimeWindow, *, timed: bool = True
) -> Trial:
    """Return a trial with the validator's verdict on its output; ``timed`` includes response times."""
    command = [sys.executable, "-m", "slipstream", "validate", str(run.path), str(out), "--only", engine.kinds]
    command += ["--multiply", str(trial.expressways // run.stored)]
    command += ["--since", str(window.since), "--until", str(window.until)]
    command += ["--fed-since", str(window.since)] if engine.cold else []
    command += [] if timed else ["--no-response-times"]
    command += ["--report", str(out / "report.html")]
    file = out / "validation.log"
    with file.open("wb") as log, child_processes.running(command, stdout=log, stderr=subprocess.STDOUT) as child:
        passed = child.wait() == 0
    return replace(trial, validated=passed, why=trial.why if passed else f"the validator found errors: see {file}")


def _describe_busy(tried: Trial) -> str:
    return f", busy {max(tried.busy):.0%}" if tried.busy else ""


def describe_machine() -> str:
    """Describe the machine."""
    return f"{platform.machine()}, {psutil.cpu_count()} cores, {psutil.virtual_memory().total / 2**30:.0f} GiB"


def rate(search: Search) -> Rating:
    """Search for the rating and describe how it was found."""
    tries = tuple(search.tries())
    confirmed = [tried for tried in tries if tried.validated and tried.held]
    if not confirmed:
        last, highest = tries[-1], search.highest
        so_far = f" All answers were in time at L = {highest}." if highest else ""
        raise CheckFailed(
            f"No L was sustained with headroom; the last try, L = {last.expressways}: {last.outcome}.{so_far}",
            hint=f"The trials are in {search.out}. Run nothing else on the machine, or try a smaller --distinct.",
            code="check-failed",
        )
    best, cores = confirmed[-1], psutil.cpu_count() or 1
    return Rating(
        engine=search.engine.name,
        how=search.engine.how,
        expressways=best.expressways,
        highest=max(search.highest, best.expressways),
        distinct=search.run.stored,
        cores=cores,
        per_core=round(best.expressways / cores, 1),
        window=search.window,
        run=str(search.run.path),
        output=str(search.folder(best.expressways, search.window)),
        tries=tries,
        statement=describe(search, best),
        machine=describe_machine(),
        versions=versions(),
    )


def describe(search: Search, best: Trial) -> str:
    """Describe how a rating was found."""
    window, run = search.window, search.run
    before = (
        "nothing before it was presented"
        if search.engine.cold
        else f"the state as of second {window.since} was computed by a batch job"
        if window.since
        else "from the first second on"
    )
    headroom = (
        f"and with the engine busy at most {MOST_BUSY:.0%} of the time in each of {PARTS} parts of the window"
        if best.busy
        else "and headroom is not known, because this engine does not report batches"
    )
    return (
        f"{run.stored} simulated expressway(s) of {run.path.name}, presented {best.expressways // run.stored} times "
        f"with shifted ids, {search.engine.how}. Seconds {window.since} to {window.until - 1} in real time, {before}, "
        f"all on this machine. Found with trials of {search.probe} s, confirmed over {window.seconds} s: all "
        f"answers in time, correct by the validator, {headroom}."
    )
