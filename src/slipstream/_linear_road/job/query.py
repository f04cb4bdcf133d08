"""The toll engine as one Structured Streaming query: stages in Spark's stateful operators, state in its state store.

A batch writes its changes to the state store and reads nothing; the state cache keeps the state for the next batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from slipstream._archive.linear_road_trips import ReportTrips
from slipstream._feeds.lane_parcels import Parcel
from slipstream._io import chunks, outputs
from slipstream._linear_road.fast_forward import FastForward
from slipstream._linear_road.job.delivery import learn_names, write_batch
from slipstream._linear_road.job.toll_layout import Layout
from slipstream._linear_road.rules import find_rules
from slipstream._linear_road.state.accounts import Accounts
from slipstream._linear_road.state.past_queries import open_past
from slipstream._linear_road.state.toll_fragment import TollFragment
from slipstream._linear_road.tasks.intake import SILENCE_MS, Intake
from slipstream._linear_road.tasks.naming import NameStage
from slipstream._linear_road.tasks.toll_stages import (
    COLUMNS,
    NAMES,
    OPENING,
    REJECTS,
    Hop,
    account_stage,
    divide_by_fragment,
    end_hops,
    rejects_hop,
    toll_stage,
    trip_stage,
)
from slipstream._runtime.stages.deferred import DeferredStage
from slipstream._runtime.stages.stage import Chain, Parallel, Stage, batch_number
from slipstream._runtime.state.id_numbers import Register
from slipstream._runtime.state.store import Store
from slipstream._tools.files.locations import to_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from slipstream._linear_road.tasks.publishing import Publication


class IntakeStage(Stage[Intake]):
    """Turns the parcels of a feed's tasks into trains of whole seconds of one fragment."""

    name = "intake"
    maps = ("intake",)

    def __init__(
        self,
        engine: str,
        layout: Layout,
        *,
        live: bool,
        silence_ms: int = SILENCE_MS,
        forward: FastForward | None = None,
    ) -> None:
        super().__init__(engine)
        self._layout = layout
        self._forward = forward  # the state that precedes the feed
        self._live = live  # whether arrivals are timed
        self._silence_ms = silence_ms

    def fresh(self) -> Intake:
        """Return an intake that has received nothing."""
        return Intake(self._layout.lateness, self._silence_ms)

    def load(self, stores: list[Store]) -> Intake:
        """Load what had arrived but was not released."""
        return Intake.load(self._layout.lateness, self._silence_ms, stores[0])

    def take(self, state: Intake, rows: list[Any]) -> Iterator[Hop]:
        """Take parcels, return trains and rejects; an opening is passed on."""
        if rows[0].what == chunks.OPENING:
            yield self._open(state, -rows[0].seq)
            return
        rejects = state.take(Parcel.decode(bytes(row.chunk)) for row in rows if row.what == chunks.CHUNK)
        released = state.release()
        arrivals = released.arrived if self._live else None
        yield from divide_by_fragment(released.tuples, self._layout.fragments, arrivals)
        second = max(state.latest, 0)
        for row in rows:
            if row.what == chunks.REJECTED:
                yield Hop(self.key, REJECTS, second, 0, int(row.seq), 0, bytes(row.chunk))
            elif row.what == chunks.NAMED:
                yield Hop(self.key, NAMES, second, int(row.arrived), int(row.seq), 0, bytes(row.chunk))
        yield from rejects_hop(self.key, second, rejects + released.rejects)
        if state.ended:
            yield from end_hops((self.key,), second)

    def _open(self, state: Intake, left: int) -> Hop:
        """Pass an opening on; the first brings the state of a fast-forward, whose seconds are over."""
        if self._forward is None:
            return Hop(self.key, OPENING, -left, 0, 0, 0, b"")
        is_first, state.horizon = state.horizon < self._forward.until, self._forward.until
        payload = self._forward.to_json().encode() if is_first else b""
        return Hop(self.key, OPENING, self._forward.until - left, 0, 0, 0, payload)

    def save(self, state: Intake, stores: list[Store]) -> None:
        """Save what a batch left pending."""
        state.save(stores[0])


