"""A whole network in memory: all nine boxes, fed in any trains, against the tuple-at-a-time interpreter."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from network.test_streaming import NAMES, bag, everything, random_feed
from oracles.network import interpret
from oracles.network_engines import Feed, array_of, plain
from slipstream.network.algebra import Schema
from slipstream.network.flow import Train, in_order, merging, sorting
from slipstream.network.plan import Plan, plan
from slipstream.network.schemas import check
from slipstream.network.stage import Boxes
from slipstream.network.superbox import Superbox
from slipstream.runtime.store import MemoryStore


@pytest.fixture(scope="module")
def superbox(spark: SparkSession) -> Superbox:
    network = everything()
    names = {column: array_of([row[column] for row in in_rows(NAMES)], type_) for column, type_ in TABLE.items()}
    return Superbox(plan(check(network, spark)), {"names": names})


TABLE: Schema = {"g": "text", "rank": "integer"}


def in_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A table's rows in the order that Spark gives them: by all columns."""
    return sorted(rows, key=lambda row: [row[name] for name in TABLE])


def train(made: Plan, feed: Feed, first: int, source: str, place: int) -> Train:
    here = [(first + i, ts, values) for i, (name, ts, values) in enumerate(feed) if name == source]
    order = np.zeros((len(here), len(made.keys)), np.int64)
    order[:, 0], order[:, -1] = [number for number, _, _ in here], place
    schema = next(s.schema for s in made.checked.network.sources if s.name == source)
    columns = {column: array_of([values[column] for _, _, values in here], type_) for column, type_ in schema.items()}
    return Train(np.array([ts for _, ts, _ in here], np.int64), np.zeros(len(here), np.int64), order, columns)


def run(superbox: Superbox, feed: Feed, cuts: list[int], restarts: set[int]) -> dict[str, list[dict[str, Any]]]:
    made, boxes = superbox.plan, Boxes.fresh(superbox)
    stores = [MemoryStore() for _ in boxes.stores]
    found: dict[str, list[tuple[list[int], dict[str, Any]]]] = {name: [] for name in made.outputs}
    for start, end in itertools.pairwise([0, *cuts, len(feed)]):
        if start in restarts:
            boxes = Boxes.load(superbox, stores)
        sources = made.checked.network.sources
        trains = {s.name: train(made, feed[start:end], start, s.name, place) for place, s in enumerate(sources)}
        for name, out in superbox.step(boxes.states, trains):
            for i in range(len(out)):
                row = {column: plain(values[i : i + 1].tolist()[0]) for column, values in out.columns.items()}
                found[name].append((out.order[i].tolist(), {"_ts": int(out.ts[i]), **row}))
        boxes.save(stores, start)
    return {name: [row for _, row in sorted(rows, key=lambda row: row[0])] for name, rows in found.items()}


@settings(max_examples=25)
@given(seed=st.integers(0, 1000), cuts=st.lists(st.integers(1, 239), max_size=6, unique=True), restart=st.booleans())
def test_any_cuts_and_restarts_give_what_the_interpreter_gives(
    superbox: Superbox, seed: int, cuts: list[int], restart: bool
) -> None:
    feed = random_feed(seed)
    cuts = sorted(cuts)
    got = run(superbox, feed, cuts, set(cuts) if restart else set())
    for name, events in interpret(everything(), feed, {"names": NAMES}).items():
        assert bag(got[name]) == bag([{"_ts": e.ts, **e.values} for e in events]), name
    assert got == run(superbox, feed, [], set())


@given(rows=st.lists(st.tuples(*[st.integers(0, 2)] * 3), max_size=8))
def test_rows_are_sorted_as_tuples_are(rows: list[tuple[int, ...]]) -> None:
    order = np.array(rows, np.int64).reshape(-1, 3)
    assert in_order(order) == (rows == sorted(rows))
    assert [rows[i] for i in sorting(order, np.zeros(len(rows), np.int64))] == sorted(rows)


@given(parts=st.lists(st.lists(st.tuples(*[st.integers(0, 2)] * 2), max_size=5), min_size=1, max_size=4))
def test_parts_are_merged_as_their_sum_is_sorted(parts: list[list[tuple[int, ...]]]) -> None:
    for trains in (parts, [sorted(part) for part in parts]):
        rows = [row for part in trains for row in part]
        found = merging([np.array(part, np.int64).reshape(-1, 2) for part in trains])
        wanted = sorted(range(len(rows)), key=lambda place: rows[place])
        assert (list(range(len(rows))) if found is None else found.tolist()) == wanted
