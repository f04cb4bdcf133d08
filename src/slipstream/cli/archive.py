"""``slipstream archive``: what streamed by becomes trajectories."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from slipstream.cli.options import Conf, Json, Master, show, spark_session
from slipstream.errors import BadArgument
from slipstream.session import LOCAL, task_errors


def add_to(root: typer.Typer) -> None:
    """Put the command on the command line."""
    root.command()(archive)


def archive(
    source: Annotated[
        str, typer.Argument(metavar="RUN|STREAM", help="A run, a file or folder of tuples, kafka:..., tcp:...")
    ],
    out: Annotated[Path, typer.Option("--out", help="Where the trajectories go.")],
    follow: Annotated[bool, typer.Option(help="Keep running while the input grows.")] = False,
    speed: Annotated[
        float, typer.Option(help="Replay a run as a stream: 1 real time, 10 ten times that; 0 takes it whole.")
    ] = 0.0,
    encoding: Annotated[
        str, typer.Option(help="text, json, train or parquet (a folder of Parquet files); of feeds that are no run.")
    ] = "text",
    start: Annotated[str, typer.Option("--start", help="The instant of second 0.")] = "2007-05-28 00:00:00",
    master: Master = LOCAL,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """Make trajectories of position reports: OUT/trips with vid, xway, dir and a moving point each.

    A run is archived whole. Anything else is a stream: each trip is written once, when it is over, and what cannot be
    read goes to OUT/rejects with the reason. After Ctrl-C or a crash the same command goes on where it was.

    Examples:

    `slipstream archive runs/demo --out history` a recorded run

    `slipstream archive feed.dat --out history --follow` a text file that grows

    `slipstream archive kafka:127.0.0.1:9092/positions --follow --out history` the topic that `slipstream toll` reads
    """
    from slipstream.feeds.parse import PARSERS
    from slipstream.feeds.run import Run
    from slipstream.moving import archive as archives

    if encoding not in (*PARSERS, "parquet"):
        raise BadArgument(f"--encoding {encoding}: unknown.", hint=f"There are: {', '.join(PARSERS)}, parquet.")
    if speed < 0:
        raise BadArgument(f"--speed {speed}: below 0.", hint="1 is real time, 0 takes a run whole.")
    run = Run.open(Path(source)) if (Path(source) / "manifest.json").exists() else None
    spark = spark_session("archive", master, conf)
    if run is not None and not speed:
        made = archives.archive_run(spark, run, out, start)
    else:
        made = _archive_stream(spark, source, out, (run, speed, encoding, follow, start))
    show(made, as_json=as_json, title=str(out))


def _archive_stream(spark: Any, source: str, out: Path, how: tuple[Any, float, str, bool, str]) -> dict[str, int]:
    """Archive a stream until it ends; how many trips and rejects there are then."""
    from slipstream.moving import archive as archives
    from slipstream.tolls import sources

    run, speed, encoding, follow, start = how
    files = run is None and encoding == "parquet"
    ended = sources.at_second(run.manifest.seconds) if run is not None else sources.has_ended
    if run is not None:
        tuples = _replayed(spark, run, speed, out)
    elif files:
        tuples = archives.arriving(spark, Path(source))
    else:
        chunks = sources.chunks(spark, source, out / "checkpoint", encoding, follow=follow)
        tuples = archives.parsed(chunks, encoding)
    with task_errors(), _stopped_at_the_end() as queries:
        queries.append(archives.archive_stream(tuples, out, start, once=files and not follow))
        if not files:
            queries.append(archives.keep_rejects(tuples, out))
        for query in queries:
            if files:
                query.awaitTermination()
            else:
                sources.follow(query, ended, lambda _: None)
                query.processAllAvailable()  # what the end of the stream has ended
    rejects = spark.read.text(str(out / "rejects")).count() if any((out / "rejects").glob("*.csv")) else 0
    return {"trips": archives.open_archive(spark, out).count(), "rejected": rejects}


def _replayed(spark: Any, run: Any, speed: float, out: Path) -> Any:
    """The tuples of a run, replayed; a clock that was started goes on where it would be now."""
    from slipstream.moving import archive as archives
    from slipstream.tolls import replay, sources, stages

    clock = out / "checkpoint" / sources.CLOCK
    sources.start_clock(clock, speed)
    tasks = spark.sparkContext.defaultParallelism
    path, until = str(run.path.absolute()), run.manifest.seconds
    asked = replay.Replay(path, run.copies, tuple(range(tasks)), 0, until, str(clock.absolute()), 60, tasks)
    hops = sources.replayed(spark, asked)
    wanted = hops.where(f"what IN ({stages.TRAIN}, {stages.REJECTS})")
    return archives.unpacked(wanted.withColumn("rejected", wanted.what == stages.REJECTS), until - 1)


@contextmanager
def _stopped_at_the_end() -> Iterator[list[Any]]:
    """Queries that are stopped however the block ends."""
    queries: list[Any] = []
    try:
        yield queries
    finally:
        for query in queries:
            query.stop()
