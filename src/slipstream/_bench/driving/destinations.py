"""Where the driver delivers to: a folder, a Kafka topic, a TCP client, standard output.

Every destination takes a whole second and returns when it has left: renamed, acknowledged, or handed to the kernel.
"""

from __future__ import annotations

import re
import socket
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slipstream._bench.driving.encodings import Encoding
from slipstream._errors import BadArgument, Unavailable
from slipstream._feeds.tuples import END_MARK
from slipstream._io import kafka
from slipstream._tools.progress import say


class Destination(ABC):
    """Takes seconds in their order."""

    @abstractmethod
    def deliver(self, second: int, data: bytes) -> None:
        """Send a second's tuples; they have left when this returns."""

    def end(self) -> None:  # noqa: B027 - most say so by closing
        """Tell whoever follows that nothing more will come."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what is open."""


class Folder(Destination):
    """A file a second, renamed from a hidden name: who watches the folder sees whole files only."""

    def __init__(self, path: Path, encoding: Encoding) -> None:
        try:
            path.mkdir(parents=True, exist_ok=True)
            occupied = any(path.iterdir())
        except OSError as error:
            raise BadArgument(f"--to dir:{path}: {error.strerror}.", hint="Give a folder to write in.") from error
        if occupied:
            raise BadArgument(f"--to dir:{path}: not empty.", hint="Two runs in one folder cannot be told apart.")
        self._path, self._suffix = path, encoding.suffix

    def deliver(self, second: int, data: bytes) -> None:
        """Write the second's file."""
        name = f"second-{second:06d}{self._suffix}"
        hidden = self._path / f".{name}.partial"
        try:
            hidden.write_bytes(data)
            hidden.rename(self._path / name)
        except OSError as error:
            raise Unavailable(f"--to dir:{self._path}: {error.strerror} at second {second}.") from error

    def end(self) -> None:
        """A file beside the folder says that it will not grow."""
        self._path.with_name(self._path.name + END_MARK).touch()

    def close(self) -> None:
        """Nothing is open."""


class Client(Destination):
    """Waits for one client on a TCP port, and sends it everything."""

    def __init__(self, host: str, port: int) -> None:
        self._address = f"{host}:{port}"
        try:
            with socket.create_server((host, port)) as server:
                say(f"Waiting for a client on {self._address}.")
                self._socket, _ = server.accept()
        except OSError as error:
            raise Unavailable(
                f"--to tcp:{self._address}: {error.strerror}.", hint="Is the port in use? Choose another one."
            ) from error

    def deliver(self, second: int, data: bytes) -> None:
        """Hand the second to the kernel, which sends it on."""
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise Unavailable(
                f"--to tcp:{self._address}: the client went away at second {second}.",
                hint="The run is void; start the client and the driver again.",
            ) from error

    def close(self) -> None:
        """Tell the client that there is no more."""
        self._socket.close()


class Output(Destination):
    """Standard output."""

    def deliver(self, second: int, data: bytes) -> None:
        """Print the second's tuples."""
        del second
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def close(self) -> None:
        """Standard output stays open."""


class Topic(Destination):
    """A Kafka topic: a message a tuple, all on partition 0, where Kafka keeps their order."""

    def __init__(self, topic: kafka.Topic, encoding: Encoding) -> None:
        from confluent_kafka import KafkaException, Producer

        self._where, self._topic, self._messages = str(topic), topic.name, encoding.messages
        self._refused: str = ""
        settings = {
            "enable.idempotence": True,  # acknowledged once, in order, also when a send is tried again
            "linger.ms": 5,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 2_000_000,
            "queue.buffering.max.kbytes": 1 << 20,
            "message.timeout.ms": kafka.TIMEOUT_S * 1000,
        }
        self._producer: Any = Producer(topic.client(**settings), logger=_silent())
        try:
            self._producer.list_topics(topic.name, timeout=kafka.TIMEOUT_S)
        except KafkaException as error:
            raise Unavailable(
                f"--to {self._where}: no broker answers ({error.args[0].str()}).",
                hint="Start it: scripts/kafka.sh start",
            ) from error

    def deliver(self, second: int, data: bytes) -> None:
        """Send the second's messages and wait until the broker has them all."""
        produce: Callable[..., None] = self._producer.produce
        for message in self._messages(data):
            self._produce(produce, message)
        waiting = self._producer.flush(kafka.TIMEOUT_S)
        if waiting or self._refused:
            raise Unavailable(
                f"--to {self._where}: the broker took no more at second {second} ({self._refused or 'no answer'}).",
                hint="The run is void; start the broker and the driver again.",
            )

    def _produce(self, produce: Callable[..., None], message: bytes) -> None:
        try:
            produce(self._topic, message, partition=0, on_delivery=self._heard)
        except BufferError:
            self._producer.flush(kafka.TIMEOUT_S)
            produce(self._topic, message, partition=0, on_delivery=self._heard)

    def _heard(self, error: Any, _message: Any) -> None:
        if error is not None:
            self._refused = error.str()

    def end(self) -> None:
        """An empty message says that it was the last."""
        self._produce(self._producer.produce, b"")
        self._producer.flush(kafka.TIMEOUT_S)

    def close(self) -> None:
        """Every second was flushed; nothing is left."""


def _silent() -> Any:
    """librdkafka repeats each failed connection on standard error; the driver says it once."""
    import logging

    logger = logging.getLogger("slipstream.kafka")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


def destination(text: str, encoding: Encoding) -> Destination:
    """The destination that ``--to`` names."""
    if text == "stdout":
        return Output()
    if match := re.fullmatch(r"dir:(.+)", text):
        return Folder(Path(match[1]), encoding)
    if match := re.fullmatch(r"tcp:([^/]+):(\d{1,5})", text):
        return Client(match[1], int(match[2]))
    if text.startswith("kafka:"):
        return Topic(kafka.Topic.parse(text), encoding)
    raise BadArgument(
        f"--to {text}: not a destination.", hint="dir:PATH, kafka:HOST:PORT/TOPIC, tcp:HOST:PORT or stdout."
    )
