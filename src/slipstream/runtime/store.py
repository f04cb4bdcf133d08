"""Where state rests: a map from numbers to bytes, in Spark's state store or in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle


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


class MapStore:
    """A map in Spark's state store as a store."""

    def __init__(self, handle: StatefulProcessorHandle, name: str) -> None:
        self._map = handle.getMapState(name, "number long", "blob binary")

    def put(self, number: int, delta: bytes) -> None:
        """Write an entry."""
        self._map.updateValue((number,), (delta,))

    def get(self, number: int) -> bytes:
        """Read an entry that is there."""
        found = self._map.getValue((number,))
        assert found is not None
        return bytes(found[0])

    def remove(self, number: int) -> None:
        """Delete an entry."""
        self._map.removeKey((number,))

    def items(self) -> Iterator[tuple[int, bytes]]:
        """All entries."""
        return ((int(key[0]), bytes(value[0])) for key, value in self._map.iterator())


class MemoryStore(dict[int, bytes]):
    """A map in memory, for stages that run without Spark."""

    def put(self, number: int, delta: bytes) -> None:
        """Write an entry."""
        self[number] = bytes(delta)

    def get(self, number: int) -> bytes:  # type: ignore[override]
        """Read an entry that is there."""
        return self[number]

    def remove(self, number: int) -> None:
        """Delete an entry."""
        del self[number]

    def items(self) -> Iterator[tuple[int, bytes]]:  # type: ignore[override]
        """All entries."""
        return iter(list(super().items()))
