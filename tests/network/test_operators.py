"""Boxes that are classes: the same results in any trains and after any restarts; mistakes are named."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from network.jumps import Jump
from network.stages_in_memory import run
from network.test_streaming import SCHEMA, bag, random_feed
from oracles.network import OPERATORS, Event, interpret
from oracles.network_engines import stream
from slipstream._cli.common.user_functions import load_functions as execute
from slipstream._errors import BadArgument, BadInput
from slipstream._network import Builder, KeyedTable, Network, Operator, Order, Train, drawing, register, yaml_files
from slipstream._network.boxes.operators import find
from slipstream._network.flow import find_places
from slipstream._network.planning.plan import plan
from slipstream._network.quality.statistics import measure
from slipstream._network.running.run_folder import Execution
from slipstream._network.schemas import check
from slipstream._network.tasks.superbox import Superbox

NETWORKS = Path(__file__).parents[2] / "examples" / "networks"


@register
@dataclass(frozen=True)
class Since(Operator):
    """For every tuple of the first input, twice: how many of the second have come before it."""

    name = "since"
    takes = 2

    def outputs(self, left: dict[str, str], right: dict[str, str]) -> dict[str, dict[str, str]]:
        return {"out": {"a": left["a"], "seen": "integer"}}

    def fresh(self, left: dict[str, str], right: dict[str, str]) -> dict[str, KeyedTable]:
        return {"count": KeyedTable({}, {"n": ("integer", 0)})}

    def step(self, state: dict[str, KeyedTable], left: Train, right: Train) -> dict[str, Train]:
        rows = state["count"].rows({"": np.zeros(1)})
        mine, theirs = find_places(left, right)
        seen = state["count"]["n"][rows[0]] + np.searchsorted(theirs, mine)
        state["count"]["n"][rows[0]] += len(right)
        twice = left.take(np.repeat(np.arange(len(left)), 2))
        return {"out": twice.with_columns({"a": twice["a"], "seen": np.repeat(seen, 2)})}


class PlainSince:
    def __init__(self, _: Since) -> None:
        self.n = 0

    def push(self, side: int, event: Event) -> list[tuple[int, Event]]:
        if side:
            self.n += 1
            return []
        return [(0, Event(event.ts, {"a": event.values["a"], "seen": self.n}))] * 2


OPERATORS |= {Since: PlainSince}


def with_operators() -> Network:
    net = Builder("operators")
    one, two = net.source("one", **SCHEMA), net.source("two", **SCHEMA)
    jumps = one.union(two).through(Jump(), name="jumps")
    jumps.to("far")
    near = jumps["near"]
    near.aggregate({"n": "count(*)"}, Order("a", 1, ("g",)), size=3).to("windows")
    again = near.map({"a": "a", "g": "g", "v": "v * 2"}).through(Jump(by=5), name="again")
    again.union(again["near"]).to("both")
    again.through(Since(), two.filter("v > 0")).to("since")
    return net.build()


@pytest.fixture(scope="module")
def superbox(spark: SparkSession) -> Superbox:
    return Superbox(plan(check(with_operators(), spark)))


@settings(max_examples=40)
@given(seed=st.integers(0, 1000), cuts=st.lists(st.integers(1, 239), max_size=6, unique=True), restart=st.booleans())
def test_any_cuts_and_restarts_give_what_the_interpreter_gives(
    superbox: Superbox, seed: int, cuts: list[int], restart: bool
) -> None:
    feed = random_feed(seed)
    cuts = sorted(cuts)
    got = run(superbox, feed, cuts, set(cuts) if restart else set())
    for name, events in interpret(with_operators(), feed).items():
        assert events
        assert bag(got[name]) == bag([{"_ts": e.ts, **e.values} for e in events]), name
    assert got == run(superbox, feed, [], set())


def test_operators_in_spark_are_those_in_memory(spark: SparkSession, superbox: Superbox, tmp_path: Path) -> None:
    for module in (__name__, Jump.__module__):  # workers cannot import them
        cloudpickle.register_pickle_by_value(sys.modules[module])
    feed = random_feed(5)
    assert stream(spark, with_operators(), feed, [100, 180], tmp_path) == run(superbox, feed, [], set())


def test_a_file_names_an_operator_its_parameters_and_outputs() -> None:
    network = with_operators()
    text = yaml_files.dumps(network)
    assert "jumps.near" in text
    assert yaml_files.loads(text) == network
    assert "jump by 5" in drawing.draw(network)


def test_an_operator_that_is_not_loaded_can_be_read_and_written_but_not_checked() -> None:
    text = HEAD.replace("{from: b}", "{from: b.far}, first: {from: b}, second: {from: b.1}")
    text += "  b: {operator: elsewhere, parameters: {by: 3}, from: [s, s]}\n  c: {filter: [v > 1], from: b.near}\n"
    with pytest.raises(BadInput, match="no operator 'elsewhere'"):
        yaml_files.loads(text)
    network = yaml_files.loads(text, unloaded=True)
    written = yaml_files.dumps(network)
    assert yaml_files.loads(written, unloaded=True) == network
    for part in ("from: b.far", "from: b}", "from: b.1", "from: b.near", "from: [s, s]", "{by: 3}"):
        assert part in written
    with pytest.raises(BadInput, match=r"box b \(operator\): no operator 'elsewhere'") as refused:
        check(network, None)
    assert "--functions" in refused.value.hint


def test_the_example_finds_who_brakes(spark: SparkSession, tmp_path: Path) -> None:
    execute(NETWORKS / "braking.py")
    network = yaml_files.load(NETWORKS / "braking.yaml")
    run_ = Execution.prepare(tmp_path / "run", network, {"reports": NETWORKS / "braking.csv"}, train=5)
    run_.release()
    run_.run(spark)
    assert [(row["vid"], row["time"], row["before"]) for row in run_.inspect("slower")] == [
        ("B-1", 30, 90),
        ("B-2", 31, 80),
        ("B-3", 62, 84),
    ]
    assert [(row["vid"], row["before"]) for row in run_.inspect("faster")] == [("B-1", 40), ("B-2", 25)]
    assert [row["cars"] for row in run_.inspect("jams")] == [2]


def test_an_operator_is_measured_like_other_boxes(spark: SparkSession) -> None:
    execute(NETWORKS / "braking.py")
    network = yaml_files.load(NETWORKS / "braking.yaml")
    rows = spark.createDataFrame(csv.read_csv(NETWORKS / "braking.csv")).selectExpr(
        "monotonically_increasing_id() as _seq", "0L as _ts", "*"
    )
    found = measure(spark, check(network, spark), {"reports": rows})
    assert found.of("change").shares == (3 / 12, 2 / 12)


# --- mistakes

HEAD = "network: n\nversion: 1\nsources: {s: {g: text, v: integer, a: integer}}\noutputs: {o: {from: b}}\nboxes:\n"


@pytest.mark.parametrize(
    ("box", "words"),
    [
        ("{operator: jumps, from: s}", "no operator 'jumps'"),
        ("{operator: jump, parameters: {buy: 3}, from: s}", "no field 'buy'"),
        ("{operator: jump, parameters: {by: far}, from: s}", "by is 'far'"),
        ("{operator: jump, parameters: [1], from: s}", "not a mapping"),
        ("{operator: jump, parameters: {group: h}, from: s}", "key column 'h' does not exist"),
        ("{operator: since, from: s}", "1 inputs"),
    ],
)
def test_mistakes_in_a_file_are_named(box: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        check(yaml_files.loads(f"{HEAD}  b: {box}\n"), None)


def test_an_output_that_is_not_there_is_named() -> None:
    text = HEAD.replace("from: b", "from: b.fat") + "  b: {operator: jump, from: s}\n"
    with pytest.raises(BadInput, match="no output 'fat'"):
        yaml_files.loads(text)


@dataclass(frozen=True)
class Careless(Operator):
    name = "careless"
    what: str = "nothing"

    def outputs(self, tuples: dict[str, str]) -> dict[str, dict[str, str]]:
        return {"out": {"n": "integer"}}

    def step(self, state: Any, tuples: Train) -> dict[str, Train]:
        wrong = {"missing": {}, "short": {"n": np.zeros(1)}}
        return {"port": {"in": tuples}}.get(self.what) or {"out": tuples.with_columns(wrong[self.what])}


@pytest.mark.parametrize(
    ("what", "words"), [("port", "no output 'in'"), ("missing", "'n' is missing"), ("short", r"shape \(1,\), not")]
)
def test_what_a_step_does_wrong_is_named(spark: SparkSession, what: str, words: str) -> None:
    net = Builder("wrong")
    net.source("one", **SCHEMA).through(Careless(what)).to("out")
    with pytest.raises(BadInput, match=words):
        run(Superbox(plan(check(net.build(), spark))), [f for f in random_feed(1) if f[0] == "one"][:9], [], set())


def test_a_class_that_is_no_operator_is_refused() -> None:
    with pytest.raises(BadArgument, match="is not a valid name"):
        register(type("Nameless", (Careless,), {"name": "No name"}))

    class Melting(Operator):
        name = "melting"

    register(Melting)  # a subclass of a frozen dataclass without fields of its own
    assert find("melting") is Melting
    with pytest.raises(BadArgument, match="only the key of a keyed table can be text"):
        KeyedTable({}, {"name": ("text", 0)})
