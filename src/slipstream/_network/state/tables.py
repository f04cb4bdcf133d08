"""Tables that know what changed: how boxes keep their state in memory, and how it rests in a store.

A table has rows in numbered slots, in memory that all Python workers of a machine see. Slots that were written or
emptied are noted, and ``Log`` writes just these to a store, as numbered deltas. With every delta it also writes some
rows that did not change, as many bytes as did; when it has been round all tables, the deltas from before the round are
not needed any more. So what is written is at most twice what changed, the log holds what two rounds wrote, and no
batch reads or rewrites the whole.

A cuboid's fragment and its log (``cuboid.log``) do the same for rows of fixed width that are found by one integer key
and expire all at once. Rows of boxes have no key, may hold texts, and each goes when its window has passed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slipstream._cuboid.log import LARGE, expanded, squeezed
from slipstream._errors import BadInput
from slipstream._network.tasks.packing import pack, turned
from slipstream._network.tasks.packing import unpack as unpack_columns
from slipstream._runtime.shared_arrays import SharedArray
from slipstream._runtime.store import Store
from slipstream._tools.numba_tools import Bools, Bytes, Longs, compiled

Array: TypeAlias = npt.NDArray[Any]

INTEGER, FLOAT, TEXT = "integer", "float", "text"
#: what the first word of a row says: whether the slot is taken, was changed, and is in the log
LIVE, CHANGED, STORED = 1, 2, 4
NONE = -1
_LEAST = 64
_LONG: np.dtype[Any] = np.dtype(np.int64)
_BYTE: np.dtype[Any] = np.dtype(np.uint8)
#: table, bytes of its rows, of the slots that were emptied, of the rows' texts
_SECTION = struct.Struct("<iqqq")
#: where the round began, and the table and the slot at which it goes on
_HEADER = struct.Struct("<qqq")
#: rows of a section, so that no section is much larger than an entry should be
_ROWS = 1 << 18

_NOTHING: Longs = np.empty(0, np.int64)


# --- texts


@compiled
def copy_in(heap: Bytes, size: int, data: Bytes, offsets: Longs) -> Longs:
    """Put texts behind each other, each after its length in four bytes; gives where they begin."""
    places = np.empty(offsets.size - 1, np.int64)
    for i in range(offsets.size - 1):
        length = offsets[i + 1] - offsets[i]
        places[i] = size
        for k in range(4):
            heap[size + k] = (length >> (8 * k)) & 255
        heap[size + 4 : size + 4 + length] = data[offsets[i] : offsets[i + 1]]
        size += 4 + length
    return places


@compiled
def length_at(heap: Bytes, place: int) -> int:
    """The bytes of the text at a place."""
    length = np.int64(0)
    for k in range(4):
        length |= np.int64(heap[place + k]) << np.int64(8 * k)
    return int(length)


@compiled
def copy_out(heap: Bytes, places: Longs) -> tuple[Longs, Bytes]:
    """Texts as Arrow has them: where each begins, and all bytes; a place of -1 is an empty one."""
    offsets = np.zeros(places.size + 1, np.int64)
    for i in range(places.size):
        offsets[i + 1] = offsets[i] + (length_at(heap, places[i]) if places[i] >= 0 else 0)
    data = np.empty(offsets[-1], np.uint8)
    for i in range(places.size):
        if places[i] >= 0:
            begin = places[i] + 4
            data[offsets[i] : offsets[i + 1]] = heap[begin : begin + offsets[i + 1] - offsets[i]]
    return offsets, data


@compiled
def bytes_at(heap: Bytes, places: Longs) -> int:
    """The memory that texts take."""
    total = 4 * places.size
    for place in places:
        if place >= 0:
            total += length_at(heap, place)
    return total


class Texts:
    """Texts behind each other in shared memory, known by where they begin; null is ``NONE``.

    >>> texts = Texts()
    >>> places = texts.add(np.array(["one", None, "three"], object))
    >>> texts.take(places[::-1]).tolist()
    ['three', None, 'one']
    """

    def __init__(self) -> None:
        self._heap = SharedArray(_BYTE, _LEAST)
        self.size = 0

    @property
    def heap(self) -> Bytes:
        """The bytes."""
        return self._heap.array

    def make_room(self, more: int) -> None:
        """Be ready for so many bytes."""
        if self.size + more > self.heap.size:
            self._heap.grow(2 * (self.size + more))

    def add(self, values: Array) -> Longs:
        """Where the texts are now."""
        data, offsets, null = arrow_texts(values)
        return self._put(data, offsets, null)

    def add_from(self, heap: Bytes, places: Longs) -> Longs:
        """Take over texts from another's bytes; gives where they are here."""
        offsets, data = copy_out(heap, places)
        return self._put(data, offsets, places == NONE)

    def _put(self, data: Bytes, offsets: Longs, null: Bools) -> Longs:
        self.make_room(data.size + 4 * null.size)
        places = copy_in(self.heap, self.size, data, offsets)
        self.size += data.size + 4 * null.size
        places[null] = NONE
        return places

    def add_raw(self, raw: bytes) -> int:
        """Take over bytes as they lie in another; gives where they begin."""
        self.make_room(len(raw))
        begin = self.size
        self.heap[begin : begin + len(raw)] = np.frombuffer(raw, np.uint8)
        self.size += len(raw)
        return begin

    def take(self, places: Longs) -> Array:
        """The texts at places."""
        offsets, data = copy_out(self.heap, np.ascontiguousarray(places))
        texts = pa.LargeStringArray.from_buffers(places.size, pa.py_buffer(offsets), pa.py_buffer(data))
        found = texts.to_numpy(zero_copy_only=False)
        found[places == NONE] = None
        return np.asarray(found, object)

    def drop(self) -> None:
        """Give the memory back."""
        self._heap.drop()


