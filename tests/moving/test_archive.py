"""The archive of position reports: the same trips from a run, from text and after a restart, and queries on them."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

from commands import Slipstream
from oracles.trips import trips_of as expected_trips
from slipstream._archive import open_archive
from slipstream._archive.trip_tables import is_linear_city
from slipstream._errors import BadInput
from slipstream._feeds.tuple_text import import_text
from slipstream._feeds.tuples import FIELDS
from slipstream._linear_road.job.engine import Settings, toll_feed
from slipstream._linear_road.job.toll_journal import last_batch
from slipstream._linear_road.job.toll_layout import TRIPS, Layout
from slipstream._moving import register

FOOT = 0.3048


def report(time, vid, pos, lane=1, direction=0, xway=0):
    values = {"type": 0, "time": time, "vid": vid, "spd": 50, "xway": xway, "lane": lane, "dir": direction}
    tup = {**dict.fromkeys(FIELDS, -1), **values, "seg": pos // 5280, "pos": pos}
    return ",".join(str(tup[name]) for name in FIELDS)


#: vehicle 1 drives, is silent, drives again; 2 overtakes it in the same lane; 3 has a crash's standstill and a rival
#: report of one second; 4 leaves and enters again
REPORTS = sorted(
    [
        *(report(30 * k, 1, 1000 + 1500 * k) for k in range(5)),
        *(report(600 + 30 * k, 1, 20000 + 1500 * k) for k in range(3)),
        *(report(30 * k, 2, 3000 * k) for k in range(5)),
        *(report(30 * k, 3, 9000, lane=2) for k in range(5)),
        report(60, 3, 9001, lane=2),
        *(report(30 * k, 4, 40000 + 1000 * k, lane=4 if k == 2 else 1, xway=1, direction=1) for k in range(5)),
    ],
    key=lambda line: int(line.split(",")[1]),
)


def plain(frame):
    """Trips as the oracle has them; of the lane, the place across the road."""
    rows = frame.toArrow().to_pylist()
    return sorted(
        (
            (row["vid"], row["xway"], row["dir"]),
            tuple(
                (int(t.timestamp()) - 1180310400, round(x / FOOT), y)
                for t, x, y in zip(row["Trip"]["t"], row["Trip"]["x"], row["Trip"]["y"], strict=True)
            ),
        )
        for row in rows
    )


def expected(lines):
    def across(head, lane):
        return head[1] * 10 * 5280 * FOOT + (-1 if head[2] else 1) * (lane + 1) * 12 * FOOT

    trips = [
        (head, tuple((t, pos, pytest.approx(across(head, lane))) for t, pos, lane in reports))
        for head, reports in expected_trips(lines)
    ]
    return sorted(trips, key=lambda trip: (trip[0], trip[1][0][0]))


@pytest.fixture
def slipstream(capsys):
    return Slipstream(capsys)


@pytest.fixture
def feed(tmp_path):
    (tmp_path / "feed.dat").write_text("".join(line + "\n" for line in REPORTS))
    return tmp_path / "feed.dat"


def test_lines_become_trips_and_what_is_rejected_is_kept_with_the_reason(spark, feed, tmp_path, slipstream):
    with feed.open("a") as file:
        file.write("0,700,what\n")
    outcome = slipstream("archive", feed, "--out", tmp_path / "out", "--json")
    assert outcome.code == 0, outcome.err
    assert {name: outcome.json[name] for name in ("trips", "archived", "tuples", "rejects")} == {
        "trips": 6,
        "archived": 23,
        "tuples": 23,
        "rejects": 2,
    }
    trips = open_archive(spark, tmp_path / "out")
    assert trips.columns == ["vid", "xway", "dir", "Trip"]
    assert plain(trips) == expected(REPORTS)
    rejects = (tmp_path / "out" / "rejects.csv").read_text().splitlines()
    assert sorted(rejects) == [f"conflict,{report(60, 3, 9001, lane=2)}", "fields,0,700,what"]
    assert is_linear_city(tmp_path / "out")
    again = slipstream("archive", feed, "--out", tmp_path / "out", "--json")
    assert "already complete" in again.err
    assert again.json == outcome.json
    DeltaTable(str(tmp_path / "out" / "outputs" / "trips")).delete("vid = 1")
    refused = slipstream("archive", feed, "--out", tmp_path / "out", "--json")
    assert refused.code == 3
    assert "Something else has changed this table" in refused.err


def test_a_run_becomes_the_same_trips_and_answers_questions(spark, feed, tmp_path, slipstream):
    import_text(feed, tmp_path / "run")
    made = slipstream("archive", tmp_path / "run", "--out", tmp_path / "out", "--parallel", "2", "--json")
    assert (made.json["trips"], made.json["rejects"]) == (6, 1), made.err
    trips = open_archive(spark, tmp_path / "out")
    assert plain(trips) == expected(REPORTS)
    register(spark)
    trips.createOrReplaceTempView("trips")
    met = """SELECT A.vid AS one, B.vid AS other FROM trips A JOIN trips B ON A.vid < B.vid
             WHERE sometimes(at_most(distance(A.Trip, B.Trip), 3.0))"""
    assert spark.sql(met).toArrow().to_pylist() == [{"one": 1, "other": 2}]
    passed = """SELECT DISTINCT vid FROM trips
                WHERE passes(Trip, circle(point(9000 * 0.3048D, 2 * 3.6576D), 4, 32)) ORDER BY vid"""
    assert spark.sql(passed).toArrow()["vid"].to_pylist() == [2, 3]


def test_a_stopped_archive_goes_on_where_it_was(spark, tmp_path, monkeypatch):
    monkeypatch.setattr("slipstream._linear_road.job.engine.REHEARSALS", 2)  # nobody waits for the first trip here
    folder, out = tmp_path / "arriving", tmp_path / "out"
    folder.mkdir()
    for number, first in enumerate(range(0, len(REPORTS), 6)):
        (folder / f"{number}.dat").write_text("".join(line + "\n" for line in REPORTS[first : first + 6]))

    def stop():
        last = last_batch(out)
        if last is not None and last.tuples:
            raise KeyboardInterrupt

    settings = {"outputs": TRIPS, "text": False, "parallel": 1, "lateness": 0}
    with pytest.raises(KeyboardInterrupt):
        toll_feed(spark, str(folder), out, Settings(**settings, follow=True, watch=stop))
    # what waits in the checkpoint is not in the archive
    assert sum(len(trip) for _, trip in plain(open_archive(spark, out))) < len(REPORTS) - 1
    (tmp_path / "arriving.end").touch()
    toll_feed(spark, str(folder), out, Settings(**settings, follow=True))
    assert plain(open_archive(spark, out)) == expected(REPORTS)


def test_a_feed_of_which_everything_is_rejected_ends_with_exit_code_3(tmp_path, slipstream):
    (tmp_path / "pings.txt").write_text("id,ts,lon,lat\n7,2026-05-04T08:00:00Z,13.4,52.5\n")
    outcome = slipstream("archive", tmp_path / "pings.txt", "--out", tmp_path / "out", "--json")
    assert outcome.code == 3
    assert (outcome.json["trips"], outcome.json["rejects"]) == (0, 2)
    assert "2 of 2 rejected" in outcome.err
    assert str(tmp_path / "out" / "rejects.csv") in outcome.err


def test_what_is_no_archive_is_refused(spark, feed, tmp_path, slipstream):
    with pytest.raises(BadInput, match="not an archive"):
        open_archive(spark, tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").touch()
    (tmp_path / "old" / "trips").mkdir(parents=True)
    (tmp_path / "old" / "checkpoint").mkdir()
    (tmp_path / "old" / "checkpoint" / "engine.json").touch()
    for arguments, word in (
        (["none.dat"], "no such file"),
        ([".", "--format", "xml"], "--format"),
        ([".", "--speed", "-1"], "--speed"),
        ([feed, "--out", tmp_path / "mine"], "not the folder of an archive job"),
        ([feed, "--out", tmp_path / "old"], "written by Slipstream 0.1"),
    ):
        outcome = slipstream("archive", *arguments, *([] if "--out" in arguments else ["--out", tmp_path / "x"]))
        assert outcome.code == (3 if "0.1" in word else 2), outcome.err
        assert word in outcome.err


@pytest.mark.parametrize(
    ("begun", "resumed", "message", "code"),
    [
        ({"outputs": "answers"}, ["archive"], "belongs to a toll job", 2),
        ({"outputs": "answers"}, ["toll", "--archive"], "outputs answers, not answers and trips", 3),
        ({"outputs": "trips", "start": "2026-01-01"}, ["archive"], "start 2026-01-01, not 2007-05-28 00:00:00", 3),
    ],
)
def test_other_outputs_than_it_was_begun_with_are_refused(begun, resumed, message, code, feed, tmp_path, slipstream):
    settings = {"source": "lines feed.dat", "rules": "2004", "lateness": 60, "start": "", "until": -1, "ids": "numbers"}
    Layout.load_or_create(tmp_path / "out", 1, {**settings, **begun})
    command, *options = resumed
    outcome = slipstream(command, feed, "--out", tmp_path / "out", *options)
    assert outcome.code == code, outcome.err
    assert message in outcome.err
