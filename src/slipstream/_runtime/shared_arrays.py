"""Memory for fragments that all Python workers of a machine see.

Spark gives a key's batches to whichever of its Python workers is idle. State that lives in one worker's own memory
would have to be read again by the next; state in shared memory is mapped by both. Where there is no room for it,
arrays are private, and all that is lost is time.
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

from slipstream._tools import temporary

Array = npt.NDArray[Any]

_home: ContextVar[Path | None] = ContextVar("home", default=None)
_mapped: dict[Path, mmap.mmap] = {}


def root() -> Path:
    """Where shared memory is to be had: the system's, or else files that it keeps in its cache."""
    return temporary.shared_memory()


@contextmanager
def home(folder: Path) -> Iterator[None]:
    """Let the arrays that are made in this block live in files of ``folder``."""
    token = _home.set(folder)
    try:
        yield
    finally:
        _home.reset(token)


class Area:
    """An array that begins with zeros and can grow; growing moves nothing while it is shared.

    >>> area = Area(np.dtype(np.int32), 2)
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
    def of(cls, array: Array) -> Area:
        """An area of this process, over an array that is there."""
        area = cls.__new__(cls)
        area._file, area.array = None, array
        return area

    def grow(self, count: int) -> None:
        """Have ``count`` elements; the new ones are zeros."""
        before = self.array
        if self._file is not None and _stretched(self._file, before.dtype.itemsize * count):
            self.array = _seen(self._file, before.dtype, count)
            return
        self.array = np.zeros(count, before.dtype)
        self.array[: before.size] = before
        self.drop()

    def drop(self) -> None:
        """Give the file back; processes that still have it mapped keep what they see."""
        if self._file is not None:
            drop(self._file)
            self._file = None

    def __getstate__(self) -> tuple[Path | None, Any, Any]:
        return self._file, self.array.dtype, self.array if self._file is None else self.array.size

    def __setstate__(self, state: tuple[Path | None, Any, Any]) -> None:
        self._file, dtype, inside = state
        self.array = inside if self._file is None else _seen(self._file, dtype, inside)


def _stretched(file: Path, size: int) -> bool:
    """Whether there is memory for a file of that size; mapping what there is none for would kill on the first touch."""
    with file.open("ab") as opened:
        try:
            os.posix_fallocate(opened.fileno(), 0, size)
        except OSError:
            return False
    return True


def _seen(file: Path, dtype: np.dtype[Any], count: int) -> Array:
    """The array in a file that this or another process made."""
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
