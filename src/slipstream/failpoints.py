"""Named places at which a test can stop a process and kill it: before a write, after it, before a commit, after it.

Random kills find little; a kill at the worst moment finds the bug at once. With ``SLIPSTREAM_FAILPOINT=name:file`` set,
the first process to come to ``name`` makes ``file`` and waits there to be killed. Otherwise nothing happens.
"""

from __future__ import annotations

import os
import time

VARIABLE = "SLIPSTREAM_FAILPOINT"


def failpoint(name: str) -> None:
    """Stop here if a test asked for it, once."""
    wanted, _, file = os.environ.get(VARIABLE, "").partition(":")
    if wanted != name:
        return
    try:
        os.close(os.open(file, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    time.sleep(600)
