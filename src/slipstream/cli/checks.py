"""What a command can know to be wrong before anything slow begins: files and folders that are missing or in the way.

Every command checks what it was given first and starts Spark last, so a slip of the finger is answered at once.
This module imports nothing that takes time.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from slipstream.errors import BadArgument
from slipstream.staging import check_new

__all__ = ["check_new", "check_there", "check_writable"]


def check_there(*paths: Path | str | None, option: str = "", what: str = "file or folder", hint: str = "") -> None:
    """Refuse paths that are not there, all of them in one message; ``None`` was not given and is left out.

    >>> check_there("no/a", "no/b", option="--input")
    Traceback (most recent call last):
        ...
    slipstream.errors.BadArgument: --input no/a, no/b: no such file or folder.
    """
    if missing := _missing(path for path in paths if path is not None):
        label = f"{option} " if option else ""
        raise BadArgument(f"{label}{', '.join(missing)}: no such {what}.", hint=hint)


def _missing(paths: Iterable[Path | str]) -> list[str]:
    return [str(path) for path in paths if not _is_there(Path(path))]


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name that no file can have
        return False


def check_writable(file: Path | None, option: str) -> None:
    """Refuse a file that could not be written: its folder is missing, or it is a folder itself."""
    if file is None:
        return
    if file.is_dir() or not file.absolute().parent.is_dir():
        cause = "is a folder" if file.is_dir() else f"no such folder as {file.absolute().parent}"
        raise BadArgument(f"{option} {file}: {cause}.", hint="Give a file that can be written.")
