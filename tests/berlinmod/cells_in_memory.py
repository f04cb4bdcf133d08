"""The cells of Streaming BerlinMOD in memory: the stages that run in Spark, on events in any batches."""

from __future__ import annotations

import itertools

import pandas as pd
import pyarrow as pa

from slipstream._bench.berlinmod.cells import ANSWERS, LATE
from slipstream._io.chunks import CHUNK, LAST, to_arrow_stream
from slipstream._network.boxes.windows.window_functions import to_arrow
from slipstream._network.planning.plan import plan
from slipstream._network.schemas import check
from slipstream._network.tasks.operators_in_spark import SuperboxStage
from slipstream._network.tasks.parcels import DELIVERED, Load, Row, to_frame
from slipstream._network.tasks.superbox import Superbox
from slipstream._runtime.stages.memory import Host, put_under_one_key


def run(network, table: pa.Table, cuts=(), restarts=(), crashes=()) -> dict[str, pa.Table]:
    """What leaves a network of one source: the input is cut before some places, and ends."""
    superbox = Superbox(plan(check(network, None)))
    assert superbox.stages.count == 1
    host = Host([SuperboxStage("test", superbox, None, 1)], divide=put_under_one_key)
    passed = []
    for start, end in itertools.pairwise([0, *cuts, table.num_rows]):
        if start in restarts:
            host.restart()
        rows = [Row(0, 0, 0, CHUNK, 0, to_arrow_stream(table.slice(start, end - start)))]
        passed += host.run([to_frame(rows)], crash=start in crashes)
    passed += host.run([to_frame([Row(0, 0, 0, LAST, 0, b"")])])
    return delivered(superbox, passed)


def delivered(superbox: Superbox, passed: list[pd.DataFrame]) -> dict[str, pa.Table]:
    found = {name: [] for name in superbox.plan.outputs}
    names = {delivery.layout.id: name for name, delivery in superbox.plan.outputs.items()}
    for row in (Row(*one) for frame in passed for one in frame[list(Row._fields)].itertuples(index=False, name=None)):
        if row.what == DELIVERED:
            for parcel in Load.from_bytes(row.chunk, len(superbox.plan.keys)).parcels:
                types = superbox.plan.outputs[names[parcel.address]].layout.types
                columns = {name: to_arrow(parcel.train.columns[name], type_) for name, type_ in types.items()}
                found[names[parcel.address]].append(pa.table(columns))
    return {name: pa.concat_tables(tables) if tables else pa.table({}) for name, tables in found.items()}


def answers(cell, given, events: pa.Table, **how) -> pa.Table:
    """The answers of a cell; nothing may be late."""
    assert list(events.column_names) == ["vehicle_id", "t", "lon", "lat"]
    found = run(cell.network(given), events, **how)
    assert found[LATE].num_rows == 0
    return found[ANSWERS]
