"""The groups of a box and the tuples that wait in them: found by a hash table and by linked lists.

A batch looks up the groups of its own tuples and the tuples that wait in some of these. Its cost does not depend on how
many other groups or waiting tuples there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from slipstream._network.state.tracked_tables import INTEGER, NONE, TEXT, StateTable, arrow_texts, length_at
from slipstream._runtime.state.shared_arrays import SharedArray
from slipstream._tools.numba_tools import Bytes, Longs, compiled, mix

Array: TypeAlias = npt.NDArray[Any]
Matrix: TypeAlias = npt.NDArray[np.int64]
Columns: TypeAlias = Mapping[str, Array]

#: the columns of a tuple's group, and of its number among all that ever waited
GROUP, ORDINAL = "group", "ordinal"
_LEAST = 128
#: keys that are looked up together
_BLOCK = 64
_LONG: np.dtype[Any] = np.dtype(np.int64)
#: the number of a null text
_NO_TEXT = -2


# --- texts as numbers


@compiled
def hash_of(data: Bytes, begin: int, end: int) -> int:
    """A hash of bytes (FNV-1a, of Fowler, Noll and Vo), scrambled."""
    found = np.uint64(0xCBF29CE484222325)
    for i in range(begin, end):
        found = (found ^ np.uint64(data[i])) * np.uint64(0x100000001B3)
    return int(np.int64(mix(found) >> np.uint64(1)))


@compiled
def is_at(heap: Bytes, place: int, data: Bytes, begin: int, end: int) -> bool:
    """Whether the text at a place is this one."""
    if length_at(heap, place) != end - begin:
        return False
    for k in range(end - begin):  # noqa: SIM110
        if heap[place + 4 + k] != data[begin + k]:
            return False
    return True


@compiled
def intern(places: Longs, heap: Bytes, size: int, data: Bytes, offsets: Longs) -> tuple[Longs, int, int]:
    """The position of each text in the heap, with new ones added; the heap's new size, and how many were new."""
    found = np.empty(offsets.size - 1, np.int64)
    new = 0
    for i in range(offsets.size - 1):
        begin, end = offsets[i], offsets[i + 1]
        place = hash_of(data, begin, end) & (places.size - 1)
        while places[place] != NONE and not is_at(heap, places[place], data, begin, end):
            place = (place + 1) & (places.size - 1)
        if places[place] == NONE:
            places[place] = size
            for k in range(4):
                heap[size + k] = ((end - begin) >> (8 * k)) & 255
            heap[size + 4 : size + 4 + end - begin] = data[begin:end]
            size += 4 + end - begin
            new += 1
        found[i] = places[place]
    return found, size, new


@compiled
def intern_again(places: Longs, heap: Bytes, size: int) -> None:
    """Insert all texts of a heap into a larger hash table."""
    at = 0
    while at < size:
        end = at + 4 + length_at(heap, at)
        place = hash_of(heap, at + 4, end) & (places.size - 1)
        while places[place] != NONE:
            place = (place + 1) & (places.size - 1)
        places[place] = at
        at = end


def bits(values: Array) -> Longs:
    """Return integers unchanged, and floats as their bits, such that zeros are equal, and NaNs too.

    >>> bits(np.array([0.0, -0.0])).tolist()
    [0, 0]
    """
    if values.dtype.kind == "f":
        return np.where(np.isnan(values), np.nan, values + 0.0).view(np.int64)
    return values


@compiled
def hash_rows(rows: Matrix) -> Longs:
    """A hash of each row of integers."""
    found = np.empty(rows.shape[0], np.int64)
    for i in range(rows.shape[0]):
        found[i] = hash_row(rows[i])
    return found


def hashes(columns: Sequence[Array], count: int) -> Longs:
    """A hash of each tuple's values in some columns; equal values have equal hashes."""
    if not columns:
        return np.zeros(count, np.int64)
    parts = [hash_texts(*arrow_texts(column)[:2]) if column.dtype == object else bits(column) for column in columns]
    return hash_rows(np.column_stack(parts))


