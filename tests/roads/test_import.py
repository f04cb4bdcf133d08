"""Roads from the files of others: what they say is kept, what is wrong is dropped and counted, or refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import shapely

from slipstream._errors import BadArgument, BadInput
from slipstream._roads.importing.graph_building import Draft, build, finish
from slipstream._roads.importing.street_files import import_network, read_network
from slipstream._roads.road_tables import open_roads, save_roads
from slipstream._roads.street_network import CLASSES, Street, StreetNetwork, Tags, find_strong, restrict


def node(number: int, x: float, y: float) -> str:
    return f'<node id="{number}" lat="{52.5 + y / 111_000}" lon="{13.4 + x / 67_700}"/>'


def way(number: int, nodes: str, **tags: str) -> str:
    refs = "".join(f'<nd ref="{ref}"/>' for ref in nodes.split())
    return f'<way id="{number}">{refs}{_tags({"highway": "residential", **tags})}</way>'


def restriction(kind: str, begin: int, via: int, end: int, via_kind: str = "node") -> str:
    members = f'<member type="way" ref="{begin}" role="from"/><member type="{via_kind}" ref="{via}" role="via"/>'
    members += f'<member type="way" ref="{end}" role="to"/>'
    return f'<relation id="1">{members}{_tags({"type": "restriction", "restriction": kind})}</relation>'


def _tags(tags: dict[str, str]) -> str:
    return "".join(f'<tag k="{key}" v="{value}"/>' for key, value in tags.items())


def osm(folder: Path, *parts: str) -> Path:
    file = folder / "town.osm"
    file.write_text(f'<osm version="0.6">{"".join(parts)}</osm>')
    return file


#: a cross: 1 west, 2 centre, 3 east, 4 south, 5 north
CROSS = [node(1, -300, 0), node(2, 0, 0), node(3, 300, 0), node(4, 0, -300), node(5, 0, 300)]


def test_limits_classes_and_one_ways_are_those_of_the_signs(tmp_path):
    file = osm(
        tmp_path,
        *CROSS,
        way(1, "1 2", maxspeed="30 mph", oneway="yes", name="Main Street", ref="A 1"),
        way(2, "2 3", highway="motorway", maxspeed="none"),
        way(3, "4 2", **{"maxspeed:forward": "70", "maxspeed:backward": "40"}, highway="primary"),
        way(4, "2 5", oneway="-1"),
    )
    network, repairs = import_network(file)
    limits = {int(w): network.vmax[network.way == w].round(2).tolist() for w in (1, 2, 3, 4)}
    assert limits == {1: [48.28], 2: [130.0], 3: [70.0, 40.0], 4: [30.0]}
    assert CLASSES[network.kind[network.way == 2][0]] == "motorway"
    assert (network.reverse[network.way != 3] == -1).all()
    assert (network.y[network.source] > network.y[network.target])[network.way == 4].all()
    assert network.names[network.label[network.way == 1]].tolist() == ["Main Street"]
    assert network.refs[network.label[network.way == 1]].tolist() == ["A 1"]
    assert network.srid == 32633
    assert repairs.nodes_without_return == network.nodes - 2


def test_a_bridge_does_not_cross_what_is_below_it(tmp_path):
    bridge = way(2, "4 5", bridge="yes", layer="1")
    file = osm(tmp_path, *CROSS, way(1, "1 3"), bridge, node(6, 300, 300), way(3, "3 6"), way(4, "5 6"))
    network, _ = import_network(file)
    assert network.nodes == 5
    middle = network.x[0] + 300, network.y[np.argmin(network.x)]
    assert np.hypot(network.x - middle[0], network.y - middle[1]).min() > 200
    file = osm(tmp_path, *CROSS, way(1, "1 2 3"), way(2, "4 2 5"))
    assert import_network(file)[0].nodes == 5


def test_streets_without_nodes_cross_on_their_layer_only():
    ground, above = Street(50, [(-10, 0, 10, 0)]), Street(50, [(0, -10, 0, 10)], Tags(layer=1))
    ramp = Street(50, [(10, 0, 0, 10)])
    assert build([ground, above, ramp]).nodes == 4
    assert build([ground, Street(50, [(0, -10, 0, 10)]), ramp]).nodes == 5
    end_on = Street(50, [(0, 0, 0, 10)], Tags(layer=1))
    assert build([ground, end_on]).nodes == 4


@pytest.mark.parametrize(
    ("kind", "banned"),
    [("no_left_turn", {(1, 4)}), ("only_straight_on", {(1, 1), (1, 3), (1, 4)}), ("no_entry", {(1, 4)})],
)
def test_turns_that_signs_forbid_are_forbidden(tmp_path, kind, banned):
    ways = [way(1, "1 2"), way(2, "2 3"), way(3, "4 2"), way(4, "2 5")]
    to = 2 if kind.startswith("only") else 4
    network, repairs = import_network(osm(tmp_path, *CROSS, *ways, restriction(kind, 1, 2, to)))
    found = {
        (int(network.way[a]), int(network.way[b])) for a, b in zip(network.banned_from, network.banned_to, strict=True)
    }
    assert found == banned
    assert (repairs.restrictions, repairs.unusable_restrictions) == (1, 0)


def test_what_is_broken_is_dropped_and_counted(tmp_path):
    file = osm(
        tmp_path,
        *CROSS,
        node(7, 5000, 0),
        node(8, 5100, 0),
        node(9, 0, 0),
        way(1, "1 2 3"),
        way(2, "4 2 5 99"),
        way(3, "7 8"),
        way(4, "9 2 2"),
        way(5, "1 4", highway="footway"),
        restriction("no_left_turn", 1, 2, 77),
        restriction("no_left_turn", 1, 2, 3, "way"),
    )
    network, repairs = import_network(file)
    assert network.nodes == 5
    assert (repairs.dangling_nodes, repairs.pieces, repairs.dropped_edges) == (1, 2, 1)
    assert repairs.dropped_km == pytest.approx(0.1, abs=0.002)
    assert repairs.zero_length == 2
    assert repairs.unusable_restrictions == 2
    assert import_network(file, keep_pieces=True)[0].nodes == 7


def test_a_missing_node_interrupts_a_way(tmp_path):
    network, _ = import_network(osm(tmp_path, *CROSS, way(1, "1 99 3"), way(2, "1 4"), way(3, "4 3")))
    assert network.length.max() < 430


SUMO = """<net version="1.16">
<location netOffset="-390000.0,-5818000.0" projParameter="+proj=utm +zone=33 +ellps=WGS84"/>
<edge id=":b_0" function="internal"><lane id=":b_0_0" speed="9" shape="100,0 101,0"/></edge>
<edge id="ab" from="a" to="b" type="highway.primary" name="Ring">
  <lane id="ab_0" speed="13.89" disallow="all" shape="0,-2 98,-2"/>
  <lane id="ab_1" speed="13.89" shape="0,0 98,0"/></edge>