def arrow_texts(values: Array) -> tuple[Bytes, Longs, Bools]:
    """A column of texts as bytes, where each begins in them, and which are null."""
    array = pa.array(values, pa.large_string(), from_pandas=True)
    _, offsets, data = array.buffers()
    starts = np.frombuffer(offsets, np.int64, len(array) + 1) if offsets else np.zeros(1, np.int64)
    content = np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
    return content.copy(), starts.copy(), np.asarray(array.is_null().to_numpy(zero_copy_only=False), np.bool_)


# --- tables


@compiled
def reuse(rows: npt.NDArray[np.int64], free: int, slots: Longs) -> tuple[int, int]:
    """Take slots from those that are free, as far as there are any: the next free one, and how many were taken."""
    taken = 0
    while taken < slots.size and free != NONE:
        slots[taken] = free
        free = rows[free, 1]
        taken += 1
    return free, taken


@compiled
def begin(rows: npt.NDArray[np.int64], slots: Longs) -> None:
    """Mark slots as taken; whether the log has something at them stays as it is."""
    for slot in slots:
        rows[slot, 0] = (rows[slot, 0] & STORED) | LIVE


@compiled
def empty(rows: npt.NDArray[np.int64], free: int, slots: Longs) -> int:
    """Free slots; the first word of a free row says which one is free after it."""
    for slot in slots:
        rows[slot, 0] &= ~LIVE
        rows[slot, 1] = free
        free = slot
    return free


@compiled
def mark(rows: npt.NDArray[np.int64], slots: Longs, marked: Longs, count: int) -> int:
    """Note those of ``slots`` that are not noted yet; gives how many there are now."""
    for slot in slots:
        if not rows[slot, 0] & CHANGED:
            rows[slot, 0] |= CHANGED
            marked[count] = slot
            count += 1
    return count


@compiled
def settle(rows: npt.NDArray[np.int64], marked: Longs) -> tuple[Longs, Longs]:
    """Of the slots that were noted, those to write, and those that the log must forget; none is noted after it."""
    put, gone = np.empty_like(marked), np.empty_like(marked)
    puts = gones = 0
    for slot in marked:
        state = rows[slot, 0]
        if state & LIVE:
            put[puts] = slot
            puts += 1
            rows[slot, 0] = LIVE | STORED
        else:
            if state & STORED:
                gone[gones] = slot
                gones += 1
            rows[slot, 0] = 0
    return put[:puts].copy(), gone[:gones].copy()


