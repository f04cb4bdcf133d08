"""Files of positions: what each layout gives, and what is refused before Spark starts."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from deltalake import write_deltalake

import slipstream as ss
from slipstream._errors import BadArgument, BadInput
from slipstream._trajectories.reading.json_positions import geojson_rows, mfjson_rows
from slipstream._trajectories.reading.position_files import Input, gpx_rows, gtfs_messages, gtfs_rows

HEAD = "id,time,lon,lat\n"
LINES = "a,2026-05-04T08:00:00Z,13.40,52.50\na,2026-05-04T08:01:00Z,13.41,52.50\n"

GPX = """<?xml version="1.0"?><gpx xmlns="http://www.topografix.com/GPX/1/1"><trk><name>Ride</name>
<trkseg><trkpt lat="52.50" lon="13.40"><ele>34</ele><time>2026-05-04T08:00:00Z</time></trkpt>
<trkpt lat="52.50" lon="13.41"><time>2026-05-04T08:01:00Z</time></trkpt></trkseg>
<trkseg><trkpt lat="52.50" lon="13.41"></trkpt></trkseg></trk></gpx>"""

PLT = """Geolife trajectory
WGS 84
Altitude is in Feet
Reserved 3
0,2,255,My Track,0,0,2,8421376
0
39.984702,116.318417,0,492,39744.1201851852,2008-10-23,02:53:04
39.984683,116.318450,0,492,39744.1202546296,2008-10-23,02:53:10
39.98
"""


def only_trip(trips: ss.Trips) -> ss.MovingPoint:
    (trip,) = trips.to_points().values()
    return trip


def test_a_folder_of_csv_is_one_table(spark, tmp_path: Path):
    (tmp_path / "one *.csv").write_text(HEAD + LINES)
    with gzip.open(tmp_path / "two.csv.gz", "wt") as file:
        file.write(HEAD + 'a,2026-05-04T08:02:00Z,13.42,52.50\n"b, c",2026-05-04T08:02:00Z,east,52.50\n')
    trips = ss.trajectories(tmp_path)
    assert len(only_trip(trips).t) == 3
    assert trips.counts["rejects: unreadable place"] == 1
    (lost,) = trips.rejects.collect()
    assert (lost["id"], lost["given"]) == ("b, c", "2026-05-04T08:02:00Z, east, 52.50")


def test_parquet_and_delta_as_of_a_version(spark, tmp_path: Path):
    frame = pd.read_csv(pd.io.common.StringIO(HEAD + LINES), parse_dates=["time"])
    (tmp_path / "parquet").mkdir()
    frame.to_parquet(tmp_path / "parquet" / "part-0.parquet")
    write_deltalake(tmp_path / "delta", pa.Table.from_pandas(frame.iloc[:1], preserve_index=False))
    write_deltalake(tmp_path / "delta", pa.Table.from_pandas(frame.iloc[1:], preserve_index=False), mode="append")
    assert len(only_trip(ss.trajectories(tmp_path / "parquet")).t) == 2
    assert len(only_trip(ss.trajectories(tmp_path / "delta")).t) == 2
    assert len(only_trip(ss.trajectories(tmp_path / "delta", as_of=0)).t) == 1
    with pytest.raises(BadInput, match="delta"):
        ss.trajectories(tmp_path / "delta", as_of=7)
    with pytest.raises(BadInput, match="its first version is of"):
        ss.trajectories(tmp_path / "delta", as_of="1999-01-01")
    assert len(only_trip(ss.trajectories(tmp_path / "delta", as_of="2999-01-01")).t) == 2
    with pytest.raises(BadArgument, match="only Delta tables have versions"):
        ss.trajectories(tmp_path / "parquet", as_of=0)


def test_gpx_files_are_movers_by_their_names(spark, tmp_path: Path):
    (tmp_path / "rides").mkdir()
    (tmp_path / "rides" / "ann's ride.gpx").write_text(GPX)
    trips = ss.trajectories(tmp_path / "rides", keep=["name"])
    (row,) = trips.to_spark(spark).collect()
    assert (row["id"], row["name"], len(row["Trip"]["t"])) == ("ann's ride", "Ride", 2)
    assert trips.counts["rejects: no time"] == 1


def test_geolife_s_folders_are_movers(spark, tmp_path: Path):
    place = tmp_path / "Data" / "007" / "Trajectory"
    place.mkdir(parents=True)
    (place / "20081023025304.plt").write_text(PLT.replace("\n", "\r\n"))
    trips = ss.trajectories(tmp_path / "Data", keep=["file"])
    (row,) = trips.to_spark(spark).collect()
    assert (row["id"], row["file"]) == ("007", "20081023025304.plt")
    assert [t.isoformat() for t in row["Trip"]["t"]] == ["2008-10-23T02:53:04", "2008-10-23T02:53:10"]
    assert trips.crs == "EPSG:32650"
    assert trips.counts["rejects: unreadable time"] == 1


def feed(*vehicles: tuple[str, int, float]) -> bytes:
    message = gtfs_messages().FeedMessage()
    message.header.gtfs_realtime_version, message.header.timestamp = "2.0", 1_777_881_600
    for number, (name, seconds, lon) in enumerate(vehicles):
        entity = message.entity.add(id=str(number))
        entity.vehicle.vehicle.id = name
        entity.vehicle.timestamp = seconds
        entity.vehicle.trip.route_id = "M4"
        entity.vehicle.position.latitude, entity.vehicle.position.longitude = 52.5, lon
    return bytes(message.SerializeToString())


def test_feeds_of_gtfs_realtime(spark, tmp_path: Path):
    (tmp_path / "1.pb").write_bytes(feed(("bus", 1_777_881_600, 13.5), ("", 0, 13.25)))
    (tmp_path / "2.pb").write_bytes(feed(("bus", 1_777_881_660, 13.625), ("in ms", 1_777_881_660_000, 13.625)))
    trips = ss.trajectories(tmp_path, keep=["route"])
    rows = {row["id"]: row for row in trips.to_spark(spark).collect()}
    assert {name: len(row["Trip"]["t"]) for name, row in rows.items()} == {"bus": 2, "1": 1}
    assert rows["bus"]["route"] == "M4"
    assert trips.counts["rejects: unreadable time"] == 1
    assert trips.rejects.first()["given"] == "1777881660000, 13.625, 52.5"


def test_ais_columns_by_mapping(spark, tmp_path: Path):
    (tmp_path / "ais.csv").write_text(
        "MMSI,BaseDateTime,LAT,LON,SOG\n1,2026-05-04T08:00:00,54.1,10.1,9\n1,2026-05-04T08:01:00,54.1,10.103,9\n"
        "1,2026-05-04T08:02:00,91.0,181.0,0\n1,2026-05-04T08:02:00,57.1,10.1,9\n"
    )
    names = {"id": "MMSI", "time": "BaseDateTime", "lon": "LON", "lat": "LAT"}
    trips = ss.trajectories(tmp_path / "ais.csv", **names, max_speed="60 kn")
    assert {name: count for name, count in trips.counts.items() if ":" in name} == {
        "rejects: off the globe": 1,
        "rejects: jump": 1,
    }


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda p: p / "none.csv", "no such file"),
        (lambda p: p, "no file of positions"),
        (lambda p: write(p / "a.csv", ""), "empty"),
        (lambda p: write(p / "a.csv", "id,id,lon,lat\n"), "'id' twice"),
        (lambda p: write(p / "a.csv", "\udc80", errors="surrogateescape"), "cannot be read"),
        (lambda p: write(p / "a.parquet", "PAR?"), "a.parquet"),
        (lambda p: write(p / "a.csv", HEAD, p / "b.csv", "id,t,lon,lat\n"), "other columns than a.csv"),
        (lambda p: write(p / "a.csv", HEAD, p / "b.gpx", GPX), "several kinds"),
        (lambda p: write(p / "a.csv", "id,time,x,y\n"), "no columns for the place"),
    ],
)
def test_what_cannot_be_read_is_refused_without_spark(tmp_path: Path, make, error):
    with pytest.raises((BadArgument, BadInput), match=error):
        ss.trajectories(make(tmp_path))


def write(*files: Path | str, errors: str = "strict") -> Path:
    for file, text in zip(files[::2], files[1::2], strict=True):
        Path(file).write_text(str(text), encoding="utf-8", errors=errors)
    return Path(files[0]) if len(files) == 2 else Path(files[0]).parent


def test_damaged_gpx_and_feeds_are_named():
    with pytest.raises(BadInput, match=r"/rides/a b\.gpx"):
        gpx_rows("file:/rides/a%20b.gpx", b"<gpx>")
    with pytest.raises(BadInput, match="not a GTFS-realtime feed"):
        gtfs_rows("file:/feed.pb", b"\xff\xff\xff")


def test_the_format_can_be_chosen_in_a_folder_of_several(tmp_path: Path):
    (tmp_path / "a.csv").write_text(HEAD)
    (tmp_path / "b.gpx").write_text(GPX)
    assert Input.find(tmp_path, "gpx").columns[0] == "id"
    with pytest.raises(BadArgument, match="format 'xls' is unknown"):
        Input.find(tmp_path, "xls")


KEPLER = {
    "type": "FeatureCollection",
    "features": [
        {
            "type": "Feature",
            "properties": {"id": 7},
            "geometry": {
                "type": "LineString",
                "coordinates": [[13.4, 52.5, 0, 1777881600], [13.41, 52.5, 0, 1777881660]],
            },
        },
        {"type": "Feature", "geometry": {"type": "MultiLineString", "coordinates": [[[13.4, 52.5, 9, 1777881600000]]]}},
        {"type": "Feature", "id": "once", "geometry": {"type": "Point", "coordinates": [13.5, 52.5, 0, 1777881660]}},
        {"type": "Feature", "geometry": None},
    ],
}
BODY = {"type": "MovingPoint", "datetimes": ["2026-05-04T08:00:00Z"], "coordinates": [[13.4, 52.5, 30]]}


def test_lines_and_points_with_times_are_positions():
    rows = geojson_rows("a/trips.geojson", json.dumps(KEPLER).encode())
    assert [row[:4] for row in rows] == [
        ("7", "2026-05-04T08:00:00.000000Z", "13.4", "52.5"),
        ("7", "2026-05-04T08:01:00.000000Z", "13.41", "52.5"),
        ("trips", "2026-05-04T08:00:00.000000Z", "13.4", "52.5"),
        ("once", "2026-05-04T08:01:00.000000Z", "13.5", "52.5"),
    ]
    no_times = {"type": "LineString", "coordinates": [[13.4, 52.5], [13.4, 52.5, 0, "noon"]]}
    assert [row[1] for row in geojson_rows("a", json.dumps(no_times).encode())] == [None, "noon"]


def test_moving_features_are_positions():
    collected = {"temporalGeometry": {"type": "MovingGeometryCollection", "prisms": [BODY, BODY]}, "id": "van"}
    sequences = {
        "type": "MovingPoint",
        "sequences": [BODY],
        "crs": {"properties": {"name": "urn:ogc:def:crs:OGC:1.3:CRS84"}},
    }
    rows = mfjson_rows("a/b.mfjson", json.dumps({"features": [collected, sequences]}).encode())
    assert [row[:4] for row in rows] == [("van", "2026-05-04T08:00:00Z", "13.4", "52.5")] * 2 + [
        ("b", "2026-05-04T08:00:00Z", "13.4", "52.5")
    ]


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (geojson_rows, "{", "x: not GeoJSON with times"),
        (geojson_rows, '{"type": "Polygon", "coordinates": [[[1, 2]]]}', "a geometry is a Polygon"),
        (geojson_rows, '{"features": [{"geometry": {"type": "LineString", "coordinates": [[1]]}}]}', "not GeoJSON"),
        (mfjson_rows, "[]", "x: not MF-JSON with times"),
        (mfjson_rows, json.dumps(BODY | {"datetimes": []}), "not MF-JSON"),
        (mfjson_rows, json.dumps(BODY | {"crs": "EPSG:32633"}), "are not longitudes and latitudes"),
    ],
)
def test_damaged_json_is_named(parse, text: str, message: str):
    with pytest.raises(BadInput, match=message):
        parse("x", text.encode())


def test_what_is_exported_as_json_is_read_back(spark, tmp_path: Path):
    (tmp_path / "gps.csv").write_text(HEAD + LINES)
    trips = ss.trajectories(tmp_path / "gps.csv")
    for name in ("trips.geojson", "trips.mfjson"):
        trips.export(tmp_path / name)
        again = ss.trajectories(tmp_path / name)
        assert (again.crs, again.counts["vertices"], list(again.to_points())) == (trips.crs, 2, ["a"])
        assert only_trip(again).length == pytest.approx(only_trip(trips).length, abs=0.02)
