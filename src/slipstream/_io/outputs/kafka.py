"""Publishing lines to a Kafka topic exactly once: a batch is one transaction, which also commits the batch's number.

The number is stored as a consumer offset in the name of the publisher, as part of the transaction. A batch that is
repeated after a crash finds its number committed, and sends nothing.

Brokers drop the offsets of consumers that have been inactive for a week. Every message therefore also has a header with
its batch, which a publisher checks if it finds no offset after a crash.

Messages with a key go to all partitions of a topic, by the hash of the key that Kafka's own clients use: those with the
same key stay in order. Messages without one are spread by a hash of their contents: those of a partition stay in order.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from slipstream._errors import Unavailable
from slipstream._io.kafka_client import TIMEOUT_S, Topic
from slipstream._io.outputs.journal import InDoubt
from slipstream._tools.processes.failpoints import failpoint

#: the header of every message, with the name of the publisher, a slash, and the number of the batch
HEADER = "slipstream-batch"
#: the tolerated difference between the clocks of brokers and ours, in milliseconds
_CLOCKS = 3_600_000


class Publisher:
    """Sends the lines of a job's batches to a topic.

    Each publisher of a job has its own ``name``, the same at every start.
    """

    def __init__(self, topic: Topic, name: str, doubt: InDoubt | None = None) -> None:
        from confluent_kafka import Consumer, Producer, TopicPartition

        self._topic, self._name = topic, f"slipstream-{name}"
        ours = {"transactional.id": f"{self._name}-{topic.name}", "partitioner": "murmur2_random"}
        self._producer: Any = Producer(topic.client(**ours))
        group = {"group.id": self._name, "isolation.level": "read_committed", "enable.auto.commit": False}
        reading = {"enable.partition.eof": True, "auto.offset.reset": "earliest"}
        self._consumer: Any = Consumer(topic.client(**group, **reading))
        self._place = TopicPartition
        self._partitions = 0  # of the topic, once it is known
        with self._report_broker_errors():
            self._producer.init_transactions(TIMEOUT_S)
            self._next = self._find_first_unsent(doubt)

    def publish(self, batch: int, lines: Sequence[bytes], keys: Sequence[bytes] | None = None) -> None:
        """Send the lines of a batch, with their keys if there are any, unless they were sent before."""
        if batch < self._next or not lines:
            return
        with self._report_broker_errors():
            failpoint("topic.before-send")
            self._producer.begin_transaction()
            headers = [(HEADER, self._mark(batch))]
            places: Iterable[dict[str, Any]] = ({"key": key} for key in keys) if keys else self._spread(lines)
            for line, place in zip(lines, places, strict=True):
                self._produce(line.removesuffix(b"\n"), {"headers": headers, **place})
            mark = self._place(self._topic.name, 0, batch + 1)
            self._producer.send_offsets_to_transaction([mark], self._consumer.consumer_group_metadata(), TIMEOUT_S)
            failpoint("topic.before-commit")
            self._producer.commit_transaction(TIMEOUT_S)
            failpoint("topic.after-commit")
        self._next = batch + 1

    def _spread(self, lines: Sequence[bytes]) -> Iterator[dict[str, Any]]:
        """A partition for each line, by its hash; a topic that is made by its first message has one for now."""
        if not self._partitions:
            found = self._producer.list_topics(self._topic.name, TIMEOUT_S).topics[self._topic.name].partitions
            self._partitions = len(found)
        return ({"partition": zlib.crc32(line) % max(self._partitions, 1)} for line in lines)

    def _mark(self, batch: int) -> bytes:
        return f"{self._name}/{batch}".encode()

    def _produce(self, line: bytes, more: dict[str, Any]) -> None:
        try:
            self._producer.produce(self._topic.name, line, **more)
        except BufferError:
            self._producer.flush(TIMEOUT_S)
            self._producer.produce(self._topic.name, line, **more)

    def _find_first_unsent(self, doubt: InDoubt | None) -> int:
        """The first batch that the topic does not have."""
        offset = self._read_committed()
        if offset >= 0 or doubt is None:
            return max(offset, 0)
        return doubt.batch + self._has_messages(doubt)

    def _read_committed(self) -> int:
        """The offset that the last transaction committed; retries while a broker that has just started loads it."""
        from confluent_kafka import KafkaError, KafkaException

        coordinating = (
            KafkaError.NOT_COORDINATOR,
            KafkaError.COORDINATOR_NOT_AVAILABLE,
            KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        )
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                (found,) = self._consumer.committed([self._place(self._topic.name, 0)], timeout=TIMEOUT_S)
                return int(found.offset)
            except KafkaException as error:
                if error.args[0].code() not in coordinating or time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def _has_messages(self, doubt: InDoubt) -> bool:
        """Whether the topic has messages of a batch."""
        from confluent_kafka import KafkaError, KafkaException

        unread = set(self._consumer.list_topics(self._topic.name, TIMEOUT_S).topics[self._topic.name].partitions)
        since = max(doubt.since_ms - _CLOCKS, 0)
        places = [self._place(self._topic.name, partition, since) for partition in unread]
        # the topic is created with the first message
        self._consumer.assign(self._consumer.offsets_for_times(places, TIMEOUT_S) if places else [])
        while unread:
            message = self._consumer.poll(TIMEOUT_S)
            if message is None:
                raise Unavailable(
                    f"{self._topic}: the broker does not respond.",
                    hint="Start it and run the command again.",
                    code="broker-unreachable",
                )
            if error := message.error():
                if error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                unread.discard(message.partition())
            elif (HEADER, self._mark(doubt.batch)) in (message.headers() or []):
                return True
        return False

    @contextmanager
    def _report_broker_errors(self) -> Iterator[None]:
        from confluent_kafka import KafkaException

        try:
            yield
        except KafkaException as error:
            raise Unavailable(
                f"{self._topic}: the broker does not respond ({error.args[0].str()}).",
                hint="Start it and run the same command again to resume; no line is lost or sent twice.",
                code="broker-unreachable",
            ) from error
