"""``slipstream archive``: what streamed by becomes trajectories."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slipstream._cli.common.checks import check_folder
from slipstream._cli.common.jobs import (
    Columns,
    CompactEvery,
    Fields,
    Format,
    KafkaConfig,
    MessageSchema,
    SchemaRegistry,
    Silence,
    Start,
    check_input,
    check_message_schema,
    check_pace,
    mapped,
    named,
    rejects_of,
    run_job,
)
from slipstream._cli.common.options import Conf, Json, Master, MaxRejects, check_rejects, show
from slipstream._cli.common.overwriting import Afresh, clear_job
from slipstream._io.formats.encodings import TEXT, encoding_of
from slipstream._io.kafka import read_settings
from slipstream._spark.session import LOCAL


def add_to(root: typer.Typer) -> None:
    """Put the command on the command line."""
    root.command()(archive)


def archive(
    source: Annotated[
        str,
        typer.Argument(
            metavar="INPUT", help="A run, a file, a folder of files, kafka:HOST:PORT/TOPIC or tcp:HOST:PORT."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="The folder for trips, rejects, summary and checkpoint.")],
    follow: Annotated[bool, typer.Option("--follow", help="Keep running while the input grows.")] = False,
    speed: Annotated[float, typer.Option(help="Times real time, for a run; 0 is full speed.")] = 0.0,
    until: Annotated[int | None, typer.Option(metavar="T", help="Stop a run before this second.")] = None,
    multiply: Annotated[int, typer.Option(min=1, metavar="K", help="Present a run K times, with shifted ids.")] = 1,
    lateness: Annotated[
        int | None,
        typer.Option(metavar="SECONDS", help="How late a tuple may be; trips wait as long. [default: 60, live 2]"),
    ] = None,
    silence: Silence = 5.0,
    format_: Format = "",
    columns: Columns = None,
    fields: Fields = "",
    kafka_config: KafkaConfig = None,
    message_schema: MessageSchema = None,
    schema_registry: SchemaRegistry = "",
    start: Start = "2007-05-28 00:00:00",
    text: Annotated[bool, typer.Option(help="Also write rejects.csv.")] = True,
    batch_seconds: Annotated[int, typer.Option(metavar="N", help="At most this many seconds of a run per batch.")] = 60,
    compact_every: CompactEvery = 500,
    parallel: Annotated[
        int, typer.Option(help="The number of fragments; 0 for one per core, or 1 for a live feed on this machine.")
    ] = 0,
    max_rejects: MaxRejects = 1.0,
    overwrite: Afresh = False,
    master: Master = LOCAL,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """Turn position reports into trajectories: OUT/outputs/trips, with vid, xway, dir and a moving point per trip.

    This is `slipstream toll --archive` without the tolls: the same inputs, the same reports accepted, the same trips. A
    trip is written once, when it is over; when the input ends, all are. Rejected reports are in rejects.csv and
    OUT/outputs/rejects, with the reason; counts are in summary.json. After a crash or Ctrl-C, the same command resumes.

    Examples:

    `slipstream archive runs/demo --out history` a recorded run

    `slipstream archive feed.dat --out history --follow` a text file that grows

    `slipstream archive kafka:127.0.0.1:9092/positions --follow --out history` the topic that `slipstream toll` reads
    """
    check_input(source, follow=follow)
    check_message_schema(message_schema)
    check_folder(out)
    check_pace(speed, batch_seconds, parallel)
    from slipstream._io.sources import Definition
    from slipstream._linear_road.job.engine import Settings
    from slipstream._linear_road.job.layout import TRIPS

    live = follow or source.startswith("tcp:")
    settings = Settings(
        speed=speed,
        until=until,
        batch_seconds=batch_seconds,
        lateness=(2 if live else 60) if lateness is None else lateness,
        silence=silence,
        encoding=format_ or encoding_of(source, TEXT),
        columns=mapped(columns),
        fields=named(fields),
        kafka=read_settings(kafka_config or []),
        definition=Definition(message_schema, schema_registry),
        follow=live,
        text=text,
        compact_every=compact_every,
        parallel=parallel,
        outputs=TRIPS,
        start=start,
    )
    clear_job(out, overwrite)
    summary = run_job(source, multiply, out, settings, master, conf)
    show(summary, as_json=as_json, title=f"Archived into {out}")
    check_rejects(summary["rejects"], summary["rejects"] + summary["tuples"], max_rejects, rejects_of(out, text=text))
