"""Background threads that run while a block does and end with it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: set when the work must end; use ``wait(seconds)`` to pause
Ended = threading.Event


@contextmanager
def background_task(work: Callable[[Ended], None]) -> Iterator[None]:
    """Run ``work`` in a thread while the block runs, then signal it to end and wait for it.

    >>> done = []
    >>> with background_task(lambda ended: done.append(ended.wait(60))):
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
        if worker.is_alive():  # an interrupt may have come before the thread started
            worker.join()
