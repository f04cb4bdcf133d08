"""What boxes need to emit tuples when the input has ended: the last arrival, after which they are placed."""

from __future__ import annotations

import numpy as np

from slipstream._network.boxes.operators import KeyedTable, State
from slipstream._network.flow import Train

#: the name of this state among that of a box
LAST = "last arrival"
_ARRIVAL, _ARRIVED = "arrival", "arrived"


def fresh_last() -> KeyedTable:
    """Return the state before the first tuple."""
    return KeyedTable({}, {_ARRIVAL: ("integer", 0), _ARRIVED: ("integer", 0)})


def note_last(state: State, tuples: Train) -> None:
    """Record the arrival of the last of some tuples in order."""
    table = state[LAST]
    row = table.rows({"": np.zeros(1)})
    if len(tuples):
        table[_ARRIVAL][row] = tuples.order[-1, 0]
        table[_ARRIVED][row] = tuples.ts[-1]


def after_last(state: State, width: int, count: int) -> Train:
    """Return a train of ``count`` tuples without columns that leave after the last arrival."""
    table = state[LAST]
    row = table.rows({"": np.zeros(1)})
    order = np.zeros((count, width), np.int64)
    order[:, 0] = table[_ARRIVAL][row]
    return Train(np.full(count, table[_ARRIVED][row[0]]), np.zeros(count, np.int64), order, {})
