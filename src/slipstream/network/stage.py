"""Boxes as stateful operators of Structured Streaming: all of a network in one, or those of one level.

An operator is keyed by bucket, not by group: a call takes all tuples of a bucket's groups in one batch, and a box's
state in a bucket is one value of the state store, so the cost of a call is spread over many tuples.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from slipstream.network import intake
from slipstream.network.kernels import TRIGGER, TS, Kernel, State
from slipstream.network.monitor import REJECTS
from slipstream.network.plan import Layout, Plan
from slipstream.network.shedding import Marker
from slipstream.network.sink import TAKEN, Sink, Tuples
from slipstream.network.superbox import Superbox, Train
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


class SuperboxStage(FrameStage[dict[str, State]]):
    """All boxes of a network in one operator."""

    name = "network"
    maps = ("boxes",)

    def __init__(self, engine: str, superbox: Superbox, sink: Sink | None) -> None:
        super().__init__(engine)
        self._superbox = superbox
        self._sink = sink
        self._marker = Marker(sink.folder, sink.network) if sink else None
        self._ran: dict[str, State] = {}

    def fresh(self) -> dict[str, State]:
        """Empty boxes."""
        return {}

    def load(self, stores: list[Store]) -> dict[str, State]:
        """The boxes as they were saved."""
        names = [runner.node.name for runner in self._superbox.plan.runners]
        return {names[number]: unpacked(blob) for number, blob in stores[0].items()}

    def take(self, state: dict[str, State], rows: list[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """Tuples of the sources in; what the outputs get is passed on, or written, and then a word of it passed on."""
        plan, before, batch = self._superbox.plan, dict(state), batch_number()
        arrived = intake.take(plan, rows, batch, self._marker)
        if arrived.is_opening:
            return
        released = self._superbox.step(state, arrived.trains)
        if self._sink is None:
            yield from (_rows(train, plan.outputs[name].layout, plan) for name, train in released)
        else:
            written = [self._write(name, train, self._sink) for name, train in released]
            if arrived.rejects is not None:
                written.append(self._sink.write(REJECTS, arrived.rejects, batch))
            yield _words([(TAKEN, "", json.dumps(arrived.counts)), *written])
        self._ran = {name: now for name, now in state.items() if before.get(name) is not now}

    def _write(self, name: str, train: Train, sink: Sink) -> tuple[str, str, str]:
        plan = self._superbox.plan
        keys = {key: np.ascontiguousarray(train.order[:, place]) for place, key in enumerate(plan.keys)}
        return sink.write(name, Tuples(train.ts, keys, train.columns, plan.outputs[name].layout.types), batch_number())

    def save(self, state: dict[str, State], stores: list[Store]) -> None:
        """Write the boxes that took something."""
        del state
        for number, runner in enumerate(self._superbox.plan.runners):
            if runner.node.name in self._ran:
                stores[0].put(number, packed(self._ran[runner.node.name]))


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
    yield _words([(TAKEN, "", json.dumps({"taken": {}, "dropped": {}})), *written] if parts else [])


def _words(written: list[tuple[str, str, str]]) -> pd.DataFrame:
    return pd.DataFrame(written, columns=["output", "file", "measured"])


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
        state, released = box.kernel.step(unpacked(kept[0]) if kept else {}, inputs)
        self._states.updateValue((box.name,), (packed(state),))
        return self._rows(box, batch, released)

    @staticmethod
    def _input(batch: pd.DataFrame, port: int, columns: dict[str, str]) -> pd.DataFrame:
        here = np.flatnonzero(batch["arc"].to_numpy() == port)
        part = batch.take(here)
        arrays = {name: part[slot].to_numpy() for name, slot in columns.items()}
        return pd.DataFrame({TS: part[TS].to_numpy(), "arrival": here, **arrays})

    def _rows(self, box: StagedBox, batch: pd.DataFrame, released: pd.DataFrame) -> pd.DataFrame:
        """What a box released as rows again; the order key is the trigger's, with the ordinal under that trigger."""
        trigger = released[TRIGGER].to_numpy()
        ordinal = released.groupby(TRIGGER).cumcount().to_numpy(dtype=np.int64)
        rows = batch[["shed", *self._keys]].take(trigger).reset_index(drop=True)
        rows[self._key] += ordinal
        rows["arc"], rows["bucket"], rows[TS] = box.origin, 0, released[TS].to_numpy()
        for column, slot in box.results.items():
            rows[slot] = released[column].to_numpy()
        for name, type_ in self._row:
            if name not in rows:
                rows[name] = {"string": None, "double": 0.0}.get(type_, 0)
        return rows[[name for name, _ in self._row]]


def packed(state: State) -> bytes:
    """A state as bytes: a header with names and lengths, then Arrow streams."""
    parts = {}
    for name, table in state.items():
        if table.columns.size:
            parts[name] = _stream(pa.Table.from_pandas(table, preserve_index=False).replace_schema_metadata(None))
    header = json.dumps({name: len(part) for name, part in parts.items()}).encode()
    return b"".join([len(header).to_bytes(4, "big"), header, *parts.values()])


def unpacked(data: bytes) -> State:
    """What ``packed`` wrote."""
    data = bytes(data)
    start = 4 + int.from_bytes(data[:4], "big")
    state = {}
    for name, length in json.loads(data[4:start]).items():
        state[name] = pa.ipc.open_stream(data[start : start + length]).read_all().to_pandas()
        start += length
    return state


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())
