"""Run a job, tolling or archiving or both: from an input to a folder, until the input ends or the job is stopped.

Every start names its source, then does the same: lay out, assemble the query, warm up, connect, follow until the input
ends. The next start resumes where an interrupted one left off.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slipstream.archive import files as archives
from slipstream.archive.open_trips import OpenTrips
from slipstream.archive.trajectories import START, second_of
from slipstream.errors import BadArgument
from slipstream.feeds.clock import FULL_SPEED, LIVE, Clock
from slipstream.feeds.intake import SILENCE_MS
from slipstream.feeds.parse import PARSERS
from slipstream.feeds.run import Run
from slipstream.feeds.tuples import FIELDS, REPORT_EVERY
from slipstream.io import sources
from slipstream.io.parcels import Parcels
from slipstream.io.reports import reading
from slipstream.io.sources import CLOCK, Feed, at_second, has_ended, is_open, place_of, start_clock
from slipstream.linear_road import replay, sink
from slipstream.linear_road.accounts import Accounts
from slipstream.linear_road.compaction import BLOCK, compacting
from slipstream.linear_road.forward import Forward
from slipstream.linear_road.fragment import TollFragment
from slipstream.linear_road.layout import ANSWERS, ANSWERS_AND_TRIPS, FILE, TRIPS, Layout, check_layout
from slipstream.linear_road.published import Watch, prepare
from slipstream.linear_road.query import IntakeStage, assemble, stages_of
from slipstream.linear_road.rules import find
from slipstream.linear_road.schedule import Irregular
from slipstream.linear_road.stages import account_stage, by_fragment, ends, toll_stage, trip_stage
from slipstream.linear_road.summary import FILE as SUMMARY
from slipstream.linear_road.summary import summarise
from slipstream.linear_road.travel import Past
from slipstream.progress import bar, say
from slipstream.runtime import state_cache
from slipstream.runtime.metrics import recorded
from slipstream.runtime.status import FILE as STATUS
from slipstream.runtime.status import READY, RUNNING, Status, has_finished, reported
from slipstream.session import activate, keeping_state, task_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CHECKPOINT = "checkpoint"
#: empty batches before a clock starts or a feed is connected: by then Spark has the query planned and compiled
REHEARSALS = 24
#: what to do after almost anything
RESUME = "What was committed is safe. Fix the problem and run the same command again to resume."


@dataclass(frozen=True)
class Settings:
    """How to run; the input and the output folder are given beside it."""

    speed: float = FULL_SPEED
    rules: str = "2004"
    since: int = 0  # fast-forward to this second
    until: int | None = None
    batch_seconds: int = 60
    lateness: int = 60
    silence: float = SILENCE_MS / 1000  # seconds after which a silent partition of a topic no longer holds the others
    encoding: str = "text"
    columns: Mapping[str, str] = field(default_factory=dict)  # of a feed: which field is which of a tuple's
    fields: tuple[str, ...] = ()  # of CSV without a header
    kafka: tuple[tuple[str, str], ...] = ()  # settings for a feed's brokers
    follow: bool = False
    text: bool = True
    compact_every: int = BLOCK  # batches of answers in a file once they are old; 0 leaves them
    parallel: int = 0
    train_length: int = 0
    history: Path | None = None
    snapshot: bool = False  # publish cars, segments, accidents and accounts as cuboids
    queries: str = ""  # CREATE PATTERN and CREATE QUERY over car, asked at every report; publishes too
    outputs: str = ANSWERS
    start: str = START  # of trips: the instant of second 0
    watch: Callable[[], None] = lambda: None  # called after every look at the query, for what people see

    def reading(self, source: str) -> Feed:
        """The feed that a source names."""
        return reading(
            source,
            self.encoding,
            columns=self.columns,
            fields=self.fields,
            follow=self.follow,
            settings=self.kafka if source.startswith(sources.KAFKA) else (),
        )

    def end_of(self, run: Run) -> int:
        """The second of a run before which to stop."""
        return run.manifest.seconds if self.until is None else min(self.until, run.manifest.seconds)

    @property
    def archives(self) -> bool:
        """Whether trips are made."""
        return self.outputs in (TRIPS, ANSWERS_AND_TRIPS)

    @property
    def name(self) -> str:
        """What people call a job with these settings."""
        return "archive" if self.outputs == TRIPS else "toll"

    def fixed(self, source: str, *, lateness: int, until: int = -1) -> dict[str, Any]:
        """What a job must have in common with the one that it resumes."""
        of_trips = {"start": self.start, "until": until} if self.archives else {"start": "", "until": -1}
        return {"source": source, "rules": self.rules, "lateness": lateness, "outputs": self.outputs, **of_trips}


def toll_run(spark: SparkSession, run: Run, out: Path, settings: Settings) -> dict[str, Any]:
    """Toll a recorded run: first the opening, then its seconds by the clock."""
    check_run(run, out, settings)
    with reported(out, source_of(run), settings.end_of(run)) as status:
        return _toll_run(spark, run, out, settings, status)


def check_run(run: Run, out: Path, settings: Settings) -> None:
    """Refuse what cannot be done, before Spark starts."""
    since, until = settings.since, settings.end_of(run)
    if not 0 <= since < until:
        raise BadArgument(f"From second {since} to {until}: nothing to do.", hint="Give --until a later second.")
    _check_job(out, settings, _fixed_of_run(run, settings))


def check_feed(source: str, out: Path, settings: Settings) -> None:
    """Refuse what cannot be done, before Spark starts."""
    settings.reading(source).check()
    _check_job(out, settings, _fixed_of_feed(source, settings))


def _check_job(out: Path, settings: Settings, fixed: dict[str, Any]) -> None:
    if settings.archives:
        second_of(settings.start)
    check_folder(out, settings.name)
    check_layout(out / CHECKPOINT, fixed)


def finished(out: Path, source: str, until: int | None = None) -> dict[str, Any] | None:
    """The summary of an engine that has answered all of this input already."""
    if not has_finished(out, source, until):
        return None
    say(f"{out}: already complete, nothing to do.")
    summary: dict[str, Any] = json.loads((out / SUMMARY).read_text(encoding="utf-8"))
    _warn(summary)
    return summary


def source_of(run: Run) -> str:
    """What a status calls a run."""
    return str(run.path.absolute()) + (f" x {run.copies}" if run.copies > 1 else "")


def _fixed_of_run(run: Run, settings: Settings) -> dict[str, Any]:
    """What a checkpoint remembers of a run: its folder may move."""
    return settings.fixed(f"run {run.path.name}", lateness=0, until=settings.end_of(run))


def _toll_run(spark: SparkSession, run: Run, out: Path, settings: Settings, status: Status) -> dict[str, Any]:
    since, until = settings.since, settings.end_of(run)
    layout = _layout(spark, out, settings, _fixed_of_run(run, settings))
    path = str(run.path.absolute())
    forward = ""
    if since:
        folder = out / CHECKPOINT / "forward"
        started = Forward(str(folder.absolute()), path, run.copies, settings.rules, since)
        started.compute(spark)
        forward = started.to_json()
    _warm_up(spark, layout)
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
    with state_cache.engine() as name:
        stages = stages_of(name, layout, path, _watch(out, settings))
        answers = assemble(replay.replayed(spark, source), name, layout, stages)
        return _toll(spark, answers, out, settings, _Seconds(since, until), status)


def toll_feed(spark: SparkSession, source: str, out: Path, settings: Settings) -> dict[str, Any]:
    """Toll text, JSON or trains from a file, a folder, a topic or a socket: what is there, or all that comes."""
    check_feed(source, out, settings)
    with reported(out, source) as status:
        return _toll_feed(spark, source, out, settings, status)


def _toll_feed(spark: SparkSession, source: str, out: Path, settings: Settings, status: Status) -> dict[str, Any]:
    feed = settings.reading(source)
    live = feed.has_no_end
    openings = REHEARSALS if live else 0
    layout = _layout(spark, out, settings, _fixed_of_feed(source, settings), live=live)
    packing = Parcels(feed.encoding, layout.fragments, layout.lateness, feed.decoding)
    parcels = replace(feed, tasks=layout.partitions).open(
        spark, out / CHECKPOINT, openings=openings, alone=True, packing=packing
    )
    _warm_up(spark, layout)
    _set_clock(out, LIVE if live else Clock.starting(FULL_SPEED))
    history = str(settings.history.absolute()) if settings.history else None
    with state_cache.engine() as name:
        intake = IntakeStage(name, layout, live=live, silence_ms=round(1000 * settings.silence))
        stages = stages_of(name, layout, history, _watch(out, settings), intake)
        answers = assemble(parcels, name, layout, stages)
        coming = _Feed(openings, lambda: feed.connect(out / CHECKPOINT))
        return _toll(spark, answers, out, settings, coming, status)


def _fixed_of_feed(source: str, settings: Settings) -> dict[str, Any]:
    """What a checkpoint remembers of a feed: a folder may move, a socket may have another port."""
    name = f"lines {sources.RECEIVED if sources.is_live(source) else Path(source).name}"
    return settings.fixed(source if source.startswith(sources.KAFKA) else name, lateness=settings.lateness)


def check_folder(out: Path, job: str = "toll") -> None:
    """Refuse a folder that is not ours, and one whose journal was damaged: its last line alone would not show it."""
    sink.check_whole(out, out / CHECKPOINT)
    others = out.exists() and not (out / CHECKPOINT).exists() and any(path.name != STATUS for path in out.iterdir())
    trips = (out / archives.FOLDER).exists() and not (out / CHECKPOINT / FILE).exists()
    if others or trips:
        kind = "an archive" if job == "archive" else f"a {job}"
        raise BadArgument(f"--out {out}: exists but is not {kind} job's folder.", hint="Choose another, or remove it.")


def _layout(spark: SparkSession, out: Path, settings: Settings, fixed: dict[str, Any], *, live: bool = False) -> Layout:
    """A live feed on one machine gets one fragment: the number of tasks in a batch costs more than the work in them."""
    here = str(spark.sparkContext.master).startswith("local")
    parallel = settings.parallel or (1 if live and here else spark.sparkContext.defaultParallelism)
    layout = Layout.agreed(out / CHECKPOINT, parallel, fixed)
    if settings.archives:
        archives.lay_out(out)
    return layout


def _watch(out: Path, settings: Settings) -> Watch | None:
    return prepare(out, snapshot=settings.snapshot, script=settings.queries)


def _rehearsing(layout: Layout) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Take one made-up report through the job's stages, so that a worker has its kernels compiled or loaded."""

    def rehearse(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        report = PARSERS["text"]([b",".join([b"0"] * len(FIELDS))]).tuples
        hops = list(by_fragment(report, (0,)))
        if layout.makes_trips:
            list(trip_stage(OpenTrips(), [*hops, *ends((0,), 0)], 0))
        if layout.makes_answers:
            hops = list(toll_stage(TollFragment(find("2004")), hops, (0,)))
            list(account_stage(Accounts(find("2004"), Past(None)), hops))
        yield from batches

    return rehearse


def _warm_up(spark: SparkSession, layout: Layout) -> None:
    """Have the kernels ready in the workers before a clock starts."""
    tasks = layout.partitions
    spark.range(0, tasks, 1, tasks).mapInArrow(_rehearsing(layout), "id long").collect()


def _stop_other_clock(out: Path, speed: float) -> None:
    """After a restart at another speed, the clock starts again from where the engine is."""
    file = out / CHECKPOINT / CLOCK
    if (clock := Clock.read(file)) is not None and clock.speed != speed:
        file.unlink()


def _set_clock(out: Path, clock: Clock) -> None:
    (out / CHECKPOINT).mkdir(parents=True, exist_ok=True)
    clock.write(out / CHECKPOINT / CLOCK)


@dataclass(frozen=True)
class _Seconds:
    """The seconds of a run as an input: the clock starts when the openings are over."""

    since: int
    until: int

    @property
    def total(self) -> int:
        return self.until

    def opened(self, place: dict[str, Any]) -> bool:
        return at_second(self.since)(place)

    def ended(self, place: dict[str, Any]) -> bool:
        return at_second(self.until)(place)

    def begin(self, out: Path, settings: Settings, place: dict[str, Any]) -> None:
        start_clock(out / CHECKPOINT / CLOCK, settings.speed, max(self.since, int(place.get("second", self.since))))


@dataclass(frozen=True)
class _Feed:
    """A feed as an input: it is connected when the openings are over."""

    openings: int
    connect: Callable[[], None]
    total = 0

    def opened(self, place: dict[str, Any]) -> bool:
        return is_open(self.openings)(place)

    def ended(self, place: dict[str, Any]) -> bool:
        return has_ended(place)

    def begin(self, out: Path, settings: Settings, place: dict[str, Any]) -> None:
        del out, settings
        if not has_ended(place):
            self.connect()


def _toll(
    spark: SparkSession, answers: DataFrame, out: Path, settings: Settings, input_: _Seconds | _Feed, status: Status
) -> dict[str, Any]:
    """Run the query from the openings to the end of its input."""
    began = time.time()
    with task_errors(RESUME, out / CHECKPOINT):
        try:
            with _writing(spark, answers, out, settings) as query:
                sources.follow(query, input_.opened, lambda _: settings.watch())
                status.enter(READY)
                say(f"Ready: {'archiving' if settings.name == 'archive' else 'tolling'} into {out}.")
                input_.begin(out, settings, place_of(query))
                with bar("seconds of the run", input_.total) as advance:
                    sources.follow(query, input_.ended, _looking(out, settings, status, advance))
        finally:
            settings.watch()
            clock = Clock.read(out / CHECKPOINT / CLOCK)
            summary = summarise(out, began=began, clock=clock, outputs=settings.outputs)
            _warn(summary)
    return summary


def _looking(out: Path, settings: Settings, status: Status, advance: Callable[[int], None]) -> Callable[[int], None]:
    """Shows people how far the query is, and does what else is to be done at every look."""
    shown = 0

    def look(second: int) -> None:
        nonlocal shown
        settings.watch()
        if status.state == READY and (last := sink.last_batch(out)) is not None and last.newest >= 0:
            status.enter(RUNNING)
        if second > shown:
            advance(second - shown)
            shown = second

    return look


def _warn(summary: dict[str, Any]) -> None:
    """Say what makes answers other than people may expect: it must not pass without a word."""
    irregular = Irregular.from_dict(summary.get("irregular", {"count": 0}))
    if irregular.count:
        say(f"Warning: {irregular}")
    elif summary.get("archived", 0) < 2 * summary.get("trips", 0):
        say(
            f"Warning: {summary['trips']:,} trips have {summary['archived']:,} reports. A report more than "
            f"{REPORT_EVERY} s after the vehicle's last begins another trip: this feed may report less often."
        )
    early = sum(response["negative"] for response in summary.get("response_seconds", {}).values())
    if early:
        say(
            f"Warning: by the clocks of sender and engine {early:,} answers came before their questions. "
            "Response times are wrong: synchronise the clocks of the machines (NTP)."
        )


@contextmanager
def _writing(spark: SparkSession, answers: DataFrame, out: Path, settings: Settings) -> Iterator[StreamingQuery]:
    """The running query; it is stopped however the block ends."""
    activate(spark)
    spark.dataSource.register(sink.AnswerSink)
    start = second_of(settings.start) if settings.archives else 0
    to = sink.Sink(str(out.absolute()), str((out / CHECKPOINT / CLOCK).absolute()), settings.text, start)
    writer = answers.writeStream.format(sink.AnswerSink.name()).option(sink.OPTION, to.to_json())
    writer = writer.option("checkpointLocation", str(out / CHECKPOINT)).outputMode("append")
    with keeping_state(spark, Layout.read(out / CHECKPOINT / FILE).partitions):
        query = writer.trigger(processingTime="0 seconds").start()
    try:
        with recorded(query, out), compacting(out, settings.compact_every):
            yield query
    finally:
        query.stop()
