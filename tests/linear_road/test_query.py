"""The engine on Spark: runs, text, folders and sockets give the same answers as the oracle."""

from __future__ import annotations

import csv
import json
import socket
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from linear_road.test_exactness import GARBAGE
from oracles.linear_road import answers
from oracles.trips import trips_of
from slipstream._archive import open_archive
from slipstream._city.history_writer import make_history
from slipstream._city.simulate import simulate
from slipstream._city.traffic import Traffic
from slipstream._cuboid.snapshots.snapshot import Snapshot
from slipstream._errors import BadArgument, BadInput
from slipstream._feeds.tuple_text import export_text, import_text
from slipstream._feeds.tuples import FIELDS
from slipstream._io import outputs
from slipstream._linear_road.answer_text import REJECTED, TEXT
from slipstream._linear_road.job.engine import Settings, toll_feed, toll_frame, toll_run
from slipstream._linear_road.job.toll_journal import last_batch
from slipstream._linear_road.job.toll_layout import ANSWERS_AND_TRIPS
from slipstream._linear_road.output_tables import answers_frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slipstream._feeds.history import History
    from slipstream._feeds.run import Run


def output_lines(out: Path) -> list[tuple[int, ...]]:
    """The lines of output.csv without Emit."""
    found = []
    for line in (out / TEXT).read_text().splitlines():
        fields = [int(value) for value in line.split(",")]
        del fields[3 if fields[0] == 0 else 2]
        found.append(tuple(fields))
    return found


