"""The latest kernel: keeps the newest right tuple of each key, and joins left tuples with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slipstream._network.boxes.windows.kernels import (
    ARRIVAL,
    INSTANT,
    TRIGGER,
    TS,
    Released,
    State,
    choose_kind,
    choose_kinds,
)
from slipstream._network.boxes.windows.window_functions import NULL_INTEGER
from slipstream._network.state.groups import Columns, Groups
from slipstream._network.state.tracked_tables import FLOAT, INTEGER, NONE, TEXT
from slipstream._tools.numba_tools import Longs, compiled

_NULL: dict[str, Any] = {INTEGER: NULL_INTEGER, FLOAT: np.nan, TEXT: None}


@compiled
def find_newest(left: Longs, asked: Longs, right: Longs, told: Longs, before: bool, last: Longs) -> Longs:
    """The newest right tuple of each left tuple's key at its arrival, -1 for none; ``last`` is that of each key."""
    found = np.empty(left.size, np.int64)
    k = 0
    for i in range(left.size):
        while k < right.size and (told[k] < asked[i] or (told[k] == asked[i] and not before)):
            last[right[k]] = k
            k += 1
        found[i] = last[left[i]]
    while k < right.size:
        last[right[k]] = k
        k += 1
    return found


@dataclass(frozen=True)
class LatestKernel:
    """Inputs: the columns that are joined on (``keys``), and all columns of the tuples (``payload``)."""

    types: tuple[Mapping[str, str], Mapping[str, str]] = field(repr=False)
    keys: tuple[str, ...]
    before: bool
    payload: tuple[tuple[str, ...], tuple[str, ...]]

    def fresh(self) -> State:
        """No keys."""
        known = {
            name: (choose_kind(self.types[1][name]), _NULL[choose_kind(self.types[1][name])])
            for name in self.payload[1]
        }
        return State(Groups(choose_kinds(self.types[0], self.keys), known), ())

    def step(self, state: State, inputs: Sequence[Columns]) -> Released:
        """Join each left tuple with its newest right one, and keep the newest of each key."""
        left, right = inputs
        table = state.groups.table
        mine, theirs = self._find_codes(state.groups, left, right)
        touched, local = state.groups.distinct(np.concatenate([theirs, mine]))
        last = np.full(touched.size, NONE)
        found = find_newest(
            local[theirs.size :], left[INSTANT], local[: theirs.size], right[INSTANT], self.before, last
        )
        here = np.flatnonzero(found != NONE)
        released = {name: left[name] for name in self.payload[0]} | {TS: left[TS], TRIGGER: left[ARRIVAL]}
        for name in self.payload[1]:
            released[name] = table.take(name, mine)
            released[name][here] = right[name][found[here]]
        told = last != NONE
        for name in self.payload[1]:
            table.put(name, touched[told], right[name][last[told]])
        table.touch(touched[told])
        return released

    def _find_codes(self, groups: Groups, left: Columns, right: Columns) -> tuple[Longs, Longs]:
        """The keys of both sides; a stream joined with itself has them once."""
        mine = groups.codes({name: left[name] for name in self.keys} | {TS: left[TS]})
        if all(left[name] is right[name] for name in (*self.keys, TS)):
            return mine, mine
        return mine, groups.codes({name: right[name] for name in self.keys} | {TS: right[TS]})
