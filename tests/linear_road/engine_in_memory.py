"""The toll engine in memory: the packing of source tasks and the stages as they run in Spark, for many cases."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from oracles.trips import Trip
from slipstream._archive.ended_trips import EndedTrips
from slipstream._feeds.tuples import FIELDS
from slipstream._io.chunks import BEHIND, LAST, Chunk
from slipstream._io.formats.decoding import Decoding
from slipstream._io.report_packing import ReportPacking
from slipstream._linear_road.answers import ALERT, ANSWER, BALANCE, EXPENDITURE, TOLL
from slipstream._linear_road.job.delivery import learn_names, restore_names
from slipstream._linear_road.job.query import IntakeStage, make_stages
from slipstream._linear_road.job.toll_layout import ANSWERS_AND_TRIPS, NUMBERS, TEXTS, Layout
from slipstream._linear_road.rules import find_rules
from slipstream._linear_road.schedule import Irregular
from slipstream._linear_road.tasks.intake import SILENCE_MS
from slipstream._linear_road.tasks.naming import NameStage
from slipstream._linear_road.tasks.toll_stages import ANSWERS, COUNTED, REJECTS, TRIPS, Hop
from slipstream._runtime.stages.memory import Host
from slipstream._runtime.stages.stage import Chain
from slipstream._runtime.state.id_numbers import Register
from slipstream._runtime.state.store import MemoryStore
from slipstream._tools.numba_tools import Ints

CAR = "car "
#: what a batch brings of a lane
Stretch = tuple[int, Sequence[str]]


@dataclass
class Engine:
    """Intake, tolls, trips and accounts; with ``restart`` every batch begins from what the one before it stored.

    A number n instead: every nth batch does. With ``crash`` every batch is lost once, and done again.
    """

    lateness: int = 60
    fragments: int = 1
    shards: int = 1
    rules: str = "2004"
    restart: bool | int = False
    crash: bool = False
    chained: bool = False  # in one operator, as where there is one partition
    silence_ms: int = SILENCE_MS
    tasks: int = 1  # that read a batch
    named: bool = False  # vehicle 7 is known as "car 7": the feed says so, and so must the answers

    outputs: list[tuple[int, ...]] = field(default_factory=list)
    trips: list[list[Trip]] = field(default_factory=list)  # of each batch
    rejects: list[tuple[str, str]] = field(default_factory=list)
    tolled: int = 0  # position reports
    irregular: Irregular = field(default_factory=Irregular)

    def __post_init__(self) -> None:
        self.layout = Layout(
            id="test",
            source="test",
            rules=self.rules,
            lateness=self.lateness,
            outputs=ANSWERS_AND_TRIPS,
            start="",
            until=-1,
            fragments=tuple(range(self.fragments)),
            shards=tuple(range(self.shards)),
            partitions=1,
            ids=TEXTS if self.named else NUMBERS,
        )
        intake = IntakeStage("test", self.layout, live=True, silence_ms=self.silence_ms)
        stages = make_stages("test", self.layout, None, None, intake)
        if self.named:
            stages = [NameStage("test", self.layout), *stages]
        self.host = Host([Chain("test", stages)] if self.chained else stages)
        decoding = Decoding("csv", {**dict.fromkeys(FIELDS, "integer"), "vid": "text"}) if self.named else None
        form = find_rules(self.rules).form
        self.packing = ReportPacking("text", self.layout.fragments, self.lateness, decoding, self.named, form)
        self.register = Register(self.fragments)
        self.answers = np.empty(0, ANSWER)

    def run(self, batches: Iterable[Sequence[str]]) -> Engine:
        """A feed with one order, in batches."""
        return self.run_lanes([[(0, batch)] for batch in batches])

    def run_lanes(self, batches: Sequence[Sequence[Stretch]]) -> Engine:
        """A feed of lanes to its end: what each batch brings of them.

        As a topic's reader does, every batch says of every lane whether more of it is there.
        """
        lanes = sorted({lane for batch in batches for lane, _ in batch} or {0})
        for number, batch in enumerate(batches):
            left = {lane for later in batches[number + 1 :] for lane, _ in later}
            words = [Chunk(1 << 61, BEHIND if lane in left else LAST, lane=lane) for lane in lanes]
            self.batch(number, [*self.chunks(batch, arrival(number)), *(words if len(lanes) > 1 else [])])
        self.batch(len(batches), [Chunk(1 << 62, LAST, lane=lane) for lane in lanes])
        return self

    def chunks(self, batch: Sequence[Stretch], arrived: int) -> Iterator[Chunk]:
        """A lane's lines as chunks of some lines each."""
        places: defaultdict[int, int] = defaultdict(int)
        for lane, lines in batch:
            size = 7 if self.tasks > 1 else len(lines) or 1
            for first in range(0, len(lines), size):
                some = lines[first : first + size]
                data = b"".join((name_vehicle(line) if self.named else line).encode() + b"\n" for line in some)
                yield Chunk(places[lane], arrived=arrived, data=data, lane=lane)
                places[lane] += 1

    def batch(self, number: int, chunks: Sequence[Chunk]) -> None:
        """Deal chunks out to tasks; what they send goes through the stages."""
        rows = []
        for task in range(self.tasks):
            mine = [chunk for place, chunk in enumerate(chunks) if place % self.tasks == task]
            # a shuffle brings tasks in any order
            rows = [*self.packed(mine), *rows]
        self.take(number, rows)

    def take(self, number: int, rows: list[Any]) -> None:
        """What tasks sent goes through the stages."""
        if self.restart and (number + 1) % int(self.restart) == 0:
            self.host.restart()
        self.trips.append([])
        hops = self.host.run(rows, crash=self.crash)
        learn_names(self.register, hops)
        for hop in hops:
            self.sink(self.with_numbers(hop) if self.named else hop)

    def packed(self, chunks: Sequence[Chunk]) -> list[Any]:
        if not chunks:
            return []
        found = self.packing.pack(iter(chunks))
        return [SimpleNamespace(**row) for batch in found for row in batch.to_pylist()]

    def with_numbers(self, hop: Hop) -> Hop:
        """What the engine says of vehicles by name, by the numbers in these names."""
        if hop.what == ANSWERS:
            rows = np.frombuffer(hop.payload, ANSWER).copy()
            rows["vid"] = self.own_numbers(rows["vid"])
            return hop._replace(payload=rows.tobytes())
        if hop.what == TRIPS:
            trips = EndedTrips.from_bytes(hop.payload, hop.requests, hop.reports)
            return hop._replace(payload=trips._replace(vid=self.own_numbers(trips.vid)).to_bytes())
        if hop.what == REJECTS:
            # the rejects table has names; the oracle has numbers
            lines = restore_names(hop, self.register)
            return hop._replace(payload=lines.replace(f",{CAR}".encode(), b","))
        return hop

    def own_numbers(self, numbers: Ints) -> Ints:
        """The numbers in the names of vehicles."""
        names = self.register.texts(numbers).to_pylist()
        return np.array([int(name.removeprefix(CAR)) for name in names], np.int32)

    @property
    def stores(self) -> dict[int, MemoryStore]:
        """What rests of open trips."""
        return self.host.stores("trips")

    def sink(self, hop: Hop) -> None:
        if hop.what == ANSWERS:
            self.answers = np.concatenate([self.answers, np.frombuffer(hop.payload, ANSWER)])
            self.outputs += [plain(row) for row in np.frombuffer(hop.payload, ANSWER)]
        elif hop.what == TRIPS:
            self.trips[-1] += plain_trips(EndedTrips.from_bytes(hop.payload, hop.requests, hop.reports))
        elif hop.what == COUNTED:
            self.tolled += hop.reports
            self.irregular = Irregular.total([self.irregular, Irregular.from_bytes(hop.payload)])
        elif hop.what == REJECTS:
            lines = hop.payload.split(b"\n")[:-1]
            assert len(lines) == hop.reports
            pairs = (line.decode(errors="replace").split(",", 1) for line in lines)
            self.rejects += [(line, reason) for reason, line in pairs]


