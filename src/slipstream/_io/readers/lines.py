"""Files as a Spark streaming source: a file, a growing file, or a folder that receives files.

The offset is a file's name and a byte in it, so a crash repeats exactly what was read. Only complete lines are read;
the unfinished last line of a growing file waits. Files of trains are read whole.

A file in a folder arrived when it got its name there. What was appended to a file arrived when the file was last seen
without it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from slipstream._errors import BadInput
from slipstream._feeds.tuples import END_MARK
from slipstream._io.chunks import COLUMNS, LAST, Chunk, ChunkReader, Offset

OPTION = "lines"

#: the names of files in a spool: a number, and the arrival in milliseconds since 1970
SPOOLED = "{number:012d}-{arrived:013d}"
#: the smallest piece of a file worth a separate task
LEAST_BYTES = 1 << 18


@dataclass(frozen=True)
class LineInput:
    """What to read; sent to Spark as an option."""

    path: str
    follow: bool
    whole_files: bool = False  # trains cannot be split at lines
    spool: bool = False  # our own folder, with files named as SPOOLED
    openings: int = 0
    alone: bool = False  # the only reader of the spool: files are removed once they are committed
    most_bytes: int = 32 << 20
    control: str = ""
    header: str = ""  # the first line of every file, if they have one
    packing: dict[str, Any] = field(default_factory=dict)
    tasks: int = 1  # that read in parallel
    most_files: int = 0  # per batch; 0 means no limit

    def to_json(self) -> str:
        """Convert to JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> LineInput:
        """Convert from JSON."""
        return cls(**json.loads(text))

    @property
    def is_folder(self) -> bool:
        """Whether files arrive in a folder, each complete when it appears."""
        return self.spool or Path(self.path).is_dir()

    def files(self) -> list[Path]:
        """The files, in the order in which they are read."""
        path = Path(self.path)
        if not self.is_folder:
            return [path] if path.exists() else []
        if not path.exists():
            return []
        return sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))

    def complete(self) -> bool:
        """Whether nothing more will arrive."""
        return not self.follow or Path(self.path + END_MARK).exists()

    def arrived(self, file: Path) -> int:
        """When a file of a folder got its name there."""
        if self.spool:
            return int(file.name.partition("-")[2])
        return file.stat().st_ctime_ns // 1_000_000


def parse_header(line: bytes) -> str:
    """The first line of a CSV file, without a line end or byte order mark."""
    return line.decode(errors="replace").strip("\r\n\ufeff")


class Piece(NamedTuple):
    """A range of a file: its position among the pieces of a batch, the file's name, first byte, end, and arrival."""

    seq: int
    name: str
    first: int
    end: int
    arrived: int

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return self.end - self.first


@dataclass
class LinePartition(InputPartition):
    """What a task reads, and whether nothing will follow."""

    pieces: list[Piece]
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
        return LineReader(LineInput.from_json(self.options[OPTION]))


