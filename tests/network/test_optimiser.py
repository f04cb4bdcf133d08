"""The optimiser changes what a network costs and nothing that comes out of it."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.network import interpret
from slipstream._network import Builder, Network, Order, ScalarFunction, register
from slipstream._network.quality.optimiser import Optimised, optimise
from slipstream._network.quality.statistics import Figures, Statistics
from slipstream._network.schemas import check

SCHEMA = {"a": "integer", "g": "integer", "v": "integer", "w": "integer"}


def filters() -> Network:
    net = Builder("filters")
    s = net.source("s", **SCHEMA)
    s.filter("v > 0", name="p").filter("w > 0", name="q").filter("g <> 2", name="r").to("out")
    return net.build()


def maps() -> Network:
    net = Builder("maps")
    s = net.source("s", **SCHEMA).map({"x": "v * 2", "g": "g", "a": "a"}, name="m")
    s.map({"y": "x + 1", "g": "g", "a": "a"}, name="n").filter("g = 1", name="f").to("out")
    return net.build()


def groups() -> Network:
    net = Builder("groups")
    s = net.source("s", **SCHEMA)
    s.bsort(Order("a", 2, ("g",)), name="sort").filter("g > 0", name="f").aggregate(
        {"n": "count(*)"}, Order("a", 1, ("g",)), size=3, name="agg"
    ).filter("g <> 2", name="h").to("out")
    return net.build()


def narrow() -> Network:
    net = Builder("narrow")
    one, two = net.source("s", **SCHEMA), net.source("t", **SCHEMA)
    pairs = one.join(two, "left.g = right.g", size=2, left=Order("a", 1), right=Order("a", 1), name="pairs")
    pairs.map({"g": "g", "v": "right_v"}, name="m").to("out")
    one.bsort(Order("a", 1), name="sort").map({"v": "v"}, name="n").to("sorted")
    return net.build()


def seen() -> Network:
    """Arcs that people see: nothing may move."""
    net = Builder("seen")
    s = net.source("s", **SCHEMA)
    p = s.filter("v > 0", name="p")
    p.keep("history", tuples=10)
    p.filter("w > 0", name="q").to("out")
    r = s.filter("v > 1", name="r")
    r.to("middle")
    r.filter("w > 1", name="t").to("end")
    u = s.filter("v > 3", name="u")
    u[1].to("rest")
    u.filter("w > 2", name="x").to("both")
    return net.build()


NETWORKS = {"filters": filters, "maps": maps, "groups": groups, "narrow": narrow, "seen": seen}
STATISTICS = Statistics({"p": Figures(1e-3, (0.9,)), "q": Figures(1e-6, (0.1,)), "r": Figures(1e-6, (0.5,))})


@cache
def optimised(name: str, spark: Any) -> tuple[Network, Optimised]:
    network = NETWORKS[name]()
    return network, optimise(check(network, spark), STATISTICS, lambda n: check(n, spark))


def bag(events: list[Any]) -> Counter[tuple[Any, ...]]:
    return Counter((event.ts, tuple(sorted(event.values.items()))) for event in events)


small = st.integers(-2, 4)
tuples = st.tuples(
    st.sampled_from(["s", "t"]),
    st.fixed_dictionaries({"a": st.integers(0, 20), "g": st.integers(0, 3), "v": small, "w": small}),
)


@pytest.mark.parametrize("name", NETWORKS)
def test_results_are_unchanged(spark, name: str) -> None:
    network, better = optimised(name, spark)
    sources = {source.name for source in network.sources}

    @given(st.lists(tuples.filter(lambda t: t[0] in sources), max_size=40))
    @settings(max_examples=30)
    def agree(rows: list[tuple[str, dict[str, int]]]) -> None:
        feed = [(source, i, values) for i, (source, values) in enumerate(rows)]
        before, after = interpret(network, feed), interpret(better.network, feed)
        for output in network.outputs:
            assert bag(before[output.name]) == bag(after[output.name])

    agree()


def test_the_cheap_and_choosy_filter_goes_first_and_all_become_one(spark) -> None:
    _, better = optimised("filters", spark)
    (node,) = better.network.nodes
    assert node.box.predicates == ("((w > 0) and (g <> 2)) and (v > 0)",)


def test_a_dear_user_function_goes_last_and_stays_a_box_of_its_own(spark) -> None:
    register(ScalarFunction("dear", lambda v: v > 0, "boolean"))
    net = Builder("n")
    net.source("s", **SCHEMA).filter("dear(v)", name="p").filter("w > 0", name="q").to("out")
    better = optimise(check(net.build(), spark), STATISTICS, lambda n: check(n, spark))
    assert better.steps == ("q before p",)
    assert [node.inputs[0].origin for node in (better.network.node("q"), better.network.node("p"))] == ["s", "q"]


def test_filters_on_groups_go_before_order_sensitive_boxes(spark) -> None:
    _, better = optimised("groups", spark)
    kinds = {node.name: [arc.origin for arc in node.inputs] for node in better.network.nodes}
    assert kinds["sort"] != ["s"]
    assert better.network.outputs[0].arc.origin == "agg"


def test_joins_and_sorts_carry_what_is_looked_at(spark) -> None:
    _, better = optimised("narrow", spark)
    assert any("pairs carries only a, g, v" in step for step in better.steps)
    assert any("sort carries only a, v" in step for step in better.steps)


def test_what_people_see_does_not_move(spark) -> None:
    network, better = optimised("seen", spark)
    assert better.network == network
    assert better.steps == ()
