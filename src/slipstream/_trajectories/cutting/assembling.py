"""Sorted Arrow batches of positions become rows of trips and rejects; the state between batches is small.

A batch has what ``mapping.read_positions`` returns, sorted by id, time and place, with all positions of a mover in one
partition. Rows whose ``reason`` is set were found unusable before and become rejects as they are. Memory is bounded by
the longest time without a silence, which has to fit into a row of the result anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slipstream._archive.ended_trips import moving_points
from slipstream._moving import types
from slipstream._moving.space.systems import System
from slipstream._tools.numba_tools import Bools, Floats, Ints, Longs
from slipstream._trajectories.cutting.judging import find_last_break, judge
from slipstream._trajectories.cutting.travelling_values import kind_of, put_over_time
from slipstream._trajectories.cutting.trip_rules import OUTSIDE, REASONS, VERTEX, TripRules

#: columns of the result beside ``id`` and those to keep: of trips, then of rejects
NUMBER, TRIP, REASON, TIME, X, Y, GIVEN = "number", "Trip", "reason", "time", "x", "y", "given"
#: positions that are judged at once; fewer would make the calls expensive, more would take memory
_ENOUGH = 1 << 16

_REASON_TEXTS = np.array(REASONS, dtype=object)


class _SortedPositions(NamedTuple):
    """Positions of some movers, sorted."""

    rows: pa.Table  # id, the source's coordinates, and columns to keep
    fresh: Bools
    t: Longs
    x: Floats
    y: Floats

    def cut(self, first: int, end: int) -> _SortedPositions:
        columns: list[Any] = [column[first:end] for column in self[1:]]
        return _SortedPositions(self.rows.slice(first, end - first), *columns)


@dataclass
class Assembler:
    """Makes trips of one partition: ``take`` its batches in order, then ``finish``."""

    rules: TripRules
    source: str  # the system of the positions
    target: System  # that of the trips
    keep: tuple[str, ...] = ()
    values: tuple[str, ...] = ()  # columns that become values over time
    _waiting: list[_SortedPositions] = field(default_factory=list)
    _count: int = 0  # of the positions that wait
    _enough: int = _ENOUGH
    _id: Any = None  # of the last position
    _number: int = 0  # of the last trip of the first waiting mover

    def take(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Add positions; return the trips that are over, and rejects."""
        faulty = pc.is_valid(batch[REASON])
        if pc.any(faulty).as_py():
            bad = pa.Table.from_batches([batch.filter(faulty)])
            yield self._reject(bad, bad[REASON])
            batch = batch.filter(pc.invert(faulty))
        if not batch.num_rows:
            return
        found = self._read(batch)
        outside = np.isnan(found.x)
        if outside.any():
            lost = found.rows.filter(pa.array(outside))
            yield self._reject(lost, pa.array([OUTSIDE] * lost.num_rows, pa.string()))
        self._wait(found, ~outside)
        if self._count >= self._enough:
            yield from self._divide(last=False)

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Return the trips that are left."""
        if self._waiting:
            yield from self._divide(last=True)

    def _read(self, batch: pa.RecordBatch) -> _SortedPositions:
        rows = pa.Table.from_batches([batch])
        x, y = self.target.project(batch[X].to_numpy(), batch[Y].to_numpy(), source=self.source)
        t = batch[TIME].cast(types.INSTANT).view(pa.int64()).to_numpy()
        return _SortedPositions(rows, np.zeros(batch.num_rows, np.bool_), t, x, y)

    def _wait(self, found: _SortedPositions, good: Bools) -> None:
        if not good.all():
            columns: list[Any] = [column[good] for column in found[1:]]
            found = _SortedPositions(found.rows.filter(pa.array(good)), *columns)
        if not len(found.t):
            return
        found = found._replace(fresh=self._mark_fresh(found.rows["id"]))
        self._waiting.append(found)
        self._count += len(found.t)

    def _mark_fresh(self, column: pa.ChunkedArray) -> Bools:
        """Return which rows have another id than the row before; remembers the last id."""
        ids = column.combine_chunks()
        fresh = np.empty(len(ids), np.bool_)
        fresh[0] = ids[0] != self._id
        fresh[1:] = pc.not_equal(ids[1:], ids[:-1]).to_numpy(zero_copy_only=False)
        self._id = ids[-1]
        return fresh

    def _divide(self, *, last: bool) -> Iterator[pa.RecordBatch]:
        """Judge what waits up to the last break, all of it after the ``last`` batch; the rest keeps waiting."""
        whole = _join(self._waiting)
        end = len(whole.t) if last else find_last_break(whole.fresh, whole.t, self.rules.gap)
        if end:
            yield from self._judge(whole.cut(0, end))
        rest = whole.cut(end, len(whole.t))
        self._waiting, self._count = [rest], len(rest.t)
        self._enough = max(_ENOUGH, 2 * self._count)

    def _judge(self, some: _SortedPositions) -> Iterator[pa.RecordBatch]:
        verdict, begins = np.zeros(len(some.t), np.uint8), np.zeros(len(some.t), np.bool_)
        judge(some.fresh, some.t, some.x, some.y, self.rules.gap, self.rules.max_speed, verdict, begins)
        good = verdict == VERTEX
        if good.any():
            yield self._trips(some, good, begins)
        else:
            self._count_trips(some.fresh, begins)
        if not good.all():
            lost = some.rows.filter(pa.array(~good))
            yield self._reject(lost, pa.array(_REASON_TEXTS[verdict[~good]], pa.string()))

    def _count_trips(self, fresh: Bools, begins: Bools) -> Ints:
        """Return the number of each trip within its mover, from 1; remembers the last."""
        total: Longs = np.cumsum(begins, dtype=np.int64)
        before: Longs = np.maximum.accumulate(np.where(fresh, total - begins, -self._number), dtype=np.int64)
        numbers: Ints = (total - before)[begins].astype(np.int32)
        self._number = int(total[-1] - before[-1])
        return numbers

    def _trips(self, some: _SortedPositions, good: Bools, begins: Bools) -> pa.RecordBatch:
        numbers = self._count_trips(some.fresh, begins)
        sizes = np.diff(np.flatnonzero(np.append(begins[good], True)))
        trips = moving_points(sizes, some.t[good], some.x[good], some.y[good])
        heads = some.rows.filter(pa.array(begins))
        columns = {"id": heads["id"], NUMBER: pa.array(numbers)}
        columns |= {name: heads[name] for name in self.keep} | {TRIP: trips}
        if self.values:
            kept = some.rows.select(self.values).filter(pa.array(good)).combine_chunks()
            columns |= {name: put_over_time(sizes, some.t[good], _flat(kept[name])) for name in self.values}
        return self._fill(heads, columns)

    def _reject(self, rows: pa.Table, reasons: Any) -> pa.RecordBatch:
        columns = {name: rows[name] for name in ("id", TIME, X, Y, GIVEN)}
        return self._fill(rows, {**columns, REASON: reasons})

    def _fill(self, like: pa.Table, columns: dict[str, Any]) -> pa.RecordBatch:
        """Return a batch of the result; columns that are not given are null."""
        schema = self.schema(like.schema)
        arrays = [_plain(columns.get(one.name), one.type, like.num_rows) for one in schema]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def schema(self, given: pa.Schema) -> pa.Schema:
        """Return the columns of the result for those of a batch."""
        kept = [(name, given.field(name).type) for name in ("id", *self.keep)]
        kept += [(name, kind_of(given.field(name).type).arrow) for name in self.values]
        return pa.schema(
            [
                kept[0],
                (NUMBER, pa.int32()),
                *kept[1:],
                (TRIP, types.MPOINT.arrow),
                (REASON, pa.string()),
                (TIME, types.INSTANT),
                (X, pa.float64()),
                (Y, pa.float64()),
                (GIVEN, pa.string()),
            ]
        )


def _join(parts: list[_SortedPositions]) -> _SortedPositions:
    if len(parts) == 1:
        return parts[0]
    arrays = (np.concatenate(column) for column in list(zip(*parts, strict=True))[1:])
    return _SortedPositions(pa.concat_tables([part.rows for part in parts]), *arrays)


def _flat(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.nulls(0, column.type)])


def _plain(column: Any, kind: pa.DataType, rows: int) -> pa.Array:
    if column is None:
        return pa.nulls(rows, kind)
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return array if array.type == kind else array.cast(kind)


def assemble(assembler: Assembler, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Make trips and rejects of a whole partition."""
    for batch in batches:
        yield from assembler.take(batch)
    yield from assembler.finish()
