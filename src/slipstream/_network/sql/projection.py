"""Expressions that only Spark can compute, for tuples between two stages.

    parcels --> [ask] rows of parcels and a row per tuple --> Spark's projection --> [answer] parcels

Tuples keep their position among the rows of their task, so each result is put back where it was requested. Then the
tuples continue on their ways.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slipstream._io.formats.decoding import TYPES as ARROW_TYPES
from slipstream._network.algebra import TYPES
from slipstream._network.boxes.windows.window_functions import encode_column, to_arrow
from slipstream._network.sql.translation import TUPLE, Program, answer_to
from slipstream._network.tasks.parcels import (
    ARROW,
    COLUMNS,
    PARCELS,
    TUPLE_ROW,
    Load,
    Row,
    Sorter,
    read_rows,
    record_batch,
)
from slipstream._network.tasks.superbox import SPARK, Cargo, Superbox, TrainParcel
from slipstream._runtime.stages.partitions import labels

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def project(rows: DataFrame, superbox: Superbox, stage: int) -> DataFrame:
    """Compute one expression of each tuple that needs Spark, before a stage."""
    programs = superbox.translations.programs
    asked = rows.mapInArrow(_Ask(superbox), f"{COLUMNS}, {', '.join(map(_ddl, range(len(programs)), programs))}")
    answers = [_answer(number, program) for number, program in enumerate(programs)]
    return asked.selectExpr(*Row._fields, *answers).mapInArrow(_Answer(superbox, stage), COLUMNS)


def _ddl(number: int, program: Program) -> str:
    fields = ", ".join(f"`{name}`: {TYPES[type_]}" for name, type_ in program.columns.items())
    return f"_{number} struct<{fields}>"


def _answer(number: int, program: Program) -> str:
    mine = (f"{sql.replace(TUPLE, f'`_{number}`')} as r{place}" for place, (_, sql, _) in enumerate(program.texts))
    return f"if(`_{number}` is null, null, struct({', '.join(mine)})) as _{number}"


@dataclass(frozen=True)
class _Ask:
    """Adds a row for each tuple of a parcel after the row with the parcel."""

    superbox: Superbox

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        keys = len(self.superbox.plan.keys)
        for row in read_rows(batches):
            load = Load.from_bytes(row.chunk, keys) if row.what == PARCELS else Load([])
            asked = [parcel for parcel in load.parcels if parcel.stage == SPARK]
            if not asked:
                yield self._rows([row])
                continue
            rest = [parcel for parcel in load.parcels if parcel.stage != SPARK]
            yield self._rows([row._replace(chunk=load.with_parcels(rest, dropped=load.dropped).to_bytes())])
            for parcel in asked:
                yield self._rows([row._replace(chunk=load.with_parcels([parcel]).to_bytes())])
                yield self._tuples(parcel)

    @property
    def _structs(self) -> list[pa.DataType]:
        programs = self.superbox.translations.programs
        return [pa.struct([(name, ARROW_TYPES[type_]) for name, type_ in p.columns.items()]) for p in programs]

    def _batch(self, columns: list[Any], given: dict[int, pa.Array], count: int) -> pa.RecordBatch:
        structs = [given.get(number, pa.nulls(count, type_)) for number, type_ in enumerate(self._structs)]
        names = [*ARROW.names, *(f"_{number}" for number in range(len(structs)))]
        return pa.record_batch([*columns, *structs], names=names)

    def _rows(self, rows: list[Row]) -> pa.RecordBatch:
        return self._batch(record_batch(rows).columns, {}, len(rows))

    def _tuples(self, parcel: TrainParcel) -> pa.RecordBatch:
        number, program = _program(self.superbox, parcel)
        train, count = parcel.train, len(parcel.train)
        fields = [to_arrow(train.columns[name], type_) for name, type_ in program.columns.items()]
        struct = pa.StructArray.from_arrays(fields, names=list(program.columns))
        empty = {"what": pa.array(np.full(count, TUPLE_ROW, np.int32))}
        columns = [empty.get(part.name, pa.nulls(count, part.type)) for part in ARROW]
        return self._batch(columns, {number: struct.cast(self._structs[number])}, count)


@dataclass(frozen=True)
class _Answer:
    """Adds what Spark computed to the parcels, and carries their tuples on."""

    superbox: Superbox
    stage: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = list(batches)
        if not parts:
            return
        table, keys = pa.Table.from_batches(parts), len(self.superbox.plan.keys)
        whole = table["what"].to_numpy() != TUPLE_ROW
        rows = read_rows(table.filter(pa.array(whole)).to_batches())
        for place, row in zip(np.flatnonzero(whole).tolist(), rows, strict=True):
            load = Load.from_bytes(row.chunk, keys) if row.what == PARCELS else Load([])
            if load.parcels and load.parcels[0].stage == SPARK:
                yield record_batch(self._carry(row, load, table.slice(place + 1, len(load.parcels[0].train))))
            else:
                yield record_batch([row])

    def _carry(self, row: Row, load: Load, answers: pa.Table) -> Iterator[Row]:
        """The rows that a parcel becomes."""
        (parcel,) = load.parcels
        number, program = _program(self.superbox, parcel)
        found = answers[f"_{number}"].combine_chunks()
        for place, (text, _, type_) in enumerate(program.texts):
            parcel.train.columns[answer_to(text)] = encode_column(pa.chunked_array([found.field(f"r{place}")]), type_)
        prefix = self.superbox.translations.prefixes[parcel.address]
        further = self.superbox.carry(self.stage, Cargo(computed={prefix: parcel.train}))
        keys = labels(self.superbox.parallel)
        sorter = Sorter(self.superbox.stages.homes, self.superbox.parallel, self.stage)
        for key, parcels in zip(keys, sorter.sort(further, keys.index(row.key)), strict=True):
            if parcels:
                yield row._replace(key=key, chunk=load.with_parcels(parcels).to_bytes())


def _program(superbox: Superbox, parcel: TrainParcel) -> tuple[int, Program]:
    arc = superbox.translations.prefixes[parcel.address][-1]
    return next((n, program) for n, program in enumerate(superbox.translations.programs) if program.arc == arc)
