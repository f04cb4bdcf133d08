"""Old answers in few files: an engine that runs for weeks leaves a file for an hour, not thousands of folders.

    OUT/output/batch=1207/emit_ms=.../*.parquet              the latest batches, as the sink shows them
    OUT/compacted/000000000000-000000000499.parquet          the batches before, with batch and emit_ms as columns

A block of batches is merged when twice as many are there, by a process of the lowest priority beside the engine: aside
first, then renamed, then the folders are removed. A folder that a compacted file covers does not count; a crash between
the two leaves such folders, and the next compaction removes them.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slipstream import children
from slipstream.beside import Ended, beside
from slipstream.failpoints import failpoint
from slipstream.linear_road.answers import ANSWER
from slipstream.linear_road.sink import OUTPUT, as_table, last_batch
from slipstream.staging import appearing

FOLDER = "compacted"
#: batches in a file; with one a second, eight minutes
BLOCK = 500
_LOOK_S = 5.0


def compacted(out: Path) -> list[tuple[range, Path]]:
    """The compacted files in order, each with the batches it covers."""
    return [(_covered(file), file) for file in sorted((out / FOLDER).glob("*-*.parquet"))]


def _covered(file: Path) -> range:
    first, last = map(int, file.stem.split("-"))
    return range(first, last + 1)


def answers_of(out: Path, batch: int) -> pa.Table:
    """The answers of a committed batch, wherever they are by now."""
    for covered, file in compacted(out):
        if batch in covered:
            names = as_table(np.empty(0, ANSWER)).column_names
            return pq.read_table(file, columns=names, filters=[("batch", "=", batch)])
    files = sorted((out / OUTPUT / f"batch={batch}").glob("emit_ms=*/*.parquet"))
    return pa.concat_tables([as_table(np.empty(0, ANSWER)), *(pq.ParquetFile(file).read() for file in files)])


def compact(out: Path, block: int = BLOCK) -> int:
    """Merge the oldest blocks of batches, all but the last one and what follows it; returns how many."""
    merged = 0
    with _alone(out) as alone:
        if alone:
            _remove_covered(out)
        while alone and (first := _first_loose(out)) + 2 * block <= _committed(out):
            _merge(out, range(first, first + block))
            _remove_covered(out)
            merged += 1
    return merged


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


def _first_loose(out: Path) -> int:
    """The first batch that no compacted file covers."""
    return max((covered.stop for covered, _ in compacted(out)), default=0)


def _committed(out: Path) -> int:
    last = last_batch(out)
    return last.batch + 1 if last else 0


def _merge(out: Path, batches: range) -> None:
    schema = as_table(np.empty(0, ANSWER)).schema
    schema = schema.append(pa.field("batch", pa.int64())).append(pa.field("emit_ms", pa.int64()))
    folder = out / FOLDER
    for unfinished in folder.glob(".*"):
        unfinished.unlink()
    failpoint("compaction.before-write")
    with appearing(folder / f"{batches[0]:012}-{batches[-1]:012}.parquet") as file:
        with pq.ParquetWriter(file, schema, compression="zstd") as writer:
            for shown in (shown for batch in batches for shown in (out / OUTPUT / f"batch={batch}").glob("emit_ms=*")):
                writer.write_table(_with_its_place(shown, schema))
        os.fsync(file.fileno())
    failpoint("compaction.after-write")


def _with_its_place(shown: Path, schema: pa.Schema) -> pa.Table:
    """The answers in ``batch=N/emit_ms=T``, with N and T as columns."""
    table = pa.concat_tables([pq.ParquetFile(part).read() for part in sorted(shown.glob("*.parquet"))])
    for folder in (shown.parent, shown):
        value = pa.repeat(int(folder.name.partition("=")[2]), table.num_rows)
        table = table.append_column(schema.field(table.num_columns), value.cast(pa.int64()))
    return table


def _remove_covered(out: Path) -> None:
    """Remove the folders whose answers are in a compacted file."""
    first = _first_loose(out)
    for folder in (out / OUTPUT).glob("batch=*"):
        if int(folder.name.partition("=")[2]) < first:
            shutil.rmtree(folder)
    failpoint("compaction.after-removal")


@contextmanager
def compacting(out: Path, block: int) -> Iterator[None]:
    """While the block runs, compact now and then, in a process that takes only what others leave; 0 for never."""

    def watch(ended: Ended) -> None:
        while block and not ended.wait(_LOOK_S):
            if _first_loose(out) + 2 * block <= _committed(out):
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
