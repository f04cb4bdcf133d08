"""A network at work in a folder: trains in, results out, and people in control.

    OUT/network.yaml        what runs
    OUT/state.json          the version of the boxes' state in the checkpoint
    OUT/recording.json      how many tuples the recorded inputs have, and when the first of them arrived
    OUT/waiting/SOURCE/     trains that have not arrived yet
    OUT/in/SOURCE/          trains that have: Spark streams this folder
    OUT/staging/            results that are being written
    OUT/results/batch=N/    what batch N delivered (written whole, replaced when a batch is repeated)
    OUT/points/NAME/        the history of a connection point or a view, as trains
    OUT/monitor.jsonl       one line a batch: tuples, delays and utility of each output
    OUT/checkpoint/         Spark's own
    OUT/control             run, pause, or a number of single steps
    OUT/taps.json           arcs to record beside the outputs
    OUT/shed.json           how much to drop where, and shed.jsonl what was dropped

Control works on arrivals: a train that has not been released has not arrived. So pausing, stepping and stopping never
touch a running batch, and what comes out is the same however a run was interrupted.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from slipstream import session
from slipstream.documents import json_of
from slipstream.errors import MALFORMED, BadArgument, BadInput, SlipstreamError, Unavailable
from slipstream.logs import add_lines, whole_lines
from slipstream.network import expressions, files, looking, shedding, sink
from slipstream.network.algebra import Arc, Filter, Network
from slipstream.network.compiler import Compiled, compile_network
from slipstream.network.inputs import read_inputs, write_trains
from slipstream.network.monitor import Measured, Monitor
from slipstream.network.points import History
from slipstream.network.schemas import Checked, check
from slipstream.network.trains import SHED, arriving, last_arrival, open_trains, write_empty, write_train
from slipstream.staging import appearing, check_new

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

RUN, PAUSE = "run", "pause"
FILE, RECORDING = "network.yaml", "recording.json"
ANOTHER = "Give another folder, or leave out --input to resume what runs there."
#: of what boxes keep in the state store; a folder that does not say it is of the first
STATE, STATE_VERSION = "state.json", 3
#: trains a batch when a query must catch up: the longer the train, the less a tuple costs
ALL = 10_000
#: recordings of fewer tuples are processed in one partition: a second one costs a Python worker and gains nothing
SMALL = 100_000


@dataclass
class Execution:
    """A folder in which a network runs, has run, or will."""

    folder: Path
    network: Network
    known: Checked | None = None
    watch: Callable[[int], None] = lambda _: None  # called with the number of every batch that was delivered

    @classmethod
    def prepare(
        cls, folder: Path, network: Network, inputs: Mapping[str, Path], *, train: int = 1000, rate: float | None = None
    ) -> Execution:
        """Lay out a folder: the network and its recorded inputs as waiting trains."""
        return cls.record(folder, network, read_inputs(network, inputs), train=train, rate=rate)

    @classmethod
    def record(
        cls,
        folder: Path,
        network: Network,
        tables: Mapping[str, pa.Table],
        *,
        train: int = 1000,
        rate: float | None = None,
    ) -> Execution:
        """Lay out a folder with inputs that have been read already."""
        made = cls._begun(folder, network)
        for name, table in tables.items():
            write_trains(folder / "waiting" / name, table, train, 0, rate)
        made._write_recording({"tuples": sum(table.num_rows for table in tables.values())})
        # last, so that a folder with part of the inputs is none that can be opened
        made._replace(FILE, files.dumps(network))
        return made

    @classmethod
    def lay_out(cls, folder: Path, network: Network) -> Execution:
        """A folder with the network and no input yet: trains come later, or from outside."""
        made = cls._begun(folder, network)
        made._replace(FILE, files.dumps(network))
        return made

    @classmethod
    def _begun(cls, folder: Path, network: Network) -> Execution:
        check_new(folder, label="", hint=ANOTHER)
        for source in network.sources:
            (folder / "in" / source.name).mkdir(parents=True)
        made = cls(folder, network)
        made._replace(STATE, json.dumps({"version": STATE_VERSION}))
        return made

    @classmethod
    def open(cls, folder: Path) -> Execution:
        """A folder that ``prepare`` or ``lay_out`` made."""
        if not (folder / FILE).is_file():
            raise BadArgument(
                f"{folder}: no network runs here.",
                hint="`slipstream network run FILE --input SOURCE=RECORDING --out DIR` starts one.",
            )
        _check_state(folder / STATE)
        return cls(folder, files.load(folder / FILE))

    # --- control

    @property
    def control(self) -> str:
        """What people want: run, pause, or a number of steps."""
        place = self.folder / "control"
        return place.read_text(encoding="utf-8").strip() if place.exists() else RUN

    @control.setter
    def control(self, wanted: str) -> None:
        self._replace("control", wanted)

    def pause(self) -> None:
        """Let no more trains arrive; the batch under way ends normally."""
        self.control = PAUSE

    def resume(self) -> None:
        """Let trains arrive again."""
        self.control = RUN

    def step(self, trains: int = 1) -> None:
        """Let so many trains of each source arrive, then pause."""
        self.control = str(trains)

    def waiting(self) -> list[Path]:
        """The trains that have not arrived, in order."""
        return sorted((self.folder / "waiting").glob("*/train-*.parquet"), key=lambda p: (p.name, p.parent.name))

    def queues(self) -> dict[str, int]:
        """The tuples of each source that have not arrived yet."""
        lengths = dict.fromkeys((source.name for source in self.network.sources), 0)
        for train in self.waiting():
            lengths[train.parent.name] += pq.read_metadata(train).num_rows
        return lengths

    def obey(self) -> bool:
        """Do what ``control`` says, once; whether anything is still to come."""
        wanted = self.control
        if wanted == RUN:
            self.release()
        elif wanted.isdigit() and int(wanted) > 0:
            self.release(step=True)
            left = int(wanted) - 1
            self.control = str(left) if left else PAUSE
        return bool(self.waiting())

    def release(self, *, step: bool = False) -> int:
        """Let waiting trains arrive whose time has come, or just the next of each source; says how many did."""
        trains = self.waiting() if step else [train for train in self.waiting() if self._due(train)]
        if step and trains:
            trains = [train for train in trains if train.name == trains[0].name]
        for train in trains:
            self._admit(train)
        return len(trains)

    def _due(self, train: Path) -> bool:
        """Whether the last tuple of a train has arrived by now; recordings without a rate are there at once."""
        return self.began + last_arrival(train) <= time.time_ns() // 1000

    def _admit(self, train: Path) -> None:
        """Let one train arrive: with its arrival times and, when load is shed, the marks of the tuples to drop."""
        shares, source, number = self.shares, train.parent.name, int(train.stem.removeprefix("train-"))
        tuples = entering = arriving(pq.read_table(train), self.began)
        if shares:
            tuples = shedding.stamp(tuples, self.places, shares, shedding.by_value(self.network, self.places))
            entering = shedding.entering(tuples, self.network, source, self.places)
        write_train(self.folder / "in" / source, number, entering)
        train.unlink()
        if shares:
            self._log_shed(source, train.stem, tuples)

    # --- the recording

    @property
    def recording(self) -> dict[str, int]:
        """How many ``tuples`` were recorded, and when the first ``began`` to arrive; empty if nothing is recorded."""
        place = self.folder / RECORDING
        return dict(json.loads(place.read_text(encoding="utf-8"))) if place.exists() else {}

    @property
    def has_begun(self) -> bool:
        """Whether a recording has begun to arrive; what is not recorded arrives on its own."""
        recording = self.recording
        return not recording or "began" in recording

    @cached_property
    def began(self) -> int:
        """When the recording began to arrive, in microseconds: when the first train is let in, not when Spark starts.

        It is written down before that, so a run that is interrupted goes on with the same times.
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
        """Write a small file so that nobody reads half of it."""
        with appearing(self.folder / name) as file:
            file.write(text.encode())

    # --- arcs that people look at

    @property
    def taps(self) -> dict[str, Arc]:
        """The arcs that are recorded beside the outputs, by the name under which they are; from the next batch on."""
        place = self.folder / "taps.json"
        arcs = json.loads(place.read_text(encoding="utf-8")) if place.exists() else []
        return {f"tap_{text.replace('.', '_')}": Arc.parse(text) for text in arcs}

    @taps.setter
    def taps(self, arcs: Iterable[Arc]) -> None:
        check_taps(self.network, arcs)
        self._replace("taps.json", json.dumps([str(arc) for arc in arcs]))

    # --- load shedding

    @cached_property
    def places(self) -> tuple[shedding.Place, ...]:
        """Where drops can stand; the place's number is its bit in ``_shed``."""
        return shedding.places(self.network)

    @property
    def shares(self) -> dict[str, float]:
        """How much of the tuples to come is dropped at each place; nothing unless told."""
        place = self.folder / "shed.json"
        return dict(json.loads(place.read_text(encoding="utf-8"))) if place.exists() else {}

    @shares.setter
    def shares(self, wanted: Mapping[str, float]) -> None:
        known = {str(place) for place in self.places}
        for name, share in wanted.items():
            if name not in known or not 0 <= share <= 1:
                raise BadArgument(f"cannot drop {share} at {name!r}.", hint=f"Places: {'; '.join(sorted(known))}.")
        self._replace("shed.json", json.dumps({name: share for name, share in wanted.items() if share}))

    def _log_shed(self, source: str, train: str, stamped: pa.Table) -> None:
        """What was marked, for people to see: how many tuples of a train go at each place."""
        mask = stamped[SHED].to_numpy()
        lost = {str(p): int(((mask >> bit) & 1).sum()) for bit, p in enumerate(self.places)}
        line = {"source": source, "train": train, "tuples": len(mask), "dropped": {p: n for p, n in lost.items() if n}}
        add_lines(self.folder / "shed.jsonl", [line])

    def shed(self) -> list[dict[str, Any]]:
        """What load shedding has done, train by train."""
        return whole_lines(self.folder / "shed.jsonl")

    # --- running

    def checked(self, spark: SparkSession) -> Checked:
        """The network with the schemas of its arcs; looked at once."""
        if self.known is None:
            self.known = check(self.network, spark)
        return self.known

    def compile(
        self, spark: SparkSession, tables: Mapping[str, DataFrame] | None = None, *, trains: int = 1
    ) -> Compiled:
        """The network over this folder's trains; connection points are tapped beside the outputs."""
        checked, inputs = self.checked(spark), {}
        for source in self.network.sources:
            frame = open_trains(spark, self.folder / "in" / source.name, source.schema, per_batch=trains)
            wanted = wanted_of(self.network, source.name, self.taps.values())
            inputs[source.name] = frame.where(wanted) if wanted else frame
        taps = {point.name: point.arc for point in self.network.points} | self.taps
        drops = {(place.taker, place.side, place.is_output): bit for bit, place in enumerate(self.places)}
        return compile_network(checked, inputs, tables, folder=self.folder, taps=taps, drops=drops)

    def start(
        self,
        spark: SparkSession,
        tables: Mapping[str, DataFrame] | None = None,
        *,
        available_now: bool = False,
        trains: int = 1,
    ) -> StreamingQuery:
        """Process what has arrived, ``trains`` a batch, from the checkpoint on, and what will arrive.

        With ``available_now`` the query ends when what is there has been processed.
        """
        made = self.compile(spark, tables, trains=trains)
        sink.prepare(self.folder)
        partitions = 1 if self.recording.get("tuples", SMALL) < SMALL else None
        return made.start(self._deliver, self.folder / "checkpoint", available_now=available_now, partitions=partitions)

    def warm_up(self, query: StreamingQuery) -> None:
        """Take an empty train through a query, so that what Spark's start takes is not a delay of the first tuples.

        Only before the recording begins to arrive: after that, times are fixed.
        """
        if self.has_begun:
            return
        for source in self.network.sources:
            write_empty(self.folder / "in" / source.name, source.schema)
        query.processAllAvailable()

    def run(self, spark: SparkSession, tables: Mapping[str, DataFrame] | None = None, *, trains: int = 1) -> None:
        """Process everything that has arrived, and come back."""
        query = self.start(spark, tables, available_now=True, trains=trains)
        with query_errors(self.network, self.folder):
            query.awaitTermination()

    def _deliver(self, batch: DataFrame, number: int) -> None:
        """Make visible what the tasks of a batch wrote."""
        words = batch.collect()
        files = {word["output"]: str(word["file"]) for word in words}
        if not self.has_begun:  # the empty train of ``warm_up``: it only has to pass
            sink.discard(self.folder, files)
            return
        sink.commit(self.folder, {point.name: self.history(point.name) for point in self.network.kept}, files, number)
        assert self.known is not None
        share = shedding.delivered(self.known, self.places, self.shares)
        self.monitor.note({word["output"]: Measured(**json.loads(word["measured"])) for word in words}, number, share)
        self.watch(number)

    def history(self, point: str) -> History:
        """The memory of a connection point or a view."""
        kept = {point.name: point for point in self.network.kept}
        if point not in kept:
            raise BadArgument(
                f"{point}: no such connection point.", hint=f"There is: {', '.join(kept) or 'none; add points:'}."
            )
        return History(self.folder / "points" / point, kept[point])

    # --- looking

    @property
    def monitor(self) -> Monitor:
        """Tuples, delays and utility of each output, batch by batch."""
        return Monitor(self.folder / "monitor.jsonl", self.network.outputs)

    def inspect(self, name: str, last: int = 20) -> list[dict[str, Any]]:
        """The newest tuples on an output, a view, a connection point or a tapped arc, in order; needs no Spark."""
        self._arc(name)
        if name in {point.name for point in self.network.kept}:
            return looking.newest_kept([span.path for span in self.history(name).spans()], last)
        return looking.newest_results(self.folder / "results", name, last)

    def results(self, spark: SparkSession, output: str) -> DataFrame:
        """Everything an output has delivered, or what a view or a connection point keeps, in order."""
        schema = self.checked(spark).schemas[self._arc(output)]
        if output in {point.name for point in self.network.kept}:
            return looking.kept(spark, [span.path for span in self.history(output).spans()], schema)
        return looking.results(spark, self.folder / "results", output, schema)

    def _arc(self, name: str) -> Arc:
        arcs = {end.name: end.arc for end in self.network.ends} | self.taps
        if name not in arcs:
            raise BadArgument(f"{name}: no such output.", hint=f"There is: {', '.join(arcs)}.")
        return arcs[name]


