"""GPS receivers on recorded movement: what they report is where the vehicle is, off by what was asked for."""

from __future__ import annotations

import csv
import json
import math
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream._bench.driving import gps_receivers as receivers
from slipstream._bench.driving.gps_receivers import CITY, MICROS, GpsReceiver, Movement
from slipstream._errors import BadArgument
from slipstream._moving.columns import MPoints, freeze

BEGIN = int(datetime(2026, 5, 4, 8, tzinfo=UTC).timestamp())
#: vertices of sequences of trips: seconds after BEGIN, x, y
TRIPS = {
    "B 1": [[(0.0, 0.0, 0.0), (100.0, 2000.0, 0.0), (400.0, 2000.0, 3000.0)]],
    "B 2": [[(30.5, 500.0, 500.0), (60.5, 500.0, 800.0)], [(200.0, 900.0, 900.0), (260.0, 0.0, 900.0)]],
    "parked": [[(0.0, 7.0, 7.0), (3000.0, 7.0, 7.0), (3100.0, 1007.0, 7.0)]],
}


def movement() -> Movement:
    rows, parts, starts, vertices = [0], [0], list[int](), list[tuple[float, float, float]]()
    for sequences in TRIPS.values():
        first = len(vertices)
        for sequence in sequences:
            starts.append(len(vertices) - first)
            vertices += sequence
        rows.append(len(vertices))
        parts.append(len(starts))
    t, x, y = (np.array(column) for column in zip(*vertices, strict=True))
    whole = [np.array(column, np.int32) for column in (rows, parts, starts)]
    micros = np.round((BEGIN + t) * MICROS).astype(np.int64)
    m = MPoints(*map(freeze, (whole[0], micros, x, y, whole[1], whole[2])))
    return Movement(pa.array(TRIPS), m, CITY)


def true_position(vehicle: str, t: float) -> tuple[float, float] | None:
    """Where a vehicle is, by its vertices."""
    for sequence in TRIPS[vehicle]:
        for (t0, x0, y0), (t1, x1, y1) in pairwise(sequence):
            if t0 - 1e-3 <= t <= t1 + 1e-3:
                share = (t - t0) / (t1 - t0)
                return x0 + share * (x1 - x0), y0 + share * (y1 - y0)
    return None


@given(interval=st.sampled_from([1.0, 7.0, 12.5]), jitter=st.sampled_from([0.0, 0.9]), seed=st.integers(0, 9))
def test_without_noise_positions_are_those_of_the_vehicles(interval: float, jitter: float, seed: int) -> None:
    reported = receivers.receive(movement(), GpsReceiver(interval, jitter=jitter, seed=seed)).to_pylist()
    last: dict[str, float] = {}
    for report in reported:
        t = report["time"] - BEGIN
        place = true_position(report["id"], min(t, 3100.0))
        x, y = CITY.project(report["lon"], report["lat"])
        if place is not None and report["id"] != "parked":
            assert math.dist(place, (float(x), float(y))) < 25 * jitter + 0.1
        assert t > last.get(report["id"], -1.0)
        last[report["id"]] = t
    assert [report["time"] for report in reported] == sorted(report["time"] for report in reported)


def test_speed_and_heading_are_those_of_the_way() -> None:
    found = [row for row in receivers.receive(movement(), GpsReceiver(10)).to_pylist() if row["id"] == "B 1"]
    assert {(row["speed"], row["heading"]) for row in found if row["time"] < BEGIN + 100} == {(72.0, 90.0)}
    assert {(row["speed"], row["heading"]) for row in found if row["time"] > BEGIN + 100} == {(36.0, 0.0)}
    assert len(found) in (40, 41)


def test_a_parked_vehicle_is_silent_after_five_minutes() -> None:
    times = [
        row["time"] - BEGIN
        for row in receivers.receive(movement(), GpsReceiver(10)).to_pylist()
        if row["id"] == "parked"
    ]
    assert [t for t in times if 311 < t < 2999] == []
    assert min(t for t in times if t > 311) < 3010


@given(cut=st.integers(1, 3099))
def test_a_feed_in_parts_is_the_same(cut: int) -> None:
    receiver = GpsReceiver(3, noise=9, loss=0.2, jitter=2.5)
    whole = receivers.receive(movement(), receiver)
    parts = [receivers.receive(movement(), receiver, *span) for span in ((0, cut), (cut, None))]
    assert pa.concat_tables(parts).equals(whole)


def test_noise_and_losses_are_as_large_as_asked_for() -> None:
    exact, blurred = (receivers.receive(movement(), GpsReceiver(0.1, noise=noise, jitter=0)) for noise in (0, 8))
    there, seen = (CITY.project(one["lon"].to_numpy(), one["lat"].to_numpy()) for one in (exact, blurred))
    for axis in (0, 1):
        assert np.std(seen[axis] - there[axis]) == pytest.approx(8, rel=0.05)
        assert abs(np.mean(seen[axis] - there[axis])) < 0.3
    fewer = receivers.receive(movement(), GpsReceiver(0.1, loss=0.25))
    assert fewer.num_rows / exact.num_rows == pytest.approx(0.75, abs=0.02)


def test_positions_are_written_second_by_second() -> None:
    found = receivers.receive(movement(), GpsReceiver(10))
    seconds = dict(receivers.split_seconds(found, BEGIN))
    assert sum(part.num_rows for part in seconds.values()) == found.num_rows
    assert all(int(row["time"]) - BEGIN == second for second, part in seconds.items() for row in part.to_pylist())
    lines = receivers.encoding("json").encode(found).splitlines()
    assert [json.loads(line) for line in lines] == found.to_pylist()
    rows = list(csv.reader(receivers.encoding("csv").encode(found).decode().splitlines()))
    assert [row[0] for row in rows] == found["id"].to_pylist()
    assert [float(row[2]) for row in rows] == found["lon"].to_pylist()


def test_positions_of_a_vehicle_stay_in_one_partition() -> None:
    found = receivers.receive(movement(), GpsReceiver(10))
    parts = receivers.spread_vehicles(found, 3)
    assert sum(part.num_rows for part in parts) == found.num_rows
    ids = [set(part["id"].to_pylist()) for part in parts]
    assert sum(map(len, ids)) == len(set.union(*ids)) == 3


@pytest.mark.parametrize(
    "settings", [{"interval": 0}, {"interval": math.nan}, {"loss": 1}, {"noise": -1}, {"interval": 5, "jitter": 5}]
)
def test_receivers_that_cannot_be_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(BadArgument, match="out of range"):
        GpsReceiver(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("centre", ["Berlin", "13", "13,52,1"])
def test_a_centre_that_is_no_place_is_refused(centre: str) -> None:
    with pytest.raises(BadArgument, match="not a place"):
        receivers.place_city(centre)


def test_the_middle_of_the_city_can_be_anywhere() -> None:
    lon, lat = receivers.place_city("-0.12,51.5").locate(9_500, 11_500)
    assert (round(float(lon), 6), round(float(lat), 6)) == (-0.12, 51.5)
    assert timedelta(seconds=movement().seconds) == timedelta(seconds=3101)
