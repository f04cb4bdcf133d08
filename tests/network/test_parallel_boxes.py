"""Boxes with a key in any number of partitions: what the interpreter gives, in the order that one partition gives."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from network.jumps import Jump
from network.stages_in_memory import run
from network.test_cuboid_boxes import CAR, LOOKED_UP, PlainQuery, named, rounded
from network.test_cuboid_boxes import random_feed as cars_feed
from network.test_streaming import SCHEMA, bag, random_feed
from oracles.network import interpret
from oracles.network_engines import Feed
from slipstream._errors import BadArgument
from slipstream._network import TUP, Builder, CuboidLookup, CuboidQuery, Keep, Network, Order
from slipstream._network.planning.plan import plan
from slipstream._network.schemas import check
from slipstream._network.tasks.superbox import Superbox


def clocked() -> Network:
    """A clock from a source, from a box with another key, and from one without a key."""
    net = Builder("clocked")
    one, two = net.source("one", **SCHEMA), net.source("two", **SCHEMA)
    windows = one.aggregate({"n": "count(*)", "v": "sum(v)"}, Order("a", 1, ("c", "g")), size=4, advance=2, clock=two)
    windows.to("windows")
    # tuples in order of arrival: a tuple too many, or in another place, changes what follows
    windows.aggregate({"n": "sum(n)", "last_a": "last(a)"}, Order(TUP, 0, ("c",)), size=3).to("of_windows")
    windows.running({"so_far": "sum(n)"}).to("in_one_order")
    slow = two.running({"m": "max(a)"}, "g").map({"a": "m"})
    one.aggregate({"n": "count(*)"}, Order("a", 0, ("g",)), size=5, clock=slow).to("by_a_box")
    whole = two.bsort(Order("a", 2))
    one.aggregate({"n": "count(*)"}, Order("a", 0, ("g",)), size=3, clock=whole.map({"a": "a"})).to("by_a_sort")
    # in a stage behind another, with a clock from a source
    counted = one.running({"k": "count(*)"}, "c")
    counted.aggregate({"n": "count(*)"}, Order("a", 0, ("g",)), size=3, clock=two).to("in_a_later_stage")
    return net.build()


def resampled() -> Network:
    net = Builder("resampled")
    one, two = net.source("one", **SCHEMA), net.source("two", **SCHEMA)
    beats = one.filter("c < 3").map({"a": "a"})
    orders = {"left": Order("a", 1), "right": Order("a", 1, ("c", "g"))}
    near = beats.resample(two, {"mean": "avg(v)", "n": "count(*)"}, size=3, **orders)
    near.to("near")
    near.running({"so_far": "count(*)"}).to("in_one_order")
    lagged = beats.resample(two, {"n": "count(*)", "last_v": "last(v)"}, size=2, lag=3, **orders)
    lagged.to("with_a_lag")
    lagged.running({"so_far": "count(*)"}).to("lagged_in_one_order")
    pace = two.running({"m": "max(a)"}, "g").map({"a": "m", "g": "g", "v": "v"})
    by_a_box = {"left": Order("a", 1), "right": Order("a", 1, ("g",))}
    beats.resample(pace, {"n": "count(*)"}, size=2, lag=1, **by_a_box).to("of_a_box_with_a_lag")
    return net.build()


def jumping() -> Network:
    """A user's box with a key."""
    net = Builder("jumping")
    one, two = net.source("one", **SCHEMA), net.source("two", **SCHEMA)
    jumps = one.union(two).through(Jump(), name="jumps")
    jumps.to("far")
    jumps["near"].running({"so_far": "count(*)"}).to("near")
    return net.build()


#: what depends on the order of the tuples that one arrival releases, which is by a hash
BY_ORDER = {"in_one_order", "lagged_in_one_order", "of_windows"}
CASES = {"clocked": clocked, "resampled": resampled, "jumping": jumping}
BY_KEY = {
    "clocked": {"aggregate_1": ("c", "g"), "aggregate_3": ("g",), "aggregate_4": ("g",)},
    "resampled": {"resample_1": ("c", "g"), "resample_2": ("c", "g")},
    "jumping": {"jumps": ("g",)},
}


