"""Degrees are projected to metres and back, and degrees are not mistaken for metres."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moving.oracle import moving
from slipstream._errors import BadArgument, BadInput
from slipstream._moving.exchange.tracks import read_csv, read_gpx
from slipstream._moving.exchange.trip_texts import from_mfjson, from_wkt, to_mfjson, to_wkt
from slipstream._moving.space.plane import Plane, are_degrees


def geodesic(lon1, lat1, lon2, lat2):
    """Metres between two places on WGS 84 (Vincenty, 1975): right to a millimetre, and nothing of ours in it."""
    a, f = 6378137.0, 1 / 298.257223563
    b = (1 - f) * a
    u1, u2 = (math.atan((1 - f) * math.tan(math.radians(lat))) for lat in (lat1, lat2))
    east = lam = math.radians(lon2 - lon1)
    for _ in range(100):
        sin_s = math.hypot(
            math.cos(u2) * math.sin(lam),
            math.cos(u1) * math.sin(u2) - math.sin(u1) * math.cos(u2) * math.cos(lam),
        )
        if sin_s == 0:
            return 0.0
        cos_s = math.sin(u1) * math.sin(u2) + math.cos(u1) * math.cos(u2) * math.cos(lam)
        s = math.atan2(sin_s, cos_s)
        sin_a = math.cos(u1) * math.cos(u2) * math.sin(lam) / sin_s
        cos2 = 1 - sin_a**2
        middle = cos_s - 2 * math.sin(u1) * math.sin(u2) / cos2 if cos2 else 0.0
        c = f / 16 * cos2 * (4 + f * (4 - 3 * cos2))
        last, lam = lam, east + (1 - c) * f * sin_a * (s + c * sin_s * (middle + c * cos_s * (2 * middle**2 - 1)))
        if abs(lam - last) < 1e-13:
            break
    k = cos2 * (a * a - b * b) / (b * b)
    big = 1 + k / 16384 * (4096 + k * (-768 + k * (320 - 175 * k)))
    small = k / 1024 * (256 + k * (-128 + k * (74 - 47 * k)))
    turn = (
        small
        * sin_s
        * (
            middle
            + small / 4 * (cos_s * (2 * middle**2 - 1) - small / 6 * middle * (4 * sin_s**2 - 3) * (4 * middle**2 - 3))
        )
    )
    return b * big * (s - turn)


def test_published_coordinates_of_the_cn_tower():
    x, y = Plane.utm(17).project(-(79 + 23 / 60 + 13.7 / 3600), 43 + 38 / 60 + 33.24 / 3600)
    assert (round(float(x)), round(float(y))) == (630084, 4833439)


@given(st.floats(11, 19), st.floats(-80, 84))
def test_proj_says_the_same_and_the_way_back_leads_home(lon, lat):
    pymeos = pytest.importorskip("pymeos", reason="PyMEOS is not installed; `make setup` installs it")
    pymeos.pymeos_initialize(timezone="UTC")
    plane = Plane.utm(33, south=lat < 0)
    x, y = plane.project(lon, lat)
    theirs = pymeos.TGeomPointInst(f"SRID=4326;POINT({lon!r} {lat!r})@2020-01-01").transform(plane.srid).value()
    assert (float(x), float(y)) == pytest.approx((theirs.x, theirs.y), abs=1e-3)
    back = plane.locate(x, y)
    assert (float(back[0]), float(back[1])) == pytest.approx((lon, lat), abs=1e-9)


@given(st.floats(-3, 3), st.floats(-60, 60), st.floats(0.01, 0.1), st.floats(0, 2 * math.pi))
def test_lengths_are_off_by_less_than_is_said(east, lat, step, turn):
    one, other = (east, lat), (east + step * math.cos(turn), lat + step * math.sin(turn))
    true = geodesic(*one, *other)
    for plane, least in ((Plane.around(0, 10), 1.0), (Plane(0, 0, 0.9996, 500_000), 0.9996)):
        (x0, y0), (x1, y1) = plane.project(*one), plane.project(*other)
        ratio = math.hypot(x1 - x0, y1 - y0) / true
        far = max(abs(float(x) - plane.x0) for x in (x0, x1))
        assert least - 1e-6 <= ratio <= least * (1 + far**2 / (2 * 6_335_000**2)) + 1e-6
        if plane.scale == 1.0 and far < 280_000:
            assert ratio < 1.001
        if plane.scale == 1.0 and far < 100_000:
            assert ratio < 1.0002


@pytest.mark.parametrize(
    ("lon", "lat", "words"), [(200.0, 0.0, "not degrees"), (40.0, 52.0, "too far"), (190, 0, "not")]
)
def test_places_off_the_globe_or_off_the_plane_are_refused_with_one_that_fits(lon, lat, words):
    with pytest.raises(BadInput, match=f"Place 2: .*{words}") as refused:
        Plane.utm(33).project([13.4, lon], [52.5, lat])
    assert "Plane.utm(" in refused.value.hint


def test_a_plane_over_the_date_line_and_arguments_that_are_none():
    x, _ = Plane.around(180, 10).project([179.9, -179.9], [10, 10])
    assert x[1] - x[0] == pytest.approx(geodesic(179.9, 10, 180.1, 10), rel=1e-4)
    assert Plane.utm_at(180, -5) == Plane.utm(60, south=True)
    assert Plane.utm(33).crs == "EPSG:32633"
    assert Plane.around(13, 52).crs is None
    for wrong in (lambda: Plane.utm(61), lambda: Plane.around(0, 91), lambda: Plane.utm_at(181, 0)):
        with pytest.raises(BadArgument):
            wrong()


def gpx(*points):
    rows = "".join(
        f'<trkpt lat="{lat}" lon="{lon}"><time>2007-05-28T08:{minute:02d}:00Z</time></trkpt>'
        for minute, (lon, lat) in enumerate(points)
    )
    return f'<gpx xmlns="http://www.topografix.com/GPX/1/1"><trk><trkseg>{rows}</trkseg></trk></gpx>'


def test_two_tracks_that_are_read_apart_share_a_plane(tmp_path):
    one, other = [(13.40, 52.50), (13.41, 52.50)], [(13.40, 52.50), (13.40, 52.52), (13.45, 52.60)]
    (tmp_path / "one.gpx").write_text(gpx(*one))
    (tmp_path / "other.gpx").write_text(gpx(*other))
    plane = Plane.utm_at(13.4, 52.5)
    first, second = (read_gpx(tmp_path / name, plane) for name in ("one.gpx", "other.gpx"))
    assert (first.x[0], first.y[0]) == (second.x[0], second.y[0])
    for i, a in enumerate(one):
        for j, b in enumerate(other):
            apart = math.hypot(first.x[i] - second.x[j], first.y[i] - second.y[j])
            assert apart == pytest.approx(geodesic(*a, *b), rel=5e-4)
    lon, lat = plane.locate(second.x, second.y)
    np.testing.assert_allclose(np.c_[lon, lat], other, atol=1e-9)
    with pytest.raises(BadInput, match=r"one\.gpx: Place 1: .*too far"):
        read_gpx(tmp_path / "one.gpx", Plane.utm(1))


LONLAT = """id,ts,lon,lat
a,2026-05-04T08:00:00Z,13.377,52.516
a,2026-05-04T08:01:00Z,13.389,52.517
b,2026-05-04T08:00:00Z,13.401,52.521
"""


def test_degrees_in_a_csv_file_are_refused_or_projected(tmp_path):
    (tmp_path / "taxi.csv").write_text(LONLAT)
    columns = {"who": "id", "t": "ts"}
    with pytest.raises(BadInput, match=r"taxi\.csv: columns lon and lat look like degrees") as refused:
        read_csv(tmp_path / "taxi.csv", **columns, x="lon", y="lat")
    assert (
        refused.value.hint
        == 'Use lon="lon", lat="lat" and a plane, for example Plane.utm(33); if they are metres, use units="m".'
    )
    taxi = read_csv(tmp_path / "taxi.csv", **columns, lon="lon", lat="lat", plane=Plane.around(13.4, 52.5))
    assert taxi["a"].length == pytest.approx(geodesic(13.377, 52.516, 13.389, 52.517), rel=1e-4)
    assert read_csv(tmp_path / "taxi.csv", **columns, x="lon", y="lat", units="m")["a"].length < 1
    with pytest.raises(BadArgument, match="must be given together"):
        read_csv(tmp_path / "taxi.csv", **columns, lon="lon", lat="lat")
    with pytest.raises(BadArgument, match="units"):
        read_csv(tmp_path / "taxi.csv", **columns, x="lon", y="lat", units="feet")


def test_degrees_without_a_reference_system_are_refused_in_text_and_json():
    drive = moving([[(0, 13.4, 52.5), (60, 13.41, 52.5)]])
    for back, text in ((from_wkt, to_wkt(drive)), (from_mfjson, to_mfjson(drive))):
        with pytest.raises(BadInput, match="look like degrees"):
            back(text)
        assert back(text, units="m").x.tolist() == [13.4, 13.41]
    assert from_wkt("SRID=25833;[POINT(13.4 52.5)@2007-05-28]").x.tolist() == [13.4]


@given(
    st.lists(st.tuples(st.floats(-170, 170), st.floats(-80, 80)), min_size=1, max_size=9),
    st.floats(0, 300),
    st.integers(1, 600),
)
def test_whatever_vehicles_drive_in_degrees_is_found(places, speed, seconds):
    lon, lat = np.array(places).T + 0.0123
    step = speed * seconds / 111_000
    x, y = np.concatenate([lon, lon + step]), np.concatenate([lat, lat])
    assert are_degrees(x, y, np.full(len(lon), step / seconds))


@given(st.floats(1, 5e4), st.floats(0.05, 60), st.integers(2, 30), st.integers(1, 60))
def test_metres_of_anything_that_moves_are_not_called_degrees(where, speed, count, seconds):
    x = where * 0.001 + speed * seconds * np.arange(count)
    assert not are_degrees(x, x * 0.5, np.full(count - 1, speed))


def test_a_broken_fix_hides_degrees_as_little_as_whole_numbers_make_them():
    x, y = np.full(50, 13.4), np.linspace(52.5, 52.6, 50)
    speed = np.full(49, 1e-4)
    x[7], y[7], speed[6:8] = 0.0, 0.0, 54.0  # a fix at null island
    x[9] = 1e9
    assert are_degrees(x, y, speed)
    assert not are_degrees([3, 4], [5, 6], [1e-4])
    assert not are_degrees([], [])
