"""The toll engine's published cuboids, its stages driven by hand: against the run's own reports, whole batches only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby, pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cuboid.plain import PlainCars, members, pearson
from oracles.linear_road import answers
from oracles.streams import busy_stream
from slipstream._cuboid.snapshots.snapshot import Snapshot
from slipstream._errors import BadArgument
from slipstream._feeds.parse import parse_text
from slipstream._feeds.text_ids import encode
from slipstream._io.outputs.journal import Batch, append
from slipstream._linear_road.job.toll_layout import ANSWERS, TEXTS, Layout
from slipstream._linear_road.tasks import publishing
from slipstream._linear_road.tasks.publishing import PublishingAccountStage, PublishingTollStage, prepare
from slipstream._linear_road.tasks.toll_stages import MATCHES, NAMES, Hop, decode_matches, divide_by_fragment
from slipstream._runtime.state.store import MemoryStore

LAYOUT = Layout("test", "test", "2004", 0, ANSWERS, "", -1, (0, 1), (0, 1), 2)
QUERIES = (
    "CREATE PATTERN w AS (9, 3, 9); CREATE QUERY drivers AS "
    "SELECT vid, time, correlation(speed, w) AS r FROM car WHERE correlation(speed, w) > 0.9"
)


def traffic(seed: int, minutes: int) -> list[str]:
    """Reports of cars on three expressways: some stop, some leave, some come back elsewhere."""
    rng = np.random.default_rng(seed)
    lines = []
    for vid in range(60):
        start, xway, direction = (
            int(rng.integers(0, 60 * minutes - 30)),
            int(rng.integers(0, 3)),
            int(rng.integers(0, 2)),
        )
        pos, stopped = int(rng.integers(0, 527_000)), vid < 6
        if stopped:
            start, xway, direction, pos = int(rng.integers(0, 30)), 0, 0, 200_000
        for number in range(int(rng.integers(4, 14))):
            time = start + 30 * number
            if time >= 60 * minutes:
                break
            speed = 0 if stopped else int(rng.integers(0, 100))
            lines.append((time, f"0,{time},{vid},{speed},{xway},1,{direction},{pos // 5280},{pos},-1,-1,-1,-1,-1,-1"))
            pos = pos if stopped else min(527_999, pos + 44 * speed // 2)
    return [line for _, line in sorted(lines)]


def called(vid: int) -> str:
    """A text whose order is not that of the numbers."""
    return f"{str(vid)[::-1]} ü"


class Engine:
    """Both publishing stages over fragments and shards, batch by batch, as Spark would call them."""

    def __init__(self, out: Path, monkeypatch: pytest.MonkeyPatch, *, named: bool = False) -> None:
        watch = prepare(out, snapshot=True, script=QUERIES, named=named)
        assert watch is not None
        layout = replace(LAYOUT, ids=TEXTS) if named else LAYOUT
        self.numbers: list[dict[int, int]] | None = [{}, {}] if named else None  # of vehicles, by part
        self.out, self.batch = out, -1
        monkeypatch.setattr(publishing, "batch_number", lambda: self.batch)
        self.stages = (PublishingTollStage(watch, "e", layout), PublishingAccountStage(watch, "e", layout, None))
        self.found: list[dict[str, Any]] = []  # by the query, in committed batches
        self.states: dict[tuple[int, int], Any] = {}
        self.stores: dict[tuple[int, int], list[MemoryStore]] = {}

    def run(self, lines: list[str], *, commit: bool = True) -> None:
        """One batch; when it is not committed, it may be run again."""
        self.batch += 1
        numbers, names = self._numbered(lines)
        tuples = parse_text(b"".join(line.encode() + b"\n" for line in lines)).tuples
        if numbers:
            vids = [vid % 2 + 2 * numbers[vid % 2][vid] for vid in tuples["vid"].tolist()]
            tuples = {**tuples, "vid": np.array(vids, np.int32)}
        hops = [*divide_by_fragment(tuples, LAYOUT.fragments), *names]
        for place in (0, 1):
            hops = [hop for key in (0, 1) for hop in self._stage(place, key, [hop for hop in hops if hop.key == key])]
        if commit:
            self.found += [row for hop in hops if hop.what == MATCHES for row in decode_matches(hop)[1].to_pylist()]
            append(self.out, Batch(self.batch, 0))
            self.numbers = numbers
        else:
            self.batch -= 1

    def _numbered(self, lines: list[str]) -> tuple[list[dict[int, int]] | None, list[Hop]]:
        """The numbers of vehicles with those that are new, and the names that all fragments hear of."""
        if self.numbers is None:
            return None, []
        numbers, hops = [dict(known) for known in self.numbers], []
        for part, known in enumerate(numbers):
            before, vids = len(known), [int(line.split(",")[2]) for line in lines]
            for vid in dict.fromkeys(vid for vid in vids if vid % 2 == part):
                known.setdefault(vid, len(known))
            texts = encode(pa.array([called(vid) for vid in list(known)[before:]], pa.string()))
            if len(known) > before:
                hops += [Hop(key, NAMES, 0, part, before, 0, texts) for key in LAYOUT.fragments]
        return numbers, hops

    def _stage(self, place: int, key: int, hops: list[Hop]) -> Iterator[Hop]:
        if not hops:
            return
        stage = self.stages[place]
        stage.key = key
        stores = self.stores.setdefault((place, key), [MemoryStore() for _ in stage.maps])
        state = self.states.get((place, key))
        if state is None:
            state = stage.load(stores) if any(stores) else stage.fresh()  # type: ignore[arg-type]
        passed = list(stage.take(state, hops))
        stage.save(state, stores)  # type: ignore[arg-type]
        self.states[place, key] = state
        yield from passed

    def crash(self) -> None:
        """Only what is stored is left; a batch that was not committed leaves nothing in the store."""
        self.states = {}


def accepted(lines: list[str]) -> list[str]:
    """The position reports that the oracle does not reject."""
    rejected = Counter(line for line, _ in answers(lines, lateness=0).rejects)
    kept = []
    for line in lines:
        if rejected[line]:
            rejected[line] -= 1
        elif line.startswith("0,"):
            kept.append(line)
    return kept


@pytest.mark.parametrize(("seed", "named"), [(1, False), (2, False), (3, True)])
def test_snapshots_follow_the_engine_batch_by_batch(
    seed: int, named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, engine = traffic(seed, minutes=9), Engine(tmp_path, monkeypatch, named=named)
    reader = Snapshot.open(tmp_path)
    cuts = [*range(0, len(lines), 70), len(lines)]
    # batches are whole seconds
    times = [int(line.split(",")[1]) for line in lines]
    cuts = [int(np.searchsorted(times, times[min(cut, len(lines) - 1)])) for cut in cuts[:-1]] + [len(lines)]
    for number, (start, end) in enumerate(pairwise(cuts)):
        before = reader.batch
        if number % 4 == 1:
            saved = {place: [MemoryStore(store) for store in stores] for place, stores in engine.stores.items()}
            engine.run(lines[start:end], commit=False)
            assert reader.refresh() == before
            engine.crash()
            engine.stores = saved
        engine.run(lines[start:end])
        assert reader.refresh() == number
        fresh = Snapshot.open(tmp_path)
        for snapshot in (reader, fresh):
            check_cars(snapshot, lines[:end], named=named)
        check_rest(fresh, lines[:end], named=named)
    speeds = ((int(line.split(",")[2]), float(line.split(",")[3])) for line in lines)
    expected = [(called(vid) if named else vid, round(r, 9)) for vid, _, r in members(speeds, (9, 3, 9), 0.9)]
    assert sorted((row["vid"], round(row["r"], 9)) for row in engine.found) == sorted(expected)


def check_cars(snapshot: Snapshot, lines: list[str], fragments: int = 2, *, named: bool = False) -> None:
    cars, plain = snapshot["car"], PlainCars(fragments)
    for line in lines:
        plain.take(line)
    expected: dict[Any, Any] = plain.rows()
    if named:
        expected = {called(vid): row | {"vid": called(vid)} for vid, row in expected.items()}
    assert set(cars.scan(["key"])["key"].tolist()) == set(expected)
    assert {vid: cars.get(vid) for vid in expected} == expected


@pytest.mark.parametrize(("seed", "named"), [(1, False), (2, False), (3, True)])
def test_cars_that_fall_silent_or_change_roads_are_the_oracles(
    seed: int, named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In batches of some seconds to some minutes, after restarts; and the query sees each report with its own past."""
    random, engine = Random(seed), Engine(tmp_path, monkeypatch, named=named)
    lines, done, found = accepted(busy_stream(seed)), [], list[tuple[Any, int]]()
    by_second = {time: list(group) for time, group in groupby(lines, key=lambda line: int(line.split(",")[1]))}
    seconds, reader, plain = list(by_second), Snapshot.open(tmp_path), PlainCars(2)
    while seconds:
        now, seconds = seconds[: (size := random.choice([3, 20, 100, 250]))], seconds[size:]
        batch = [line for second in now for line in by_second[second]]
        engine.run(batch)
        done += batch
        reader.refresh()
        check_cars(reader, done, named=named)
        if random.random() < 0.3:
            engine.crash()
    for line in lines:
        past = plain.take(line)
        r = pearson([float(report[3]) for report in past[2::-1]], (9, 3, 9)) if len(past) > 2 else None
        found += [(called(past[0][2]) if named else past[0][2], past[0][1])] if r is not None and r > 0.9 else []
    assert sorted((row["vid"], row["time"]) for row in engine.found) == sorted(found)
    assert found


