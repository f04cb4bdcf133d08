"""Text ids and their numbers, against dictionaries."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream._errors import BadInput
from slipstream._feeds import text_ids as texts
from slipstream._runtime.state.id_numbers import Names, Register
from slipstream._runtime.state.store import MemoryStore

IDS = st.text("abü€", min_size=1, max_size=4)


@given(st.lists(st.lists(IDS, max_size=30), max_size=8), st.booleans())
def test_names_are_numbered_as_a_dictionary_would(batches: list[list[str]], restarts: bool) -> None:
    names, store, expected = Names(), MemoryStore(), dict[str, int]()
    for batch in batches:
        for name in sorted(set(batch) - expected.keys(), key=str.encode):
            expected[name] = len(expected)
        found = names.number(pa.array(batch, pa.string())).tolist()
        assert found == [expected[name] for name in batch]
        assert names.texts.take(np.array(found, np.int64)).to_pylist() == batch
        names.save(store)
        if restarts:
            names = Names.load(store)


def test_many_names_keep_their_numbers() -> None:
    """Through growing tables, a copy by pickle as between workers, and a restart."""
    names, store = Names(), MemoryStore()
    every = [f"VIN{n:07}" for n in range(20_000)]
    for first in range(0, len(every), 900):
        names.number(pa.array(every[first : first + 900]))
        names.save(store)
        names = pickle.loads(pickle.dumps(names))
    for known in (names, Names.load(store)):
        assert known.number(pa.array(every[::-1])).tolist() == list(range(len(every)))[::-1]
    assert len(store) == 23


@given(st.lists(IDS, max_size=40, unique=True), st.integers(1, 4), st.booleans())
def test_a_register_names_the_numbers_of_all_parts(ids: list[str], parts: int, restarts: bool) -> None:
    given_ids = pa.array(ids, pa.string())
    part = texts.assign_parts(given_ids, parts)
    register, store, numbers = Register(parts), MemoryStore(), np.empty(len(ids), np.int64)
    for p in range(parts):
        names = Names()
        mine = given_ids.filter(pa.array(part == p))
        numbers[part == p] = p + parts * names.number(mine)
        for _ in range(2):  # heard twice, learned once
            register.learn(p, 0, names.texts.since(0))
    register.save(store)
    if restarts:
        register = Register.load(parts, store)
    assert np.unique(numbers).size == len(ids)
    assert register.texts(numbers).to_pylist() == ids


def test_a_gap_in_what_is_learned_or_stored_is_found() -> None:
    register = Register(1)
    with pytest.raises(BadInput, match="missing"):
        register.learn(0, 1, pa.array(["b"]))
    with pytest.raises(BadInput, match="damaged"):
        Names.load(MemoryStore({5: texts.encode(pa.array(["a"]))}))


def test_there_are_not_more_names_than_numbers() -> None:
    names = Names()
    with pytest.raises(BadInput, match="More than 2 ids"):
        names.number(pa.array(["a", "b", "c"]), 2)
