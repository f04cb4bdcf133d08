"""Tables that track changes: the state of boxes in memory, and its log in a store.

A table has rows in numbered slots, in memory that all Python workers of a machine share. Slots that were written or
emptied are recorded, and ``Log`` writes only these to a store, as numbered deltas. With every delta it also writes some
unchanged rows, as many bytes as changed; when it has been through all tables, the deltas from before that round are no
longer needed. So it writes at most twice what changed, the log has what two rounds wrote, and no batch reads or
rewrites everything.

A cuboid's fragment and its log (``_cuboid.log``) do the same for rows of fixed width that are found by one integer key
and expire together. Rows of boxes have no key, may have texts, and expire one by one when their window has passed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slipstream._cuboid.log import LARGE, compress_rows, decompress_rows
from slipstream._errors import BadInput
from slipstream._network.tasks.packing import pack, transpose
from slipstream._network.tasks.packing import unpack as unpack_columns
from slipstream._runtime.state.shared_arrays import SharedArray
from slipstream._runtime.state.store import Store
from slipstream._tools.numba_tools import Bools, Bytes, Longs, compiled

Array: TypeAlias = npt.NDArray[Any]

INTEGER, FLOAT, TEXT = "integer", "float", "text"
#: flags in the first word of a row: the slot is taken, was changed, and is in the log
LIVE, CHANGED, STORED = 1, 2, 4
NONE = -1
_LEAST = 64
_LONG: np.dtype[Any] = np.dtype(np.int64)
_BYTE: np.dtype[Any] = np.dtype(np.uint8)
#: table, bytes of its rows, of the slots that were emptied, of the rows' texts
_SECTION = struct.Struct("<iqqq")
#: where the round began, and the table and the slot at which it continues
_HEADER = struct.Struct("<qqq")
#: rows of a section, so that no section is much larger than an entry should be
_ROWS = 1 << 18

_NOTHING: Longs = np.empty(0, np.int64)


# --- texts


@compiled
def copy_in(heap: Bytes, size: int, data: Bytes, offsets: Longs) -> Longs:
    """Append texts, each after its length in four bytes; returns where they begin."""
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
    """Convert texts to Arrow's form: where each begins, and all bytes; a position of -1 is an empty text."""
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
    """The memory that texts occupy."""
    total = 4 * places.size
    for place in places:
        if place >= 0:
            total += length_at(heap, place)
    return total


