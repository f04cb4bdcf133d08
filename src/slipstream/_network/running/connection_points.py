"""Connection points: the history of an arc, stored as trains on disk, and the ad hoc queries attached to it.

    points/NAME/train-LAST.parquet                the tuples of one batch
    points/NAME/train-LAST-since-FIRST.parquet    the tuples of several older batches, compacted
    points/NAME/attached.json                     the folders of the queries that get new trains

A query attached to a point gets a link to every train of the history and, from then on, to every new train. Both happen
under one lock, so no train is missed or linked twice; and because a query has its own links, it is not affected when
the point expires or compacts trains later.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from slipstream._io.train_files import last_arrival
from slipstream._network.algebra import ConnectionPoint
from slipstream._network.running.train_folder import stamp_time
from slipstream._tools.files.locations import to_path
from slipstream._tools.files.staging import atomic_write

_NAME = re.compile(r"train-(?P<last>\d{8})(?:-since-(?P<first>\d{8}))?\.parquet")
#: this many of the oldest single batches are merged into one file when there are twice as many
COMPACTED = 16


@dataclass(frozen=True, order=True)
class Span:
    """One file of a history: the batches it holds."""

    last: int
    first: int
    path: Path

    @classmethod
    def parse(cls, path: Path) -> Span | None:
        """Parse a file's name; None for other files."""
        found = _NAME.fullmatch(path.name)
        return found and cls(int(found["last"]), int(found["first"] or found["last"]), path)

    @property
    def tuples(self) -> int:
        """How many tuples it holds."""
        return int(pq.read_metadata(self.path).num_rows)


@dataclass(frozen=True)
class PointHistory:
    """The history of one connection point, in its folder."""

    folder: Path
    point: ConnectionPoint
    compacted: int = COMPACTED

    def spans(self) -> list[Span]:
        """The files in effect, oldest first, without those that a compacted file replaces."""
        found = sorted(filter(None, map(Span.parse, self.folder.glob("train-*.parquet"))))
        merged = [span for span in found if span.first < span.last]
        return [s for s in found if not any(m.first <= s.first and s.last <= m.last and m != s for m in merged)]

    def add(self, number: int, write: Callable[[Path], int]) -> None:
        """Add a batch: ``write`` writes it to a file and returns the number of its tuples.

        A batch that is repeated after a crash is not added twice, but queries that do not have it yet get it.
        """
        path = self.folder / f"train-{number:08d}.parquet"
        with self._lock():
            if all(span.last < number for span in self.spans()):
                self._put(path, number, write)
            if path.exists():
                self._send([path])
            self._forget()
            self._compact()

    def attach(self, folder: Path) -> None:
        """Give a query the history, and every new train."""
        folder.mkdir(parents=True, exist_ok=True)
        with self._lock():
            for span in self.spans():
                _link(span.path, folder)
            self._write_attached([*self.attached(), folder.resolve()])

    def detach(self, folder: Path) -> None:
        """Stop giving a query new trains."""
        with self._lock():
            self._write_attached([known for known in self.attached() if known != folder.resolve()])

    def attached(self) -> list[Path]:
        """The folders of the queries that get new trains."""
        place = self.folder / "attached.json"
        return [to_path(text) for text in json.loads(place.read_text(encoding="utf-8"))] if place.exists() else []

    # --- under the lock

    @contextmanager
    def _lock(self) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _put(self, path: Path, number: int, write: Callable[[Path], int]) -> None:
        stage = self.folder / f".{path.name}.partial"
        if write(stage):
            stamp_time(stage, number)
            stage.rename(path)
        else:
            stage.unlink(missing_ok=True)

    def _send(self, trains: list[Path]) -> None:
        """Link trains into every query's folder; a query whose folder is gone is detached."""
        here = [folder for folder in self.attached() if folder.is_dir()]
        for folder in here:
            for train in trains:
                _link(train, folder)
        if here != self.attached():
            self._write_attached(here)

    def _write_attached(self, folders: list[Path]) -> None:
        with atomic_write(self.folder / "attached.json") as file:
            file.write(json.dumps([str(folder) for folder in dict.fromkeys(folders)]).encode())

    def _forget(self) -> None:
        """Delete the oldest files that the point need not keep."""
        spans = self.spans()
        beyond = sum(span.tuples for span in spans)
        for span in spans:
            beyond -= span.tuples
            enough = self.point.keep_tuples is not None and beyond >= self.point.keep_tuples
            if not enough and not self._is_expired(span):
                return
            span.path.unlink()

    def _is_expired(self, span: Span) -> bool:
        seconds = self.point.keep_seconds
        return seconds is not None and last_arrival(span.path) < (time.time() - seconds) * 1e6

    def _compact(self) -> None:
        """Merge the oldest single batches into one file, once there are many; row group by row group."""
        for gone in {*filter(None, map(Span.parse, self.folder.glob("train-*.parquet")))} - {*self.spans()}:
            gone.path.unlink()  # left over when a compaction was interrupted
        single = [span for span in self.spans() if span.first == span.last]
        if len(single) < 2 * self.compacted:
            return
        parts = single[: self.compacted]
        name = f"train-{parts[-1].last:08d}-since-{parts[0].first:08d}.parquet"
        stage = self.folder / f".{name}.partial"
        with pq.ParquetWriter(stage, pq.read_schema(parts[0].path)) as writer:
            for part in parts:
                writer.write_table(pq.read_table(part.path))
        stamp_time(stage, parts[-1].last)
        stage.rename(self.folder / name)
        for part in parts:
            part.path.unlink()


def _link(train: Path, folder: Path) -> None:
    """Link a file into a query's folder, or copy it if the file system has no links; does nothing if it exists."""
    target = folder / train.name
    with suppress(FileExistsError):
        try:
            os.link(train, target)
        except FileExistsError:
            raise
        except OSError:
            stage = folder / f".{train.name}.partial"
            shutil.copy2(train, stage)
            stage.rename(target)
