"""The 17 queries: one SQL file per query and representation; run and timed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from slipstream._berlinmod import compound, index, resident
from slipstream._berlinmod.dataset import Dataset
from slipstream._errors import BadArgument
from slipstream._moving import types
from slipstream._spark import session
from slipstream._tools.files.staging import staged_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NUMBERS = range(1, 18)
REPRESENTATIONS = ("oba", "tba")
#: units of a data set whose queries end before the JVM has optimised its code, so that Spark need not wait for it
SMALL = 1_000_000


@dataclass(frozen=True)
class QueryRun:
    """One run of a query: how long it took and how many rows it returned."""

    query: int
    representation: str
    seconds: float
    rows: int


def query_text(number: int, representation: str) -> str:
    """Return the text of a query."""
    return files("slipstream._berlinmod").joinpath("sql", representation, f"q{number:02d}.sql").read_text("utf-8")


def parse_numbers(text: str, option: str = "--only", last: int = NUMBERS[-1]) -> list[int]:
    """Parse query numbers from 1 to ``last``, and ranges of them.

    >>> parse_numbers("1-3,17")
    [1, 2, 3, 17]
    """
    out: list[int] = []
    try:
        for part in text.split(","):
            low, _, high = part.partition("-")
            out += range(int(low), int(high or low) + 1)
    except ValueError:
        out = [0]
    if not out or any(not 1 <= number <= last for number in out):
        raise BadArgument(
            f"{option} {text}: not in 1 to {last}.",
            hint=f"For example: {option} 1-5,{last}.",
            code="unknown-value",
            found=text,
        )
    return out


def prepare(spark: SparkSession, data: Dataset) -> None:
    """Register tables, operators and index with the session; builds the index if there is none."""
    data.create_views(spark)
    if not index.is_built(data):
        index.build(spark, data)
    for head, body in (("begins", "m.t[0]"), ("ends", "element_at(m.t, -1)")):
        spark.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION {head}(m {types.MPOINT.sql}) RETURNS timestamp RETURN {body}")
    compound.register(spark)
    index.create_views(spark, data)
    script = files("slipstream._berlinmod").joinpath("sql", "index.sql").read_text("utf-8")
    for statement in script.split(";"):
        if statement.strip():
            spark.sql(statement)
    resident.load(spark, ("dataScar", "dataMtrip", "pieces", "cells"))


def query(spark: SparkSession, number: int, representation: str) -> DataFrame:
    """Return the result of a query; the session must be prepared."""
    return spark.sql(query_text(number, representation))


def run(spark: SparkSession, number: int, representation: str, out: Path) -> QueryRun:
    """Run a query and time it until its answer is here; then write the answer as Parquet under ``out``."""
    started = time.perf_counter()
    with session.with_settings(spark, resident.settings(spark)):
        answer = query(spark, number, representation).toArrow()
    seconds = time.perf_counter() - started
    with staged_folder(out / representation / f"q{number:02d}", replace=True) as folder:
        pq.write_table(answer, folder / "answer.parquet")
    return QueryRun(number, representation, round(seconds, 3), answer.num_rows)


def explain(spark: SparkSession, number: int, representation: str) -> str:
    """Return Spark's plan of a query, with the partitions it prunes."""
    with session.with_settings(spark, resident.settings(spark)):
        frame = query(spark, number, representation)
        return str(frame._jdf.queryExecution().explainString(_mode(spark, "formatted")))


def _mode(spark: SparkSession, name: str) -> object:
    jvm = spark.sparkContext._jvm
    return jvm.org.apache.spark.sql.execution.ExplainMode.fromString(name)  # type: ignore[union-attr]


def parse_representations(name: str) -> Sequence[str]:
    """Return the representations that ``--as`` selects."""
    chosen = {"oba": ("oba",), "tba": ("tba",), "both": REPRESENTATIONS}.get(name)
    if chosen is None:
        raise BadArgument(
            f"--as {name}: no such representation.", hint="Use oba, tba or both.", code="unknown-value", found=name
        )
    return chosen
