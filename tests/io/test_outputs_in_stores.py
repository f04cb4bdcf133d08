"""Commits to S3 and HDFS without Spark: killed at each point, and with the store killed, nothing is lost or doubled."""

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

from slipstream._errors import BadArgument, BadInput, Unavailable
from slipstream._io import outputs
from slipstream._io.outputs import Outputs, leases
from slipstream._tools.files.locations import to_path
from slipstream._tools.files.remote_paths import RemotePath
from slipstream._tools.processes.failpoints import OUTPUT_POINTS
from stores import HDFS, S3, running, script

BATCHES = 6


@pytest.fixture(scope="module", params=[S3, pytest.param(HDFS, marks=pytest.mark.long)])
def store(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    with running(request.param, builds=False) as uri:
        yield request.param, uri


@pytest.fixture
def folder(store: tuple[str, str], request: pytest.FixtureRequest) -> RemotePath:
    found = to_path(f"{store[1]}/{''.join(c if c.isalnum() else '_' for c in request.node.name)}")
    assert isinstance(found, RemotePath)
    return found


def commit(folder: Path, batch: int, made: Outputs) -> None:
    rows = pa.table({"n": [10 * batch, 10 * batch + 1]})
    made.commit(batch, [outputs.write(folder, name, rows, batch) for name in ("a", "b")])


def commit_all(where: str) -> None:
    """Commit what is left of the batches; a process runs this, and may be killed."""
    folder = to_path(where)
    made = Outputs(folder, "job")
    for batch in range(made.last_batch + 1, BATCHES):
        commit(folder, batch, made)


def check(folder: Path, batches: int = BATCHES) -> None:
    for name in ("a", "b"):
        found = outputs.read(folder, name)
        assert found["n"].to_pylist() == [10 * batch + n for batch in range(batches) for n in (0, 1)]
    assert [one.batch for one in outputs.read_journal(folder)] == [*range(batches)]


def start(folder: RemotePath, failpoint: str) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-c", f"import test_outputs_in_stores as t; t.commit_all({str(folder)!r})"]
    paths = os.pathsep.join(map(str, (Path(__file__).parent, Path(__file__).parents[1])))
    return subprocess.Popen(words, env=os.environ | {"PYTHONPATH": paths, "SLIPSTREAM_FAILPOINT": failpoint})


def test_what_is_committed_is_read_and_a_repeated_batch_is_not_doubled(folder: RemotePath) -> None:
    made = Outputs(folder, "job")
    commit(folder, 0, made)
    commit(folder, 1, made)
    commit(folder, 1, made)
    again = Outputs(folder, "job")
    assert again.last_batch == 1
    commit(folder, 2, again)
    check(folder, 3)
    assert outputs.compact(folder) == 6
    check(folder, 3)


def test_of_two_processes_that_commit_a_batch_one_is_refused(folder: RemotePath) -> None:
    one, other = Outputs(folder, "job"), Outputs(folder, "job")
    commit(folder, 0, one)
    with pytest.raises((BadInput, Unavailable)):
        other.commit(0, [])
    check(folder, 1)


def test_a_lock_is_held_by_one_and_taken_from_the_dead(folder: RemotePath) -> None:
    lock = folder / ".lock"
    with leases.hold(lock), pytest.raises(BadArgument, match="already running"), leases.hold(lock):
        pass
    assert not lock.exists()
    dead = leases._describe_process().replace(str(os.getpid()).encode(), b"999999999")
    lock.write_bytes(dead)
    with leases.hold(lock):
        leases.check(lock)


def test_a_process_that_lost_its_lock_commits_nothing(folder: RemotePath) -> None:
    lock = folder / leases.LOCK
    with leases.hold(lock):
        mine = Outputs(folder, "job")
        commit(folder, 0, mine)
        lock.write_bytes(b"another's")
        with pytest.raises(Unavailable, match="taken over"):
            commit(folder, 1, mine)
        check(folder, 1)


@pytest.mark.long
@pytest.mark.parametrize("point", OUTPUT_POINTS)
def test_a_kill_loses_and_doubles_nothing(folder: RemotePath, point: str, tmp_path: Path) -> None:
    process = start(folder, f"{point}:{tmp_path / 'reached'}")
    while not (tmp_path / "reached").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    commit_all(str(folder))
    check(folder)


@pytest.mark.long
@pytest.mark.parametrize("point", OUTPUT_POINTS[2:])
def test_a_store_that_is_killed_in_a_commit_loses_and_doubles_nothing(
    store: tuple[str, str], folder: RemotePath, point: str, tmp_path: Path
) -> None:
    process = start(folder, f"{point}:{tmp_path / 'reached'}")
    while not (tmp_path / "reached").exists():
        assert process.poll() is None
        time.sleep(0.05)
    script(store[0], "kill")
    process.send_signal(signal.SIGKILL)
    process.wait()
    script(store[0], "start")
    commit_all(str(folder))
    check(folder)
