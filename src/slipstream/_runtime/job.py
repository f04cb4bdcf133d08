"""A job: its folder, the settings fixed at its first start, and its life cycle.

    OUT/job.json         the kind of job, the version of its state, its settings
    OUT/status.json      starting, ready, running or stopped (``_runtime.watching.status``)
    OUT/control          run, pause, a number of steps, or stop (``_io.control_file``)
    OUT/batches.jsonl    the journal: one line per committed batch (``_io.outputs``)
    OUT/metrics.jsonl    what each batch cost (``_runtime.watching.metrics``)
    OUT/starts.jsonl     when and how it was started; job.log, spark.log: what it said (``_runtime.watching.starts``)
    OUT/retention.json   how long rows are kept (``_io.outputs.removal``)
    OUT/outputs/NAME/    one Delta Lake table per output
    OUT/snapshot/        published cuboids
    OUT/checkpoint/      Spark's own

Each kind of job defines what it reads, when its input has ended (:class:`Life`), and how to start its query. The rest
is the same for all: check the folder before Spark starts, lock it against a second process, warm up, connect, follow
the query to the end of its input, compact old files on the way, and report the status.
"""

from __future__ import annotations

import fcntl
import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstream._errors import MALFORMED, BadArgument, BadInput
from slipstream._io.control_file import RUN, Control
from slipstream._io.outputs import CHECKPOINT, COMPACT_EVERY, check_journal, compact_in_background, last_batch, leases
from slipstream._io.outputs.leases import LOCK
from slipstream._runtime.watching import status as statuses
from slipstream._runtime.watching.exporter import exporting
from slipstream._runtime.watching.following import FollowedJob
from slipstream._runtime.watching.metrics import record_metrics
from slipstream._runtime.watching.starts import FILE as STARTS
from slipstream._runtime.watching.starts import LOG, SPARK_LOG, record_start
from slipstream._runtime.watching.status import READY, RUNNING, Status, report_status
from slipstream._spark.session import RESUMES, task_errors
from slipstream._tools.files.remote_paths import RemotePath
from slipstream._tools.files.staging import atomic_write
from slipstream._tools.files.stores import explain_store
from slipstream._tools.progress import say
from slipstream._tools.strict_json import decode_as, parse_json

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

FILE, CONTROL = "job.json", "control"
#: files that identify a folder of version 0.1, which had one layout per kind of job
_OLD = ("checkpoint/engine.json", "state.json", "network.yaml", "snapshot/fragments.json")
_SAME = "Resume it with the same settings, or start again in another --out folder."
#: seconds between two polls of a running query
POLL_S = 0.1


@dataclass(frozen=True)
class JobFile:
    """The contents of ``job.json``: fixed from a job's first start to its last."""

    kind: str
    state_version: int  # of the bytes in the state store
    settings: dict[str, Any]  # a start with different ones is refused
    layout: dict[str, Any] = field(default_factory=dict)  # decided at the first start, such as the fragments
    id: str = field(default_factory=lambda: uuid.uuid4().hex)  # the application id of its commits to the tables
    ended: str = ""  # why it cannot be resumed, although its results are there

    def write(self, folder: Path) -> None:
        """Write it into a job's folder."""
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(folder / FILE) as file:
            file.write(json.dumps(asdict(self), indent=2).encode() + b"\n")

    @classmethod
    def read(cls, folder: Path) -> JobFile:
        """Read the job of a folder."""
        _refuse_old(folder)
        file = folder / FILE
        try:
            return decode_as(cls, parse_json(file.read_bytes()))
        except FileNotFoundError as error:
            raise BadArgument(
                f"{folder}: not the folder of a job.", hint="Give the --out folder of a job.", code="wrong-file-type"
            ) from error
        except (OSError, *MALFORMED) as error:
            if isinstance(error, OSError) and (explained := explain_store(error)):
                raise explained from error
            raise BadInput(
                f"{file}: damaged ({error}).", hint="Start again in another --out folder.", code="damaged-output"
            ) from error

    def check_resumable(self, folder: Path) -> None:
        """Refuse a job whose state was deleted."""
        if self.ended:
            raise BadArgument(
                f"{folder}: cannot be resumed: {self.ended}.",
                hint="Its results are there as before. Start again in another --out folder.",
                code="different-job",
            )

    def check_compatible(self, folder: Path, kind: str, state_version: int) -> None:
        """Refuse a job of another kind, or with state of another version."""
        if self.kind != kind:
            raise BadArgument(
                f"--out {folder}: belongs to {_with_article(self.kind)} job.",
                hint="Choose another folder.",
                code="different-job",
            )
        if self.state_version != state_version:
            raise BadInput(
                f"{folder / FILE}: state version is {self.state_version}, but this version reads {state_version}.",
                hint="Resume it with the version that wrote it, or start again in another --out folder.",
                code="wrong-version",
            )


