"""Checks before anything slow: files and folders that are missing or in the way.

Every command checks its arguments first and starts Spark last, so that a typing error is reported at once. This module
imports nothing that takes time.
"""

from __future__ import annotations

from pathlib import Path

from slipstream._errors import BadArgument
from slipstream._tools.files.locations import to_path
from slipstream._tools.files.staging import check_makeable, check_new

__all__ = ["check_folder", "check_new", "check_there", "check_writable"]


def check_there(*paths: Path | str | None, option: str = "", what: str = "file or folder", hint: str = "") -> None:
    """Refuse paths that do not exist, all in one message; ``None`` is skipped.

    >>> check_there("no/a", "no/b", option="--input")
    Traceback (most recent call last):
        ...
    slipstream._errors.BadArgument: --input no/a, no/b: no such file or folder.
    """
    is_there = _is_file if what == "file" else _is_there
    if missing := [str(path) for path in paths if path is not None and not is_there(to_path(path))]:
        label = f"{option} " if option else ""
        raise BadArgument(
            f"{label}{', '.join(missing)}: no such {what}.", hint=hint, code="no-such-file", found=missing
        )


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name that no file can have
        return False


def _is_file(path: Path) -> bool:
    return _is_there(path) and not path.is_dir()


def check_writable(file: Path | None, option: str, *, makes_folder: bool = False) -> None:
    """Refuse a file that could not be written; ``makes_folder``: its folder is made where it is missing."""
    if file is None:
        return
    if file.is_dir():
        raise BadArgument(
            f"{option} {file}: is a folder.", hint="Give a file that can be written.", code="wrong-file-type"
        )
    if not makes_folder and not file.absolute().parent.exists():
        raise BadArgument(
            f"{option} {file}: its folder does not exist.", hint="Give a file that can be written.", code="no-such-file"
        )
    check_makeable(file, label=f"{option} ")


def check_folder(out: Path, *, mark: str = "") -> None:
    """Refuse a folder to work in that is a file or cannot be created; it may exist.

    With ``mark``, a folder that is not empty must contain this file or folder, which shows that it is one of ours.
    """
    if mark and not (out / mark).exists():
        check_new(out)
    if out.exists() and not out.is_dir():
        raise BadArgument(f"--out {out}: is a file.", hint="Give a folder.", code="wrong-file-type")
    check_makeable(out)
