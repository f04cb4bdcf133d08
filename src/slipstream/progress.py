"""Progress on long work: a bar on a terminal, silence in a pipe or a log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

#: People read standard error; scripts read standard output.
console = Console(stderr=True)

Advance = Callable[[int], None]


@contextmanager
def bar(what: str, total: int) -> Iterator[Advance]:
    """Show a bar while the block runs; yields a function that advances it by n.

    >>> with bar("expressways", 2) as advance:
    ...     advance(2)
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda n: progress.advance(task, n)


def say(text: str) -> None:
    """Tell the person at the terminal something; never mixed into a command's result."""
    console.print(text, highlight=False)
