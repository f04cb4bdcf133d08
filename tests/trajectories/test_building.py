"""Trips of tables in Spark: every row accounted for, whatever its order, types and zone."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import slipstream as ss
import slipstream.functions as sf
from slipstream._errors import BadArgument, BadInput
from slipstream._moving.space.systems import CRS_KEY
from slipstream._spark import session
from trajectories.oracle import divide

START = 1_777_881_600  # 2026-05-04 08:00 UTC


def fixes(count: int = 400, movers: int = 5) -> list[tuple[str, int, float, float]]:
    """Positions of some movers in metres, with silences, duplicates, conflicts and jumps."""
    dice = random.Random(4)
    rows = []
    for n in range(count):
        second = START + dice.randrange(1200) // 2 * 2 + 600 * dice.randrange(3)
        far = 90_000.0 if dice.random() < 0.05 else 0.0
        rows.append((f"m{n % movers}", second * 1_000_000, 400_000 + dice.randrange(40) + far, 5_800_000.0))
    return rows + dice.sample(rows, 20)


def as_frame(rows: list[tuple[str, int, float, float]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["id", "time", "x", "y"])
    return frame.assign(time=pd.to_datetime(frame["time"], unit="us", utc=True))


def read_trips(trips: ss.Trips, spark: Any) -> list[tuple[str, list[tuple[int, float, float]]]]:
    table = trips.to_spark(spark).orderBy("id", "number").toArrow()
    found = []
    for name, trip in zip(table["id"].to_pylist(), table["Trip"].to_pylist(), strict=True):
        found.append((name, read_vertices(trip)))
    return found


def read_vertices(trip: dict[str, Any]) -> list[tuple[int, float, float]]:
    micros = [round(t.timestamp() * 1e6) for t in trip["t"]]
    return list(zip(micros, trip["x"], trip["y"], strict=True))


@pytest.mark.parametrize("seed", [1, 2])
def test_any_order_and_division_gives_the_trips_of_the_rules(spark, seed):
    rows = fixes()
    expected, lost = divide(rows, 60_000_000, 25.0)
    shuffled = random.Random(seed).sample(rows, len(rows))
    frame = spark.createDataFrame(as_frame(shuffled)).repartition(seed * 3)
    with session.with_settings(spark, {"spark.sql.shuffle.partitions": str(seed * 2 + 1)}):
        trips = ss.trajectories(frame, crs="EPSG:32633", gap="1 minute", max_speed=25)
        assert read_trips(trips, spark) == expected
        counts = trips.counts
    reasons = {reason: sum(n for (_, why), n in lost.items() if why == reason) for reason in ("duplicate", "jump")}
    assert {reason: counts[f"rejects: {reason}"] for reason in reasons} == reasons
    assert counts["rows"] == len(rows) == counts["vertices"] + counts["rejected"]
    assert trips.rejects.count() == lost.total()


BAD = [
    ("a", "2026-05-04T08:00:00Z", "13.40", "52.50", None),
    ("a", "2026-05-04T10:01:00+02:00", "13.41", "52.50", None),
    ("a", "2026-05-04 08:02:00", "13.42", " 52.50 ", None),
    (None, "2026-05-04T08:03:00Z", "13.40", "52.50", "no id"),
    (" ", "2026-05-04T08:03:00Z", "13.40", "52.50", "no id"),
    ("a", None, "13.40", "52.50", "no time"),
    ("a", "half past eight", "13.40", "52.50", "unreadable time"),
    ("a", "2026-13-04T08:03:00Z", "13.40", "52.50", "unreadable time"),
    ("a", "2026-05-04T08:03:00Z", None, "52.50", "no place"),
    ("a", "2026-05-04T08:03:00Z", "13,40", "52.50", "unreadable place"),
    ("a", "2026-05-04T08:03:00Z", "NaN", "52.50", "not finite"),
    ("a", "2026-05-04T08:03:00Z", "13.40", "-Infinity", "not finite"),
    ("a", "2026-05-04T08:03:00Z", "213.40", "52.50", "off the globe"),
    ("a", "2026-05-04T08:03:00Z", "0.0", "0.0", "outside"),
    ("a", "2026-05-04T08:02:00Z", "13.42", "52.50", "duplicate"),
]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_every_row_that_cannot_be_used_has_its_reason(spark, zone):
    """The session's time zone plays no part."""
    frame = spark.createDataFrame(BAD, "id string, time string, lon string, lat string, expected string")
    with session.with_settings(spark, {"spark.sql.session.timeZone": zone}):
        trips = ss.trajectories(frame.drop("expected"))
        (trip,) = trips.to_points().values()
        rejects = trips.rejects.selectExpr("reason", "given").collect()
    expected = [row[4] for row in BAD if row[4]]
    assert sorted(row["reason"] for row in rejects) == sorted(expected)
    assert {row["given"] for row in rejects if row["reason"] == "unreadable place"} == {
        "2026-05-04T08:03:00Z, 13,40, 52.50"
    }
    assert [t // 1_000_000 - START for t in trip.t.tolist()] == [0, 60, 120]
    assert trips.counts["rows"] == len(BAD)


@pytest.mark.parametrize(
    ("times", "options"),
    [
        ([START, START + 60], {"time_unit": "s"}),
        ([START * 1000, START * 1000 + 60_000], {"time_unit": "ms"}),
        ([START + 0.0, START + 60.0], {"time_unit": "s"}),
        ([str(START), str(START + 60)], {"time_unit": "s"}),
        (["04/05/2026 08:00:00", "04/05/2026 08:01:00"], {"time_format": "dd/MM/yyyy HH:mm:ss"}),
        (
            ["04/05/2026 10:00:00", "04/05/2026 10:01:00"],
            {"time_format": "dd/MM/yyyy HH:mm:ss", "time_zone": "Europe/Berlin"},
        ),
        (["2026-05-04 10:00:00", "2026-05-04T10:01:00"], {"time_zone": "Europe/Berlin"}),
        (["2026-05-04 08:00:00 UTC", "2026-05-04T08:01:00.000Z"], {"time_zone": "Europe/Berlin"}),
        (pd.to_datetime(["2026-05-04 10:00", "2026-05-04 10:01"]), {"time_zone": "Europe/Berlin"}),
        (pd.to_datetime(["2026-05-04 10:00+02:00", "2026-05-04 10:01+02:00"]), {"time_zone": "Asia/Tokyo"}),
    ],
)
def test_times_of_any_kind_are_instants(spark, times, options):
    frame = pd.DataFrame({"id": 7, "time": times, "lon": [13.4, 13.41], "lat": [52.5, 52.5]})
    (trip,) = ss.trajectories(frame, **options).to_points().values()
    assert [t // 1_000_000 for t in trip.t.tolist()] == [START, START + 60]


def test_numbers_without_a_unit_are_no_times(spark):
    frame = pd.DataFrame({"id": [7], "time": [START], "lon": [13.4], "lat": [52.5]})
    with pytest.raises(BadArgument, match="the unit of its numbers"):
        ss.trajectories(frame)


def test_the_system_is_the_zone_of_most_positions_and_part_of_the_column(spark):
    frame = pd.DataFrame(
        {"id": range(5), "time": pd.Timestamp("2026-05-04", tz="UTC"), "lon": [13, 14, 18.5, 9, 0.5], "lat": 52.5}
    )
    trips = ss.trajectories(frame)
    assert trips.crs == "EPSG:32633"
    assert trips.to_spark(spark).schema["Trip"].metadata == {CRS_KEY: "EPSG:32633"}
    assert ss.trajectories(frame, to="EPSG:3035").crs == "EPSG:3035"


def test_positions_all_over_the_globe_need_a_system(spark):
    lon = [-120.0, -60.0, 0.0, 60.0, 120.0]
    frame = pd.DataFrame({"id": "a", "time": pd.date_range("2026-05-04", periods=5), "lon": lon, "lat": 40.0})
    with pytest.raises(BadInput, match="5 UTM zones; 80% are too far"):
        ss.trajectories(frame)
    assert ss.trajectories(frame, to="EPSG:8857", gap="2 days").counts["vertices"] == 5


def test_degrees_in_columns_of_metres_are_refused(spark):
    frame = pd.DataFrame(
        {"id": "a", "time": pd.date_range("2026-05-04", periods=3, freq="min"), "x": [13.4, 13.41, 13.42], "y": 52.51}
    )
    with pytest.raises(BadInput, match="x and y look like degrees"):
        ss.trajectories(frame, x="x", y="y")
    with pytest.raises(BadInput, match="look like degrees"):
        ss.trajectories(frame, crs="EPSG:32633")
    assert ss.trajectories(frame, x="x", y="y", units="m").crs == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"id": "vin"}, "no column 'vin'"),
        ({"lon": "lon"}, "give both of a pair"),
        ({"crs": "EPSG:999999"}, "not a reference system"),
        ({"to": "EPSG:4326"}, "not metres in a plane"),
        ({"crs": 25833, "lon": "lon", "lat": "lat"}, "not in degrees"),
        ({"gap": "soon"}, "not a duration"),
        ({"gap": 0}, "gap: not a time above 0"),
        ({"gap": math.nan}, "gap: not a time above 0"),
        ({"max_speed": "fast"}, "not a speed"),
        ({"max_speed": -1}, "not above 0"),
        ({"time_zone": "Berlin"}, "not a time zone"),
        ({"time_unit": "h"}, "time_unit 'h'"),
        ({"keep": ["trip"]}, "a column of that name already"),
        ({"units": "feet"}, "units='feet'"),
        ({"format": "csv"}, "are for files"),
    ],
)
def test_mistakes_are_refused_before_anything_runs(options, message):
    frame = pd.DataFrame({"id": [7], "time": ["2026-05-04"], "lon": [13.4], "lat": [52.5], "trip": [1]})
    with pytest.raises(BadArgument, match=message):
        ss.trajectories(frame, **options)