def check(folder: Path, kind: str, state_version: int, settings: Mapping[str, Any]) -> JobFile | None:
    """Return the job that a folder belongs to, or None if it is new; refuse what cannot be resumed.

    Does not need Spark, so mistakes are reported at once.
    """
    _refuse_old(folder)
    if not (folder / FILE).exists():
        _check_unused(folder, kind)
        return None
    job = JobFile.read(folder)
    job.check_compatible(folder, kind, state_version)
    job.check_resumable(folder)
    for name in sorted({*job.settings, *settings}):
        before, now = job.settings.get(name), settings.get(name)
        if before != now:
            raise BadInput(
                f"{folder} was started with {name} {_display(before)}, not {_display(now)}.",
                hint=_SAME,
                code="different-job",
            )
    check_journal(folder)
    return job


def begin(
    folder: Path, kind: str, state_version: int, settings: Mapping[str, Any], layout: Callable[[], Mapping[str, Any]]
) -> JobFile:
    """Return the job of a folder, as :func:`check` does, or begin one; ``layout`` is called only for a new one."""
    job = check(folder, kind, state_version, settings)
    if job is None:
        job = JobFile(kind, state_version, dict(settings), dict(layout()))
        job.write(folder)
    return job


def _check_unused(folder: Path, kind: str) -> None:
    """Refuse a folder that contains something else."""
    if folder.exists() and not folder.is_dir():
        raise BadArgument(f"--out {folder}: not a folder.", hint="Choose another name.", code="wrong-file-type")
    if folder.exists() and any(
        path.name not in (statuses.FILE, STARTS, LOG, SPARK_LOG, LOCK) for path in folder.iterdir()
    ):
        raise BadArgument(
            f"--out {folder}: exists but is not the folder of {_with_article(kind)} job.",
            hint="Choose another, or remove it.",
            code="wrong-file-type",
        )


def _refuse_old(folder: Path) -> None:
    if not (folder / FILE).exists() and any((folder / name).is_file() for name in _OLD):
        raise BadInput(
            f"{folder}: written by Slipstream 0.1, which used another layout.",
            hint="Finish it with that version, or start again in another --out folder.",
            code="wrong-version",
        )


def _with_article(kind: str) -> str:
    return f"{'an' if kind[:1] in 'aeiou' else 'a'} {kind}"


def _display(value: Any) -> str:
    return str(value) if value not in (None, "") else "nothing"


