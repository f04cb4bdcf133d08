"""Test your own boxes, toll rules, sources and destinations, without Spark.

A :class:`MemoryHost` runs a job in this process, batch by batch, with the code that runs in Spark. It can lose a batch
before its commit, and forget all state that is not stored, so a test covers crashes and restarts as well.

>>> import slipstream as ss
>>> cars = MemorySource({"id": "bigint", "speed": "double"}, [{"id": 1, "speed": 15.0}, {"id": 2, "speed": 80.0}])
>>> host = MemoryHost(ss.Job("out").write(ss.read(cars).filter("speed < 20"), name="slow"))
>>> host.run()
{'slow': [{'id': 1, 'speed': 15.0}]}
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa

from slipstream._api.streaming import type_names
from slipstream._api.streaming.jobs import Job
from slipstream._api.streaming.streams import origins, tables
from slipstream._errors import BadArgument, CheckFailed
from slipstream._io.chunks import CHUNK, LAST, to_arrow_stream
from slipstream._io.formats.decoding import TYPES
from slipstream._io.outputs.destinations import Destination
from slipstream._io.readers.user_feeds import UserFeed
from slipstream._io.readers.user_sources import Source
from slipstream._io.train_files import TS
from slipstream._network.algebra import Schema
from slipstream._network.boxes.archive import archive_boxes, to_trips
from slipstream._network.boxes.operators import UNKNOWN
from slipstream._network.boxes.windows.window_functions import encode_table, to_arrow
from slipstream._network.flow import sort_train
from slipstream._network.planning.plan import plan
from slipstream._network.running.train_folder import SEQ
from slipstream._network.schemas import check
from slipstream._network.state.stored import StoredTable
from slipstream._network.tasks.operators_in_spark import SuperboxStage
from slipstream._network.tasks.parcels import DELIVERED, Load, Row
from slipstream._network.tasks.superbox import Superbox
from slipstream._runtime.stages.memory import Host, put_under_one_key
from slipstream._tools.processes.failpoints import OUTPUT_POINTS, TOPIC_POINTS, VARIABLE

__all__ = [
    "FAILPOINTS",
    "CapturingOutput",
    "ManualClock",
    "MemoryHost",
    "MemorySource",
    "check_source",
    "failpoint",
]

Rows: TypeAlias = "Sequence[Mapping[str, Any]] | pa.Table"
Found: TypeAlias = "dict[str, list[dict[str, Any]]]"

#: where :func:`failpoint` can fail a job, in the order in which a batch gets there
FAILPOINTS = (*OUTPUT_POINTS[2:], *TOPIC_POINTS)


class MemorySource(Source):
    """A source of tuples that a test gives; jobs in Spark can read it, too.

    >>> cars = MemorySource({"id": "bigint"}, [{"id": 1}])
    >>> cars.push({"id": 2})
    >>> cars.read(0, 2).to_pylist()
    [{'id': 1}, {'id': 2}]
    """

    def __init__(
        self, schema: Mapping[str, str], rows: Iterable[Mapping[str, Any]] = (), *, per_batch: int = 1000
    ) -> None:
        self.schema = dict(schema)
        self._types, self._rows, self._per_batch = type_names.parse_schema(schema), list(rows), per_batch

    def push(self, *rows: Mapping[str, Any]) -> None:
        """Add tuples behind those that are there."""
        self._rows += rows

    def latest(self, start: int) -> int:
        """As many tuples as a batch takes."""
        return min(start + self._per_batch, len(self._rows))

    def has_ended(self, position: int) -> bool:
        """After the last tuple."""
        return position == len(self._rows)

    def read(self, start: int, end: int) -> pa.Table:
        """Some of the tuples."""
        return _table(self._rows[start:end], self._types)


class CapturingOutput(Destination):
    """A destination that remembers what it was sent; a batch that is sent again must have the same rows.

    >>> slow = CapturingOutput()
    >>> slow.send(0, pa.table({"id": [1]}))
    >>> slow.rows, slow.attempts
    ([{'id': 1}], [0])
    """

    def __init__(self) -> None:
        self.batches: dict[int, list[dict[str, Any]]] = {}
        self.attempts: list[int] = []  # the batch of every call, those that were sent again among them

    def send(self, batch: int, rows: pa.Table) -> None:
        """Remember the rows of a batch."""
        found = list(rows.to_pylist())
        self.attempts.append(batch)
        if batch in self.batches and self.batches[batch] != found:
            raise CheckFailed(
                f"batch {batch} was sent again with other rows.",
                hint="The job is not deterministic.",
                code="not-deterministic",
            )
        self.batches[batch] = found

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All rows, each batch once, in order."""
        return [row for _, rows in sorted(self.batches.items()) for row in rows]


class ManualClock:
    """A clock that a test sets: when tuples arrive in a :class:`MemoryHost`.

    >>> clock = ManualClock()
    >>> clock.advance(1.5)
    >>> clock.now
    1.5
    """

    def __init__(self, now: float = 0.0) -> None:
        self.now = now  # seconds since 1970

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


