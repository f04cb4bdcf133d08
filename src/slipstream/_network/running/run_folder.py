"""The folder in which a network runs: its trains, its outputs, and the files that control it.

It is the folder of a job (``_runtime.job``), with these additional files:

    OUT/network.yaml        the network
    OUT/sources.json        the feeds that it reads, if it reads feeds
    OUT/recording.json      the number of recorded tuples, and when the first of them arrived
    OUT/waiting/SOURCE/     trains that have not arrived yet
    OUT/in/SOURCE/          trains that have arrived: Spark streams this folder
    OUT/outputs/NAME/       the table of an output, of a tapped arc, or of the rejects
    OUT/points/NAME/        the history of a connection point or a view, as trains
    OUT/snapshot/           the cuboids of its boxes, for `slipstream cuboid query`
    OUT/taps.json           arcs to record in addition to the outputs
    OUT/shed.json           the share to drop at each place; shed.jsonl: what was dropped of recordings

Control works on arrivals: a train that has not been released has not arrived, and a paused feed is not read. So
pausing, stepping and stopping never affect a running batch, and the results are the same however a run is interrupted.
Each batch is one commit: its outputs, the histories of points, and the monitor's figures in the journal.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from slipstream._archive import open_archive
from slipstream._cuboid.snapshots.snapshot_files import FOLDER
from slipstream._errors import BadArgument
from slipstream._io import outputs
from slipstream._io.control_file import PAUSE, RUN, STOP, Control
from slipstream._io.named_feeds import Feed, find_last_offsets, has_ended, is_open
from slipstream._io.outputs import CHECKPOINT, REJECTS, Outputs, Written, destinations
from slipstream._io.outputs.destinations import Destination, Destinations, Wheres
from slipstream._io.readers.recorded_trains import END, Folder, train_file
from slipstream._io.readers.topic import watermarks
from slipstream._io.train_files import last_arrival
from slipstream._network import yaml_files
from slipstream._network.algebra import Arc, Filter, Network, NetworkSource
from slipstream._network.boxes import operators
from slipstream._network.boxes.archive import archive_boxes, make_trip_schema
from slipstream._network.boxes.cuboids import collect_cuboids
from slipstream._network.planning.compiler import Compiled, compile_rows
from slipstream._network.quality import shedding
from slipstream._network.quality.box_loads import BOXES, LoadSummary
from slipstream._network.quality.monitor import Monitor
from slipstream._network.running import output_results, rejects
from slipstream._network.running.connection_points import PointHistory
from slipstream._network.running.failures import query_errors
from slipstream._network.running.recordings import read_inputs, write_trains
from slipstream._network.running.train_folder import open_trains, set_arrivals, write_train
from slipstream._network.schemas import Checked, check
from slipstream._network.sql import box_expressions
from slipstream._network.tasks import sink
from slipstream._network.tasks.train_intake import REJECT_TYPES, pack_frame, with_source
from slipstream._runtime.job import CONTROL, JobFile, lock_folder
from slipstream._runtime.job import FILE as JOB
from slipstream._runtime.watching.status import has_finished
from slipstream._tools.files.remote_paths import RemotePath, for_arrow
from slipstream._tools.files.staging import atomic_write, check_new
from slipstream._tools.logs import append_lines, read_lines

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

FILE, RECORDING, SOURCES = "network.yaml", "recording.json", "sources.json"
#: in the folder of an ad hoc query: the connection point it is attached to
ATTACHED = "attached.json"
ANOTHER = "Give another folder, or omit --input to resume the job in it."
#: the kind of job in ``job.json``, and the version of the boxes' state in the state store
KIND, STATE_VERSION = "network", 9
#: in the layout of a job: its partitions, and where its outputs go
PARALLEL, TO = "parallel", "to"
#: empty batches before the first of a recording and of a feed, in which Spark plans the query
OPENINGS, REHEARSALS = 1, 24
#: Spark's status of an idle query
_IDLE = "Waiting for data to arrive"
#: trains per batch when a query must catch up: the longer the train, the less a tuple costs
ALL = 10_000
#: recordings of fewer tuples are processed in one partition: a second one costs a Python worker and gains nothing
SMALL = 100_000
#: recordings of more tuples are processed on all cores
LONG = 2_000_000


@dataclass
class Execution:
    """A folder in which a network runs, has run, or will run."""

    folder: Path
    network: Network
    known: Checked | None = None
    kafka: tuple[tuple[str, str], ...] = ()  # settings for the brokers of feeds; never stored
    watch: Callable[[int], None] = lambda _: None  # called with the number of every batch that was delivered
    parallel: int = 1  # partitions of every stage; fixed when the folder is created
    own: Mapping[str, Sequence[Destination]] = field(default_factory=dict)  # destinations that are objects, by output
    _loads: LoadSummary = field(default_factory=LoadSummary)

    @classmethod
    def prepare(
        cls,
        folder: Path,
        network: Network,
        inputs: Mapping[str, Path],
        *,
        train: int = 1000,
        rate: float | None = None,
        parallel: int = 1,
    ) -> Execution:
        """Create a folder with the network and its recorded inputs as waiting trains."""
        return cls.record(folder, network, read_inputs(network, inputs), train=train, rate=rate, parallel=parallel)

    @classmethod
    def record(
        cls,
        folder: Path,
        network: Network,
        tables: Mapping[str, pa.Table],
        *,
        train: int | Mapping[str, int] = 1000,
        rate: float | Mapping[str, float] | None = None,
        parallel: int = 1,
        to: Wheres | None = None,
    ) -> Execution:
        """Create a folder with inputs that have been read already; a mapping has a length or rate for each source."""
        made = cls._create(folder, network, parallel, to)
        for name, table in tables.items():
            size = train[name] if isinstance(train, Mapping) else train
            pace = rate[name] if isinstance(rate, Mapping) else rate
            write_trains(folder / "waiting" / name, table, size, 0, pace)
        paced = any(one is not None for one in (rate.values() if isinstance(rate, Mapping) else [rate]))
        made._write_recording({"tuples": sum(table.num_rows for table in tables.values()), "paced": int(paced)})
        # last, so that a folder with incomplete inputs cannot be opened
        made._replace(FILE, yaml_files.dumps(network))
        return made

    @classmethod
    def lay_out(cls, folder: Path, network: Network) -> Execution:
        """Create a folder with the network and no input yet: trains are added later."""
        made = cls._create(folder, network)
        made._replace(FILE, yaml_files.dumps(network))
        return made

    @classmethod
    def on_feeds(
        cls,
        folder: Path,
        network: Network,
        feeds: Mapping[str, Feed] | Callable[[], Mapping[str, Feed]],
        *,
        parallel: int = 1,
        to: Wheres | None = None,
    ) -> Execution:
        """Create a folder for feeds, one per source; a function is called when it may write to the folder."""
        made = cls._create(folder, network, parallel, to)
        made.read_from(feeds() if callable(feeds) else feeds)
        made._replace(FILE, yaml_files.dumps(network))
        return made

    @classmethod
    def _create(cls, folder: Path, network: Network, parallel: int = 1, to: Wheres | None = None) -> Execution:
        check_new(folder, label="", hint=ANOTHER)
        if isinstance(folder, RemotePath) and network.kept:
            raise BadArgument(
                f"{folder}: connection points and views must be in a file system, and {network.kept[0].name} is one.",
                hint="Give a path, or run the network without them.",
                code="wrong-file-type",
            )
        wheres = collect_destinations(network, to or {})
        destinations.check_unused(folder, wheres)
        for source in network.sources:
            (folder / "in" / source.name).mkdir(parents=True)
        JobFile(KIND, STATE_VERSION, {}, {PARALLEL: parallel, TO: wheres}).write(folder)
        return cls(folder, network, parallel=parallel)

    @classmethod
    def open(cls, folder: Path) -> Execution:
        """Open a folder that ``prepare`` or ``lay_out`` created."""
        if not (folder / FILE).is_file():
            raise BadArgument(
                f"{folder}: not the folder of a network.",
                hint="`slipstream network run FILE --input SOURCE=RECORDING --out DIR` starts one.",
                code="wrong-file-type",
            )
        return cls.of(folder, yaml_files.load(folder / FILE))

    @classmethod
    def of(cls, folder: Path, network: Network) -> Execution:
        """Open a folder that was created for this network, without reading its file."""
        job = JobFile.read(folder)
        job.check_compatible(folder, KIND, STATE_VERSION)
        return cls(folder, network, parallel=int(job.layout.get(PARALLEL, 1)))

    # --- control

    @property
    def _controls(self) -> Control:
        return Control(self.folder / CONTROL)

    @property
    def control(self) -> str:
        """The current request: run, pause, or a number of steps."""
        return self._controls.requested

    def pause(self) -> None:
        """Let nothing more arrive; the current batch ends normally."""
        self._controls.request(PAUSE)

    def resume(self) -> None:
        """Let tuples arrive again."""
        self._controls.request(RUN)

    def stop(self) -> None:
        """End the run after the current batch; the next start resumes."""
        self._controls.request(STOP)

    def step(self, trains: int = 1) -> None:
        """Let this many trains of each source arrive, or batches of feeds, then pause."""
        self._controls.request(str(trains))

    def waiting(self) -> list[Path]:
        """The trains that have not arrived, in order."""
        return sorted((self.folder / "waiting").glob("*/train-*.parquet"), key=lambda p: (p.name, p.parent.name))

    def queues(self) -> dict[str, int]:
        """The tuples of each source that have not arrived yet."""
        lengths = dict.fromkeys((source.name for source in self.network.sources), 0)
        for train in self.waiting():
            lengths[train.parent.name] += pq.read_metadata(for_arrow(train)).num_rows
        return lengths

    def admit_due(self) -> bool:
        """Release the trains that ``control`` admits now; returns whether any are still waiting."""
        if self.control == RUN:
            self.release()
        elif self._controls.steps:
            self.release(step=True)
            self._controls.step_done()
        return bool(self.waiting())

    def release(self, *, step: bool = False) -> int:
        """Let the waiting trains arrive that are due, or just the next of each source; returns their number."""
        trains = self.waiting() if step else [train for train in self.waiting() if self._is_due(train)]
        if step and trains:
            trains = [train for train in trains if train.name == trains[0].name]
        for train in trains:
            self._admit(train)
        return len(trains)

    def _is_due(self, train: Path) -> bool:
        """Whether the last tuple of a train has arrived by now; recordings without a rate arrive at once."""
        return self.began + last_arrival(train) <= time.time_ns() // 1000

    def _admit(self, train: Path) -> None:
        """Let one train arrive, with its arrival times and, when load is shed, the marks of the tuples to drop."""
        shares, source, number = self.shares, train.parent.name, int(train.stem.removeprefix("train-"))
        tuples = entering = set_arrivals(pq.read_table(for_arrow(train)), self.began)
        if shares:
            tuples = shedding.stamp(tuples, self.places, shares, shedding.value_graphs(self.network, self.places))
            entering = shedding.drop_unused(tuples, self.network, source, self.places)
        write_train(self.folder / "in" / source, number, entering)
        train.unlink()
        if shares:
            self._log_shed(source, train.stem, tuples.num_rows, shedding.count_dropped(tuples, self.places))

    def end(self) -> None:
        """Signal the end of a recording to boxes that emit tuples then."""
        if self.recording and any(operators.emits_at_end(node.box) for node in self.network.nodes):
            for source in self.network.sources:
                (self.folder / "in" / source.name / END).touch()

    # --- feeds

    @cached_property
    def feeds(self) -> dict[str, Feed]:
        """The feeds of the sources; empty if they are recorded or a connection point."""
        place = self.folder / SOURCES
        found = json.loads(place.read_text(encoding="utf-8")) if place.exists() else {}
        return {name: Feed.from_dict(body) for name, body in found.items()}

    @property
    def source(self) -> str:
        """The input, as the status names it."""
        return ", ".join(f"{name}={feed.where}" for name, feed in self.feeds.items()) or "a recording"

    @property
    def pace(self) -> float:
        """1 if tuples arrive in real time: from a feed without an end, or a recording at a rate; otherwise 0."""
        return float(any(feed.has_no_end for feed in self.feeds.values()) or bool(self.recording.get("paced")))

    def read_from(self, feeds: Mapping[str, Feed]) -> None:
        """Set the feeds, whose locations may have changed since the last start."""
        self._replace(SOURCES, json.dumps({name: feed.to_dict() for name, feed in feeds.items()}, indent=2))
        self.feeds = dict(feeds)

    def _locate_received(self, source: str) -> Path:
        return self.folder / CHECKPOINT / "feeds" / source

    def connect(self, query: StreamingQuery) -> None:
        """Connect the feeds, now that the query is ready."""
        if self.feeds and not self._have_ended(query):
            for name, feed in self.feeds.items():
                feed.with_settings(self.kafka).connect(self._locate_received(name))

    def has_more_input(self, query: StreamingQuery) -> bool:
        """Release the trains that are due; returns whether more input is to come."""
        return not (self._have_ended(query) or self._has_nothing_new(query)) if self.feeds else self.admit_due()

    def is_behind(self, query: StreamingQuery) -> bool:
        """Whether a query has yet to process trains that were released."""
        ends = zip(self.network.sources, find_last_offsets(query), strict=False)
        return any(
            train_file(self.folder / "in" / source.name, place["train"]).exists()
            for source, place in ends
            if "train" in place
        )

    def _has_nothing_new(self, query: StreamingQuery) -> bool:
        """Whether a recording or finite feeds were read to the end before this start, without new data since."""
        if any(feed.has_no_end for feed in self.feeds.values()) or self._controls.is_paused:
            return False
        return not find_last_offsets(query) and bool(query.status["message"] == _IDLE)

    @staticmethod
    def _have_ended(query: StreamingQuery) -> bool:
        places = find_last_offsets(query)
        return bool(places) and all(map(has_ended, places))

    # --- the recording

    @property
    def recording(self) -> dict[str, int]:
        """The number of recorded ``tuples``, and when the first ``began`` to arrive; empty if nothing is recorded."""
        place = self.folder / RECORDING
        return dict(json.loads(place.read_text(encoding="utf-8"))) if place.exists() else {}

    @property
    def has_begun(self) -> bool:
        """Whether a recording has begun to arrive; other input arrives on its own."""
        recording = self.recording
        return not recording or "began" in recording

    @cached_property
    def began(self) -> int:
        """When the recording began to arrive, in microseconds: when the first train is released, not when Spark starts.

        It is stored before that, so an interrupted run resumes with the same times.
        """
        recording = self.recording
        if recording and "began" not in recording:
            recording["began"] = time.time_ns() // 1000
            self._write_recording(recording)
        # in a folder of an earlier version trains have the times themselves
        return recording.get("began", 0)

    def _write_recording(self, recording: Mapping[str, int]) -> None:
        self._replace(RECORDING, json.dumps(recording))

    def _replace(self, name: str, text: str) -> None:
        """Write a small file atomically."""
        with atomic_write(self.folder / name) as file:
            file.write(text.encode())

    # --- arcs that people look at

    @property
    def taps(self) -> dict[str, Arc]:
        """The arcs that are recorded in addition to the outputs, by the names of their tables."""
        place = self.folder / "taps.json"
        arcs = json.loads(place.read_text(encoding="utf-8")) if place.exists() else []
        return {f"tap_{text.replace('.', '_')}": Arc.parse(text) for text in arcs}

    @taps.setter
    def taps(self, arcs: Iterable[Arc]) -> None:
        check_taps(self.network, arcs)
        self._replace("taps.json", json.dumps([str(arc) for arc in arcs]))

    # --- load shedding

    @cached_property
    def places(self) -> tuple[shedding.DropPlace, ...]:
        """The places where tuples can be dropped; the index of a place is its bit in ``_shed``."""
        return shedding.places(self.network)

    @property
    def shares(self) -> dict[str, float]:
        """The share of new tuples to drop at each place; empty by default."""
        return shedding.read_shares(self.folder)

    @shares.setter
    def shares(self, wanted: Mapping[str, float]) -> None:
        known = {str(place) for place in self.places}
        for name, share in wanted.items():
            if name not in known or not 0 <= share <= 1:
                raise BadArgument(
                    f"cannot drop {share} at {name!r}.",
                    hint=f"Places: {'; '.join(sorted(known))}.",
                    code="unknown-name",
                    found=name,
                    expected=[*sorted(known)],
                )
        self._replace(shedding.SHARES, json.dumps({name: share for name, share in wanted.items() if share}))

    def _log_shed(self, source: str, train: str, tuples: int, dropped: Mapping[str, int]) -> None:
        """Log how many tuples of a train are dropped at each place."""
        line = {"source": source, "train": train, "tuples": tuples, "dropped": dict(dropped)}
        append_lines(self.folder / "shed.jsonl", [line])

    def has_finished(self) -> bool:
        """Whether all input was processed; refuses outputs that something else has changed since."""
        if not (self.feeds or self.recording) or not has_finished(self.folder, self.source) or self.waiting():
            return False
        outputs.check_tables(self.folder, JobFile.read(self.folder).id)
        return True

    def shed(self) -> list[dict[str, Any]]:
        """The tuples that load shedding has dropped, per train of recordings and per batch of feeds."""
        batches = [
            {"source": source, "train": f"batch-{entry['batch']}", "tuples": entry["taken"][source], "dropped": dropped}
            for entry in self.monitor.entries()
            for source, dropped in entry.get("dropped", {}).items()
        ]
        return read_lines(self.folder / "shed.jsonl") + batches

    # --- where outputs go

    @cached_property
    def to(self) -> dict[str, list[str]]:
        """The destinations of outputs besides their tables; fixed when the folder is created."""
        return dict(JobFile.read(self.folder).layout.get(TO, {}))

    # --- running

    def checked(self, spark: SparkSession) -> Checked:
        """The network with the schemas of its arcs; checked once."""
        if self.known is None:
            self.known = check(self.network, spark)
        return self.known

    def compile(
        self, spark: SparkSession, tables: Mapping[str, DataFrame] | None = None, *, trains: int = 1
    ) -> Compiled:
        """Compile the network over what arrives in this folder, with its outputs, connection points and taps."""
        inputs = {place: self._input(spark, source, place, trains) for place, source in enumerate(self.network.sources)}
        taps = (
            {point.name: point.arc for point in self.network.points}
            | self.taps
            | rejects.find_unconnected(self.network)
        )
        drops = {(place.taker, place.side, place.is_output): bit for bit, place in enumerate(self.places)}
        shared = any(self._readers(spark, name) > 1 for name in self.feeds)
        return compile_rows(
            self.checked(spark),
            inputs,
            tables,
            folder=self.folder,
            taps=taps,
            parallel=self.parallel,
            drops=drops,
            shared=shared,
        )

    def _readers(self, spark: SparkSession, source: str) -> int:
        """The number of tasks that read a feed: one per partition of a topic, at most one per core."""
        feed = self.feeds[source].with_settings(self.kafka)
        partitions = len(watermarks(feed.topic) or ()) if feed.is_topic else 1
        return max(min(partitions, spark.sparkContext.defaultParallelism), 1)

    def _input(self, spark: SparkSession, source: NetworkSource, place: int, trains: int) -> DataFrame:
        """The rows of a source: a feed, recorded trains, or the history and new tuples of a connection point."""
        if source.name in self.feeds:
            tasks = self._readers(spark, source.name)
            feed = replace(self.feeds[source.name].with_settings(self.kafka), tasks=tasks)
            received, control = self._locate_received(source.name), str((self.folder / CONTROL).absolute())
            return with_source(feed.open(spark, received, openings=_openings(feed), alone=True, control=control), place)
        folder = self.folder / "in" / source.name
        if not (self.folder / ATTACHED).exists():
            return with_source(Folder(str(folder.absolute()), trains, OPENINGS).open(spark), place)
        frame = open_trains(spark, folder, source.schema, per_batch=trains)
        wanted = pushdown_predicate(self.network, source.name, self.taps.values())
        return pack_frame(frame.where(wanted) if wanted else frame, source.name, source.schema, place)

    def start(
        self, spark: SparkSession, tables: Mapping[str, DataFrame] | None = None, *, trains: int = 1
    ) -> StreamingQuery:
        """Start the query from its checkpoint, on what has arrived and what will arrive, ``trains`` per batch."""
        outputs.check_journal(self.folder)
        made = self.compile(spark, tables, trains=trains)
        sink.discard_uncommitted(self.folder)
        job, schemas = JobFile.read(self.folder).id, self._schemas(spark, made)
        destinations.check_columns(self.to, schemas)
        committed = Outputs(self.folder, job, schemas)
        sending = Destinations(
            self.folder,
            job,
            committed,
            self.to,
            settings=self.kafka,
            shape=output_results.own_columns,
            own=self.own,
            keys=made.keys,
        )
        checked = self.checked(spark)
        if cuboids := collect_cuboids((node.box, checked.inputs(node)) for node in checked.nodes):
            cuboids.write(self.folder / FOLDER)
        return made.start(partial(self._deliver, committed, sending), self.folder / CHECKPOINT)

    def _schemas(self, spark: SparkSession, made: Compiled) -> dict[str, pa.Schema]:
        """The stored schemas of the outputs; taps may change, so their tables are created with their first tuples."""
        found = self.checked(spark).schemas
        schemas = {output.name: found[output.arc] for output in self.network.outputs}
        schemas = {REJECTS: REJECT_TYPES, **schemas}  # a recording may have an output of that name
        stored = {name: sink.stored_schema(schema, made.plan.keys) for name, schema in schemas.items()}
        return stored | {
            name: make_trip_schema(box, schemas[name]) for name, box in archive_boxes(self.network).items()
        }

    def is_warm(self, query: StreamingQuery) -> bool:
        """Whether a query's openings are over, so that the start of Spark does not delay the first tuples.

        The input of an ad hoc query has no openings.
        """
        if ((self.folder / ATTACHED).exists() and not self.feeds) or self._has_nothing_new(query):
            return True
        # the stream of a DataFrame has its own offsets, and no openings
        feeds = [self.feeds.get(source.name) for source in self.network.sources]
        openings = [_openings(feed) if feed else OPENINGS for feed in feeds if not (feed and feed.is_frame)]
        places = find_last_offsets(query)
        ours = [place for place in places if "openings" in place]
        if not places or len(ours) < len(openings):
            return False
        return all(is_open(wanted)(place) for place, wanted in zip(ours, openings, strict=False))

    def run(self, spark: SparkSession, tables: Mapping[str, DataFrame] | None = None, *, trains: int = 1) -> None:
        """Process everything that has arrived, then return."""
        with lock_folder(self.folder), query_errors(self.network, self.folder):
            query = self.start(spark, tables, trains=trains)
            try:
                query.processAllAvailable()
            finally:
                query.stop()

    def _deliver(self, committed: Outputs, sending: Destinations, batch: DataFrame, number: int) -> None:
        """Commit what the tasks of a batch wrote; an opening is empty."""
        written = [Written.from_row(row) for row in batch.collect()]
        facts = [one.note for one in written if not one.output]
        taken = _sum_counts(fact.get("taken", {}) for fact in facts)
        lines = taken.get(REJECTS, 0)
        own = any(end.name == REJECTS for end in self.network.ends)
        rows = sending.read(written) if number > committed.last_batch else {}

        def complete(committed_ms: int) -> dict[str, Any]:
            figures = self._complete(written, number, committed_ms) if facts else {}
            return figures | sending.send(number, rows)

        fresh = committed.commit(
            number,
            written,
            tuples=sum(taken.values()) - lines,
            rejects=lines if own else sum(one.rows for one in written if one.output == REJECTS),
            before_journal=complete,
        )
        if facts and fresh:
            sending.show(rows)
            if self.feeds:
                self._controls.step_done()
            self.watch(number)

    def _complete(self, written: list[Written], number: int, committed_ms: int) -> dict[str, Any]:
        """Update the histories of points; returns the monitor's figures for the journal."""
        sink.update_histories({point.name: self.history(point.name) for point in self.network.kept}, written, number)
        assert self.known is not None
        facts = [one.note for one in written if not one.output]
        taken = _sum_counts(fact.get("taken", {}) for fact in facts)
        shares = shedding.delivered_shares(self.known, self.places, self.shares)
        line = self.monitor.line(sink.merge_measured(written), shares, taken, committed_ms)
        line |= self._loads.add((fact.get(BOXES, {}) for fact in facts), committed_ms)
        lost = [fact.get("dropped", {}) for fact in facts]
        dropped = {source: _sum_counts(one.get(source, {}) for one in lost) for one in lost for source in one}
        return line | ({"dropped": dropped} if dropped else {})

    def history(self, point: str) -> PointHistory:
        """The history of a connection point or a view."""
        kept = {point.name: point for point in self.network.kept}
        if point not in kept:
            raise BadArgument(
                f"{point}: no such connection point.",
                hint=f"Points: {', '.join(kept) or 'none; add some under points:'}.",
                code="unknown-name",
                expected=[*kept],
            )
        return PointHistory(self.folder / "points" / point, kept[point])

    # --- results

    @property
    def monitor(self) -> Monitor:
        """Tuples, delays and utility of each output, batch by batch."""
        return Monitor(self.folder, self.network.outputs)

    def inspect(self, name: str, last: int = 20) -> list[dict[str, Any]]:
        """The newest tuples on an output, a view, a connection point or a tapped arc, in order; needs no Spark."""
        if name != REJECTS:
            self._arc(name)
        if name in {point.name for point in self.network.kept}:
            return output_results.newest_of_history(self._history_trains(name), last)
        return output_results.newest_results(self.folder, name, last)

    def results(self, spark: SparkSession, output: str) -> DataFrame:
        """Everything an output has delivered, or the history of a view or a connection point, in order."""
        schema = REJECT_TYPES if output == REJECTS else self.checked(spark).schemas[self._arc(output)]
        if output in {point.name for point in self.network.kept}:
            return output_results.read_history(spark, self._history_trains(output), schema)
        if output in archive_boxes(self.network):
            return open_archive(spark, self.folder, output)
        return output_results.read_output(spark, self.folder, output, schema)

    def _history_trains(self, point: str) -> list[Path]:
        """The trains of a history up to the last commit."""
        last = outputs.last_batch(self.folder)
        return [span.path for span in self.history(point).spans() if last and span.last <= last.batch]

    def _arc(self, name: str) -> Arc:
        arcs = {end.name: end.arc for end in self.network.ends} | self.taps
        if name not in arcs:
            raise BadArgument(
                f"{name}: no such output.", hint=f"Outputs: {', '.join(arcs)}.", code="unknown-name", expected=[*arcs]
            )
        return arcs[name]


