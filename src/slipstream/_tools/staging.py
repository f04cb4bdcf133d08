"""Folders and files that appear whole or not at all.

Everything that writes a folder under a name a user gave writes it beside that name first and renames it at the
end, so that nothing half-written ever looks whole, whatever interrupts the work.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from slipstream._errors import BadArgument, Unavailable

#: what to do when a folder is there already
ANOTHER_NAME = "Give another name, or remove it."


def check_new(out: Path, *, label: str = "--out ", hint: str = ANOTHER_NAME) -> None:
    """Refuse a folder that is there already and not empty, or that cannot be made; makes nothing."""
    try:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise BadArgument(f"{label}{out}: exists and is not an empty folder.", hint=hint, code="exists")
    except OSError as error:
        raise BadArgument(f"{label}{out}: {error.strerror}.", hint="Give a folder that can be written.") from error
    check_makeable(out, label=label)


def check_makeable(out: Path, *, label: str = "--out ") -> None:
    """Refuse a file or folder that cannot be made where it is to be: something is in the way, or may not be written."""
    above = next(folder for folder in out.absolute().parents if folder.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        cause = "may not be written" if above.is_dir() else "is not a folder"
        raise BadArgument(f"{label}{out}: {above} {cause}.", hint="Give a place that can be written.")


@contextmanager
def staged(
    out: Path,
    *,
    needs_bytes: int = 0,
    replace: bool = False,
    label: str = "--out ",
    hint: str = ANOTHER_NAME,
) -> Iterator[Path]:
    """A folder to write in that becomes ``out`` when the block ends well, and vanishes when it does not.

    ``label`` stands before the name in messages; ``hint`` tells what to do when ``out`` is there already and may
    not be replaced.
    """
    if not replace:
        check_new(out, label=label, hint=hint)
    stage = beside(out, "partial")
    try:
        stage.parent.mkdir(parents=True, exist_ok=True)
        _check_space(out, needs_bytes, label)
        stage.mkdir()
    except OSError as error:
        raise BadArgument(f"{label}{out}: {error.strerror}.", hint="Give a folder that can be written.") from error
    try:
        yield stage
        _put_in_place(stage, out)
    except OSError as error:
        raise Unavailable(f"{label}{out}: {error.strerror or error}.", hint="Nothing was kept; try again.") from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def beside(out: Path, state: str) -> Path:
    """A name nobody uses on the same disk; the dot keeps it out of listings."""
    return out.absolute().parent / f".{out.name}.{uuid.uuid4().hex[:8]}.{state}"


def _check_space(out: Path, needs_bytes: int, label: str) -> None:
    free = shutil.disk_usage(out.absolute().parent).free
    if free < needs_bytes:
        raise Unavailable(
            f"{label}{out}: about {needs_bytes / 1e9:.1f} GB needed, {free / 1e9:.1f} GB free on that disk.",
            hint="Free some space or write to another disk.",
        )


def _put_in_place(stage: Path, out: Path) -> None:
    """Rename ``stage`` to ``out``; what stood there goes away only once the new one can take its place."""
    if not out.exists():
        stage.rename(out)
        return
    former = beside(out, "former")
    out.rename(former)
    stage.rename(out)
    shutil.rmtree(former, ignore_errors=True)


@contextmanager
def appearing(place: Path) -> Iterator[BinaryIO]:
    """A file that appears whole under its name when the block ends well, in place of what was there."""
    aside = place.with_name(f".{place.name}.{uuid.uuid4().hex[:8]}")
    try:
        with aside.open("wb") as file:
            yield file
        aside.replace(place)
    finally:
        aside.unlink(missing_ok=True)
