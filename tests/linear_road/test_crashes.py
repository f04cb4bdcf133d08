"""After kills at the worst moments and restarts, the outputs equal those of an undisturbed run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from slipstream._archive.trip_tables import read_trips
from slipstream._city.simulate import simulate
from slipstream._city.traffic import Traffic
from slipstream._io.outputs import JOURNAL
from slipstream._linear_road.answer_text import REJECTED, TEXT
from slipstream._tools.processes.failpoints import TRIP_POINTS, VARIABLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slipstream._feeds.run import Run

TRAFFIC = Traffic(expressways=2, minutes=5, demand=2.0, accident_every=2, returning=0.3)


@pytest.fixture(scope="module")
def run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return simulate(spark, TRAFFIC, 3, tmp_path_factory.mktemp("runs") / "run")


def start(run: Run, out: Path, environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    return started(["toll", str(run.path), "--out", str(out), "--batch-seconds", "45"], environment)


def started(arguments: list[str], environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    """A command of ours as a process that can be killed with all it has started."""
    return subprocess.Popen(
        [sys.executable, "-m", "slipstream", *arguments, "--master", "local[2]"],
        env={**os.environ, **(environment or {})},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[bytes]) -> None:
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors.decode()


def kill_all(process: subprocess.Popen[bytes]) -> None:
    """The driver, the JVM and every Python worker, at once."""
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for member in family:
        member.send_signal(signal.SIGKILL)
    process.communicate()
    psutil.wait_procs(family, timeout=30)


def without_emit(out: Path) -> list[str]:
    place = {"0": 3}
    lines = []
    for line in (out / TEXT).read_text().splitlines():
        fields = line.split(",")
        del fields[place.get(fields[0], 2)]
        lines.append(",".join(fields))
    return lines


@pytest.fixture(scope="module")
def undisturbed(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    finish(start(run, out))
    return out


def wait_for(condition: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 300
    while not condition.exists() and time.monotonic() < deadline:
        assert process.poll() is None, process.stderr and process.stderr.read().decode()
        time.sleep(0.05)
    assert condition.exists()


POINTS = [
    "tolls.after-save",
    "accounts.before-save",
    "outputs.before-commit",
    "outputs.between-tables",
    "text.before-append",
    "outputs.before-journal",
]


@pytest.mark.long
@pytest.mark.parametrize("point", POINTS)
def test_kill_everything_at(point: str, run: Run, undisturbed: Path, tmp_path: Path) -> None:
    reached = tmp_path / "reached"
    process = start(run, tmp_path / "out", {VARIABLE: f"{point}:{reached}"})
    wait_for(reached, process)
    kill_all(process)
    finish(start(run, tmp_path / "out"))
    assert without_emit(tmp_path / "out") == without_emit(undisturbed)
    assert (tmp_path / "out" / REJECTED).read_bytes() == (undisturbed / REJECTED).read_bytes()


@pytest.mark.long
def test_kill_after_the_journal_but_before_sparks_own_commit(run: Run, undisturbed: Path, tmp_path: Path) -> None:
    reached = tmp_path / "reached"
    process = start(run, tmp_path / "out", {VARIABLE: f"outputs.after-journal:{reached}"})
    wait_for(reached, process)
    kill_all(process)
    committed = (tmp_path / "out" / JOURNAL).read_bytes()
    finish(start(run, tmp_path / "out"))
    assert (tmp_path / "out" / JOURNAL).read_bytes().startswith(committed)
    assert without_emit(tmp_path / "out") == without_emit(undisturbed)


def trips(out: Path) -> list[str]:
    return sorted(map(str, read_trips(out, ["vid", "xway", "dir", "Trip"]).to_pylist()))


@pytest.fixture(scope="module")
def archived(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("archived") / "out"
    finish(started(["toll", str(run.path), "--archive", "--out", str(out), "--batch-seconds", "45"]))
    return out


@pytest.mark.long
@pytest.mark.parametrize(
    "point", [*TRIP_POINTS, "outputs.between-tables", "outputs.before-journal", "outputs.after-journal"]
)
def test_no_trip_is_lost_or_doubled_by_a_kill_at(
    point: str, run: Run, archived: Path, undisturbed: Path, tmp_path: Path
) -> None:
    command = ["toll", str(run.path), "--archive", "--out", str(tmp_path / "out"), "--batch-seconds", "45"]
    reached = tmp_path / "armed" / "reached"
    process = started(command, {VARIABLE: f"{point}:{reached}"})
    wait_for(tmp_path / "out" / JOURNAL, process)
    reached.parent.mkdir()
    wait_for(reached, process)
    kill_all(process)
    seen = trips(tmp_path / "out")
    assert set(seen) <= set(trips(archived))
    finish(started(command))
    assert trips(tmp_path / "out") == trips(archived)
    assert without_emit(tmp_path / "out") == without_emit(undisturbed)


def kill_if_worker(process: psutil.Process) -> bool:
    """Kill a Python worker, but not the daemon that forks them."""
    try:
        is_worker = "pyspark.worker" in " ".join(process.cmdline()) and not process.children()
        if is_worker:
            process.kill()
    except psutil.Error:
        return False
    return is_worker


@pytest.mark.long
def test_a_killed_python_worker_costs_nothing_but_time(run: Run, undisturbed: Path, tmp_path: Path) -> None:
    reached = tmp_path / "reached"
    process = start(run, tmp_path / "out", {VARIABLE: f"tolls.before-save:{reached}"})
    wait_for(reached, process)
    killed = [child for child in psutil.Process(process.pid).children(recursive=True) if kill_if_worker(child)]
    assert killed
    process.communicate(timeout=300)
    if process.returncode:
        finish(start(run, tmp_path / "out"))
    assert without_emit(tmp_path / "out") == without_emit(undisturbed)


@pytest.mark.long
def test_sigterm_stops_cleanly_and_the_next_start_goes_on(run: Run, undisturbed: Path, tmp_path: Path) -> None:
    process = start(run, tmp_path / "out")
    wait_for(tmp_path / "out" / JOURNAL, process)
    process.terminate()
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors.decode()
    assert b"Traceback" not in errors
    finish(start(run, tmp_path / "out"))
    assert without_emit(tmp_path / "out") == without_emit(undisturbed)
