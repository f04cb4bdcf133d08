"""Trips and rejects of sorted batches, against plain Python, however the positions arrive."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slipstream._moving import types
from slipstream._moving.space.systems import System
from slipstream._trajectories.cutting import assembling
from slipstream._trajectories.cutting.assembling import Assembler, assemble
from slipstream._trajectories.cutting.trip_rules import TripRules
from trajectories.oracle import Row, Trips, divide

SECOND = 1_000_000
GAP = 10 * SECOND
COLUMNS = pa.schema(
    [
        ("id", pa.string()),
        ("time", types.INSTANT),
        ("x", pa.float64()),
        ("y", pa.float64()),
        ("reason", pa.string()),
        ("given", pa.string()),
    ]
)


def positions(rows: list[Row]) -> pa.RecordBatch:
    """Rows as Spark's tasks see them: sorted."""
    ordered = sorted(rows)
    columns = list(zip(*ordered, strict=True)) if ordered else [()] * 4
    arrays = [pa.array(column, COLUMNS.field(n).type) for n, column in enumerate(columns)]
    return pa.RecordBatch.from_arrays([*arrays, *[pa.nulls(len(rows), pa.string())] * 2], schema=COLUMNS)


def run(batches: list[pa.RecordBatch], speed: float = float("inf")) -> list[dict[str, Any]]:
    assembler = Assembler(TripRules(GAP, speed), "", System(""))
    return [row for batch in assemble(assembler, batches) for row in batch.to_pylist()]


def micros(instants: list[Any]) -> list[int]:
    return pa.array(instants, types.INSTANT).view(pa.int64()).to_pylist()


def read_back(rows: list[dict[str, Any]]) -> tuple[Trips, Counter[tuple[Row, str]]]:
    trips, rejects = [], Counter()
    for row in rows:
        if row["reason"] is None:
            trip = row["Trip"]
            assert trip["starts"] == [0]
            vertices = list(zip(micros(trip["t"]), trip["x"], trip["y"], strict=True))
            trips.append((row["id"], row["number"], vertices))
        else:
            rejects[(row["id"], micros([row["time"]])[0], row["x"], row["y"]), row["reason"]] += 1
    for mover in {name for name, _, _ in trips}:
        numbers = [number for name, number, _ in trips if name == mover]
        assert numbers == list(range(1, len(numbers) + 1))
    return [(name, vertices) for name, _, vertices in trips], rejects


PLACES = st.sampled_from([0.0, 1.0, 2.0, 50.0])
ROWS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 40).map(lambda s: s * SECOND), PLACES, PLACES), max_size=40
)


@given(ROWS, st.sampled_from([1.0, 3.0, float("inf")]), st.lists(st.integers(0, 40), max_size=6), st.integers(1, 20))
@example([("a", 0, 50.0, 50.0), ("a", SECOND, 0.0, 0.0), ("a", 2 * SECOND, 0.0, 1.0)], 2.0, [], 5)
@example([("a", 0, 0.0, 0.0), ("a", 5 * SECOND, 50.0, 0.0), ("a", 12 * SECOND, 50.0, 1.0)], 3.0, [1, 2], 1)
def test_trips_and_rejects_are_those_of_the_rules(rows, speed, cuts, enough):
    """In any division into batches, and however many positions are judged at once."""
    whole, places = positions(rows), sorted({0, len(rows), *(cut for cut in cuts if cut <= len(rows))})
    batches = [whole.slice(a, b - a) for a, b in itertools.pairwise(places)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assembling, "_ENOUGH", enough)
        assembler = Assembler(TripRules(GAP, speed), "", System(""), _enough=enough)
        made = [row for batch in assemble(assembler, batches) for row in batch.to_pylist()]
    trips, rejects = divide(rows, GAP, speed)
    assert read_back(made) == (trips, rejects)
    assert sum(len(trip) for _, trip in trips) + rejects.total() == len(rows)


def test_a_jump_is_rejected_and_the_trip_goes_on():
    rows = [("a", n * SECOND, 10.0 * n, 0.0) for n in range(5)]
    rows[2] = ("a", 2 * SECOND, 5000.0, 0.0)
    made = run([positions(rows)], speed=20)
    assert [row["reason"] for row in made] == [None, "jump"]
    assert made[0]["Trip"]["x"] == [0.0, 10.0, 30.0, 40.0]


def test_a_mover_that_stays_where_it_jumped_to_begins_another_trip():
    rows = [("a", n * SECOND, 10.0 * n + 9000 * (n > 2), 0.0) for n in range(6)]
    trips, rejects = read_back(run([positions(rows)], speed=20))
    assert [len(vertices) for _, vertices in trips] == [3, 3]
    assert not rejects


def test_a_wrong_first_position_does_not_spoil_the_trip():
    rows = [("a", n * SECOND, 10.0 * n + 9000 * (n == 0), 0.0) for n in range(4)]
    trips, rejects = read_back(run([positions(rows)], speed=20))
    assert [len(vertices) for _, vertices in trips] == [3]
    assert [reason for _, reason in rejects] == ["jump"]


def test_of_two_places_at_one_instant_the_nearer_is_kept():
    rows = [("a", 0, 0.0, 0.0), ("a", SECOND, -900.0, 0.0), ("a", SECOND, 8.0, 0.0), ("a", SECOND, 8.0, 0.0)]
    trips, rejects = read_back(run([positions(rows)]))
    assert trips == [("a", [(0, 0.0, 0.0), (SECOND, 8.0, 0.0)])]
    assert {reason: key[2] for key, reason in rejects} == {"conflict": -900.0, "duplicate": 8.0}


def test_rows_that_were_unusable_before_are_rejects_with_their_text():
    batch = positions([("a", 0, 0.0, 0.0), ("a", SECOND, 1.0, 0.0)])
    faulty = batch.set_column(4, "reason", pa.array([None, "unreadable place"]))
    faulty = faulty.set_column(5, "given", pa.array([None, "soon, here, there"]))
    made = run([faulty])
    assert [(row["reason"], row["given"]) for row in made] == [("unreadable place", "soon, here, there"), (None, None)]


def test_places_that_the_plane_does_not_reach_are_outside():
    rows = [("a", 0, 13.4, 52.5), ("a", SECOND, -120.0, 52.5), ("b", 0, 13.4, 52.5)]
    assembler = Assembler(TripRules(GAP), "EPSG:4326", System("EPSG:32633"))
    made = [row for batch in assemble(assembler, [positions(rows)]) for row in batch.to_pylist()]
    assert sorted((row["id"], row["reason"] or "") for row in made) == [("a", ""), ("a", "outside"), ("b", "")]
    lost = next(row for row in made if row["reason"])
    assert (lost["x"], lost["y"]) == (-120.0, 52.5)


def test_a_trip_has_the_first_values_of_columns_that_are_kept():
    batch = positions([("a", n * SECOND, float(n), 0.0) for n in range(3)])
    batch = batch.add_column(4, "kind", pa.array(["van", "bus", None]))
    assembler = Assembler(TripRules(GAP), "", System(""), keep=("kind",))
    (made,) = [row for found in assemble(assembler, [batch]) for row in found.to_pylist()]
    assert made["kind"] == "van"
