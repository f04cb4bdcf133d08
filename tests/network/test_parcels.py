"""Rows of feeds through the tasks that read them and the stages: partitions number tuples as one does."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from network.stages_in_memory import sorted_rows
from network.test_streaming import SCHEMA, everything, random_feed
from network.test_superbox import NAMES, TABLE, in_rows
from oracles.network_engines import Feed, array_of
from slipstream._io.chunks import CHUNK, LAST, OPENING, to_arrow_stream
from slipstream._network.flow import Train
from slipstream._network.planning.plan import plan
from slipstream._network.running.train_folder import arrow_schema
from slipstream._network.schemas import check
from slipstream._network.state.stored import StoredTable
from slipstream._network.tasks import operators_in_spark
from slipstream._network.tasks.operators_in_spark import Carrier, SuperboxStage
from slipstream._network.tasks.parcels import DELIVERED, Load, Row, read_rows, record_batch, to_frame
from slipstream._network.tasks.superbox import Superbox
from slipstream._runtime.stages.partitions import labels


@pytest.fixture(scope="module")
def superbox(spark: SparkSession) -> Superbox:
    names = {column: array_of([row[column] for row in in_rows(NAMES)], type_) for column, type_ in TABLE.items()}
    return Superbox(plan(check(everything(), spark)), {"names": StoredTable(names)})


def rows_of(feed: Feed, seed: int) -> list[Row]:
    """A feed as its sources would give it: rows of several tuples, in any order."""
    rows = []
    for number, first in enumerate(range(0, len(feed), 7)):
        for place, source in enumerate(("one", "two")):
            mine = [values for name, _, values in feed[first : first + 7] if name == source]
            table = pa.Table.from_pylist(mine, schema=pa.schema(list(arrow_schema(SCHEMA))[2:]))
            rows.append(Row(0, place, number, CHUNK, 1000 + number // 3, to_arrow_stream(table)))
    return sorted(rows, key=lambda row: hash((row.seq * seed, row.source)))


class Tasks:
    """The tasks of a query, batch after batch; ``apart`` if tuples are read by other ones than take them."""

    def __init__(self, superbox: Superbox, apart: bool) -> None:
        self.carrier = Carrier(superbox, None) if apart else None
        self.superbox = superbox
        self.stages = [SuperboxStage("test", superbox, None, n + 1) for n in range(superbox.stages.count)]
        self.states: dict[tuple[str, int], Any] = {}

    def batch(self, rows: list[Row]) -> Iterator[tuple[str, Train]]:
        if self.carrier is not None:
            # two tasks read
            halves = [[record_batch(rows[part::2])] for part in range(2) if rows[part::2]]
            rows = [row for half in halves for row in read_rows(self.carrier(iter(half)))]
        for one in self.stages:
            rows = [row for key in labels(self.superbox.parallel) for row in self.task(one, key, rows)]
        names = {delivery.layout.id: name for name, delivery in self.superbox.plan.outputs.items()}
        for row in rows:
            if row.what == DELIVERED:
                for parcel in Load.from_bytes(row.chunk, len(self.superbox.plan.keys)).parcels:
                    yield names[parcel.address], parcel.train

    def task(self, one: SuperboxStage, key: int, rows: list[Row]) -> list[Row]:
        mine = [row for row in rows if row.key == key]
        if not mine:
            return []
        one.key = key
        if (one.name, key) not in self.states:
            self.states[one.name, key] = one.fresh()
        frames = list(one.take(self.states[one.name, key], [to_frame(mine)]))
        return [Row(*row) for part in frames for row in part.itertuples(index=False, name=None)]


def delivered(superbox: Superbox, batches: list[list[Row]], apart: bool) -> dict[str, list[dict[str, Any]]]:
    tasks, found = Tasks(superbox, apart), []
    for number, rows in enumerate(batches):
        with patch.object(operators_in_spark, "batch_number", lambda number=number: number):
            found += list(tasks.batch(rows))
    return sorted_rows(superbox.plan, found)


@settings(max_examples=12)
@given(
    seed=st.integers(1, 1000), cuts=st.lists(st.integers(1, 60), max_size=3, unique=True), parallel=st.integers(1, 4)
)
def test_tuples_of_feeds_are_numbered_alike_everywhere(
    superbox: Superbox, seed: int, cuts: list[int], parallel: int
) -> None:
    rows = rows_of(random_feed(seed), seed)
    batches = [rows[a:b] for a, b in itertools.pairwise([0, *sorted(cuts), len(rows)]) if rows[a:b]]
    whole = delivered(superbox, batches, apart=False)
    assert any(whole.values())
    assert delivered(replace(superbox, parallel=parallel), batches, apart=True) == whole


def test_openings_and_the_end_of_a_feed_pass_all_partitions(superbox: Superbox) -> None:
    tasks = Tasks(replace(superbox, parallel=3), apart=True)
    assert tasks.carrier is not None
    for what in (OPENING, LAST):
        found = read_rows(tasks.carrier(iter([record_batch([Row(0, 0, 1, what, 0, b"")])])))
        assert sorted(row.key for row in found) == sorted(labels(3))
    assert list(tasks.batch([Row(0, 0, -1, OPENING, 0, b"")])) == []
    assert len(tasks.states) == 3 * tasks.superbox.stages.count