def name_vehicle(line: str) -> str:
    """A line in which the vehicle is known by name."""
    kind, time, vid, *rest = line.split(",")
    return ",".join([kind, time, CAR + vid, *rest])


def arrival(batch: int) -> int:
    """When the tuples of a batch arrive, in milliseconds: at no round moment."""
    return 1_700_000_000_123 + 777 * batch


def plain_trips(trips: EndedTrips) -> Iterator[Trip]:
    """Trips as the oracle has them."""
    reports = list(zip(trips.time.tolist(), trips.pos.tolist(), trips.lane.tolist(), strict=True))
    heads = zip(trips.vid.tolist(), trips.xway.tolist(), trips.dir.tolist(), strict=True)
    first = 0
    for head, size in zip(heads, trips.size.tolist(), strict=True):
        yield head, tuple(reports[first : first + size])
        first += size


def plain(row: np.void) -> tuple[int, ...]:
    """An answer in the paper's field order, without Emit."""
    kind, time, vid, qid, a, b, _ = (int(value) for value in row.tolist())
    if kind == TOLL:
        return (kind, vid, time, a, b)
    if kind == ALERT:
        return (kind, time, vid, a)
    if kind == BALANCE:
        return (kind, time, a, qid, b)
    if kind == EXPENDITURE:
        return (kind, time, qid, a)
    return (kind, time, qid, a, b)
