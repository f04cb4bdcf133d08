"""Network files: what is written is read back the same, and mistakes are named with their place."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream._cli.common.user_functions import load_functions
from slipstream._errors import BadInput
from slipstream._network import algebra, drawing, yaml_files
from slipstream._network.algebra import (
    Arc,
    ConnectionPoint,
    Network,
    NetworkOutput,
    NetworkSource,
    NetworkTable,
    Node,
    Order,
)
from slipstream._network.quality.qos import Graph, Quality

NETWORKS = Path(__file__).parents[2] / "examples" / "networks"
load_functions(NETWORKS / "braking.py")  # the operator of an example

names = st.from_regex(r"[a-z][a-z_0-9]{0,8}", fullmatch=True)
texts = st.text(st.characters(codec="utf-8", exclude_categories=("C",)), max_size=20)
numbers = st.one_of(st.integers(1, 100), st.floats(0.5, 100))
orders = st.builds(Order, st.one_of(names, st.just(algebra.TUP)), st.integers(0, 9), st.lists(names, max_size=2))
columns = st.dictionaries(names, texts, min_size=1, max_size=3)
maybe = st.one_of(st.none(), numbers)
boxes = st.one_of(
    st.builds(algebra.Filter, st.lists(texts, min_size=1, max_size=3)),
    st.builds(algebra.Map, columns),
    st.builds(algebra.Union),
    st.builds(algebra.BSort, orders),
    st.builds(algebra.Aggregate, columns, orders, numbers, numbers, maybe),
    st.builds(algebra.Join, texts, maybe, st.one_of(st.none(), orders), st.one_of(st.none(), orders)),
    st.builds(algebra.Resample, columns, numbers, orders, orders, maybe),
)
arcs = st.builds(Arc, names, st.integers(0, 3))
graphs = st.sets(st.integers(0, 50), min_size=1, max_size=4).flatmap(
    lambda xs: st.lists(st.floats(0, 1), min_size=len(xs), max_size=len(xs)).map(
        lambda ys: Graph(tuple(zip(sorted(xs), ys, strict=True)))
    )
)
qualities = st.one_of(
    st.builds(Quality, graphs, graphs), st.builds(Quality, graphs, graphs, graphs, names), st.just(Quality())
)


def unique(strategy: st.SearchStrategy, most: int = 4) -> st.SearchStrategy:
    return st.lists(strategy, max_size=most, unique_by=lambda part: part.name).map(tuple)


networks = st.builds(
    Network,
    texts,
    unique(st.builds(NetworkSource, names, st.dictionaries(names, st.sampled_from(list(algebra.TYPES)), max_size=3))),
    unique(st.builds(Node, names, boxes, st.lists(arcs, min_size=1, max_size=3).map(tuple), texts, texts)),
    unique(st.builds(NetworkOutput, names, arcs, qualities, st.booleans(), maybe)),
    unique(st.builds(NetworkTable, names, st.just({"a": "integer"}))),
    unique(st.builds(ConnectionPoint, names, arcs, maybe, st.one_of(st.none(), st.integers(1, 9)), names)),
    texts,
)


@given(networks)
@settings(max_examples=50)
def test_any_network_survives_the_round_trip_and_a_broken_file_is_refused(network: Network) -> None:
    text = yaml_files.dumps(network)
    assert yaml_files.loads(text) == network
    for place in range(0, len(text), max(len(text) // 4, 1)):
        with contextlib.suppress(BadInput):
            yaml_files.loads(text[:place] + text[place + 1 :])


@pytest.mark.parametrize("file", sorted(NETWORKS.glob("*.yaml")), ids=lambda p: p.stem)
def test_the_examples_survive_it_too(file: Path) -> None:
    network = yaml_files.load(file)
    assert yaml_files.loads(yaml_files.dumps(network)) == network


GOOD = """
network: n
version: 1
sources: {s: {a: integer}}
boxes:
  f: {filter: [a > 1], from: s}
  g: {aggregate: {n: count(*)}, order: {on: a}, size: 1, from: f}
outputs: {o: {from: g}}
"""


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("version: 1", "version: 2", "network format 2"),
        ("filter:", "filtre:", "boxes.f: no box type, or more than one"),
        ("from: s}", "form: s}", "boxes.f: no field 'form'"),
        ("size: 1, ", "", "boxes.g: 'size' is missing"),
        ("size: 1", "size: wide", "boxes.g, size: 'wide' is not a number"),
        ("{on: a}", "{on: a, slack: 1.5}", "slack: 1.5 is not an integer"),
        ("{from: g}", "{from: g, delay: [[1, 3]]}", "not a graph of utility"),
        ("{from: g}", "{from: g, delay: steep}", "outputs.o.delay: not a QoS graph"),
        ("{from: g}", "{from: g, view: maybe}", "outputs.o.view: 'maybe' is neither true nor false"),
        ("{from: g}", "{from: g.x}", "'g.x' is not an arc"),
        ("{a: integer}", "{a: 1}", "sources.s.a: 1 is not text"),
        ("[a > 1]", "[a > 1", "line 6"),
        ("network: n", "- n", "line"),
    ],
)
def test_a_mistake_is_named_with_its_place(old: str, new: str, complaint: str) -> None:
    assert old in GOOD
    with pytest.raises(BadInput, match=r"^here.yaml") as error:
        yaml_files.loads(GOOD.replace(old, new, 1), "here.yaml")
    assert complaint in str(error.value)


@pytest.mark.parametrize("file", sorted(NETWORKS.glob("*.yaml")), ids=lambda p: p.stem)
def test_a_drawing_shows_every_box_group_and_point(file: Path) -> None:
    network = yaml_files.load(file)
    picture = drawing.draw(network)
    for node in network.nodes:
        assert f'<g id="{node.name}">' in picture
        assert node.group in picture
    for end in network.ends:
        assert end.name in picture
