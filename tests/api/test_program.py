"""The program on the first page, as a user writes it, against oracles that share no code with it."""

from __future__ import annotations

import csv
import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import slipstream as ss
from oracles.linear_road import Tuple, answers
from oracles.streams import busy_stream
from oracles.trips import trips as trips_of_reports
from services import service
from slipstream._city.simulate import simulate
from slipstream._city.traffic import Traffic

FIELDS = ("time", "vid", "spd", "xway", "lane", "dir", "seg", "pos")
NAMES = ("ts", "vin", "speed", "expressway", "lane", "direction", "segment", "position")
ANSWERS = {"notifications": (0, ("vid", "time", "lav", "toll")), "alerts": (1, ("time", "vid", "seg"))}
FOOT, START = 0.3048, 1_180_310_400


def whole_reports(lines: list[str]) -> list[list[int]]:
    """The position reports among some lines, without those that nobody can parse."""
    parts = [line.split(",") for line in lines if line.startswith("0,")]
    good = [fields for fields in parts if len(fields) == 15 and all(f.lstrip("-").isdecimal() for f in fields)]
    return [[*map(int, fields[:9]), *[-1] * 6] for fields in good if max(map(len, fields)) < 10]


@pytest.fixture(scope="module")
def reports() -> list[list[int]]:
    found = whole_reports(busy_stream(5, vehicles=300, seconds=400))
    last = max(row[1] for row in found)
    # a report far away, which completes every second before it
    return [*found, [0, last + 10, 999_999, 50, 9, 1, 0, 0, 100, *[-1] * 6]]