class MemoryHost:
    """Runs a job in this process, without Spark and without a folder.

    :meth:`run` reads the job's own sources (:class:`slipstream.Source`) to their end; :meth:`send` delivers
    tuples to any source, such as a topic. Results are returned, kept in ``outputs``, and sent to your own
    destinations. Expressions that only Spark can compute are refused; test those with a session.

    >>> import slipstream as ss
    >>> cars = ss.read("kafka://broker:9092/cars", {"id": "bigint", "speed": "double"})
    >>> host = MemoryHost(ss.Job("out").write(cars.filter("speed < 20"), name="slow"))
    >>> host.send([{"id": 1, "speed": 15.0}, {"id": 2, "speed": 80.0}])
    {'slow': [{'id': 1, 'speed': 15.0}]}
    """

    def __init__(self, job: Job, *, clock: ManualClock | None = None) -> None:
        self._network, self._own = job.network, job._own
        self._superbox = _superbox(job)
        self._host = Host([SuperboxStage("memory", self._superbox, None, 1)], divide=put_under_one_key)
        self._clock = clock or ManualClock()
        self._number = 0  # of the next tuple
        self._sources = [source.name for source in self._network.sources]
        self._given = {n: f.own for n, o in origins(job._outputs.values()).items() if (f := _user_feed(o))}
        self._positions = {name: source.start for name, source in self._given.items() if source}
        self._ended: set[str] = set()
        self.outputs: Found = {output.name: [] for output in self._network.outputs}

    def send(self, tuples: Rows | Mapping[str, Rows], *, crash: bool = False) -> Found:
        """Process a batch: the tuples of the one source, or of several by name; returns what leaves the job.

        With ``crash`` the batch is lost before its commit and processed again.
        """
        by_source = tuples if isinstance(tuples, Mapping) else {self._only(): tuples}
        if unknown := [name for name in by_source if name not in self._sources]:
            raise BadArgument(
                f"no source {unknown[0]!r}.",
                hint=f"The job reads: {', '.join(self._sources)}.",
                code="unknown-name",
                found=unknown[0],
                expected=[*self._sources],
            )
        rows = [self._row(name, given) for name, given in by_source.items() if len(given)]
        return self._batch(rows, crash=crash)

    def step(self, *, crash: bool = False) -> Found:
        """Process one batch of what the job's own sources have; returns what leaves the job."""
        rows = []
        for name, source in self._given.items():
            assert source is not None
            start = self._positions[name]
            end = source.latest(start)
            if end > start:
                rows.append(self._row(name, source.table(self._schema(name), start, end)))
            self._positions[name] = end
            if source.has_ended(end):
                rows += self._last(name)
        return self._batch(rows, crash=crash)

    def run(self) -> Found:
        """Process everything to the end of the job's own sources; returns all that has left the job."""
        if missing := [name for name in self._sources if name not in self._given]:
            raise BadArgument(
                f"source {missing[0]} has no tuples here.",
                hint="Use send, or read a MemorySource.",
                code="missing-value",
            )
        while len(self._ended) < len(self._sources):
            before = dict(self._positions), len(self._ended)
            self.step()
            if before == (self._positions, len(self._ended)):
                raise BadArgument(
                    "a source has no more tuples and no end.", hint="Use step for a live source.", code="user-code"
                )
        return self.outputs

    def end(self) -> Found:
        """End the input: what boxes hold back leaves now."""
        return self._batch([row for name in self._sources for row in self._last(name)])

    def restart(self) -> None:
        """Forget everything but what is stored, as a process that is started again does."""
        self._host.restart()

    # --- batches

    def _batch(self, rows: list[Row], *, crash: bool = False) -> Found:
        if not rows:
            return {name: [] for name in self.outputs}
        number = self._host.batch
        passed = self._host.run([pd.DataFrame(rows, columns=list(Row._fields))], crash=crash)
        found = self._delivered(passed)
        for name, table in found.items():
            self.outputs[name] += table.to_pylist()
            for destination in self._own.get(name, ()):
                for _ in range(2 if crash and table.num_rows else bool(table.num_rows)):
                    destination.send(number, table)
        return {name: list(table.to_pylist()) for name, table in found.items()}

    def _row(self, name: str, given: Rows) -> Row:
        schema = self._schema(name)
        table = given if isinstance(given, pa.Table) else _table(given, schema)
        numbers = np.arange(self._number, self._number + table.num_rows)
        self._number += table.num_rows
        times = np.full(table.num_rows, round(self._clock.now * 1e6), np.int64)
        table = table.add_column(0, SEQ, pa.array(numbers)).add_column(1, TS, pa.array(times))
        return Row(0, self._sources.index(name), self._number, CHUNK, 0, to_arrow_stream(table))

    def _last(self, name: str) -> list[Row]:
        if name in self._ended:
            return []
        self._ended.add(name)
        return [Row(0, self._sources.index(name), self._number, LAST, 0, b"")]

    def _schema(self, name: str) -> Schema:
        return next(source.schema for source in self._network.sources if source.name == name)

    def _only(self) -> str:
        if len(self._sources) != 1:
            raise BadArgument(
                "the job has several sources.",
                hint=f"Send a mapping; the job reads: {', '.join(self._sources)}.",
                code="missing-value",
            )
        return self._sources[0]

    def _delivered(self, passed: list[pd.DataFrame]) -> dict[str, pa.Table]:
        """What the stage passes on: a table for each output, in order."""
        made = self._superbox.plan
        names = {delivery.layout.id: name for name, delivery in made.outputs.items()}
        trips = archive_boxes(self._network)
        found = {}
        for frame in passed:
            for row in (Row(*one) for one in frame[list(Row._fields)].itertuples(index=False, name=None)):
                for parcel in Load.from_bytes(row.chunk, len(made.keys)).parcels if row.what == DELIVERED else ():
                    name, train = names[parcel.address], sort_train(parcel.train)
                    layout = made.outputs[name].layout.types
                    arrays = {column: to_arrow(train.columns[column], type_) for column, type_ in layout.items()}
                    found[name] = to_trips(trips[name], arrays) if name in trips else pa.table(arrays)
        none = {name: pa.table({}) for name in self.outputs}
        return none | found


