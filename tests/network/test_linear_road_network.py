"""Linear Road as a network of boxes gives the tuples that the rules, and the toll engine, give.

Its window functions, which take all windows at once, give what the same functions tuple by tuple give.
"""

from __future__ import annotations

import csv
from itertools import pairwise
from math import floor
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_road.engine_in_memory import Engine
from oracles import linear_road
from oracles.network_engines import stream
from oracles.network_loads import functions
from slipstream.network import WindowFunction, files
from slipstream.network.functions import registered
from slipstream.network.windows import NULL_INTEGER, Function, Sorted, Windows, apply

NETWORKS = Path(__file__).parents[2] / "examples" / "networks"
FIELDS = ("time", "vid", "spd", "xway", "lane", "dir", "seg", "pos")
MILE = 5280


def drive(random: Random, vid: int, reports: list[dict[str, int]], minutes: int) -> None:
    """A vehicle that reports every 30 seconds and leaves its segment now and then."""
    direction, seg = random.choices([(0, 5), (0, 6), (1, 8)], (8, 1, 1))[0]
    pos, time, lane = seg * MILE + random.randrange(MILE), random.randrange(60), 0
    while time < minutes * 60:
        reports.append(report(time, vid, pos, random.randrange(35), lane, direction))
        time += 30 if random.random() < 0.97 else 90
        lane = random.choices((1, 2, 3, 4), (4, 4, 4, 1))[0]
        pos += (1 - 2 * direction) * random.choice((0, 100, 300, 2000))


def report(time: int, vid: int, pos: int, spd: int, lane: int, direction: int) -> dict[str, int]:
    return {
        "time": time, "vid": vid, "spd": spd, "xway": 0, "lane": lane, "dir": direction, "seg": pos // MILE, "pos": pos
    }  # fmt: skip


def traffic(seed: int, vehicles: int = 110, minutes: int = 8) -> list[dict[str, int]]:
    """A crowd in three segments, and two vehicles that stand in one place for a few minutes."""
    random = Random(seed)
    reports: list[dict[str, int]] = []
    for vid in range(vehicles):
        drive(random, vid, reports, minutes)
    for vid, start in ((1000, 60), (1001, 77)):
        reports += [report(start + 30 * i, vid, 7 * MILE + 100, 0, 2, 0) for i in range(9)]
    return sorted(reports, key=lambda row: (row["time"], row["vid"]))


def test_the_network_gives_the_tuples_of_the_rules_and_of_the_toll_engine(spark, tmp_path: Path) -> None:
    functions("linear_road")
    network = files.load(NETWORKS / "linear_road.yaml")
    with (NETWORKS / "upstream.csv").open() as rows:
        upstream = [{key: int(value) for key, value in row.items()} for row in csv.DictReader(rows)]
    reports = traffic(7)
    lines = [f"0,{','.join(str(row[name]) for name in FIELDS)},-1,-1,-1,-1,-1,-1" for row in reports]
    wanted = linear_road.answers(lines)
    assert not wanted.rejects
    # a minute closes when its segment hears of a later one: one more vehicle drives by everywhere
    closing = [report(20 * 60, 9000 + s, s * MILE, 30, 1, d) for d in (0, 1) for s in range(100)]
    closing = [row | {"vid": 9000 + i} for i, row in enumerate(closing)]
    feed = [("reports", row["time"] * 1_000_000, row) for row in reports + closing]
    got = stream(spark, network, feed, [], tmp_path, tables={"upstream": upstream})
    tolls = sorted((0, r["vid"], r["time"], r["lav"], r["toll"]) for r in got["toll_notifications"])
    alerts = sorted((1, r["time"], r["vid"], r["seg"]) for r in got["accident_alerts"])
    engine = Engine().run([lines])
    for answers in (wanted.outputs, engine.outputs):
        assert tolls == sorted(answer for answer in answers if answer[0] == 0)
        assert alerts == sorted(answer for answer in answers if answer[0] == 1)
    assert sum(answer[4] > 0 for answer in tolls) > 10
    assert len(alerts) > 10


