"""Progress of long work: one line when something slow begins, and a bar on a terminal, but not in a pipe or a log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from slipstream._tools.processes.background import Ended, background_task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: People read standard error; scripts read standard output.
console = Console(stderr=True)
#: what is said is also logged, for those who keep a log
LOGGER = "slipstream"

#: printed while kernels are not yet in Numba's cache, that is, after an installation
COMPILING = "Compiling kernels (first time only) ..."

Advance = Callable[[int], None]


def _make_progress() -> Progress:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console, disable=not console.is_terminal, transient=True)


@contextmanager
def bar(what: str, total: int) -> Iterator[Advance]:
    """Show a bar while the block runs; yields a function that advances it by n.

    >>> with bar("expressways", 2) as advance:
    ...     advance(2)
    """
    with _make_progress() as progress:
        task = progress.add_task(what, total=total)
        yield lambda n: progress.advance(task, n)


_is_silent = ContextVar("_is_silent", default=False)


@contextmanager
def silent() -> Iterator[None]:
    """Say nothing while the block runs: a library does not talk on its own account.

    >>> with silent():
    ...     say("Starting Spark ...")
    """
    before = _is_silent.set(True)
    try:
        yield
    finally:
        _is_silent.reset(before)


_listeners: list[Callable[[str], None]] = []


@contextmanager
def heard_by(listener: Callable[[str], None]) -> Iterator[None]:
    """Pass on what is said while the block runs, also what is said silently.

    >>> heard = []
    >>> with heard_by(heard.append), silent():
    ...     say("[yellow]note:[/] 3 cars")
    >>> heard
    ['note: 3 cars']
    """
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def say(text: str) -> None:
    """Print a message to the terminal; it never mixes with a command's result."""
    for listener in tuple(_listeners):
        listener(Text.from_markup(text).plain)
    if _is_silent.get():
        return
    console.print(text, highlight=False, soft_wrap=True)
    if logging.getLogger().handlers:
        logging.getLogger(LOGGER).info(Text.from_markup(text).plain)


_begun: set[str] = set()


def say_once(text: str) -> None:
    """Print a message about slow work at most once per process."""
    if text not in _begun:
        _begun.add(text)
        say(text)


@contextmanager
def task_bar(spark: SparkSession, what: str) -> Iterator[None]:
    """Show how many Spark tasks have completed while the block runs; silent where :func:`bar` is."""
    if not console.is_terminal:
        yield
        return
    with background_task(lambda ended: _watch(spark, what, ended)):
        yield


def _watch(spark: SparkSession, what: str, ended: Ended) -> None:
    """Follow the running stages with one bar for the tasks of all stages seen so far."""
    tracker = spark.sparkContext.statusTracker()
    seen: dict[int, tuple[int, int]] = {}
    with _make_progress() as progress:
        task = progress.add_task(what, total=None)
        while not ended.wait(0.25):
            for stage in {*tracker.getActiveStageIds(), *seen}:
                if info := tracker.getStageInfo(stage):
                    seen[stage] = (info.numCompletedTasks, info.numTasks)
            done, total = (sum(counts) for counts in zip(*seen.values(), strict=True)) if seen else (0, None)
            progress.update(task, completed=done, total=total)
