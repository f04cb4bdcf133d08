"""Processes end with the one that started them: no Spark here, but children that do not want to go."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from lifetimes import ended
from slipstream._tools.processes import child_processes

#: does not hear SIGTERM, and has a child that has left its process group, as Spark's Python workers do
STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
open(sys.argv[1] + str(os.getpid()), "w").close()
time.sleep(600)
"""
ORDERLY = """
import signal, sys, time
def stop(*_):
    open(sys.argv[1] + "asked", "w").close()
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
open(sys.argv[1] + "1", "w").close()
time.sleep(600)
"""
#: a command of ours that starts another and waits, in the way that is its third argument
PARENT = """
import subprocess, sys, time
from slipstream._spark import session
from slipstream._tools.processes import child_processes
session.interrupt_on_signals()
command = [sys.executable, "-c", sys.argv[1], sys.argv[2]]
if sys.argv[3] == "adopted":
    with child_processes.adopting():
        subprocess.Popen(command)
    time.sleep(600)
elif sys.argv[3] == "nested":
    with child_processes.running([sys.executable, "-c", sys.argv[4], *sys.argv[1:3], "left"]) as child:
        child.wait()
elif sys.argv[3] == "left":
    child_processes.start(command)
    time.sleep(600)
"""


def parent(tmp_path: Path, script: str, way: str, files: int) -> subprocess.Popen[bytes]:
    (tmp_path / "tmp").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "MARKER": str(tmp_path)}
    command = [sys.executable, "-c", PARENT, script, str(tmp_path / "child-"), way, PARENT]
    process = subprocess.Popen(command, env=environment, start_new_session=True, stderr=subprocess.DEVNULL)
    while len(list(tmp_path.glob("child-*"))) < files:
        assert process.poll() is None
        time.sleep(0.02)
    return process


def test_the_most_stubborn_end_with_their_parent(tmp_path: Path) -> None:
    """All at once, as each takes as long as a stubborn child is given."""
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL)
    parents = {}
    for way in ("left", "adopted", "nested"):
        for number in numbers:
            home = tmp_path / f"{way}-{number.name}"
            home.mkdir()
            parents[home] = parent(home, STUBBORN, way, 2), number
    for process, number in parents.values():
        process.send_signal(number)
    for process, _ in parents.values():
        process.wait(60)
    left = {home.name: [*ended(str(home)), *(home / "tmp").iterdir()] for home in parents}
    assert left == {name: [] for name in left}


def test_what_can_is_asked_to_stop(tmp_path: Path) -> None:
    process = parent(tmp_path, ORDERLY, "left", 1)
    process.kill()
    process.wait()
    assert ended(str(tmp_path)) == []
    assert (tmp_path / "child-asked").exists()


def test_a_parent_that_ends_in_order_leaves_nothing(tmp_path: Path) -> None:
    process = parent(tmp_path, ORDERLY, "nested", 1)
    process.terminate()
    process.wait()
    assert ended(str(tmp_path)) == []
    assert (tmp_path / "child-asked").exists()
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_child_that_does_not_stop_is_killed_with_all_it_started(tmp_path: Path) -> None:
    child = child_processes.start([sys.executable, "-c", STUBBORN, str(tmp_path / "child-")])
    while len(list(tmp_path.glob("child-*"))) < 2:
        assert child.code is None
        time.sleep(0.02)
    family = child.family()
    assert len(family) == 2
    child.stop(patience=0.2)
    assert child.code == -signal.SIGKILL
    assert child.family() == []
    assert not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in family)


def test_a_command_runs_while_the_block_does(tmp_path: Path) -> None:
    with child_processes.running([sys.executable, "-c", ORDERLY, str(tmp_path / "child-")]) as child:
        while not (tmp_path / "child-1").exists():
            time.sleep(0.02)
    assert child.code == 0
    assert child.is_stopping
    with child_processes.running([sys.executable, "-c", "print('done')"]) as child:
        assert child.wait() == 0


def test_only_what_we_start_carries_the_mark() -> None:
    with child_processes.adopting():
        assert os.environ[child_processes.VARIABLE]
    assert child_processes.VARIABLE not in os.environ


HEEDING = """
import signal, sys, time
from slipstream._spark import session
session.interrupt_on_signals()
try:
    print("ready", flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    time.sleep(0.5)  # tidying up
    sys.exit(130)
"""


@pytest.mark.parametrize(
    "numbers",
    [(signal.SIGINT,), (signal.SIGTERM,), (signal.SIGHUP,), (signal.SIGHUP, signal.SIGHUP, signal.SIGTERM)],
)
def test_signals_to_end_are_heeded_once(numbers: tuple[signal.Signals, ...]) -> None:
    """A terminal that is closed sends SIGHUP, and the shell in it another."""
    process = subprocess.Popen([sys.executable, "-c", HEEDING], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout
    process.stdout.readline()
    for number in numbers:
        process.send_signal(number)
        time.sleep(0.1)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, b"")


def test_nohup_works() -> None:
    command = ["nohup", sys.executable, "-c", HEEDING]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout
    process.stdout.readline()
    process.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    process.terminate()
    assert process.wait(60) == 130
