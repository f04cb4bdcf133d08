"""Doors: how the driver reaches an engine, through a topic of a Kafka broker or over TCP.

A broker is started by scripts/kafka.sh unless one is named, and serves all trials. A topic has as many partitions as
the machine has cores: the engine reads them in parallel. The answers of other engines go to a second topic, where the
broker stamps each with the time at which it arrived.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import psutil

from slipstream._bench.rating.resource_use import find_listener
from slipstream._errors import BadArgument, Unavailable
from slipstream._io.kafka_client import TIMEOUT_S, Topic
from slipstream._tools.progress import say

KAFKA, TCP = "kafka", "tcp"
SCRIPT = Path(__file__).parents[4] / "scripts" / "kafka.sh"
#: a topic keeps this much per partition: enough for an engine that is minutes behind, while hours pass through
_KEPT_BYTES = 4 << 30


@dataclass(frozen=True)
class Entry:
    """An open door: what the engine reads, and where other engines write their answers."""

    source: str
    partitions: int = 1
    answers: str = ""

    @property
    def address(self) -> tuple[str, str, str]:
        """Host, port and, for Kafka, the topic."""
        where, _, topic = self.source.partition(":")[2].partition("/")
        host, _, port = where.rpartition(":")
        return host, port, topic


class Door(Protocol):
    """A way into an engine."""

    name: str
    can_resume: bool  # whether an engine that was killed can continue

    def open(self, name: str, expressways: int, *, keep: bool = False) -> Entry:
        """Open the door for a trial; with ``keep``, what an earlier opening under this name received is still there."""

    def close(self, entry: Entry) -> None:
        """Close it; its contents are no longer needed."""

    def server(self) -> int | None:
        """Return the process that serves the door, if it is neither the driver nor the engine."""


class TcpDoor:
    """The driver waits for the engine at a free port of the loopback interface."""

    name = TCP
    can_resume = False

    def open(self, name: str, expressways: int, *, keep: bool = False) -> Entry:  # noqa: ARG002
        """Find a free port."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            return Entry(f"tcp:127.0.0.1:{free.getsockname()[1]}")

    def close(self, entry: Entry) -> None:
        """Do nothing: the driver has closed it."""

    def server(self) -> int | None:
        """Return None: there is no server."""
        return None


class KafkaDoor:
    """A topic for every trial."""

    name = KAFKA
    can_resume = True

    def __init__(self, server: str) -> None:
        self._server = server
        self._pid: int | None = None

    def open(self, name: str, expressways: int, *, keep: bool = False) -> Entry:
        """Create the topics of a trial."""
        source, answers = (Topic.parse(f"kafka:{self._server}/{topic}") for topic in (name, f"{name}-answers"))
        partitions = min(psutil.cpu_count() or 1, expressways)
        if not keep:
            self._delete(source.name, answers.name)
        self._create(source.name, partitions, {})
        self._create(answers.name, partitions, {"message.timestamp.type": "LogAppendTime"})
        return Entry(str(source), partitions, str(answers))

    def close(self, entry: Entry) -> None:
        """Delete the topics."""
        self._delete(Topic.parse(entry.source).name, Topic.parse(entry.answers).name)

    def server(self) -> int | None:
        """Return the broker, if it runs on this machine."""
        if self._pid is None:
            self._pid = find_listener(int(self._server.rpartition(":")[2]))
        return self._pid

    @cached_property
    def _admin(self) -> Any:
        """A client that lives as long as its requests."""
        from confluent_kafka.admin import AdminClient

        return AdminClient(Topic.parse(f"kafka:{self._server}/any").client())

    def _create(self, topic: str, partitions: int, settings: dict[str, str]) -> None:
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.cimpl import NewTopic

        config = {"retention.ms": "-1", "retention.bytes": str(_KEPT_BYTES), **settings}
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            made = self._admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic]
            try:
                made.result(TIMEOUT_S)
                return
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise self._describe(error) from error
                if topic in self._list_topics():
                    return
                if time.monotonic() > deadline:
                    raise Unavailable(
                        f"{self._server}: topic {topic} is still being deleted.", code="broker-unreachable"
                    ) from error
                time.sleep(0.2)  # it is being deleted

    def _list_topics(self) -> dict[str, Any]:
        from confluent_kafka import KafkaException

        try:
            return dict(self._admin.list_topics(timeout=TIMEOUT_S).topics)
        except KafkaException as error:
            raise self._describe(error) from error

    def _describe(self, error: Exception) -> Unavailable:
        """Describe what a broker answered, or that it did not."""
        return Unavailable(f"{self._server}: {error.args[0].str()}.", hint="Is it running?", code="broker-unreachable")

    def _delete(self, *topics: str) -> None:
        from confluent_kafka import KafkaException

        there = [topic for topic in topics if topic in self._list_topics()]
        for made in self._admin.delete_topics(there).values() if there else ():
            try:
                made.result(TIMEOUT_S)
            except KafkaException as error:
                raise self._describe(error) from error
        deadline = time.monotonic() + TIMEOUT_S
        while any(topic in self._list_topics() for topic in there) and time.monotonic() < deadline:
            time.sleep(0.1)


@contextmanager
def find_door(name: str, broker: str = "", *, stays: bool = False) -> Iterator[Door]:
    """Yield the door called ``name``; without a name, a topic where a broker can be started, else TCP.

    A broker that this starts is stopped at the end, unless it ``stays`` because what was interrupted may be resumed.
    """
    if name not in ("", KAFKA, TCP):
        raise BadArgument(f"--door {name}: no such door.", hint=f"Use {KAFKA} or {TCP}.", code="unknown-value")
    if name == TCP and not broker:
        yield TcpDoor()
        return
    if broker:
        Topic.parse(f"kafka:{broker}/any").check_broker()
        yield KafkaDoor(broker)
        return
    running = _run_script("status").returncode == 0
    started = _run_script("start")
    if started.returncode:
        why = (started.stderr.strip().splitlines() or ["no answer"])[-1]
        if name == KAFKA:
            raise Unavailable(
                f"No broker could be started: {why}", hint="Name one: --broker HOST:PORT.", code="broker-unreachable"
            )
        say(f"No broker could be started ({why}); rating through TCP instead.")
        yield TcpDoor()
        return
    ended = False
    try:
        yield KafkaDoor(started.stdout.strip())
        ended = True
    finally:
        if not running and (ended or not stays):
            _run_script("stop")
        elif not running:
            say("The broker keeps running, with what was sent; scripts/kafka.sh stop ends it.")


def _run_script(word: str) -> subprocess.CompletedProcess[str]:
    """Run scripts/kafka.sh; a package without it cannot start a broker."""
    if not SCRIPT.exists() or not os.access(SCRIPT, os.X_OK):
        return subprocess.CompletedProcess([], 4, "", "this installation has no scripts/kafka.sh")
    return subprocess.run([SCRIPT, word], capture_output=True, text=True, check=False)
