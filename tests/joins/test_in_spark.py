"""The same joins as Spark plans, through the public functions; and what they refuse."""

from __future__ import annotations

import pytest

import slipstream as ss
from joins.plainly import as_meetings, brute_force
from moving.oracle import moving
from slipstream import functions as sf
from slipstream._errors import BadArgument
from slipstream._joins.trip_meetings import Nearness

SIZE = 12


def cars(count=SIZE):
    """Cars on a street that is seen once per minute, each begins when the next has gone 200 m."""
    return {
        f"car-{n:02}": moving([[(20 * n + 60 * k, 600.0 * k, 3.0 * (n % 4)) for k in range(6)]]) for n in range(count)
    }


@pytest.fixture(scope="module")
def street(spark):
    return ss.Trips.from_points(cars())


def test_meetings_are_those_of_brute_force(spark, street):
    found = as_meetings(ss.meetings(street, distance="450 m", duration="1 minute").toArrow())
    pairs = [(a, [one], b, [other]) for a, one in cars().items() for b, other in cars().items() if a < b]
    expected = brute_force(Nearness(450.0, 60_000_000), pairs)
    assert [row[:4] for row in found] == [row[:4] for row in expected]
    assert found


def test_a_row_per_pair_has_all_times(spark, street):
    rows = ss.near(street, street.where("id < 'car-03'"), distance=5).collect()
    assert {(row["id"], row["other_id"]) for row in rows} == {(f"car-{n:02}",) * 2 for n in range(3)}
    for row in rows:
        assert (row["nearest"], len(row["times"]["begin"])) == (0.0, 1)


def test_ids_may_be_numbers_and_columns_have_other_names(spark, street):
    named = street.to_spark(spark).selectExpr("int(substr(id, 5)) AS car", "Trip AS way")
    rows = ss.near(named, distance="210 m", id="car", trip="way").collect()
    assert {(row["id"], row["other_id"]) for row in rows} == {(n, n + 1) for n in range(SIZE - 1)}


def test_convoys(spark, street):
    rows = ss.convoys(street, distance="210 m", duration="3 minutes", size=4).collect()
    assert len(rows) > 1
    for row in rows:
        numbers = [int(name[4:]) for name in row["ids"]]
        assert numbers == list(range(numbers[0], numbers[-1] + 1))
        assert (row["end"] - row["begin"]).total_seconds() >= 180


def test_passes_by_region_and_by_distance(spark, street):
    from pyspark.sql.functions import lit

    place = sf.point(lit(1500), lit(0))
    one = spark.range(1)
    square = one.select("id", sf.circle(place, lit(100), lit(4)).alias("Zone"))
    inside = ss.passes(street, square).select("id", "zone_id", "times.begin").collect()
    assert len(inside) == SIZE
    beside = ss.passes(street, one.select("id", place.alias("Zone")), distance="100 m", duration="1 s")
    assert beside.count() == SIZE
    assert ss.passes(street, square, duration="1 minute").count() == 0


def test_nothing_is_near_nothing(spark, street):
    empty = street.to_spark(spark).where("id IS NULL")
    assert ss.near(empty, street, distance=10).count() == 0
    assert ss.convoys(empty, distance=10, duration=1).count() == 0


def test_tables_of_different_systems_are_refused(spark):
    """Where one does not say which it has, nobody can know."""
    one, other, unknown = (ss.Trips.from_points(cars(), crs=crs) for crs in ("EPSG:32633", "EPSG:25833", ""))
    for join in (ss.near, ss.meetings):
        with pytest.raises(BadArgument, match="first and second: columns of different reference systems: EPSG:25833"):
            join(one, other, distance=10)
        assert join(one, unknown, distance=10).columns
    place = sf.circle(sf.point("id", "id"), "id", "id").alias("Zone", metadata={"crs": "EPSG:25833"})
    with pytest.raises(BadArgument, match="trips and zones: columns of different reference systems"):
        ss.passes(one, spark.range(1).select("id", place))


def test_no_plan_compares_all_with_all(spark, street):
    plan = ss.convoys(street, distance=10, duration=1)._jdf.queryExecution().toString()
    assert "cx" in plan
    assert "Cartesian" not in plan
    assert "NestedLoop" not in plan


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda t: ss.near(t, distance="wide"), "not a distance"),
        (lambda t: ss.near(t, distance=-1), "not a distance"),
        (lambda t: ss.near(t, distance="1e400"), "not a distance"),
        (lambda t: ss.near(t, distance=1, duration=-1), "0 or more seconds"),
        (lambda t: ss.near(t, distance=1, duration="soon"), "not a duration"),
        (lambda t: ss.near(t, distance=1, id="vin"), "first has no column vin"),
        (lambda t: ss.near(t, t.to_pandas(), distance=1), "second is of type DataFrame"),
        (lambda t: ss.near(t, distance=1, trip="id"), "column id of first is string, not mpoint"),
        (lambda t: ss.near(t, distance=1, id="Trip"), "column Trip of first is struct"),
        (lambda t: ss.near(t, t.to_spark().selectExpr("1 AS id", "Trip"), distance=1), "Cast one"),
        (lambda t: ss.convoys(t, distance=1, duration=1, size=1), "below 2"),
        (lambda t: ss.passes(t, t.to_spark(), zone="id"), "not region or point"),
        (
            lambda t: ss.passes(t, t.to_spark().select("id", sf.trajectory("Trip").alias("Zone")), distance=5),
            "zones are regions",
        ),
    ],
)
def test_mistakes_are_named(spark, street, call, text):
    with pytest.raises(BadArgument, match=text):
        call(street)
