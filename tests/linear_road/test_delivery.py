"""A batch is delivered exactly once to tables, text and journal, no matter how often it is interrupted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from linear_road.delivering import deliver, delivery
from slipstream._bench.validation.outputs import FieldOrder, read_outputs
from slipstream._errors import BadInput
from slipstream._feeds import text_ids
from slipstream._io import outputs
from slipstream._linear_road import output_tables
from slipstream._linear_road.answer_text import REJECTED, TEXT
from slipstream._linear_road.answers import ANSWER, Answers
from slipstream._linear_road.job.query import WriteStage
from slipstream._linear_road.job.toll_journal import last_batch, read_journal
from slipstream._linear_road.job.toll_layout import TEXTS, Layout
from slipstream._linear_road.schedule import Irregular
from slipstream._linear_road.tasks.toll_stages import ANSWERS, COUNTED, NAMES, NUMBERED, REJECTS, Hop
from slipstream._runtime.stages.memory import Host
from slipstream._tools.processes.failpoints import OUTPUT_POINTS, VARIABLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCHES = 4
POINTS = (*OUTPUT_POINTS, "text.before-append")


def answers(batch: int, task: int = 0) -> Answers:
    """Answers of all kinds, none in the third batch; the questions arrived at different times."""
    made = np.zeros(0 if batch == 2 else 10 + batch, ANSWER)
    number = np.arange(made.size)
    made["kind"], made["time"] = number % 5, 10 * batch + number % 3
    made["vid"] = 100 * task + number // 2
    made["qid"] = np.where(made["kind"] < 2, -1, 100 * task + number)
    made["a"], made["b"] = number, np.where(np.isin(made["kind"], (1, 3)), -1, 7 * number)
    made["arrived"] = 1000 * made["time"] - 250 * (number % 2)
    return made


def hops(batch: int, task: int = 0) -> list[Hop]:
    made = answers(batch, task)
    counted = Irregular(1, 10 * batch, 7, 31).to_bytes()
    found = [Hop(task, ANSWERS, 0, 0, made.size, 0, made.tobytes())] if made.size else []
    rejects = f"late,{batch} of {task}\nfields,caf".encode() + b"\xe9\n"
    return [*found, Hop(task, COUNTED, 0, 0, 5, 2, counted), Hop(task, REJECTS, 0, 0, 2, 0, rejects)]


def do(out: Path, batch: int) -> bool:
    return deliver(delivery(out), batch, hops(batch), hops(batch, 1))


def everything(out: Path) -> tuple[object, ...]:
    """What readers find; without Emit, which says when and not what."""
    lines = [line.split(",") for line in (out / TEXT).read_text().splitlines()]
    for line in lines:
        del line[3 if line[0] == "0" else 2]
    return (
        sorted(map(str, output_tables.read_rows(out).to_pylist())),
        lines,
        (out / REJECTED).read_bytes(),
        sorted(map(str, outputs.read(out, output_tables.REJECTS).to_pylist())),
        [(batch.tuples, batch.rejects, batch.newest, batch.detail.irregular) for batch in read_journal(out)],
    )


@pytest.fixture
def out(tmp_path: Path) -> Path:
    for batch in range(BATCHES):
        assert do(tmp_path / "out", batch)
    return tmp_path / "out"


def expected() -> Answers:
    return np.concatenate([answers(batch, task) for batch in range(BATCHES) for task in range(2)])


def test_every_kind_has_a_table_with_plain_names(out: Path) -> None:
    assert outputs.output_names(out) == sorted([*(table.name for table in output_tables.ANSWER_TABLES), "rejects"])
    for table in output_tables.ANSWER_TABLES:
        mine = expected()[expected()["kind"] == table.kind]
        found = outputs.read(out, table.name)
        assert found.column_names == ["_batch", *table.columns, "delay_ms"]
        for column, field in table.columns.items():
            assert sorted(found[column].to_pylist()) == sorted(mine[field].tolist())
    rejects = outputs.read(out, "rejects").to_pylist()
    assert {"_batch": 0, "reason": "late", "line": "0 of 0"} in rejects
    assert {"_batch": 3, "reason": "fields", "line": "caf\\xe9"} in rejects
    assert len(rejects) == 4 * BATCHES


def test_the_answers_come_back_with_emit_and_the_same_for_spark(out: Path, spark: SparkSession) -> None:
    found = output_tables.read_answers(out).to_pylist()
    emitted = {batch.batch: batch.detail.emitted_ms for batch in read_journal(out)}
    assert emitted == {0: 3000, 1: 13000, 2: 13000, 3: 33000}  # no clock: the end of the newest second
    wanted = [
        {**{name: int(row[name]) for name in ("kind", "time", "vid", "qid", "a", "b")}, "_batch": batch}
        | {"emit_ms": emitted[batch] + 1000 * int(row["time"]) - int(row["arrived"])}
        for batch in range(BATCHES)
        for task in range(2)
        for row in answers(batch, task)
    ]
    assert sorted(map(str, found)) == sorted(map(str, wanted))
    in_spark = output_tables.answers_frame(spark, out).select(*found[0]).toArrow().to_pylist()
    assert sorted(map(str, in_spark)) == sorted(map(str, wanted))
    judged = read_outputs(spark, [out], FieldOrder.AUTO).select("kind", "id", "time", "emit_ms", "a", "b").collect()
    by_id = [
        (row["kind"], row["vid" if row["kind"] < 2 else "qid"], row["time"], row["emit_ms"], row["a"], row["b"])
        for row in wanted
    ]
    assert sorted(map(tuple, judged)) == sorted(by_id)


def test_text_is_in_the_order_of_the_paper(out: Path) -> None:
    lines = (out / TEXT).read_text().splitlines()
    assert lines[0] == "0,0,0,3,0,0"
    assert "2,2,3,2,2,14" in lines
    first = np.concatenate([answers(0), answers(0, 1)])
    kinds = [int(line.split(",")[0]) for line in lines[: first.size]]
    keys = [first[name] for name in ("qid", "vid", "kind", "time")]
    assert kinds == first[np.lexsort(keys)]["kind"].tolist()
    assert (out / REJECTED).read_text().splitlines()[:2] == ["late,0 of 0", "fields,caf\\xe9"]
    last = last_batch(out)
    assert last is not None
    assert last.detail.text_bytes == (out / TEXT).stat().st_size


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("point", POINTS)
def test_an_interrupted_batch_is_delivered_once(
    point: str, batch: int, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = tmp_path / "again"
    for earlier in range(batch):
        do(again, earlier)
    monkeypatch.setenv(VARIABLE, f"{point}:{tmp_path / 'reached'}:EIO")
    with pytest.raises(OSError, match="Input/output error"):
        do(again, batch)
    for later in range(batch, BATCHES):
        do(again, later)
    assert not do(again, BATCHES - 1)  # as Spark does when it could not note that it had been
    assert everything(again) == everything(out)
    files = {file for table in outputs.output_names(again) for file in (again / "outputs" / table).glob("*.parquet")}
    assert files == {
        file.path for table in outputs.output_names(again) for file in outputs.visible_files(again, table).files
    }


def test_compaction_changes_nothing_for_readers(out: Path) -> None:
    before = everything(out)
    assert outputs.compact(out)
    assert everything(out) == before
    assert do(out, BATCHES)


def test_an_answer_table_is_read_batch_by_batch(out: Path) -> None:
    for compact in (False, True):
        if compact:
            outputs.compact(out)
        for batch in range(BATCHES):
            found = output_tables.read_rows(out, (0, 1), batch, batch)
            mine = np.concatenate([answers(batch), answers(batch, 1)])
            assert sorted(found["vid"].to_pylist()) == sorted(mine["vid"][mine["kind"] < 2].tolist())


@pytest.mark.parametrize(
    "harm",
    [
        lambda out: (out / TEXT).write_bytes((out / TEXT).read_bytes()[:-1]),
        lambda out: (out / "outputs" / "alerts" / "_delta_log" / "00000000000000000001.json").unlink(),
        lambda out: (out / "batches.jsonl").write_text(
            (out / "batches.jsonl").read_text().replace('"newest"', '"new"')
        ),
    ],
)
def test_what_was_damaged_is_refused(harm: Callable[[Path], object], out: Path) -> None:
    harm(out)
    with pytest.raises(BadInput) as refused:
        do(out, BATCHES)
    assert refused.value.hint


def test_a_start_without_text_leaves_what_is_there(out: Path) -> None:
    before = (out / TEXT).read_bytes()
    deliver(delivery(out, text=False), BATCHES, hops(BATCHES))
    deliver(delivery(out), BATCHES + 1, hops(BATCHES + 1))
    assert (out / TEXT).read_bytes().startswith(before)
    assert len((out / TEXT).read_bytes()) > len(before)


def test_whoever_writes_keeps_the_names_of_vehicles_through_a_restart(tmp_path: Path) -> None:
    layout = Layout("id", "feed", "2004", 0, "answers", "", -1, (0, 1), (0, 1), 2, TEXTS)
    host = Host([WriteStage("test", tmp_path, 0, layout)])
    known = {1: ["x"], 0: ["ü", "a,b"]}  # by part: the numbers are 1, 0 and 2
    told = [Hop(0, NAMES, 0, part, 0, 0, text_ids.encode(pa.array(ids))) for part, ids in known.items()]
    host.run([*told, *told])  # each is heard twice
    host.restart()
    made = answers(0)
    made["vid"] = np.arange(made.size) % 3
    late = b"late,0,5,2" + b",7" * 12 + b"\n"
    rows = host.run([Hop(0, ANSWERS, 0, 0, made.size, 0, made.tobytes()), Hop(0, REJECTS, 0, 0, 1, NUMBERED, late)])
    files = {row.output: tmp_path / "outputs" / row.output / row.file for row in rows if row.file}
    found = {name: pq.read_table(file, partitioning=None).to_pylist() for name, file in files.items()}
    named = {row["vid"]: row["vehicle"] for name in found.keys() - {"rejects"} for row in found[name]}
    assert named == {0: "ü", 1: "x", 2: "a,b"}
    assert [row["line"] for row in found["rejects"]] == ["0,5,a,b" + ",7" * 12]
