"""Recorded trains: a folder of numbered Parquet files that Spark streams in order, one or more per batch.

A train has the arrival numbers and times of its tuples, so a replay, a restart and a second reader all see the same
stream. A train is renamed into place when it is complete, so a reader never sees half of one.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slipstream._io.formats.decoding import TYPES as ARROW
from slipstream._io.readers.recorded_trains import train_file
from slipstream._io.train_files import TS
from slipstream._network.algebra import TYPES, Schema
from slipstream._tools.files.remote_paths import RemotePath, arrow_sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: the hidden columns of a source: beside the time of arrival, its number
SEQ = "_seq"
#: and, when load is shed, the places at which a tuple is dropped, one bit each
SHED = "_shed"

#: Spark reads files in the order of their times; every file system distinguishes one second
_EPOCH = 1_000_000_000


def arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of a source's trains."""
    hidden = [(SEQ, pa.int64()), (TS, pa.int64())]
    return pa.schema(hidden + [(name, ARROW[type_]) for name, type_ in schema.items()])


def write_train(folder: Path, number: int, tuples: pa.Table) -> Path:
    """Write one train into a folder."""
    place = train_file(folder, number)
    place.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(place, RemotePath):  # read by number, and complete as soon as it is there
        with arrow_sink(place) as sink:
            pq.write_table(tuples, sink)
        return place
    stage = place.with_name(f".{place.name}.partial")
    pq.write_table(tuples, stage)
    stamp_time(stage, number)
    return stage.rename(place)


def set_arrivals(train: pa.Table, began: int) -> pa.Table:
    """Set the arrival times of a recorded train, given when the recording began."""
    return train.set_column(train.schema.get_field_index(TS), TS, pc.add(train[TS], began)) if began else train


def stamp_time(train: Path, number: int) -> None:
    """Set a train's file time by its number, so that Spark reads trains in order."""
    os.utime(train, (_EPOCH + number, _EPOCH + number))


def open_trains(spark: SparkSession, folder: Path, schema: Schema, *, per_batch: int = 1) -> DataFrame:
    """Open the trains of a folder as a stream, ``per_batch`` of them per micro-batch."""
    types = {SEQ: "bigint", TS: "bigint", SHED: "bigint"} | {name: TYPES[type_] for name, type_ in schema.items()}
    reader = spark.readStream.schema(", ".join(f"`{name}` {type_}" for name, type_ in types.items()))
    options = {"maxFilesPerTrigger": str(per_batch), "pathGlobFilter": "train-*.parquet"}
    return reader.options(**options).parquet(str(folder))
