"""Run the toll engine: from an input to the answers in a folder, to the end of the input or for ever.

Every start says where it reads, then does the same: lay out, assemble the query, write, follow until the input ends.
What an interrupted start left behind in the folder is where the next one goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slipstream.cuboid import warm
from slipstream.cuboid.metrics import recorded
from slipstream.errors import BadArgument
from slipstream.feeds.clock import FULL_SPEED, Clock
from slipstream.feeds.run import Run
from slipstream.feeds.tuples import FIELDS
from slipstream.progress import bar
from slipstream.session import activate, task_errors
from slipstream.tolls import replay, sink, sources
from slipstream.tolls.accounts import Accounts
from slipstream.tolls.compaction import BLOCK, compacting
from slipstream.tolls.forward import Forward
from slipstream.tolls.fragment import TollFragment
from slipstream.tolls.layout import FILE, Layout
from slipstream.tolls.published import Watch, prepare
from slipstream.tolls.query import assemble, take_in
from slipstream.tolls.rules import find
from slipstream.tolls.sources import CLOCK, at_second, has_ended, place_of, start_clock
from slipstream.tolls.stages import account_stage, by_fragment, toll_stage
from slipstream.tolls.summary import summarise
from slipstream.tolls.travel import Past

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CHECKPOINT = "checkpoint"
#: empty batches before a clock starts: by then Spark has the query planned and compiled
REHEARSALS = 8
#: what to do after almost anything
GO_ON = "What was committed is kept. Mend that, and the same command goes on where it was."


@dataclass(frozen=True)
class Settings:
    """How to run; the input and the output folder are given beside it."""

    speed: float = FULL_SPEED
    rules: str = "2004"
    since: int = 0  # fast-forward to this second
    until: int | None = None
    batch_seconds: int = 60
    lateness: int = 60
    encoding: str = "text"
    follow: bool = False
    text: bool = True
    compact_every: int = BLOCK  # batches of answers in a file once they are old; 0 leaves them
    parallel: int = 0
    train_length: int = 0
    history: Path | None = None
    snapshot: bool = False  # publish cars, segments, accidents and accounts as cuboids
    queries: str = ""  # CREATE PATTERN and CREATE QUERY over car, asked at every report; publishes too
    watch: Callable[[], None] = lambda: None  # called after every look at the query, for what people see


def toll_run(spark: SparkSession, run: Run, out: Path, settings: Settings) -> dict[str, Any]:
    """Toll a recorded run: first the opening, then its seconds by the clock."""
    until = run.manifest.seconds if settings.until is None else min(settings.until, run.manifest.seconds)
    since = settings.since
    if not 0 <= since < until:
        raise BadArgument(f"From second {since} to {until}: nothing to do.", hint="Give --until a later second.")
    _check_folder(out)
    layout = _layout(spark, f"run {run.path.name}", out, settings, lateness=0)
    path = str(run.path.absolute())
    forward = ""
    if since:
        folder = out / CHECKPOINT / "forward"
        started = Forward(str(folder.absolute()), path, run.copies, settings.rules, since)
        started.compute(spark)
        forward = started.to_json()
    _warm_up(spark, layout.partitions)
    source = replay.Replay(
        path,
        run.copies,
        layout.fragments,
        since,
        until,
        str((out / CHECKPOINT / CLOCK).absolute()),
        settings.batch_seconds,
        layout.partitions,
        forward,
        REHEARSALS if settings.speed != FULL_SPEED else 1,
        settings.train_length,
    )
    _stop_other_clock(out, settings.speed)
    with warm.engine() as name:
        answers = assemble(sources.replayed(spark, source), name, layout, path, _watch(out, settings))
        return _toll(spark, answers, out, settings, since, until)


def toll_feed(spark: SparkSession, source: str, out: Path, settings: Settings) -> dict[str, Any]:
    """Toll text, JSON or trains from a file, a folder, a topic or a socket: what is there, or all that comes."""
    _check_folder(out)
    live = settings.follow or sources.is_live(source)
    chunks = sources.chunks(spark, source, out / CHECKPOINT, settings.encoding, follow=live)
    layout = _layout(spark, _name_of(source), out, settings, lateness=settings.lateness)
    _warm_up(spark, layout.partitions)
    speed = 1.0 if live else FULL_SPEED
    _stop_other_clock(out, speed)
    start_clock(out / CHECKPOINT / CLOCK, speed)
    history = str(settings.history.absolute()) if settings.history else None
    with warm.engine() as name:
        hops = take_in(chunks, name, layout, settings.encoding)
        answers = assemble(hops, name, layout, history, _watch(out, settings))
        return _toll(spark, answers, out, settings)


def _name_of(source: str) -> str:
    """What a checkpoint remembers of its source: a folder may move, a socket may have another port."""
    if source.startswith(sources.KAFKA):
        return source
    return f"lines {sources.RECEIVED if sources.is_live(source) else Path(source).name}"


def _check_folder(out: Path) -> None:
    """Refuse a folder that is not ours, and one whose journal was damaged: its last line alone would not show it."""
    sink.check_whole(out, out / CHECKPOINT)
    if out.exists() and not (out / CHECKPOINT).exists() and any(out.iterdir()):
        raise BadArgument(f"--out {out}: exists and is no engine's folder.", hint="Give another name, or remove it.")


def _layout(spark: SparkSession, source: str, out: Path, settings: Settings, *, lateness: int) -> Layout:
    parallel = settings.parallel or spark.sparkContext.defaultParallelism
    wanted = Layout.new(spark, source, parallel=parallel, rules=settings.rules, lateness=lateness)
    return wanted.agree_with(out / CHECKPOINT)


def _watch(out: Path, settings: Settings) -> Watch | None:
    return prepare(out, snapshot=settings.snapshot, script=settings.queries)


def _rehearse(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Toll one made-up report, so that a worker has its kernels compiled or loaded."""
    report = dict.fromkeys(FIELDS, np.zeros(1, np.int32))
    hops = list(toll_stage(TollFragment(find("2004")), by_fragment(report, (0,)), (0,)))
    list(account_stage(Accounts(find("2004"), Past(None)), hops))
    yield from batches