def test_a_table_without_a_usable_row_is_refused_with_the_reasons(spark):
    frame = pd.DataFrame({"id": ["a", "b"], "time": ["soon", None], "lon": [13.4, 1], "lat": [52.5, 1]})
    with pytest.raises(BadInput, match="No usable position in 2 rows: no time 1, unreadable time 1"):
        ss.trajectories(frame)


def test_a_trip_may_have_one_position(spark):
    frame = pd.DataFrame({"id": [7], "time": [datetime(2026, 5, 4, tzinfo=UTC)], "lon": [13.4], "lat": [52.5]})
    (trip,) = ss.trajectories(pa.Table.from_pandas(frame)).to_points().values()
    assert (len(trip.t), trip.length) == (1, 0.0)


def test_columns_to_keep_decide_between_identical_rows(spark):
    frame = pd.DataFrame(
        {"id": [7, 7], "time": pd.Timestamp("2026-05-04"), "lon": 13.4, "lat": 52.5, "my kind": ["van", "bus"]}
    )
    for one in (frame, frame.iloc[::-1]):
        trips = ss.trajectories(one, keep="my kind")
        assert [row["my kind"] for row in trips.to_spark(spark).collect()] == ["bus"]


def test_the_table_function_of_sql_gives_the_same_trips(spark):
    import slipstream.functions as sf

    rows = fixes(200)
    expected, lost = divide(rows, 60_000_000, 25.0)
    sf.register(spark)
    spark.createDataFrame(as_frame(rows)).repartition(3).createOrReplaceTempView("fixes")
    made = spark.sql(
        "SELECT * FROM trajectories(TABLE(fixes) PARTITION BY id, "
        "to => 'EPSG:32633', gap => '1 minute', max_speed => '90 km/h')"
    ).toArrow()
    trips = [row for row in made.sort_by([("id", "ascending"), ("number", "ascending")]).to_pylist() if row["Trip"]]
    found = [(row["id"], read_vertices(row["Trip"])) for row in trips]
    assert found == expected
    assert made.num_rows - len(trips) == lost.total()


