"""Intake: turns parcels of tuples in any order into whole seconds in order; every fragment of the state has its own.

A tuple may be late by up to ``lateness`` seconds behind the newest tuple of its own lane. A second is whole, and is
released, when no lane can still bring an acceptable tuple of it. Duplicates and conflicting reports of a second are
found at that moment; a released second never changes, and neither does anything computed from it. The progress of
lanes in parcels is the same for all fragments, so all of them release the same seconds in the same batch, without
coordination.

A silent lane does not block the others: once it has been read to its end and the other lanes have advanced by
``silence`` milliseconds of arrival time, they are released without it. If it then delivers a tuple of a released
second, that tuple is late. Only arrival times decide, never the clock of a worker, so a repeated batch releases and
rejects the same tuples.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from slipstream._errors import BadArgument, BadInput
from slipstream._feeds.lane_parcels import DONE, Parcel, Progress, Reject, Released, concat_tuples, reject_rivals
from slipstream._feeds.parse import Columns, format_lines, select
from slipstream._feeds.tuples import FIELDS
from slipstream._runtime.state.store import Store
from slipstream._tools.numba_tools import Bools, Longs

MOST_LATENESS = 60
#: how long other lanes wait for a silent one, in milliseconds of arrival time
SILENCE_MS = 5_000

_LANE = np.dtype([("lane", "<i4"), ("newest", "<i8"), ("arrived", "<i8"), ("behind", "?")])


@dataclass
class Lane:
    """The progress of a lane."""

    newest: int = -1
    arrived: int = 0  # arrival of its last chunk, in milliseconds
    behind: bool = False  # whether more of it was available


@dataclass
class Pending:
    """Tuples of one batch that are not released yet."""

    tuples: Columns
    arrived: Longs

    @property
    def first(self) -> int:
        """The earliest second among them."""
        return int(self.tuples["time"].min())

    def split(self, horizon: int) -> tuple[Pending, Pending]:
        """Return the tuples before a second, and the rest."""
        before = self.tuples["time"] < horizon
        return self.filter(before), self.filter(~before)

    def filter(self, which: Bools) -> Pending:
        """Return the tuples that ``which`` selects."""
        return Pending(select(self.tuples, which), self.arrived[which])

    def encode(self) -> bytes:
        """Encode as bytes."""
        return self.arrived.tobytes() + b"".join(self.tuples[name].tobytes() for name in FIELDS)

    @classmethod
    def decode(cls, blob: bytes) -> Pending:
        """Decode from bytes."""
        count, rest = divmod(len(blob), 8 + 4 * len(FIELDS))
        if rest:
            raise BadInput(
                "Stored intake state is damaged.", hint="Use an earlier checkpoint.", code="damaged-checkpoint"
            )
        columns = np.frombuffer(blob, np.int32, offset=8 * count).reshape(len(FIELDS), -1)
        return cls(dict(zip(FIELDS, columns, strict=True)), np.frombuffer(blob, np.int64, count))


@dataclass
class Intake:
    """What has arrived for a fragment and is not released yet.

    A batch stores the tuples it leaves pending as one entry, and removes the entries without pending tuples. Tuples
    that wait from earlier batches are not written again.
    """

    lateness: int
    silence: int = SILENCE_MS
    horizon: int = 0  # all seconds before it are released
    lanes: dict[int, Lane] = field(default_factory=dict)
    pending: dict[int, Pending] = field(default_factory=dict)  # by entry
    _stored: set[int] = field(default_factory=set)
    _next: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.lateness <= MOST_LATENESS:
            raise BadArgument(
                f"--lateness {self.lateness} is out of range.",
                hint=f"Use 0 to {MOST_LATENESS} seconds.",
                code="out-of-range",
                found=self.lateness,
            )

    @property
    def latest(self) -> int:
        """The newest second of any lane."""
        return max((lane.newest for lane in self.lanes.values() if lane.newest < DONE), default=-1)

    @property
    def ended(self) -> bool:
        """Whether all lanes have ended."""
        return bool(self.lanes) and all(lane.newest >= DONE for lane in self.lanes.values())

    def take(self, parcels: Iterable[Parcel]) -> list[Reject]:
        """Accept the tuples of a batch; return those that are too late as rejects."""
        given = list(parcels)
        if not given:
            return []
        progress = np.concatenate([one.progress for one in given])
        tuples = concat_tuples([one.tuples for one in given])
        order = np.lexsort((progress["seq"], progress["lane"]))
        rank = np.empty(order.size, np.int64)
        rank[order] = np.arange(order.size)
        earliest = np.empty(order.size, np.int64)
        earliest[order] = np.maximum(self._advance(progress[order]) - self.lateness, self.horizon)
        chunk_of = np.repeat(np.arange(progress.size), progress["tuples"])
        late = tuples["time"] < earliest[chunk_of]
        place = np.argsort(rank[chunk_of[~late]], kind="stable")
        accepted = {name: column[~late][place] for name, column in tuples.items()}
        if place.size:
            self.pending[self._next] = Pending(accepted, progress["arrived"][chunk_of[~late]][place])
            self._next += 1
        return [(line, "late") for line in format_lines(select(tuples, late))]

    def _advance(self, progress: Progress) -> Longs:
        """Apply the progress of lanes in a batch, sorted; return each lane's progress before each entry."""
        before = np.empty(progress.size, np.int64)
        new = []
        last = (-1, -1)
        for place, (number, seq, newest, arrived, behind, _) in enumerate(progress.tolist()):
            if (number, seq) == last:
                # repeated by another naming stage: the same chunk
                before[place] = before[place - 1]
                continue
            last = (number, seq)
            if number not in self.lanes:
                self.lanes[number] = Lane()
                new.append(number)
            lane = self.lanes[number]
            before[place] = lane.newest
            lane.newest, lane.behind = max(lane.newest, newest), behind
            lane.arrived = max(lane.arrived, arrived)
        moment = max((lane.arrived for lane in self.lanes.values()), default=0)
        for number in new:
            # silence counts from the moment a lane is known
            self.lanes[number].arrived = self.lanes[number].arrived or moment
        return before

    def _find_reached(self) -> int:
        """Return the second before which no lane can deliver an acceptable tuple."""
        moment = max((lane.arrived for lane in self.lanes.values()), default=0)
        awaited = [lane.newest for lane in self.lanes.values() if lane.behind or moment - lane.arrived <= self.silence]
        return min(awaited, default=-1) - self.lateness

    def release(self) -> Released:
        """Return the tuples of all whole seconds, in order; duplicates and conflicts become rejects."""
        self.horizon = max(self.horizon, self._find_reached())
        ready = []
        for number, waiting in list(self.pending.items()):
            if waiting.first < self.horizon:
                before, rest = waiting.split(self.horizon)
                ready.append(before)
                if rest.arrived.size:
                    self.pending[number] = rest
                else:
                    del self.pending[number]
        tuples = concat_tuples([part.tuples for part in ready])
        arrived = np.concatenate([np.empty(0, np.int64), *(part.arrived for part in ready)])
        order = np.argsort(tuples["time"], kind="stable")
        return reject_rivals({name: column[order] for name, column in tuples.items()}, arrived[order])

    def save(self, store: Store) -> None:
        """Save what a batch left pending, and the progress of lanes."""
        for number in self._stored - self.pending.keys():
            store.remove(number)
        for number in self.pending.keys() - self._stored:
            store.put(number, self.pending[number].encode())
        self._stored = set(self.pending)
        lanes = [(number, lane.newest, lane.arrived, lane.behind) for number, lane in self.lanes.items()]
        head = np.array([self.horizon, self._next], np.int64).tobytes()
        store.put(0, head + np.array(lanes, _LANE).tobytes())

    @classmethod
    def load(cls, lateness: int, silence: int, store: Store) -> Intake:
        """Load the intake as saved."""
        entries = dict(store.items())
        head = entries.pop(0, b"")
        if len(head) < 16 or (len(head) - 16) % _LANE.itemsize:
            raise BadInput(
                "Stored intake state is damaged.", hint="Use an earlier checkpoint.", code="damaged-checkpoint"
            )
        horizon, following = (int(number) for number in np.frombuffer(head, np.int64, 2))
        lanes = {number: Lane(*values) for number, *values in np.frombuffer(head, _LANE, offset=16).tolist()}
        loaded = cls(lateness, silence, horizon, lanes, _stored=set(entries), _next=following)
        for number in sorted(entries):
            # an entry is written once: part of it may have been released since
            _, rest = Pending.decode(entries[number]).split(horizon)
            if rest.arrived.size:
                loaded.pending[number] = rest
        return loaded
