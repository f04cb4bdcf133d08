"""The API of the Map page agrees with other libraries and with plain Python."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from pyproj import Geod, Transformer

from console.mapped_jobs import EAST, EIGHT, NORTH, append, commit, gps, grid, tracks, unpack
from slipstream._console.guard import AccessRules, check_tiles
from slipstream._console.maps import map_files
from slipstream._console.maps.map_layers import MapLayer
from slipstream._console.maps.map_positions import read_positions
from slipstream._console.maps.map_segments import find_rows
from slipstream._console.server import create
from slipstream._errors import BadArgument
from slipstream._io.outputs import Outputs
from slipstream._moving.moving_point import MovingPoint, to_arrow

HERE = "http://127.0.0.1:8321"
OURS = {"x-slipstream": "1"}
MERCATOR = Transformer.from_crs("EPSG:4326", "EPSG:3857", always_xy=True)
UTM = Transformer.from_crs("EPSG:32633", "EPSG:3857", always_xy=True)

FIRST = [
    ("a", 0, 13.40, 52.50, 30.0, "car", 1),
    ("b", 0, 13.41, 52.51, 20.0, "bus", 2),
    ("a", 10, 13.402, 52.5, 35.0, "car", 1),
    ("c", 5, 200.0, 52.5, 1.0, "car", 3),
    ("c", 6, None, 52.5, 1.0, "car", 3),
]
SECOND = [("b", 20, 13.415, 52.512, 25.0, "bus", 2), ("d", 20, 13.5, 52.4, 50.0, None, 4)]
NETWORK = """network: fleet
version: 1
sources: {}
boxes:
  matched: {operator: match, from: gps, parameters: {roads: %s, x: lon, y: lat}}
  tolled: {operator: zone_tolls, from: gps, parameters: {zones: '%s', x: lon, y: lat}}
