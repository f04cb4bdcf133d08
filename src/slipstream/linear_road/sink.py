"""The sink of a job: every answer and every trip once, visible in whole batches, stamped when it became visible.

    OUT/output/batch=7/emit_ms=123456/*.parquet   answers of batch 7; the folder's name carries their Emit
    OUT/compacted/*.parquet                       old batches, many to a file (``compaction.py``)
    OUT/output.csv                                the same in the paper's plain form
    OUT/trips/*.parquet                           trips that are over, of a job that archives (``archive.files``)
    OUT/rejects.csv                               reason, then the line that was rejected
    OUT/batches.jsonl                             one line a batch: the journal

Tasks write aside. Commit appends to the text files, renames answers and trips into place, and then writes the journal;
only a batch in the journal is committed. What a crash leaves of any other batch is cut off or replaced when it is done
again.

Emit is Time plus the response time, which is commit minus arrival. Answers of a batch whose questions arrived equally
long after their Time have the same Emit: tasks write a file for each such delay, and the commit names its folder.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage

from slipstream.archive import files as archives
from slipstream.archive.trajectories import Trips
from slipstream.errors import MALFORMED, BadInput
from slipstream.failpoints import failpoint
from slipstream.feeds.clock import FULL_SPEED, Clock
from slipstream.io.outputs import committed
from slipstream.io.outputs.committed import RESCUE, check_complete
from slipstream.linear_road.answers import ALERT, ANSWER, BALANCE, EXPENDITURE, TOLL, Answers, in_order
from slipstream.linear_road.schedule import Irregular
from slipstream.linear_road.stages import ANSWERS, COUNTED, REJECTS, TRIPS
from slipstream.logs import add_lines, last_line, whole_lines

OPTION = "sink"
OUTPUT, TEXT, REJECTED, JOURNAL = "output", "output.csv", "rejects.csv", committed.JOURNAL
_STAGING = "staging"


@dataclass(frozen=True)
class Sink:
    """Where answers go; travels to Spark as an option."""

    out: str
    clock: str  # its file
    text: bool = True
    start: int = 0  # of trips: second 0, in seconds since 1970

    def to_json(self) -> str:
        """As text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Sink:
        """From text."""
        return cls(**json.loads(text))


@dataclass(frozen=True)
class Batch:
    """A line of the journal: a committed batch, and how long the text files were after it."""

    batch: int
    newest: int  # the last second with an answer; in a batch without any, in a trip
    emit_ms: int  # the largest Emit of its answers, in milliseconds of the run
    answers: list[list[int]]  # kind, time, number, response time in milliseconds
    tuples: int  # taken in
    rejects: int
    irregular: list[int]  # reports off schedule: number, then time, vehicle and gap of the first
    text_bytes: int  # of output.csv after it
    rejects_bytes: int  # of rejects.csv after it
    trips: int = 0  # that it ended
    archived: int = 0  # the reports in them

    def check(self) -> None:
        """Refuse what no sink has written."""
        counts = [self.batch, self.newest, self.emit_ms, self.tuples, self.rejects, self.text_bytes, self.rejects_bytes]
        if not all(type(count) is int for count in (*counts, self.trips, self.archived)) or not isinstance(
            self.answers, list
        ):
            raise ValueError(f"batch {self.batch}: a count is not a number")
        if not all(isinstance(row, list) and len(row) == 4 for row in self.answers):
            raise ValueError(f"batch {self.batch}: answers are counted by kind, time and response time")
        if not isinstance(self.irregular, list) or [type(value) for value in self.irregular] != [int] * 4:
            raise ValueError(f"batch {self.batch}: reports off schedule are four numbers")


NO_BATCH = Batch(-1, -1, 0, [], 0, 0, list(astuple(Irregular())), 0, 0)


def journal(out: Path) -> list[Batch]:
    """The committed batches; an unfinished last line does not count."""
    with _readable(out / JOURNAL) as file:
        batches = [Batch(**line) for line in whole_lines(file)]
        for number, batch in enumerate(batches):
            batch.check()
            if batch.batch != number:
                raise ValueError(f"line {number + 1} is batch {batch.batch}, not {number}")
        return batches