def test_the_table_function_projects_degrees(spark):
    import slipstream.functions as sf

    sf.register(spark)
    made = (
        spark.sql(
            """SELECT * FROM trajectories(TABLE(
             SELECT * FROM VALUES ('a', TIMESTAMP '2026-05-04 08:00:00', 13.4D, 52.5D),
                                  ('a', TIMESTAMP '2026-05-04 08:01:00', 13.41D, 52.5D),
                                  ('a', TIMESTAMP '2026-05-04 08:02:00', 400D, 52.5D),
                                  ('a', NULL, 13.41D, 52.5D) AS t(id, time, lon, lat)
           ) PARTITION BY id, to => 'EPSG:32633')"""
        )
        .toArrow()
        .to_pylist()
    )
    assert sorted(row["reason"] or "" for row in made) == ["", "no time", "off the globe"]
    (trip,) = [row["Trip"] for row in made if row["Trip"]]
    assert [round(x) for x in trip["x"]] == [391391, 392069]


# --- values that travel with a trip

DRIVEN = pd.DataFrame(
    {
        "id": ["van"] * 5 + ["car"],
        "time": pd.to_datetime([START, START + 60, START + 60, START + 120, START + 4000, START], unit="s", utc=True),
        "x": [400_000.0, 400_100.0, 400_100.0, 400_200.0, 400_300.0, 400_000.0],
        "y": 5_800_000.0,
        "fuel": [9.0, 8.0, 8.0, float("nan"), 6.0, float("inf")],
        "gear": [1, 2, 2, 3, 4, 5],
        "lights": [True, True, True, False, False, None],
        "door": ["shut", None, None, "open", "shut", None],
    }
)


