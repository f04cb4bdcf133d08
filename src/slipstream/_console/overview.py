"""All jobs of the workspace: their state, what they have committed, and their outputs.

Every job writes the same files into its folder (``_runtime.job``), so one page shows them all. The process of a job is
not involved; controlling it means writing the same small file that ``slipstream job`` writes.
"""

from __future__ import annotations

import math
import os
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from threading import Lock
from typing import Any, Literal

from slipstream._console.errors import Conflict
from slipstream._console.workspace import Workspace, is_job, pick
from slipstream._cuboid.snapshots.snapshot_files import FOLDER as SNAPSHOT
from slipstream._cuboid.snapshots.snapshot_files import Catalogue
from slipstream._errors import MALFORMED, SlipstreamError
from slipstream._io import outputs
from slipstream._io.control_file import PAUSE, RUN, STOP
from slipstream._io.outputs import Batch, Tail
from slipstream._network.running.output_results import newest_results
from slipstream._runtime import job, metrics, status
from slipstream._runtime.job import Job
from slipstream._tools.strict_json import parse_json

State = Literal["new", "starting", "ready", "running", "paused", "stopped", "finished", "failed", "gone", "damaged"]
Action = Literal["pause", "run", "step", "stop"]

#: batches that the page shows individually
RECENT = 200
#: bytes to read from the end of the metrics for these
_TAIL = 400_000
_ACTIVE = ("starting", "ready", "running", "paused")
#: reason for the stop -> state; any other reason is an error
_ENDED: dict[str, State] = {status.FINISHED: "finished", status.ASKED: "stopped", "interrupted": "stopped"}


@dataclass(frozen=True)
class JobEntry:
    """A job in the list."""

    name: str
    kind: str
    state: State
    batches: int
    committed_at: float | None  # seconds of the Unix clock


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


@dataclass(frozen=True)
class OutputSummary:
    """An output: its columns and its number of committed rows."""

    name: str
    columns: list[str]
    rows: int


@dataclass(frozen=True)
class JobDetail:
    """Everything the page shows about a job."""

    name: str
    kind: str
    state: State
    why: str = ""  # why it stopped
    since: float | None = None  # when it entered its state, seconds of the Unix clock
    source: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    batches: int = 0
    tuples: int = 0
    rejects: int = 0
    committed_at: float | None = None
    commit_s: float | None = None  # mean over the recent batches
    state_bytes: int | None = None
    recent: list[CommittedBatch] = field(default_factory=list)
    outputs: list[OutputSummary] = field(default_factory=list)
    cuboids: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # files that cannot be read


@dataclass
class _JournalTotals:
    """Totals over the journal of a job, updated as it grows."""

    tail: Tail
    batches: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    recent: deque[Batch] = field(default_factory=lambda: deque(maxlen=RECENT))

    def read(self) -> None:
        for batch in self.tail.batches():
            self.batches += 1
            self.counts.update(tuples=batch.tuples, rejects=batch.rejects)
            self.recent.append(batch)


