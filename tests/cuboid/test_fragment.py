"""Cuboid fragments against a plain dictionary of lists."""

from __future__ import annotations

import os
import pickle
import tempfile
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import Mock, patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream._cuboid.fragment import EMPTY, Fragment, index_all
from slipstream._cuboid.log import DeltaLog, decompress_rows
from slipstream._cuboid.schema import AST, Plain, Schema
from slipstream._errors import BadArgument, BadInput
from slipstream._runtime.state import shared_arrays
from slipstream._runtime.state.store import MemoryStore

CAR = Schema("CAR", (AST("speed", "i4", 4), Plain("lane", "u1")))
TIMED = Schema("TIMED", (Plain("time", "i4"),))
arrivals = st.lists(st.tuples(st.integers(0, 2**62), st.integers(-(2**31), 2**31 - 1)), max_size=60)


def fill(fragment: Fragment, rows: list[tuple[int, int]]) -> None:
    keys = np.array([key for key, _ in rows], np.int64)
    fragment.append("speed", keys, np.array([value for _, value in rows], np.int32))


@given(arrivals, arrivals)
def test_an_atomic_stream_keeps_the_latest_elements_of_each_key(
    first: list[tuple[int, int]], second: list[tuple[int, int]]
) -> None:
    """Also two elements with one key in one call, which both stay, in the order of arrival."""
    cars, plain = Fragment(CAR), dict[int, list[int]]()
    for rows in (first, second, first):
        fill(cars, rows)
        for key, value in rows:
            plain.setdefault(key, []).insert(0, value)
    assert len(cars) == len(plain)
    for key, values in plain.items():
        assert cars.stream(key, "speed").tolist() == values[:4]
    assert cars.stream(2**62 + 1, "speed").size == 0


def same(one: Fragment, other: Fragment) -> bool:
    orders = [np.argsort(fragment.rows["key"]) for fragment in (one, other)]
    return one.rows[orders[0]].tobytes() == other.rows[orders[1]].tobytes()


@given(st.lists(arrivals, max_size=12))
def test_a_log_of_deltas_gives_the_fragment_back(batches: list[list[tuple[int, int]]]) -> None:
    cars, log, store = Fragment(CAR), DeltaLog(), MemoryStore()
    for number, rows in enumerate(batches):
        fill(cars, rows)
        log.write(number, cars.delta(), cars, store)
    again = Fragment(CAR)
    DeltaLog().load(again, store)
    assert same(cars, again)


@given(st.lists(arrivals, max_size=30), st.integers(1, 9), st.integers(0, 12), st.sets(st.integers(0, 30)))
def test_a_log_with_blocks_gives_the_fragment_back_and_stays_small(
    batches: list[list[tuple[int, int]]], block: int, large: int, restarts: set[int]
) -> None:
    cars, log, store = Fragment(CAR), DeltaLog(), MemoryStore()
    row = CAR.dtype.itemsize
    with patch.multiple("slipstream._cuboid.log", BLOCK=block, LARGE=large * row):
        for number, rows in enumerate(batches):
            fill(cars, rows)
            log.settle(cars, number, store)
            again, other = Fragment(CAR), DeltaLog()
            other.load(again, store)
            assert same(cars, again)
            if number in restarts:
                cars, log = again, other
        most = max((len(rows) for rows in batches), default=0) + block
        kept = sum(len(decompress_rows(blob, row)) for blob in store.values())
        assert restarts or kept <= (3 * len(cars) + 3 * most) * row


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 40), st.integers(0, 99)), max_size=120))
def test_rows_are_removed_one_by_one(steps: list[tuple[bool, int, int]]) -> None:
    """A row that takes a removed one's place begins anew, and every other key is still found."""
    cars, plain = Fragment(CAR), dict[int, list[int]]()
    for removed, number, value in steps:
        # keys that meet in the hash table
        key = number << 43
        if removed:
            cars.remove(np.array([key, key]))
            plain.pop(key, None)
        else:
            fill(cars, [(key, value)])
            plain.setdefault(key, []).insert(0, value)
    assert sorted(cars.rows["key"].tolist()) == sorted(plain)
    assert {key: cars.stream(key, "speed").tolist() for key in plain} == {k: v[:4] for k, v in plain.items()}


@pytest.mark.parametrize("large", [1, 1 << 20])
@given(st.lists(st.tuples(st.sampled_from(["put", "put", "remove", "keep", "clear", "delta"]), st.integers(0, 12))))
def test_a_delta_has_the_rows_that_changed_since_the_last_one_sorted_by_key(
    large: int, steps: list[tuple[str, int]]
) -> None:
    """Whatever moved into the places of removed rows, and whether these had changed themselves."""
    with patch("slipstream._cuboid.fragment._LARGE", large):
        follow_changes(steps)


def follow_changes(steps: list[tuple[str, int]]) -> None:
    cars, there, changed = Fragment(CAR), set[int](), set[int]()
    for step, key in steps:
        if step == "put":
            cars.upsert(np.array([key, key]))
            there, changed = there | {key}, changed | {key}
        elif step == "remove":
            cars.remove(np.array([key]))
            there.discard(key)
        elif step == "keep":
            cars.keep(cars.rows["key"] % 3 != key % 3)
            there = {one for one in there if one % 3 != key % 3}
        elif step == "clear":
            cars.clear()
            there = set()
        else:
            assert cars.delta()["key"].tolist() == sorted(changed & there)
            changed = set()
        changed &= there
    assert cars.delta()["key"].tolist() == sorted(changed)
    assert not cars.delta().size


