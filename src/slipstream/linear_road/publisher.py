"""Answers to a topic: the committed lines of ``output.csv``, each once.

It stays so across a crash, because each transaction carries how far it got.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slipstream.errors import Unavailable
from slipstream.failpoints import failpoint
from slipstream.io.kafka import PATIENCE, Topic
from slipstream.linear_road.sink import TEXT, last_batch

_POSITION = "slipstream-position"


class Publisher:
    """Sends the committed lines of ``output.csv`` to a topic, each once."""

    def __init__(self, topic: Topic, out: Path) -> None:
        from confluent_kafka import KafkaException, Producer

        self._topic, self._out = topic, out
        self._error = KafkaException
        self._producer: Any = Producer(topic.client(**{"transactional.id": f"slipstream-{topic.name}"}))
        try:
            self._producer.init_transactions(PATIENCE)
        except KafkaException as error:
            raise Unavailable(f"{topic}: no broker answers.", hint="Start it: scripts/kafka.sh start") from error
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
                f"{self._topic}: the broker went away.",
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

        settings = {"group.id": "slipstream", "isolation.level": "read_committed", "enable.auto.commit": False}
        consumer = Consumer(self._topic.client(**settings))
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