def _warm_up(spark: SparkSession, tasks: int) -> None:
    """Have the kernels ready in the workers before a clock starts."""
    spark.range(0, tasks, 1, tasks).mapInArrow(_rehearse, "id long").collect()


def _stop_other_clock(out: Path, speed: float) -> None:
    """After a restart at another speed, the clock starts again from where the engine is."""
    file = out / CHECKPOINT / CLOCK
    if (clock := Clock.read(file)) is not None and clock.speed != speed:
        file.unlink()


def _toll(
    spark: SparkSession,
    answers: DataFrame,
    out: Path,
    settings: Settings,
    since: int = 0,
    until: int | None = None,
) -> dict[str, Any]:
    """Run the query: of a run the seconds from ``since`` to ``until``, of a feed all it has."""
    began = time.time()
    with task_errors(GO_ON, out / CHECKPOINT):
        try:
            with _writing(spark, answers, out, settings) as query:
                _take_all(query, out, settings, since, until)
        finally:
            settings.watch()
            summary = summarise(out, began=began, clock=Clock.read(out / CHECKPOINT / CLOCK))
    return summary


def _take_all(query: StreamingQuery, out: Path, settings: Settings, since: int, until: int | None) -> None:
    """Follow a query from the openings to the end of its input."""
    if until is not None:
        sources.follow(query, at_second(since), lambda _: settings.watch())
        reached = int(place_of(query).get("second", since))
        start_clock(out / CHECKPOINT / CLOCK, settings.speed, max(since, reached))
    with bar("seconds of the run", until or 0) as advance:
        ended = has_ended if until is None else at_second(until)
        sources.follow(query, ended, _looking(settings.watch, advance))


def _looking(watch: Callable[[], None], advance: Callable[[int], None]) -> Callable[[int], None]:
    """Shows people how far the query is, and does what else is to be done at every look."""
    shown = 0

    def look(second: int) -> None:
        nonlocal shown
        watch()
        if second > shown:
            advance(second - shown)
            shown = second

    return look


@contextmanager
def _writing(spark: SparkSession, answers: DataFrame, out: Path, settings: Settings) -> Iterator[StreamingQuery]:
    """The running query; it is stopped however the block ends."""
    activate(spark)
    spark.dataSource.register(sink.AnswerSink)
    to = sink.Sink(str(out.absolute()), str((out / CHECKPOINT / CLOCK).absolute()), settings.text)
    writer = answers.writeStream.format(sink.AnswerSink.name()).option(sink.OPTION, to.to_json())
    writer = writer.option("checkpointLocation", str(out / CHECKPOINT)).outputMode("append")
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", Layout.read(out / CHECKPOINT / FILE).partitions)
    query = writer.trigger(processingTime="0 seconds").start()
    try:
        with recorded(query, out), compacting(out, settings.compact_every):
            yield query
    finally:
        query.stop()
        spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
