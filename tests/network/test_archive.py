"""An archive in a network: the oracle's trips from any stream, in any trains and after any restarts."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from commands import Slipstream
from network.test_stage import Captured
from oracles.trips import cut
from slipstream._archive import open_archive
from slipstream._errors import BadInput
from slipstream._io import outputs
from slipstream._io.chunks import CHUNK, LAST, to_arrow_stream
from slipstream._network import Builder, Train, yaml_files
from slipstream._network.boxes.archive import REASONS, to_trips
from slipstream._network.planning.plan import Plan, plan
from slipstream._network.running.train_folder import SEQ, TS
from slipstream._network.schemas import check
from slipstream._network.tasks.operators_in_spark import Carrier, StageBoxes, SuperboxStage
from slipstream._network.tasks.parcels import Row, read_rows, record_batch, to_frame
from slipstream._network.tasks.sink import Tuples
from slipstream._network.tasks.superbox import Superbox
from slipstream._runtime.stages.memory import Host
from slipstream._runtime.state.store import MemoryStore

Points = list[tuple[Any, Any, Any, Any]]


def network(id_type: str, gap: float, lateness: float | None) -> Builder:
    net = Builder("archive")
    cars = net.source("cars", vin=id_type, ts="integer", lon="float", lat="float")
    cars.archive("trips", id="vin", time="ts", x="lon", y="lat", gap=gap, lateness=lateness)
    return net


def superbox(id_type: str = "text", gap: float = 10, lateness: float | None = None) -> Superbox:
    return Superbox(plan(check(network(id_type, gap, lateness).build(), None)))


def train(made: Plan, points: Points, first: int, id_type: str) -> Train:
    order = np.zeros((len(points), len(made.keys)), np.int64)
    order[:, 0] = np.arange(first, first + len(points))
    kinds: list[Any] = [object if id_type == "text" else np.int64, np.int64, float, float]
    columns = {
        name: np.array(list(column), kind)
        for name, column, kind in zip(("vin", "ts", "lon", "lat"), zip(*points, strict=True), kinds, strict=True)
    }
    return Train(order[:, 0] * 1000, np.zeros(len(points), np.int64), order, columns)


def run(box: Superbox, points: Points, cuts: list[int], id_type: str, *, restart: bool) -> dict[str, list[Any]]:
    """What leaves the box, in order, with the order keys; the input ends with the last train."""
    boxes = StageBoxes.fresh(box)
    stores = [MemoryStore() for _ in boxes.stores]
    found: dict[str, list[Any]] = {"trips": [], "trips_rejects": []}
    marks = [0, *sorted(cuts), len(points)]
    for batch, (start, end) in enumerate(itertools.pairwise(marks)):
        if batch and restart:
            boxes = StageBoxes.load(box, stores)
        trains = {"cars": train(box.plan, points[start:end], start, id_type)} if end > start else {}
        for name, out in box.step(boxes.states, trains, last=batch == len(marks) - 2):
            rows = zip(*(values.tolist() for values in out.columns.values()), strict=True)
            found[name] += zip(out.order.tolist(), out.ts.tolist(), rows, strict=True)
        boxes.save(stores, batch)
    assert not any(stores[1].values())  # nothing is left when the input has ended
    return found


@settings(max_examples=150)
@given(
    points=st.lists(st.tuples(st.sampled_from("abcd"), st.integers(-8, 14)), min_size=1, max_size=60),
    cuts=st.lists(st.integers(0, 60), max_size=6),
    lateness=st.sampled_from([None, 0, 5, 25]),
    restart=st.booleans(),
    id_type=st.sampled_from(["text", "integer"]),
)
def test_any_trains_and_restarts_give_the_oracles_trips(
    points: list[tuple[str, int]], cuts: list[int], lateness: float | None, restart: bool, id_type: str
) -> None:
    times = 1_700_000_000 + np.cumsum([step for _, step in points])
    whose: list[Any] = [who if id_type == "text" else ord(who) - 99 for who, _ in points]
    stream = [(who, int(t), float(i), -0.5 * i) for i, (who, t) in enumerate(zip(whose, times, strict=True))]
    box = superbox(id_type, 10, lateness)
    found = run(box, stream, [min(cut_, len(stream)) for cut_ in cuts], id_type, restart=restart)
    trips, refused = cut(stream, 10, 10 if lateness is None else lateness)
    by_number: dict[int, tuple[Any, list[Any]]] = {}
    for _, _, (who, number, *point) in found["trips"]:
        by_number.setdefault(number, (who, []))[1].append(tuple(point))
    assert sorted(by_number.values()) == trips
    assert [(order[0], row[-1]) for order, _, row in sorted(found["trips_rejects"])] == refused
    # the same tuples at the same places, whatever the trains
    assert found == run(box, stream, [], id_type, restart=False)


def test_the_state_of_an_archive_is_measured() -> None:
    box = superbox()
    boxes = StageBoxes.fresh(box)
    [(name, empty)] = boxes.measure({}).items()
    points: Points = [("a", 1_700_000_000, 0.0, 0.0), ("b", 1_700_000_001, 0.0, 0.0), ("a", 1_700_000_002, 1.0, 0.0)]
    box.step(boxes.states, {"cars": train(box.plan, points, 0, "text")}, last=False)
    work = boxes.measure({name: 2_000_000})[name]
    assert (work.ms, work.bytes > empty.bytes) == (2.0, True)
    assert work.rows - empty.rows >= len(points)


def in_partitions(frames: Iterable[pd.DataFrame]) -> dict[int, list[pd.DataFrame]]:
    rows = pd.concat(list(frames))
    return {int(key): [mine] for key, mine in rows.groupby("key")}


@settings(max_examples=20)
@given(
    points=st.lists(st.tuples(st.sampled_from("abcd"), st.integers(-8, 14)), min_size=2, max_size=40),
    at=st.integers(1, 39),
    restart=st.booleans(),
)
def test_trips_end_in_all_stages_when_the_last_source_has_ended(
    points: list[tuple[str, int]], at: int, restart: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """In two partitions, behind a box that is divided by the id; another source ends a batch later."""
    net = Builder("stages")
    cars = net.source("cars", vin="text", ts="integer", lon="float", lat="float")
    counted = cars.running({"n": "count(*)"}, "vin")
    counted.archive("trips", id="vin", time="ts", x="n", y="lat", gap=10)
    net.source("other", n="integer").filter("n > 0").to("others")
    made = net.build()
    box = Superbox(plan(check(made, None)), parallel=2)
    sink = Captured(str(tmp_path_factory.mktemp("out")), made)
    stages = [SuperboxStage("test", box, sink, number) for number in range(1, box.stages.count + 1)]
    assert len(stages) == 2
    host, carrier = Host(stages, divide=in_partitions), Carrier(box, None)
    times = np.cumsum([step for _, step in points]).tolist()
    seen: Counter[str] = Counter()
    stream = []
    for (who, _), t in zip(points, times, strict=True):
        seen[who] += 1
        stream.append((who, t, float(seen[who]), 0.0))
    open_trips = 0
    for batch, (start, end) in enumerate([(0, at), (at, len(stream)), (len(stream), len(stream))]):
        rows = [Row(0, 0, start, CHUNK, 0, chunk_of(stream[start:end], start))] if end > start else []
        rows += [Row(0, batch - 1, 1 << 32, LAST, 0, b"")] if batch else []
        if not rows:
            continue
        if restart:
            host.restart()
        before = len(sink.found)
        host.run([to_frame(list(read_rows(carrier(iter([record_batch(rows)])))))])
        open_trips = sum(name == "trips" for name, _ in sink.found[before:])
    found: dict[int, tuple[str, list[Any]]] = {}
    for name, tuples in sink.found:
        if name == "trips":
            for who, number, *point in zip(*(values.tolist() for values in tuples.columns.values()), strict=True):
                found.setdefault(number, (who, []))[1].append(tuple(point))
    assert sorted(found.values()) == cut(stream, 10, 10)[0]
    assert open_trips  # the last trips are over only when both sources are


def chunk_of(points: Points, first: int) -> bytes:
    names = ("vin", "ts", "lon", "lat")
    numbers = np.arange(first, first + len(points))
    columns = dict(zip(names, map(list, zip(*points, strict=True)), strict=True))
    return to_arrow_stream(pa.table({SEQ: numbers, TS: numbers * 1000, **columns}))


@pytest.mark.parametrize(
    ("point", "reason"),
    [
        ((None, 1, 0.0, 0.0), "null"),
        (("a", -(2**63), 0.0, 0.0), "null"),
        (("a", 1, np.nan, 0.0), "null"),
        (("a", 1, 0.0, np.inf), "null"),
        (("a", 10**13, 0.0, 0.0), "time"),
    ],
)
def test_what_cannot_be_a_point_is_rejected_with_the_reason(point: tuple[Any, ...], reason: str) -> None:
    found = run(superbox(), [("a", 5, 1.0, 1.0), point, ("a", 6, 2.0, 2.0)], [], "text", restart=False)  # type: ignore[list-item]
    assert [row for _, _, row in found["trips"]] == [("a", 0, 5.0, 1.0, 1.0), ("a", 0, 6.0, 2.0, 2.0)]
    assert [row[-1] for _, _, row in found["trips_rejects"]] == [reason]
    assert reason in REASONS


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": "lon"}, "'lon' is double"),
        ({"time": "vin"}, "'vin' is string"),
        ({"x": "nowhere"}, "no column 'nowhere'"),
        ({"gap": 0}, "gap or lateness is out of range"),
        ({"lateness": -1}, "gap or lateness is out of range"),
    ],
)
def test_columns_that_cannot_make_trips_are_refused(columns: dict[str, Any], message: str) -> None:
    net = Builder("archive")
    cars = net.source("cars", vin="text", ts="integer", lon="float", lat="float")
    cars.archive("trips", **{"id": "vin", "time": "ts", "x": "lon", "y": "lat", "gap": 10, **columns})
    with pytest.raises(BadInput, match=message):
        check(net.build(), None)


YAML = """
network: archive
version: 1
sources:
  cars: {vin: text, ts: integer, lon: float, lat: float, speed: float}
