"""keep, query and lookup against dictionaries of deques, in any trains, after any restarts; and `cuboid run`."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from cuboid.plain import members
from network.stages_in_memory import run
from network.test_streaming import bag
from oracles.network import OPERATORS, Event, interpret
from oracles.network_engines import Feed, stream
from slipstream._cuboid import declare, example_series
from slipstream._cuboid.cuboid_feeds import make_cuboid_feed
from slipstream._cuboid.query.one_off import run_query
from slipstream._cuboid.query.stream_functions import atomic
from slipstream._cuboid.snapshots.snapshot import Snapshot
from slipstream._errors import BadInput
from slipstream._network import Builder, CuboidLookup, CuboidQuery, Keep, Network, yaml_files
from slipstream._network.planning.plan import plan
from slipstream._network.quality import shedding
from slipstream._network.running.filling import build_network, fill
from slipstream._network.running.run_folder import Execution
from slipstream._network.schemas import check
from slipstream._network.tasks.superbox import Superbox

DEPTH = 3
CAR = f"CREATE CUBOID car (vid INT KEY, speed INT AST({DEPTH}), lane UTINYINT)"
COLUMNS = {"mean": "avg(speed)", "before": "speed[-1]", "lane": "lane", "seen": "ticks(speed)"}


class PlainKeep:
    """The latest speeds of each vehicle, and its lane."""

    def __init__(self, _: Keep) -> None:
        self.cars: dict[int, tuple[deque[int], int, int]] = {}
        self.shown: list[dict[str, Any] | None] = []

    def push(self, side: int, event: Event) -> list[tuple[int, Event]]:
        vid, speed, lane = (event.values[name] for name in ("vid", "speed", "lane"))
        for name, value in (("vid", vid), ("speed", speed), ("lane", lane)):
            if isinstance(value, str) and (not value or "\n" in value):
                return [(1, Event(event.ts, {**event.values, "reason": f"{name} is empty or not one line"}))]
            if value is None:
                return [(1, Event(event.ts, {**event.values, "reason": f"no {name}"}))]
        if not 0 <= lane < 256:
            return [(1, Event(event.ts, {**event.values, "reason": "lane does not fit into uint8"}))]
        past, _, seen = self.cars.setdefault(vid, (deque(maxlen=DEPTH), 0, 0))
        past.appendleft(speed)
        self.cars[vid] = (past, lane, seen + 1)
        self.shown.append(self.row(vid))
        return [(0, event)]

    def row(self, vid: Any) -> dict[str, Any] | None:
        if vid not in self.cars:
            return None
        past, lane, seen = self.cars[vid]
        before = float(past[1]) if len(past) > 1 else None
        return {"mean": float(np.mean(past)), "before": before, "lane": lane, "seen": float(seen)}


class PlainQuery:
    """SELECT vid, avg(speed) AS mean, speed[-1] AS before FROM car WHERE avg(speed) > 2"""

    def __init__(self, _: CuboidQuery, keep: PlainKeep) -> None:
        self.keep, self.done = keep, 0

    def push(self, side: int, event: Event) -> list[tuple[int, Event]]:
        row = self.keep.shown[self.done]  # as it was after this tuple, not after another of the same arrival
        self.done += 1
        assert row is not None
        found = {"vid": event.values["vid"], "mean": row["mean"], "before": row["before"]}
        return [(0, Event(event.ts, found))] if row["mean"] > 2 else []


class PlainLookup:
    def __init__(self, box: CuboidLookup, keep: PlainKeep) -> None:
        self.box, self.keep = box, keep

    def push(self, side: int, event: Event) -> list[tuple[int, Event]]:
        if side == 0:
            return []
        row = self.keep.row(event.values[self.box.by])
        if row is None and not self.box.outer:
            return []
        found = {f"car_{name}": row and row[name] for name in COLUMNS}
        return [(0, Event(event.ts, {**event.values, **found}))]


OPERATORS |= {Keep: PlainKeep, CuboidQuery: PlainQuery, CuboidLookup: PlainLookup}

SCHEMA = {"vid": "integer", "speed": "integer", "lane": "integer"}
LOOKED_UP = {f"car_{name}": text for name, text in COLUMNS.items()}


def network(*, by_text: bool = False) -> Network:
    net, type_ = Builder("kept"), "text" if by_text else "integer"
    reports, requests = net.source("reports", **{**SCHEMA, "vid": type_}), net.source("requests", who=type_)
    cars = reports.union(reports.filter("speed < 0").map({"vid": "vid", "speed": "-speed", "lane": "lane"})).through(
        Keep(CAR.replace("vid INT", "vid STRING") if by_text else CAR), name="cars"
    )
    cars.to("kept")
    cars["rejects"].to("rejects")
    cars.through(CuboidQuery(PlainQuery.__doc__ or ""), name="fast").to("fast")
    cars.through(CuboidLookup(LOOKED_UP, "who"), requests).to("asked")
    cars.through(CuboidLookup(LOOKED_UP, "who", outer=True), requests).to("outer")
    # the kept tuples themselves ask, and so do tuples of which one arrival made some that were kept
    cars.through(CuboidLookup(LOOKED_UP, "vid"), cars).to("themselves")
    cars.through(CuboidLookup(LOOKED_UP, "vid", outer=True), reports.filter("speed <> 0")).to("at_once")
    return net.build()


def random_feed(seed: int, size: int = 120) -> Feed:
    random = Random(seed)
    feed: Feed = []
    for i in range(size):
        if random.random() < 0.6:
            values = {"vid": random.randrange(12), "speed": random.randrange(-5, 9), "lane": random.randrange(4)}
            if random.random() < 0.1:
                values[random.choice(["vid", "speed", "lane"])] = random.choice([None, 300])
            feed.append(("reports", 1000 + i, values))
        else:
            feed.append(("requests", 1000 + i, {"who": random.choice([None, *range(14)])}))
    return feed


def named(feed: Feed) -> Feed:
    """The same feed with texts for vehicles; some of them cannot be keys."""
    texts = {0: "", 1: "two\nlines", 2: "ü", **{i: f"WVW {i}" for i in range(3, 400)}, None: None}
    return [(s, ts, {n: texts[v] if n in ("vid", "who") else v for n, v in row.items()}) for s, ts, row in feed]


def rounded(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{n: round(v, 9) if isinstance(v, float) else v for n, v in row.items()} for row in rows]


@pytest.fixture(scope="module")
def superbox(spark: SparkSession) -> Superbox:
    return Superbox(plan(check(network(), spark)))


@settings(max_examples=60)
@given(seed=st.integers(0, 10_000), cuts=st.lists(st.integers(1, 119), max_size=6, unique=True), restart=st.booleans())
def test_any_cuts_and_restarts_give_what_dictionaries_give(
    superbox: Superbox, seed: int, cuts: list[int], restart: bool
) -> None:
    feed, cuts = random_feed(seed), sorted(cuts)
    got = run(superbox, feed, cuts, set(cuts) if restart else set())
    for name, events in interpret(network(), feed).items():
        wanted = [{"_ts": e.ts, **e.values} for e in events]
        assert bag(rounded(got[name])) == bag(rounded(wanted)), name
    assert got == run(superbox, feed, [], set())


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), cuts=st.lists(st.integers(1, 119), max_size=6, unique=True), restart=st.booleans())
def test_keys_may_be_texts(seed: int, cuts: list[int], restart: bool) -> None:
    feed, cuts, made = named(random_feed(seed)), sorted(cuts), network(by_text=True)
    superbox = Superbox(plan(check(made, None)))
    got = run(superbox, feed, cuts, set(cuts) if restart else set())
    for name, events in interpret(made, feed).items():
        assert bag(rounded(got[name])) == bag(rounded([{"_ts": e.ts, **e.values} for e in events])), name
    assert got == run(superbox, feed, [], set())


def test_boxes_on_cuboids_in_spark_are_those_in_memory(spark: SparkSession, superbox: Superbox, tmp_path: Path) -> None:
    feed = random_feed(5)
    got = stream(spark, network(), feed, [40, 80], tmp_path)
    assert got == run(superbox, feed, [], set())
    assert all(got.values()), "the test says nothing"


W = "CREATE PATTERN w AS (9, 3, 6, 3, 9);"
STOCK = "CREATE CUBOID stock (stock_id INT KEY, price AST(10), time BIGINT);"
MEMBERS = (
    "SELECT stock_id, ticks(price) AS tick, correlation(price, w) AS r FROM stock WHERE correlation(price, w) > 0.95"
)
TICKS = 400


def stocks() -> Network:
    net = Builder("stocks")
    source = net.source("ticks", stock_id="integer", time="integer", price="float")
    kept = source.through(Keep(STOCK + W), name="stock")
    kept.through(CuboidQuery(MEMBERS)).to("members")
    kept.through(CuboidQuery("SELECT stock_id, spread_(price) AS spread FROM stock")).to("spreads")
    kept.through(CuboidQuery("SELECT stock_id, price FROM stock")).to("pasts")
    return net.build()


@pytest.mark.long
def test_a_network_keeps_and_finds_what_cuboid_run_does(spark: SparkSession, tmp_path: Path) -> None:
    @atomic("spread_")
    def spread(values: np.ndarray) -> np.ndarray:
        return np.nanmax(values, axis=1) - np.nanmin(values, axis=1)

    example_series.write(tmp_path / "ticks", TICKS, seed=7, files=2)
    (first, _) = sorted((tmp_path / "ticks").iterdir())
    script = declare.parse(STOCK + W + f"CREATE QUERY members AS {MEMBERS}")
    feed = make_cuboid_feed(str(first), script.cuboids["stock"])
    fill(spark, feed, build_network(script), tmp_path / "filled", fragments=2)
    job = Execution.prepare(tmp_path / "run", stocks(), {"ticks": first}, train=60)
    job.release()
    job.run(spark)
    filled, kept = Snapshot.open(tmp_path / "filled"), Snapshot.open(tmp_path / "run")
    columns = ("stock_id", "tick", "r")
    theirs = filled.results("members").to_pylist()
    mine = [row.asDict() for row in job.results(spark, "members").collect()]
    assert mine
    by_key = [sorted((row["stock_id"], row["tick"], row["r"]) for row in rows) for rows in (mine, theirs)]
    assert by_key[0] == by_key[1]
    plain = [(row[0], row[1]) for row in members(_ticks(first), (9, 3, 6, 3, 9), 0.95)]
    assert [(row["stock_id"], row["tick"]) for row in mine] == plain, columns
    assert job.results(spark, "spreads").count() == sum(1 for _ in _ticks(first))
    past: dict[int, deque[float]] = {}
    for (key, price), row in zip(_ticks(first), job.results(spark, "pasts").collect(), strict=True):
        past.setdefault(key, deque(maxlen=10)).appendleft(price)
        assert [value for value in row["price"] if not np.isnan(value)] == list(past[key])
    question = "SELECT stock_id, avg(price), time, price[0] FROM stock ORDER BY stock_id"
    for (name, one), two in zip(run_query(kept, question).items(), run_query(filled, question).values(), strict=True):
        assert one.tolist() == two.tolist(), name


def _ticks(file: Path) -> list[tuple[int, float]]:
    import pandas as pd

    rows = pd.read_csv(file)
    return list(zip(rows["stock_id"].tolist(), rows["price"].tolist(), strict=True))


def test_a_snapshot_goes_on_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    example_series.write(tmp_path / "ticks", TICKS, seed=7, files=1)
    (file,) = (tmp_path / "ticks").iterdir()
    net = Builder("stocks")
    net.source("ticks", stock_id="integer", time="integer", price="float").through(Keep(STOCK)).to("kept")
    job = Execution.prepare(tmp_path / "run", net.build(), {"ticks": file}, train=1000)
    seen = []
    while job.waiting():
        job.release(step=True)
        Execution.open(job.folder).run(spark)
        seen.append(int(run_query(Snapshot.open(job.folder), "SELECT sum(ticks(price)) AS n FROM stock")["n"][0]))
    assert seen == [1000, 2000, 2800]


def test_files_say_the_same_after_a_round_trip() -> None:
    made = network()
    assert yaml_files.loads(yaml_files.dumps(made)) == made
    short = (
        yaml_files.loads(HEAD + "  b: {keep: {vid: INT KEY, speed: INT AST(3), t: UTINYINT}, from: s}").node("b").box
    )
    assert short == Keep("CREATE CUBOID b (vid INT KEY, speed INT AST(3), t UTINYINT)")


def test_nothing_is_shed_between_a_cuboid_and_those_who_ask_it() -> None:
    borrowing = {"fast", *(f"lookup_{i}" for i in (1, 2, 3, 4))}
    assert not [place for place in shedding.places(network()) if place.taker in borrowing and not place.side]


HEAD = (
    "network: n\nversion: 1\nsources: {s: {vid: integer, speed: integer, t: text}}\noutputs: {o: {from: b}}\nboxes:\n"
)
CARS = "  c: {keep: 'CREATE CUBOID car (vid INT KEY, speed AST(3))', from: s}\n"


@pytest.mark.parametrize(
    ("boxes", "words"),
    [
        ("  b: {keep: 'CREATE CUBOID car (vid INT)', from: s}", "no key; declare one"),
        ("  b: {keep: 'SELECT 1', from: s}", "must declare one cuboid"),
        ("  b: {keep: {id: INT KEY, speed: AST(2)}, from: s}", "no column 'id'"),
        ("  b: {keep: {vid: INT KEY, t: AST(2)}, from: s}", "'t' is string"),
        (
            CARS + "  a: {query: SELECT speed FROM car, from: c}\n  b: {filter: speed > 1, from: a}",
            "is an atomic stream",
        ),
        (CARS + "  b: {lookup: {m: speed}, key: vid, from: [c, s]}", "is an atomic stream"),
        (CARS + "  b: {query: SELECT count(*) AS n FROM car, from: c}", "cannot run continuously"),
        (CARS + "  b: {query: SELECT vid FROM bus, from: c}", "no cuboid 'bus'"),
        (CARS + "  b: {query: SELECT vid FROM car, from: s}", "is not a keep box"),
        (CARS + "  b: {query: SELECT vid FROM car, from: c.rejects}", "is not a keep box"),
        (CARS + "  b: {lookup: {m: avg(speed)}, key: t, from: [c, s]}", "'t' is string"),
        (CARS + "  b: {lookup: {speed: avg(speed)}, key: vid, from: [c, s]}", "already exists in the tuple"),
        (CARS + "  b: {lookup: {m: sum(vid)}, key: vid, from: [c, s]}", "expressions over one key"),
        (CARS + "  b: {lookup: {m: 1 FROM car WHERE 1 = 2 --}, key: vid, from: [c, s]}", "."),
        (CARS + "  b: {lookup: {m: avg(speed)}, key: vid, outer: maybe, from: [c, s]}", "neither true nor false"),
        (CARS + "  b: {lookup: {m: avg(speed)}, from: [c, s]}", "'key' is missing"),
    ],
)
def test_mistakes_are_named(boxes: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        check(yaml_files.loads(f"{HEAD}{boxes}\n"), None)


def test_two_boxes_cannot_keep_one_cuboid() -> None:
    with pytest.raises(BadInput, match="two boxes keep the cuboid 'car'"):
        check(yaml_files.loads(HEAD + CARS + CARS.replace("c:", "b:", 1)), None)
