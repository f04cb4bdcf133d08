"""How a batch of a job is delivered: its tasks write files, the driver commits them as one.

The last stage of a job writes its answers, trips and rejects where it is (``write_batch``), so only the names of files
and a few counts travel to the driver. There ``Delivery`` commits the tables, then whatever else belongs to the batch
(text, topics), and last the journal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from slipstream._archive import trajectories
from slipstream._archive.trajectories import Trips
from slipstream._feeds import names
from slipstream._feeds.clock import FULL_SPEED, Clock
from slipstream._feeds.parse import escape
from slipstream._feeds.tuples import FIELDS
from slipstream._io import outputs
from slipstream._io.outputs import Outputs, Written
from slipstream._io.outputs.kafka import Publisher
from slipstream._io.outputs.text import append
from slipstream._linear_road import tables, text
from slipstream._linear_road.answers import ANSWER, Answers
from slipstream._linear_road.job.journal import Batch, Detail
from slipstream._linear_road.schedule import Irregular
from slipstream._linear_road.tasks.stages import ANSWERS, COUNTED, FOUND, NAMES, NUMBERED, REJECTS, TRIPS, Hop, found_in
from slipstream._runtime.names import Register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass
class _Taken:
    """What comes to a task in a batch."""

    answers: list[Answers] = field(default_factory=lambda: [np.empty(0, ANSWER)])
    trips: list[Trips] = field(default_factory=list)
    rejects: list[bytes] = field(default_factory=list)
    found: dict[str, list[pa.Table]] = field(default_factory=dict)  # by continuous queries
    irregular: list[Irregular] = field(default_factory=list)
    tuples: int = 0
    rejected: int = 0
    register: Register | None = None  # of vehicles that are known by text

    @classmethod
    def of(cls, hops: Iterable[Hop], register: Register | None) -> _Taken:
        taken = cls(register=register)
        for hop in hops:
            taken.take(hop)
        return taken

    def take(self, hop: Hop) -> None:
        if hop.what == ANSWERS:
            self.answers.append(np.frombuffer(hop.payload, ANSWER))
        elif hop.what == TRIPS:
            self.trips.append(Trips.from_bytes(hop.payload, hop.requests, hop.reports))
        elif hop.what == REJECTS:
            self.rejects.append(named_lines(hop, self.register))
            self.rejected += hop.reports
        elif hop.what == FOUND:
            query, rows = found_in(hop)
            self.found.setdefault(query, []).append(rows)
        elif hop.what == COUNTED:
            self.tuples += hop.reports + hop.requests
            self.irregular.append(Irregular.from_bytes(hop.payload))


def learn(register: Register, hops: Iterable[Hop]) -> None:
    """Take the names that a batch brings."""
    told = sorted((hop for hop in hops if hop.what == NAMES), key=lambda hop: (hop.arrived, hop.reports))
    for hop in told:
        register.learn(hop.arrived, hop.reports, names.decode(hop.payload))


def write_batch(
    folder: Path, hops: Iterable[Hop], batch: int, start: int, register: Register | None = None
) -> Iterator[Written]:
    """Write what a task has of a batch; second 0 of trips is ``start`` seconds after 1970.

    With a ``register`` vehicles are known by text.
    """
    taken = _Taken.of(hops, register)
    for table, rows in tables.split(np.concatenate(taken.answers)):
        note = {"counts": tables.counts_of(rows)}
        repeated = [name for name in rows.column_names if name not in ("vid", "qid")]
        named = _named(rows, register)
        yield outputs.write(folder, table.name, named, batch, note, dictionary=repeated, ascending=["vid"])
    if taken.trips:
        yield _write_trips(folder, taken.trips, batch, start, register)
    if taken.rejects:
        yield outputs.write(folder, tables.REJECTS, tables.rejected(b"".join(taken.rejects)), batch)
    for query, parts in taken.found.items():
        yield outputs.write(folder, query, pa.concat_tables(parts), batch)
    if taken.tuples or taken.rejected:
        irregular = astuple(Irregular.total(taken.irregular))
        yield outputs.note({"tuples": taken.tuples, "rejects": taken.rejected, "irregular": irregular})


def _named(rows: pa.Table, register: Register | None) -> pa.Table:
    """Rows with the names of their vehicles, if they have any."""
    if register is None:
        return rows
    return tables.with_vehicle(rows, register.texts(rows["vid"].to_numpy()))


def named_lines(hop: Hop, register: Register | None) -> bytes:
    """Rejected lines, each behind its reason, with the names of vehicles for their numbers."""
    if register is None or hop.requests != NUMBERED:
        return hop.payload
    rows = [line.split(b",") for line in hop.payload.removesuffix(b"\n").split(b"\n")]
    place = 1 + FIELDS.index("vid")
    texts = register.texts(np.array([int(row[place]) for row in rows], np.int64)).to_pylist()
    for row, name in zip(rows, texts, strict=True):
        row[place] = escape(name)
    return b"".join(b",".join(row) + b"\n" for row in rows)


def _write_trips(folder: Path, pieces: list[Trips], batch: int, start: int, register: Register | None) -> Written:
    reports, newest = sum(piece.time.size for piece in pieces), max(int(piece.time.max()) for piece in pieces)
    rows = (_named(trajectories.as_table(piece, start), register) for piece in pieces)
    note = {"reports": reports, "newest": newest}
    return outputs.write(folder, tables.TRIPS, rows, batch, note, dictionary=trajectories.REPEATED)


@dataclass(frozen=True)
class _Told:
    """What the tasks of a batch say about it."""

    counts: Counter[tuple[int, int, int]]  # how many answers there are of a kind, Time and delay
    tuples: int
    rejects: int
    irregular: Irregular
    reports: int  # in trips
    last_report: int

    @classmethod
    def of(cls, written: Sequence[Written]) -> _Told:
        notes = {name: [one.note for one in written if one.output == name] for name in {one.output for one in written}}
        counts: Counter[tuple[int, int, int]] = Counter()
        for table in tables.ANSWER_TABLES:
            for note in notes.get(table.name, []):
                counts.update({(table.kind, time, delay): number for time, delay, number in note["counts"]})
        taken, trips = notes.get("", []), notes.get(tables.TRIPS, [])
        return cls(
            counts,
            sum(note["tuples"] for note in taken),
            sum(note["rejects"] for note in taken),
            Irregular.total(Irregular(*note["irregular"]) for note in taken),
            sum(note["reports"] for note in trips),
            max((note["newest"] for note in trips), default=-1),
        )

    def newest(self, before: int) -> int:
        """The last second with an answer; without any, in a trip, or that of the batch ``before``."""
        return max((time for _, time, _ in self.counts), default=max(before, self.last_report))

    def responses(self, emitted_ms: int) -> list[list[int]]:
        """Kind, time, number and response time of the answers."""
        return [
            [kind, time, number, emitted_ms + delay - 1000 * time]
            for (kind, time, delay), number in sorted(self.counts.items())
        ]


@dataclass
class Delivery:
    """Commits the batches of a job on its driver."""

    out: Path
    outputs: Outputs
    clock: Path  # its file
    texts: Collection[str] = (text.TEXT, text.REJECTED)  # the text files that it fills
    publishers: Sequence[Publisher] = ()
    show: Callable[[list[bytes]], None] | None = None  # gets the lines of a batch once it is committed
    delivered: Callable[[], None] = lambda: None  # called after every commit

    def __post_init__(self) -> None:
        last = self.outputs.last
        self._last = Batch.of(last, self.out).detail if last else Detail()

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Run a batch of a streaming query, and commit it."""
        self.commit(number, [Written.from_row(row) for row in batch.collect()])

    def commit(self, batch: int, written: Sequence[Written]) -> bool:
        """Commit a batch; False if it was committed before."""
        told = _Told.of(written)
        # before the commit: of a repeated batch it deletes the second set of files
        rows = self._rows(written) if self.texts or self.publishers or self.show else {}
        made: list[_Finished] = []

        def finish(committed_ms: int) -> Mapping[str, Any]:
            made.append(self._finish(batch, told, rows, committed_ms))
            return asdict(made[0].detail)

        new = self.outputs.commit(batch, written, tuples=told.tuples, rejects=told.rejects, before_journal=finish)
        for finished in made:
            self._last = finished.detail
            if self.show is not None:
                self.show(finished.lines)
            self.delivered()
        return new

    def _rows(self, written: Sequence[Written]) -> dict[str, pa.Table]:
        """What goes on as text."""
        return outputs.read_written(self.out, (one for one in written if one.output in tables.TEXTS))

    def _finish(self, batch: int, told: _Told, rows: Mapping[str, pa.Table], committed_ms: int) -> _Finished:
        """Do what belongs to a batch besides its tables, all of it stamped with the instant of their commit."""
        newest = told.newest(self._last.newest)
        clock = Clock.read(self.clock) or Clock.start(FULL_SPEED)
        emitted_ms = clock.commit_ms(newest, committed_ms)
        lines, vehicles = text.lines_of(rows, emitted_ms)
        sizes = self._append(lines, text.reject_lines(rows))
        for publisher in self.publishers:
            publisher.publish(batch, lines, vehicles)
        responses, irregular = told.responses(emitted_ms), list(astuple(told.irregular))
        return _Finished(Detail(newest, emitted_ms, responses, irregular, told.reports, *sizes), lines)

    def _append(self, lines: list[bytes], rejects: list[bytes]) -> tuple[int, int]:
        sizes = []
        for name, length, more in (
            (text.TEXT, self._last.text_bytes, lines),
            (text.REJECTED, self._last.rejects_bytes, rejects),
        ):
            sizes.append(append(self.out / name, length, more) if name in self.texts else length)
        return sizes[0], sizes[1]


class _Finished(NamedTuple):
    """What a batch came to: what the journal says about it, and its answers as text."""

    detail: Detail
    lines: list[bytes]