def _openings(feed: Feed) -> int:
    """The number of openings of a feed; a finite feed needs no warm-up."""
    return REHEARSALS if feed.has_no_end else 0


def _sum_counts(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total = Counter[str]()
    for one in counts:
        total.update(one)
    return dict(total)


def newest_tuples(folder: Path, name: str, last: int = 20) -> list[dict[str, Any]]:
    """Return the newest tuples on an output of a network, or the newest rows of an output of any other job."""
    if not (folder / JOB).exists() or JobFile.read(folder).kind == KIND:
        return Execution.open(folder).inspect(name, last)
    outputs.visible_files(folder, name)  # raises an error that lists the outputs if there is none of that name
    return output_results.newest_results(folder, name, last)


def collect_destinations(network: Network, more: Wheres) -> dict[str, list[str]]:
    """The destinations of a network's outputs besides their tables: those in the network, and ``more``.

    >>> from slipstream._network import Builder
    >>> net = Builder("n")
    >>> net.source("cars", speed="integer").to("all", None, "console")
    >>> collect_destinations(net.build(), {"all": ["text:/tmp/all.csv"]})
    {'all': ['console', 'text:/tmp/all.csv']}
    """
    found = {output.name: list(output.to) for output in network.outputs if not output.view}
    for name, wheres in more.items():
        if name not in found and name != REJECTS:
            raise BadArgument(
                f"--to {name}=...: no such output.",
                hint=f"Outputs: {', '.join([*found, REJECTS])}.",
                code="unknown-name",
                expected=[*found, REJECTS],
                found=name,
            )
        found[name] = list(dict.fromkeys([*found.get(name, []), *wheres]))
    return {name: wheres for name, wheres in found.items() if wheres}


def check_taps(network: Network, arcs: Iterable[Arc]) -> None:
    """Refuse arcs that a network does not have."""
    names = {place.name for place in network.places}
    for arc in arcs:
        if arc.origin not in names:
            raise BadArgument(
                f"no arc {str(arc)!r} to tap.",
                hint=f"Arcs begin at: {', '.join(sorted(names))}.",
                code="unknown-name",
                expected=[*sorted(names)],
            )


def pushdown_predicate(network: Network, source: str, tapped: Iterable[Arc] = ()) -> str:
    """The disjunction of all filters on a source, which readers can push down; empty if a consumer needs every tuple.

    >>> from slipstream._network import Builder
    >>> net = Builder("n")
    >>> net.source("cars", speed="integer").filter("speed > 90").to("fast")
    >>> pushdown_predicate(net.build(), "cars")
    '(speed > 90)'
    """
    ends = {end.arc for end in network.ends} | set(tapped)
    arcs = {arc for node in network.nodes for arc in node.inputs} | ends
    predicates: list[str] = []
    for node in network.consumers(source):
        if not isinstance(node.box, Filter) or Arc(node.name, len(node.box.predicates)) in arcs:
            return ""
        predicates += node.box.predicates
    if any(arc.origin == source for arc in ends) or any(map(box_expressions.user_calls, predicates)):
        return ""  # every tuple is needed, or the predicates are expensive to evaluate twice
    return " or ".join(f"({predicate})" for predicate in predicates)
