"""Reading what a run has left on disk: all of an output with Spark, the newest tuples without.

Results lie as ``results/batch=N/output=NAME/*.parquet``: the order key ``q0``, ``q1``... and the tuple in a struct of
the output's name. What connection points and views keep lies as trains.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from slipstream.network.algebra import TYPES, Schema
from slipstream.network.trains import SEQ, SHED, TS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def results(spark: SparkSession, folder: Path, output: str, schema: Schema) -> DataFrame:
    """Everything an output has delivered, in order, with its own columns."""
    if not any(folder.glob(f"batch=*/output={output}")):
        return spark.createDataFrame([], ddl(schema))
    rows = spark.read.option("mergeSchema", "true").option("basePath", str(folder)).parquet(str(folder))
    return rows.where(f"output = '{output}'").orderBy(*_keys(rows.columns)).select(f"{output}.*")


def kept(spark: SparkSession, trains: list[Path], schema: Schema) -> DataFrame:
    """What a history holds, in order, with its own columns."""
    if not trains:
        return spark.createDataFrame([], ddl(schema))
    return spark.read.parquet(*map(str, trains)).orderBy(SEQ).select(*schema)


def newest_results(folder: Path, output: str, last: int) -> list[dict[str, Any]]:
    """The newest tuples of an output, in order."""
    found: list[dict[str, Any]] = []
    batches = sorted(folder.glob(f"batch=*/output={output}"), key=lambda p: -int(p.parent.name.partition("=")[2]))
    for batch in batches:
        parts = [pq.read_table(part, partitioning=None) for part in batch.glob("*.parquet")]
        table = pa.concat_tables(part.select([*_keys(part.column_names), output]) for part in parts)
        table = table.sort_by([(key, "ascending") for key in _keys(table.column_names)])
        found = table[output].to_pylist() + found
        if len(found) >= last:
            break
    return found[-last:]


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
    return ", ".join(f"{name} {TYPES[type_]}" for name, type_ in schema.items())


def _keys(columns: list[str]) -> list[str]:
    keys = [name for name in columns if name[:1] == "q" and name[1:].isdigit()]
    return sorted(keys, key=lambda key: int(key[1:]))
