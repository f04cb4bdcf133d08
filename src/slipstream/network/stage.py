"""One level of a network's order-sensitive boxes as a stateful operator of Structured Streaming.

The operator is keyed by bucket, not by group: a call takes all tuples of a bucket's groups in one batch, and a box's
state in a bucket is one value of the state store, so the cost of a call is spread over many tuples.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from slipstream.network.kernels import TRIGGER, TS, State


class Kernel(Protocol):
    """What every order-sensitive box is at run time."""

    def step(self, state: State, inputs: Sequence[pd.DataFrame]) -> tuple[State, pd.DataFrame]:
        """Take one batch; give the new state and what the batch released."""


@dataclass(frozen=True)
class StagedBox:
    """A box of a stage: its kernel, the slots its columns travel in, and where its results go."""

    name: str
    kernel: Kernel
    ports: tuple[int, ...]
    columns: tuple[dict[str, str], ...]
    origin: int
    results: dict[str, str]


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
