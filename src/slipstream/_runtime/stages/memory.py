"""An in-memory host: runs the stages of a job batch by batch without Spark, with their state in dictionaries.

Spark decides when a stage finds its state cached, when it must load it, and when it must repeat a batch. The host
leaves that to its caller, so that a test can do each of these at any batch. The stages are the ones that run in Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from slipstream._runtime.stages.stage import Stage, with_batch_number
from slipstream._runtime.state.store import MemoryStore, Store

#: the stage's number, and the key
_Place = tuple[int, int]


def group_by_key(rows: Iterable[Any]) -> dict[int, list[Any]]:
    """Group Spark rows or named tuples by their column ``key``; keys are sorted, rows keep their order."""
    found: dict[int, list[Any]] = {}
    for row in rows:
        found.setdefault(int(row.key), []).append(row)
    return dict(sorted(found.items()))


def put_under_one_key(rows: Iterable[Any]) -> dict[int, list[Any]]:
    """Put all rows under one key, for stages that take data frames."""
    return {0: list(rows)}


class Host:
    """Runs stages in sequence; what one emits goes to the next, by key.

    >>> from slipstream._runtime.stages.stage import Chain
    >>> Host([Chain("none", [])]).run([])
    []
    """

    def __init__(
        self, stages: Sequence[Stage[Any]], *, divide: Callable[[Iterable[Any]], dict[int, list[Any]]] = group_by_key
    ) -> None:
        self._stages = tuple(stages)
        self._divide = divide
        self._warm: dict[_Place, Any] = {}
        self._stores: dict[_Place, dict[str, MemoryStore]] = {}
        self.batch = 0  # the next one

    def run(self, rows: Iterable[Any], *, crash: bool = False) -> list[Any]:
        """Run a batch and return what the last stage emits.

        With ``crash`` the batch is lost before it is committed, and repeated from the state stored before it.
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
        """Drop cached state: the next batch loads it from the store."""
        self._warm.clear()

    def stores(self, name: str) -> dict[int, MemoryStore]:
        """The contents of a stage's map, per key."""
        return {key: stores[name] for (_, key), stores in self._stores.items() if name in stores}

    def _run(self, rows: list[Any]) -> list[Any]:
        with with_batch_number(self.batch):
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
