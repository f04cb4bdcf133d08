"""Reading what a run has delivered: all of an output with Spark, the newest tuples without.

Outputs are tables (``sink``), what connection points and views keep lies as trains.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from slipstream._io import outputs
from slipstream._network.algebra import Schema
from slipstream._network.functions import DELIVERED_TYPES
from slipstream._network.running.trains import SEQ, SHED, TS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def results(spark: SparkSession, folder: Path, output: str, schema: Schema) -> DataFrame:
    """Everything an output has delivered, in order, with its own columns."""
    if output not in outputs.names(folder):
        return spark.createDataFrame([], ddl(schema))
    rows = outputs.frame(spark, folder, output)
    return rows.orderBy(*keys_of(rows.columns)).select(*(f"`{name}`" for name in schema))


def kept(spark: SparkSession, trains: list[Path], schema: Schema) -> DataFrame:
    """What a history holds, in order, with its own columns."""
    if not trains:
        return spark.createDataFrame([], ddl(schema))
    return spark.read.parquet(*map(str, trains)).orderBy(SEQ).select(*(f"`{name}`" for name in schema))


def newest_results(folder: Path, output: str, last: int, *, until: int | None = None) -> list[dict[str, Any]]:
    """The newest tuples of an output, in order; those of batches after ``until`` do not count."""
    if output not in outputs.names(folder):
        return []
    keys = keys_of(outputs.visible(folder, output).schema.names)
    rows = outputs.newest(folder, output, last, keys, until=until)
    return list(own(rows.drop_columns(outputs.BATCH)).to_pylist())


def own(rows: pa.Table) -> pa.Table:
    """The tuples in stored rows, in order, with their own columns only."""
    keys = keys_of(rows.column_names)
    rows = rows.sort_by([(key, "ascending") for key in keys]) if keys else rows
    return rows.drop_columns([name for name in (TS, *keys) if name in rows.column_names])


def newest_kept(trains: list[Path], last: int) -> list[dict[str, Any]]:
    """The newest tuples of a history (its trains oldest first), in order."""
    found: list[dict[str, Any]] = []
    for train in reversed(trains):
        table = pq.read_table(train).sort_by(SEQ)
        hidden = [name for name in (SEQ, TS, SHED) if name in table.column_names]
        found = table.drop_columns(hidden).to_pylist() + found
        if len(found) >= last:
            break
    return found[-last:]


def ddl(schema: Schema) -> str:
    """A schema as Spark writes it."""
    return ", ".join(f"`{name}` {DELIVERED_TYPES[type_]}" for name, type_ in schema.items())


def keys_of(columns: list[str]) -> list[str]:
    """The columns of stored rows by which tuples are in order."""
    keys = [name for name in columns if name[:2] == "_q" and name[2:].isdigit()]
    return sorted(keys, key=lambda key: int(key[2:]))
