"""Logs: files of JSON, a line an event, that only grow.

A crash, or a full disk, can leave the last line cut short. Such a line was never written: readers pass over it, and
whoever adds the next one takes it away first, or both would be lost.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from slipstream._tools.strict_json import json_of


def as_line(values: Mapping[str, Any]) -> bytes:
    """One line of a log."""
    return json.dumps(values).encode() + b"\n"


def add_lines(log: Path, lines: Iterable[Mapping[str, Any]], *, durable: bool = False) -> None:
    """Add lines at the end; ``durable``: they are on the disk when this returns."""
    length = whole_length(log)
    with log.open("ab") as file:
        file.truncate(length)
        file.write(b"".join(map(as_line, lines)))
        if durable:
            file.flush()
            os.fsync(file.fileno())


def whole_lines(log: Path) -> list[dict[str, Any]]:
    """All lines of a log; none where there is no log."""
    whole = log.read_bytes().rpartition(b"\n")[0] if log.exists() else b""
    return [json_of(line) for line in whole.splitlines()]


class Follower:
    """A log that is read as it grows: all of it, or what is added from now on."""

    def __init__(self, log: Path, *, from_now_on: bool = False) -> None:
        self._log = log
        self._read = whole_length(log) if from_now_on else 0

    def fresh(self) -> list[dict[str, Any]]:
        """Return the lines that were added since the last call; an unfinished last line waits."""
        if not self._log.exists():
            return []
        with self._log.open("rb") as file:
            file.seek(self._read)
            whole, end, _ = file.read().rpartition(b"\n")
        self._read += len(whole) + len(end)
        return [json_of(line) for line in whole.splitlines()]


def last_line(log: Path) -> dict[str, Any] | None:
    """The last line of a log, without reading the rest: logs grow for as long as a stream runs."""
    if not log.exists():
        return None
    with log.open("rb") as lines:
        size, reach = lines.seek(0, os.SEEK_END), 1 << 14
        while True:
            lines.seek(max(size - reach, 0))
            whole = lines.read(min(reach, size)).rpartition(b"\n")[0]
            if b"\n" in whole or reach >= size:
                last = whole.rpartition(b"\n")[2]
                found: dict[str, Any] | None = json_of(last) if last else None
                return found
            reach *= 4


def whole_length(log: Path) -> int:
    """The bytes of a log up to its last line end."""
    if not log.exists():
        return 0
    with log.open("rb") as lines:
        start = lines.seek(0, os.SEEK_END)
        while start:
            end, start = start, max(start - (1 << 14), 0)
            lines.seek(start)
            if (found := lines.read(end - start).rfind(b"\n")) >= 0:
                return start + found + 1
    return 0
