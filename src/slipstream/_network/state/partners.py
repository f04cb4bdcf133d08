"""The tuples of a join's side that wait for partners: in chains, found by a hash of the columns the predicate equates.

A chain is sorted by the order attribute, the largest first: a tuple that arrives in order is inserted near the head,
and possible partners are near the head too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from slipstream._network.state.groups import GROUP, ORDINAL, Columns, Groups, chain
from slipstream._network.state.tracked_tables import INTEGER, NONE, StateTable
from slipstream._runtime.state.shared_arrays import SharedArray
from slipstream._tools.numba_tools import Longs, compiled

Numbers: TypeAlias = npt.NDArray[Any]

HASH, ON = "hash", "on"
_LEAST = 64


class Chains(NamedTuple):
    """The arrays of a side, for kernels."""

    heads: Longs  # the first tuple of each chain, by the last bits of the hash
    lower: Longs  # the next in the chain, and the one before
    higher: Longs
    on: Numbers
    hashes: Longs
    ordinals: Longs


@compiled
def put(side: Chains, slot: int) -> None:
    """Insert a tuple into its chain."""
    head = side.hashes[slot] & (side.heads.size - 1)
    higher, lower = NONE, side.heads[head]
    while lower != NONE and side.on[lower] > side.on[slot]:
        higher, lower = lower, side.lower[lower]
    side.lower[slot], side.higher[slot] = lower, higher
    if lower != NONE:
        side.higher[lower] = slot
    if higher != NONE:
        side.lower[higher] = slot
    else:
        side.heads[head] = slot


@compiled
def put_all(side: Chains, slots: Longs) -> None:
    """Insert tuples into their chains, in this order."""
    for slot in slots:
        put(side, slot)


@compiled
def take_out(side: Chains, slots: Longs) -> None:
    """Remove tuples from their chains."""
    for slot in slots:
        lower, higher = side.lower[slot], side.higher[slot]
        if lower != NONE:
            side.higher[lower] = higher
        if higher != NONE:
            side.lower[higher] = lower
        else:
            side.heads[side.hashes[slot] & (side.heads.size - 1)] = lower


@compiled
def make_room(found: Longs, needed: int) -> Longs:
    """The same pairs in a longer array, if this one is too short."""
    if needed <= found.shape[0]:
        return found
    longer = np.empty((2 * needed, found.shape[1]), np.int64)
    longer[: found.shape[0]] = found
    return longer


@compiled
def add_partners(mine: Chains, slot: int, theirs: Chains, size: float, found: Longs, count: int) -> tuple[Longs, int]:
    """Add the partners that a tuple has on the other side to ``found``, in the order of their arrival."""
    low, high, wanted = mine.on[slot] - size, mine.on[slot] + size, mine.hashes[slot]
    begin = count
    other = theirs.heads[wanted & (theirs.heads.size - 1)]
    while other != NONE and theirs.on[other] >= low:
        if theirs.on[other] <= high and theirs.hashes[other] == wanted:
            found = make_room(found, count + 1)
            found[count, 0] = other
            count += 1
        other = theirs.lower[other]
    # the chain is almost in reverse order of arrival, so little is left to sort
    found[begin:count, 0] = found[begin:count, 0][::-1].copy()
    for i in range(begin + 1, count):
        other, k = found[i, 0], i
        while k > begin and theirs.ordinals[found[k - 1, 0]] > theirs.ordinals[other]:
            found[k, 0] = found[k - 1, 0]
            k -= 1
        found[k, 0] = other
    return found, count


@compiled
def pair_new(
    left: Chains, right: Chains, lefts: Longs, left_at: Longs, rights: Longs, right_at: Longs, size: float
) -> Longs:
    """Insert new tuples of both sides in the order of arrival; returns (left, right, arrival) of every pair."""
    found = np.empty((lefts.size + rights.size + 16, 3), np.int64)
    count = i = k = 0
    while i < lefts.size or k < rights.size:
        begin = count
        if k == rights.size or (i < lefts.size and left_at[i] < right_at[k]):
            put(left, lefts[i])
            found, count = add_partners(left, lefts[i], right, size, found, count)
            for pair in range(begin, count):
                found[pair, 1] = found[pair, 0]
                found[pair, 0], found[pair, 2] = lefts[i], left_at[i]
            i += 1
        else:
            put(right, rights[k])
            found, count = add_partners(right, rights[k], left, size, found, count)
            for pair in range(begin, count):
                found[pair, 1], found[pair, 2] = rights[k], right_at[k]
            k += 1
    return found[:count]


@compiled
def remove_outdated(
    codes: Longs, least: Numbers, first: Longs, last: Longs, after: Longs, on: Numbers, most: int
) -> Longs:
    """Remove tuples below their group's ``least`` from the heads of the groups' lists.

    One that is behind a larger one is removed when that is.
    """
    found = np.empty(most, np.int64)
    count = 0
    for i in range(codes.size):
        slot = first[codes[i]]
        while slot != NONE and on[slot] < least[i]:
            found[count] = slot
            count += 1
            slot = after[slot]
        first[codes[i]] = slot
        if slot == NONE:
            last[codes[i]] = NONE
    return found[:count].copy()


class Partners:
    """One side of a join: tuples chained by their hashes, and listed by groups to expire them."""

    def __init__(self, groups: Groups, name: str, columns: Mapping[str, str]) -> None:
        self._groups = groups
        self._ends = (f"first of {name}", f"last of {name}")
        self._columns = tuple(columns)
        kinds = {GROUP: INTEGER, ORDINAL: INTEGER, HASH: INTEGER, **columns}
        self.table = StateTable(kinds, ("after", "lower", "higher"))
        self._next = 0
        self._heads = self._make_empty_heads(_LEAST)

    @staticmethod
    def _make_empty_heads(count: int) -> SharedArray:
        heads = SharedArray(np.dtype(np.int64), count)
        heads.array[:] = NONE
        return heads

    @property
    def chains(self) -> Chains:
        """The arrays of the side, for kernels."""
        return Chains(self._heads.array, *(self.table.values(name) for name in ("lower", "higher", ON, HASH, ORDINAL)))

    def add(self, codes: Longs, hashes: Longs, columns: Columns) -> Longs:
        """Add tuples, which are inserted into chains as they arrive; returns their slots."""
        count = codes.size
        if self.table.count + count > self._heads.array.size:
            self._rehash(self.table.count + count)
        ordinal = np.arange(self._next, self._next + count)
        self._next += count
        slots = self.table.add({GROUP: codes, ORDINAL: ordinal, HASH: hashes, **columns}, count)
        self._list(codes, slots)
        return slots

    def _list(self, codes: Longs, slots: Longs) -> None:
        first, last = (self._groups.table.values(end) for end in self._ends)
        chain(codes, slots, first, last, self.table.values("after"))

    def _rehash(self, count: int) -> None:
        self._heads.drop()
        self._heads = self._make_empty_heads(1 << (2 * count).bit_length())
        put_all(self.chains, self._sort_by_arrival()[0])

    def _sort_by_arrival(self) -> tuple[Longs, Longs]:
        """All tuples in the order of their arrival, and their numbers."""
        slots = self.table.slots()
        ordinals = self.table.take(ORDINAL, slots)
        order = np.argsort(ordinals)
        return slots[order], ordinals[order]

    def expire(self, codes: Longs, least: Numbers) -> None:
        """Remove the tuples of groups that can no longer have a partner."""
        first, last = (self._groups.table.values(end) for end in self._ends)
        gone = remove_outdated(
            codes, least, first, last, self.table.values("after"), self.table.values(ON), len(self.table)
        )
        take_out(self.chains, gone)
        self.table.remove(gone)

    def restore(self) -> None:
        """Rebuild the chains and lists of tuples that were loaded."""
        slots, ordinals = self._sort_by_arrival()
        self._next = int(ordinals[-1]) + 1 if slots.size else 0
        self._list(self.table.take(GROUP, slots), slots)
        self._rehash(max(slots.size, _LEAST))


def pair_all(
    left: Partners, right: Partners, lefts: tuple[Longs, Longs], rights: tuple[Longs, Longs], size: float
) -> tuple[Longs, Longs, Longs]:
    """Insert new tuples, given by arrival and slot, into both sides; returns the pairs, and the arrival of each."""
    found = pair_new(left.chains, right.chains, lefts[1], lefts[0], rights[1], rights[0], size)
    one, two, trigger = (np.ascontiguousarray(column) for column in found.T)
    return one, two, trigger
