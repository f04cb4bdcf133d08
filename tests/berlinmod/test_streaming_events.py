"""Events of Streaming BerlinMOD from files and data sets; what cannot be used is named with its line."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
import shapely

from slipstream._bench.berlinmod.position_events import Reject, _Instants, cut_steps, read_events, to_degrees
from slipstream._bench.berlinmod.query_parameters import Parameters
from slipstream._errors import BadInput

HEAD = "vehicle_id,t_ms,lon,lat\n"


def write(folder, text, name="events.csv"):
    file = folder / name
    file.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return file


@pytest.mark.parametrize("name", ["events.csv", "events.csv.gz"])
def test_events_are_sorted_by_time_and_vehicle(tmp_path, name):
    text = (
        HEAD + "7,1000,13.4,52.5\n9,2000,13.41,52.5\n8,1500,13.42,52.5\n3,2000,13.43,52.5\n9,2000,13.123456789,52.5\n"
    )
    found = read_events(write(tmp_path, text, name))
    assert found.vehicle.tolist() == [7, 8, 3, 9, 9]
    assert found.lon.tolist() == [13.4, 13.42, 13.43, 13.41, 13.1234568]
    assert found.rejects == ()


def test_columns_may_be_in_any_order(tmp_path):
    found = read_events(write(tmp_path, "lat,lon,note,t_ms,vehicle_id\n52.5,13.4,x,5,7\n"))
    assert (found.vehicle[0], found.t[0], found.lon[0], found.lat[0]) == (7, 5, 13.4, 52.5)


def test_every_line_that_cannot_be_used_is_named(tmp_path):
    lines = [
        "7,5000,13.4,52.5",
        "x,5000,13.4,52.5",
        "7,5000,13.4",
        "",
        "7,12.5,13.4,52.5",
        "7,5000,,52.5",
        "7,5000,200,52.5",
        "7,5000,13.4,nan",
        "7,4000,13.4,52.5",
        "7,3999,13.4,52.5",
        "7,5000,13.4,-91",
        "7,999999999999999999,13.4,52.5",
    ]
    found = read_events(write(tmp_path, HEAD + "\n".join(lines) + "\n"))
    assert found.t.tolist() == [4000, 5000]
    assert found.rejects == (
        Reject(3, "vehicle_id is not a number"),
        Reject(4, "not 4 fields"),
        Reject(5, "vehicle_id is not a number"),
        Reject(6, "t_ms is not a number"),
        Reject(7, "lon is not a number"),
        Reject(8, "lon is not in -180 to 180"),
        Reject(9, "lat is not a number"),
        Reject(11, "late"),
        Reject(12, "lat is not in -90 to 90"),
        Reject(13, "t_ms is not in the years 1 to 9999"),
    )


def test_only_the_first_events_are_used(tmp_path):
    assert len(read_events(write(tmp_path, HEAD + "7,1,13.4,52.5\n" * 9), limit=4)) == 4


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "vehicle_id,t_ms,lon\n"])
def test_a_file_with_other_columns_is_refused(tmp_path, text):
    with pytest.raises(BadInput, match=r"line 1: not the columns of events"):
        read_events(write(tmp_path, text))


def test_a_file_that_is_not_text_is_refused(tmp_path):
    (tmp_path / "events.csv").write_bytes(b"\xff\xfe\x00,\x81")
    with pytest.raises(BadInput):
        read_events(tmp_path / "events.csv")
    (tmp_path / "events.csv.gz").write_bytes(b"vehicle_id")
    with pytest.raises(BadInput, match=r"gzip"):
        read_events(tmp_path / "events.csv.gz")


def test_no_events_have_no_parameters(tmp_path):
    with pytest.raises(BadInput, match="no events"):
        Parameters.derive(read_events(write(tmp_path, HEAD)))


def test_instants_are_reprojected_and_rounded(tmp_path):
    point = shapely.Point(1_487_158.82, 6_891_041.72)
    as_bytes = shapely.to_wkb(shapely.set_srid(point, 3857), hex=True, include_srid=True)
    lines = [
        "tripid,vehid,day,seqno,geom,t",
        "1,5,2020-06-01,1,POINT(1487158.82 6891041.72),2020-06-01 08:00:00.1239+00",
        f"1,5,2020-06-01,1,{as_bytes},2020-06-01 10:00:01.5+02",
        "2,6,2020-06-01,1,SRID=3857;POINT(0 0),2020-06-01 08:00:02",
        "2,6,2020-06-01,1,SRID=4326;POINT(0 0),2020-06-01 08:00:02+00",
        "2,6,2020-06-01,1,POINT EMPTY,2020-06-01 08:00:02+00",
        "2,6,2020-06-01,1,LINESTRING(0 0 1 1),2020-06-01 08:00:02+00",
        "2,6,2020-06-01,1,0101,2020-06-01 08:00:02+00",
        "2,6,2020-06-01,1,POINT(0 0),yesterday",
    ]
    found = read_events(write(tmp_path, "\n".join(lines) + "\n"))
    assert found.vehicle.tolist() == [5, 5, 6]
    assert (found.t - found.t[0]).tolist() == [0, 1500 - 123, 2000 - 123]
    assert found.lon.tolist() == [13.359375, 13.359375, 0.0]
    assert found.lat[0] == pytest.approx(52.5, abs=0.1)
    assert found.lat[0] == round(found.lat[0], 7)
    assert [(line, reason) for line, reason in found.rejects] == [
        (5, "geom is not in EPSG:3857"),
        (6, "geom is not a point"),
        (7, "geom is not a point"),
        (8, "geom is not a point"),
        (9, "t is not a time"),
    ]


def test_mercator_is_that_of_the_sphere():
    import pyproj

    x, y = np.array([0.0, 1_487_158.82, -2e6]), np.array([0.0, 6_891_041.72, -3e6])
    lon, lat = pyproj.Transformer.from_crs(3857, 4326, always_xy=True).transform(x, y)
    found = to_degrees(x, y)
    assert np.abs(found[0] - lon).max() <= 1e-7
    assert np.abs(found[1] - lat).max() <= 1e-7


def test_steps_are_cut_within_trips():
    instants = _Instants(
        np.array([1, 1, 1, 2, 2]), np.array([7, 7, 7, 8, 8]), np.array([0, 6, 12, 5, 5]), np.arange(5.0), np.arange(5.0)
    )
    found = cut_steps(instants, 3)
    assert found.micros.tolist() == [0, 2, 4, 6, 8, 10, 12, 5, 5, 5, 5]
    assert found.x.round(3).tolist() == [0, 0.333, 0.667, 1, 1.333, 1.667, 2, 3, 3.333, 3.667, 4]
    assert found.vehicle.tolist() == [7] * 7 + [8] * 4


def test_parameters_are_those_of_the_specification(tmp_path):
    text = HEAD + "".join(f"{v},{t},{lon},{lat}\n" for v, t, lon, lat in [(5, 0, 13.0, 52.0), (2, 1000, 13.4, 52.2)])
    given = Parameters.derive(read_events(write(tmp_path, text + "9,801000,13.2,52.4\n")))
    assert given.point == (13.2, 52.2)
    assert given.area == (13.1, 52.1, 13.3, 52.3)
    assert given.segment == (13.1, 52.2, 13.3, 52.2)
    assert given.points == ((1, 13.2, 52.2, 2000), (2, 13.24, 52.24, 1000), (3, 13.16, 52.16, 2000))
    assert (given.target, given.other, given.window, given.tick) == (5, 2, 4000, 2000)
