"""One definition of a trip: the same reports give the same trips, whichever archive takes them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import slipstream as ss
from commands import Slipstream
from linear_road.engine_in_memory import Engine
from oracles.linear_road import sift
from oracles.streams import busy_stream
from oracles.trips import Trip, trips_of
from slipstream import testing

FOOT, START = 0.3048, 1_180_310_400
#: the fields of a line, as position reports call them
NAMES = {
    name: place
    for place, name in enumerate(
        ("type", "time", "id", "speed", "expressway", "lane", "direction", "segment", "position")
    )
}
NETWORK = """
network: archive
version: 1
sources:
  reports: {id: bigint, time: bigint, expressway: bigint, lane: bigint, direction: bigint, position: bigint}
boxes:
  places:
    map:
      {id: id, time: "time + 1180310400", x: position * 0.3048E0, y: expressway * 1E0, expressway: expressway,
       lane: lane, direction: direction}
    from: reports
outputs:
  trips:
    from: places
    archive: {id: id, time: time, x: x, y: y, gap: 30, road: expressway, direction: direction, lane: lane}
"""


def accepted(seed: int, seconds: int = 400) -> list[str]:
    """The position reports of a stream that no rule rejects, by second."""
    found, _ = sift(busy_stream(seed, vehicles=60, seconds=seconds), 60)
    kept = {tuple(report[:9]) for report in found if report.type == 0}
    return [",".join(map(str, (*row, *[-1] * 6))) for row in sorted(kept, key=lambda row: (row[1], row[2]))]


def rows_of(lines: Iterable[str]) -> list[dict[str, int]]:
    parts = [line.split(",") for line in lines]
    return [{name: int(fields[place]) for name, place in NAMES.items()} for fields in parts]


Path2 = tuple[tuple[float, float], ...]  # second, metres from the western end


def plain(trips: Iterable[Trip]) -> list[tuple[int, Path2]]:
    return sorted((who[0], tuple((t, round(pos * FOOT, 6)) for t, pos, _ in path)) for who, path in trips)


def moved(rows: Iterable[dict[str, Any]], who: str) -> list[tuple[int, Path2]]:
    found = []
    for row in rows:
        times = [at.timestamp() - START for at in row["Trip"]["t"]]
        found.append((row[who], tuple(zip(times, (round(x, 6) for x in row["Trip"]["x"]), strict=True))))
    return sorted(found)


def archived(lines: list[str], per_batch: int) -> list[tuple[int, Path2]]:
    """The trips of ``Job.archive``, in memory."""
    source = testing.MemorySource(dict.fromkeys(NAMES, "bigint"), rows_of(lines), per_batch=per_batch)
    return moved(testing.MemoryHost(ss.Job("out").archive(ss.read(source))).run()["trips"], "id")


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), per_batch=st.sampled_from([7, 100, 5000]))
def test_the_archive_of_the_api_has_the_trips_that_tolls_are_charged_by(seed: int, per_batch: int) -> None:
    lines = accepted(seed)
    expected = plain(trips_of(lines))
    assert archived(lines, per_batch) == expected
    assert plain(chain.from_iterable(Engine(fragments=2).run([lines]).trips)) == expected


def test_an_exit_a_turn_and_a_silence_end_a_trip() -> None:
    def report(time: int, **fields: int) -> dict[str, int]:
        road = {"type": 0, "speed": 50, "expressway": 0, "lane": 1, "direction": 0, "segment": 0, "position": time}
        return {**road, "id": 1, "time": time, **fields}

    rows = [
        report(0),
        report(30, lane=4),
        report(60),  # entered again
        report(90, direction=1),  # turned
        report(121, direction=1),  # after a silence
        report(122, expressway=1),  # elsewhere
        report(140, direction=1),
    ]
    source = testing.MemorySource(dict.fromkeys(NAMES, "bigint"), rows)
    trips = moved(testing.MemoryHost(ss.Job("out").archive(ss.read(source))).run()["trips"], "id")
    assert sorted(tuple(t for t, _ in path) for _, path in trips) == [(0, 30), (60,), (90,), (121, 140), (122,)]


def test_all_four_archives_agree(spark: SparkSession, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    slipstream = Slipstream(capsys)
    lines = accepted(11, seconds=300)
    expected = plain(trips_of(lines))
    feed, table = tmp_path / "feed.dat", tmp_path / "reports.csv"
    feed.write_text("\n".join(lines) + "\n")
    pa.csv.write_csv(pa.Table.from_pylist(rows_of(lines)), table)
    (tmp_path / "archive.yaml").write_text(NETWORK)
    for command in (
        ("toll", feed, "--out", tmp_path / "toll", "--archive"),
        ("archive", feed, "--out", tmp_path / "archive"),
        ("network", "run", tmp_path / "archive.yaml", "--input", f"reports={table}", "--out", tmp_path / "network"),
    ):
        done = slipstream(*command)
        assert done.code == 0, done.err
    ss.Job(tmp_path / "api").archive(ss.read(table)).run(spark, timeout=120)
    for name, who in (("toll", "vid"), ("archive", "vid"), ("network", "id"), ("api", "id")):
        rows = ss.open(tmp_path / name).trips().to_spark(spark).collect()
        assert moved((row.asDict(recursive=True) for row in rows), who) == expected, name
    assert len(expected) > 60
