"""Stages that publish their state as cuboids, and ask continuous queries at every report.

They are subclasses of those that do not, so a run without a snapshot pays nothing.
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
from slipstream._cuboid.fragment_state import QUERY, as_table, no_rows
from slipstream._cuboid.query.sql import Query
from slipstream._cuboid.snapshots import publish
from slipstream._cuboid.snapshots.files import FILE, FOLDER, Catalogue
from slipstream._errors import BadArgument
from slipstream._io import outputs
from slipstream._io.outputs import JOURNAL
from slipstream._linear_road import tables
from slipstream._linear_road.job.query import AccountStage, TollStage
from slipstream._linear_road.state.accounts import Accounts
from slipstream._linear_road.state.published import CAR, CUBOIDS, Seen
from slipstream._linear_road.state.toll_fragment import TollFragment
from slipstream._linear_road.tasks.stages import TRAIN, Hop, found_hop
from slipstream._runtime.stage import batch_number
from slipstream._runtime.store import Store


@dataclass(frozen=True)
class Watch:
    """Where the snapshot goes, and the continuous queries over CAR."""

    snapshot: str
    queries: dict[str, Query] = field(default_factory=dict)


def queries_in(script: str) -> dict[str, Query]:
    """Return the continuous queries that a script declares; refuse what cannot be asked at every report."""
    said = declare.parse(script)
    if said.cuboids or said.selects:
        raise BadArgument(
            "The engine's queries are CREATE PATTERN and CREATE QUERY.", hint="FROM car, at every report."
        )
    queries = {name: Query.parse(text, {"car": CAR}, said.patterns) for name, text in said.queries.items()}
    own = tables.schemas(answers=True, trips=True)
    for name, query in queries.items():
        query.check_continuous(name)
        if name in own:
            raise BadArgument(f"A query cannot be named {name}: the job has an output of that name.", hint="Rename it.")
    schemas_of(queries)
    return queries


def schemas_of(queries: Mapping[str, Query]) -> dict[str, pa.Schema]:
    """Return how the outputs of queries are stored."""
    schemas = {name: no_rows(query).schema for name, query in queries.items()}
    for schema in schemas.values():
        outputs.stored_schema(schema)
    return schemas


def prepare(out: Path, *, snapshot: bool, script: str = "") -> Watch | None:
    """Lay out the snapshot of an engine's folder, if one is wanted."""
    wanted, there = snapshot or bool(script), (out / FOLDER / FILE).exists()
    if (out / "checkpoint" / "offsets").exists() and wanted != there:
        raise BadArgument(
            f"{out} was begun {'with' if there else 'without'} --snapshot.",
            hint="Go on as it was begun, or start afresh.",
        )
    if not wanted:
        return None
    queries = queries_in(script)
    Catalogue(CUBOIDS, declare.parse(script).patterns, journal=f"../{JOURNAL}").write(out / FOLDER)
    return Watch(str((out / FOLDER).absolute()), queries)


@dataclass
class Watched:
    """The state of a toll stage, what was published of it, and what its last batch took."""

    toll: TollFragment
    seen: Seen = field(default_factory=Seen)
    tuples: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Note how long the block takes."""
        start = time.perf_counter()
        yield
        self.seconds[what] = round(time.perf_counter() - start, 6)


class WatchedTollStage(TollStage):
    """The toll stage; its cars, segments and accidents are published, and queries see its cars."""

    keeps_past: ClassVar[bool] = True

    def __init__(self, watch: Watch, *rest: Any) -> None:
        super().__init__(*rest)
        self._watch = watch

    def fresh(self) -> Any:
        """An empty road."""
        return Watched(super().fresh())

    def load(self, stores: list[Store]) -> Any:
        """The fragment from the store."""
        return Watched(super().load(stores))

    def take(self, state: Any, rows: list[Any]) -> Iterator[Hop]:
        """Trains in; answers, charges and what queries found out."""
        hops = [Hop(*row) for row in rows]
        state.toll.shows_arrivals = bool(self._watch.queries)
        state.tuples, state.seconds = sum(hop.reports for hop in hops if hop.what == TRAIN), {}
        yield from super().take(state.toll, rows)
        yield from self._found(state, max(hop.second for hop in hops))

    def _found(self, state: Watched, second: int) -> Iterator[Hop]:
        """Ask the queries at every report."""
        arrivals, state.toll.arrivals = state.toll.arrivals, []
        beside = self._layout.shards[self._layout.fragments.index(self.key) % len(self._layout.shards)]
        for name, query in self._watch.queries.items() if arrivals else ():
            with state.timed(QUERY + name):
                rows = pa.concat_tables([as_table(query.rows(part)) for part in arrivals])
            if rows.num_rows:
                yield found_hop(beside, second, name, rows)

    def save(self, state: Any, stores: list[Store]) -> None:
        """Write what changed, and publish it."""
        super().save(state.toll, stores)
        batch, snapshot = batch_number(), Path(self._watch.snapshot)
        with state.timed("publish"):
            state.seen.publish(state.toll, snapshot, self.key, batch)
        line = {"batch": batch, "cuboid": "car", "tuples": state.tuples, "at": time.time(), "seconds": state.seconds}
        publish.append_metrics(snapshot, self.key, line)


class WatchedAccountStage(AccountStage):
    """The account stage; its accounts are published."""

    def __init__(self, watch: Watch, *rest: Any) -> None:
        super().__init__(*rest)
        self._watch = watch

    def save(self, state: Accounts, stores: list[Store]) -> None:
        """Write what changed, and publish it."""
        super().save(state, stores)
        publish.publish(Path(self._watch.snapshot), "account", self.key, batch_number(), state.accounts)
