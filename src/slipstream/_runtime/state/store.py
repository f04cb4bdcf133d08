"""Stores of state: maps from numbers to bytes, in Spark's state store or in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle


class Store(Protocol):
    """A durable map from sequence numbers to bytes."""

    def put(self, number: int, delta: bytes) -> None:
        """Write an entry."""

    def get(self, number: int) -> bytes:
        """Read an existing entry."""

    def remove(self, number: int) -> None:
        """Delete an entry."""

    def items(self) -> Iterator[tuple[int, bytes]]:
        """All entries."""


#: the entry with the mark of the last batch
_MARK = (-1, 0)


class StateMap:
    """All stores of a stage in one map of Spark's state store.

    Opening a state variable costs every batch several milliseconds, however small it is, so there is only one. It also
    holds the mark that each batch leaves (``state_cache``).
    """

    def __init__(self, handle: StatefulProcessorHandle, stores: int) -> None:
        from pyspark.sql.types import BinaryType, IntegerType, LongType, StructType

        # as types: parsing them from text takes a round trip to the JVM
        key = StructType().add("store", IntegerType()).add("number", LongType())
        self._map = handle.getMapState("stores", key, StructType().add("blob", BinaryType()))
        self._read: dict[int, dict[int, bytes]] | None = None
        self.stores: list[Store] = [MapStore(self, place) for place in range(stores)]

    @property
    def mark(self) -> str | None:
        """The mark of the last committed batch; None before the first."""
        found = self._map.getValue(_MARK)
        return bytes(found[0]).decode() if found else None

    @mark.setter
    def mark(self, mark: str) -> None:
        self._map.updateValue(_MARK, (mark.encode(),))

    def put(self, store: int, number: int, blob: bytes) -> None:
        """Write an entry of a store."""
        self._map.updateValue((store, number), (blob,))

    def get(self, store: int, number: int) -> bytes:
        """Read an existing entry of a store."""
        found = self._map.getValue((store, number))
        assert found is not None
        return bytes(found[0])

    def remove(self, store: int, number: int) -> None:
        """Delete an entry of a store."""
        self._map.removeKey((store, number))

    @contextmanager
    def bulk_read(self) -> Iterator[None]:
        """Read all stores in one pass over the map, for use in the block."""
        self._read = defaultdict(dict)
        for (store, number), (blob,) in self._map.iterator():
            self._read[store][number] = bytes(blob)
        try:
            yield
        finally:
            self._read = None

    def items(self, store: int) -> Iterator[tuple[int, bytes]]:
        """All entries of a store."""
        assert self._read is not None, "stores are read as a whole"
        return iter(self._read[store].items())


class MapStore:
    """One store in the map of a stage."""

    def __init__(self, state: StateMap, place: int) -> None:
        self._state, self._place = state, place

    def put(self, number: int, delta: bytes) -> None:
        """Write an entry."""
        self._state.put(self._place, number, delta)

    def get(self, number: int) -> bytes:
        """Read an existing entry."""
        return self._state.get(self._place, number)

    def remove(self, number: int) -> None:
        """Delete an entry."""
        self._state.remove(self._place, number)

    def items(self) -> Iterator[tuple[int, bytes]]:
        """All entries."""
        return self._state.items(self._place)


class MemoryStore(dict[int, bytes]):
    """A map in memory, for stages that run without Spark."""

    def put(self, number: int, delta: bytes) -> None:
        """Write an entry."""
        self[number] = bytes(delta)

    def get(self, number: int) -> bytes:  # type: ignore[override]
        """Read an existing entry."""
        return self[number]

    def remove(self, number: int) -> None:
        """Delete an entry."""
        del self[number]

    def items(self) -> Iterator[tuple[int, bytes]]:  # type: ignore[override]
        """All entries."""
        return iter(list(super().items()))
