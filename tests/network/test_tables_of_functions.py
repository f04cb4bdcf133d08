"""What users' functions build of stored tables stays in the process, and out of what is sent to the workers."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
from pyspark import cloudpickle

from oracles.network_loads import functions
from slipstream._network.state.stored import StoredTable, store_tables


def fastest(table: StoredTable) -> int:
    return int(table["speed"].max())


def test_what_is_built_of_a_table_is_built_once_and_not_sent(tmp_path: Path) -> None:
    columns = {"speed": np.arange(1000)}
    for table in (StoredTable(columns), store_tables(tmp_path, {"means": columns})["means"]):
        assert table.remember(fastest) == 999
        table.indexes[fastest.__module__, fastest.__qualname__] = 7
        assert table.remember(fastest) == 7
    sent = pickle.loads(pickle.dumps(StoredTable(columns)))
    assert sent.remember(fastest) == 999
    assert dict(sent).keys() == columns.keys()


def test_a_function_does_not_grow_with_the_tables_it_has_seen() -> None:
    module = functions("linear_road")
    table = StoredTable({name: np.zeros(100_000) for name in ("xway", "dir", "seg", "dow", "minute", "speed", "cars")})
    ask = np.ones(3, np.int64)
    before = len(cloudpickle.dumps(module.journey_toll))
    module.journey_toll(ask, ask, ask + 3, ask, ask, table)
    assert len(cloudpickle.dumps(module.journey_toll)) < before + 1000
