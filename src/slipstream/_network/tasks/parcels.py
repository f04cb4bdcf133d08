"""Tuples between stages: a Spark row has all parcels that one task sends to one partition.

A row that originates from a feed also has the number of tuples of the feed's own row, whether or not they are in it:
every partition gets something of all rows of a batch, so that all number its tuples alike.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from slipstream._io.chunks import narrow, read_arrow_stream, to_arrow_stream
from slipstream._network.boxes.windows.window_functions import ARROW_TYPES, nulls
from slipstream._network.flow import LIST, Array, Train
from slipstream._network.planning.stages import Home
from slipstream._network.state.groups import hashes
from slipstream._network.tasks.superbox import SPARK, TrainParcel
from slipstream._tools.numba_tools import Longs

#: the kind of a row, in addition to those of a source (``_io.chunks``): parcels, a report of a written file, an
#: output's tuples, one tuple for Spark's projection
PARCELS, REPORT, DELIVERED, TUPLE_ROW = range(100, 104)
#: the Spark columns of a row
COLUMNS = "key int, source int, seq long, what int, arrived long, chunk binary"
ARROW = pa.schema(
    [
        ("key", pa.int32()),
        ("source", pa.int32()),
        ("seq", pa.int64()),
        ("what", pa.int32()),
        ("arrived", pa.int64()),
        ("chunk", pa.binary()),
    ]
)
_TS, _SHED, _ORDER, _COLUMN = "ts", "shed", "q", "column "


class Row(NamedTuple):
    """One row between stages."""

    key: int
    source: int
    seq: int
    what: int
    arrived: int
    chunk: bytes


@dataclass(frozen=True)
class Load:
    """The contents of a row of parcels, and facts about the row of a feed that it originates from."""

    parcels: list[TrainParcel]
    count: int = 0  # the tuples of that row
    is_numbered: bool = True  # whether tuples have their arrival numbers already
    dropped: dict[str, int] = field(default_factory=dict)  # how many of them to drop at each place

    def with_parcels(self, parcels: list[TrainParcel], dropped: Mapping[str, int] | None = None) -> Load:
        """Other parcels from the same row; only one of them reports what is dropped."""
        return Load(parcels, self.count, self.is_numbered, dict(dropped or {}))

    def to_bytes(self) -> bytes:
        """Convert to bytes."""
        streams = [_stream(parcel.train) for parcel in self.parcels]
        parts = [(p.stage, p.address, len(s)) for p, s in zip(self.parcels, streams, strict=True)]
        head = json.dumps([parts, self.count, self.is_numbered, self.dropped]).encode()
        return b"".join([len(head).to_bytes(4, "little"), head, *streams])

    @classmethod
    def from_bytes(cls, data: bytes, keys: int) -> Load:
        """Convert from bytes; ``keys`` is the width of an order key."""
        begin = 4 + int.from_bytes(data[:4], "little")
        parts, *said = json.loads(data[4:begin])
        parcels = []
        for stage, address, length in parts:
            parcels.append(TrainParcel(stage, address, _train(data[begin : begin + length], keys)))
            begin += length
        return cls(parcels, *said)


def _stream(train: Train) -> bytes:
    """Convert a train to an Arrow stream, without order keys and marks that are all zero."""
    columns: dict[str, Any] = {_TS: train.ts}
    if train.shed.any():
        columns[_SHED] = train.shed
    for place in np.flatnonzero(train.order.any(axis=0)):
        columns[f"{_ORDER}{place}"] = np.ascontiguousarray(train.order[:, place])
    columns |= {f"{_COLUMN}{name}": _arrow(values) for name, values in train.columns.items()}
    return to_arrow_stream(narrow(pa.table(columns)))


def _arrow(values: Array) -> Any:
    if values.dtype == object and values.size and isinstance(values[0], np.ndarray):
        return pa.array(list(values), ARROW_TYPES[LIST])
    return pa.array(values, pa.large_string(), mask=nulls(values)) if values.dtype == object else values


def _train(data: bytes, keys: int) -> Train:
    table = read_arrow_stream(data)
    columns = {name: _numpy(table[name]) for name in table.column_names}
    ts = columns[_TS]
    order = np.zeros((ts.size, keys), np.int64)
    for place in range(keys):
        if f"{_ORDER}{place}" in columns:
            order[:, place] = columns[f"{_ORDER}{place}"]
    shed = columns.get(_SHED, np.zeros(ts.size, np.int64))
    own = {name[len(_COLUMN) :]: values for name, values in columns.items() if name.startswith(_COLUMN)}
    return Train(ts, shed, order, own)


def _numpy(column: pa.ChunkedArray) -> Array:
    if pa.types.is_large_string(column.type):
        return np.asarray(column.to_pandas().to_numpy(dtype=object))
    if pa.types.is_list(column.type):
        return np.fromiter((np.asarray(value) for value in column.to_pylist()), object, len(column))
    return np.asarray(column.to_numpy())


@dataclass(frozen=True)
class Sorter:
    """Sorts parcels by the partitions of the next stage, the number of which is ``stage``.

    What all partitions of a later stage take is sent to all of them only from the stage before it: otherwise every
    partition on the way would pass its copy on to all.
    """

    homes: Mapping[int, Home]
    parallel: int
    stage: int

    def sort(self, parcels: Iterable[TrainParcel], here: int = 0) -> list[list[TrainParcel]]:
        """The parcels for each partition; those that can go anywhere stay in the partition ``here``."""
        found: list[list[TrainParcel]] = [[] for _ in range(self.parallel)]
        for parcel in parcels:
            for part, train in self._parts(parcel, here):
                found[part].append(parcel._replace(train=train))
        return found

    def _parts(self, parcel: TrainParcel, here: int) -> Iterator[tuple[int, Train]]:
        home = self.homes.get(parcel.address) if parcel.stage != SPARK else None
        if home is None or home.anywhere or (home.everywhere and parcel.stage > self.stage):
            yield here, parcel.train
        elif home.everywhere:
            yield from ((part, parcel.train) for part in range(self.parallel))
        elif not home.keys or self.parallel == 1:
            yield 0, parcel.train
        else:
            columns = [parcel.train.columns[name] for name in home.keys]
            part = (
                np.searchsorted(home.bounds, columns[0], side="right") % self.parallel
                if home.bounds
                else assign_partitions(columns, len(parcel.train), self.parallel)
            )
            for number in range(self.parallel):
                mine = np.flatnonzero(part == number)
                if mine.size:
                    yield number, parcel.train.take(mine)


def assign_partitions(keys: Sequence[Array], count: int, parallel: int) -> Longs:
    """The partition of each tuple: equal keys have the same, whether integers or floats.

    >>> ones = [assign_partitions([np.array([7, 7], dtype)], 2, 4) for dtype in (np.int64, np.float64)]
    >>> np.unique(ones).size
    1
    """
    alike = [values if values.dtype == object else values.astype(np.float64) for values in keys]
    return np.asarray(hashes(alike, count).view(np.uint64) % np.uint64(parallel), np.int64)


def record_batch(rows: Iterable[Row]) -> pa.RecordBatch:
    """Convert rows to the output of a Spark task."""
    columns = list(zip(*rows, strict=True)) or [()] * len(Row._fields)
    return pa.record_batch([pa.array(values, kind.type) for values, kind in zip(columns, ARROW, strict=True)], ARROW)


def to_frame(rows: Iterable[Row]) -> pd.DataFrame:
    """Convert rows to the output of a stateful operator."""
    return pd.DataFrame(list(rows), columns=list(Row._fields))


def read_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """The rows of a task."""
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in Row._fields)
        yield from map(Row, *columns)
