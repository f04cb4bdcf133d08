"""Lines to a Kafka topic, each once: a batch is one transaction, which also commits the batch's number.

The number is kept as Kafka keeps the offsets of consumers: in the name of the job, as part of the transaction. A batch
that is repeated after a crash finds its number committed, and sends nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from slipstream.errors import Unavailable
from slipstream.failpoints import failpoint
from slipstream.io.kafka import PATIENCE, Topic


class Publisher:
    """Sends the lines of a job's batches to partition 0 of a topic, in order."""

    def __init__(self, topic: Topic, job: str) -> None:
        from confluent_kafka import Consumer, Producer, TopicPartition

        self._topic = topic
        name = f"slipstream-{job}"
        self._producer: Any = Producer(topic.client(**{"transactional.id": f"{name}-{topic.name}"}))
        group = {"group.id": name, "isolation.level": "read_committed", "enable.auto.commit": False}
        self._consumer: Any = Consumer(topic.client(**group))
        self._place = TopicPartition
        with self._reaching():
            self._producer.init_transactions(PATIENCE)
            self._next = self._committed()

    def publish(self, batch: int, lines: Sequence[bytes]) -> None:
        """Send the lines of a batch, unless they were sent before."""
        if batch < self._next or not lines:
            return
        with self._reaching():
            failpoint("topic.before-send")
            self._producer.begin_transaction()
            for line in lines:
                self._produce(line.removesuffix(b"\n"))
            mark = self._place(self._topic.name, 0, batch + 1)
            self._producer.send_offsets_to_transaction([mark], self._consumer.consumer_group_metadata(), PATIENCE)
            failpoint("topic.before-commit")
            self._producer.commit_transaction(PATIENCE)
            failpoint("topic.after-commit")
        self._next = batch + 1

    def close(self) -> None:
        """Leave the brokers."""
        self._consumer.close()

    def _produce(self, line: bytes) -> None:
        try:
            self._producer.produce(self._topic.name, line, partition=0)
        except BufferError:
            self._producer.flush(PATIENCE)
            self._producer.produce(self._topic.name, line, partition=0)

    def _committed(self) -> int:
        """The first batch that the topic has not got."""
        (found,) = self._consumer.committed([self._place(self._topic.name, 0)], timeout=PATIENCE)
        return max(int(found.offset), 0)  # negative: never

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        from confluent_kafka import KafkaException

        try:
            yield
        except KafkaException as error:
            raise Unavailable(
                f"{self._topic}: the broker does not answer ({error.args[0].str()}).",
                hint="Start it and run the same command again to resume; no line is lost or sent twice.",
            ) from error
