"""The running kernel: aggregates over all tuples of a group so far, stored as one or two numbers each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slipstream._network.boxes.windows.kernels import (
    ARRIVAL,
    TRIGGER,
    TS,
    Numbers,
    Released,
    State,
    choose_kind,
    choose_kinds,
)
from slipstream._network.boxes.windows.window_functions import NULL_INTEGER, Function, nulls
from slipstream._network.state.groups import Columns, Groups
from slipstream._network.state.tracked_tables import FLOAT, INTEGER
from slipstream._tools.numba_tools import Bools, Longs, compiled

_SUM, _LEAST, _MOST = 0, 1, 2
_WAYS = {"sum": _SUM, "avg": _SUM, "min": _LEAST, "max": _MOST}


@compiled
def count_up(codes: Longs, known: Bools, counts: Longs) -> Longs:
    """How many known values its group has had at each tuple; ``counts`` learns of them."""
    found = np.empty(codes.size, np.int64)
    for i in range(codes.size):
        counts[codes[i]] += known[i]
        found[i] = counts[codes[i]]
    return found


@compiled
def fold(codes: Longs, values: Numbers, known: Bools, counts: Longs, kept: Numbers, way: int) -> Numbers:
    """The sum, least or greatest of its group at each tuple; ``counts`` is how many values there were at each."""
    found = np.empty_like(values)
    for i in range(codes.size):
        code = codes[i]
        if known[i]:
            if counts[i] == 1:
                kept[code] = values[i]
            elif way == _SUM:
                kept[code] += values[i]
            elif way == _LEAST:
                kept[code] = min(kept[code], values[i])
            else:
                kept[code] = max(kept[code], values[i])
        found[i] = kept[code]
    return found


@dataclass(frozen=True)
class RunningKernel:
    """Input: group columns, the functions' arguments, and everything the tuple carries."""

    types: Mapping[str, str] = field(repr=False)
    group_by: tuple[str, ...]
    payload: tuple[str, ...]
    functions: tuple[Function, ...]

    def fresh(self) -> State:
        """No groups."""
        known: dict[str, tuple[str, Any]] = {}
        for function in self.functions:
            known[f"count {function.name}"] = (INTEGER, 0)
            if function.call in _WAYS:
                known[f"value {function.name}"] = (self._choose_kind(function), 0)
        return State(Groups(choose_kinds(self.types, self.group_by), known), ())

    def _choose_kind(self, function: Function) -> str:
        return FLOAT if function.call == "avg" else choose_kind(self.types[function.arguments[0]])

    def step(self, state: State, inputs: Sequence[Columns]) -> Released:
        """Add each tuple to its group, and emit it with the group's aggregates."""
        (new,) = inputs
        groups = state.groups
        codes = groups.codes({name: new[name] for name in self.group_by} | {TS: new[TS]})
        released = {name: new[name] for name in (TS, *self.payload)} | {TRIGGER: new[ARRIVAL]}
        for function in self.functions:
            released[function.name] = self._apply_function(groups, codes, function, new)
        groups.table.touch(codes)
        return released

    def _apply_function(self, groups: Groups, codes: Longs, function: Function, new: Columns) -> Numbers:
        values = new[function.arguments[0]] if function.arguments else codes
        known = ~nulls(values)
        counts = count_up(codes, known, groups.table.values(f"count {function.name}"))
        if function.call not in _WAYS:
            return counts
        values = values.astype(np.float64) if self._choose_kind(function) == FLOAT else values
        kept = groups.table.values(f"value {function.name}")
        found = fold(codes, values, known, counts, kept, _WAYS[function.call])
        if function.call == "avg":
            found = found / np.maximum(counts, 1)
        found[counts == 0] = np.nan if found.dtype.kind == "f" else NULL_INTEGER
        return found
