"""Numbers for text ids: a dictionary in shared memory, saved in the state store.

Each part of a job numbers the texts that hash to it (``Names``): 0, 1, 2, ... in the order of the batches in which they
first appear, and alphabetically within a batch, so that a repeated batch assigns the same numbers. Part p of n maps
these to p, p + n, p + 2n, ..., so the parts need no coordination. Texts are compared byte by byte: no two of them share
a number.

``Register`` maps numbers back to texts: the stage that writes results receives all new names.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slipstream._errors import BadInput
from slipstream._feeds.text_ids import decode, encode, hash_text, join_bytes, split_texts
from slipstream._runtime.state.shared_arrays import SharedArray
from slipstream._runtime.state.store import Store
from slipstream._tools.numba_tools import Bytes, Ints, Longs, compiled

#: numbers are those of vehicles: 31 bits
MAX_NAMES = 1 << 31
_LEAST = 1024
#: the number of a text that has none
UNKNOWN = -1


@compiled
def _is(text: Bytes, heap: Bytes, start: int, end: int) -> bool:
    """Whether a text equals the one at ``start`` in the heap."""
    same, i = end - start == text.size, 0
    while same and i < text.size:
        same = heap[start + i] == text[i]
        i += 1
    return same


@compiled
def _find(text: Bytes, slots: Ints, heap: Bytes, ends: Longs) -> np.int64:
    """The slot of a text, or the free slot where it belongs; a slot holds a number plus one."""
    mask = slots.size - 1
    slot = np.int64(hash_text(text) & np.uint64(mask))
    while slots[slot] and not _is(text, heap, ends[slots[slot] - 1], ends[slots[slot]]):
        slot = (slot + 1) & mask
    return slot


@compiled
def _numbers(given: Bytes, at: Longs, slots: Ints, heap: Bytes, ends: Longs, numbers: Longs) -> None:
    """The number of each text, ``UNKNOWN`` if it has none."""
    for i in range(numbers.size):
        numbers[i] = slots[_find(given[at[i] : at[i + 1]], slots, heap, ends)] - 1


@compiled
def _index(first: int, last: int, slots: Ints, heap: Bytes, ends: Longs) -> None:
    """Put the texts from number ``first`` to before ``last`` into their slots."""
    for number in range(first, last):
        slots[_find(heap[ends[number] : ends[number + 1]], slots, heap, ends)] = number + 1


@compiled
def _gather(numbers: Longs, heap: Bytes, ends: Longs, into: Bytes) -> None:
    """Concatenate the texts of numbers."""
    place = 0
    for number in numbers:
        for byte in heap[ends[number] : ends[number + 1]]:
            into[place] = byte
            place += 1


class Texts:
    """Texts by number: 0, 1, 2, ... in the order in which they were added."""

    def __init__(self) -> None:
        self._heap, self._ends = SharedArray(np.dtype(np.uint8), 16 * _LEAST), SharedArray(np.dtype(np.int64), _LEAST)
        self._count = self._stored = 0

    def __len__(self) -> int:
        return self._count

    @property
    def arrays(self) -> tuple[Bytes, Longs]:
        """Their bytes, and the end of each."""
        return self._heap.array, self._ends.array

    def add(self, texts: pa.StringArray) -> None:
        """Assign the next numbers to texts that have none."""
        given, at = join_bytes(texts)
        count, used = self._count + len(texts), int(self._ends.array[self._count])
        more = given[at[0] : at[-1]]
        _make_room(self._ends, count + 1)
        _make_room(self._heap, used + more.size)
        self._heap.array[used : used + more.size] = more
        self._ends.array[self._count + 1 : count + 1] = used + (at[1:] - at[0])
        self._count = count

    def take(self, numbers: Longs) -> pa.StringArray:
        """The texts of numbers."""
        heap, ends = self.arrays
        sizes = ends[numbers + 1] - ends[numbers]
        found = np.empty(int(sizes.sum()), np.uint8)
        _gather(numbers, heap, ends, found)
        return split_texts(found, sizes)

    def since(self, first: int) -> pa.StringArray:
        """The texts from number ``first`` on."""
        return self.take(np.arange(first, self._count))

    def save(self, store: Store, part: int = 0) -> None:
        """Write the texts added since the last save, as one entry."""
        if self._count > self._stored:
            store.put(part << 32 | self._stored, encode(self.since(self._stored)))
            self._stored = self._count

    def restore(self, entry: int, blob: bytes) -> None:
        """Add the texts of an entry; entries come in order."""
        if entry & 0xFFFFFFFF != self._count:
            raise BadInput("Stored names are damaged.", hint="Use an earlier checkpoint.", code="damaged-checkpoint")
        self.add(decode(blob))
        self._stored = self._count


def _make_room(area: SharedArray, count: int) -> None:
    if count > area.array.size:
        area.grow(3 * count // 2)


class Names:
    """The numbers of texts.

    >>> names = Names()
    >>> names.number(pa.array(["b", "a", "b"])).tolist(), names.number(pa.array(["c", "b"])).tolist()
    ([1, 0, 1], [2, 1])
    """

    def __init__(self) -> None:
        self.texts = Texts()
        self._slots = SharedArray(np.dtype(np.int32), 2 * _LEAST)

    def number(self, texts: pa.StringArray, most: int = MAX_NAMES) -> Longs:
        """The numbers of texts; those that have none get the next ones."""
        numbers = self.find(texts)
        if (numbers == UNKNOWN).any():
            new = texts.filter(pa.array(numbers == UNKNOWN)).unique()
            if len(self.texts) + len(new) > most:
                raise BadInput(
                    f"More than {most:,} ids.", hint="Split the feed, and give each part its own job.", code="too-large"
                )
            self.add(new.take(pc.sort_indices(new)))
            numbers = self.find(texts)
        return numbers

    def add(self, texts: pa.StringArray) -> None:
        """Give the next numbers to texts that have none."""
        before = len(self.texts)
        self.texts.add(texts)
        self._index(before)

    def find(self, texts: pa.StringArray) -> Longs:
        """The numbers of texts, ``UNKNOWN`` for those that have none."""
        numbers = np.empty(len(texts), np.int64)
        _numbers(*join_bytes(texts), self._slots.array, *self.texts.arrays, numbers)
        return numbers

    def _index(self, first: int) -> None:
        """Index the texts from number ``first`` on."""
        if 2 * len(self.texts) > self._slots.array.size:
            # the number of slots is a power of two, and at most half are taken
            self._slots.grow(1 << (4 * len(self.texts) - 1).bit_length())
            self._slots.array[:] = first = 0
        _index(first, len(self.texts), self._slots.array, *self.texts.arrays)

    def save(self, store: Store) -> None:
        """Write the texts that are new."""
        self.texts.save(store)

    @classmethod
    def load(cls, store: Store) -> Names:
        """The names as they were saved."""
        names = cls()
        for entry, blob in sorted(store.items()):
            names.texts.restore(entry, blob)
        names._index(0)
        return names


class Register:
    """The texts of all numbers, whichever part assigned them."""

    def __init__(self, parts: int) -> None:
        self._parts = [Texts() for _ in range(parts)]

    def learn(self, part: int, first: int, texts: pa.StringArray) -> None:
        """Add the names that a part assigned, from its number ``first`` on; a repetition changes nothing."""
        mine = self._parts[part]
        if first == len(mine):
            mine.add(texts)
        elif first + len(texts) > len(mine):
            raise BadInput(
                "Names of vehicles are missing.", hint="Use an earlier checkpoint.", code="damaged-checkpoint"
            )

    def texts(self, numbers: Longs | Ints) -> pa.StringArray:
        """The texts of numbers."""
        whole, parts = numbers.astype(np.int64), len(self._parts)
        if parts == 1:
            return self._parts[0].take(whole)
        order = np.argsort(whole % parts, kind="stable")
        found: list[Any] = [self._parts[p].take(whole[whole % parts == p] // parts) for p in range(parts)]
        back = np.empty(whole.size, np.int64)
        back[order] = np.arange(whole.size)
        return pa.concat_arrays(found).take(pa.array(back))

    def save(self, store: Store) -> None:
        """Write the texts that are new."""
        for part, texts in enumerate(self._parts):
            texts.save(store, part)

    @classmethod
    def load(cls, parts: int, store: Store) -> Register:
        """The register as it was saved."""
        register = cls(parts)
        for entry, blob in sorted(store.items()):
            register._parts[entry >> 32].restore(entry, blob)
        return register
