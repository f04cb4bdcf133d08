"""Append-only logs in stores, which have no appends: a folder with an object per append.

    OUT/batches.jsonl/000000000041             the lines of append 41, written only if the name is free
    OUT/batches.jsonl/000000000000-000000000099  those of a hundred appends, merged

The number of an append makes it safe: of two processes that write the same one, one is refused. The journal has one
append per batch, so that no two processes commit the same batch. Compaction merges what is complete: hundreds, and
hundreds of these. An append that is both merged and on its own counts once, so a crash between writing the one and
deleting the other does no harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from slipstream._tools.files.remote_paths import READERS

if TYPE_CHECKING:
    from slipstream._tools.files.remote_paths import RemotePath

#: appends that are merged into one object
_SIZES = (100, 10_000)
#: bytes up to which an object is remembered
_SMALL = 4096


@dataclass(frozen=True, order=True)
class _Part:
    """An object of a log: the appends from ``first`` to ``last``."""

    first: int
    last: int
    size: int = field(default=0, compare=False)
    changed: float = field(default=0.0, compare=False)

    @property
    def name(self) -> str:
        return f"{self.first:012d}" if self.first == self.last else f"{self.first:012d}-{self.last:012d}"


def append(log: RemotePath, lines: bytes, number: int | None = None) -> None:
    """Append lines as append ``number``, or as the next one; ``FileExistsError`` if another process has written it."""
    wanted = _find_end(_list_parts(log)) if number is None else number
    while True:
        try:
            (log / _Part(wanted, wanted).name).create(lines)
        except FileExistsError:
            if number is not None:
                raise
            wanted += 1
        else:
            return


def read(log: RemotePath, since: int = 0) -> tuple[bytes, int]:
    """Return the lines from append ``since`` on, and the number of the next append.

    Parts may be merged while they are read: then they are listed again.
    """
    while True:
        parts = [part for part in _choose(_list_parts(log)) if part.last >= since]
        try:
            found = _fetch(log, parts)
        except FileNotFoundError:
            continue
        cut = [_cut(lines, part, since) for part, lines in zip(parts, found, strict=True)]
        return b"".join(cut), max(_find_end(parts), since)


def _cut(lines: bytes, part: _Part, since: int) -> bytes:
    """Leave out what was appended before ``since``; a log that is read in this way has a line per append."""
    if part.first >= since:
        return lines
    return b"".join(lines.splitlines(keepends=True)[since - part.first :])


def read_last(log: RemotePath) -> bytes:
    """Return the lines of the last object; empty if there is none."""
    while True:
        parts = _choose(_list_parts(log))
        if not parts:
            return b""
        try:
            return (log / parts[-1].name).read_bytes()
        except FileNotFoundError:
            continue


def read_end(log: RemotePath, size: int) -> bytes:
    """Return the last lines, of about ``size`` bytes."""
    while True:
        wanted: list[_Part] = []
        for part in reversed(_choose(_list_parts(log))):
            if sum(one.size for one in wanted) >= size:
                break
            wanted.insert(0, part)
        try:
            return b"".join(_fetch(log, wanted))
        except FileNotFoundError:
            continue


def count_appends(log: RemotePath) -> int:
    """Count the appends: the number of the next one."""
    return _find_end(_list_parts(log))


def merge(log: RemotePath) -> None:
    """Merge what is complete, and delete what was merged."""
    for size in _SIZES:
        parts = _list_parts(log)
        for first in range(0, _find_end(parts) - size + 1, size):
            merged = _Part(first, first + size - 1)
            inside = [part for part in parts if merged.first <= part.first and part.last <= merged.last]
            if merged not in inside:
                chosen = _choose(inside)
                if sum(part.last - part.first + 1 for part in chosen) < size:  # a larger one has the rest
                    continue
                (log / merged.name).write_bytes(b"".join(_fetch(log, chosen)))
            for part in inside:
                if part != merged:
                    (log / part.name).unlink(missing_ok=True)


def _fetch(log: RemotePath, parts: Sequence[_Part]) -> list[bytes]:
    """Read parts; small ones are remembered, as a reader who follows a log reads the same again and again."""
    with ThreadPoolExecutor(READERS) as pool:
        return list(pool.map(lambda part: (_read if part.size > _SMALL else _remember)(log, part, part.changed), parts))


def _read(log: RemotePath, part: _Part, changed: float) -> bytes:  # noqa: ARG001  (a log may be deleted and begun again)
    return (log / part.name).read_bytes()


_remember = lru_cache(maxsize=4096)(_read)


def _list_parts(log: RemotePath) -> list[_Part]:
    found = []
    for entry in log.entries():
        first, _, last = entry.name.rpartition("/")[2].partition("-")
        if first.isdigit() and (last or first).isdigit():
            found.append(_Part(int(first), int(last or first), entry.size, entry.changed))
    return sorted(found)


def _choose(parts: Sequence[_Part]) -> list[_Part]:
    """The parts that have each append once, in order: the largest where several do."""
    chosen: list[_Part] = []
    for part in sorted(parts, key=lambda part: (part.first, -part.last)):
        if not chosen or part.first > chosen[-1].last:
            chosen.append(part)
    return chosen


def _find_end(parts: Sequence[_Part]) -> int:
    return max((part.last for part in parts), default=-1) + 1
