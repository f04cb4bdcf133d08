"""``slipstream.testing``: the examples' own box, rule, source and destination, without Spark and in it."""

from __future__ import annotations

import importlib.util
import random
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import slipstream as ss
from oracles.linear_road import answers
from oracles.streams import report
from slipstream import testing

EXAMPLES = Path(__file__).parents[2] / "examples" / "python"
CARS = {"id": "string", "time": "bigint", "position": "bigint"}


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module", autouse=True)
def examples() -> Iterator[None]:
    yield
    for name in [path.stem for path in EXAMPLES.glob("*.py")]:
        sys.modules.pop(name, None)


Jumps = example("own_box").Jumps
per_car = example("own_rules").per_car
Positions = example("own_source").Positions
Alerts = example("own_destination").Alerts


def some_reports(count: int) -> list[dict[str, Any]]:
    chance = random.Random(count)
    return [{"id": f"car{chance.randrange(5)}", "time": i, "position": chance.randrange(1000)} for i in range(count)]


def jumps(reports: list[dict[str, Any]], limit: int) -> list[dict[str, Any]]:
    last: dict[str, int] = {}
    found = []
    for one in reports:
        jump = abs(one["position"] - last.get(one["id"], one["position"]))
        last[one["id"]] = one["position"]
        if jump > limit:
            found.append({**one, "jump": jump})
    return found


@settings(max_examples=40)
@given(
    reports=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 100)), max_size=40),
    cuts=st.lists(st.sampled_from(["", "crash", "restart"]), min_size=1, max_size=6),
)
def test_a_box_gives_the_same_however_its_stream_is_cut(reports: list[tuple[str, int]], cuts: list[str]) -> None:
    rows = [{"id": who, "time": i, "position": place} for i, (who, place) in enumerate(reports)]
    stream = ss.read("kafka://nowhere:1/cars", CARS)
    captured = testing.CapturingOutput()
    host = testing.MemoryHost(ss.Job("out").write(stream.through(Jumps(limit=30)), name="jumps", to=captured))
    size = len(rows) // len(cuts) + 1
    for number, what in enumerate(cuts):
        if what == "restart":
            host.restart()
        host.send(rows[number * size : (number + 1) * size], crash=what == "crash")
    assert host.outputs["jumps"] == captured.rows == jumps(rows, 30)


def test_a_toll_rule(tmp_path: Path) -> None:
    assert per_car(np.array([49, 50, 10]), np.array([12, 12, 10])).tolist() == [10, 0, 0]
    # sixty cars on two miles, a third of a mile a minute: every minute some enter a segment in which others are
    lines = [report(s, vid, 5280 * 4 + 176 * vid + 30 * s, spd=20) for s in range(0, 300, 30) for vid in range(60)]
    lines.sort(key=lambda line: int(line.split(",")[1]))
    names = dict(
        zip(("time", "id", "speed", "expressway", "lane", "direction", "segment", "position"), range(1, 9), strict=True)
    )
    rows = [{name: int(line.split(",")[place]) for name, place in names.items()} for line in lines]
    tolls = {}
    for rules in ("2004", per_car, ss.Rules("mine", toll=per_car)):
        tolled = ss.read(testing.MemorySource(ss.REPORT, rows, per_batch=100)).toll(rules=rules)
        host = testing.MemoryHost(ss.Job("out").write(tolled))
        tolls[str(rules)] = host.run()["notifications"]
    theirs, by_function, by_rules = tolls.values()
    expected = [row[1:] for row in answers(lines, lateness=0).outputs if row[0] == 0]
    assert sorted(tuple(row.values()) for row in theirs) == sorted(expected)
    assert by_function == by_rules != theirs
    assert {row["toll"] % 5 for row in by_function} == {0}
    assert max(row["toll"] for row in by_function) > max(row["toll"] for row in theirs)


def database(path: Path, reports: list[dict[str, Any]]) -> str:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE positions (id TEXT, time INTEGER, position INTEGER)")
        db.executemany("INSERT INTO positions VALUES (:id, :time, :position)", reports)
    return str(path)


def test_a_source(tmp_path: Path) -> None:
    rows = some_reports(2500)
    assert testing.check_source(Positions(database(tmp_path / "fleet.db", rows), 2500)) == rows


