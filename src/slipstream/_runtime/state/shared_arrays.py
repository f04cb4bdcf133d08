"""Arrays in memory that all Python workers of a machine share.

Spark gives a key's batches to whichever of its Python workers is idle. State in one worker's private memory would have
to be read again by the next; state in shared memory is mapped by both. If there is no room for it, arrays are private,
which costs only time.
"""

from __future__ import annotations

import mmap
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstream._tools.files import temporary

Array = npt.NDArray[Any]

_home: ContextVar[Path | None] = ContextVar("home", default=None)
_mapped: dict[Path, mmap.mmap] = {}


def root() -> Path:
    """The folder for shared memory: the system's, or else one whose files the system caches."""
    return temporary.shared_memory()


@contextmanager
def arrays_in(folder: Path) -> Iterator[None]:
    """Store the arrays created in this block in files of ``folder``."""
    token = _home.set(folder)
    try:
        yield
    finally:
        _home.reset(token)


class SharedArray:
    """An array of zeros that can grow; a shared array grows without being copied.

    >>> area = SharedArray(np.dtype(np.int32), 2)
    >>> area.grow(3)
    >>> area.array
    array([0, 0, 0], dtype=int32)
    """

    def __init__(self, dtype: np.dtype[Any], count: int) -> None:
        self.array: Array = np.empty(0, dtype)
        folder = _home.get()
        self._file = folder / uuid.uuid4().hex if folder else None
        self.grow(count)

    @classmethod
    def wrap(cls, array: Array) -> SharedArray:
        """Wrap an existing array of this process."""
        area = cls.__new__(cls)
        area._file, area.array = None, array
        return area

    def grow(self, count: int) -> None:
        """Grow to ``count`` elements; the new ones are zeros."""
        before = self.array
        if self._file is not None and _reserve(self._file, before.dtype.itemsize * count):
            self.array = _map_array(self._file, before.dtype, count)
            return
        self.array = np.zeros(count, before.dtype)
        self.array[: before.size] = before
        self.drop()

    def drop(self) -> None:
        """Remove the file; processes that have it mapped keep their mapping."""
        if self._file is not None:
            drop(self._file)
            self._file = None

    def __getstate__(self) -> tuple[Path | None, Any, Any]:
        return self._file, self.array.dtype, self.array if self._file is None else self.array.size

    def __setstate__(self, state: tuple[Path | None, Any, Any]) -> None:
        self._file, dtype, inside = state
        self.array = inside if self._file is None else _map_array(self._file, dtype, inside)


def _reserve(file: Path, size: int) -> bool:
    """Reserve memory for a file; returns False if there is none, as touching an unbacked page raises SIGBUS."""
    with file.open("ab") as opened:
        try:
            os.posix_fallocate(opened.fileno(), 0, size)
        except OSError:
            return False
    return True


def _map_array(file: Path, dtype: np.dtype[Any], count: int) -> Array:
    """Map the array in a file that this or another process created."""
    if file not in _mapped or len(_mapped[file]) < dtype.itemsize * count:
        for gone in [known for known in _mapped if not known.exists()]:
            del _mapped[gone]
        with file.open("r+b") as opened:
            _mapped[file] = mmap.mmap(opened.fileno(), 0)
    return np.frombuffer(_mapped[file], dtype, count)


def drop(file: Path) -> None:
    """Remove a file of shared memory."""
    _mapped.pop(file, None)
    file.unlink(missing_ok=True)
