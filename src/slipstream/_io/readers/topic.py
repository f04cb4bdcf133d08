"""A Kafka topic as a Spark streaming source, through librdkafka.

Offsets are Kafka's own, stored in Spark's offset log, so a crash repeats exactly what was read; no consumer group
commits anything. Spark's JVM connector would need jars that match the exact version of Spark; this needs none. A
message arrived at its timestamp. Each task reads some of the partitions. Kafka keeps messages in order within a
partition, so partitions are lanes; without lanes, the messages of a task are in the order of their arrival.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from slipstream._errors import BadArgument, BadInput, Unavailable
from slipstream._io.chunks import ARRIVALS_MS, BEHIND, CAUGHT_UP, COLUMNS, LAST, Chunk, ChunkReader, Offset
from slipstream._io.formats.encodings import find_joiner
from slipstream._io.kafka_client import TIMEOUT_S, Topic
from slipstream._tools.files.staging import atomic_write
from slipstream._tools.progress import say

OPTION = "topic"
MOST_MESSAGES = 400_000
#: seconds until the next check of an idle topic: Spark would check a hundred times per second
IDLE = 0.03
_TRY_AGAIN = 0.5

#: how a consumer fetches, unless --kafka-config says otherwise
_TUNING = {
    # a fetch that still waits for more when a batch has ended would delay the next one
    "fetch.wait.max.ms": 10,
    # to catch up in few responses
    "fetch.message.max.bytes": 8 << 20,
    # with 100,000 messages in hand the client pauses, by default for a second, and they are taken in a tenth of it
    "fetch.queue.backoff.ms": 10,
}

_OTHER_TOPIC = (
    "It was deleted. Committed output is safe: restore the topic and run the same command again, or read the new "
    "topic into another --out folder."
)

#: the first and the next offset of every partition
Marks = dict[int, tuple[int, int]]


class Messages(NamedTuple):
    """The arrival of each message, in milliseconds since 1970, and its value."""

    times: list[int]
    values: list[bytes]


@dataclass(frozen=True)
class Subscription:
    """What to read, and up to where; sent to Spark as an option."""

    topic: Topic
    follow: bool
    encoding: str
    until: dict[str, int] | None = None
    openings: int = 0
    tasks: int = 1  # that read in parallel
    control: str = ""
    packing: dict[str, Any] = field(default_factory=dict)

    def until_now(self, file: Path) -> Subscription:
        """Unless it follows the topic, end where the topic ended at the first start."""
        if self.follow:
            return self
        if not file.exists():
            ends = {str(partition): high for partition, (_, high) in require_watermarks(self.topic).items()}
            file.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(file) as out:
                out.write(json.dumps(ends).encode())
        return replace(self, until=json.loads(file.read_text(encoding="utf-8")))

    def to_json(self) -> str:
        """Convert to JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Subscription:
        """Convert from JSON."""
        body = json.loads(text)
        return cls(**{**body, "topic": Topic.from_dict(body["topic"])})


@cache
def consumer(topic: Topic) -> Any:
    """A consumer without a group or committed offsets; connected once per process."""
    from confluent_kafka import Consumer, KafkaException

    settings = {
        "group.id": "slipstream",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        # messages that are gone must not be skipped silently
        "auto.offset.reset": "error",
    }
    try:
        return Consumer(topic.client(_TUNING, **settings))
    except KafkaException as error:
        raise BadArgument(
            f"--kafka-config: {error.args[0].str()}.", hint="Use librdkafka's names.", code="unknown-value"
        ) from error


def watermarks(topic: Topic) -> Marks | None:
    """The first and the next offset of every partition; None if there is no such topic."""
    from confluent_kafka import KafkaError, KafkaException, TopicPartition

    reader = consumer(topic)
    try:
        found = reader.list_topics(topic.name, timeout=TIMEOUT_S).topics[topic.name]
        if found.error is not None and found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        if found.error is not None:
            raise Unavailable(
                f"{topic}: {found.error.str()}.", hint="Check that you may read this topic.", code="permission-denied"
            )
        return {
            number: reader.get_watermark_offsets(TopicPartition(topic.name, number), timeout=TIMEOUT_S)
            for number in found.partitions
        }
    except KafkaException as error:
        raise Unavailable(
            f"{topic}: cannot reach a broker.", hint="Is it running? scripts/kafka.sh start", code="broker-unreachable"
        ) from error