def test_a_fragment_grows_and_forgets() -> None:
    cars = Fragment(CAR)
    keys = np.arange(50_000, dtype=np.int64) * 7919
    cars.upsert(keys)
    assert (cars.find(keys) == np.arange(50_000)).all()
    cars.keep(cars.rows["key"] % 2 == 0)
    assert (cars.find(keys[keys % 2 == 1]) == EMPTY).all()
    assert (cars.find(keys[keys % 2 == 0]) != EMPTY).all()


#: new keys at once, of which some are forgotten again, and whether another worker has the next batch
batches = st.lists(st.tuples(st.integers(0, 900), st.integers(0, 30), st.booleans()), max_size=30)


@given(batches, st.booleans())
def test_every_key_is_found_while_the_next_index_is_prepared(
    batches: list[tuple[int, int, bool]], shared: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        stack.enter_context(patch("slipstream._cuboid.fragment._LARGE", 1))
        if shared:
            stack.enter_context(shared_arrays.arrays_in(Path(folder)))
        cars, plain = Fragment(CAR), dict[int, int]()
        for number, (new, gone, moves) in enumerate(batches):
            keys = [(number * 1000 + key) * 7919 for key in range(new)]
            fill(cars, [(key, key % 100) for key in keys])
            plain |= {key: key % 100 for key in keys}
            removed = list(plain)[:: 31 - gone] if gone > 20 else []
            if removed:
                cars.remove(np.array(removed))
                plain = {key: value for key, value in plain.items() if key not in removed}
            if moves:
                cars = pickle.loads(pickle.dumps(cars))
        found = cars.find(np.array(list(plain), np.int64))
        assert cars.rows["key"][found].tolist() == list(plain)
        assert cars.rows["speed"][found, 0].tolist() == list(plain.values())
        assert len(cars) == len(plain)


def test_the_next_index_is_ready_when_it_is_needed() -> None:
    """So no call has more to do than the keys it brings and its share of the others."""
    indexed = []
    with patch("slipstream._cuboid.fragment._LARGE", 1), patch("slipstream._cuboid.fragment.index_all") as spy:
        spy.side_effect = lambda rows, slots, first, last: (
            indexed.append(last - first) or index_all(rows, slots, first, last)
        )
        cars = Fragment(CAR, 10_000)
        for first in range(0, 60_000, 100):
            cars.upsert(np.arange(first, first + 100))
    assert (cars.find(np.arange(60_000)) == np.arange(60_000)).all()
    assert 0 < max(indexed) < 3000


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 400)), max_size=30))
def test_a_sweep_forgets_what_is_old_and_nothing_else(batches: list[tuple[int, int]]) -> None:
    """Against a dictionary that forgets at once: what is left beyond that is what was there."""
    cars, plain = Fragment(TIMED), dict[int, int]()
    for number, (new, look) in enumerate(batches):
        keys = np.arange(new) * 7919 + 100_000 * (number % 7)
        rows = cars.upsert(keys)
        cars.rows["time"][rows] = number
        plain |= dict.fromkeys(keys.tolist(), number)
        cars.sweep("time", number - 3, look)
        wanted = {key: time for key, time in plain.items() if time >= number - 3}
        found = dict(zip(cars.rows["key"].tolist(), cars.rows["time"].tolist(), strict=True))
        assert found.items() >= wanted.items()
        assert found.items() <= plain.items()
    for _ in range(2):  # to the end of the round, and another round
        cars.sweep("time", len(batches), 2**40)
    assert len(cars) == 0


def test_an_area_grows_in_place_and_is_seen_by_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with shared_arrays.arrays_in(tmp_path):
        area = shared_arrays.SharedArray(np.dtype(np.int64), 1000)
        area.array[:] = 7
        before, other = area.array, pickle.loads(pickle.dumps(area))
        area.grow(5000)
        area.array[0] = 1
        assert (before[0], other.array[0]) == (1, 1)
        assert pickle.loads(pickle.dumps(area)).array.tolist() == [1, *[7] * 999, *[0] * 4000]
        monkeypatch.setattr(os, "posix_fallocate", Mock(side_effect=OSError("No space left on device")))
        area.grow(6000)
    assert area.array.tolist() == [1, *[7] * 999, *[0] * 5000]
    assert not list(tmp_path.iterdir())


def test_whole_rows_are_taken_over_though_they_need_more_room() -> None:
    cars, others = Fragment(CAR), Fragment(CAR)
    for first in (0, 5000):
        fill(cars, [(key, key) for key in range(first, first + 5000)])
    others.put(cars.rows)
    assert same(cars, others)


def test_wrong_names_and_damaged_state_are_told() -> None:
    cars = Fragment(CAR)
    with pytest.raises(BadArgument, match="No attribute 'sped' in cuboid CAR; it has: speed, lane"):
        cars.stream(1, "sped")
    with pytest.raises(BadArgument, match="plain attribute"):
        cars.stream(1, "lane")
    with pytest.raises(BadArgument, match="must differ"):
        Schema("X", (Plain("a", "i4"), Plain("a", "i4")))
    with pytest.raises(BadInput, match="CAR is damaged"):
        cars.apply(b"123")
    for blob in (b"", b"123", bytes(8) + b"456", b"\xff" * 40):
        with pytest.raises(BadInput, match="damaged"):
            decompress_rows(blob, 7)
