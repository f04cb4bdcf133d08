"""Create the history of a run: SegmentHistory, TollHistory and the engine's lookup arrays.

Spark runs one task per expressway for the segments, and one per range of vehicles for the tolls. A task writes its own
files (or its own rows of the shared arrays), so a task that Spark runs twice writes the same bytes twice. The values
are defined in :mod:`slipstream._city.past`, the format on disk in :mod:`slipstream._feeds.history`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from slipstream._city.past import WEEKEND, expected_cars, fill_segment_day, fill_vehicle_days, speed_with_cars, stream
from slipstream._errors import BadInput
from slipstream._feeds.history import (
    DAYS,
    DIRECTIONS,
    FOLDER,
    INDEX,
    MEANS,
    MINUTES,
    SEGMENT_COLUMNS,
    TOLL_COLUMNS,
    TOLL_DAYS,
    TOLL_XWAYS,
    TOLLS,
    WEEKS,
    FileDigest,
    History,
    HistoryIndex,
    count_file,
    day_of_week,
    digest_file,
    speed_file,
)
from slipstream._feeds.run import Run, versions
from slipstream._feeds.tuples import POSITION, SEGMENTS
from slipstream._spark.session import task_errors
from slipstream._tools.files import staging
from slipstream._tools.numba_tools import Ints
from slipstream._tools.progress import task_bar

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CELLS = MINUTES * DIRECTIONS * SEGMENTS
SEGMENT_ROWS = DAYS * CELLS

#: vehicles per task: 2.3 M rows of TollHistory, about 100 MB while they are generated
RANGE = 1 << 15

#: bytes on disk of one expressway's segments and of one vehicle's tolls: measured, plus a quarter
EXPRESSWAY_BYTES = 62_000_000
VEHICLE_BYTES = 95

SEGMENT_SCHEMA = pa.schema([(name, pa.int32()) for name in SEGMENT_COLUMNS])
TOLL_SCHEMA = pa.schema([(name, pa.int32()) for name in TOLL_COLUMNS])

#: what a task reports of each file it wrote
WRITTEN = pa.schema([("file", pa.string()), ("bytes", pa.int64()), ("sha256", pa.string()), ("rows", pa.int64())])
_WRITTEN_SQL = "file string, bytes long, sha256 string, rows long"

Batches = Iterator[pa.RecordBatch]


def make_history(run: Run, spark: SparkSession, *, seed: int = 1, replace: bool = False) -> History:
    """Create the history of ``run`` next to it; it appears only when it is complete."""
    xways = list_stored_expressways(run)
    stride = run.manifest.vid_stride
    needs = len(xways) * EXPRESSWAY_BYTES + run.manifest.vehicles * VEHICLE_BYTES + 4 * stride * TOLL_DAYS
    hint = "--overwrite makes it again; --csv exports the one that is there."
    with staging.staged_folder(run.path / FOLDER, needs_bytes=needs, replace=replace, label="", hint=hint) as stage:
        for name in ("segments", "tolls", "arrays"):
            (stage / name).mkdir()
        segments = _write_segments(spark, stage, seed, xways)
        tolls = _write_tolls(spark, run, stage, seed, xways)
        rows = {"segments": sum(segments["rows"]), "tolls": sum(tolls["rows"])}
        checks = (
            _compute_checks(segments)
            | _compute_checks(tolls)
            | {name: digest_file(stage / name) for name in (TOLLS, TOLL_XWAYS)}
        )
        index = HistoryIndex(seed, xways, stride, rows["tolls"] // TOLL_DAYS, rows, checks, versions())
        (stage / INDEX).write_text(index.to_json(), encoding="utf-8")
    return History.open(run)


def list_stored_expressways(run: Run) -> tuple[int, ...]:
    """Return the stored expressways; reject a run that cannot have a history."""
    xways = tuple(expressway.xway for expressway in run.manifest.expressways)
    most = np.iinfo(np.int16).max
    if not run.manifest.counts["position"]:
        raise BadInput(
            f"{run.path}: no vehicle reports in this run.", hint="A history is made for vehicles.", code="empty-input"
        )
    if max(xways) > most:
        raise BadInput(
            f"{run.path}: has expressway {max(xways)}, but a history numbers them up to {most} only.",
            hint="Number the expressways of the source from 0.",
            code="too-large",
        )
    return xways


def _compute_checks(written: dict[str, list[Any]]) -> dict[str, FileDigest]:
    files = zip(written["file"], written["bytes"], written["sha256"], strict=True)
    return {file: FileDigest(size, digest) for file, size, digest in files}


# segments: a task per expressway


def _write_segments(spark: SparkSession, stage: Path, seed: int, xways: tuple[int, ...]) -> dict[str, list[Any]]:
    todo = spark.createDataFrame([(xway,) for xway in xways], "xway int").repartitionByRange(len(xways), "xway")
    return _run_tasks(spark, "segment history", todo.mapInArrow(partial(_run_segment_task, stage, seed), _WRITTEN_SQL))


def _run_segment_task(stage: Path, seed: int, todo: Batches) -> Batches:
    for batch in todo:
        for xway in batch.column("xway").to_pylist():
            yield from _report_written(stage, _write_expressway(stage, seed, xway)).to_batches()


def _write_expressway(stage: Path, seed: int, xway: int) -> dict[str, int]:
    """Write an expressway's rows, one row group per day, and their means; return the number of rows per file."""
    file = f"segments/expressway-{xway:05d}.parquet"
    speeds = speed_with_cars()
    sums = np.zeros((2, *MEANS), dtype=np.int32)
    lav, cnt, toll = values = np.empty((3, CELLS), dtype=np.int32)
    with _open_table(stage / file, SEGMENT_SCHEMA) as write:
        for day in range(1, DAYS + 1):
            fill_segment_day(stream(seed, 2, xway, day), expected_cars(seed, xway, day).ravel(), speeds, lav, cnt, toll)
            write([np.full(CELLS, day), _MINUTE, np.full(CELLS, xway), _DIRECTION, _SEGMENT, *values])
            sums[:, day_of_week(day) - 1] += values[:2].reshape(2, *MEANS[1:])
    for name, total in zip((speed_file(xway), count_file(xway)), sums, strict=True):
        with _write_whole_file(stage / name) as out:
            np.save(out, (total / WEEKS).astype(np.float32))
    return {file: SEGMENT_ROWS, speed_file(xway): 0, count_file(xway): 0}


