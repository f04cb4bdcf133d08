"""The operators as Spark SQL functions: registered by name, null-safe, and usable on columns."""

from __future__ import annotations

import pytest

from moving.oracle import moving
from slipstream import functions as operators
from slipstream._moving import register, sql_functions, types


@pytest.fixture(scope="module")
def trips(spark):
    register(spark)
    m = moving([[(0, 0.0, 0.0), (10, 100.0, 0.0)], [(20, 100.0, 0.0), (30, 100.0, 100.0)]])
    frame = spark.createDataFrame([(1, m.to_row()), (2, None)], f"id int, trip {types.MPOINT.sql}")
    frame.createOrReplaceTempView("trips")
    return frame


def one(spark, expression):
    return spark.sql(f"SELECT {expression} AS answer FROM trips ORDER BY id").toArrow()["answer"].to_pylist()


ANSWERS = [
    ("val(atinstant(trip, TIMESTAMP '1970-01-01 00:00:05'))", {"x": 50.0, "y": 0.0}),
    ("passes(trip, point(100, 50))", True),
    ("passes(trip, circle(point(50, 0), 10, 8))", True),
    ("inside(point(1, 1), circle(point(0, 0), 10, 4))", True),
    ("travelled(atperiods(trip, periods(TIMESTAMP '1970-01-01', TIMESTAMP '1970-01-01 00:00:25')))", 150.0),
    ("sometimes(at_most(distance(trip, trip), 3.0))", True),
    ("line_distance(trajectory(trip), trajectory(trip))", 0.0),
    ("isempty(at(trip, point(-1, 0)))", True),
    ("size(deftime(intersection(trip, trip)).begin)", 2),
    ("size(concat_all(array(trip, trip)).t)", 4),
    ("isempty(deftime(at_bool(at_most(distance(trip, trip), 3.0), false)))", True),
    ("unix_seconds(inst(final(trip)))", 30),
    ("unix_seconds(inst(initial(trip)))", 0),
    ("present(trip, TIMESTAMP '1970-01-01 00:00:15')", False),
    ("passes_each(trip, array(point(100, 50), point(0, 1)))", [True, False]),
    (
        "travelled_all(atperiods_each(trip, array(periods(TIMESTAMP '1970-01-01', TIMESTAMP '1970-01-01 00:00:05'))))",
        [50.0],
    ),
]


def test_every_operator_answers_in_sql(spark, trips):
    columns = ", ".join(f"{expression} AS a{k}" for k, (expression, _) in enumerate(ANSWERS))
    row = spark.sql(f"SELECT {columns} FROM trips WHERE id = 1").toArrow().to_pylist()[0]
    for (expression, expected), answer in zip(ANSWERS, row.values(), strict=True):
        assert answer == expected, expression


def test_null_stays_null(spark, trips):
    assert one(spark, "travelled(trip)") == [200.0, None]


def test_operators_work_on_columns(spark, trips):
    rows = trips.select(operators.travelled("trip").alias("far")).toArrow()["far"].to_pylist()
    assert rows == [200.0, None]


def test_every_operator_of_the_paper_is_there():
    paper = "val atinstant circle present passes trajectory distance inst initial intersection at atperiods deftime "
    assert set((paper + "inside sometimes isempty").split()) <= set(sql_functions.names())
