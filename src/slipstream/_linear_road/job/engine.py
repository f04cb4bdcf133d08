"""Run a toll or archive job: from an input to a folder, until the input ends or the job is stopped.

This module has what is specific to these jobs: how a run or a feed is opened, what the query consists of, how its
batches are committed, and what the summary contains. The life cycle is that of every job (``_runtime.job``).
"""

from __future__ import annotations

import json
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slipstream._archive import trip_tables as archives
from slipstream._archive.ended_trips import START, parse_instant
from slipstream._archive.linear_road_trips import ReportTrips
from slipstream._errors import BadArgument
from slipstream._feeds.clock import FULL_SPEED, LIVE, Clock
from slipstream._feeds.parse import PARSERS
from slipstream._feeds.run import Run
from slipstream._feeds.tuples import FIELDS, LINEAR_ROAD, REPORT_EVERY, ReportForm
from slipstream._io import named_feeds
from slipstream._io.formats.pseudonyms import fingerprint
from slipstream._io.kafka_client import Topic
from slipstream._io.named_feeds import (
    CLOCK,
    Definition,
    Feed,
    find_last_offset,
    has_ended,
    has_reached_second,
    is_open,
    start_clock,
)
from slipstream._io.outputs import CHECKPOINT, COMPACT_EVERY, Outputs, check_tables
from slipstream._io.outputs.kafka import Publisher
from slipstream._io.report_feeds import has_text_ids, report_feed
from slipstream._io.report_packing import ReportPacking, frame_has_text_ids, pack_frame
from slipstream._linear_road import output_tables, replay
from slipstream._linear_road.answer_text import REJECTED, TEXT, check_texts
from slipstream._linear_road.fast_forward import FastForward, check_minute
from slipstream._linear_road.job.delivery import Delivery
from slipstream._linear_road.job.query import IntakeStage, WriteStage, assemble, make_stages, name_operators
from slipstream._linear_road.job.summary import FILE as SUMMARY
from slipstream._linear_road.job.summary import summarise
from slipstream._linear_road.job.toll_journal import RESPONSE_LIMITS, Detail, last_batch, response_times
from slipstream._linear_road.job.toll_layout import (
    ANSWERS,
    ANSWERS_AND_TRIPS,
    ARCHIVE,
    NUMBERS,
    TEXTS,
    TRIPS,
    Layout,
    check_job,
    name_kind,
)
from slipstream._linear_road.rules import find_rules
from slipstream._linear_road.schedule import Irregular
from slipstream._linear_road.state.accounts import Accounts
from slipstream._linear_road.state.past_queries import Past
from slipstream._linear_road.state.toll_fragment import TollFragment
from slipstream._linear_road.tasks.intake import SILENCE_MS
from slipstream._linear_road.tasks.publishing import Publication, list_schemas, parse_queries, prepare
from slipstream._linear_road.tasks.toll_stages import (
    account_stage,
    divide_by_fragment,
    end_hops,
    toll_stage,
    trip_stage,
)
from slipstream._runtime import job
from slipstream._runtime.stages.stage import Stage
from slipstream._runtime.state import state_cache
from slipstream._runtime.state.id_numbers import Names
from slipstream._runtime.watching.following import FollowedJob
from slipstream._runtime.watching.status import has_finished
from slipstream._spark.session import activate, stateful_settings
from slipstream._tools.files.locations import spark_uri
from slipstream._tools.progress import bar, say

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

#: empty batches before a clock starts or a feed is connected: by then Spark has planned and compiled the query
REHEARSALS = 24