def last_batch(out: Path) -> Batch | None:
    """The last committed batch."""
    with _readable(out / JOURNAL) as file:
        last = last_line(file)
        if last is None:
            return None
        batch = Batch(**last)
        batch.check()
        return batch


@contextmanager
def _readable(file: Path) -> Iterator[Path]:
    try:
        yield file
    except MALFORMED as error:
        raise BadInput(f"{file}: damaged ({error}).", hint=RESCUE) from error


def check_whole(out: Path, checkpoint: Path) -> None:
    """Refuse a journal that is damaged or lacks batches which Spark knows to be committed, and text files cut short."""
    batches = journal(out)
    check_complete(out / JOURNAL, len(batches), checkpoint)
    last = batches[-1] if batches else NO_BATCH
    for name, length in ((TEXT, last.text_bytes), (REJECTED, last.rejects_bytes)):
        _check_length(out / name, length)


def _check_length(file: Path, committed: int) -> None:
    size = file.stat().st_size if file.exists() else 0
    if size < committed:
        raise BadInput(f"{file}: {size:,} bytes, {committed:,} were committed.", hint=RESCUE)


@dataclass
class Written(WriterCommitMessage):
    """What a task wrote aside."""

    answers: dict[int, str]  # files, by how long before their Time the questions arrived, in milliseconds
    rejects: str
    tuples: int
    rejected: int
    counts: list[list[int]]  # kind, time, that delay, number
    irregular: Irregular
    trips: WrittenTrips

    def files(self) -> list[str]:
        """All of them."""
        return [*self.answers.values(), *(file for file in (self.rejects, self.trips.file) if file)]


@dataclass(frozen=True)
class WrittenTrips:
    """The trips that a task wrote aside."""

    file: str = ""  # none if there were none
    trips: int = 0
    reports: int = 0
    newest: int = -1  # the last second in one


@dataclass
class _Taken:
    """What comes to a task in a batch."""

    answers: list[Answers] = field(default_factory=lambda: [np.empty(0, ANSWER)])
    trips: list[Trips] = field(default_factory=list)
    rejects: list[bytes] = field(default_factory=list)
    irregular: list[Irregular] = field(default_factory=list)
    tuples: int = 0
    rejected: int = 0

    def take(self, what: int, reports: int, requests: int, payload: bytes) -> None:
        """A row: which of them, its counts, and what is in it."""
        if what == ANSWERS:
            self.answers.append(np.frombuffer(payload, ANSWER))
        elif what == TRIPS:
            self.trips.append(Trips.from_bytes(payload, requests, reports))
        elif what == REJECTS:
            self.rejects.append(payload)
            self.rejected += reports
        elif what == COUNTED:
            self.tuples += reports + requests
            self.irregular.append(Irregular.from_bytes(payload))


class AnswerSink(DataSource):
    """The sink under the name ``slipstream-answers``."""

    @classmethod
    def name(cls) -> str:
        """Its name for Spark."""
        return "slipstream-answers"

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: ARG002, N802
        """The writer of one query."""
        return AnswerWriter(Sink.from_json(self.options[OPTION]))