<edge id="bc" from="b" to="c"><lane id="bc_0" speed="8.33" shape="102,0 150,10 200,0"/></edge>
<edge id="bd" from="b" to="d"><lane id="bd_0" speed="8.33" shape="100,-2 100,-90"/></edge>
<edge id="be" from="b" to="e"><lane id="be_0" speed="8.33" allow="bicycle" shape="100,2 100,90"/></edge>
<connection from="ab" to="bc" fromLane="1" toLane="0"/></net>"""


def test_networks_of_sumo_have_lanes_for_cars_and_the_turns_of_connections(tmp_path):
    file = tmp_path / "town.net.xml"
    file.write_text(SUMO)
    network, _ = import_network(file)
    assert network.edges == 3
    assert network.srid == 32633
    assert sorted(network.vmax.round().tolist()) == [30.0, 30.0, 50.0]
    assert network.names[network.label[np.argmax(network.vmax)]] == "Ring"
    assert network.x.min() == pytest.approx(390_000)
    turns = zip(network.way[network.banned_from].tolist(), network.way[network.banned_to].tolist(), strict=True)
    assert list(turns) == [(1, 3)]


def test_geojson_says_what_openstreetmap_says(tmp_path):
    line = {"type": "LineString", "coordinates": [[0, 0], [300, 0]]}
    parts = {"type": "MultiLineString", "coordinates": [[[300, 0], [300, 200]], [[300, 200], [0, 200]]]}
    features = [
        {"type": "Feature", "geometry": line, "properties": {"maxspeed": "20 mph", "oneway": "yes", "name": "One"}},
        {"type": "Feature", "geometry": parts, "properties": {"highway": "trunk", "bridge": "yes", "ref": "B 2"}},
    ]
    file = tmp_path / "town.geojson"
    crs = {"properties": {"name": "metres"}}
    file.write_text(json.dumps({"type": "FeatureCollection", "crs": crs, "features": features}))
    network, _ = import_network(file)
    assert sorted(set(network.vmax.round().tolist())) == [32.0, 100.0]
    assert (network.reverse == -1).sum() == 1
    assert set(network.refs.tolist()) == {"", "B 2"}
    assert network.structure.max() == 1


@pytest.fixture
def network() -> StreetNetwork:
    streets = [
        Street(50, [(0, 0, 500, 0)], Tags(oneway=1, kind="motorway", ref="A 1;A 2", way=7, layer=1, structure=1)),
        Street(30, [(500, 0, 500, 400)], Tags(name="Süd\t\nstraße", ref="B\n1", way=8)),
        Street(30, [(0, 0, 500, 400)], Tags(vmax_back=60.0, way=9)),
    ]
    draft = Draft(streets, 32633, turns=[(8, (500.0, 0.0), 8, False)])
    return finish(draft, "town")


def test_roads_come_back_from_their_files(tmp_path, network):
    save_roads(network, tmp_path)
    back = open_roads(tmp_path)
    for name, array in network.arrays().items():
        if name not in ("label", "names", "refs"):
            np.testing.assert_array_equal(getattr(back, name), array, err_msg=name)
    for texts in ("names", "refs"):
        assert getattr(back, texts)[back.label].tolist() == getattr(network, texts)[network.label].tolist()
    assert back.srid == 32633


def test_others_can_read_the_files(tmp_path, network):
    import geopandas

    save_roads(network, tmp_path)
    frame = geopandas.read_parquet(tmp_path / "edges.parquet")
    assert frame.crs.to_epsg() == 32633
    np.testing.assert_allclose(frame.geometry.length, frame["length_m"])
    assert frame["class"].tolist().count("motorway") == 1
    assert len(pq.read_table(tmp_path / "nodes.parquet")) == network.nodes
    assert shapely.get_type_id(frame.geometry.iloc[0]) == 1


def test_damaged_roads_are_refused(tmp_path, network):
    save_roads(network, tmp_path)
    (tmp_path / "edges.parquet").write_bytes(b"PAR1")
    with pytest.raises(BadInput, match="damaged roads"):
        open_roads(tmp_path)
    (tmp_path / "roads.json").write_text('{"version": 9}')
    with pytest.raises(BadInput, match="another version"):
        open_roads(tmp_path)
    with pytest.raises(BadArgument, match="not a folder of roads"):
        read_network(tmp_path.parent)


def test_the_strong_part_can_be_left_and_entered(network):
    assert find_strong(network).all()
    one_way = build([Street(50, [(0, 0, 9, 0)]), Street(50, [(9, 0, 20, 0)], Tags(oneway=1))])
    kept = find_strong(one_way)
    assert kept.tolist() == [True, True, False]
    part = restrict(one_way, kept)
    assert (part.nodes, part.edges, part.reverse.tolist()) == (2, 2, [1, 0])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.net.xml", "<net><edge", "no element|unclosed|mismatch|a.net.xml"),
        ("a.net.xml", "<fcd-export/>", "starts with <fcd-export>"),
        ("a.net.xml", '<net><location projParameter="+proj=merc"/></net>', "unsupported projection"),
        ("a.net.xml", '<net><edge from="x" to="y"><lane speed="fast" shape="0,0 1,1"/></edge></net>', "could not"),
        ("a.net.xml", "<net/>", "no open street"),
        ("a.geojson", '{"features": [{"geometry": {"type": "LineString", "coordinates": [[392000,5818000],[1,1]]}}]}',
         "feature 1: coordinates that are not degrees, and no reference system that is called metres"),
        ("a.osm", '<osm version="0.6"/>', "no open street"),
        ("a.geojson", '{"features": [{"geometry": {"type": "LineString", "coordinates": [[0,0],[1,1]]}, '
         '"properties": {"maxspeed": "fast"}}]}', "feature 1: 'fast' is not a speed limit"),
    ],
)  # fmt: skip
def test_a_broken_file_is_named(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(BadInput, match=message):
        import_network(tmp_path / name)