def test_a_source_that_breaks_its_contract_is_caught() -> None:
    class Moody(testing.MemorySource):
        def read(self, start: int, end: int) -> Any:
            self.push({"id": len(self._rows)})
            return super().read(len(self._rows) - end, len(self._rows) - start)

    with pytest.raises(ss.CheckFailed, match=r"Moody.read\(0, 2\) returned other tuples"):
        testing.check_source(Moody({"id": "bigint"}, [{"id": 1}, {"id": 2}]))


def test_a_destination_gets_each_batch_once(tmp_path: Path) -> None:
    rows = some_reports(50)
    alerts = Alerts(str(tmp_path / "alerts.db"))
    stream = ss.read("kafka://nowhere:1/cars", CARS)
    host = testing.MemoryHost(ss.Job("out").write(stream.select("id", "time"), name="alerts", to=alerts))
    host.send(rows[:20])
    host.send(rows[20:], crash=True)
    with sqlite3.connect(alerts.database) as db:
        assert db.execute("SELECT * FROM alerts").fetchall() == [(row["id"], row["time"]) for row in rows]


def test_windows_time_out_by_the_manual_clock() -> None:
    clock = testing.ManualClock(100.0)
    stream = ss.read("kafka://nowhere:1/cars", CARS)
    host = testing.MemoryHost(
        ss.Job("out").archive(stream.select("id", "time", x="position", y="position")), clock=clock
    )
    host.send([{"id": "a", "time": 0, "position": 1}, {"id": "a", "time": 10, "position": 2}])
    clock.advance(60)
    assert host.send([{"id": "a", "time": 1000, "position": 3}])["trips"][0]["Trip"]["x"] == [1.0, 2.0]
    assert [trip["Trip"]["x"] for trip in host.end()["trips"]] == [[3.0]]


def test_what_only_spark_can_compute_is_refused() -> None:
    stream = ss.read("kafka://nowhere:1/cars", CARS)
    with pytest.raises(ss.BadArgument, match="only Spark"):
        testing.MemoryHost(ss.Job("out").write(stream.select(a="soundex(id)"), name="a"))


@pytest.mark.parametrize("point", ["outputs.before-commit", "outputs.after-tables", "outputs.before-journal"])
def test_in_spark_a_job_with_all_of_them_survives_a_failure(spark: SparkSession, tmp_path: Path, point: str) -> None:
    rows = some_reports(1500)
    source = Positions(database(tmp_path / "fleet.db", rows), 1500)
    captured, alerts = testing.CapturingOutput(), Alerts(str(tmp_path / "alerts.db"))
    job = ss.Job(tmp_path / "out").write(ss.read(source).through(Jumps(limit=500)), name="jumps", to=[captured, alerts])
    with testing.failpoint(point):
        failed = job.start(spark)
        with pytest.raises(ss.Unavailable, match="disk is full"):
            failed.wait(120)
    out = job.run(spark, timeout=120)
    expected = jumps(rows, 500)
    assert out["jumps"].to_pylist() == captured.rows == expected
    with sqlite3.connect(alerts.database) as db:
        assert db.execute("SELECT * FROM alerts").fetchall() == [(row["id"], row["time"]) for row in expected]


def test_a_query_returns_whole_streams_of_the_keys_that_its_condition_selects() -> None:
    """The condition does not hold for a key without values, from which the types of the columns are found."""
    speeds = (9.0, 3.0, 6.0, 3.0, 9.0, 1.0, 1.0)
    cars = testing.MemorySource({"id": "bigint", "speed": "double"}, [{"id": 1, "speed": speed} for speed in speeds])
    kept = ss.read(cars).keep("CREATE CUBOID driver (id BIGINT KEY, speed AST(3))")
    query = kept.query("SELECT id, speed FROM driver WHERE avg(speed) > 5")
    assert query.schema == {"id": "bigint", "speed": "array<double>"}
    found = testing.MemoryHost(ss.Job("out").write(query, name="fast")).run()["fast"]
    assert [row["speed"][0] for row in found] == [9.0, 3.0, 6.0, 9.0]
