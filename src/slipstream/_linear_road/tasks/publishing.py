"""Stages that publish their state as cuboids and evaluate continuous queries at every report.

They are subclasses of the plain stages, so a run without a snapshot has no overhead.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from slipstream._cuboid import declare
from slipstream._cuboid.fragment_state import QUERY, as_table, make_empty_rows
from slipstream._cuboid.query.relations import ArrivedTuples
from slipstream._cuboid.query.sql import Query
from slipstream._cuboid.schema import KEY, Schema
from slipstream._cuboid.snapshots import publish
from slipstream._cuboid.snapshots.snapshot_files import FILE, FOLDER, Catalogue
from slipstream._errors import BadArgument
from slipstream._io import outputs
from slipstream._linear_road import output_tables
from slipstream._linear_road.job.delivery import learn_names
from slipstream._linear_road.job.query import AccountStage, TollStage
from slipstream._linear_road.job.toll_layout import Layout
from slipstream._linear_road.state.accounts import Accounts
from slipstream._linear_road.state.published import (
    CUBOIDS,
    CUBOIDS_BY_TEXT,
    RoadPublisher,
    Vehicles,
    publish_accounts,
)
from slipstream._linear_road.state.toll_fragment import TollFragment
from slipstream._linear_road.tasks.toll_stages import TRAIN, Hop, encode_matches
from slipstream._runtime.stages.stage import batch_number
from slipstream._runtime.state.id_numbers import Register
from slipstream._runtime.state.store import Store
from slipstream._tools.files.locations import to_path


@dataclass(frozen=True)
class Publication:
    """Where the snapshot is written, and the continuous queries over CAR."""

    snapshot: str
    queries: dict[str, Query] = field(default_factory=dict)


def parse_queries(script: str, *, named: bool = False) -> dict[str, Query]:
    """Return the continuous queries that a script declares; reject those that cannot run at every report.

    Where vehicles are ``named``, the key of CAR is text.
    """
    declared = declare.parse(script)
    if declared.cuboids or declared.selects:
        raise BadArgument(
            "Queries of a toll job must be CREATE PATTERN or CREATE QUERY.",
            hint="Write CREATE QUERY ... FROM car: it is evaluated at every report.",
            code="bad-expression",
        )
    known = {"car": cuboids(named=named)["car"]}
    queries = {name: Query.parse(text, known, declared.patterns) for name, text in declared.queries.items()}
    own = output_tables.schemas(answers=True, trips=True)
    for name, query in queries.items():
        query.check_continuous(name)
        if name in own:
            raise BadArgument(
                f"A query cannot be named {name}: the job has an output of that name.",
                hint="Rename it.",
                code="bad-name",
            )
    list_schemas(queries)
    return queries


def cuboids(*, named: bool) -> dict[str, Schema]:
    """Return the cuboids that a job publishes."""
    return CUBOIDS_BY_TEXT if named else CUBOIDS


def list_schemas(queries: Mapping[str, Query]) -> dict[str, pa.Schema]:
    """Return the schemas of the outputs of queries."""
    schemas = {name: make_empty_rows(query).schema for name, query in queries.items()}
    for schema in schemas.values():
        outputs.stored_schema(schema)
    return schemas


def prepare(out: Path, *, snapshot: bool, script: str = "", named: bool = False) -> Publication | None:
    """Prepare the snapshot in a job's folder, if one is requested; ``named`` if vehicles are identified by text."""
    wanted, there = snapshot or bool(script), (out / FOLDER / FILE).exists()
    if (out / "checkpoint" / "offsets").exists() and wanted != there:
        raise BadArgument(
            f"{out} was started {'with' if there else 'without'} --snapshot.",
            hint="Resume it the same way, or start in another folder.",
            code="different-job",
        )
    if not wanted:
        return None
    queries = parse_queries(script, named=named)
    Catalogue(cuboids(named=named), declare.parse(script).patterns).write(out / FOLDER)
    return Publication(str((out / FOLDER).absolute()), queries)


@dataclass
class PublishedToll:
    """The state of a toll stage, its publisher, and how long its last batch took."""

    toll: TollFragment
    vehicles: Vehicles | None = None  # if they are identified by text
    publisher: RoadPublisher = field(default_factory=RoadPublisher)
    tuples: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def measure(self, what: str) -> Iterator[None]:
        """Record how long the block takes."""
        start = time.perf_counter()
        yield
        self.seconds[what] = round(time.perf_counter() - start, 6)