outputs: {}
"""
SQUARE = [[13.3, 52.4], [13.5, 52.4], [13.5, 52.6], [13.3, 52.6], [13.3, 52.4]]
HOLE = [[13.39, 52.49], [13.41, 52.49], [13.41, 52.51], [13.39, 52.49]]
ZONES = {
    "type": "FeatureCollection",
    "features": [
        {
            "type": "Feature",
            "properties": {"name": "centre", "entry": 2},
            "geometry": {"type": "Polygon", "coordinates": [SQUARE, HOLE]},
        }
    ],
}


def drive(*vertices: tuple[float, float, float]) -> MovingPoint:
    start = datetime.fromtimestamp(EIGHT, UTC)
    return MovingPoint.of([[(start + timedelta(seconds=t), x, y) for t, x, y in vertices]])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    grid(tmp_path / "streets")
    network = NETWORK % (tmp_path / "streets", json.dumps(ZONES))
    commit(tmp_path / "fleet", [{"gps": gps(FIRST), "tolls": pa.table({"id": ["a"], "toll": [3]})}], network)
    moved = to_arrow([drive((0, 13.4, 52.5), (60, 13.41, 52.5)), drive((100, 13.41, 52.5), (130, 13.41, 52.505))])
    commit(tmp_path / "archive", [{"trips": pa.table({"id": ["a", "a"], "Trip": moved})}])
    return tmp_path


@pytest.fixture
def page(folder: Path) -> Iterator[TestClient]:
    with TestClient(create(folder, AccessRules(), "local[1]"), base_url=HERE, headers=OURS) as client:
        yield client


def positions(page: TestClient, job: str = "fleet", layer: str = "gps", **query: Any) -> bytes:
    answer = page.get("/api/map/positions", params={"job": job, "layer": layer, **query})
    assert answer.status_code == 200, answer.text
    return answer.content


def drop(page: TestClient, name: str, content: bytes, **query: str) -> Any:
    return page.post("/api/map/file", params={"name": name, **query}, content=content)


def test_jobs_with_a_place_are_listed_with_what_they_can_be_coloured_by(page: TestClient) -> None:
    found = page.get("/api/map").json()
    assert found["roads"] == ["streets"]
    assert found["tiles"] == ""
    assert {job["name"]: [(one["name"], one["kind"], one["time"], one["attributes"]) for one in job["layers"]]
            for job in found["jobs"]} == {
        "fleet": [("gps", "positions", "time", ["speed", "kind", "edge"])],
        "archive": [("trips", "trips", "", ["id"])],
    }  # fmt: skip


def test_positions_are_those_of_the_last_commit_in_web_mercator(page: TestClient) -> None:
    body = positions(page)
    header, _ = unpack(body)
    assert (header["batch"], header["is_cut"], header["world"], header["unplaced"]) == (0, False, "earth", 2)
    assert header["attributes"] == [
        {"name": "speed", "texts": []}, {"name": "kind", "texts": ["bus", "car"]}, {"name": "edge", "texts": []}
    ]  # fmt: skip
    found = tracks(body)
    assert {name: len(rows) for name, rows in found.items()} == {"a": 2, "b": 1}
    for name, seconds, lon, lat, speed, kind, edge in FIRST[:3]:
        t, x, y, *values = next(row for row in found[name] if round(row[0]) == EIGHT + seconds)
        assert (t, *values) == (EIGHT + seconds, speed, ["bus", "car"].index(kind), edge)
        assert np.hypot(*np.subtract((x, y), MERCATOR.transform(lon, lat))) < 0.02


def test_only_what_was_committed_since_is_sent_again(page: TestClient, folder: Path) -> None:
    committed = Outputs(folder / "fleet", json.loads((folder / "fleet" / "job.json").read_text())["id"])
    assert tracks(positions(page, after=0)) == {}
    append(committed, folder / "fleet", 1, {"gps": gps(SECOND)})
    assert {name: len(rows) for name, rows in tracks(positions(page, after=0)).items()} == {"b": 1, "d": 1}
    assert unpack(positions(page, after=0))[0]["batch"] == 1
    assert {name: len(rows) for name, rows in tracks(positions(page)).items()} == {"a": 2, "b": 2, "d": 1}
    newest = positions(page, most=2)
    assert (set(tracks(newest)), unpack(newest)[0]["is_cut"]) == ({"b", "d"}, True)


def test_metres_of_a_known_system_are_put_on_the_same_map(page: TestClient, folder: Path) -> None:
    place = {"x": [EAST, EAST + 100], "y": [NORTH, NORTH], "id": [1, 1], "time": [0, 10]}
    commit(folder / "metres", [{"cars": pa.table(place)}])
    plain = tracks(positions(page, "metres", "cars"))["1"]
    assert unpack(positions(page, "metres", "cars"))[0]["world"] == "plane"
    assert [row[:3] for row in plain] == [(0, EAST, NORTH), (10, EAST + 100, NORTH)]
    on_earth = positions(page, "metres", "cars", crs="EPSG:32633")
    assert unpack(on_earth)[0]["world"] == "earth"
    for (_, x, y, *_), east in zip(tracks(on_earth)["1"], place["x"], strict=True):
        assert np.hypot(*np.subtract((x, y), UTM.transform(east, NORTH))) < 0.02
    # 100 m in 10 s, on the map and without one
    assert [row[3] for row in plain] == [36.0, 36.0]
    assert tracks(on_earth)["1"][1][3] == pytest.approx(36.0, rel=0.002)
    assert page.get("/api/map/positions", params={"job": "metres", "layer": "cars", "crs": "x"}).status_code == 422
    assert page.get("/api/map/positions", params={"job": "metres", "layer": "cars", "crs": "EPSG:9"}).status_code == 422


def test_trips_are_tracks_with_the_speed_on_the_way(page: TestClient) -> None:
    body = positions(page, "archive", "trips")
    header, parts = unpack(body)
    assert (header["world"], header["owners"]) == ("earth", ["a"])
    assert np.frombuffer(parts[0], "<i4").tolist() == [0, 2, 4]
    assert [one["name"] for one in header["attributes"]] == ["id", "speed_kmh"]
    metres = Geod(ellps="WGS84").inv(13.4, 52.5, 13.41, 52.5)[2]
    speeds = [row[-1] for row in tracks(body)["a"]]
    assert speeds[:2] == pytest.approx([3.6 * metres / 60] * 2, rel=0.005)


def test_streets_are_the_lines_of_the_imported_roads(page: TestClient) -> None:
    body = page.get("/api/map/roads", params={"roads": "streets"}).content
    header, (offsets, x, y, kind, edge, reverse) = unpack(body)
    assert header["world"] == "earth"
    rows = np.frombuffer(offsets, "<i4")
    assert (len(rows) - 1, len(kind) // 4) == (60, 60)
    both = {*np.frombuffer(edge, "<i4").tolist(), *np.frombuffer(reverse, "<i4").tolist()}
    assert both == set(range(120))
    east = np.frombuffer(x, "<f4").astype(float) + header["origin"][0]
    north = np.frombuffer(y, "<f4").astype(float) + header["origin"][1]
    corners = np.array([UTM.transform(EAST + 800 * i, NORTH + 800 * j) for i in range(6) for j in range(6)])
    away = np.hypot(east[:, None] - corners[:, 0], north[:, None] - corners[:, 1])
    assert away.min(axis=1).max() < 0.02
    assert (away < 0.02).sum(axis=0).min() >= 2


def test_the_setting_of_a_job_is_what_its_network_says(page: TestClient) -> None:
    found = page.get("/api/map/setting", params={"job": "fleet"}).json()
    assert (found["roads"], found["world"], found["has_segments"]) == ("streets", "earth", False)
    (zone,) = found["zones"]
    assert (zone["name"], [len(ring) for ring in zone["rings"]]) == ("centre", [4, 3])
    assert np.allclose(zone["rings"][0], [MERCATOR.transform(*place) for place in SQUARE[:-1]], atol=0.01)
    assert page.get("/api/map/setting", params={"job": "archive"}).json()["zones"] == []


def test_what_does_not_exist_is_named(page: TestClient) -> None:
    for path, query, message in (
        ("positions", {"job": "x", "layer": "gps"}, "No job 'x'"),
        ("positions", {"job": "fleet", "layer": "tolls"}, "No layer 'tolls'"),
        ("roads", {"roads": "fleet"}, "No roads 'fleet'"),
        ("segments", {"job": "x"}, "No job 'x'"),
    ):
        answer = page.get(f"/api/map/{path}", params=query)
        assert (answer.status_code, answer.json()["message"].startswith(message)) == (404, True), answer.text
    assert page.get("/api/map/segments", params={"job": "fleet"}).json() == {"batch": -1, "edges": [], "values": {}}


def test_an_edge_belongs_to_the_segment_in_which_it_begins() -> None:
    segments = {"xway": [0, 0, 0], "dir": [0, 0, 1], "segment": [0, 1, 0]}
    rows = [(10, 0, 0, 0.0), (11, 0, 0, 999.0), (12, 0, 0, 1000.0), (13, 0, 1, 400.0), (14, 0, 1, 1500.0)]
    edge, route, direction, start = zip(*rows, strict=True)
    corridor = pa.table(
        {"edge": edge, "route": route, "dir": direction, "start": start, "segment_m": [1000.0] * len(rows)}
    )
    edges, found = find_rows(segments, [corridor])
    assert list(zip(edges.tolist(), found.tolist(), strict=True)) == [(10, 0), (11, 0), (12, 1), (13, 2)]


# --- files that are dropped

TIMES = ["2026-05-04T08:00:00Z", "2026-05-04T08:00:30Z"]
PLACES = [(13.4, 52.5), (13.41, 52.51)]
POINTS = "".join(
    f'<trkpt lon="{lon}" lat="{lat}"><time>{time}</time></trkpt>'
    for (lon, lat), time in zip(PLACES, TIMES, strict=True)
)
GPX = f'<gpx xmlns="http://www.topografix.com/GPX/1/1"><trk><trkseg>{POINTS}</trkseg></trk></gpx>'
LINE = {"type": "LineString", "coordinates": [[*place, 0, EIGHT + 30 * k] for k, place in enumerate(PLACES)]}
CSV = "id,time,lon,lat\n" + "".join(f"van,{t},{lon},{lat}\n" for (lon, lat), t in zip(PLACES, TIMES, strict=True))


def to_parquet(table: pa.Table) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


TABLE = pa.table({"id": ["van"] * 2, "t": [EIGHT, EIGHT + 30], "longitude": [13.4, 13.41], "latitude": [52.5, 52.51]})


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("van.gpx", GPX.encode()),
        ("van.geojson", json.dumps(LINE).encode()),
        ("C:\\tracks\\van.CSV", CSV.encode()),
        ("van.parquet", to_parquet(TABLE)),
    ],
    ids=["gpx", "geojson", "csv", "parquet"],
)
def test_a_file_of_any_kind_shows_the_same(page: TestClient, name: str, content: bytes) -> None:
    answer = drop(page, name, content)
    assert answer.status_code == 200, answer.text
    (rows,) = tracks(answer.content).values()
    assert [row[0] for row in rows] == [EIGHT, EIGHT + 30]
    for row, place in zip(rows, PLACES, strict=True):
        assert np.hypot(*np.subtract(row[1:3], MERCATOR.transform(*place))) < 0.02


def test_places_without_a_time_are_shown_each_on_its_own(page: TestClient) -> None:
    answer = drop(page, "stops.csv", b"name,lon,lat\na,13.4,52.5\na,13.5,52.5\n")
    header, parts = unpack(answer.content)
    assert (header["timed"], np.frombuffer(parts[0], "<i4").tolist()) == (False, [0, 1, 2])


BOMB = '<!DOCTYPE a [<!ENTITY b "ha"><!ENTITY c "&b;&b;&b;">]><gpx>&c;</gpx>'


@pytest.mark.parametrize(
    ("name", "content", "status", "message"),
    [
        ("van.shp", b"", 400, "not a kind of file"),
        ("van", b"", 400, "not a kind of file"),
        ("van.csv", b"id,speed\n1,2\n", 400, "no columns for the place"),
        ("van.csv", b"", 422, "not a CSV file"),
        ("van.csv", b"id,lon,lat\n1,2\n", 422, "not a CSV file"),
        ("van.csv", b"id,lon,lat\n1,500,2\n", 422, "none of its 1 rows"),
        ("van.csv", b"id,time,lon,lat\n1,noon,2,3\n", 422, "A time cannot be read"),
        ("van.parquet", b"PAR1nothing", 422, "not a Parquet file"),
        ("van.gpx", b"<gpx>", 422, "van.gpx"),
        ("van.gpx", BOMB.encode(), 422, "van.gpx"),
        ("van.geojson", b"{", 422, "not GeoJSON"),
        ("van.geojson", json.dumps({"type": "Polygon", "coordinates": [SQUARE]}).encode(), 422, "Polygon"),
        ("van.geojson", b'{"type": "LineString", "coordinates": []}', 422, "none of its 0 rows"),
    ],
)
def test_a_file_that_cannot_be_shown_is_refused(
    page: TestClient, name: str, content: bytes, status: int, message: str
) -> None:
    answer = drop(page, name, content)
    assert (answer.status_code, message in answer.json()["message"]) == (status, True), answer.text
    assert answer.json()["hint"]


def test_a_file_with_too_many_rows_is_refused(page: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_files, "MOST_POSITIONS", 1)
    for name, content in (("van.csv", CSV.encode()), ("van.parquet", to_parquet(TABLE))):
        answer = drop(page, name, content)
        assert (answer.status_code, answer.json()["code"]) == (400, "too-large")


def test_a_file_may_be_larger_than_other_requests(page: TestClient) -> None:
    rows = "".join(f"v{k % 100},{EIGHT + k},13.4,52.5\n" for k in range(60_000))
    content = f"id,time,lon,lat\n{rows}".encode()
    assert len(content) > 1 << 20
    assert len(tracks(drop(page, "big.csv", content).content)) == 100
    assert page.post("/api/map/file?name=x.csv", headers={"content-length": str(1 << 30)}).status_code == 413


# --- tiles


def test_only_the_site_of_the_tiles_is_added_to_the_policy(tmp_path: Path) -> None:
    tiles = check_tiles("https://tiles.example.org:8443/{z}/{x}/{y}.png")
    for rules, allowed in (
        (AccessRules(), "data: blob:;"),
        (AccessRules(tiles=tiles), "https://tiles.example.org:8443;"),
    ):
        with TestClient(create(tmp_path, rules, "local[1]"), base_url=HERE) as page:
            answer = page.get("/api/map")
            assert answer.json()["tiles"] == rules.tiles
            policy = answer.headers["content-security-policy"]
            assert allowed in policy
            assert "connect-src 'self';" in policy


@pytest.mark.parametrize(
    "address",
    ["https://tiles.example.org", "https://a.org/{z}/{x}.png", "javascript:{z}{x}{y}", "https://a.org; x/{z}/{x}/{y}",
     "https://a.org/{z}/{x}/{y}'", "//a.org/{z}/{x}/{y}", "https://*/{z}/{x}/{y}"],
)  # fmt: skip
def test_what_is_no_address_of_tiles_is_refused(address: str) -> None:
    with pytest.raises(BadArgument, match="not the address of map tiles"):
        check_tiles(address)


# --- an independent reading

ROW = st.tuples(
    st.sampled_from(["a", "b", "c", None]),
    st.one_of(st.none(), st.integers(0, 50)),
    st.one_of(st.none(), st.floats(-200, 200), st.just(float("nan"))),
    st.one_of(st.none(), st.floats(-100, 100)),
    st.one_of(st.none(), st.floats(-10, 10)),
)


@given(st.lists(ROW, max_size=30))
def test_tracks_are_the_sorted_positions_of_each(rows: list[tuple[Any, ...]]) -> None:
    columns = list(zip(*rows, strict=True)) if rows else [()] * 5
    kinds = [pa.string(), *[pa.float64()] * 4]
    table = pa.table(
        dict(
            zip(
                ("id", "t", "lon", "lat", "v"),
                (pa.array(c, k) for c, k in zip(columns, kinds, strict=True)),
                strict=True,
            )
        )
    )
    made = read_positions(table, MapLayer("x", "positions", "lon", "lat", "t", "id", True, ("v",)))
    good = [
        (who or "", t, lon, v) for who, t, lon, lat, v in rows
        if None not in (t, lon, lat) and abs(lon) <= 180 and abs(lat) <= 90
    ]  # fmt: skip
    expected = {who: sorted((t for other, t, _, _ in good if other == who)) for who, *_ in good}
    found = {made.owners[whose]: made.t[made.rows[k] : made.rows[k + 1]].tolist() for k, whose in enumerate(made.owner)}
    assert found == expected
    assert made.unplaced == len(rows) - len(good)
    values = made.attributes["v"].values
    assert sorted(values[~np.isnan(values)].tolist()) == sorted(v for *_, v in good if v is not None)
