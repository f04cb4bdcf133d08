"""Linear Road as a network of boxes gives all five answers as the rules, and the toll engine, give them.

Its functions, which take all windows or requests at once, give what the same functions one by one give.
"""

from __future__ import annotations

import csv
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linear_road.engine_in_memory import Engine
from linear_road.test_exactness import worlds
from network.test_toll_box import ANSWERS as TOLL_BOX
from network.test_toll_box import in_the_papers_order
from oracles import linear_road
from oracles.linear_road import Tuple
from oracles.network_engines import array_of, stream
from oracles.network_loads import functions
from oracles.streams import busy_stream
from slipstream._network import WindowFunction, yaml_files
from slipstream._network.algebra import Arc, NetworkOutput, Node
from slipstream._network.box_functions import find_registered
from slipstream._network.boxes.tolls.toll import Toll
from slipstream._network.boxes.windows.window_functions import NULL_INTEGER, Function, Sorted, Windows, apply
from slipstream._network.planning.plan import plan
from slipstream._network.schemas import check
from slipstream._network.state.stored import StoredTable
from slipstream._network.tasks.operators_in_spark import StageBoxes
from slipstream._network.tasks.superbox import Superbox, Train
from slipstream._runtime.state.store import MemoryStore

NETWORKS = Path(__file__).parents[2] / "examples" / "networks"
#: outputs, and the columns of an answer in the order of the paper's fields
ANSWERS = {
    "toll_notifications": (0, ("vid", "time", "lav", "toll")),
    "accident_alerts": (1, ("time", "vid", "seg")),
    "balances": (2, ("time", "result_time", "qid", "balance")),
    "daily_expenditures": (3, ("time", "qid", "balance")),
    "travel_times": (4, ("time", "qid", "seconds", "toll")),
}


class History:
    """Some of ten weeks: expressway 0 whole, by a formula, and the tolls of every third vehicle."""

    def expenditure(self, vid: int, day: int, xway: int) -> int | None:
        return (vid * 7 + day) % 90 if vid % 3 == 0 and xway == vid % 2 else None

    def mean(self, xway: int, dir: int, seg: int, dow: int, minute: int) -> tuple[float, float] | None:
        if xway:
            return None
        return 15 + (seg * 3 + dow * 5 + minute + dir) % 45, 20 + (seg + minute) % 60

    def tolls(self, vehicles: int) -> Iterator[dict[str, int]]:
        for vid, day in itertools.product(range(0, vehicles, 3), range(1, 70)):
            tolls = self.expenditure(vid, day, vid % 2)
            assert tolls is not None
            yield {"vid": vid, "day": day, "xway": vid % 2, "tolls": tolls}

    def means(self) -> dict[str, np.ndarray]:
        grid = np.indices((1, 2, 100, 7, 1440)).reshape(5, -1)
        xway, direction, seg, dow, minute = grid[0], grid[1], grid[2], grid[3] + 1, grid[4] + 1
        speed = 15.0 + (seg * 3 + dow * 5 + minute + direction) % 45
        place = {"xway": xway, "dir": direction, "seg": seg, "dow": dow, "minute": minute}
        return {**place, "speed": speed, "cars": 20.0 + (seg + minute) % 60}


def upstream() -> list[dict[str, int]]:
    with (NETWORKS / "upstream.csv").open() as rows:
        return [{key: int(value) for key, value in row.items()} for row in csv.DictReader(rows)]


def columns(rows: Iterable[dict[str, int]]) -> dict[str, np.ndarray]:
    rows = list(rows)
    return {name: np.array([row[name] for row in rows], np.int64) for name in rows[0]}


@cache
def superbox_on(spark: Any, with_means: bool = True) -> Superbox:
    functions("linear_road")
    history = History()
    means = history.means()
    if not with_means:
        means = {name: values[:0] for name, values in means.items()}
    tables = {"upstream": columns(upstream()), "tolls": columns(history.tolls(3100)), "means": means}
    stored = {name: StoredTable(values) for name, values in tables.items()}
    return Superbox(plan(check(yaml_files.load(NETWORKS / "linear_road.yaml"), spark)), stored)