@dataclass(frozen=True)
class Settings:
    """How to run a job; the input and the output folder are passed separately."""

    speed: float = FULL_SPEED
    rules: str = "2004"
    since: int = 0  # fast-forward to this second: of a run itself, for a feed of the run in ``history``
    copies: int = 1  # of the run in ``history``, for such a feed
    forward: Path | None = None  # a folder that keeps the state of a fast-forward for other jobs
    until: int | None = None
    batch_seconds: int = 60
    lateness: int = 60
    silence: float = SILENCE_MS / 1000  # seconds after which the others no longer wait for a silent topic partition
    encoding: str = "text"
    columns: Mapping[str, str] = field(default_factory=dict)  # of a feed: the field behind each column of a tuple
    fields: tuple[str, ...] = ()  # of CSV without a header
    kafka: tuple[tuple[str, str], ...] = ()  # settings for a feed's brokers; never stored
    definition: Definition | None = None  # where the schema of Avro or Protobuf messages is
    follow: bool = False
    text: bool = True  # write output.csv and rejects.csv too
    topics: tuple[Topic, ...] = ()  # to which the lines of output.csv are published
    show: Callable[[list[bytes]], None] | None = None  # receives the lines of every committed batch
    compact_every: int = COMPACT_EVERY  # batches between two compactions of the tables; 0 for never
    parallel: int = 0
    train_length: int = 0
    history: Path | None = None
    snapshot: bool = False  # publish cars, segments, accidents and accounts as cuboids
    queries: str = ""  # CREATE PATTERN and CREATE QUERY over car, evaluated at every report; implies snapshot
    outputs: str = ANSWERS
    start: str = START  # of trips: the instant of second 0
    watch: Callable[[], None] = lambda: None  # called each time the query's progress is checked

    def open_feed(self, source: str) -> Feed:
        """Return the feed for a source."""
        return report_feed(
            source,
            self.encoding,
            columns=self.columns,
            fields=self.fields,
            follow=self.follow,
            settings=self.kafka,
            definition=self.definition,
            form=self.form,
        )

    def end_of(self, run: Run) -> int:
        """Return the second of a run at which to stop, exclusive."""
        return run.manifest.seconds if self.until is None else min(self.until, run.manifest.seconds)

    @property
    def form(self) -> ReportForm:
        """The form of position reports."""
        return find_rules(self.rules).form

    @property
    def archives(self) -> bool:
        """Whether the job writes trips."""
        return self.outputs in (TRIPS, ANSWERS_AND_TRIPS)

    @property
    def name(self) -> str:
        """The kind of job that these settings describe."""
        return name_kind(self.outputs)

    def fixed(self, source: str, *, lateness: int, until: int = -1, ids: str = NUMBERS) -> dict[str, Any]:
        """Return the settings that must not change when a job is resumed."""
        trips = {"start": self.start, "until": until} if self.archives else {"start": "", "until": -1}
        common = {"source": source, "rules": self.rules, "lateness": lateness, "outputs": self.outputs, "ids": ids}
        key = fingerprint()  # older folders have no such setting
        return {**common, **trips, **({"pseudonyms": key} if key else {})}


def toll_run(spark: SparkSession, run: Run, out: Path, settings: Settings) -> dict[str, Any]:
    """Toll a recorded run: first the openings, then its seconds by the clock."""
    check_run(run, out, settings)
    return _RunLife(spark, run, out, settings).run_to_end()


def toll_feed(spark: SparkSession, source: str, out: Path, settings: Settings) -> dict[str, Any]:
    """Toll a file, a folder, a topic or a socket, in any encoding: what exists now, or everything that arrives."""
    check_feed(source, out, settings)
    return _FeedLife(spark, source, out, settings).run_to_end()


def toll_frame(
    spark: SparkSession, frame: DataFrame, out: Path, settings: Settings, *, name: str = "frame"
) -> dict[str, Any]:
    """Toll a streaming DataFrame with the columns of tuples, until the job is stopped.

    Each of its partitions is a lane (``tasks.intake``). It has no end: the newest seconds wait for tuples that are
    newer by the lateness.
    """
    _check(out, settings, _fix_frame(frame, name, settings))
    return _FrameLife(spark, frame, name, out, settings).run_to_end()


def check_run(run: Run, out: Path, settings: Settings) -> None:
    """Reject settings that cannot work, before Spark starts."""
    _check_start(settings)
    since, until = settings.since, settings.end_of(run)
    if not 0 <= since < until:
        raise BadArgument(
            f"Nothing to do from second {since} to {until}.", hint="Set --until to a later second.", code="empty-input"
        )
    _check(out, settings, _fix_run(run, settings))


def check_feed(source: str, out: Path, settings: Settings) -> None:
    """Reject settings that cannot work, before Spark starts."""
    feed = settings.open_feed(source)
    feed.check()
    _check_start(settings)
    if settings.since:
        _check_past(settings, named=has_text_ids(feed))
    _check(out, settings, _fix_feed(source, settings))


