"""Locks in stores, which have none: a file that its owner renews, so that another may take it when the owner is gone.

A second process that starts in the folder of a running job would delete the files of the batch that is being written.
So a start creates ``.lock`` if there is none, and renews it. One that was not renewed for a minute, or whose process on
this machine is dead, belongs to nobody. An owner that finds another's lock stops; should both commit nevertheless, the
journal refuses one of them.
"""

from __future__ import annotations

import json
import os
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil

from slipstream._errors import MALFORMED, BadArgument, Unavailable
from slipstream._tools.files.remote_paths import RemotePath
from slipstream._tools.processes.background import Ended, background_task
from slipstream._tools.strict_json import parse_json

#: the lock in the folder of a job
LOCK = ".lock"
#: seconds between renewals, and after which a lock belongs to nobody
RENEW_S, LEASE_S = 10.0, 60.0
#: seconds after which a lock that was taken from another is looked at again
_SETTLE_S = 1.0

#: what this process wrote into the locks that it holds, and the locks that it has lost to another
_held: dict[str, bytes] = {}
_lost: set[str] = set()


@contextmanager
def hold(lock: RemotePath) -> Iterator[None]:
    """Hold a lock while the block runs; refuse if another process does."""
    mine = _describe_process()
    _acquire(lock, mine)
    _lost.discard(str(lock))
    _held[str(lock)] = mine

    def renew(ended: Ended) -> None:
        while not ended.wait(RENEW_S):
            with suppress(OSError):  # a store that does not answer is reported where it is needed
                if _is_ours(lock, mine):
                    lock.write_bytes(mine)
                else:
                    _lost.add(str(lock))

    try:
        with background_task(renew):
            yield
    finally:
        _held.pop(str(lock), None)
        with suppress(OSError):
            if _is_ours(lock, mine):
                lock.unlink(missing_ok=True)


def check(lock: RemotePath) -> None:
    """Raise an error if another process has taken the lock."""
    if str(lock) in _lost:
        raise Unavailable(
            f"{lock.parent}: another process has taken over this job.",
            hint=f"This one was not heard of for {LEASE_S:.0f} s. Nothing is lost. Run one job per folder.",
            code="job-running",
        )


def verify(lock: RemotePath) -> None:
    """Look whether this process still has the lock that it holds; raise an error if another has taken it.

    A machine that stood still may have lost it without knowing: a batch is committed only after another look.
    """
    mine = _held.get(str(lock))
    if mine is not None and not _is_ours(lock, mine):
        _lost.add(str(lock))
        check(lock)


def _acquire(lock: RemotePath, mine: bytes) -> None:
    try:
        lock.create(mine)
    except FileExistsError:
        if not _is_abandoned(lock):
            raise BadArgument(
                f"{lock.parent}: a job is already running there.",
                hint=f"Wait until it ends, or give another --out folder. If its machine is gone, wait {LEASE_S:.0f} s.",
                code="job-running",
            ) from None
        lock.unlink(missing_ok=True)
        with suppress(FileExistsError):
            lock.create(mine)
        time.sleep(_SETTLE_S)
        if not _is_ours(lock, mine):
            raise BadArgument(
                f"{lock.parent}: a job is already running there.",
                hint="Wait until it ends, or give another --out folder.",
                code="job-running",
            ) from None


def _is_ours(lock: RemotePath, mine: bytes) -> bool:
    try:
        return lock.read_bytes() == mine
    except FileNotFoundError:
        return False


def _is_abandoned(lock: RemotePath) -> bool:
    found = lock.find()
    if found is None or time.time() - found.changed > LEASE_S:
        return True
    try:
        body = parse_json(lock.read_bytes())
        return bool(body["host"] == _host() and not _lives(int(body["pid"]), float(body["began"])))
    except (FileNotFoundError, *MALFORMED):
        return False


def _describe_process() -> bytes:
    began = psutil.Process().create_time()
    body = {"owner": uuid.uuid4().hex, "host": _host(), "pid": os.getpid(), "began": began}
    return json.dumps(body).encode() + b"\n"


def _lives(pid: int, began: float) -> bool:
    try:
        return abs(psutil.Process(pid).create_time() - began) < 1
    except psutil.NoSuchProcess:
        return False


def _host() -> str:
    return f"{socket.gethostname()}-{psutil.boot_time():.0f}"
