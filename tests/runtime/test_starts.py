"""A job records its starts, and its log says how each of them ended."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from slipstream._errors import BadInput
from slipstream._runtime.watching import starts
from slipstream._runtime.watching.starts import read_log, read_starts, record_start
from slipstream._runtime.watching.status import report_status
from slipstream._tools import command_line
from slipstream._tools.progress import say


@pytest.fixture(autouse=True)
def _no_command() -> None:
    command_line.remember(())


def test_starts_have_their_command_without_secrets(tmp_path: Path) -> None:
    command_line.remember(
        ["toll", "kafka:broker:9092/cars", "--kafka-config", "sasl.password=secret", "--out", "tolls"]
    )
    for _ in range(2):
        with record_start(tmp_path, "kafka:broker:9092/cars"):
            pass
    first, second = read_starts(tmp_path)
    assert (
        first.command == second.command == ("toll", "kafka:broker:9092/cars", "--kafka-config", "...", "--out", "tolls")
    )
    assert (first.pid, first.folder) == (os.getpid(), str(Path.cwd()))
    assert first.at <= second.at
    assert "secret" not in (tmp_path / starts.FILE).read_text() + read_log(tmp_path, 10**6)


def test_the_log_has_what_was_said_and_how_it_ended(tmp_path: Path) -> None:
    with record_start(tmp_path, "cars.csv"), report_status(tmp_path, "cars.csv"):
        say("[yellow]note:[/] 3 lines are empty")
        other = threading.Thread(target=say, args=("another job",))
        other.start()
        other.join()
    with pytest.raises(BadInput), record_start(tmp_path, "cars.csv"):
        raise BadInput("cars.csv, line 3: no number.", hint="Correct the line.", code="malformed-value")
    lines = read_log(tmp_path, 10**6).splitlines()
    assert [line.partition(" ")[2].partition(",")[0] for line in lines] == [
        "Start of slipstream 0.1.0",
        "note: 3 lines are empty",
        "Ended: finished.",
        "Start of slipstream 0.1.0",
        "Failed: cars.csv",
        "   Correct the line.",
    ]


def test_the_end_of_a_long_log_begins_with_a_line(tmp_path: Path) -> None:
    (tmp_path / starts.LOG).write_text("".join(f"line {n}\n" for n in range(1000)))
    assert read_log(tmp_path, 20) == "line 998\nline 999\n"
    assert read_log(tmp_path / "nowhere", 20) == ""


def test_a_log_does_not_grow_without_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starts, "LOG_BYTES", 100)
    for n in range(9):
        with record_start(tmp_path, f"feed {n} {'x' * 60}"):
            pass
    assert sorted(path.name for path in tmp_path.glob("job.log*")) == ["job.log", "job.log.1"]
    assert (tmp_path / starts.LOG).stat().st_size < 400


def test_unreadable_lines_are_left_out(tmp_path: Path) -> None:
    with record_start(tmp_path, ""):
        pass
    whole = (tmp_path / starts.FILE).read_text()
    (tmp_path / starts.FILE).write_text('{"at": 1}\n' + whole + '{"cut')
    assert len(read_starts(tmp_path)) == 1


def test_what_spark_logs_is_kept_with_the_job_and_rotated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "temporary.log"
    monkeypatch.setattr(starts.session, "spark_log", lambda: source)
    monkeypatch.setattr(starts, "LOG_BYTES", 20)
    source.write_text("of another job\n")
    for text in ("the first start\n", "the second start\n", "the third start\n"):
        with starts.keep_spark_log(tmp_path), source.open("a") as log:
            log.write(text)
    assert (tmp_path / "spark.log.1").read_text() == "the first start\nthe second start\n"
    assert (tmp_path / "spark.log").read_text() == "the third start\n"
    assert source.stat().st_size == 0
