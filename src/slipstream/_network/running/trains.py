"""Trains: recorded tuples as a folder of numbered Parquet files that Spark streams in order, one or more a batch.

A train carries arrival number and arrival time with its tuples, so a replay, a restart and a second reader all see the
same stream. A train appears whole (it is renamed into place), so a reader never sees half of one.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slipstream._io.formats.decoding import TYPES as ARROW
from slipstream._io.readers.trains import train_file
from slipstream._network.algebra import TYPES, Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: the hidden columns a source brings: arrival number and arrival time in microseconds
SEQ, TS = "_seq", "_ts"
#: and, when load is shed, at which places it is to be dropped, a bit each
SHED = "_shed"

#: Spark takes files in the order of their times; one second apart is apart on every file system
_EPOCH = 1_000_000_000


def arrow_schema(schema: Schema) -> pa.Schema:
    """How the tuples of a source lie in a train."""
    hidden = [(SEQ, pa.int64()), (TS, pa.int64())]
    return pa.schema(hidden + [(name, ARROW[type_]) for name, type_ in schema.items()])


def write_train(folder: Path, number: int, tuples: pa.Table) -> Path:
    """Put one train into the folder."""
    place = train_file(folder, number)
    place.parent.mkdir(parents=True, exist_ok=True)
    stage = place.with_name(f".{place.name}.partial")
    pq.write_table(tuples, stage)
    stamp_time(stage, number)
    return stage.rename(place)


def arriving(train: pa.Table, began: int) -> pa.Table:
    """A recorded train with the times at which its tuples arrive when the recording began at ``began``."""
    return train.set_column(train.schema.get_field_index(TS), TS, pc.add(train[TS], began)) if began else train


def stamp_time(train: Path, number: int) -> None:
    """Give a train the time of its number, so that Spark takes trains in their order."""
    os.utime(train, (_EPOCH + number, _EPOCH + number))


def last_arrival(train: Path) -> int:
    """The arrival time of a train's newest tuple, in microseconds, from the file's own statistics."""
    found = pq.read_metadata(train)
    place = found.schema.names.index(TS)
    groups = [found.row_group(i) for i in range(found.num_row_groups)]
    return max((int(group.column(place).statistics.max) for group in groups if group.num_rows), default=0)


def open_trains(spark: SparkSession, folder: Path, schema: Schema, *, per_batch: int = 1) -> DataFrame:
    """The trains of a folder as a stream, ``per_batch`` of them a micro-batch."""
    types = {SEQ: "bigint", TS: "bigint", SHED: "bigint"} | {name: TYPES[type_] for name, type_ in schema.items()}
    reader = spark.readStream.schema(", ".join(f"`{name}` {type_}" for name, type_ in types.items()))
    options = {"maxFilesPerTrigger": str(per_batch), "pathGlobFilter": "train-*.parquet"}
    return reader.options(**options).parquet(str(folder))