def _superbox(job: Job) -> Superbox:
    checked = check(job.network, None)
    for arc, schema in checked.schemas.items():
        if unknown := [column for column, type_ in schema.items() if type_ == UNKNOWN]:
            raise BadArgument(
                f"{arc}: only Spark knows the type of {unknown[0]!r}.",
                hint="Cast it, or test the job in a session.",
                code="bad-type",
            )
    stored = {name: _sort_table(table.rows(), table.schema) for name, table in tables(job._outputs.values()).items()}
    made = Superbox(plan(checked), stored)
    if made.translations.prefixes or made.stages.count > 1:
        where = str(made.translations.prefixes[0][-1]) if made.translations.prefixes else "the job"
        raise BadArgument(
            f"after {where}: an expression that only Spark can compute.",
            hint="Test the job in a session.",
            code="bad-type",
        )
    return made


def _sort_table(rows: Any, schema: Mapping[str, str]) -> StoredTable:
    """A stored table as boxes see it, sorted by all columns."""
    table = rows if isinstance(rows, pa.Table) else rows.toArrow()
    return encode_table(table.sort_by([(name, "ascending") for name in schema]), schema)


def _user_feed(origin: Any) -> UserFeed | None:
    if origin.is_copied or origin.needs_session_of is not None or origin.where.startswith(("kafka:", "tcp:")):
        return None
    feed = origin.feed(Path(), {})
    return feed if isinstance(feed, UserFeed) else None


def _table(rows: Sequence[Mapping[str, Any]], schema: Mapping[str, str]) -> pa.Table:
    return pa.Table.from_pylist([dict(row) for row in rows], pa.schema([(n, TYPES[t]) for n, t in schema.items()]))


# --- sources


def check_source(source: Source, *, most_batches: int = 1000) -> list[dict[str, Any]]:
    """Read a source as a job does, to its end, and return its tuples; raises ``CheckFailed`` if it breaks its contract.

    Positions must not decrease, and every span must be the same when it is read again. A source without an end is read
    until it has nothing new.

    >>> check_source(MemorySource({"id": "bigint"}, [{"id": 1}, {"id": 2}]))
    [{'id': 1}, {'id': 2}]
    """
    schema = type_names.parse_schema(source.schema)
    found: list[dict[str, Any]] = []
    position, label = source.start, type(source).__name__
    for _ in range(most_batches):
        end = source.latest(position)
        if end < position:
            raise CheckFailed(
                f"{label}.latest({position}) returned {end}.", hint="A position never decreases.", code="user-code"
            )
        rows = source.table(schema, position, end).to_pylist() if end > position else []
        if end > position and source.table(schema, position, end).to_pylist() != rows:
            raise CheckFailed(
                f"{label}.read({position}, {end}) returned other tuples when it was called again.",
                hint="After a crash a job reads the same span again.",
                code="not-deterministic",
            )
        found += rows
        if source.has_ended(end) or end == position:
            return found
        position = end
    raise CheckFailed(
        f"{label} has not ended after {most_batches} batches.",
        hint="Give a larger most_batches=, or a source that ends.",
        code="user-code",
    )


# --- failures


@contextmanager
def failpoint(name: str, error: str = "ENOSPC") -> Iterator[None]:
    """Let a job that runs in Spark fail once at a named point of a commit, while the block runs.

    ``FAILPOINTS`` has the names. Start the job again afterwards: it must resume as if nothing had happened.

    >>> with failpoint("outputs.before-journal"):
    ...     pass
    """
    if name not in FAILPOINTS:
        raise BadArgument(
            f"no failpoint {name!r}.",
            hint=f"Failpoints: {', '.join(FAILPOINTS)}.",
            code="unknown-name",
            found=name,
            expected=[*FAILPOINTS],
        )
    before = os.environ.get(VARIABLE)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[VARIABLE] = f"{name}:{folder}/reached:{error}"
        try:
            yield
        finally:
            os.environ.pop(VARIABLE)
            if before is not None:
                os.environ[VARIABLE] = before
