"""Tables in memory: a query of a small part of the data then lists, opens and decodes no files.

Samples and vehicles are part of the plans. Movements and the index are cached by Spark, in one partition per core, if
they fit; then queries are planned once, without adaptive execution, whose stages cost more than they save.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: the bytes that a unit takes in each of the tables of movements, with its share of the index
UNIT = 40
#: the share of Spark's memory that tables may take
SHARE = 0.4
#: how queries of tables in memory are planned
STATIC = {"spark.sql.adaptive.enabled": "false"}


def small_table(spark: SparkSession, folder: Path, units: int) -> DataFrame:
    """Return a small table; it is part of every plan that uses it if the other tables are in memory.

    Otherwise it is read as a file: Spark prunes partitions by tables that it sees filtered.
    """
    return spark.createDataFrame(pq.read_table(folder)) if fits(spark, units) else spark.read.parquet(str(folder))


def create_view(spark: SparkSession, folder: Path, name: str, units: int) -> None:
    """Register a table; :func:`load` brings it into memory if all tables of a data set of this size fit."""
    table = spark.read.parquet(str(folder))
    if not fits(spark, units):
        table.createOrReplaceTempView(name)
        return
    table.coalesce(spark.sparkContext.defaultParallelism).createOrReplaceTempView(name)
    spark.sql(f"CACHE LAZY TABLE {name}")


def load(spark: SparkSession, names: Sequence[str]) -> None:
    """Bring registered tables into memory, all at once: with small ones, Spark mostly plans and waits."""
    wanted = [name for name in names if spark.catalog.isCached(name)]
    with ThreadPoolExecutor(max(1, len(wanted))) as threads:
        list(threads.map(lambda name: spark.table(name).count(), wanted))


def fits(spark: SparkSession, units: int) -> bool:
    """Return whether the tables of a data set with a number of units fit into the memory of all executors."""
    status = spark.sparkContext._jsc.sc().getExecutorMemoryStatus()
    values = status.values().iterator()
    room = 0
    while values.hasNext():
        room += values.next()._1()
    return 3 * UNIT * units < SHARE * room


def settings(spark: SparkSession) -> dict[str, str]:
    """Return the settings for queries of the registered tables."""
    return STATIC if spark.catalog.isCached("pieces") else {}
