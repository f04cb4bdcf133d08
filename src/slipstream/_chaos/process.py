"""A job as a process, observed from outside: its process tree, its journal, its messages and its exit code."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import psutil

from slipstream._io.outputs import JOURNAL
from slipstream._tools.processes import child_processes

#: seconds within which a job must commit something, or exit after a fault that ends it
PATIENCE_S = 300.0
_LOOK_S = 0.05


class JobProcess:
    """One start of a job."""

    def __init__(self, command: Sequence[str], out: Path, log: Path, environment: Mapping[str, str]) -> None:
        self.out = out
        self._log = log
        with log.open("wb") as stderr:
            self._child = child_processes.start(command, stderr=stderr, environment=environment)

    @property
    def pid(self) -> int:
        """The process id of the driver."""
        return self._child.pid

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs."""
        return self._child.code

    @property
    def stderr(self) -> str:
        """Its messages."""
        return self._log.read_text(errors="replace").strip()

    @property
    def has_advised(self) -> bool:
        """Whether it exited with an error message and a hint, without a traceback."""
        message = self.stderr[self.stderr.find("slipstream: ") :] if "slipstream: " in self.stderr else ""
        stopped = self.code == 130 and "stopped" in message
        return "Traceback" not in self.stderr and (stopped or (self.code in range(1, 6) and "\n" in message))

    def family(self) -> list[psutil.Process]:
        """Return the driver, its JVM and the Python workers, oldest first."""
        return self._child.family()

    def jvm(self) -> psutil.Process | None:
        """Return Spark's JVM."""
        return next((process for process in self.family() if _has_argument(process, "org.apache.spark.deploy")), None)

    def workers(self) -> list[psutil.Process]:
        """Return the Python workers, without the daemon that forks them."""
        found = [process for process in self.family() if _has_argument(process, "pyspark.worker")]
        daemons = {process.pid for process in found if _is_daemon(process, found)}
        return [process for process in found if process.pid not in daemons]

    def kill(self, victims: Sequence[psutil.Process]) -> None:
        """Kill processes immediately."""
        for victim in victims:
            child_processes.send(victim, signal.SIGKILL)

    def end(self) -> None:
        """Kill all of its processes, and wait until they are gone."""
        self._child.kill()
        for relative in _find_in_session(self.pid):
            child_processes.send(relative, signal.SIGKILL)

    def commits(self) -> int:
        """Return the number of batches in the journal."""
        file = self.out / JOURNAL
        return file.read_bytes().count(b"\n") if file.exists() else 0

    def wait_for(self, condition: Callable[[], bool], patience: float = PATIENCE_S) -> bool:
        """Wait until a condition holds; return False if the job exits or the time is up.

        Counts checks instead of seconds, so that a suspended machine does not cause timeouts.
        """
        for _ in range(int(patience / _LOOK_S)):
            if condition():
                return True
            if self.code is not None:
                return condition()
            time.sleep(_LOOK_S)
        return False

    def wait_for_end(self, patience: float = PATIENCE_S) -> bool:
        """Wait until the driver has exited."""
        return self.wait_for(lambda: self.code is not None, patience)


def _has_argument(process: psutil.Process, word: str) -> bool:
    try:
        return any(word in argument for argument in process.cmdline())
    except psutil.Error:
        return False


def _is_daemon(process: psutil.Process, others: Sequence[psutil.Process]) -> bool:
    """Return whether a worker process is the daemon: it is not a child of another one."""
    try:
        return process.ppid() not in {other.pid for other in others}
    except psutil.Error:
        return False


def _find_in_session(session: int) -> Iterator[psutil.Process]:
    """Return processes of a session that outlived their leader."""
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == session and process.pid != session:
                yield process
        except (psutil.Error, OSError):
            continue