class Jobs:
    """The jobs of a workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._followed: dict[str, _JournalTotals] = {}  # by job id, which changes when its folder is recreated
        self._lock = Lock()

    def entries(self) -> list[JobEntry]:
        """Return all jobs: running ones first, then by the time of the last commit."""
        found = [_entry(name, folder) for name, folder in self._workspace.find(is_job).items()]
        return sorted(found, key=lambda one: (one.state not in _ACTIVE, -(one.committed_at or 0), one.name))

    def detail(self, name: str) -> JobDetail:
        """Return one job, with its outputs."""
        folder = self._folder(name)
        try:
            found = Job.read(folder)
        except SlipstreamError as error:
            return JobDetail(name, "", "damaged", why=error.message)
        problems: list[str] = []
        followed = self._follow(folder, found.id, problems)
        last, seen = (followed.recent[-1] if followed.recent else None), _status(folder)
        recent = list(_sum_up_work(followed.recent, _costs(folder)))
        # empty batches are part of the warm-up
        costs = [done.commit_s for done in recent if done.commit_s is not None and (done.tuples or done.rows)]
        return JobDetail(
            name=name,
            kind=found.kind,
            state=_state(folder, seen),
            why=str(seen.get("why") or ""),
            since=_number(seen.get("since")),
            source=self._hide_paths(str(seen.get("source") or "")),
            settings=_describe_settings({**found.settings, **found.layout}),
            batches=followed.batches,
            tuples=followed.counts["tuples"],
            rejects=followed.counts["rejects"],
            committed_at=last.committed_ms / 1000 if last else None,
            commit_s=sum(costs) / len(costs) if costs else None,
            state_bytes=next((done.state_bytes for done in reversed(recent) if done.state_bytes is not None), None),
            recent=recent,
            outputs=list(_results(folder, problems)),
            cuboids=_cuboids(folder, problems),
            problems=problems,
        )

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
            {key: _to_json_value(value) for key, value in row.items()} for row in newest_results(folder, output, last)
        ]

    def act(self, name: str, action: Action) -> JobDetail:
        """Pause, resume, step or stop a running job."""
        folder = self._folder(name)
        if _state(folder, _status(folder)) not in _ACTIVE:
            raise Conflict(f"{name} is not running.", hint="Run the command that started it again.")
        job.control(folder).request({"pause": PAUSE, "run": RUN, "step": "1", "stop": STOP}[action])
        return self.detail(name)

    def _hide_paths(self, source: str) -> str:
        """Return the source of a job without paths, which the page must not see. Networks have SOURCE=WHERE, ..."""
        return ", ".join(self._drop_path(part) for part in source.split(", "))

    def _drop_path(self, source: str) -> str:
        label, equals, where = source.rpartition("=")
        path = Path(where)
        if path.is_absolute():
            where = self._workspace.name(path) if path.is_relative_to(self._workspace.base) else path.name
        return f"{label}{equals}{where}"

    def _folder(self, name: str) -> Path:
        return pick(self._workspace.find(is_job), name, "job", "Start one with `slipstream toll RUN --out FOLDER`.")

    def _follow(self, folder: Path, id_: str, problems: list[str]) -> _JournalTotals:
        with self._lock:
            followed = self._followed.setdefault(f"{folder} {id_}", _JournalTotals(Tail(folder)))
            try:
                followed.read()
            except SlipstreamError as error:
                problems.append(error.message)
            return followed


def _entry(name: str, folder: Path) -> JobEntry:
    try:
        found, last = Job.read(folder), outputs.last_batch(folder)
    except SlipstreamError:
        return JobEntry(name, "", "damaged", 0, None)
    state = _state(folder, _status(folder))
    return JobEntry(name, found.kind, state, last.batch + 1 if last else 0, last.committed_ms / 1000 if last else None)


def _status(folder: Path) -> dict[str, Any]:
    """Return the contents of ``status.json``; empty before the first start."""
    try:
        body = parse_json((folder / status.FILE).read_bytes())
    except (OSError, *MALFORMED):
        return {}
    return body if isinstance(body, dict) else {}


def state_of(folder: Path) -> State:
    """What a job does, whichever process runs it."""
    return _state(folder, _status(folder))


def is_at_work(state: State) -> bool:
    """Whether a process runs a job that is in this state."""
    return state in _ACTIVE


def _state(folder: Path, seen: dict[str, Any]) -> State:
    match seen.get("state"):
        case status.STOPPED:
            return _ENDED.get(str(seen.get("why")), "failed")
        case status.STARTING | status.READY | status.RUNNING as state:
            if not _lives(seen.get("pid")):
                return "gone"
            if state == status.STARTING:
                return "starting"
            if job.control(folder).is_paused:
                return "paused"
            return "ready" if state == status.READY else "running"
    return "new"


def _lives(pid: Any) -> bool:
    """Return whether a process exists; assume so if that cannot be determined."""
    if not isinstance(pid, int) or pid <= 0:
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _costs(folder: Path) -> dict[int, metrics.BatchMetrics]:
    """Return the metrics of the last batches by number; for a repeated batch, the latest."""
    file = folder / metrics.FILE
    with suppress(OSError, *MALFORMED), file.open("rb") as lines:
        lines.seek(max(lines.seek(0, os.SEEK_END) - _TAIL, 0))
        whole = lines.read().rpartition(b"\n")[0].split(b"\n")
        if lines.tell() > _TAIL:
            del whole[0]  # an incomplete line
        found = [metrics.BatchMetrics(**parse_json(line)) for line in whole[-2 * RECENT :] if line]
        return {one.batch: one for one in found}
    return {}


def _sum_up_work(batches: deque[Batch], costs: dict[int, metrics.BatchMetrics]) -> Iterator[CommittedBatch]:
    for batch in batches:
        cost = costs.get(batch.batch)
        yield CommittedBatch(
            batch=batch.batch,
            committed_at=batch.committed_ms / 1000,
            tuples=batch.tuples,
            rejects=batch.rejects,
            rows=sum(batch.outputs.values()),
            commit_s=cost.commit_ms / 1000 if cost else None,
            state_bytes=cost.state_bytes if cost else None,
        )


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


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _to_json_value(value: Any) -> Any:
    """Return a value that JSON can represent; for moving points, their time span."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, dict) and isinstance(times := value.get("t"), list):
        span = f", {times[0]:%Y-%m-%d %H:%M:%S} to {times[-1]:%Y-%m-%d %H:%M:%S}" if times else ""
        return f"{len(times)} {'point' if len(times) == 1 else 'points'}{span}"
    text = str(value)
    return text if len(text) <= 120 else f"{text[:119]}…"
