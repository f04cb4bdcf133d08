"""Lines to a real topic: each once, in order, whatever interrupts a batch and whoever else sends there."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from linear_road.test_kafka import received
from services import service
from slipstream._errors import Unavailable
from slipstream._io.kafka_client import Topic
from slipstream._io.outputs.journal import InDoubt
from slipstream._io.outputs.kafka import Publisher
from slipstream._tools.processes.failpoints import TOPIC_POINTS, VARIABLE

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    yield from service("kafka")


@pytest.fixture
def topic(broker: str) -> Topic:
    return Topic.parse(f"kafka:{broker}/out-{uuid.uuid4().hex}")


def lines(job: str, batch: int) -> list[bytes]:
    return [f"{job} {batch} {number}\n".encode() for number in range(3)]


def sent(topic: Topic, count: int) -> list[bytes]:
    return received(topic.servers, topic.name, count)


@pytest.mark.parametrize("point", TOPIC_POINTS)
def test_a_batch_that_is_repeated_is_sent_once(
    point: str, topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Publisher(topic, "one").publish(0, lines("one", 0))
    monkeypatch.setenv(VARIABLE, f"{point}:{tmp_path / 'reached'}:EIO")
    with pytest.raises(OSError, match="Input/output error"):
        Publisher(topic, "one").publish(1, lines("one", 1))
    again = Publisher(topic, "one")
    again.publish(1, lines("one", 1))
    again.publish(1, lines("one", 1))
    again.publish(2, [])
    again.publish(3, lines("one", 3))
    expected = [line.strip() for batch in (0, 1, 3) for line in lines("one", batch)]
    assert sent(topic, len(expected) + 1) == expected


KEYS = [b"a", b"b", b"c", b"d", b"e"]


def keyed(batch: int) -> list[bytes]:
    return [key + b" %d %d" % (batch, again) for again in range(2) for key in KEYS]


@pytest.mark.parametrize("forgotten", [False, True])
@pytest.mark.parametrize("point", TOPIC_POINTS)
def test_messages_with_keys_go_to_all_partitions_once_and_in_order(
    point: str, forgotten: bool, topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the broker has forgotten which batch it got: then the messages say so."""
    make_topic(topic, 3)
    Publisher(topic, "one").publish(0, keyed(0), KEYS * 2)
    monkeypatch.setenv(VARIABLE, f"{point}:{tmp_path / 'reached'}:EIO")
    with pytest.raises(OSError, match="Input/output error"):
        Publisher(topic, "one").publish(1, keyed(1), KEYS * 2)
    if forgotten:
        forget(topic, "slipstream-one")
    Publisher(topic, "one", InDoubt(1, 0)).publish(1, keyed(1), KEYS * 2)
    found = by_partition(topic, 4 * len(KEYS) + 1)
    assert sorted(line for lines in found.values() for line in lines) == sorted(keyed(0) + keyed(1))
    assert len(found) > 1
    for lines in found.values():
        for key in KEYS:
            mine = [line for line in lines if line.startswith(key)]
            assert mine in ([], [line for line in keyed(0) + keyed(1) if line.startswith(key)])


def test_messages_without_keys_are_spread_once(topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message goes to the same partition whenever it is sent, so those of a partition are in order."""
    make_topic(topic, 3)
    first, second = ([b"%d %d" % (batch, number) for number in range(60)] for batch in range(2))
    Publisher(topic, "one").publish(0, first)
    monkeypatch.setenv(VARIABLE, f"topic.before-commit:{tmp_path / 'reached'}:EIO")
    with pytest.raises(OSError, match="Input/output error"):
        Publisher(topic, "one").publish(1, second)
    Publisher(topic, "one", InDoubt(1, 0)).publish(1, second)
    found = by_partition(topic, 121)
    assert len(found) == 3
    assert sorted(line for lines in found.values() for line in lines) == sorted(first + second)
    for lines in found.values():
        assert lines == [line for line in first + second if line in lines]


def make_topic(topic: Topic, partitions: int) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin: Any = AdminClient({"bootstrap.servers": topic.servers})
    admin.create_topics([NewTopic(topic.name, partitions)])[topic.name].result(30)


def forget(topic: Topic, group: str) -> None:
    from confluent_kafka.admin import AdminClient

    admin: Any = AdminClient({"bootstrap.servers": topic.servers})
    admin.delete_consumer_groups([group])[group].result(30)


def by_partition(topic: Topic, count: int) -> dict[int, list[bytes]]:
    """The committed messages of each partition, in order."""
    from confluent_kafka import Consumer

    reading = {"group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    consumer: Any = Consumer(topic.client(**reading))
    consumer.subscribe([topic.name])
    found: dict[int, list[bytes]] = {}
    # one more than there should be is waited for in vain
    while sum(map(len, found.values())) < count and (message := consumer.poll(8)) is not None:
        assert not message.error()
        found.setdefault(message.partition(), []).append(message.value())
    consumer.close()
    return found


def test_jobs_that_share_a_topic_do_not_mix_up_their_batches(topic: Topic) -> None:
    one, other = Publisher(topic, "one"), Publisher(topic, "other")
    for batch in range(2):
        one.publish(batch, lines("one", batch))
    other.publish(0, lines("other", 0))
    Publisher(topic, "one").publish(1, lines("one", 1))
    Publisher(topic, "other").publish(1, lines("other", 1))
    expected = [*lines("one", 0), *lines("one", 1), *lines("other", 0), *lines("other", 1)]
    assert sent(topic, len(expected) + 1) == [line.strip() for line in expected]


def test_a_broker_that_does_not_answer_is_told() -> None:
    with pytest.raises(Unavailable, match="does not respond"):
        Publisher(Topic.parse("kafka:127.0.0.1:1/nowhere"), "one")
