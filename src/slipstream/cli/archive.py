"""``slipstream archive``: what streamed by becomes trajectories."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slipstream.cli.options import Conf, Json, Master, show, spark_session
from slipstream.session import LOCAL


def add_to(root: typer.Typer) -> None:
    """Put the command on the command line."""
    root.command()(archive)


def archive(
    source: Annotated[Path, typer.Argument(help="A run, or a folder in which Parquet files of tuples arrive.")],
    out: Annotated[Path, typer.Option("--out", help="Where the trajectories go.")],
    start: Annotated[str, typer.Option("--start", help="The instant of second 0.")] = "2007-05-28 00:00:00",
    master: Master = LOCAL,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """Make trajectories of position reports: OUT/trips with vid, xway, dir and a moving point each.

    A run is archived whole. A folder is read as a stream: each trip is written once, when it is over; called again with
    the same --out it goes on with the files that are new.
    """
    from slipstream.feeds.run import Run
    from slipstream.moving import archive as archives

    spark = spark_session("archive", master, conf)
    if (source / "manifest.json").exists():
        made = archives.archive_run(spark, Run.open(source), out, start)
    else:
        archives.archive_stream(spark, source, out, start).awaitTermination()
        made = {"trips": archives.open_archive(spark, out).count()}
    show(made, as_json=as_json, title=str(out))
