"""Jobs whose folders are in S3 or HDFS: the answers of a job on a disk, whatever fails and whenever."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import slipstream as ss
from slipstream._io import outputs
from slipstream._io.outputs import BATCH
from slipstream._tools.files.locations import to_path
from slipstream._tools.processes.failpoints import OUTPUT_POINTS
from stores import HDFS, S3, running, script

pytestmark = pytest.mark.long

#: for a start, a batch and an end on a busy machine
_TIMEOUT_S = 900
_OUTPUTS = ("notifications", "alerts", "balances", "expenditures", "travel_times", "trips")


@pytest.fixture(scope="module", params=[S3, HDFS])
def store(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    with running(request.param) as uri:
        yield request.param, uri


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    slipstream("simulate", "--expressways", "0.5", "--minutes", "6", "--out", out)
    return out


@pytest.fixture(scope="module")
def expected(run: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, object]]]:
    out = tmp_path_factory.mktemp("jobs") / "tolls"
    slipstream(*toll(run, str(out)))
    return read(out)


def toll(run: Path, out: str) -> list[object]:
    words: list[object] = ["toll", run, "--out", out, "--archive", "--snapshot", "--parallel", "1"]
    return words


def conf() -> list[str]:
    """Spark's jars for S3, without copying them."""
    jars = script(S3, "jars") if "AWS_ENDPOINT_URL" in os.environ else ""
    return ["--conf", f"spark.driver.extraClassPath={jars}"] if jars else []


def start(*words: object, failpoint: str = "") -> subprocess.Popen[str]:
    environment = os.environ | ({"SLIPSTREAM_FAILPOINT": failpoint} if failpoint else {})
    return subprocess.Popen(
        [sys.executable, "-m", "slipstream", *map(str, words)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def slipstream(*words: object) -> str:
    done = start(*words)
    said, _ = done.communicate(timeout=_TIMEOUT_S)
    assert done.returncode == 0, said
    return said


def read(folder: Path) -> dict[str, list[dict[str, object]]]:
    """The rows of all outputs, without the batches in which they came, in one order."""
    return {name: _sort(outputs.read(folder, name)) for name in _OUTPUTS}


def _sort(table: pa.Table) -> list[dict[str, object]]:
    return sorted(table.drop_columns([BATCH]).to_pylist(), key=repr)


def kill(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_for(file: Path, process: subprocess.Popen[str]) -> bool:
    """Wait until a failpoint is reached; False if the job ended before."""
    deadline = time.monotonic() + _TIMEOUT_S
    while not file.exists():
        if process.poll() is not None:
            return False
        assert time.monotonic() < deadline, "the failpoint was not reached"
        time.sleep(0.1)
    return True


def test_a_job_that_is_killed_at_every_failpoint_loses_and_doubles_nothing(
    store: tuple[str, str], run: Path, expected: dict[str, list[dict[str, object]]], tmp_path: Path
) -> None:
    out = f"{store[1]}/killed"
    words = [*toll(run, out), *conf()]
    for point in OUTPUT_POINTS:
        process = start(*words, failpoint=f"{point}:{tmp_path / point}")
        if wait_for(tmp_path / point, process):
            kill(process)
    slipstream(*words)
    assert read(to_path(out)) == expected


def test_a_store_that_restarts_in_a_batch_loses_and_doubles_nothing(
    store: tuple[str, str], run: Path, expected: dict[str, list[dict[str, object]]], tmp_path: Path
) -> None:
    kind, uri = store
    words = [*toll(run, f"{uri}/restarted"), *conf()]
    for point in ("outputs.between-tables", "outputs.before-journal"):
        process = start(*words, failpoint=f"{point}:{tmp_path / point}")
        assert wait_for(tmp_path / point, process)
        script(kind, "kill")
        kill(process)
        refused = start(*words)
        said, _ = refused.communicate(timeout=_TIMEOUT_S)
        assert refused.returncode, "a job ran without its store"
        assert "does not respond" in said or "unreachable" in said, said
        assert "only-on-loopback" not in said
        script(kind, "start")
    slipstream(*words)
    assert read(to_path(f"{uri}/restarted")) == expected


def test_a_second_job_in_the_folder_is_refused(store: tuple[str, str], run: Path, tmp_path: Path) -> None:
    words = [*toll(run, f"{store[1]}/twice"), *conf()]
    first = start(*words, failpoint=f"outputs.before-commit:{tmp_path / 'there'}")
    try:
        assert wait_for(tmp_path / "there", first)
        second = start(*words)
        said, _ = second.communicate(timeout=_TIMEOUT_S)
        assert (second.returncode, "already running" in said) == (2, True), said
    finally:
        kill(first)


def test_results_of_a_job_in_a_store_are_read_by_all_readers(store: tuple[str, str], run: Path) -> None:
    from deltalake import DeltaTable

    out = f"{store[1]}/read"
    slipstream(*toll(run, out), *conf())
    results = ss.open(out)
    assert results.status().has_finished
    notifications = outputs.read(to_path(out), "notifications")
    assert DeltaTable(f"{out}/outputs/notifications").to_pyarrow_table().num_rows == notifications.num_rows > 0
    assert len(results.cuboid("car")) > 0
    slipstream("validate", run, out, "--no-response-times")
    slipstream("cuboid", "get", out, "car", str(notifications["vid"][0]))
    # secrets are nowhere in the folder
    for file in to_path(out).rglob("*.json*"):
        if file.is_file():
            assert b"only-on-loopback" not in file.read_bytes(), file
