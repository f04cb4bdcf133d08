"""Where tuples come from, by name: a run, a file or folder, ``kafka:HOST:PORT/TOPIC``, ``tcp:HOST:PORT``; as streams.

The toll engine and the archive read the same sources, and wait for their ends in the same way.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstream.errors import BadArgument
from slipstream.feeds.clock import Clock
from slipstream.io import lines, spool, topic
from slipstream.io.kafka import Topic
from slipstream.progress import say

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

#: in a checkpoint: the clock of a replay, how far a topic is read, what came from a socket
CLOCK, TOPIC, RECEIVED = "clock.json", "topic.json", "received"
KAFKA, TCP = "kafka:", "tcp:"


def is_live(source: str) -> bool:
    """Whether a source has no end of its own."""
    return source.startswith(TCP)


def check(source: str, *, follow: bool) -> None:
    """Refuse a source that cannot be read, before Spark starts."""
    if source.startswith(KAFKA):
        Topic.parse(source).check_broker()
    elif source.startswith(TCP):
        spool.parse_address(source)
    elif not Path(source).exists() and not follow:
        raise BadArgument(f"{source}: no such file or folder.", hint="Give a run, a text file, or a folder of them.")


def chunks(
    spark: SparkSession,
    source: str,
    checkpoint: Path,
    encoding: str,
    *,
    follow: bool,
    openings: int = 0,
    alone: bool = False,
) -> DataFrame:
    """Anything else as a stream of chunks: what is there, or with ``follow`` all that comes.

    What comes from a socket comes once it is connected (``connect``), and is kept only until it is committed if one
    query ``alone`` reads it.
    """
    check(source, follow=follow)
    if source.startswith(KAFKA):
        messages = topic.Subscription(Topic.parse(source), follow, encoding, openings=openings)
        messages = messages.until_now(checkpoint / TOPIC)
        spark.dataSource.register(topic.TopicSource)
        return spark.readStream.format(topic.TopicSource.name()).option(topic.OPTION, messages.to_json()).load()
    spooled = is_live(source)
    path = checkpoint / RECEIVED if spooled else Path(source)
    found = lines.Lines(str(path.absolute()), follow or spooled, encoding == "train", spooled, openings, alone)
    spark.dataSource.register(lines.LineSource)
    return spark.readStream.format(lines.LineSource.name()).option(lines.OPTION, found.to_json()).load()


def connect(source: str, checkpoint: Path, encoding: str) -> None:
    """Let a source come that does not come by itself, and wait for one that is not there yet."""
    if source.startswith(TCP):
        spool.receive(source, checkpoint / RECEIVED, encoding)
    elif source.startswith(KAFKA):
        topic.wait_for(Topic.parse(source))
    elif not Path(source).exists():
        say(f"Waiting for {source}: it is not there yet.")


def start_clock(file: Path, speed: float, since: int = 0) -> None:
    """Start the clock of a stream, unless it runs: after a restart it goes on."""
    if Clock.read(file) is None:
        file.parent.mkdir(parents=True, exist_ok=True)
        Clock.starting(speed, since).write(file)


def follow(query: StreamingQuery, ended: Callable[[dict[str, Any]], bool], look: Callable[[int], None]) -> None:
    """Wait until the finished batches of a query reach an end; ``look`` hears the second they are at, -1 if unknown."""
    while query.isActive:
        place = place_of(query)
        look(int(place.get("second", -1)))
        if place and ended(place):
            return
        time.sleep(0.1)
    if error := query.exception():
        raise error


def is_open(openings: int) -> Callable[[dict[str, Any]], bool]:
    """Whether a feed is past its openings."""
    return lambda place: int(place["openings"]) >= openings


def has_ended(place: dict[str, Any]) -> bool:
    """Whether a source says that it has no more."""
    return bool(place["ended"])


def at_second(until: int) -> Callable[[dict[str, Any]], bool]:
    """Whether a replay has come to a second."""
    return lambda place: int(place["second"]) >= until


def place_of(query: StreamingQuery) -> dict[str, Any]:
    """The offset up to which the batches of a query are finished; empty before the first."""
    progress = query.lastProgress
    offset = progress["sources"][0]["endOffset"] if progress else None
    found: Any = json.loads(offset) if isinstance(offset, str) else offset
    return found if isinstance(found, dict) else {}
