"""The toll box in a network answers tuple for tuple what the toll engine and the oracle answer, however it is cut."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from cuboid.test_published import accepted, called, check_cars
from linear_road.engine_in_memory import Engine
from linear_road.test_exactness import worlds
from network.stages_in_memory import run
from oracles.linear_road import answers
from oracles.network_engines import Feed
from oracles.streams import busy_stream
from slipstream._cuboid.query.one_off import run_query
from slipstream._cuboid.snapshots.snapshot import Snapshot
from slipstream._errors import BadInput
from slipstream._feeds.tuples import FIELDS
from slipstream._linear_road.state.published import CUBOIDS, CUBOIDS_BY_TEXT
from slipstream._network import Builder, Network, yaml_files
from slipstream._network.boxes.tolls.toll import Toll
from slipstream._network.planning.plan import plan
from slipstream._network.running.run_folder import Execution
from slipstream._network.schemas import check
from slipstream._network.tasks.superbox import Superbox

COLUMNS = dict.fromkeys(FIELDS, "integer")
#: output -> the number of its answers, and its columns in the paper's order
ANSWERS = {
    "notifications": (0, ("vid", "time", "lav", "toll")),
    "alerts": (1, ("time", "vid", "seg")),
    "balances": (2, ("time", "result_time", "qid", "balance")),
    "expenditures": (3, ("time", "qid", "expenditure")),
    "travel_times": (4, ("time", "qid", "travel_time", "toll")),
}


def tolled(ids: str = "integer", **parameters: Any) -> Network:
    """All answers, and those above a price: one more box behind the toll box."""
    net = Builder("tolled")
    box = net.source("cars", **COLUMNS | {"vid": ids}).through(Toll(**parameters), name="tolls")
    for output in (*ANSWERS, "rejects"):
        box[output].to(output)
    box.filter("toll > 0").map({"vid": "vid", "cents": "toll * 100"}).to("charged")
    return net.build()


def whole(lines: list[str], lateness: int) -> tuple[list[str], list[dict[str, int]]]:
    """The lines that are tuples of a network, and a last tuple, which completes every second before it."""
    good = [line for line in lines if _is_tuple(line)]
    rows = [dict(zip(FIELDS, map(int, line.split(",")), strict=True)) for line in good]
    last = max((row["time"] for row in rows), default=0) + lateness + 1
    return good, [*rows, dict.fromkeys(FIELDS, -1) | {"type": 2, "time": last, "vid": 0, "qid": 0}]


def _is_tuple(line: str) -> bool:
    parts = line.split(",")
    return len(parts) == len(FIELDS) and all(p.lstrip("-").isdecimal() and abs(int(p)) < 2**31 for p in parts)


def in_the_papers_order(got: dict[str, list[dict[str, Any]]]) -> list[tuple[int, ...]]:
    found = []
    for output, (number, names) in ANSWERS.items():
        found += [(number, *(row[name] for name in names)) for row in got[output]]
    return sorted(found)


def rejected(got: dict[str, list[dict[str, Any]]]) -> Counter[tuple[str, str]]:
    return Counter((",".join(str(row[name]) for name in FIELDS), row["reason"]) for row in got["rejects"])


@pytest.fixture(scope="module")
def superboxes(spark: SparkSession) -> dict[tuple[str, int], Superbox]:
    return {
        (rules, lateness): Superbox(plan(check(tolled(rules=rules, lateness=lateness), spark)))
        for rules in ("2004", "2003")
        for lateness in (0, 5, 60)
    }


@settings(max_examples=60)
@given(
    feed=worlds(),
    cuts=st.lists(st.integers(1, 400), max_size=6, unique=True),
    restart=st.booleans(),
    rules=st.sampled_from(["2004", "2003"]),
    lateness=st.sampled_from([0, 5, 60]),
)
def test_any_feed_cut_anywhere_gives_the_answers_of_the_oracle_and_the_engine(
    superboxes: dict[tuple[str, int], Superbox],
    feed: list[str],
    cuts: list[int],
    restart: bool,
    rules: str,
    lateness: int,
) -> None:
    lines, rows = whole(feed, lateness)
    cuts = sorted(cut for cut in cuts if cut < len(rows))
    tuples: Feed = [("cars", 1000 + number, row) for number, row in enumerate(rows)]
    superbox = superboxes[rules, lateness]
    got = run(superbox, tuples, cuts, set(cuts) if restart else set())
    expected = answers(lines, lateness=lateness, rules=rules)
    assert in_the_papers_order(got) == sorted(expected.outputs)
    assert rejected(got) == Counter(expected.rejects)
    assert got == run(superbox, tuples, [], set())
    batches = [lines[start:end] for start, end in pairwise([0, *cuts, len(lines)])]
    engine = Engine(lateness=lateness, rules=rules).run(batches)
    assert in_the_papers_order(got) == sorted(engine.outputs)
    assert [row["cents"] for row in got["charged"]] == [100 * r["toll"] for r in got["notifications"] if r["toll"] > 0]


@settings(max_examples=30)
@given(feed=worlds(), cuts=st.lists(st.integers(1, 400), max_size=6, unique=True), restart=st.booleans())
def test_vehicles_may_be_known_by_text(feed: list[str], cuts: list[int], restart: bool) -> None:
    """The answers are those to numbers, with the texts instead, in the order of these."""
    _, rows = whole(feed, 5)
    cuts = sorted(cut for cut in cuts if cut < len(rows))
    # the last digit first, so that texts are in another order than numbers; a negative number is no id
    named = [row | {"vid": str(row["vid"])[::-1] + " ü" if row["vid"] >= 0 else None} for row in rows]
    tuples, numbers = ([("cars", 1000 + n, row) for n, row in enumerate(given)] for given in (named, rows))
    superbox = Superbox(plan(check(tolled("text", lateness=5), None)))
    got = run(superbox, tuples, cuts, set(cuts) if restart else set())
    expected = run(Superbox(plan(check(tolled(lateness=5), None))), numbers, [], set())
    for name, found in expected.items():
        texts = [row | {"vid": str(row["vid"])[::-1] + " ü" if row["vid"] >= 0 else None} for row in found]
        assert sorted(map(repr, got[name])) == sorted(map(repr, texts)), name
    assert got == run(superbox, tuples, [], set())


def test_ids_that_cannot_be_read_back_are_rejected() -> None:
    _, rows = whole(busy_stream(3, vehicles=3, seconds=90), 0)
    bad: list[str | None] = ["", "a\nb", None]
    tuples: Feed = [("cars", n, rows[0] | {"vid": vid}) for n, vid in enumerate(bad)]
    got = run(Superbox(plan(check(tolled("text"), None))), tuples, [], set())
    assert [(row["vid"], row["reason"]) for row in got["rejects"]] == [
        ("", "text:vid"), ("a\nb", "text:vid"), (None, "range:vid")
    ]  # fmt: skip


def test_an_answer_has_the_arrival_time_of_its_question(superboxes: dict[tuple[str, int], Superbox]) -> None:
    _, rows = whole(busy_stream(3, vehicles=40, seconds=200), 5)
    tuples: Feed = [("cars", 1000 + 7 * number, row) for number, row in enumerate(rows)]
    reports = {(row["time"], row["vid"], ts) for _, ts, row in tuples if row["type"] == 0}
    got = run(superboxes["2004", 5], tuples, [50], set())
    assert got["notifications"]
    assert {(row["time"], row["vid"], row["_ts"]) for row in got["notifications"]} <= reports


@pytest.mark.parametrize("ids", ["integer", "text"])
def test_a_network_with_a_toll_box_runs_in_spark_and_its_accounts_can_be_asked(
    spark: SparkSession, tmp_path: Path, ids: str
) -> None:
    """Readers know vehicles by what the feed calls them."""
    lines, rows = whole(busy_stream(5, vehicles=500, seconds=600), 0)
    given = [row | {"vid": called(row["vid"])} for row in rows] if ids == "text" else rows
    pq.write_table(pa.Table.from_pylist(given), tmp_path / "cars.parquet")
    job = Execution.prepare(
        tmp_path / "run", tolled(ids, publish=True), {"cars": tmp_path / "cars.parquet"}, train=len(rows) // 3
    )
    job.release(step=True)
    job.run(spark)
    job = Execution.open(job.folder)
    job.release()
    job.run(spark)
    expected = answers(lines, lateness=0)
    got = {name: [row.asDict() for row in job.results(spark, name).collect()] for name in ANSWERS}
    asked = run_query(Snapshot.open(job.folder), "SELECT vid, charged FROM account WHERE charged > 0")
    last = {row["vid"]: row["balance"] for row in got["balances"]}
    booked = dict(zip(asked["vid"].tolist(), asked["charged"].tolist(), strict=True))
    assert booked
    assert all(booked.get(vid, 0) >= balance for vid, balance in last.items())
    assert Snapshot.open(job.folder).schemas == (CUBOIDS_BY_TEXT if ids == "text" else CUBOIDS)
    check_cars(Snapshot.open(job.folder), accepted(lines), fragments=1, named=ids == "text")
    if ids == "text":
        numbers = {called(row["vid"]): row["vid"] for row in rows}
        got = {name: [row | {"vid": numbers[row["vid"]]} for row in found] for name, found in got.items()}
    assert in_the_papers_order(got) == sorted(expected.outputs)


HEAD = "network: n\nversion: 1\noutputs: {o: {from: t.alerts}}\n"
CARS = (
    "sources: {s: {time: integer, vid: integer, spd: integer, xway: integer, lane: integer, dir: integer, pos: %s}}\n"
)


def test_reports_without_the_fields_of_requests_are_enough() -> None:
    made = yaml_files.loads(HEAD + CARS % "integer" + "boxes:\n  t: {toll: {rules: '2003', lateness: 30}, from: s}\n")
    assert made.node("t").box == Toll("2003", 30)
    assert yaml_files.loads(yaml_files.dumps(made)) == made
    assert list(check(made, None).ports["t"])[1].port == 1


@pytest.mark.parametrize(
    ("toll", "pos", "words"),
    [
        ("{rules: '1999'}", "integer", "no rules '1999'"),
        ("{rules: 'os:system'}", "integer", "no rules 'os:system'"),
        ("{lateness: 61}", "integer", "out of range"),
        ("{lateness: soon}", "integer", "lateness is 'soon'"),
        ("{late: 1}", "integer", "no field 'late'"),
        ("{}", "text", "'pos' is string"),
    ],
)
def test_mistakes_are_named(toll: str, pos: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        check(yaml_files.loads(HEAD + CARS % pos + f"boxes:\n  t: {{toll: {toll}, from: s}}\n"), None)
