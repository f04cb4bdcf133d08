"""Toll engines as child processes of the console, started with the same command that a user would type."""

from __future__ import annotations

import signal
import sys
import tempfile
from pathlib import Path

from slipstream._feeds.run import Run
from slipstream._io.named_feeds import CLOCK
from slipstream._io.outputs import CHECKPOINT
from slipstream._tools.processes import child_processes

#: exit codes of an engine that was stopped
_STOPPED = (0, 130, -signal.SIGTERM, -signal.SIGKILL)


class EngineProcess:
    """One ``slipstream toll`` process; it ends with the console, however that ends."""

    def __init__(self, run: Run, out: Path, speed: float, rules: str, master: str, *, snapshot: bool) -> None:
        arguments = ["toll", str(run.path), "--out", str(out), "--speed", str(speed), "--rules", rules]
        arguments += ["--master", master, "--no-text", "--json"]
        arguments += ["--snapshot"] if snapshot else []
        self.speed = speed
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self._child = child_processes.start([sys.executable, "-m", "slipstream", *arguments], stderr=self._stderr)

    @property
    def runs(self) -> bool:
        """Whether it is running."""
        return self._child.code is None

    @property
    def is_stopping(self) -> bool:
        """Whether it was asked to stop."""
        return self._child.is_stopping

    @property
    def failure(self) -> str:
        """Its error output if it failed."""
        code = self._child.code
        if code is None or code in _STOPPED:
            return ""
        self._stderr.seek(0)
        return self._stderr.read().decode(errors="replace").strip()[-2000:] or f"The engine exited with code {code}."

    def request_stop(self) -> None:
        """Ask it to stop after its batch; returns immediately."""
        self._child.request_stop()

    def stop(self) -> None:
        """Stop it and wait; kill it if it does not stop."""
        self._child.stop()
        self._stderr.close()


def stop_clock(out: Path) -> None:
    """Stop the clock of a paused run: the engine that resumes it starts the clock again when it is warm."""
    (out / CHECKPOINT / CLOCK).unlink(missing_ok=True)
