"""All jobs of the workspace: their state, their health, what they have committed, and their outputs.

Every job writes the same files into its folder (``_runtime.job``), so one page shows them all. The process of a job is
not involved; controlling it means writing the same small file that ``slipstream job`` writes.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Literal

from slipstream._console.errors import Conflict
from slipstream._console.jobs.json_values import to_json_value
from slipstream._console.jobs.kinds import follow
from slipstream._console.jobs.launching import Launcher
from slipstream._console.jobs.states import State, interpret, is_at_work, read_number, read_status
from slipstream._console.jobs.verdicts import JobVerdict, pass_verdict
from slipstream._console.workspace import Workspace, is_job, pick
from slipstream._cuboid.snapshots.snapshot_files import FOLDER as SNAPSHOT
from slipstream._cuboid.snapshots.snapshot_files import Catalogue
from slipstream._errors import SlipstreamError
from slipstream._io import outputs
from slipstream._io.control_file import PAUSE, RUN, STOP
from slipstream._network.running.output_results import newest_results
from slipstream._runtime import job
from slipstream._runtime.job import JobFile
from slipstream._runtime.watching.exporter import Observed
from slipstream._runtime.watching.following import FollowedJob
from slipstream._runtime.watching.health import Health, Response, judge
from slipstream._runtime.watching.starts import read_log, read_starts

Action = Literal["pause", "run", "step", "stop"]

#: starts that the page lists
_STARTS = 50


@dataclass(frozen=True)
class JobEntry:
    """A job in the list."""

    name: str
    kind: str
    state: State
    verdict: JobVerdict
    batches: int = 0
    committed_at: float | None = None  # seconds of the Unix clock
    source: str = ""
    rate: float | None = None  # tuples per second
    lag: float | None = None  # seconds
    response: Response | None = None  # the one closest to its limit
    why: str = ""  # the error that ended it


@dataclass(frozen=True)
class CommittedBatch:
    """A committed batch; its costs are known shortly after."""

    batch: int
    committed_at: float
    tuples: int
    rejects: int
    rows: int
    commit_s: float | None = None
    state_bytes: int | None = None
    lag: float | None = None


@dataclass(frozen=True)
class OutputSummary:
    """An output: its columns and its number of committed rows."""

    name: str
    columns: list[str]
    rows: int


@dataclass(frozen=True)
class JobStart:
    """A start of a job, and the command that did it."""

    at: float
    version: str
    command: str


@dataclass(frozen=True)
class JobDetail:
    """Everything the page shows about a job."""

    name: str
    kind: str
    state: State
    verdict: JobVerdict
    why: str = ""  # why it stopped
    since: float | None = None  # when it entered its state, seconds of the Unix clock
    source: str = ""
    pace: float | None = None  # 1: input arrives in real time; 0: as fast as it is processed
    ui: str = ""  # the address of Spark's own page
    settings: dict[str, str] = field(default_factory=dict)
    batches: int = 0
    tuples: int = 0
    rejects: int = 0
    committed_at: float | None = None
    commit_s: float | None = None  # mean over the recent batches
    state_bytes: int | None = None
    health: Health = field(default_factory=Health)
    recent: list[CommittedBatch] = field(default_factory=list)
    starts: list[JobStart] = field(default_factory=list)
    outputs: list[OutputSummary] = field(default_factory=list)
    cuboids: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # files that cannot be read
    resumable: str = ""  # empty if the console can resume it, or why it cannot


class Jobs:
    """The jobs of a workspace."""

    def __init__(self, workspace: Workspace, master: str = "local[*]") -> None:
        self._workspace = workspace
        self.launcher = Launcher(workspace, master)
        self._followed: dict[str, FollowedJob] = {}  # by job id, which changes when its folder is recreated
        self._lock = Lock()

    def entries(self) -> list[JobEntry]:
        """Return all jobs: running ones first, then by the time of the last commit."""
        folders = self._workspace.find(is_job)
        found = [self._entry(name, folder) for name, folder in folders.items()]
        found += [_launching(name, kind, error) for name, kind, error in self.launcher.without_folder(folders)]
        return sorted(found, key=lambda one: (not is_at_work(one.state), -(one.committed_at or 0), one.name))

    def _entry(self, name: str, folder: Path) -> JobEntry:
        try:
            found = JobFile.read(folder)
        except SlipstreamError as error:
            return JobEntry(name, "", "damaged", pass_verdict("damaged", error.message, Health(), None, None))
        seen, problems = read_status(folder), _check_journal(folder)
        followed = self._follow(folder, found, problems)
        state, why, pace = interpret(folder, seen), str(seen.get("why") or ""), read_number(seen.get("pace"))
        health, last = self._health(followed, state, pace), followed.recent[-1] if followed.recent else None
        committed_at = last.committed_ms / 1000 if last else None
        limited = [one for one in health.responses if one.limit]
        return JobEntry(
            name=name,
            kind=found.kind,
            state="damaged" if problems else state,
            verdict=_judge(state, why, problems, health, pace, committed_at),
            batches=followed.batches,
            committed_at=committed_at,
            source=self._hide_paths(str(seen.get("source") or "")),
            rate=health.rate,
            lag=health.lag if is_at_work(state) else None,
            response=max(limited, key=lambda one: one.typical / (one.limit or 1), default=None),
            why=why if state == "failed" else "",
        )

    def observe(self) -> list[Observed]:
        """Return all readable jobs, for their metrics."""
        found = []
        for name, folder in self._workspace.find(is_job).items():
            with suppress(SlipstreamError):
                job, seen = JobFile.read(folder), read_status(folder)
                followed, pace = self._follow(folder, job, []), read_number(seen.get("pace")) or 0.0
                found.append(Observed(name, job.kind, interpret(folder, seen), pace, followed, read_starts(folder)))
        return found

    @staticmethod
    def _health(followed: FollowedJob, state: State, pace: float | None) -> Health:
        now = time.time() if state in ("running", "ready") else None
        limits = followed.limits if is_at_work(state) else {}
        return judge(followed.timed(pace or 0.0), limits, pace or 0.0, now)

    def detail(self, name: str) -> JobDetail:
        """Return one job, with its outputs."""
        if (launched := self.launcher.find_without_folder(name)) is not None:
            entry = _launching(name, *launched)
            return JobDetail(name, entry.kind, entry.state, entry.verdict, why=entry.why, resumable="It is starting.")
        folder = self._folder(name)
        try:
            found = JobFile.read(folder)
        except SlipstreamError as error:
            verdict = pass_verdict("damaged", error.message, Health(), None, None)
            return JobDetail(name, "", "damaged", verdict, why=error.message)
        problems = _check_journal(folder)
        followed = self._follow(folder, found, problems)
        last, seen = (followed.recent[-1] if followed.recent else None), read_status(folder)
        state, pace, why = interpret(folder, seen), read_number(seen.get("pace")), str(seen.get("why") or "")
        health = self._health(followed, state, pace)
        recent = list(_sum_up_work(followed, pace or 0.0))
        # empty batches are part of the warm-up
        costs = [done.commit_s for done in recent if done.commit_s is not None and (done.tuples or done.rows)]
        committed_at = last.committed_ms / 1000 if last else None
        starts = read_starts(folder)
        return JobDetail(
            name=name,
            kind=found.kind,
            state=state,
            verdict=_judge(state, why, problems, health, pace, committed_at),
            why=why,
            since=read_number(seen.get("since")),
            source=self._hide_paths(str(seen.get("source") or "")),
            pace=pace,
            ui=_check_address(seen.get("ui")),
            settings=_describe_settings({**found.settings, **found.layout}),
            batches=followed.batches,
            tuples=followed.counts["tuples"],
            rejects=followed.counts["rejects"],
            committed_at=committed_at,
            commit_s=sum(costs) / len(costs) if costs else None,
            state_bytes=next((done.state_bytes for done in reversed(recent) if done.state_bytes is not None), None),
            health=health,
            recent=recent,
            starts=[JobStart(one.at, one.version, self._show_command(one.command)) for one in starts[-_STARTS:]],
            outputs=list(_results(folder, problems)),
            cuboids=_cuboids(folder, problems),
            problems=list(dict.fromkeys(problems)),
            resumable=self.launcher.why_not_resumable(folder, state, starts),
        )

    def _show_command(self, words: tuple[str, ...]) -> str:
        """Return a command line, with the paths of the workspace as the page names them."""
        return shlex.join(["slipstream", *map(self.show_word, words)]) if words else ""

    def log(self, name: str, last_bytes: int) -> str:
        """Return the end of a job's log, and what the process that the console started for it printed."""
        printed = self.launcher.printed(name)
        folder = self._workspace.find(is_job).get(name)
        if folder is None and printed is None:
            self._folder(name)
        return (read_log(folder, last_bytes) if folder else "") + (
            f"\nIts process printed:\n{printed}" if printed else ""
        )

    def resume(self, name: str) -> JobDetail:
        """Run the command that started a job once more, if that is safe."""
        folder = self._folder(name)
        self.launcher.resume(name, folder, interpret(folder, read_status(folder)), read_starts(folder))
        return self.detail(name)

    def rows(self, name: str, output: str, last: int) -> list[dict[str, Any]]:
        """Return the newest rows of an output, newest last."""
        folder = self._folder(name)
        pick(
            {one: folder / one for one in outputs.output_names(folder)},
            output,
            "output",
            "Choose an output of the job.",
        )
        return [
            {key: to_json_value(value) for key, value in row.items()} for row in newest_results(folder, output, last)
        ]

    def act(self, name: str, action: Action) -> JobDetail:
        """Pause, resume, step or stop a running job."""
        if action == "stop" and self.launcher.find_without_folder(name) and self.launcher.stop(name):
            return self.detail(name)
        folder = self._folder(name)
        if not is_at_work(interpret(folder, read_status(folder))):
            raise Conflict(f"{name} is not running.", hint="Run the command that started it again.")
        job.control(folder).request({"pause": PAUSE, "run": RUN, "step": "1", "stop": STOP}[action])
        return self.detail(name)

    def _hide_paths(self, source: str) -> str:
        """Return the source of a job without paths, which the page must not see. Networks have SOURCE=WHERE, ..."""
        return ", ".join(self.show_word(part) for part in source.split(", "))

    def show_word(self, source: str) -> str:
        """Return a word of a command without paths of this machine."""
        label, equals, where = source.rpartition("=")
        path = Path(where)
        if path.is_absolute():
            where = self._workspace.name(path) if path.is_relative_to(self._workspace.base) else path.name
        return f"{label}{equals}{where}"

    def _folder(self, name: str) -> Path:
        return pick(self._workspace.find(is_job), name, "job", "Start one with `slipstream toll RUN --out FOLDER`.")

    def _follow(self, folder: Path, found: JobFile, problems: list[str]) -> FollowedJob:
        with self._lock:
            key = f"{folder} {found.id}"
            followed = self._followed.get(key) or self._followed.setdefault(key, follow(folder, found.kind))
            try:
                followed.read()
            except SlipstreamError as error:
                problems.append(error.message)
            return followed


