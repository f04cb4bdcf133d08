"""Text that others write as a Spark streaming source: a file, a file that grows, or a folder that fills.

The offset is a file's name and a byte in it, so what was read is read again after a crash, and only that. Whole lines
are given out; where a file is still growing, its unfinished last line waits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

OPTION = "lines"
COLUMNS = "key int, seq long, chunk binary, last boolean"
ARROW = pa.schema([("key", pa.int32()), ("seq", pa.int64()), ("chunk", pa.binary()), ("last", pa.bool_())])

#: whoever writes a file that grows puts a file of this name beside it when nothing more will come
END_MARK = ".end"

Offset = dict[str, Any]


@dataclass(frozen=True)
class Lines:
    """What to read; travels to Spark as an option."""

    path: str
    follow: bool
    whole_files: bool = False  # trains have no lines to cut at
    most_bytes: int = 32 << 20

    def to_json(self) -> str:
        """As text."""
        return json.dumps(asdict(self))

    @property
    def is_folder(self) -> bool:
        """Whether files come into a folder, each whole when it appears."""
        return Path(self.path).is_dir()

    def files(self) -> list[Path]:
        """The files, in the order in which they are read."""
        path = Path(self.path)
        if not self.is_folder:
            return [path] if path.exists() else []
        return sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))

    def complete(self) -> bool:
        """Whether nothing more will come."""
        return not self.follow or Path(self.path + END_MARK).exists()


@dataclass
class Pieces(InputPartition):
    """Pieces of files to read, in order, and whether they are the last there will be."""

    pieces: list[tuple[str, int, int]]
    last: bool


class LineSource(DataSource):
    """The source under the name ``slipstream-lines``."""

    @classmethod
    def name(cls) -> str:
        """Its name for Spark."""
        return "slipstream-lines"

    def schema(self) -> str:
        """Chunks of whole lines."""
        return COLUMNS

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: ARG002, N802
        """The reader of one query."""
        return LineReader(Lines(**json.loads(self.options[OPTION])))


class LineReader(DataSourceStreamReader):
    """Plans batches by looking at the files, and reads them in one task, for their order."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def initialOffset(self) -> Offset:  # noqa: N802
        """Before the first file."""
        return {"name": "", "byte": 0, "ended": False}

    def latestOffset(self, start: Offset, limit: Any) -> Offset:  # noqa: ARG002, N802
        """As much as there is, up to the size of a batch."""
        if start["ended"]:
            return start
        complete = self._lines.complete()
        pieces = self._pieces(start)
        taken, end = 0, start
        for name, first, size in pieces:
            last = self._cut(name, first, min(size, first + self._lines.most_bytes - taken), size, complete)
            taken += last - first
            end = {"name": name, "byte": last, "ended": False}
            if last < size:
                return end
        return {**end, "ended": complete}

    def _pieces(self, start: Offset) -> list[tuple[str, int, int]]:
        """Name, first byte and size of the files from ``start`` on."""
        files = [file for file in self._lines.files() if file.name >= start["name"]]
        firsts = [start["byte"] if file.name == start["name"] else 0 for file in files]
        return [(file.name, first, file.stat().st_size) for file, first in zip(files, firsts, strict=True)]

    def _cut(self, name: str, first: int, wanted: int, size: int, complete: bool) -> int:
        """Where to cut a file so that no line is torn; a file that is whole ends where it ends."""
        if wanted <= first:
            return first
        whole = complete or self._lines.is_folder
        if self._lines.whole_files or (wanted == size and whole):
            return size
        with self._file(name).open("rb") as file:
            file.seek(first)
            block = file.read(wanted - first)
            place = block.rfind(b"\n")
            if place < 0 and wanted < size:
                # one line larger than a batch: take it whole
                while (more := file.read(1 << 20)) and (place := more.find(b"\n")) < 0:
                    block += more
                return first + len(block) + place + 1 if place >= 0 else size if whole else first
        return first + place + 1

    def _file(self, name: str) -> Path:
        path = Path(self._lines.path)
        return path / name if self._lines.is_folder else path

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """One task reads all, in order."""
        pieces = [
            (str(self._file(name)), first, end["byte"] if name == end["name"] else size)
            for name, first, size in self._pieces(start)
            if name <= end["name"]
        ]
        last = bool(end["ended"]) and not start["ended"]
        wanted = [piece for piece in pieces if piece[2] > piece[1]]
        return [Pieces(wanted, last)] if wanted or last else []

    def read(self, partition: Pieces) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        """The chunks, and a last one that says so."""
        for number, (name, first, end) in enumerate(partition.pieces):
            with Path(name).open("rb") as file:
                file.seek(first)
                yield pa.record_batch([[0], [number], [file.read(end - first)], [False]], schema=ARROW)
        if partition.last:
            yield pa.record_batch([[0], [len(partition.pieces)], [b""], [True]], schema=ARROW)
