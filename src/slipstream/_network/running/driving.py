"""Runs a network to the end of its input; it can be paused, stepped and stopped meanwhile."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstream._io.outputs import COMPACT_EVERY, Tail
from slipstream._network.quality import shedding
from slipstream._network.quality.monitor import delay_limits, longest_delays, monitor_entries
from slipstream._network.running.failures import query_errors
from slipstream._network.running.run_folder import ALL, KIND, Execution
from slipstream._runtime import job
from slipstream._runtime.watching.following import FollowedJob

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

#: the most batches by which load is judged
_RECENT = 1000


def _pause() -> bool:
    time.sleep(0.05)
    return False


def drive(
    spark: SparkSession,
    execution: Execution,
    tables: Mapping[str, DataFrame] | None = None,
    *,
    controller: shedding.Controller | None = None,
    trains: int = ALL,
    watch: Callable[[int], None] = lambda _: None,
    rest: Callable[[], bool] = _pause,
    compact_every: int = COMPACT_EVERY,
    again: str = "",
) -> None:
    """Run a network until its input ends: a recording at its own pace, feeds as they arrive.

    A batch has at most ``trains`` of each recorded source. ``watch`` is called with the number of each delivered batch,
    ``rest`` between two polls: it returns whether to stop. With a ``controller``, load is shed while outputs are late.
    ``again`` is the hint on how to resume, if it is not by `network run`.
    """
    execution.watch = watch
    life = _NetworkLife(execution, controller, rest, again)
    start = partial(execution.start, spark, tables, trains=trains)
    job.run(execution.folder, life, start, compact_every=compact_every)


def follow(spark: SparkSession, execution: Execution, tables: Mapping[str, DataFrame] | None = None) -> None:
    """Run an attached query on what passes its connection point, until it is stopped."""
    job.run(execution.folder, _AttachedLife(execution), lambda: execution.start(spark, tables, trains=ALL))


class _NetworkLife(job.Life):
    """The life cycle of a network: it reads feeds that are connected when it is warm, or trains that are released."""

    kind = KIND

    def __init__(
        self,
        execution: Execution,
        controller: shedding.Controller | None,
        rest: Callable[[], bool],
        again: str = "",
    ) -> None:
        self._execution, self._controller, self._rest, self._again = execution, controller, rest, again
        self._journal = Tail(execution.folder, from_now_on=True)
        self._recent = deque[dict[str, Any]](maxlen=_RECENT)
        self.source, self.doing, self.pace = execution.source, execution.network.name, execution.pace

    def follow(self, folder: Path) -> FollowedJob:
        """Follow what the network commits; outputs may state how late they may be."""
        return FollowedJob(folder, longest_delays, delay_limits(self._execution.network))

    def is_warm(self, query: StreamingQuery) -> bool:
        """Whether the openings are over."""
        return self._execution.is_warm(query)

    def connect(self, query: StreamingQuery) -> None:
        """Connect the feeds."""
        if self._controller and (shares := self._controller.begin()):
            self._execution.shares = shares
        self._execution.connect(query)

    def has_ended(self, query: StreamingQuery) -> bool:
        """Release the trains that are due; returns whether all input has arrived."""
        if self._controller:
            self.poll(query)
            # what is dropped of a train is decided when it is released, so trains wait for the newest shares
            if self._execution.is_behind(query):
                return False
        return not self._execution.has_more_input(query)

    def poll(self, query: StreamingQuery) -> None:  # noqa: ARG002
        """Adapt load shedding to the batches since the last poll."""
        if self._controller and (fresh := monitor_entries(self._journal.batches())):
            self._recent.extend(fresh)
            _shed(self._execution, self._controller, list(self._recent))

    def finish(self, query: StreamingQuery) -> None:
        """Wait for the released trains, and for what boxes emit at the end."""
        self._execution.end()
        query.processAllAvailable()

    def should_stop(self) -> bool:
        """Wait until the next poll."""
        return self._rest()

    def errors(self, folder: Path) -> AbstractContextManager[None]:
        """Translate errors: the network, its tuples or the machine may be the cause."""
        return query_errors(self._execution.network, folder, self._again)


class _AttachedLife(_NetworkLife):
    """The life cycle of an ad hoc query, whose input has no end."""

    def __init__(self, execution: Execution) -> None:
        super().__init__(execution, None, _pause)

    def has_ended(self, query: StreamingQuery) -> bool:  # noqa: ARG002
        """Never."""
        return False


def _shed(execution: Execution, controller: shedding.Controller, entries: list[dict[str, Any]]) -> None:
    if execution.feeds:
        controller.counts_dropped = True
        controller.rates = shedding.recent_rates(entries, controller.rates)
    shares = controller.adjust(entries)
    if shares is not None:
        execution.shares = shares
