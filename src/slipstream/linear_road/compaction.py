"""Old answers and trips in few files: a job that runs for weeks leaves a file for an hour, not thousands.

    OUT/output/batch=1207/emit_ms=.../*.parquet              the latest batches, as the sink shows them
    OUT/compacted/000000000000-000000000499.parquet          the batches before, with batch and emit_ms as columns
    OUT/trips/000000001207.0.parquet                         trips of the latest batches
    OUT/trips/000000000000-000000000499.parquet              those of the batches before

A block of batches is merged when twice as many are there, by a process of the lowest priority beside the engine: aside
first, then renamed, then what was merged is removed. What a compacted file covers does not count; a crash between the
two leaves it, and the next compaction removes it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slipstream import children
from slipstream.archive import files as archives
from slipstream.archive import trajectories
from slipstream.beside import Ended, beside
from slipstream.failpoints import failpoint
from slipstream.linear_road.answers import ANSWER
from slipstream.linear_road.sink import OUTPUT, as_table, last_batch
from slipstream.staging import appearing

FOLDER = "compacted"
#: batches in a file; with one a second, eight minutes
BLOCK = 500
_LOOK_S = 5.0
#: bytes that are written together: small pieces are slow to read
_PIECE = 1 << 26


@dataclass(frozen=True)
class Output:
    """Something that batches leave and that is merged: where to, its columns, and what is there of single batches."""

    folder: str
    schema: pa.Schema
    loose: Callable[[Path], Iterable[tuple[int, Path]]]
    read: Callable[[Path], Iterator[pa.Table]]  # what a batch left in one place

    def first_loose(self, out: Path) -> int:
        """The first batch that no compacted file covers."""
        return max((covered.stop for covered, _ in archives.compacted(out / self.folder)), default=0)


def compacted(out: Path) -> list[tuple[range, Path]]:
    """The compacted files of answers in order, each with the batches it covers."""
    return archives.compacted(out / FOLDER)


def answers_of(out: Path, batch: int) -> pa.Table:
    """The answers of a committed batch, wherever they are by now."""
    for covered, file in compacted(out):
        if batch in covered:
            names = as_table(np.empty(0, ANSWER)).column_names
            return pq.read_table(file, columns=names, filters=[("batch", "=", batch)])
    files = sorted((out / OUTPUT / f"batch={batch}").glob("emit_ms=*/*.parquet"))
    return pa.concat_tables([as_table(np.empty(0, ANSWER)), *(pq.ParquetFile(file).read() for file in files)])


def _folders(out: Path) -> Iterator[tuple[int, Path]]:
    """The folders of answers, each with its batch."""
    return ((int(folder.name.partition("=")[2]), folder) for folder in sorted((out / OUTPUT).glob("batch=*")))


_PLACE = [pa.field("batch", pa.int64()), pa.field("emit_ms", pa.int64())]


def _with_their_place(batch: Path) -> Iterator[pa.Table]:
    """The answers in ``batch=N``, with N and their Emit as columns."""
    for shown in sorted(batch.glob("emit_ms=*")):
        table = pa.concat_tables([pq.ParquetFile(part).read() for part in sorted(shown.glob("*.parquet"))])
        for field, folder in zip(_PLACE, (batch, shown), strict=True):
            value = pa.repeat(int(folder.name.partition("=")[2]), table.num_rows)
            table = table.append_column(field, value.cast(pa.int64()))
        yield table


#: what is compacted
ANSWERS = Output(FOLDER, pa.schema([*as_table(np.empty(0, ANSWER)).schema, *_PLACE]), _folders, _with_their_place)
TRIPS = Output(archives.FOLDER, trajectories.SCHEMA, archives.loose, lambda file: iter([pq.ParquetFile(file).read()]))


def compact(out: Path, block: int = BLOCK) -> int:
    """Merge the oldest blocks of batches, all but the last one and what follows it; returns how many files it made."""
    merged = 0
    with _alone(out) as alone:
        for output in _outputs(out) if alone else []:
            _remove_covered(out, output)
            while (first := output.first_loose(out)) + 2 * block <= _committed(out):
                _merge(out, output, range(first, first + block))
                _remove_covered(out, output)
                merged += 1
    return merged


def _outputs(out: Path) -> list[Output]:
    """What a job leaves: answers, trips or both."""
    leaves = {OUTPUT: ANSWERS, archives.FOLDER: TRIPS}
    return [output for folder, output in leaves.items() if (out / folder).is_dir()]


@contextmanager
def _alone(out: Path) -> Iterator[bool]:
    """Whether nobody else compacts: what a killed engine left behind may still be at it."""
    (out / FOLDER).mkdir(exist_ok=True)
    with (out / FOLDER / "lock").open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _committed(out: Path) -> int:
    last = last_batch(out)
    return last.batch + 1 if last else 0


def _merge(out: Path, output: Output, batches: range) -> None:
    folder = out / output.folder
    for unfinished in folder.glob(".*"):
        unfinished.unlink()
    failpoint("compaction.before-write")
    places = (place for batch, place in output.loose(out) if batch in batches)
    with appearing(folder / f"{batches[0]:012}-{batches[-1]:012}.parquet") as file:
        with pq.ParquetWriter(file, output.schema, compression="zstd") as writer:
            for table in _pieces(chain.from_iterable(map(output.read, places))):
                writer.write_table(table)
        os.fsync(file.fileno())
    failpoint("compaction.after-write")


def _pieces(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Tables put together until they are large."""
    held: list[pa.Table] = []
    for table in tables:
        held.append(table)
        if sum(part.nbytes for part in held) >= _PIECE:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


def _remove_covered(out: Path, output: Output) -> None:
    """Remove what is in a compacted file by now."""
    first = output.first_loose(out)
    for batch, place in output.loose(out):
        if batch < first and place.is_dir():
            shutil.rmtree(place)
        elif batch < first:
            place.unlink()
    failpoint("compaction.after-removal")


@contextmanager
def compacting(out: Path, block: int) -> Iterator[None]:
    """While the block runs, compact now and then, in a process that takes only what others leave; 0 for never."""

    def watch(ended: Ended) -> None:
        while block and not ended.wait(_LOOK_S):
            if any(output.first_loose(out) + 2 * block <= _committed(out) for output in _outputs(out)):
                command = [sys.executable, "-m", __name__, str(out), str(block)]
                with children.running(command, stderr=None) as child:
                    while child.code is None and not ended.wait(0.2):
                        pass

    with beside(watch):
        yield


if __name__ == "__main__":
    os.nice(19)
    with suppress(OSError):  # a full disk is for the engine to tell; what is not compacted stays as it is
        compact(Path(sys.argv[1]), int(sys.argv[2]))
