"""Starting and resuming jobs as child processes of the console.

They end with the console; what they have committed stays, and the next start resumes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from slipstream._console.command_processes import CommandProcess
from slipstream._console.errors import Conflict
from slipstream._console.jobs.commands import check_command
from slipstream._console.jobs.states import State, is_at_work
from slipstream._console.workspace import Workspace
from slipstream._runtime.watching.starts import Start

#: jobs that may run at once: each has a JVM of its own
MOST_RUNNING = 8


@dataclass
class _Launched:
    kind: str
    out: Path
    process: CommandProcess


class Launcher:
    """The jobs that this console has started, by name."""

    def __init__(self, workspace: Workspace, master: str) -> None:
        self._workspace, self._master = workspace, master
        self._launched: dict[str, _Launched] = {}
        self._lock = Lock()

    def start(self, name: str, kind: str, out: Path, arguments: Sequence[str]) -> None:
        """Start the process of a job."""
        with self._lock:
            before = self._launched.get(name)
            if before is not None and before.process.runs:
                raise Conflict(f"{name} is running.", hint="Stop it first.", code="job-running")
            if sum(one.process.runs for one in self._launched.values()) >= MOST_RUNNING:
                raise Conflict(f"{MOST_RUNNING} jobs are running already.", hint="Stop one of them first.")
            if before is not None:
                before.process.stop()
            self._launched[name] = _Launched(kind, out, CommandProcess([*arguments, "--master", self._master]))

    def resume(self, name: str, folder: Path, state: State, starts: Sequence[Start]) -> None:
        """Run the command that started a job once more; refuse one that is not known to be harmless."""
        if is_at_work(state):
            raise Conflict(f"{name} is running.", hint="It resumes when it is no longer paused.", code="job-running")
        arguments = self._check(folder, starts)
        self.start(name, arguments[0], folder, arguments)

    def why_not_resumable(self, folder: Path, state: State, starts: Sequence[Start]) -> str:
        """Return why the console cannot resume a job; empty if it can."""
        if is_at_work(state):
            return "It is running."
        if state == "finished":
            return "It has finished."
        try:
            self._check(folder, starts)
        except Conflict as error:
            return error.message
        return ""

    def _check(self, folder: Path, starts: Sequence[Start]) -> list[str]:
        if not starts or not starts[-1].command or not Path(starts[-1].folder).is_absolute():
            raise Conflict(
                "It is not known how it was started.",
                hint="Resume it with the command that started it.",
                code="not-allowed",
            )
        return check_command(starts[-1].command, Path(starts[-1].folder), folder, self._workspace, self._master)

    def without_folder(self, known: Iterable[str]) -> Iterator[tuple[str, str, str]]:
        """Return name, kind and error of the jobs that have no folder yet: they are starting, or failed to."""
        with self._lock:
            for name, one in self._launched.items():
                if name not in known and (one.process.runs or one.process.failure):
                    yield name, one.kind, one.process.failure

    def find_without_folder(self, name: str) -> tuple[str, str] | None:
        """Return kind and error of a job that has no folder yet."""
        one = self._launched.get(name)
        is_known = one is None or (one.out / "job.json").exists()
        return None if is_known or one is None else (one.kind, one.process.failure)

    def printed(self, name: str) -> str | None:
        """Return what the process of a job printed; None if this console did not start it."""
        one = self._launched.get(name)
        return one.process.printed if one is not None else None

    def stop(self, name: str) -> bool:
        """Ask a job that this console started to stop, even while it starts; returns whether there is one."""
        one = self._launched.get(name)
        if one is None or not one.process.runs:
            return False
        one.process.request_stop()
        return True

    def close(self) -> None:
        """Stop all jobs that this console has started."""
        processes = [one.process for one in self._launched.values()]
        for process in processes:
            process.request_stop()
        for process in processes:
            process.stop()
