"""Stages in memory behave as in Spark: keys apart, state warm or loaded, a lost batch done again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from slipstream._runtime.stages.memory import Host
from slipstream._runtime.stages.stage import Chain, Stage, batch_number
from slipstream._runtime.state.store import Store


class Word(NamedTuple):
    key: int
    number: int


class Summing(Stage[list[int]]):
    """Passes on the sum of all numbers so far, and the batch, to another key."""

    name = "summing"
    maps = ("sums",)
    loads = 0

    def fresh(self) -> list[int]:
        return [0]

    def load(self, stores: list[Store]) -> list[int]:
        self.loads += 1
        return [int(stores[0].get(0))]

    def take(self, state: list[int], rows: list[Any]) -> Iterator[Word]:
        state[0] += sum(row.number for row in rows)
        yield Word(self.key % 2, state[0])

    def save(self, state: list[int], stores: list[Store]) -> None:
        stores[0].put(0, b"%d" % state[0])
        stores[0].put(1, b"%d" % batch_number())


batches = st.lists(st.lists(st.builds(Word, st.integers(0, 3), st.integers(0, 9)), max_size=5), max_size=6)


@given(batches, st.sampled_from([{}, {"restart": True}, {"crash": True}]))
def test_restarts_and_crashes_change_nothing(given_: list[list[Word]], again: dict[str, bool]) -> None:
    host = Host([Summing("test"), Summing("test")])
    sums: list[dict[int, int]] = [{}, {}]
    for batch in given_:
        if again.get("restart"):
            host.restart()
        words = batch
        for stage in range(2):
            by_key: dict[int, int] = {}
            for word in words:
                by_key[word.key] = by_key.get(word.key, 0) + word.number
            for key, total in by_key.items():
                sums[stage][key] = sums[stage].get(key, 0) + total
            words = [Word(key % 2, sums[stage][key]) for key in sorted(by_key)]
        assert host.run(batch, crash=again.get("crash", False)) == words


def test_state_is_loaded_when_it_is_cold_and_the_batch_is_known() -> None:
    stage = Summing("test")
    host = Host([stage])
    for _ in range(3):
        host.run([Word(5, 1)])
    assert stage.loads == 0
    host.restart()
    assert host.run([Word(5, 1)], crash=True) == [Word(1, 4)]
    assert stage.loads == 2
    assert host.stores("sums") == {5: {0: b"4", 1: b"3"}}


def test_a_chain_in_memory_is_a_chain() -> None:
    apart = Host([Summing("test"), Summing("test")])
    together = Host([Chain("test", [Named("first"), Named("second")])])
    for number in range(4):
        rows = [Word(0, number)]
        assert together.run(rows) == apart.run(rows)


class Named(Summing):
    """Stages of a chain name their maps differently."""

    def __init__(self, name: str) -> None:
        super().__init__("test")
        self.maps = (name,)
