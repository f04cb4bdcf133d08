"""Run the toll engine: from an input to the answers in a folder, to the end of the input or for ever.

Every start says where it reads, then does the same: lay out, assemble the query, write, follow until the input ends.
What an interrupted start left behind in the folder is where the next one goes on.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slipstream.cuboid.rtc import recorded
from slipstream.errors import BadArgument, BadInput
from slipstream.feeds.clock import FULL_SPEED, Clock
from slipstream.feeds.run import Run
from slipstream.feeds.tuples import FIELDS
from slipstream.progress import bar
from slipstream.session import task_errors
from slipstream.tolls import lines, replay, sink, topic
from slipstream.tolls.accounts import Accounts
from slipstream.tolls.fragment import TollFragment
from slipstream.tolls.layout import FILE, Layout
from slipstream.tolls.published import Watch, prepare
from slipstream.tolls.query import assemble, take_in
from slipstream.tolls.rules import find
from slipstream.tolls.stages import account_stage, by_fragment, toll_stage
from slipstream.tolls.summary import summarise
from slipstream.tolls.travel import Past

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CHECKPOINT = "checkpoint"


@dataclass(frozen=True)
class Settings:
    """How to run; the input and the output folder are given beside it."""

    speed: float = FULL_SPEED
    rules: str = "2004"
    until: int | None = None
    batch_seconds: int = 60
    lateness: int = 60
    encoding: str = "text"
    follow: bool = False
    text: bool = True
    parallel: int = 0
    train_length: int = 0
    history: Path | None = None
    snapshot: bool = False  # publish cars, segments, accidents and accounts as cuboids
    queries: str = ""  # CREATE PATTERN and CREATE QUERY over car, asked at every report; publishes too
    watch: Callable[[], None] = lambda: None  # called after every look at the query, for what people see


def toll_run(spark: SparkSession, run: Run, out: Path, settings: Settings) -> dict[str, Any]:
    """Toll a recorded run."""
    until = run.manifest.seconds if settings.until is None else min(settings.until, run.manifest.seconds)
    if until < 1:
        raise BadArgument(f"--until {settings.until}: nothing to do.", hint="Give a second after the first.")
    layout = _layout(spark, f"run {run.path.name}", out, settings, lateness=0)
    _warm_up(spark, layout.partitions)
    clock = _clock(out, settings.speed)
    path = str(run.path.absolute())
    source = replay.Replay(
        path,
        run.copies,
        layout.fragments,
        0,
        until,
        clock,
        settings.batch_seconds,
        layout.partitions,
        settings.train_length,
    )
    spark.dataSource.register(replay.ReplaySource)
    hops = spark.readStream.format(replay.ReplaySource.name()).option(replay.OPTION, source.to_json()).load()
    return _toll(
        spark,
        assemble(hops, str(out.absolute()), layout, path, _watch(out, settings)),
        out,
        clock,
        settings,
        _at_second(until),
        until,
    )


def toll_lines(spark: SparkSession, path: Path, out: Path, settings: Settings) -> dict[str, Any]:
    """Toll Linear Road text, JSON or trains in a file or a folder; with ``follow``, as it grows."""
    if not path.exists() and not settings.follow:
        raise BadArgument(f"{path}: no such file or folder.", hint="Give a run, a text file, or a folder of them.")
    source = lines.Lines(str(path.absolute()), settings.follow, whole_files=settings.encoding == "train")
    spark.dataSource.register(lines.LineSource)
    chunks = spark.readStream.format(lines.LineSource.name()).option(lines.OPTION, source.to_json()).load()
    return _toll_chunks(spark, chunks, f"lines {path.name}", out, settings)


def toll_topic(spark: SparkSession, name: str, out: Path, settings: Settings) -> dict[str, Any]:
    """Toll the messages of a Kafka topic: those that are there now, or with ``follow`` all that come."""
    source = topic.Subscription(topic.Topic.parse(name), settings.follow, settings.encoding)
    source = source.until_now(out / CHECKPOINT / "topic.json")
    spark.dataSource.register(topic.TopicSource)
    chunks = spark.readStream.format(topic.TopicSource.name()).option(topic.OPTION, source.to_json()).load()
    return _toll_chunks(spark, chunks, name, out, settings)


def _toll_chunks(
    spark: SparkSession,
    chunks: DataFrame,
    source: str,
    out: Path,
    settings: Settings,
) -> dict[str, Any]:
    """Toll any stream of chunks (key, seq, chunk, last) whose offsets say when it has ended."""
    layout = _layout(spark, source, out, settings, lateness=settings.lateness)
    _warm_up(spark, layout.partitions)
    clock = _clock(out, 1.0 if settings.follow else FULL_SPEED)
    engine = str(out.absolute())
    hops = take_in(chunks, engine, layout, settings.encoding)
    history = str(settings.history.absolute()) if settings.history else None
    return _toll(
        spark, assemble(hops, engine, layout, history, _watch(out, settings)), out, clock, settings, _is_ended, None
    )


def _layout(spark: SparkSession, source: str, out: Path, settings: Settings, *, lateness: int) -> Layout:
    checkpoint = out / CHECKPOINT
    if out.exists() and not checkpoint.exists() and any(out.iterdir()):
        raise BadArgument(f"--out {out}: exists and is no engine's folder.", hint="Give another name, or remove it.")
    parallel = settings.parallel or spark.sparkContext.defaultParallelism
    wanted = Layout.new(spark, source, parallel=parallel, rules=settings.rules, lateness=lateness)
    return wanted.agree_with(checkpoint)


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


def _clock(out: Path, speed: float) -> Clock:
    """The clock of this engine: set at its first start, and the same after every restart."""
    file = out / CHECKPOINT / "clock.json"
    if file.exists():
        try:
            stored = Clock(**json.loads(file.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise BadInput(f"{file}: damaged ({error}).", hint="Start afresh in another --out folder.") from error
        if stored.speed == speed:
            return stored
    clock = Clock.starting(speed)
    file.write_text(json.dumps(asdict(clock)), encoding="utf-8")
    return clock


def _toll(
    spark: SparkSession,
    answers: DataFrame,
    out: Path,
    clock: Clock,
    settings: Settings,
    ended: Callable[[dict[str, Any]], bool],
    until: int | None,
) -> dict[str, Any]:
    began = time.time()
    try:
        with _writing(spark, answers, out, clock, settings) as query:
            _follow(query, ended, until, settings.watch)
    finally:
        settings.watch()
        summary = summarise(out, began=began, clock=clock)
    return summary


@contextmanager
def _writing(
    spark: SparkSession, answers: DataFrame, out: Path, clock: Clock, settings: Settings
) -> Iterator[StreamingQuery]:
    """The running query; it is stopped however the block ends."""
    spark.dataSource.register(sink.AnswerSink)
    to = sink.Sink(str(out.absolute()), clock, settings.text)
    writer = answers.writeStream.format(sink.AnswerSink.name()).option(sink.OPTION, to.to_json())
    writer = writer.option("checkpointLocation", str(out / CHECKPOINT)).outputMode("append")
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    with task_errors(), _signals_heeded():
        spark.conf.set("spark.sql.shuffle.partitions", Layout.read(out / CHECKPOINT / FILE).partitions)
        query = writer.trigger(processingTime="0 seconds").start()
        try:
            with recorded(query, out):
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


def _follow(
    query: StreamingQuery,
    ended: Callable[[dict[str, Any]], bool],
    until: int | None,
    watch: Callable[[], None],
) -> None:
    """Wait until the query has taken all of its input, showing how far it is."""
    with bar("seconds of the run", until or 0) as advance:
        shown = 0
        while query.isActive:
            offset = _offset(query)
            if offset is not None and ended(offset):
                return
            if offset is not None and "second" in offset:
                advance(offset["second"] - shown)
                shown = offset["second"]
            watch()
            time.sleep(0.1)
    if error := query.exception():
        raise error


def _is_ended(offset: dict[str, Any]) -> bool:
    return bool(offset["ended"])


def _at_second(until: int) -> Callable[[dict[str, Any]], bool]:
    return lambda offset: int(offset["second"]) >= until


def _offset(query: StreamingQuery) -> dict[str, Any] | None:
    """The offset up to which batches are finished."""
    progress = query.lastProgress
    if not progress:
        return None
    offset = progress["sources"][0]["endOffset"]
    found: dict[str, Any] | None = json.loads(offset) if isinstance(offset, str) else offset
    return found
