"""Deliver a batch of a job: tasks write files, the driver commits them.

The tasks of the last stage write answers, trips and rejects themselves (``write_batch``), so only file names and a few
counts reach the driver. There ``Delivery`` commits the tables, then whatever else belongs to the batch (text files,
topics), and finally the journal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from slipstream._archive import ended_trips
from slipstream._archive.ended_trips import EndedTrips
from slipstream._feeds import text_ids
from slipstream._feeds.clock import FULL_SPEED, Clock
from slipstream._feeds.parse import escape
from slipstream._feeds.tuples import FIELDS
from slipstream._io import outputs
from slipstream._io.outputs import Outputs, Written
from slipstream._io.outputs.kafka import Publisher
from slipstream._io.outputs.text_files import append
from slipstream._linear_road import answer_text, output_tables
from slipstream._linear_road.answers import ANSWER, Answers
from slipstream._linear_road.job.toll_journal import Detail, TollBatch
from slipstream._linear_road.schedule import Irregular
from slipstream._linear_road.tasks.toll_stages import (
    ANSWERS,
    COUNTED,
    MATCHES,
    NAMES,
    NUMBERED,
    REJECTS,
    TRIPS,
    Hop,
    decode_matches,
)
from slipstream._runtime.state.id_numbers import Register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass
class _TaskInput:
    """What a task receives in a batch, by kind."""

    answers: list[Answers] = field(default_factory=lambda: [np.empty(0, ANSWER)])
    trips: list[EndedTrips] = field(default_factory=list)
    rejects: list[bytes] = field(default_factory=list)
    matches: dict[str, list[pa.Table]] = field(default_factory=dict)  # of continuous queries, by name
    irregular: list[Irregular] = field(default_factory=list)
    tuples: int = 0
    rejected: int = 0
    register: Register | None = None  # of vehicles identified by text

    @classmethod
    def from_hops(cls, hops: Iterable[Hop], register: Register | None) -> _TaskInput:
        taken = cls(register=register)
        for hop in hops:
            taken.take(hop)
        return taken

    def take(self, hop: Hop) -> None:
        if hop.what == ANSWERS:
            self.answers.append(np.frombuffer(hop.payload, ANSWER))
        elif hop.what == TRIPS:
            self.trips.append(EndedTrips.from_bytes(hop.payload, hop.requests, hop.reports))
        elif hop.what == REJECTS:
            self.rejects.append(restore_names(hop, self.register))
            self.rejected += hop.reports
        elif hop.what == MATCHES:
            query, rows = decode_matches(hop)
            self.matches.setdefault(query, []).append(rows)
        elif hop.what == COUNTED:
            self.tuples += hop.reports + hop.requests
            self.irregular.append(Irregular.from_bytes(hop.payload))


def learn_names(register: Register, hops: Iterable[Hop]) -> None:
    """Add the names in a batch to the register."""
    ordered = sorted((hop for hop in hops if hop.what == NAMES), key=lambda hop: (hop.arrived, hop.reports))
    for hop in ordered:
        register.learn(hop.arrived, hop.reports, text_ids.decode(hop.payload))


def write_batch(
    folder: Path, hops: Iterable[Hop], batch: int, start: int, register: Register | None = None
) -> Iterator[Written]:
    """Write a task's share of a batch; second 0 of trips is ``start`` seconds after 1970.

    A ``register`` is given if vehicles are identified by text.
    """
    taken = _TaskInput.from_hops(hops, register)
    for table, rows in output_tables.split_by_kind(np.concatenate(taken.answers)):
        note = {"counts": output_tables.count_by_time_and_delay(rows)}
        repeated = [name for name in rows.column_names if name not in ("vid", "qid")]
        named = _add_names(rows, register)
        yield outputs.write(folder, table.name, named, batch, note, dictionary=repeated, ascending=["vid"])
    if taken.trips:
        yield _write_trips(folder, taken.trips, batch, start, register)
    if taken.rejects:
        yield outputs.write(folder, output_tables.REJECTS, output_tables.reject_table(b"".join(taken.rejects)), batch)
    for query, parts in taken.matches.items():
        yield outputs.write(folder, query, pa.concat_tables(parts), batch)
    if taken.tuples or taken.rejected:
        irregular = astuple(Irregular.total(taken.irregular))
        yield outputs.note({"tuples": taken.tuples, "rejects": taken.rejected, "irregular": irregular})


def _add_names(rows: pa.Table, register: Register | None) -> pa.Table:
    """Add a column with the names of vehicles, if they have any."""
    if register is None:
        return rows
    return output_tables.add_vehicle_column(rows, register.texts(rows["vid"].to_numpy()))


def restore_names(hop: Hop, register: Register | None) -> bytes:
    """Return rejected lines, each after its reason, with vehicle numbers replaced by names."""
    if register is None or hop.requests != NUMBERED:
        return hop.payload
    rows = [line.split(b",") for line in hop.payload.removesuffix(b"\n").split(b"\n")]
    place = 1 + FIELDS.index("vid")
    texts = register.texts(np.array([int(row[place]) for row in rows], np.int64)).to_pylist()
    for row, name in zip(rows, texts, strict=True):
        row[place] = escape(name)
    return b"".join(b",".join(row) + b"\n" for row in rows)


def _write_trips(folder: Path, pieces: list[EndedTrips], batch: int, start: int, register: Register | None) -> Written:
    reports, newest = sum(piece.time.size for piece in pieces), max(int(piece.time.max()) for piece in pieces)
    rows = (_add_names(ended_trips.as_table(piece, start), register) for piece in pieces)
    note = {"reports": reports, "newest": newest}
    return outputs.write(folder, output_tables.TRIPS, rows, batch, note, dictionary=ended_trips.REPEATED)


@dataclass(frozen=True)
class _BatchNotes:
    """The notes that the tasks of a batch attach to their files, combined."""

    counts: Counter[tuple[int, int, int]]  # of answers, by kind, Time and delay
    tuples: int
    rejects: int
    irregular: Irregular
    reports: int  # in trips
    last_report: int

    @classmethod
    def from_written(cls, written: Sequence[Written]) -> _BatchNotes:
        notes = {name: [one.note for one in written if one.output == name] for name in {one.output for one in written}}
        counts: Counter[tuple[int, int, int]] = Counter()
        for table in output_tables.ANSWER_TABLES:
            for note in notes.get(table.name, []):
                counts.update({(table.kind, time, delay): number for time, delay, number in note["counts"]})
        taken, trips = notes.get("", []), notes.get(output_tables.TRIPS, [])
        return cls(
            counts,
            sum(note["tuples"] for note in taken),
            sum(note["rejects"] for note in taken),
            Irregular.total(Irregular(*note["irregular"]) for note in taken),
            sum(note["reports"] for note in trips),
            max((note["newest"] for note in trips), default=-1),
        )

    def newest(self, before: int) -> int:
        """Return the last second with an answer; without any, the last in a trip or in the batch ``before``."""
        return max((time for _, time, _ in self.counts), default=max(before, self.last_report))

    def responses(self, emitted_ms: int) -> list[list[int]]:
        """Return kind, time, number and response time of the answers."""
        return [
            [kind, time, number, emitted_ms + delay - 1000 * time]
            for (kind, time, delay), number in sorted(self.counts.items())
        ]


@dataclass
class Delivery:
    """Commits the batches of a job on its driver."""

    out: Path
    outputs: Outputs
    clock: Path  # the clock file
    texts: Collection[str] = (answer_text.TEXT, answer_text.REJECTED)  # the text files to write
    publishers: Sequence[Publisher] = ()
    show: Callable[[list[bytes]], None] | None = None  # receives the lines of a batch once it is committed
    delivered: Callable[[], None] = lambda: None  # called after every commit

    def __post_init__(self) -> None:
        last = self.outputs.last
        self._last = TollBatch.of(last, self.out).detail if last else Detail()

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Run a batch of a streaming query and commit it."""
        self.commit(number, [Written.from_row(row) for row in batch.collect()])

    def commit(self, batch: int, written: Sequence[Written]) -> bool:
        """Commit a batch; return False if it was committed before."""
        notes = _BatchNotes.from_written(written)
        # read before the commit, which deletes the files of a repeated batch
        rows = self._rows(written) if self.texts or self.publishers or self.show else {}
        made: list[_Finished] = []

        def finish(committed_ms: int) -> Mapping[str, Any]:
            made.append(self._finish(batch, notes, rows, committed_ms))
            return asdict(made[0].detail)

        new = self.outputs.commit(batch, written, tuples=notes.tuples, rejects=notes.rejects, before_journal=finish)
        for finished in made:
            self._last = finished.detail
            if self.show is not None:
                self.show(finished.lines)
            self.delivered()
        return new

    def _rows(self, written: Sequence[Written]) -> dict[str, pa.Table]:
        """Read back the rows that are also written as text."""
        return outputs.read_written(self.out, (one for one in written if one.output in output_tables.TEXTS))

    def _finish(self, batch: int, notes: _BatchNotes, rows: Mapping[str, pa.Table], committed_ms: int) -> _Finished:
        """Write the text files and topics of a batch, stamped with the commit time of its tables."""
        newest = notes.newest(self._last.newest)
        clock = Clock.read(self.clock) or Clock.start(FULL_SPEED)
        emitted_ms = clock.commit_ms(newest, committed_ms)
        lines, vehicles = answer_text.format_answers(rows, emitted_ms)
        sizes = self._append(lines, answer_text.format_rejects(rows))
        for publisher in self.publishers:
            publisher.publish(batch, lines, vehicles)
        responses, irregular = notes.responses(emitted_ms), list(astuple(notes.irregular))
        return _Finished(Detail(newest, emitted_ms, responses, irregular, notes.reports, *sizes), lines)

    def _append(self, lines: list[bytes], rejects: list[bytes]) -> tuple[int, int]:
        sizes = []
        for name, length, more in (
            (answer_text.TEXT, self._last.text_bytes, lines),
            (answer_text.REJECTED, self._last.rejects_bytes, rejects),
        ):
            sizes.append(append(self.out / name, length, more) if name in self.texts else length)
        return sizes[0], sizes[1]


class _Finished(NamedTuple):
    """A finished batch: its detail in the journal, and its answers as text."""

    detail: Detail
    lines: list[bytes]
