"""Calls of operators in SQL are checked while Spark analyses the query: nothing has run when they are refused."""

from __future__ import annotations

import pytest
from pyspark.errors import IllegalArgumentException

import slipstream.functions as sf
from moving.oracle import moving
from slipstream._moving import analysing, sql_functions, types
from slipstream._moving.space.systems import CRS_KEY

WHERE = "TIMESTAMP '2026-05-04 08:00:00'"
#: a call, and what its error says
REFUSED = {
    "travelled(id)": "argument 1 is string, not mpoint.\ntravelled takes \\(mpoint\\)",
    "travelled()": "it takes 1 argument, not 0",
    "travelled(Trip, Trip)": "it takes 1 argument, not 2",
    "distance(Trip, 3)": "argument 2 is integer, not mpoint",
    "atperiods(Trip, id)": "argument 2 is string, not periods",
    "atinstant(Trip, '2026-05-04')": "argument 2 is string, not timestamp",
    "dwithin(Trip, Trip, true)": "argument 3 is boolean, not number",
    "twavg(Trip)": "argument 1 is mpoint, not",
    "travelled(array(1))": "argument 1 is array, not mpoint",
    "travelled(named_struct('a', 1))": "argument 1 is struct, not mpoint",
    "concat_all(Trip, Trip)": "it takes 1 argument, not 2",
    "atinstant_ttext(speed(Trip), " + WHERE + ")": "argument 1 is tfloat, not ttext",
}
ALLOWED = (
    "travelled(Trip)",
    "travelled(NULL)",
    "dwithin(Trip, Trip, 3)",
    "dwithin(Trip, Trip, 3.5)",
    "atinstant(Trip, " + WHERE + ")",
    "passes(Trip, point(1, 2))",
    "passes(Trip, region_from_wkt('POLYGON((0 0, 1 0, 1 1, 0 0))'))",
    "atinstant_tfloat(speed(Trip), " + WHERE + ")",
)


@pytest.fixture(scope="module")
def trips(spark):
    sf.register(spark)
    frame = spark.createDataFrame(
        [("a", moving([[(0, 0.0, 0.0), (10, 100.0, 0.0)]]).to_row())], f"id string, Trip {types.MPOINT.sql}"
    )
    for name, system in (("here", "EPSG:32633"), ("there", "EPSG:3035")):
        frame.withMetadata("Trip", {CRS_KEY: system}).createOrReplaceTempView(name)
    return frame


@pytest.mark.parametrize("call", REFUSED)
def test_a_wrong_argument_is_refused_in_analysis(trips, spark, call):
    with pytest.raises(IllegalArgumentException, match=REFUSED[call]):
        spark.sql(f"SELECT {call} FROM here")


def test_right_arguments_are_answered(trips, spark):
    assert len(spark.sql(f"SELECT {', '.join(ALLOWED)} FROM here").columns) == len(ALLOWED)


def test_columns_of_two_systems_are_refused_in_analysis(trips, spark):
    with pytest.raises(IllegalArgumentException, match="different reference systems: EPSG:3035, EPSG:32633"):
        spark.sql("SELECT distance(a.Trip, b.Trip) FROM here a JOIN there b USING (id)")
    with pytest.raises(IllegalArgumentException, match="different reference systems"):
        spark.table("here").alias("a").crossJoin(spark.table("there").alias("b")).selectExpr(
            "distance(atperiods(a.Trip, deftime(a.Trip)), b.Trip)"
        )


def test_the_types_of_every_parameter_have_names():
    for function in sql_functions.FUNCTIONS:
        assert "takes" not in sql_functions._describe(function).describe()
    assert analysing.Signature("f", ((), ("Longs", "Periods"))).describe() == "(anything, timestamp or periods)"