@pytest.fixture(scope="module")
def recording(reports: list[list[int]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("feed") / "positions.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(NAMES)
        writer.writerows(row[1:9] for row in reports)
    return path


PROGRAM = """
import slipstream as ss

reports = ss.read({where!r}, columns={columns!r})
tolled  = reports.toll(rules="2004", lateness="2s")
slow    = reports.filter("speed < 20").window("time", size="1 minute", by="segment").agg(cars="count(*)")
job     = ss.Job("out").write(tolled).write(slow, name="slow").archive(reports).start()
job.status(); job.wait(); job.stop()

out = ss.open("out")
rows = out["slow"].to_spark(); car = tolled.cars.open("out").newest(1)[0]["vid"]
speed = out.cuboid("car")[car].speed[0]; far = out.trips().where("travelled(Trip) > 1000")
before = out.as_of(out.status().batches - 1)
"""


def run_program(where: str, columns: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The program that the API was designed for, as it was written down."""
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    exec(PROGRAM.format(where=where, columns=columns), names)
    assert 0 <= names["speed"] <= 100
    assert 0 < len(names["far"]) < len(names["out"].trips())
    assert len(names["before"]["slow"]) == names["rows"].count() == len(names["out"]["slow"])
    assert len(names["before"].cuboid(names["tolled"].accounts)) > 0
    return names


def test_the_program_on_a_run(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulate(spark, Traffic(expressways=0.5, minutes=5, demand=4.0), 1, tmp_path / "run")
    names = run_program(str(tmp_path / "run"), {"id": "vid"}, tmp_path, monkeypatch)
    assert "finished" in names["job"]._repr_html_()
    assert "<caption>car: " in names["out"].cuboid("car")._repr_html_()
    assert "<polyline" in names["far"]._repr_html_()
    with pytest.raises(ss.BadArgument, match="batch 1000 is not committed"):
        names["out"].as_of(1000)


def program(reports: ss.Stream, out: Path) -> ss.Job:
    """The program of the README."""
    tolled = reports.toll(rules="2004", lateness="2s")
    slow = reports.filter("speed < 20").window("time", size="1 minute", by="segment").agg(cars="count(*)")
    return ss.Job(out).write(tolled).write(slow, name="slow").archive(reports)


@pytest.fixture(scope="module")
def out(spark: SparkSession, recording: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job") / "out"
    settings = {row.key: row.value for row in spark.sql("SET").collect()}
    job = program(ss.read(recording, columns={"id": "vin", "time": "ts"}), folder).start(spark)
    assert job.status().state in ("new", "starting", "ready", "running")
    job.wait(300)
    assert job.status().has_finished
    job.stop()
    assert {row.key: row.value for row in spark.sql("SET").collect()} == settings
    return folder


def slow_oracle(reports: list[list[int]]) -> Counter[tuple[int, int]]:
    """Slow cars of each segment and minute, of the minutes that are over when the last slow report comes."""
    slow = [row for row in reports if row[3] < 20]
    over = max(row[1] for row in slow) // 60
    return Counter((row[7], row[1] // 60 * 60) for row in slow if row[1] // 60 < over)


def check_tolls(out: ss.Results, reports: list[list[int]], lateness: int) -> None:
    expected = answers([",".join(map(str, row)) for row in reports], lateness=lateness)
    got = []
    for output, (number, names) in ANSWERS.items():
        got += [(number, *(row[name] for name in names)) for row in out[output].to_pylist()]
    assert sorted(got) == sorted(expected.outputs)
    assert len(got) > 500
    assert Counter(row["reason"] for row in out["toll_rejects"].to_pylist()) == Counter(r for _, r in expected.rejects)


def test_tolls_are_the_oracles(out: Path, reports: list[list[int]]) -> None:
    check_tolls(ss.open(out), reports, 2)


def test_windows_are_counted(out: Path, reports: list[list[int]], spark: SparkSession) -> None:
    found = ss.open(out)["slow"]
    rows = found.to_spark(spark).collect()
    assert Counter({(row.segment, row.time): row.cars for row in rows}) == slow_oracle(reports)
    assert len(rows) == len(found)
    assert [row.asDict() for row in rows] == found.to_pylist() == found.to_pandas().to_dict("records")
    assert found.tail(3) == found.to_pylist()[-3:]
    assert found.columns == ["segment", "time", "cars"]


def test_trips_are_the_oracles(out: Path, reports: list[list[int]], spark: SparkSession) -> None:
    # the archive takes what has the columns of a report: one per vehicle, expressway and second, in order
    newest: dict[tuple[int, int], int] = {}
    taken = []
    for row in reports:
        if row[1] > newest.get((row[2], row[4]), -1):
            newest[row[2], row[4]] = row[1]
            taken.append(Tuple(*row))
    expected = trips_of_reports(taken)
    trips = ss.open(out).trips()
    found = [
        (row["id"], tuple(zip((at.timestamp() for at in row["Trip"]["t"]), row["Trip"]["x"], strict=True)))
        for row in trips.to_spark(spark).collect()
    ]
    plain = [(who[0], tuple((float(t + START), pos * FOOT) for t, pos, _ in path)) for who, path in expected]
    assert sorted(found) == sorted(plain)
    assert len(trips) == len(found)
    long = trips.where("travelled(Trip) > 1000")
    assert 0 < len(long) < len(trips)
    assert "<polyline" in trips._repr_html_()
    with pytest.raises(ss.BadArgument, match=r"where\('wheels > 3'\)") as error:
        trips.where("wheels > 3").to_spark(spark)
    assert "\n\tat " not in str(error.value)


def test_cuboids_are_published(out: Path, spark: SparkSession) -> None:
    results = ss.open(out)
    assert "account" in results.cuboids
    accounts = results.cuboid("account")
    assert len(accounts) > 0
    charged = results.sql("SELECT count(*) AS n FROM account")
    assert charged["n"].tolist() == [len(accounts)]
    assert set(results.cuboids) == {"account", "accident", "car", "segment"}
    car = results.cuboid("car")
    vehicles = car.scan(["key"])["key"]
    assert len(car) == len(vehicles) > 0
    assert 0 <= car[int(vehicles[0])].speed[0] <= 100


def test_the_past_can_be_read(out: Path) -> None:
    results = ss.open(out)
    last = results.status().batches - 1
    assert len(results.as_of(last)["slow"]) == len(results["slow"])
    assert len(results.as_of(-1)["slow"]) == 0
    with pytest.raises(ss.BadArgument, match="batch 10000 is not committed"):
        results.as_of(10_000)


def test_a_job_that_is_complete_is_not_run_again(out: Path, recording: Path) -> None:
    before = ss.open(out).status()
    job = program(ss.read(recording, columns={"id": "vin", "time": "ts"}), out).start()
    assert job.wait(1).status() == before
    with pytest.raises(ss.BadArgument, match="contains another job"):
        ss.Job(out).write(ss.read(recording).filter("speed > 1"), name="fast").start()


def test_a_notebook_shows_jobs_and_networks(out: Path, recording: Path) -> None:
    job = program(ss.read(recording, columns={"id": "vin", "time": "ts"}), out)
    assert job._repr_html_().startswith("<svg")
    assert job.network._repr_html_().startswith("<svg")
    assert "finished" in ss.open(out)._repr_html_()
    assert "<td>" in ss.open(out)["slow"]._repr_html_()


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    yield from service("kafka")


@pytest.mark.long
def test_the_program_on_what_a_topic_has(
    broker: str, reports: list[list[int]], spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without ``follow``, a topic ends with the messages that it has when the job starts."""
    send, topic = producing(broker)
    send(reports)
    run_program(f"kafka://{broker}/{topic}", {"id": "vin", "time": "ts"}, tmp_path, monkeypatch)
    check_tolls(ss.open(tmp_path / "out"), reports, 2)


def producing(broker: str) -> tuple[Callable[[list[list[int]]], None], str]:
    """A new topic, and a function that sends reports to it."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    topic = f"positions-{uuid.uuid4().hex}"
    admin: Any = AdminClient({"bootstrap.servers": broker})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    producer: Any = Producer({"bootstrap.servers": broker})

    def send(rows: list[list[int]]) -> None:
        for row in rows:
            producer.produce(topic, json.dumps(dict(zip(NAMES, row[1:9], strict=True))).encode())
        assert producer.flush(60) == 0

    return send, topic


@pytest.mark.long
def test_the_program_on_a_topic(broker: str, reports: list[list[int]], spark: SparkSession, tmp_path: Path) -> None:
    """Live, stopped in the middle, resumed: the answers are those of the recording."""
    send, topic = producing(broker)
    half = len(reports) // 2
    live = ss.read(f"kafka://{broker}/{topic}", columns={"id": "vin", "time": "ts"}, follow=True)
    job = program(live, tmp_path / "out")
    running = job.start(spark)
    send(reports[:half])
    running.wait_for(lambda status: status.tuples >= half, timeout=120).stop()
    assert running.status().why == "asked to stop"
    send(reports[half:])
    with job.start(spark) as again:
        again.wait_for(lambda status: status.tuples >= len(reports), timeout=120)
    out = ss.open(tmp_path / "out")
    rows = out["slow"].to_pylist()
    assert Counter({(row["segment"], row["time"]): row["cars"] for row in rows}) == slow_oracle(reports)
    # the last second is not over, as a topic has no end
    before = [row for row in reports if row[1] < max(row[1] for row in reports)]
    check_tolls(out, before, 2)
