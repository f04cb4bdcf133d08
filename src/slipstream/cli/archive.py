"""``slipstream archive``: what streamed by becomes trajectories."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from slipstream.cli.checks import check_folder, check_new, check_there
from slipstream.cli.options import Conf, Json, Master, MaxRejects, check_rejects, show, spark_session
from slipstream.errors import BadArgument
from slipstream.session import LOCAL, task_errors

#: how a feed may be encoded: what ``feeds.parse`` takes, and files of tuples
ENCODINGS = ("text", "json", "train", "parquet")


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
        str,
        typer.Option(help="Encoding of a feed (ignored for runs): text, json, train or parquet (a folder of files)."),
    ] = "text",
    start: Annotated[str, typer.Option("--start", help="The instant of second 0.")] = "2007-05-28 00:00:00",
    max_rejects: MaxRejects = 1.0,
    master: Master = LOCAL,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """Make trajectories of position reports: OUT/trips with vid, xway, dir and a moving point each.

    A run is archived whole. Anything else is a stream: each trip is written once, when it is over, and what cannot be
    read goes to OUT/rejects with the reason. After Ctrl-C or a crash the same command resumes where it was.

    Examples:

    `slipstream archive runs/demo --out history` a recorded run

    `slipstream archive feed.dat --out history --follow` a text file that grows

    `slipstream archive kafka:127.0.0.1:9092/positions --follow --out history` the topic that `slipstream toll` reads
    """
    if speed < 0:
        raise BadArgument(f"--speed {speed}: below 0.", hint="1 is real time, 0 takes a run whole.")
    _check_instant(start)
    is_run = (Path(source) / "manifest.json").exists()
    if not is_run:
        _check_source(source, encoding, follow=follow)
    if is_run and not speed:
        check_new(out)
    else:
        check_folder(out, mark="checkpoint")
    from slipstream.feeds.run import Run
    from slipstream.moving import archive as archives

    run = Run.open(Path(source)) if is_run else None
    spark = spark_session("archive", master, conf)
    if run is not None and not speed:
        show(archives.archive_run(spark, run, out, start), as_json=as_json, title=str(out))
        return
    made = _archive_stream(spark, source, out, (run, speed, encoding, follow, start))
    show({"trips": made.trips, "rejected": made.rejected}, as_json=as_json, title=str(out))
    check_rejects(made.rejected, made.rejected + made.reports, max_rejects, out / "rejects")


def _check_instant(start: str) -> None:
    try:
        datetime.fromisoformat(start)
    except ValueError as error:
        raise BadArgument(
            f"--start {start}: not a date and time.", hint="Write for example 2007-05-28 00:00:00."
        ) from error


def _check_source(source: str, encoding: str, *, follow: bool) -> None:
    """Refuse a feed that cannot be there; what listens at an address is found out later."""
    from slipstream.io.kafka import Topic

    if encoding not in ENCODINGS:
        raise BadArgument(f"--encoding {encoding}: unknown.", hint=f"There are: {', '.join(ENCODINGS)}.")
    if source.startswith("kafka:"):
        Topic.parse(source)
    elif encoding == "parquet" and not Path(source).is_dir():
        raise BadArgument(f"{source}: no such folder.", hint="Give a run, or a folder that Parquet files arrive in.")
    elif not follow and not source.startswith("tcp:"):
        check_there(source, hint="Give a run, a text file, or a folder of them.")


class Archived(NamedTuple):
    """What is in the archive of a stream: trips, the reports they are made of, and what was rejected."""

    trips: int
    reports: int
    rejected: int


def _archive_stream(spark: Any, source: str, out: Path, how: tuple[Any, float, str, bool, str]) -> Archived:
    """Archive a stream until it ends; what there is then."""
    from slipstream.io import sources
    from slipstream.io.chunks import LAST
    from slipstream.moving import archive as archives

    run, speed, encoding, follow, start = how
    files = run is None and encoding == "parquet"
    ended = sources.at_second(run.manifest.seconds) if run is not None else sources.has_ended
    if run is not None:
        tuples = _replayed(spark, run, speed, out)
    elif files:
        tuples = archives.arriving(spark, Path(source))
    else:
        chunks = sources.chunks(spark, source, out / "checkpoint", encoding, follow=follow)
        sources.connect(source, out / "checkpoint", encoding)
        tuples = archives.parsed(chunks.withColumn("last", chunks.what == LAST), encoding)
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
    counts = archives.counts(archives.open_archive(spark, out))
    return Archived(counts["trips"], counts["reports"] + counts["dropped"], rejects)


def _replayed(spark: Any, run: Any, speed: float, out: Path) -> Any:
    """The tuples of a run, replayed; a clock that was started is now where it would be."""
    from slipstream.io import sources
    from slipstream.linear_road import replay, stages
    from slipstream.moving import archive as archives

    clock = out / "checkpoint" / sources.CLOCK
    sources.start_clock(clock, speed)
    tasks = spark.sparkContext.defaultParallelism
    path, until = str(run.path.absolute()), run.manifest.seconds
    asked = replay.Replay(path, run.copies, tuple(range(tasks)), 0, until, str(clock.absolute()), 60, tasks)
    hops = replay.replayed(spark, asked)
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
