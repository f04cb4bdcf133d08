"""The toll engine as one Structured Streaming query: stages in Spark's stateful operators, state in its state store.

A processor keeps the state of its keys warm in the Python worker between batches. What makes that safe is a mark: every
batch writes a new random one to the state store and remembers it beside the warm state. Warm state is used only if its
mark is the one the store holds, that is, if the store's last committed batch is the one that left it; after a crash, a
retry or a move to another worker it is not, and the state is read from the store.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from slipstream.cuboid.log import Store
from slipstream.failpoints import failpoint
from slipstream.feeds.intake import Intake
from slipstream.feeds.parse import PARSERS
from slipstream.feeds.run import Run
from slipstream.tolls.accounts import Accounts
from slipstream.tolls.fragment import TollFragment
from slipstream.tolls.layout import Layout
from slipstream.tolls.rules import find
from slipstream.tolls.stages import COLUMNS, Hop, account_stage, by_fragment, rejects_hop, toll_stage
from slipstream.tolls.travel import Past

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

State = TypeVar("State")

#: (engine, stage, key) -> (mark, state)
_WARM: dict[tuple[str, str, int], tuple[str, Any]] = {}


class MapStore:
    """A map in Spark's state store as the cuboid library wants it."""

    def __init__(self, handle: StatefulProcessorHandle, name: str) -> None:
        self._map = handle.getMapState(name, "number long", "blob binary")

    def put(self, number: int, delta: bytes) -> None:
        """Write an entry."""
        self._map.updateValue((number,), (delta,))

    def get(self, number: int) -> bytes:
        """Read an entry that is there."""
        found = self._map.getValue((number,))
        assert found is not None
        return bytes(found[0])

    def remove(self, number: int) -> None:
        """Delete an entry."""
        self._map.removeKey((number,))

    def items(self) -> Iterator[tuple[int, bytes]]:
        """All entries."""
        return ((int(key[0]), bytes(value[0])) for key, value in self._map.iterator())


class Stage(StatefulProcessor, Generic[State]):
    """A stage of the engine as a stateful processor: load or keep warm, take the batch, save, pass on."""

    name: str
    maps: tuple[str, ...]

    def __init__(self, engine: str) -> None:
        self._engine = engine

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state of a partition."""
        self._mark = handle.getValueState("mark", "mark string")
        self._stores: list[Store] = [MapStore(handle, name) for name in self.maps]

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: ARG002, N802, N803
        """One batch of one key."""
        place = (self._engine, self.name, int(key[0]))
        stored = self._mark.get()
        warm = _WARM.pop(place, None)
        if stored is None:
            state = self.fresh()
        elif warm is not None and warm[0] == stored[0]:
            state = warm[1]
        else:
            state = self.load(self._stores)
        passed = list(self.take(state, list(rows)))
        failpoint(f"{self.name}.before-save")
        self.save(state, self._stores)
        failpoint(f"{self.name}.after-save")
        mark = uuid.uuid4().hex
        self._mark.update((mark,))
        _WARM[place] = (mark, state)
        return (Row(**hop._asdict()) for hop in passed)

    def close(self) -> None:
        """Nothing to close."""

    def fresh(self) -> State:
        """The state before the first batch."""
        raise NotImplementedError

    def load(self, stores: list[Store]) -> State:
        """The state as it was saved."""
        raise NotImplementedError

    def take(self, state: State, rows: list[Any]) -> Iterator[Hop]:
        """Process a batch."""
        raise NotImplementedError

    def save(self, state: State, stores: list[Store]) -> None:
        """Write what changed."""
        raise NotImplementedError


class IntakeStage(Stage[Intake]):
    """From chunks of a feed to trains of whole seconds; a single key, because a feed has one order."""

    name = "intake"
    maps = ("intake",)

    def __init__(self, engine: str, layout: Layout, encoding: str) -> None:
        super().__init__(engine)
        self._layout = layout
        self._encoding = encoding

    def fresh(self) -> Intake:
        """Nothing has arrived."""
        return Intake(self._layout.lateness)

    def load(self, stores: list[Store]) -> Intake:
        """What had arrived and was not released."""
        return Intake.decode(self._layout.lateness, stores[0].get(0))

    def take(self, state: Intake, rows: list[Any]) -> Iterator[Hop]:
        """Chunks in, trains and rejects out."""
        rows.sort(key=lambda row: row.seq)
        parsed = PARSERS[self._encoding]([bytes(row.chunk) for row in rows if row.chunk])
        rejects = parsed.rejects + state.take(parsed.tuples)
        tuples, more = state.release(everything=any(row.last for row in rows))
        yield from by_fragment(tuples, self._layout.fragments)
        yield from rejects_hop(self._layout.fragments[0], max(state.latest, 0), rejects + more)

    def save(self, state: Intake, stores: list[Store]) -> None:
        """Write what is pending."""
        stores[0].put(0, state.encode())


class TollStage(Stage[TollFragment]):
    """Cars and segments."""

    name = "tolls"
    maps = ("cars", "visits", "minutes", "notes")

    def __init__(self, engine: str, layout: Layout) -> None:
        super().__init__(engine)
        self._layout = layout

    def fresh(self) -> TollFragment:
        """An empty road."""
        return TollFragment(find(self._layout.rules))

    def load(self, stores: list[Store]) -> TollFragment:
        """The fragment from the store."""
        return TollFragment.load(find(self._layout.rules), *stores)

    def take(self, state: TollFragment, rows: list[Any]) -> Iterator[Hop]:
        """Trains in, answers and charges out."""
        return toll_stage(state, [Hop(*row) for row in rows], self._layout.shards)

    def save(self, state: TollFragment, stores: list[Store]) -> None:
        """Write what changed."""
        state.save(*stores)


class AccountStage(Stage[Accounts]):
    """Accounts, and the historical queries."""

    name = "accounts"
    maps = ("accounts",)

    def __init__(self, engine: str, layout: Layout, run: str | None) -> None:
        super().__init__(engine)
        self._layout = layout
        self._run = run
        self._second = 0

    def _past(self) -> Past:
        return Past(Run.open(self._run) if self._run else None)

    def fresh(self) -> Accounts:
        """No accounts."""
        return Accounts(find(self._layout.rules), self._past())

    def load(self, stores: list[Store]) -> Accounts:
        """The accounts from the store."""
        return Accounts.load(find(self._layout.rules), self._past(), stores[0])

    def take(self, state: Accounts, rows: list[Any]) -> Iterator[Hop]:
        """Charges and requests in, answers out."""
        hops = [Hop(*row) for row in rows]
        self._second = max(hop.second for hop in hops)
        return account_stage(state, hops)

    def save(self, state: Accounts, stores: list[Store]) -> None:
        """Write what changed."""
        state.save(self._second, stores[0])


def take_in(chunks: DataFrame, engine: str, layout: Layout, encoding: str) -> DataFrame:
    """The stage that makes trains of a feed's chunks."""
    return chunks.groupBy("key").transformWithState(IntakeStage(engine, layout, encoding), COLUMNS, "Append", "None")


def assemble(hops: DataFrame, engine: str, layout: Layout, run: str | None) -> DataFrame:
    """The stages behind a stream of trains."""
    tolled = hops.groupBy("key").transformWithState(TollStage(engine, layout), COLUMNS, "Append", "None")
    return tolled.groupBy("key").transformWithState(AccountStage(engine, layout, run), COLUMNS, "Append", "None")