def _launching(name: str, kind: str, error: str) -> JobEntry:
    """Return a job whose process was started, and that has no folder yet."""
    state: State = "failed" if error else "starting"
    return JobEntry(name, kind, state, pass_verdict(state, error, Health(), None, None), why=error)


def _judge(
    state: State, why: str, problems: list[str], health: Health, pace: float | None, committed_at: float | None
) -> JobVerdict:
    """Return the verdict on a job; files that cannot be read are worse than anything that the others say."""
    if problems:
        return pass_verdict("damaged", problems[0], health, pace, None)
    return pass_verdict(state, why, health, pace, _ago(committed_at))


def _ago(committed_at: float | None) -> float | None:
    return max(time.time() - committed_at, 0.0) if committed_at is not None else None


def _check_address(ui: Any) -> str:
    """Return the address of Spark's page; a status that someone else wrote may hold anything."""
    return ui if isinstance(ui, str) and ui.startswith(("http://", "https://")) and len(ui) < 300 else ""


def _sum_up_work(followed: FollowedJob, pace: float) -> Iterator[CommittedBatch]:
    costs = followed.costs()
    for batch in followed.recent:
        cost = costs.get(batch.batch)
        yield CommittedBatch(
            batch=batch.batch,
            committed_at=batch.committed_ms / 1000,
            tuples=batch.tuples,
            rejects=batch.rejects,
            rows=sum(batch.outputs.values()),
            commit_s=cost.commit_ms / 1000 if cost else None,
            state_bytes=cost.state_bytes if cost else None,
            lag=max(followed.measure(batch, pace).values(), default=None) if pace else None,
        )


