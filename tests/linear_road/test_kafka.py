"""The engine between two topics of a real Kafka broker."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from linear_road.test_query import output_lines
from oracles.linear_road import answers
from oracles.streams import busy_stream
from services import service
from slipstream.bench.encodings import ENCODINGS
from slipstream.feeds.text import import_text

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    yield from service("kafka")


def send(broker: str, topic: str, messages: list[bytes]) -> None:
    from confluent_kafka import Producer

    producer: Any = Producer({"bootstrap.servers": broker})
    for message in messages:
        producer.produce(topic, message, partition=0)
    assert producer.flush(60) == 0


def received(broker: str, topic: str, count: int) -> list[bytes]:
    from confluent_kafka import Consumer

    consumer = Consumer({"bootstrap.servers": broker, "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes] = []
    while len(found) < count and (message := consumer.poll(20)) is not None:
        assert not message.error()
        found.append(message.value() or b"")
    consumer.close()
    return found


@pytest.mark.parametrize("encoding", ["text", "json", "train"])
def test_a_topic_is_tolled_into_another(broker: str, encoding: str, tmp_path: Path) -> None:
    feed = list(busy_stream(1))
    (tmp_path / "feed.dat").write_text("\n".join(feed))
    run = import_text(tmp_path / "feed.dat", tmp_path / "run")
    from slipstream.bench.driver import seconds_of

    form = ENCODINGS[encoding]
    messages = [m for _, table in seconds_of(run, run.manifest.seconds) for m in form.messages(form.encode(table))]
    source, target = (f"{name}-{uuid.uuid4().hex}" for name in ("in", "out"))
    send(broker, source, [*messages, b""])
    out = tmp_path / "out"
    command = [sys.executable, "-m", "slipstream", "toll", f"kafka:{broker}/{source}", "--out", str(out)]
    command += ["--encoding", encoding, "--sink", f"kafka:{broker}/{target}"]
    for _ in range(2):  # the second start finds everything done and sends nothing twice
        done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
        assert done.returncode == 0, done.stderr
    expected = sorted(answers(feed).outputs)
    assert sorted(output_lines(out)) == expected
    lines = received(broker, target, len(expected))
    assert b"\n".join(lines) + b"\n" == (out / "output.csv").read_bytes()
