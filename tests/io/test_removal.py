"""Removing rows: by age, or those of one vehicle; the tables still agree with the journal, and a job continues."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream._errors import BadInput
from slipstream._io import outputs
from slipstream._io.outputs import Outputs, maintenance
from slipstream._io.outputs.removal import forgetting, retention
from slipstream._io.outputs.removal.retention import Retention
from slipstream._io.outputs.text_files import append, blank, blank_lines

SCHEMAS = {
    "trips": pa.schema([("id", pa.string()), ("vid", pa.int32()), ("x", pa.list_(pa.float64()))]),
    "convoys": pa.schema([("members", pa.list_(pa.string()))]),
    "rejects": pa.schema([("reason", pa.string()), ("line", pa.string())]),
}
DAY = 86_400


def rows_of(number: int, ids: list[str]) -> dict[str, pa.Table]:
    numbers = [int(name[4:]) for name in ids]
    return {
        "trips": pa.table([ids, numbers, [[float(number)]] * len(ids)], schema=SCHEMAS["trips"]),
        "convoys": pa.table([[[name, "other"] for name in ids]], schema=SCHEMAS["convoys"]),
        "rejects": pa.table([["late"] * len(ids), [f"{name},{number}" for name in ids]], schema=SCHEMAS["rejects"]),
    }


def deliver(folder: Path, number: int, ids: list[str], *, days_ago: float = 0.0) -> None:
    """Commit a batch as a job does, some days ago by its journal."""
    job = Outputs(folder, "job-1", SCHEMAS)
    written = [outputs.write(folder, name, rows, number) for name, rows in rows_of(number, ids).items() if ids]
    job.commit(number, written)
    journal = folder / outputs.JOURNAL
    before = journal.read_text().splitlines()
    line = before[-1].replace(str(job.last.committed_ms), str(int(1000 * (time.time() - days_ago * DAY))))  # type: ignore[union-attr]
    journal.write_text("\n".join([*before[:-1], line]) + "\n")


def ids_in(folder: Path) -> dict[str, list[str]]:
    trips, convoys, rejects = (outputs.read(folder, name).to_pylist() for name in SCHEMAS)
    return {
        "trips": sorted(row["id"] for row in trips),
        "convoys": sorted(row["members"][0] for row in convoys),
        "rejects": sorted(row["line"].partition(",")[0] for row in rejects),
    }


def everywhere(ids: list[str]) -> dict[str, list[str]]:
    return dict.fromkeys(SCHEMAS, ids)


def test_rows_older_than_the_job_keeps_expire_from_every_output(tmp_path: Path) -> None:
    for number, days in enumerate((40, 31, 29, 0)):
        deliver(tmp_path, number, [f"van-{number}", "van-77"], days_ago=days)
    assert retention.expire(tmp_path) == {}
    Retention(30 * DAY).write(tmp_path)
    assert retention.expire(tmp_path) == {"convoys": 4, "rejects": 4, "trips": 4}
    assert retention.expire(tmp_path) == {"convoys": 0, "rejects": 0, "trips": 0}
    assert ids_in(tmp_path) == everywhere(["van-2", "van-3", "van-77", "van-77"])
    deliver(tmp_path, 4, ["van-4"])
    assert "van-4" in ids_in(tmp_path)["trips"]


def test_old_files_of_a_points_history_expire(tmp_path: Path) -> None:
    place = tmp_path / "points" / "near"
    place.mkdir(parents=True)
    now = time.time()
    for number, days in enumerate((3, 2, 0.5)):
        arrived = [int(1e6 * (now - days * DAY)), int(1e6 * (now - (days + 1) * DAY))]
        pq.write_table(pa.table({"_seq": [1, 2], "_ts": arrived}), place / f"train-{number:08d}.parquet")
    Retention(DAY).write(tmp_path)
    retention.expire(tmp_path, now)
    assert [file.name for file in place.glob("train-*")] == ["train-00000002.parquet"]


def test_compaction_removes_what_has_expired(tmp_path: Path) -> None:
    deliver(tmp_path, 0, ["van-0"], days_ago=2)
    deliver(tmp_path, 1, ["van-1"])
    Retention(DAY).write(tmp_path)
    maintenance.compact(tmp_path)
    assert ids_in(tmp_path)["trips"] == ["van-1"]
    outputs.check_tables(tmp_path, "job-1")


def test_rows_that_somebody_else_removes_are_still_noticed(tmp_path: Path) -> None:
    deliver(tmp_path, 0, ["van-0"], days_ago=2)
    deliver(tmp_path, 1, ["van-1", "van-2"])
    Retention(DAY).write(tmp_path)
    retention.expire(tmp_path)
    DeltaTable(str(tmp_path / "outputs" / "trips")).delete("id = 'van-1'")
    with pytest.raises(BadInput, match="has 2 rows of committed batches, but the journal lists 3"):
        outputs.check_tables(tmp_path, "job-1")


def test_a_damaged_retention_is_refused_with_advice(tmp_path: Path) -> None:
    (tmp_path / retention.FILE).write_text("{}")
    with pytest.raises(BadInput, match="damaged") as error:
        retention.expire(tmp_path)
    assert "job retain" in error.value.hint


def test_a_job_appends_while_rows_expire_and_nothing_else_is_lost(tmp_path: Path) -> None:
    for number in range(5):
        deliver(tmp_path, number, [f"van-{number}"], days_ago=2)
    Retention(DAY).write(tmp_path)
    job = Outputs(tmp_path, "job-1", SCHEMAS)
    ended = threading.Event()

    def maintain() -> None:
        while not ended.is_set():
            retention.expire(tmp_path)

    beside = threading.Thread(target=maintain)
    beside.start()
    for number in range(5, 25):
        job.commit(number, [outputs.write(tmp_path, "trips", rows_of(number, [f"van-{number}"])["trips"], number)])
    ended.set()
    beside.join()
    outputs.check_tables(tmp_path, "job-1")
    assert ids_in(tmp_path)["trips"] == sorted(f"van-{number}" for number in range(5, 25))


@given(st.lists(st.lists(st.sampled_from(["van-1", "van-2", "van-11"]), max_size=4), min_size=1, max_size=5))
@settings(max_examples=10, deadline=None)
def test_after_forgetting_a_vehicle_exactly_the_rows_of_the_others_are_left(batches: list[list[str]]) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as name:
        folder = Path(name)
        for number, ids in enumerate(batches):
            deliver(folder, number, ids)
        forgetting.remove_rows(folder, "van-1")
        left = sorted(id_ for ids in batches for id_ in ids if id_ != "van-1")
        assert ids_in(folder) == everywhere(left)
        outputs.check_tables(folder, "job-1")


def test_no_file_of_a_table_has_a_forgotten_vehicle(tmp_path: Path) -> None:
    for number in range(3):
        deliver(tmp_path, number, ["van-1", f"van-{number + 2}"])
    maintenance.compact(tmp_path)
    assert forgetting.remove_rows(tmp_path, "van-1") == {"convoys": 3, "rejects": 3, "trips": 3}
    for file in (tmp_path / "outputs").rglob("*"):
        if file.suffix == ".parquet":
            assert "van-1" not in str(pq.read_table(file, partitioning=None).to_pydict()), file
        elif file.is_file():
            assert b"van-1" not in file.read_bytes(), file
    assert "van-2" in ids_in(tmp_path)["trips"]
    deliver(tmp_path, 3, ["van-9"])


def test_an_id_is_sought_in_texts_and_in_columns_that_are_named() -> None:
    schema = pa.schema([("vid", pa.int32()), ("mmsi", pa.int64()), ("name", pa.string()), ("speed", pa.float64())])
    assert forgetting.find_condition(schema, "7") == '"vid" = 7 OR "name" = \'7\''
    assert forgetting.find_condition(schema, "7", ["mmsi"]) == '"mmsi" = 7'
    assert forgetting.find_condition(schema, "O'Neil") == "\"name\" = 'O''Neil'"
    assert forgetting.find_condition(schema, "O'Neil", ["speed"]) == ""


def test_lines_are_blanked_in_place_and_the_file_is_appended_to(tmp_path: Path) -> None:
    file = tmp_path / "output.csv"
    length = append(file, 0, [b"0,7,1\n", b"0,8,1\n"])
    assert blank(file, 6) == 6
    assert blank(file, 6) == 0
    length = append(file, length, [b"0,7,2\n"])
    assert blank_lines(file, lambda line: line.startswith(b"0,7,")) == 1
    assert file.read_bytes() == b"\n" * 6 + b"0,8,1\n" + b"\n" * 6
    assert length == file.stat().st_size
