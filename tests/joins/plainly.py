"""Joins without Spark and without an index: every object with every other, instant by instant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction as Fr
from itertools import pairwise, product

import numpy as np
import pyarrow as pa

from moving.oracle import position, samples
from slipstream._joins import trip_meetings
from slipstream._moving import MovingPoint
from slipstream._moving.columns import freeze, freeze_all
from slipstream._moving.kernels import nearness
from slipstream._moving.moving_point import to_arrow

#: one meeting: ids, begin, end, smallest distance
Meeting = tuple[object, object, int, int, float]


def table(objects: Mapping[object, list[MovingPoint]]) -> pa.RecordBatch:
    rows = [(name, trip) for name, trips in objects.items() for trip in trips]
    ids = pa.array([name for name, _ in rows], None if rows else pa.string())
    return pa.RecordBatch.from_arrays([ids, to_arrow([trip for _, trip in rows])], names=["id", "Trip"])


def sliced(batches: Iterable[pa.RecordBatch], keys: Iterable[str], size: int) -> Iterator[pa.RecordBatch]:
    """What a task gets after an exchange and a sort, in batches of ``size`` rows."""
    rows = list(batches)
    if not rows:
        return
    ordered = pa.Table.from_batches(rows)
    yield from ordered.sort_by([(key, "ascending") for key in keys]).combine_chunks().to_batches(size)


def compare(near: trip_meetings.Nearness, *sides: pa.RecordBatch, size: int = 7) -> list[pa.RecordBatch]:
    """What tasks find in their cells, before the times of a pair are joined."""
    pieces = [
        piece
        for second, rows in enumerate(sides)
        for piece in trip_meetings._to_pieces(iter([rows]), near.grid, bool(second))
    ]
    cells = sliced(pieces, (*trip_meetings.CELL, "t0"), size)
    return list(trip_meetings._to_approaches(cells, near, len(sides) == 2))


def through_the_grid(near: trip_meetings.Nearness, *sides: pa.RecordBatch, size: int = 7) -> pa.Table:
    """The stages of the plan, in one process."""
    pairs = sliced(compare(near, *sides, size=size), (*trip_meetings.PAIR, "begin"), size)
    batches = list(trip_meetings._to_meetings(pairs, near.duration))
    return (
        pa.Table.from_batches(batches) if batches else pa.table({name: [] for name in (*trip_meetings.PAIR, "begin")})
    )


def as_meetings(rows: pa.Table) -> list[Meeting]:
    if not rows.num_rows:
        return []
    times = [rows[name].cast(pa.int64()).to_pylist() for name in ("begin", "end")]
    return sorted(
        zip(rows["id"].to_pylist(), rows["other_id"].to_pylist(), *times, rows["nearest"].to_pylist(), strict=True)
    )


def brute_force(near: trip_meetings.Nearness, pairs: Iterable[tuple[object, list, object, list]]) -> list[Meeting]:
    """The exact kernels on whole trips, all with all."""
    out: list[Meeting] = []
    for one, trips, other, others in pairs:
        times = sorted(time for a, b in product(trips, others) for time in _near_times(a, b, near.distance))
        joined: list[list] = []
        for begin, end, least in times:
            if joined and begin <= joined[-1][1]:
                joined[-1][1:] = [max(joined[-1][1], end), min(joined[-1][2], least)]
            else:
                joined.append([begin, end, least])
        out += [(one, other, b, e, least) for b, e, least in joined if e - b >= near.duration]
    return sorted(out)


def _near_times(a: MovingPoint, b: MovingPoint, limit: float) -> Iterator[tuple[int, int, float]]:
    columns = [freeze_all(trip_meetings.read(to_arrow([m]))) for m in (a, b)]
    apart = freeze_all(nearness.relative(*columns))
    found = nearness.at_most(freeze_all(nearness.norms(apart)), freeze(np.array([limit])))
    for begin, end, true in zip(found.begin.tolist(), found.end.tolist(), found.value.tolist(), strict=True):
        if true:
            yield begin, end, _least(apart, begin, end)


def _least(apart, begin: int, end: int) -> float:
    """The smallest distance by golden section on each unit: the square of a distance is convex there."""
    best = np.inf
    bounds = [*apart.starts.tolist(), len(apart.t)]
    for first, last in pairwise(bounds):
        for i in range(first, max(last - 1, first + 1)):
            j = min(i + 1, last - 1)
            low, high = max(begin, int(apart.t[i])), min(end, int(apart.t[j]))
            if low > high:
                continue
            span = max(1, int(apart.t[j] - apart.t[i]))

            def squared(t: float, i=i, j=j, span=span) -> float:
                s = (t - apart.t[i]) / span
                return sum((v[i] + s * (v[j] - v[i])) ** 2 for v in (apart.x, apart.y))

            a, b = float(low), float(high)
            for _ in range(200):
                left, right = a + (b - a) / 3, b - (b - a) / 3
                a, b = (a, right) if squared(left) <= squared(right) else (left, b)
            best = min(best, squared(a), squared(low), squared(high))
    return float(np.sqrt(best))


def distances(a: MovingPoint, b: MovingPoint) -> Iterator[tuple[Fr, Fr]]:
    """Exact squares of the distance at the instants of both, and between these."""
    for t in samples(a, b):
        p, q = position(a, t), position(b, t)
        if p is not None and q is not None:
            yield t, (p[0] - q[0]) ** 2 + (p[1] - q[1]) ** 2