class AnswerWriter(DataSourceStreamArrowWriter):
    """Writes in tasks, commits on the driver."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._out = Path(sink.out)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the answers, trips and rejects of a task aside."""
        taken = _Taken()
        for batch in iterator:
            columns = batch.to_pydict()
            for row in zip(*(columns[name] for name in ("what", "reports", "requests", "payload")), strict=True):
                taken.take(*row)
        failpoint("sink.before-write")
        staging = self._out / _STAGING
        staging.mkdir(parents=True, exist_ok=True)
        name = uuid.uuid4().hex
        whole = in_order(np.concatenate(taken.answers))
        delays, which = delays_of(whole)
        files = {delay: f"{name}.{number}.parquet" for number, delay in enumerate(delays)}
        for number, file in enumerate(files.values()):
            mine = whole if len(files) == 1 else whole[which == number]
            pq.write_table(as_table(mine), staging / file, compression="zstd")
        trips = self._write_trips(taken.trips, staging / f"{name}.trips")
        if taken.rejects:
            (staging / f"{name}.rejects").write_bytes(b"".join(taken.rejects))
        failpoint("sink.after-write")
        rejects = f"{name}.rejects" if taken.rejects else ""
        counts, irregular = _counts(whole, delays, which), Irregular.total(taken.irregular)
        return Written(files, rejects, taken.tuples, taken.rejected, counts, irregular, trips)

    def _write_trips(self, pieces: list[Trips], file: Path) -> WrittenTrips:
        if not pieces:
            return WrittenTrips()
        archives.write(file, pieces, self._sink.start)
        trips, reports = sum(piece.vid.size for piece in pieces), sum(piece.time.size for piece in pieces)
        return WrittenTrips(file.name, trips, reports, max(int(piece.time.max()) for piece in pieces))

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        """Make a batch visible, once."""
        written: list[Written] = [message for message in messages if message is not None]
        last = last_batch(self._out) or NO_BATCH
        if last.batch + 1 < batchId:
            raise BadInput(f"{self._out / JOURNAL}: ends with batch {last.batch} before {batchId}.", hint=RESCUE)
        if last.batch < batchId:
            self._commit(written, batchId, last)
        self._discard(written)

    def _discard(self, written: list[Written]) -> None:
        for name in (name for message in written for name in message.files()):
            (self._out / _STAGING / name).unlink(missing_ok=True)

    def _commit(self, written: list[Written], batch: int, last: Batch) -> None:
        counts = _merged([message.counts for message in written])
        trips = [message.trips for message in written if message.trips.file]
        archived = max((part.newest for part in trips), default=last.newest)
        newest = max((time for _, time, _, _ in counts), default=max(last.newest, archived))
        clock = Clock.read(Path(self._sink.clock)) or Clock.starting(FULL_SPEED)
        committed_ms = clock.commit_ms(newest)
        files: dict[int, list[Path]] = {}  # by Emit
        for delay, name in (item for message in written for item in message.answers.items()):
            files.setdefault(committed_ms + delay, []).append(self._out / _STAGING / name)
        text = 0
        failpoint("sink.before-text")
        if self._sink.text:
            text = append(self._out / TEXT, last.text_bytes, (plain_text(files),))
        failpoint("sink.between-texts")
        lines = (self._out / _STAGING / message.rejects for message in written if message.rejects)
        rejects = append(self._out / REJECTED, last.rejects_bytes, (file.read_bytes() for file in lines))
        failpoint("sink.after-text")
        if files:
            self._show(files, batch)
            failpoint("sink.after-show")
        if trips:
            archives.show(self._out, batch, [self._out / _STAGING / part.file for part in trips])
            failpoint("sink.after-trips")
        failpoint("sink.before-journal")
        rejected = sum(message.rejected for message in written)
        irregular = Irregular.total(message.irregular for message in written)
        answers = [[kind, time, count, committed_ms + delay - 1000 * time] for kind, time, delay, count in counts]
        emit_ms = max(files, default=last.emit_ms)
        tuples = sum(message.tuples for message in written)
        ended = (sum(part.trips for part in trips), sum(part.reports for part in trips))
        entry = Batch(
            batch, newest, emit_ms, answers, tuples, rejected, list(astuple(irregular)), text, rejects, *ended
        )
        add_lines(self._out / JOURNAL, [asdict(entry)], durable=True)
        failpoint("sink.after-journal")

    def _show(self, files: dict[int, list[Path]], batch: int) -> None:
        """Put the files into folders whose names tell Emit, and rename them into place as one."""
        shown = self._out / OUTPUT / f"batch={batch}"
        aside = self._out / _STAGING / f"batch={batch}"
        for left in (shown, aside):
            shutil.rmtree(left, ignore_errors=True)
        for emit_ms, parts in files.items():
            folder = aside / f"emit_ms={emit_ms}"
            folder.mkdir(parents=True)
            for number, file in enumerate(parts):
                file.rename(folder / f"part-{number}.parquet")
        shown.parent.mkdir(exist_ok=True)
        aside.rename(shown)

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: ARG002, N803
        """Throw away what the tasks of a failed batch wrote."""
        self._discard([message for message in messages if message is not None])


