"""Stages: stateful processors whose state is cached between batches and saved in Spark's state store.

A batch writes its changes to the state store and reads nothing: ``state_cache`` keeps the state for the next batch.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from slipstream._runtime.state import state_cache
from slipstream._runtime.state.store import StateMap, Store
from slipstream._tools.processes.failpoints import failpoint

State = TypeVar("State")


#: the number of the batch, when stages run without Spark
_batch: ContextVar[int | None] = ContextVar("batch", default=None)


@contextmanager
def with_batch_number(batch: int) -> Iterator[None]:
    """Set the number of the batch for stages that run without Spark."""
    token = _batch.set(batch)
    try:
        yield
    finally:
        _batch.reset(token)


def batch_number() -> int:
    """The number of the micro-batch that this task belongs to."""
    if (given := _batch.get()) is not None:
        return given
    context = TaskContext.get()
    number = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
    return int(number) if number is not None else 0


class Stage(StatefulProcessor, Generic[State]):
    """A stage of a job as a stateful processor: get its state, process the batch, save, emit."""

    name: str
    maps: tuple[str, ...]

    def __init__(self, engine: str) -> None:
        self._engine = engine

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state of a partition."""
        self.use(StateMap(handle, len(self.maps)))

    def use(self, saved: StateMap) -> None:
        """Work on the state of a partition."""
        self._saved = saved

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: ARG002, N802, N803
        """Process one batch of one key."""
        return (Row(**hop._asdict()) for hop in self.process(key, rows))

    def process(self, key: Any, rows: Iterator[Any]) -> list[Any]:
        """Get the state from the cache or the store, process the batch, save what changed."""
        self.key = int(key[0])
        with state_cache.lock_state(self._engine, self.name, self.key) as kept:
            state = self._state(kept)
            passed = self.step(state, list(rows), self._saved.stores)
            self._saved.mark = mark = uuid.uuid4().hex
            kept.put(mark, state)
        return passed

    def step(self, state: State, rows: list[Any], stores: list[Store]) -> list[Any]:
        """Process the batch of the current key and save what it changed; returns the output rows."""
        passed = list(self.take(state, rows))
        self.save_between_failpoints(state, stores)
        return passed

    def _state(self, kept: state_cache.CachedState) -> State:
        mark = self._saved.mark
        found: State | None = kept.take(mark)
        if found is not None:
            return found
        if mark is None:
            return self.fresh()
        with self._saved.bulk_read():
            return self.load(self._saved.stores)

    def save_between_failpoints(self, state: State, stores: list[Store]) -> None:
        """Save what changed; tests kill a stage before and after it."""
        failpoint(f"{self.name}.before-save")
        self.save(state, stores)
        failpoint(f"{self.name}.after-save")

    def close(self) -> None:
        """Nothing to close."""

    def fresh(self) -> State:
        """The state before the first batch."""
        raise NotImplementedError

    def load(self, stores: list[Store]) -> State:
        """The state as it was saved."""
        raise NotImplementedError

    def take(self, state: State, rows: list[Any]) -> Iterator[Any]:
        """Process a batch; yields named tuples for the next stage."""
        raise NotImplementedError

    def save(self, state: State, stores: list[Store]) -> None:
        """Write what changed."""
        raise NotImplementedError


class FrameStage(Stage[State]):
    """A stage whose input and output are data frames, many tuples in each."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: ARG002, N802, N803
        """Process one batch of one key."""
        return iter(self.process(key, rows))


class _CombinedStage(Stage[list[Any]]):
    """Stages that share a key in one operator; subclasses define which of them a batch reaches."""

    def __init__(self, engine: str, stages: Sequence[Stage[Any]]) -> None:
        super().__init__(engine)
        self._stages = tuple(stages)
        self._took: list[bool] = []
        self.name = "+".join(stage.name for stage in stages)  # separates the state of a job's operators
        self.maps = tuple(name for stage in stages for name in stage.maps)

    def fresh(self) -> list[Any]:
        """The initial state of each stage."""
        return [stage.fresh() for stage in self._stages]

    def load(self, stores: list[Store]) -> list[Any]:
        """The saved state of each stage; a stage that has had no input has none."""
        parts = self._parts(stores)
        return [
            stage.load(part) if any(True for store in part for _ in store.items()) else stage.fresh()
            for stage, part in zip(self._stages, parts, strict=True)
        ]

    def save(self, state: list[Any], stores: list[Store]) -> None:
        """Save the stages that had input."""
        for stage, mine, part, took in zip(self._stages, state, self._parts(stores), self._took, strict=True):
            if took:
                stage.save_between_failpoints(mine, part)

    def _parts(self, stores: list[Store]) -> list[list[Store]]:
        rest = iter(stores)
        return [[next(rest) for _ in stage.maps] for stage in self._stages]


class Chain(_CombinedStage):
    """Stages in sequence: each processes what the previous one emits.

    An exchange and another operator cost a batch more than small stages do, and with a single partition they gain
    nothing.
    """

    def take(self, state: list[Any], rows: list[Any]) -> Iterator[Any]:
        """Process rows in all stages, as long as there are any."""
        self._took = [False] * len(self._stages)
        for number, stage in enumerate(self._stages):
            if not rows:
                break
            stage.key, self._took[number] = int(rows[0].key), True
            rows = list(stage.take(state[number], rows))
        return iter(rows)


class Parallel(_CombinedStage):
    """Stages in parallel: each processes all rows, and their outputs are concatenated.

    Results computed from the same rows by the same key need no second exchange.
    """

    def take(self, state: list[Any], rows: list[Any]) -> Iterator[Any]:
        """Process the same rows in each stage."""
        self._took = [True] * len(self._stages)
        for stage, mine in zip(self._stages, state, strict=True):
            stage.key = self.key
            yield from stage.take(mine, rows)