class Life:
    """What differs between kinds of jobs: what they read, and how they warm up, connect and end (see :func:`run`).

    The defaults suit a query that needs no warm-up and ends on its own.
    """

    #: the kind of job, as ``job.json`` names it
    kind: str = ""
    #: the input, as ``status.json`` names it
    source: str = ""
    #: the second of a recorded run before which it ends
    until: int | None = None
    #: what it does, for messages: "Ready: tolling into OUT."
    doing: str = "running"
    #: how fast its input arrives: 1 in real time, K in a replay, 0 as fast as it is processed
    pace: float = 0.0

    def follow(self, folder: Path) -> FollowedJob:
        """Follow what the job commits, for its metrics; a kind of job knows how late its results are."""
        return FollowedJob(folder, lambda _batch, _pace: {}, {})

    def stages(self) -> tuple[str, ...]:
        """The stateful operators of the query from source to sink, if they form a line."""
        return ()

    def is_warm(self, query: StreamingQuery) -> bool:  # noqa: ARG002
        """Whether the openings are over: Spark has planned the query, workers have compiled their kernels."""
        return True

    def connect(self, query: StreamingQuery) -> None:
        """Connect the input, now that the query is warm."""

    def has_ended(self, query: StreamingQuery) -> bool:  # noqa: ARG002
        """Whether all input has arrived; called at every poll."""
        return False

    def poll(self, query: StreamingQuery) -> None:
        """Do periodic work, such as showing progress, shedding load or forwarding results; called at every poll."""

    def finish(self, query: StreamingQuery) -> None:
        """Wait until all input is processed, once it has ended."""

    def should_stop(self) -> bool:
        """Wait until the next poll; returns whether to stop before the input has ended."""
        time.sleep(POLL_S)
        return False

    def errors(self, folder: Path) -> AbstractContextManager[None]:
        """Translate what Spark raises into SlipstreamErrors."""
        return task_errors(RESUMES, folder / CHECKPOINT)


def run(folder: Path, life: Life, start: Callable[[], StreamingQuery], *, compact_every: int = COMPACT_EVERY) -> None:
    """Run the query that ``start`` starts until its input ends or somebody stops it.

    Whatever ends it, the query is stopped, its status gives the reason, and the next start resumes.
    """
    if (folder / FILE).exists():
        JobFile.read(folder).check_resumable(folder)
    with (
        lock_folder(folder),
        record_start(folder, life.source),
        report_status(folder, life.source, life.until, life.pace) as status,
        exporting(folder, life.kind, life.follow(folder), status, life.pace),
        life.errors(folder),
    ):
        if control(folder).is_stopping:  # a request to stop was for the previous start
            control(folder).request(RUN)
        query = start()
        try:
            status.ui = _find_ui()
            with record_metrics(query, folder, life.stages()), compact_in_background(folder, compact_every):
                _follow(query, life, status, folder)
        except BaseException:
            with suppress(Exception):  # the JVM may be gone, too; what ended the job matters
                query.stop()
            raise
        query.stop()
        query.awaitTermination()


def _find_ui() -> str:
    """Return the address of Spark's own page, if it is on."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    return str(context.uiWebUrl or "") if context else ""


def _follow(query: StreamingQuery, life: Life, status: Status, folder: Path) -> None:
    if _wait(query, life, folder, life.is_warm):
        status.why = statuses.ASKED
        return
    status.enter(READY)
    say(f"Ready: {life.doing} into {folder}.")
    before = _count_committed(folder)
    life.connect(query)

    def has_ended(query: StreamingQuery) -> bool:
        if status.state == READY and _count_committed(folder) > before:
            status.enter(RUNNING)
        return life.has_ended(query)

    if _wait(query, life, folder, has_ended):
        status.why = statuses.ASKED
    elif query.isActive:
        life.finish(query)
    if error := query.exception():
        raise error


def _wait(query: StreamingQuery, life: Life, folder: Path, reached: Callable[[StreamingQuery], bool]) -> bool:
    """Wait until ``reached`` or the end of the query; returns whether a stop was requested before that."""
    while query.isActive and not reached(query):
        if isinstance(folder, RemotePath):
            leases.check(folder / LOCK)
        life.poll(query)
        if life.should_stop() or control(folder).is_stopping:
            return True
    life.poll(query)
    if error := query.exception():
        raise error
    return False


def _count_committed(folder: Path) -> int:
    last = last_batch(folder)
    return last.batch if last else -1


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock the folder of a job: a second process that tries to run in it is refused."""
    if isinstance(folder, RemotePath):
        with leases.hold(folder / LOCK):
            yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BadArgument(
                f"{folder}: a job is already running there.",
                hint="Wait until it ends, or give another --out folder.",
                code="job-running",
            ) from error
        except OSError:  # a file system without locks
            pass
        yield


def control(folder: Path) -> Control:
    """Return the control file of a job, which asks it to run, pause, take some steps or stop."""
    return Control(folder / CONTROL)