def check_taps(network: Network, arcs: Iterable[Arc]) -> None:
    """Refuse arcs that a network does not have."""
    names = {place.name for place in network.places}
    for arc in arcs:
        if arc.origin not in names:
            raise BadArgument(f"no arc {str(arc)!r} to tap.", hint=f"There is: {', '.join(sorted(names))}.")


def _check_state(file: Path) -> None:
    try:
        found = json_of(file.read_bytes())["version"] if file.exists() else 1
    except MALFORMED as error:
        raise BadInput(f"{file}: damaged ({error}).", hint="Run the network afresh in another folder.") from error
    if found != STATE_VERSION:
        raise BadInput(
            f"{file}: state of version {found}, this program reads {STATE_VERSION}.",
            hint="Go on with the version that wrote it, or run the network afresh in another folder.",
        )


def wanted_of(network: Network, source: str, tapped: Iterable[Arc] = ()) -> str:
    """What a source's takers look at, when all are filters of which nobody takes the rest: readers skip what is not.

    >>> from slipstream.network import Builder
    >>> net = Builder("n")
    >>> net.source("cars", speed="integer").filter("speed > 90").to("fast")
    >>> wanted_of(net.build(), "cars")
    '(speed > 90)'
    """
    ends = {end.arc for end in network.ends} | set(tapped)
    arcs = {arc for node in network.nodes for arc in node.inputs} | ends
    predicates: list[str] = []
    for node in network.consumers(source):
        if not isinstance(node.box, Filter) or Arc(node.name, len(node.box.predicates)) in arcs:
            return ""
        predicates += node.box.predicates
    if any(arc.origin == source for arc in ends) or any(map(expressions.calls, predicates)):
        return ""  # everything is looked at, or it would be dear to look twice
    return " or ".join(f"({predicate})" for predicate in predicates)


