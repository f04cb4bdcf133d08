"""Append-only logs: one JSON object per line.

A crash or a full disk can leave the last line truncated. Readers ignore such a line, and the next append removes it
first; otherwise both lines would be lost.

In a store, where nothing can be appended to, a log is a folder with an object per append (``_tools.object_logs``).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from slipstream._tools import object_logs
from slipstream._tools.files.remote_paths import RemotePath
from slipstream._tools.strict_json import parse_json


def encode_line(values: Mapping[str, Any]) -> bytes:
    """Encode one line of a log."""
    return json.dumps(values).encode() + b"\n"


def append_lines(
    log: Path, lines: Iterable[Mapping[str, Any]], *, durable: bool = False, number: int | None = None
) -> None:
    """Append lines; with ``durable`` they are on disk when this returns.

    In a store, ``FileExistsError`` is raised if another process has written append ``number``.
    """
    if isinstance(log, RemotePath):
        object_logs.append(log, b"".join(map(encode_line, lines)), number)
        return
    length = complete_length(log)
    with log.open("ab") as file:
        file.truncate(length)
        file.write(b"".join(map(encode_line, lines)))
        if durable:
            file.flush()
            os.fsync(file.fileno())


def read_lines(log: Path) -> list[dict[str, Any]]:
    """Read all complete lines of a log; none if it does not exist."""
    if isinstance(log, RemotePath):
        whole = object_logs.read(log)[0]
    else:
        whole = log.read_bytes().rpartition(b"\n")[0] if log.exists() else b""
    return [parse_json(line) for line in whole.splitlines()]


class Follower:
    """Reads a log as it grows, from its beginning or from now on."""

    def __init__(self, log: Path, *, from_now_on: bool = False) -> None:
        self._log = log
        self._read = _measure(log) if from_now_on else 0  # in bytes, or in appends

    def read_new(self) -> list[dict[str, Any]]:
        """Return the lines added since the last call; an unfinished last line is left for the next one."""
        if isinstance(self._log, RemotePath):
            new, self._read = object_logs.read(self._log, self._read)
            return [parse_json(line) for line in new.splitlines()]
        if not self._log.exists():
            return []
        with self._log.open("rb") as file:
            file.seek(self._read)
            whole, end, _ = file.read().rpartition(b"\n")
        self._read += len(whole) + len(end)
        return [parse_json(line) for line in whole.splitlines()]


def read_last_line(log: Path) -> dict[str, Any] | None:
    """Read the last line of a log without reading the rest: logs grow for as long as a stream runs."""
    if isinstance(log, RemotePath):
        lines = object_logs.read_last(log).splitlines()
        return _parse(lines[-1]) if lines else None
    if not log.exists():
        return None
    with log.open("rb") as file:
        size, reach = file.seek(0, os.SEEK_END), 1 << 14
        while True:
            file.seek(max(size - reach, 0))
            whole = file.read(min(reach, size)).rpartition(b"\n")[0]
            if b"\n" in whole or reach >= size:
                last = whole.rpartition(b"\n")[2]
                return _parse(last) if last else None
            reach *= 4


def complete_length(log: Path) -> int:
    """The length in bytes of a log's complete lines."""
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


def _measure(log: Path) -> int:
    return object_logs.count_appends(log) if isinstance(log, RemotePath) else complete_length(log)


def _parse(line: bytes) -> dict[str, Any]:
    values: dict[str, Any] = parse_json(line)
    return values
