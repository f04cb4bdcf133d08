"""Atomic writes: folders and files that appear complete or not at all.

A folder that a user named is first written under a temporary name next to it and renamed at the end, so that nothing
half-written ever looks complete, whatever interrupts the work.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from slipstream._errors import BadArgument, Unavailable, classify
from slipstream._tools.files.remote_paths import RemotePath

#: the hint when a folder already exists
ANOTHER_NAME = "Give another name, or remove it."


def check_new(out: Path, *, label: str = "--out ", hint: str = ANOTHER_NAME) -> None:
    """Refuse a folder that exists and is not empty, or that cannot be created; creates nothing."""
    try:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise BadArgument(f"{label}{out}: exists and is not an empty folder.", hint=hint, code="exists")
        check_makeable(out, label=label)
    except OSError as error:
        raise BadArgument(
            f"{label}{out}: {error.strerror}.", hint="Give a writable folder.", code=classify(error)
        ) from error


def check_makeable(out: Path, *, label: str = "--out ") -> None:
    """Refuse a file or folder that cannot be created: its parent is not a folder, or not writable."""
    if isinstance(out, RemotePath):
        out.find()  # what the store refuses, it refuses here
        return
    above = next(folder for folder in out.absolute().parents if folder.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        cause, code = (
            ("is not writable", "permission-denied") if above.is_dir() else ("is not a folder", "wrong-file-type")
        )
        raise BadArgument(f"{label}{out}: {above} {cause}.", hint="Choose a writable location.", code=code)


@contextmanager
def staged_folder(
    out: Path,
    *,
    needs_bytes: int = 0,
    replace: bool = False,
    label: str = "--out ",
    hint: str = ANOTHER_NAME,
) -> Iterator[Path]:
    """Yield a folder to write in that becomes ``out`` when the block succeeds and is removed when it fails.

    ``label`` precedes the name in messages; ``hint`` is given when ``out`` exists and may not be replaced.
    """
    if not replace:
        check_new(out, label=label, hint=hint)
    stage = temporary_sibling(out, "partial")
    try:
        stage.parent.mkdir(parents=True, exist_ok=True)
        _check_space(out, needs_bytes, label)
        stage.mkdir()
    except OSError as error:
        raise BadArgument(
            f"{label}{out}: {error.strerror}.", hint="Give a writable folder.", code=classify(error)
        ) from error
    try:
        yield stage
        _put_in_place(stage, out)
    except OSError as error:
        raise Unavailable(
            f"{label}{out}: {error.strerror or error}.", hint="Nothing was kept; try again.", code=classify(error)
        ) from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def temporary_sibling(out: Path, state: str) -> Path:
    """An unused name on the same disk; the dot hides it from listings."""
    return out.absolute().parent / f".{out.name}.{uuid.uuid4().hex[:8]}.{state}"


def _check_space(out: Path, needs_bytes: int, label: str) -> None:
    free = shutil.disk_usage(out.absolute().parent).free
    if free < needs_bytes:
        raise Unavailable(
            f"{label}{out}: about {needs_bytes / 1e9:.1f} GB needed, {free / 1e9:.1f} GB free on that disk.",
            hint="Free some space or write to another disk.",
            code="disk-full",
        )


def _put_in_place(stage: Path, out: Path) -> None:
    """Rename ``stage`` to ``out``; an existing folder is removed only after the new one is in place."""
    if not out.exists():
        stage.rename(out)
        return
    former = temporary_sibling(out, "former")
    out.rename(former)
    stage.rename(out)
    shutil.rmtree(former, ignore_errors=True)


@contextmanager
def atomic_write(place: Path) -> Iterator[BinaryIO]:
    """Yield a file that replaces ``place``, complete, when the block succeeds."""
    if isinstance(place, RemotePath):
        with place.open("wb") as copy:
            yield cast(BinaryIO, copy)
        return
    aside = place.with_name(f".{place.name}.{uuid.uuid4().hex[:8]}")
    try:
        with aside.open("wb") as file:
            yield file
        aside.replace(place)
    finally:
        aside.unlink(missing_ok=True)
