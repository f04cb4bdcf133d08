"""Street networks: splitting, components, shortest paths, and file formats."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream._berlinmod.streets import read_network
from slipstream._berlinmod.synthetic_city import synthetic_network
from slipstream._errors import BadArgument, BadInput
from slipstream._moving.space.plane import Plane
from slipstream._roads import paths
from slipstream._roads.importing.graph_building import build
from slipstream._roads.street_network import Street, StreetNetwork


def test_streets_that_cross_without_a_shared_vertex_get_a_node():
    network = build([Street(50, [(-10, 0, 10, 0)]), Street(30, [(0, -10, 0, 10)])])
    assert network.nodes == 5
    assert network.edges == 8
    assert (0.0, 0.0) in set(zip(network.x.tolist(), network.y.tolist(), strict=True))


def test_closed_streets_and_smaller_components_are_left_out():
    far = Street(30, [(1000, 0, 1010, 0)])
    network = build([Street(50, [(0, 0, 10, 0), (10, 0, 20, 5)]), Street(-1, [(20, 5, 30, 5)]), far, far])
    assert network.nodes == 2
    assert network.shape[-1] == 6


def test_a_network_without_an_open_street_is_refused():
    with pytest.raises(BadInput, match="no open street"):
        build([Street(-1, [(0, 0, 1, 1)])])


def test_the_synthetic_city_is_always_the_same_and_of_berlins_size():
    one, other = synthetic_network(), synthetic_network()
    for name, array in one.arrays().items():
        np.testing.assert_array_equal(array, other.arrays()[name])
    assert 4000 <= one.nodes <= 5000
    assert 12000 <= one.edges <= 15000
    assert 38_000 <= np.ptp(one.x) <= 42_000
    assert 33_000 <= np.ptp(one.y) <= 37_000


def test_berlins_own_streets_give_the_papers_graph(real_data):
    network = read_network(real_data / "berlinmod" / "streets.data")
    assert abs(network.nodes - 4468) < 50
    assert abs(network.edges - 13384) < 100


def test_a_stored_network_comes_back(tmp_path):
    network = build([Street(50, [(0, 0, 10, 0)])])
    network.save(tmp_path / "n.npz")
    back = StreetNetwork.load(tmp_path / "n.npz")
    assert back.edges == 2
    np.testing.assert_array_equal(back.shape_x, network.shape_x)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 9)), min_size=1, max_size=14))
def test_shortest_paths_are_those_of_bellman_and_ford(edges):
    both = sorted({(a, b, w) for a, b, w in edges} | {(b, a, w) for a, b, w in edges})
    source, target = (np.array([e[k] for e in both], dtype=np.int32) for k in (0, 1))
    cost = np.array([float(e[2]) for e in both])
    first = np.searchsorted(source, np.arange(7)).astype(np.int32)
    times, by = paths.find_shortest_tree(first, target, cost, 0, -1)
    expected = np.full(6, np.inf)
    expected[0] = 0.0
    for _ in range(6):
        for a, b, w in both:
            expected[b] = min(expected[b], expected[a] + w)
    np.testing.assert_array_equal(times, expected)
    for node in np.flatnonzero(np.isfinite(times)):
        path = paths.trace_path(source, by, int(node))
        assert cost[path].sum() == times[node]
        assert all(target[a] == source[b] for a, b in pairwise(path))


def test_geojson_in_degrees_and_in_metres(tmp_path):
    feature = {"type": "Feature", "properties": {"vmax": 50}, "geometry": {"type": "LineString", "coordinates": []}}
    feature["geometry"]["coordinates"] = [[13.0, 52.5], [13.01, 52.5]]
    degrees, metres = tmp_path / "a.geojson", tmp_path / "b.geojson"
    degrees.write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}))
    feature["geometry"]["coordinates"] = [[0, 0], [300, 400]]
    body = {"type": "FeatureCollection", "crs": {"properties": {"name": "metres"}}, "features": [feature]}
    metres.write_text(json.dumps(body))
    assert read_network(degrees).cost[0] * 50 / 3.6 == pytest.approx(679 * 0.9996, abs=1)
    assert read_network(metres).cost[0] * 50 / 3.6 == pytest.approx(500)
    body["crs"]["properties"]["name"] = "EPSG:99999"
    metres.write_text(json.dumps(body))
    with pytest.raises(BadInput, match="reference system EPSG:99999"):
        read_network(metres)


OSM = """<osm version="0.6"><node id="1" lat="52.5" lon="13.0"/><node id="2" lat="52.5" lon="13.01"/>
<node id="3" lat="52.51" lon="13.01"/>
<way id="1"><nd ref="1"/><nd ref="2"/><tag k="highway" v="primary"/></way>
<way id="2"><nd ref="2"/><nd ref="3"/><tag k="highway" v="residential"/></way>
<way id="3"><nd ref="1"/><nd ref="3"/><tag k="highway" v="footway"/></way></osm>"""


def test_openstreetmap_roads_become_a_network(tmp_path):
    import osmium

    text, binary = tmp_path / "town.osm", tmp_path / "town.osm.pbf"
    text.write_text(OSM)
    with osmium.SimpleWriter(str(binary)) as writer:
        for thing in osmium.FileProcessor(str(text)):
            writer.add(thing)
    for file in (text, binary):
        network = read_network(file)
        assert network.nodes == 3
        assert sorted(set(network.vmax.tolist())) == [30.0, 50.0]


def test_streets_in_degrees_keep_the_number_of_their_plane(tmp_path):
    (tmp_path / "town.osm").write_text(OSM)
    network = read_network(tmp_path / "town.osm")
    assert network.srid == 32633
    lon, lat = Plane.utm(33).locate(network.x, network.y)
    assert sorted(zip(lon.round(6), lat.round(6), strict=True)) == [(13.0, 52.5), (13.01, 52.5), (13.01, 52.51)]
    network.save(tmp_path / "n.npz")
    assert StreetNetwork.load(tmp_path / "n.npz").srid == 32633


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "Id,Vmax,X1,Y1,X2,Y2\n1,50,13.37,52.51,13.38,52.52\n"),
        ("a.data", "(OBJECT streets () (rel) ((50.0 ((13.37 52.51 13.38 52.52)))))"),
    ],
)
def test_streets_in_degrees_where_metres_are_needed_are_refused(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(BadInput, match=rf"{name}: its places look like degrees"):
        read_network(tmp_path / name)
    assert read_network(tmp_path / name, metres=True).nodes == 2


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "Id,Vmax\n1,2\n", "no column X1"),
        ("a.csv", "Id,Vmax,X1,Y1,X2,Y2\n1,50,0,0,a,0\n", "line 2"),
        ("a.data", "(OBJECT streets () (rel) ((50.0 ((1 2 3))))", "truncated"),
        ("a.data", "(OBJECT streets () (rel) ((50.0 ((1 2 3)))))", "street 1"),
        ("a.geojson", "{}", "not a GeoJSON"),
        ("a.osm", "<osm", "OpenStreetMap|Syntax|XML|error"),
    ],
)
def test_a_broken_street_file_is_named_with_its_place(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(BadInput, match=message):
        read_network(tmp_path / name)


def test_an_unknown_kind_of_file_is_refused(tmp_path):
    (tmp_path / "a.xyz").write_text("")
    for path in (tmp_path / "a.xyz", tmp_path / "none.csv"):
        with pytest.raises(BadArgument, match="--network"):
            read_network(path)
