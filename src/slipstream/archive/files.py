"""Trips as files in a job's folder: every trip once, visible when the batch that ended it is committed.

    OUT/manifest.json                                   that these are trips, and in which plane
    OUT/trips/000000000007.0.parquet                    trips that batch 7 ended, a file a task
    OUT/trips/000000000000-000000000499.parquet         those of old batches, together
    OUT/batches.jsonl                                   the journal: which batches are committed

Whoever reads asks ``committed`` which files count: not those of a batch that was never committed, and not those whose
trips are in a compacted file by now. Trips of another origin in the same layout have no journal, and all of them count.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from slipstream.archive.trajectories import COLUMNS, SCHEMA, Trips, as_table
from slipstream.cuboid.files import last_in_journal
from slipstream.documents import json_of
from slipstream.errors import MALFORMED, BadInput
from slipstream.io.outputs import JOURNAL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FOLDER, MANIFEST = "trips", "manifest.json"
FORMAT, VERSION = "slipstream-archive", 1
#: the plane in which Linear Road's expressways lie
LINEAR_CITY = "linear city"


def lay_out(out: Path) -> None:
    """Make an archive without trips, unless it is there."""
    (out / FOLDER).mkdir(parents=True, exist_ok=True)
    describe(out)


def describe(out: Path) -> None:
    """Write ``out/manifest.json``: that these trips lie in the plane of Linear City."""
    out.mkdir(parents=True, exist_ok=True)
    body = {"format": FORMAT, "version": VERSION, "plane": LINEAR_CITY}
    (out / MANIFEST).write_text(json.dumps(body, indent=2) + "\n", encoding="utf-8")


def is_linear_city(out: Path) -> bool:
    """Whether an archive says that its trips are on Linear Road's expressways."""
    try:
        body = json_of((out / MANIFEST).read_bytes())
        return (body["format"], body["plane"]) == (FORMAT, LINEAR_CITY)
    except (OSError, *MALFORMED):
        return False


def write(file: Path, pieces: Iterable[Trips], start: int) -> None:
    """Write trips as moving points; second 0 is ``start`` seconds after 1970."""
    # places differ from report to report: a dictionary of them would only be thrown away
    few = ["xway", "dir", "Trip.t.list.element", "Trip.y.list.element", "Trip.starts.list.element"]
    with pq.ParquetWriter(file, SCHEMA, compression="zstd", use_dictionary=few) as writer:
        for piece in pieces:
            writer.write_table(as_table(piece, start))


def show(out: Path, batch: int, files: list[Path]) -> None:
    """Put the files of a batch into place, and take away what an attempt that was cut short left."""
    for left in (out / FOLDER).glob(f"{batch:012}.*.parquet"):
        left.unlink()
    for number, file in enumerate(files):
        file.rename(out / FOLDER / f"{batch:012}.{number}.parquet")


def loose(out: Path) -> Iterator[tuple[int, Path]]:
    """The files of single batches, each with its batch."""
    return ((int(file.name[:12]), file) for file in sorted((out / FOLDER).glob("[0-9]*.[0-9]*.parquet")))


def covered(file: Path) -> range:
    """The batches in a compacted file, by its name."""
    first, last = map(int, file.stem.split("-"))
    return range(first, last + 1)


def compacted(folder: Path) -> list[tuple[range, Path]]:
    """The compacted files of a folder in order, each with the batches it covers."""
    return [(covered(file), file) for file in sorted(folder.glob("[0-9]*-[0-9]*.parquet"))]


def committed(out: Path) -> list[Path]:
    """The files of an archive whose trips count."""
    if not (out / FOLDER).is_dir():
        raise BadInput(f"{out}: no archive.", hint="`slipstream archive INPUT --out OUT` makes one.")
    if not (out / JOURNAL).exists() and not any(loose(out)):
        return sorted((out / FOLDER).rglob("*.parquet"))
    last = last_in_journal(out / JOURNAL)
    old = compacted(out / FOLDER)
    first = old[-1][0].stop if old else 0
    return [*(file for _, file in old), *(file for batch, file in loose(out) if first <= batch <= last)]


def open_archive(spark: SparkSession, out: Path) -> DataFrame:
    """The trips of an archive: vid, xway, dir, and Trip, a moving point."""
    files = committed(out)
    return spark.read.parquet(*map(str, files)) if files else spark.createDataFrame([], COLUMNS)
