"""A spool for sockets: their data cannot be read twice, so it is written to files in a folder, which jobs follow."""

from __future__ import annotations

import re
import select
import socket
import threading
import time
from pathlib import Path

from slipstream._errors import BadArgument
from slipstream._feeds.trains import find_whole_frames
from slipstream._feeds.tuples import END_MARK
from slipstream._io.chunks import ARRIVALS_MS
from slipstream._io.kafka_client import TIMEOUT_S
from slipstream._io.readers.lines import SPOOLED
from slipstream._tools.progress import say

#: seconds between checks of an idle socket, and between attempts to connect
_LOOK, _TRY_AGAIN = 0.05, 0.5
_BLOCK = 1 << 18


def parse_address(address: str) -> tuple[str, int]:
    """Read ``tcp:HOST:PORT``, or ``tcp://HOST:PORT``.

    >>> parse_address("tcp:127.0.0.1:7000") == parse_address("tcp://127.0.0.1:7000")
    True
    >>> parse_address("tcp:127.0.0.1:7000")
    ('127.0.0.1', 7000)
    """
    match = re.fullmatch(r"tcp:(?://)?([^/:]+):(\d{1,5})", address)
    if not match or not 0 < int(match[2]) < 1 << 16:
        raise BadArgument(f"{address}: not an address.", hint="Write tcp:HOST:PORT.", code="malformed-value")
    return match[1], int(match[2])


def receive(address: str, spool: Path, encoding: str) -> threading.Thread:
    """Connect to ``tcp:HOST:PORT``, retrying until it accepts, and spool what arrives until the other side closes."""
    Path(str(spool) + END_MARK).unlink(missing_ok=True)
    spool.mkdir(parents=True, exist_ok=True)
    connection = _connect(address)
    thread = threading.Thread(target=_Spool(spool, encoding).write_all, args=(connection,), daemon=True)
    thread.start()
    return thread


def _connect(address: str) -> socket.socket:
    said = False
    while True:
        try:
            connection = socket.create_connection(parse_address(address), timeout=TIMEOUT_S)
        except OSError as error:
            if not said:
                say(f"Waiting for {address}: cannot connect yet ({error.strerror or error}).")
            said = True
            time.sleep(_TRY_AGAIN)
        else:
            connection.settimeout(None)
            return connection


class _Spool:
    """Writes complete lines or trains that arrived together to a file of a folder."""

    def __init__(self, folder: Path, encoding: str) -> None:
        self._folder, self._cut = folder, find_whole_frames if encoding == "train" else _find_whole_lines
        self._number = max((int(file.name.partition("-")[0]) for file in folder.glob("[0-9]*-*")), default=-1) + 1
        self._rest = b""

    def write_all(self, connection: socket.socket) -> None:
        """Write what arrives until the other side closes."""
        with connection:
            try:
                self._receive(connection)
            finally:
                if self._rest:
                    self._write(self._rest, _now_ms())
                Path(str(self._folder) + END_MARK).touch()

    def _receive(self, connection: socket.socket) -> None:
        # what is read now arrived after the socket was last seen empty, however long this process was suspended
        empty_ms = _now_ms()
        waiting: list[bytes] = []
        while True:
            looked_ms = _now_ms()
            if not select.select([connection], [], [], 0)[0]:
                self._flush(waiting, empty_ms)
                empty_ms = looked_ms
                select.select([connection], [], [], _LOOK)
                continue
            data = connection.recv(_BLOCK)
            if not data:
                self._flush(waiting, empty_ms)
                return
            waiting.append(data)
            if sum(map(len, waiting)) >= _BLOCK:
                self._flush(waiting, empty_ms)

    def _flush(self, waiting: list[bytes], arrived: int) -> None:
        if waiting:
            data = self._rest + b"".join(waiting)
            waiting.clear()
            end = self._cut(data)
            self._rest = data[end:]
            if end:
                self._write(data[:end], arrived)

    def _write(self, data: bytes, arrived: int) -> None:
        name = SPOOLED.format(number=self._number, arrived=arrived // ARRIVALS_MS * ARRIVALS_MS)
        hidden = self._folder / f".{name}"
        hidden.write_bytes(data)
        hidden.rename(self._folder / name)
        self._number += 1


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _find_whole_lines(data: bytes) -> int:
    """The end of the last complete line."""
    return data.rfind(b"\n") + 1