@pytest.mark.parametrize("case", CASES)
def test_boxes_with_a_key_are_spread_by_it(case: str) -> None:
    stages = Superbox(plan(check(CASES[case](), None)), parallel=4).stages
    assert {box: stages.keys[box] for box in BY_KEY[case]} == BY_KEY[case]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("parallel", [1, 2, 4])
@settings(max_examples=8)
@given(seed=st.integers(0, 1000), cuts=st.lists(st.integers(1, 119), max_size=4, unique=True), restart=st.booleans())
def test_any_parallelism_gives_what_the_interpreter_gives(
    case: str, parallel: int, seed: int, cuts: list[int], restart: bool
) -> None:
    network, feed, cuts = CASES[case](), random_feed(seed, cases=4), sorted(cuts)
    superbox = Superbox(plan(check(network, None)), parallel=parallel)
    got = run(superbox, feed, cuts, set(cuts) if restart else set(), crashes=cuts[:1])
    for name, events in interpret(network, feed).items():
        if name not in BY_ORDER:
            assert bag(got[name]) == bag([{"_ts": e.ts, **e.values} for e in events]), name
    assert got == run(replace(superbox, parallel=1), feed, [], set())


def asking(*, by_text: bool, ranges: tuple[int, ...] = ()) -> Network:
    """Questions from a source and from the kept tuples themselves."""
    net, type_ = Builder("asking"), "text" if by_text else "integer"
    reports = net.source("reports", vid=type_, speed="integer", lane="integer")
    requests = net.source("requests", who=type_)
    keep = Keep(CAR.replace("vid INT", "vid STRING") if by_text else CAR, ranges)
    cars = reports.through(keep, name="cars")
    cars["rejects"].to("rejects")
    cars.through(CuboidQuery(PlainQuery.__doc__ or ""), name="fast").to("fast")
    cars.through(CuboidLookup(LOOKED_UP, "id"), requests.map({"id": "who"}), name="asked").to("asked")
    cars.through(CuboidLookup(LOOKED_UP, "who", outer=True), requests, name="outer").to("outer")
    cars.through(CuboidLookup(LOOKED_UP, "vid"), cars.filter("speed > 0"), name="themselves").to("themselves")
    return net.build()


@pytest.mark.parametrize("parallel", [1, 2, 4])
@pytest.mark.parametrize(("by_text", "ranges"), [(False, ()), (True, ()), (False, (4, 8, 11))])
@settings(max_examples=10)
@given(seed=st.integers(0, 1000), cuts=st.lists(st.integers(1, 119), max_size=4, unique=True), restart=st.booleans())
def test_a_cuboid_is_asked_by_its_key_in_any_partition(
    by_text: bool, ranges: tuple[int, ...], parallel: int, seed: int, cuts: list[int], restart: bool
) -> None:
    network, cuts = asking(by_text=by_text, ranges=ranges), sorted(cuts)
    feed: Feed = named(cars_feed(seed)) if by_text else cars_feed(seed)
    superbox = Superbox(plan(check(network, None)), parallel=parallel)
    if parallel > 1:
        assert superbox.stages.count == 1
        assert superbox.stages.keys["cars"] == superbox.stages.keys["outer"] == ("vid",)
    got = run(superbox, feed, cuts, set(cuts) if restart else set(), crashes=cuts[:1])
    for name, events in interpret(network, feed).items():
        wanted: list[dict[str, Any]] = [{"_ts": e.ts, **e.values} for e in events]
        assert bag(rounded(got[name])) == bag(rounded(wanted)), name
    assert got == run(replace(superbox, parallel=1), feed, [], set())


