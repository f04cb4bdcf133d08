"""Linear Road as a network of boxes gives the tuples that the rules, and the toll engine, give."""

from __future__ import annotations

import csv
from pathlib import Path
from random import Random

from linear_road.engine_in_memory import Engine
from oracles import linear_road
from oracles.network_engines import stream
from oracles.network_loads import functions
from slipstream.network import files

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
