"""Runs a ``slipstream`` command that ends when whoever started it does, however that ended.

Standard input is a pipe that the starter holds open and never writes to. When it closes, the command is asked to stop,
as Ctrl-C would, and soon after made to.
"""

from __future__ import annotations

import os
import runpy
import signal
import threading
import time

#: seconds for an orderly end: a batch may be under way
GRACE = 20.0


def _hold() -> None:
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(GRACE)
    # the process leads a group of its own: Spark's JVM and workers go too
    os.killpg(os.getpgid(0), signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=_hold, daemon=True).start()
    runpy.run_module("slipstream", run_name="__main__")
