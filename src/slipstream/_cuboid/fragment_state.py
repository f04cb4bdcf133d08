"""The state of a cuboid's fragment in a stream: appends a batch, gives it to continuous queries, saves, publishes.

The order is the thesis': append transactions first, then the queries, then the batch is made durable; it becomes
visible with the commit. The time of each step is recorded, for the figures of real-time consistency.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slipstream._cuboid.fragment import Fragment
from slipstream._cuboid.log import DeltaLog
from slipstream._cuboid.query.relations import ArrivedTuples, append_rows
from slipstream._cuboid.query.sql import Part, Query
from slipstream._cuboid.schema import Schema
from slipstream._cuboid.snapshots import publish
from slipstream._runtime.state.store import Store
from slipstream._tools.numba_tools import Longs

QUERY = "query "


@dataclass
class FragmentState:
    """One fragment, its log, and the tuples of its last batch."""

    schema: Schema
    log: DeltaLog = field(default_factory=DeltaLog)
    seconds: dict[str, float] = field(default_factory=dict)
    tuples: int = 0
    arrivals: ArrivedTuples | None = None  # of the last batch, for queries

    def __post_init__(self) -> None:
        self.fragment = Fragment(self.schema)

    @classmethod
    def load(cls, schema: Schema, store: Store) -> FragmentState:
        """The fragment as it was saved."""
        keeper = cls(schema)
        keeper.log.load(keeper.fragment, store)
        return keeper

    def number(self, texts: pa.StringArray) -> Longs:
        """The numbers of keys that are texts; new ones get the next."""
        assert self.fragment.names is not None
        return self.fragment.names.number(texts)

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Record how long the block takes."""
        start = time.perf_counter()
        yield
        self.seconds[what] = self.seconds.get(what, 0.0) + time.perf_counter() - start

    def append(self, keys: Longs, columns: dict[str, npt.NDArray[Any]], *, show: bool) -> None:
        """Append the tuples of a batch, in order; with ``show``, keep them as arrivals with the state of their keys."""
        self.seconds, self.tuples, self.arrivals = {}, keys.size, None
        if keys.size:
            with self.timed("append"):
                self.arrivals = append_rows(self.fragment, keys, columns, show=show)

    def save(self, number: int, store: Store) -> None:
        """Write what changed, for a cuboid whose keys never expire; ``number`` grows from batch to batch."""
        with self.timed("save"):
            self.log.settle(self.fragment, number, store)

    def publish(self, snapshot: Path, name: str, number: int, batch: int) -> None:
        """Write the snapshot's part of this batch: the state, and what it cost."""
        with self.timed("publish"):
            publish.publish(snapshot, name, number, batch, self.fragment)
        line = {"batch": batch, "cuboid": name, "tuples": self.tuples, "at": time.time()}
        publish.append_metrics(snapshot, number, line | {"seconds": {k: round(v, 6) for k, v in self.seconds.items()}})
        self.tuples, self.seconds = 0, {}  # the next batch may have nothing for this fragment


def as_table(found: Part) -> pa.Table:
    """The rows of a result as Arrow columns; streams as lists, the latest first."""
    return pa.table([_to_arrow(column) for column in found.values()], names=list(found))


def _to_arrow(column: npt.NDArray[Any]) -> pa.Array:
    if column.ndim > 1:
        # of streams without rows, Arrow could not tell the type from the values
        return pa.array(column.tolist(), pa.list_(pa.from_numpy_dtype(column.dtype)))
    return pa.array(column, pa.string() if column.dtype == object else None)


def make_empty_rows(query: Query) -> pa.Table:
    """The columns of a continuous query's result, without rows."""
    empty = FragmentState(query.schema)
    blank = {name: np.zeros(1, query.schema.dtype[name].base) for name in query.schema.names}
    keys = empty.number(pa.array([""])) if query.schema.text_key else np.zeros(1, np.int64)
    empty.append(keys, blank, show=True)
    assert empty.arrivals is not None
    return as_table(query.compute(empty.arrivals)).slice(0, 0)
