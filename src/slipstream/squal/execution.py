"""A network at work in a folder: trains in, results out, and people in control.

    OUT/network.yaml        what runs
    OUT/state.json          the version of the boxes' state in the checkpoint
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
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from slipstream.documents import json_of
from slipstream.errors import MALFORMED, BadArgument, BadInput, Unavailable
from slipstream.failpoints import failpoint
from slipstream.logs import add_lines, whole_lines
from slipstream.squal import expressions, files, looking, shedding
from slipstream.squal.algebra import Arc, Filter, Network
from slipstream.squal.compiler import Compiled, compile_network
from slipstream.squal.inputs import read_table, write_trains
from slipstream.squal.monitor import Monitor
from slipstream.squal.points import History
from slipstream.squal.schemas import Checked, check
from slipstream.squal.trains import SEQ, SHED, TS, last_arrival, open_trains, write_train

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

RUN, PAUSE = "run", "pause"
#: of what boxes keep in the state store; a folder that does not say it is of the first
STATE, STATE_VERSION = "state.json", 1
#: trains a batch when a query must catch up: the longer the train, the less a tuple costs
ALL = 10_000


@dataclass
class Execution:
    """A folder in which a network runs, has run, or will."""

    folder: Path
    network: Network
    known: Checked | None = None

    @classmethod
    def prepare(
        cls, folder: Path, network: Network, inputs: Mapping[str, Path], *, train: int = 1000, rate: float | None = None
    ) -> Execution:
        """Lay out a folder: the network and its recorded inputs as waiting trains."""
        for source in network.sources:
            if source.name not in inputs:
                raise BadArgument(
                    f"network {network.name}: no input for the source {source.name}.",
                    hint=f"Give --input {source.name}=FILE.",
                )
        tables = {source.name: read_table(inputs[source.name], source.schema) for source in network.sources}
        made = cls.lay_out(folder, network)
        now = time.time_ns() // 1000
        for name, table in tables.items():
            write_trains(folder / "waiting" / name, table, train, now, rate)
        return made

    @classmethod
    def lay_out(cls, folder: Path, network: Network) -> Execution:
        """A folder with the network and no input yet: trains come later, or from outside."""
        if folder.exists() and any(folder.iterdir()):
            raise BadArgument(f"{folder}: exists and is not empty.", hint="Give another folder, or leave out --input.")
        for source in network.sources:
            (folder / "in" / source.name).mkdir(parents=True)
        (folder / STATE).write_text(json.dumps({"version": STATE_VERSION}), encoding="utf-8")
        (folder / "network.yaml").write_text(files.dumps(network), encoding="utf-8")
        return cls(folder, network)

    @classmethod
    def open(cls, folder: Path) -> Execution:
        """A folder that ``prepare`` or ``lay_out`` made."""
        if not (folder / "network.yaml").is_file():
            raise BadArgument(
                f"{folder}: no network runs here.", hint="`slipstream network run FILE --out DIR` lays one out."
            )
        _check_state(folder / STATE)
        return cls(folder, files.load(folder / "network.yaml"))

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

    @staticmethod
    def _due(train: Path) -> bool:
        """Whether the last tuple of a train has arrived by now; recordings without a rate are there at once."""
        return last_arrival(train) <= time.time_ns() // 1000

    def _admit(self, train: Path) -> None:
        """Let one train arrive; when load is shed, with the marks of the tuples to drop written into it."""
        shares, source = self.shares, train.parent.name
        if not shares:
            train.rename(self.folder / "in" / source / train.name)
            return
        values = shedding.by_value(self.network, self.places)
        stamped = shedding.stamp(pq.read_table(train), self.places, shares, values)
        entering = shedding.entering(stamped, self.network, source, self.places)
        write_train(self.folder / "in" / source, int(train.stem.removeprefix("train-")), entering)
        train.unlink()
        self._log_shed(source, train.stem, stamped)

    def _replace(self, name: str, text: str) -> None:
        """Write a small file so that nobody reads half of it."""
        stage = self.folder / f".{name}"
        stage.write_text(text, encoding="utf-8")
        stage.rename(self.folder / name)

    # --- arcs that people look at

    @property
    def taps(self) -> dict[str, Arc]:
        """The arcs that are recorded beside the outputs, by the name under which they are; from the next batch on."""
        place = self.folder / "taps.json"
        arcs = json.loads(place.read_text(encoding="utf-8")) if place.exists() else []
        return {f"tap_{text.replace('.', '_')}": Arc.parse(text) for text in arcs}

    @taps.setter
    def taps(self, arcs: Iterable[Arc]) -> None:
        names = {place.name for place in self.network.places}
        for arc in arcs:
            if arc.origin not in names:
                raise BadArgument(f"no arc {str(arc)!r} to tap.", hint=f"There is: {', '.join(sorted(names))}.")
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
        return compile_network(checked, inputs, tables, taps=taps, drops=drops)

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
        deliver = partial(self._deliver, made)
        return made.start(deliver, self.folder / "checkpoint", available_now=available_now)

    def run(self, spark: SparkSession, tables: Mapping[str, DataFrame] | None = None, *, trains: int = 1) -> None:
        """Process everything that has arrived, and come back."""
        query = self.start(spark, tables, available_now=True, trains=trains)
        with told(self.network):
            query.awaitTermination()

    def _deliver(self, made: Compiled, batch: DataFrame, number: int) -> None:
        """Write what a batch delivered under its number, so that a repeated batch replaces itself."""
        batch = batch.persist()
        try:
            failpoint("network.before-points")
            self._keep(made, batch, number)
            kept = ", ".join(f"'{point.name}'" for point in self.network.kept)
            results = batch.where(f"output not in ({kept})") if kept else batch
            self._show(results, number)
            self.monitor.note(batch, number, shedding.delivered(made.plan.checked, self.places, self.shares))
        finally:
            batch.unpersist()

    def _show(self, results: DataFrame, number: int) -> None:
        """Write a batch's results aside and put them in place, so that nobody sees half of them."""
        target = self.folder / "results" / f"batch={number}"
        aside = self.folder / "staging" / target.name
        failpoint("network.before-results")
        results.write.mode("overwrite").partitionBy("output").parquet(str(aside))
        failpoint("network.before-show")
        shutil.rmtree(target, ignore_errors=True)
        target.parent.mkdir(exist_ok=True)
        aside.rename(target)
        failpoint("network.after-show")

    def _keep(self, made: Compiled, batch: DataFrame, number: int) -> None:
        """Add a batch's tuples to the history of each connection point and view, as a train of their own."""
        from pyspark.sql import Window
        from pyspark.sql import functions as sf

        order = sf.row_number().over(Window.orderBy(*made.plan.keys)).cast("bigint")
        for point in self.network.kept:
            passed = batch.where(f"output = '{point.name}'")
            tuples = passed.select((order + (number << 32)).alias(SEQ), sf.col("ts").alias(TS), f"{point.name}.*")
            if point.key:
                tuples = tuples.sortWithinPartitions(point.key)
            self.history(point.name).add(number, partial(_write_by_worker, tuples))

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


