"""State kept warm between batches, for whichever Python worker of the machine gets the next one.

What makes that safe is a mark: every batch writes a new one to Spark's state store and leaves it beside the warm state.
Warm state is used only if its mark is the one the store holds, that is, if the store's last committed batch is the one
that left it; after a crash, a retry or a move to another machine it is not, and the state is read from the store. A
worker takes the mark away before it touches anything, so what a killed worker leaves half done is never used: not even
by the worker that left it, which still has the same memory mapped.
"""

from __future__ import annotations

import fcntl
import pickle
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from slipstream._runtime import shared_arrays
from slipstream._tools import temporary

#: what follows the name of the driver's folder in the names of its engines' folders
WARM = "warm"
_engines = count()

#: place -> (mark, state, whether nobody else could find it), of this process
_here: dict[Path, tuple[str, Any, bool]] = {}


@contextmanager
def engine() -> Iterator[str]:
    """A name for one start of an engine, given by its driver; on every machine its workers share a folder by it."""
    name = f"{temporary.folder().name}-{WARM}-{next(_engines)}"
    place = temporary.join(shared_arrays.root(), name)
    try:
        yield name
    finally:
        temporary.release(place)


class Kept:
    """The warm state at one place, while its lock is held."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._card = place / "card"

    def take(self, mark: str | None) -> Any | None:
        """The state that the batch with this mark left, if it is still there; nobody else will find it then."""
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

    def leave(self, mark: str, state: Any) -> None:
        """Leave the state of a batch for the next one."""
        aside, hidden = self._card.with_suffix(".aside"), False
        try:
            with aside.open("wb") as card:
                pickle.dump(mark, card)
                pickle.dump(state, card, protocol=pickle.HIGHEST_PROTOCOL)
            aside.rename(self._card)
        except OSError:
            # no room: only this worker has it
            aside.unlink(missing_ok=True)
            hidden = True
        _here[self._place] = (mark, state, hidden)


@contextmanager
def held(engine: str, stage: str, key: int) -> Iterator[Kept]:
    """The warm state of a key, for one batch; its arrays live in shared memory."""
    place = temporary.join(shared_arrays.root(), engine) / f"{stage}-{key}"
    place.mkdir(mode=0o700, exist_ok=True)
    with (place / "lock").open("w") as lock, shared_arrays.home(place):
        # a task that Spark has given up may still be at it
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield Kept(place)
