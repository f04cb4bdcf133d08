"""Vehicles assigned to trips: none is in two places, and the requested share returns."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slipstream._city.vehicle_assignment import AWAY_AT_LEAST, TripTable, assign_vehicles

trips = st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 900), st.booleans()), min_size=1, max_size=200)


def table(rows: list[tuple[int, int, bool]]) -> TripTable:
    rows = sorted(rows)
    n = len(rows)
    start = np.array([row[0] for row in rows], dtype=np.int32)
    end = np.array([row[0] + row[1] if row[2] else -1 for row in rows], dtype=np.int32)
    return TripTable(np.zeros(n, np.int32), np.zeros(n, np.int32), np.arange(n, dtype=np.int32), start, end)


@given(rows=trips, seed=st.integers(0, 2**63 - 1), returning=st.sampled_from([0.0, 0.3, 0.99]))
def test_a_vehicle_rests_between_trips(rows: list[tuple[int, int, bool]], seed: int, returning: float) -> None:
    all_trips = table(rows)
    vids, count = assign_vehicles(all_trips, seed, returning)
    assert sorted(set(vids.tolist())) == list(range(count))
    last: dict[int, int] = {}
    for vid, start, end in zip(vids.tolist(), all_trips.start.tolist(), all_trips.end.tolist(), strict=True):
        if vid in last:
            assert last[vid] >= 0, "a vehicle still on the road cannot start again"
            assert start >= last[vid] + AWAY_AT_LEAST
        last[vid] = end


def test_the_wanted_share_of_trips_is_a_return() -> None:
    n = 20_000
    start = np.arange(n, dtype=np.int32)
    rows = TripTable(np.zeros(n, np.int32), np.zeros(n, np.int32), np.arange(n, dtype=np.int32), start, start + 300)
    _, count = assign_vehicles(rows, 1, 0.25)
    assert 0.2 < (n - count) / n < 0.26
