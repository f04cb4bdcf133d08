"""Replay a run as a Spark streaming source: whole seconds as trains, in real time, at a multiple of it, or unthrottled.

The offset is the next second, so a restart resumes with exactly that one. A second is released when it begins: in real
time, the tuples of second t become readable at t. Copies of a multiplied run are made here, column by column; they are
not stored.

Before the first second come openings, each a batch of its own: the first carries the state that a fast-forward
computed, the others are empty. After them everything has run once, and the clock starts.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from slipstream._feeds import trains
from slipstream._feeds.clock import Clock
from slipstream._feeds.lane_parcels import reject_rivals
from slipstream._feeds.parse import Columns, format_lines, judge, reject_reason, select
from slipstream._feeds.run import MINUTE, Run
from slipstream._feeds.tuples import FIELDS, LINEAR_ROAD, POSITION, ReportForm
from slipstream._io.chunks import PAUSED_S
from slipstream._io.control_file import Control
from slipstream._linear_road.tasks.toll_stages import (
    COLUMNS,
    OPENING,
    TRAIN,
    Hop,
    Labels,
    divide_by_fragment,
    end_hops,
    rejects_hop,
    to_arrow,
)
from slipstream._tools.files.locations import to_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OPTION = "replay"


@dataclass(frozen=True)
class Replay:
    """What to replay, and how fast; passed to Spark as an option."""

    path: str
    copies: int
    fragments: Labels
    since: int
    until: int
    clock: str  # the clock file
    most_seconds: int  # of the run in one batch
    tasks: int
    forward: str = ""  # the fast-forward whose state the first opening carries
    openings: int = 1
    train_length: int = 0  # at most this many tuples per train; 0 for a whole second, 1 for a Spark row per tuple
    control: str = ""  # the control file, which may pause it
    form: ReportForm = LINEAR_ROAD

    def to_json(self) -> str:
        """Encode as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Replay:
        """Decode from JSON."""
        body = json.loads(text)
        return cls(**{**body, "fragments": tuple(body["fragments"]), "form": ReportForm(**body["form"])})

    def reach(self, start: int) -> int:
        """Return the end of a batch that starts at ``start`` now."""
        if start < self.since:
            return start + 1
        clock = Clock.read(to_path(self.clock))
        if clock is None:
            return start
        begun = clock.now_ms() // 1000 + 1 if clock.runs else self.until
        return max(start, min(begun, start + self.most_seconds, self.until))

    def restart_clock(self, second: int) -> None:
        """Resume after a pause, during which the clock stood still."""
        clock = Clock.read(to_path(self.clock))
        if clock is not None and clock.runs:
            Clock.start(clock.speed, second).write(to_path(self.clock))


@dataclass
class RunPart(InputPartition):
    """Some stored expressways, some copies of them, and the seconds to read."""

    stored: list[int]
    copies: list[int]
    since: int
    until: int


class ReplaySource(DataSource):
    """The source under the name ``slipstream-replay``."""

    @classmethod
    def name(cls) -> str:
        """Return its format name in Spark."""
        return "slipstream-replay"

    def schema(self) -> str:
        """Return the columns of hops."""
        return COLUMNS

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: ARG002, N802
        """Return the reader for one query."""
        return ReplayReader(Replay.from_json(self.options[OPTION]))


def read_replay(spark: SparkSession, replay: Replay) -> DataFrame:
    """Return a recorded run as a stream of hops."""
    spark.dataSource.register(ReplaySource)
    return spark.readStream.format(ReplaySource.name()).option(OPTION, replay.to_json()).load()


