"""What the job in a folder does, from the files that it writes, whichever process runs it."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any, Literal

from slipstream._errors import MALFORMED
from slipstream._runtime import job
from slipstream._runtime.watching import status
from slipstream._tools.strict_json import parse_json

State = Literal["new", "starting", "ready", "running", "paused", "stopped", "finished", "failed", "gone", "damaged"]

_ACTIVE = ("starting", "ready", "running", "paused")
#: reason for the stop -> state; any other reason is an error
_ENDED: dict[str, State] = {status.FINISHED: "finished", status.ASKED: "stopped", "interrupted": "stopped"}


def read_status(folder: Path) -> dict[str, Any]:
    """Return the contents of ``status.json``; empty before the first start."""
    try:
        body = parse_json((folder / status.FILE).read_bytes())
    except (OSError, *MALFORMED):
        return {}
    return body if isinstance(body, dict) else {}


def state_of(folder: Path) -> State:
    """Return what the job in a folder does."""
    return interpret(folder, read_status(folder))


def is_at_work(state: State) -> bool:
    """Return whether a process runs a job that is in this state."""
    return state in _ACTIVE


def interpret(folder: Path, seen: dict[str, Any]) -> State:
    """Return the state of a job from its status."""
    match seen.get("state"):
        case status.STOPPED:
            return _ENDED.get(str(seen.get("why")), "failed")
        case status.STARTING | status.READY | status.RUNNING as state:
            if not _lives(seen.get("pid")):
                return "gone"
            if state == status.STARTING:
                return "starting"
            if job.control(folder).is_paused:
                return "paused"
            return "ready" if state == status.READY else "running"
    return "new"


def _lives(pid: Any) -> bool:
    """Return whether a process exists; assume so if that cannot be determined."""
    if not isinstance(pid, int) or pid <= 0:
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def read_number(value: Any) -> float | None:
    """Return a finite number of a file, or None."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None
