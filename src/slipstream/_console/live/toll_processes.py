"""Toll engines as child processes of the console, started with the same command that a user would type."""

from __future__ import annotations

from pathlib import Path

from slipstream._console.command_processes import CommandProcess
from slipstream._feeds.run import Run
from slipstream._io.named_feeds import CLOCK
from slipstream._io.outputs import CHECKPOINT


class EngineProcess(CommandProcess):
    """One ``slipstream toll`` process."""

    def __init__(self, run: Run, out: Path, speed: float, rules: str, master: str, *, snapshot: bool) -> None:
        arguments = ["toll", str(run.path), "--out", str(out), "--speed", str(speed), "--rules", rules]
        arguments += ["--master", master, "--no-text", "--json"]
        arguments += ["--snapshot"] if snapshot else []
        self.speed = speed
        super().__init__(arguments)


def stop_clock(out: Path) -> None:
    """Stop the clock of a paused run: the engine that resumes it starts the clock again when it is warm."""
    (out / CHECKPOINT / CLOCK).unlink(missing_ok=True)