def _write_by_worker(tuples: DataFrame, target: Path) -> int:
    """Let Spark write one file where it computes the tuples, and put it in place; how many tuples it has."""
    stage = target.with_name(f"{target.name}.d")
    tuples.coalesce(1).write.mode("overwrite").parquet(str(stage))
    parts = list(stage.glob("part-*.parquet"))
    if parts:
        parts[0].rename(target)
    shutil.rmtree(stage)
    return int(pq.read_metadata(target).num_rows) if parts else 0


def wanted_of(network: Network, source: str, tapped: Iterable[Arc] = ()) -> str:
    """What a source's takers look at, when all are filters of which nobody takes the rest: readers skip what is not.

    >>> from slipstream.squal import Builder
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
def told(network: Network) -> Iterator[None]:
    """A query that stopped: say so without Spark's stack, and whether the network or the machine is to blame."""
    from pyspark.errors import StreamingQueryException

    try:
        yield
    except StreamingQueryException as error:
        causes = re.findall(r"\w+(?:Error|Exception): [^\n]+", str(error))
        if not causes:
            what = re.sub(r"\[STREAM_FAILED\].*?terminated with exception: ", "", str(error)).splitlines()[0][:300]
            raise Unavailable(
                f"network {network.name} stopped: {what}", hint="Run it again: it goes on from there."
            ) from error
        raise BadInput(
            f"network {network.name} stopped: {causes[-1][:300]}",
            hint="Mend the expression or window function, or the tuples, and run it again: it goes on from there.",
        ) from error


def replay(
    spark: SparkSession,
    execution: Execution,
    tables: Mapping[str, DataFrame] | None = None,
    *,
    controller: shedding.Controller | None = None,
    rest: float = 0.05,
) -> None:
    """Run a recording at its own pace: trains arrive when their time has come, the query takes what is there.

    With a ``controller`` load is shed while outputs are late.
    """
    query = execution.start(spark, tables, trains=ALL)
    with told(execution.network):
        try:
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
