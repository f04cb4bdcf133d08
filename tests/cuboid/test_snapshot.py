"""Snapshots against a plain model, and readers that would notice half a batch while a writer is at work."""

from __future__ import annotations

import multiprocessing
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream._cuboid.fragment import Fragment
from slipstream._cuboid.query.access import Reference
from slipstream._cuboid.schema import AST, Plain, Schema
from slipstream._cuboid.snapshots import publish, snapshot_files
from slipstream._cuboid.snapshots.snapshot import Snapshot
from slipstream._errors import BadArgument, BadInput
from slipstream._io.outputs.journal import Batch, append

CAR = Schema("CAR", (AST("speed", "i4", 4), Plain("lane", "u1")), key="vid")
STOCK = Schema("STOCK", (AST("price", "f8", 3),))


@dataclass
class Stream:
    """Stands in for a streaming query: fragments that change, and a journal."""

    out: Path
    cuboids: dict[str, Schema] = field(default_factory=lambda: {"car": CAR, "stock": STOCK})
    fragments: dict[tuple[str, int], Fragment] = field(default_factory=dict)
    parts: int = 2

    def __post_init__(self) -> None:
        snapshot_files.Catalogue(self.cuboids).write(self.snapshot)

    @property
    def snapshot(self) -> Path:
        return self.out / "snapshot"

    def append(self, name: str, stream: str, keys: list[int], values: list[int]) -> None:
        for key, value in zip(keys, values, strict=True):
            place = (name, key % self.parts)
            fragment = self.fragments.setdefault(place, Fragment(self.cuboids[name]))
            fragment.append(stream, np.array([key]), np.array([value]).astype(fragment.schema.dtype[stream].base))

    def publish(self, batch: int) -> None:
        for (name, number), fragment in self.fragments.items():
            fragment.delta()
            publish.publish(self.snapshot, name, number, batch, fragment)

    def commit(self, batch: int) -> None:
        append(self.out, Batch(batch, 0))


batches = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 12), st.integers(-9, 9)), max_size=10),
        st.lists(st.integers(0, 12), max_size=4),
        st.sampled_from(["commit", "repeat", "restart"]),
    ),
    max_size=10,
)


