"""Copies of folders in stores on this machine's disk, for what must be mapped into memory, and the way back.

A copy is made once per process and is removed with it. Folders that are copied are complete and do not change.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from slipstream._tools.files import temporary
from slipstream._tools.files.remote_paths import READERS, RemotePath

#: what was copied by this process
_copied: dict[str, Path] = {}


def localized(place: Path) -> Path:
    """Return a file or folder of this machine; what is in a store is copied."""
    if not isinstance(place, RemotePath):
        return place
    copy = _copied.get(str(place))
    if copy is None or not copy.exists():
        name = hashlib.sha256(str(place).encode()).hexdigest()[:16]
        copy = temporary.folder() / f"copy-{name}" / place.name
        copy.parent.mkdir(exist_ok=True)
        _download(place, copy)
        _copied[str(place)] = copy
    return copy


def _download(place: RemotePath, copy: Path) -> None:
    def fetch(file: RemotePath) -> None:
        target = copy if file == place else copy / str(file).removeprefix(f"{place}/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.read_bytes())

    with ThreadPoolExecutor(READERS) as pool:
        list(pool.map(fetch, [place] if place.is_file() else _list_files(place)))


def _list_files(folder: RemotePath) -> list[RemotePath]:
    found = []
    for entry in folder.entries():
        below = folder / entry.name.rpartition("/")[2]
        found += _list_files(below) if entry.is_folder else [below]
    return found


def upload(folder: Path, place: RemotePath) -> None:
    """Write a folder of this machine to a store: what is in folders first, then the files that describe it."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())

    def put(file: Path) -> None:
        target = place / file.relative_to(folder).as_posix()
        target.store.write(target.key, file)

    for described in (False, True):
        with ThreadPoolExecutor(READERS) as pool:
            list(pool.map(put, [file for file in files if (file.parent == folder) == described]))
