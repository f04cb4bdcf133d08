"""How a fragment rests in Spark's state store: as a log of deltas.

A batch writes what it changed and reads nothing. A log that only grows is merged as it grows, each entry at least
twice as large as the next, so that a row is rewritten a logarithmic number of times and a restart reads little more
than the state itself. State that expires needs no merging: its old entries are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from slipstream.cuboid.fragment import Fragment, decode
from slipstream.cuboid.schema import KEY

#: bytes above which an entry is better written in pieces
LARGE = 1 << 26


class Store(Protocol):
    """A map from sequence numbers to bytes, kept by whoever makes state durable."""

    def put(self, number: int, delta: bytes) -> None:
        """Write an entry."""

    def get(self, number: int) -> bytes:
        """Read an entry that is there."""

    def remove(self, number: int) -> None:
        """Delete an entry."""

    def items(self) -> Iterator[tuple[int, bytes]]:
        """All entries."""


class DeltaLog:
    """The log of one fragment; ``sizes`` is all it keeps in memory."""

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}

    def load(self, fragment: Fragment, store: Store) -> None:
        """Bring an empty fragment to the state that the log holds."""
        entries = dict(store.items())
        for number in sorted(entries):
            fragment.apply(entries[number])
            self.sizes[number] = len(entries[number])

    def write(self, number: int, delta: bytes, store: Store) -> None:
        """Add what a batch changed; ``number`` grows from batch to batch."""
        if delta:
            store.put(number, delta)
            self.sizes[number] = len(delta)

    def write_by(self, fragment: Fragment, column: str, number: int, store: Store) -> None:
        """Add what a batch changed; if that is much, in pieces numbered by the rows' ``column``, which expires."""
        delta = fragment.delta()
        if len(delta) <= LARGE:
            self.write(number, delta, store)
            return
        rows = decode(fragment.schema, delta)
        rows = rows[np.argsort(rows[column], kind="stable")]
        values, starts = np.unique(rows[column], return_index=True)
        for value, piece in zip(values.tolist(), np.split(rows, starts[1:]), strict=True):
            self.write(value, piece.tobytes(), store)

    def expire(self, before: int, store: Store) -> None:
        """Drop entries numbered below ``before``."""
        for number in [number for number in self.sizes if number < before]:
            store.remove(number)
            del self.sizes[number]

    def merge(self, fragment: Fragment, store: Store) -> None:
        """Merge the youngest entries until each is at least twice as large as the next."""
        numbers = sorted(self.sizes)
        first = len(numbers) - 1
        total = self.sizes[numbers[first]] if numbers else 0
        while first > 0 and self.sizes[numbers[first - 1]] < 2 * total:
            first -= 1
            total += self.sizes[numbers[first]]
        merged = numbers[max(first, 0) :]
        if len(merged) < 2:
            return
        keys = np.unique(np.concatenate([decode(fragment.schema, store.get(number))[KEY] for number in merged]))
        for number in merged[:-1]:
            store.remove(number)
            del self.sizes[number]
        self.write(merged[-1], fragment.encode(keys), store)
