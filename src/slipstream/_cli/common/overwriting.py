"""``--overwrite``: replace what a command would refuse to touch, but only what Slipstream wrote itself."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from slipstream._errors import BadArgument
from slipstream._tools.files.remote_paths import RemotePath
from slipstream._tools.files.staging import temporary_sibling

Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing --out.")]
Afresh = Annotated[bool, typer.Option("--overwrite", help="Delete the job in --out first, and start afresh.")]

#: what to do when an output exists
HINT = "Give another name, or --overwrite to replace it."


@contextmanager
def replacing(out: Path, overwrite: bool, *marks: str) -> Iterator[None]:
    """Move what is at ``out`` aside while the block writes; restore it if the block fails.

    ``marks`` are names, or patterns of names, of which a folder that the command wrote has one.
    """
    if not overwrite or not out.exists():
        yield
        return
    _check_ours(out, marks)
    former = temporary_sibling(out, "former")
    out.rename(former)
    try:
        yield
    except BaseException:
        remove(out)
        former.rename(out)
        raise
    remove(former)


def clear_job(out: Path, overwrite: bool) -> None:
    """Delete the job in a folder, unless it runs."""
    if not overwrite or not out.exists():
        return
    from slipstream._runtime import job

    _check_ours(out, (job.FILE,))
    with job.lock_folder(out):
        remove(out)


def clear(out: Path, overwrite: bool, *marks: str) -> None:
    """Delete what a command wrote to a folder that has one of the ``marks``."""
    if overwrite and out.exists():
        _check_ours(out, marks)
        remove(out)


def _check_ours(out: Path, marks: tuple[str, ...]) -> None:
    if out.is_file() or not any(out.iterdir()) or any(any(out.glob(mark)) for mark in marks):
        return
    raise BadArgument(
        f"--out {out}: contains files that this command did not write.",
        hint="Give another name, or remove it.",
        code="exists",
    )


def remove(path: Path) -> None:
    """Delete a file or a folder."""
    if isinstance(path, RemotePath):
        path.remove_tree()
    elif path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
