"""The log of a fragment in Spark's state store: a sequence of deltas.

A batch writes what it changed and reads nothing. State that expires needs no more than that: its old deltas are
dropped. For state that stays, a batch also writes a few blocks of current rows, as many bytes as its delta had. When
all blocks have been written since a delta, the delta is no longer needed. So no batch writes much, the store has little
more than three times the state, and a restart reads no more than that.
"""

from __future__ import annotations

import struct
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slipstream._cuboid.fragment import Fragment
from slipstream._cuboid.schema import Schema
from slipstream._errors import MALFORMED, BadInput
from slipstream._runtime.state.store import Store
from slipstream._tools.numba_tools import Bytes, compiled

Rows = npt.NDArray[np.void]

#: the size in bytes above which an entry is written in pieces
LARGE = 1 << 26
#: rows in a block
BLOCK = 1 << 15


#: fast, and on transposed rows better than the store's own compression
_CODEC = pa.Codec("zstd", compression_level=1)


@compiled
def transpose(rows: Bytes, columns: Bytes) -> None:
    """Transpose rows of bytes, eight columns at a time: writing more at once would exceed the ways of a cache."""
    count, width = rows.shape
    whole = width // 8 * 8
    for first in range(0, whole, 8):
        for row in range(count):
            for k in range(8):
                columns[first + k, row] = rows[row, first + k]
    for column in range(whole, width):
        for row in range(count):
            columns[column, row] = rows[row, column]


def compress_rows(rows: bytes | npt.NDArray[Any], width: int) -> bytes:
    """Transpose and compress rows of ``width`` bytes; cheaper than copying raw rows to the JVM."""
    given = np.frombuffer(rows, np.uint8).reshape(-1, width)
    columns = np.empty((width, given.shape[0]), np.uint8)
    transpose(given, columns)
    small: bytes = _CODEC.compress(columns, asbytes=True)
    return struct.pack("<q", given.size) + small


def decompress_rows(blob: bytes, width: int) -> bytes:
    """Reverse :func:`compress_rows`."""
    try:
        (size,) = struct.unpack_from("<q", blob)
        columns = np.frombuffer(_CODEC.decompress(blob[8:], size), np.uint8)
        return np.ascontiguousarray(columns.reshape(width, -1).T).tobytes()
    except (struct.error, OSError, MemoryError, *MALFORMED) as error:
        raise BadInput(
            f"State of {len(blob)} bytes is damaged: {error}.",
            hint="Use an earlier checkpoint.",
            code="damaged-checkpoint",
        ) from error


class LoggedRows(Protocol):
    """Rows that a log can store: a fragment, or another table that tracks its changes."""

    @property
    def schema(self) -> Schema:
        """The schema of a row."""

    @property
    def rows(self) -> npt.NDArray[Any]:
        """All rows."""

    def __len__(self) -> int: ...

    def delta(self) -> Rows:
        """The rows changed since the last delta."""

    def apply(self, delta: bytes) -> None:
        """Apply the bytes of a delta's rows."""


class DeltaLog:
    """The log of one fragment; deltas have numbers from 0 on, block k has number -1 - k."""

    def __init__(self) -> None:
        self._deltas: set[int] = set()
        self._block = 0  # the next block to write
        self._blocks = 0  # the number of blocks in the store
        self._round = 0  # the number of the delta with which this round over all blocks began
        self._credit = 0

    def load(self, fragment: LoggedRows, store: Store) -> None:
        """Load an empty fragment from the log."""
        entries = dict(store.items())
        for number in sorted(entries, key=lambda number: (number >= 0, abs(number))):
            fragment.apply(decompress_rows(entries[number], fragment.schema.dtype.itemsize))
        self._deltas = {number for number in entries if number >= 0}
        self._blocks = -min([0, *entries])
        self._round = max(self._deltas, default=0)

    def write(self, number: int, delta: Rows, fragment: LoggedRows, store: Store) -> None:
        """Append what a batch changed; ``number`` grows from batch to batch."""
        if delta.size:
            store.put(number, compress_rows(delta, fragment.schema.dtype.itemsize))
            self._deltas.add(number)

    def write_by(self, fragment: Fragment, column: str, number: int, store: Store) -> None:
        """Append what a batch changed; if it is large, in pieces numbered by the rows' ``column``, which expires."""
        rows = fragment.delta()
        if rows.nbytes <= LARGE:
            self.write(number, rows, fragment, store)
            return
        rows = rows.take(np.argsort(rows[column], kind="stable"))
        values, starts = np.unique(rows[column], return_index=True)
        for value, piece in zip(values.tolist(), np.split(rows, starts[1:]), strict=True):
            self.write(value, piece, fragment, store)

    def expire(self, before: int, store: Store) -> None:
        """Drop entries numbered below ``before``."""
        for number in [number for number in self._deltas if number < before]:
            store.remove(number)
            self._deltas.remove(number)

    def settle(self, fragment: LoggedRows, number: int, store: Store) -> None:
        """Append what a batch changed and some blocks, for a fragment whose rows never expire; ``number`` grows."""
        delta = fragment.delta()
        if delta.nbytes > LARGE:
            self.write_all(fragment, number, store)
            return
        self.write(number, delta, fragment, store)
        self._credit += delta.nbytes
        while (size := self._choose_size(fragment)) and self._credit >= size:
            self._credit -= size
            self._write_block(fragment, store)
            if self._block * BLOCK >= len(fragment):
                self.expire(self._round, store)
                self._drop_blocks(store)
                self._block, self._round = 0, number

    def write_all(self, fragment: LoggedRows, number: int, store: Store) -> None:
        """Write all current rows, which replace everything written up to ``number``."""
        self._block = 0
        while self._choose_size(fragment):
            self._write_block(fragment, store)
        self.expire(number + 1, store)
        self._drop_blocks(store)
        self._block, self._round, self._credit = 0, number + 1, 0

    def _drop_blocks(self, store: Store) -> None:
        """Drop blocks after the last row: a table may have been longer before it was loaded."""
        for block in range(self._block, self._blocks):
            store.remove(-1 - block)
        self._blocks = self._block

    def _choose_size(self, fragment: LoggedRows) -> int:
        """The bytes of the next block."""
        return max(0, min(BLOCK, len(fragment) - self._block * BLOCK)) * fragment.schema.dtype.itemsize

    def _write_block(self, fragment: LoggedRows, store: Store) -> None:
        rows = fragment.rows[self._block * BLOCK : (self._block + 1) * BLOCK]
        store.put(-1 - self._block, compress_rows(rows, fragment.schema.dtype.itemsize))
        self._block += 1
        self._blocks = max(self._blocks, self._block)
