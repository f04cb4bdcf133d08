"""The kernels against the oracle on random streams with disorder, cut into batches anywhere."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from oracles.network import interpret
from oracles.network_engines import Feed, in_memory
from slipstream._network import TUP, Builder, Network, Order, WindowFunction, register
from slipstream._network.boxes.windows.window_functions import expand

register(WindowFunction("trail", str, lambda s, x: f"{s},{x}", lambda s: s, "text"))

SCHEMA = {"a": "integer", "g": "text", "v": "integer", "w": "float"}
FUNCTIONS = {
    "n": "count(*)", "present": "count(v)", "kinds": "count(distinct v)", "total": "sum(v)", "mean": "avg(v)",
    "least": "min(v)", "most": "max(w)", "start_v": "first(v)", "end_v": "last(v)", "spread": "stddev(w)",
    "least_g": "min(g)", "all_v": "trail(v)", "sum_w": "sum(w)",
}  # fmt: skip


def tuples(source: str = "s") -> st.SearchStrategy[tuple[str, int, dict[str, Any]]]:
    values = st.fixed_dictionaries(
        {
            "a": st.integers(0, 30),
            "g": st.sampled_from("xyz"),
            "v": st.one_of(st.none(), st.integers(-5, 5)),
            "w": st.integers(-8, 8).map(lambda k: k / 4),
        }
    )
    return st.tuples(st.just(source), st.integers(0, 3_000_000), values)


@st.composite
def feeds(draw: st.DrawFn, sources: tuple[str, ...] = ("s",)) -> tuple[Feed, list[int]]:
    """A feed in arrival order with values that drift upward, and places to cut it."""
    feed = draw(st.lists(st.one_of(*(tuples(source) for source in sources)), max_size=40))
    drift = draw(st.sampled_from([0, 1]))
    clock = 0
    arrived: Feed = []
    for i, (source, gap, values) in enumerate(feed):
        clock += gap
        arrived.append((source, clock, values | {"a": values["a"] // 3 + drift * i}))
    cuts = draw(st.lists(st.integers(0, len(feed)), max_size=5).map(sorted))
    return arrived, cuts


orders = st.builds(Order, st.just("a"), st.integers(0, 4), st.sampled_from([(), ("g",)]))


def expected(network: Network, feed: Feed) -> list[dict[str, Any]]:
    return [{"_ts": e.ts, **e.values} for e in interpret(network, feed)[network.outputs[0].name]]


def same(got: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted, strict=True):
        assert a.pop("spread", None) == pytest.approx(b.pop("spread", None))
        assert a == b


def same_in_groups(got: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    """The same rows in the same order, but for rows of one arrival and value, which are in any order of groups."""
    assert [row["a"] for row in got] == [row["a"] for row in wanted]
    for group in {row.get("g") for row in wanted}:
        same(*([row for row in rows if row.get("g") == group] for rows in (got, wanted)))


def agree(network: Network, case: tuple[Feed, list[int]]) -> None:
    feed, cuts = case
    for restarts in (False, True):
        same(in_memory(None, network, feed, cuts, restarts)["out"], expected(network, feed))


@given(feeds(), orders)
@settings(max_examples=50)
def test_bsort_is_the_oracles(case: tuple[Feed, list[int]], order: Order) -> None:
    net = Builder("n")
    net.source("s", **SCHEMA).bsort(order).to("out")
    agree(net.build(), case)


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(0, 5))
def test_bsort_is_so_many_passes_of_bubble_sort(values: list[int], slack: int) -> None:
    net = Builder("n")
    net.source("s", a="integer").bsort(Order("a", slack)).to("out")
    got = in_memory(None, net.build(), [("s", i, {"a": a}) for i, a in enumerate(values)], [])["out"]
    bubbled = list(values)
    for _ in range(slack):
        for i in range(len(bubbled) - 1):
            if bubbled[i] > bubbled[i + 1]:
                bubbled[i], bubbled[i + 1] = bubbled[i + 1], bubbled[i]
    assert [row["a"] for row in got] == bubbled[: max(len(values) - slack, 0)]


def timed(*rows: tuple[int, int]) -> tuple[Feed, list[int]]:
    """A feed of (arrival time, a) in one batch."""
    return [("s", ts, {"a": a, "g": "x", "v": None, "w": 0.0}) for ts, a in rows], []


#: the last arrival closes some windows by its value, and finds that the time of others has run out
BOTH_WAYS = timed(
    *((0, a) for a in (0, 1, 2, 3, 4, 8)), (538_534, 12), (1_740_195, 7), (2_000_001, 8)
)  # fmt: skip


@given(feeds(), orders, st.integers(1, 6), st.integers(1, 4), st.sampled_from([None, 2.0, 6.5]))
@example(BOTH_WAYS, Order("a", 2), 1, 1, 2.0)
@example(BOTH_WAYS, Order("a", 2), 2, 1, 2.0)
@settings(max_examples=50)
def test_aggregate_is_the_oracles(
    case: tuple[Feed, list[int]], order: Order, size: int, advance: int, timeout: float | None
) -> None:
    net = Builder("n")
    stream = net.source("s", **SCHEMA)
    stream.aggregate(FUNCTIONS, order, size=size, advance=advance, timeout=timeout).to("out")
    agree(net.build(), case)


@given(feeds(), st.sampled_from([(), ("g",)]), st.integers(1, 4), st.integers(1, 4))
@settings(max_examples=50)
def test_windows_of_tuples_are_the_oracles(
    case: tuple[Feed, list[int]], group_by: tuple[str, ...], size: int, advance: int
) -> None:
    net = Builder("n")
    net.source("s", **SCHEMA).aggregate(FUNCTIONS, Order(TUP, 0, group_by), size=size, advance=advance).to("out")
    agree(net.build(), case)


@given(feeds(("l", "r")), st.integers(0, 3), st.integers(0, 3), st.integers(0, 5), st.booleans(), st.booleans())
@settings(max_examples=50)
def test_join_is_the_oracles(
    case: tuple[Feed, list[int]], left: int, right: int, size: int, grouped: bool, equal: bool
) -> None:
    group_by = ("g",) if grouped else ()
    predicate = "left.g = right.g" if grouped or equal else "1 = 1"
    net = Builder("n")
    one, two = net.source("l", **SCHEMA), net.source("r", **SCHEMA)
    one.join(two, predicate, size=size, left=Order("a", left, group_by), right=Order("a", right, group_by)).to("out")
    network = net.build()
    feed, cuts = case
    got = in_memory(SPARKLESS, network, feed, cuts)["out"]
    assert bag(got) == bag(expected(network, feed))
    assert in_memory(SPARKLESS, network, feed, cuts, restarts=True)["out"] == got


@given(feeds(("l", "r")), st.integers(0, 2), orders, st.integers(0, 5), st.sampled_from([None, 0, 3]))
@settings(max_examples=50)
def test_resample_is_the_oracles(
    case: tuple[Feed, list[int]], slack: int, order: Order, size: int, lag: float | None
) -> None:
    net = Builder("n")
    one, two = net.source("l", **SCHEMA), net.source("r", **SCHEMA)
    functions = {"n": "count(*)", "v_all": "trail(v)"}
    one.resample(two, functions, size=size, left=Order("a", slack), right=order, lag=lag).to("out")
    network = net.build()
    feed, cuts = case
    for restarts in (False, True):
        # what one arrival releases for several groups is in the order of left tuples, and of a hash of the groups
        same_in_groups(in_memory(None, network, feed, cuts, restarts)["out"], expected(network, feed))


@given(feeds(("s", "c")), orders, st.integers(1, 6), st.integers(1, 4))
@settings(max_examples=50)
def test_aggregate_with_a_clock_is_the_oracles(
    case: tuple[Feed, list[int]], order: Order, size: int, advance: int
) -> None:
    net = Builder("n")
    stream, clock = net.source("s", **SCHEMA), net.source("c", **SCHEMA)
    stream.aggregate(FUNCTIONS, order, size=size, advance=advance, clock=clock).to("out")
    network, (feed, cuts) = net.build(), case
    for restarts in (False, True):
        # windows that one tick closes are in the order of their numbers, and of a hash of their groups
        same_in_groups(in_memory(None, network, feed, cuts, restarts)["out"], expected(network, feed))


@given(feeds(), st.sampled_from([(), ("g",)]), st.integers(1, 4))
@settings(max_examples=50)
def test_a_stream_in_order_that_is_its_own_clock_closes_what_it_closes_without_in_all_groups_at_once(
    case: tuple[Feed, list[int]], group_by: tuple[str, ...], size: int
) -> None:
    feed, cuts = case
    feed = [
        ("s", ts, {**values, "a": a})
        for (_, ts, values), a in zip(feed, sorted(row[2]["a"] for row in feed), strict=True)
    ]
    rest = [("s", 0, {"a": FAR, "g": g, "v": 0, "w": 0.0}) for g in "xyz"]

    def windows(clocked: bool) -> list[dict[str, Any]]:
        net = Builder("n")
        stream = net.source("s", **SCHEMA)
        stream.aggregate(
            {"n": "count(*)", "all_v": "trail(v)"},
            Order("a", 0, group_by),
            size=size,
            clock=stream if clocked else None,
        ).to("out")
        return in_memory(None, net.build(), feed + rest, cuts)["out"]

    assert bag(windows(True)) == bag(windows(False))


@given(feeds(("l", "r")), st.sampled_from([(), ("g",), ("g", "v")]), st.booleans())
@settings(max_examples=50)
def test_latest_is_the_oracles(case: tuple[Feed, list[int]], on: tuple[str, ...], before: bool) -> None:
    net = Builder("n")
    one, two = net.source("l", **SCHEMA), net.source("r", **SCHEMA)
    one.latest(two, *on, before=before).to("out")
    agree(net.build(), case)


@given(feeds(), st.booleans())
@settings(max_examples=30)
def test_a_stream_beside_itself_is_each_tuple_beside_itself_or_the_one_before(
    case: tuple[Feed, list[int]], before: bool
) -> None:
    net = Builder("n")
    stream = net.source("s", **SCHEMA)
    stream.latest(stream, "g", before=before).to("out")
    agree(net.build(), case)


@given(feeds(), st.sampled_from([(), ("g",)]))
@settings(max_examples=50)
def test_running_is_the_oracles(case: tuple[Feed, list[int]], group_by: tuple[str, ...]) -> None:
    functions = {
        "n": "count(*)", "present": "count(v)", "total": "sum(v)", "mean": "avg(v)", "least": "min(v)",
        "most": "max(w)", "sum_w": "sum(w)",
    }  # fmt: skip
    net = Builder("n")
    net.source("s", **SCHEMA).running(functions, *group_by).to("out")
    agree(net.build(), case)


class _Sparkless:
    """Types a join's predicate without Spark: it is a condition."""

    def range(self, *_: Any) -> _Sparkless:
        return self

    def selectExpr(self, *_: Any) -> _Sparkless:  # noqa: N802
        return self

    @property
    def schema(self) -> list[Any]:
        from pyspark.sql.types import BooleanType, StructField

        return [StructField("x", BooleanType())]

    @property
    def _jdf(self) -> _Sparkless:
        return self

    def queryExecution(self) -> _Sparkless:  # noqa: N802
        return self

    def analyzed(self) -> _Sparkless:
        return self

    def deterministic(self) -> bool:
        return True


