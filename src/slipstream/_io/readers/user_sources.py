"""User-defined sources: a Python class that returns the tuples between two positions, as a Spark streaming source.

A position is a number that never decreases, such as a row number, a sequence number or a minute. Spark records the
positions of each batch in its checkpoint before it reads them, so a batch that is repeated after a crash reads the same
tuples again. That is all a source needs for exactly-once results.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from slipstream._errors import BadInput
from slipstream._io.chunks import COLUMNS, LAST, Chunk, ChunkReader, Offset, narrow, to_arrow_stream

OPTION = "source"
#: what ``Source.read`` may return
Tuples: TypeAlias = "pa.Table | Mapping[str, Sequence[Any]]"


class Source:
    """A source of your own: subclass it, declare a ``schema``, and implement :meth:`latest` and :meth:`read`.

    Instances are sent to Spark's workers, so they must be picklable: open files and connections in :meth:`read`.

    >>> class Squares(Source):
    ...     schema = {"n": "bigint", "square": "bigint"}
    ...
    ...     def latest(self, start: int) -> int:
    ...         return min(start + 100, 1000)
    ...
    ...     def has_ended(self, position: int) -> bool:
    ...         return position == 1000
    ...
    ...     def read(self, start: int, end: int) -> Tuples:
    ...         return {"n": range(start, end), "square": [n * n for n in range(start, end)]}
    >>> Squares().latest(950)
    1000
    """

    #: the columns and their Spark types: bigint, double, string or boolean
    schema: Mapping[str, str]
    #: the position before the first tuple
    start: int = 0

    def latest(self, start: int) -> int:
        """Return how far a batch that begins at ``start`` can read now; ``start`` if there is nothing new."""
        raise NotImplementedError(f"{type(self).__name__}.latest")

    def read(self, start: int, end: int) -> Tuples:
        """Return the tuples from ``start`` up to, but not including, ``end``; the same ones whenever it is called."""
        raise NotImplementedError(f"{type(self).__name__}.read")

    def has_ended(self, position: int) -> bool:  # noqa: ARG002
        """Return whether nothing will ever come after a position; False for a live source."""
        return False

    def table(self, types: Mapping[str, str], start: int, end: int) -> pa.Table:
        """Return what :meth:`read` does as a table with columns of these types."""
        # the process that plans batches needs no types, and starts sooner without them
        from slipstream._io.formats.decoding import TYPES

        found = self.read(start, end)
        columns = found if isinstance(found, pa.Table) else pa.table({k: _make_array(v) for k, v in found.items()})
        if missing := [name for name in types if name not in columns.column_names]:
            raise BadInput(
                f"source {type(self).__name__}: read({start}, {end}) returns no column {missing[0]!r}.",
                hint=f"It returns: {', '.join(columns.column_names) or 'nothing'}.",
                code="user-code",
            )
        try:
            return columns.select(list(types)).cast(pa.schema([(name, TYPES[type_]) for name, type_ in types.items()]))
        except pa.ArrowException as error:
            raise BadInput(
                f"source {type(self).__name__}: read({start}, {end}): {str(error).splitlines()[0]}",
                hint="Its columns must have the types that its schema declares.",
                code="user-code",
            ) from error


def _make_array(values: Any) -> Any:
    return list(values) if isinstance(values, range) else values


@dataclass(frozen=True)
class UserSource:
    """What to read, as it is sent to Spark: the pickled source and the types of its columns."""

    pickled: str
    types: dict[str, str]
    openings: int = 0
    control: str = ""

    @property
    def source(self) -> Source:
        """The source itself."""
        found: Source = cloudpickle.loads(base64.b64decode(self.pickled))
        return found


@dataclass
class PositionRange(InputPartition):
    """The tuples between two positions."""

    start: int
    end: int
    arrived: int
    last: bool


class UserDataSource(DataSource):
    """The source under the name ``slipstream-source``."""

    @classmethod
    def name(cls) -> str:
        """Its name for Spark."""
        return "slipstream-source"

    def schema(self) -> str:
        """Chunks, each a train."""
        return COLUMNS

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: ARG002, N802
        """The reader of one query."""
        return UserReader(UserSource(**json.loads(self.options[OPTION])))


class UserReader(ChunkReader):
    """Gets the latest position from the source, and lets a task read up to it."""

    def __init__(self, given: UserSource) -> None:
        super().__init__(given.openings, control=given.control)
        self._given = given
        self._source = given.source

    def first_offset(self) -> Offset:
        """The source's own start."""
        return {"position": self._source.start, "arrived": 0}

    def next_offset(self, start: Offset) -> Offset:
        """The source's latest position; refuse one that decreases."""
        position = int(self._source.latest(start["position"]))
        if position < start["position"]:
            raise BadInput(
                f"source {type(self._source).__name__}: latest({start['position']}) returned {position}.",
                hint="A position never decreases.",
                code="user-code",
            )
        ended = bool(self._source.has_ended(position))
        if position == start["position"] and not ended:
            return {}
        return {"position": position, "arrived": time.time_ns() // 1_000_000, "ended": ended}

    def plan_tasks(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """One task reads all tuples."""
        last = bool(end["ended"]) and not start["ended"]
        if end["position"] == start["position"] and not last:
            return []
        return [PositionRange(start["position"], end["position"], end["arrived"], last)]

    def read_chunks(self, partition: PositionRange) -> Iterator[Chunk]:
        """A train, and a notice after the last one."""
        if partition.end > partition.start:
            table = self._source.table(self._given.types, partition.start, partition.end)
            yield Chunk(0, arrived=partition.arrived, data=to_arrow_stream(narrow(table)))
        if partition.last:
            yield Chunk(1, LAST)