def _empty_places(count: int) -> SharedArray:
    places = SharedArray(_LONG, count)
    places.array[:] = NONE
    return places


class TextNumbers:
    """Numbers for texts: equal texts have the same one, and none is ever removed.

    >>> words = TextNumbers()
    >>> first, second, null, third = words.numbers(np.array(["a", "b", None, "a"], object)).tolist()
    >>> first == third, first == second
    (True, False)
    """

    def __init__(self) -> None:
        self._heap = SharedArray(np.dtype(np.uint8), _LEAST)
        self._size = 0
        self._count = 0
        self._places = _empty_places(_LEAST)

    def numbers(self, values: Array) -> Longs:
        """The number of each text."""
        data, offsets, null = arrow_texts(values)
        if self._size + data.size + 4 * values.size > self._heap.array.size:
            self._heap.grow(2 * (self._size + data.size + 4 * values.size))
        if 2 * (self._count + values.size) > self._places.array.size:
            self._places.drop()
            self._places = _empty_places(1 << (4 * (self._count + values.size)).bit_length())
            intern_again(self._places.array, self._heap.array, self._size)
        found, self._size, new = intern(self._places.array, self._heap.array, self._size, data, offsets)
        self._count += new
        found[null] = _NO_TEXT
        return found


# --- groups


@compiled
def hash_texts(data: Bytes, offsets: Longs) -> Longs:
    """A hash of each text."""
    found = np.empty(offsets.size - 1, np.int64)
    for i in range(offsets.size - 1):
        found[i] = hash_of(data, offsets[i], offsets[i + 1])
    return found


@compiled
def hash_row(row: Longs) -> int:
    """A hash of a few integers."""
    found = np.uint64(0)
    for value in row:
        found = mix(found ^ np.uint64(value))
    return int(np.int64(found >> np.uint64(1)))


@compiled
def has_key(known: Matrix, code: int, keys: Matrix, row: int) -> bool:
    """Whether a group has the key in a row."""
    same = True
    for k in range(keys.shape[1]):
        same &= known[code, k] == keys[row, k]
    return same


@compiled
def guess_groups(places: Longs, known: Matrix, keys: Matrix, begin: int, hashed: Longs, codes: Longs) -> None:
    """Look up some keys where their hashes say they are; those that are elsewhere or new get -1.

    Nothing in a loop waits for the step before it, so the processor fetches many places from memory at a time.
    """
    for i in range(hashed.size):
        hashed[i] = hash_row(keys[begin + i]) & (places.size - 1)
    for i in range(hashed.size):
        codes[begin + i] = places[hashed[i]]
    for i in range(begin, begin + hashed.size):
        if codes[i] != NONE and not has_key(known, codes[i], keys, i):
            codes[i] = NONE