class LineReader(ChunkReader):
    """Plans batches by the sizes of files; pieces are numbered, so that several tasks can read them."""

    def __init__(self, lines: LineInput) -> None:
        super().__init__(lines.openings, lines.packing, lines.control)
        self._lines = lines
        self._seen_ms = 0  # when the file was last seen without new data

    @property
    def reopens(self) -> bool:
        """Whether files that arrived after the end are read, which is so unless the end was sent to the fragments."""
        return not (self._lines.follow or self._packing.by_lane)

    def first_offset(self) -> Offset:
        """Before the first file."""
        return {"name": "", "byte": 0, "arrived": 0, "files": 0}

    def next_offset(self, start: Offset) -> Offset:
        """As much as can be read now, up to the size of a batch."""
        now = time.time_ns() // 1_000_000
        self._check_order(start)
        end = self._reach(start)
        end["files"] = sum(file.name <= end["name"] for file in self._lines.files())
        if (end["name"], end["byte"]) == (start["name"], start["byte"]):
            self._seen_ms = now
            return {**end, "arrived": start["arrived"], "files": start.get("files", 0)}
        return {**end, "arrived": self._seen_ms or now}

    def _check_order(self, start: Offset) -> None:
        """Refuse a new file that sorts before one that has been read: it would never be read."""
        if self._lines.spool or not self._lines.is_folder:
            return
        before = [file for file in self._lines.files() if file.name <= start["name"]]
        if len(before) > start.get("files", len(before)):
            newest = max(before, key=lambda file: file.stat().st_ctime_ns)
            raise BadInput(
                f"{newest}: arrived after {start['name']} had been read, but sorts before it.",
                hint="Files of a folder are read in the order of their names: rename it.",
                code="changed-by-others",
            )

    def _reach(self, start: Offset) -> Offset:
        complete = self._lines.complete()
        taken, end = 0, {"name": start["name"], "byte": start["byte"], "ended": False}
        for number, (name, first, size) in enumerate(self._find_unread(start)):
            if self._lines.most_files and number == self._lines.most_files:
                return end
            last = self._cut(name, first, min(size, first + self._lines.most_bytes - taken), size, complete)
            taken += last - first
            end = {"name": name, "byte": last, "ended": False}
            if last < size:
                return end
        return {**end, "ended": complete}

    def _find_unread(self, start: Offset) -> list[tuple[str, int, int]]:
        """Name, first byte and size of the files that are not completely read."""
        return [stretch for stretch in self._list_stretches(start) if stretch[2] > stretch[1]]

    def _list_stretches(self, start: Offset) -> list[tuple[str, int, int]]:
        """Name, first byte and size of the files from ``start`` on."""
        files = [file for file in self._lines.files() if file.name >= start["name"]]
        firsts = [start["byte"] if file.name == start["name"] else 0 for file in files]
        return [(file.name, first, file.stat().st_size) for file, first in zip(files, firsts, strict=True)]

    def _cut(self, name: str, first: int, wanted: int, size: int, complete: bool) -> int:
        """Where to cut a file so that no line is split; the last line of a complete file needs no line end."""
        if wanted <= first:
            return first
        whole = complete or self._lines.is_folder
        if self._lines.whole_files or (wanted == size and whole):
            return size
        with self._locate_file(name).open("rb") as file:
            file.seek(first)
            block = file.read(wanted - first)
            place = block.rfind(b"\n")
            if place < 0 and wanted < size:
                # a line longer than a batch: read all of it
                while (more := file.read(1 << 20)) and (place := more.find(b"\n")) < 0:
                    block += more
                return first + len(block) + place + 1 if place >= 0 else size if whole else first
        return first + place + 1

    def _locate_file(self, name: str) -> Path:
        path = Path(self._lines.path)
        return path / name if self._lines.is_folder else path

    def plan_tasks(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Divide the files into pieces of similar size for the tasks."""
        found = [
            (name, first, end["byte"] if name == end["name"] else size)
            for name, first, size in self._list_stretches(start)
            if name <= end["name"]
        ]
        parts = self._divide(self._stamp_all([part for part in found if part[2] > part[1]], end["arrived"]))
        last = bool(end["ended"]) and not start["ended"]
        return [LinePartition(part, last and number == 0) for number, part in enumerate(parts or [[]] * last)]

    def _divide(self, stretches: list[tuple[str, int, int, int]]) -> list[list[Piece]]:
        """Cut ranges of files at line ends, and distribute them to the tasks in order."""
        share = sum(end - first for _, first, end, _ in stretches) // self._lines.tasks + 1
        smallest = max(share, LEAST_BYTES) if self._lines.tasks > 1 else self._lines.most_bytes
        pieces: list[Piece] = []
        for name, first, end, arrived in stretches:
            for begin, stop in pairwise(self._find_cuts(name, first, end, smallest)):
                pieces.append(Piece(len(pieces), name, begin, stop, arrived))
        parts: list[list[Piece]] = []
        room = 0
        for piece in pieces:
            if room <= 0:
                parts.append([])
                room = share
            parts[-1].append(piece)
            room -= piece.size
        return parts

    def _find_cuts(self, name: str, first: int, end: int, share: int) -> list[int]:
        """Where to cut a range of a file so that no line is split."""
        cuts = [first]
        if not self._lines.whole_files:
            with Path(name).open("rb") as file:
                for wanted in range(first + share, end, share):
                    file.seek(max(wanted, cuts[-1]))
                    file.readline()
                    if cuts[-1] < file.tell() < end:
                        cuts.append(file.tell())
        return [*cuts, end]

    def _stamp_all(self, parts: list[tuple[str, int, int]], now: int) -> list[tuple[str, int, int, int]]:
        """Add to each range of a file when it arrived.

        Files are read in the order of their names, and jobs order tuples by arrival. So a file does not arrive before
        those that are read before it, in whatever order they were written.
        """
        files = [(self._locate_file(name), first, end) for name, first, end in parts]
        arrivals = [self._lines.arrived(file) if self._lines.is_folder else now for file, _, _ in files]
        return [
            (str(file), first, end, arrived)
            for (file, first, end), arrived in zip(files, accumulate(arrivals, max), strict=True)
        ]

    def read_chunks(self, partition: LinePartition) -> Iterator[Chunk]:
        """The pieces of a task, and a notice after the last one."""
        for seq, name, first, end, arrived in partition.pieces:
            with Path(name).open("rb") as file:
                file.seek(first)
                data = file.read(end - first)
            yield Chunk(seq, arrived=arrived, data=data if first else self._skip_header(name, data))
        if partition.last:
            yield Chunk(1 << 32, LAST)

    def _skip_header(self, name: str, chunk: bytes) -> bytes:
        if not self._lines.header:
            return chunk
        first, _, rest = chunk.partition(b"\n")
        if parse_header(first) != self._lines.header:
            raise BadInput(
                f"{name}, line 1: not the header {self._lines.header!r}.",
                hint="All files of a feed must have the same columns in the same order.",
                code="unknown-column",
                found=parse_header(first),
                expected=self._lines.header,
            )
        return rest

    def commit(self, end: Offset) -> None:
        """Remove committed files from a spool: they are not read again."""
        for file in self._lines.files() if self._lines.spool and self._lines.alone else []:
            if file.name < end["name"]:
                file.unlink(missing_ok=True)