boxes:
  fast: {filter: [speed > 90], from: cars}
outputs:
  fast: {from: fast, to: text:fast.csv}
  trips: {from: cars, archive: {id: vin, time: ts, x: lon, y: lat, gap: 300}}
"""


def test_an_archive_in_a_file_is_a_box_and_two_outputs() -> None:
    made = yaml_files.loads(YAML)
    assert [(output.name, str(output.arc)) for output in made.outputs] == [
        ("fast", "fast"),
        ("trips", "archive_trips"),
        ("trips_rejects", "archive_trips.1"),
    ]
    text = yaml_files.dumps(made)
    assert yaml_files.loads(text) == made
    assert "archive_trips" not in text
    with pytest.raises(BadInput, match=r"trips\.archive: 'gap' is missing"):
        yaml_files.loads(YAML.replace(", gap: 300", ""))
    with pytest.raises(BadInput, match="outside the folder"):
        yaml_files.loads(YAML.replace("fast.csv", "/etc/fast.csv"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("trips: {from: archive_trips}", "trips: {from: archive_trips, view: true}"),
        ("trips_rejects: {from: archive_trips.rejects}", "trips_rejects: {from: archive_trips.rejects, view: true}"),
        ("trips_rejects: {from: archive_trips.rejects}", "refused: {from: archive_trips.rejects}"),
        ("  fast: {from: fast", "  again: {from: archive_trips}\n  fast: {from: fast"),
        ("{filter: [speed > 90], from: cars}", "{filter: [trip > 90], from: archive_trips}"),
        ("gap: 300}", "gap: 300}, note: by hand"),
    ],
)
def test_an_archive_box_that_is_written_out_stays_one(old: str, new: str) -> None:
    box = "archive_trips: {operator: archive, parameters: {id: vin, time: ts, x: lon, y: lat, gap: 300}, from: cars}"
    text = YAML.partition("  trips:")[0].replace("outputs:", f"  {box}\noutputs:")
    text += "  trips: {from: archive_trips}\n  trips_rejects: {from: archive_trips.rejects}\n"
    assert old in text
    made = yaml_files.loads(text.replace(old, new))
    assert yaml_files.loads(yaml_files.dumps(made)) == made


def test_points_become_moving_points() -> None:
    made = superbox()
    found = run(made, [("a", 5, 1.0, 1.0), ("b", 6, 7.0, 7.0), ("a", 8, 2.0, 3.0)], [], "text", restart=False)
    names = ("vin", "trip", "time", "x", "y")
    columns = dict(zip(names, map(np.array, zip(*(row for _, _, row in found["trips"]), strict=True)), strict=True))
    columns["vin"] = columns["vin"].astype(object)
    types = {"vin": "text", "trip": "integer", "time": "float", "x": "float", "y": "float"}
    box = made.plan.checked.network.node("archive_trips").box
    rows = to_trips(box, Tuples(np.zeros(3), {}, columns, types).arrays()).to_pylist()  # type: ignore[arg-type]
    assert [(row["vin"], row["Trip"]["x"], row["Trip"]["y"]) for row in rows] == [
        ("a", [1.0, 2.0], [1.0, 3.0]),
        ("b", [7.0], [7.0]),
    ]
    assert [str(t) for t in rows[0]["Trip"]["t"]] == ["1970-01-01 00:00:05+00:00", "1970-01-01 00:00:08+00:00"]


def vertices(trip: Any) -> list[tuple[float, float, float]]:
    return list(zip((t.timestamp() for t in trip["t"]), trip["x"], trip["y"], strict=True))


def test_a_recording_is_archived_and_sent_in_one_run(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    stream = [(f"car {n % 3}", 60 * n, n / 10, -n / 10) for n in range(40) if n % 13 < 9] + [("car 0", 5, 0.0, 0.0)]
    lines = [f"{vin},{ts},{lon},{lat},{100 if ts % 7 else 50}" for vin, ts, lon, lat in stream]
    (tmp_path / "cars.csv").write_text("\n".join(["vin,ts,lon,lat,speed", *lines, ""]))
    (tmp_path / "net.yaml").write_text(YAML)
    out = tmp_path / "out"
    command = ["network", "run", tmp_path / "net.yaml", "--out", out, "--train", 7]
    done = Slipstream(capsys)(*command, "--input", f"cars={tmp_path / 'cars.csv'}", "--to", "trips=console")
    assert done.code == 0, done.err
    trips, refused = cut(stream, 300, 300)
    rows = sorted(open_archive(spark, out).collect())
    found = [(row["vin"], vertices(row["Trip"])) for row in rows]
    assert found == trips
    assert len(done.out.splitlines()) == len(trips)
    assert outputs.read(out, "trips_rejects")["reason"].to_pylist() == [reason for _, reason in refused] == ["late"]
    fast = (out / "fast.csv").read_text().splitlines()
    assert len(fast) == 1 + sum(1 for _, ts, _, _ in stream if ts % 7)