def values_of(row: Any, name: str) -> Any:
    """Seconds since the start with values, and how to interpolate; None where there is no value at all."""
    value = row[name]
    if value is None:
        return None
    times = [round(t.timestamp()) - START for t in value["t"]]
    return list(zip(times, value["value"], strict=True)), value["interpolation"]


def test_values_travel_with_trips(spark):
    trips = ss.trajectories(DRIVEN, crs="EPSG:32633", x="x", y="y", values=["fuel", "gear", "lights", "door"])
    table = trips.to_spark(spark).orderBy("id", "number").toArrow()
    car, first, second = table.to_pylist()
    assert values_of(first, "fuel") == ([(0, 9.0), (60, 8.0)], "linear")
    assert values_of(first, "gear") == ([(0, 1), (60, 2), (120, 3)], "step")
    assert values_of(first, "lights") == ([(0, True), (60, True), (120, False)], "step")
    assert values_of(first, "door") == ([(0, "shut"), (120, "open")], "step")
    assert values_of(second, "fuel") == ([(4000, 6.0)], "linear")
    assert (car["fuel"], car["door"], values_of(car, "gear")) == (None, None, ([(0, 5)], "step"))
    assert trips.counts["rejected"] == 1
    sf.register(spark)
    averages = trips.to_spark(spark).orderBy("id", "number").selectExpr("twavg(fuel) AS litres").collect()
    assert [row["litres"] for row in averages] == [None, 8.5, 6.0]


def test_values_of_text_have_the_type_that_is_given(spark, tmp_path):
    lines = ["id,time,lon,lat,fuel,gear", *(f"a,2026-05-04T08:0{n}:00Z,13.4,52.5,{n}.5,{n}" for n in range(2))]
    (tmp_path / "gps.csv").write_text("\n".join([*lines, "a,2026-05-04T08:02:00Z,13.4,52.5,full, 7 "]))
    trips = ss.trajectories(tmp_path / "gps.csv", values={"fuel": "tfloat", "gear": "tint"})
    (row,) = trips.to_spark(spark).toArrow().to_pylist()
    assert (row["fuel"]["value"], row["gear"]["value"], len(row["Trip"]["t"])) == ([0.5, 1.5], [0, 1, 7], 3)
    plain = ss.trajectories(tmp_path / "gps.csv", values=["fuel"]).to_spark(spark).toArrow().to_pylist()
    assert plain[0]["fuel"]["value"] == ["0.5", "1.5", "full"]


def test_values_do_not_depend_on_the_order_of_rows(spark):
    found = []
    for seed in range(2):
        shuffled = DRIVEN.sample(frac=1, random_state=seed)
        trips = ss.trajectories(shuffled, crs="EPSG:32633", x="x", y="y", values=["fuel", "door"]).to_spark(spark)
        found.append(trips.orderBy("id", "number").toArrow().to_pylist())
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"values": {"fuel": "float"}}, "values: fuel: 'float' is not a type of values over time"),
        ({"values": ["petrol"]}, "no column 'petrol'"),
        ({"values": ["time"]}, "time: trips have a column of that name already"),
        ({"values": ["fuel"], "keep": ["fuel"]}, "fuel: trips have a column of that name already"),
        ({"values": ["days"]}, "values: column 'days' is array<"),
    ],
)
def test_mistakes_in_values_are_refused(spark, options, message):
    with pytest.raises(BadArgument, match=message):
        ss.trajectories(DRIVEN.assign(days=[[1]] * len(DRIVEN)), crs="EPSG:32633", x="x", y="y", **options)
