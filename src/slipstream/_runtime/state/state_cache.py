"""A cache of state between batches, for whichever Python worker of the machine gets the next one.

A mark makes this safe: every batch writes a new one to Spark's state store and stores it with the cached state. Cached
state is used only if its mark equals the store's, that is, if the last committed batch is the one that cached it. After
a crash, a retry or a move to another machine it does not, and the state is read from the store. A worker removes the
mark before it changes anything, so the half-done work of a killed worker is never used: not even by the worker that
did it, which still has the same memory mapped.
"""

from __future__ import annotations

import fcntl
import pickle
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from slipstream._runtime.state import shared_arrays
from slipstream._tools.files import temporary

#: follows the name of the driver's folder in the names of its jobs' folders
WARM = "warm"
_engines = count()

#: place -> (mark, state, whether only this process has it)
_here: dict[Path, tuple[str, Any, bool]] = {}


@contextmanager
def open_cache() -> Iterator[str]:
    """Yield a name for one start of a job, chosen by its driver; on every machine its workers share a folder by it."""
    name = f"{temporary.folder().name}-{WARM}-{next(_engines)}"
    place = temporary.join_shared(shared_arrays.root(), name)
    try:
        yield name
    finally:
        temporary.release(place)


class CachedState:
    """The cached state of one key, while its lock is held."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._card = place / "card"

    def take(self, mark: str | None) -> Any | None:
        """Remove and return the state cached by the batch with this mark, if it is still there."""
        mark_here, mine, hidden = _here.pop(self._place, (None, None, False))
        mine = mine if mark is not None and mark_here == mark else None
        state = mine if hidden else None
        with suppress(FileNotFoundError), self._card.open("rb") as card:
            self._card.unlink()
            if pickle.load(card) == mark:
                state = pickle.load(card) if mine is None else mine
        if state is None:
            for left in self._place.glob("[!l]*"):
                shared_arrays.drop(left)
        return state

    def put(self, mark: str, state: Any) -> None:
        """Cache the state of a batch for the next one."""
        aside, hidden = self._card.with_suffix(".aside"), False
        try:
            with aside.open("wb") as card:
                pickle.dump(mark, card)
                pickle.dump(state, card, protocol=pickle.HIGHEST_PROTOCOL)
            aside.rename(self._card)
        except OSError:
            # no room in shared memory: only this worker has it
            aside.unlink(missing_ok=True)
            hidden = True
        _here[self._place] = (mark, state, hidden)


@contextmanager
def lock_state(engine: str, stage: str, key: int) -> Iterator[CachedState]:
    """Lock the cached state of a key for one batch; its arrays live in shared memory."""
    place = temporary.join_shared(shared_arrays.root(), engine) / f"{stage}-{key}"
    place.mkdir(mode=0o700, exist_ok=True)
    with (place / "lock").open("w") as lock, shared_arrays.arrays_in(place):
        # a task that Spark has abandoned may still be running
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield CachedState(place)
