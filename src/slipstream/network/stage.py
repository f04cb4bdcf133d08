"""Boxes as stateful operators of Structured Streaming: all of a network in one, or those of one level.

An operator is keyed by bucket, not by group: a call takes all tuples of a bucket's groups in one batch, so its cost is
spread over many tuples. All boxes in one operator write what changed in their tables. The boxes of a level, which only
networks have with an expression that Spark must compute, are one value of the state store each, read and written whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from slipstream.cuboid.files import FOLDER
from slipstream.io import outputs
from slipstream.io.outputs import REJECTS, Row, Written
from slipstream.network import intake
from slipstream.network.flow import Train, ordinals
from slipstream.network.groups import Columns
from slipstream.network.kernels import ARRIVAL, INSTANT, TRIGGER, TS, Kernel, Released, State
from slipstream.network.operators import Kept, KeyedTable, OperatorState, stores_of
from slipstream.network.plan import Layout, Plan
from slipstream.network.shedding import Marker
from slipstream.network.sink import Sink, Tuples
from slipstream.network.superbox import Superbox
from slipstream.network.tables import Log, packed, unpack
from slipstream.runtime.stage import FrameStage, batch_number
from slipstream.runtime.store import Store


@dataclass(frozen=True)
class StagedBox:
    """A box of a stage: its kernel, the slots its columns travel in, and where its results go."""

    name: str
    kernel: Kernel
    ports: tuple[int, ...]
    columns: tuple[dict[str, str], ...]
    origin: int
    results: dict[str, str]


@dataclass
class Boxes:
    """What the boxes of a network keep, and the log in which it rests."""

    states: dict[str, State | OperatorState]
    log: Log
    ended: KeyedTable  # the sources that have no more

    @classmethod
    def fresh(cls, superbox: Superbox) -> Boxes:
        """Empty boxes."""
        states, ended = superbox.fresh(), KeyedTable({"source": "integer"}, {})
        return cls(states, Log([ended.table, *(table for state in states.values() for table in state.tables)]), ended)

    @classmethod
    def load(cls, superbox: Superbox, stores: Sequence[Store]) -> Boxes:
        """The boxes as they were saved."""
        boxes = cls.fresh(superbox)
        boxes.log.load(stores[0])
        boxes.ended.restore()
        for state in boxes.states.values():
            state.restore()
        for kept, mine in boxes._kept(stores):
            kept.load(mine)
        return boxes

    def save(self, stores: Sequence[Store], batch: int, snapshot: Path | None = None) -> None:
        """Write what changed, and what readers see of it."""
        self.log.save(stores[0])
        for kept, mine in self._kept(stores):
            kept.save(mine, batch)
            if snapshot is not None:
                kept.publish(snapshot, batch)

    def end(self, sources: Sequence[int], of: int) -> bool:
        """Note that sources have ended; whether they are the last ``of`` all."""
        if not sources:
            return False
        self.ended.rows({"source": np.array(sources, np.int64)})
        return len(self.ended) == of

    @property
    def stores(self) -> tuple[str, ...]:
        """The names of the stores: one for all tables, and those of state with a form of its own."""
        return ("boxes", *(f"{name}__{store}" for name, kept in stores_of(self.states) for store in kept.stores))

    def _kept(self, stores: Sequence[Store]) -> Iterator[tuple[Kept, list[Store]]]:
        rest = iter(stores[1:])
        for _, kept in stores_of(self.states):
            yield kept, [next(rest) for _ in kept.stores]


class SuperboxStage(FrameStage[Boxes]):
    """All boxes of a network in one operator."""

    name = "network"

    def __init__(self, engine: str, superbox: Superbox, sink: Sink | None) -> None:
        super().__init__(engine)
        self.maps = Boxes.fresh(superbox).stores
        self._superbox = superbox
        self._sink = sink
        self._snapshot = Path(sink.folder) / FOLDER if sink else None
        self._marker = Marker(sink.folder, sink.network) if sink else None

    def fresh(self) -> Boxes:
        """Empty boxes."""
        return Boxes.fresh(self._superbox)

    def load(self, stores: list[Store]) -> Boxes:
        """The boxes as they were saved."""
        return Boxes.load(self._superbox, stores)

    def take(self, state: Boxes, rows: list[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """Tuples of the sources in; what the outputs get is passed on, or written, and then a word of it passed on."""
        plan, batch = self._superbox.plan, batch_number()
        arrived = intake.take(plan, rows, batch, self._marker)
        if arrived.is_opening:
            return
        last = state.end(arrived.ended, len(plan.checked.network.sources))
        released = self._superbox.step(state.states, arrived.trains, last=last)
        if self._sink is None:
            yield from (_rows(train, plan.outputs[name].layout, plan) for name, train in released)
        else:
            written = [self._write(name, train, self._sink) for name, train in released]
            if arrived.rejects is not None:
                written.append(self._sink.write(REJECTS, arrived.rejects, batch))
            yield _rows_of([outputs.note(arrived.counts), *written])

    def _write(self, name: str, train: Train, sink: Sink) -> Written:
        plan = self._superbox.plan
        keys = {key: np.ascontiguousarray(train.order[:, place]) for place, key in enumerate(plan.keys)}
        return sink.write(name, Tuples(train.ts, keys, train.columns, plan.outputs[name].layout.types), batch_number())

    def save(self, state: Boxes, stores: list[Store]) -> None:
        """Write what changed."""
        state.save(stores, batch_number(), self._snapshot)


def _rows(train: Train, layout: Layout, plan: Plan) -> pd.DataFrame:
    """Tuples as rows of the common shape; slots that others use are empty."""
    columns: dict[str, Any] = {"arc": layout.id, "bucket": 0, TS: train.ts, "shed": train.shed}
    columns |= {key: train.order[:, place] for place, key in enumerate(plan.keys)}
    columns |= {slot: train.columns[name] for name, slot in layout.slots.items()}
    empty = {"string": None, "double": 0.0}
    return pd.DataFrame({name: columns.get(name, empty.get(type_, 0)) for name, type_ in plan.row})


def write_outputs(plan: Plan, sink: Sink, batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Write rows of the common shape that have reached outputs."""
    parts = list(batches)
    rows = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame({"arc": []})
    written = []
    for name, delivery in plan.outputs.items():
        layout = delivery.layout
        mine = rows[rows["arc"].to_numpy() == layout.id]
        if len(mine):
            keys = {key: mine[key].to_numpy() for key in plan.keys}
            columns = {column: mine[slot].to_numpy() for column, slot in layout.slots.items()}
            tuples = Tuples(mine[TS].to_numpy(), keys, columns, layout.types)
            written.append(sink.write(name, tuples, batch_number()))
    yield _rows_of([outputs.note({"taken": {}, "dropped": {}}), *written] if parts else [])


