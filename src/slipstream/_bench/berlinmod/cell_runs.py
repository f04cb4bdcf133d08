"""Runs cells as streaming queries, on prepared events; the sink counts rows, and keeps them if that is wanted."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

from slipstream._bench.berlinmod.batch_evaluation import Evaluation
from slipstream._bench.berlinmod.cells import ANSWERS, CONTINUOUS, SNAPSHOT, SOURCE, Cell, list_cells
from slipstream._bench.berlinmod.event_files import SCHEMA, EventFile
from slipstream._bench.berlinmod.position_events import Events
from slipstream._bench.berlinmod.query_parameters import Parameters
from slipstream._io.chunks import CHUNK, to_arrow_stream
from slipstream._io.readers.user_feeds import UserFeed
from slipstream._network.boxes.movement.meetings import count_meetings
from slipstream._network.column_types import plain_schema
from slipstream._network.planning.compiler import Compiled, compile_rows
from slipstream._network.planning.plan import plan
from slipstream._network.schemas import check
from slipstream._network.tasks.parcels import Row
from slipstream._network.tasks.superbox import Superbox
from slipstream._network.tasks.train_intake import read_row, with_source
from slipstream._tools.files import temporary

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ENGINE = "slipstream"
#: events in a batch where each has many answers
PER_BATCH_OF_MEETINGS = 2_000
#: events that make every box work
_FEW = 10
#: the events of the run that starts workers, before the first that is measured
_WARM_UP = 2_000


@dataclass
class CountingSink:
    """Counts the rows of a cell's outputs as they leave, and keeps the answers if they are needed."""

    keeps: bool
    counts: Counter[str] = field(default_factory=Counter)
    kept: list[pa.Table] = field(default_factory=list)

    def deliver(self, rows: DataFrame) -> None:
        """Take the rows of a batch."""
        if not self.keeps:
            for row in rows.collect():
                self.counts[row["output"]] += row["count"]
            return
        found = rows.select("output", f"{ANSWERS}.*").toArrow()
        names = found["output"].to_pylist()
        self.counts.update(names)
        answers = found.filter(pa.array([name == ANSWERS for name in names], pa.bool_())).drop_columns(["output"])
        self.kept.append(answers)

    @property
    def answers(self) -> pa.Table:
        """All answers."""
        return pa.concat_tables(self.kept)


@dataclass(frozen=True)
class Result:
    """What running a cell gave: the row of the benchmark, and what it does not print."""

    engine: str
    query: str
    form: str
    events_in: int
    output_rows: int
    throughput_eps: int
    snapshot_equals_batch: bool | None

    def to_dict(self) -> dict[str, Any]:
        """Return the columns of the benchmark."""
        return dict(self.__dict__)


@dataclass(frozen=True)
class Bench:
    """Prepared events, their parameters, and a session to run cells in."""

    spark: SparkSession
    events: Events
    given: Parameters

    @classmethod
    def prepare(cls, spark: SparkSession, events: Events, given: Parameters) -> Bench:
        """Prepare events, compile what an installation compiles once, and start the workers."""
        bench = cls(spark, events, given)
        compile_kernels(events.first(_FEW), given)
        bench._run(Cell(1, SNAPSHOT), events.first(_WARM_UP), keeps=True)
        return bench

    def run(self, cell: Cell, out: Path | None = None, most_rows: int | None = None) -> Result:
        """Run one cell; writes its rows into ``out`` if given."""
        events = self.events
        if is_limited(cell) and most_rows is not None:
            events = events.first(self._count_events(most_rows))
        wall, sink = self._run(cell, events, keeps=out is not None or cell.form == SNAPSHOT)
        equal = None
        if cell.form == SNAPSHOT:
            equal = Evaluation(events, self.given, cell.complete).agrees(cell.query, sink.answers)
        if out is not None:
            csv.write_csv(sink.answers, out / f"{cell.name}.csv", csv.WriteOptions(quoting_header="none"))
        rate = round(len(events) / wall)
        return Result(ENGINE, f"Q{cell.query}", cell.form, len(events), sink.counts[ANSWERS], rate, equal)

    def _count_events(self, most_rows: int) -> int:
        """Return for how many events all pairs that meet are at most this many rows."""
        given = self.given
        _, codes = np.unique(self.events.vehicle, return_inverse=True)
        return count_meetings(
            codes, self.events.lon, self.events.lat, (*given.point, given.metres), given.meet, most_rows
        )

    def _run(self, cell: Cell, events: Events, *, keeps: bool) -> tuple[float, CountingSink]:
        """Run a query from its start to its end; returns how long that took, and what the sink got."""
        with TemporaryDirectory(dir=temporary.folder()) as work:
            source = EventFile.write(events.table(), Path(work) / "events.arrow")
            if is_limited(cell):
                source.per_batch = PER_BATCH_OF_MEETINGS
            made, sink = self._compile(cell, source, counted=not keeps), CountingSink(keeps)
            began = time.perf_counter()
            query = made.start(lambda rows, _: sink.deliver(rows), Path(work) / "checkpoint", available_now=True)
            try:
                query.awaitTermination()
                return time.perf_counter() - began, sink
            finally:
                query.stop()

    def _compile(self, cell: Cell, source: EventFile, *, counted: bool) -> Compiled:
        feed = UserFeed(SOURCE, "arrow", own=source, types=plain_schema(SCHEMA))
        rows = with_source(feed.open(self.spark, temporary.folder()), 0)
        return compile_rows(check(cell.network(self.given), self.spark), {0: rows}, counted=counted)


def compile_kernels(events: Events, given: Parameters) -> None:
    """Run some events through the boxes of all cells, without Spark: the first such run of an installation compiles."""
    row = Row(0, 0, 0, CHUNK, 0, to_arrow_stream(events.table()))
    for cell in list_cells():
        superbox = Superbox(plan(check(cell.network(given), None)))
        train, _ = read_row(superbox.plan, row, None)
        for _ in superbox.step(superbox.fresh(), {SOURCE: train}, last=True):
            pass


def is_limited(cell: Cell) -> bool:
    """Return whether a cell answers each event with all pairs that meet: its rows grow with the square of vehicles."""
    return (cell.query, cell.form) == (5, CONTINUOUS)
