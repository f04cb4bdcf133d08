"""What boxes refuse and nothing takes: every tuple is kept or rejected, with the first reason, in the right range."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from network.stages_in_memory import run
from oracles.network_engines import Feed
from slipstream._network import Builder, Keep, Network
from slipstream._network.flow import Train
from slipstream._network.planning.plan import plan
from slipstream._network.planning.stages import Home
from slipstream._network.running import rejects
from slipstream._network.schemas import check
from slipstream._network.tasks.parcels import Sorter
from slipstream._network.tasks.superbox import Superbox, TrainParcel

CAR = "CREATE CUBOID car (vid BIGINT KEY, speed UTINYINT AST(3), heat FLOAT, pos INT)"
SCHEMA = {"vid": "integer", "speed": "integer", "heat": "float", "pos": "integer"}

rows = st.lists(
    st.tuples(
        st.none() | st.integers(-(2**62), 2**62),
        st.none() | st.integers(-5, 300),
        st.none() | st.floats(allow_nan=False, allow_infinity=False, width=64),
        st.none() | st.integers(-(2**33), 2**33),
    ),
    max_size=40,
)


def reason(row: tuple[int | None, int | None, float | None, int | None]) -> str | None:
    """The first thing that is wrong with a row."""
    vid, speed, heat, pos = row
    checks = (
        ("no vid", vid is None),
        ("no speed", speed is None),
        ("speed does not fit into uint8", speed is not None and not 0 <= speed <= 255),
        ("no heat", heat is None),
        ("heat does not fit into float32", heat is not None and abs(heat) >= 3.4028235677973366e38),
        ("no pos", pos is None),
        ("pos does not fit into int32", pos is not None and not -(2**31) <= pos < 2**31),
    )
    return next((name for name, wrong in checks if wrong), None)


def network() -> Network:
    net = Builder("kept")
    net.source("reports", **SCHEMA).through(Keep(CAR), name="car").to("kept")
    return net.build()


@pytest.fixture(scope="module")
def superbox(spark: SparkSession) -> Superbox:
    checked = check(network(), spark)
    return Superbox(plan(checked, rejects.find_unconnected(checked.network)))


@given(rows)
@settings(max_examples=60)
def test_every_tuple_is_kept_or_rejected(superbox: Superbox, given_rows: list[tuple[Any, ...]]) -> None:
    feed: Feed = [("reports", 1000 + n, dict(zip(SCHEMA, row, strict=True))) for n, row in enumerate(given_rows)]
    got = run(superbox, feed, [], set())
    reasons = [reason(row) for row in given_rows]
    kept = [(row["vid"], row["speed"], row["pos"]) for row in got["kept"]]
    assert kept == [(v, s, p) for (v, s, _, p), why in zip(given_rows, reasons, strict=True) if why is None]
    assert [row["reason"] for row in got["car.rejects"]] == [why for why in reasons if why]


def test_a_rejected_tuple_is_a_row_of_the_jobs_rejects(superbox: Superbox) -> None:
    columns = {"vid": np.array([7]), "speed": np.array([300]), "heat": np.array([np.nan]), "pos": np.array([5])}
    columns["reason"] = np.array(["speed does not fit into uint8"], object)
    keys = len(superbox.plan.keys)
    train = Train(np.array([1]), np.zeros(1, np.int64), np.zeros((1, keys), np.int64), columns)
    made = rejects.convert_rejects("car.rejects", train, superbox.plan)
    (row,) = [dict(zip(made.columns, values, strict=True)) for values in zip(*made.columns.values(), strict=True)]
    assert (row["source"], row["reason"]) == ("car", "speed does not fit into uint8")
    assert json.loads(row["line"]) == {"vid": 7, "speed": 300, "heat": None, "pos": 5}


@given(st.lists(st.integers(-20, 20), max_size=30), st.lists(st.integers(-15, 15), unique=True, min_size=1, max_size=4))
def test_ranges_say_where_a_key_goes(keys: list[int], bounds: list[int]) -> None:
    bounds.sort()
    count = len(keys)
    train = Train(
        np.arange(count), np.zeros(count, np.int64), np.zeros((count, 2), np.int64), {"vid": np.array(keys, np.int64)}
    )
    sorter = Sorter({1: Home(1, ("vid",), bounds=tuple(bounds))}, len(bounds) + 1, stage=1)
    parts = sorter.sort([TrainParcel(1, 1, train)])
    for number, parcels in enumerate(parts):
        got = [vid for parcel in parcels for vid in parcel.train.columns["vid"].tolist()]
        assert got == [vid for vid in keys if sum(vid >= bound for bound in bounds) == number]
