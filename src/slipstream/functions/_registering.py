"""All functions for Spark SQL: the operators, and the table function that builds trips."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream._moving.sql_functions import register as register_operators
from slipstream._trajectories.cutting import table_function

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Register every operator as a SQL function of the session, and the table function ``trajectories``.

    None of the session's settings change.

    >>> import slipstream.functions as sf
    >>> sf.register(trips.sparkSession)
    >>> trips.selectExpr("id", "travelled(Trip) AS metres").toPandas()
          id  metres
    0  van-1  1000.0
    1  van-2  1000.0
    2  van-3     0.0
    """
    register_operators(spark)
    table_function.register(spark)