def delays_of(answers: Answers) -> tuple[list[int], npt.NDArray[np.int64]]:
    """How long before its Time each answer's question arrived, by the clock of commits: a commit plus that is Emit.

    Returns the different ones, and for each answer which of them it is.
    """
    delays = 1000 * answers["time"].astype(np.int64) - answers["arrived"]
    if delays.size and (delays == delays[0]).all():  # a replay: nothing to sort
        return [int(delays[0])], np.zeros(delays.size, np.int64)
    found, which = np.unique(delays, return_inverse=True)
    return found.tolist(), which


def as_table(answers: Answers) -> pa.Table:
    """Answers as Arrow columns."""
    names = [name for name in ANSWER.names or () if name != "arrived"]
    columns: dict[str, npt.NDArray[Any]] = {name: np.ascontiguousarray(answers[name]) for name in names}
    columns["kind"] = columns["kind"].astype(np.int32)
    return pa.table(columns)


def _counts(answers: Answers, delays: list[int], which: npt.NDArray[np.int64]) -> list[list[int]]:
    """How many answers there are of each kind, second and delay."""
    keys = which << 40 | answers["kind"].astype(np.int64) << 32 | answers["time"].astype(np.int64)
    found, counts = np.unique(keys, return_counts=True)
    return [
        [key >> 32 & 0xFF, key & 0xFFFFFFFF, delays[key >> 40], n]
        for key, n in zip(found.tolist(), counts.tolist(), strict=True)
    ]


def _merged(parts: list[list[list[int]]]) -> list[list[int]]:
    total: Counter[tuple[int, ...]] = Counter()
    for *key, count in (row for part in parts for row in part):
        total[tuple(key)] += count
    return [[*key, total[key]] for key in sorted(total)]


#: the fields of each kind in the paper's order; Emit stands for itself
PAPER = {
    TOLL: ("kind", "vid", "time", "emit", "a", "b"),
    ALERT: ("kind", "time", "emit", "vid", "a"),
    BALANCE: ("kind", "time", "emit", "a", "qid", "b"),
    EXPENDITURE: ("kind", "time", "emit", "qid", "a"),
}
TRAVEL = ("kind", "time", "emit", "qid", "a", "b")


def plain_text(files: dict[int, list[Path]]) -> bytes:
    """The answers in the paper's form, by time and kind; files are given by their Emit."""
    if not files:
        return b""
    table = pa.concat_tables([_with_emit(file, emit_ms) for emit_ms, parts in files.items() for file in parts])
    parts: list[tuple[npt.NDArray[Any], list[bytes]]] = []
    options = pc.WriteOptions(include_header=False, quoting_style="none")
    for kind in np.unique(table.column("kind").to_numpy()):
        mine = table.filter(pa.compute.equal(table.column("kind"), int(kind)))
        sink = pa.BufferOutputStream()
        pc.write_csv(mine.select(PAPER.get(int(kind), TRAVEL)), sink, options)
        keys = np.stack([mine.column(name).to_numpy() for name in ("time", "kind", "vid", "qid")])
        parts.append((keys, sink.getvalue().to_pybytes().splitlines(keepends=True)))
    keys = np.concatenate([keys for keys, _ in parts], axis=1)
    lines = np.array([line for _, lines in parts for line in lines], dtype=object)
    return b"".join(lines[np.lexsort(keys[::-1])])


def _with_emit(file: Path, emit_ms: int) -> pa.Table:
    """The answers of a file with Emit in whole seconds, as the paper has it."""
    table = pq.ParquetFile(file).read()
    return table.append_column("emit", pa.array(np.full(table.num_rows, emit_ms // 1000)))


def append(file: Path, length: int, pieces: Any) -> int:
    """Cut a file to its committed length and append; returns the new length."""
    _check_length(file, length)
    with file.open("ab") as out:
        out.truncate(length)
        out.seek(length)
        for piece in pieces:
            out.write(piece)
        out.flush()
        os.fsync(out.fileno())
        return out.tell()
