"""A network at work in a folder: trains in, results out, and people in control.

    OUT/network.yaml        what runs
    OUT/waiting/SOURCE/     trains that have not arrived yet
    OUT/in/SOURCE/          trains that have: Spark streams this folder
    OUT/results/batch=N/    what batch N delivered (written whole, replaced when a batch is repeated)
    OUT/points/NAME/        the history of a connection point, as trains
    OUT/monitor.jsonl       one line a batch: tuples, delays and utility of each output
    OUT/checkpoint/         Spark's own
    OUT/control             run, pause, or a number of single steps
    OUT/shed.json           how much to drop where, and shed.jsonl what was dropped

Control works on arrivals: a train that has not been released has not arrived. So pausing, stepping and stopping never
touch a running batch, and what comes out is the same however a run was interrupted.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from slipstream.errors import BadArgument, BadInput
from slipstream.squal import files, shedding
from slipstream.squal.algebra import Arc, Network, Schema
from slipstream.squal.compiler import Compiled, compile_network
from slipstream.squal.inputs import read_table, write_trains
from slipstream.squal.schemas import Checked, check
from slipstream.squal.trains import SEQ, SHED, TS, open_trains, write_train

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

RUN, PAUSE = "run", "pause"
#: trains a batch when a query must catch up: the longer the train, the less a tuple costs
ALL = 10_000


@dataclass
class Execution:
    """A folder in which a network runs, has run, or will."""

    folder: Path
    network: Network
    taps: dict[str, Arc] = field(default_factory=dict)

    @classmethod
    def prepare(
        cls, folder: Path, network: Network, inputs: Mapping[str, Path], *, train: int = 1000, rate: float | None = None
    ) -> Execution:
        """Lay out a folder: the network and its recorded inputs as waiting trains."""
        if folder.exists() and any(folder.iterdir()):
            raise BadArgument(f"{folder}: exists and is not empty.", hint="Give another folder, or leave out --input.")
        for source in network.sources:
            if source.name not in inputs:
                raise BadArgument(
                    f"network {network.name}: no input for the source {source.name}.",
                    hint=f"Give --input {source.name}=FILE.",
                )
        tables = {source.name: read_table(inputs[source.name], source.schema) for source in network.sources}
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "network.yaml").write_text(files.dumps(network), encoding="utf-8")
        now = time.time_ns() // 1000
        for name, table in tables.items():
            write_trains(folder / "waiting" / name, table, train, now, rate)
            (folder / "in" / name).mkdir(parents=True)
        return cls(folder, network)

    @classmethod
    def open(cls, folder: Path) -> Execution:
        """A folder that ``prepare`` laid out."""
        if not (folder / "network.yaml").is_file():
            raise BadArgument(
                f"{folder}: no network runs here.", hint="`slipstream network run FILE --out DIR` lays one out."
            )
        return cls(folder, files.load(folder / "network.yaml"))

    # --- control

    @property
    def control(self) -> str:
        """What people want: run, pause, or a number of steps."""
        place = self.folder / "control"
        return place.read_text(encoding="utf-8").strip() if place.exists() else RUN

    @control.setter
    def control(self, wanted: str) -> None:
        stage = self.folder / ".control"
        stage.write_text(wanted, encoding="utf-8")
        stage.rename(self.folder / "control")

    def waiting(self) -> list[Path]:
        """The trains that have not arrived, in order."""
        return sorted((self.folder / "waiting").glob("*/train-*.parquet"), key=lambda p: (p.name, p.parent.name))

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
        times = pq.read_table(train, columns=[TS])[TS]
        return len(times) == 0 or times[-1].as_py() <= time.time_ns() // 1000

    def _admit(self, train: Path) -> None:
        """Let one train arrive; when load is shed, with the marks of the tuples to drop written into it."""
        shares, source = self.shares, train.parent.name
        if not shares:
            train.rename(self.folder / "in" / source / train.name)
            return
        values = shedding.by_value(self.network, self.places)
        stamped = shedding.stamp(pq.read_table(train), self.places, shares, values)
        write_train(self.folder / "in" / source, int(train.stem.removeprefix("train-")), stamped)
        train.unlink()
        self._log_shed(source, train.stem, stamped)

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
        stage = self.folder / ".shed"
        stage.write_text(json.dumps({name: share for name, share in wanted.items() if share}), encoding="utf-8")
        stage.rename(self.folder / "shed.json")

    def _log_shed(self, source: str, train: str, stamped: pa.Table) -> None:
        """What was marked, for people to see: how many tuples of a train go at each place."""
        mask = stamped[SHED].to_numpy()
        lost = {str(p): int(((mask >> bit) & 1).sum()) for bit, p in enumerate(self.places)}
        line = {"source": source, "train": train, "tuples": len(mask), "dropped": {p: n for p, n in lost.items() if n}}
        with (self.folder / "shed.jsonl").open("a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")

    def shed(self) -> list[dict[str, Any]]:
        """What load shedding has done, train by train."""
        place = self.folder / "shed.jsonl"
        return [json.loads(line) for line in place.read_text(encoding="utf-8").splitlines()] if place.exists() else []

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

    # --- running

    def compile(
        self, spark: SparkSession, tables: Mapping[str, DataFrame] | None = None, *, trains: int = 1
    ) -> Compiled:
        """The network over this folder's trains; connection points are tapped beside the outputs."""
        checked = check(self.network, spark)
        inputs = {
            source.name: open_trains(spark, self.folder / "in" / source.name, source.schema, per_batch=trains)
            for source in self.network.sources
        }
        taps = {point.name: point.arc for point in self.network.points} | self.taps
        clash = set(taps) & {output.name for output in self.network.outputs}
        if clash:
            raise BadInput(f"{sorted(clash)[0]!r} names an output and a connection point.", hint="Rename one.")
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

    def run(self, spark: SparkSession, tables: Mapping[str, DataFrame] | None = None) -> None:
        """Process everything that has arrived, and come back."""
        query = self.start(spark, tables, available_now=True)
        with told(self.network):
            query.awaitTermination()

    def _deliver(self, made: Compiled, batch: DataFrame, number: int) -> None:
        """Write what a batch delivered under its number, so that a repeated batch replaces itself."""
        batch = batch.persist()
        try:
            target = str(self.folder / "results" / f"batch={number}")
            batch.write.mode("overwrite").partitionBy("output").parquet(target)
            for point in self.network.points:
                self._remember(made, batch, number, point.name)
            self._note(batch, number)
        finally:
            batch.unpersist()

    def _remember(self, made: Compiled, batch: DataFrame, number: int, point: str) -> None:
        """Add a batch's tuples to a connection point's history, as a train of its own."""
        folder = self.folder / "points" / point
        if (folder / f"train-{number:08d}.parquet").exists():
            return
        from pyspark.sql import Window
        from pyspark.sql import functions as sf

        order = sf.row_number().over(Window.orderBy(*made.plan.keys)).cast("bigint")
        tuples = made.output(point, batch).withColumn(SEQ, order + (number << 32)).withColumnRenamed("ts", TS)
        table = tuples.drop(*made.plan.keys).toArrow()
        if table.num_rows:
            write_train(folder, number, table)
        self._forget(point)

    def _forget(self, point: str) -> None:
        """Drop whole trains that a connection point need not keep."""
        wanted = next(p for p in self.network.points if p.name == point)
        trains = sorted((self.folder / "points" / point).glob("train-*.parquet"), reverse=True)
        oldest = None if wanted.keep_seconds is None else (time.time() - wanted.keep_seconds) * 1e6
        kept = 0
        for train in trains:
            full = wanted.keep_tuples is not None and kept >= wanted.keep_tuples
            kept += pq.read_metadata(train).num_rows
            if full or (oldest is not None and pq.read_table(train, columns=[TS])[TS].to_numpy().max() < oldest):
                train.unlink()

    def _note(self, batch: DataFrame, number: int) -> None:
        """One line in the monitor: what each output got, how late, and what that was worth."""
        now = time.time_ns() // 1000
        delay = f"({now} - ts) / 1e6"
        rows = batch.groupBy("output").agg(*_measures(delay)).collect()
        outputs = {output.name: output for output in self.network.outputs}
        lines = {}
        for row in rows:
            if row.output in outputs:
                graph = outputs[row.output].quality.delay
                delays = row.delays or []
                utility = float(graph.over(delays).mean()) if delays else None
                good = sum(d <= graph.good_until for d in delays) / len(delays) if delays else None
                lines[row.output] = {
                    "tuples": row.tuples, "delay": row.delay, "worst": row.worst, "utility": utility, "good": good
                }  # fmt: skip
        with (self.folder / "monitor.jsonl").open("a", encoding="utf-8") as monitor:
            monitor.write(json.dumps({"batch": number, "at": now, "outputs": lines}) + "\n")

    # --- looking

    def monitor(self) -> list[dict[str, Any]]:
        """The monitor's lines; of a repeated batch the last."""
        place = self.folder / "monitor.jsonl"
        lines = place.read_text(encoding="utf-8").splitlines() if place.exists() else []
        return list({entry["batch"]: entry for entry in map(json.loads, lines)}.values())

    def results(self, spark: SparkSession, output: str) -> DataFrame:
        """Everything an output has delivered, in order, with its own columns."""
        checked = check(self.network, spark)
        schema = self._schema_of(checked, output)
        folder = self.folder / "results"
        if not any(folder.glob(f"batch=*/output={output}")):
            return spark.createDataFrame([], _ddl(schema))
        rows = spark.read.option("mergeSchema", "true").option("basePath", str(folder)).parquet(str(folder))
        keys = [name for name in rows.columns if name[:1] == "q" and name[1:].isdigit()]
        ordered = rows.where(f"output = '{output}'").orderBy(*sorted(keys, key=lambda key: int(key[1:])))
        return ordered.select(f"{output}.*")

    def _schema_of(self, checked: Checked, output: str) -> Schema:
        arcs = {o.name: o.arc for o in self.network.outputs} | {p.name: p.arc for p in self.network.points} | self.taps
        if output not in arcs:
            raise BadArgument(f"{output}: no such output.", hint=f"There is: {', '.join(arcs)}.")
        return checked.schemas[arcs[output]]


