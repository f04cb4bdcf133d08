"""`slipstream roads`, and matching as a function of columns and of SQL."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import slipstream as ss
from commands import Slipstream
from roads.test_viterbi import LINE
from slipstream._berlinmod.synthetic_city import synthetic_network
from slipstream._moving.moving_point import MovingPoint, to_arrow
from slipstream._roads.importing.graph_building import build
from slipstream._roads.matching.match_columns import match_trips
from slipstream._roads.matching.matcher import Matcher
from slipstream._roads.matching.matching_jobs import match_files, read_trips
from slipstream._roads.matching.model import Model
from slipstream._roads.road_tables import save_roads
from slipstream._roads.street_network import Street

TOWN = "Id,Vmax,X1,Y1,X2,Y2\n1,50,0,0,1000,0\n2,30,1000,0,1000,1000\n3,30,5000,0,5000,90\n4,-1,0,0,0,9\n"
VANS = """id,time,x,y
a,2026-05-04T08:00:00Z,100,4
a,2026-05-04T08:00:10Z,300,-4
a,2026-05-04T08:00:20Z,300,-4000
a,2026-05-04T08:00:50Z,1003,200
b,2026-05-04T08:00:00Z,500,0
b,2026-05-04T08:10:00Z,700,0
"""


@pytest.fixture
def slipstream(capsys: pytest.CaptureFixture[str]) -> Slipstream:
    return Slipstream(capsys)


def test_an_import_reports_what_was_dropped(tmp_path: Path, slipstream: Slipstream) -> None:
    town, roads = tmp_path / "town.csv", tmp_path / "roads"
    town.write_text(TOWN)
    found = slipstream("roads", "import", town, "--out", roads, "--json").json
    assert (found["nodes"], found["edges"], found["km"]) == (3, 4, 4.0)
    assert (found["pieces"], found["dropped_edges"], found["closed"]) == (2, 1, 1)
    assert ss.Roads.open(roads).report["dropped_km"] == 0.09
    again = slipstream("roads", "import", town, "--out", roads)
    assert again.code == 2
    assert "exists" in again.err
    assert slipstream("roads", "import", town, "--out", roads, "--keep-pieces", "--overwrite").code == 0
    assert ss.Roads.open(roads).edges.num_rows == 6


def test_the_streets_of_a_data_set_can_be_put_on_the_globe(tmp_path: Path, slipstream: Slipstream) -> None:
    data, roads = tmp_path / "data", tmp_path / "roads"
    data.mkdir()
    mistake = slipstream("roads", "import", data, "--out", roads)
    assert (mistake.code, "a folder without streets" in mistake.err) == (2, True)
    synthetic_network().save(data / "network.npz")
    assert slipstream("roads", "import", data, "--out", roads, "--json").json["srid"] == 0
    there = ["--centre", "13.3777,52.5163", "--overwrite", "--json"]
    found = slipstream("roads", "import", data, "--out", roads, *there).json
    assert (found["srid"], found["nodes"]) == (32633, synthetic_network().nodes)
    # a zone of UTM shortens distances by 0.04 % in its middle
    assert found["km"] == pytest.approx(float(synthetic_network().length.sum()) / 1000, rel=5e-4)
    ring = ss.Roads.open(roads).corridor(ref="A 10")
    assert ring.columns == ["edge", "route", "dir", "start", "segment_m"]
    town = tmp_path / "town.geojson"
    line = {"type": "LineString", "coordinates": [[13.4, 52.5], [13.41, 52.5]]}
    town.write_text(
        json.dumps(
            {
                "type": "FeatureCollection",
                "features": [{"type": "Feature", "properties": {"vmax": 50}, "geometry": line}],
            }
        )
    )
    mistake = slipstream("roads", "import", town, "--out", roads, *there)
    assert (mistake.code, "its reference system is known" in mistake.err) == (2, True)


def test_degrees_are_not_matched_to_roads_that_are_nowhere(tmp_path: Path, slipstream: Slipstream) -> None:
    town, roads, vans = tmp_path / "town.csv", tmp_path / "roads", tmp_path / "vans.csv"
    town.write_text(TOWN)
    assert slipstream("roads", "import", town, "--out", roads).code == 0
    vans.write_text("id,time,lon,lat\na,2026-05-04T08:00:00Z,13.4,52.5\na,2026-05-04T08:00:10Z,13.41,52.5\n")
    mistake = slipstream("roads", "match", vans, "--roads", roads, "--out", tmp_path / "m")
    assert (mistake.code, "on the globe is unknown" in mistake.err) == (3, True)


def test_trips_that_name_another_reference_system_are_refused(tmp_path: Path, slipstream: Slipstream) -> None:
    roads, vans = tmp_path / "roads", tmp_path / "vans.wkt"
    roads.mkdir()
    save_roads(build([Street(50, [(390_000, 5_818_000, 391_000, 5_818_000)])], srid=32633), roads)
    for srid, is_right in ((32633, True), (25833, True), (25832, False), (3035, False)):
        vans.write_text(f"SRID={srid};[POINT(390100 5818000)@2026-05-04 08:00:00]")
        if is_right:
            assert callable(read_trips(vans, roads))
            continue
        mistake = slipstream("roads", "match", vans, "--roads", roads, "--out", tmp_path / "m")
        assert (mistake.code, f"positions in EPSG:{srid}, but {roads} is in EPSG:32633" in mistake.err) == (3, True)


def test_mistakes_are_named_before_spark_starts(tmp_path: Path, slipstream: Slipstream) -> None:
    vans, roads, out = tmp_path / "vans.csv", tmp_path / "roads", tmp_path / "m"
    vans.write_text(VANS)
    (tmp_path / "town.xml").write_text("<fcd-export/>")
    mistake = slipstream("roads", "import", tmp_path / "town.xml", "--out", roads)
    assert (mistake.code, "unknown file type" in mistake.err) == (2, True)
    mistake = slipstream("roads", "match", vans, "--roads", tmp_path, "--out", out)
    assert (mistake.code, "not a folder of roads" in mistake.err) == (2, True)
    roads.mkdir()
    save_roads(LINE, roads)
    mistake = slipstream("roads", "match", vans, "--roads", roads, "--out", out, "--noise", "0")
    assert (mistake.code, "noise 0.0: out of range" in mistake.err) == (2, True)
    (tmp_path / "bad.csv").write_text("id,time,x,y\na,2026-05-04T08:00:00Z,fast,4\n")
    mistake = slipstream("roads", "match", tmp_path / "bad.csv", "--roads", roads, "--out", out)
    assert (mistake.code, "line 2" in mistake.err) == (3, True)


def test_files_are_matched_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "vans.csv").write_text(VANS)
    (tmp_path / "roads").mkdir()
    save_roads(LINE, tmp_path / "roads")
    frame = read_trips(tmp_path / "vans.csv", tmp_path / "roads")(spark)
    counts = match_files(spark, frame, tmp_path / "roads", Model(), tmp_path / "matched")
    assert counts == {"trips": 2, "on": 5, "off": 1, "jump": 0, "stretches": 3}
    points = pq.read_table(tmp_path / "matched" / "points").to_pandas()
    assert points["status"].tolist() == ["on", "on", "off", "on", "on", "on"]
    assert points["stretch"].dropna().tolist() == [1, 1, 1, 1, 2]
    roads = ss.Roads.open(tmp_path / "roads")
    roads.register(spark)
    frame.createOrReplaceTempView("vans")
    rows = spark.sql("SELECT id, inline(match(Trip).points) FROM vans").toPandas()
    assert rows["edge"].tolist() == points["edge"].tolist() or rows["edge"].equals(points["edge"])
    along = spark.read.parquet(str(tmp_path / "matched" / "trips")).collect()
    first = MovingPoint.from_row(next(row["Trip"] for row in along if row["id"] == "a"))
    assert first.length == pytest.approx(1100, abs=1)


def test_a_matched_trip_follows_the_roads_around_corners() -> None:
    van = MovingPoint.from_wkt("[POINT(900 3)@2026-05-04 08:00:00, POINT(1004 150)@2026-05-04 08:00:20]")
    found = match_trips(Matcher(LINE, Model()), to_arrow([van]))
    trip = found.field("Trip")[0].as_py()
    assert list(zip(trip["x"], trip["y"], strict=True)) == [(900.0, 0.0), (1000.0, 0.0), (1000.0, 150.0)]
    seconds = [(moment - trip["t"][0]).total_seconds() for moment in trip["t"]]
    np.testing.assert_allclose(seconds, [0, 8, 20])


def test_nulls_and_empty_trips_are_passed() -> None:
    van = to_arrow([MovingPoint.of([]), MovingPoint.of([])])
    assert [row["points"] for row in match_trips(Matcher(LINE, Model()), van).to_pylist()] == [[], []]
