"""Work beside work: something that goes on in a thread while a block runs, and ends with it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: ends the work when it is set; ``wait(seconds)`` is how to pause
Ended = threading.Event


@contextmanager
def beside(work: Callable[[Ended], None]) -> Iterator[None]:
    """While the block runs, so does ``work``; it is told when the block has ended, and waited for.

    >>> done = []
    >>> with beside(lambda ended: done.append(ended.wait(60))):
    ...     pass
    >>> done
    [True]
    """
    ended = Ended()
    worker = threading.Thread(target=work, args=(ended,), daemon=True)
    try:
        worker.start()
        yield
    finally:
        ended.set()
        if worker.is_alive():  # not if its very start was interrupted
            worker.join()
