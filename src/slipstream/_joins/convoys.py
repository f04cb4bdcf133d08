"""Convoys from meetings: who stays together, directly or through others.

Meetings that share an object and touch in time belong to one encounter; no convoy reaches beyond an encounter, so
encounters are swept over time independently of each other. Between two changes of who is near whom, the groups of
connected objects are fixed. A set of objects is open while it stays within a group; it ends as a convoy when no open
set has all of its members since it began (after Jeung et al. 2008, with the correction of Yoon and Shahabi 2009).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from slipstream._joins.grouping import offsets, whole_groups
from slipstream._joins.trip_meetings import PAIR, Nearness, meetings
from slipstream._moving import types
from slipstream._moving.columns import read, write
from slipstream._tools.numba_tools import Longs, compiled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ENCOUNTER = ("encounter",)


class Convoy(NamedTuple):
    """A set of objects, as the bits of a number, and when they are together (microseconds)."""

    members: int
    begin: int
    end: int


def convoys(trips: DataFrame, distance: float, duration: int, size: int) -> DataFrame:
    """Return the convoys of at least ``size`` objects (``id``, ``Trip``) that last at least ``duration``."""
    met = meetings(trips, None, Nearness(distance)).drop("nearest", "nearest_at")
    kind = trips.schema["id"].dataType.simpleString()
    # one task for four short columns per meeting; the sweeps are spread over all tasks again
    numbered = met.coalesce(1).mapInArrow(_number_encounters, f"encounter long, {_ddl(met)}")
    together = numbered.repartition(*ENCOUNTER).sortWithinPartitions(*ENCOUNTER)
    return together.mapInArrow(
        partial(_to_convoys, duration=duration, size=size), f"ids array<{kind}>, begin timestamp, end timestamp"
    )


def _ddl(frame: DataFrame) -> str:
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in frame.schema)


def _number_encounters(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = [batch for batch in batches if batch.num_rows]
    if rows:
        whole = pa.concat_batches(rows)
        begin, end = (read(whole.column(name)) for name in ("begin", "end"))
        (first, other), _ = _codes(whole)
        encounters = number_encounters(first, other, begin, end)
        yield pa.RecordBatch.from_arrays(
            [pa.array(encounters), *whole.columns], names=[*ENCOUNTER, *whole.schema.names]
        )


def _codes(batch: pa.RecordBatch) -> tuple[Longs, pa.Array]:
    """Return numbers for both ids of each pair, and the ids that they stand for."""
    coded = pa.concat_arrays([batch.column(name) for name in PAIR]).dictionary_encode()
    return coded.indices.to_numpy().astype(np.int64).reshape(2, -1), coded.dictionary


def number_encounters(first: Longs, other: Longs, begin: Longs, end: Longs) -> Longs:
    """Return the number of each meeting's encounter."""
    objects, meeting = np.concatenate([first, other]), np.tile(np.arange(len(begin)), 2)
    order = np.lexsort((begin[meeting], objects))
    return _unite(objects[order], meeting[order], begin, end)


@compiled
def _unite(objects: Longs, meeting: Longs, begin: Longs, end: Longs) -> Longs:
    parent = np.arange(len(begin))
    latest = 0
    for k in range(1, len(objects)):
        if objects[k] != objects[k - 1]:
            latest = k
            continue
        if begin[meeting[k]] <= end[meeting[latest]]:
            a, b = _root(parent, meeting[k]), _root(parent, meeting[latest])
            parent[max(a, b)] = min(a, b)
        if end[meeting[k]] > end[meeting[latest]]:
            latest = k
    for i in range(len(parent)):
        parent[i] = _root(parent, i)
    return parent


@compiled
def _root(parent: Longs, i: int) -> int:
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


def _to_convoys(batches: Iterator[pa.RecordBatch], duration: int, size: int) -> Iterator[pa.RecordBatch]:
    for batch in whole_groups(batches, ENCOUNTER):
        places = offsets(batch, ENCOUNTER)
        for first, last in zip(places[:-1].tolist(), places[1:].tolist(), strict=True):
            encounter = batch.slice(first, last - first)
            (a, b), ids = _codes(encounter)
            times = [read(encounter.column(name)).tolist() for name in ("begin", "end")]
            found = list(sweep(a.tolist(), b.tolist(), *times, duration=duration, size=size))
            if found:
                yield _rows(found, ids)


def _rows(found: list[Convoy], ids: pa.Array) -> pa.RecordBatch:
    members = [[k for k in range(len(ids)) if convoy.members >> k & 1] for convoy in found]
    counts = np.cumsum([0, *map(len, members)]).astype(np.int32)
    flat = ids.take(pa.array([k for some in members for k in sorted(some, key=lambda k: ids[k].as_py())]))
    times = (np.array([getattr(convoy, name) for convoy in found]) for name in ("begin", "end"))
    return pa.RecordBatch.from_arrays(
        [pa.ListArray.from_arrays(pa.array(counts), flat), *(write(t, types.INSTANT_TYPE) for t in times)],
        names=["ids", "begin", "end"],
    )


def sweep(
    first: list[int], other: list[int], begin: list[int], end: list[int], *, duration: int, size: int
) -> Iterator[Convoy]:
    """Return the convoys among meetings of objects that are numbered from 0."""
    near = [0] * (1 + max(*first, *other))
    groups: list[int] = []
    since: dict[int, int] = {}
    for now, pairs in _changes(first, other, begin, end):
        for a, b in pairs:
            near[a] ^= 1 << b
            near[b] ^= 1 << a
        if (present := list_groups(near, size)) == groups:
            continue
        groups, before = present, since
        since = continue_sets(before, groups, now, size)
        for members, started in before.items():
            if now - started >= duration and not lives_on(members, started, since):
                yield Convoy(members, started, now)


def _changes(
    first: list[int], other: list[int], begin: list[int], end: list[int]
) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Return the instants at which pairs begin or cease to be near each other, in order, with these pairs."""
    at: dict[int, list[tuple[int, int]]] = {}
    for a, b, started, ended in zip(first, other, begin, end, strict=True):
        if started < ended:
            at.setdefault(started, []).append((a, b))
            at.setdefault(ended, []).append((a, b))
    yield from sorted(at.items())


def list_groups(near: list[int], size: int) -> list[int]:
    """Return the sets of connected objects that have at least ``size`` members."""
    left, out = sum(1 << k for k, others in enumerate(near) if others), []
    while left:
        group, border = 0, left & -left
        while border:
            group |= border
            reached = 0
            while border:
                reached |= near[(border & -border).bit_length() - 1]
                border &= border - 1
            border = reached & ~group
        left &= ~group
        if group.bit_count() >= size:
            out.append(group)
    return out


def continue_sets(before: dict[int, int], groups: list[int], now: int, size: int) -> dict[int, int]:
    """Return the sets that are open from now on, and since when."""
    since: dict[int, int] = {}
    for members, started in before.items():
        for group in groups:
            both = members & group
            if both.bit_count() >= size:
                since[both] = min(started, since.get(both, started))
    for group in groups:
        since.setdefault(group, now)
    return {
        members: started for members, started in since.items() if not lives_on(members, started, since, but=members)
    }


def lives_on(members: int, started: int, since: dict[int, int], but: int = 0) -> bool:
    """Return whether an open set has all the members, since that instant or before."""
    return any(
        members & other == members and since_then <= started for other, since_then in since.items() if other != but
    )
