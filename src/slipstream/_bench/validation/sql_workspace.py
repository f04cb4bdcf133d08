"""SQL queries over named DataFrames, with intermediate results cached on disk.

A long computation in SQL needs to name its intermediate results and to cache those that several queries read. PySpark's
own ``spark.sql(query, name=frame)`` names them for one query only and drops the names afterwards, which also makes
Spark uncache the frames.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from slipstream._spark.session import with_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: rows that one task sorts in memory without spilling, at the session's default memory
ROWS_PER_TASK = 1_500_000

_PARTS = "spark.sql.shuffle.partitions"
_BROADCAST = "spark.sql.autoBroadcastJoinThreshold"
_BROADCAST_LATER = "spark.sql.adaptive.autoBroadcastJoinThreshold"
_COALESCE = "spark.sql.adaptive.coalescePartitions.enabled"


class SqlWorkspace:
    """Names frames in queries and caches the expensive ones on disk until ``release``."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._kept: list[DataFrame] = []
        self._views: list[str] = []

    def sql(self, query: str, **names: DataFrame | int | str) -> DataFrame:
        """Run a query in which ``{name}`` stands for a frame, a number or a piece of SQL."""
        texts = {name: what if isinstance(what, int | str) else self._view(what) for name, what in names.items()}
        return self.spark.sql(query.format(**texts))

    def keep(self, frame: DataFrame) -> DataFrame:
        """Cache ``frame`` on the workers' disks when it is first computed."""
        from pyspark import StorageLevel

        self._kept.append(frame.persist(StorageLevel.DISK_ONLY))
        return frame

    def release(self) -> None:
        """Drop all names and uncache the frames."""
        for view in self._views:
            self.spark.catalog.dropTempView(view)
        for frame in self._kept:
            frame.unpersist()
        self._views.clear()
        self._kept.clear()

    def _view(self, frame: DataFrame) -> str:
        name = f"workspace_{uuid.uuid4().hex}"
        frame.createTempView(name)
        self._views.append(name)
        return name


@contextmanager
def workspace(spark: SparkSession, rows: int) -> Iterator[SqlWorkspace]:
    """Open a workspace with enough shuffle partitions to sort ``rows`` in memory."""
    parts = max(int(spark.conf.get(_PARTS) or "2"), rows // ROWS_PER_TASK + 1)
    # Spark estimates sizes from compressed data, and copies of one expressway compress very well: it would run out of
    # memory when it broadcasts cached frames or sorts coalesced partitions
    wanted = {_PARTS: str(parts), _BROADCAST: "-1", _BROADCAST_LATER: "-1", _COALESCE: "false"}
    space = SqlWorkspace(spark)
    with with_settings(spark, wanted):
        try:
            yield space
        finally:
            space.release()
