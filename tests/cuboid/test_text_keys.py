"""Cuboids whose keys are texts against dictionaries: numbered, stored, published, read and asked by text."""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream._cuboid import declare
from slipstream._cuboid.query.access import Reference
from slipstream._cuboid.query.one_off import run_query
from slipstream._cuboid.query.sql import Query
from slipstream._cuboid.schema import Schema
from slipstream._cuboid.snapshots import publish, snapshot_files
from slipstream._cuboid.snapshots.snapshot import Snapshot
from slipstream._errors import BadArgument, BadInput
from slipstream._feeds.text_ids import assign_parts
from slipstream._io.outputs.journal import Batch, append
from slipstream._network.boxes.cuboids import KeptCuboid
from slipstream._runtime.state.store import MemoryStore

DEPTH, PARTS = 3, 2
TEXT = "CREATE CUBOID car (vin STRING KEY, speed INT AST(3), lane INT)"
CAR = declare.parse(TEXT).cuboids["car"]

keys = st.sampled_from(["a", "B", "b", "aa", "WVW 1", "WVW 2", "ü", "日本", "'", "9", "10"])
batches = st.lists(
    st.tuples(st.lists(st.tuples(keys, st.integers(-9, 9)), max_size=8), st.sampled_from(["go on", "restart", "lose"])),
    min_size=1,
    max_size=6,
)
Plain = dict[str, tuple[deque[int], int]]


def test_a_declaration_says_that_a_key_is_text() -> None:
    assert CAR.text_key
    assert declare.parse(declare.format_declarations("car", CAR, {})).cuboids["car"] == CAR
    assert Schema.from_json(json.loads(json.dumps(CAR.to_json()))) == CAR
    assert not declare.parse("CREATE CUBOID car (vin INT KEY)").cuboids["car"].text_key
    with pytest.raises(BadArgument, match="only the key can be"):
        declare.parse("CREATE CUBOID car (vin STRING KEY, colour STRING)")


class Job:
    """Keep boxes of several partitions and their journal, in memory and in a folder."""

    def __init__(self, out: Path) -> None:
        self.out, self.batch = out, 0
        self.kept = [KeptCuboid("car", CAR) for _ in range(PARTS)]
        self.stores = [[MemoryStore(), MemoryStore()] for _ in range(PARTS)]
        snapshot_files.Catalogue({"car": CAR}).write(out / "snapshot")

    def take(self, rows: list[tuple[str, int]]) -> list[tuple[Any, ...]]:
        """Take a batch in; returns what a continuous query finds, part by part."""
        names, found = np.array([name for name, _ in rows], object), []
        speeds, parts = (
            np.array([speed for _, speed in rows], np.int32),
            assign_parts(pa.array(names, pa.string()), PARTS),
        )
        query = Query.parse("SELECT vin, speed[-1] FROM car WHERE vin <> 'b'", {"car": CAR})
        for number, (kept, stores) in enumerate(zip(self.kept, self.stores, strict=True)):
            mine = parts == number
            kept.take(names[mine], {"speed": speeds[mine], "lane": speeds[mine] % 4})
            if (arrivals := kept.arrivals(int(mine.sum()))) is not None:
                found += list(zip(*(column.tolist() for column in query.compute(arrivals).values()), strict=True))
            kept.save(stores, self.batch)
            kept.publish(self.out / "snapshot", number, self.batch)
        return found

    def commit(self) -> None:
        append(self.out, Batch(self.batch, 0))
        self.batch += 1

    def restart(self, stored: list[list[dict[int, bytes]]]) -> None:
        for number in range(PARTS):
            self.stores[number] = [MemoryStore(entries) for entries in stored[number]]
            self.kept[number] = KeptCuboid("car", CAR)
            self.kept[number].load(self.stores[number])


def expected_of(plain: Plain, rows: list[tuple[str, int]]) -> list[tuple[Any, ...]]:
    found = []
    for name, speed in rows:
        past, _ = plain.setdefault(name, (deque(maxlen=DEPTH), 0))
        past.appendleft(speed)
        plain[name] = (past, speed % 4)
        if name != "b":
            found.append((name, past[1] if len(past) > 1 else None))
    return found


