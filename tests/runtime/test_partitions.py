"""Labels are what Spark itself spreads evenly."""

from __future__ import annotations

from pyspark.sql import SparkSession

from slipstream._runtime.stages.partitions import labels, spark_hash


def test_integers_hash_as_they_do_in_spark(spark: SparkSession) -> None:
    found = spark.range(-50, 300).selectExpr("cast(id as int) as n", "hash(cast(id as int)) as h").collect()
    assert {row.n: row.h for row in found} == {n: spark_hash(n) for n in range(-50, 300)}


def test_each_label_has_a_partition_of_its_own() -> None:
    for parts in range(1, 40):
        assert [spark_hash(label) % parts for label in labels(parts)] == list(range(parts))
