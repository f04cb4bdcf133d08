"""A network of all nine boxes on Structured Streaming: cuts and restarts change nothing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from oracles.network import interpret
from oracles.network_engines import Feed, by_output, merged, run_available, write_feed
from slipstream._network import TUP, Builder, Network, Order
from slipstream._network.algebra import Schema
from slipstream._network.sql import translation
from slipstream._network.sql.sql_values import Untranslatable
from slipstream._network.sql.vector import Expression, translate

SCHEMA = {"c": "integer", "a": "integer", "g": "text", "v": "integer"}


def everything() -> Network:
    """Each random case is a group of its own, so that one query runs many of them."""
    net = Builder("everything")
    left, right = net.source("one", **SCHEMA), net.source("two", **SCHEMA)
    names = net.table("names", g="text", rank="integer")
    routed = left.filter("v > 2", "v < -2")
    whole = {"c": "c", "a": "a", "g": "g", "v": "v * 10"}
    together = routed.map(whole).union(routed[1].map(whole | {"v": "v"}), routed[2])
    together.to("together")
    by_case, by_group = ("c",), ("c", "g")
    together.bsort(Order("a", 2, by_case)).to("in_order")
    windows = together.aggregate({"n": "count(*)", "total": "sum(v)"}, Order("a", 1, by_group), size=4, advance=2)
    windows.to("windows")
    windows.aggregate({"n": "sum(n)", "last_a": "last(a)"}, Order(TUP, 0, by_case), size=3, advance=1).to("of_windows")
    pairs = together.join(
        right,
        "left.c = right.c and left.v > right.v",
        size=2,
        left=Order("a", 1, by_case),
        right=Order("a", 2, by_case),
    )
    pairs.map({"c": "c", "a": "a", "b": "right_a", "v": "v", "w": "right_v"}).to("pairs")
    right.join(names, "left.g = right.g").map({"c": "c", "rank": "rank", "a": "a"}).to("named")
    names.join(right, "left.g = right.g and left.rank > 1").map({"c": "c", "rank": "rank", "a": "a"}).to("ranked")
    sampled = right.filter("v >= 0")
    left.filter("c = 0").map({"a": "a"}).resample(
        sampled, {"mean": "avg(v)"}, size=3, left=Order("a", 1), right=Order("a", 1, by_group), lag=4
    ).to("sampled")
    left.filter("c < 20").map({"a": "a"}).resample(
        sampled, {"n": "count(*)"}, size=3, left=Order("a", 1), right=Order("a", 1, by_group)
    ).to("resampled")
    right.join(names, "left.g = right.g and left.v > right.rank", outer=True).map(
        {"c": "c", "a": "a", "v": "v", "rank": "rank"}
    ).to("perhaps_named")
    clocked = together.aggregate({"n": "count(*)", "total": "sum(v)"}, Order("a", 1, by_group), size=3, clock=left)
    clocked.to("clocked")
    keyed = {"c": "c", "g": "g", "last_a": "a", "n": "n"}
    together.latest(clocked.map(keyed), "c", "g").to("informed")
    together.latest(together, "c", "g", before=True).map({"c": "c", "v": "v", "was": "right_v"}).to("changes")
    windows.running({"all_n": "sum(n)", "mean": "avg(total)"}, "c").to("totals")
    return net.build()


NAMES = [{"g": "x", "rank": 1}, {"g": "y", "rank": 2}, {"g": "x", "rank": 3}]


def random_feed(seed: int, cases: int = 8, size: int = 30) -> Feed:
    random = Random(seed)
    feed: Feed = []
    for case in range(cases):
        drift = random.choice([0, 1, 2])
        for i in range(size):
            values = {"c": case, "a": random.randrange(12) + drift * i, "g": random.choice("xyz")}
            values["v"] = random.choice([None, *range(-5, 6)])
            feed.append((random.choice(["one", "two"]), 0, values))
    random.shuffle(feed)
    return [(source, 1_000_000 + i, values) for i, (source, _, values) in enumerate(feed)]


def bag(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(sorted(row.items())) for row in rows)


def only_columns(text: str, schema: Schema, _: Any = None) -> Expression:
    """A translator that leaves all to Spark that it can."""
    if text not in schema:
        raise Untranslatable(text)
    return translate(text, schema)


@pytest.mark.parametrize(("parallel", "translator"), [(1, translate), (3, translate), (2, only_columns)])
def test_cuts_and_restarts_change_nothing(
    spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parallel: int, translator: Any
) -> None:
    """Two copies of the network in one query: one gets its feed at once, the other cut, with a restart between."""
    monkeypatch.setattr(translation, "translate", translator)
    network, feed = everything(), random_feed(11)
    copies = merged({"once": network, "cut": network})
    tables = {f"{copy}_names": NAMES for copy in ("once", "cut")}
    for copy, cuts in (("once", []), ("cut", [50, len(feed) - 30])):
        mine = [(f"{copy}_{source}", ts, values) for source, ts, values in feed]
        write_feed(merged({copy: network}), mine, cuts, tmp_path / "all")
    delivered = []
    for part in ((0,), (1, 2)):
        for train in (train for number in part for train in tmp_path.glob(f"all/*/train-{number:08d}.parquet")):
            (tmp_path / "in" / train.parent.name).mkdir(parents=True, exist_ok=True)
            train.rename(tmp_path / "in" / train.parent.name / train.name)
        delivered += run_available(
            spark, copies, tmp_path / "in", tmp_path / "checkpoint", tables=tables, parallel=parallel
        )
    got = by_output(copies, delivered)
    for name, events in interpret(network, feed, {"names": NAMES}).items():
        assert events, f"{name}: the test says nothing"
        assert bag(got[f"once_{name}"]) == bag([{"_ts": e.ts, **e.values} for e in events]), name
        assert got[f"cut_{name}"] == got[f"once_{name}"], name
