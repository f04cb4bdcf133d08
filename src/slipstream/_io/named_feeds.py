"""Feeds by name: a run, a file or folder, ``kafka:HOST:PORT/TOPIC`` or ``tcp:HOST:PORT``, opened as streams.

All jobs read the same sources and wait for their ends in the same way.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstream._errors import BadArgument, BadInput
from slipstream._feeds.clock import Clock
from slipstream._io.chunks import DecodedPacking, Packing, RawPacking
from slipstream._io.formats import pseudonyms
from slipstream._io.formats.decoding import Decoding
from slipstream._io.formats.encodings import (
    AVRO,
    BINARY,
    CSV,
    MESSAGES,
    TRAIN,
    find_first_file,
    guess_encoding,
    split_header,
)
from slipstream._io.formats.registry import split_settings
from slipstream._io.kafka_client import Topic
from slipstream._io.readers import lines, spool, topic
from slipstream._tools.progress import say
from slipstream._tools.strict_json import decode_as

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import DataSource
    from pyspark.sql.streaming.query import StreamingQuery

#: in a checkpoint: the clock of a replay, the end of a topic, what arrived from a socket
CLOCK, TOPIC, RECEIVED = "clock.json", "topic.json", "received"
KAFKA, TCP = "kafka:", "tcp:"


def is_live(source: str) -> bool:
    """Whether a source has no end of its own."""
    return source.startswith(TCP)


@dataclass(frozen=True)
class Feed:
    """A source of tuples: its location, its encoding, and whether to follow it as it grows."""

    where: str
    encoding: str
    follow: bool = False
    header: str = ""  # the first line of every CSV file
    decoding: Decoding | None = None  # applied by tasks; without it they forward what they read
    tasks: int = 1  # that read in parallel
    settings: tuple[tuple[str, str], ...] = ()  # of Kafka's client
    most_files: int = 0  # of a folder, per batch; 0 means no limit

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON, without settings, which may include passwords."""
        decoding = self.decoding.without_secrets() if self.decoding else None
        return asdict(replace(self, settings=(), decoding=decoding))

    @classmethod
    def from_dict(cls, body: dict[str, Any]) -> Feed:
        """Convert from JSON."""
        found: Feed = decode_as(cls, {**body, "decoding": None})
        return replace(found, decoding=Decoding.from_json(body["decoding"])) if body["decoding"] else found

    def with_settings(self, settings: Sequence[tuple[str, str]]) -> Feed:
        """Return the feed with what is never stored: settings of its brokers and its schema registry, keys."""
        own, access = split_settings(settings)
        decoding = self.decoding
        if decoding is not None:
            decoding = replace(decoding, access=access, pseudonyms=pseudonyms.restore(decoding.pseudonyms))
        return replace(self, settings=own, decoding=decoding)

    @property
    def topic(self) -> Topic:
        """The topic, if it is one."""
        return Topic.parse(self.where).with_settings(self.settings)

    @property
    def is_topic(self) -> bool:
        """Whether it is a topic."""
        return self.where.startswith(KAFKA)

    @property
    def is_frame(self) -> bool:
        """Whether it is a streaming DataFrame, whose offsets have no known structure."""
        return False

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
                f"{self.where}: no such file or folder.",
                hint="Give a run, a text file, or a folder of them.",
                code="no-such-file",
            )
        elif self.follow and self.encoding in BINARY and Path(self.where).is_file():
            raise BadArgument(
                f"{self.where}: a file of {self.encoding} cannot be followed while it grows.",
                hint="Follow a folder, and move complete files into it.",
                code="conflicting-options",
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
        """Open a stream of the feed; ``folder`` stores what must be remembered about it.

        Tasks pack chunks by ``packing``, or else decode them, or else forward them as they are. A socket delivers data
        once it is connected (``connect``); if only one query reads it (``alone``), data is kept only until it is
        committed. ``control`` is the file by which the feed is paused.
        """
        source = self.source(folder, openings=openings, alone=alone, control=control, packing=packing)
        spark.dataSource.register(type(source))
        return spark.readStream.format(source.name()).options(**source.options).load()

    def source(
        self,
        folder: Path,
        *,
        openings: int = 0,
        alone: bool = False,
        control: str = "",
        packing: Packing | None = None,
    ) -> DataSource:
        """Return the Spark source that :meth:`open` reads."""
        self.check()
        packed = (packing or (DecodedPacking(self.decoding) if self.decoding else RawPacking())).to_json()
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
            return topic.TopicSource({topic.OPTION: found.until_now(folder / TOPIC).to_json()})
        spooled = is_live(self.where)
        files = lines.LineInput(
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
            most_files=self.most_files,
        )
        return lines.LineSource({lines.OPTION: files.to_json()})

    def connect(self, folder: Path) -> None:
        """Connect a socket, and wait for a feed that does not exist yet."""
        if self.where.startswith(TCP):
            spool.receive(self.where, folder / RECEIVED, self.encoding)
        elif self.where.startswith(KAFKA):
            topic.wait_for(self.topic)
        elif not Path(self.where).exists():
            say(f"Waiting for {self.where}: it does not exist yet.")


@dataclass(frozen=True)
class Definition:
    """The schema of Avro or Protobuf messages: a file, or a registry."""

    file: Path | None = None
    registry: str = ""


def make_feed(
    where: str,
    schema: Mapping[str, str],
    *,
    encoding: str = "",
    columns: Mapping[str, str] | None = None,
    fields: Sequence[str] = (),
    follow: bool = False,
    settings: Sequence[tuple[str, str]] = (),
    optional: Sequence[str] = (),
    definition: Definition | None = None,
) -> Feed:
    """Make the feed at ``where``, decoded to the columns of a schema; refuse one that does not fit."""
    encoding = encoding or guess_encoding(where)
    header = "" if fields or encoding != CSV else _read_header(where)
    named = _split_header(header) if header else list(fields)
    decoding = Decoding(encoding, dict(schema), dict(columns or {}), named, tuple(optional))
    decoding = replace(decoding, pseudonyms=pseudonyms.choose(schema, where))
    decoding = _with_definition(replace(decoding, framed=where.startswith(KAFKA)), where, definition or Definition())
    feed = Feed(where, encoding, follow, header, decoding).with_settings(settings if where.startswith(KAFKA) else ())
    if where.startswith(TCP) and encoding in BINARY and encoding != TRAIN:
        raise BadArgument(
            f"{where}: a socket cannot carry {encoding}.", hint="Send csv, json, text or train.", code="unknown-value"
        )
    feed.check()
    _check_fields(feed, optional)
    return feed


def _with_definition(decoding: Decoding, where: str, definition: Definition) -> Decoding:
    """Add the schema of messages, or its registry, to a decoding."""
    encoding = decoding.encoding
    given = definition.file is not None or bool(definition.registry)
    if encoding not in MESSAGES:
        if given:
            raise BadArgument(
                f"--format {encoding}: needs no schema.",
                hint="--message-schema and --schema-registry go with avro and protobuf.",
                code="conflicting-options",
            )
        return decoding
    own = encoding == AVRO and not where.startswith(KAFKA)  # an Avro file includes its schema
    if (definition.file is not None and definition.registry) or (given and own) or not (given or own):
        raise BadArgument(
            f"--format {encoding}: " + ("an Avro file includes its schema." if own else "no schema is given."),
            hint="Give either --message-schema FILE or, for a topic, --schema-registry URL.",
            code="missing-value",
        )
    if definition.file is not None:
        from slipstream._io.formats.messages import read_definition

        text, message = read_definition(encoding, definition.file)
        return replace(decoding, definition=text, message=message)
    if definition.registry and not where.startswith(KAFKA):
        raise BadArgument(
            "--schema-registry requires a topic.", hint="Give --message-schema FILE.", code="conflicting-options"
        )
    return replace(decoding, registry=definition.registry)


def _check_fields(feed: Feed, optional: Sequence[str]) -> None:
    """Refuse columns that are not fields of the messages, as far as their schema is known."""
    how = feed.decoding
    if how is None or not (how.definition or how.registry):
        return
    from slipstream._io.formats import messages
    from slipstream._io.formats.registry import Registry

    if how.registry:
        known = messages.list_registered_fields(feed.encoding, Registry(how.registry, how.access), feed.topic.name)
    else:
        known = messages.fields(feed.encoding, how.definition, how.message)
    for name, place in how.places.items():
        if known and place.field not in known and name not in optional:
            raise BadArgument(
                f"column {name!r}: the messages of {feed.where} have no field {place.field!r}.",
                hint=f"They have: {', '.join(known)}. Map one of them: --columns {name}=FIELD.",
                code="unknown-column",
                found=place.field,
                expected=[*known],
            )


def read_file_fields(where: str) -> list[str]:
    """The fields in the header of a CSV file; topics and sockets have none."""
    return _split_header(_read_header(where))


def read_parquet_schema(where: str) -> dict[str, Any]:
    """The columns of a Parquet file, or of the first one in a folder, and their types; empty if there is none yet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = Path(where)
    file = path / find_first_file(where) if path.is_dir() else path
    if not file.is_file():
        return {}
    try:
        return {field.name: field.type for field in pq.read_schema(file)}
    except (OSError, pa.ArrowException) as error:
        raise BadInput(
            f"{file}: {str(error).splitlines()[0]}", hint="Give a Parquet file.", code="unreadable-file"
        ) from error


def _split_header(header: str) -> list[str]:
    return split_header(header) if header else []


def _read_header(where: str) -> str:
    """The first line of a CSV file, or of the first one in a folder; topics and sockets have none."""
    if where.startswith((KAFKA, TCP)):
        return ""
    path = Path(where)
    first = path / find_first_file(where) if path.is_dir() else path
    if not first.is_file():
        raise BadArgument(
            f"{where}: no file with a header.",
            hint="Name the fields: --fields id,time,x,y.",
            code="no-such-file",
        )
    with first.open("rb") as file:
        return lines.parse_header(file.readline())


def start_clock(file: Path, speed: float, since: int = 0) -> None:
    """Start the clock of a stream, unless it is running: after a restart it continues."""
    if Clock.read(file) is None:
        file.parent.mkdir(parents=True, exist_ok=True)
        Clock.start(speed, since).write(file)


def wait_until(query: StreamingQuery, ended: Callable[[dict[str, Any]], bool], look: Callable[[int], None]) -> None:
    """Wait until the finished batches of a query reach an end; ``look`` gets their current second, -1 if unknown.

    If there are several sources, all must have reached it.
    """
    while query.isActive:
        places = find_last_offsets(query)
        look(int(places[0].get("second", -1)) if places else -1)
        if places and all(place and ended(place) for place in places):
            return
        time.sleep(0.1)
    if error := query.exception():
        raise error


def is_open(openings: int) -> Callable[[dict[str, Any]], bool]:
    """Whether a feed is past its openings."""
    return lambda place: int(place.get("openings", openings)) >= openings


def has_ended(place: dict[str, Any]) -> bool:
    """Whether a source has ended."""
    return bool(place.get("ended"))


def has_reached_second(until: int) -> Callable[[dict[str, Any]], bool]:
    """Whether a replay has reached a second."""
    return lambda place: int(place["second"]) >= until


def find_last_offset(query: StreamingQuery) -> dict[str, Any]:
    """The offset of the first source up to which a query has processed its input; empty before the first batch."""
    return next(iter(find_last_offsets(query)), {})


def find_last_offsets(query: StreamingQuery) -> list[dict[str, Any]]:
    """The offsets of all sources up to which a query has processed its input; empty before the first batch."""
    progress = query.lastProgress
    return [_parse_offset(source["endOffset"]) for source in progress["sources"]] if progress else []


def _parse_offset(given: Any) -> dict[str, Any]:
    found = json.loads(given) if isinstance(given, str) else given
    return found if isinstance(found, dict) else {}