def _check_start(settings: Settings) -> None:
    """Reject a start in the middle under rules for which no state can be computed from a run."""
    if settings.since and settings.form != LINEAR_ROAD:
        raise BadArgument(
            f"--fast-forward-to {settings.since}: rules for real roads cannot start in the middle.",
            hint="Leave it out.",
            code="conflicting-options",
        )


def _check_past(settings: Settings, *, named: bool) -> None:
    """Reject a feed whose past cannot be computed."""
    asked = f"--fast-forward-to {settings.since}"
    if settings.history is None:
        raise BadArgument(
            f"{asked}: a feed has no past of its own.",
            hint="Give the run that precedes it: --history RUN.",
            code="missing-value",
        )
    if named:
        raise BadArgument(
            f"{asked}: vehicles of a run have numbers, but this feed has text ids.",
            hint="Leave it out.",
            code="conflicting-options",
        )
    if not 0 <= settings.since <= Run.open(settings.history).manifest.seconds:
        raise BadArgument(
            f"{asked}: outside {settings.history}.", hint="Give a second of that run.", code="out-of-range"
        )
    check_minute(settings.since)


def _check(out: Path, settings: Settings, fixed: dict[str, Any]) -> None:
    if settings.archives:
        parse_instant(settings.start)
    for topic in settings.topics:
        topic.check_broker()
    parse_queries(settings.queries, named=fixed["ids"] == TEXTS)
    check_job(out, fixed)
    last = last_batch(out)
    check_texts(out, last.detail if last else Detail())


def _fix_run(run: Run, settings: Settings) -> dict[str, Any]:
    """Return the fixed settings for a run; its folder may move."""
    return settings.fixed(f"run {run.path.name}", lateness=0, until=settings.end_of(run))


def _fix_feed(source: str, settings: Settings) -> dict[str, Any]:
    """Return the fixed settings for a feed; a folder may move, a socket may change its port."""
    name = f"lines {named_feeds.RECEIVED if named_feeds.is_live(source) else Path(source).name}"
    name = source if source.startswith(named_feeds.KAFKA) else name
    ids = TEXTS if has_text_ids(settings.open_feed(source)) else NUMBERS
    return settings.fixed(name, lateness=settings.lateness, ids=ids)


def _fix_frame(frame: DataFrame, name: str, settings: Settings) -> dict[str, Any]:
    """Return the fixed settings for a DataFrame."""
    ids = TEXTS if frame_has_text_ids(frame) else NUMBERS
    return settings.fixed(f"frame {name}", lateness=settings.lateness, ids=ids)


def finished_summary(out: Path, source: str, until: int | None = None) -> dict[str, Any] | None:
    """Return the summary of a job that has already processed all of this input, or None."""
    if not has_finished(out, source, until):
        return None
    check_tables(out, Layout.read(out).id)
    say(f"{out} is already complete; nothing to do.")
    summary: dict[str, Any] = json.loads((out / SUMMARY).read_text(encoding="utf-8"))
    _warn(summary)
    return summary


def name_source(run: Run) -> str:
    """Return the name of a run in a job's status."""
    return str(run.path.absolute()) + (f" x {run.copies}" if run.copies > 1 else "")


