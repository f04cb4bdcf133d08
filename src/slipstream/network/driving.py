"""A network from its start to the end of its input: Spark first, then the tuples, with people in control throughout."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from slipstream.network import shedding
from slipstream.network.execution import ALL, Execution
from slipstream.network.failures import query_errors
from slipstream.progress import say
from slipstream.runtime.metrics import recorded
from slipstream.runtime.status import READY, RUNNING, Status, reported

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


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
) -> None:
    """Run a network until its input ends: a recording at its own pace, feeds as they come.

    A batch takes at most ``trains`` of each recorded source. ``watch`` is called with the number of each batch that was
    delivered, ``rest`` between two looks: it says whether to leave now. With a ``controller`` load is shed while
    outputs are late.
    """
    execution.watch = watch
    with reported(execution.folder, execution.source) as status, query_errors(execution.network, execution.folder):
        query = execution.start(spark, tables, trains=trains)
        try:
            with recorded(query, execution.folder):
                _follow(query, execution, controller, status, rest)
        finally:
            query.stop()
        query.awaitTermination()


def _follow(
    query: StreamingQuery,
    execution: Execution,
    controller: shedding.Controller | None,
    status: Status,
    rest: Callable[[], bool],
) -> None:
    execution.warm_up(query)
    status.enter(READY)
    if execution.feeds:
        say(f"Ready: {execution.network.name} into {execution.folder}.")
    execution.connect(query)
    status.enter(RUNNING)
    left = False
    while not left and query.isActive and execution.is_coming(query):
        if controller:
            _shed(execution, controller)
        left = rest()
    if not left and query.isActive:
        query.processAllAvailable()


def _shed(execution: Execution, controller: shedding.Controller) -> None:
    entries = execution.monitor.entries()
    if execution.feeds:
        controller.rates = shedding.rates_of(entries, controller.rates)
    shares = controller.adjust(entries)
    if shares is not None:
        execution.shares = shares
