"""A job as a process, watched from outside: its relatives, its journal, what it said and how it ended."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import psutil

from slipstream._io.outputs import JOURNAL
from slipstream._tools import child_processes

#: seconds in which an engine must commit something, or end after what must end it
PATIENCE_S = 300.0
_LOOK_S = 0.05


class Engine:
    """One start of a job."""

    def __init__(self, command: Sequence[str], out: Path, log: Path, environment: Mapping[str, str]) -> None:
        self.out = out
        self._log = log
        with log.open("wb") as said:
            self._child = child_processes.start(command, stderr=said, environment=environment)

    @property
    def pid(self) -> int:
        """The driver's."""
        return self._child.pid

    @property
    def code(self) -> int | None:
        """How it ended, if it did."""
        return self._child.code

    @property
    def said(self) -> str:
        """What it said to people."""
        return self._log.read_text(errors="replace").strip()

    @property
    def has_advised(self) -> bool:
        """Whether it ended by itself and said what was wrong and what to do, without a traceback."""
        message = self.said[self.said.find("slipstream: ") :] if "slipstream: " in self.said else ""
        stopped = self.code == 130 and "stopped" in message
        return "Traceback" not in self.said and (stopped or (self.code in range(1, 6) and "\n" in message))

    def family(self) -> list[psutil.Process]:
        """The driver, its JVM and the Python workers, the oldest first."""
        return self._child.family()

    def jvm(self) -> psutil.Process | None:
        """Spark's JVM."""
        return next((process for process in self.family() if _says(process, "org.apache.spark.deploy")), None)

    def workers(self) -> list[psutil.Process]:
        """Python workers: what the daemon forked, not the daemon."""
        found = [process for process in self.family() if _says(process, "pyspark.worker")]
        daemons = {process.pid for process in found if _is_daemon(process, found)}
        return [process for process in found if process.pid not in daemons]

    def kill(self, victims: Sequence[psutil.Process]) -> None:
        """Kill processes at once and for good."""
        for victim in victims:
            child_processes.send(victim, signal.SIGKILL)

    def end(self) -> None:
        """Kill what is left of it, and wait until nothing is."""
        self._child.kill()
        for relative in _of_session(self.pid):
            child_processes.send(relative, signal.SIGKILL)

    def commits(self) -> int:
        """How many batches are in the journal."""
        file = self.out / JOURNAL
        return file.read_bytes().count(b"\n") if file.exists() else 0

    def wait_for(self, condition: Callable[[], bool], patience: float = PATIENCE_S) -> bool:
        """Wait until something holds; it does not if the engine ends or the time is over.

        Looks are counted, not seconds: while the machine lets nobody work, nobody is late.
        """
        for _ in range(int(patience / _LOOK_S)):
            if condition():
                return True
            if self.code is not None:
                return condition()
            time.sleep(_LOOK_S)
        return False

    def wait_for_end(self, patience: float = PATIENCE_S) -> bool:
        """Wait until the driver has ended."""
        return self.wait_for(lambda: self.code is not None, patience)


def _says(process: psutil.Process, word: str) -> bool:
    try:
        return any(word in argument for argument in process.cmdline())
    except psutil.Error:
        return False


def _is_daemon(process: psutil.Process, others: Sequence[psutil.Process]) -> bool:
    """A daemon is not the child of one."""
    try:
        return process.ppid() not in {other.pid for other in others}
    except psutil.Error:
        return False


def _of_session(session: int) -> Iterator[psutil.Process]:
    """Processes that an engine started and that outlived it."""
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == session and process.pid != session:
                yield process
        except (psutil.Error, OSError):
            continue
