"""When a value is defined: instants in sequences, apart from what is carried along.

Moving points and values over time share their clockwork: ``rows``, ``t``, ``parts`` and ``starts``. What is computed
here says at which instants the result has vertices, and from which vertex of the argument each follows (``source``). So
one implementation restricts and joins points, numbers, booleans and text. Instants are whole microseconds: what lasts
until an instant, but not at it, ends one microsecond before.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from slipstream._moving.columns import FIRST, LAST, MPoints, Periods, Temporals, freeze, freeze_all
from slipstream._moving.types import DISCRETE, LINEAR
from slipstream._tools.numba_tools import Bools, Bytes, Floats, Ints, Longs, compiled


class Timeline(NamedTuple):
    """Instants in sequences: row r has ``rows[r]:rows[r+1]`` and sequences ``parts[r]:parts[r+1]``."""

    rows: Ints
    t: Longs
    parts: Ints
    starts: Ints


class Cut(NamedTuple):
    """A new timeline, and the vertex that each of its instants follows from: at it, or the last before it."""

    line: Timeline
    source: Ints


class Common(NamedTuple):
    """The common timeline of two values, and the vertices of both that each instant follows from."""

    line: Timeline
    first: Ints
    second: Ints


Moving = MPoints | Temporals


def timeline(moving: Moving) -> Timeline:
    """Return when a value is defined."""
    return Timeline(moving.rows, moving.t, moving.parts, moving.starts)


def interpolations(moving: Moving) -> Bytes:
    """Return the interpolation of each row; points move linearly."""
    if isinstance(moving, Temporals):
        return moving.interpolation
    return freeze(np.full(len(moving.rows) - 1, LINEAR, np.uint8))


def lasts(first: Longs, end: int) -> Longs:
    """Return the last index of each group, from the first of each, and the end of all."""
    return np.append(first[1:], end)[: len(first)] - 1


class Sequences(NamedTuple):
    """The sequences of a column: the row, and the first and last vertex of each."""

    row: Longs
    first: Longs
    last: Longs


def sequences(line: Timeline | Moving) -> Sequences:
    """Return all sequences of a column.

    >>> line = Timeline(*(np.array(values) for values in ([0, 3, 4], [5, 6, 9, 1], [0, 2, 3], [0, 2, 0])))
    >>> [values.tolist() for values in sequences(line)]
    [[0, 0, 1], [0, 2, 3], [1, 2, 3]]
    """
    row = np.repeat(np.arange(len(line.rows) - 1), np.diff(line.parts))
    first = line.rows[row].astype(np.int64) + line.starts[line.parts[0] : line.parts[-1]]
    return Sequences(row, first, lasts(first, int(line.rows[-1])))


class Vertices(NamedTuple):
    """What NumPy needs to know of each vertex of a column, from the first row's to the last row's."""

    row: Longs
    vertex: Longs
    is_last: Bools  # of its sequence
    counts: Bools  # false for the last one of a sequence where the next begins at the same instant


def vertices(line: Timeline | Moving) -> Vertices:
    """Return the vertices of a column."""
    found = sequences(line)
    index = np.arange(line.rows[0], line.rows[-1], dtype=np.int64)
    is_last, counts = np.zeros(len(index), np.bool_), np.ones(len(index), np.bool_)
    at = found.last - line.rows[0]
    is_last[at] = True
    touching = (found.row[1:] == found.row[:-1]) & (line.t[found.first[1:]] == line.t[found.last[:-1]])
    counts[at[:-1][touching]] = False
    return Vertices(np.repeat(np.arange(len(line.rows) - 1), np.diff(line.rows)), index, is_last, counts)


def units(line: Timeline | Moving) -> tuple[Longs, Longs]:
    """Return the rows and the first vertices of all units: a unit leads from a vertex to the next of its sequence."""
    found = vertices(line)
    return found.row[~found.is_last], found.vertex[~found.is_last]


def offsets(row: Longs, size: Longs | int, n: int) -> Ints:
    """Return the offsets of ``n`` rows, to which parts of the given sizes belong."""
    sizes = np.broadcast_to(np.asarray(size, np.float64), row.shape)
    counted = np.bincount(row, weights=sizes, minlength=n)
    return np.concatenate(([0], np.cumsum(counted))).astype(np.int32)


def lay_out(n: int, row: Longs, size: Longs, t: Longs) -> Timeline:
    """Return the timeline of ``n`` rows from the row and the number of vertices of each sequence, and all instants."""
    rows = offsets(row, size, n)
    starts = np.cumsum(size) - size - rows[row]
    return Timeline(rows, t, offsets(row, 1, n), starts.astype(np.int32))


def row_sums(row: Longs, values: Floats, n: int) -> Floats:
    """Return the sum of the values of each row."""
    return np.asarray(np.bincount(row, weights=values, minlength=n), np.float64)


def first_least(row: Longs, values: Floats, n: int) -> tuple[Bools, Longs]:
    """Return, per row, whether it has a value, and the index of its least value, the first one of several."""
    least = np.full(n, np.inf)
    np.minimum.at(least, row, values)
    hits = np.flatnonzero(values == least[row])[::-1]
    index = np.zeros(n, np.int64)
    index[row[hits]] = hits
    return offsets(row, 1, n)[1:] > offsets(row, 1, n)[:-1], index


def merged(row: Longs, begin: Longs, end: Longs, n: int) -> Periods:
    """Return periods from sorted intervals; those without a microsecond between them become one."""
    if not len(row):
        return Periods(np.zeros(n + 1, np.int32), begin, end)
    fresh = np.append(True, (row[1:] != row[:-1]) | (begin[1:] > end[:-1] + 1))
    at = np.flatnonzero(fresh)
    return Periods(offsets(row[at], 1, n), begin[at], np.maximum.reduceat(end, at))


def complement(periods: Periods) -> Periods:
    """Return all other microseconds.

    >>> one = complement(Periods(np.array([0, 1], np.int32), np.array([5]), np.array([9])))
    >>> one.begin[1], one.end[0]
    (np.int64(10), np.int64(4))
    """
    n = len(periods.rows) - 1
    size = np.diff(periods.rows)
    rows = offsets(np.arange(n), size + 1, n)
    begin, end = np.full(rows[-1], FIRST), np.full(rows[-1], LAST)
    inner = slice(periods.rows[0], periods.rows[-1])
    place = np.arange(inner.stop - inner.start) + np.repeat(np.arange(n), size)
    end[place], begin[place + 1] = periods.begin[inner] - 1, periods.end[inner] + 1
    filled = begin <= end
    row = np.repeat(np.arange(n), size + 1)[filled]
    return Periods(offsets(row, 1, n), begin[filled], end[filled])


@compiled
def _common(a: Periods, b: Periods) -> Periods:
    n = len(a.rows) - 1
    room = len(a.begin) + len(b.begin)
    rows, begin, end = np.zeros(n + 1, np.int32), np.empty(room, np.int64), np.empty(room, np.int64)
    at = 0
    for row in range(n):
        i, j = a.rows[row], b.rows[row]
        while i < a.rows[row + 1] and j < b.rows[row + 1]:
            first, last = max(a.begin[i], b.begin[j]), min(a.end[i], b.end[j])
            if first <= last and (at == rows[row] or first > end[at - 1]):
                begin[at], end[at] = first, last
                at += 1
            elif first <= last:
                end[at - 1] = max(end[at - 1], last)
            if a.end[i] < b.end[j]:
                i += 1
            else:
                j += 1
        rows[row + 1] = at
    return Periods(rows, begin[:at], end[:at])


def common(a: Periods, b: Periods) -> Periods:
    """Return the time that two periods have in common."""
    return _common(freeze_all(a), freeze_all(b))


def when(line: Timeline | Moving, kinds: Bytes, chosen: Bools) -> Periods:
    """Return when a value that holds until the next vertex is one of the chosen: a truth per vertex."""
    found = vertices(line)
    index, row = found.vertex, found.row
    holds = ~found.is_last & (kinds[row] != DISCRETE)
    end = line.t[index].copy()
    end[holds] = line.t[index[holds] + 1] - 1
    kept = chosen & found.counts
    return merged(row[kept], line.t[index][kept], end[kept], len(line.rows) - 1)


def when_between(moving: Temporals, low: Floats, high: Floats) -> Periods:
    """Return when numbers lie between two limits; where one is only touched, the nearest microsecond."""
    found = vertices(moving)
    index, row = found.vertex, found.row
    value, t = moving.value, moving.t
    least, most = low[row], high[row]
    linear = ~found.is_last & (moving.interpolation[row] == LINEAR)
    holds = ~found.is_last & (moving.interpolation[row] != DISCRETE) & ~linear
    inside = (value[index] >= least) & (value[index] <= most) & found.counts
    begin, end = t[index].copy(), t[index].copy()
    end[holds] = t[index[holds] + 1] - 1
    u = index[linear]
    inside[linear], begin[linear], end[linear] = _crossings(t, value, u, least[linear], most[linear])
    # the end of a unit does not count where the next sequence begins
    ends = np.flatnonzero(linear)
    ends = ends[~found.counts[ends + 1]]
    end[ends] = np.minimum(end[ends], t[index[ends] + 1] - 1)
    inside &= begin <= end
    return merged(row[inside], begin[inside], end[inside], len(moving.rows) - 1)


def _up(instants: Floats, span: Longs) -> Floats:
    """Round up to whole microseconds, what is whole but for rounding errors to the nearest."""
    near = np.rint(instants)
    return np.where(np.abs(instants - near) <= 1e-6 + 1e-15 * span, near, np.ceil(instants))


def _crossings(t: Longs, value: Floats, u: Longs, low: Floats, high: Floats) -> tuple[Bools, Longs, Longs]:
    """Return for each linear unit whether it comes between two limits, and from when until when."""
    before, after, span = value[u], value[u + 1], t[u + 1] - t[u]
    rise = after - before
    with np.errstate(divide="ignore", invalid="ignore"):
        f, g = (low - before) / rise, (high - before) / rise
    flat = rise == 0
    first = np.where(flat, 0.0, np.clip(np.minimum(f, g), 0.0, 2.0))
    last = np.where(flat, 1.0, np.clip(np.maximum(f, g), -1.0, 1.0))
    inside = np.where(flat, (before >= low) & (before <= high), first <= last)
    first, last = np.where(inside, first, 0.0), np.where(inside, last, 0.0)
    inside &= low <= high
    begin, end = _up(first * span, span), -_up(-last * span, span)
    touched = (begin > end) & (low == high)
    near = np.rint(0.5 * (first + last) * span)
    begin, end = np.where(touched, near, begin), np.where(touched, near, end)
    return inside, t[u] + begin.astype(np.int64), t[u] + end.astype(np.int64)


@compiled
def sequence(m: Timeline | MPoints, row: int, k: int) -> tuple[int, int]:
    """Return the first and one-past-last vertex of sequence ``k`` (counted over the whole column) of ``row``."""
    base = m.rows[row]
    first = base + m.starts[k]
    last = m.rows[row + 1] if k + 1 == m.parts[row + 1] else base + m.starts[k + 1]
    return first, last


@compiled
def is_superseded(m: Timeline | MPoints, row: int, k: int, t: int) -> bool:
    """Return whether sequence ``k`` ends at ``t`` where the next one begins: then the next one counts."""
    return bool(k + 1 < m.parts[row + 1] and m.t[m.rows[row] + m.starts[k + 1]] == t)


@compiled
def interpolate(t0: int, t1: int, v0: float, v1: float, t: int) -> float:
    """Return the value at ``t`` of a linear motion from ``v0`` at ``t0`` to ``v1`` at ``t1``; exact at both ends."""
    if t == t1:
        return v1
    return v0 + (v1 - v0) * (float(t - t0) / float(t1 - t0))


@compiled
def last_before(t: Longs | Ints, first: int, last: int, instant: int) -> int:
    """Return the last vertex of ``first:last`` at or before an instant; ``first - 1`` if there is none."""
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        if t[middle] <= instant:
            low = middle + 1
        else:
            high = middle
    return low - 1


@compiled
def _copy(t: Longs, first: int, last: int, t0: int, t1: int, out: Longs, source: Ints, at: int) -> int:
    """Write the instants of vertices ``first:last`` from ``t0`` to ``t1`` at index ``at``; return the next index."""
    i = last_before(t, first, last, t0)
    out[at], source[at] = t0, i
    at += 1
    i += 1
    while i < last and t[i] <= t1:
        out[at], source[at] = t[i], i
        at += 1
        i += 1
    if out[at - 1] < t1:
        out[at], source[at] = t1, i - 1
        at += 1
    return at


@compiled
def cut(line: Timeline, kinds: Bytes, periods: Periods) -> Cut:
    """Restrict each row to its periods."""
    n = len(line.rows) - 1
    room, most = 0, 0
    for row in range(n):
        # each common interval adds at most its two ends to the existing vertices
        common = line.parts[row + 1] - line.parts[row] + periods.rows[row + 1] - periods.rows[row]
        room += line.rows[row + 1] - line.rows[row] + 2 * common
        most += common
    rows, parts, starts = np.zeros(n + 1, np.int32), np.zeros(n + 1, np.int32), np.empty(most, np.int32)
    t, source = np.empty(room, np.int64), np.empty(room, np.int32)
    at, part = 0, 0
    for row in range(n):
        k, p = line.parts[row], periods.rows[row]
        if kinds[row] == DISCRETE:
            at = _choose(line, row, periods, t, source, at)
            if at > rows[row]:
                starts[part] = 0
                part += 1
            k = line.parts[row + 1]
        while k < line.parts[row + 1] and p < periods.rows[row + 1]:
            first, last = sequence(line, row, k)
            t0, t1 = max(line.t[first], periods.begin[p]), min(line.t[last - 1], periods.end[p])
            shadowed = t0 == t1 and is_superseded(line, row, k, t0)
            if t0 <= t1 and not shadowed:
                starts[part] = at - rows[row]
                part += 1
                at = _copy(line.t, first, last, t0, t1, t, source, at)
            if line.t[last - 1] < periods.end[p] or shadowed:
                k += 1
            else:
                p += 1
        rows[row + 1], parts[row + 1] = at, part
    return Cut(Timeline(rows, t[:at], parts, starts[:part]), source[:at])


@compiled
def _choose(line: Timeline, row: int, periods: Periods, t: Longs, source: Ints, at: int) -> int:
    """Write the single instants of a row that lie in its periods; return the index after them."""
    i, p = line.rows[row], periods.rows[row]
    while i < line.rows[row + 1] and p < periods.rows[row + 1]:
        if line.t[i] > periods.end[p]:
            p += 1
            continue
        if line.t[i] >= periods.begin[p]:
            t[at], source[at] = line.t[i], i
            at += 1
        i += 1
    return at


@compiled
def locate(line: Timeline, kinds: Bytes, instants: Longs) -> tuple[Bools, Ints]:
    """Return whether each row is defined at its instant, and the vertex that its value follows from."""
    n = len(line.rows) - 1
    found, source = np.zeros(n, np.bool_), np.zeros(n, np.int32)
    for row in range(n):
        i = last_before(line.t, line.rows[row], line.rows[row + 1], instants[row])
        if i < line.rows[row]:
            continue
        k = last_before(line.starts, line.parts[row], line.parts[row + 1], i - line.rows[row])
        _, last = sequence(line, row, k)
        found[row] = line.t[i] == instants[row] or (kinds[row] != DISCRETE and i + 1 < last)
        source[row] = i
    return found, source


@compiled
def blend(rows: Ints, instants: Longs, source: Ints, kinds: Bytes, t: Longs, value: Floats) -> Floats:
    """Return numbers at instants, from the vertices they follow: between two of them if they are linear."""
    out = np.empty(len(source))
    for row in range(len(rows) - 1):
        linear = kinds[row] == LINEAR
        for k in range(rows[row], rows[row + 1]):
            i = source[k]
            if linear and t[i] != instants[k]:
                out[k] = interpolate(t[i], t[i + 1], value[i], value[i + 1], instants[k])
            else:
                out[k] = value[i]
    return out


def cut_out(moving: Moving, periods: Periods) -> Cut:
    """Return the timeline of a value restricted to periods."""
    line, source = cut(timeline(moving), interpolations(moving), freeze_all(periods))
    return Cut(freeze_all(line), freeze(source))


def meet(a: Moving, b: Moving) -> Common:
    """Return the common timeline of two values."""
    line, first, second = synchronise(timeline(a), timeline(b), interpolations(a), interpolations(b))
    return Common(freeze_all(line), freeze(first), freeze(second))


def values_at(moving: Moving, value: Any, instants: Longs) -> tuple[Bools, Any]:
    """Return whether each row is defined at its instant, and what it has there of ``value``."""
    kinds = interpolations(moving)
    found, source = locate(timeline(moving), kinds, instants)
    if not isinstance(value, np.ndarray):
        return found, value.take(pa.array(source, mask=~found))
    out = np.zeros(len(found), value.dtype)
    each = freeze(np.arange(np.count_nonzero(found) + 1, dtype=np.int32))
    if value.dtype != np.float64:
        out[found] = value[source[found]]
    else:
        at, where = freeze(instants[found]), freeze(source[found])
        out[found] = blend(each, at, where, freeze(kinds[found]), moving.t, value)
    return found, out


def carry(line: Timeline, source: Ints, moving: Moving, value: Any) -> Any:
    """Return what ``moving`` has on a new timeline whose instants follow from the given vertices."""
    if isinstance(value, np.ndarray) and value.dtype == np.float64:
        return blend(line.rows, line.t, source, interpolations(moving), moving.t, value)
    return take(value, source)


def take(value: Any, index: Any) -> Any:
    """Return the values at the given places, of numbers or of text."""
    return value[index] if isinstance(value, np.ndarray) else value.take(index)


@compiled
def _next(t: Longs, i: int, last: int, otherwise: int) -> int:
    """Return the instant of the next vertex of a sequence that ends before ``last``."""
    return t[i + 1] if i + 1 < last else otherwise


@compiled
def synchronise(a: Timeline, b: Timeline, a_kinds: Bytes, b_kinds: Bytes) -> Common:
    """Return the instants at which either value has a vertex while both are defined."""
    n = len(a.rows) - 1
    room, most = 0, 0
    for row in range(n):
        common = a.parts[row + 1] - a.parts[row] + b.parts[row + 1] - b.parts[row]
        room += a.rows[row + 1] - a.rows[row] + b.rows[row + 1] - b.rows[row] + 2 * common
        most += common
    rows, parts, starts = np.zeros(n + 1, np.int32), np.zeros(n + 1, np.int32), np.empty(most + n, np.int32)
    t, first, second = np.empty(room, np.int64), np.empty(room, np.int32), np.empty(room, np.int32)
    at, part = 0, 0
    for row in range(n):
        ka, kb = a.parts[row], b.parts[row]
        if a_kinds[row] == DISCRETE or b_kinds[row] == DISCRETE:
            at = _meet(a, b, row, a_kinds[row] == DISCRETE, b_kinds[row] == DISCRETE, t, first, second, at)
            if at > rows[row]:
                starts[part] = 0
                part += 1
            ka = a.parts[row + 1]
        while ka < a.parts[row + 1] and kb < b.parts[row + 1]:
            a0, a1 = sequence(a, row, ka)
            b0, b1 = sequence(b, row, kb)
            now, until = max(a.t[a0], b.t[b0]), min(a.t[a1 - 1], b.t[b1 - 1])
            shadowed = now == until and (is_superseded(a, row, ka, now) or is_superseded(b, row, kb, now))
            if now <= until and not shadowed:
                starts[part] = at - rows[row]
                part += 1
                i, j = last_before(a.t, a0, a1, now), last_before(b.t, b0, b1, now)
                while True:
                    t[at], first[at], second[at] = now, i, j
                    at += 1
                    if now == until:
                        break
                    now = min(until, _next(a.t, i, a1, until), _next(b.t, j, b1, until))
                    i += _next(a.t, i, a1, until + 1) == now
                    j += _next(b.t, j, b1, until + 1) == now
            ended = a.t[a1 - 1]
            if ended < b.t[b1 - 1] or (ended == b.t[b1 - 1] and is_superseded(a, row, ka, ended)):
                ka += 1
            else:
                kb += 1
        rows[row + 1], parts[row + 1] = at, part
    return Common(Timeline(rows, t[:at], parts, starts[:part]), first[:at], second[:at])


@compiled
def is_defined(line: Timeline | MPoints, row: int, i: int, instant: int) -> bool:
    """Return whether a row that is not discrete is defined at an instant after its vertex ``i``."""
    k = last_before(line.starts, line.parts[row], line.parts[row + 1], i - line.rows[row])
    _, last = sequence(line, row, k)
    return bool(line.t[i] == instant or i + 1 < last)


@compiled
def _meet(
    a: Timeline, b: Timeline, row: int, a_only: bool, b_only: bool, t: Longs, first: Ints, second: Ints, at: int
) -> int:
    """Write the instants of the discrete ones of two values at which the other is defined; return the index after."""
    leader, other = (a, b) if a_only else (b, a)
    both = a_only and b_only
    for i in range(leader.rows[row], leader.rows[row + 1]):
        now = leader.t[i]
        j = last_before(other.t, other.rows[row], other.rows[row + 1], now)
        if j < other.rows[row]:
            continue
        if other.t[j] == now or (not both and is_defined(other, row, j, now)):
            t[at] = now
            first[at], second[at] = (i, j) if a_only else (j, i)
            at += 1
    return at


@compiled
def indicate(line: Timeline, kinds: Bytes, periods: Periods) -> tuple[Timeline, Bools]:
    """Return a truth over time: whether each row is in its periods, while it is defined."""
    n = len(line.rows) - 1
    room = len(line.t) + 4 * len(line.starts) + 2 * len(periods.begin)
    rows, t, truth = np.zeros(n + 1, np.int32), np.empty(room, np.int64), np.empty(room, np.bool_)
    parts, starts = np.zeros(n + 1, np.int32), np.empty(len(line.starts), np.int32)
    at, part = 0, 0
    for row in range(n):
        low, high = periods.rows[row], periods.rows[row + 1]
        for k in range(line.parts[row], line.parts[row + 1]):
            first, last = sequence(line, row, k)
            starts[part] = at - rows[row]
            part += 1
            if kinds[row] == DISCRETE:
                for i in range(first, last):
                    p = last_before(periods.begin, low, high, line.t[i])
                    t[at], truth[at] = line.t[i], p >= low and line.t[i] <= periods.end[p]
                    at += 1
                continue
            begin, end = line.t[first], line.t[last - 1]
            p = last_before(periods.begin, low, high, begin)
            now = p >= low and begin <= periods.end[p]
            t[at], truth[at] = begin, now
            at += 1
            p = p if now else p + 1
            while p < high:  # what comes next: the end of this period, or the begin of the next
                change = periods.end[p] + 1 if now else periods.begin[p]
                if change > end:
                    break
                if now:
                    p += 1
                now = not now
                t[at], truth[at] = change, now
                at += 1
            if t[at - 1] < end:
                t[at], truth[at] = end, now
                at += 1
        rows[row + 1], parts[row + 1] = at, part
    return Timeline(rows, t[:at], parts, starts[:part]), truth[:at]
