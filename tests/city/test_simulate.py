"""A simulated run keeps the promises of the specification, whatever the parallelism."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from slipstream._city.simulate import simulate
from slipstream._city.traffic import Traffic
from slipstream._errors import BadArgument, BadInput, Unavailable
from slipstream._feeds.run import Run
from slipstream._feeds.tuples import BALANCE, CARRIES, EXPENDITURE, POSITION, RANGES, TRAVEL_TIME
from slipstream._tools.files import staging

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

HEAVY = Traffic(expressways=1.5, minutes=12, demand=4.0, accident_every=4, returning=0.3)


@pytest.fixture(scope="module")
def run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return simulate(spark, HEAVY, 7, tmp_path_factory.mktemp("runs") / "heavy")


@pytest.fixture(scope="module")
def tuples(spark: SparkSession, run: Run) -> pd.DataFrame:
    return run.dataframe(spark).toPandas()


@pytest.fixture(scope="module")
def reports(tuples: pd.DataFrame) -> pd.DataFrame:
    return tuples[tuples.type == POSITION].sort_values(["vid", "time"], kind="stable").reset_index(drop=True)


def same_trip(reports: pd.DataFrame) -> np.ndarray:
    """Whether a report continues the trip of the one before it."""
    before = reports.shift(1)
    return np.asarray((reports.vid == before.vid) & (reports.time - before.time <= 60))


def test_reports_come_every_thirty_seconds_within_a_trip(reports: pd.DataFrame) -> None:
    continues = same_trip(reports)
    assert (reports.time.diff()[continues] == 30).all()


def test_a_trip_starts_in_lane_0_and_ends_in_lane_4(reports: pd.DataFrame) -> None:
    first = ~same_trip(reports)
    last = np.r_[first[1:], True]
    assert (reports.lane[first] == 0).all()
    finished = last & np.asarray(reports.time < HEAVY.seconds - 30)
    assert (reports.lane[finished] == 4).all()
    assert (reports.lane[~last] != 4).all()


def test_a_vehicle_is_on_one_road_at_a_time_and_reports_from_every_segment(reports: pd.DataFrame) -> None:
    continues = same_trip(reports)
    before = reports.shift(1)
    assert (reports.xway[continues] == before.xway[continues]).all()
    assert (reports.dir[continues] == before.dir[continues]).all()
    step = (reports.seg - before.seg)[continues] * np.where(reports.dir[continues] == 0, 1, -1)
    assert set(step.unique()) <= {0.0, 1.0}


def test_some_vehicles_come_back_on_another_expressway(reports: pd.DataFrame) -> None:
    assert (reports.groupby("vid").xway.nunique() > 1).any()
    away = reports.time.diff()[(reports.vid == reports.shift(1).vid) & ~same_trip(reports)]
    assert away.min() >= 61


@pytest.mark.parametrize("kind", CARRIES)
def test_every_field_is_in_range_or_minus_one(tuples: pd.DataFrame, kind: int) -> None:
    mine = tuples[tuples.type == kind]
    assert len(mine)
    for name, field in RANGES.items():
        if name in CARRIES[kind]:
            assert mine[name].between(field.least, field.most).all(), name
        elif name not in {"type", "time", "vid", "xway"}:
            assert (mine[name] == -1).all(), name
    if kind == POSITION:
        assert (mine.seg == mine.pos // 5280).all()


def test_requests_ride_with_a_report_of_the_same_vehicle_and_second(tuples: pd.DataFrame) -> None:
    asked = tuples[tuples.type != POSITION]
    reported = tuples[tuples.type == POSITION][["time", "vid"]]
    assert len(asked.merge(reported, on=["time", "vid"])) == len(asked)
    assert sorted(asked.qid) == list(range(len(asked)))
    assert len(asked) / len(reported) == pytest.approx(0.01, rel=0.15)
    mix = asked.type.value_counts(normalize=True)
    for kind, share in ((BALANCE, 0.5), (EXPENDITURE, 0.1), (TRAVEL_TIME, 0.4)):
        assert mix[kind] == pytest.approx(share, abs=0.05)


def test_an_accident_is_two_vehicles_stopped_at_one_place(run: Run, reports: pd.DataFrame) -> None:
    """Found again from the reports alone: where two cars stand at one place of a travel lane."""
    accidents = run.manifest.accidents
    assert len(accidents) >= 3
    standing = reports[(reports.spd == 0) & reports.lane.between(1, 3)]
    place = ["xway", "dir", "lane", "pos"]
    stops = standing.groupby([*place, "vid"]).time.agg(["size", "min", "max"]).reset_index()
    stops = stops[stops["size"] >= 4]
    pairs = stops.merge(stops, on=place)
    together = (pairs.vid_x < pairs.vid_y) & (pairs.min_x <= pairs.max_y) & (pairs.min_y <= pairs.max_x)
    found = {(*row[:4], (row[4], row[5])) for row in pairs[together][[*place, "vid_x", "vid_y"]].values.tolist()}
    expected = {(a.xway, a.dir, a.lane, a.pos, tuple(sorted(a.vids))) for a in accidents if a.detected >= 0}
    assert found == expected


def test_accidents_come_as_often_and_last_as_long_as_specified(spark: SparkSession, tmp_path: Path) -> None:
    traffic = Traffic(expressways=0.5, minutes=40, demand=0.5)
    manifest = simulate(spark, traffic, 11, tmp_path / "run").manifest
    assert len(manifest.accidents) == 2
    for number, accident in enumerate(manifest.accidents):
        assert number * 1200 <= accident.stopped < (number + 1) * 1200
        if accident.cleared >= 0:
            assert 600 <= accident.cleared - accident.detected <= 1200


def test_same_seed_same_tuples_whatever_the_partitions(spark: SparkSession, run: Run, tmp_path: Path) -> None:
    again = simulate(spark, HEAVY, 7, tmp_path / "again", partitions=1)
    assert (again.path / "manifest.json").read_text() == (run.path / "manifest.json").read_text()
    assert [e.sha256 for e in again.manifest.expressways] == [e.sha256 for e in run.manifest.expressways]
    again.verify()


def test_another_seed_gives_other_tuples_and_a_longer_run_begins_alike(spark: SparkSession, tmp_path: Path) -> None:
    short = simulate(spark, Traffic(minutes=2), 7, tmp_path / "short")
    longer = simulate(spark, Traffic(minutes=3), 7, tmp_path / "longer")
    other = simulate(spark, Traffic(minutes=2), 8, tmp_path / "other")
    for minute in range(2):
        assert short.minute(0, minute).equals(longer.minute(0, minute))
    assert short.manifest.expressways[0].sha256 != other.manifest.expressways[0].sha256


def test_a_multiplied_run_is_its_base_with_shifted_ids(spark: SparkSession, run: Run) -> None:
    tripled = run.multiplied(3)
    assert tripled.manifest.counts["position"] == 3 * run.manifest.counts["position"]
    rows = tripled.dataframe(spark)
    last = rows.where("xway >= 4").toPandas()
    base = run.dataframe(spark).where("xway >= 0").toPandas()
    last["xway"] -= 4
    last["vid"] -= 2 * run.manifest.vid_stride
    last["qid"] = np.where(last.qid >= 0, last.qid - 2 * run.manifest.qid_stride, -1)
    columns = list(base.columns)
    assert last.sort_values(columns).reset_index(drop=True).equals(base.sort_values(columns).reset_index(drop=True))
    assert rows.select("vid").distinct().count() == 3 * run.manifest.vehicles


@pytest.mark.parametrize(
    ("field", "value"),
    [("expressways", 0), ("expressways", 0.7), ("minutes", 0), ("demand", 0), ("accident_every", -1), ("requests", 2)],
)
def test_impossible_traffic_is_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(BadArgument, match=field.replace("_", "-")):
        Traffic(**{field: value})


def test_an_existing_folder_is_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("keep")
    with pytest.raises(BadArgument, match="not an empty folder"):
        simulate(spark, Traffic(minutes=1), 1, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_too_little_disk_is_said_before_the_work(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": 1000})()
    monkeypatch.setattr(staging.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(Unavailable, match="needed"):
        simulate(spark, Traffic(minutes=1), 1, tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_a_damaged_run_is_not_opened(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "run"
    made = simulate(spark, Traffic(expressways=0.5, minutes=1), 1, out)
    file = out / made.manifest.expressways[0].file
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadInput, match="missing or truncated"):
        Run.open(out)
    file.unlink()
    with pytest.raises(BadInput, match="missing or truncated"):
        Run.open(out)
    (out / "manifest.json").write_text("{")
    with pytest.raises(BadInput, match="line 1: not JSON"):
        Run.open(out)
