"""Arrival numbers and times for the tuples of any DataFrame, streaming or not, that brings none of its own.

A stream has no row numbers, but Spark numbers its batches, the tasks of a batch, and gives a task its rows in order.
A batch that is repeated after a failure has the same number and the same rows in each task, and Spark notes its time in
the checkpoint; so the arrivals are the same again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from slipstream.network.trains import SEQ, TS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: bits for the number of a task in its batch, and of a tuple in its task; 23 are left for the batch
_TASK, _TUPLE = 10, 30


def with_arrivals(frame: DataFrame) -> DataFrame:
    """The frame with ``_seq`` and ``_ts``, unless it has them: in the order of batches, tasks and rows."""
    from pyspark.sql import functions as sf
    from pyspark.sql.types import LongType, StructType

    if SEQ not in frame.columns:
        schema = StructType([*frame.schema.fields]).add(SEQ, LongType())
        frame = frame.mapInArrow(_number, schema)
    # Spark's time of a batch, not the worker's: a repeated batch has the same
    return frame if TS in frame.columns else frame.withColumn(TS, sf.expr("unix_micros(current_timestamp())"))


def _number(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Number the tuples of one task."""
    first = first_number(TaskContext.get())
    for batch in batches:
        numbers = pa.array(np.arange(first, first + batch.num_rows))
        first += batch.num_rows
        yield batch.append_column(SEQ, numbers)


def first_number(task: TaskContext | None) -> int:
    """The number of a task's first tuple.

    >>> first_number(None)
    0
    """
    if task is None:
        return 0
    batch = int(task.getLocalProperty("streaming.sql.batchId") or 0)
    return (batch << _TASK | task.partitionId()) << _TUPLE
