"""``slipstream trajectories`` as a person meets it: build, describe, draw, export, and mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

import slipstream as ss
from commands import Slipstream
from slipstream._moving.space.systems import CRS_KEY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GPS = """vin,ts,longitude,latitude,kind,fuel
a,2026-05-04T08:01:00Z,13.41,52.50,van,8
a,2026-05-04T08:00:00Z,13.40,52.50,van,9
a,2026-05-04T08:00:00Z,13.40,52.50,van,9
a,2026-05-04T09:00:00Z,13.40,52.50,van,
b,soon,13.40,52.50,bus,5
b,2026-05-04T08:00:00Z,13.40,152.50,bus,5
"""
COUNTS = {
    "rows": 6,
    "vertices": 3,
    "rejected": 3,
    "trips": 2,
    "movers": 1,
    "rejects: unreadable time": 1,
    "rejects: off the globe": 1,
    "rejects: duplicate": 1,
}


@pytest.fixture
def gps(tmp_path: Path) -> Path:
    (tmp_path / "gps.csv").write_text(GPS)
    return tmp_path / "gps.csv"


def test_from_a_table_to_trips_a_description_a_map_and_other_formats(
    slipstream: Slipstream, gps: Path, spark: SparkSession
) -> None:
    data = gps.parent / "data"
    build = ("trajectories", "build", gps, "--columns", "id=vin,time=ts", "--keep", "kind", "--values", "fuel=tfloat")
    build += ("--out", data)
    made = slipstream(*build, "--json")
    assert made.code == 0, made.err
    assert {name: made.json[name] for name in COUNTS} == COUNTS
    assert (made.json["crs"], made.json["system"]) == ("EPSG:32633", "WGS 84 / UTM zone 33N")
    assert sorted(path.name for path in data.iterdir()) == ["rejects", "trajectories.json", "trips"]

    described = slipstream("trajectories", "describe", data, "--json").json
    assert described["begin"] == "2026-05-04T08:00:00+00:00"
    assert described["end"] == "2026-05-04T09:00:00+00:00"
    assert described["kilometres"] == pytest.approx(0.679, abs=1e-3)
    assert described["lon"] == [13.4, 13.41]
    assert described["trips_of_one_position"] == 1

    for arguments in (
        ("draw", data, "--out", gps.parent / "map.html"),
        ("draw", data, "--out", gps.parent / "map.png"),
    ):
        assert slipstream("trajectories", *arguments).code == 0
    exported = slipstream("trajectories", "export", data, "--out", gps.parent / "trips.kml", "--json")
    assert exported.json == {"out": str(gps.parent / "trips.kml"), "format": "kml", "trips": 2}

    trips = ss.Trips.read(data)
    assert len(trips.to_points()["a"].t) == 3
    assert trips.to_spark(spark).schema["Trip"].metadata == {CRS_KEY: "EPSG:32633"}
    assert sorted(row["reason"] for row in trips.rejects.collect()) == ["duplicate", "off the globe", "unreadable time"]
    assert [row["kind"] for row in trips.where("number = 1").to_spark(spark).collect()] == ["van"]
    file = next((data / "trips").glob("*.parquet"))
    assert b"EPSG:32633" in b"".join(pq.read_schema(file).metadata.values())

    again = slipstream(*build)
    assert (again.code, "--overwrite" in again.err) == (2, True)
    few = slipstream(*build, "--overwrite", "--max-rejects", "10%")
    assert few.code == 3
    assert "3 of 6 rejected (50.0%)" in few.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--columns", "id=vin"), "no column 'time'"),
        (("--columns", "id:vin"), "--columns id:vin: not a column"),
        (("--columns", "id=vin,time=ts", "--crs", "EPSG:1"), "not a reference system"),
        (("--columns", "id=vin,time=ts", "--to-crs", "EPSG:4326"), "not metres in a plane"),
        (("--columns", "id=vin,time=ts", "--gap", "soon"), "not a duration"),
        (("--columns", "id=vin,time=ts", "--max-speed", "fast"), "not a speed"),
        (("--columns", "id=vin,time=ts", "--keep", "colour"), "no column 'colour'"),
        (("--columns", "id=vin,time=ts", "--values", "kind=text"), "'text' is not a type of values over time"),
        (("--columns", "id=vin,time=ts", "--as-of", "3"), "only Delta tables have versions"),
    ],
)
def test_mistakes_are_answered_without_spark(
    slipstream: Slipstream, gps: Path, options: tuple[str, ...], message: str
) -> None:
    ended = slipstream("trajectories", "build", gps, *options, "--out", gps.parent / "data")
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    assert not (gps.parent / "data").exists()


def test_nothing_is_written_where_nothing_can_be_used(
    slipstream: Slipstream, tmp_path: Path, spark: SparkSession
) -> None:
    (tmp_path / "gps.csv").write_text("id,time,lon,lat\na,soon,13.4,52.5\n")
    ended = slipstream("trajectories", "build", tmp_path / "gps.csv", "--out", tmp_path / "data")
    assert ended.code == 3
    assert "No usable position in 1 rows: unreadable time 1." in ended.err
    assert not (tmp_path / "data").exists()