_MINUTE, _DIRECTION, _SEGMENT = (
    axis.ravel().astype(np.int32) + first
    for axis, first in zip(np.indices((MINUTES, DIRECTIONS, SEGMENTS)), (1, 0, 0), strict=True)
)


# tolls: a task per range of vehicles


def _write_tolls(spark: SparkSession, run: Run, stage: Path, seed: int, xways: tuple[int, ...]) -> dict[str, list[Any]]:
    ranges = -(-run.manifest.vid_stride // RANGE)
    shape = (run.manifest.vid_stride, TOLL_DAYS)
    np.lib.format.open_memmap(stage / TOLLS, mode="w+", dtype=np.uint16, shape=shape).flush()
    nowhere = np.lib.format.open_memmap(stage / TOLL_XWAYS, mode="w+", dtype=np.int16, shape=shape)
    nowhere[:] = -1
    nowhere.flush()
    vehicles = _find_vehicles(spark, run).selectExpr("vid", "home", f"vid div {RANGE} as part")
    todo = vehicles.repartition(min(ranges, 1000), "part").groupBy("part")

    def task(vehicles: pa.Table) -> pa.Table:
        return _run_toll_task(stage, seed, xways, vehicles)

    return _run_tasks(spark, "toll history", todo.applyInArrow(task, _WRITTEN_SQL))


def _find_vehicles(spark: SparkSession, run: Run) -> DataFrame:
    """Return the vehicles of the stored run, each with the expressway of its first report."""
    from pyspark.sql import functions as sf

    reports = run.multiplied(1).dataframe(spark).where(f"type = {POSITION} and vid >= 0")
    first = sf.min(sf.struct("time", "xway")).getField("xway").alias("home")
    return reports.groupBy("vid").agg(first)


def _run_toll_task(stage: Path, seed: int, xways: tuple[int, ...], vehicles: pa.Table) -> pa.Table:
    """Write the rows of one range of vehicles, to the table and both arrays."""
    vehicles = vehicles.sort_by("vid")
    vids, homes = (vehicles.column(name).to_numpy() for name in ("vid", "home"))
    tolls, where = draw_toll_rows(seed, vids, homes, xways)
    days = np.arange(1, TOLL_DAYS + 1)
    file = f"tolls/vehicles-{vehicles.column('part')[0].as_py():05d}.parquet"
    with _open_table(stage / file, TOLL_SCHEMA) as write:
        write([vids.repeat(TOLL_DAYS), np.tile(days, vids.size), where.ravel(), tolls.ravel()])
    _put_rows(stage / TOLLS, vids, tolls)
    _put_rows(stage / TOLL_XWAYS, vids, where)
    return _report_written(stage, {file: vids.size * TOLL_DAYS})


def draw_toll_rows(
    seed: int, vids: Ints, homes: Ints, xways: tuple[int, ...]
) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.int16]]:
    """Return tolls and expressways of some vehicles: one row per vehicle, one column per day."""
    shape = (vids.size, TOLL_DAYS)
    tolls, where = np.empty(shape, dtype=np.uint16), np.empty(shape, dtype=np.int16)
    working = np.array([day_of_week(day) < WEEKEND for day in range(1, TOLL_DAYS + 1)])
    fill_vehicle_days(stream(seed, 3), vids, homes, np.array(xways, dtype=np.int32), working, tolls, where)
    return tolls, where


