"""Tables and their logs against a plain dictionary: rows come, change and go, and the store is read again anywhere."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from slipstream._errors import BadInput
from slipstream._network.state.tracked_tables import FLOAT, INTEGER, TEXT, Log, StateTable, apply_delta
from slipstream._runtime.state.store import MemoryStore

COLUMNS = {"number": INTEGER, "share": FLOAT, "name": TEXT, "other": TEXT}
TEXTS = st.one_of(st.none(), st.text(max_size=6))
ROWS = st.tuples(st.integers(-(2**63), 2**63 - 1), st.floats(width=32), TEXTS, TEXTS)


def tables() -> list[StateTable]:
    return [StateTable(COLUMNS, ("link",)), StateTable({"only": INTEGER})]


def columns_of(rows: list[tuple[Any, ...]]) -> dict[str, Any]:
    number, share, name, other = zip(*rows, strict=True)
    texts = {"name": np.array(name, object), "other": np.array(other, object)}
    return {"number": np.array(number, np.int64), "share": np.array(share, np.float64), **texts}


def content(table: StateTable) -> dict[int, tuple[Any, ...]]:
    slots = table.slots()
    parts = [table.take(name, slots).tolist() for name in table.columns]
    rows = zip(*parts, strict=True)
    return {slot: tuple(map(plain, row)) for slot, row in zip(slots.tolist(), rows, strict=True)}


def plain(value: Any) -> Any:
    return "nan" if isinstance(value, float) and math.isnan(value) else value


class Tables(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.tables, self.store = tables(), MemoryStore()
        self.log = Log(self.tables)
        self.model: list[dict[int, tuple[Any, ...]]] = [{}, {}]
        self.saved: list[dict[int, tuple[Any, ...]]] = [{}, {}]

    @rule(rows=st.lists(ROWS, min_size=1, max_size=5), times=st.sampled_from([1, 30]))
    def add(self, rows: list[tuple[Any, ...]], times: int) -> None:
        rows = rows * times
        slots = self.tables[0].add(columns_of(rows), len(rows))
        assert not self.model[0].keys() & set(slots.tolist())
        assert len(set(slots.tolist())) == len(rows)
        for slot, row in zip(slots.tolist(), rows, strict=True):
            self.model[0][slot] = tuple(map(plain, row))

    @rule(values=st.lists(st.integers(0, 9), min_size=1, max_size=40))
    def add_to_the_other(self, values: list[int]) -> None:
        for slot, value in zip(
            self.tables[1].add({"only": np.array(values)}, len(values)).tolist(), values, strict=True
        ):
            self.model[1][slot] = (value,)

    @precondition(lambda self: self.model[0])
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        slots = data.draw(st.lists(st.sampled_from(sorted(self.model[0])), unique=True, max_size=60))
        self.tables[0].remove(np.array(slots, np.int64))
        for slot in slots:
            del self.model[0][slot]

    @precondition(lambda self: self.model[0])
    @rule(data=st.data(), number=st.integers(0, 9))
    def change(self, data: st.DataObject, number: int) -> None:
        slot = data.draw(st.sampled_from(sorted(self.model[0])))
        self.tables[0].values("number")[slot] = number
        self.tables[0].touch(np.array([slot, slot]))
        self.model[0][slot] = (number, *self.model[0][slot][1:])

    @rule()
    def save(self) -> None:
        self.log.save(self.store)
        self.saved = [dict(rows) for rows in self.model]

    @rule()
    def restart(self) -> None:
        """A process that ends loses what it has not saved."""
        self.tables = tables()
        self.log = Log(self.tables)
        self.log.load(self.store)
        self.model = [dict(rows) for rows in self.saved]

    @invariant()
    def tables_hold_what_the_model_holds(self) -> None:
        assert [content(table) for table in self.tables] == self.model
        assert [len(table) for table in self.tables] == [len(rows) for rows in self.model]


TestTables = Tables.TestCase
TestTables.settings = settings(max_examples=40, stateful_step_count=30)


def test_what_is_written_is_what_changes_and_the_log_stays_small() -> None:
    """A thousand rows stay, ten come and go with every save: nothing is written whole, and old deltas leave."""
    written, largest = [], 0
    table, store = StateTable({"value": INTEGER}), MemoryStore()
    log = Log([table])
    random = np.random.default_rng(1)
    table.add({"value": random.integers(0, 2**62, 1000)}, 1000)
    log.save(store)
    whole = len(store[0])
    slots = np.empty(0, np.int64)
    for _ in range(1000):
        before = set(store)
        table.remove(slots)
        slots = table.add({"value": random.integers(0, 2**62, 10)}, 10)
        log.save(store)
        written.append(sum(len(blob) for number, blob in store.items() if number not in before))
        largest = max(largest, sum(map(len, store.values())))
    assert max(written) < whole / 10
    assert largest < 8 * whole


def test_a_save_without_changes_writes_nothing() -> None:
    table, store = StateTable({"value": INTEGER}), MemoryStore()
    log = Log([table])
    log.save(store)
    slots = table.add({"value": np.arange(3)}, 3)
    table.remove(slots)
    assert not store


def test_texts_that_are_gone_give_their_memory_back() -> None:
    table = StateTable({"name": TEXT})
    for _ in range(100):
        table.remove(table.add({"name": np.array(["x" * 1000] * 10, object)}, 10))
    assert table.texts is not None
    assert table.texts.size < 100_000


def test_a_damaged_delta_is_refused() -> None:
    with pytest.raises(BadInput, match="damaged"):
        apply_delta(tables(), b"\x00\x00\x00")
