"""When tuples arrive: not before the network is ready, the same after an interruption, and numbered on any stream."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from oracles.network import interpret
from slipstream._errors import BadArgument
from slipstream._io import outputs
from slipstream._network import Network, yaml_files
from slipstream._network.planning.compiler import compile_network
from slipstream._network.running import run_folder
from slipstream._network.running.driving import drive
from slipstream._network.running.run_folder import Execution
from slipstream._network.schemas import check
from slipstream._network.tasks.arrivals import first_number
from slipstream._runtime import job

NETWORKS = Path(__file__).parents[2] / "examples" / "networks"
SOLDIERS = NETWORKS / "soldiers.csv"


def border() -> Network:
    return yaml_files.load(NETWORKS / "border.yaml")


def times(run: Execution) -> list[int]:
    """The arrival times of the tuples that are in, in their order."""
    trains = sorted(run.folder.glob("in/soldiers/train-0*.parquet"))
    return [ts for train in trains for ts in pq.read_table(train)["_ts"].to_pylist()]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock of our own, in seconds."""
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(run_folder.time, "time_ns", lambda: int(clock.now * 1e9))
    return clock


def test_a_recording_begins_to_arrive_when_its_first_train_is_let_in(tmp_path: Path, clock: SimpleNamespace) -> None:
    run = Execution.prepare(tmp_path / "run", border(), {"soldiers": SOLDIERS}, train=5)
    clock.now += 30  # Spark starts
    run.step()
    run.admit_due()
    clock.now += 10
    # another process resumes it: what arrives later is of the same recording
    again = Execution.open(tmp_path / "run")
    again.resume()
    assert not again.admit_due()
    assert times(again) == [1_030_000_000] * 17


def test_at_a_rate_tuples_are_due_from_the_first_on(tmp_path: Path, clock: SimpleNamespace) -> None:
    run = Execution.prepare(tmp_path / "run", border(), {"soldiers": SOLDIERS}, train=2, rate=2)
    clock.now += 30
    assert run.admit_due()
    assert times(run) == []
    clock.now += 1.5
    assert run.admit_due()
    assert times(run) == [1_030_000_000 + 500_000 * i for i in range(4)]


def test_a_folder_from_before_recordings_were_noted_still_arrives(tmp_path: Path, clock: SimpleNamespace) -> None:
    run = Execution.prepare(tmp_path / "run", border(), {"soldiers": SOLDIERS}, train=20)
    (run.folder / "recording.json").unlink()
    assert not run.admit_due()
    assert times(run) == [0] * 17


def test_a_folder_that_was_not_laid_out_to_its_end_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError("no space")

    monkeypatch.setattr(run_folder, "write_trains", fail)
    with pytest.raises(OSError, match="no space"):
        Execution.prepare(tmp_path / "run", border(), {"soldiers": SOLDIERS})
    with pytest.raises(BadArgument, match="not the folder of a network"):
        Execution.open(tmp_path / "run")


def test_small_files_are_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that fails half way leaves what was there."""
    run = Execution.lay_out(tmp_path / "run", border())
    before = {path.name: path.read_bytes() for path in run.folder.iterdir() if path.is_file()}
    assert before.keys() == {"job.json", "network.yaml"}
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("killed")))
    with pytest.raises(OSError, match="killed"):
        run.pause()
    with pytest.raises(OSError, match="killed"):
        run._replace("network.yaml", "half")
    assert {path.name: path.read_bytes() for path in run.folder.iterdir() if path.is_file()} == before


def test_an_opening_warms_up_and_changes_nothing(spark, tmp_path: Path) -> None:
    run = Execution.prepare(tmp_path / "run", border(), {"soldiers": SOLDIERS}, train=6)
    seen: list[int] = []
    drive(spark, run, trains=1, watch=seen.append)
    assert seen == [1, 2, 3], "batch 0 was an opening"
    lines = SOLDIERS.read_text().split()
    names = lines[0].split(",")
    feed = [("soldiers", 0, dict(zip(names, map(int, line.split(",")), strict=True))) for line in lines[1:]]
    wanted = [event.values for event in interpret(border(), feed)["alerts"]]
    assert run.inspect("alerts") == wanted
    assert [entry["batch"] for entry in run.monitor.entries()] == [1, 2, 3]
    # the opening was over before the first tuple counted as arrived
    began = json.loads((run.folder / "recording.json").read_text())["began"]
    assert (run.folder / "checkpoint" / "commits" / "0").stat().st_mtime * 1e6 <= began
    assert [(line.batch, line.tuples > 0) for line in outputs.read_journal(run.folder)] == [
        (0, False),
        (1, True),
        (2, True),
        (3, True),
    ]
    assert set(times(run)) == {began}
    assert (run.folder / "checkpoint" / "state" / "0" / "0").is_dir()
    assert not (run.folder / "checkpoint" / "state" / "0" / "1").exists(), "a small recording needs one partition"


def test_a_run_that_is_asked_to_stop_resumes_where_it_was(spark, tmp_path: Path) -> None:
    run = Execution.prepare(tmp_path / "run", border(), {"soldiers": SOLDIERS}, train=6)
    run.step()
    drive(spark, run, trains=1, watch=lambda _: run.stop())
    status = json.loads((run.folder / "status.json").read_text())
    assert (status["state"], status["why"]) == ("stopped", "asked to stop")
    assert len(run.waiting()) == 2
    with job.lock_folder(run.folder), pytest.raises(BadArgument, match="already running there"):
        drive(spark, run)
    drive(spark, run, trains=1)
    assert json.loads((run.folder / "status.json").read_text())["why"] == "finished"
    assert [entry["batch"] for entry in run.monitor.entries()] == [1, 2, 3]


def test_any_stream_can_be_an_input(spark, tmp_path: Path) -> None:
    """No arrival numbers, other integer types, a column nobody asked for."""
    lines = SOLDIERS.read_text().split()
    (tmp_path / "in").mkdir()
    for number, part in enumerate((lines[1:9], lines[9:])):
        (tmp_path / "in" / f"{number}.csv").write_text("\n".join(f"{line},x" for line in part))
    rows = spark.readStream.schema("sid int, time smallint, pos int, note string").option("maxFilesPerTrigger", 1)
    made = compile_network(check(border(), spark), {"soldiers": rows.csv(str(tmp_path / "in"))})
    alerts = made.output("alerts")
    assert alerts.isStreaming
    got: list[dict[str, int]] = []
    query = (
        alerts.writeStream.foreachBatch(lambda batch, _: got.extend(row.asDict() for row in batch.collect()))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    names = lines[0].split(",")
    feed = [("soldiers", 0, dict(zip(names, map(int, line.split(",")), strict=True))) for line in lines[1:]]
    assert [{"time": row["time"], "n": row["n"]} for row in sorted(got, key=lambda row: row["q0"])] == [
        event.values for event in interpret(border(), feed)["alerts"]
    ]


def test_tuples_are_numbered_by_batch_then_task() -> None:
    def number(batch: str | None, task: int) -> int:
        return first_number(SimpleNamespace(getLocalProperty=lambda _: batch, partitionId=lambda: task))

    assert number(None, 0) == 0
    numbers = [number(str(batch), task) for batch in (0, 1, 8_000_000) for task in (0, 1, 1023)]
    assert numbers == sorted(set(numbers))
    assert max(numbers) + 2**30 <= 2**63
