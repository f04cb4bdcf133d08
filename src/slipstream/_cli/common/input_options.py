"""Options about the input of a command: where it is, how it is written, and how a topic is reached.

A command has each of them as a parameter, because Typer reads signatures, and passes them on as one :class:`Reading`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slipstream._cli.common.checks import check_there
from slipstream._io.kafka_client import Topic, read_settings

if TYPE_CHECKING:
    from slipstream._io.named_feeds import Definition


Input = Annotated[
    str,
    typer.Argument(metavar="INPUT", help="A run, a file, a folder of files, kafka:HOST:PORT/TOPIC or tcp:HOST:PORT."),
]
Follow = Annotated[bool, typer.Option("--follow", help="Keep reading as the file, the folder or the topic grows.")]
Format = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="How the input is written: csv, json, parquet, arrow, avro, protobuf, text (Linear Road's) or train. By "
        "default the file's name decides; otherwise text for toll and archive, json for networks and cuboids.",
        show_default=False,
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        metavar="COLUMN=FIELD,...",
        help="Which field of the input becomes which column, as in id=vin,time=ts:ms. A time is in s, ms, us or iso, "
        "and becomes seconds since 1970. Write id=vin:text for ids that are text, unless a schema shows it. In a "
        "network, SOURCE.COLUMN=FIELD maps a column of one source.",
    ),
]
Fields = Annotated[
    str,
    typer.Option(
        metavar="FIELD,...", help="The fields of CSV without a header, in order: car,ts,spd.", show_default=False
    ),
]
KafkaConfig = Annotated[
    list[str] | None,
    typer.Option(
        "--kafka-config",
        metavar="KEY=VALUE|FILE",
        help="A setting of librdkafka, such as security.protocol=SASL_SSL, or a file of them. Settings that begin with "
        "schema.registry. are for the schema registry. They are never stored.",
    ),
]
MessageSchema = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE[:MESSAGE]",
        help="The schema of Avro or Protobuf messages: an .avsc file, a .proto file, or what protoc "
        "--descriptor_set_out writes.",
    ),
]
SchemaRegistry = Annotated[
    str, typer.Option(metavar="URL", help="The schema registry of a topic's messages.", show_default=False)
]


_chosen_columns: list[str] = []


def _set_columns(names: list[str] | None) -> list[str] | None:
    _chosen_columns[:] = names or []
    return names


def _set_pseudonyms(context: typer.Context, file: Path | None) -> Path | None:
    if file is not None:
        from slipstream._io.formats import pseudonyms

        pseudonyms.use(pseudonyms.read_key(file), _chosen_columns)
        # what runs in this process after the command has nothing to do with its key
        context.call_on_close(lambda: pseudonyms.use(None))
    return file


PseudonymColumns = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        callback=_set_columns,
        is_eager=True,
        help="A column whose ids --pseudonyms replaces; by default id, vid, vehicle and vin. Repeatable.",
    ),
]
Pseudonyms = Annotated[
    Path | None,
    typer.Option(
        metavar="KEYFILE",
        callback=_set_pseudonyms,
        help="Replace ids by keyed hashes as they arrive. The same key gives the same pseudonyms in all jobs; it is "
        "never stored. Rejects keep only the reason.",
    ),
]


@dataclass(frozen=True)
class Reading:
    """How the input is read, as the options of a command give it."""

    follow: bool = False
    format: str = ""
    columns: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    kafka: tuple[tuple[str, str], ...] = ()
    message_schema: Path | None = None
    schema_registry: str = ""
    pseudonyms: Path | None = None

    @classmethod
    def parse(
        cls,
        *,
        follow: bool,
        format_: str,
        columns: list[str] | None,
        fields: str,
        kafka_config: list[str] | None,
        message_schema: Path | None,
        schema_registry: str,
        pseudonyms: Path | None = None,
    ) -> Reading:
        """Read the options; refuse a schema file that does not exist, and settings that cannot be read."""
        check_message_schema(message_schema)
        names = tuple(field.strip() for field in fields.split(",")) if fields else ()
        kafka = read_settings(kafka_config or [])
        return cls(follow, format_, tuple(columns or ()), names, kafka, message_schema, schema_registry, pseudonyms)

    @property
    def is_mapped(self) -> bool:
        """Whether an option describes the fields, so that files are read like feeds."""
        return bool(self.format or self.columns or self.fields or self.message_schema or self.pseudonyms)

    @property
    def definition(self) -> Definition:
        """Where the schema of messages is found."""
        from slipstream._io.named_feeds import Definition

        return Definition(self.message_schema, self.schema_registry)


def check_message_schema(file: Path | None) -> None:
    """Refuse a schema file that does not exist; ``FILE:MESSAGE`` names a message in it."""
    if file is not None and not file.is_file():
        named = str(file).rpartition(":")[0] or file
        check_there(named, option="--message-schema", what="file", hint="Give an .avsc, .proto or descriptor file.")


def check_input(input_: str, *, follow: bool) -> None:
    """Refuse an input that does not exist, or a broker that does not answer; ports are tried later."""
    if input_.startswith("kafka:"):
        Topic.parse(input_).check_broker()
    elif not follow and not input_.startswith("tcp:"):
        check_there(input_, hint="Give a run, a text file, a folder of them, kafka:HOST:PORT/TOPIC or tcp:HOST:PORT.")
