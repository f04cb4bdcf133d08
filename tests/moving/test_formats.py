"""Text formats of moving points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from moving.oracle import moving, moving_points
from slipstream._errors import BadInput
from slipstream._moving.exchange.tracks import (
    from_geopandas,
    from_movingpandas,
    read_csv,
    read_gpx,
    to_geopandas,
    to_movingpandas,
)
from slipstream._moving.exchange.trip_texts import from_mfjson, from_wkt, to_mfjson, to_wkt
from slipstream._moving.space.plane import Plane


def equal(one, other):
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("t", "x", "y", "starts"))


@given(moving_points())
def test_text_out_and_in_is_the_same_movement(m):
    assert equal(from_wkt(to_wkt(m)), m)
    assert equal(from_mfjson(to_mfjson(m)), m)


def test_the_text_of_mobilitydb_is_read():
    one = from_wkt("SRID=25833;[POINT(1 2)@2007-05-28 00:00:00+00, POINT(3 4)@2007-05-28 00:00:02+00)")
    assert one.x.tolist() == [1.0, 3.0]
    assert len(from_wkt("{POINT(1 2)@2007-05-28, POINT(1 2)@2007-05-29}").starts) == 2


@pytest.mark.parametrize("text", ["POINT(1)@2007", "{[POINT(1 2)@then]}", "{[POINT(1 2)@2007-05-28]", "[POINT(1 2)]"])
def test_broken_text_is_refused(text):
    with pytest.raises(BadInput, match="not a temporal point"):
        from_wkt(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "MF-JSON"),
        ('{"type": "MovingPolygon"}', "MovingPolygon"),
        ('{"type": "MovingPoint", "interpolation": "Step", "datetimes": [], "coordinates": []}', "interpolation"),
    ],
)
def test_broken_mfjson_is_refused(text, message):
    with pytest.raises(BadInput, match=message):
        from_mfjson(text)


def test_degrees_are_refused():
    with pytest.raises(BadInput, match="degrees"):
        from_wkt("SRID=4326;[POINT(13 52)@2007-05-28]")
    crs = '"crs": {"type": "Name", "properties": {"name": "urn:ogc:def:crs:OGC:1.3:CRS84"}}'
    with pytest.raises(BadInput, match="degrees"):
        from_mfjson('{"type": "MovingPoint", "datetimes": ["2007-05-28"], "coordinates": [[13, 52]], ' + crs + "}")


def test_a_notebook_shows_the_path():
    m = moving([[(0, 0.0, 0.0), (5, 3.0, 4.0)], [(9, 1.0, 1.0)]])
    assert m._repr_svg_().count("<polyline") == 2
    assert "svg" in moving([])._repr_svg_()


GPX = """<gpx xmlns="http://www.topografix.com/GPX/1/1"><trk><trkseg>
<trkpt lat="52.5" lon="13.0"><time>2007-05-28T08:00:00Z</time></trkpt>
<trkpt lat="52.5" lon="13.01"><time>2007-05-28T08:01:00Z</time></trkpt></trkseg></trk></gpx>"""


def test_a_gpx_track_is_projected(tmp_path):
    (tmp_path / "a.gpx").write_text(GPX)
    assert read_gpx(tmp_path / "a.gpx", Plane.around(13, 52.5)).length == pytest.approx(679, abs=1)
    (tmp_path / "b.gpx").write_text(GPX.replace("<time>2007-05-28T08:01:00Z</time>", ""))
    with pytest.raises(BadInput, match="track point 2"):
        read_gpx(tmp_path / "b.gpx", Plane.utm(33))


def test_csv_rows_become_moving_points(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("id,t,x,y\na,2007-05-28T08:00:00,0,0\nb,2007-05-28T08:00:00,5,5\na,2007-05-28T08:00:10,3,4\n")
    assert read_csv(file)["a"].length == 5.0
    file.write_text("id,t,x,y\na,2007-05-28T08:00:00,0,0\na,2007-05-28T08:00:00,1,1\n")
    with pytest.raises(BadInput, match=r"id 'a': .*same instant twice"):
        read_csv(file)
    file.write_text("id,t,x,y\na,noon,0,0\n")
    with pytest.raises(BadInput, match="line 2"):
        read_csv(file)


def test_geopandas_and_back():
    pytest.importorskip("geopandas", reason="geopandas is an optional extra: pip install '.[frames]'")
    points = {"a": moving([[(0, 0.0, 0.0), (5, 3.0, 4.0)], [(9, 1.0, 1.0)]]), "b": moving([[(0, 2.0, 2.0)]])}
    frame = to_geopandas(points, "EPSG:25833")
    assert all(equal(m, points[name]) for name, m in from_geopandas(frame).items())
    with pytest.raises(BadInput, match="degrees"):
        from_geopandas(frame.to_crs("EPSG:4326"))


def test_movingpandas_and_back():
    pytest.importorskip("movingpandas", reason="movingpandas is an optional extra: pip install '.[frames]'")
    points = {"a": moving([[(0, 0.0, 0.0), (5, 3.0, 4.0)]])}
    back = from_movingpandas(to_movingpandas(points, "EPSG:25833"))
    assert equal(back["a/0"], points["a"])
