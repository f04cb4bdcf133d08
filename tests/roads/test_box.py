"""The match box: the answers for whole trips, wherever the stream is cut, at most the lag later."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slipstream as ss
from roads.test_viterbi import LINE, street
from slipstream._api.trips.roads import Roads
from slipstream._moving.moving_point import MovingPoint, to_arrow
from slipstream._moving.space.plane import Plane
from slipstream._network import yaml_files as files
from slipstream._roads.importing.graph_building import build
from slipstream._roads.importing.projecting import move_to_utm
from slipstream._roads.matching.match_columns import match_trips
from slipstream._roads.matching.matcher import Matcher, open_matcher
from slipstream._roads.matching.model import Model
from slipstream._roads.matching.speeding_rules import speeding_points
from slipstream._roads.matching.viterbi import STATUS
from slipstream._roads.road_tables import save_roads
from slipstream.testing import MemoryHost, MemorySource

TOWN = build(
    [
        *[street((200.0 * i, 0), (200.0 * i, 600)) for i in range(4)],
        *[street((0, 200.0 * i), (600, 200.0 * i)) for i in range(4)],
    ]
)
SCHEMA = {"id": "string", "time": "bigint", "x": "double", "y": "double", "note": "string"}


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("town")
    save_roads(TOWN, folder)
    return folder


def feed(seed: int, count: int = 90) -> list[dict[str, Any]]:
    """Vehicles that wander, fall silent, jump and leave the roads; some tuples cannot be used."""
    rng = np.random.default_rng(seed)
    place = {name: rng.uniform(0, 600, 2) for name in "abc"}
    rows, now = [], 0
    for i in range(count):
        name = "abc"[int(rng.integers(0, 1 + min(i // 10, 2)))]
        now += int(rng.choice([0, 1, 1, 2, 10, 40], p=[0.3, 0.3, 0.2, 0.1, 0.08, 0.02]))
        place[name] = (place[name] + rng.normal(0, 30, 2)) % 700
        x, y = place[name] + (9000 if rng.random() < 0.03 else 0)
        late = int(rng.choice([0, 0, 0, 3, 20]))
        rows.append({"id": name, "time": now - late, "x": float(x), "y": float(y), "note": f"{name}{i}"})
        if rng.random() < 0.05:
            rows[-1][str(rng.choice(["id", "x", "time"]))] = None
    return rows


def run(town: Path, rows: list[dict[str, Any]], per_batch: int, crash: bool = False) -> dict[str, list[dict[str, Any]]]:
    cars = ss.read(MemorySource(SCHEMA, rows, per_batch=per_batch))
    matched = cars.match(town, lag="8s", lateness="5s", noise=5)
    job = ss.Job("out").write(matched, name="on").write(matched.output("rejects"), name="unused")
    host = MemoryHost(job)
    if crash:
        host.step(crash=True)
    return host.run()


def same(one: Any, other: Any) -> bool:
    """Equal, also where a number is missing."""
    return one == other or (
        isinstance(one, float) and isinstance(other, float) and math.isnan(one) and math.isnan(other)
    )


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), per_batch=st.integers(1, 50))
def test_any_batches_give_the_same_tuples_in_the_same_order(town: Path, seed: int, per_batch: int) -> None:
    rows = feed(seed)
    whole, pieces = run(town, rows, 1000), run(town, rows, per_batch, crash=True)
    for name, tuples in whole.items():
        assert [row["note"] for row in tuples] == [row["note"] for row in pieces[name]]
        for one, other in zip(tuples, pieces[name], strict=True):
            assert all(same(one[column], other[column]) for column in one), (one, other)
    assert len(whole["on"]) + len(whole["unused"]) == len(rows)
    assert {row["reason"] for row in whole["unused"]} <= {"null", "late", "order", "time"}


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000))
def test_the_answers_are_those_for_whole_trips_with_the_same_lag(town: Path, seed: int) -> None:
    tuples = run(town, feed(seed), 17)["on"]
    matcher = Matcher(TOWN, Model(noise=5, lag=8))
    for name in "abc":
        mine = sorted((row for row in tuples if row["id"] == name), key=lambda row: row["time"])
        t, x, y = (np.array([row[column] for row in mine]) for column in ("time", "x", "y"))
        if not mine:
            continue
        found = matcher.match(np.array([0, len(mine)]), t.astype(np.int64) * 1_000_000, x, y)
        assert STATUS[found.status].tolist() == [row["status"] for row in mine]
        on = found.status == 0
        assert found.edge[on].tolist() == [row["edge"] for row in mine if row["status"] == "on"]
        assert found.offset[on].tolist() == [row["offset"] for row in mine if row["status"] == "on"]
        assert np.cumsum(found.starts)[on].tolist() == [row["stretch"] for row in mine if row["status"] == "on"]


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), over=st.sampled_from([0.0, 20.0]), data=st.data())
def test_speeding_live_is_speeding_in_history(town: Path, seed: int, over: float, data: st.DataObject) -> None:
    rows = feed(seed)
    matched = ss.read(MemorySource(SCHEMA, rows, per_batch=13)).match(town, lag="8s", lateness="5s", noise=5)
    job = ss.Job("out").write(matched.speeding(over, seconds=3), name="fast").write(matched, name="on")
    live = MemoryHost(job).run()
    until = data.draw(st.integers(0, max(row["time"] for row in live["on"])))
    history = archive(live["on"], until)
    if not history:
        return
    points = match_trips(open_matcher(town, Model(noise=5, lag=8)), to_arrow(list(history.values()))).field("points")
    found = speeding_points(points, 3.0, np.full(len(history), over)).to_pylist()
    # what is younger than the lag may still change
    known = {
        (name, round(one["t"].timestamp()), round(one["speed_kmh"], 6))
        for name, some in zip(history, found, strict=True)
        for one in some
        if one["t"].timestamp() <= until - 8
    }
    fast = {(row["id"], row["time"], round(row["speed_kmh"], 6)) for row in live["fast"] if row["time"] <= until - 8}
    assert fast == known
    assert fast == {one for one in by_hand(live["on"], over) if one[1] <= until - 8}


def archive(rows: list[dict[str, Any]], until: int) -> dict[str, MovingPoint]:
    """The trips up to a time."""
    found = {}
    for name in sorted({row["id"] for row in rows if row["time"] <= until}):
        mine = sorted((row["time"], row["x"], row["y"]) for row in rows if row["id"] == name and row["time"] <= until)
        t, x, y = zip(*mine, strict=True)
        found[name] = MovingPoint(np.array(t) * 1_000_000, np.array(x), np.array(y), np.zeros(1, np.int32))
    return found


def by_hand(rows: list[dict[str, Any]], over: float) -> Iterator[tuple[str, int, float]]:
    """The rule, one matched position at a time."""
    for name in "abc":
        mine = sorted((row for row in rows if row["id"] == name and row["status"] == "on"), key=lambda row: row["time"])
        since: list[dict[str, Any]] = []
        for row in mine:
            if since and row["stretch"] == since[0]["stretch"]:
                seconds = row["time"] - since[0]["time"]
                since.append(row)
                if seconds < 3:
                    continue
                metres = math.dist(*((one["matched_x"], one["matched_y"]) for one in (row, since[0])))
                if 3.6 * metres / seconds > max(one["limit_kmh"] for one in since) + over:
                    yield name, row["time"], round(3.6 * metres / seconds, 6)
            since = [row]


def test_no_position_waits_longer_than_the_lag_and_the_lateness(town: Path) -> None:
    matched = ss.read(MemorySource(SCHEMA)).match(town, lag="8s", lateness="5s", noise=5)
    host = MemoryHost(ss.Job("out").write(matched, name="on").write(matched.output("rejects"), name="unused"))
    waiting: dict[str, int] = {}
    newest = 0
    for row in (row for row in feed(3, 120) if None not in row.values()):
        waiting[row["note"]], newest = row["time"], max(newest, row["time"])
        found = host.send([row])
        for out in (*found["on"], *found["unused"]):
            waiting.pop(out["note"])
        assert not [note for note, time in waiting.items() if newest - time > 8 + 5]


def test_matched_positions_know_the_limit_and_the_class(tmp_path: Path) -> None:
    save_roads(LINE, tmp_path)
    rows = [{"id": "a", "time": 10 * i, "x": 100.0 * i, "y": 0.0, "note": ""} for i in range(5)]
    first = run(tmp_path, rows, 10)["on"][0]
    assert (first["limit_kmh"], first["road_class"], first["direction"], first["stretch"]) == (50.0, "other", 1, 1)


def test_degrees_are_matched_like_the_metres_that_they_are(tmp_path: Path) -> None:
    plane = Plane(13.4, 52.5)
    network = move_to_utm(TOWN, plane)
    save_roads(network, tmp_path)
    assert network.plane is not None
    degrees, metres = [], []
    for row in (row for row in feed(5) if None not in row.values()):
        lon, lat = map(float, plane.locate(row["x"], row["y"]))
        x, y = map(float, network.plane.project(lon, lat))
        degrees.append({**row, "x": lon, "y": lat})
        metres.append({**row, "x": x, "y": y})
    degrees.append({"id": "d", "time": degrees[-1]["time"], "x": 200.0, "y": 95.0, "note": "not on the globe"})
    cars = ss.read(MemorySource(SCHEMA, degrees)).match(tmp_path, lag="8s", lateness="5s", noise=5, degrees=True)
    found = MemoryHost(ss.Job("out").write(cars, name="on").write(cars.output("rejects"), name="unused")).run()["on"]
    expected = run(tmp_path, metres, 1000)["on"]
    by_note = {row["note"]: (row["status"], row["edge"]) for row in found}
    assert by_note.pop("not on the globe")[0] == "off"
    assert by_note == {row["note"]: (row["status"], row["edge"]) for row in expected}


def test_roads_that_are_nowhere_cannot_be_matched_in_degrees(town: Path) -> None:
    with pytest.raises(ss.BadInput, match="on the globe is unknown"):
        ss.read(MemorySource(SCHEMA)).match(town, degrees=True).columns  # noqa: B018


def test_a_file_names_the_box(town: Path) -> None:
    cars = ss.read("kafka://broker:9092/cars", {"id": "string", "time": "bigint", "x": "double", "y": "double"})
    network = cars.match(town, lag="20s").network
    assert files.loads(files.dumps(network)) == network


def test_mistakes_are_named(town: Path, tmp_path: Path) -> None:
    cars = ss.read("kafka://broker:9092/cars", {"id": "string", "time": "bigint", "x": "double", "y": "string"})
    with pytest.raises(ss.BadInput, match="column 'y' is string"):
        cars.match(town)
    with pytest.raises(ss.BadInput, match="noise -1: out of range"):
        cars.match(town, y="x", noise=-1).columns  # noqa: B018
    with pytest.raises(ss.BadArgument, match="no such folder"):
        cars.match(tmp_path / "nowhere")
    roads = Roads(TOWN, "town.csv", {})
    with pytest.raises(ss.BadArgument, match="in the memory of this process only"):
        cars.match(roads)
    taken = ss.read(
        "kafka://broker:9092/cars", {"id": "string", "time": "bigint", "x": "double", "y": "double", "edge": "bigint"}
    )
    with pytest.raises(ss.BadInput, match="'edge' is reserved"):
        taken.match(town)
