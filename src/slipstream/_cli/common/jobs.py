"""What ``toll`` and ``archive`` have in common: they are one job with different outputs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slipstream._cli.common.checks import check_there
from slipstream._cli.common.options import start_spark
from slipstream._errors import BadArgument
from slipstream._io.formats.encodings import TEXT, encoding_of
from slipstream._io.kafka import Topic, read_settings

if TYPE_CHECKING:
    from slipstream._linear_road.job.engine import Settings

#: what people may call the column of a vehicle's id, which Linear Road calls vid
ID = "id"

Format = Annotated[
    str,
    typer.Option(
        "--format",
        help="How a feed is written: text, train, csv, json, parquet, arrow, avro or protobuf. By default decided by "
        "the file's name, otherwise text.",
        show_default=False,
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        metavar="COLUMN=FIELD,...",
        help="Which field of a feed is which of a tuple, as in id=vin,time=ts:ms. A time may be in s, ms, us or "
        "iso; it becomes seconds since 1970. An id may be text; write id=vin:text if no schema says so.",
    ),
]
Fields = Annotated[
    str, typer.Option(help="The fields of a CSV feed without a header, in order: car,ts,spd.", show_default=False)
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
Silence = Annotated[
    float,
    typer.Option(
        min=0,
        metavar="SECONDS",
        help="How long the other partitions of a topic wait for one that brings nothing.",
    ),
]
Input = Annotated[
    str,
    typer.Argument(metavar="INPUT", help="A run, a file, a folder of files, kafka:HOST:PORT/TOPIC or tcp:HOST:PORT."),
]
Follow = Annotated[bool, typer.Option("--follow", help="Keep running while the input grows.")]
Speed = Annotated[float, typer.Option(help="Times real time, for a run; 0 is full speed.")]
Until = Annotated[int | None, typer.Option(metavar="T", help="Stop a run before this second.")]
Multiply = Annotated[int, typer.Option(min=1, metavar="K", help="Present a run K times, with shifted ids.")]
Lateness = Annotated[
    int | None,
    typer.Option(metavar="SECONDS", help="How late a tuple may be; results wait as long. [default: 60, live 2]"),
]
BatchSeconds = Annotated[int, typer.Option(metavar="N", help="At most this many seconds of a run per batch.")]
Parallel = Annotated[
    int, typer.Option(help="The number of fragments; 0 for one per core, or 1 for a live feed on this machine.")
]
CompactEvery = Annotated[int, typer.Option(min=0, help="Compact the tables after this many batches; 0 for never.")]
Start = Annotated[
    str, typer.Option("--start", metavar="INSTANT", help="The instant of second 0 of trajectories, in UTC.")
]


def check_message_schema(file: Path | None) -> None:
    """Refuse a schema file that is not there; ``FILE:MESSAGE`` names a message in it."""
    if file is not None and not file.is_file():
        named = str(file).rpartition(":")[0] or file
        check_there(named, option="--message-schema", what="file", hint="Give an .avsc, .proto or descriptor file.")


def check_input(input_: str, *, follow: bool) -> None:
    """Refuse an input that cannot be there, at once; what listens at a port is found out later."""
    if input_.startswith("kafka:"):
        Topic.parse(input_).check_broker()
    elif not follow and not input_.startswith("tcp:"):
        check_there(input_, hint="Give a run, a text file, a folder of them, kafka:HOST:PORT/TOPIC or tcp:HOST:PORT.")


def read_feed_settings(
    input_: str,
    *,
    follow: bool,
    lateness: int | None,
    format_: str,
    columns: list[str] | None,
    fields: str,
    kafka_config: list[str] | None,
    message_schema: Path | None,
    schema_registry: str,
) -> dict[str, Any]:
    """Return the settings of a job that its options about the input make."""
    from slipstream._io.sources import Definition

    live = follow or input_.startswith("tcp:")
    return {
        "lateness": (2 if live else 60) if lateness is None else lateness,
        "encoding": format_ or encoding_of(input_, TEXT),
        "columns": parse_mapping(columns),
        "fields": parse_fields(fields),
        "kafka": read_settings(kafka_config or []),
        "definition": Definition(message_schema, schema_registry),
        "follow": live,
    }


def parse_mapping(columns: list[str] | None) -> dict[str, str]:
    """What --columns says of the fields of tuples."""
    from slipstream._feeds.tuples import FIELDS
    from slipstream._io.formats.decoding import parse_columns
    from slipstream._io.report_packing import VID

    found = parse_columns(columns or [], "", dict.fromkeys((ID, *FIELDS), "integer"), strict=True)
    return {VID if name == ID else name: field for name, field in found.items()}


def parse_fields(fields: str) -> tuple[str, ...]:
    """What --fields says."""
    return tuple(field.strip() for field in fields.split(",")) if fields else ()


def check_pace(speed: float, batch_seconds: int, parallel: int) -> None:
    """Refuse what cannot be, before Spark starts."""
    from slipstream._feeds.clock import FASTEST

    checks = (
        (0 <= speed <= FASTEST, f"--speed {speed}: out of range.", "1 is real time, 0 as fast as possible."),
        (batch_seconds >= 1, f"--batch-seconds {batch_seconds}: too few.", "Give 1 or more."),
        (0 <= parallel <= 1024, f"--parallel {parallel}: out of range.", "Give 1 to 1024, or 0 for one per core."),
    )
    for good, message, hint in checks:
        if not good:
            raise BadArgument(message, hint=hint, code="conflicting-options")


def find_rejects(out: Path, *, text: bool) -> Path:
    """Where people find what a job rejected."""
    from slipstream._io.outputs import FOLDER, REJECTS
    from slipstream._linear_road.text import REJECTED

    return out / REJECTED if text else out / FOLDER / REJECTS


def run_job(
    input_: str, multiply: int, out: Path, settings: Settings, master: str, conf: list[str] | None
) -> dict[str, Any]:
    """Run a job to the end of its input, or say that it has been; everything is checked before Spark starts."""
    from slipstream._feeds.run import Run
    from slipstream._linear_road.job import engine

    path = Path(input_)
    run = Run.open(path) if (path / "manifest.json").exists() else None
    if settings.history is not None:
        Run.open(settings.history)
    if run is None:
        engine.check_feed(input_, out, settings)
        done = engine.finished_summary(out, input_)
        return done or engine.toll_feed(
            start_spark(settings.name, master, conf, quick=settings.follow), input_, out, settings
        )
    run = run.multiplied(multiply * run.copies)
    engine.check_run(run, out, settings)
    done = engine.finished_summary(out, engine.source_of(run), settings.end_of(run))
    return done or engine.toll_run(start_spark(settings.name, master, conf), run, out, settings)
