"""A job: its folder, what must stay the same from one start to the next, and its life from start to end.

    OUT/job.json         the kind of job, the version of its state, its settings
    OUT/status.json      starting, ready, running or stopped (``runtime.status``)
    OUT/control          run, pause, a number of steps, or stop (``io.control``)
    OUT/batches.jsonl    the journal: one line per committed batch (``io.outputs``)
    OUT/metrics.jsonl    what each batch cost (``runtime.metrics``)
    OUT/outputs/NAME/    one Delta Lake table per output
    OUT/snapshot/        published cuboids
    OUT/checkpoint/      Spark's own

A kind of job says what it reads and when that has ended (:class:`Life`) and how to start its query. The rest is the
same for all of them: check the folder before Spark starts, hold it against a second process, warm up, connect, follow
the query to the end of its input, compact old files on the way, and say what happened.
"""

from __future__ import annotations

import fcntl
import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstream._errors import MALFORMED, BadArgument, BadInput
from slipstream._io.control import RUN, Control
from slipstream._io.outputs import CHECKPOINT, COMPACT_EVERY, check_journal, compacting, last_batch
from slipstream._runtime import status as statuses
from slipstream._runtime.metrics import recorded
from slipstream._runtime.status import READY, RUNNING, Status, reported
from slipstream._spark.session import RESUMES, task_errors
from slipstream._tools.progress import say
from slipstream._tools.staging import appearing
from slipstream._tools.strict_json import fitted, json_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

FILE, CONTROL, LOCK = "job.json", "control", ".lock"
#: by these the folders of version 0.1 are known; it had one layout for each kind of job
_OLD = ("checkpoint/engine.json", "state.json", "network.yaml", "snapshot/fragments.json")
_SAME = "Resume it with the same settings, or start again in another --out folder."
#: seconds between two looks at a running query
LOOK_S = 0.1


@dataclass(frozen=True)
class Job:
    """What ``job.json`` says: fixed from the first start of a job to its last."""

    kind: str
    state_version: int  # of the bytes in the state store
    settings: dict[str, Any]  # a start with others is refused
    layout: dict[str, Any] = field(default_factory=dict)  # decided at the first start, such as the fragments
    id: str = field(default_factory=lambda: uuid.uuid4().hex)  # by which the tables know who committed to them

    def write(self, folder: Path) -> None:
        """Write it into a job's folder."""
        folder.mkdir(parents=True, exist_ok=True)
        with appearing(folder / FILE) as file:
            file.write(json.dumps(asdict(self), indent=2).encode() + b"\n")

    @classmethod
    def read(cls, folder: Path) -> Job:
        """Read the job of a folder."""
        _refuse_old(folder)
        file = folder / FILE
        try:
            return fitted(cls, json_of(file.read_bytes()))
        except FileNotFoundError as error:
            raise BadArgument(f"{folder}: not the folder of a job.", hint="Give the --out folder of a job.") from error
        except (OSError, *MALFORMED) as error:
            raise BadInput(f"{file}: damaged ({error}).", hint="Start again in another --out folder.") from error

    def check_is(self, folder: Path, kind: str, state_version: int) -> None:
        """Refuse a job of another kind, and state that another version of this program wrote."""
        if self.kind != kind:
            raise BadArgument(f"--out {folder}: is the folder of {_a(self.kind)} job.", hint="Choose another folder.")
        if self.state_version != state_version:
            raise BadInput(
                f"{folder / FILE}: state of version {self.state_version}, this program reads {state_version}.",
                hint="Resume it with the version that wrote it, or start again in another --out folder.",
            )


def check(folder: Path, kind: str, state_version: int, settings: Mapping[str, Any]) -> Job | None:
    """Return the job that a folder belongs to, or None if it is new; refuse what cannot be resumed.

    Needs no Spark, so a mistake is reported at once.
    """
    _refuse_old(folder)
    if not (folder / FILE).exists():
        _check_unused(folder, kind)
        return None
    job = Job.read(folder)
    job.check_is(folder, kind, state_version)
    for name in sorted({*job.settings, *settings}):
        before, now = job.settings.get(name), settings.get(name)
        if before != now:
            raise BadInput(f"{folder} was begun with {name} {_shown(before)}, not {_shown(now)}.", hint=_SAME)
    check_journal(folder)
    return job


def begin(
    folder: Path, kind: str, state_version: int, settings: Mapping[str, Any], layout: Callable[[], Mapping[str, Any]]
) -> Job:
    """Return the job of a folder, as :func:`check` does, or begin one; ``layout`` is asked only then."""
    job = check(folder, kind, state_version, settings)
    if job is None:
        job = Job(kind, state_version, dict(settings), dict(layout()))
        job.write(folder)
    return job