class _Life(job.Life):
    """A job from start to end, whatever it reads."""

    total = 0  # seconds, if they are known

    def __init__(self, spark: SparkSession, out: Path, settings: Settings) -> None:
        self.spark, self.out, self.settings = spark, out, settings
        self.doing, self.kind = "archiving" if settings.name == ARCHIVE else "tolling", settings.name
        self._clock = out / CHECKPOINT / CLOCK
        self._control = job.control(out)
        self._started = self._connected = False
        self._shown = 0
        self._stages: tuple[str, ...] = ()
        self._advance: Callable[[int], None] = lambda _: None

    def run_to_end(self) -> dict[str, Any]:
        """Run the job and return its summary, which is written however the job ends."""
        began = time.time()
        with state_cache.open_cache() as name, bar("seconds of the run", self.total) as self._advance:
            try:
                job.run(self.out, self, lambda: self._start(name), compact_every=self.settings.compact_every)
            finally:
                if self._started:
                    self.settings.watch()
                    clock = Clock.read(self._clock)
                    summary = summarise(self.out, began=began, clock=clock, outputs=self.settings.outputs)
                    _warn(summary)
        return summary

    @abstractmethod
    def written(self, engine: str) -> tuple[Layout, DataFrame]:
        """Build the query; its rows name the files that tasks wrote."""

    @abstractmethod
    def is_open(self, place: dict[str, Any]) -> bool:
        """Return whether the source is past its openings."""

    @abstractmethod
    def is_over(self, place: dict[str, Any]) -> bool:
        """Return whether the source is exhausted."""

    @abstractmethod
    def begin(self, place: dict[str, Any]) -> None:
        """Start the source at a place."""

    def follow(self, folder: Path) -> FollowedJob:
        """Follow what the job commits; answers have limits."""
        return FollowedJob(folder, response_times, RESPONSE_LIMITS if self.settings.name != ARCHIVE else {})

    def stages(self) -> tuple[str, ...]:
        """Return the operators of the query, from source to sink."""
        return self._stages

    def is_warm(self, query: StreamingQuery) -> bool:
        """Return whether the openings are over."""
        place = find_last_offset(query)
        return bool(place) and self.is_open(place)

    def connect(self, query: StreamingQuery) -> None:
        """Start the clock or connect the feed."""
        self._connected = True
        self.begin(find_last_offset(query))

    def has_ended(self, query: StreamingQuery) -> bool:
        """Return whether the source is exhausted and all of it is committed."""
        place = find_last_offset(query)
        return bool(place) and self.is_over(place)

    def poll(self, query: StreamingQuery) -> None:
        """Update the progress bar."""
        self.settings.watch()
        second = int(find_last_offset(query).get("second", -1))
        if second > self._shown and self._connected:
            self._advance(second - self._shown)
            self._shown = second

    def layout(self, fixed: dict[str, Any], *, live: bool = False) -> Layout:
        """Return the layout of the job.

        A live feed on one machine gets a single fragment: starting the tasks of a batch costs more than their work.
        """
        context = self.spark.sparkContext
        few = live and str(context.master).startswith("local")
        layout = Layout.load_or_create(
            self.out, self.settings.parallel or (1 if few else context.defaultParallelism), fixed
        )
        if self.settings.archives:
            archives.mark_linear_city(self.out)
        return layout

    def forward(self, run: Run | None) -> FastForward | None:
        """Compute the state of a run as of the first second, if earlier seconds are skipped."""
        if not self.settings.since or run is None:
            return None
        folder = (self.settings.forward or self.out / CHECKPOINT / "forward").absolute()
        path, rules = str(run.path.absolute()), self.settings.rules
        made = FastForward(str(folder), path, run.copies, rules, self.settings.since)
        made.compute(self.spark)
        return made

    def through_intake(
        self, engine: str, layout: Layout, parcels: DataFrame, *, live: bool, forward: FastForward | None = None
    ) -> DataFrame:
        """Build the query over a feed's parcels, with the state that precedes them."""
        settings = self.settings
        _warm_up(self.spark, layout, self.settings)
        self._clock.parent.mkdir(parents=True, exist_ok=True)
        (LIVE if live else Clock.start(FULL_SPEED)).write(self._clock)
        silence_ms = round(1000 * settings.silence)
        intake = IntakeStage(engine, layout, live=live, silence_ms=silence_ms, forward=forward)
        history = str(settings.history.absolute()) if settings.history else None
        stages = make_stages(engine, layout, history, _prepare_publication(self.out, settings, layout), intake)
        return self._assemble(parcels, engine, layout, stages)

    def _assemble(self, rows: DataFrame, engine: str, layout: Layout, stages: list[Stage[Any]]) -> DataFrame:
        write = self.write(engine, layout)
        self._stages = name_operators(layout, stages, write)
        return assemble(rows, engine, layout, stages, write)

    def write(self, engine: str, layout: Layout) -> WriteStage:
        """Return the stage that writes what the others produce."""
        start = parse_instant(self.settings.start) if self.settings.archives else 0
        return WriteStage(engine, self.out, start, layout)

    def _start(self, engine: str) -> StreamingQuery:
        activate(self.spark)
        layout, written = self.written(engine)
        writer = written.writeStream.foreachBatch(self._delivery(layout)).outputMode("append")
        writer = writer.option("checkpointLocation", spark_uri(self.out / CHECKPOINT)).trigger(
            processingTime="0 seconds"
        )
        self._started = True
        with stateful_settings(self.spark, layout.partitions):
            return writer.start()

    def _delivery(self, layout: Layout) -> Delivery:
        made = output_tables.schemas(answers=layout.makes_answers, trips=layout.makes_trips, named=layout.named)
        made |= list_schemas(parse_queries(self.settings.queries, named=layout.named))
        committed = Outputs(self.out, layout.id, made)
        return Delivery(
            self.out,
            committed,
            self._clock,
            texts=self._texts(layout),
            publishers=[Publisher(topic, layout.id, committed.in_doubt) for topic in self.settings.topics],
            show=self.settings.show,
            delivered=self._count_step,
        )

    def _texts(self, layout: Layout) -> tuple[str, ...]:
        if not self.settings.text:
            return ()
        return (TEXT, REJECTED) if layout.makes_answers else (REJECTED,)

    def _count_step(self) -> None:
        if self._connected:
            self._control.step_done()


