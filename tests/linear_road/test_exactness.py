"""The toll engine gives the same answers as the oracle, tuple for tuple, no matter how batches are cut."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linear_road.engine_in_memory import CAR, Engine, arrival
from oracles.linear_road import answers
from slipstream._feeds.tuples import FIELDS
from slipstream._io.chunks import BEHIND, CAUGHT_UP, LAST, Chunk
from slipstream._io.report_packing import ARRIVED


def agree(
    lines: list[str], batches: list[list[str]], *, lateness: int = 60, rules: str = "2004", **options: object
) -> None:
    expected = answers(lines, lateness=lateness, rules=rules)
    engine = Engine(lateness=lateness, rules=rules, **options).run(batches)  # type: ignore[arg-type]
    assert sorted(engine.outputs) == sorted(expected.outputs)
    assert Counter(engine.rejects) == Counter((line, reason) for line, reason in expected.rejects)


def test_the_real_file_gives_the_published_answers(real_data: Path) -> None:
    text = (real_data / "linear-road" / "datafile3hours_t0000-0418.dat").read_text()
    lines = text.splitlines()
    engine = Engine(fragments=2, shards=3).run([lines[:1000], lines[1000:20_000], lines[20_000:]])
    kinds = Counter(output[0] for output in engine.outputs)
    assert kinds == {0: 14_388, 1: 513, 2: 167, 3: 24}
    assert Counter(reason for _, reason in engine.rejects) == {"range:dow": 147}
    expected = answers(lines)
    assert sorted(engine.outputs) == sorted(expected.outputs)


# Small worlds in which everything happens: few vehicles and places, so that cars meet, stop, crash, come back.
@st.composite
def worlds(draw: st.DrawFn) -> list[str]:
    """A feed with trips, stops, accidents, requests, gaps, disorder, duplicates and garbage."""
    seed = draw(st.integers(0, 2**32))
    rng = random.Random(seed)
    lines: list[tuple[float, str]] = []
    for vid in range(draw(st.integers(2, 9))):
        t = rng.randrange(40)
        while t < draw(st.sampled_from([200, 700])):
            t = drive_trip(rng, vid, t, lines) + rng.choice([1, 10, 30, 61, 90])
    lines.sort(key=lambda item: item[0])
    feed = [line for _, line in lines]
    if draw(st.booleans()) and feed:
        feed += rng.choices(feed, k=3)
    for line in rng.sample(feed, min(draw(st.integers(0, 4)), len(feed))):
        # another report of the same second, of this expressway or of another
        kind, time, vid, _, xway, *rest = line.split(",")
        rival = [kind, time, vid, str(rng.randrange(101)), rng.choice(["0", "1", xway]), *rest]
        feed.insert(feed.index(line) + rng.randrange(2), ",".join(rival))
    for bad in draw(st.lists(st.sampled_from(GARBAGE), max_size=3)):
        feed.insert(rng.randrange(len(feed) + 1), bad)
    return feed


GARBAGE = [
    "",
    "0,1",
    "x" * 20,
    "0,5,1,20,0,2,0,1,5280,-1,-1,-1,-1,-1,1.5",
    "9" + ",1" * 14,
    "0,5,1,200,0,2,0,1,5280" + ",-1" * 6,
]
GARBAGE += [
    "0,5,1,20,0,2,0,7,5280" + ",-1" * 6,
    "4,5,1,-1,0,-1,-1,-1,-1,7,0,0,0,0,-1",
    "2,5,1" + ",-1" * 6 + ",99999999999" + ",-1" * 5,
]


def drive_trip(rng: random.Random, vid: int, t: int, lines: list[tuple[float, str]]) -> int:
    """Reports of one trip; returns the time after it."""
    xway, direction = rng.randrange(3), rng.randrange(2)
    seg = rng.randrange(1, 7) if rng.random() < 0.7 else rng.choice([0, 97, 99])
    lane, offset = 0, 100
    for _ in range(rng.randrange(1, 16)):
        pos = seg * 5280 + offset
        speed = rng.randrange(101)
        late = rng.choice([0, 0, 0, rng.uniform(0, 70)])
        lines.append((t + late, f"0,{t},{vid},{speed},{xway},{lane},{direction},{seg},{pos}" + ",-1" * 6))
        if rng.random() < 0.3:
            lines.append((t + late, f"2,{t},{vid}" + ",-1" * 6 + f",{rng.randrange(10**6)}" + ",-1" * 5))
        t += 30 if rng.random() < 0.9 else rng.choice([7, 29, 31, 60])
        if rng.random() < 0.45:
            seg = min(max(seg + (1 if direction == 0 else -1), 0), 99)
        lane = rng.choice([1, 1, 2, 4]) if rng.random() < 0.4 else lane
    return t


@settings(max_examples=150)
@given(
    feed=worlds(),
    cuts=st.lists(st.integers(0, 400), max_size=6),
    fragments=st.integers(1, 4),
    shards=st.integers(1, 3),
    restart=st.booleans(),
    rules=st.sampled_from(["2004", "2003"]),
    lateness=st.sampled_from([0, 5, 60]),
)
def test_any_feed_cut_anywhere_gives_the_oracles_answers(
    feed: list[str], cuts: list[int], fragments: int, shards: int, restart: bool, rules: str, lateness: int
) -> None:
    marks = [0, *sorted(min(cut, len(feed)) for cut in cuts), len(feed)]
    batches = [feed[start:end] for start, end in pairwise(marks)]
    agree(feed, batches, lateness=lateness, rules=rules, fragments=fragments, shards=shards, restart=restart)


@settings(max_examples=60)
@given(
    feed=worlds(),
    cuts=st.lists(st.integers(0, 400), max_size=6),
    fragments=st.integers(1, 3),
    shards=st.integers(1, 3),
    tasks=st.integers(1, 3),
    again=st.sampled_from([{}, {"restart": True}, {"restart": 2}, {"crash": True}]),
    lateness=st.sampled_from([0, 5, 60]),
)
def test_vehicles_that_are_known_by_text_get_the_same_answers(
    feed: list[str],
    cuts: list[int],
    fragments: int,
    shards: int,
    tasks: int,
    again: dict[str, int],
    lateness: int,
) -> None:
    feed = [line for line in feed if line not in GARBAGE]  # CSV has other words for what is wrong there
    marks = [0, *sorted(min(cut, len(feed)) for cut in cuts), len(feed)]
    batches = [feed[start:end] for start, end in pairwise(marks)]
    options = {"fragments": fragments, "shards": shards, "tasks": tasks, "named": True, **again}
    agree(feed, batches, lateness=lateness, **options)


@settings(max_examples=150)
@given(
    feed=worlds(),
    lanes=st.integers(2, 4),
    seed=st.integers(0, 2**32),
    cuts=st.integers(0, 6),
    fragments=st.integers(1, 3),
    tasks=st.integers(1, 3),
    again=st.sampled_from([{}, {"restart": True}, {"restart": 2}, {"crash": True}]),
    chained=st.booleans(),
    lateness=st.sampled_from([0, 5, 60]),
)
def test_any_number_of_lanes_cut_and_read_anyhow_gives_the_oracles_answers(
    feed: list[str],
    lanes: int,
    seed: int,
    cuts: int,
    fragments: int,
    tasks: int,
    again: dict[str, int],
    chained: bool,
    lateness: int,
) -> None:
    """A lane may run far ahead of another, or bring nothing for many batches."""
    rng = random.Random(seed)
    lane = [rng.randrange(lanes) for _ in feed]
    parts = {number: [line for line, of in zip(feed, lane, strict=True) if of == number] for number in range(lanes)}
    places = {
        number: [0, *sorted(rng.choices(range(len(part) + 1), k=cuts)), len(part)] for number, part in parts.items()
    }
    batches = [
        [
            (number, parts[number][places[number][k] : places[number][k + 1]])
            for number in rng.sample(range(lanes), lanes)
        ]
        for k in range(cuts + 1)
    ]
    expected = answers(feed, lateness=lateness, lanes=lane)
    size = {"fragments": 1, "shards": 1} if chained else {"fragments": fragments, "shards": fragments}
    engine = Engine(lateness=lateness, tasks=tasks, chained=chained, **size, **again).run_lanes(batches)
    assert sorted(engine.outputs) == sorted(expected.outputs)
    assert Counter(engine.rejects) == Counter(expected.rejects)


@pytest.mark.parametrize("named", [False, True])
def test_the_rows_of_a_dataframe_are_the_tuples_of_a_feed(named: bool) -> None:
    """What Spark casts to numbers is parsed as lines are; null where it is none."""
    feed = [report_of(second, vid) for second in range(0, 120, 30) for vid in (1, 2)]
    rows = [dict(zip(FIELDS, map(int, line.split(",")), strict=True)) for line in feed]
    rows.append({**rows[0], "vid": None})
    engine = Engine(lateness=0, named=named)
    columns = {name: pa.array([row[name] for row in rows], pa.int64()) for name in FIELDS if name != "seg"}
    if named:
        columns["vid"] = pa.array([CAR + str(vid) if vid is not None else None for vid in columns["vid"].to_pylist()])
    columns[ARRIVED] = pa.array([arrival(0)] * len(rows), pa.int64())
    sent = engine.packing.from_frame(iter([pa.RecordBatch.from_pydict(columns)]))
    engine.take(0, [SimpleNamespace(**row) for batch in sent for row in batch.to_pylist()])
    engine.batch(1, [Chunk(1 << 62, LAST)])
    assert sorted(engine.outputs) == sorted(answers(feed, lateness=0).outputs)
    assert [reason for _, reason in engine.rejects] == ["range:vid"]


def report_of(second: int, vid: int) -> str:
    return f"0,{second},{vid},50,0,1,0,1,5280" + ",-1" * 6


def test_a_silent_lane_holds_the_others_for_a_while_and_is_late_when_it_returns() -> None:
    def batch(number: int, arrived: int, lanes: dict[int, list[str]], behind: int | None = None) -> int:
        chunks = list(engine.chunks(list(lanes.items()), arrived))
        words = [Chunk(1 << 61, BEHIND if lane == behind else CAUGHT_UP, lane=lane) for lane in (0, 1)]
        engine.batch(number, [*chunks, *words])
        return engine.tolled

    engine = Engine(lateness=2, silence_ms=5_000, crash=True, fragments=2, shards=2)
    assert batch(0, 1_000, {0: [report_of(100, 1)]}) == 0
    assert batch(1, 6_000, {0: [report_of(105, 2)]}) == 0, "5 s are not over"
    assert batch(2, 6_500, {0: [report_of(106, 2)]}, behind=1) == 0, "there is more of the other lane to be read"
    assert batch(3, 6_600, {0: [report_of(106, 3)]}) == 1, "everything before 104"
    assert batch(4, 7_000, {1: [report_of(103, 4), report_of(104, 5)]}) == 1
    assert engine.rejects == [(report_of(103, 4), "late")]
    assert batch(5, 7_100, {1: [report_of(120, 4)]}) == 1, "now the first lane is the one that is waited for"
    assert batch(6, 7_200, {0: [report_of(120, 1)]}) == 5


@settings(max_examples=25)
@given(feed=worlds(), seed=st.integers(0, 1000))
def test_order_within_the_allowed_lateness_does_not_matter(feed: list[str], seed: int) -> None:
    def second(line: str) -> int:
        parts = line.split(",")
        return int(parts[1]) if len(parts) == 15 and parts[1].isdigit() else 0

    valid = [line for line in feed if line not in GARBAGE]
    ordered = sorted(valid, key=second)
    rng = random.Random(seed)
    shuffled = sorted(valid, key=lambda line: second(line) + rng.uniform(0, 50))
    first = Engine(lateness=60).run([ordered])
    other = Engine(lateness=60).run([shuffled[:50], shuffled[50:]])
    assert sorted(first.outputs) == sorted(other.outputs)


@pytest.mark.parametrize("rules", ["2004", "2003"])
def test_crowded_segments_are_tolled_like_the_oracle_does(rules: str) -> None:
    """Enough cars for tolls, discounts and credits, with an accident in the middle."""
    rng = random.Random(3)
    lines = []
    for vid in range(420):
        seg, t = rng.randrange(2, 5), rng.randrange(60)
        for k in range(14):
            lane = 0 if k == 0 else rng.choice([1, 2, 3, 3, 4]) if k > 9 else rng.choice([1, 2, 3])
            pos = seg * 5280 + 50
            if vid < 2:
                seg, lane, pos = 6, 2, 6 * 5280 + 77
            lines.append(f"0,{t},{vid},{rng.randrange(35)},0,{lane},0,{seg},{pos}" + ",-1" * 6)
            if vid % 3 == 0:
                kind, day, qid = rng.choice([2, 3]), rng.randrange(1, 70), vid * 100 + k
                lines.append(f"{kind},{t},{vid},-1,0,-1,-1,-1,-1,{qid},-1,-1,-1,-1,{day}")
            t += 30
            seg = min(seg + rng.choice([0, 0, 1]), 99)
    lines.sort(key=lambda line: int(line.split(",")[1]))
    third = len(lines) // 3
    agree(lines, [lines[:third], lines[third:]], rules=rules, fragments=2, shards=2, restart=True)
    assert any(output[0] == 0 and output[4] > 0 for output in answers(lines, rules=rules).outputs)
