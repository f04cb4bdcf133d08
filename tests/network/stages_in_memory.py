"""A network's own stages in memory: the tasks that read, the stateful operators, and what Spark does between them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from oracles.network_engines import Feed, plain
from slipstream._io.chunks import CHUNK, to_arrow_stream
from slipstream._io.formats.decoding import TYPES
from slipstream._network.boxes.windows.window_functions import encode_column, to_arrow
from slipstream._network.flow import Train
from slipstream._network.planning.plan import Plan
from slipstream._network.running.train_folder import SEQ, TS, arrow_schema
from slipstream._network.sql.projection import _Answer, _Ask
from slipstream._network.sql.translation import TUPLE, Program
from slipstream._network.sql.vector import translate
from slipstream._network.tasks.operators_in_spark import Carrier, SuperboxStage
from slipstream._network.tasks.parcels import DELIVERED, Load, Row, read_rows, record_batch, to_frame
from slipstream._network.tasks.superbox import Superbox
from slipstream._runtime.stages.memory import Host
from slipstream._runtime.stages.stage import FrameStage
from slipstream._runtime.state.store import Store

Found = dict[str, list[dict[str, Any]]]


class Projection(FrameStage[None]):
    """Spark's projection between two stages: tuples are asked and answered by the tasks that do so in Spark."""

    name, maps = "projection", ()

    def __init__(self, superbox: Superbox, stage: int) -> None:
        super().__init__("test")
        self._ask, self._answer = _Ask(superbox), _Answer(superbox, stage)
        self._programs = superbox.translations.programs

    def fresh(self) -> None:
        """Nothing is kept."""

    def load(self, stores: list[Store]) -> None:
        """Nothing is kept."""

    def save(self, state: None, stores: list[Store]) -> None:
        """Nothing is kept."""

    def take(self, state: None, rows: list[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """The rows of a task."""
        given = iter([record_batch(in_rows(rows))])
        for batch in self._answer(self._computed(batch) for batch in self._ask(given)):
            yield to_frame(read_rows([batch]))

    def _computed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = {name: batch[name] for name in Row._fields}
        for number, program in enumerate(self._programs):
            columns[f"_{number}"] = computed(program, batch[f"_{number}"])
        return pa.record_batch(columns)


def computed(program: Program, tuples: pa.StructArray) -> pa.StructArray:
    """What Spark would compute of tuples, without Spark."""
    fields = pa.struct([(f"r{place}", TYPES[type_]) for place, (_, _, type_) in enumerate(program.texts)])
    if tuples.null_count:
        return pa.nulls(len(tuples), fields)
    columns = {
        name: encode_column(pa.chunked_array([tuples.field(name)]), type_) for name, type_ in program.columns.items()
    }
    found = [
        to_arrow(translate(sql.replace(f"{TUPLE}.", ""), program.columns).over(columns, len(tuples)), type_)
        for _, sql, type_ in program.texts
    ]
    return pa.StructArray.from_arrays(
        [values.cast(TYPES[type_]) for values, (_, _, type_) in zip(found, program.texts, strict=True)],
        fields=list(fields),
    )


def in_rows(frames: Iterable[pd.DataFrame]) -> list[Row]:
    return [Row(*row) for part in frames for row in part[list(Row._fields)].itertuples(index=False, name=None)]


def by_partition(frames: Iterable[pd.DataFrame]) -> dict[int, list[pd.DataFrame]]:
    """The exchange before a stage."""
    rows = in_rows(frames)
    return {key: [to_frame(row for row in rows if row.key == key)] for key in sorted({row.key for row in rows})}


class Stages:
    """A network's stages one behind the other, batch after batch."""

    def __init__(self, superbox: Superbox) -> None:
        self._superbox = superbox
        stages: list[Any] = []
        for number in range(1, superbox.stages.count + 1):
            stages += [Projection(superbox, number)] * superbox.stages.rounds[number - 1]
            stages.append(SuperboxStage("test", superbox, None, number))
        self._host = Host(stages, divide=by_partition)
        self._carrier = Carrier(superbox, None) if superbox.stages.is_read_apart else None
        self._names = {delivery.layout.id: name for name, delivery in superbox.plan.outputs.items()}

    def restart(self) -> None:
        self._host.restart()

    def batch(self, feed: Feed, first: int, *, crash: bool = False) -> Iterator[tuple[str, Train]]:
        """The next tuples, the first of which has this number; what leaves with them."""
        rows = list(rows_of(self._superbox.plan, feed, first))
        if self._carrier is not None:
            rows = list(read_rows(self._carrier(iter([record_batch(rows)]))))
        for row in in_rows(self._host.run([to_frame(rows)], crash=crash)):
            if row.what == DELIVERED:
                for parcel in Load.from_bytes(row.chunk, len(self._superbox.plan.keys)).parcels:
                    yield self._names[parcel.address], parcel.train


def rows_of(made: Plan, feed: Feed, first: int) -> Iterator[Row]:
    """Tuples as sources give them, a row for each source."""
    for place, source in enumerate(made.checked.network.sources):
        mine = [
            {SEQ: first + number, TS: ts, **values}
            for number, (name, ts, values) in enumerate(feed)
            if name == source.name
        ]
        yield Row(
            0, place, first, CHUNK, 0, to_arrow_stream(pa.Table.from_pylist(mine, schema=arrow_schema(source.schema)))
        )


def run(superbox: Superbox, feed: Feed, cuts: list[int], restarts: set[int], crashes: Iterable[int] = ()) -> Found:
    """All that leaves a network, in order; it restarts before some places of the feed, and loses batches there."""
    stages, released = Stages(superbox), list[tuple[str, Train]]()
    for start, end in itertools.pairwise([0, *cuts, len(feed)]):
        if start in restarts:
            stages.restart()
        released += stages.batch(feed[start:end], start, crash=start in crashes)
    return sorted_rows(superbox.plan, released)


def sorted_rows(made: Plan, released: Iterable[tuple[str, Train]]) -> Found:
    found: dict[str, list[tuple[list[int], dict[str, Any]]]] = {name: [] for name in made.outputs}
    for name, out in released:
        for i in range(len(out)):
            row = {column: plain(_value(values[i : i + 1])) for column, values in out.columns.items()}
            found[name].append((out.order[i].tolist(), {"_ts": int(out.ts[i]), **row}))
    return {name: [row for _, row in sorted(rows, key=lambda row: row[0])] for name, rows in found.items()}


def _value(one: np.ndarray) -> Any:
    return one.tolist()[0]
