"""Stages that are loaded where they work: Spark starts a query sooner.

Before its first batch, Spark starts a Python process for each operator, which only asks for the names of its state. A
stage would bring everything that it uses into that process, which takes a second or more. So Spark gets it packed, with
the number of its stores, and the tasks unpack it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from slipstream._runtime.state.store import StateMap

if TYPE_CHECKING:
    from slipstream._runtime.stages.stage import Stage


class DeferredStage(StatefulProcessor):
    """A packed stage, as Spark gets it."""

    def __init__(self, stage: Stage[Any]) -> None:
        self._packed: bytes = cloudpickle.dumps(stage)  # type: ignore[no-untyped-call]
        self._stores = len(stage.maps)

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state of a partition."""
        self._saved = StateMap(handle, self._stores)
        self._stage: Stage[Any] | None = None

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        """Process one batch of one key."""
        if self._stage is None:
            stage: Stage[Any] = cloudpickle.loads(self._packed)
            stage.use(self._saved)
            self._stage = stage
        return self._stage.handleInputRows(key, rows, timerValues)

    def close(self) -> None:
        """Nothing to close."""