class ReplayReader(DataSourceStreamReader):
    """Plans batches on the driver and reads them in tasks."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self._control = Control(to_path(replay.control)) if replay.control else None
        self._held = False

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Return the offset of the first opening."""
        return {"second": self._replay.since - self._replay.openings}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: ARG002, N802
        """Return how far the control file, the clock, the batch size and the run allow."""
        second = start["second"]
        if self._control is not None and self._control.is_paused and second >= self._replay.since:
            self._held = True
            time.sleep(PAUSED_S)
            return start
        if self._held:
            self._held = False
            self._replay.restart_clock(second)
        return {"second": self._replay.reach(second)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Plan tasks of similar size: by stored expressways or, if these are few, by copies."""
        since, until = start["second"], end["second"]
        if until <= since:
            return []
        if since < self._replay.since:
            return [RunPart([], [], since, until)]
        run = open_run(self._replay.path)
        stored, copies = list(range(run.stored)), list(range(self._replay.copies))
        tasks = self._replay.tasks
        if len(stored) >= tasks:
            return [RunPart(stored[k::tasks], copies, since, until) for k in range(tasks)]
        return [RunPart(stored, copies[k::tasks], since, until) for k in range(min(tasks, len(copies)))]

    def read(self, partition: RunPart) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        """Return the trains of a partition, or the opening if it has no expressways."""
        if not partition.stored:
            first = partition.since == self._replay.since - self._replay.openings
            state = self._replay.forward.encode() if first else b""
            opening = [Hop(key, OPENING, partition.since, 0, 0, 0, state) for key in self._replay.fragments]
            yield to_arrow(opening)
            return
        run = open_run(self._replay.path)
        clean = run.manifest.seed is not None and self._replay.form == LINEAR_ROAD
        hops = _copy_second if clean else partial(_check_second, form=self._replay.form)
        for minute in range(partition.since // MINUTE, (partition.until - 1) // MINUTE + 1):
            tables = [read_minute(self._replay.path, stored, minute) for stored in partition.stored]
            since, until = max(partition.since, minute * MINUTE), min(partition.until, (minute + 1) * MINUTE)
            for second in range(since, until):
                base = [
                    (x, select_second(columns, second)) for x, columns in zip(partition.stored, tables, strict=True)
                ]
                batch = list(hops(run, base, partition.copies, self._replay.fragments))
                if self._replay.train_length:
                    batch = [part for hop in batch for part in split_train(hop, self._replay.train_length)]
                if batch:
                    yield to_arrow(batch)
        if partition.until == self._replay.until:
            yield to_arrow(list(end_hops(self._replay.fragments, partition.until - 1)))


def split_train(hop: Hop, length: int) -> Iterator[Hop]:
    """Split a train into trains of at most ``length`` tuples, to measure what trains gain."""
    if hop.what != TRAIN:
        yield hop
        return
    tuples = trains.to_tuples(trains.decode(hop.second, hop.reports, hop.requests, hop.payload))
    for first in range(0, tuples["type"].size, length):
        piece = {name: column[first : first + length] for name, column in tuples.items()}
        yield Hop(hop.key, TRAIN, hop.second, hop.arrived, *trains.encode(piece))


@cache
def open_run(path: str) -> Run:
    """Return the run at a path, opened once per process."""
    return Run.open(path)


#: decoded minutes: in real time, a minute is requested sixty times
_DECODED: dict[tuple[str, int], tuple[int, Columns]] = {}


def read_minute(path: str, stored: int, minute: int) -> Columns:
    """Return a minute of a stored expressway as columns; the latest one of each expressway is cached."""
    found = _DECODED.get((path, stored))
    if found is None or found[0] != minute:
        table = open_run(path).minute(stored, minute)
        found = (minute, {name: table.column(name).to_numpy() for name in FIELDS})
        _DECODED[path, stored] = found
    return found[1]


def select_second(columns: Columns, second: int) -> Columns:
    """Return the tuples of one second."""
    first, last = np.searchsorted(columns["time"], (second, second + 1))
    return {name: column[first:last] for name, column in columns.items()}


def _check_second(
    run: Run, base: list[tuple[int, Columns]], copies: list[int], fragments: Labels, form: ReportForm
) -> Iterator[Hop]:
    """Return the hops of a second of a run that was not simulated here: checked like any feed."""
    for _, stored in base:
        for copy in copies:
            tuples = run.shift_columns(stored, copy)
            verdicts = judge(tuples, form)
            bad = select(tuples, verdicts != 0)
            rejects = list(zip(format_lines(bad), map(reject_reason, verdicts[verdicts != 0].tolist()), strict=True))
            good = select(tuples, verdicts == 0)
            released = reject_rivals(good, 1000 * good["time"].astype(np.int64))
            yield from divide_by_fragment(released.tuples, fragments, released.arrived)
            if rejects or released.rejects:
                yield from rejects_hop(fragments[0], int(tuples["time"][0]), rejects + released.rejects)


def _copy_second(run: Run, base: list[tuple[int, Columns]], copies: list[int], fragments: Labels) -> Iterator[Hop]:
    """Return the hops of a second of a simulated run: all copies of all expressways, one train per fragment."""
    manifest = run.manifest
    reports = [(x, select(tuples, tuples["type"] == POSITION)) for x, tuples in base]
    xways = [expressway.xway for expressway in manifest.expressways]
    by_label: dict[int, list[tuple[int, int, Columns]]] = {label: [] for label in fragments}
    for copy in copies:
        for stored, tuples in reports:
            xway = copy * run.xway_stride + xways[stored]
            by_label[fragments[xway % len(fragments)]].append((copy, xway, tuples))
    second = next((int(tuples["time"][0]) for _, tuples in base if tuples["time"].size), None)
    if second is None:
        return
    for label, parts in by_label.items():
        sizes = [tuples["vid"].size for _, _, tuples in parts]
        if sum(sizes):
            columns = {
                name: np.concatenate([part[2][name] for part in parts]) for name in ("spd", "lane", "dir", "pos")
            }
            vids = [tuples["vid"] + np.int32(copy * manifest.vid_stride) for copy, _, tuples in parts]
            numbers = np.repeat(np.array([xway for _, xway, _ in parts], np.int32), sizes)
            payload = trains.pack(np.concatenate(vids), numbers, columns)
            yield Hop(label, TRAIN, second, 1000 * second, sum(sizes), 0, payload)
    requests = [select(tuples, tuples["type"] != POSITION) for _, tuples in base]
    copied = [run.shift_columns(tuples, copy) for tuples in requests if tuples["type"].size for copy in copies]
    if copied:
        yield from divide_by_fragment(
            {name: np.concatenate([part[name] for part in copied]) for name in FIELDS}, fragments
        )