class _KeptNames:
    """The names of vehicles in a stage that publishes them; none where vehicles are identified by numbers."""

    def __init__(self, layout: Layout) -> None:
        self._parts = len(layout.fragments)
        self.maps = ("register",) if layout.named else ()

    def fresh(self) -> Vehicles | None:
        return Vehicles(register=Register(self._parts)) if self.maps else None

    def load(self, stores: list[Store]) -> Vehicles | None:
        return Vehicles(register=Register.load(self._parts, stores[0])) if self.maps else None

    @staticmethod
    def learn(vehicles: Vehicles | None, hops: list[Hop]) -> None:
        if vehicles is not None and vehicles.register is not None:
            learn_names(vehicles.register, hops)

    @staticmethod
    def save(vehicles: Vehicles | None, stores: list[Store]) -> None:
        if vehicles is not None and vehicles.register is not None:
            vehicles.register.save(stores[0])


class PublishingTollStage(TollStage):
    """A toll stage that publishes cars, segments and accidents, and evaluates queries over cars."""

    keeps_past: ClassVar[bool] = True

    def __init__(self, publication: Publication, *rest: Any) -> None:
        super().__init__(*rest)
        self._publication = publication
        self._names = _KeptNames(self._layout)
        self.maps = (*TollStage.maps, *self._names.maps)

    def fresh(self) -> Any:
        """Return an empty road."""
        return PublishedToll(super().fresh(), self._names.fresh())

    def load(self, stores: list[Store]) -> Any:
        """Load the fragment from the store."""
        roads = len(TollStage.maps)
        return PublishedToll(super().load(stores[:roads]), self._names.load(stores[roads:]))

    def take(self, state: Any, rows: list[Any]) -> Iterator[Hop]:
        """Take trains; return answers, charges and what queries found."""
        hops = [Hop(*row) for row in rows]
        self._names.learn(state.vehicles, hops)
        state.toll.shows_arrivals = bool(self._publication.queries)
        state.tuples, state.seconds = sum(hop.reports for hop in hops if hop.what == TRAIN), {}
        yield from super().take(state.toll, rows)
        yield from self._run_queries(state, max(hop.second for hop in hops))

    def _run_queries(self, state: PublishedToll, second: int) -> Iterator[Hop]:
        """Evaluate the queries at every report."""
        arrivals, state.toll.arrivals = state.toll.arrivals, []
        if (vehicles := state.vehicles) is not None and self._publication.queries:
            arrivals = [
                ArrivedTuples({**part.plains, KEY: vehicles.number(part.plains[KEY])}, part.rings, vehicles.names)
                for part in arrivals
            ]
        shard = self._layout.shards[self._layout.fragments.index(self.key) % len(self._layout.shards)]
        for name, query in self._publication.queries.items() if arrivals else ():
            with state.measure(QUERY + name):
                rows = pa.concat_tables([as_table(query.compute(part)) for part in arrivals])
            if rows.num_rows:
                yield encode_matches(shard, second, name, rows)

    def save(self, state: Any, stores: list[Store]) -> None:
        """Save the changes and publish them."""
        roads = len(TollStage.maps)
        super().save(state.toll, stores[:roads])
        self._names.save(state.vehicles, stores[roads:])
        batch, snapshot = batch_number(), to_path(self._publication.snapshot)
        with state.measure("publish"):
            state.publisher.publish(state.toll, snapshot, self.key, batch, state.vehicles)
        line = {"batch": batch, "cuboid": "car", "tuples": state.tuples, "at": time.time(), "seconds": state.seconds}
        publish.append_metrics(snapshot, self.key, line)


@dataclass
class PublishedAccounts:
    """The accounts of a stage that publishes them."""

    accounts: Accounts
    vehicles: Vehicles | None = None  # if they are identified by text


class PublishingAccountStage(AccountStage):
    """An account stage that publishes its accounts."""

    def __init__(self, publication: Publication, *rest: Any) -> None:
        super().__init__(*rest)
        self._publication = publication
        self._names = _KeptNames(self._layout)
        self.maps = (*AccountStage.maps, *self._names.maps)

    def fresh(self) -> Any:
        """Return no accounts."""
        return PublishedAccounts(super().fresh(), self._names.fresh())

    def load(self, stores: list[Store]) -> Any:
        """Load the accounts from the store."""
        return PublishedAccounts(super().load(stores[:1]), self._names.load(stores[1:]))

    def take(self, state: Any, rows: list[Any]) -> Iterator[Hop]:
        """Take charges and requests, return answers."""
        self._names.learn(state.vehicles, [Hop(*row) for row in rows])
        return super().take(state.accounts, rows)

    def save(self, state: Any, stores: list[Store]) -> None:
        """Save the changes and publish them."""
        super().save(state.accounts, stores[:1])
        self._names.save(state.vehicles, stores[1:])
        snapshot = to_path(self._publication.snapshot)
        publish_accounts(state.accounts.accounts, snapshot, self.key, batch_number(), state.vehicles)