@contextmanager
def query_errors(network: Network, folder: Path | None = None) -> Iterator[None]:
    """A query that failed: say so without Spark's stack, and whether the network or the machine is to blame.

    ``folder`` is where what it delivered is kept, if it is.
    """
    from pyspark.errors import StreamingQueryException

    try:
        yield
    except StreamingQueryException as error:
        raise _failure(network, folder, error) from error


def _failure(network: Network, folder: Path | None, error: Exception) -> SlipstreamError:
    resumes = f"Results so far are in {folder}: `slipstream network run FILE --out {folder}`, without --input, resumes"
    again = f"{resumes} there." if folder else session.NOTHING_KEPT
    found = session.for_people(error, again, folder and folder / "checkpoint")
    if isinstance(found, BadInput):
        return BadInput(f"network {network.name} stopped: {found.message}", hint=found.hint)
    if found is not None and not found.message.startswith(session.TASK_FAILED):
        return found
    causes = re.findall(r"\w+(?:Error|Exception): [^\n]+", str(error))
    if not causes:
        what = re.sub(r"\[STREAM_FAILED\].*?terminated with exception: ", "", str(error)).splitlines()[0][:300]
        return Unavailable(f"network {network.name} stopped: {what}", hint=again)
    fixed = f" {resumes} after a fix of --functions." if folder else ""
    return BadInput(
        f"network {network.name} stopped: {causes[-1][:300]}",
        hint=f"Fix the expression, the function or the tuples, and run it in another folder.{fixed}",
    )


def replay(
    spark: SparkSession,
    execution: Execution,
    tables: Mapping[str, DataFrame] | None = None,
    *,
    controller: shedding.Controller | None = None,
    trains: int = ALL,
    rest: float = 0.05,
    watch: Callable[[int], None] = lambda _: None,
) -> None:
    """Run a recording at its own pace: trains arrive when their time has come, the query takes what is there.

    A batch takes at most ``trains`` of each source; ``watch`` is called with the number of each that was delivered.
    With a ``controller`` load is shed while outputs are late.
    """
    execution.watch = watch
    query = execution.start(spark, tables, trains=trains)
    with query_errors(execution.network, execution.folder):
        try:
            execution.warm_up(query)
            while execution.obey() and query.isActive:
                shares = controller.adjust(execution.monitor.entries()) if controller else None
                if shares is not None:
                    execution.shares = shares
                time.sleep(rest)
            if query.isActive:
                query.processAllAvailable()
        finally:
            query.stop()
        query.awaitTermination()