def require_watermarks(topic: Topic) -> Marks:
    """The watermarks of a topic that must exist."""
    if (marks := watermarks(topic)) is None:
        raise Unavailable(
            f"{topic}: no such topic.", hint="Start the feed first, or wait for it with --follow.", code="no-such-topic"
        )
    return marks


def wait_for(topic: Topic) -> None:
    """Wait until a topic exists."""
    if watermarks(topic) is None:
        say(f"Waiting for {topic}: the topic does not exist yet.")
        while watermarks(topic) is None:
            time.sleep(_TRY_AGAIN)


@dataclass
class Stretch(InputPartition):
    """What a task reads: a range of each of its partitions, and notices about all partitions."""

    stretches: list[tuple[int, int, int]]
    notices: list[tuple[int, int]]  # partition, and whether it is read to its current end, has more, or has ended


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


class TopicReader(ChunkReader):
    """Plans batches by the topic's watermarks."""

    def __init__(self, subscription: Subscription) -> None:
        super().__init__(subscription.openings, subscription.packing, subscription.control)
        self._subscription = subscription

    def first_offset(self) -> Offset:
        """Before the oldest messages; the topic need not exist yet."""
        return {"at": {}, "behind": []}

    def next_offset(self, start: Offset) -> Offset:
        """As many messages as can be read now, up to the size of a batch."""
        until, marks = self._subscription.until, self._read_marks(start)
        ends = until or {str(n): high for n, (_, high) in marks.items()}
        at = {n: self._find_next(start["at"].get(n), ends[n], n, marks.get(int(n), (0, 0))[0]) for n in ends}
        # part of the offset, so that a repeated batch knows what was known when it was planned
        behind = [int(n) for n, place in at.items() if place < ends[n]]
        if until is not None:
            return {"at": {**start["at"], **at}, "behind": behind, "ended": at == until}
        if at == start["at"]:
            time.sleep(IDLE)
        ended = self._has_end_marker(start["at"], at)
        if ended:  # what was sent before the marker may have reached other partitions since they were checked
            at |= {str(n): high for n, (_, high) in self._read_marks(start).items()}
        return {"at": {**start["at"], **at}, "behind": [] if ended else behind, "ended": ended}

    def _read_marks(self, start: Offset) -> Marks:
        """The watermarks of the topic, empty before it exists; refuse a topic other than the one read so far."""
        topic, marks = self._subscription.topic, watermarks(self._subscription.topic)
        if marks is None and start["at"]:
            raise BadInput(f"{topic}: the topic no longer exists.", hint=_OTHER_TOPIC, code="topic-changed")
        for number, place in start["at"].items():
            high = (marks or {}).get(int(number), (0, 0))[1]
            if high < place:
                raise BadInput(
                    f"{topic}: partition {number} ends before message {high}, but {place} were read: another topic.",
                    hint=_OTHER_TOPIC,
                    code="topic-changed",
                )
        return marks or {}

    def _has_end_marker(self, before: dict[str, int], at: dict[str, int]) -> bool:
        """Whether the newest message of a partition is empty, which marks the end of the feed."""
        ends = [(int(n), place) for n, place in at.items() if place > before.get(n, place)]
        topic = self._subscription.topic
        return any(not value for n, place in ends for value in messages(topic, n, place - 1, place).values)

    def _find_next(self, place: int | None, end: int, number: str, low: int) -> int:
        """Where a batch that starts at a partition's ``place`` ends; the first batch only finds out where to start.

        Messages that Kafka has deleted since are an error.
        """
        if place is None:
            return low
        if place < low:
            raise BadInput(
                f"{self._subscription.topic}: messages {place} to {low - 1} of partition {number} were deleted.",
                hint="Increase the topic's retention, and start again in another --out folder.",
                code="topic-changed",
            )
        return max(place, min(end, place + MOST_MESSAGES))

    def plan_tasks(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Distribute the partitions to tasks; the first task also reports the state of all of them."""
        stretches = [(int(n), start["at"].get(n, last), last) for n, last in end["at"].items()]
        wanted = [stretch for stretch in stretches if stretch[2] > stretch[1]]
        tasks = [part for k in range(self._subscription.tasks) if (part := wanted[k :: self._subscription.tasks])]
        ends = bool(end["ended"]) and not start["ended"]
        notices = self._collect_notices(end, ends=ends) if tasks or ends else []
        return [Stretch(part, notices if k == 0 else []) for k, part in enumerate(tasks or [[]] * ends)]

    def narrowed(self, start: Offset, end: Offset, most: int) -> Offset:
        """That many messages of every partition: one may have all of them, and each is read on its own."""
        at = {n: min(place, start["at"].get(n, place) + most) for n, place in end["at"].items()}
        return {**end, "at": at, "ended": bool(end["ended"]) and at == end["at"]}

    def _collect_notices(self, end: Offset, *, ends: bool) -> list[tuple[int, int]]:
        if not self._packing.by_lane:
            return [(0, LAST)] if ends else []
        until, behind = self._subscription.until, end.get("behind", [])
        over = [ends or (until is not None and place >= until.get(n, 0)) for n, place in end["at"].items()]
        return [
            (int(n), LAST if done else BEHIND if int(n) in behind else CAUGHT_UP)
            for n, done in zip(end["at"], over, strict=True)
        ]

    def read_chunks(self, partition: Stretch) -> Iterator[Chunk]:
        """A chunk for the messages that arrived together, and notices about the partitions."""
        topic = self._subscription.topic
        if self._packing.by_lane:
            for stretch in partition.stretches:
                yield from self._group(messages(topic, *stretch), stretch[0], 0)
        elif partition.stretches:
            # the first partition distinguishes the tasks
            found = _merge([messages(topic, *stretch) for stretch in partition.stretches])
            yield from self._group(found, 0, partition.stretches[0][0] << 32)
        for lane, what in partition.notices:
            yield Chunk(1 << 61, what, lane=lane)

    def _group(self, found: Messages, lane: int, seq: int) -> Iterator[Chunk]:
        join = find_joiner(self._subscription.encoding)
        moments = np.asarray(found.times, np.int64) // ARRIVALS_MS
        cuts = np.flatnonzero(np.diff(moments)) + 1
        for begin, end in pairwise([0, *cuts.tolist(), len(found.values)]) if found.values else ():
            arrived, data = int(moments[begin]) * ARRIVALS_MS, join(list(filter(None, found.values[begin:end])))
            yield Chunk(seq, arrived=arrived, data=data, lane=lane)
            seq += 1


def _merge(parts: list[Messages]) -> Messages:
    """Merge the messages of several partitions in the order of their arrival."""
    times = [moment for part in parts for moment in part.times]
    values = [value for part in parts for value in part.values]
    if len(parts) < 2:
        return Messages(times, values)
    order = np.argsort(np.array(times, np.int64), kind="stable").tolist()
    return Messages([times[place] for place in order], [values[place] for place in order])


def messages(topic: Topic, number: int, first: int, end: int) -> Messages:
    """Read the messages of a partition from ``first`` up to, but not including, ``end``; they exist already."""
    from confluent_kafka import TopicPartition

    reader = consumer(topic)
    reader.assign([TopicPartition(topic.name, number, first)])
    try:
        return _consume(reader, topic, number, first, end)
    finally:
        reader.unassign()


def _consume(reader: Any, topic: Topic, number: int, first: int, end: int) -> Messages:
    times: list[int] = []
    values: list[bytes] = []
    place, patience = first, time.monotonic() + TIMEOUT_S
    while place < end:
        # requesting more than there is would block
        given = reader.consume(num_messages=min(end - place, 20_000), timeout=0.5)
        # the client may still have messages of the previously assigned partition
        found = [message for message in given if message.partition() == number or not _is_of_partition(message)]
        errors = [message for message in found if message.error() is not None]
        good = [message for message in found if message.error() is None] if errors else found
        if good:
            patience, place = time.monotonic() + TIMEOUT_S, good[-1].offset() + 1
            wanted = good if place <= end else [message for message in good if message.offset() < end]
            times += [message.timestamp()[1] for message in wanted]
            values += [message.value() or b"" for message in wanted]
        for error in errors:
            if _is_end(error):
                if (error.offset() or 0) >= end:
                    return Messages(times, values)
                continue
            raise Unavailable(
                f"{topic}: {error.error().str()}.", hint="Run the same command again.", code="broker-unreachable"
            )
        if time.monotonic() > patience:
            raise Unavailable(
                f"{topic}: the broker has stopped.",
                hint="Start it and run the same command again.",
                code="broker-unreachable",
            )
    return Messages(times, values)


def _is_of_partition(message: Any) -> bool:
    """Whether it is a message or the end of a partition; other errors have no partition."""
    return message.error() is None or _is_end(message)


def _is_end(message: Any) -> bool:
    """Whether it marks the end of a partition, whose last offsets may be transaction markers."""
    from confluent_kafka import KafkaError

    return message.error() is not None and bool(message.error().code() == KafkaError._PARTITION_EOF)
