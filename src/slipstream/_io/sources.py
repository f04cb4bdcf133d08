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

from slipstream._errors import BadArgument, BadInput
from slipstream._feeds.clock import Clock
from slipstream._io.chunks import Decoded, Packing, Plain
from slipstream._io.formats.decoding import Decoding
from slipstream._io.formats.encodings import AVRO, BINARY, CSV, MESSAGES, TRAIN, encoding_of, first_file, header_fields
from slipstream._io.formats.registry import apart
from slipstream._io.kafka import Topic
from slipstream._io.readers import lines, spool, topic
from slipstream._tools.progress import say
from slipstream._tools.strict_json import fitted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import DataSource
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
    most_files: int = 0  # of a folder, in a batch; 0 for any number

    def to_dict(self) -> dict[str, Any]:
        """As JSON; without settings, in which there may be passwords."""
        decoding = self.decoding.without_secrets() if self.decoding else None
        return asdict(replace(self, settings=(), decoding=decoding))

    @classmethod
    def from_dict(cls, body: dict[str, Any]) -> Feed:
        """From JSON."""
        found: Feed = fitted(cls, {**body, "decoding": None})
        return replace(found, decoding=Decoding.from_json(body["decoding"])) if body["decoding"] else found

    def reached_with(self, settings: Sequence[tuple[str, str]]) -> Feed:
        """The feed, with what its brokers and its schema registry want to know."""
        own, access = apart(settings)
        decoding = replace(self.decoding, access=access) if self.decoding else None
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
        """Whether it is a streaming DataFrame, whose offsets mean nothing to us."""
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
                f"{self.where}: no such file or folder.", hint="Give a run, a text file, or a folder of them."
            )
        elif self.follow and self.encoding in BINARY and Path(self.where).is_file():
            raise BadArgument(
                f"{self.where}: a file of {self.encoding} cannot be followed while it grows.",
                hint="Follow a folder, and put whole files into it.",
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
        """The same as the source that Spark reads."""
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
            return topic.TopicSource({topic.OPTION: found.until_now(folder / TOPIC).to_json()})
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
            most_files=self.most_files,
        )
        return lines.LineSource({lines.OPTION: files.to_json()})

    def connect(self, folder: Path) -> None:
        """Let a feed come that does not come by itself, and wait for one that is not there yet."""
        if self.where.startswith(TCP):
            spool.receive(self.where, folder / RECEIVED, self.encoding)
        elif self.where.startswith(KAFKA):
            topic.wait_for(self.topic)
        elif not Path(self.where).exists():
            say(f"Waiting for {self.where}: it is not there yet.")


@dataclass(frozen=True)
class Definition:
    """Where the schema of Avro or Protobuf messages is: in a file, or in a registry."""

    file: Path | None = None
    registry: str = ""


def feed_of(
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
    """The feed that people mean by ``where``, decoded to the columns of a schema; refused if it cannot be that."""
    encoding = encoding or encoding_of(where)
    header = "" if fields or encoding != CSV else _header(where)
    named = _named(header) if header else list(fields)
    decoding = Decoding(encoding, dict(schema), dict(columns or {}), named, tuple(optional))
    decoding = _defined(replace(decoding, framed=where.startswith(KAFKA)), where, definition or Definition())
    feed = Feed(where, encoding, follow, header, decoding).reached_with(settings if where.startswith(KAFKA) else ())
    if where.startswith(TCP) and encoding in BINARY and encoding != TRAIN:
        raise BadArgument(f"{where}: a socket cannot carry {encoding}.", hint="Send csv, json, text or train.")
    feed.check()
    _check_fields(feed, optional)
    return feed


def _defined(decoding: Decoding, where: str, definition: Definition) -> Decoding:
    """A decoding that knows the schema of messages, or where it is."""
    encoding = decoding.encoding
    given = definition.file is not None or bool(definition.registry)
    if encoding not in MESSAGES:
        if given:
            raise BadArgument(
                f"--format {encoding}: needs no schema.",
                hint="--message-schema and --schema-registry go with avro and protobuf.",
            )
        return decoding
    own = encoding == AVRO and not where.startswith(KAFKA)  # an Avro file brings its schema
    if (definition.file is not None and definition.registry) or (given and own) or not (given or own):
        raise BadArgument(
            f"--format {encoding}: " + ("an Avro file has its schema in it." if own else "which schema?"),
            hint="Give --message-schema FILE or, of a topic, --schema-registry URL: one of them.",
        )
    if definition.file is not None:
        from slipstream._io.formats.messages import read_definition

        text, message = read_definition(encoding, definition.file)
        return replace(decoding, definition=text, message=message)
    if definition.registry and not where.startswith(KAFKA):
        raise BadArgument("--schema-registry goes with a topic.", hint="Give --message-schema FILE.")
    return replace(decoding, registry=definition.registry)


def _check_fields(feed: Feed, optional: Sequence[str]) -> None:
    """Refuse columns that the schema of messages has no fields for, as far as it is known."""
    how = feed.decoding
    if how is None or not (how.definition or how.registry):
        return
    from slipstream._io.formats import messages
    from slipstream._io.formats.registry import Registry

    if how.registry:
        known = messages.registered_fields(feed.encoding, Registry(how.registry, how.access), feed.topic.name)
    else:
        known = messages.fields(feed.encoding, how.definition, how.message)
    for name, place in how.places.items():
        if known and place.field not in known and name not in optional:
            raise BadArgument(
                f"column {name!r}: the messages of {feed.where} have no field {place.field!r}.",
                hint=f"They have: {', '.join(known)}. Say which one it is: --columns {name}=FIELD.",
            )


def fields_of(where: str) -> list[str]:
    """The fields that the header of a file of CSV names; messages and sockets have none."""
    return _named(_header(where))


def parquet_schema(where: str) -> dict[str, Any]:
    """The columns of a Parquet file, or of the first one in a folder, and their types; none if it is not there yet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = Path(where)
    file = path / first_file(where) if path.is_dir() else path
    if not file.is_file():
        return {}
    try:
        return {field.name: field.type for field in pq.read_schema(file)}
    except (OSError, pa.ArrowException) as error:
        raise BadInput(f"{file}: {str(error).splitlines()[0]}", hint="Give a Parquet file.") from error


def _named(header: str) -> list[str]:
    return header_fields(header) if header else []


def _header(where: str) -> str:
    """The first line of a file of CSV, or of the first one in a folder; messages and sockets have none."""
    if where.startswith((KAFKA, TCP)):
        return ""
    path = Path(where)
    first = path / first_file(where) if path.is_dir() else path
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
    return lambda place: int(place.get("openings", openings)) >= openings


def has_ended(place: dict[str, Any]) -> bool:
    """Whether a source says that it has no more."""
    return bool(place.get("ended"))


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