SPARKLESS = _Sparkless()


def bag(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(sorted(row.items())) for row in rows)


@given(feeds(), st.integers(0, 4), st.sampled_from([(), ("g",)]), st.integers(1, 6), st.integers(1, 4))
@settings(max_examples=50)
def test_aggregate_with_slack_is_aggregate_without_after_bsort(
    case: tuple[Feed, list[int]], slack: int, group_by: tuple[str, ...], size: int, advance: int
) -> None:
    feed, cuts = case
    with_slack = Builder("n")
    with_slack.source("s", **SCHEMA).aggregate(FUNCTIONS, Order("a", slack, group_by), size=size, advance=advance).to(
        "out"
    )
    sort = Builder("n")
    sort.source("s", **SCHEMA).bsort(Order("a", slack, group_by)).to("out")
    plain = Builder("n")
    plain.source("s", **SCHEMA).aggregate(FUNCTIONS, Order("a", 0, group_by), size=size, advance=advance).to("out")
    ordered = [("s", row.pop("_ts"), row) for row in in_memory(None, sort.build(), feed, cuts)["out"]]
    same(in_memory(None, with_slack.build(), feed, cuts)["out"], in_memory(None, plain.build(), ordered, [])["out"])


FAR = 10**6


@given(feeds(("l", "r")), st.integers(0, 3), st.integers(0, 3), st.integers(0, 5), st.booleans())
@settings(max_examples=40)
def test_join_with_slack_is_join_without_after_bsorts(
    case: tuple[Feed, list[int]], left: int, right: int, size: int, grouped: bool
) -> None:
    group_by = ("g",) if grouped else ()
    feed, cuts = case
    # far tuples at the end, so many that the sorts hold nothing back
    rest = [(s, 0, {"a": FAR, "g": g, "v": 0, "w": 0.0}) for s in ("l", "r") for g in "xyz" for _ in range(4)]

    def joined(rows: Feed, left: int, right: int) -> Counter[tuple[Any, ...]]:
        net = Builder("n")
        one, two = net.source("l", **SCHEMA), net.source("r", **SCHEMA)
        orders = {"left": Order("a", left, group_by), "right": Order("a", right, group_by)}
        one.join(two, "left.g = right.g", size=size, **orders).to("out")
        return bag([row for row in in_memory(SPARKLESS, net.build(), rows, cuts)["out"] if row["a"] < FAR])

    def ordered(source: str, slack: int) -> Feed:
        net = Builder("n")
        net.source(source, **SCHEMA).bsort(Order("a", slack, group_by)).to("out")
        mine = [row for row in feed + rest if row[0] == source]
        return [(source, row.pop("_ts"), row) for row in in_memory(None, net.build(), mine, [])["out"]]

    assert joined(ordered("l", left) + ordered("r", right), 0, 0) == joined(feed + rest, left, right)


def test_expand_takes_empty_ranges() -> None:
    import numpy as np

    rows, places = expand(np.array([3, 1]), np.array([2, 3]))
    assert rows.tolist() == [1, 1]
    assert places.tolist() == [1, 2]
