"""Toll engines as child processes of the console.

An engine is the same command a person would type. Its arguments are a list, no shell sees them, and it is held on a
leash (``leash``): it ends with the console even if the console is killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from slipstream.console.leash import GRACE
from slipstream.feeds.run import Run
from slipstream.tolls.engine import CHECKPOINT
from slipstream.tolls.sources import CLOCK


class Engine:
    """One ``slipstream toll`` at work."""

    def __init__(self, run: Run, out: Path, speed: float, rules: str, master: str, *, snapshot: bool) -> None:
        arguments = ["toll", str(run.path), "--out", str(out), "--speed", str(speed), "--rules", rules]
        arguments += ["--master", master, "--no-text", "--json"]
        arguments += ["--snapshot"] if snapshot else []
        self.speed = speed
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", "slipstream.console.leash", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._said,
            start_new_session=True,
        )

    @property
    def runs(self) -> bool:
        """Whether it is at work."""
        return self._process.poll() is None

    @property
    def leaving(self) -> bool:
        """Whether it was asked to stop."""
        return self._process.stdin is None or self._process.stdin.closed

    @property
    def failure(self) -> str:
        """What it said if it ended badly."""
        code = self._process.poll()
        if code in (None, 0, 130, -signal.SIGINT, -signal.SIGKILL):
            return ""
        self._said.seek(0)
        return self._said.read().decode(errors="replace").strip()[-2000:] or f"The engine ended with code {code}."

    def let_go(self) -> None:
        """Ask it to stop after its batch; returns at once."""
        if self._process.stdin and not self._process.stdin.closed:
            self._process.stdin.close()

    def stop(self) -> None:
        """Stop it and wait; what does not stop is made to."""
        self.let_go()
        try:
            self._process.wait(GRACE + 5)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._said.close()


def stop_clock(out: Path) -> None:
    """Let time stand still for a paused run: the engine that resumes it starts the clock again when it is warm."""
    (out / CHECKPOINT / CLOCK).unlink(missing_ok=True)
