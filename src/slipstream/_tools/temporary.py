"""Folders for temporary files: private to the user, with names nobody can guess, and gone with whoever made them.

A process has one folder of its own below the system's (``TMPDIR``), and may have more in shared memory. In each lies a
lock file that every process using the folder holds. A kernel gives up the locks of a process that ends, however it
ends, so a folder whose lock is free belongs to nobody: the next start on that machine removes it. Process ids would
not do, as they are used again.

One file may outlive its folder's owner for a day: the log of a command that failed, for people to read.
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
#: what makes a folder one of ours: no other is ever removed
LOCK = ".slipstream-lock"
#: what stays for a while when the folder is removed
KEPT = "failed.log"
KEPT_S = 24 * 3600.0

#: folder -> the descriptor that holds its lock, of this process
_held: dict[Path, int] = {}
_mine: list[Path] = []
_making = threading.Lock()


def shared_memory() -> Path:
    """Where files are memory: the system's place for them, or else the folder for temporary files."""
    memory = Path("/dev/shm")
    return memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())


def folder() -> Path:
    """The folder of this process, made when it is first needed."""
    with _making:
        if not _mine:
            sweep_all()
            _mine.append(_made(Path(tempfile.gettempdir())))
    return _mine[0]


def _made(root: Path) -> Path:
    while True:
        made = Path(tempfile.mkdtemp(prefix=PREFIX, dir=root))
        if hold(made):
            return made


def join(root: Path, name: str) -> Path:
    """A folder that processes of this user share by its ``name``; made by the first, there while one of them lives.

    Its full name has the user's number, as another user may work on the same task on the same machine.
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
    """Refuse a folder that somebody else could have put there, or can look into."""
    with suppress(FileNotFoundError):
        found = place.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise Unavailable(
                f"{place}: not a private folder of this user.", hint="Remove it, or set TMPDIR to a folder of your own."
            )


def hold(place: Path) -> bool:
    """Hold the lock of a folder until this process ends; not if the folder has just been removed."""
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
    """Whether a folder is one of ours that nobody uses, with ``wait`` as soon as that is so."""
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
    # a folder that machines share may show the locks of this one only
    if not wait and os.pread(descriptor, 1000, 0) != _host():
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def sweep(root: Path) -> None:
    """Remove the folders of this user whose owners are gone."""
    for place in root.glob(f"{PREFIX}*"):
        with suppress(FileNotFoundError):
            found = place.lstat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
                with locked(place) as free:
                    if free:
                        discard(place)


def sweep_all() -> None:
    """Remove what processes that are gone left on this machine."""
    for root in {Path(tempfile.gettempdir()), shared_memory()}:
        sweep(root)


def release(place: Path) -> None:
    """Remove a folder that this process holds, and what is in it."""
    discard(place)
    if (descriptor := _held.pop(place, None)) is not None:
        os.close(descriptor)


def discard(place: Path) -> None:
    """Remove a folder; a log that is to be read stays for a day."""
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


def keep(log: Path) -> Path | None:
    """Let a log of this process's folder be read for a day; nothing if it is empty."""
    kept = folder() / KEPT
    with suppress(OSError):
        if log.stat().st_size:
            kept.unlink(missing_ok=True)
            os.link(log, kept)
            return kept
    return None


@atexit.register
def _leave() -> None:
    # the lock stays until the process is gone; folders that others share are theirs to remove
    for place in _mine:
        discard(place)


def _forget() -> None:
    """A forked process has folders of its own; those it knows of are its parent's."""
    for descriptor in _held.values():
        os.close(descriptor)
    _held.clear()
    _mine.clear()


os.register_at_fork(after_in_child=_forget)