def _put_rows(file: Path, vids: Ints, rows: npt.NDArray[Any]) -> None:
    """Set the rows of ``vids`` in an array on disk."""
    array = np.lib.format.open_memmap(file, mode="r+")
    array[vids] = rows
    array.flush()


# what the tasks share


def _run_tasks(spark: SparkSession, what: str, tasks: DataFrame) -> dict[str, list[Any]]:
    """Run the tasks and collect their reports."""
    with task_errors(), task_bar(spark, what):
        written: dict[str, list[Any]] = tasks.toArrow().to_pydict()
    return written


def _report_written(stage: Path, rows: dict[str, int]) -> pa.Table:
    """Report the files that a task wrote."""
    checks = [digest_file(stage / file) for file in rows]
    columns = [list(rows), [c.bytes for c in checks], [c.sha256 for c in checks], list(rows.values())]
    return pa.table(columns, schema=WRITTEN)


@contextmanager
def _write_whole_file(file: Path) -> Iterator[IO[bytes]]:
    """Write a file that appears only when it is complete: Spark may run a task twice at the same time."""
    partial_file = staging.temporary_sibling(file, "partial")
    with partial_file.open("wb") as out:
        yield out
    partial_file.rename(file)


@contextmanager
def _open_table(file: Path, schema: pa.Schema) -> Iterator[Callable[[list[npt.NDArray[Any]]], None]]:
    """Open a Parquet file; yields a function that adds a row group from columns of numbers."""
    with (
        _write_whole_file(file) as out,
        pq.ParquetWriter(out, schema, compression="zstd", use_dictionary=True) as writer,
    ):

        def write(columns: list[npt.NDArray[Any]]) -> None:
            table = pa.table([column.astype(np.int32, copy=False) for column in columns], schema=schema)
            writer.write_table(table, row_group_size=table.num_rows)

        yield write


# the tables as text


def export_csv(run: Run, spark: SparkSession, *, replace: bool = False) -> Path:
    """Write both tables as CSV without a header, in the published column order, to ``RUN/history/csv``."""
    folder = run.path / FOLDER
    out = folder / "csv"
    tables = {"SegmentHistory": ("segments", SEGMENT_COLUMNS), "TollHistory": ("tolls", TOLL_COLUMNS)}
    hint = "Remove it to write it again."
    with staging.staged_folder(out, replace=replace, label="", hint=hint) as stage, task_errors():
        for name, (table, columns) in tables.items():
            with task_bar(spark, name):
                spark.read.parquet(str(folder / table)).select(*columns).write.csv(str(stage / name))
    return out
