"""The prepared events as a source of streams.

The processes that plan batches import this module, and nothing of what answers queries.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from slipstream._io.readers.user_sources import Source, Tuples

SCHEMA = {"vehicle_id": "bigint", "t": "bigint", "lon": "double", "lat": "double"}
#: the most events in a batch; each batch has a cost of its own
MOST = 1 << 21


class EventFile(Source):
    """The prepared events: a file with their columns, which tasks map into memory.

    They come in as few batches as possible, of equal size.

    >>> EventFile("events.arrow", 3_000_000).per_batch
    1500000
    """

    schema = SCHEMA

    def __init__(self, path: str, count: int) -> None:
        self.path, self.count = path, count
        batches = max(-(-count // MOST), 1)
        self.per_batch = -(-count // batches)

    @classmethod
    def write(cls, table: pa.Table, path: Path) -> EventFile:
        """Write the columns of events."""
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        return cls(str(path), table.num_rows)

    def latest(self, start: int) -> int:
        """As many events as a batch takes."""
        return min(start + self.per_batch, self.count)

    def has_ended(self, position: int) -> bool:
        """After the last event."""
        return position == self.count

    def read(self, start: int, end: int) -> Tuples:
        """Some of the events."""
        with pa.memory_map(self.path) as source:
            return pa.ipc.open_file(source).read_all().slice(start, end - start)
