"""Arrival numbers for the tuples of any DataFrame, streaming or not, that has none of its own.

A stream has no row numbers, but Spark numbers its batches and the tasks of a batch, and gives a task its rows in order.
A batch that is repeated after a failure has the same number and the same rows in each task, so the arrival numbers are
the same too.
"""

from __future__ import annotations

from pyspark import TaskContext

#: bits for the number of a task in its batch, and of a tuple in its task; 23 are left for the batch
_TASK, _TUPLE = 10, 30


def first_number(task: TaskContext | None) -> int:
    """The number of a task's first tuple.

    >>> first_number(None)
    0
    """
    if task is None:
        return 0
    batch = int(task.getLocalProperty("streaming.sql.batchId") or 0)
    return (batch << _TASK | task.partitionId()) << _TUPLE
