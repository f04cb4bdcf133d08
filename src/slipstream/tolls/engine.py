"""Run the toll engine: from an input to the answers in a folder, to the end of the input or for ever."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstream.errors import BadArgument
from slipstream.feeds.clock import Clock
from slipstream.feeds.run import Run
from slipstream.progress import Advance, bar
from slipstream.session import task_errors
from slipstream.tolls import replay, sink
from slipstream.tolls.layout import FILE, Layout
from slipstream.tolls.query import assemble
from slipstream.tolls.summary import summarise

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


CHECKPOINT = "checkpoint"


@dataclass(frozen=True)
class Settings:
    """How to run; the input and the output folder are given beside it."""

    speed: float = 0.0
    rules: str = "2004"
    since: int = 0
    until: int | None = None
    batch_seconds: int = 60
    text: bool = True
    parallel: int = 0


def toll_run(spark: SparkSession, run: Run, out: Path, settings: Settings) -> dict[str, Any]:
    """Toll a recorded run; goes on where an earlier, interrupted start in ``out`` left off."""
    until = run.manifest.seconds if settings.until is None else min(settings.until, run.manifest.seconds)
    if not 0 <= settings.since < until:
        raise BadArgument(f"--until {until}: nothing to do from second {settings.since} on.")
    layout = _layout(spark, f"run {run.path.name}", out, settings, lateness=0)
    clock = Clock.starting(settings.speed, settings.since)
    source = replay.Replay(
        path=str(run.path.absolute()),
        copies=run.copies,
        fragments=layout.fragments,
        since=settings.since,
        until=until,
        clock=clock,
        most_seconds=settings.batch_seconds,
        tasks=layout.partitions,
    )
    spark.dataSource.register(replay.ReplaySource)
    hops = spark.readStream.format(replay.ReplaySource.name()).option(replay.OPTION, source.to_json()).load()
    answers = assemble(hops, str(out.absolute()), layout, str(run.path.absolute()))
    began = time.time()
    with _writing(spark, answers, out, clock, settings) as query, bar("seconds of the run", until) as advance:
        _follow(query, until, advance)
    return summarise(out, began=began, clock=clock)


def _layout(spark: SparkSession, source: str, out: Path, settings: Settings, *, lateness: int) -> Layout:
    parallel = settings.parallel or spark.sparkContext.defaultParallelism
    wanted = Layout.new(spark, source, parallel=parallel, rules=settings.rules, lateness=lateness)
    return wanted.agree_with(out / CHECKPOINT)


@contextmanager
def _writing(
    spark: SparkSession, answers: DataFrame, out: Path, clock: Clock, settings: Settings
) -> Iterator[StreamingQuery]:
    """The running query; however the block ends, it is stopped between two batches, not in the middle of one."""
    spark.dataSource.register(sink.AnswerSink)
    to = sink.Sink(str(out.absolute()), clock, settings.text)
    writer = answers.writeStream.format(sink.AnswerSink.name()).option(sink.OPTION, to.to_json())
    writer = writer.option("checkpointLocation", str(out / CHECKPOINT)).outputMode("append")
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    with task_errors(), _signals_heeded():
        spark.conf.set("spark.sql.shuffle.partitions", Layout.read(out / CHECKPOINT / FILE).partitions)
        query = writer.trigger(processingTime="0 seconds").start()
        try:
            yield query
        finally:
            query.stop()
            spark.conf.set("spark.sql.shuffle.partitions", str(partitions))


@contextmanager
def _signals_heeded() -> Iterator[None]:
    """SIGTERM ends a run as Ctrl-C does: PySpark alone would end the process in the middle of things."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:  # noqa: ARG001
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _follow(query: StreamingQuery, until: int, advance: Advance) -> None:
    """Wait until the query has taken the run's last second, showing how far it is."""
    shown = 0
    while query.isActive:
        second = _second(query)
        advance(second - shown)
        shown = second
        if second >= until:
            return
        time.sleep(0.1)
    if error := query.exception():
        raise error


def _second(query: StreamingQuery) -> int:
    """The second up to which batches are finished."""
    progress = query.lastProgress
    offset = progress["sources"][0]["endOffset"] if progress else None
    return int((json.loads(offset) if isinstance(offset, str) else offset)["second"]) if offset else 0