@compiled
def live_between(rows: npt.NDArray[np.int64], first: int, last: int) -> Longs:
    """The slots of a range that are taken."""
    found = np.empty(last - first, np.int64)
    count = 0
    for slot in range(first, last):
        if rows[slot, 0] & LIVE:
            found[count] = slot
            count += 1
    return found[:count].copy()


class Table:
    """Rows in slots: integers, floats and texts that are stored, and words for whoever finds rows by links.

    ``links`` are integers that follow from the rest, so they are not stored: whoever keeps them makes them again.

    >>> cars = Table({"vid": INTEGER, "plate": TEXT})
    >>> slots = cars.add({"vid": np.array([7, 8]), "plate": np.array(["B-X", None], object)}, 2)
    >>> cars.remove(slots[:1])
    >>> cars.take("plate", cars.slots()).tolist()
    [None]
    """

    def __init__(self, columns: Mapping[str, str], links: Sequence[str] = ()) -> None:
        self.columns = dict(columns)
        self._place = {name: place for place, name in enumerate((*columns, *links), 1)}
        self._width = 1 + max(len(self._place), 1)
        self._stored = 1 + len(columns)
        self._area = SharedArray(_LONG, _LEAST * self._width)
        self.size = 0  # slots that have ever been taken
        self.count = 0  # that are now
        self._free = NONE
        self._changed: list[Longs] = []
        self.texts = Texts() if TEXT in columns.values() else None  # of all its columns
        self._textual = tuple(name for name, kind in columns.items() if kind == TEXT)
        self._garbage = 0

    def __len__(self) -> int:
        return self.count

    @property
    def room(self) -> int:
        """The slots that there is memory for."""
        return int(self._area.array.size // self._width)

    @property
    def row_bytes(self) -> int:
        """The bytes of a row that are stored, texts not counted."""
        return 8 * self._stored

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """All memory as a matrix; floats lie in it bit by bit, texts by their places."""
        return self._area.array.reshape(-1, self._width)

    def place(self, name: str) -> int:
        """The column of the matrix in which a column or a link lies."""
        return self._place[name]

    def make_room(self, more: int) -> None:
        """Be ready for so many rows."""
        if self.size + more > self.room:
            self._area.grow(2 * (self.size + more) * self._width)

    def block(self, first: str, count: int, kind: str) -> Array:
        """A few neighbouring columns of one kind, as a matrix to read and write."""
        rows = self.rows if kind == INTEGER else self.rows.view(np.float64)
        return rows[:, self._place[first] : self._place[first] + count]

    def values(self, name: str) -> Array:
        """A column that is no text, or a link, as an array over all slots to read and write."""
        return self.block(name, 1, self.columns.get(name, INTEGER))[:, 0]

    def take(self, name: str, slots: Longs) -> Array:
        """A column of some rows."""
        if self.columns.get(name) == TEXT:
            assert self.texts is not None
            return self.texts.take(self.rows[slots, self._place[name]])
        return np.asarray(self.values(name)[slots])

    def slots(self) -> Longs:
        """All slots that are taken."""
        return live_between(self.rows, 0, self.size)

    def touch(self, slots: Longs) -> None:
        """Note that rows changed."""
        if slots.size:
            self._changed.append(slots)

    def add(self, columns: Mapping[str, Array], count: int) -> Longs:
        """Add rows; gives their slots."""
        slots = np.empty(count, np.int64)
        if not slots.size:
            return slots
        self._free, reused = reuse(self.rows, self._free, slots)
        self.make_room(slots.size - reused)
        slots[reused:] = np.arange(self.size, self.size + slots.size - reused)
        self.size += slots.size - reused
        self.count += slots.size
        begin(self.rows, slots)
        self.touch(slots)
        where = slots if reused else slice(self.size - slots.size, self.size)
        for name, kind in self.columns.items():
            if kind == TEXT:
                assert self.texts is not None
                self.rows[where, self._place[name]] = self.texts.add(columns[name])
            else:
                self.values(name)[where] = columns[name]
        return slots

    def put(self, name: str, slots: Longs, values: Array) -> None:
        """Change a column of some rows, each once; ``touch`` them as well."""
        if self.columns[name] != TEXT:
            self.values(name)[slots] = values
            return
        assert self.texts is not None
        self._garbage += bytes_at(self.texts.heap, self._text_places(name, slots))
        self.rows[slots, self._place[name]] = self.texts.add(values)
        if 2 * self._garbage > self.texts.size:
            self._collect()

    def remove(self, slots: Longs) -> None:
        """Forget rows; their slots will be used again."""
        if not slots.size:
            return
        if self.texts is not None:
            self._garbage += sum(bytes_at(self.texts.heap, self._text_places(name, slots)) for name in self._textual)
        self._free = empty(self.rows, self._free, slots)
        self.count -= slots.size
        self.touch(slots)
        if self.texts is not None and 2 * self._garbage > self.texts.size:
            self._collect()

    def _text_places(self, name: str, slots: Longs) -> Longs:
        return np.ascontiguousarray(self.rows[slots, self._place[name]])

    def _collect(self) -> None:
        """Leave the texts behind that nobody needs."""
        slots = self.slots()
        old, self.texts = self.texts, Texts()
        assert old is not None
        for name in self._textual:
            self.rows[slots, self._place[name]] = self.texts.add_from(old.heap, self._text_places(name, slots))
        old.drop()
        self._garbage = 0

    # --- what changed, and how it is written

    def changed(self) -> Longs:
        """The slots that were written or emptied since the last delta, each once."""
        parts, self._changed = self._changed, []
        marked = np.empty(min(sum(part.size for part in parts), self.size), np.int64)
        count = 0
        for part in parts:
            count = mark(self.rows, part, marked, count)
        return marked[:count]

    def more(self, first: int, last: int) -> Longs:
        """The taken slots of a range that have not changed; they are to be written as well."""
        slots = live_between(self.rows, first, last)
        marked = np.empty(slots.size, np.int64)
        return marked[: mark(self.rows, slots, marked, 0)]

    def encoded(self, number: int, put: Longs, gone: Longs) -> Iterator[bytes]:
        """Rows, and slots that were emptied, as sections of a delta of the table with this number."""
        for start in range(0, max(put.size, 1), _ROWS):
            slots = put[start : start + _ROWS]
            columns = turned(self.rows, slots, 1, self._stored)
            texts = self._taken_out(columns)
            parts = (
                pack(columns),
                pack(gone[None, :]) if not start else b"",
                squeezed(texts, 1) if texts else b"",
            )
            yield _SECTION.pack(number, *map(len, parts)) + b"".join(parts)

    def _taken_out(self, columns: npt.NDArray[np.int64]) -> bytes:
        """The bytes of the rows' texts; their columns say where they lie in these bytes."""
        if self.texts is None:
            return b""
        out = b""
        for name in self._textual:
            column = columns[self._place[name]]
            null = column == NONE
            offsets, data = copy_out(self.texts.heap, column.copy())
            heap = np.empty(data.size + 4 * null.size, np.uint8)
            column[:] = np.where(null, NONE, copy_in(heap, 0, data, offsets) + len(out))
            out += heap.tobytes()
        return out

    def apply(self, rows: bytes, gone: bytes, texts: bytes) -> None:
        """Take over what the parts of a section say; ``finish`` when all is taken over."""
        columns = unpack_columns(rows, self._stored)
        slots = columns[0]
        if self.texts is not None and slots.size:
            base = self.texts.add_raw(expanded(texts, 1) if texts else b"")
            for name in self._textual:
                column = columns[self._place[name]]
                column[column != NONE] += base
        if slots.size:
            self.make_room(max(int(slots.max()) + 1 - self.size, 0))
            self.size = max(self.size, int(slots.max()) + 1)
            self.rows[slots, 1 : self._stored] = columns[1:].T
            self.rows[slots, 0] = LIVE | STORED
        (emptied,) = unpack_columns(gone, 1)
        # what was there may have left the log before
        self.rows[emptied[emptied < self.size], 0] = 0

    def finish(self) -> None:
        """Find the free slots after a log has been taken over."""
        live = self.slots()
        taken = np.zeros(self.size, np.bool_)
        taken[live] = True
        self.count = live.size
        self._free = empty(self.rows, NONE, np.flatnonzero(~taken)[::-1].copy())
        if self.texts is not None:
            self._collect()


# --- logs


class _Change(NamedTuple):
    """What a table adds to a delta: slots that changed, and others that are due."""

    changed: Longs
    due: Longs = _NOTHING


class Log:
    """Some tables in a store, as deltas with growing numbers."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self._tables = tuple(tables)
        self._next = 0  # the number of the next delta
        self._oldest = 0
        self._round = 0  # the delta with which this round began
        self._hand = (0, 0)  # the table and the slot with which it goes on

    def save(self, store: Store) -> None:
        """Write what changed since the last time."""
        changes = [_Change(table.changed()) for table in self._tables]
        credit = sum(change.changed.size * t.row_bytes for change, t in zip(changes, self._tables, strict=True))
        if not credit:
            return
        is_round = self._go_on(changes, credit)
        sections: list[bytes] = []
        for number, (table, change) in enumerate(zip(self._tables, changes, strict=True)):
            if change.changed.size or change.due.size:
                marked = np.concatenate([change.changed, change.due])
                sections.extend(table.encoded(number, *settle(table.rows, np.sort(marked))))
        header = _HEADER.pack(self._round, *self._hand)
        for entry in _entries(sections):
            store.put(self._next, header + entry)
            self._next += 1
        if is_round:
            for number in range(self._oldest, self._round):
                store.remove(number)
            self._oldest, self._round = self._round, self._next

    def _go_on(self, changes: list[_Change], credit: int) -> bool:
        """Add rows that did not change, as many bytes as did; whether that completes a round."""
        number, slot = self._hand
        while number < len(self._tables) and credit > 0:
            table = self._tables[number]
            last = min(slot + -(-credit // table.row_bytes), table.size)
            due = table.more(slot, last)
            changes[number] = changes[number]._replace(due=np.concatenate([changes[number].due, due]))
            credit -= (last - slot) * table.row_bytes
            number, slot = (number, last) if last < table.size else (number + 1, 0)
        is_round = number == len(self._tables)
        self._hand = (0, 0) if is_round else (number, slot)
        return is_round

    def load(self, store: Store) -> None:
        """Bring empty tables to what the log says."""
        entries = sorted(store.items())
        for _, blob in entries:
            take_over(self._tables, blob[_HEADER.size :])
        if entries:
            self._oldest, self._next = entries[0][0], entries[-1][0] + 1
            self._round, *hand = _HEADER.unpack_from(entries[-1][1])
            self._hand = (hand[0], hand[1])
            if self._hand == (0, 0):  # a round had just been completed
                self._round = self._next
        for table in self._tables:
            table.finish()


def _entries(sections: Sequence[bytes]) -> Iterator[bytes]:
    """Sections put together, as many as an entry should have."""
    parts: list[bytes] = []
    for section in sections:
        if parts and sum(map(len, parts)) + len(section) > LARGE:
            yield b"".join(parts)
            parts = []
        parts.append(section)
    yield b"".join(parts)


def take_over(tables: Sequence[Table], blob: bytes) -> None:
    """Apply the sections of a delta."""
    begin = 0
    while begin < len(blob):
        if begin + _SECTION.size > len(blob):
            raise BadInput("State of a box is damaged.", hint="Use an earlier checkpoint.")
        number, *lengths = _SECTION.unpack_from(blob, begin)
        begin += _SECTION.size
        table, parts = tables[number], []
        for length in lengths:
            parts.append(blob[begin : begin + length])
            begin += length
        table.apply(*parts)
