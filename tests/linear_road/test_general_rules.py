"""Rules for real roads: the oracle's answers on any feed, and the benchmark's with the benchmark's settings."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slipstream as ss
from linear_road import road_rules
from linear_road.engine_in_memory import Engine
from linear_road.test_exactness import worlds
from network.stages_in_memory import run
from network.test_toll_box import ANSWERS, in_the_papers_order, whole
from oracles import linear_road, road_tolls
from slipstream._errors import BadArgument, BadInput
from slipstream._feeds.tuples import FIELDS
from slipstream._io.report_packing import parse_table
from slipstream._linear_road.general import parse_settings
from slipstream._linear_road.rules import GENERAL, Rules, find_rules, name_general
from slipstream._linear_road.state.toll_fragment import TollFragment
from slipstream._network import Builder
from slipstream._network.boxes.tolls.toll import Toll
from slipstream._network.planning.plan import plan
from slipstream._network.schemas import check
from slipstream._network.tasks.superbox import Superbox

#: of conditions as general rules: the edition's toll for one segment
TOLLS = {"2004": road_rules.plain_square(2, 50), "2003": road_rules.plain_square(2, 150)}
ROADS = {"GPS": road_rules.GPS, "LANES": road_rules.LANES, "MINUTES": road_rules.MINUTES}


def cut(feed: list[str], cuts: list[int]) -> list[list[str]]:
    marks = [0, *sorted(min(cut, len(feed)) for cut in cuts), len(feed)]
    return [feed[start:end] for start, end in pairwise(marks)]


CUTS = st.lists(st.integers(0, 400), max_size=5)


@settings(max_examples=80)
@given(
    feed=worlds(),
    cuts=CUTS,
    fragments=st.integers(1, 3),
    restart=st.booleans(),
    edition=st.sampled_from(["2004", "2003"]),
    lateness=st.sampled_from([0, 5, 60]),
)
def test_the_benchmarks_settings_give_the_benchmarks_answers(
    feed: list[str], cuts: list[int], fragments: int, restart: bool, edition: str, lateness: int
) -> None:
    expected = linear_road.answers(feed, lateness=lateness, rules=edition)
    rules = road_rules.EDITIONS[edition]
    engine = Engine(lateness=lateness, fragments=fragments, restart=restart, rules=rules).run(cut(feed, cuts))
    assert sorted(engine.outputs) == sorted(expected.outputs)
    assert Counter(engine.rejects) == Counter(expected.rejects)
    plain = road_tolls.answers(feed, road_rules.conditions(find_rules(rules), TOLLS[edition]), lateness=lateness)
    assert sorted(plain.outputs) == sorted(expected.outputs)
    assert plain.rejects == expected.rejects


def test_the_real_file_gives_the_benchmarks_answers(real_data: Path) -> None:
    lines = (real_data / "linear-road" / "datafile3hours_t0000-0418.dat").read_text().splitlines()
    batches = cut(lines, [1000, 20_000])
    engine = Engine(fragments=2, shards=3, rules=road_rules.EDITIONS["2004"]).run(batches)
    assert Counter(output[0] for output in engine.outputs) == {0: 14_388, 1: 513, 2: 167, 3: 24}
    assert sorted(engine.outputs) == sorted(linear_road.answers(lines).outputs)


@st.composite
def drives(draw: st.DrawFn) -> list[str]:
    """A GPS feed: any intervals, scattered positions, lost reports, queues, accidents, requests, disorder, garbage."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    every = draw(st.sampled_from([1, 5, 10, 15, 60]))
    lines: list[tuple[float, str]] = []
    for vid in range(draw(st.integers(2, 7))):
        t = rng.randrange(60)
        for _ in range(rng.randrange(1, 3)):
            t = drive(rng, vid, t, every, lines) + rng.choice([1, every, 50, 70, 200, 400])
    if draw(st.booleans()):
        collide(rng, every, lines)
    lines.sort(key=lambda item: item[0])
    feed = [line for _, line in lines]
    feed += rng.choices(feed, k=draw(st.integers(0, 2)))
    for bad in draw(st.lists(st.sampled_from(GARBAGE), max_size=3)):
        feed.insert(rng.randrange(len(feed) + 1), bad)
    return feed