@given(batches, st.integers(1, 4))
@settings(max_examples=60)
def test_any_batches_restarts_and_lost_batches_give_what_dictionaries_give(
    steps: list[tuple[list[tuple[str, int]], str]], images: int
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(publish, "MOST_DELTAS", images)
        job, plain = Job(Path(folder)), Plain()
        old = Snapshot.open(folder)
        for rows, end in steps:
            stored = [[dict(store.items()) for store in stores] for stores in job.stores]
            found = job.take(rows)
            if end == "lose":  # before the commit
                job.restart(stored)
                found = job.take(rows)
            assert found_rows(found) == sorted(expected_of(plain, rows), key=str)
            job.commit()
            if end == "restart":
                job.restart([[dict(store.items()) for store in stores] for stores in job.stores])
            old.refresh()
            for snapshot in (old, Snapshot.open(folder)):
                check_snapshot(snapshot, plain)


def found_rows(found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(((name, None if np.isnan(value) else value) for name, value in found), key=str)


def check_snapshot(snapshot: Snapshot, plain: Plain) -> None:
    cars = snapshot["car"]
    assert len(cars) == len(plain)
    assert sorted(cars.scan(["key"])["key"].tolist()) == sorted(plain)
    wanted = [*plain, "nobody", ""]
    read = cars.read(wanted, ["key", "lane"])
    assert read["found"].tolist() == [True] * len(plain) + [False, False]
    assert read["key"][: len(plain)].tolist() == list(plain)
    for name, (past, lane) in plain.items():
        assert cars.get(name) == {"vin": name, "speed": list(past), "lane": lane}
        assert read["lane"][wanted.index(name)] == lane
        quoted = name.replace("'", "''")
        assert Reference.parse(f"CAR['{quoted}'].speed[0]").of(cars[name]) == past[0]
        assert run_query(
            snapshot, f"SELECT lane FROM car WHERE vin = '{name}'" if "'" not in name else "SELECT 1 FROM car"
        )
    assert cars.get("nobody") is None
    assert {row["vin"]: row["lane"] for row in cars.newest(100)} == {name: lane for name, (_, lane) in plain.items()}
    in_order = run_query(snapshot, "SELECT vin, speed[0] AS s FROM car ORDER BY vin DESC")
    assert in_order["vin"].tolist() == sorted(plain, reverse=True)
    assert in_order["s"].tolist() == [plain[name][0][0] for name in sorted(plain, reverse=True)]
    some = run_query(snapshot, "SELECT key FROM car WHERE vin IN ('a', 'b', 'x') OR vin > 'WVW 1'")
    assert sorted(some["key"].tolist()) == sorted(n for n in plain if n in ("a", "b") or n > "WVW 1")
    grouped = run_query(snapshot, "SELECT vin, count(*) AS n, count(vin) AS m, max(lane) AS l FROM car GROUP BY vin")
    assert dict(zip(grouped["vin"], grouped["l"], strict=True)) == {name: lane for name, (_, lane) in plain.items()}
    assert set(grouped["n"].tolist()) | set(grouped["m"].tolist()) <= {1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT vin + 1 FROM car", "vin is text, a number is needed"),
        ("SELECT vin FROM car WHERE vin = 7", "compares text with a number"),
        ("SELECT vin FROM car WHERE lane = 'a'", "compares a number with text"),
        ("SELECT avg(vin) FROM car", "not text"),
        ("SELECT vin FROM car WHERE vin", "vin is text, a condition is needed"),
    ],
)
def test_mistakes_with_texts_are_told(text: str, message: str) -> None:
    with pytest.raises(BadArgument, match=message):
        Query.parse(text, {"car": CAR})


def test_a_number_may_be_written_as_text_but_not_the_other_way_round(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.take([("10", 1)])
    job.commit()
    assert Snapshot.open(tmp_path)["car"][10].speed[0] == 1, "on the command line all keys are texts"
    numbers = declare.parse("CREATE CUBOID car (vid INT KEY, speed AST(3))").cuboids["car"]
    snapshot_files.Catalogue({"car": numbers}).write(tmp_path / "other" / "snapshot")
    with pytest.raises(BadArgument, match="its keys are numbers"):
        Snapshot.open(tmp_path / "other")["car"]["WVW"]


def test_names_that_were_damaged_are_told(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.take([("a", 1), ("b", 2), ("WVW 1", 3)])
    job.commit()
    for image in tmp_path.rglob("*.image"):
        image.write_bytes(image.read_bytes()[:-3])
    with pytest.raises(BadInput, match="damaged"):
        Snapshot.open(tmp_path)
