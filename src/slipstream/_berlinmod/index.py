"""Indexes for the queries: pieces of the movements in space, and a grid over space and time.

``pieces``  every trip split into runs of whole units at most 500 m wide, with their bounding box and time; clustered by
            ``tile`` (a square, 4 km wide for large data sets), so that a query over places reads only the tiles it
            needs.
``cells``   one row per 500 m cell and day that a piece touches: the space-time index. Partitioned by ``day``, so that a
            query over instants or periods reads only those days. A piece's box is widened by 5 m, so two objects
            within 10 m of each other always share a cell.

Both are plain Parquet tables that the queries join, from memory if they fit. Otherwise Spark prunes their partitions at
run time (dynamic partition pruning), which ``slipstream berlinmod explain`` shows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slipstream._berlinmod import resident
from slipstream._berlinmod.dataset import Dataset
from slipstream._joins.grid import BoundingBoxes, Grid
from slipstream._moving import types
from slipstream._moving.columns import read, write
from slipstream._moving.kernels.motion import boxes, lengths, split_by_extent
from slipstream._tools.numba_tools import Floats, Ints

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CELL = 500.0
#: the width of a tile in data sets of TILE_UNITS or more; wider in smaller ones, so that files do not get too small
TILE = 4000.0
TILE_UNITS = 50_000_000
MARGIN = 5.0
DAY = 86_400_000_000
#: the cells of the index: those of every join of trajectories, of one size for all queries
GRID = Grid(CELL, DAY, MARGIN)
#: units that one task sorts and writes: about 50 MB of them
SHARE = 2_000_000
#: a piece's number is its trip's number times this, plus its number within the trip
PIECES = 100_000

_BOX = [(name, pa.float64()) for name in ("x0", "y0", "x1", "y1")]
_TIME = [("t0", types.INSTANT), ("t1", types.INSTANT)]
_WHO = [("Piece", pa.int64()), ("Moid", pa.int64()), ("TripId", pa.int64()), ("Licence", pa.string())]
PIECE = pa.schema([*_WHO, *_BOX, *_TIME, ("Metres", pa.float64()), ("Part", types.MPOINT.arrow), ("tile", pa.int32())])
CELLS = pa.schema(
    [("cx", pa.int32()), ("cy", pa.int32()), ("day", pa.int32()), *_WHO, *_BOX, *_TIME, ("tile", pa.int32())]
)
_SQL = "Piece long, Moid long, TripId long, Licence string, x0 double, y0 double, x1 double, y1 double"
_SQL += ", t0 timestamp, t1 timestamp"
PIECE_SQL = f"{_SQL}, Metres double, Part {types.MPOINT.sql}, tile int"
CELLS_SQL = f"cx int, cy int, day int, {_SQL}, tile int"


def find_tile(x: Floats, y: Floats, width: float) -> Ints:
    """Return the number of the tile that contains a place."""
    return (np.floor(x / width) * 4096 + np.floor(y / width)).astype(np.int32)


def _pieces(batches: Iterator[pa.RecordBatch], width: float) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        owner, parts = split_by_extent(read(batch.column("Trip")), CELL)
        counts = np.diff(owner)
        rows = pa.array(np.repeat(np.arange(batch.num_rows), counts))
        number = np.arange(len(rows)) - np.repeat(owner[:-1], counts)
        x0, y0, x1, y1 = boxes(parts)
        trip = batch.column("TripId").take(rows)
        columns = [
            pa.array(trip.to_numpy() * PIECES + number),
            batch.column("Moid").take(rows),
            trip,
            batch.column("Licence").take(rows),
            *map(pa.array, (x0, y0, x1, y1)),
            write(parts.t[parts.rows[:-1]], types.INSTANT_TYPE),
            write(parts.t[parts.rows[1:] - 1], types.INSTANT_TYPE),
            pa.array(lengths(parts)),
            write(parts, types.MPOINT),
            pa.array(find_tile(x0, y0, width)),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=PIECE)


def _cells(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows, cells, _ = GRID.cover(BoundingBoxes(*(read(batch.column(name)) for name in BoundingBoxes._fields)))
        thin = batch.select([*(name for name, _ in (*_WHO, *_BOX, *_TIME)), "tile"])
        taken = pa.Table.from_batches([thin]).take(pa.array(rows)).combine_chunks()
        *columns, tile = (column.combine_chunks() for column in taken.columns)
        where = [pa.array(cells[:, k].astype(np.int32)) for k in range(3)]
        yield pa.RecordBatch.from_arrays([*where, *columns, tile], schema=CELLS)


def build(spark: SparkSession, data: Dataset) -> dict[str, int]:
    """Build the index of a data set, replacing an existing one."""
    folder = data.path / "index"
    trips = data.table(spark, "dataMtrip").select("Moid", "TripId", "Licence", "Trip")
    width = TILE * max(1.0, math.sqrt(TILE_UNITS / max(1, data.manifest.units)))
    pieces = trips.mapInArrow(lambda batches: _pieces(batches, width), PIECE_SQL)
    shares = max(spark.sparkContext.defaultParallelism, math.ceil(data.manifest.units / SHARE))
    _write_partitioned(pieces, folder / "pieces", shares, "tile", "Piece")
    stored = spark.read.parquet(str(folder / "pieces"))
    cells = stored.drop("Part", "Metres").mapInArrow(_cells, CELLS_SQL)
    _write_partitioned(cells, folder / "cells", shares, "day", "cx", "cy")
    (folder / "_READY").write_text("pieces, cells\n", encoding="utf-8")
    return {"pieces": stored.count(), "cells": spark.read.parquet(str(folder / "cells")).count()}


def _write_partitioned(frame: DataFrame, folder: Path, shares: int, by: str, *order: str) -> None:
    """Write one sorted folder per value of ``by``; partitions by hash, as ranges would compute everything twice."""
    rows = frame.repartition(shares, by).sortWithinPartitions(by, *order)
    rows.write.mode("overwrite").partitionBy(by).parquet(str(folder))


def is_built(data: Dataset) -> bool:
    """Return whether the data set has an index."""
    return (data.path / "index" / "_READY").exists()


def create_views(spark: SparkSession, data: Dataset) -> None:
    """Register the index, and functions for its grid."""
    for name in ("pieces", "cells"):
        resident.create_view(spark, data.path / "index" / name, name, data.manifest.units)
    functions = {
        "cell(x double)": ("int", f"int(floor(x / {CELL}D))"),
        "day_of(t timestamp)": ("int", f"int(floor(unix_micros(t) / {DAY}))"),
    }
    for head, (returns, body) in functions.items():
        spark.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION {head} RETURNS {returns} RETURN {body}")
