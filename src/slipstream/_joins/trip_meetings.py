"""Who was near whom, and when: two exchanges, by cell and by pair.

1. Each task cuts its trips into pieces and gives every piece to the cells that it touches.
2. A task that has whole cells finds the candidates among their pieces, and decides exactly when they are near.
3. A task that has all times of a pair joins those that touch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slipstream._joins.approaches import approaches, during
from slipstream._joins.candidates import candidates
from slipstream._joins.grid import BoundingBoxes, Grid
from slipstream._joins.grouping import offsets, whole_groups
from slipstream._joins.pieces import cut
from slipstream._moving import types
from slipstream._moving.columns import Periods, freeze, freeze_all, read, read_unchecked, write
from slipstream._tools.numba_tools import Ints, Longs, compiled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: the width of a cell is this many times the distance, but at least ``NARROWEST`` metres
CELLS = 4.0
NARROWEST = 200.0
#: the time that a cell spans: six hours, in microseconds
SPAN = 21_600_000_000
#: wider than any rounding of coordinates on this planet, in metres
SLACK = 1e-6
#: pairs that kernels compare at once
BLOCK = 8192

CELL, PAIR = ("cx", "cy", "ct"), ("id", "other_id")
_BOX = "x0 double, y0 double, x1 double, y1 double, t0 long, t1 long"
_PIECE = f"second boolean, cx long, cy long, ct long, lowest byte, replaced boolean, {_BOX}, Part {types.MPOINT.sql}"
_MEETING = "begin timestamp, end timestamp, nearest double, nearest_at timestamp"
_NEAR = f"times {types.PERIODS.sql}, nearest double, nearest_at timestamp"


@dataclass(frozen=True)
class Nearness:
    """At most ``distance`` metres apart, for at least ``duration`` microseconds without a break."""

    distance: float
    duration: int = 0

    @property
    def grid(self) -> Grid:
        """The grid in whose cells objects that are near each other meet."""
        return Grid(max(CELLS * self.distance, NARROWEST), SPAN, self.distance / 2 + SLACK)


def meetings(first: DataFrame, second: DataFrame | None, near: Nearness) -> DataFrame:
    """Return the meetings of objects in two tables of ``id`` and ``Trip``; without a second, those within the first."""
    kind = first.schema["id"].dataType.simpleString()
    pieces = _pieces(first, near, False)
    if second is not None:
        pieces = pieces.unionAll(_pieces(second, near, True))
    cells = pieces.repartition(*CELL).sortWithinPartitions(*CELL, "t0")
    found = cells.mapInArrow(
        partial(_to_approaches, near=near, both=second is not None), f"id {kind}, other_id {kind}, {_MEETING}"
    )
    pairs = found.repartition(*PAIR).sortWithinPartitions(*PAIR, "begin")
    return pairs.mapInArrow(partial(_to_meetings, duration=near.duration), pairs.schema)


def gather(met: DataFrame) -> DataFrame:
    """Return one row per pair from its meetings, as ``meetings`` returns them: a pair's rows are together."""
    kind = met.schema["id"].dataType.simpleString()
    return met.mapInArrow(_to_pairs, f"id {kind}, other_id {kind}, {_NEAR}")


def _pieces(trips: DataFrame, near: Nearness, second: bool) -> DataFrame:
    known = trips.select("id", "Trip").where("id IS NOT NULL AND Trip IS NOT NULL")
    kind = trips.schema["id"].dataType.simpleString()
    return known.mapInArrow(partial(_to_pieces, grid=near.grid, second=second), f"id {kind}, {_PIECE}")


def _to_pieces(batches: Iterator[pa.RecordBatch], grid: Grid, second: bool) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        pieces = cut(read(batch.column("Trip")), grid.width / 2, grid.span)
        rows, cells, lowest = grid.cover(pieces.boxes)
        parts = write(pieces.parts, types.MPOINT).take(pa.array(pieces.of[rows]))
        columns = {
            "id": batch.column("id").take(pa.array(pieces.owner[rows])),
            "second": pa.array(np.full(len(rows), second)),
            **dict(zip(CELL, map(pa.array, cells.T.copy()), strict=True)),
            "lowest": pa.array(lowest.view(np.int8)),
            "replaced": pa.array(pieces.replaced[rows]),
            **{name: pa.array(values[rows]) for name, values in pieces.boxes._asdict().items()},
            "Part": parts,
        }
        yield pa.RecordBatch.from_pydict(columns)


