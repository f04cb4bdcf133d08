"""The operator of a network as it runs in Spark, hosted in memory: any cuts, restarts and crashes."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from network.test_streaming import NAMES, bag, everything, random_feed
from network.test_superbox import TABLE, in_rows
from oracles.network import interpret
from oracles.network_engines import Feed, array_of
from slipstream._io import outputs
from slipstream._io.chunks import CHUNK, to_arrow_stream
from slipstream._io.outputs import Written
from slipstream._network.algebra import Network
from slipstream._network.planning.plan import plan
from slipstream._network.running.train_folder import SEQ, TS, arrow_schema
from slipstream._network.schemas import check
from slipstream._network.state.stored import StoredTable
from slipstream._network.tasks.operators_in_spark import SuperboxStage
from slipstream._network.tasks.sink import Sink, Tuples
from slipstream._network.tasks.superbox import Superbox
from slipstream._runtime.stages.memory import Host, put_under_one_key


@pytest.fixture(scope="module")
def superbox(spark: SparkSession) -> Superbox:
    network = everything()
    names = {column: array_of([row[column] for row in in_rows(NAMES)], type_) for column, type_ in TABLE.items()}
    return Superbox(plan(check(network, spark)), {"names": StoredTable(names)})


@dataclass(frozen=True)
class Captured(Sink):
    """What the stage would have written."""

    found: list[tuple[str, Tuples]] = field(default_factory=list)

    def write(self, output: str, tuples: Tuples, batch: int) -> Written:
        self.found.append((output, tuples))
        return outputs.note({}, about=output)


def rows_of(network: Network, feed: Feed, first: int) -> pd.DataFrame:
    """A train for each source, in the rows in which Spark brings them."""
    rows = []
    for place, source in enumerate(network.sources):
        here = [(first + i, ts, values) for i, (name, ts, values) in enumerate(feed) if name == source.name]
        tuples = [{SEQ: number, TS: ts, **values} for number, ts, values in here]
        table = pa.Table.from_pylist(tuples, arrow_schema(source.schema))
        rows.append((0, place, first, CHUNK, 0, to_arrow_stream(table)))
    return pd.DataFrame(rows, columns=["key", "source", "seq", "what", "arrived", "chunk"])


def run(
    superbox: Superbox, feed: Feed, cuts: list[int], folder: Path, *, restart: bool = False, crash: bool = False
) -> dict[str, list[dict[str, Any]]]:
    """The outputs of the stage as it runs in Spark, each in its order."""
    network = superbox.plan.checked.network
    sink = Captured(str(folder), network)
    host = Host([SuperboxStage("test", superbox, sink, 1)], divide=put_under_one_key)
    found: dict[str, list[tuple[list[int], dict[str, Any]]]] = {name: [] for name in superbox.plan.outputs}
    for start, end in itertools.pairwise([0, *cuts, len(feed)]):
        if restart:
            host.restart()
        (told,) = host.run([rows_of(network, feed[start:end], start)], crash=crash)
        # of a batch that was done twice, the first time is lost
        written = [name for name in told["output"] if name]
        kept, sink.found[:] = sink.found[len(sink.found) - len(written) :], []
        for name, tuples in kept:
            keys = zip(*(key.tolist() for key in tuples.keys.values()), strict=True)
            columns = {TS: tuples.ts.tolist(), **{n: array.to_pylist() for n, array in tuples.arrays().items()}}
            for key, values in zip(keys, zip(*columns.values(), strict=True), strict=True):
                found[name].append((list(key), dict(zip(columns, values, strict=True))))
    return {name: [row for _, row in sorted(rows, key=lambda row: row[0])] for name, rows in found.items()}


@settings(max_examples=25)
@given(
    seed=st.integers(0, 1000),
    cuts=st.lists(st.integers(1, 239), max_size=6, unique=True),
    again=st.sampled_from([{}, {"restart": True}, {"crash": True}]),
)
def test_any_cuts_restarts_and_crashes_give_what_the_interpreter_gives(
    superbox: Superbox, tmp_path_factory: pytest.TempPathFactory, seed: int, cuts: list[int], again: dict[str, bool]
) -> None:
    feed, folder = random_feed(seed), tmp_path_factory.mktemp("out")
    got = run(superbox, feed, sorted(cuts), folder, **again)
    for name, events in interpret(everything(), feed, {"names": NAMES}).items():
        assert bag(got[name]) == bag([{"_ts": e.ts, **e.values} for e in events]), name
    assert got == run(superbox, feed, [], folder)
