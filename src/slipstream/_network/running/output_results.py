"""Reading the results of a run: all of an output with Spark, the newest tuples without.

Outputs are tables (``sink``), the histories of connection points and views are trains.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from slipstream._io import outputs
from slipstream._io.train_files import TS
from slipstream._network.algebra import Schema
from slipstream._network.column_types import DELIVERED_TYPES
from slipstream._network.running.train_folder import SEQ, SHED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_output(spark: SparkSession, folder: Path, output: str, schema: Schema) -> DataFrame:
    """Everything an output has delivered, in order, with its own columns."""
    if output not in outputs.output_names(folder):
        return spark.createDataFrame([], ddl(schema))
    rows = outputs.to_frame(spark, folder, output)
    return rows.orderBy(*order_columns(rows.columns)).select(*(f"`{name}`" for name in schema))


def read_history(spark: SparkSession, trains: list[Path], schema: Schema) -> DataFrame:
    """The tuples of a history, in order, with their own columns."""
    if not trains:
        return spark.createDataFrame([], ddl(schema))
    return spark.read.parquet(*map(str, trains)).orderBy(SEQ).select(*(f"`{name}`" for name in schema))


def newest_results(folder: Path, output: str, last: int, *, until: int | None = None) -> list[dict[str, Any]]:
    """The newest tuples of an output, in order; those of batches after ``until`` do not count."""
    if output not in outputs.output_names(folder):
        return []
    keys = order_columns(outputs.visible_files(folder, output).schema.names)
    rows = outputs.read_newest(folder, output, last, keys, until=until)
    return list(own_columns(rows.drop_columns(outputs.BATCH)).to_pylist())


def own_columns(rows: pa.Table) -> pa.Table:
    """The tuples in stored rows, in order, with only their own columns."""
    keys = order_columns(rows.column_names)
    rows = rows.sort_by([(key, "ascending") for key in keys]) if keys else rows
    return rows.drop_columns([name for name in (TS, *keys) if name in rows.column_names])


def newest_of_history(trains: list[Path], last: int) -> list[dict[str, Any]]:
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
    """A schema in Spark's DDL."""
    return ", ".join(f"`{name}` {DELIVERED_TYPES[type_]}" for name, type_ in schema.items())


def order_columns(columns: list[str]) -> list[str]:
    """The columns that order stored rows."""
    keys = [name for name in columns if name[:2] == "_q" and name[2:].isdigit()]
    return sorted(keys, key=lambda key: int(key[2:]))
