"""The toll engine without Spark: the same stages, driven by hand, so that thousands of cases fit into a test."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from oracles.trips import Trip
from slipstream.archive.open_trips import OpenTrips
from slipstream.archive.trajectories import Trips
from slipstream.feeds.intake import Intake
from slipstream.feeds.parse import parse_text
from slipstream.linear_road.accounts import Accounts
from slipstream.linear_road.answers import ALERT, ANSWER, BALANCE, EXPENDITURE, TOLL
from slipstream.linear_road.fragment import TollFragment
from slipstream.linear_road.rules import RULES, Rules
from slipstream.linear_road.schedule import Irregular
from slipstream.linear_road.stages import (
    ANSWERS,
    COUNTED,
    REJECTS,
    TRIPS,
    Hop,
    account_stage,
    by_fragment,
    ends,
    rejects_hop,
    toll_stage,
    trip_stage,
)
from slipstream.linear_road.travel import Past
from slipstream.runtime.store import MemoryStore


@dataclass
class Engine:
    """Intake, tolls, trips and accounts; with ``restart`` every batch begins from what the one before it stored.

    A number n instead: every nth batch does.
    """

    lateness: int = 60
    fragments: int = 1
    shards: int = 1
    rules: Rules = RULES["2004"]
    past: Past = field(default_factory=lambda: Past(None))
    restart: bool | int = False

    def __post_init__(self) -> None:
        self._number = 0
        self.intake = Intake(self.lateness)
        self.tolls: dict[int, TollFragment] = {}
        self.open_trips: dict[int, OpenTrips] = {}
        self.accounts: dict[int, Accounts] = {}
        self.stores: dict[tuple[str, int], MemoryStore] = {}
        self.outputs: list[tuple[int, ...]] = []
        self.answers = np.empty(0, ANSWER)
        self.irregular = Irregular()
        self.tolled = 0  # position reports
        self.trips: list[list[Trip]] = []  # of each batch
        self.rejects: list[tuple[str, str]] = []

    def run(self, batches: Iterable[Sequence[str]]) -> Engine:
        for number, batch in enumerate(batches):
            parsed = parse_text(b"".join(line.encode() + b"\n" for line in batch))
            self._batch(parsed.rejects + self.intake.take(parsed.tuples, arrival(number)), everything=False)
        self._batch([], everything=True)
        return self

    def _batch(self, rejects: list[tuple[bytes, str]], *, everything: bool) -> None:
        self._number += 1
        if self._restarts():
            self.intake = Intake.decode(self.lateness, self.intake.encode())
        released = self.intake.release(everything=everything)
        trains = by_fragment(released.tuples, tuple(range(self.fragments)), released.arrived)
        hops = [*trains, *rejects_hop(0, 0, rejects + released.rejects)]
        if everything:
            hops += ends(tuple(range(self.fragments)), max(self.intake.latest, 0))
        self.trips.append([])
        for hop in self._through(self._toll, self._through_fragments(hops)):
            self._sink(hop)

    def _restarts(self) -> bool:
        return bool(self.restart) and self._number % int(self.restart) == 0

    def _through_fragments(self, hops: list[Hop]) -> list[Hop]:
        return list(self._through(self._fragment, hops))

    def _through(self, stage: object, hops: Iterable[Hop]) -> Iterator[Hop]:
        hops = list(hops)
        for key in sorted({hop.key for hop in hops}):
            yield from stage(key, [hop for hop in hops if hop.key == key])  # type: ignore[operator]

    def _store(self, name: str, key: int) -> MemoryStore:
        return self.stores.setdefault((name, key), MemoryStore())

    def _fragment(self, key: int, hops: list[Hop]) -> list[Hop]:
        stores = [self._store(name, key) for name in ("cars", "visits", "minutes", "notes")]
        if key not in self.tolls:
            self.tolls[key] = TollFragment(self.rules)
        elif self._restarts():
            self.tolls[key] = TollFragment.load(self.rules, *stores)
        passed = list(toll_stage(self.tolls[key], hops, tuple(range(self.shards)), key))
        self.tolls[key].save(*stores)
        return passed + self._trips(key, hops)

    def _trips(self, key: int, hops: list[Hop]) -> list[Hop]:
        store = self._store("trips", key)
        if key not in self.open_trips:
            self.open_trips[key] = OpenTrips()
        elif self._restarts():
            self.open_trips[key] = OpenTrips.load(store)
        passed = list(trip_stage(self.open_trips[key], hops, key % self.shards))
        self.open_trips[key].save(store)
        return passed

    def _toll(self, key: int, hops: list[Hop]) -> list[Hop]:
        store = self._store("accounts", key)
        if key not in self.accounts:
            self.accounts[key] = Accounts(self.rules, self.past)
        elif self._restarts():
            self.accounts[key] = Accounts.load(self.rules, self.past, store)
        passed = list(account_stage(self.accounts[key], hops))
        self.accounts[key].save(max(hop.second for hop in hops), store)
        return passed

    def _sink(self, hop: Hop) -> None:
        if hop.what == ANSWERS:
            self.answers = np.concatenate([self.answers, np.frombuffer(hop.payload, ANSWER)])
            self.outputs += [plain(row) for row in np.frombuffer(hop.payload, ANSWER)]
        elif hop.what == TRIPS:
            self.trips[-1] += plain_trips(Trips.from_bytes(hop.payload, hop.requests, hop.reports))
        elif hop.what == COUNTED:
            self.tolled += hop.reports
            self.irregular = Irregular.total([self.irregular, Irregular.from_bytes(hop.payload)])
        elif hop.what == REJECTS:
            pairs = (line.decode(errors="replace").split(",", 1) for line in hop.payload.splitlines())
            self.rejects += [(line, reason) for reason, line in pairs]


def arrival(batch: int) -> int:
    """When the tuples of a batch arrive, in milliseconds: at no round moment."""
    return 1_700_000_000_123 + 777 * batch


def plain_trips(trips: Trips) -> Iterator[Trip]:
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
