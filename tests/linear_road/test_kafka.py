"""The engine between two topics of a real Kafka broker."""

from __future__ import annotations

import base64
import io
import json
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest

from linear_road.test_query import output_lines
from oracles.linear_road import answers, parse_line
from oracles.streams import busy_stream
from registry_server import registry
from services import service
from slipstream._bench.driving.encoders import ENCODINGS
from slipstream._feeds.tuple_text import import_text
from slipstream._feeds.tuples import FIELDS
from slipstream._io.formats.registry import wrap
from slipstream._linear_road.answer_text import REJECTED

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    yield from service("kafka")


def send(broker: str, topic: str, messages: list[bytes], partitions: int = 1) -> None:
    """Messages in turn to the partitions of a topic, which is made for them."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin: Any = AdminClient({"bootstrap.servers": broker})
    admin.create_topics([NewTopic(topic, partitions)])[topic].result(30)
    send_more(broker, topic, messages, partitions)


def send_more(broker: str, topic: str, messages: list[bytes], partitions: int = 1) -> None:
    """The same to a topic that is there."""
    from confluent_kafka import Producer

    producer: Any = Producer({"bootstrap.servers": broker})
    for number, message in enumerate(messages):
        producer.produce(topic, message, partition=number % partitions)
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
    from slipstream._bench.driving.driver import read_seconds

    form = ENCODINGS[encoding]
    messages = [m for _, table in read_seconds(run, run.manifest.seconds) for m in form.messages(form.encode(table))]
    source, target = (f"{name}-{uuid.uuid4().hex}" for name in ("in", "out"))
    send(broker, source, [*messages, b""])
    out = tmp_path / "out"
    command = [sys.executable, "-m", "slipstream", "toll", f"kafka:{broker}/{source}", "--out", str(out)]
    command += ["--format", encoding, "--to", f"kafka:{broker}/{target}"]
    for _ in range(2):  # the second start finds everything done and sends nothing twice
        done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
        assert done.returncode == 0, done.stderr
    expected = sorted(answers(feed).outputs)
    assert sorted(output_lines(out)) == expected
    lines = received(broker, target, len(expected))
    assert b"\n".join(lines) + b"\n" == (out / "output.csv").read_bytes()


SECRET = "not-to-be-written-anywhere"


def car(line: str) -> dict[str, int]:
    """A tuple under names of somebody else."""
    row = dict(zip(FIELDS, map(int, line.split(",")), strict=True))
    return {"car" if name == "vid" else name: value for name, value in row.items() if name != "seg"}


AVSC = {
    "type": "record",
    "name": "Car",
    "fields": [{"name": "car" if name == "vid" else name, "type": "int"} for name in FIELDS if name != "seg"],
}


@pytest.mark.parametrize("encoding", ["text", "avro"])
def test_all_partitions_are_read_at_once_and_no_secret_is_written(broker: str, encoding: str, tmp_path: Path) -> None:
    """A topic of three partitions into two fragments; lateness counts within a partition. Avro by a registry."""
    feed = [line for line in busy_stream(1) if line.count(",") == 14 and not line.startswith("4")]
    lanes = [number % 3 for number in range(len(feed))]
    topic, out = f"in-{uuid.uuid4().hex}", tmp_path / "out"
    config = tmp_path / "kafka.conf"
    config.write_text(f"client.id={SECRET}\nschema.registry.basic.auth.user.info=me:{SECRET}\n")
    command = [sys.executable, "-m", "slipstream", "toll", f"kafka:{broker}/{topic}", "--out", str(out)]
    command += ["--format", encoding, "--parallel", "2", "--kafka-config", str(config)]
    with registry() as schemas:
        if encoding == "avro":
            schemas.register(topic, 9, "AVRO", json.dumps(AVSC))
            command += ["--schema-registry", schemas.url, "--columns", "vid=car"]
            feed = [line for line in feed if parse_line(line)[0]]
            lanes = [number % 3 for number in range(len(feed))]
            send(broker, topic, [wrap(9, avro(car(line))) for line in feed], 3)
        else:
            send(broker, topic, [line.encode() for line in feed], 3)
        done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    expected = answers(feed, lanes=lanes)
    rejected = Counter(line.partition(",")[0] for line in (out / REJECTED).read_text().splitlines())
    assert rejected == Counter(reason for _, reason in expected.rejects)
    assert sorted(output_lines(out)) == sorted(expected.outputs)
    if encoding == "avro":
        assert {said for _, said in schemas.asked} == {"Basic " + base64.b64encode(f"me:{SECRET}".encode()).decode()}
    assert SECRET not in done.stderr
    assert SECRET not in done.stdout
    for file in (file for file in out.rglob("*") if file.is_file()):
        assert SECRET.encode() not in file.read_bytes(), file


def avro(row: dict[str, int]) -> bytes:
    data = io.BytesIO()
    fastavro.schemaless_writer(data, fastavro.parse_schema(AVSC), row)
    return data.getvalue()
