"""The control file of a job: a request to run, pause, take a number of steps, or stop."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from slipstream._tools.files.remote_paths import RemotePath
from slipstream._tools.files.staging import atomic_write

RUN, PAUSE, STOP = "run", "pause", "stop"
#: seconds between two readings in a store, where each has a price
_EVERY_S = 1.0

#: what was read, and when
_known: dict[Path, tuple[float, str]] = {}


@dataclass(frozen=True)
class Control:
    """The control file; without it a job runs."""

    file: Path

    @property
    def requested(self) -> str:
        """Run, pause, a number of steps, or stop."""
        if isinstance(self.file, RemotePath):
            return _read_now_and_then(self.file)
        return self.file.read_text(encoding="utf-8").strip() if self.file.exists() else RUN

    def request(self, word: str) -> None:
        """Write a request."""
        with atomic_write(self.file) as file:
            file.write(word.encode())
        _known.pop(self.file, None)

    @property
    def is_paused(self) -> bool:
        """Whether the job is paused."""
        return self.requested == PAUSE

    @property
    def is_stopping(self) -> bool:
        """Whether the job must stop after its current batch."""
        return self.requested == STOP

    @property
    def steps(self) -> int:
        """The remaining steps, if steps were requested."""
        wanted = self.requested
        return int(wanted) if wanted.isdigit() else 0

    def step_done(self) -> None:
        """Count a step; the job pauses after the last one."""
        if left := self.steps:
            self.request(str(left - 1) if left > 1 else PAUSE)


def _read_now_and_then(file: RemotePath) -> str:
    read_at, word = _known.get(file, (-_EVERY_S, RUN))
    if time.monotonic() - read_at >= _EVERY_S:
        try:
            word = file.read_text().strip()
        except FileNotFoundError:
            word = RUN
        _known[file] = time.monotonic(), word
    return word