def _to_approaches(batches: Iterator[pa.RecordBatch], near: Nearness, both: bool) -> Iterator[pa.RecordBatch]:
    for batch in whole_groups(batches, CELL):
        box = BoundingBoxes(*(_numbers(batch, name) for name in BoundingBoxes._fields))
        first, other = candidates(
            offsets(batch, CELL),
            _ranks(batch.column("id")),
            _numbers(batch, "second"),
            both,
            _numbers(batch, "lowest").view(np.uint8),
            _numbers(batch, "replaced"),
            box,
            near.distance + SLACK,
        )
        for start in range(0, len(first), BLOCK):
            yield _compare(batch, box, first[start : start + BLOCK], other[start : start + BLOCK], near.distance)


def _numbers(batch: pa.RecordBatch, name: str) -> Any:
    return freeze(batch.column(name).to_numpy(zero_copy_only=False))


def _ranks(ids: pa.Array) -> Longs:
    """Return numbers in the order of ids."""
    coded = ids.dictionary_encode()
    rank = np.empty(len(coded.dictionary), np.int64)
    rank[pc.array_sort_indices(coded.dictionary).to_numpy()] = np.arange(len(rank))
    return freeze(rank[coded.indices.to_numpy()])


def _compare(batch: pa.RecordBatch, box: BoundingBoxes, first: Ints, other: Ints, limit: float) -> pa.RecordBatch:
    parts = read_unchecked(batch.column("Part"))
    begin, end = np.maximum(box.t0[first], box.t0[other]), np.minimum(box.t1[first], box.t1[other])
    pair, *times, nearest, at = approaches(
        freeze_all(during(parts, first, begin, end)), freeze_all(during(parts, other, begin, end)), begin, end, limit
    )
    ids = batch.column("id")
    columns = [ids.take(pa.array(first[pair])), ids.take(pa.array(other[pair])), *map(_instants, times)]
    return pa.RecordBatch.from_arrays(
        [*columns, pa.array(nearest), _instants(at)],
        names=[*PAIR, "begin", "end", "nearest", "nearest_at"],
    )


def _instants(micros: Longs) -> pa.Array:
    return write(micros, types.INSTANT_TYPE)


def _to_meetings(batches: Iterator[pa.RecordBatch], duration: int) -> Iterator[pa.RecordBatch]:
    for batch in whole_groups(batches, PAIR):
        begin, end = (read(batch.column(name)) for name in ("begin", "end"))
        starts, ends = join_touching(offsets(batch, PAIR), begin, end, 0)
        best = _least_rows(_numbers(batch, "nearest"), starts)
        kept = ends - begin[starts[:-1]] >= duration
        whole, best = batch.take(pa.array(starts[:-1][kept])), pa.array(best[kept])
        columns = [whole.column(name) for name in (*PAIR, "begin")]
        nearest = [batch.column(name).take(best) for name in ("nearest", "nearest_at")]
        yield pa.RecordBatch.from_arrays([*columns, _instants(ends[kept]), *nearest], schema=batch.schema)


def _least_rows(values: np.ndarray[Any, Any], groups: Longs) -> Longs:
    """Return the row with the smallest value of each group, the first such row."""
    order = np.lexsort((values, np.repeat(np.arange(len(groups) - 1), np.diff(groups))))
    found: Longs = order[groups[:-1]]
    return found


@compiled
def join_touching(groups: Longs, begin: Longs, end: Longs, slack: int) -> tuple[Longs, Longs]:
    """Return where each joined time begins (as offsets of rows), and when it ends.

    Rows are in order of their begin within a group. Times that are at most ``slack`` microseconds apart are joined.
    """
    starts, ends, count = np.empty(len(begin) + 1, np.int64), np.empty(len(begin), np.int64), 0
    for g in range(len(groups) - 1):
        for i in range(groups[g], groups[g + 1]):
            if i > groups[g] and begin[i] <= ends[count - 1] + slack:
                ends[count - 1] = max(ends[count - 1], end[i])
            else:
                starts[count], ends[count] = i, end[i]
                count += 1
    starts[count] = len(begin)
    return starts[: count + 1], ends[:count]


def _to_pairs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in whole_groups(batches, PAIR):
        groups = offsets(batch, PAIR)
        begin, end = (read(batch.column(name)) for name in ("begin", "end"))
        best = batch.take(pa.array(_least_rows(_numbers(batch, "nearest"), groups)))
        times = write(Periods(groups.astype(np.int32), begin, end), types.PERIODS)
        yield pa.RecordBatch.from_arrays(
            [*best.select(PAIR).columns, times, best.column("nearest"), best.column("nearest_at")],
            names=[*PAIR, "times", "nearest", "nearest_at"],
        )
