"""Where the driver delivers to: a folder, a Kafka topic, a TCP client, standard output.

Every destination takes a whole second and returns once it is sent: renamed, acknowledged, or handed to the kernel.
"""

from __future__ import annotations

import re
import socket
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slipstream._bench.driving.encoders import Encoding
from slipstream._errors import BadArgument, Unavailable, classify
from slipstream._feeds.tuples import END_MARK
from slipstream._io import kafka_client
from slipstream._tools.progress import say


class FeedReceiver(ABC):
    """Takes seconds in order."""

    partitions: int = 1  # into which it divides the tuples of a second

    @abstractmethod
    def deliver(self, second: int, parts: Sequence[bytes]) -> None:
        """Send the tuples of a second, given for each partition; they are sent when this returns."""

    def end(self) -> None:  # noqa: B027 - for most, closing marks the end
        """Mark the end of the stream."""

    @abstractmethod
    def close(self) -> None:
        """Release connections."""


class FolderDestination(FeedReceiver):
    """Writes one file per second under a hidden name and renames it: readers only ever see whole files."""

    def __init__(self, path: Path, encoding: Encoding) -> None:
        try:
            path.mkdir(parents=True, exist_ok=True)
            occupied = any(path.iterdir())
        except OSError as error:
            raise BadArgument(
                f"--to dir:{path}: {error.strerror}.", hint="Use a folder you can write to.", code=classify(error)
            ) from error
        if occupied:
            raise BadArgument(
                f"--to dir:{path}: the folder is not empty.",
                hint="Use an empty folder: two runs in one folder cannot be distinguished.",
                code="exists",
            )
        self._path, self._suffix = path, encoding.suffix

    def deliver(self, second: int, parts: Sequence[bytes]) -> None:
        """Write the file of the second."""
        name = f"second-{second:06d}{self._suffix}"
        hidden = self._path / f".{name}.partial"
        try:
            hidden.write_bytes(b"".join(parts))
            hidden.rename(self._path / name)
        except OSError as error:
            raise Unavailable(
                f"--to dir:{self._path}: {error.strerror} at second {second}.", code=classify(error)
            ) from error

    def end(self) -> None:
        """Mark the folder as complete with a file next to it."""
        self._path.with_name(self._path.name + END_MARK).touch()

    def close(self) -> None:
        """Do nothing: nothing is open."""


class TcpDestination(FeedReceiver):
    """Waits for one client on a TCP port and sends it everything."""

    def __init__(self, host: str, port: int) -> None:
        self._address = f"{host}:{port}"
        try:
            with socket.create_server((host, port)) as server:
                say(f"Waiting for a client on {self._address}.")
                self._socket, _ = server.accept()
        except OSError as error:
            raise Unavailable(
                f"--to tcp:{self._address}: {error.strerror}.",
                hint="If the port is in use, choose another one.",
                code="port-unavailable",
            ) from error

    def deliver(self, second: int, parts: Sequence[bytes]) -> None:
        """Hand the second to the kernel."""
        try:
            self._socket.sendall(b"".join(parts))
        except OSError as error:
            raise Unavailable(
                f"--to tcp:{self._address}: the client disconnected at second {second}.",
                hint="The run is void; restart the client and the driver.",
                code="run-void",
            ) from error

    def close(self) -> None:
        """Disconnect the client."""
        self._socket.close()


class StdoutDestination(FeedReceiver):
    """Prints to standard output."""

    def deliver(self, second: int, parts: Sequence[bytes]) -> None:
        """Print the tuples of the second."""
        del second
        sys.stdout.buffer.writelines(parts)
        sys.stdout.buffer.flush()

    def close(self) -> None:
        """Do nothing: standard output stays open."""


class TopicDestination(FeedReceiver):
    """Sends one message per tuple, or per train, to a Kafka topic.

    All go to partition 0, where Kafka keeps their order; with ``spread`` the topic's partitions share them.
    """

    def __init__(self, topic: kafka_client.Topic, encoding: Encoding, *, spread: bool = False) -> None:
        from confluent_kafka import KafkaException, Producer

        self._where, self._topic, self._messages = str(topic), topic.name, encoding.messages
        self._error: str = ""
        settings = {
            "enable.idempotence": True,  # retries neither duplicate nor reorder messages
            "linger.ms": 5,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 2_000_000,
            "queue.buffering.max.kbytes": 1 << 20,
            "message.timeout.ms": kafka_client.TIMEOUT_S * 1000,
        }
        self._producer: Any = Producer(topic.client(**settings), logger=_make_silent_logger())
        try:
            found = self._producer.list_topics(topic.name, timeout=kafka_client.TIMEOUT_S).topics[topic.name]
        except KafkaException as error:
            raise Unavailable(
                f"--to {self._where}: the broker does not respond ({error.args[0].str()}).",
                hint="Start it with: scripts/kafka.sh start",
                code="broker-unreachable",
            ) from error
        self.partitions = max(1, len(found.partitions)) if spread else 1

    def deliver(self, second: int, parts: Sequence[bytes]) -> None:
        """Send the messages of the second and wait until the broker has acknowledged all of them."""
        for partition, data in enumerate(parts):
            for message in self._messages(data) if data else ():
                self._produce(message, partition)
        waiting = self._producer.flush(kafka_client.TIMEOUT_S)
        if waiting or self._error:
            raise Unavailable(
                f"--to {self._where}: the broker failed at second {second} ({self._error or 'no response'}).",
                hint="The run is void; restart the broker and the driver.",
                code="broker-unreachable",
            )

    def _produce(self, message: bytes, partition: int = 0) -> None:
        try:
            self._producer.produce(self._topic, message, partition=partition, on_delivery=self._note_delivery)
        except BufferError:
            self._producer.flush(kafka_client.TIMEOUT_S)
            self._producer.produce(self._topic, message, partition=partition, on_delivery=self._note_delivery)

    def _note_delivery(self, error: Any, _message: Any) -> None:
        if error is not None:
            self._error = error.str()

    def end(self) -> None:
        """Send an empty message as the last one."""
        self._produce(b"")
        self._producer.flush(kafka_client.TIMEOUT_S)

    def close(self) -> None:
        """Do nothing: every second was flushed."""


def _make_silent_logger() -> Any:
    """Return a logger that drops librdkafka's repeated connection errors; the driver reports each error once."""
    import logging

    logger = logging.getLogger("slipstream.kafka")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


def open_destination(text: str, encoding: Encoding, *, spread: bool = False) -> FeedReceiver:
    """Open the destination that ``--to`` names; ``spread`` uses all partitions of a topic."""
    if text == "stdout":
        return StdoutDestination()
    if match := re.fullmatch(r"dir:(.+)", text):
        return FolderDestination(Path(match[1]), encoding)
    if match := re.fullmatch(r"tcp:([^/]+):(\d{1,5})", text):
        return TcpDestination(match[1], int(match[2]))
    if text.startswith("kafka:"):
        return TopicDestination(kafka_client.Topic.parse(text), encoding, spread=spread)
    raise BadArgument(
        f"--to {text}: not a destination.",
        hint="Use dir:PATH, kafka:HOST:PORT/TOPIC, tcp:HOST:PORT or stdout.",
        code="malformed-value",
        found=text,
    )