class _RunLife(_Life):
    """A recorded run: its clock starts when the openings are over."""

    def __init__(self, spark: SparkSession, run: Run, out: Path, settings: Settings) -> None:
        super().__init__(spark, out, settings)
        self._run, self.source = run, name_source(run)
        self.total = self.until = settings.end_of(run)
        self.pace = settings.speed

    def is_open(self, place: dict[str, Any]) -> bool:
        """Return whether the first second is next."""
        return has_reached_second(self.settings.since)(place)

    def is_over(self, place: dict[str, Any]) -> bool:
        """Return whether the last second is done."""
        return has_reached_second(self.total)(place)

    def begin(self, place: dict[str, Any]) -> None:
        """Start the clock."""
        since = self.settings.since
        start_clock(self._clock, self.settings.speed, max(since, int(place.get("second", since))))

    def written(self, engine: str) -> tuple[Layout, DataFrame]:
        """Build the query over the trains of the run."""
        layout = self.layout(_fix_run(self._run, self.settings))
        made = self.forward(self._run)
        forward = made.to_json() if made else ""
        _warm_up(self.spark, layout, self.settings)
        self._stop_other_clock()
        path = str(self._run.path.absolute())
        stages = make_stages(engine, layout, path, _prepare_publication(self.out, self.settings, layout))
        hops = replay.read_replay(self.spark, self._replay(path, layout, forward))
        return layout, self._assemble(hops, engine, layout, stages)

    def _replay(self, path: str, layout: Layout, forward: str) -> replay.Replay:
        return replay.Replay(
            path,
            self._run.copies,
            layout.fragments,
            self.settings.since,
            self.total,
            str(self._clock.absolute()),
            self.settings.batch_seconds,
            layout.partitions,
            forward,
            REHEARSALS if self.settings.speed != FULL_SPEED else 1,
            self.settings.train_length,
            str(self._control.file.absolute()),
            self.settings.form,
        )

    def _stop_other_clock(self) -> None:
        """Remove the clock after a change of speed: it starts again at the job's current second."""
        if (clock := Clock.read(self._clock)) is not None and clock.speed != self.settings.speed:
            self._clock.unlink()


class _FeedLife(_Life):
    """A feed, connected when the openings are over."""

    def __init__(self, spark: SparkSession, source: str, out: Path, settings: Settings) -> None:
        super().__init__(spark, out, settings)
        self.source = source
        self._feed = settings.open_feed(source)
        self.pace = 1.0 if self._feed.has_no_end else FULL_SPEED
        # the first brings the state of a fast-forward
        self._openings = REHEARSALS if self._feed.has_no_end else min(settings.since, 1)

    def is_open(self, place: dict[str, Any]) -> bool:
        """Return whether all openings were delivered."""
        return is_open(self._openings)(place)

    def is_over(self, place: dict[str, Any]) -> bool:
        """Return whether the feed has ended."""
        return has_ended(place)

    def begin(self, place: dict[str, Any]) -> None:
        """Connect the feed unless it has ended already."""
        if not (place and has_ended(place)):
            self._feed.connect(self.out / CHECKPOINT)

    def written(self, engine: str) -> tuple[Layout, DataFrame]:
        """Build the query over the feed's parcels, which pass the intake first."""
        live, settings = self._feed.has_no_end, self.settings
        layout = self.layout(_fix_feed(self.source, settings), live=live)
        past = Run.open(settings.history) if settings.history else None
        forward = self.forward(past.multiplied(settings.copies * past.copies) if past else None)
        packing = ReportPacking(
            self._feed.encoding,
            layout.fragments,
            layout.lateness,
            self._feed.decoding,
            named=layout.named,
            form=self.settings.form,
        )
        parcels = replace(self._feed, tasks=layout.partitions).open(
            self.spark,
            self.out / CHECKPOINT,
            openings=self._openings,
            alone=True,
            control=str(self._control.file.absolute()),
            packing=packing,
        )
        return layout, self.through_intake(engine, layout, parcels, live=live, forward=forward)


