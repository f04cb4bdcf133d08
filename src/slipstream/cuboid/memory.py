"""Memory for fragments that all Python workers of a machine see.

Spark gives a key's batches to whichever of its Python workers is idle. State that lives in one worker's own memory
would have to be read again by the next; state in shared memory is mapped by both. Where there is no room for it,
arrays are private, and all that is lost is time.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Form = tuple[np.dtype[Any], int]  # of an array: its elements, and how many
Arrays = list[npt.NDArray[Any]]

_LINE = 64  # arrays start at cache lines

_home: ContextVar[Path | None] = ContextVar("home", default=None)
_mapped: dict[Path, mmap.mmap] = {}


def root() -> Path:
    """Where shared memory is to be had: the system's, or else files that it keeps in its cache."""
    memory = Path("/dev/shm")
    return memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())


@contextmanager
def home(folder: Path) -> Iterator[None]:
    """Let the arrays that are made in this block live in files of ``folder``."""
    token = _home.set(folder)
    try:
        yield
    finally:
        _home.reset(token)


def make(forms: Sequence[Form]) -> tuple[Path | None, Arrays]:
    """Arrays of zeros, and the file that they live in if they are shared."""
    size = _starts(forms)[-1]
    folder = _home.get()
    if folder is None:
        return None, [np.zeros(count, dtype) for dtype, count in forms]
    file = folder / uuid.uuid4().hex
    with file.open("w+b") as created:
        try:
            # mapping what the machine has no room for would kill the process on its first touch
            os.posix_fallocate(created.fileno(), 0, size)
        except OSError:
            file.unlink()
            return None, [np.zeros(count, dtype) for dtype, count in forms]
    return file, find(file, forms)


def find(file: Path, forms: Sequence[Form]) -> Arrays:
    """The arrays that another process made in ``file``."""
    if file not in _mapped:
        for gone in [known for known in _mapped if not known.exists()]:
            del _mapped[gone]
        with file.open("r+b") as opened:
            _mapped[file] = mmap.mmap(opened.fileno(), 0)
    starts = _starts(forms)
    return [
        np.frombuffer(_mapped[file], dtype, count, start)
        for (dtype, count), start in zip(forms, starts[:-1], strict=True)
    ]


def drop(file: Path | None) -> None:
    """Give a file back; processes that still have it mapped keep what they see."""
    if file is not None:
        _mapped.pop(file, None)
        file.unlink(missing_ok=True)


def _starts(forms: Sequence[Form]) -> list[int]:
    """Where each array begins, and where the last one ends."""
    sizes = [-(-dtype.itemsize * count // _LINE) * _LINE for dtype, count in forms]
    return [0, *np.cumsum(sizes).tolist()]
