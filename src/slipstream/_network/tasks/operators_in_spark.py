"""Boxes as stateful operators of Structured Streaming, and the work of tasks before the first of them.

An operator is keyed by partition, not by group: a call processes all tuples of a partition's groups in one batch, so
its cost is spread over many tuples. The boxes in it write what changed in their tables.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from slipstream._cuboid.snapshots.snapshot_files import FOLDER
from slipstream._io import outputs
from slipstream._io.chunks import CHUNK, LAST, OPENING
from slipstream._io.outputs import REJECTS, Written
from slipstream._network.boxes.operators import KeyedTable, OperatorState, StoredState, list_stores
from slipstream._network.boxes.windows.kernels import State
from slipstream._network.boxes.windows.window_functions import ARROW_TYPES, to_arrow
from slipstream._network.flow import Train, split_keys
from slipstream._network.planning.plan import Plan
from slipstream._network.quality.box_loads import BOXES, BoxWork
from slipstream._network.quality.shedding import Marker
from slipstream._network.running import rejects
from slipstream._network.state.tracked_tables import Log
from slipstream._network.tasks import train_intake
from slipstream._network.tasks.parcels import (
    DELIVERED,
    PARCELS,
    REPORT,
    Load,
    Row,
    Sorter,
    read_rows,
    record_batch,
    to_frame,
)
from slipstream._network.tasks.sink import Sink, Tuples
from slipstream._network.tasks.superbox import Cargo, StageOutput, Superbox, TrainParcel
from slipstream._network.tasks.train_intake import Arrived
from slipstream._runtime.stages.partitions import labels
from slipstream._runtime.stages.stage import FrameStage, batch_number
from slipstream._runtime.state.store import Store
from slipstream._tools.files.locations import to_path


@dataclass(frozen=True)
class Carrier:
    """Carries tuples to the first stage: does the work that needs no state where they are read, before the exchange."""

    superbox: Superbox
    marker: Marker | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        return (record_batch(self._carry(row)) for row in read_rows(batches))

    def _carry(self, row: Row) -> Iterator[Row]:
        """Send something of every row to every partition, so that all number tuples alike."""
        keys = labels(self.superbox.parallel)
        if row.what == CHUNK:
            train, load = train_intake.read_row(self.superbox.plan, row, self.marker)
            source = self.superbox.plan.checked.network.sources[row.source].name
            parcels = self.superbox.carry(1, Cargo(sources={source: train}))
            sorter = Sorter(self.superbox.stages.homes, self.superbox.parallel, stage=1)
            for key, mine in zip(keys, sorter.sort(parcels, row.seq % len(keys)), strict=True):
                said = load.with_parcels(mine, dropped=load.dropped)
                yield row._replace(key=key, what=PARCELS, chunk=said.to_bytes())
        elif row.what in (LAST, OPENING):
            yield from (row._replace(key=key) for key in keys)
        else:
            yield row._replace(key=keys[0])


@dataclass
class StageBoxes:
    """The state of the boxes of a stage, and its log."""

    states: dict[str, State | OperatorState]
    log: Log
    ended: KeyedTable  # the sources that have ended

    @classmethod
    def fresh(cls, superbox: Superbox, stage: int = 1) -> StageBoxes:
        """Empty boxes."""
        states, ended = superbox.fresh(stage), KeyedTable({"source": "integer"}, {})
        return cls(states, Log([ended.table, *(table for state in states.values() for table in state.tables)]), ended)

    @classmethod
    def load(cls, superbox: Superbox, stores: Sequence[Store], stage: int = 1) -> StageBoxes:
        """The boxes as they were saved."""
        boxes = cls.fresh(superbox, stage)
        boxes.log.load(stores[0])
        boxes.ended.restore()
        for state in boxes.states.values():
            state.restore()
        for kept, mine in boxes._list_kept(stores):
            kept.load(mine)
        return boxes

    def save(self, stores: Sequence[Store], batch: int, snapshot: Path | None = None, number: int = 0) -> None:
        """Write what changed, and what readers see of it; ``number`` is that of the partition."""
        self.log.save(stores[0])
        for kept, mine in self._list_kept(stores):
            kept.save(mine, batch)
            if snapshot is not None:
                kept.publish(snapshot, number, batch)

    def end(self, sources: Sequence[int], of: int) -> bool:
        """Record that sources have ended; returns whether they are the last ``of`` all."""
        if not sources:
            return False
        self.ended.rows({"source": np.array(sources, np.int64)})
        return len(self.ended) == of

    def measure(self, work_ns: Mapping[str, int]) -> dict[str, BoxWork]:
        """What each box cost in a batch, and what it remembers."""
        found = {name: BoxWork(ns / 1e6) for name, ns in work_ns.items()}
        for name, state in self.states.items():
            sizes = [(len(table), table.nbytes) for table in state.tables]
            sizes += [kept.measure() for kept in state.kept.values()] if isinstance(state, OperatorState) else []
            rows, size = (sum(parts) for parts in zip((0, 0), *sizes, strict=True))
            found[name] = found.get(name, BoxWork())._replace(rows=rows, bytes=size)
        return found

    @property
    def stores(self) -> tuple[str, ...]:
        """The names of the stores: one for all tables, and those of state with its own representation."""
        return ("boxes", *(f"{name}__{store}" for name, kept in list_stores(self.states) for store in kept.stores))

    def _list_kept(self, stores: Sequence[Store]) -> Iterator[tuple[StoredState, list[Store]]]:
        rest = iter(stores[1:])
        for _, kept in list_stores(self.states):
            yield kept, [next(rest) for _ in kept.stores]


class SuperboxStage(FrameStage[StageBoxes]):
    """The boxes of a network that run in one operator."""

    def __init__(self, engine: str, superbox: Superbox, sink: Sink | None, number: int) -> None:
        super().__init__(engine)
        self.name = f"network-{number}"
        self.maps = StageBoxes.fresh(superbox, number).stores
        self._superbox = superbox
        self._sink = sink
        self._number = number
        self._snapshot = to_path(sink.folder) / FOLDER if sink else None
        self._marker = Marker(sink.folder, sink.network) if sink else None

    def fresh(self) -> StageBoxes:
        """Empty boxes."""
        return StageBoxes.fresh(self._superbox, self._number)

    def load(self, stores: list[Store]) -> StageBoxes:
        """The boxes as they were saved."""
        return StageBoxes.load(self._superbox, stores, self._number)

    def save(self, state: StageBoxes, stores: list[Store]) -> None:
        """Write what changed."""
        state.save(stores, batch_number(), self._snapshot, self._keys.index(self.key))

    def take(self, state: StageBoxes, rows: list[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """Process tuples; the results for outputs are emitted, or written and reported."""
        came = [Row(*row) for part in rows for row in part[list(Row._fields)].itertuples(index=False, name=None)]
        passing = [row for row in came if row.what in (REPORT, DELIVERED)]
        arrived = self._read_arrived(came)
        if arrived.is_opening:
            passing += [row for row in came if row.what == OPENING]
        else:
            passing += self._pass_on(state, arrived)
        if passing:
            yield from self._send_out(passing)

    @property
    def _keys(self) -> Sequence[int]:
        return labels(self._superbox.parallel)

    def _read_arrived(self, rows: list[Row]) -> Arrived:
        if self._number == 1:
            return train_intake.read_batch(self._superbox.plan, rows, batch_number(), self._marker)
        loads = (row for row in sorted(rows, key=lambda row: row.seq) if row.what == PARCELS)
        keys = len(self._superbox.plan.keys)
        parcels = [parcel for row in loads for parcel in Load.from_bytes(row.chunk, keys).parcels]
        ended = [row.source for row in rows if row.what == LAST]
        return Arrived(parcels=parcels, is_opening=any(row.what == OPENING for row in rows), ended=ended)

    def _pass_on(self, state: StageBoxes, arrived: Arrived) -> Iterator[Row]:
        inboxes: dict[int, list[Train]] = {}
        for parcel in arrived.parcels:
            if parcel.stage == self._number:
                inboxes.setdefault(parcel.address, []).append(parcel.train)
        if self._number == 1:
            # the parcels of a feed are in order, so nothing needs to be merged
            inboxes = {address: [Train.concat(trains)] for address, trains in inboxes.items()}
        last = state.end(arrived.ended, len(self._superbox.plan.checked.network.sources))
        released = self._superbox.visit(self._number, state.states, Cargo(arrived.trains, inboxes), last=last)
        yield from (Row(self.key, source, 0, LAST, 0, b"") for source in arrived.ended)
        yield from self._parcels([p for p in arrived.parcels if p.stage != self._number] + released.parcels)
        if self._sink is None:
            yield from self._deliver(released)
        else:
            loads = state.measure(released.work_ns)
            yield from self._write_results(released, arrived, loads, self._sink)

    def _parcels(self, parcels: list[TrainParcel]) -> Iterator[Row]:
        """The rows for later stages."""
        here = self._keys.index(self.key)
        sorter = Sorter(self._superbox.stages.homes, self._superbox.parallel, self._number + 1)
        # those for stages after the next are in their partition already
        for key, mine in zip(self._keys, sorter.sort(parcels, here), strict=True):
            if mine:
                yield Row(key, 0, here, PARCELS, 0, Load(mine).to_bytes())

    def _deliver(self, released: StageOutput) -> Iterator[Row]:
        for name, train in released.outputs:
            parcel = TrainParcel(self._number, self._superbox.plan.outputs[name].layout.id, train)
            yield Row(self.key, 0, 0, DELIVERED, 0, Load([parcel]).to_bytes())

    def _write_results(
        self, released: StageOutput, arrived: Arrived, loads: Mapping[str, BoxWork], sink: Sink
    ) -> Iterator[Row]:
        """Write the results for outputs; every partition reports its boxes, the first also the input of the batch."""
        batch = batch_number()
        written = [self._write(name, train, sink, batch) for name, train in released.outputs]
        if arrived.rejects is not None:
            written.append(sink.write(REJECTS, arrived.rejects, batch))
        counts = arrived.counts if self._number == 1 and self.key == self._keys[0] else {}
        written.append(outputs.note({**counts, BOXES: loads}))
        yield from (Row(self.key, 0, 0, REPORT, 0, json.dumps(one.row).encode()) for one in written)

    def _write(self, name: str, train: Train, sink: Sink, batch: int) -> Written:
        plan = self._superbox.plan
        if rejects.is_rejects(name):
            return sink.write(REJECTS, rejects.convert_rejects(name, train, plan), batch)
        keys = dict(zip(plan.keys, split_keys(train.order), strict=True))
        return sink.write(name, Tuples(train.ts, keys, train.columns, plan.outputs[name].layout.types), batch)

    def _send_out(self, rows: list[Row]) -> Iterator[pd.DataFrame]:
        if self._number < self._superbox.stages.count or self._sink is None:
            yield to_frame(rows)
        elif words := [json.loads(row.chunk) for row in rows if row.what == REPORT]:
            yield pd.DataFrame(words, columns=list(outputs.WrittenRow._fields))


@dataclass(frozen=True)
class TupleCounter:
    """Counts the tuples of each output, where an output would be written."""

    plan: Plan

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A row for each train."""
        names = {delivery.layout.id: name for name, delivery in self.plan.outputs.items()}
        for row in read_rows(batches):
            if row.what == DELIVERED:
                for parcel in Load.from_bytes(row.chunk, len(self.plan.keys)).parcels:
                    yield pa.record_batch({"output": [names[parcel.address]], "count": [len(parcel.train)]})


@dataclass(frozen=True)
class Unpacker:
    """Converts what the stages deliver to one row per tuple."""

    plan: Plan

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        names = {delivery.layout.id: name for name, delivery in self.plan.outputs.items()}
        for row in read_rows(batches):
            if row.what == DELIVERED:
                for parcel in Load.from_bytes(row.chunk, len(self.plan.keys)).parcels:
                    yield self._tuples(names[parcel.address], parcel.train)

    def _tuples(self, output: str, train: Train) -> pa.RecordBatch:
        columns: dict[str, Any] = {"output": pa.array([output] * len(train)), "ts": train.ts}
        columns |= dict(zip(self.plan.keys, split_keys(train.order), strict=True))
        for name, delivery in self.plan.outputs.items():
            types = delivery.layout.types
            fields = pa.struct([(column, ARROW_TYPES[type_]) for column, type_ in types.items()])
            columns[name] = pa.nulls(len(train), fields)
            if name == output:
                arrays = [to_arrow(train.columns[column], type_) for column, type_ in types.items()]
                columns[name] = pa.StructArray.from_arrays(arrays, fields=list(fields))
        return pa.record_batch(columns)