def _check_unused(folder: Path, kind: str) -> None:
    """Refuse a folder that holds something else."""
    if folder.exists() and not folder.is_dir():
        raise BadArgument(f"--out {folder}: not a folder.", hint="Choose another name.")
    if folder.exists() and any(path.name not in (statuses.FILE, LOCK) for path in folder.iterdir()):
        raise BadArgument(
            f"--out {folder}: exists but is not the folder of {_a(kind)} job.", hint="Choose another, or remove it."
        )


def _refuse_old(folder: Path) -> None:
    if not (folder / FILE).exists() and any((folder / name).is_file() for name in _OLD):
        raise BadInput(
            f"{folder}: written by Slipstream 0.1, whose folders have another layout.",
            hint="Finish it with that version, or start again in another --out folder.",
        )


def _a(kind: str) -> str:
    return f"{'an' if kind[:1] in 'aeiou' else 'a'} {kind}"


def _shown(value: Any) -> str:
    return str(value) if value not in (None, "") else "nothing"


class Life:
    """What a kind of job reads, and how it goes from its start to the end of that; the rest is :func:`run`'s.

    The defaults are those of a query that needs no warm-up and ends by itself.
    """

    #: what ``status.json`` says it reads
    source: str = ""
    #: the second before which it ends, of a run
    until: int | None = None
    #: what it does, for people: "Ready: tolling into OUT."
    doing: str = "running"

    def is_warm(self, query: StreamingQuery) -> bool:  # noqa: ARG002
        """Whether the openings are over: Spark has planned the query, workers have compiled their kernels."""
        return True

    def connect(self, query: StreamingQuery) -> None:
        """Let the input come, now that the query is warm."""

    def has_ended(self, query: StreamingQuery) -> bool:  # noqa: ARG002
        """Whether all input has come; asked at every look."""
        return False

    def look(self, query: StreamingQuery) -> None:
        """Do what is to be done now and then: show progress, shed load, pass results on."""

    def finish(self, query: StreamingQuery) -> None:
        """Wait for what has come but is not processed, once the input has ended."""

    def wants_to_leave(self) -> bool:
        """Wait a moment; whether to stop before the input has ended."""
        time.sleep(LOOK_S)
        return False

    def errors(self, folder: Path) -> AbstractContextManager[None]:
        """Turn what Spark raises into errors for people."""
        return task_errors(RESUMES, folder / CHECKPOINT)


def run(folder: Path, life: Life, start: Callable[[], StreamingQuery], *, compact_every: int = COMPACT_EVERY) -> None:
    """Run the query that ``start`` starts until its input ends, or until somebody stops it.

    Whatever ends it, an error or an interrupt, the query is stopped, its status says why, and the next start resumes.
    """
    with alone(folder), reported(folder, life.source, life.until) as status, life.errors(folder):
        if control(folder).stops:  # what ended the last start is not meant for this one
            control(folder).want(RUN)
        query = start()
        try:
            with recorded(query, folder), compacting(folder, compact_every):
                _follow(query, life, status, folder)
        finally:
            query.stop()
        query.awaitTermination()


def _follow(query: StreamingQuery, life: Life, status: Status, folder: Path) -> None:
    if _wait(query, life, folder, life.is_warm):
        status.why = statuses.ASKED
        return
    status.enter(READY)
    say(f"Ready: {life.doing} into {folder}.")
    before = _committed(folder)
    life.connect(query)

    def has_ended(query: StreamingQuery) -> bool:
        if status.state == READY and _committed(folder) > before:
            status.enter(RUNNING)
        return life.has_ended(query)

    if _wait(query, life, folder, has_ended):
        status.why = statuses.ASKED
    elif query.isActive:
        life.finish(query)
    if error := query.exception():
        raise error


def _wait(query: StreamingQuery, life: Life, folder: Path, reached: Callable[[StreamingQuery], bool]) -> bool:
    """Wait until something is reached or the query ends; returns whether somebody wants to stop before that."""
    while query.isActive and not reached(query):
        life.look(query)
        if life.wants_to_leave() or control(folder).stops:
            return True
    life.look(query)
    if error := query.exception():
        raise error
    return False


def _committed(folder: Path) -> int:
    last = last_batch(folder)
    return last.batch if last else -1


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the folder of a job: a second process that wants to run in it is refused."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BadArgument(
                f"{folder}: a job is running there already.", hint="Wait for its end, or give another --out folder."
            ) from error
        except OSError:  # a file system without locks
            pass
        yield


def control(folder: Path) -> Control:
    """Return what people want of a job: that it runs, pauses, takes some steps, or stops."""
    return Control(folder / CONTROL)