def _check_journal(folder: Path) -> list[str]:
    """Return why a journal cannot be read; nothing if it can."""
    try:
        outputs.last_batch(folder)
    except SlipstreamError as error:
        return [error.message]
    return []


def _results(folder: Path, problems: list[str]) -> Iterator[OutputSummary]:
    for name in outputs.output_names(folder):
        try:
            found = outputs.visible_files(folder, name)
        except SlipstreamError as error:
            problems.append(error.message)
            continue
        # a file ahead of the journal counts with the next commit
        rows = sum(file.rows for file in found.files if file.last <= found.last)
        yield OutputSummary(name, [column for column in found.schema.names if column != outputs.BATCH], rows)


def _cuboids(folder: Path, problems: list[str]) -> list[str]:
    if not (folder / SNAPSHOT).is_dir():
        return []
    try:
        return list(Catalogue.read(folder / SNAPSHOT).cuboids)
    except SlipstreamError as error:
        problems.append(error.message)
        return []


def _describe_settings(settings: dict[str, Any]) -> dict[str, str]:
    """Return non-empty settings as short texts."""
    texts = {
        name: ", ".join(map(str, value)) if isinstance(value, list) else str(value) for name, value in settings.items()
    }
    return {
        name: text if len(text) <= 200 else f"{text[:199]}…"
        for name, text in texts.items()
        if text not in ("", "{}", "None")
    }
