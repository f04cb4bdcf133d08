"""What people want of a running job: that it runs, pauses, takes a number of steps, or stops; said in a small file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from slipstream._tools.staging import atomic_write

RUN, PAUSE, STOP = "run", "pause", "stop"


@dataclass(frozen=True)
class Control:
    """The file; without it a job runs."""

    file: Path

    @property
    def wanted(self) -> str:
        """Run, pause, a number of steps, or stop."""
        return self.file.read_text(encoding="utf-8").strip() if self.file.exists() else RUN

    def want(self, word: str) -> None:
        """Say what is wanted from now on."""
        with atomic_write(self.file) as file:
            file.write(word.encode())

    @property
    def holds(self) -> bool:
        """Whether nothing more is to arrive for now."""
        return self.wanted == PAUSE

    @property
    def stops(self) -> bool:
        """Whether the job is to end after its batch."""
        return self.wanted == STOP

    @property
    def steps(self) -> int:
        """The steps that are left, if it is steps that are wanted."""
        wanted = self.wanted
        return int(wanted) if wanted.isdigit() else 0

    def step_done(self) -> None:
        """Count a step; after the last the job pauses."""
        if left := self.steps:
            self.want(str(left - 1) if left > 1 else PAUSE)
