"""Lines to a real topic: each once, in order, whatever interrupts a batch and whoever else sends there."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from linear_road.test_kafka import received
from services import service
from slipstream.errors import Unavailable
from slipstream.failpoints import TOPIC_POINTS, VARIABLE
from slipstream.io.kafka import Topic
from slipstream.io.publisher import Publisher

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
    with pytest.raises(Unavailable, match="does not answer"):
        Publisher(Topic.parse("kafka:127.0.0.1:1/nowhere"), "one")