def _measures(delay: str) -> Iterator[Any]:
    from pyspark.sql import functions as sf

    yield sf.count("*").alias("tuples")
    yield sf.expr(f"avg({delay})").alias("delay")
    yield sf.expr(f"max({delay})").alias("worst")
    # twenty quantiles stand for the distribution; the driver need not see every tuple
    shares = ", ".join(f"{i / 20}D" for i in range(21))
    yield sf.expr(f"percentile_approx({delay}, array({shares}))").alias("delays")


def _ddl(schema: Schema) -> str:
    from slipstream.squal.algebra import TYPES

    return ", ".join(f"{name} {TYPES[type_]}" for name, type_ in schema.items())


def attach(spark: SparkSession, execution: Execution, point: str, query: Network, folder: Path) -> Execution:
    """An ad hoc query on a connection point: a network whose only source is the point.

    It streams the point's folder: the trains that are there are the history, those to come are live, each exactly
    once, so there is neither gap nor double at the seam. Detach by stopping it.
    """
    checked = check(execution.network, spark)
    schema = execution._schema_of(checked, point)
    if [list(source.schema.items()) for source in query.sources] != [list(schema.items())]:
        raise BadInput(
            f"network {query.name}: its source must be the connection point {point}.",
            hint="Its one source needs exactly: " + ", ".join(f"{n}: {t}" for n, t in schema.items()) + ".",
        )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "network.yaml").write_text(files.dumps(query), encoding="utf-8")
    place = execution.folder / "points" / point
    place.mkdir(parents=True, exist_ok=True)
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / query.sources[0].name).symlink_to(place.resolve(), target_is_directory=True)
    return Execution(folder, query)


@contextmanager
def told(network: Network) -> Iterator[None]:
    """A query that a network's own expression or function stopped: say so in its words, without Spark's stack."""
    from pyspark.errors import StreamingQueryException

    try:
        yield
    except StreamingQueryException as error:
        causes = re.findall(r"\w+(?:Error|Exception): [^\n]+", str(error))
        cause = (causes or [str(error)])[-1][:300]
        raise BadInput(
            f"network {network.name} stopped: {cause}",
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
                shares = controller.adjust(execution.monitor()) if controller else None
                if shares is not None:
                    execution.shares = shares
                time.sleep(rest)
            if query.isActive:
                query.processAllAvailable()
        finally:
            query.stop()
        query.awaitTermination()
