"""How many tuples per second a network takes from a Kafka topic with four partitions: filter, map and window.

The topic is full before the engine starts; what counts is the time from its first batch to its last.
"""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from measure import machine
from services import service
from slipstream._io.chunks import to_arrow_stream
from slipstream._network.running.run_folder import Execution

pytestmark = pytest.mark.bench

PARTITIONS, TUPLES, TOGETHER = 4, 3_000_000, 2_000
NETWORK = """
network: slow_segments
version: 1
sources:
  cars: {id: integer, time: integer, seg: integer, spd: float}
boxes:
  slow: {filter: [spd < 40], from: cars}
  metric: {map: {time: time, seg: seg, kmh: spd * 1.609}, from: slow}
  counted:
    aggregate: {cars: count(*), mean: avg(kmh)}
    order: {on: time, group_by: [seg]}
    size: 60
    from: metric
outputs:
  segments: {from: counted}
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    yield from service("kafka")


def reports() -> pa.Table:
    number = np.arange(TUPLES)
    return pa.table(
        {"id": number % 50_000, "time": number // 10_000, "seg": number % 100, "spd": number * 7 % 80 + 0.5}
    )


def in_csv(table: pa.Table) -> bytes:
    from pyarrow import csv

    sink = pa.BufferOutputStream()
    csv.write_csv(table, sink, csv.WriteOptions(include_header=False))
    return sink.getvalue().to_pybytes()


def in_json(table: pa.Table) -> bytes:
    return "\n".join(json.dumps(row) for row in table.to_pylist()).encode()


def fill(broker: str, topic: str, encode: Callable[[pa.Table], bytes], together: int) -> None:
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    admin: Any = AdminClient({"bootstrap.servers": broker})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    producer: Any = Producer({"bootstrap.servers": broker, "linger.ms": 20, "queue.buffering.max.kbytes": 1 << 20})
    table = reports()
    for number, first in enumerate(range(0, TUPLES, TOGETHER)):
        data = encode(table.slice(first, TOGETHER))
        for message in [data] if together > 1 else data.splitlines():
            while True:
                try:
                    producer.produce(topic, message, partition=number % PARTITIONS)
                    break
                except BufferError:
                    producer.poll(0.1)
    assert producer.flush(120) == 0


def rate(broker: str, topic: str, encoding: str, folder: Path) -> float:
    folder.mkdir()
    (folder / "net.yaml").write_text(NETWORK)
    source = f"cars=kafka:{broker}/{topic}"
    command = [sys.executable, "-m", "slipstream", "network", "run", folder / "net.yaml", "--input", source]
    command += ["--format", encoding, "--out", folder / "out"]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    run = Execution.open(folder / "out")
    entries = run.monitor.entries()
    assert sum(entry["taken"].get("cars", 0) for entry in entries) == TUPLES
    assert run.monitor.rejected()[0] == 0
    lines = [json.loads(line) for line in (folder / "out" / "metrics.jsonl").read_text().splitlines()]
    seconds = sum(line["commit_ms"] for line in lines if line["batch"] >= entries[0]["batch"]) / 1000
    return TUPLES / seconds


@pytest.mark.parametrize(
    ("encoding", "encode", "together"),
    [("arrow", to_arrow_stream, TOGETHER), ("csv", in_csv, TOGETHER), ("csv", in_csv, 1), ("json", in_json, 1)],
)
def test_tuples_per_second_from_a_topic(
    broker: str, encoding: str, encode: Callable[[pa.Table], bytes], together: int, tmp_path: Path
) -> None:
    topic = f"cars-{uuid.uuid4().hex}"
    fill(broker, topic, encode, together)
    found = rate(broker, topic, encoding, tmp_path / "run")
    print(f"\n{machine()}\n{encoding}, {together:,} tuples per message, {PARTITIONS} partitions: {found:,.0f} tuples/s")