def asked_by_boxes() -> Network:
    """Questions from boxes with state: by another key, without a key, by the cuboid's own, and of two cuboids."""
    net = Builder("asked_by_boxes")
    reports = net.source("reports", vid="integer", speed="integer", lane="integer")
    requests = net.source("requests", who="integer")
    cars = reports.through(Keep(CAR), name="cars")
    cars.through(CuboidQuery(PlainQuery.__doc__ or ""), name="fast").to("fast")
    by_lane = reports.filter("lane >= 0 AND vid >= 0").running({"n": "count(*)"}, "lane")
    cars.through(CuboidLookup(LOOKED_UP, "vid", outer=True), by_lane, name="by_lane").to("by_lane")
    windows = requests.aggregate({"who": "max(who)"}, Order(TUP), size=2).filter("who >= 0")
    found = cars.through(CuboidLookup(LOOKED_UP, "who"), windows.map({"who": "who"}), name="windows")
    found.running({"so_far": "count(*)"}, "who").to("windows")
    by_who = requests.filter("who >= 0").running({"n": "count(*)"}, "who")
    cars.through(CuboidLookup(LOOKED_UP, "who"), by_who, name="by_who").to("by_who")
    return net.build()


@pytest.mark.parametrize("parallel", [1, 2, 4])
@settings(max_examples=10)
@given(seed=st.integers(0, 1000), cuts=st.lists(st.integers(1, 119), max_size=4, unique=True), restart=st.booleans())
def test_a_cuboid_is_asked_by_boxes_with_state(parallel: int, seed: int, cuts: list[int], restart: bool) -> None:
    network, cuts, feed = asked_by_boxes(), sorted(cuts), cars_feed(seed)
    superbox = Superbox(plan(check(network, None)), parallel=parallel)
    if parallel > 1:
        assert superbox.stages.of["cars"] == 2
        assert superbox.stages.keys["cars"] == superbox.stages.keys["by_lane"] == ("vid",)
    got = run(superbox, feed, cuts, set(cuts) if restart else set(), crashes=cuts[:1])
    for name, events in interpret(network, feed).items():
        wanted: list[dict[str, Any]] = [{"_ts": e.ts, **e.values} for e in events]
        assert bag(rounded(got[name])) == bag(rounded(wanted)), name
    assert got == run(replace(superbox, parallel=1), feed, [], set())


def test_two_cuboids_that_are_asked_by_what_is_behind_the_other_are_refused() -> None:
    net = Builder("crossed")
    reports = net.source("reports", vid="integer", speed="integer", lane="integer")
    one = reports.through(Keep(CAR.replace("car", "one", 1)), name="one")
    two = reports.through(Keep(CAR.replace("car", "two", 1)), name="two")
    behind_one, behind_two = (kept.running({"n": "count(*)"}, "lane") for kept in (one, two))
    one.through(CuboidLookup(LOOKED_UP, "vid"), behind_two, name="first").to("first")
    two.through(CuboidLookup(LOOKED_UP, "vid"), behind_one, name="second").to("second")
    made = plan(check(net.build(), None))
    assert Superbox(made, parallel=1).stages.count == 1
    with pytest.raises(BadArgument, match="uses the state of") as refused:
        Superbox(made, parallel=2)
    assert "--parallel 1" in (refused.value.hint or "")


def test_a_cuboid_that_is_asked_from_other_partitions_is_in_one() -> None:
    """By a column that is not its key, and by tuples of a box behind it."""
    net = Builder("asking")
    reports = net.source("reports", vid="integer", speed="integer", lane="integer")
    requests = net.source("requests", who="integer")
    one = reports.through(Keep(CAR.replace("car", "one", 1)), name="one")
    one.through(CuboidLookup(LOOKED_UP, "other"), one.map({"other": "lane"}), name="by_lane").to("by_lane")
    two = reports.through(Keep(CAR.replace("car", "two", 1)), name="two")
    in_order = two.bsort(Order("speed", 1))
    two.through(CuboidLookup(LOOKED_UP, "vid"), in_order, name="sorted").to("sorted")
    requests.to("requests")
    superbox = Superbox(plan(check(net.build(), None)), parallel=3)
    assert superbox.stages.keys["one"] == superbox.stages.keys["two"] == ()
    random = Random(1)
    feed: Feed = [
        ("reports", i, {"vid": random.randrange(4), "speed": i % 9, "lane": random.randrange(4)})
        if i % 2
        else ("requests", i, {"who": random.randrange(5)})
        for i in range(60)
    ]
    assert run(superbox, feed, [20], {20}) == run(replace(superbox, parallel=1), feed, [], set())
