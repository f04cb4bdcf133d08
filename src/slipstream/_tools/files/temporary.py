"""Folders for temporary files: private to the user, with unguessable names, removed with the process that made them.

A process has one folder of its own below the system's (``TMPDIR``), and may have more in shared memory. Each contains a
lock file that every process using the folder holds. The kernel releases the locks of a process when it ends, however it
ends, so a folder whose lock is free is unused: the next start on that machine removes it. Process ids would not do, as
they are reused.

One file may outlive its folder's owner for a day: the log of a command that failed.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import socket
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from slipstream._errors import Unavailable

PREFIX = "slipstream-"
#: marks a folder as ours: no other is ever removed
LOCK = ".slipstream-lock"
#: the log that stays for a while when the folder is removed
KEPT = "failed.log"
KEPT_S = 24 * 3600.0

#: folder -> the descriptor that holds its lock, of this process
_held: dict[Path, int] = {}
_mine: list[Path] = []
_making = threading.Lock()


def shared_memory() -> Path:
    """The system's shared memory folder, or the folder for temporary files if it has none."""
    memory = Path("/dev/shm")
    return memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())


def folder() -> Path:
    """The folder of this process, created on first use."""
    with _making:
        if not _mine:
            sweep_all()
            _mine.append(_make_folder(Path(tempfile.gettempdir())))
    return _mine[0]


def _make_folder(root: Path) -> Path:
    while True:
        made = Path(tempfile.mkdtemp(prefix=PREFIX, dir=root))
        if hold(made):
            return made


def join_shared(root: Path, name: str) -> Path:
    """A folder that processes of this user share by its ``name``; created by the first, removed after the last.

    Its full name includes the user id, as another user may run the same task on the same machine.
    """
    place = root / f"{name}-{os.geteuid()}"
    while place not in _held:
        if not place.exists():
            sweep(root)
        with suppress(FileExistsError):
            place.mkdir(mode=0o700)
        _check_private(place)
        hold(place)
    return place


def _check_private(place: Path) -> None:
    """Refuse a folder that another user could have created or can read."""
    with suppress(FileNotFoundError):
        found = place.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise Unavailable(
                f"{place}: not a private folder of this user.",
                hint="Remove it, or set TMPDIR to a folder of your own.",
                code="permission-denied",
            )


def hold(place: Path) -> bool:
    """Hold the lock of a folder until this process ends; returns False if the folder has just been removed."""
    try:
        descriptor = _open_lock(place, os.O_CREAT)
    except FileNotFoundError:
        return False
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    os.pwrite(descriptor, _host(), 0)
    try:
        is_there = os.path.samestat(os.fstat(descriptor), (place / LOCK).stat())
    except FileNotFoundError:
        is_there = False
    if is_there:
        _held[place] = descriptor
    else:
        os.close(descriptor)
    return is_there


def _open_lock(place: Path, flags: int = 0) -> int:
    return os.open(place / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | flags, 0o600)


def _host() -> bytes:
    return socket.gethostname().encode()


@contextmanager
def locked(place: Path, *, wait: bool = False) -> Iterator[bool]:
    """Yield whether a folder is ours and unused, holding its lock; with ``wait``, block until it is."""
    try:
        descriptor = _open_lock(place)
    except OSError:
        yield False
        return
    try:
        yield _lock_alone(descriptor, wait)
    finally:
        os.close(descriptor)


def _lock_alone(descriptor: int, wait: bool) -> bool:
    # on a shared file system, flock may see only the locks of this machine
    if not wait and os.pread(descriptor, 1000, 0) != _host():
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def sweep(root: Path) -> None:
    """Remove this user's folders whose owners are gone."""
    for place in root.glob(f"{PREFIX}*"):
        with suppress(FileNotFoundError):
            found = place.lstat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
                with locked(place) as free:
                    if free:
                        discard(place)


def sweep_all() -> None:
    """Remove what dead processes left on this machine."""
    for root in {Path(tempfile.gettempdir()), shared_memory()}:
        sweep(root)


def release(place: Path) -> None:
    """Remove a folder that this process holds, with its contents."""
    discard(place)
    if (descriptor := _held.pop(place, None)) is not None:
        os.close(descriptor)


def discard(place: Path) -> None:
    """Remove a folder; the log of a failed command stays for a day."""
    kept = place / KEPT
    try:
        is_recent = time.time() - kept.stat().st_mtime < KEPT_S
    except OSError:
        is_recent = False
    if not is_recent:
        shutil.rmtree(place, ignore_errors=True)
        return
    for other in place.iterdir():
        if other.is_dir() and not other.is_symlink():
            shutil.rmtree(other, ignore_errors=True)
        elif other.name not in (KEPT, LOCK):
            other.unlink(missing_ok=True)


def keep_log(log: Path) -> Path | None:
    """Keep a log of this process's folder for a day; returns None if it is empty."""
    kept = folder() / KEPT
    with suppress(OSError):
        if log.stat().st_size:
            kept.unlink(missing_ok=True)
            os.link(log, kept)
            return kept
    return None


@atexit.register
def _remove_own_folders() -> None:
    # the lock is held until the process is gone; shared folders are removed by their last user
    for place in _mine:
        discard(place)


def _forget_inherited() -> None:
    """Forget the parent's folders: a forked process has its own."""
    for descriptor in _held.values():
        os.close(descriptor)
    _held.clear()
    _mine.clear()


os.register_at_fork(after_in_child=_forget_inherited)
