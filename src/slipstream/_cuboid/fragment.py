"""One fragment of a cuboid in memory: rows in a NumPy table, found through an open-addressing hash index.

``locate`` and ``insert`` are kernels, so that other kernels can use a fragment without leaving compiled code; they take
``Fragment.parts``. Rows that change are marked; ``delta`` returns the marked rows, and ``apply`` applies their bytes to
another copy of the fragment. A publisher makes it record its ``changes``.

Rows are copied by ``take``, ``put`` and ``compress``: NumPy's indexing copies records field by field, much more slowly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from slipstream._cuboid.schema import AST, KEY, Schema
from slipstream._errors import BadInput
from slipstream._runtime.state import shared_arrays
from slipstream._runtime.state.id_numbers import Names
from slipstream._tools.numba_tools import Bools, Ints, Longs, compiled

EMPTY = -1
_LEAST = 1024
_INT: np.dtype[Any] = np.dtype(np.int32)
_BOOL: np.dtype[Any] = np.dtype(np.bool_)
#: the smallest index that is worth preparing in advance, and the longest list of changes that is kept
_LARGE = 1 << 20


class Parts(NamedTuple):
    """The arrays of a fragment, for kernels."""

    rows: npt.NDArray[np.void]
    slots: Ints  # row of each hash place, EMPTY where there is none; its length is a power of two
    size: Ints  # two elements: how many rows there are, and how many are listed in ``changed``
    touched: Bools  # whether a row has changed since the last delta
    changed: Ints  # the rows in the order in which they changed; those removed since then are not ``touched``


@compiled
def place_of(key: int, places: int) -> int:
    """Return where the search for a key begins (Fibonacci hashing: Knuth, vol. 3, 6.4)."""
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return int(np.int64(mixed >> np.uint64(20))) & (places - 1)


@compiled
def locate(parts: Parts, key: int) -> int:
    """The row of a key, or EMPTY."""
    places = parts.slots.size
    place = place_of(key, places)
    while True:
        row = parts.slots[place]
        if row == EMPTY or parts.rows[row].key == key:
            return int(row)
        place = (place + 1) & (places - 1)


@compiled
def free_place(slots: Ints, key: int) -> int:
    """The hash place for a key that has none yet."""
    place = place_of(key, slots.size)
    while slots[place] != EMPTY:
        place = (place + 1) & (slots.size - 1)
    return int(place)


@compiled
def insert(parts: Parts, key: int) -> int:
    """Add a row for a new key; there must be room for it."""
    row = parts.size[0]
    parts.slots[free_place(parts.slots, key)] = row
    parts.rows[row].key = key
    parts.size[0] = row + 1
    return int(row)


@compiled
def find_slot(parts: Parts, key: int) -> int:
    """The hash place of an existing key."""
    places = parts.slots.size
    place = place_of(key, places)
    while parts.rows[parts.slots[place]].key != key:
        place = (place + 1) & (places - 1)
    return int(place)


@compiled
def empty_slot(parts: Parts, hole: int) -> None:
    """Empty a hash place and close the gap, so that every key is still found (Knuth, vol. 3, 6.4, algorithm R)."""
    places = parts.slots.size
    place = hole
    while True:
        parts.slots[hole] = EMPTY
        while True:
            place = (place + 1) & (places - 1)
            row = parts.slots[place]
            if row == EMPTY:
                return
            home = place_of(parts.rows[row].key, places)
            if ((place - home) & (places - 1)) >= ((place - hole) & (places - 1)):
                break
        parts.slots[hole] = row
        hole = place


@compiled
def touch_all(parts: Parts, rows: Ints) -> None:
    """Mark rows as changed; there must be room in the list.

    The counter is a local variable: in memory, it would have to be read again after every other write.
    """
    count = parts.size[1]
    for i in range(rows.size):
        row = rows[i]
        if not parts.touched[row]:
            parts.touched[row] = True
            parts.changed[count] = row
            count += 1
    parts.size[1] = count


@compiled
def touch(parts: Parts, row: int) -> None:
    """Mark one row as changed; ``touch_all`` is faster for many."""
    if not parts.touched[row]:
        parts.touched[row] = True
        parts.changed[parts.size[1]] = row
        parts.size[1] += 1


@compiled
def take_changed(parts: Parts) -> Ints:
    """Return the rows that changed, each once, and unmark them."""
    rows, count = np.empty(parts.size[1], dtype=np.int32), 0
    for i in range(rows.size):
        row = parts.changed[i]
        if parts.touched[row]:
            parts.touched[row] = False
            rows[count] = row
            count += 1
    parts.size[1] = 0
    return rows[:count]


@compiled
def remove_all(parts: Parts, coming: Parts, done: int, keys: Longs) -> None:
    """Remove the rows of keys; the last row replaces each, so that rows stay dense.

    ``coming`` is the fragment with its next index, which has the first ``done`` rows.
    """
    for i in range(keys.size):
        row = locate(parts, keys[i])
        if row == EMPTY:
            continue
        empty_slot(parts, find_slot(parts, keys[i]))
        if row < done:
            empty_slot(coming, find_slot(coming, keys[i]))
        last = parts.size[0] - 1
        if row != last:
            moved = parts.rows[last].key
            parts.slots[find_slot(parts, moved)] = row
            if last < done:
                coming.slots[find_slot(coming, moved)] = row
            elif row < done:
                coming.slots[free_place(coming.slots, moved)] = row
            parts.rows[row] = parts.rows[last]
            parts.touched[row] = False
            if parts.touched[last]:
                touch(parts, row)
        parts.touched[last] = False
        parts.size[0] = last
        done = min(done, last)


@compiled
def locate_all(parts: Parts, keys: Longs) -> Ints:
    """The rows of many keys."""
    found = np.empty(keys.size, dtype=np.int32)
    for i in range(keys.size):
        found[i] = locate(parts, keys[i])
    return found


@compiled
def upsert_all(parts: Parts, keys: Longs) -> Ints:
    """Find the rows of many keys; add missing ones."""
    found = np.empty(keys.size, dtype=np.int32)
    for i in range(keys.size):
        row = locate(parts, keys[i])
        found[i] = insert(parts, keys[i]) if row == EMPTY else row
    return found


@compiled
def append_all(ring: npt.NDArray[Any], counts: npt.NDArray[Any], rows: Ints, values: npt.NDArray[Any]) -> None:
    """Append elements to the atomic streams of ``rows``, in arrival order; each replaces the oldest."""
    depth = ring.shape[1]
    for i in range(rows.size):
        ring[rows[i], counts[rows[i]] % depth] = values[i]
        counts[rows[i]] += 1


@compiled
def index_all(rows: npt.NDArray[np.void], slots: Ints, first: int, last: int) -> None:
    """Add rows to an index that has none of their keys."""
    for row in range(first, last):
        slots[free_place(slots, rows[row].key)] = row


def _count_places(rows: int) -> int:
    """Places of an index: at most two thirds are taken."""
    return 1 << (3 * rows // 2).bit_length()


@dataclass
class NextIndex:
    """An index that is prepared while a smaller one is in use; it has the first ``done`` rows."""

    slots: shared_arrays.SharedArray
    done: int = 0

    @classmethod
    def of(cls, places: int) -> NextIndex:
        """An empty one."""
        slots = shared_arrays.SharedArray(_INT, places)
        slots.array[:] = EMPTY
        return cls(slots)

    def take(self, rows: npt.NDArray[np.void], until: int) -> None:
        """Add the rows up to ``until`` that it does not have yet."""
        index_all(rows, self.slots.array, self.done, until)
        self.done = max(self.done, until)


@dataclass
class Changes:
    """The changes of a fragment since it was last published."""

    deltas: list[bytes] = field(default_factory=list)
    forgotten: list[Longs] = field(default_factory=list)
    tail: int = 0  # bytes, and files, published since the last whole image
    files: int = 0
    named: int = 0  # names of keys that were published


class Fragment:
    """The rows of one fragment of a cuboid.

    >>> cars = Fragment(Schema("CAR", (AST("speed", "i4", 3),)))
    >>> cars.append("speed", np.array([100, 100, 7]), np.array([55, 60, 30]))
    >>> cars.stream(100, "speed")
    array([60, 55], dtype=int32)

    Where keys are texts, rows hold the numbers that ``names`` gives them.
    """

    def __init__(self, schema: Schema, room: int = _LEAST) -> None:
        self.schema = schema
        self.names = Names() if schema.text_key else None
        self.changes: Changes | None = None
        self._next: NextIndex | None = None
        self._hand = 0  # the row that the next sweep begins with
        self._allocate(room)

    @classmethod
    def of(cls, schema: Schema, rows: npt.NDArray[np.void], slots: Ints, size: int) -> Fragment:
        """A fragment over existing arrays, private to this process, that has ``size`` rows."""
        fragment = cls.__new__(cls)
        fragment.schema, fragment.names, fragment.changes = schema, Names() if schema.text_key else None, None
        sizes, touched = np.array([size, 0], _INT), np.zeros(rows.size, np.bool_)
        parts = Parts(rows, slots, sizes, touched, np.empty(0, _INT))
        fragment._areas, fragment._next, fragment._hand = tuple(map(shared_arrays.SharedArray.wrap, parts)), None, 0
        fragment._refresh_views()
        return fragment

    @classmethod
    def with_rows(cls, schema: Schema, rows: npt.NDArray[np.void]) -> Fragment:
        """A fragment private to this process, with these rows, whose keys are distinct, and room for more."""
        room = max(_LEAST, 3 * rows.size // 2)
        held, slots = np.zeros(room, schema.dtype), np.full(_count_places(room), EMPTY, _INT)
        held[: rows.size] = rows
        index_all(held, slots, 0, rows.size)
        return cls.of(schema, held, slots, rows.size)

    def _allocate(self, room: int) -> None:
        room = max(_LEAST, room)
        forms = [(self.schema.dtype, room), (_INT, _count_places(room)), (_INT, 2), (_BOOL, room), (_INT, _LEAST)]
        self._areas: tuple[shared_arrays.SharedArray, ...] = tuple(
            shared_arrays.SharedArray(dtype, count) for dtype, count in forms
        )
        self._refresh_views()
        self.parts.slots[:] = EMPTY

    def _refresh_views(self) -> None:
        """Refresh the views of the arrays."""
        self.parts = Parts(*(area.array for area in self._areas))

    def __getstate__(self) -> tuple[Any, ...]:
        return self.schema, self.names, self.changes, self._areas, self._next, self._hand

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.schema, self.names, self.changes, self._areas, self._next, self._hand = state
        self._refresh_views()

    def __len__(self) -> int:
        return int(self.parts.size[0])

    @property
    def rows(self) -> npt.NDArray[np.void]:
        """All rows, in the order in which their keys were added."""
        return self.parts.rows[: len(self)]

    @property
    def nbytes(self) -> int:
        """The memory it occupies."""
        return sum(part.nbytes for part in self.parts) + (self._next.slots.array.nbytes if self._next else 0)

    def make_room(self, more: int) -> None:
        """Make room for ``more`` new keys, and as many changes."""
        needed = len(self) + more
        if needed > self.parts.rows.size:
            rows, _, _, touched, _ = self._areas
            rows.grow(3 * needed // 2)
            touched.grow(3 * needed // 2)
        self._make_room_in_list(more)
        if _count_places(needed) > self.parts.slots.size:
            self._change_index(_count_places(needed))
        else:
            self._prepare_index()
        self._refresh_views()

    def _make_room_in_list(self, more: int) -> None:
        """Make room for ``more`` changes."""
        needed = int(self.parts.size[1]) + more
        if needed > self.parts.changed.size:
            self._areas[-1].grow(3 * needed // 2)
            self._refresh_views()

    def _shorten_list(self) -> None:
        """Release the memory of a long list, such as that of a fragment that was filled at once."""
        if self.parts.changed.size > _LARGE:
            *others, changed = self._areas
            changed.drop()
            self._areas = (*others, shared_arrays.SharedArray(_INT, _LEAST))
            self._refresh_views()

    def _prepare_index(self) -> None:
        """Add some rows to the next index, so that it is complete when this one becomes too small.

        Indexing millions of rows at once would delay a stream by seconds.
        """
        places, size = self.parts.slots.size, len(self)
        begin, end = places // 2, 5 * places // 8
        if places < _LARGE or size <= begin:
            return
        if self._next is None:
            self._next = NextIndex.of(2 * places)
        self._next.take(self.parts.rows, min(size, size * (size - begin) // (end - begin)))

    def _change_index(self, places: int) -> None:
        """Switch to a larger index, which may have been prepared."""
        if self._next is None or self._next.slots.array.size < places:
            self._drop_next()
            self._next = NextIndex.of(places)
        rows, old, *others = self._areas
        self._next.take(rows.array, len(self))
        self._areas, self._next = (rows, self._next.slots, *others), None
        old.drop()

    def _drop_next(self) -> None:
        if self._next is not None:
            self._next.slots.drop()
            self._next = None

    def keep(self, wanted: Bools) -> None:
        """Remove the rows that are not ``wanted``."""
        if not wanted.all():
            self._note_forgotten(self.rows[KEY][~wanted])
            rows, touched = (part[: len(self)].compress(wanted) for part in (self.parts.rows, self.parts.touched))
            self._rebuild(rows, touched, rows.size + _LEAST)

    def _note_forgotten(self, keys: Longs) -> None:
        if self.changes is not None and keys.size:
            self.changes.forgotten.append(keys)

    def remove(self, keys: Longs) -> None:
        """Remove the rows of ``keys``, in time proportional to their number."""
        self._note_forgotten(keys)
        self._make_room_in_list(keys.size)
        before, done = len(self), self._next.done if self._next else 0
        coming = self.parts._replace(slots=self._next.slots.array) if self._next else self.parts
        remove_all(self.parts, coming, done, keys)
        if self._next:
            self._next.done = min(done, len(self))
        # new rows must be zero
        self.parts.rows[len(self) : before] = np.zeros((), self.schema.dtype)

    def sweep(self, name: str, least: int, look: int) -> None:
        """Examine the next ``look`` rows, cyclically, and remove those whose ``name`` is below ``least``.

        Removing all old rows at once would delay a stream by seconds.
        """
        first = self._hand if self._hand < len(self) else 0
        self._hand = first + look
        seen = self.rows[first : self._hand]
        self.remove(seen[KEY][seen[name] < least])

    def _rebuild(self, rows: npt.NDArray[np.void], touched: Bools, room: int) -> None:
        self._drop_next()
        for area in self._areas:
            area.drop()
        self._allocate(room)
        self.parts.rows[: rows.size] = rows
        self.parts.size[0] = rows.size
        index_all(self.parts.rows, self.parts.slots, 0, rows.size)
        self._mark(np.flatnonzero(touched).astype(np.int32))

    def clear(self) -> None:
        """Remove all rows."""
        self._note_forgotten(self.rows[KEY].copy())
        self._drop_next()
        self.parts.touched[: len(self)] = False
        self.parts.slots[:] = EMPTY
        self.parts.size[:] = 0

    def _mark(self, rows: Ints) -> None:
        """Mark rows as changed."""
        self._make_room_in_list(rows.size)
        touch_all(self.parts, rows)

    def upsert(self, keys: Longs) -> Ints:
        """Find the rows of ``keys``; add missing ones, and mark all as changed."""
        self.make_room(keys.size)
        rows = upsert_all(self.parts, keys.astype(np.int64))
        self._mark(rows)
        return rows

    def find(self, keys: Longs) -> Ints:
        """The rows of ``keys``, EMPTY where there is none."""
        return locate_all(self.parts, keys.astype(np.int64))

    def append(self, name: str, keys: Longs, values: npt.NDArray[Any]) -> None:
        """Append one element per key to an atomic stream, in the order given."""
        stream = self.schema.stream(name)
        rows = self.upsert(keys)
        append_all(self.parts.rows[stream.name], self.parts.rows[stream.count], rows, values)

    def stream(self, key: int, name: str) -> npt.NDArray[Any]:
        """The elements of an atomic stream, latest first; empty for an unknown key."""
        stream: AST = self.schema.stream(name)
        row = locate(self.parts, key)
        if row == EMPTY:
            return np.empty(0, dtype=stream.dtype)
        count = int(self.parts.rows[stream.count][row])
        back = np.arange(1, min(count, stream.depth) + 1)
        return np.asarray(self.parts.rows[stream.name][row][(count - back) % stream.depth])

    def delta(self) -> npt.NDArray[np.void]:
        """The rows changed since the last delta, sorted by key, which compresses well."""
        rows = self.parts.rows.take(take_changed(self.parts))
        delta = rows.take(np.argsort(rows[KEY]))
        self._shorten_list()
        if self.changes is not None:
            self.changes.deltas.append(delta.tobytes())
        return delta

    def put(self, rows: npt.NDArray[np.void]) -> None:
        """Write whole rows, and mark them as changed."""
        places = self.upsert(rows[KEY].copy())  # first: it may move the rows
        self.parts.rows.put(places, rows)

    def apply(self, delta: bytes) -> None:
        """Apply the bytes of a delta's rows."""
        rows = decode(self.schema, delta)
        keys = np.ascontiguousarray(rows[KEY])
        if len(self) + keys.size > self.parts.rows.size:
            self.make_room(int((self.find(keys) == EMPTY).sum()))
        self.parts.rows.put(upsert_all(self.parts, keys), rows)


def decode(schema: Schema, delta: bytes) -> npt.NDArray[np.void]:
    """The rows in the bytes of a delta."""
    if len(delta) % schema.dtype.itemsize:
        raise BadInput(
            f"State of cuboid {schema.name} is damaged: {len(delta)} bytes.",
            hint="Use an earlier checkpoint.",
            code="damaged-checkpoint",
        )
    return np.frombuffer(delta, dtype=schema.dtype)
