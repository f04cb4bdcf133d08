"""The order of event time: tuples that are a little late are put in order, those that are too late are rejected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from slipstream._errors import BadInput
from slipstream._network.algebra import Schema
from slipstream._network.boxes.movement.endings import LAST, after_last, fresh_last, note_last
from slipstream._network.boxes.operators import Array, KeyedTable, Operator, RowTable, State, register, require
from slipstream._network.boxes.windows.window_functions import NULL_INTEGER, nulls
from slipstream._network.flow import Train
from slipstream._tools.numba_tools import Bools, Longs, compiled

_WAITING, _CLOCK, _NEWEST, _ARRIVED = "waiting", "clock", "newest", "arrived at"
#: the time before the first tuple; slack can be subtracted from it
_NEVER = NULL_INTEGER // 2


@compiled
def find_newest(time: Longs, before: int) -> Longs:
    """Return the largest time so far at each tuple."""
    out = np.empty_like(time)
    for i in range(time.size):
        before = max(before, time[i])
        out[i] = before
    return out


@compiled
def is_ordered(time: Longs, then: Longs) -> bool:
    """Return whether tuples are sorted by two columns already."""
    for i in range(1, time.size):
        if time[i] < time[i - 1] or (time[i] == time[i - 1] and then[i] < then[i - 1]):
            return False
    return True


def order_of(time: Longs, then: Longs) -> Longs | None:
    """Return the places of tuples in the order of two columns, of equal ones as they came; None if they are in it.

    >>> order_of(np.array([2, 1, 1]), np.array([0, 9, 4])).tolist()
    [2, 1, 0]
    """
    return None if is_ordered(time, then) else np.asarray(np.lexsort((then, time)))


def find_late(time: Longs, slack: int, before: int = _NEVER) -> tuple[Bools, Longs]:
    """Return which tuples are more than ``slack`` behind the newest one so far, and the newest at each.

    >>> find_late(np.array([5, 9, 8, 6]), 2)[0].tolist()
    [False, False, False, True]
    """
    newest = find_newest(time, before)
    return time < newest - slack, newest


@register
@dataclass(frozen=True)
class InOrder(Operator):
    """Passes tuples on in the order of ``time``, of equal times by ``then``; they may be up to ``slack`` late.

    A tuple leaves when no earlier one can come any more: when another's time is more than ``slack`` after it. Tuples
    that are later than that, or have no time, go to the port ``rejects``.
    """

    name = "in_order"
    ports = ("out", "rejects")
    time: str
    then: str
    slack: int = 0

    def outputs(self, tuples: Schema) -> Mapping[str, Schema]:
        """The columns of the input."""
        for column in (self.time, self.then):
            require(tuples, column, "bigint")
        if self.slack < 0:
            raise BadInput("in_order: slack is negative.", hint="Give 0 or more.", code="out-of-range")
        return {"out": tuples, "rejects": tuples}

    def fresh(self, tuples: Schema) -> State:
        """Nothing has come, nothing waits."""
        return {
            _CLOCK: KeyedTable({}, {_NEWEST: ("integer", _NEVER)}),
            _WAITING: RowTable({_ARRIVED: "integer", **tuples}),
            LAST: fresh_last(),
        }

    def step(self, state: State, tuples: Train) -> Mapping[str, Train]:
        """Pass on what can no longer be preceded; keep the rest."""
        if not len(tuples):
            return {}
        note_last(state, tuples)
        clock = state[_CLOCK]
        row = clock.rows({"": np.zeros(1)})
        time = tuples[self.time]
        late, newest = find_late(time, self.slack, int(clock[_NEWEST][row[0]]))
        clock[_NEWEST][row] = newest[-1:]
        refused = late | nulls(time)
        taken = tuples.take(~refused) if refused.any() else tuples
        old, new = self._sift(state[_WAITING], taken, int(newest[-1]) - self.slack)
        return {"out": self._release(old, new, tuples, newest), "rejects": tuples.take(refused)}

    def finish(self, state: State, width: int) -> Mapping[str, Train]:
        """Pass on everything that waits."""
        waiting = state[_WAITING]
        old = waiting.pop(waiting.slots())
        count = old[self.time].size
        like = after_last(state, width, count)
        places = order_of(old[self.time], old[self.then])
        columns = old if places is None else {name: values[places] for name, values in old.items()}
        return {"out": _like(like, columns)}

    def _sift(self, waiting: RowTable, taken: Train, until: int) -> tuple[dict[str, Array], dict[str, Array]]:
        """Return the tuples before ``until``, those that waited and those that came; the others wait."""
        slots = waiting.slots()
        old = waiting.pop(slots[waiting.table.take(self.time, slots) < until])
        now = taken[self.time] < until
        left = taken.take(~now)
        waiting.add({_ARRIVED: left.ts, **left.columns})
        passed = taken.take(now)
        return old, {_ARRIVED: passed.ts, **passed.columns}

    def _release(self, old: dict[str, Array], new: dict[str, Array], tuples: Train, newest: Longs) -> Train:
        """Return tuples in order, each by the arrival after which none can precede it."""
        columns = {name: np.concatenate([old[name], new[name]]) for name in new} if old[self.time].size else new
        places = order_of(columns[self.time], columns[self.then])
        if places is not None:
            columns = {name: values[places] for name, values in columns.items()}
        triggers = np.searchsorted(newest, columns[self.time] + self.slack, side="right")
        return _like(Train(tuples.ts, tuples.shed[triggers], tuples.order[triggers], {}), columns)


def _like(triggers: Train, columns: dict[str, Array]) -> Train:
    """Return tuples with their own arrival times, at the places of others."""
    own = {name: values for name, values in columns.items() if name != _ARRIVED}
    return Train(columns[_ARRIVED], triggers.shed, triggers.order, own)