class TollStage(Stage[TollFragment]):
    """Keeps cars and segments; answers position reports."""

    name = "tolls"
    maps: tuple[str, ...] = ("cars", "visits", "minutes", "notes")
    keeps_past: ClassVar[bool] = False  # whether cars have pasts, for readers

    def __init__(self, engine: str, layout: Layout) -> None:
        super().__init__(engine)
        self._layout = layout

    def fresh(self) -> TollFragment:
        """Return an empty road."""
        return TollFragment(find_rules(self._layout.rules), keeps_past=self.keeps_past)

    def load(self, stores: list[Store]) -> TollFragment:
        """Load the fragment from the store."""
        return TollFragment.load(find_rules(self._layout.rules), *stores, keeps_past=self.keeps_past)

    def take(self, state: TollFragment, rows: list[Any]) -> Iterator[Hop]:
        """Take trains, return answers and charges."""
        hops = [Hop(*row) for row in rows]
        number = self._layout.fragments.index(self.key)
        if hops[0].what == OPENING:
            return self._open(state, hops[0], number)
        return toll_stage(state, hops, self._layout.shards, number)

    def _open(self, state: TollFragment, opening: Hop, number: int) -> Iterator[Hop]:
        """Start with the state of a fast-forward, if there is one."""
        if opening.payload:
            forward = FastForward.from_json(opening.payload.decode())
            opened = forward.fragment(number, len(self._layout.fragments), keeps_past=self.keeps_past)
            vars(state).update(vars(opened))
        yield opening._replace(key=self._layout.shards[number])

    def save(self, state: TollFragment, stores: list[Store]) -> None:
        """Save the changes."""
        state.save(*stores)


class TripStage(Stage[ReportTrips]):
    """Keeps open trips; runs next to tolls, or alone."""

    name = "trips"
    maps = ("trips",)

    def __init__(self, engine: str, layout: Layout) -> None:
        super().__init__(engine)
        self._layout = layout

    def fresh(self) -> ReportTrips:
        """Return no open trips."""
        return ReportTrips(find_rules(self._layout.rules).trip_gap)

    def load(self, stores: list[Store]) -> ReportTrips:
        """Load the open trips from the store."""
        return ReportTrips.load(stores[0], find_rules(self._layout.rules).trip_gap)

    def take(self, state: ReportTrips, rows: list[Any]) -> Iterator[Hop]:
        """Take trains, return trips; an opening is ignored."""
        hops = [Hop(*row) for row in rows]
        if hops[0].what == OPENING:
            return iter(())
        number = self._layout.fragments.index(self.key)
        shard = self._layout.shards[number % len(self._layout.shards)]
        return trip_stage(state, hops, shard, alone=not self._layout.makes_answers)

    def save(self, state: ReportTrips, stores: list[Store]) -> None:
        """Save the changes."""
        state.save(stores[0])


class AccountStage(Stage[Accounts]):
    """Keeps accounts; answers requests, historical queries included."""

    name = "accounts"
    maps = ("accounts",)

    def __init__(self, engine: str, layout: Layout, run: str | None) -> None:
        super().__init__(engine)
        self._layout = layout
        self._run = run
        self._second = 0

    def fresh(self) -> Accounts:
        """Return no accounts."""
        return Accounts(find_rules(self._layout.rules), open_past(self._run))

    def load(self, stores: list[Store]) -> Accounts:
        """Load the accounts from the store."""
        return Accounts.load(find_rules(self._layout.rules), open_past(self._run), stores[0])

    def take(self, state: Accounts, rows: list[Any]) -> Iterator[Hop]:
        """Take charges and requests, return answers."""
        hops = [Hop(*row) for row in rows]
        if hops[0].what == OPENING and hops[0].payload:
            self._open(state, hops[0])
        self._second = max(hop.second for hop in hops)
        return account_stage(state, hops)

    def _open(self, state: Accounts, opening: Hop) -> None:
        """Start with the state of a fast-forward."""
        shards = self._layout.shards
        forward = FastForward.from_json(opening.payload.decode())
        opened = forward.accounts(shards.index(opening.key), len(shards), state.past)
        vars(state).update(vars(opened))

    def save(self, state: Accounts, stores: list[Store]) -> None:
        """Save the changes."""
        state.save(self._second, stores[0])


