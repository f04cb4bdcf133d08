"""The history: plausible, the same for the same seed, and its arrays are the tables' own means."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from measure import machine, measured
from slipstream._city import history_writer as making
from slipstream._city.history_writer import draw_toll_rows, export_csv, make_history
from slipstream._city.past import demand, fill_segment_day, profile, speed_with_cars, stream
from slipstream._errors import BadArgument, BadInput, Unavailable
from slipstream._feeds.history import History, HistoryIndex, day_of_week
from slipstream._feeds.run import ExpresswayWriter, Manifest, Run, staged_run
from slipstream._feeds.tuple_text import import_text
from slipstream._feeds.tuples import SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

XWAY = 3


def fabricated(out: Path, xways: range, vehicles_each: int, *, gap: int = 1) -> Run:
    """A run with one report per vehicle and nothing else; ``gap`` > 1 leaves numbers unused."""
    expressways = []
    with staged_run(out) as stage:
        for place, xway in enumerate(xways):
            writer = ExpresswayWriter(stage, xway, SCHEMA)
            vids = gap * np.arange(place * vehicles_each, (place + 1) * vehicles_each, dtype=np.int32)
            values = dict.fromkeys(SCHEMA.names, np.zeros(vids.size, dtype=np.int32))
            writer.write_minute(pa.table(values | {"vid": vids, "xway": np.full_like(vids, xway)}, schema=SCHEMA))
            expressways.append(writer.close())
        vehicles = vehicles_each * len(xways)
        manifest = Manifest("fabricated", 1, tuple(expressways), vehicles, gap * vehicles, 1)
        (stage / "manifest.json").write_text(manifest.to_json())
    return Run.open(out)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Run:
    made = fabricated(tmp_path_factory.mktemp("history") / "run", range(XWAY, XWAY + 1), 400, gap=3)
    make_history(made, spark, seed=7)
    return made


@pytest.fixture
def copy(run: Run, tmp_path: Path) -> Run:
    """The run and its history, to be damaged."""
    shutil.copytree(run.path, tmp_path / "run")
    return Run.open(tmp_path / "run")


def test_the_day_of_the_week_counts_back_from_the_run_on_day_one() -> None:
    assert [day_of_week(day) for day in range(9)] == [1, 7, 6, 5, 4, 3, 2, 1, 7]


def test_speed_and_count_arrays_are_the_ten_week_means_of_the_table(run: Run, spark: SparkSession) -> None:
    spark.read.parquet(str(run.path / "history" / "segments")).createOrReplaceTempView("segment_history")
    rows = spark.sql(
        "select xway, pmod(-day, 7) + 1 as dow, min, dir, seg, float(avg(lav)) as speed, float(avg(cnt)) as cars, "
        "count(*) as days from segment_history where pmod(day, 7) in (0, 3) "
        "group by all order by xway, dow, min, dir, seg"
    ).toArrow()
    first_and_fifth = [0, 4]
    history = History.open(run)
    assert list(history.speeds) == [XWAY]
    assert rows.num_rows == 2 * 1440 * 2 * 100
    assert set(rows.column("days").to_numpy()) == {10}
    assert np.array_equal(history.speeds[XWAY][first_and_fifth].ravel(), rows.column("speed").to_numpy())
    assert np.array_equal(history.counts[XWAY][first_and_fifth].ravel(), rows.column("cars").to_numpy())


def test_toll_arrays_hold_the_table_and_minus_one_where_it_has_no_row(run: Run, spark: SparkSession) -> None:
    rows = spark.read.parquet(str(run.path / "history" / "tolls")).toPandas()
    history = History.open(run)
    assert len(rows) == 400 * 69
    assert history.tolls.shape == history.toll_xways.shape == (1200, 69)
    assert np.array_equal(history.tolls[rows.vid, rows.day - 1], rows.tolls)
    assert np.array_equal(history.toll_xways[rows.vid, rows.day - 1], rows.xway)
    assert (history.toll_xways != -1).sum() == len(rows)
    assert not history.tolls[history.toll_xways == -1].any()


def test_segment_rows_are_complete_within_bounds_and_tolled_by_the_formula(run: Run, spark: SparkSession) -> None:
    table = spark.read.parquet(str(run.path / "history" / "segments"))
    assert table.columns == ["day", "min", "xway", "dir", "seg", "lav", "cnt", "toll"]
    found = table.selectExpr(
        "count(*) as n",
        "min(day)", "max(day)", "min(min)", "max(min)", "min(dir)", "max(dir)", "min(seg)", "max(seg)",
        "min(lav) > 0 and max(lav) <= 100 as speeds",
        "min(cnt) > 0 and max(cnt) <= 400 as cars",
        "every(toll = if(lav < 40 and cnt > 50, 2 * (cnt - 50) * (cnt - 50), 0)) as tolls",
        "avg(int(toll > 0)) as tolled",
    ).first()  # fmt: skip
    assert tuple(found)[:9] == (20_160_000, 1, 70, 1, 1440, 0, 1, 0, 99)
    assert (found["speeds"], found["cars"], found["tolls"]) == (True, True, True)
    assert 0.05 < found["tolled"] < 0.3


def test_rush_hours_weekends_and_the_middle_of_the_road_show(run: Run) -> None:
    cars = History.open(run).counts[XWAY]
    speed = History.open(run).speeds[XWAY]
    monday, sunday = 0, 6
    assert cars[monday, 465, 0, 50] > 2 * cars[monday, 630, 0, 50] > 4 * cars[monday, 180, 0, 50]
    assert cars[monday, 465, 0, 50] > cars[monday, 465, 1, 50]
    assert cars[monday, 1035, 1, 50] > cars[monday, 1035, 0, 50]
    assert cars[sunday, 465, 0, 50] < cars[monday, 465, 0, 50] / 2
    assert cars[monday, 465, 0, 50] > 2 * cars[monday, 465, 0, 2]
    assert np.corrcoef(cars.ravel(), speed.ravel())[0, 1] < -0.9


def test_same_seed_same_history_however_the_work_is_cut(
    run: Run, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    twin = fabricated(tmp_path / "twin", range(XWAY, XWAY + 1), 400, gap=3)
    usual = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", 5)
    monkeypatch.setattr(making, "RANGE", 100)
    try:
        made, wanted = make_history(twin, spark, seed=7).index, History.open(run).index
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", usual)
    assert made is not None
    assert wanted is not None
    assert made.rows == wanted.rows
    assert {f: c for f, c in made.checks.items() if f[:6] != "tolls/"} == {
        f: c for f, c in wanted.checks.items() if f[:6] != "tolls/"
    }
    folders = [str(r.path / "history" / "tolls") for r in (run, twin)]
    assert spark.read.parquet(folders[0]).exceptAll(spark.read.parquet(folders[1])).isEmpty()


def test_another_seed_gives_another_history() -> None:
    vids = np.arange(50, dtype=np.int32)
    homes = np.zeros(50, dtype=np.int32)
    assert not np.array_equal(draw_toll_rows(1, vids, homes, (0,))[0], draw_toll_rows(2, vids, homes, (0,))[0])
    assert stream(1, 2, 3) != stream(2, 1, 3)


def test_vehicles_pay_on_some_days_less_at_weekends_and_mostly_at_home() -> None:
    vids = np.arange(20_000, dtype=np.int32)
    homes = vids % 4
    tolls, where = draw_toll_rows(5, vids, homes, (0, 1, 2, 3))
    weekend = np.array([day_of_week(day) >= 6 for day in range(1, 70)])
    assert tolls.max() <= 58_800
    assert tolls[:, weekend].mean() < tolls[:, ~weekend].mean() / 2
    assert 0.3 < (tolls > 0).mean() < 0.8
    assert 0.8 < (where == homes[:, None]).mean() < 0.9
    assert set(np.unique(where)) == {0, 1, 2, 3}


@given(st.integers(0, 2**63), st.lists(st.floats(0.0, 300.0), min_size=1, max_size=50))
def test_the_compiled_segment_day_equals_its_plain_python(start: int, cars: list[float]) -> None:
    expected, speeds = np.array(cars), speed_with_cars()
    fast, slow = (np.zeros((3, len(cars)), dtype=np.int32) for _ in range(2))
    fill_segment_day(np.uint64(start), expected, speeds, *fast)
    with np.errstate(over="ignore"):
        fill_segment_day.py_func(np.uint64(start), expected, speeds, *slow)  # type: ignore[attr-defined]
    assert np.array_equal(fast, slow)


def test_demand_and_profile_stay_within_what_the_speed_table_covers() -> None:
    top = 260 * 1.1 * 1.15 * max(demand(day).max() for day in range(1, 8)) * profile().max()
    assert top < len(speed_with_cars())


def test_a_run_without_history_is_known_as_such(tmp_path: Path) -> None:
    history = History.open(fabricated(tmp_path / "run", range(1), 3))
    assert history.missing
    assert not history.speeds
    assert not history.counts
    assert history.tolls.shape == history.toll_xways.shape == (0, 69)
    history.verify()


def test_an_existing_history_is_replaced_only_on_request(copy: Run, spark: SparkSession) -> None:
    with pytest.raises(BadArgument, match="exists") as refusal:
        make_history(copy, spark, seed=8)
    assert "--overwrite" in refusal.value.hint
    before = History.open(copy).index
    after = make_history(copy, spark, seed=8, replace=True).index
    assert before is not None
    assert after is not None
    assert after.checks != before.checks
    assert [p.name for p in copy.path.iterdir() if p.name.startswith(".")] == []


def test_a_multiplied_run_has_the_history_of_the_stored_one(run: Run) -> None:
    assert History.open(run.multiplied(50)).tolls.shape == (1200, 69)


@pytest.mark.parametrize("name", ["arrays/speed-00003.npy", "arrays/tolls.npy", "segments/expressway-00003.parquet"])
def test_a_missing_or_cut_file_is_named(copy: Run, name: str) -> None:
    file = copy.path / "history" / name
    with file.open("r+b") as contents:
        contents.truncate(100)
    with pytest.raises(BadInput, match=f"{name}: 100 bytes"):
        History.open(copy)
    file.unlink()
    with pytest.raises(BadInput, match=f"{name}: missing") as refusal:
        History.open(copy)
    assert "slipstream history RUN --overwrite" in refusal.value.hint


def test_changed_contents_are_found_by_verify(copy: Run) -> None:
    History.open(copy).verify()
    with (copy.path / "history" / "arrays/count-00003.npy").open("r+b") as contents:
        contents.seek(5000)
        contents.write(b"!")
    with pytest.raises(BadInput, match="count-00003"):
        History.open(copy).verify()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda body: "{", "not the index"),
        (lambda body: "[]", "not the index"),
        (lambda body: json.dumps(json.loads(body) | {"version": 9}), "slipstream-history 9"),
        (lambda body: json.dumps(json.loads(body) | {"vid_stride": 5}), "another run"),
    ],
)
def test_a_bad_index_is_refused(copy: Run, change: object, complaint: str) -> None:
    file = copy.path / "history" / "history.json"
    file.write_text(change(file.read_text()))  # type: ignore[operator]
    with pytest.raises(BadInput, match=complaint):
        History.open(copy)


def test_an_array_of_another_shape_is_refused(copy: Run) -> None:
    index = History.open(copy).index
    assert index is not None
    np.save(copy.path / "history" / "arrays/tolls.npy", np.zeros(3))
    checks = index.checks | {"arrays/tolls.npy": making.digest_file(copy.path / "history" / "arrays/tolls.npy")}
    changed = dataclasses.replace(index, checks=checks)
    assert isinstance(changed, HistoryIndex)
    (copy.path / "history" / "history.json").write_text(changed.to_json())
    with pytest.raises(BadInput, match=r"float64 \(3,\), expected uint16 \(1200, 69\)"):
        _ = History.open(copy).tolls


def test_a_run_that_cannot_have_a_history_is_refused(tmp_path: Path, spark: SparkSession) -> None:
    far = fabricated(tmp_path / "far", range(40_000, 40_001), 1)
    with pytest.raises(BadInput, match="expressway 40000"):
        make_history(far, spark)
    (tmp_path / "requests.dat").write_text("2,0,5,-1,-1,-1,-1,-1,-1,1,-1,-1,-1,-1,-1\n")
    with pytest.raises(BadInput, match="no vehicle reports"):
        make_history(import_text(tmp_path / "requests.dat", tmp_path / "requests"), spark)


def test_a_task_that_fails_leaves_nothing_and_says_why(tmp_path: Path, spark: SparkSession) -> None:
    run = fabricated(tmp_path / "run", range(1), 3)
    # Spark finds the damage only when its task reads the page
    file = run.path / run.manifest.expressways[0].file
    contents = bytearray(file.read_bytes())
    contents[4:40] = b"!" * 36
    file.write_bytes(contents)
    with pytest.raises(Unavailable, match="Spark task failed"):
        make_history(run, spark)
    assert sorted(p.name for p in run.path.iterdir()) == ["manifest.json", "tuples"]


def test_csv_has_both_tables_in_the_published_order(copy: Run, spark: SparkSession) -> None:
    segments = copy.path / "history" / "segments" / "expressway-00003.parquet"
    pq.write_table(pq.ParquetFile(segments).read_row_group(0), segments)
    out = export_csv(copy, spark)
    lines = spark.read.text(str(out / "SegmentHistory"))
    assert lines.count() == 1440 * 2 * 100
    assert lines.where("value rlike '^1,1,3,0,0,[0-9]+,[0-9]+,[0-9]+$'").count() == 1
    tolls = spark.read.csv(str(out / "TollHistory"), schema="vid int, day int, xway int, tolls int")
    stored = spark.read.parquet(str(copy.path / "history" / "tolls"))
    assert tolls.exceptAll(stored).isEmpty()
    assert tolls.count() == stored.count()
    with pytest.raises(BadArgument, match="exists"):
        export_csv(copy, spark)


@pytest.mark.bench
def test_ten_expressways_take_little_time_and_memory(tmp_path: Path, spark: SparkSession) -> None:
    where = machine()
    run = fabricated(tmp_path / "run", range(10), 137_000)
    with measured() as cost:
        history = make_history(run, spark)
    assert history.index is not None
    assert history.index.rows == {"segments": 201_600_000, "tolls": 1_370_000 * 69}
    assert cost.gib < 8
    size = sum(check.bytes for check in history.index.checks.values())
    print(
        f"\nhistory of 10 expressways, 1.37 M vehicles: {cost.seconds:.0f} s (goal 600 s), "
        f"at most {cost.gib:.1f} GiB in all processes (goal 8 GiB), {size / 1e9:.2f} GB on disk; {where}"
    )
