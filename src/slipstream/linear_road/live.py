"""What comes from a socket, and what goes to a topic.

What comes from a socket cannot be read twice, so it is first put into files of a folder, and the engine follows the
folder. What goes to a topic is read from the committed part of ``output.csv``: every line goes out once, also across a
crash, because each transaction carries how far it got.
"""

from __future__ import annotations

import re
import select
import socket
import threading
import time
from pathlib import Path
from typing import Any

from slipstream.errors import BadArgument, Unavailable
from slipstream.failpoints import failpoint
from slipstream.feeds.kafka import PATIENCE, Topic
from slipstream.feeds.trains import whole_frames
from slipstream.feeds.tuples import END_MARK
from slipstream.linear_road.lines import SPOOLED
from slipstream.linear_road.sink import TEXT, last_batch
from slipstream.linear_road.stages import ARRIVALS_MS
from slipstream.progress import say

_POSITION = "slipstream-position"
#: seconds between looks at a socket that has nothing, and between attempts to connect
_LOOK, _TRY_AGAIN = 0.05, 0.5
_BLOCK = 1 << 18


def parse_address(address: str) -> tuple[str, int]:
    """Read ``tcp:HOST:PORT``.

    >>> parse_address("tcp:127.0.0.1:7000")
    ('127.0.0.1', 7000)
    """
    match = re.fullmatch(r"tcp:([^/]+):(\d{1,5})", address)
    if not match or not 0 < int(match[2]) < 1 << 16:
        raise BadArgument(f"{address}: not an address.", hint="Write tcp:HOST:PORT.")
    return match[1], int(match[2])


def receive(address: str, spool: Path, encoding: str) -> threading.Thread:
    """Connect to ``tcp:HOST:PORT``, wait for it if need be, and spool what comes until the other side closes."""
    Path(str(spool) + END_MARK).unlink(missing_ok=True)
    spool.mkdir(parents=True, exist_ok=True)
    connection = _connect(address)
    thread = threading.Thread(target=_Spool(spool, encoding).take_all, args=(connection,), daemon=True)
    thread.start()
    return thread


def _connect(address: str) -> socket.socket:
    said = False
    while True:
        try:
            connection = socket.create_connection(parse_address(address), timeout=PATIENCE)
        except OSError as error:
            if not said:
                say(f"Waiting for {address}: nobody answers yet ({error.strerror or error}).")
            said = True
            time.sleep(_TRY_AGAIN)
        else:
            connection.settimeout(None)
            return connection


class _Spool:
    """A folder of files, each of whole lines or trains that arrived together."""

    def __init__(self, folder: Path, encoding: str) -> None:
        self._folder, self._cut = folder, whole_frames if encoding == "train" else _whole_lines
        self._number = max((int(file.name.partition("-")[0]) for file in folder.glob("[0-9]*-*")), default=-1) + 1
        self._rest = b""

    def take_all(self, connection: socket.socket) -> None:
        """Write what comes, until the other side closes."""
        with connection:
            try:
                self._take(connection)
            finally:
                if self._rest:
                    self._write(self._rest, _now_ms())
                Path(str(self._folder) + END_MARK).touch()

    def _take(self, connection: socket.socket) -> None:
        # what is read now came after the socket was last seen empty: however long this process was kept from looking
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


def _whole_lines(data: bytes) -> int:
    """Where the last whole line ends."""
    return data.rfind(b"\n") + 1


class Publisher:
    """Sends the committed lines of ``output.csv`` to a topic, each once."""

    def __init__(self, topic: Topic, out: Path) -> None:
        from confluent_kafka import KafkaException, Producer

        self._topic, self._out = topic, out
        self._error = KafkaException
        settings = {"bootstrap.servers": topic.servers, "transactional.id": f"slipstream-{topic.name}", "log_level": 0}
        self._producer: Any = Producer(settings)
        try:
            self._producer.init_transactions(PATIENCE)
        except KafkaException as error:
            raise Unavailable(
                f"kafka:{topic.servers}/{topic.name}: no broker answers.", hint="Start it: scripts/kafka.sh start"
            ) from error
        self._position = self._sent_before()

    def publish(self) -> None:
        """Send what was committed since the last call, in one transaction."""
        last = last_batch(self._out)
        if last is None or last.text_bytes <= self._position:
            return
        with (self._out / TEXT).open("rb") as file:
            file.seek(self._position)
            text = file.read(last.text_bytes - self._position)
        position = self._position + len(text)
        try:
            failpoint("topic.before-send")
            self._producer.begin_transaction()
            for line in text.splitlines():
                self._produce(line, position)
            failpoint("topic.before-commit")
            self._producer.commit_transaction(PATIENCE)
            failpoint("topic.after-commit")
        except self._error as error:
            raise Unavailable(
                f"kafka:{self._topic.servers}/{self._topic.name}: the broker went away.",
                hint="Start it and run the same command again; it goes on where it was.",
            ) from error
        self._position = position

    def _produce(self, line: bytes, position: int) -> None:
        headers = {_POSITION: str(position)}
        try:
            self._producer.produce(self._topic.name, line, partition=0, headers=headers)
        except BufferError:
            self._producer.flush(PATIENCE)
            self._producer.produce(self._topic.name, line, partition=0, headers=headers)

    def _sent_before(self) -> int:
        """How far the last committed transaction in the topic got."""
        from confluent_kafka import Consumer, TopicPartition

        settings = {"bootstrap.servers": self._topic.servers, "group.id": "slipstream", "log_level": 0}
        consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.auto.commit": False})
        try:
            place = TopicPartition(self._topic.name, 0)
            try:
                low, high = consumer.get_watermark_offsets(place, timeout=PATIENCE)
            except self._error:
                return 0
            # the last entries of a partition are the marks of transactions, not messages
            for back in range(1, min(high - low, 20) + 1):
                place.offset = high - back
                consumer.assign([place])
                message = consumer.poll(2.0)
                if message is not None and not message.error():
                    return int(dict(message.headers() or [])[_POSITION] or 0)
            return 0
        finally:
            consumer.close()
