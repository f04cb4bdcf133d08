"""A whole network in memory: all nine boxes, fed in any trains, against the tuple-at-a-time interpreter."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from network.test_streaming import NAMES, bag, everything, only_columns, random_feed
from oracles.network import interpret
from oracles.network_engines import Feed, array_of, plain
from slipstream._network.algebra import Schema
from slipstream._network.flow import Train, is_sorted, merge_order, sort_order
from slipstream._network.planning.plan import Plan, plan
from slipstream._network.schemas import check
from slipstream._network.sql import translation
from slipstream._network.sql.translation import TUPLE, Program
from slipstream._network.sql.vector import translate
from slipstream._network.tasks.operators_in_spark import Boxes
from slipstream._network.tasks.parcels import Load, Sorter
from slipstream._network.tasks.superbox import SPARK, Cargo, Parcel, Superbox
from slipstream._runtime.store import MemoryStore


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


Found = dict[str, list[dict[str, Any]]]


def run(superbox: Superbox, feed: Feed, cuts: list[int], restarts: set[int]) -> Found:
    """The network in one stage."""
    made, boxes = superbox.plan, Boxes.fresh(superbox)
    stores = [MemoryStore() for _ in boxes.stores]
    released = []
    for start, end in itertools.pairwise([0, *cuts, len(feed)]):
        if start in restarts:
            boxes = Boxes.load(superbox, stores)
        sources = made.checked.network.sources
        trains = {s.name: train(made, feed[start:end], start, s.name, place) for place, s in enumerate(sources)}
        released += list(superbox.step(boxes.states, trains))
        boxes.save(stores, start)
    return sorted_rows(made, released)


def sorted_rows(made: Plan, released: list[tuple[str, Train]]) -> Found:
    found: dict[str, list[tuple[list[int], dict[str, Any]]]] = {name: [] for name in made.outputs}
    for name, out in released:
        for i in range(len(out)):
            row = {column: plain(values[i : i + 1].tolist()[0]) for column, values in out.columns.items()}
            found[name].append((out.order[i].tolist(), {"_ts": int(out.ts[i]), **row}))
    return {name: [row for _, row in sorted(rows, key=lambda row: row[0])] for name, rows in found.items()}


def compute(program: Program, tuples: Train) -> None:
    """A program of Spark's without Spark."""
    for text, sql, _ in program.texts:
        found = translate(sql.replace(f"{TUPLE}.", ""), program.columns).over(tuples.columns, len(tuples))
        tuples.columns[text] = found


class Host:
    """Stages in memory: what a batch's tasks exchange goes through the bytes that Spark would carry."""

    def __init__(self, superbox: Superbox) -> None:
        self.superbox = superbox
        self.sorter = Sorter(superbox.stages.homes, superbox.parallel)
        self.boxes = {(stage, part): Boxes.fresh(superbox, stage) for stage, part in self.places}
        self.stores = {place: [MemoryStore() for _ in boxes.stores] for place, boxes in self.boxes.items()}

    @property
    def places(self) -> list[tuple[int, int]]:
        return list(itertools.product(range(1, self.superbox.stages.count + 1), range(self.superbox.parallel)))

    def restart(self) -> None:
        self.boxes = {(s, part): Boxes.load(self.superbox, self.stores[s, part], s) for s, part in self.places}

    def batch(self, sources: dict[str, Train]) -> list[tuple[str, Train]]:
        parts: list[list[Parcel]] = [[] for _ in range(self.superbox.parallel)]
        for name, one in sources.items():
            self.put(parts, self.superbox.carry(1, Cargo(sources={name: one})), 0)
        delivered = []
        for stage in range(1, self.superbox.stages.count + 1):
            coming = self.projected(parts, stage)
            parts = [[] for _ in coming]
            for part, parcels in enumerate(coming):
                inboxes: dict[int, list[Train]] = {}
                for parcel in parcels:
                    if parcel.stage == stage:
                        inboxes.setdefault(parcel.address, []).append(parcel.train)
                boxes = self.boxes[stage, part]
                released = self.superbox.visit(stage, boxes.states, Cargo(inboxes=inboxes))
                boxes.save(self.stores[stage, part], 0)
                delivered += released.outputs
                self.put(parts, [p for p in parcels if p.stage != stage] + released.parcels, part)
        assert not any(parts)
        return delivered

    def projected(self, parts: list[list[Parcel]], stage: int) -> list[list[Parcel]]:
        """What Spark does between two stages, as often as the layout says."""
        prefixes, programs = self.superbox.translations.prefixes, self.superbox.translations.programs
        for _ in range(self.superbox.stages.rounds[stage - 1]):
            asked = [[parcel for parcel in mine if parcel.stage == SPARK] for mine in parts]
            parts = [[parcel for parcel in mine if parcel.stage != SPARK] for mine in parts]
            for part, mine in enumerate(asked):
                for parcel in mine:
                    prefix = prefixes[parcel.address]
                    compute(next(p for p in programs if p.arc == prefix[-1]), parcel.train)
                    self.put(parts, self.superbox.carry(stage, Cargo(computed={prefix: parcel.train})), part)
        assert all(parcel.stage != SPARK for mine in parts for parcel in mine)
        return parts

    def sent(self, parcels: list[Parcel], here: int) -> list[list[Parcel]]:
        keys = len(self.superbox.plan.keys)
        loads = [Load(mine).to_bytes() for mine in self.sorter.sort(parcels, here)]
        return [Load.from_bytes(load, keys).parcels for load in loads]

    def put(self, parts: list[list[Parcel]], parcels: list[Parcel], here: int) -> None:
        for part, mine in zip(parts, self.sent(parcels, here), strict=True):
            part.extend(mine)


def run_in_stages(superbox: Superbox, feed: Feed, cuts: list[int], restarts: set[int]) -> Found:
    made, host = superbox.plan, Host(superbox)
    released = []
    for start, end in itertools.pairwise([0, *cuts, len(feed)]):
        if start in restarts:
            host.restart()
        sources = made.checked.network.sources
        trains = {s.name: train(made, feed[start:end], start, s.name, place) for place, s in enumerate(sources)}
        released += host.batch(trains)
    return sorted_rows(made, released)


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
    assert run_in_stages(spread, feed, cuts, set(cuts) if restart else set()) == run(superbox, feed, [], set())


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
        got = run_in_stages(left, random_feed(seed), sorted(cuts), set())
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
