"""Places on a road as metres from where it begins, in each direction."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from roads.test_viterbi import street
from slipstream._errors import BadArgument
from slipstream._roads.corridors import find_corridor, make_table
from slipstream._roads.importing.graph_building import build
from slipstream._roads.street_network import Street, StreetNetwork, Tags


def ring(radius: float, ref: str, *, clockwise: bool) -> Street:
    turn = [2 * math.pi * k / 36 * (-1 if clockwise else 1) for k in range(37)]
    places = [(round(radius * math.cos(a), 3), round(radius * math.sin(a), 3)) for a in turn[:-1]]
    places.append(places[0])
    return Street(100, [(*a, *b) for a, b in pairwise(places)], Tags(oneway=1, ref=ref))


def motorway() -> StreetNetwork:
    """A ring with two carriageways, spokes that cross both, and a ramp that has the ref of the ring."""
    ramp = Street(60, [(1000, 0, 1200, 100)], Tags(oneway=1, ref="A 10"))
    spokes = [street((0, 0), (1500 * math.cos(a), 1500 * math.sin(a))) for a in (0.3, 1.9, 4.1)]
    rings = [ring(1000, "A 10;E 55", clockwise=True), ring(1020, "A 10", clockwise=False)]
    return build([*rings, ramp, *spokes])


def test_a_ring_has_two_directions_whose_edges_follow_each_other():
    network = motorway()
    found = find_corridor(network, ref="A 10")
    for direction in (0, 1):
        edges = found.edge[found.direction == direction]
        start = found.start[found.direction == direction]
        assert (network.target[edges[:-1]] == network.source[edges[1:]]).all()
        assert start[0] == 0
        np.testing.assert_allclose(np.diff(start), network.length[edges[:-1]])
        assert start[-1] + network.length[edges[-1]] == pytest.approx(2 * math.pi * 1010, rel=0.06)
    assert len(set(found.edge.tolist())) == len(found.edge)


def test_a_road_without_a_median_is_the_same_line_driven_the_other_way():
    network = build([Street(50, [(0, 0, 500, 0)], Tags(name="High Street")), street((200, 0), (200, 90))])
    found = find_corridor(network, name="High Street")
    ahead, back = (found.edge[found.direction == d] for d in (0, 1))
    assert network.reverse[ahead].tolist() == back[::-1].tolist()
    assert found.start[found.direction == 1].tolist() == [0.0, 300.0]


def test_edges_are_taken_in_the_order_in_which_they_are_given():
    network = build([street((0, 0), (300, 0)), street((300, 0), (300, 400))])
    first = int(np.flatnonzero(network.x[network.source] == 0)[0])
    second = int(np.flatnonzero(network.y[network.target] == 400)[0])
    found = make_table(find_corridor(network, edges=[[first, second]]), 7, 100)
    assert found["start"].to_pylist() == [0.0, 300.0]
    assert set(found["route"].to_pylist()) == {7}
    with pytest.raises(BadArgument, match="does not begin where"):
        find_corridor(network, edges=[[second, first]])


def test_mistakes_are_named():
    network = motorway()
    with pytest.raises(BadArgument, match="no road 'A 100'") as error:
        find_corridor(network, ref="A 100")
    assert "A 10" in error.value.hint
    with pytest.raises(BadArgument, match="no road is named"):
        find_corridor(network, ref="A 10", name="A 10")
    with pytest.raises(BadArgument, match="no edge 99999"):
        find_corridor(network, edges=[[99_999]])
    with pytest.raises(BadArgument, match="segment 0"):
        make_table(find_corridor(network, ref="A 10"), 0, 0)
