"""One-off queries of a snapshot: evaluated in this process, or per fragment by Spark and merged here."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from slipstream._cuboid import declare
from slipstream._cuboid.fragment import Fragment
from slipstream._cuboid.query.relations import Rows
from slipstream._cuboid.query.sql import Part, Query
from slipstream._cuboid.query.stream_functions import Pattern
from slipstream._cuboid.snapshots.snapshot import Cuboid, Snapshot
from slipstream._errors import BadArgument
from slipstream._spark.session import task_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def parse_query(snapshot: Snapshot, text: str) -> Query:
    """Parse the one SELECT in a text; its CREATE PATTERN statements add to the stored patterns."""
    script = declare.parse(text)
    if len(script.selects) != 1 or script.queries or script.cuboids:
        raise BadArgument("A query must be one SELECT, after any CREATE PATTERN statements.", code="bad-expression")
    patterns: Mapping[str, Pattern] = snapshot.patterns | script.patterns
    return Query.parse(script.selects[0], snapshot.schemas, patterns)


def run_query(snapshot: Snapshot, text: str) -> Part:
    """Run a query on a snapshot as it is now; returns columns by name.

    >>> run_query(Snapshot.open("tolls"), "SELECT count(*) FROM car")  # doctest: +SKIP
    {'count(*)': array([51234])}
    """
    query = parse_query(snapshot, text)
    with snapshot.locked():
        return query.merge(_compute_parts(snapshot[_name(snapshot, query)], query))


def _name(snapshot: Snapshot, query: Query) -> str:
    return next(name for name, schema in snapshot.schemas.items() if schema == query.schema)


def _compute_parts(cuboid: Cuboid, query: Query) -> list[Part]:
    fragments = cuboid.fragments or [Fragment(cuboid.schema)]
    return [query.compute_part(Rows.of(fragment)) for fragment in fragments]


@dataclass(frozen=True)
class _Task:
    """A Spark task: evaluates its fragment's part of the result, all as of the same batch."""

    folder: str
    name: str
    batch: int
    query: Query

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("fragment").to_pylist():
                snapshot = Snapshot.open(self.folder, fragments=[number], batch=self.batch, only=self.name)
                for part in _compute_parts(snapshot[self.name], self.query):
                    yield pa.record_batch([[pickle.dumps(part)]], names=["part"])


def run_query_in_spark(spark: SparkSession, snapshot: Snapshot, text: str) -> Part:
    """Run a query with a Spark task per fragment; all see the batch of ``snapshot``."""
    query = parse_query(snapshot, text)
    name = _name(snapshot, query)
    numbers = [(number,) for number in snapshot.fragments(name)]
    if not numbers:
        return run_query(snapshot, text)
    rows = spark.createDataFrame(numbers, "fragment int").repartition(len(numbers))
    task = _Task(str(snapshot.folder.absolute()), name, snapshot.batch, query)
    with task_errors():
        parts = rows.mapInArrow(task, "part binary").collect()
    return query.merge([pickle.loads(row.part) for row in parts])
