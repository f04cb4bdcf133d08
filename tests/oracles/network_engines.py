"""Ways to run one network on one feed: the oracle, the kernels in memory, and Structured Streaming."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from slipstream._network.algebra import Arc, Network
from slipstream._network.boxes.windows.window_functions import NULL_INTEGER
from slipstream._network.planning.compiler import Compiled, compile_network
from slipstream._network.planning.plan import plan
from slipstream._network.running.train_folder import SEQ, TS, arrow_schema, open_trains, write_train
from slipstream._network.schemas import check
from slipstream._network.state.tracked_tables import Log
from slipstream._runtime.state.store import MemoryStore

Feed = list[tuple[str, int, dict[str, Any]]]
Results = dict[str, list[dict[str, Any]]]


def merged(networks: dict[str, Network]) -> Network:
    """Many networks side by side as one, names prefixed: one streaming query runs them all."""
    whole = Network("merged", (), (), ())
    for prefix, network in networks.items():

        def arc(old: Arc, prefix: str = prefix) -> Arc:
            return Arc(f"{prefix}_{old.origin}", old.port)

        whole = replace(
            whole,
            sources=whole.sources + tuple(replace(s, name=f"{prefix}_{s.name}") for s in network.sources),
            tables=whole.tables + tuple(replace(t, name=f"{prefix}_{t.name}") for t in network.tables),
            nodes=whole.nodes
            + tuple(
                replace(n, name=f"{prefix}_{n.name}", inputs=tuple(arc(i) for i in n.inputs)) for n in network.nodes
            ),
            outputs=whole.outputs
            + tuple(replace(o, name=f"{prefix}_{o.name}", arc=arc(o.arc)) for o in network.outputs),
        )
    return whole


def write_feed(network: Network, feed: Feed, cuts: Iterable[int], folder: Path, first: int = 0) -> None:
    """The feed as trains, cut before the given places, for every source the same number."""
    bounds = [0, *cuts, len(feed)]
    for source in network.sources:
        for number, (start, end) in enumerate(itertools.pairwise(bounds)):
            rows = [
                {SEQ: start + i, TS: ts, **values}
                for i, (name, ts, values) in enumerate(feed[start:end])
                if name == source.name
            ]
            table = pa.Table.from_pylist(rows, schema=arrow_schema(source.schema))
            write_train(folder / source.name, first + number, table)


def compiled(spark, network: Network, folder: Path, out: Path, tables=None, parallel: int = 1) -> Compiled:
    inputs = {s.name: open_trains(spark, folder / s.name, s.schema) for s in network.sources}
    frames = {name: spark.createDataFrame(pd.DataFrame(rows)) for name, rows in (tables or {}).items()}
    return compile_network(check(network, spark), inputs, frames, folder=out, parallel=parallel)


def run_available(spark, network: Network, folder: Path, checkpoint: Path, **options: Any) -> list[dict[str, Any]]:
    """Run all trains that are there to the end; the rows that this run delivered, batch by batch."""
    out = checkpoint.with_name(f"{checkpoint.name}-out")
    made = compiled(spark, network, folder, out, **options)
    delivered: list[dict[str, Any]] = []

    def take(batch, number: int) -> None:
        for row in batch.where("file <> ''").collect():
            rows = pq.read_table(out / "outputs" / row.output / row.file, partitioning=None).to_pylist()
            delivered.extend({"output": row.output, **tuple_} for tuple_ in rows)

    query = made.start(take, checkpoint, available_now=True)
    query.awaitTermination()
    return delivered


def by_output(network: Network, delivered: list[dict[str, Any]]) -> Results:
    """The tuples of each output, in the order of their keys."""
    results: Results = {output.name: [] for output in network.outputs}
    keys = [name for name in (delivered[0] if delivered else {}) if name.startswith("_q") and name[2:].isdigit()]
    for row in sorted(delivered, key=lambda r: [r[key] for key in sorted(keys, key=lambda k: int(k[2:]))]):
        hidden = {"output", "_batch", *keys}
        results[row["output"]].append({name: value for name, value in row.items() if name not in hidden})
    return results


def stream(spark, network: Network, feed: Feed, cuts: Iterable[int], folder: Path, **options: Any) -> Results:
    """Write the feed, run the network over it, and give what came out."""
    write_feed(network, feed, cuts, folder / "in")
    return by_output(network, run_available(spark, network, folder / "in", folder / "checkpoint", **options))


def in_memory(spark, network: Network, feed: Feed, cuts: Iterable[int], restarts: bool = False) -> Results:
    """The kernel of a network's only box, fed directly, batch by batch; its state is loaded anew before each or not."""
    runner = plan(check(network, spark)).runners[0]
    log, store = None, MemoryStore()
    out = []
    bounds = [0, *cuts, len(feed)]
    for start, end in itertools.pairwise(bounds):
        batch = feed[start:end]
        inputs = [_input(side, runner.node.inputs[side.side].origin, batch, start) for side in runner.sides]
        if not any(len(part["ts"]) for part in inputs):
            continue
        if restarts or log is None:
            state = runner.kernel.fresh()
            log = Log(state.tables)
            log.load(store)
            state.restore()
        released = runner.kernel.step(state, inputs)
        log.save(store)
        trigger = released["trigger"]
        assert (np.diff(trigger) >= 0).all()
        assert len(trigger) == 0 or (trigger.min() >= 0 and trigger.max() < len(batch))
        names = dict(zip(runner.results, runner.origin.columns, strict=True))
        out += [
            {"_ts": row["ts"], **{new: plain(row[old]) for old, new in names.items()}}
            for row in pd.DataFrame(released).to_dict("records")
        ]
    return {network.outputs[0].name: out}


def _input(side, source: str, batch: Feed, start: int) -> dict[str, np.ndarray]:
    here = [(i, ts, values) for i, (name, ts, values) in enumerate(batch) if name == source]
    columns: dict[str, Any] = {
        "ts": np.array([ts for _, ts, _ in here], dtype=np.int64),
        "arrival": np.array([i for i, _, _ in here], dtype=np.int64),
        "instant": np.array([start + i for i, _, _ in here], dtype=np.int64),
    }
    for name, text in side.layout.columns.items():
        values = [0 if text == "0L" else values[text] for _, _, values in here]
        columns[name] = array_of(values, side.layout.types[name])
    return columns


def array_of(values: list[Any], type_: str) -> np.ndarray:
    if type_ == "text":
        return np.array(values, dtype=object)
    if type_ == "float":
        return np.array([math.nan if v is None else v for v in values], dtype=np.float64)
    return np.array([NULL_INTEGER if v is None else v for v in values], dtype=np.int64)


def plain(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return None
    return None if isinstance(value, int) and value == NULL_INTEGER else value
