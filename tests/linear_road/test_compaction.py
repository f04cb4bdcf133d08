"""Compaction loses and doubles nothing, wherever it is interrupted and whoever reads."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slipstream.bench.outputs import Order, read_outputs
from slipstream.failpoints import COMPACTION_POINTS, VARIABLE
from slipstream.linear_road import compaction
from slipstream.linear_road.answers import ANSWER, Answers
from slipstream.linear_road.compaction import FOLDER, answers_of, compact, compacted, compacting
from slipstream.linear_road.sink import OUTPUT, AnswerWriter, Sink
from slipstream.linear_road.stages import ANSWERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCHES, BLOCK = 23, 5


def answers(batch: int) -> Answers:
    """A few answers, none in every seventh batch."""
    made = np.zeros(0 if batch % 7 == 6 else 3 + batch % 4, ANSWER)
    made["kind"], made["time"], made["vid"] = batch % 2, batch, np.arange(made.size)
    made["arrived"] = 1000 * batch
    return made


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """What an engine without a clock leaves."""
    writer = AnswerWriter(Sink(str(tmp_path), str(tmp_path / "clock"), text=False))
    for batch in range(BATCHES):
        rows = {"what": [ANSWERS], "reports": [0], "requests": [0], "payload": [answers(batch).tobytes()]}
        writer.commit([writer.write(iter([pa.RecordBatch.from_pydict(rows)]))], batch)
    return tmp_path


def check(out: Path) -> None:
    for batch in range(BATCHES):
        found = answers_of(out, batch)
        assert sorted(found["vid"].to_pylist()) == sorted(answers(batch)["vid"].tolist()), batch
        assert set(found["time"].to_pylist()) <= {batch}


def test_old_batches_become_few_files(out: Path) -> None:
    assert compact(out, BLOCK) == 3
    assert [covered for covered, _ in compacted(out)] == [range(0, 5), range(5, 10), range(10, 15)]
    loose = {int(folder.name.partition("=")[2]) for folder in (out / OUTPUT).iterdir()}
    assert loose == {batch for batch in range(15, BATCHES) if answers(batch).size}
    check(out)
    assert compact(out, BLOCK) == 0
    emitted = pq.read_table(next(iter(compacted(out)))[1]).select(["batch", "emit_ms"]).to_pydict()
    assert {(b, e) for b, e in zip(*emitted.values(), strict=True)} == {(b, 1000 * (b + 1)) for b in range(5)}


@pytest.mark.parametrize("point", COMPACTION_POINTS)
def test_an_interrupted_compaction_is_taken_up(out: Path, point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, f"{point}:{out / 'reached'}:EIO")
    with pytest.raises(OSError, match="Input/output error"):
        compact(out, BLOCK)
    check(out)
    compact(out, BLOCK)
    check(out)
    assert len(compacted(out)) == 3


def test_an_unfinished_file_is_removed(out: Path) -> None:
    (out / FOLDER).mkdir()
    left = out / FOLDER / ".000000000000-000000000004.parquet.12345678"
    left.write_bytes(b"PAR1")
    compact(out, BLOCK)
    assert not left.exists()
    check(out)


def hold(out: Path, held: object, done: object) -> None:
    with compaction._alone(out):
        held.set()  # type: ignore[attr-defined]
        done.wait()  # type: ignore[attr-defined]


def test_two_never_compact_at_once(out: Path) -> None:
    context = multiprocessing.get_context("fork")
    held, done = context.Event(), context.Event()
    other = context.Process(target=hold, args=(out, held, done))
    other.start()
    held.wait()
    assert compact(out, BLOCK) == 0
    done.set()
    other.join()
    assert compact(out, BLOCK) == 3


def test_the_validator_reads_both(spark: SparkSession, out: Path) -> None:
    before = sorted(map(tuple, read_outputs(spark, [out], Order.AUTO).collect()))
    folder = out / OUTPUT / "batch=2"
    kept = {file.relative_to(folder): file.read_bytes() for file in folder.rglob("*.parquet")}
    compact(out, BLOCK)
    assert sorted(map(tuple, read_outputs(spark, [out], Order.AUTO).collect())) == before
    for name, body in kept.items():  # as a crash before the removal leaves it
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(body)
    assert sorted(map(tuple, read_outputs(spark, [out], Order.AUTO).collect())) == before


def test_an_engine_has_it_done_beside_it(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "_LOOK_S", 0.01)
    with compacting(out, BLOCK):
        while len(compacted(out)) < 3:
            time.sleep(0.05)
    check(out)
