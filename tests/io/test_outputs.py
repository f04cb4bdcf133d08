"""Outputs: committed together, once, however a commit is interrupted; refused when they are not what was committed."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream._errors import BadArgument, BadInput
from slipstream._io import outputs
from slipstream._io.outputs import Outputs, Written, journal, maintenance
from slipstream._io.outputs.delta_tables import OutputTable
from slipstream._tools.processes.failpoints import COMPACTION_POINTS, OUTPUT_POINTS, VARIABLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB = "job-1"
SCHEMAS = {
    "tolls": pa.schema([("vid", pa.int32()), ("toll", pa.float64())]),
    "rejects": pa.schema([("line", pa.string())]),
}
#: what each batch delivers to each output
Content = list[dict[str, list[int]]]


def table_of(output: str, values: list[int]) -> pa.Table:
    if output == "rejects":
        return pa.table({"line": [f"line {value}" for value in values]}, SCHEMAS["rejects"])
    return pa.table([values, [value / 2 for value in values]], schema=SCHEMAS["tolls"])


def write_batch(folder: Path, number: int, content: Mapping[str, list[int]]) -> list[Written]:
    """What the tasks of a batch do: two files where there are at least two rows."""
    written = []
    for name, values in content.items():
        for part in filter(None, (values[::2], values[1::2])):
            written.append(outputs.write(folder, name, table_of(name, part), number, {"values": len(part)}))
    return written


def deliver(folder: Path, number: int, content: Mapping[str, list[int]], opened: Outputs) -> bool:
    written = write_batch(folder, number, content)
    text = folder / "text"
    length = opened.last.detail["text"] if opened.last else 0

    def append_text(committed_ms: int) -> dict[str, Any]:
        kept = text.read_bytes()[:length] if text.exists() else b""
        text.write_bytes(kept + f"{number}: {sum(map(len, content.values()))}\n".encode())
        return {"text": text.stat().st_size}

    taken = sum(map(len, content.values()))
    return opened.commit(
        number, written, tuples=taken, rejects=len(content.get("rejects", [])), before_journal=append_text
    )


def visible_state(folder: Path) -> dict[str, Any]:
    """All that a reader sees as of the last commit, without the times."""
    lines = [{**vars(line), "committed_ms": 0} for line in outputs.read_journal(folder)]
    rows = {}
    for name in outputs.output_names(folder):
        table = outputs.read(folder, name)
        rows[name] = sorted(map(tuple, (row.values() for row in table.to_pylist())))
    text = (folder / "text").read_bytes() if (folder / "text").exists() else b""
    return {"journal": lines, "rows": rows, "text": text[: lines[-1]["detail"]["text"]] if lines else b""}


def undisturbed(folder: Path, content: Content) -> dict[str, Any]:
    opened = Outputs(folder, JOB, SCHEMAS)
    for number, batch in enumerate(content):
        assert deliver(folder, number, batch, opened)
    return visible_state(folder)


@contextmanager
def failing(point: str, scratch: Path) -> Iterator[Path]:
    """The first to come to a failpoint in the block gets an error; yields the file that says that it did."""
    scratch.mkdir(exist_ok=True)
    reached = scratch / "reached"
    reached.unlink(missing_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, f"{point}:{reached}:EIO")
        yield reached


def struck(folder: Path, content: Content, point: str, at: int, opening: Callable[[Path], Outputs]) -> bool:
    """Deliver with one failure in batch ``at``, restarting after it; whether the failpoint was reached."""
    opened = opening(folder)
    found = False
    for number, batch in enumerate(content):
        if number == at:
            with failing(point, folder.parent / f"{folder.name}.scratch") as reached:
                try:
                    deliver(folder, number, batch, opened)
                except OSError:
                    opened = opening(folder)
                found = reached.exists()
        deliver(folder, number, batch, opened)
    return found


def sound(folder: Path) -> Outputs:
    return Outputs(folder, JOB, SCHEMAS)


CONTENT: Content = [
    {"tolls": [1, 2, 3], "rejects": [4]},
    {},
    {"tolls": [5], "rejects": [6, 7], "tap": [8]},
    {"rejects": [9]},
    {"tolls": [10, 11], "tap": [12, 13]},
]


@pytest.mark.parametrize("point", OUTPUT_POINTS)
def test_a_commit_that_fails_anywhere_and_is_repeated_leaves_what_an_undisturbed_one_does(
    tmp_path: Path, point: str
) -> None:
    expected = undisturbed(tmp_path / "undisturbed", CONTENT)
    reached = [struck(tmp_path / f"at-{at}", CONTENT, point, at, sound) for at in range(len(CONTENT))]
    assert any(reached)
    for at in range(len(CONTENT)):
        folder = tmp_path / f"at-{at}"
        assert visible_state(folder) == expected
        on_disk = {file.name for file in folder.glob("outputs/*/*.parquet")}
        assert on_disk == {
            file.path.name for name in expected["rows"] for file in outputs.visible_files(folder, name).files
        }


class JournalFirst(Outputs):
    """A broken committer: the journal has the batch before the tables do."""

    def commit(self, batch: int, written: Any, **entry: Any) -> bool:
        parts = list(written)
        if batch <= self.last_batch:
            return False
        rows: dict[str, int] = {}
        for one in parts:
            rows[one.output] = rows.get(one.output, 0) + one.rows
        more = entry.pop("before_journal")(0)
        self.last = journal.Batch(batch, 0, rows, entry["rejects"], entry["tuples"], more)
        journal.append(self.folder, self.last)
        self._append(parts, batch)
        return True


class Forgetful(Outputs):
    """A broken committer: it does not ask a table whether it has the batch."""

    def _ahead(self, batch: int) -> list[str]:
        return []

    def _append_to(self, name: str, parts: list[Written], batch: int) -> int:
        table = self._tables.get(name) or self._create(name, parts[0])
        table.append(parts, self._job, batch)
        return sum(one.rows for one in parts)


@pytest.mark.parametrize("broken", [JournalFirst, Forgetful])
def test_a_broken_committer_is_caught_by_the_failpoints(tmp_path: Path, broken: type[Outputs]) -> None:
    expected = undisturbed(tmp_path / "undisturbed", CONTENT)
    caught = False
    for point in OUTPUT_POINTS:
        for at in range(len(CONTENT)):
            folder = tmp_path / f"{point}-{at}"
            try:
                struck(folder, CONTENT, point, at, lambda place: broken(place, JOB, SCHEMAS))
                caught = caught or visible_state(folder) != expected
            except BadInput:  # the check at the start
                caught = True
    assert caught


@settings(max_examples=15)
@given(
    content=st.lists(
        st.dictionaries(
            st.sampled_from(["tolls", "rejects", "tap"]), st.lists(st.integers(0, 99), max_size=3), max_size=3
        ),
        min_size=1,
        max_size=4,
    ),
    point=st.sampled_from(OUTPUT_POINTS),
    data=st.data(),
)
def test_any_batches_interrupted_anywhere_equal_the_undisturbed(content: Content, point: str, data: Any) -> None:
    at = data.draw(st.integers(0, len(content) - 1))
    with TemporaryDirectory() as scratch:
        expected = undisturbed(Path(scratch) / "undisturbed", content)
        struck(Path(scratch) / "struck", content, point, at, sound)
        assert visible_state(Path(scratch) / "struck") == expected


@pytest.mark.parametrize("point", OUTPUT_POINTS)
def test_a_reader_sees_all_outputs_as_of_one_batch_while_a_commit_is_half_done(tmp_path: Path, point: str) -> None:
    opened = sound(tmp_path)
    deliver(tmp_path, 0, {"tolls": [1], "rejects": [2]}, opened)
    with failing(point, tmp_path / "scratch"), pytest.raises(OSError, match="reached"):
        deliver(tmp_path, 1, {"tolls": [3], "rejects": [4]}, opened)
    seen = {max(outputs.read(tmp_path, name)["_batch"].to_pylist()) for name in ("tolls", "rejects")}
    assert seen == {len(outputs.read_journal(tmp_path)) - 1}
    newest = {outputs.read_newest(tmp_path, name, 1)["_batch"].to_pylist()[0] for name in ("tolls", "rejects")}
    assert newest == seen


def test_a_repeated_batch_is_not_committed_twice_and_leaves_no_files(tmp_path: Path) -> None:
    opened = sound(tmp_path)
    assert deliver(tmp_path, 0, CONTENT[0], opened)
    assert not deliver(tmp_path, 0, CONTENT[0], opened)
    assert not deliver(tmp_path, 0, CONTENT[0], sound(tmp_path))
    assert outputs.read(tmp_path, "tolls").num_rows == 3
    assert len(list(tmp_path.glob("outputs/tolls/*.parquet"))) == 2


def test_declared_outputs_are_tables_before_the_first_batch(tmp_path: Path, spark: SparkSession) -> None:
    sound(tmp_path)
    assert outputs.output_names(tmp_path) == ["rejects", "tolls"]
    assert outputs.read(tmp_path, "tolls").schema == pa.schema([("_batch", pa.int64()), *SCHEMAS["tolls"]])
    assert outputs.to_frame(spark, tmp_path, "tolls").count() == 0
    assert DeltaTable(str(tmp_path / "outputs" / "tolls")).version() == 0


def test_spark_reads_what_is_committed_and_nothing_else(tmp_path: Path, spark: SparkSession) -> None:
    opened = sound(tmp_path)
    deliver(tmp_path, 0, {"tolls": [1, 2]}, opened)
    with failing("outputs.before-journal", tmp_path / "scratch"), pytest.raises(OSError, match="reached"):
        deliver(tmp_path, 1, {"tolls": [3]}, opened)
    rows = outputs.to_frame(spark, tmp_path, "tolls").orderBy("vid").collect()
    assert [tuple(row) for row in rows] == [(0, 1, 0.5), (0, 2, 1.0)]


def test_types_that_delta_lake_lacks_are_widened(tmp_path: Path) -> None:
    table = pa.table({"small": pa.array([255], pa.uint8()), "list": pa.array([[1, 2]], pa.list_(pa.uint32()))})
    opened = Outputs(tmp_path, JOB, {"out": table.schema})
    opened.commit(0, [outputs.write(tmp_path, "out", table, 0)])
    assert Outputs(tmp_path, JOB, {"out": table.schema}).last_batch == 0
    assert outputs.read(tmp_path, "out").to_pylist() == [{"_batch": 0, "small": 255, "list": [1, 2]}]


def test_an_output_may_have_a_column_called_batch_but_not_ours(tmp_path: Path) -> None:
    table = pa.table({"batch": [7, 8]})
    Outputs(tmp_path, JOB, {"out": table.schema}).commit(0, [outputs.write(tmp_path, "out", table, 0)])
    assert outputs.read(tmp_path, "out").to_pylist() == [{"_batch": 0, "batch": 7}, {"_batch": 0, "batch": 8}]
    with pytest.raises(BadArgument, match="_Batch"):
        Outputs(tmp_path / "other", JOB, {"out": pa.schema([("_Batch", pa.int64())])})


def test_notes_reach_the_driver_through_spark_rows(tmp_path: Path) -> None:
    written = outputs.write(tmp_path, "out", pa.table({"x": [1]}), 0, {"mean": 1.5})
    assert Written.from_row(written.row._asdict()) == written
    assert Written.from_row(outputs.note({"taken": 3}).row._asdict()).note == {"taken": 3}


@given(sizes=st.lists(st.integers(0, 5), min_size=1, max_size=8), rows=st.integers(0, 12), compacted=st.integers(0, 8))
@settings(max_examples=15)
def test_the_newest_rows_are_the_last_of_all(sizes: list[int], rows: int, compacted: int) -> None:
    with TemporaryDirectory() as scratch:
        folder, opened, value = Path(scratch), sound(Path(scratch)), 0
        for number, size in enumerate(sizes):
            deliver(folder, number, {"tolls": list(range(value, value + size))}, opened)
            value += size
            if number + 1 == compacted:
                outputs.compact(folder)
        found = outputs.read_newest(folder, "tolls", rows, ["vid"])
        assert found["vid"].to_pylist() == list(range(value))[max(value - rows, 0) :]


def test_compaction_changes_no_row_and_the_job_goes_on(tmp_path: Path) -> None:
    opened = sound(tmp_path)
    for number in range(6):
        deliver(tmp_path, number, {"tolls": [number, number + 100]}, opened)
    before = visible_state(tmp_path)
    assert outputs.compact(tmp_path) == 12
    assert visible_state(tmp_path) == before
    assert len(outputs.visible_files(tmp_path, "tolls").files) == 1
    deliver(tmp_path, 6, {"tolls": [7]}, opened)
    assert sound(tmp_path).last_batch == 6
    assert outputs.read(tmp_path, "tolls").num_rows == 13


def test_appends_and_compaction_at_the_same_time_lose_and_double_nothing(tmp_path: Path) -> None:
    opened = sound(tmp_path)
    ended = threading.Event()
    failures: list[BaseException] = []

    def maintain() -> None:
        try:
            while not ended.is_set():
                outputs.compact(tmp_path)
        except BaseException as error:
            failures.append(error)

    worker = threading.Thread(target=maintain)
    worker.start()
    for number in range(40):
        deliver(tmp_path, number, {"tolls": [number], "rejects": [number]}, opened)
    ended.set()
    worker.join()
    assert not failures
    assert outputs.read(tmp_path, "tolls")["vid"].to_pylist() == list(range(40))
    assert sound(tmp_path).last_batch == 39


def test_the_log_of_a_table_does_not_grow_without_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slipstream._io.outputs.delta_tables._KEPT", {"delta.logRetentionDuration": "interval 0 hours"})
    monkeypatch.setattr(maintenance, "_REPLACED_HOURS", 0)
    opened = sound(tmp_path)
    for number in range(30):
        deliver(tmp_path, number, {"tolls": [number]}, opened)
    outputs.compact(tmp_path)
    deliver(tmp_path, 30, {"tolls": [30]}, opened)
    assert len(list((tmp_path / "outputs" / "tolls" / "_delta_log").iterdir())) < 15
    assert len(list((tmp_path / "outputs" / "tolls").glob("*.parquet"))) == 2
    assert sound(tmp_path).last_batch == 30


def _committed(folder: Path) -> None:
    opened = sound(folder)
    for number in range(3):
        deliver(folder, number, {"tolls": [number], "rejects": [number]}, opened)


def _foreign_append(folder: Path) -> None:
    rows = pa.table({"_batch": [1], "vid": pa.array([9], pa.int32()), "toll": [1.0]})
    write_deltalake(str(folder / "outputs" / "tolls"), rows, mode="append")


def _foreign_append_without_a_batch(folder: Path) -> None:
    rows = pa.table({"_batch": pa.array([None], pa.int64()), "vid": pa.array([9], pa.int32()), "toll": [1.0]})
    write_deltalake(str(folder / "outputs" / "tolls"), rows, mode="append")


def test_somebody_elses_rows_do_not_stop_a_running_job_and_are_reported_at_the_next_start(tmp_path: Path) -> None:
    opened = sound(tmp_path)
    deliver(tmp_path, 0, {"tolls": [0]}, opened)
    deliver(tmp_path, 1, {"tolls": [1]}, opened)
    _foreign_append(tmp_path)
    deliver(tmp_path, 2, {"tolls": [2]}, opened)
    assert opened.last_batch == 2
    assert set(outputs.read(tmp_path, "tolls")["vid"].to_pylist()) == {0, 1, 2, 9}
    with pytest.raises(BadInput, match="Something else has changed this table"):
        sound(tmp_path)


def _deletion(folder: Path) -> None:
    DeltaTable(str(folder / "outputs" / "tolls")).delete("vid = 1")


def _lost_log_entry(folder: Path) -> None:
    max((folder / "outputs" / "tolls" / "_delta_log").glob("*.json")).unlink()


def _lost_table(folder: Path) -> None:
    (folder / "outputs" / "tolls").rename(folder / "elsewhere")


def _lost_line(folder: Path) -> None:
    file = folder / "batches.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-2]))


def _lost_first_line(folder: Path) -> None:
    file = folder / "batches.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[1:]))


def _number_as_text(folder: Path) -> None:
    file = folder / "batches.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:-1], json.dumps({**json.loads(lines[-1]), "tuples": "2"}).encode() + b"\n"]))


@pytest.mark.parametrize(
    ("damage", "where"),
    [
        (_foreign_append, "tolls"),
        (_foreign_append_without_a_batch, "tolls"),
        (_deletion, "tolls"),
        (_lost_log_entry, "tolls"),
        (_lost_table, "tolls"),
        (_lost_line, "outputs"),
        (_lost_first_line, "batches.jsonl"),
        (_number_as_text, "batches.jsonl"),
    ],
)
def test_outputs_that_are_not_what_was_committed_are_refused(
    tmp_path: Path, damage: Callable[[Path], None], where: str
) -> None:
    _committed(tmp_path)
    outputs.check_tables(tmp_path, JOB)
    damage(tmp_path)
    for opened in (sound, lambda folder: outputs.check_tables(folder, JOB)):
        with pytest.raises(BadInput, match=where) as refused:
            opened(tmp_path)
        assert "another --out folder" in refused.value.hint


def test_a_journal_that_lacks_batches_which_spark_has_committed_is_refused(tmp_path: Path) -> None:
    _committed(tmp_path)
    commits = tmp_path / "checkpoint" / "commits"
    commits.mkdir(parents=True)
    for number in range(4):
        (commits / str(number)).touch()
    with pytest.raises(BadInput, match="3 batches, but 4 were committed"):
        outputs.check_journal(tmp_path)


def test_a_table_of_another_job_and_another_schema_are_refused(tmp_path: Path) -> None:
    _committed(tmp_path)
    with pytest.raises(BadInput, match="commits are missing"):
        Outputs(tmp_path, "another job", SCHEMAS)
    with pytest.raises(BadArgument, match="has the columns"):
        Outputs(tmp_path, JOB, {"tolls": pa.schema([("vid", pa.string())])})


def test_a_batch_that_skips_one_is_refused(tmp_path: Path) -> None:
    opened = sound(tmp_path)
    with pytest.raises(BadInput, match="ends with batch -1, but batch 1 follows"):
        opened.commit(1, [])


def test_an_unknown_output_is_named_with_those_there_are(tmp_path: Path) -> None:
    sound(tmp_path)
    with pytest.raises(BadArgument, match="no output 'toll'") as refused:
        outputs.read(tmp_path, "toll")
    assert "rejects, tolls" in refused.value.hint


def test_a_table_is_none_where_there_is_no_log(tmp_path: Path) -> None:
    assert OutputTable.open(tmp_path) is None


def test_rows_in_pieces_are_one_file(tmp_path: Path) -> None:
    opened = Outputs(tmp_path, JOB, SCHEMAS)
    pieces = (table_of("tolls", values) for values in ([1, 2], [3]))
    one = outputs.write(tmp_path, "tolls", pieces, 0, dictionary=["toll"], ascending=["vid"])
    assert one.rows == 3
    opened.commit(0, [one])
    assert outputs.read(tmp_path, "tolls")["vid"].to_pylist() == [1, 2, 3]


def test_some_batches_are_read_without_the_rest(tmp_path: Path) -> None:
    opened = Outputs(tmp_path, JOB, SCHEMAS)
    for number in range(5):
        deliver(tmp_path, number, {"tolls": [number]}, opened)
    found = outputs.visible_files(tmp_path, "tolls", since=1, until=3)
    assert len(found.files) == 3
    assert found.read()["vid"].to_pylist() == [1, 2, 3]
    outputs.compact(tmp_path)
    assert outputs.visible_files(tmp_path, "tolls", since=1, until=3).read()["vid"].to_pylist() == [0, 1, 2, 3]


def test_a_running_job_is_compacted_by_a_process_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "_LOOK_S", 0.01)
    opened = sound(tmp_path)
    number = 0
    with outputs.compact_in_background(tmp_path, every=5):
        deadline = time.monotonic() + 60
        while len(outputs.visible_files(tmp_path, "tolls").files) >= number and time.monotonic() < deadline:
            deliver(tmp_path, number, {"tolls": [number]}, opened)
            number += 1
    assert len(outputs.visible_files(tmp_path, "tolls").files) < number
    assert outputs.read(tmp_path, "tolls")["vid"].to_pylist() == list(range(number))
    assert sound(tmp_path).last_batch == number - 1


@pytest.mark.parametrize("point", COMPACTION_POINTS)
def test_a_compaction_that_fails_anywhere_changes_no_row(tmp_path: Path, point: str) -> None:
    expected = undisturbed(tmp_path / "out", CONTENT)
    with failing(point, tmp_path / "scratch"), pytest.raises(OSError, match="reached"):
        outputs.compact(tmp_path / "out")
    assert visible_state(tmp_path / "out") == expected
    outputs.compact(tmp_path / "out")
    assert visible_state(tmp_path / "out") == expected
    assert sound(tmp_path / "out").last_batch == len(CONTENT) - 1


def test_a_journal_is_followed_as_it_grows(tmp_path: Path) -> None:
    whole = outputs.Tail(tmp_path)
    assert whole.batches() == []
    opened = sound(tmp_path)
    deliver(tmp_path, 0, CONTENT[0], opened)
    later = outputs.Tail(tmp_path, from_now_on=True)
    deliver(tmp_path, 1, CONTENT[1], opened)
    assert [batch.batch for batch in whole.batches()] == [0, 1]
    assert [batch.batch for batch in later.batches()] == [1]
    with (tmp_path / "batches.jsonl").open("ab") as file:
        file.write(b'{"batch": 2, "com')
    assert whole.batches() == later.batches() == []
    deliver(tmp_path, 2, CONTENT[2], sound(tmp_path))
    assert whole.batches() == later.batches() == [outputs.last_batch(tmp_path)]