class TextHeap:
    """Concatenated texts in shared memory, identified by their positions; null is ``NONE``.

    >>> texts = TextHeap()
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
        """Make room for this many bytes."""
        if self.size + more > self.heap.size:
            self._heap.grow(2 * (self.size + more))

    def add(self, values: Array) -> Longs:
        """Add texts; returns their positions."""
        data, offsets, null = arrow_texts(values)
        return self._put(data, offsets, null)

    def add_from(self, heap: Bytes, places: Longs) -> Longs:
        """Copy texts from another heap; returns their positions here."""
        offsets, data = copy_out(heap, places)
        return self._put(data, offsets, places == NONE)

    def _put(self, data: Bytes, offsets: Longs, null: Bools) -> Longs:
        self.make_room(data.size + 4 * null.size)
        places = copy_in(self.heap, self.size, data, offsets)
        self.size += data.size + 4 * null.size
        places[null] = NONE
        return places

    def add_raw(self, raw: bytes) -> int:
        """Append the bytes of another heap; returns where they begin."""
        self.make_room(len(raw))
        begin = self.size
        self.heap[begin : begin + len(raw)] = np.frombuffer(raw, np.uint8)
        self.size += len(raw)
        return begin

    def take(self, places: Longs) -> Array:
        """The texts at positions."""
        offsets, data = copy_out(self.heap, np.ascontiguousarray(places))
        texts = pa.LargeStringArray.from_buffers(places.size, pa.py_buffer(offsets), pa.py_buffer(data))
        found = texts.to_numpy(zero_copy_only=False)
        found[places == NONE] = None
        return np.asarray(found, object)

    def drop(self) -> None:
        """Release the memory."""
        self._heap.drop()


def arrow_texts(values: Array) -> tuple[Bytes, Longs, Bools]:
    """The bytes of a column of texts, where each begins, and which are null."""
    array = pa.array(values, pa.large_string(), from_pandas=True)
    _, offsets, data = array.buffers()
    starts = np.frombuffer(offsets, np.int64, len(array) + 1) if offsets else np.zeros(1, np.int64)
    content = np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
    return content.copy(), starts.copy(), np.asarray(array.is_null().to_numpy(zero_copy_only=False), np.bool_)


# --- tables


@compiled
def reuse(rows: npt.NDArray[np.int64], free: int, slots: Longs) -> tuple[int, int]:
    """Reuse free slots, as far as there are any; returns the next free one, and how many were reused."""
    taken = 0
    while taken < slots.size and free != NONE:
        slots[taken] = free
        free = rows[free, 1]
        taken += 1
    return free, taken


@compiled
def mark_taken(rows: npt.NDArray[np.int64], slots: Longs) -> None:
    """Mark slots as taken, without changing whether the log has them."""
    for slot in slots:
        rows[slot, 0] = (rows[slot, 0] & STORED) | LIVE


@compiled
def free_slots(rows: npt.NDArray[np.int64], free: int, slots: Longs) -> int:
    """Free slots; a free row has the number of the next free one."""
    for slot in slots:
        rows[slot, 0] &= ~LIVE
        rows[slot, 1] = free
        free = slot
    return free


@compiled
def record_changes(rows: npt.NDArray[np.int64], slots: Longs, marked: Longs, count: int) -> int:
    """Record those of ``slots`` that are not recorded yet; returns the new count."""
    for slot in slots:
        if not rows[slot, 0] & CHANGED:
            rows[slot, 0] |= CHANGED
            marked[count] = slot
            count += 1
    return count


@compiled
def settle(rows: npt.NDArray[np.int64], marked: Longs) -> tuple[Longs, Longs]:
    """Split the recorded slots into those to write and those to remove from the log; clears the record."""
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


class StateTable:
    """Rows in slots: integers, floats and texts that are stored, and links.

    ``links`` are integers that are derived from the rest, so they are not stored, but rebuilt.

    >>> cars = StateTable({"vid": INTEGER, "plate": TEXT})
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
        self.size = 0  # slots that were ever taken
        self.count = 0  # slots that are taken now
        self._free = NONE
        self._changed: list[Longs] = []
        self.texts = TextHeap() if TEXT in columns.values() else None  # of all its columns
        self._textual = tuple(name for name, kind in columns.items() if kind == TEXT)
        self._garbage = 0

    def __len__(self) -> int:
        return self.count

    @property
    def room(self) -> int:
        """The number of slots in the allocated memory."""
        return int(self._area.array.size // self._width)

    @property
    def row_bytes(self) -> int:
        """The stored bytes of a row, without texts."""
        return 8 * self._stored

    @property
    def nbytes(self) -> int:
        """The bytes of the rows that are taken, with the texts of all columns."""
        return self.count * self.row_bytes + (self.texts.size if self.texts else 0)

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """All memory as a matrix, with the bits of floats and the positions of texts."""
        return self._area.array.reshape(-1, self._width)

    def place(self, name: str) -> int:
        """The column of the matrix with a column or a link."""
        return self._place[name]

    def make_room(self, more: int) -> None:
        """Make room for this many rows."""
        if self.size + more > self.room:
            self._area.grow(2 * (self.size + more) * self._width)

    def block(self, first: str, count: int, kind: str) -> Array:
        """Adjacent columns of one kind, as a matrix to read and write."""
        rows = self.rows if kind == INTEGER else self.rows.view(np.float64)
        return rows[:, self._place[first] : self._place[first] + count]

    def values(self, name: str) -> Array:
        """A column that is not text, or a link, as an array over all slots to read and write."""
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
        """Record that rows changed."""
        if slots.size:
            self._changed.append(slots)

    def add(self, columns: Mapping[str, Array], count: int) -> Longs:
        """Add rows; returns their slots."""
        slots = np.empty(count, np.int64)
        if not slots.size:
            return slots
        self._free, reused = reuse(self.rows, self._free, slots)
        self.make_room(slots.size - reused)
        slots[reused:] = np.arange(self.size, self.size + slots.size - reused)
        self.size += slots.size - reused
        self.count += slots.size
        mark_taken(self.rows, slots)
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
        """Change a column of distinct rows; ``touch`` them as well."""
        if self.columns[name] != TEXT:
            self.values(name)[slots] = values
            return
        assert self.texts is not None
        self._garbage += bytes_at(self.texts.heap, self._text_places(name, slots))
        self.rows[slots, self._place[name]] = self.texts.add(values)
        if 2 * self._garbage > self.texts.size:
            self._collect()

    def remove(self, slots: Longs) -> None:
        """Remove rows; their slots will be reused."""
        if not slots.size:
            return
        if self.texts is not None:
            self._garbage += sum(bytes_at(self.texts.heap, self._text_places(name, slots)) for name in self._textual)
        self._free = free_slots(self.rows, self._free, slots)
        self.count -= slots.size
        self.touch(slots)
        if self.texts is not None and 2 * self._garbage > self.texts.size:
            self._collect()

    def _text_places(self, name: str, slots: Longs) -> Longs:
        return np.ascontiguousarray(self.rows[slots, self._place[name]])

    def _collect(self) -> None:
        """Discard texts that are no longer needed."""
        slots = self.slots()
        old, self.texts = self.texts, TextHeap()
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
            count = record_changes(self.rows, part, marked, count)
        return marked[:count]

    def more(self, first: int, last: int) -> Longs:
        """The taken slots of a range that have not changed, to be written as well."""
        slots = live_between(self.rows, first, last)
        marked = np.empty(slots.size, np.int64)
        return marked[: record_changes(self.rows, slots, marked, 0)]

    def encode(self, number: int, put: Longs, gone: Longs) -> Iterator[bytes]:
        """Encode rows and emptied slots as sections of a delta, for the table with this number."""
        for start in range(0, max(put.size, 1), _ROWS):
            slots = put[start : start + _ROWS]
            columns = transpose(self.rows, slots, 1, self._stored)
            texts = self._extract_texts(columns)
            parts = (
                pack(columns),
                pack(gone[None, :]) if not start else b"",
                compress_rows(texts, 1) if texts else b"",
            )
            yield _SECTION.pack(number, *map(len, parts)) + b"".join(parts)

    def _extract_texts(self, columns: npt.NDArray[np.int64]) -> bytes:
        """The bytes of the rows' texts; their columns get the positions in these bytes."""
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
        """Apply the parts of a section; call ``finish`` after the last one."""
        columns = unpack_columns(rows, self._stored)
        slots = columns[0]
        if self.texts is not None and slots.size:
            base = self.texts.add_raw(decompress_rows(texts, 1) if texts else b"")
            for name in self._textual:
                column = columns[self._place[name]]
                column[column != NONE] += base
        if slots.size:
            self.make_room(max(int(slots.max()) + 1 - self.size, 0))
            self.size = max(self.size, int(slots.max()) + 1)
            self.rows[slots, 1 : self._stored] = columns[1:].T
            self.rows[slots, 0] = LIVE | STORED
        (emptied,) = unpack_columns(gone, 1)
        # the emptied rows may have left the log before
        self.rows[emptied[emptied < self.size], 0] = 0

    def finish(self) -> None:
        """Find the free slots after a log has been applied."""
        live = self.slots()
        taken = np.zeros(self.size, np.bool_)
        taken[live] = True
        self.count = live.size
        self._free = free_slots(self.rows, NONE, np.flatnonzero(~taken)[::-1].copy())
        if self.texts is not None:
            self._collect()


# --- logs


class _Change(NamedTuple):
    """What a table adds to a delta: slots that changed, and others that are due."""

    changed: Longs
    due: Longs = _NOTHING


class Log:
    """The log of some tables in a store, as deltas with increasing numbers."""

    def __init__(self, tables: Sequence[StateTable]) -> None:
        self._tables = tuple(tables)
        self._next = 0  # the number of the next delta
        self._oldest = 0
        self._round = 0  # the delta with which this round began
        self._hand = (0, 0)  # the table and the slot with which it continues

    def save(self, store: Store) -> None:
        """Write what changed since the last save."""
        changes = [_Change(table.changed()) for table in self._tables]
        credit = sum(change.changed.size * t.row_bytes for change, t in zip(changes, self._tables, strict=True))
        if not credit:
            return
        is_round = self._go_on(changes, credit)
        sections: list[bytes] = []
        for number, (table, change) in enumerate(zip(self._tables, changes, strict=True)):
            if change.changed.size or change.due.size:
                marked = np.concatenate([change.changed, change.due])
                sections.extend(table.encode(number, *settle(table.rows, np.sort(marked))))
        header = _HEADER.pack(self._round, *self._hand)
        for entry in _entries(sections):
            store.put(self._next, header + entry)
            self._next += 1
        if is_round:
            for number in range(self._oldest, self._round):
                store.remove(number)
            self._oldest, self._round = self._round, self._next

    def _go_on(self, changes: list[_Change], credit: int) -> bool:
        """Add unchanged rows, as many bytes as changed; returns whether that completes a round."""
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
        """Load empty tables from the log."""
        entries = sorted(store.items())
        for _, blob in entries:
            apply_delta(self._tables, blob[_HEADER.size :])
        if entries:
            self._oldest, self._next = entries[0][0], entries[-1][0] + 1
            self._round, *hand = _HEADER.unpack_from(entries[-1][1])
            self._hand = (hand[0], hand[1])
            if self._hand == (0, 0):  # a round had just been completed
                self._round = self._next
        for table in self._tables:
            table.finish()


def _entries(sections: Sequence[bytes]) -> Iterator[bytes]:
    """Combine sections into entries of limited size."""
    parts: list[bytes] = []
    for section in sections:
        if parts and sum(map(len, parts)) + len(section) > LARGE:
            yield b"".join(parts)
            parts = []
        parts.append(section)
    yield b"".join(parts)


def apply_delta(tables: Sequence[StateTable], blob: bytes) -> None:
    """Apply the sections of a delta."""
    begin = 0
    while begin < len(blob):
        if begin + _SECTION.size > len(blob):
            raise BadInput("State of a box is damaged.", hint="Use an earlier checkpoint.", code="damaged-checkpoint")
        number, *lengths = _SECTION.unpack_from(blob, begin)
        begin += _SECTION.size
        table, parts = tables[number], []
        for length in lengths:
            parts.append(blob[begin : begin + length])
            begin += length
        table.apply(*parts)