@compiled
def find_groups(
    places: Longs, known: Matrix, size: int, keys: Matrix, begin: int, codes: Longs, new: Longs
) -> tuple[int, int]:
    """The number of each key's group from ``begin`` on; adds new groups, and stops when there is no more room.

    ``new`` gets the first row of each new group. Returns where it stopped, and the number of new groups.
    """
    most = min(known.shape[0], places.size // 2)
    count = size
    block = np.empty(_BLOCK, np.int64)
    for first in range(begin, keys.shape[0], _BLOCK):
        hashed = block[: min(_BLOCK, keys.shape[0] - first)]
        guess_groups(places, known, keys, first, hashed, codes)
        for i in range(first, first + hashed.size):
            if codes[i] != NONE:
                continue
            place = hashed[i - first]
            while places[place] != NONE and not has_key(known, places[place], keys, i):
                place = (place + 1) & (places.size - 1)
            if places[place] == NONE:
                if count == most:
                    return i, count - size
                known[count] = keys[i]
                places[place] = count
                new[count - size] = i
                count += 1
            codes[i] = places[place]
    return keys.shape[0], count - size


@compiled
def find_again(places: Longs, known: Matrix, size: int) -> None:
    """Insert all groups into a larger hash table."""
    for code in range(size):
        place = hash_row(known[code]) & (places.size - 1)
        while places[place] != NONE:
            place = (place + 1) & (places.size - 1)
        places[place] = code


class Groups:
    """The groups seen so far, numbered in the order of their first tuple, and the state of each.

    ``known`` names further columns with their kinds and initial values; ``lists`` names the lists of tuples that a
    group has (see ``Waiting``).

    >>> groups = Groups({"vid": INTEGER}, {"seen": (INTEGER, 0)})
    >>> groups.codes({"vid": np.array([70, 80, 70])}).tolist()
    [0, 1, 0]
    >>> groups.table.take("vid", np.array([1])).tolist()
    [80]
    """

    def __init__(
        self, keys: Mapping[str, str], known: Mapping[str, tuple[str, Any]] | None = None, lists: Sequence[str] = ()
    ) -> None:
        self._keys = dict(keys)
        self._known = dict(known or {})
        self._ends = tuple(f"{end} of {name}" for name in lists for end in ("first", "last"))
        kinds = {name: kind for name, (kind, _) in self._known.items()}
        self.table = StateTable({**keys, **kinds}, (*(f"key {name}" for name in keys), *self._ends, "local"))
        self._words = {name: TextNumbers() for name, kind in keys.items() if kind == TEXT}
        self._places = _empty_places(_LEAST)
        if not keys:
            self._add({}, 1)

    def __len__(self) -> int:
        return self.table.size

    def codes(self, columns: Columns) -> Longs:
        """The group of each tuple."""
        if not self._keys:
            return np.zeros(len(next(iter(columns.values()))), np.int64)
        keys = np.column_stack([self._numbers(name, columns[name]) for name in self._keys])
        codes, done = np.empty(len(keys), np.int64), 0
        while done < len(keys):
            new = np.empty(min(self.table.room - len(self), len(keys) - done), np.int64)
            done, count = find_groups(self._places.array, self._matrix(), len(self), keys, done, codes, new)
            if count:
                self._add({name: columns[name][new[:count]] for name in self._keys}, count)
            if done < len(keys):
                self._grow()
        return codes

    def _numbers(self, name: str, values: Array) -> Longs:
        """Equal integers for equal values."""
        if name in self._words:
            return self._words[name].numbers(values)
        return bits(values)

    def _matrix(self) -> Matrix:
        names = list(self._keys)
        return self.table.block(f"key {names[0]}", len(names), INTEGER)

    def _add(self, keys: Columns, count: int) -> None:
        known = {name: np.full(count, value) for name, (_, value) in self._known.items()}
        slots = self.table.add({**keys, **known}, count)
        for end in (*self._ends, "local"):
            self.table.values(end)[slots] = NONE

    def _grow(self) -> None:
        self.table.make_room(2 * self.table.room - len(self))
        if 2 * self.table.room > self._places.array.size:
            self._places.drop()
            self._places = _empty_places(1 << (2 * self.table.room).bit_length())
            find_again(self._places.array, self._matrix(), len(self))

    def restore(self) -> None:
        """Rebuild the hash table for groups that were loaded."""
        size = len(self)
        for end in (*self._ends, "local"):
            self.table.values(end)[:size] = NONE
        if not self._keys:
            if not size:
                self._add({}, 1)
            return
        slots = np.arange(size)
        keys = [self._numbers(name, self.table.take(name, slots)) for name in self._keys]
        self._matrix()[:size] = np.column_stack(keys)
        self._places.drop()
        self._places = _empty_places(1 << (2 * self.table.room).bit_length())
        find_again(self._places.array, self._matrix(), size)

    def distinct(self, codes: Longs) -> tuple[Longs, Longs]:
        """The distinct groups in order of appearance, and the index of each code's group among them."""
        return localise(codes, self.table.values("local"))


@compiled
def localise(codes: Longs, local: Longs) -> tuple[Longs, Longs]:
    """The distinct codes in order of appearance, and the index of each among them; ``local`` is reset to -1."""
    found, where = np.empty_like(codes), np.empty_like(codes)
    count = 0
    for i in range(codes.size):
        if local[codes[i]] == NONE:
            local[codes[i]] = count
            found[count] = codes[i]
            count += 1
        where[i] = local[codes[i]]
    for code in found[:count]:
        local[code] = NONE
    return found[:count].copy(), where


@compiled
def sort_by_group(local: Longs, count: int) -> tuple[Longs, Longs]:
    """The rows sorted by group, stably, and where each group begins."""
    starts = np.zeros(count + 1, np.int64)
    for code in local:
        starts[code + 1] += 1
    for code in range(count):
        starts[code + 1] += starts[code]
    order, filled = np.empty_like(local), starts[:-1].copy()
    for i in range(local.size):
        order[filled[local[i]]] = i
        filled[local[i]] += 1
    return order, starts


# --- tuples that wait


@compiled
def chain(codes: Longs, slots: Longs, first: Longs, last: Longs, after: Longs) -> None:
    """Append rows to their groups' lists."""
    for i in range(slots.size):
        code, slot = codes[i], slots[i]
        after[slot] = NONE
        if first[code] == NONE:
            first[code] = slot
        else:
            after[last[code]] = slot
        last[code] = slot


@compiled
def unchain(codes: Longs, first: Longs, after: Longs) -> tuple[Longs, Longs]:
    """The rows of some groups, group by group in the order of their lists, and the index of each row's group."""
    total = 0
    for code in codes:
        slot = first[code]
        while slot != NONE:
            total += 1
            slot = after[slot]
    slots, local = np.empty(total, np.int64), np.empty(total, np.int64)
    count = 0
    for i in range(codes.size):
        slot = first[codes[i]]
        while slot != NONE:
            slots[count], local[count] = slot, i
            count += 1
            slot = after[slot]
    return slots, local


class Waiting:
    """Tuples that wait in groups, each group's in the order of arrival.

    >>> groups = Groups({"vid": INTEGER}, lists=("waiting",))
    >>> waiting = Waiting(groups, "waiting", {"time": INTEGER})
    >>> codes = groups.codes({"vid": np.array([70, 80, 70])})
    >>> waiting.add(codes, {"time": np.array([1, 2, 3])})
    >>> slots, _ = waiting.of(np.array([0]))
    >>> waiting.table.take("time", slots).tolist()
    [1, 3]
    """

    def __init__(self, groups: Groups, name: str, columns: Mapping[str, str]) -> None:
        self._groups = groups
        self._ends = (f"first of {name}", f"last of {name}")
        self.table = StateTable({GROUP: INTEGER, ORDINAL: INTEGER, **columns}, ("after",))
        self._columns = tuple(columns)
        self._next = 0

    def _lists(self) -> tuple[Longs, Longs, Longs]:
        first, last = (self._groups.table.values(end) for end in self._ends)
        return first, last, self.table.values("after")

    def of(self, codes: Longs) -> tuple[Longs, Longs]:
        """The tuples of some groups, group by group, and the index of each tuple's group among them."""
        first, _, after = self._lists()
        return unchain(codes, first, after)

    def add(self, codes: Longs, columns: Columns) -> None:
        """Add tuples to their groups."""
        if codes.size:
            ordinal = np.arange(self._next, self._next + codes.size)
            self._next += codes.size
            mine = {name: columns[name] for name in self._columns}
            slots = self.table.add({GROUP: codes, ORDINAL: ordinal, **mine}, codes.size)
            chain(codes, slots, *self._lists())

    def keep(self, codes: Longs, slots: Longs, kept: npt.NDArray[np.bool_]) -> None:
        """Keep some of the tuples of groups, which ``of`` returned, and remove the others."""
        if kept.all():
            return
        first, last, after = self._lists()
        first[codes] = last[codes] = NONE
        left = slots[kept]
        chain(self.table.take(GROUP, left), left, first, last, after)
        self.table.remove(slots[~kept])

    def restore(self) -> None:
        """Rebuild the lists of tuples that were loaded."""
        slots = self.table.slots()
        ordinal = self.table.take(ORDINAL, slots)
        slots = slots[np.argsort(ordinal)]
        self._next = int(ordinal.max(initial=-1)) + 1
        chain(self.table.take(GROUP, slots), slots, *self._lists())
