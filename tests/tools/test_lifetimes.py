"""Commands that are killed or told to stop leave nothing: no process, no temporary file, no shared memory."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from console.serving import free_port
from lifetimes import ended, has_started, marked
from linear_road.test_crashes import wait_for
from slipstream._city.simulate import simulate
from slipstream._city.traffic import Traffic
from slipstream._tools.files.temporary import PREFIX, shared_memory
from slipstream._tools.processes.failpoints import VARIABLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL)
NETWORKS = Path(__file__).parents[2] / "examples" / "networks"
SPARK = ["--master", "local[2]"]


@pytest.fixture(scope="module")
def run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulate(spark, Traffic(expressways=1, minutes=5, demand=2.0), 3, tmp_path_factory.mktemp("runs") / "r").path


def start(home: Path, command: list[str], environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    """A command with a folder for temporary files of its own; all it starts carries a mark."""
    (home / "tmp").mkdir()
    environment = {**os.environ, "TMPDIR": str(home / "tmp"), "MARKER": str(home), **(environment or {})}
    line = [sys.executable, "-m", "slipstream", *command]
    return subprocess.Popen(line, env=environment, cwd=home, stderr=subprocess.PIPE, start_new_session=True)


def in_shared_memory() -> set[str]:
    return {path.name for path in shared_memory().glob(f"{PREFIX}*")}


def end(process: subprocess.Popen[bytes], home: Path, number: signal.Signals, *, all_of_it: bool = False) -> None:
    """Send a signal; the command must end with the code of its kind, and leave nothing.

    With ``all_of_it`` its processes get the signal, too, as service managers do.
    """
    own = {name for name in in_shared_memory() if any(name.startswith(mine.name) for mine in temporary_folders(home))}
    if all_of_it:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == (-number if number == signal.SIGKILL else 130), errors.decode()
    assert b"Traceback" not in errors
    assert ended(str(home)) == []
    assert list((home / "tmp").iterdir()) == []
    assert not own & in_shared_memory()


def temporary_folders(home: Path) -> list[Path]:
    return list((home / "tmp").glob(f"{PREFIX}*"))


@pytest.mark.long
def test_a_killed_engine_leaves_nothing_in_the_middle_of_a_batch(run: Path, tmp_path: Path) -> None:
    reached = tmp_path / "reached"
    command = ["toll", str(run), "--out", "out", "--batch-seconds", "45", *SPARK]
    process = start(tmp_path, command, {VARIABLE: f"accounts.before-save:{reached}"})
    wait_for(reached, process)
    (private,) = temporary_folders(tmp_path)
    assert private.stat().st_mode & 0o777 == 0o700
    assert (private / "spark.log").stat().st_mode & 0o777 == 0o600
    (warm,) = shared_memory().glob(f"{private.name}-*")
    assert warm.stat().st_mode & 0o777 == 0o700
    assert len(marked(str(tmp_path))) > 3
    end(process, tmp_path, signal.SIGKILL)


def test_a_command_that_is_stopped_while_spark_starts_leaves_nothing(run: Path, tmp_path: Path) -> None:
    process = start(tmp_path, ["toll", str(run), "--out", "out", *SPARK])
    while not has_started(str(tmp_path), "java"):
        assert process.poll() is None
        time.sleep(0.05)
    end(process, tmp_path, signal.SIGHUP)


@dataclass(frozen=True)
class Case:
    """A command that runs for long, and the file that shows that it is at work."""

    command: Callable[[Path], list[str]]
    at_work: str


def _fill(_: Path) -> list[str]:
    schema = "CREATE CUBOID stock (stock_id INT KEY, price AST(5));"
    return ["cuboid", "run", "--input", "ticks", "--schema", schema, "--out", "out", "--follow", *SPARK]


def _network(_: Path) -> list[str]:
    # 17 tuples, one in ten seconds
    recorded = f"soldiers={NETWORKS / 'soldiers.csv'}"
    command = ["network", "run", str(NETWORKS / "border.yaml"), "--input", recorded, "--train", "1", "--rate", "0.1"]
    return [*command, "--out", "out", *SPARK]


def _rate(run: Path) -> list[str]:
    return [
        "rate",
        "--run",
        str(run),
        "--door",
        "tcp",
        "--max",
        "1",
        "--window",
        "2m",
        "--probe",
        "90s",
        "--out",
        "out",
        *SPARK,
    ]


CASES = {
    "toll": Case(lambda run: ["toll", str(run), "--out", "out", "--speed", "1", *SPARK], "out/batches.jsonl"),
    "archive": Case(lambda run: ["archive", str(run), "--out", "out", "--speed", "1", *SPARK], "out/batches.jsonl"),
    "cuboid": Case(_fill, "out/batches.jsonl"),
    "network": Case(_network, "out/batches.jsonl"),
    "drive": Case(lambda run: ["drive", str(run), "--to", "dir:out"], "out"),
    "rate": Case(_rate, "out/slipstream-1-90s/batches.jsonl"),
    "chaos": Case(
        lambda run: ["chaos", str(run), "--out", "out", "--faults", "3", "--only", "worker"],
        "out/chain-001/out/batches.jsonl",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("name", CASES)
def test_a_command_at_work_leaves_nothing(name: str, number: signal.Signals, run: Path, tmp_path: Path) -> None:
    (tmp_path / "ticks").mkdir()
    (tmp_path / "ticks" / "0.csv").write_text("stock_id,price\n1,5\n2,7\n")
    process = start(tmp_path, CASES[name].command(run))
    wait_for(tmp_path / CASES[name].at_work, process)
    end(process, tmp_path, number)


@pytest.mark.long
@pytest.mark.parametrize("number", SIGNALS)
def test_a_console_with_an_engine_leaves_nothing(number: signal.Signals, run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "runs" / "city")
    port = free_port()
    process = start(tmp_path, ["console", "runs", "--no-browser", "--port", str(port), *SPARK])
    while not _asked(port, {"run": "city", "speed": 1}):
        assert process.poll() is None
        time.sleep(0.2)
    until = time.monotonic() + 300
    while not (journals := list(tmp_path.glob("runs/*/batches.jsonl"))) and time.monotonic() < until:
        time.sleep(0.2)
    assert journals
    end(process, tmp_path, number)


def _asked(port: int, wish: dict[str, object]) -> bool:
    """Whether a console is there and does what it is asked to."""
    headers = {"x-slipstream": "1", "content-type": "application/json"}
    address = f"http://127.0.0.1:{port}/api/city/start"
    try:
        urllib.request.urlopen(urllib.request.Request(address, json.dumps(wish).encode(), headers), timeout=30).close()
    except urllib.error.HTTPError:
        raise
    except OSError:
        return False
    return True


@pytest.mark.long
def test_a_job_whose_processes_are_all_told_to_stop_says_so(run: Path, tmp_path: Path) -> None:
    process = start(tmp_path, CASES["toll"].command(run))
    wait_for(tmp_path / CASES["toll"].at_work, process)
    end(process, tmp_path, signal.SIGTERM, all_of_it=True)
    assert json.loads((tmp_path / "out" / "status.json").read_text())["why"] == "interrupted"