def collide(rng: random.Random, every: int, lines: list[tuple[float, str]]) -> None:
    """Some vehicles stand near one another for minutes, and others approach."""
    place, begin = rng.choice([5500, 9100]), rng.randrange(100)
    for vid in range(20, 20 + rng.randrange(2, 5)):
        for t in range(begin + rng.randrange(20), begin + 400, every):
            where = place + 20 * (vid - 20) + rng.randint(-10, 10)
            lines.append((t, f"0,{t},{vid},0,0,1,0,{where // 1000},{where}" + ",-1" * 6))
    for vid in range(30, 36):
        start, first = rng.randrange(200, 420), rng.choice([2500, 4000, 5000])
        for t in range(start, start + 60, 10):
            where = first + 30 * (t - start)
            lines.append((t, f"0,{t},{vid},90,0,2,0,{where // 1000},{where}" + ",-1" * 6))


GARBAGE = [
    "0,5,1,256,0,2,0,1,1500" + ",-1" * 6,
    "0,5,1,20,0,62,0,1,1500" + ",-1" * 6,
    "0,5,1,20,0,2,0,1,400000" + ",-1" * 6,
    "0,5,1,20,0,5,0,1,1500" + ",-1" * 6,
    "0,5",
]


def drive(rng: random.Random, vid: int, t: int, every: int, lines: list[tuple[float, str]]) -> int:
    """Reports of one trip over places that others pass, too; returns the time after it."""
    (road, direction), kind = rng.choice([(0, 0), (0, 0), (0, 1), (1, 0)]), rng.randrange(3)
    lane, pos = rng.choice([1, 1, 1, 2, 4]), rng.choice([0, 2990, 5990, 5990])
    pace, scatter = rng.choice([0, 0, 3, 30]), rng.choice([0, 10, 35])
    for _ in range(rng.randrange(2, 10 + 300 // every)):
        if rng.random() < 0.07:
            pace = rng.choice([0, 0, 3, 30])
        if rng.random() < 0.05:
            lane = rng.choice([0, 1, 1, 2, 3, 4])
        pos = max(pos + (1 if direction == 0 else -1) * pace * every, 0)
        seen = max(min(pos + rng.randint(-scatter, scatter), 99_999), 0)
        late = rng.choice([0, 0, 0, rng.uniform(0, 50)])
        if rng.random() < 0.85:
            report = f"0,{t},{vid},{rng.randrange(130)},{road},{lane + 16 * kind},{direction},{seen // 1000},{seen}"
            lines.append((t + late, report + ",-1" * 6))
        if rng.random() < 0.1:
            what = rng.choice(
                [
                    "2,{t},{vid}" + ",-1" * 6 + ",{q}" + ",-1" * 5,
                    "3,{t},{vid},-1,0" + ",-1" * 4 + ",{q}" + ",-1" * 4 + ",1",
                ]
            )
            lines.append((t + late, what.format(t=t, vid=vid, q=rng.randrange(10**6))))
        t += every + (rng.randrange(-min(3, every - 1), 4) if rng.random() < 0.4 else 0)
    return t


@settings(max_examples=150)
@given(
    feed=drives(),
    cuts=CUTS,
    fragments=st.integers(1, 3),
    shards=st.integers(1, 2),
    again=st.sampled_from([{}, {"restart": True}, {"restart": 2}, {"crash": True}]),
    road=st.sampled_from(list(ROADS)),
    lateness=st.sampled_from([0, 20, 60]),
)
def test_any_feed_cut_anywhere_gives_the_oracles_answers(
    feed: list[str], cuts: list[int], fragments: int, shards: int, again: dict[str, bool], road: str, lateness: int
) -> None:
    name = f"linear_road.road_rules:{road}"
    engine = Engine(lateness=lateness, fragments=fragments, shards=shards, rules=name, **again).run(cut(feed, cuts))  # type: ignore[arg-type]
    expected = road_tolls.answers(feed, road_rules.conditions(ROADS[road]), lateness=lateness)
    assert sorted(engine.outputs) == sorted(expected.outputs)
    assert Counter(engine.rejects) == Counter(expected.rejects)


def test_such_feeds_have_accidents_and_charges() -> None:
    for name, rules in ROADS.items():
        rng, lines = random.Random(3), list[tuple[float, str]]()
        assert rules.road is not None
        collide(rng, rules.road.report_every, lines)
        found = road_tolls.answers([line for _, line in sorted(lines)], road_rules.conditions(rules))
        kinds = Counter(output[0] for output in found.outputs)
        assert kinds[0] > 10, name
        assert kinds[1] > 0, name


def reports(vid: int, times: range, place: list[int], speed: int = 80) -> list[str]:
    return [f"0,{t},{vid},{speed},0,1,0,0,{x}" + ",-1" * 6 for t, x in zip(times, place, strict=True)]


@pytest.mark.parametrize("every", [1, 10, 29, 31, 60])
def test_vehicles_are_charged_at_any_interval(every: int) -> None:
    """Under the benchmark's rules, reports 31 s apart are all trips of their own: nobody would pay."""
    times = range(0, 10 * every, every)
    feed = reports(1, times, [t * 30 for t in times])
    feed.append(f"2,{times[-1]},1" + ",-1" * 6 + ",7" + ",-1" * 5)
    engine = Engine(rules=GENERAL).run([feed])
    segments = times[-1] * 30 // 1000
    passed = len({t * 30 // 1000 for t in times}) - 1
    assert (2, times[-1], times[-1], 7, 10 * passed) in engine.outputs
    assert segments >= passed


def test_a_vehicle_on_a_border_pays_once_however_its_positions_scatter() -> None:
    times = range(0, 400, 10)
    rng = random.Random(1)
    place = [min(25 * t, 1000 + rng.randrange(-25, 26)) if t < 300 else 25 * t for t in times]
    engine = Engine(rules=GENERAL).run([reports(1, times, place)])
    entered = [output for output in engine.outputs if output[0] == 0]
    assert len(entered) == len({x // 1000 for x in place if x > 1030}) + 1


@pytest.mark.parametrize("every", [1, 7, 10, 60])
def test_two_vehicles_that_stand_near_one_another_are_an_accident_at_any_interval(every: int) -> None:
    """Their reports are neither simultaneous nor exactly at one place; a third is warned."""
    times = range(0, 600, every)
    rng = random.Random(2)
    feed = reports(1, times, [5500 + rng.randrange(-10, 11) for _ in times], 0)
    feed += reports(2, range(3, 600, every), [5520 + rng.randrange(-10, 11) for _ in range(3, 600, every)], 0)
    feed += reports(3, range(550, 600, 10), [3000 + 20 * (t - 550) for t in range(550, 600, 10)])
    feed.sort(key=lambda line: int(line.split(",")[1]))
    engine = Engine(rules=GENERAL).run([feed])
    assert (1, 550, 3, 5) in engine.outputs


def test_settings_of_a_file_make_rules(tmp_path: Path) -> None:
    file = tmp_path / "road.toml"
    file.write_text(
        'report_every = 5\nclasses = ["car", "lorry"]\naccident_minutes = 3\ntime_zone = "Europe/Berlin"\n'
        "[tariff]\nprices = [10, 40]\ncongested_below = 60\ncongested_percent = 150\n"
        '[[tariff.peaks]]\nstart = "07:00"\nend = "09:00"\npercent = 200\n'
    )
    rules = find_rules(name_general(file))
    assert rules.road == ss.RoadSettings(report_every=5, classes=("car", "lorry"), time_zone="Europe/Berlin")
    assert rules.accident_minutes == 3
    at = TollFragment(rules, xways=[4])
    at.minute = 7 * 60 + 1 - 60  # 07:00 in Berlin, in winter
    assert at.current_prices().toll[[0, 200]].tolist() == [20, 80]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("report_every = 0", "report_every 0"),
        ("report_evry = 5", "report_evry is unknown"),
        ('classes = ["car", "car"]', "classes"),
        ('units = "furlongs"', "furlongs"),
        ('time_zone = "Europe/Atlantis"', "Atlantis"),
        ("segment_length = 20000", "segment_length 20000"),
        ("jitter = -1", "jitter -1"),
        ("[tariff]\nprices = [1, 2]", "tariff.prices"),
        ("[tariff]\nprices = [-1]", "tariff"),
        ('[tariff]\n[[tariff.peaks]]\nstart = "late"\nend = "07:00"\npercent = 10', "late"),
        ("prices = 5", "prices is unknown"),
        ("= 5", "road.toml"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_by_name(text: str, said: str) -> None:
    with pytest.raises(BadArgument, match=r"road\.toml") as refused:
        parse_settings(text, "road.toml")
    assert said in refused.value.message


@pytest.mark.parametrize(
    ("toll", "said"),
    [
        (lambda at: np.full(at.speed.size, -1), "a toll of -1"),
        (lambda at: np.zeros(3), "shape"),
        (lambda at: at.accident, "bool"),
        (lambda at: np.full(at.speed.size, np.nan), "a toll of nan"),
    ],
)
def test_a_toll_function_that_returns_nonsense_is_refused(toll: road_rules.Any, said: str) -> None:
    fragment = TollFragment(Rules.general("own", toll), xways=[0])
    with pytest.raises(BadInput, match=said):
        fragment.current_prices()


def test_reports_may_lack_lanes_and_have_classes() -> None:
    table = pa.table(
        {"vid": [7, 8, 9, 10], "time": [1] * 4, "spd": [130] * 4, "pos": [2500] * 4, "class": [0, 2, 3, None]}
    )
    parsed = parse_table(table, road_rules.GPS.form)
    assert parsed.tuples["lane"].tolist() == [1, 33, 1]
    assert [reason for _, reason in parsed.rejects] == ["range:class"]
    assert parsed.tuples["seg"].tolist() == [2, 2, 2]


def test_a_stream_of_a_real_road_needs_no_more_than_a_place_and_a_speed() -> None:
    reports = ss.read("kafka://b:9092/r", dict.fromkeys(("id", "time", "speed", "position", "class"), "bigint"))
    assert reports.toll(rules=road_rules.GPS).notifications.columns == ["vid", "time", "lav", "toll"]
    measured = ss.read("kafka://b:9092/m", {"id": "string", "time": "double", "speed": "double", "position": "double"})
    assert measured.toll(rules="general").notifications.schema["vid"] == "string"
    with pytest.raises(BadInput, match="no column 'expressway'"):
        reports.toll(rules="2004")


@pytest.fixture(scope="module")
def superbox() -> Superbox:
    net = Builder("tolled")
    source = net.source("cars", **dict.fromkeys((*FIELDS, "class"), "integer"))
    box = source.through(Toll(rules=road_rules.GPS, lateness=20), name="tolls")
    for output in (*ANSWERS, "rejects"):
        box[output].to(output)
    return Superbox(plan(check(net.build(), None)))


@settings(max_examples=25)
@given(feed=drives(), cuts=CUTS, restart=st.booleans())
def test_the_toll_box_gives_the_same_answers(
    superbox: Superbox, feed: list[str], cuts: list[int], restart: bool
) -> None:
    lines, rows = whole([line for line in feed if len(line.split(",")) == 15], 20)
    given = [("cars", n, row | {"lane": row["lane"] % 16, "class": row["lane"] // 16}) for n, row in enumerate(rows)]
    cuts = sorted({cut for cut in cuts if 0 < cut < len(rows)})
    got = run(superbox, given, cuts, set(cuts) if restart else set())
    expected = road_tolls.answers(lines, road_rules.conditions(road_rules.GPS), lateness=20)
    assert in_the_papers_order(got) == sorted(expected.outputs)
    assert len(got["rejects"]) == len(expected.rejects)
