"""Where tuples come from, by name: a run, a file or folder, ``kafka:HOST:PORT/TOPIC``, ``tcp:HOST:PORT``; as streams.

All jobs read the same sources, and wait for their ends in the same way.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstream.documents import fitted
from slipstream.errors import BadArgument
from slipstream.feeds.clock import Clock
from slipstream.io import lines, spool, topic
from slipstream.io.chunks import Decoded, Packing, Plain
from slipstream.io.decoding import Decoding
from slipstream.io.encodings import ARROW, BINARY, CSV, PARQUET, encoding_of
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


@dataclass(frozen=True)
class Feed:
    """Tuples that come from elsewhere: where from, how they are written, and whether more of them will come."""

    where: str
    encoding: str
    follow: bool = False
    header: str = ""  # the first line of every file of CSV
    decoding: Decoding | None = None  # what tasks make of it; without one they pass on what they read
    tasks: int = 1  # that read at once
    settings: tuple[tuple[str, str], ...] = ()  # of Kafka's client

    def to_dict(self) -> dict[str, Any]:
        """As JSON; without the settings, in which there may be passwords."""
        return {**asdict(self), "settings": ()}

    @classmethod
    def from_dict(cls, body: dict[str, Any]) -> Feed:
        """From JSON."""
        found: Feed = fitted(cls, {**body, "decoding": None})
        return replace(found, decoding=Decoding(**body["decoding"])) if body["decoding"] else found

    @property
    def topic(self) -> Topic:
        """The topic, if it is one."""
        return Topic.parse(self.where).with_settings(self.settings)

    @property
    def is_topic(self) -> bool:
        """Whether it is a topic."""
        return self.where.startswith(KAFKA)

    @property
    def has_no_end(self) -> bool:
        """Whether it has no end of its own."""
        return self.follow or is_live(self.where)

    def check(self) -> None:
        """Refuse a feed that cannot be read, before Spark starts."""
        if self.where.startswith(KAFKA):
            self.topic.check_broker()
        elif self.where.startswith(TCP):
            spool.parse_address(self.where)
        elif not Path(self.where).exists() and not self.follow:
            raise BadArgument(
                f"{self.where}: no such file or folder.", hint="Give a run, a text file, or a folder of them."
            )

    def open(
        self,
        spark: SparkSession,
        folder: Path,
        *,
        openings: int = 0,
        alone: bool = False,
        control: str = "",
        packing: Packing | None = None,
    ) -> DataFrame:
        """A stream of what is there or of all that comes; ``folder`` remembers what it must of the feed.

        Tasks give chunks to Spark as the ``packing`` says, or else decode them, or else pass them on as they are. What
        comes from a socket comes once it is connected (``connect``), and is kept only until it is committed if one
        query ``alone`` reads it. ``control`` is the file in which people pause it.
        """
        self.check()
        packed = (packing or (Decoded(self.decoding) if self.decoding else Plain())).to_json()
        if self.where.startswith(KAFKA):
            found = topic.Subscription(
                self.topic,
                self.follow,
                self.encoding,
                openings=openings,
                tasks=self.tasks,
                control=control,
                packing=packed,
            )
            messages = found.until_now(folder / TOPIC)
            spark.dataSource.register(topic.TopicSource)
            return spark.readStream.format(topic.TopicSource.name()).option(topic.OPTION, messages.to_json()).load()
        spooled = is_live(self.where)
        files = lines.Lines(
            str((folder / RECEIVED if spooled else Path(self.where)).absolute()),
            self.has_no_end,
            whole_files=self.encoding in BINARY,
            spool=spooled,
            openings=openings,
            alone=alone,
            control=control,
            header=self.header,
            packing=packed,
            tasks=self.tasks,
        )
        spark.dataSource.register(lines.LineSource)
        return spark.readStream.format(lines.LineSource.name()).option(lines.OPTION, files.to_json()).load()

    def connect(self, folder: Path) -> None:
        """Let a feed come that does not come by itself, and wait for one that is not there yet."""
        if self.where.startswith(TCP):
            spool.receive(self.where, folder / RECEIVED, self.encoding)
        elif self.where.startswith(KAFKA):
            topic.wait_for(self.topic)
        elif not Path(self.where).exists():
            say(f"Waiting for {self.where}: it is not there yet.")


def feed_of(
    where: str,
    schema: Mapping[str, str],
    *,
    encoding: str = "",
    columns: Mapping[str, str] | None = None,
    fields: Sequence[str] = (),
    follow: bool = False,
    settings: tuple[tuple[str, str], ...] = (),
    optional: Sequence[str] = (),
) -> Feed:
    """The feed that people mean by ``where``, decoded to the columns of a schema; refused if it cannot be that."""
    encoding = encoding or encoding_of(_first_file(where))
    header = "" if fields or encoding != CSV else _header(where)
    named = _named(header) if header else list(fields)
    decoding = Decoding(encoding, dict(schema), dict(columns or {}), named, tuple(optional))
    feed = Feed(where, encoding, follow, header, decoding, settings=settings)
    if where.startswith(TCP) and encoding in (ARROW, PARQUET):
        raise BadArgument(f"{where}: a socket cannot carry {encoding}.", hint="Send csv, json, text or train.")
    feed.check()
    return feed


def _first_file(where: str) -> str:
    """The name of a file, or of the first one in a folder."""
    if where.startswith((KAFKA, TCP)) or not Path(where).is_dir():
        return where
    return next(iter(sorted(file.name for file in Path(where).iterdir() if not file.name.startswith("."))), "")


def fields_of(where: str) -> list[str]:
    """The fields that the header of a file of CSV names; messages and sockets have none."""
    return _named(_header(where))


def _named(header: str) -> list[str]:
    return [name.strip().strip('"') for name in header.split(",")] if header else []


def _header(where: str) -> str:
    """The first line of a file of CSV, or of the first one in a folder; messages and sockets have none."""
    if where.startswith((KAFKA, TCP)):
        return ""
    path = Path(where)
    first = path / _first_file(where) if path.is_dir() else path
    if not first.is_file():
        raise BadArgument(f"{where}: no file to read the header of.", hint="Name the fields: --fields id,time,x,y.")
    with first.open("rb") as file:
        return lines.header_of(file.readline())


def start_clock(file: Path, speed: float, since: int = 0) -> None:
    """Start the clock of a stream, unless it runs: after a restart it goes on."""
    if Clock.read(file) is None:
        file.parent.mkdir(parents=True, exist_ok=True)
        Clock.starting(speed, since).write(file)


def follow(query: StreamingQuery, ended: Callable[[dict[str, Any]], bool], look: Callable[[int], None]) -> None:
    """Wait until the finished batches of a query reach an end; ``look`` hears the second they are at, -1 if unknown.

    Of several sources all must have reached it.
    """
    while query.isActive:
        places = places_of(query)
        look(int(places[0].get("second", -1)) if places else -1)
        if places and all(place and ended(place) for place in places):
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
    """The offset of the first source up to which the batches of a query are finished; empty before the first."""
    return next(iter(places_of(query)), {})


def places_of(query: StreamingQuery) -> list[dict[str, Any]]:
    """The offsets of all sources up to which the batches of a query are finished; nothing before the first."""
    progress = query.lastProgress
    return [_offset(source["endOffset"]) for source in progress["sources"]] if progress else []


def _offset(given: Any) -> dict[str, Any]:
    found = json.loads(given) if isinstance(given, str) else given
    return found if isinstance(found, dict) else {}
