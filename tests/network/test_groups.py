"""Groups are numbered as a dictionary would number them, whatever their keys are and however often they are loaded."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream._network.boxes.windows.window_functions import NULL_INTEGER
from slipstream._network.state.groups import Groups, TextNumbers, Waiting, hashes
from slipstream._network.state.tracked_tables import FLOAT, INTEGER, TEXT, Log
from slipstream._runtime.state import shared_arrays
from slipstream._runtime.state.store import MemoryStore

KEYS = {"number": INTEGER, "share": FLOAT, "name": TEXT}
DTYPES = {INTEGER: np.int64, FLOAT: np.float64, TEXT: object}
ROWS = st.tuples(
    st.sampled_from([NULL_INTEGER, -1, 0, 1]),
    st.sampled_from([math.nan, -0.0, 0.0, 1.5]),
    st.sampled_from([None, "", "x", "xy", "ä", "nan"]),
)


def columns_of(rows: list[tuple[Any, ...]], keys: dict[str, str]) -> dict[str, Any]:
    whole = dict(zip(KEYS, zip(*rows, strict=True), strict=True))
    return {name: np.array(whole[name], DTYPES[kind]) for name, kind in keys.items()}


def key_of(row: tuple[Any, ...], keys: dict[str, str]) -> tuple[Any, ...]:
    whole = dict(zip(KEYS, row, strict=True))
    return tuple("nan" if isinstance(whole[name], float) and math.isnan(whole[name]) else whole[name] for name in keys)


@given(
    batches=st.lists(st.lists(ROWS, min_size=1, max_size=20), max_size=6),
    names=st.sets(st.sampled_from(sorted(KEYS))),
    restarts=st.booleans(),
)
def test_groups_are_numbered_in_the_order_of_their_first_tuple(
    batches: list[list[tuple[Any, ...]]], names: set[str], restarts: bool
) -> None:
    keys = {name: kind for name, kind in KEYS.items() if name in names}
    groups, store = Groups(keys, {"seen": (INTEGER, 7)}), MemoryStore()
    log = Log([groups.table])
    model: dict[tuple[Any, ...], int] = {}
    first: list[tuple[Any, ...]] = []
    for rows in batches:
        wanted = []
        for row in rows:
            if key_of(row, keys) not in model:
                first.append(row)
            wanted.append(model.setdefault(key_of(row, keys), len(model)))
        # without keys the length of a batch must be seen from something else
        assert groups.codes({"other": np.zeros(len(rows)), **columns_of(rows, keys)}).tolist() == wanted
        assert len(groups) == len(model)
        log.save(store)
        if restarts:
            groups = Groups(keys, {"seen": (INTEGER, 7)})
            log = Log([groups.table])
            log.load(store)
            groups.restore()
    codes = np.arange(len(model))
    assert groups.table.take("seen", codes).tolist() == [7] * len(model)
    for name in keys:
        values = groups.table.take(name, codes).tolist()
        assert repr(values) == repr(columns_of(first, keys)[name].tolist() if first else [])


def test_many_groups_are_found_again() -> None:
    groups = Groups({"name": TEXT, "number": INTEGER})
    numbers = np.arange(50_000) % 20_000
    columns = {"number": numbers, "name": np.array([f"n{number % 300}" for number in numbers], object)}
    codes = groups.codes(columns)
    assert np.array_equal(codes, numbers)
    assert np.array_equal(groups.codes(columns), codes)


def test_distinct_leaves_nothing_behind() -> None:
    groups = Groups({"number": INTEGER})
    codes = groups.codes({"number": np.array([5, 6, 5, 7])})
    for _ in range(2):
        found, where = groups.distinct(codes[1:])
        assert found.tolist() == [1, 0, 2]
        assert where.tolist() == [0, 1, 2]


def test_words_and_hashes_tell_texts_apart() -> None:
    texts = np.array([f"{i}" for i in range(5000)] + [None], object)
    assert len(set(TextNumbers().numbers(texts).tolist())) == 5001
    assert len(set(hashes([texts[:-1]], 5000).tolist())) == 5000
    assert hashes([np.array([0.0]), np.array([1])], 1) == hashes([np.array([-0.0]), np.array([1])], 1)


def test_what_a_worker_leaves_for_the_next_does_not_grow_with_the_state(tmp_path: Path) -> None:
    def left(count: int) -> bytes:
        groups = Groups({"name": TEXT}, lists=("rows",))
        waiting = Waiting(groups, "rows", {"time": INTEGER, "note": TEXT})
        log, texts = Log([groups.table, waiting.table]), np.array([f"n{i}" for i in range(count)], object)
        waiting.add(groups.codes({"name": texts}), {"time": np.arange(count), "note": texts})
        log.save(MemoryStore())
        return pickle.dumps((groups, waiting, log))

    with shared_arrays.arrays_in(tmp_path):
        few, many = left(10), left(10_000)
        assert len(many) < len(few) + 200
        groups, waiting, _ = pickle.loads(many)
        assert groups.codes({"name": np.array(["n9999", "new"], object)}).tolist() == [9999, 10_000]
        slots, _ = waiting.of(np.array([9999]))
        assert waiting.table.take("note", slots).tolist() == ["n9999"]


@pytest.mark.parametrize("count", [1, 1000])
def test_rows_wait_in_their_groups_until_they_go(count: int) -> None:
    groups = Groups({"number": INTEGER}, lists=("rows",))
    waiting = Waiting(groups, "rows", {"time": INTEGER})
    codes = groups.codes({"number": np.arange(2 * count) % 2})
    waiting.add(codes, {"time": np.arange(2 * count)})
    slots, owner = waiting.of(np.array([1]))
    assert owner.tolist() == [0] * count
    waiting.keep(np.array([1]), slots, waiting.table.take("time", slots) == 2 * count - 1)
    slots, _ = waiting.of(np.array([0, 1]))
    assert waiting.table.take("time", slots).tolist() == [*range(0, 2 * count, 2), 2 * count - 1]