class _FrameLife(_Life):
    """A streaming DataFrame, which needs no connection and has no end."""

    def __init__(self, spark: SparkSession, frame: DataFrame, name: str, out: Path, settings: Settings) -> None:
        super().__init__(spark, out, settings)
        self._frame, self.source, self.pace = frame, name, 1.0

    def is_warm(self, query: StreamingQuery) -> bool:  # noqa: ARG002
        """Return True: it has no openings."""
        return True

    def is_open(self, place: dict[str, Any]) -> bool:  # noqa: ARG002
        """Return True: it has no openings."""
        return True

    def is_over(self, place: dict[str, Any]) -> bool:  # noqa: ARG002
        """Return False: it has no end."""
        return False

    def begin(self, place: dict[str, Any]) -> None:
        """Do nothing: it has started already."""

    def written(self, engine: str) -> tuple[Layout, DataFrame]:
        """Build the query over its rows, which pass the intake first."""
        layout = self.layout(_fix_frame(self._frame, self.source, self.settings), live=True)
        packing = ReportPacking("text", layout.fragments, layout.lateness, named=layout.named, form=self.settings.form)
        parcels = pack_frame(self._frame, packing)
        return layout, self.through_intake(engine, layout, parcels, live=True)


def _prepare_publication(out: Path, settings: Settings, layout: Layout) -> Publication | None:
    return prepare(out, snapshot=settings.snapshot, script=settings.queries, named=layout.named)


def _make_rehearsal(
    layout: Layout, *, keeps_past: bool, shows_arrivals: bool
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a task that runs one made-up report through the job's stages, so that a worker has compiled kernels."""

    def rehearse(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        report = PARSERS["text"]([b",".join([b"0"] * len(FIELDS))]).tuples
        hops = list(divide_by_fragment(report, (0,)))
        if layout.named:
            names = Names()
            names.texts.take(names.number(pa.array(["a vehicle"])))
        if layout.makes_trips:
            list(trip_stage(ReportTrips(), [*hops, *end_hops((0,), 0)], 0))
        if layout.makes_answers:
            rules = find_rules(layout.rules)
            road = TollFragment(rules, keeps_past=keeps_past, shows_arrivals=shows_arrivals)
            hops = list(toll_stage(road, hops, (0,)))
            list(account_stage(Accounts(rules, Past(None)), hops))
        yield from batches

    return rehearse


def _warm_up(spark: SparkSession, layout: Layout, settings: Settings) -> None:
    """Compile or load the kernels in the workers before a clock starts."""
    tasks, queried = layout.partitions, bool(settings.queries)
    rehearse = _make_rehearsal(layout, keeps_past=settings.snapshot or queried, shows_arrivals=queried)
    spark.range(0, tasks, 1, tasks).mapInArrow(rehearse, "id long").collect()


def _warn(summary: dict[str, Any]) -> None:
    """Warn about input or clocks that make the answers differ from what users expect."""
    irregular = Irregular.from_dict(summary.get("irregular", {"count": 0}))
    if irregular.count:
        say(f"Warning: {irregular}")
    elif summary.get("archived", 0) < 2 * summary.get("trips", 0):
        say(
            f"Warning: {summary['trips']:,} trips have {summary['archived']:,} reports in total. A report more than "
            f"{REPORT_EVERY} s after the vehicle's previous one starts a new trip: this feed may report less often."
        )
    early = sum(response["negative"] for response in summary.get("response_seconds", {}).values())
    if early:
        say(
            f"Warning: {early:,} answers precede their requests by the clocks of sender and engine. "
            "Response times are wrong: synchronise the machines' clocks (NTP)."
        )
