"""The archive of position reports: the same trips in batch and in a stream, and questions about Linear City."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import Slipstream
from slipstream.errors import BadArgument, BadInput
from slipstream.feeds.text import import_text
from slipstream.feeds.tuples import FIELDS, SCHEMA
from slipstream.moving import register
from slipstream.moving.archive import archive_stream, arriving, is_linear_city, open_archive, trajectories


def report(time, vid, pos, lane=1, direction=0, xway=0):
    values = {"type": 0, "time": time, "vid": vid, "spd": 50, "xway": xway, "lane": lane, "dir": direction}
    return {**dict.fromkeys(FIELDS, -1), **values, "seg": pos // 5280, "pos": pos}


#: vehicle 1 drives, is silent, drives again; 2 overtakes it in the same lane; 3 has a crash's standstill and a double
REPORTS = [
    *(report(30 * k, 1, 1000 + 1500 * k) for k in range(5)),
    *(report(600 + 30 * k, 1, 20000 + 1500 * k) for k in range(3)),
    *(report(30 * k, 2, 3000 * k) for k in range(5)),
    *(report(30 * k, 3, 9000, lane=2) for k in range(5)),
    report(60, 3, 9001, lane=2),
]


def table(rows):
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def trips_of(frame):
    rows = frame.toArrow().to_pylist()
    return sorted((r["vid"], r["Trip"]["t"][0], len(r["Trip"]["t"]), r["Dropped"]) for r in rows)


@pytest.fixture
def slipstream(capsys):
    return Slipstream(capsys)


@pytest.fixture(scope="module")
def reports(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    pq.write_table(table(REPORTS), folder / "all.parquet")
    return spark.read.parquet(str(folder))


def test_a_silence_ends_a_trip_and_doubles_are_counted(reports):
    trips = trips_of(trajectories(reports))
    assert [(vid, size, dropped) for vid, _, size, dropped in trips] == [(1, 5, 0), (1, 3, 0), (2, 5, 0), (3, 5, 1)]


def test_the_same_operators_answer_questions_about_linear_city(spark, reports):
    register(spark)
    trajectories(reports).createOrReplaceTempView("trips")
    met = (
        spark.sql(
            """SELECT A.vid AS one, B.vid AS other FROM trips A JOIN trips B ON A.vid < B.vid
           WHERE sometimes(at_most(distance(A.Trip, B.Trip), 3.0))"""
        )
        .toArrow()
        .to_pylist()
    )
    assert met == [{"one": 1, "other": 2}]
    passed = (
        spark.sql(
            """SELECT DISTINCT vid FROM trips
               WHERE passes(Trip, circle(point(9000 * 0.3048D, 2 * 3.6576D), 4, 32)) ORDER BY vid"""
        )
        .toArrow()["vid"]
        .to_pylist()
    )
    assert passed == [2, 3]


def test_a_stream_writes_each_trip_once_and_goes_on_where_it_stopped(spark, reports, tmp_path):
    folder = tmp_path / "arriving"
    folder.mkdir()
    for k, low in enumerate((0, 120, 600)):
        rows = [r for r in REPORTS if low <= r["time"] < low + 120]
        pq.write_table(table(rows), folder / f"{k:03d}.parquet")
        if k == 1:  # stop, and go on later
            archive_stream(arriving(spark, folder), tmp_path / "out", once=True).awaitTermination()
    pq.write_table(table([report(5000, 99, 0)]), folder / "900.parquet")
    archive_stream(arriving(spark, folder), tmp_path / "out", once=True).awaitTermination()
    batch = trips_of(trajectories(reports))
    assert trips_of(open_archive(spark, tmp_path / "out")) == batch
    assert is_linear_city(tmp_path / "out")
    assert not is_linear_city(folder)


@pytest.fixture
def feed(tmp_path):
    rows = sorted(REPORTS, key=lambda r: r["time"])
    (tmp_path / "feed.dat").write_text("".join(",".join(str(r[name]) for name in FIELDS) + "\n" for r in rows))
    return tmp_path / "feed.dat"


def test_lines_become_the_same_trips_and_a_bad_one_is_kept(spark, reports, feed, tmp_path, slipstream):
    with feed.open("a") as file:
        file.write("0,700,what\n")
    outcome = slipstream("archive", feed, "--out", tmp_path / "out", "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.json == {"trips": 4, "rejected": 1}
    assert trips_of(open_archive(spark, tmp_path / "out")) == trips_of(trajectories(reports))
    kept = spark.read.csv(str(tmp_path / "out" / "rejects")).toArrow().to_pylist()
    assert [list(row.values()) for row in kept] == [["0,700,what", "fields"]]


def test_a_feed_of_which_everything_is_rejected_ends_with_exit_code_3(tmp_path, slipstream):
    (tmp_path / "pings.csv").write_text("id,ts,lon,lat\n7,2026-05-04T08:00:00Z,13.4,52.5\n")
    outcome = slipstream("archive", tmp_path / "pings.csv", "--out", tmp_path / "out", "--json")
    assert outcome.code == 3
    assert outcome.json == {"trips": 0, "rejected": 2}
    assert "2 of 2 rejected" in outcome.err
    assert str(tmp_path / "out" / "rejects") in outcome.err


def test_a_replayed_run_becomes_the_same_trips_as_the_run_taken_whole(spark, feed, tmp_path, slipstream):
    import_text(feed, tmp_path / "run")
    whole = slipstream("archive", tmp_path / "run", "--out", tmp_path / "whole", "--json").json
    assert (whole["trips"], whole["vehicles"], whole["dropped"]) == (4, 3, 1)
    streamed = slipstream("archive", tmp_path / "run", "--out", tmp_path / "out", "--speed", "1000", "--json").json
    assert streamed == {"trips": 4, "rejected": 1}
    first, second = (trips_of(open_archive(spark, tmp_path / name)) for name in ("whole", "out"))
    assert [trip[:3] for trip in first] == [trip[:3] for trip in second]


def test_what_is_no_archive_is_refused(spark, tmp_path, slipstream):
    with pytest.raises(BadInput, match="no archive"):
        open_archive(spark, tmp_path)
    with pytest.raises(BadArgument, match="no such folder"):
        arriving(spark, tmp_path / "none")
    for arguments, word in (
        (["none.dat"], "no such file"),
        ([".", "--encoding", "xml"], "--encoding"),
        ([".", "--speed", "-1"], "--speed"),
    ):
        outcome = slipstream("archive", *arguments, "--out", tmp_path / "x")
        assert outcome.code == 2
        assert word in outcome.err