def accepted(lines: list[str]) -> list[Tuple]:
    """What an intake lets through, in the order of time; the last tuple ends the last second."""
    tuples = sorted(linear_road.sift(lines, lateness=60)[0], key=lambda tup: tup.time)
    return [*tuples, Tuple(2, tuples[-1].time + 1, 0, *[-1] * 6, 10**9, *[-1] * 5)]


def answers(outputs: dict[str, list[dict[str, Any]]]) -> list[tuple[int, ...]]:
    return sorted(
        (kind, *(row[name] for name in names)) for output, (kind, names) in ANSWERS.items() for row in outputs[output]
    )


def run(superbox: Superbox, tuples: list[Tuple], cuts: Iterable[int], restarts: bool = False) -> list[tuple[int, ...]]:
    """The network in memory, its input cut into trains; its state is loaded anew before each or not."""
    boxes, store, found = StageBoxes.fresh(superbox), MemoryStore(), {name: [] for name in superbox.plan.outputs}
    for first, last in itertools.pairwise([0, *cuts, len(tuples)]):
        rows = tuples[first:last]
        order = np.zeros((len(rows), len(superbox.plan.keys)), np.int64)
        order[:, 0] = np.arange(first, last)
        named = {name: array_of([getattr(row, name) for row in rows], "integer") for name in Tuple._fields}
        zeros = np.zeros(len(rows), np.int64)
        for name, train in superbox.step(boxes.states, {"feed": Train(zeros, zeros, order, named)}):
            out = zip(*(train.columns[column].tolist() for column in train.columns), strict=True)
            found[name] += [dict(zip(train.columns, row, strict=True)) for row in out]
        boxes.log.save(store)
        if restarts:
            boxes = StageBoxes.load(superbox, [store])
    return answers(found)


def same(got: list[tuple[int, ...]], wanted: list[tuple[int, ...]]) -> None:
    missing, extra = (Counter(one) - Counter(other) for one, other in ((wanted, got), (got, wanted)))
    assert (list(missing)[:5], list(extra)[:5]) == ([], [])


@pytest.mark.parametrize("seed", range(4))
def test_the_network_gives_all_answers_of_the_rules(spark: Any, seed: int) -> None:
    lines = busy_stream(seed)
    tuples = accepted(lines)
    wanted = linear_road.answers(lines, history=History()).outputs
    counts = Counter(answer[0] for answer in wanted)
    assert min(counts[kind] for kind in range(5)) > 10, counts
    assert any(answer[0] == 0 and answer[4] > 0 for answer in wanted)
    assert any(answer[0] == 2 and answer[4] > 0 for answer in wanted)
    every = range(97, len(tuples), 97 + 400 * seed)
    same(run(superbox_on(spark), tuples, every, restarts=seed == 1), wanted)


@given(feed=worlds(), cuts=st.lists(st.integers(0, 400), max_size=6), restarts=st.booleans())
@settings(max_examples=25)
def test_any_feed_cut_anywhere_gives_the_oracles_answers(
    spark: Any, feed: list[str], cuts: list[int], restarts: bool
) -> None:
    tuples = accepted(feed)
    marks = sorted({cut for cut in cuts if 0 < cut < len(tuples)})
    same(run(superbox_on(spark), tuples, marks, restarts), linear_road.answers(feed, history=History()).outputs)


def test_a_notification_leaves_with_the_report_that_calls_for_it(spark: Any) -> None:
    """Whatever of the stream has come, the answers to it are complete but for the balances of the last second."""
    lines = busy_stream(5, vehicles=120, seconds=400)
    tuples = accepted(lines)
    for until in (500, 900):
        seen = tuples[:until]
        wanted = linear_road.answers([",".join(map(str, tup)) for tup in seen], history=History()).outputs
        last = seen[-1].time
        in_time = [answer for answer in wanted if answer[0] != 2 or answer[1] < last]
        same(run(superbox_on(spark), seen, []), in_time)


