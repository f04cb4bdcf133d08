"""Toll engines as child processes of the console: the same command a person would type."""

from __future__ import annotations

import signal
import sys
import tempfile
from pathlib import Path

from slipstream._feeds.run import Run
from slipstream._io.outputs import CHECKPOINT
from slipstream._io.sources import CLOCK
from slipstream._tools import child_processes

#: how an engine may end that was asked to, or was made to
_STOPPED = (0, 130, -signal.SIGTERM, -signal.SIGKILL)


class Engine:
    """One ``slipstream toll`` at work; it ends with the console, however that ends."""

    def __init__(self, run: Run, out: Path, speed: float, rules: str, master: str, *, snapshot: bool) -> None:
        arguments = ["toll", str(run.path), "--out", str(out), "--speed", str(speed), "--rules", rules]
        arguments += ["--master", master, "--no-text", "--json"]
        arguments += ["--snapshot"] if snapshot else []
        self.speed = speed
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self._child = child_processes.start([sys.executable, "-m", "slipstream", *arguments], stderr=self._said)

    @property
    def runs(self) -> bool:
        """Whether it is at work."""
        return self._child.code is None

    @property
    def leaving(self) -> bool:
        """Whether it was asked to stop."""
        return self._child.is_stopping

    @property
    def failure(self) -> str:
        """What it said if it ended badly."""
        code = self._child.code
        if code is None or code in _STOPPED:
            return ""
        self._said.seek(0)
        return self._said.read().decode(errors="replace").strip()[-2000:] or f"The engine ended with code {code}."

    def request_stop(self) -> None:
        """Ask it to stop after its batch; returns at once."""
        self._child.request_stop()

    def stop(self) -> None:
        """Stop it and wait; what does not stop is made to."""
        self._child.stop()
        self._said.close()


def stop_clock(out: Path) -> None:
    """Let time stand still for a paused run: the engine that resumes it starts the clock again when it is warm."""
    (out / CHECKPOINT / CLOCK).unlink(missing_ok=True)
