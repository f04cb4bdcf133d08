"""A Kafka topic as a Spark streaming source, through librdkafka.

Offsets are Kafka's own, kept in Spark's offset log, so what was read is read again after a crash and only that; no
consumer group commits anything. Spark's JVM connector would need jars that match Spark to the digit; this needs none.
A feed has one order, and Kafka keeps order within a partition: a feed belongs on one partition. Of several, messages
are taken in the order of their timestamps.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from slipstream.errors import Unavailable
from slipstream.feeds.kafka import PATIENCE, Topic
from slipstream.tolls.lines import ARROW, COLUMNS

OPTION = "topic"
MOST_MESSAGES = 400_000

Offset = dict[str, Any]


@dataclass(frozen=True)
class Subscription:
    """What to read, and up to where; travels to Spark as an option."""

    topic: Topic
    follow: bool
    encoding: str
    until: dict[str, int] | None = None

    def until_now(self, file: Path) -> Subscription:
        """Unless it follows, a subscription ends where the topic ended at its first start."""
        if self.follow:
            return self
        if not file.exists():
            ends = {str(partition): high for partition, (_, high) in watermarks(self.topic).items()}
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(ends), encoding="utf-8")
        return replace(self, until=json.loads(file.read_text(encoding="utf-8")))

    def to_json(self) -> str:
        """As text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Subscription:
        """From text."""
        body = json.loads(text)
        return cls(**{**body, "topic": Topic(**body["topic"])})


def consumer(topic: Topic) -> Any:
    """A consumer that belongs to no group and remembers nothing."""
    from confluent_kafka import Consumer

    settings = {"bootstrap.servers": topic.servers, "group.id": "slipstream", "enable.auto.commit": False}
    return Consumer({**settings, "isolation.level": "read_committed", "enable.partition.eof": True, "log_level": 0})


def watermarks(topic: Topic) -> dict[int, tuple[int, int]]:
    """The first and the next offset of every partition."""
    from confluent_kafka import KafkaException, TopicPartition

    reader = consumer(topic)
    try:
        found = reader.list_topics(topic.name, timeout=PATIENCE).topics[topic.name]
        if found.error is not None:
            raise Unavailable(f"{topic}: no such topic ({found.error.str()}).", hint="Start the feed first.")
        return {
            number: reader.get_watermark_offsets(TopicPartition(topic.name, number), timeout=PATIENCE)
            for number in found.partitions
        }
    except KafkaException as error:
        raise Unavailable(f"{topic}: no broker answers.", hint="Is it running? scripts/kafka.sh start") from error
    finally:
        reader.close()


@dataclass
class Stretch(InputPartition):
    """From where to where to read each partition, and whether that is all there will be."""

    stretches: list[tuple[int, int, int]]
    last: bool


class TopicSource(DataSource):
    """The source under the name ``slipstream-topic``."""

    @classmethod
    def name(cls) -> str:
        """Its name for Spark."""
        return "slipstream-topic"

    def schema(self) -> str:
        """Chunks of messages."""
        return COLUMNS

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: ARG002, N802
        """The reader of one query."""
        return TopicReader(Subscription.from_json(self.options[OPTION]))


class TopicReader(DataSourceStreamReader):
    """Plans batches by the topic's watermarks, and reads them in one task, for their order."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription

    def initialOffset(self) -> Offset:  # noqa: N802
        """The oldest messages there are."""
        marks = watermarks(self._subscription.topic)
        return {"at": {str(number): low for number, (low, _) in marks.items()}, "ended": False}

    def latestOffset(self, start: Offset, limit: Any) -> Offset:  # noqa: ARG002, N802
        """As many messages as there are, up to the size of a batch."""
        if start["ended"]:
            return start
        until = self._subscription.until
        ends = until or {str(n): high for n, (_, high) in watermarks(self._subscription.topic).items()}
        at = {n: min(end, start["at"].get(n, 0) + MOST_MESSAGES) for n, end in ends.items()}
        return {"at": at, "ended": until is not None and at == until}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """One task reads all, in order."""
        stretches = [(int(n), start["at"].get(n, 0), last) for n, last in end["at"].items()]
        wanted = [stretch for stretch in stretches if stretch[2] > stretch[1]]
        last = bool(end["ended"]) and not start["ended"]
        return [Stretch(wanted, last)] if wanted or last else []

    def read(self, partition: Stretch) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        """The messages as one chunk; an empty message says that nothing more will come."""
        reader = consumer(self._subscription.topic)
        try:
            found = [
                m for stretch in partition.stretches for m in _messages(reader, self._subscription.topic, *stretch)
            ]
        finally:
            reader.close()
        if len(partition.stretches) > 1:
            found.sort(key=lambda message: message[0])
        values = [value for _, value in found]
        glue = b"" if self._subscription.encoding == "train" else b"\n"
        last = partition.last or b"" in values
        chunk = glue.join(value for value in values if value)
        yield pa.record_batch([[0], [0], [chunk], [last]], schema=ARROW)


def _messages(reader: Any, topic: Topic, number: int, first: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Timestamps and values of the messages of a partition from ``first`` up to before ``end``."""
    from confluent_kafka import TopicPartition

    reader.assign([TopicPartition(topic.name, number, first)])
    while True:
        batch = reader.consume(num_messages=20_000, timeout=PATIENCE)
        if not batch:
            raise Unavailable(f"{topic}: the broker went away.", hint="Start it and run the same command again.")
        for message in batch:
            at_end = message.error() is not None
            if at_end or message.offset() >= end:
                return
            yield message.timestamp()[1], message.value() or b""
            if message.offset() == end - 1:
                return