def test_the_boxes_and_the_toll_box_give_the_same_in_one_run(spark: Any, tmp_path: Path) -> None:
    lines = busy_stream(9, vehicles=150, seconds=420)
    tuples = accepted(lines)
    network = yaml_files.load(NETWORKS / "linear_road.yaml")
    functions("linear_road")
    toll_box = Node("toll_box", Toll(), (Arc("feed"),))
    its_outputs = tuple(NetworkOutput(f"its_{name}", Arc("toll_box", port)) for port, name in enumerate(TOLL_BOX))
    network = replace(network, nodes=(*network.nodes, toll_box), outputs=(*network.outputs, *its_outputs))
    feed = [("feed", 1_000_000 + i, tup._asdict()) for i, tup in enumerate(tuples)]
    no_tolls = [{"vid": -1, "day": 1, "xway": 0, "tolls": 0}]
    no_means = [{"xway": -1, "dir": 0, "seg": 0, "dow": 1, "minute": 1, "speed": 0.0, "cars": 0.0}]
    tables = {"upstream": upstream(), "tolls": no_tolls, "means": no_means}
    got = stream(spark, network, feed, [len(feed) // 2], tmp_path, tables=tables)
    same(answers(got), Engine().run([lines]).outputs)
    same(in_the_papers_order({name: got[f"its_{name}"] for name in TOLL_BOX}), answers(got))


@pytest.mark.long
def test_half_an_hour_of_many_vehicles_gives_the_answers_of_the_rules_and_of_the_toll_engine(spark: Any) -> None:
    lines = busy_stream(20, vehicles=3000, seconds=1800)
    got = run(superbox_on(spark), accepted(lines), range(5000, len(lines), 5000))
    same(got, linear_road.answers(lines, history=History()).outputs)
    of_the_day = {0, 1, 2}  # the engine has no history here
    same([a for a in got if a[0] in of_the_day], [a for a in Engine().run([lines]).outputs if a[0] in of_the_day])


@pytest.mark.long
def test_the_real_file_gives_the_published_answers(spark: Any, real_data: Path) -> None:
    lines = (real_data / "linear-road" / "datafile3hours_t0000-0418.dat").read_text().splitlines()
    tuples = accepted(lines)
    got = run(superbox_on(spark, with_means=False), tuples, range(0, len(tuples), 2000)[1:])
    same([answer for answer in got if answer[0] != 3], [a for a in linear_road.answers(lines).outputs if a[0] != 3])
    assert Counter(answer[0] for answer in got)[0] == 14_388
    assert Counter(answer[0] for answer in got)[1] == 513


# --- the window functions, one tuple after the other


def add_speed(sums: Any, vid: int | None, spd: int | None) -> Any:
    """Each vehicle's sum and count of speeds."""
    if vid is not None and spd is not None:
        total, count = sums.get(vid, (0, 0))
        sums[vid] = total + spd, count + 1
    return sums


def mean_speed(sums: Any) -> float | None:
    return sum(total / count for total, count in sums.values()) / len(sums) if sums else None


def add_accident(found: Any, seg: int, accident: int | None) -> Any:
    nearer = accident is not None and (found is None or abs(accident - seg) < abs(found - seg))
    return accident if nearer else found


ONE_BY_ONE = {
    "mean_speed": WindowFunction("mean_speed", lambda _: {}, add_speed, mean_speed, "float"),
    "nearest": WindowFunction("nearest", lambda _: None, add_accident, lambda found: found, "integer"),
}
#: of each argument, what it can be
ARGUMENTS = {
    "mean_speed": (st.sampled_from([NULL_INTEGER, 1, 2, 3]), st.sampled_from([NULL_INTEGER, 10, 33, 60])),
    "nearest": (st.just(5), st.sampled_from([NULL_INTEGER, NULL_INTEGER, 5, 6, 7])),
}


@pytest.mark.parametrize("name", ONE_BY_ONE)
@given(data=st.data())
def test_a_function_of_all_windows_gives_what_it_gives_tuple_by_tuple(name: str, data: st.DataObject) -> None:
    functions("linear_road")
    rows = data.draw(st.lists(st.tuples(*ARGUMENTS[name]), min_size=1, max_size=12))
    size = data.draw(st.integers(1, 4))
    first = np.arange(0, len(rows), data.draw(st.integers(1, 4)))
    columns = {f"a{i}": np.array(values, np.int64) for i, values in enumerate(zip(*rows, strict=True))}
    windows = Windows((), first, np.minimum(first + size, len(rows)), first)
    table = Sorted(columns, np.arange(len(rows)))
    whole, one_by_one = (
        apply(Function("f", name, tuple(columns), user), table, windows)
        for user in (find_registered(name), ONE_BY_ONE[name])
    )
    np.testing.assert_allclose(whole, one_by_one)
    assert whole.dtype == one_by_one.dtype
