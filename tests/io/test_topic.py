"""Messages of a partition are read to the planned offset and no further, whatever else the client still holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import KafkaError

from slipstream._errors import Unavailable
from slipstream._io.kafka_client import Topic
from slipstream._io.readers import topic

TOPIC = Topic("127.0.0.1:1", "cars")


@dataclass
class Message:
    """As librdkafka gives it; a value of None is the word that the partition has no more, or another error."""

    number: int
    at: int
    text: bytes | None = b""
    code: int = KafkaError._PARTITION_EOF

    def partition(self) -> int:
        return self.number

    def offset(self) -> int:
        return self.at

    def value(self) -> bytes | None:
        return self.text

    def timestamp(self) -> tuple[int, int]:
        return 1, 1000 + self.at

    def error(self) -> KafkaError | None:
        return KafkaError(self.code) if self.text is None else None


@dataclass
class Client:
    """What consuming gives, call by call: no broker can be made to do this when it is wanted."""

    answers: list[list[Message]]
    assigned: list[Any] = field(default_factory=list)

    def consume(self, num_messages: int, timeout: float) -> list[Message]:
        return self.answers.pop(0)


def read(number: int, first: int, end: int, *answers: list[Message]) -> list[bytes]:
    return topic._consume(Client(list(answers)), TOPIC, number, first, end).values


def test_what_is_left_of_another_partition_is_not_taken_for_this_one() -> None:
    """Neither its messages nor its end: both would lose messages without a word."""
    left = [Message(0, 900, b"old"), Message(0, 901, None)]
    assert read(2, 5, 7, left, [Message(2, 5, b"a")], left, [Message(2, 6, b"b")]) == [b"a", b"b"]


def test_an_end_before_the_planned_one_is_not_the_end() -> None:
    assert read(2, 5, 7, [Message(2, 5, b"a"), Message(2, 6, None)], [Message(2, 6, b"b")]) == [b"a", b"b"]


def test_the_last_offsets_may_be_marks_of_transactions() -> None:
    assert read(2, 5, 9, [Message(2, 5, b"a"), Message(2, 9, None)]) == [b"a"]


def test_messages_that_came_since_are_left_for_the_next_batch() -> None:
    assert read(2, 5, 7, [Message(2, n, b"%d" % n) for n in range(5, 9)]) == [b"5", b"6"]


def test_an_error_is_told() -> None:
    with pytest.raises(Unavailable, match="cars"):
        read(2, 5, 7, [Message(2, 5, None, KafkaError._ALL_BROKERS_DOWN)])


def test_a_setting_of_the_user_replaces_tuning_but_not_what_correctness_needs() -> None:
    mine = TOPIC.with_settings([("fetch.wait.max.ms", "500"), ("isolation.level", "read_uncommitted")])
    settings = mine.client(topic._TUNING, **{"isolation.level": "read_committed"})
    assert settings["fetch.wait.max.ms"] == "500"
    assert settings["isolation.level"] == "read_committed"
    assert settings["fetch.queue.backoff.ms"] == topic._TUNING["fetch.queue.backoff.ms"]
