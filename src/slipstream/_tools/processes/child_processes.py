"""Child processes that never outlive the process that started them, however it ends.

Every process that starts others has one guard: a small process that waits for the lock of its owner's temporary folder
(``temporary``). The kernel releases that lock when the owner ends, even by SIGKILL. The guard then sends SIGTERM to the
owner's children, kills whatever is left after a few seconds, and removes the owner's temporary folders. It finds these
processes by an environment variable that all descendants inherit, including those that have left their process group,
as Spark's Python workers do, and those whose parents are already gone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import psutil

from slipstream._tools.files import temporary

#: names the temporary folders of a process's ancestors, the nearest last
VARIABLE = "SLIPSTREAM_STARTED_BY"
#: seconds for an orderly exit once the owner is gone; everything must be gone after ten
GRACE_S = 5.0
#: seconds for an orderly exit while the owner waits: a batch may be in progress
PATIENCE_S = 20.0
#: how long a guard keeps trying: a process blocked on a broken disk cannot be killed
_GIVE_UP_S = 60.0
_LOOK_S = 0.1

_guards: dict[Path, subprocess.Popen[bytes]] = {}
_guarding = threading.Lock()


class Child:
    """A running command, in a session of its own."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.is_stopping = False

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def code(self) -> int | None:
        """Its exit code, or None while it runs."""
        return self._process.poll()

    def wait(self) -> int:
        """Wait for it to end and return its exit code."""
        return self._process.wait()

    def request_stop(self) -> None:
        """Send SIGTERM, once, without waiting."""
        if not self.is_stopping and self.code is None:
            self._process.terminate()
        self.is_stopping = True

    def stop(self, patience: float = PATIENCE_S) -> None:
        """Send SIGTERM and wait; kill it and its descendants if it does not end in time or the wait is interrupted."""
        try:
            self.request_stop()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(patience)
        finally:
            if self.code is None:
                self.kill()

    def kill(self) -> None:
        """Kill it and its descendants, and remove the temporary files they left."""
        family = self.family()
        for relative in family:
            send(relative, signal.SIGKILL)
        self._process.wait()
        psutil.wait_procs(family, timeout=GRACE_S)
        temporary.sweep_all()

    def family(self) -> list[psutil.Process]:
        """The process and its descendants, the oldest first; empty once it has ended."""
        if self.code is not None:
            return []
        try:
            process = psutil.Process(self.pid)
            return [process, *process.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []


def start(
    command: Sequence[str],
    *,
    stdout: int | IO[bytes] = subprocess.DEVNULL,
    stderr: int | IO[bytes] | None = subprocess.DEVNULL,
    environment: Mapping[str, str] | None = None,
) -> Child:
    """Start a command that ends with this process. Its arguments do not pass through a shell."""
    return Child(
        subprocess.Popen(
            command,
            env={**os.environ, **(environment or {}), VARIABLE: _ensure_guard()},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    )


@contextmanager
def running(command: Sequence[str], **how: Any) -> Iterator[Child]:
    """Run a command while the block runs; see :func:`start`."""
    child = start(command, **how)
    try:
        yield child
    finally:
        child.stop()


@contextmanager
def logging(command: Sequence[str], log: Path) -> Iterator[Child]:
    """Run a command while the block runs, with all that it prints appended to a file."""
    with log.open("ab") as file, running(command, stdout=file, stderr=subprocess.STDOUT) as child:
        yield child


@contextmanager
def adopting() -> Iterator[None]:
    """Make processes that other libraries start in this block, such as PySpark's JVM, end with this process too."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = _ensure_guard()
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def send(process: psutil.Process, number: int) -> None:
    """Send a signal to a process that may already be gone."""
    with suppress(psutil.Error):
        process.send_signal(number)


def _ensure_guard() -> str:
    """Start the guard of this process if it has none; returns the value of ``VARIABLE`` for its children."""
    owner = temporary.folder()
    with _guarding:
        if owner not in _guards:
            _guards[owner] = _start_guard(owner)
    return " ".join([*os.environ.get(VARIABLE, "").split(), owner.name])


def _start_guard(owner: Path) -> subprocess.Popen[bytes]:
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    package = str(Path(__file__).parents[3])
    environment["PYTHONPATH"] = os.pathsep.join([package, *filter(None, [environment.get("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, "-P", "-m", __name__, str(owner), str(temporary.shared_memory())],
        cwd="/",
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def started_by(owner: str) -> list[tuple[psutil.Process, bool]]:
    """The processes that ``owner`` and its descendants started; for each, whether the owner itself started it."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            owners = process.environ().get(VARIABLE, "").split()
            if owner in owners and process.status() != psutil.STATUS_ZOMBIE:
                found.append((process, owners[-1] == owner))
    return found


def end_all(owner: str, grace: float = GRACE_S) -> None:
    """End everything that a dead process had started: SIGTERM to its children first, SIGKILL after ``grace``."""
    asked: set[psutil.Process] = set()
    began = time.monotonic()
    while (found := started_by(owner)) and time.monotonic() - began < _GIVE_UP_S:
        for process, is_child in found:
            if time.monotonic() - began > grace:
                send(process, signal.SIGKILL)
            elif is_child and process not in asked:
                asked.add(process)
                send(process, signal.SIGTERM)
        time.sleep(_LOOK_S)


def guard(owner: Path, *more: Path) -> None:
    """Wait until the owner of a folder is gone, end its processes, and remove its folders, there and in ``more``."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with temporary.locked(owner, wait=True):
        end_all(owner.name)
        for place in (owner, *(found for root in {owner.parent, *more} for found in root.glob(f"{owner.name}-*"))):
            temporary.discard(place)


if __name__ == "__main__":
    guard(*map(Path, sys.argv[1:]))
