"""Trips of files: queried, drawn and taken apart as trips of an archive are."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import slipstream as ss
import slipstream.functions as sf

VANS = """[POINT(0 0)@2026-05-04 08:00, POINT(600 0)@2026-05-04 08:02]
[POINT(0 500)@2026-05-04 08:00, POINT(90 500)@2026-05-04 08:02]
"""


@pytest.fixture
def trips(tmp_path: Path) -> ss.Trips:
    (tmp_path / "vans.wkt").write_text(VANS)
    return ss.Trips.read(tmp_path / "vans.wkt")


def test_trips_of_files_are_queried(trips: ss.Trips, spark: SparkSession) -> None:
    far = trips.where("travelled(Trip) > 100")
    assert [row["id"] for row in far.to_spark(spark).collect()] == ["vans-1"]
    assert (len(trips), len(far)) == (2, 1)
    metres = trips.to_spark(spark).select(sf.travelled("Trip").alias("metres")).toPandas()["metres"]
    assert metres.tolist() == [600.0, 90.0]
    assert list(far.to_points()) == ["vans-1"]
    assert "travelled" in repr(far)


def test_trips_of_files_are_drawn_without_spark(trips: ss.Trips) -> None:
    assert trips._repr_html_().count("<polyline") == 2
    assert repr(trips).endswith("vans.wkt: 2>")
    assert [point.length for point in trips.to_points().values()] == [600.0, 90.0]


def test_trips_of_one_vehicle_are_one_moving_point(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "id,trip\n"
        'a,"[POINT(9 9)@2026-05-05, POINT(9 12)@2026-05-06]"\n'
        'a,"{[POINT(0 0)@2026-05-01, POINT(3 4)@2026-05-02], [POINT(5 5)@2026-05-03]}"\n'
    )
    found = ss.Trips.read(tmp_path / "a.csv", trip="trip").to_points()["a"]
    assert found.starts.tolist() == [0, 2, 3]
    assert found.x.tolist() == [0.0, 3.0, 5.0, 9.0, 9.0]
    assert found.length == 8.0


def test_trips_that_overlap_are_not_one_moving_point(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        'id,trip\na,"[POINT(9 9)@2026-05-01, POINT(9 12)@2026-05-06]"\na,"[POINT(0 0)@2026-05-02]"\n'
    )
    with pytest.raises(ss.BadInput, match="the trips of 'a'"):
        ss.Trips.read(tmp_path / "a.csv", trip="trip").to_points()


def test_trips_of_moving_points(trips: ss.Trips) -> None:
    again = ss.Trips.from_points(trips.to_points())
    assert again._repr_html_().count("<polyline") == 2
    assert {name: point.length for name, point in again.to_points().items()} == {"vans-1": 600.0, "vans-2": 90.0}


def test_geopandas_and_back(trips: ss.Trips) -> None:
    pytest.importorskip("geopandas", reason="geopandas is an optional extra: pip install '.[frames]'")
    again = ss.Trips.from_geopandas(trips.to_geopandas("EPSG:25833"))
    assert [point.length for point in again.to_points().values()] == [600.0, 90.0]


def test_movingpandas_and_back(trips: ss.Trips) -> None:
    pytest.importorskip("movingpandas", reason="movingpandas is an optional extra: pip install '.[frames]'")
    again = ss.Trips.from_movingpandas(trips.to_movingpandas("EPSG:25833"))
    assert sorted(point.length for point in again.to_points().values()) == [90.0, 600.0]


def test_files_have_no_past(trips: ss.Trips) -> None:
    with pytest.raises(ss.BadArgument, match="no earlier versions"):
        trips.as_of(3)