def _rows_of(written: list[Written]) -> pd.DataFrame:
    return pd.DataFrame([one.row for one in written], columns=list(Row._fields))


class Stage(StatefulProcessor):
    """Runs the boxes of one level on each bucket's tuples; lets all others pass."""

    def __init__(
        self, boxes: Sequence[StagedBox], row: Sequence[tuple[str, str]], keys: Sequence[str], key: str
    ) -> None:
        self._boxes = tuple(boxes)
        self._row = tuple(row)
        self._keys = tuple(keys)
        self._key = key

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state: one value a box."""
        self._states = handle.getMapState("boxes", "box string", "state binary")

    def handleInputRows(  # type: ignore[override]  # noqa: N802
        self,
        key: Any,  # noqa: ARG002
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803, ARG002
    ) -> Iterator[pd.DataFrame]:
        """One bucket of one batch."""
        batch = pd.concat(list(rows), ignore_index=True)
        mine = np.zeros(len(batch), dtype=bool)
        for box in self._boxes:
            here = np.isin(batch["arc"].to_numpy(), box.ports)
            mine |= here
            if here.any():
                yield self._run(box, batch[here])
        if not mine.all():
            yield batch[~mine]

    def _run(self, box: StagedBox, batch: pd.DataFrame) -> pd.DataFrame:
        order = np.lexsort((batch["arc"].to_numpy(), *(batch[key].to_numpy() for key in reversed(self._keys))))
        batch = batch.take(order).reset_index(drop=True)
        inputs = [self._input(batch, port, columns) for port, columns in zip(box.ports, box.columns, strict=True)]
        kept = self._states.getValue((box.name,))
        state = box.kernel.fresh()
        if kept:
            unpack(state.tables, kept[0])
            state.restore()
        released = box.kernel.step(state, inputs)
        self._states.updateValue((box.name,), (packed(state.tables),))
        return self._rows(box, batch, released)

    @staticmethod
    def _input(batch: pd.DataFrame, port: int, columns: dict[str, str]) -> Columns:
        here = np.flatnonzero(batch["arc"].to_numpy() == port)
        part = batch.take(here)
        arrays = {name: part[slot].to_numpy() for name, slot in columns.items()}
        return {TS: part[TS].to_numpy(), ARRIVAL: here, INSTANT: part["q0"].to_numpy(), **arrays}

    def _rows(self, box: StagedBox, batch: pd.DataFrame, released: Released) -> pd.DataFrame:
        """What a box released as rows again; the order key is the trigger's, with the ordinal under that trigger."""
        rows = batch[["shed", *self._keys]].take(released[TRIGGER]).reset_index(drop=True)
        rows[self._key] += ordinals(released[TRIGGER])
        rows["arc"], rows["bucket"], rows[TS] = box.origin, 0, released[TS]
        for column, slot in box.results.items():
            rows[slot] = released[column]
        for name, type_ in self._row:
            if name not in rows:
                rows[name] = {"string": None, "double": 0.0}.get(type_, 0)
        return rows[[name for name, _ in self._row]]