class WriteStage(Stage[Register | None]):
    """Writes what the other stages produce into files, and passes on what the driver needs to commit them.

    If vehicles are identified by text, it keeps all names.
    """

    name = "write"
    maps: tuple[str, ...] = ()

    def __init__(self, engine: str, out: Path, start: int, layout: Layout) -> None:
        super().__init__(engine)
        self._out, self._start = str(out.absolute()), start
        self._parts = len(layout.fragments)
        self.maps = ("register",) if layout.named else ()

    def fresh(self) -> Register | None:
        """Return an empty register, if vehicles have names."""
        return Register(self._parts) if self.maps else None

    def load(self, stores: list[Store]) -> Register | None:
        """Load the names from the store."""
        return Register.load(self._parts, stores[0]) if self.maps else None

    def take(self, state: Register | None, rows: list[Any]) -> Iterator[outputs.WrittenRow]:
        """Take answers, trips and rejects, return the files written."""
        hops = [Hop(*row) for row in rows]
        if state is not None:
            learn_names(state, hops)
        return (written.row for written in write_batch(to_path(self._out), hops, batch_number(), self._start, state))

    def save(self, state: Register | None, stores: list[Store]) -> None:
        """Save the new names."""
        if state is not None:
            state.save(stores[0])


def make_stages(
    engine: str, layout: Layout, run: str | None, publication: Publication | None, intake: IntakeStage | None = None
) -> list[Stage[Any]]:
    """Return the stages of a job, one per key; for a feed, each fragment starts with its intake.

    With ``publication`` they publish their state.
    """
    tolls, accounts = _toll_stages(engine, layout, run, publication)
    trips = TripStage(engine, layout)
    if layout.makes_answers and layout.makes_trips:
        fragment: Stage[Any] = Parallel(engine, [tolls, trips])
    else:
        fragment = tolls if layout.makes_answers else trips
    if intake is not None:
        fragment = Chain(engine, [intake, fragment])
    return [fragment, accounts] if layout.makes_answers else [fragment]


def _toll_stages(
    engine: str, layout: Layout, run: str | None, publication: Publication | None
) -> tuple[Stage[Any], Stage[Any]]:
    if publication is None:
        return TollStage(engine, layout), AccountStage(engine, layout, run)
    from slipstream._linear_road.tasks.publishing import PublishingAccountStage, PublishingTollStage

    tolls = PublishingTollStage(publication, engine, layout)
    return tolls, PublishingAccountStage(publication, engine, layout, run)


def _group_by_operator(
    engine: str, layout: Layout, stages: list[Stage[Any]], write: WriteStage
) -> list[list[Stage[Any]]]:
    """Return the stages of each operator, from source to sink: all in one with a single partition."""
    if layout.named:
        stages = [NameStage(engine, layout), *stages]
    *others, last = stages
    return [[*stages, write]] if layout.partitions == 1 else [*([stage] for stage in others), [last, write]]


def name_operators(layout: Layout, stages: list[Stage[Any]], write: WriteStage) -> tuple[str, ...]:
    """Return the names of the operators of a job, from source to sink."""
    return tuple("+".join(one.name for one in group) for group in _group_by_operator("", layout, stages, write))


def assemble(rows: DataFrame, engine: str, layout: Layout, stages: list[Stage[Any]], write: WriteStage) -> DataFrame:
    """Connect the stages to a source: one operator per key or, with a single partition, one operator in total.

    The last operator also writes: its rows have ``outputs.COLUMNS``.
    """
    *others, ending = _group_by_operator(engine, layout, stages, write)
    if layout.partitions == 1:
        # one task from the source to the files: with a single partition, Spark adds no exchange
        rows = rows.coalesce(1)
    for (stage,) in others:
        columns = chunks.COLUMNS if isinstance(stage, NameStage) else COLUMNS
        rows = rows.groupBy("key").transformWithState(DeferredStage(stage), columns, "Append", "None")
    chain = DeferredStage(Chain(engine, ending))
    return rows.groupBy("key").transformWithState(chain, outputs.COLUMNS, "Append", "None")