def check_rest(snapshot: Snapshot, lines: list[str], *, named: bool = False) -> None:
    """Accounts, prices and accidents of the batch, by the oracle's answers up to it."""
    given = answers([*lines, *balance_requests(lines)]).outputs
    balances = {output[3]: output[4] for output in given if output[0] == 2}
    accounts = snapshot["account"]
    for qid, balance in balances.items():
        account = accounts.get(called(qid) if named else qid)
        assert (account["charged"] - account["credits"] if account else 0) == balance
    minute = int(lines[-1].split(",")[1]) // 60 + 1
    segments = snapshot["segment"]
    now = {output[1]: output for output in given if output[0] == 0 and output[2] // 60 + 1 == minute}
    for vid, output in now.items():
        car = next(f for f in (list(map(int, line.split(","))) for line in lines) if f[2] == vid and f[1] == output[2])
        place = segments[car[4] * 200 + car[6] * 100 + car[7]]
        assert (place.minute, place.lav, place.toll) == (minute, output[3], output[4])
    alerted = {output[3] for output in given if output[0] == 1 and output[1] // 60 + 1 == minute}
    assert alerted <= set(snapshot["accident"].scan(["segment"])["segment"].tolist())


def balance_requests(lines: list[str]) -> list[str]:
    time = int(lines[-1].split(",")[1])
    vids = sorted({int(line.split(",")[2]) for line in lines})
    return [f"2,{time},{vid},-1,-1,-1,-1,-1,-1,{vid},-1,-1,-1,-1,-1" for vid in vids]


def test_accidents_come_and_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines, engine, seen = traffic(1, minutes=9), Engine(tmp_path, monkeypatch), set[tuple[int, ...]]()
    for minute in range(9):
        engine.run([line for line in lines if int(line.split(",")[1]) // 60 == minute])
        found = Snapshot.open(tmp_path)["accident"].scan()
        seen.add(tuple(found["segment"].tolist()))
    assert seen == {(), (200_000 // 5280,)}


def test_only_continuous_queries_over_car_are_taken(tmp_path: Path) -> None:
    for script, message in (
        ("CREATE QUERY n AS SELECT count(*) FROM car", "cannot run continuously"),
        ("SELECT vid FROM car", "CREATE PATTERN or CREATE QUERY"),
        ("CREATE QUERY s AS SELECT lav FROM segment", "no cuboid 'segment'"),
        ("CREATE QUERY alerts AS SELECT vid FROM car", "an output of that name"),
    ):
        with pytest.raises(BadArgument, match=message):
            prepare(tmp_path, snapshot=True, script=script)
    assert prepare(tmp_path, snapshot=False) is None
