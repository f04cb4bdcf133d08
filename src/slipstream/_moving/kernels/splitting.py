"""Split and join moving points: by time, by the tiles of a grid, by a value, at gaps, into sequences."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slipstream._moving import timeline
from slipstream._moving.columns import Listed, MPoints, Periods, Temporals, freeze, freeze_all, gather, take_rows
from slipstream._moving.kernels.motion import concatenate, definition_times, positions_at, restrict
from slipstream._moving.timeline import Sequences, lasts, lay_out, offsets, sequences
from slipstream._moving.types import REACH
from slipstream._tools.numba_tools import Bools, Floats, Ints, Longs


def each_period(m: MPoints, periods: Periods) -> tuple[Longs, Listed]:
    """Return for every interval of a row its points during it, without empty ones, and the index of that interval."""
    n = len(m.rows) - 1
    row = np.repeat(np.arange(n), np.diff(periods.rows))
    single = np.arange(len(row) + 1, dtype=np.int32)
    inner = slice(periods.rows[0], periods.rows[-1])
    pieces = restrict(freeze_all(take_rows(m, row)), Periods(single, periods.begin[inner], periods.end[inner]))
    filled = np.flatnonzero(np.diff(pieces.rows) > 0)
    return filled, Listed(offsets(row[filled], 1, n), take_rows(pieces, filled))


def by_time(m: MPoints, every: Longs) -> Listed:
    """Return the points in each span of ``every`` microseconds since 1970 in which they are defined."""
    n = len(m.rows) - 1
    filled = np.flatnonzero(np.diff(m.rows) > 0)
    step = every[filled]
    first, last = m.t[m.rows[filled]] // step, m.t[m.rows[filled + 1] - 1] // step
    size = last - first + 1
    row, span = np.repeat(filled, size), np.repeat(step, size)
    nth = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size) + np.repeat(first, size)
    return each_period(m, Periods(offsets(row, 1, n), nth * span, (nth + 1) * span - 1))[1]


def by_sequence(m: MPoints, found: Sequences | None = None) -> Listed:
    """Return each sequence as a moving point, or other runs of vertices."""
    of = found or sequences(m)
    size = of.last - of.first + 1
    rows, places = gather(of.first, size)
    n = len(of.row)
    made = MPoints(rows, m.t[places], m.x[places], m.y[places], np.arange(n + 1, dtype=np.int32), np.zeros(n, np.int32))
    return Listed(offsets(of.row, 1, len(m.rows) - 1), made)


def at_gaps(m: MPoints, longest: Longs) -> Listed:
    """Return the movements between silences: units longer than this many microseconds belong to none.

    Sequences between which no more time passes stay together.
    """
    row, i = timeline.units(m)
    silent = np.flatnonzero(m.t[i + 1] - m.t[i] > longest[row])
    ends = np.zeros(m.rows[-1] - m.rows[0], np.bool_)
    ends[i[silent] - m.rows[0]] = True  # the last vertex before a silence
    return _groups(m, ends, longest)


def _groups(m: MPoints, ends: Bools, longest: Longs) -> Listed:
    n, found = len(m.rows) - 1, timeline.vertices(m)
    last = np.flatnonzero(ends | found.is_last)
    first = np.concatenate(([0], last[:-1] + 1)) if len(last) else last
    row, at, to = found.row[first], found.vertex[first], found.vertex[last]
    size = to - at + 1
    pause = m.t[at[1:]] - m.t[to[:-1]] > longest[row[1:]]
    fresh = np.append(True, (row[1:] != row[:-1]) | pause)[: len(row)]
    group = np.cumsum(fresh) - 1
    line = lay_out(int(fresh.sum()), group, size, m.t[m.rows[0] : m.rows[-1]])
    inner = slice(m.rows[0], m.rows[-1])
    made = MPoints(line.rows, line.t, m.x[inner], m.y[inner], line.parts, line.starts)
    return Listed(offsets(row[fresh], 1, n), made)


def runs(moving: Temporals) -> tuple[Longs, Periods, Longs]:
    """Return when a step function has each of its values without a change: the row, the interval, and its vertex."""
    found = timeline.vertices(moving)
    index, counts = found.vertex, found.counts
    value = moving.value[index] if isinstance(moving.value, np.ndarray) else np.asarray(moving.value.take(index))
    same = (found.row[1:] == found.row[:-1]) & ~found.is_last[:-1] & (value[1:] == value[:-1])
    fresh = np.append(True, ~same)[: len(index)]
    first = np.flatnonzero(fresh)
    last = lasts(first, len(index))
    end = moving.t[index[last]].copy()
    held = ~found.is_last[last]
    end[held] = moving.t[index[last[held]] + 1] - 1
    kept = counts[first] | (last > first)
    row = found.row[first][kept]
    n = len(moving.rows) - 1
    return row, Periods(offsets(row, 1, n), moving.t[index[first]][kept], end[kept]), index[first][kept]


def tile_times(m: MPoints, metres: Floats) -> tuple[Longs, Longs, Longs, Longs, Longs]:
    """Return the visits to the tiles of a grid: the row, the tile's numbers, and from when until when.

    A tile of number i reaches from ``i * metres`` up to ``(i + 1) * metres``, without that. A visit is of one unit.
    """
    row, i = timeline.units(m)
    found = timeline.vertices(m)
    alone = found.is_last & np.append(True, found.is_last[:-1])[: len(found.is_last)] & found.counts
    u, v = np.append(i, found.vertex[alone]), np.append(i + 1, found.vertex[alone])
    row = np.append(row, found.row[alone])
    order = np.argsort(u, kind="stable")
    row, u, v = row[order], u[order], v[order]
    size = metres[row]
    cut = _grid_cuts(m.x[u], m.x[v], size), _grid_cuts(m.y[u], m.y[v], size)
    unit = np.concatenate([np.arange(len(u)), cut[0][0], cut[1][0]])
    s = np.concatenate([np.zeros(len(u)), cut[0][1], cut[1][1]])
    order = np.lexsort((s, unit))
    unit, s = unit[order], s[order]
    after = np.append(s[1:], 1.0)
    after[np.append(unit[1:] != unit[:-1], True)[: len(unit)]] = 1.0
    middle = 0.5 * (s + after)
    tile_x = np.floor(_along(m.x, u, v, unit, middle) / size[unit])
    tile_y = np.floor(_along(m.y, u, v, unit, middle) / size[unit])
    span = (m.t[v] - m.t[u])[unit]
    begin = m.t[u][unit] + np.ceil(s * span).astype(np.int64)
    end = m.t[u][unit] + np.ceil(after * span).astype(np.int64) - 1
    final = after == 1.0
    whole = np.append(found.is_last, False)[v - m.rows[0]]  # the sequence ends here: its last instant belongs to it
    end[final & whole[unit]] += 1
    kept = begin <= end
    numbers = tile_x[kept].astype(np.int64), tile_y[kept].astype(np.int64)
    return row[unit][kept], *numbers, begin[kept], end[kept]


class Visits(NamedTuple):
    """Stays in the tiles of a grid, in the order of time; row r has ``rows[r]:rows[r+1]``."""

    rows: Ints
    x: Longs
    y: Longs
    begin: Longs
    end: Longs


def visits(m: MPoints, metres: Floats) -> Visits:
    """Return the visits to the tiles of a grid, over units and sequences without time between them."""
    row, x, y, begin, end = tile_times(m, metres)
    same = (row[1:] == row[:-1]) & (x[1:] == x[:-1]) & (y[1:] == y[:-1]) & (begin[1:] <= end[:-1] + 1)
    fresh = np.flatnonzero(np.append(True, ~same)[: len(row)])
    last = lasts(fresh, len(row))
    return Visits(offsets(row[fresh], 1, len(m.rows) - 1), x[fresh], y[fresh], begin[fresh], end[last])


def _along(values: Floats, u: Longs, v: Longs, unit: Longs, s: Floats) -> Floats:
    return values[u][unit] + s * (values[v] - values[u])[unit]


def _grid_cuts(before: Floats, after: Floats, size: Floats) -> tuple[Longs, Floats]:
    """Return where units cross the lines of a grid: the unit, and the fraction of it."""
    low, high = np.minimum(before, after) / size, np.maximum(before, after) / size
    first, last = np.floor(low) + 1, np.ceil(high) - 1
    counts = np.maximum(0, last - first + 1).astype(np.int64)
    unit = np.repeat(np.arange(len(counts)), counts)
    nth = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    line = (first[unit] + nth) * size[unit]
    return unit, (line - before[unit]) / (after - before)[unit]


def merge(first: MPoints, second: MPoints) -> MPoints:
    """Return the first points where they are defined, else the second."""
    n = len(first.rows) - 1
    rest = by_sequence(freeze_all(restrict(second, timeline.complement(definition_times(first)))))
    row = np.repeat(np.arange(n), np.diff(rest.rows))
    pieces = rest.values
    for edge, step in ((pieces.rows[:-1], -1), (pieces.rows[1:] - 1, 1)):
        _join_edges(pieces, edge, step, take_rows(first, row), take_rows(second, row))
    order = np.argsort(np.concatenate((np.arange(n), row)), kind="stable")
    groups = np.searchsorted(np.concatenate((np.arange(n), row))[order], np.arange(n + 1)).astype(np.int32)
    return concatenate(freeze_all(take_rows(_stacked(_own(first), pieces), order)), freeze(groups))


def _join_edges(pieces: MPoints, edge: Longs, step: int, first: MPoints, second: MPoints) -> None:
    """Move the ends of pieces by one microsecond to where both points are at one place."""
    there = freeze(pieces.t[edge] + step)
    has, x, y = positions_at(freeze_all(first), there)
    had, u, v = positions_at(freeze_all(second), there)
    joined = has & had & (np.hypot(x - u, y - v) <= REACH)
    at = edge[joined]
    pieces.t[at], pieces.x[at], pieces.y[at] = there[joined], x[joined], y[joined]


def _own(m: MPoints) -> MPoints:
    return take_rows(m, np.arange(len(m.rows) - 1))


def _stacked(a: MPoints, b: MPoints) -> MPoints:
    """Return the rows of one column, and then those of another."""
    rows = np.concatenate((a.rows, b.rows[1:] + a.rows[-1])).astype(np.int32)
    parts = np.concatenate((a.parts, b.parts[1:] + a.parts[-1])).astype(np.int32)
    t, x, y, starts = (np.concatenate((getattr(a, name), getattr(b, name))) for name in ("t", "x", "y", "starts"))
    return MPoints(rows, t, x, y, parts, starts)
