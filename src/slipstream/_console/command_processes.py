"""Commands as child processes of the console: the same command lines that a user would type, without a shell."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Sequence

from slipstream._tools.processes import child_processes

#: exit codes of a job that was stopped
_STOPPED = (0, 130, -signal.SIGTERM, -signal.SIGKILL)
#: characters of what it printed that are kept
_PRINTED = 4000


class CommandProcess:
    """One ``slipstream`` process; it ends with the console, however that ends."""

    def __init__(self, arguments: Sequence[str]) -> None:
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
    def printed(self) -> str:
        """The end of what it printed to standard error."""
        # the child writes through the same file description, whose position must stay at the end
        size = os.fstat(self._stderr.fileno()).st_size
        text = os.pread(self._stderr.fileno(), _PRINTED, max(size - _PRINTED, 0))
        return text.decode(errors="replace").strip()

    @property
    def failure(self) -> str:
        """Its error output if it failed."""
        code = self._child.code
        if code is None or code in _STOPPED:
            return ""
        return self.printed[-2000:] or f"The process exited with code {code}."

    def request_stop(self) -> None:
        """Ask it to stop after its batch; returns immediately."""
        self._child.request_stop()

    def stop(self) -> None:
        """Stop it and wait; kill it if it does not stop."""
        self._child.stop()
        self._stderr.close()
