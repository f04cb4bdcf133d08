"""``slipstream archive``: turn a stream of position reports into trajectories."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slipstream._cli.common.checks import check_folder
from slipstream._cli.common.input_options import (
    Columns,
    Fields,
    Follow,
    Format,
    Input,
    KafkaConfig,
    MessageSchema,
    PseudonymColumns,
    Pseudonyms,
    Reading,
    SchemaRegistry,
    check_input,
)
from slipstream._cli.common.options import Conf, Json, Master, MaxRejects, Metrics, show
from slipstream._cli.common.overwriting import Afresh, clear_job
from slipstream._cli.common.toll_jobs import (
    BatchSeconds,
    CompactEvery,
    Lateness,
    Multiply,
    Parallel,
    Silence,
    Speed,
    Start,
    Until,
    check_pace,
    check_rejects_of,
    read_feed_settings,
    run_job,
)
from slipstream._spark.session import LOCAL
from slipstream._tools.files.locations import is_remote


def add_to(root: typer.Typer) -> None:
    """Put the command on the command line."""
    root.command()(archive)


def archive(
    input_: Input,
    out: Annotated[Path, typer.Option("--out", help="The folder for trips, rejects, summary and checkpoint.")],
    follow: Follow = False,
    speed: Speed = 0.0,
    until: Until = None,
    multiply: Multiply = 1,
    lateness: Lateness = None,
    silence: Silence = 5.0,
    format_: Format = "",
    columns: Columns = None,
    fields: Fields = "",
    kafka_config: KafkaConfig = None,
    message_schema: MessageSchema = None,
    schema_registry: SchemaRegistry = "",
    pseudonyms: Pseudonyms = None,
    pseudonym_columns: PseudonymColumns = None,  # noqa: ARG001  (its callback)
    start: Start = "2007-05-28 00:00:00",
    text: Annotated[bool, typer.Option(help="Also write rejects.csv, except in a store.")] = True,
    batch_seconds: BatchSeconds = 60,
    compact_every: CompactEvery = 500,
    parallel: Parallel = 0,
    max_rejects: MaxRejects = 1.0,
    metrics: Metrics = "",  # noqa: ARG001  (its callback)
    overwrite: Afresh = False,
    master: Master = LOCAL,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """Turn position reports into trajectories: OUT/outputs/trips, with vid, xway, dir and a moving point per trip.

    This is `slipstream toll --archive` without the tolls: the same inputs, accepted reports and trips. A
    trip is written once, when it is over; when the input ends, all are. Rejected reports are in rejects.csv and
    OUT/outputs/rejects, with the reason; counts are in summary.json. After a crash or Ctrl-C, the same command resumes.

    Examples:

    `slipstream archive runs/demo --out history` # a recorded run

    `slipstream archive feed.dat --out history --follow` # a text file that grows

    `slipstream archive kafka:127.0.0.1:9092/positions --follow --out history` # the topic that `slipstream toll` reads
    """
    check_input(input_, follow=follow)
    reading = Reading.parse(
        follow=follow,
        format_=format_,
        columns=columns,
        fields=fields,
        kafka_config=kafka_config,
        message_schema=message_schema,
        schema_registry=schema_registry,
        pseudonyms=pseudonyms,
    )
    check_folder(out)
    check_pace(speed, batch_seconds, parallel)
    from slipstream._linear_road.job.engine import Settings
    from slipstream._linear_road.job.toll_layout import TRIPS

    settings = Settings(
        **read_feed_settings(input_, reading, lateness),
        speed=speed,
        until=until,
        batch_seconds=batch_seconds,
        silence=silence,
        text=text and not is_remote(out),
        compact_every=compact_every,
        parallel=parallel,
        outputs=TRIPS,
        start=start,
    )
    clear_job(out, overwrite)
    summary = run_job(input_, multiply, out, settings, master, conf)
    show(summary, as_json=as_json, title=f"Archived into {out}")
    check_rejects_of(summary, out, max_rejects, text=settings.text)
