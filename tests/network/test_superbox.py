"""A whole network in memory: all nine boxes, fed in any trains, against the tuple-at-a-time interpreter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from network.stages_in_memory import run
from network.test_streaming import NAMES, bag, everything, only_columns, random_feed
from oracles.network import interpret
from oracles.network_engines import array_of
from slipstream._network.algebra import Schema
from slipstream._network.flow import is_sorted, merge_order, sort_order
from slipstream._network.planning.plan import plan
from slipstream._network.schemas import check
from slipstream._network.sql import translation
from slipstream._network.state.stored import StoredTable
from slipstream._network.tasks.superbox import Superbox


@pytest.fixture(scope="module")
def superbox(spark: SparkSession) -> Superbox:
    network = everything()
    names = {column: array_of([row[column] for row in in_rows(NAMES)], type_) for column, type_ in TABLE.items()}
    return Superbox(plan(check(network, spark)), {"names": StoredTable(names)})


TABLE: Schema = {"g": "text", "rank": "integer"}


def in_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A table's rows in the order that Spark gives them: by all columns."""
    return sorted(rows, key=lambda row: [row[name] for name in TABLE])


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


@settings(max_examples=20)
@given(
    seed=st.integers(0, 1000),
    cuts=st.lists(st.integers(1, 239), max_size=4, unique=True),
    restart=st.booleans(),
    parallel=st.integers(1, 4),
)
def test_any_parallelism_gives_what_one_stage_gives(
    superbox: Superbox, seed: int, cuts: list[int], restart: bool, parallel: int
) -> None:
    feed = random_feed(seed)
    cuts = sorted(cuts)
    spread = replace(superbox, parallel=parallel)
    assert run(spread, feed, cuts, set(cuts) if restart else set()) == run(superbox, feed, [], set())


@settings(max_examples=15)
@given(
    seed=st.integers(0, 1000), cuts=st.lists(st.integers(1, 239), max_size=3, unique=True), parallel=st.integers(1, 3)
)
def test_expressions_that_spark_computes_change_nothing(
    superbox: Superbox, seed: int, cuts: list[int], parallel: int
) -> None:
    with patch.object(translation, "translate", only_columns):
        left = replace(superbox, parallel=parallel)
        assert left.translations.programs
        got = run(left, random_feed(seed), sorted(cuts), set())
    assert got == run(superbox, random_feed(seed), [], set())


@given(rows=st.lists(st.tuples(*[st.integers(0, 2)] * 3), max_size=8))
def test_rows_are_sorted_as_tuples_are(rows: list[tuple[int, ...]]) -> None:
    order = np.array(rows, np.int64).reshape(-1, 3)
    assert is_sorted(order) == (rows == sorted(rows))
    assert [rows[i] for i in sort_order(order, np.zeros(len(rows), np.int64))] == sorted(rows)


@given(parts=st.lists(st.lists(st.tuples(*[st.integers(0, 2)] * 2), max_size=5), min_size=1, max_size=4))
def test_parts_are_merged_as_their_sum_is_sorted(parts: list[list[tuple[int, ...]]]) -> None:
    for trains in (parts, [sorted(part) for part in parts]):
        rows = [row for part in trains for row in part]
        found = merge_order([np.array(part, np.int64).reshape(-1, 2) for part in trains])
        wanted = sorted(range(len(rows)), key=lambda place: rows[place])
        assert (list(range(len(rows))) if found is None else found.tolist()) == wanted
