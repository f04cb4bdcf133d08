"""Files of trips in the formats of others: what is written is what is read, and what is wrong is named."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slipstream as ss
from moving.oracle import moving_points
from slipstream._moving.exchange.trip_files import TripReading

BERLIN = ss.Plane.utm_at(13.4, 52.5)
GPX = """<gpx xmlns="http://www.topografix.com/GPX/1/1"><trk><trkseg>
<trkpt lat="52.516" lon="13.377"><time>2026-05-04T08:00:00Z</time></trkpt>
<trkpt lat="52.517" lon="13.389"><time>2026-05-04T08:01:00Z</time></trkpt></trkseg></trk></gpx>"""
#: the same ride in every format that has degrees
RIDE = {
    "ride.gpx": GPX,
    "ride.csv": "id,time,lon,lat\nride,2026-05-04T08:00:00Z,13.377,52.516\nride,2026-05-04T08:01:00Z,13.389,52.517\n",
    "ride.wkt": "SRID=4326;[POINT(13.377 52.516)@2026-05-04 08:00:00+00, POINT(13.389 52.517)@2026-05-04 08:01:00+00]",
    "ride.mfjson": json.dumps(
        {
            "type": "Feature",
            "id": "ride",
            "crs": {"type": "Name", "properties": {"name": "urn:ogc:def:crs:OGC:1.3:CRS84"}},
            "temporalGeometry": {
                "type": "MovingPoint",
                "datetimes": ["2026-05-04T08:00:00Z", "2026-05-04T08:01:00Z"],
                "coordinates": [[13.377, 52.516], [13.389, 52.517]],
            },
        }
    ),
}


def equal(one: ss.MovingPoint, other: ss.MovingPoint) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("t", "x", "y", "starts"))


@given(points=st.lists(moving_points(), min_size=1, max_size=4))
def test_what_is_written_is_read(points: list[ss.MovingPoint], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("files")
    (folder / "a.wkt").write_text("\n".join(point.to_wkt() for point in points))
    (folder / "b.jsonl").write_text("\n".join(point.to_mfjson() for point in points))
    features = [{"id": n, "temporalGeometry": json.loads(point.to_mfjson())} for n, point in enumerate(points)]
    (folder / "c.mfjson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    for name, texts in (("wkt.csv", [p.to_wkt() for p in points]), ("mfjson.csv", [p.to_mfjson() for p in points])):
        with (folder / name).open("w", newline="") as file:
            csv.writer(file).writerows([("id", "trip"), *enumerate(texts)])
    for name in ("a.wkt", "b.jsonl", "c.mfjson", "wkt.csv", "mfjson.csv"):
        found = TripReading(trip="trip", units="m").read(folder / name)
        assert all(equal(one, other) for (_, one), other in zip(found, points, strict=True)), name
    assert len(TripReading(trip="trip", units="m").read(folder)) == 5 * len(points)


@pytest.mark.parametrize("name", RIDE)
def test_degrees_are_projected_whatever_the_format(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(RIDE[name])
    x, y = BERLIN.project([13.377, 13.389], [52.516, 52.517])
    ((id, found),) = TripReading(plane=BERLIN).read(tmp_path / name)
    assert id == "ride"
    assert np.array_equal(found.x, x)
    assert np.array_equal(found.y, y)
    assert np.diff(found.t).tolist() == [60_000_000]


@pytest.mark.parametrize("name", RIDE)
def test_degrees_without_a_plane_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(RIDE[name])
    with pytest.raises(ss.SlipstreamError, match="degrees") as error:
        TripReading().read(tmp_path / name)
    assert name in error.value.message
    assert "plane" in error.value.hint


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.gpx", "<gpx", "a.gpx"),
        ("a.csv", "id,time\n", "no columns for the place"),
        ("a.csv", "id,when,x,y\n", "no column time"),
        ("a.csv", "id,time,x,y\n1,noon,0,0\n", "line 2"),
        ("a.csv", "id,time,x,y\n1,2026-05-04,0,0\n1,2026-05-03,0,0\n", "earlier|order|before"),
        ("a.wkt", "\n\n[POINT(0 0)@then]\n", "a.wkt, line 3"),
        ("a.wkt", "SRID=25833;[POINT(1 2)@2026-05-04]", "metres"),
        ("a.mfjson", "{", "not MF-JSON"),
        ("a.mfjson", "[1]", "a.mfjson, trip 1"),
        ("a.mfjson", '{"features": 1}', "a.mfjson, trip 1"),
        ("a.json", '{"type": "FeatureCollection", "features": [{"temporalGeometry": 3}]}', "a.json, trip 1"),
        ("a.txt", "", "cannot tell the format"),
        ("a.wkt", b"\xff", "UTF-8|cannot be read"),
    ],
)
def test_what_is_wrong_is_named(name: str, text: str | bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    plane = BERLIN if name == "a.gpx" or "SRID" in str(text) else None
    with pytest.raises(ss.SlipstreamError, match=message) as error:
        TripReading(plane=plane).read(tmp_path / name)
    assert "\n" not in error.value.message
    assert error.value.hint


def test_a_folder_has_the_files_of_one_format(tmp_path: Path) -> None:
    for name, text in {**RIDE, "readme.txt": "no trip"}.items():
        (tmp_path / name).write_text(text)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert len(TripReading(plane=BERLIN).read(tmp_path)) == 4
    assert len(TripReading("gpx", plane=BERLIN).read(tmp_path)) == 1
    with pytest.raises(ss.BadArgument, match="no files of trips"):
        TripReading().read(empty)
    with pytest.raises(ss.BadArgument, match="no such file"):
        TripReading().read(tmp_path / "none")
    with pytest.raises(ss.BadArgument, match="format 'shp' is unknown"):
        TripReading("shp")


def test_columns_have_the_names_that_are_given(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("who,at,east,north\n7,2026-05-04,0,0\n7,2026-05-05,3,4\n")
    ((id, found),) = TripReading(id="who", time="at", x="east", y="north").read(tmp_path / "a.csv")
    assert (id, found.length) == ("7", 5.0)
