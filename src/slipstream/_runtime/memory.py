"""Stages in memory: the stages of a job, run batch by batch without Spark, from a store of dictionaries.

Spark decides when a stage finds its state warm, when it must load it, and when it must do a batch again. The host
leaves that to its caller, so that a test can do all of it at any batch. The stages are the ones that run in Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from slipstream._runtime.stage import Stage, numbered
from slipstream._runtime.store import MemoryStore, Store

#: the stage's number, and the key
_Place = tuple[int, int]


def by_key(rows: Iterable[Any]) -> dict[int, list[Any]]:
    """Rows of Spark's, or named tuples, by their column ``key``; keys in order, rows as they come."""
    found: dict[int, list[Any]] = {}
    for row in rows:
        found.setdefault(int(row.key), []).append(row)
    return dict(sorted(found.items()))


def one_key(rows: Iterable[Any]) -> dict[int, list[Any]]:
    """All rows under one key: for stages that take data frames."""
    return {0: list(rows)}


class Host:
    """Stages one behind the other; what one passes on goes to the next, by key.

    >>> from slipstream._runtime.stage import Chain
    >>> Host([Chain("none", [])]).run([])
    []
    """

    def __init__(
        self, stages: Sequence[Stage[Any]], *, divide: Callable[[Iterable[Any]], dict[int, list[Any]]] = by_key
    ) -> None:
        self._stages = tuple(stages)
        self._divide = divide
        self._warm: dict[_Place, Any] = {}
        self._stores: dict[_Place, dict[str, MemoryStore]] = {}
        self.batch = 0  # the next one

    def run(self, rows: Iterable[Any], *, crash: bool = False) -> list[Any]:
        """Run a batch; returns what the last stage passes on.

        With ``crash`` the batch is lost before it is committed, and done again from what was stored before it.
        """
        given = list(rows)
        if crash:
            before = {place: _copy(stores) for place, stores in self._stores.items()}
            self._run(given)
            self._stores = before
            self.restart()
        passed = self._run(given)
        self.batch += 1
        return passed

    def restart(self) -> None:
        """Forget what is warm: the next batch loads its state from the store."""
        self._warm.clear()

    def stores(self, name: str) -> dict[int, MemoryStore]:
        """What a map of a stage holds, for each key."""
        return {key: stores[name] for (_, key), stores in self._stores.items() if name in stores}

    def _run(self, rows: list[Any]) -> list[Any]:
        with numbered(self.batch):
            for number, stage in enumerate(self._stages):
                rows = [out for key, mine in self._divide(rows).items() for out in self._step(number, stage, key, mine)]
        return rows

    def _step(self, number: int, stage: Stage[Any], key: int, rows: list[Any]) -> list[Any]:
        place = (number, key)
        known = place in self._stores
        stores = self._stores.setdefault(place, {name: MemoryStore() for name in stage.maps})
        maps: list[Store] = list(stores.values())
        stage.key = key
        if place not in self._warm:
            self._warm[place] = stage.load(maps) if known else stage.fresh()
        return stage.step(self._warm[place], rows, maps)


def _copy(stores: dict[str, MemoryStore]) -> dict[str, MemoryStore]:
    return {name: MemoryStore(store) for name, store in stores.items()}