# --- the window functions, one tuple after the other


def add_speed(state: Any, minute: int, vid: int | None, spd: int | None) -> Any:
    """Each vehicle's sum and count of speeds in each minute."""
    _, sums = state
    if vid is not None and spd is not None:
        total, count = sums.get((minute, vid), (0, 0))
        sums[minute, vid] = total + spd, count + 1
    return state


def lav(state: Any) -> int:
    start, sums = state
    minutes: dict[int, list[float]] = {}
    for (minute, _), (total, count) in sums.items():
        if minute < start + 5:
            minutes.setdefault(minute, []).append(total / count)
    means = [sum(speeds) / len(speeds) for speeds in minutes.values()]
    return floor(sum(means) / len(means) + 1e-9) if means else -1


def add_car(state: Any, minute: int, vid: int | None) -> Any:
    start, vids = state
    if vid is not None and minute == start + 4:
        vids.add(vid)
    return state


def add_accident(state: Any, minute: int, seg: int, accident: int | None) -> Any:
    start, nearest = state
    if accident is not None and minute == start + 4 and (nearest is None or abs(accident - seg) < abs(nearest - seg)):
        return start, accident
    return state


def standing(places: list[tuple[int, ...]]) -> bool:
    times = [place[0] for place in places]
    return len({place[1:] for place in places}) == 1 and all(
        later - earlier == 30 for earlier, later in pairwise(times)
    )


ONE_BY_ONE = {
    "lav": WindowFunction("lav", lambda at: (at, {}), add_speed, lav, "integer"),
    "cars": WindowFunction("cars", lambda at: (at, set()), add_car, lambda state: len(state[1]), "integer"),
    "nearest": WindowFunction("nearest", lambda at: (at, None), add_accident, lambda state: state[1], "integer"),
    "standing": WindowFunction("standing", lambda _: [], lambda s, *place: [*s, place], standing, "boolean"),
}
#: of each argument, what it can be
ARGUMENTS = {
    "lav": (st.integers(0, 9), st.sampled_from([NULL_INTEGER, 1, 2, 3]), st.sampled_from([NULL_INTEGER, 10, 33, 60])),
    "cars": (st.integers(0, 9), st.sampled_from([NULL_INTEGER, 1, 2, 3])),
    "nearest": (st.integers(0, 9), st.just(5), st.sampled_from([NULL_INTEGER, NULL_INTEGER, 3, 5, 6, 7])),
    "standing": (st.sampled_from([0, 30, 60, 90]), st.just(0), st.integers(1, 2), st.just(1), st.integers(7, 8)),
}


@pytest.mark.parametrize("name", ONE_BY_ONE)
@given(data=st.data())
def test_a_function_of_all_windows_gives_what_it_gives_tuple_by_tuple(name: str, data: st.DataObject) -> None:
    functions("linear_road")
    groups = data.draw(st.lists(st.lists(st.tuples(*ARGUMENTS[name]), min_size=1, max_size=12), min_size=1, max_size=3))
    rows = [row for group in groups for row in sorted(group, key=lambda row: row[0])]
    first, last, at, begin = [], [], [], 0
    for group in groups:
        for start in sorted({row[0] - back for row in group for back in range(6)}):
            here = [begin + i for i, row in enumerate(sorted(group, key=lambda r: r[0])) if start <= row[0] < start + 6]
            if here:
                first, last, at = [*first, here[0]], [*last, here[-1] + 1], [*at, start]
        begin += len(group)
    columns = {f"a{i}": np.array(values, np.int64) for i, values in enumerate(zip(*rows, strict=True))}
    windows = Windows((), np.array(first), np.array(last), np.array(at))
    table = Sorted(columns, np.arange(len(rows)))
    whole, one_by_one = (
        apply(Function("f", name, tuple(columns), user), table, windows)
        for user in (registered(name), ONE_BY_ONE[name])
    )
    assert whole.tolist() == one_by_one.tolist()
    assert whole.dtype == one_by_one.dtype