@pytest.fixture(scope="module")
def run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    traffic = Traffic(expressways=1.5, minutes=7, demand=4.0, accident_every=3, returning=0.3)
    return simulate(spark, traffic, 5, tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture(scope="module")
def text(run: Run) -> list[str]:
    file = run.path.parent / "feed.dat"
    with file.open("wb") as out:
        export_text(run, out)
    return file.read_text().splitlines()


def test_a_replayed_run_gives_the_oracles_answers(
    spark: SparkSession, run: Run, text: list[str], tmp_path: Path
) -> None:
    summary = toll_run(spark, run, tmp_path / "out", Settings(batch_seconds=100, parallel=3))
    expected = answers(text).outputs
    assert any(output[0] == 0 and output[4] > 0 for output in expected)
    assert any(output[0] == 1 for output in expected)
    found = output_lines(tmp_path / "out")
    assert sorted(found) == sorted(expected)
    assert summary["answers"]["toll"] == sum(output[0] == 0 for output in expected)
    assert answers_frame(spark, tmp_path / "out").count() == len(expected)
    tolls = outputs.to_frame(spark, tmp_path / "out", "notifications")
    assert sorted(map(tuple, tolls.select("vid", "time", "lav", "toll").collect())) == sorted(
        output[1:] for output in expected if output[0] == 0
    )


def test_every_tolled_report_is_in_one_trip_also_after_a_restart(
    spark: SparkSession, run: Run, text: list[str], tmp_path: Path
) -> None:
    def stop() -> None:
        last = last_batch(tmp_path / "out")
        if last is not None and last.newest >= 60:
            raise KeyboardInterrupt

    settings = Settings(batch_seconds=40, parallel=2, outputs=ANSWERS_AND_TRIPS, until=160)
    text = [line for line in text if int(line.split(",")[1]) < 160]
    with pytest.raises(KeyboardInterrupt):
        toll_run(spark, run, tmp_path / "out", replace(settings, watch=stop))
    expected = trips_of(text)
    assert open_archive(spark, tmp_path / "out").count() < len(expected)
    summary = toll_run(spark, run, tmp_path / "out", settings)
    assert sorted(output_lines(tmp_path / "out")) == sorted(answers(text).outputs)
    rows = open_archive(spark, tmp_path / "out").selectExpr(
        "vid", "xway", "dir", "transform(Trip.t, t -> cast(unix_seconds(t) - 1180310400 as int)) AS t", "Trip.x AS x"
    )
    found = sorted(
        ((row.vid, row.xway, row.dir), tuple(zip(row.t, (round(x / 0.3048) for x in row.x), strict=True)))
        for row in rows.collect()
    )
    assert found == [(head, tuple((time, pos) for time, pos, _ in reports)) for head, reports in expected]
    assert summary["archived"] == sum(len(reports) for _, reports in expected)
    with pytest.raises(BadInput, match="until 160, not 420"):
        toll_run(spark, run, tmp_path / "out", replace(settings, until=None))


def test_text_with_garbage_gives_the_oracles_answers_and_rejects(
    spark: SparkSession, text: list[str], tmp_path: Path
) -> None:
    feed = text[:3000] + GARBAGE + text[2000:2100] + text[3000:6000]
    (tmp_path / "feed.dat").write_text("\n".join(feed))
    toll_feed(spark, str(tmp_path / "feed.dat"), tmp_path / "out", Settings(lateness=20))
    expected = answers(feed, lateness=20)
    assert sorted(output_lines(tmp_path / "out")) == sorted(expected.outputs)
    rejected = [tuple(line.split(",", 1)) for line in (tmp_path / "out" / REJECTED).read_text().splitlines()]
    assert Counter(rejected) == Counter((reason, line) for line, reason in expected.rejects)


def test_what_comes_over_tcp_is_tolled_and_archived_to_its_end(
    spark: SparkSession, text: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slipstream._linear_road.job.engine.REHEARSALS", 2)  # nobody waits for the first answer here
    feed = text[:1500]

    def serve(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            for start in range(0, len(feed), 100):
                connection.sendall("".join(line + "\n" for line in feed[start : start + 100]).encode())

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        address = f"tcp:127.0.0.1:{server.getsockname()[1]}"
        # as CSV with names of its own
        names = {name: f"its_{name}" for name in FIELDS}
        own = {"encoding": "csv", "columns": names, "fields": tuple(names.values())}
        settings = Settings(lateness=2, follow=True, outputs=ANSWERS_AND_TRIPS, **own)
        summary = toll_feed(spark, address, tmp_path / "out", settings)
        thread.join()
    expected = trips_of(feed, lateness=2)
    assert (summary["trips"], summary["archived"]) == (len(expected), sum(len(reports) for _, reports in expected))
    assert sorted(output_lines(tmp_path / "out")) == sorted(answers(feed, lateness=2).outputs)


@pytest.mark.parametrize("parallel", [1, 2])
def test_vehicles_known_by_text_are_named_in_answers_trips_rejects_and_cuboids(
    spark: SparkSession, text: list[str], tmp_path: Path, parallel: int
) -> None:
    """Also after a restart: whoever has a number keeps it."""
    feed = [*text[:1200], text[5], *text[1200:2400]]
    names = {line.split(",")[2]: f'B-"{line.split(",")[2]}", Ü' for line in feed}
    rows = [dict(zip(FIELDS, map(int, line.split(",")), strict=True)) for line in feed]
    (tmp_path / "cars").mkdir()
    for number in range(4):
        lines = [json.dumps({**row, "vin": names[str(row["vid"])]}) for row in rows[number * 601 : number * 601 + 601]]
        (tmp_path / "cars" / f"{number}.json").write_text("\n".join(lines) + "\n")
    settings = Settings(
        lateness=2, encoding="json", columns={"vid": "vin"}, outputs=ANSWERS_AND_TRIPS, parallel=parallel,
        queries="CREATE QUERY fast AS SELECT vid, time FROM car WHERE speed[0] > 60",
    )  # fmt: skip

    def stop() -> None:
        if last_batch(tmp_path / "out") is not None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        toll_feed(spark, str(tmp_path / "cars"), tmp_path / "out", replace(settings, watch=stop))
    toll_feed(spark, str(tmp_path / "cars"), tmp_path / "out", settings)
    expected = answers(feed, lateness=2)
    tolls = outputs.read(tmp_path / "out", "notifications")
    found = zip(*(tolls[name].to_pylist() for name in ("vehicle", "time", "lav", "toll")), strict=True)
    assert sorted(found) == sorted((names[str(row[1])], *row[2:]) for row in expected.outputs if row[0] == 0)
    numbers = zip(tolls["vehicle"].to_pylist(), tolls["vid"].to_pylist(), strict=True)
    assert len(set(numbers)) == len(set(tolls["vehicle"].to_pylist()))
    trips = Counter(row.vehicle for row in open_archive(spark, tmp_path / "out").select("vehicle").collect())
    assert trips == Counter(names[str(head[0])] for head, _ in trips_of(feed, lateness=2))
    rejected = outputs.read(tmp_path / "out", "rejects").select(["reason", "line"]).to_pylist()
    kind, time, vid, *rest = text[5].split(",")
    assert rejected == [{"reason": "late", "line": ",".join([kind, time, names[vid], *rest])}]
    lines = csv.reader((tmp_path / "out" / TEXT).read_text().splitlines())
    assert {line[1] for line in lines if line[0] == "0"} == set(tolls["vehicle"].to_pylist())
    fast = outputs.read(tmp_path / "out", "fast")
    reports = [row for row in rows if row["type"] == 0 and row["spd"] > 60]
    assert set(zip(fast["vid"].to_pylist(), fast["time"].to_pylist(), strict=True)) == {
        (names[str(row["vid"])], row["time"]) for row in reports
    }
    snapshot, newest = Snapshot.open(tmp_path / "out"), max(row["time"] for row in rows)
    last = {names[str(row["vid"])]: row["time"] for row in rows if row["type"] == 0}
    there = {vehicle: snapshot["car"].get(vehicle) for vehicle, time in last.items() if time > newest - 60}
    assert there
    assert {vehicle: car and (car["vid"], car["time"]) for vehicle, car in there.items()} == {
        vehicle: (vehicle, last[vehicle]) for vehicle in there
    }
    accounts = snapshot["account"].scan(["key"])["key"].tolist()
    assert len(accounts) == len(set(accounts))
    assert set(accounts) <= set(names.values())


def test_a_streaming_dataframe_is_tolled(spark: SparkSession, text: list[str], tmp_path: Path) -> None:
    """Spark's own reader of files; what is no number is rejected, and the newest second waits."""
    feed = [line for line in text if int(line.split(",")[1]) < 100]
    newest = max(int(line.split(",")[1]) for line in feed)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("".join(line + "\n" for line in [*feed, "x" + ",1" * 14]))
    frame = spark.readStream.schema(", ".join(f"{name} string" for name in FIELDS)).csv(str(tmp_path / "in"))

    def stop() -> None:
        last = last_batch(tmp_path / "out")
        if last is not None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        toll_frame(spark, frame, tmp_path / "out", Settings(lateness=0, watch=stop, follow=True))
    expected = [output for output in answers(feed, lateness=0).outputs if output[2 if output[0] == 0 else 1] < newest]
    assert sorted(output_lines(tmp_path / "out")) == sorted(expected)
    with pytest.raises(BadArgument, match="has no column 'vid'"):
        toll_frame(spark, frame.drop("vid"), tmp_path / "other", Settings())


def test_the_history_answers_expenditures_and_travel_times(
    spark: SparkSession, text: list[str], tmp_path: Path
) -> None:
    (tmp_path / "feed.dat").write_text("\n".join(text[:4000]))
    made = import_text(tmp_path / "feed.dat", tmp_path / "run")
    past = RecordedPast(make_history(made, spark, seed=1))
    toll_run(spark, made, tmp_path / "out", Settings(batch_seconds=200))
    expected = answers(text[:4000], history=past).outputs
    assert any(output[0] == 3 and output[3] > 0 for output in expected)
    assert any(output[0] == 4 and output[3] > 0 for output in expected)
    assert sorted(output_lines(tmp_path / "out")) == sorted(expected)


class RecordedPast:
    """A history as the oracle asks for it."""

    def __init__(self, history: History) -> None:
        self._history = history
        tolls = pq.read_table(history.folder / "tolls").to_pydict()
        keys = zip(tolls["vid"], tolls["day"], tolls["xway"], strict=True)
        self._tolls = dict(zip(keys, tolls["tolls"], strict=True))

    def expenditure(self, vid: int, day: int, xway: int) -> int | None:
        return self._tolls.get((vid, day, xway))

    def mean(self, xway: int, dir: int, seg: int, dow: int, minute: int) -> tuple[float, float] | None:
        place = (dow - 1, minute - 1, dir, seg)
        return float(self._history.speeds[xway][place]), float(self._history.counts[xway][place])


def test_settings_of_another_start_are_refused(spark: SparkSession, run: Run, tmp_path: Path) -> None:
    toll_run(spark, run, tmp_path / "out", Settings(until=5))
    with pytest.raises(BadInput, match="rules 2004, not 2003"):
        toll_run(spark, run, tmp_path / "out", Settings(until=5, rules="2003"))
    stored = tmp_path / "out" / "job.json"
    stored.write_text(json.dumps({**json.loads(stored.read_text()), "state_version": 99}))
    with pytest.raises(BadInput, match="state version is 99"):
        toll_run(spark, run, tmp_path / "out", Settings(until=5))


def test_a_folder_of_something_else_is_left_alone(spark: SparkSession, run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("keep")
    with pytest.raises(BadArgument, match="not the folder of a toll job"):
        toll_run(spark, run, tmp_path, Settings())