@given(batches, st.integers(1, 4))
@settings(max_examples=40)
def test_a_reader_sees_what_a_dictionary_of_deques_holds(
    steps: list[tuple[list[tuple[int, int]], list[int], str]], images: int
) -> None:
    """Whatever was appended and forgotten, repeated or loaded anew, for readers old and new."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(publish, "MOST_DELTAS", images)
        stream, plain = Stream(Path(folder)), dict[int, deque[int]]()
        old = Snapshot.open(folder)
        assert old.batch == -1
        assert old["car"].get(1) is None
        for batch, (rows, gone, end) in enumerate(steps):
            before = {key: list(values) for key, values in plain.items()}
            stream.append("car", "speed", [key for key, _ in rows], [value for _, value in rows])
            for key, value in rows:
                plain.setdefault(key, deque(maxlen=4)).appendleft(value)
            for (_, _number), fragment in stream.fragments.items():
                fragment.keep(~np.isin(fragment.rows["key"], gone))
            for key in gone:
                plain.pop(key, None)
            stream.publish(batch)
            old.refresh()
            assert contents(old) == before, "a batch that is not committed must not show"
            if end == "repeat":
                for fragment in stream.fragments.values():
                    fragment.changes = None
                stream.publish(batch)
            stream.commit(batch)
            assert old.refresh() == batch
            expected = {key: list(values) for key, values in plain.items()}
            assert contents(old) == expected
            assert contents(Snapshot.open(folder)) == expected
            if end == "restart":
                for place, fragment in list(stream.fragments.items()):
                    stream.fragments[place] = Fragment(fragment.schema)
                    stream.fragments[place].apply(fragment.rows.tobytes())


def contents(snapshot: Snapshot) -> dict[int, list[int]]:
    """All cars by every way of reading, which must agree."""
    cars = snapshot["car"]
    scanned = cars.scan(["key", "speed", "speed#"])
    rows = zip(*(column.tolist() for column in scanned.values()), strict=True)
    found = {key: speeds[:count] for key, speeds, count in rows}
    keys = np.arange(-1, 14)
    read = cars.read(keys, ["speed", "speed#"])
    for at, key in enumerate(keys.tolist()):
        assert read["found"][at] == (key in found) == (key in cars)
        if key in found:
            assert read["speed"][at][: read["speed#"][at]].tolist() == found[key] == cars[key].speed[:]
            assert cars.get(key) == {"vid": key, "speed": found[key], "lane": 0}
    return found


def test_access_as_the_thesis_writes_it(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    stream.append("car", "speed", [100] * 6, [10, 20, 30, 40, 50, 60])
    stream.publish(0)
    stream.commit(0)
    cars = Snapshot.open(tmp_path)["CAR"]
    assert (cars[100].speed[0], cars[100].speed[-3], cars[100].speed[:]) == (60, 30, [60, 50, 40, 30])
    assert Reference.parse("CAR[100].speed[-1]").of(cars[100]) == 50
    assert Reference.parse("CAR[100].lane").of(cars[100]) == 0
    for wrong, message in (
        (lambda: cars[7], "No vid 7 in cuboid CAR"),
        (lambda: cars[100].speed[-4], "only 4 elements"),
        (lambda: cars[100].speed[1], "future"),
        (lambda: cars[100].sped, "No attribute 'sped' in cuboid CAR; it has: speed, lane"),
        (lambda: cars.read([1], ["lan"]), "No attribute 'lan'"),
        (lambda: Reference.parse("CAR.speed"), "not a reference"),
        (lambda: Reference.parse("CAR[100].lane[0]").of(cars[100]), "plain attribute"),
        (lambda: Snapshot.open(tmp_path)["bus"], "No cuboid 'bus'.*car, stock"),
    ):
        with pytest.raises(BadArgument, match=message):
            wrong()


def test_what_is_no_snapshot_or_damaged_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadArgument, match="no snapshot"):
        Snapshot.open(tmp_path)
    stream = Stream(tmp_path)
    stream.append("car", "speed", [1], [1])
    stream.publish(0)
    stream.commit(0)
    with (tmp_path / "batches.jsonl").open("ab") as journal:
        journal.write(b'{"batch": 1')
    assert Snapshot.open(tmp_path).batch == 0
    image = next((tmp_path / "snapshot").rglob("*.image"))
    image.write_bytes(image.read_bytes()[:5000])
    with pytest.raises(BadInput, match="damaged"):
        Snapshot.open(tmp_path)


# --- torn reads

KEYS = 200


def write_batches(out: Path, torn: bool, ended: object, least: int) -> None:
    """Every batch writes its number to every key of both cuboids; with ``torn``, it is committed half done."""
    stream = Stream(out)
    batch = 0
    while batch < least or not ended.is_set():  # type: ignore[attr-defined]
        stream.append("car", "speed", list(range(KEYS)), [batch] * KEYS)
        stream.append("stock", "price", list(range(KEYS)), [batch] * KEYS)
        if torn:
            stream.commit(batch)
        stream.publish(batch)
        if not torn:
            stream.commit(batch)
        batch += 1


def torn_reads(out: Path, enough: int) -> Iterator[str]:
    """Read as fast as possible and say what does not fit together."""
    snapshot, seen, deadline = Snapshot.open(out), 0, time.monotonic() + 60
    while seen < enough and time.monotonic() < deadline:
        fresh = Snapshot.open(out) if seen % 3 == 0 else snapshot
        before, batch = fresh.batch, fresh.refresh()
        if batch < 0 or batch == before:
            continue
        seen += 1
        values = set(fresh["car"].scan(["speed"])["speed"][:, 0].tolist())
        values |= set(fresh["stock"].read(np.arange(KEYS), ["price"])["price"][:, 0].astype(int).tolist())
        if values != {batch}:
            yield f"batch {batch} shows {sorted(values)}"


@pytest.mark.parametrize("torn", [False, True], ids=["whole batches", "the checker catches half batches"])
def test_readers_beside_a_writer_see_whole_batches(tmp_path: Path, torn: bool) -> None:
    Stream(tmp_path)
    context = multiprocessing.get_context("fork")
    ended = context.Event()
    writer = context.Process(target=write_batches, args=(tmp_path, torn, ended, 0))
    writer.start()
    try:
        found = next(torn_reads(tmp_path, 60), None)
    finally:
        ended.set()
        writer.join()
    assert (found is not None) == torn, found


@pytest.mark.parametrize(
    ("schema", "lines", "measured"),
    [
        (Schema("VAN", (AST("x", "f8", 3), AST("y", "f8", 3)), key="van"), 2, "3 m by 4 m"),
        (Schema("VAN", (AST("lon", "f8", 3), AST("lat", "f8", 3)), key="van"), 2, "3 degrees by 4 degrees"),
        (Schema("VAN", (AST("x", "f8", 3), AST("z", "f8", 3)), key="van"), 0, ""),
    ],
)
def test_a_notebook_shows_keys_with_places_on_a_map(tmp_path: Path, schema: Schema, lines: int, measured: str) -> None:
    stream = Stream(tmp_path, {"van": schema})
    for name in schema.names:
        stream.append("van", name, [1, 1, 2], [0, 3, 4] if name in ("y", "lat") else [0, 3, 1])
    stream.publish(0)
    stream.commit(0)
    shown = Snapshot.open(tmp_path)["van"]._repr_html_()
    assert shown.count("<polyline") == lines
    assert measured in shown
    assert "<caption>van: 2 keys</caption>" in shown
