"""The order-sensitive boxes as vectorised kernels: one micro-batch of tuples in, the tuples it releases out.

A kernel keeps its state in tables and ignores batch boundaries, so its output is the same however the stream is cut.
Tuples are columns in arrival order, with ``ts`` in addition to the box's own; the result has for each tuple the
``trigger``, the position in the batch of the arrival that released it.

All four boxes use one number per group, the *horizon*: the (slack + 1)-th largest order value seen. A tuple below it is
out of order; a window that ends at or below it can never change again.

This module has what they share, with BSort and Join; the two with windows are in ``aggregate`` and ``resample``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from slipstream._network.boxes.windows.window_functions import NULL_INTEGER, Function, Sorted, Windows, apply, nulls
from slipstream._network.state.groups import Columns, Groups, Waiting, hashes
from slipstream._network.state.partners import Partners, pair_all
from slipstream._network.state.tracked_tables import FLOAT, INTEGER, TEXT, StateTable
from slipstream._tools.numba_tools import Bools, Longs, compiled

Numbers: TypeAlias = npt.NDArray[Any]
Released: TypeAlias = dict[str, Numbers]

TS = "ts"
TRIGGER = "trigger"
#: of a box that may run in several partitions, although an arrival releases tuples in all of them: the place of a tuple
#: among those of its trigger, which no partition need hear of from another; below ``PLACES``
PLACE = "place"
PLACES = 1 << 52
ARRIVAL = "arrival"
#: the number of the arrival that caused a tuple, for boxes that use it
INSTANT = "instant"
ON = "on"

LAST = np.iinfo(np.int64).max


class StatePart(Protocol):
    """A part of a box's state that is stored in a table."""

    @property
    def table(self) -> StateTable:
        """The rows."""

    def restore(self) -> None:
        """Rebuild what is derived from a loaded table."""


@dataclass
class State:
    """The state of a box."""

    groups: Groups
    parts: tuple[StatePart, ...]

    @property
    def tables(self) -> list[StateTable]:
        """All tables to be stored."""
        return [self.groups.table, *(part.table for part in self.parts)]

    def restore(self) -> None:
        """Rebuild what is derived from loaded tables."""
        self.groups.restore()
        for part in self.parts:
            part.restore()


class Kernel(Protocol):
    """An order-sensitive box at run time."""

    def fresh(self) -> State:
        """The state before the first tuple."""

    def step(self, state: State, inputs: Sequence[Columns]) -> Released:
        """Process one batch: update the state and return what the batch released."""


# --- horizons


@compiled
def compute_horizons(groups: Longs, values: Numbers, tops: Numbers) -> tuple[Numbers, Numbers]:
    """The horizon of its group before and after each arrival; ``tops[g]`` holds the largest values, ascending."""
    before, after = np.empty_like(values), np.empty_like(values)
    size = tops.shape[1]
    for i in range(values.size):
        top = tops[groups[i]]
        before[i] = top[0]
        if values[i] > top[0]:
            k = 0
            while k + 1 < size and top[k + 1] < values[i]:
                top[k] = top[k + 1]
                k += 1
            top[k] = values[i]
        after[i] = top[0]
    return before, after


def choose_kind(type_: str) -> str:
    """How a column of a type is stored."""
    return type_ if type_ in (FLOAT, TEXT) else INTEGER


def choose_kinds(types: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """How some columns are stored."""
    return {name: choose_kind(types[name]) for name in names}


def make_top_columns(name: str, slack: int, type_: str) -> dict[str, tuple[str, Any]]:
    """The columns of a group's largest values; see ``horizons``."""
    lowest: Any = -np.inf if type_ == FLOAT else NULL_INTEGER
    return {f"{name} {i}": (choose_kind(type_), lowest) for i in range(slack + 1)}


@dataclass(frozen=True)
class Horizon:
    """A group's largest values as columns of its table."""

    name: str
    slack: int
    type: str

    @property
    def columns(self) -> dict[str, tuple[str, Any]]:
        """The columns and their initial values."""
        return make_top_columns(self.name, self.slack, self.type)

    def of(self, groups: Groups) -> Numbers:
        """The largest values of each group, ascending: the first is the horizon."""
        return groups.table.block(f"{self.name} 0", self.slack + 1, choose_kind(self.type))

    def pass_by(self, groups: Groups, codes: Longs, values: Numbers) -> tuple[Bools, Numbers]:
        """Which arrivals are in order, and the horizon of its group after each."""
        before, after = compute_horizons(codes, values, self.of(groups))
        groups.table.touch(codes)
        # a tuple without an order attribute has no place in the order
        return (values >= before) & ~nulls(values), after


# --- rows of groups


@compiled
def sort_groups(order: Longs, starts: Longs, values: Numbers) -> Longs:
    """Sort the rows of each group by value; an insertion sort, as they are almost sorted."""
    found = order.copy()
    for group in range(starts.size - 1):
        for i in range(starts[group] + 1, starts[group + 1]):
            row, k = found[i], i
            while k > starts[group] and values[found[k - 1]] > values[row]:
                found[k] = found[k - 1]
                k -= 1
            found[k] = row
    return found


@compiled
def find_between(codes: Longs, low: Numbers, high: Numbers, starts: Longs, values: Numbers) -> tuple[Longs, Longs]:
    """The range of places in sorted ``values`` of each row's own code that lie in [low, high]."""
    first, last = np.empty(codes.size, np.int64), np.empty(codes.size, np.int64)
    for i in range(codes.size):
        a, b = starts[codes[i]], starts[codes[i] + 1]
        first[i] = a + np.searchsorted(values[a:b], low[i], "left")
        last[i] = a + np.searchsorted(values[a:b], high[i], "right")
    return first, last


@dataclass(frozen=True)
class WindowResults:
    """The tuples that a box emits for windows: columns of the group, the window's position, and its functions."""

    group_by: tuple[str, ...]
    column: str
    functions: tuple[Function, ...]

    @property
    def kept(self) -> tuple[str, ...]:
        """The columns of a tuple that are kept until its windows close."""
        return (TS, ON, *dict.fromkeys(name for function in self.functions for name in function.arguments))

    def of(
        self, groups: Groups, codes: Longs, rows: Sorted, first: Longs, last: Longs, at: Numbers, trigger: Longs
    ) -> Released:
        """One tuple per window of ``rows``, from ``first`` to before ``last``; ``codes`` are the windows' groups.

        Its arrival time is that of the oldest tuple in the window.
        """
        windows = Windows((), first, last, at)
        result = {name: groups.table.take(name, codes) for name in self.group_by} | {self.column: at}
        result |= {function.name: apply(function, rows, windows) for function in self.functions}
        result[TS] = windows.reduce(np.minimum, rows.column(TS))
        return result | {TRIGGER: trigger}


def find_lowest(values: Numbers) -> Any:
    """The horizon of a group that has passed nothing yet."""
    return NULL_INTEGER if values.dtype.kind == "i" else -np.inf


def to_exact(number: float) -> float:
    """Convert whole floats to integers, so that 64-bit order values keep all their digits."""
    return int(number) if float(number).is_integer() else number


def subtract(values: Numbers, size: float) -> Numbers:
    """``values - size`` that stays at the bottom for groups that have passed nothing yet."""
    if values.dtype.kind == "i":
        return np.where(values == NULL_INTEGER, NULL_INTEGER, values - to_exact(size))
    return values - size


def concat_column(table: StateTable, slots: Longs, new: Columns, name: str, which: Longs | None = None) -> Numbers:
    """A column of rows that were kept, with the new ones, or some of these, after them."""
    added = new[name] if which is None or which.size == new[name].size else new[name][which]
    return np.concatenate([table.take(name, slots), added]) if slots.size else added


# --- BSort


@compiled
def find_evictions(groups: Longs, values: Numbers, buffers: Longs) -> Longs:
    """The row that each arrival evicts from its group's buffer of slack + 1; -1 for none.

    ``buffers`` is scratch space, a row per group that begins with its length; of equal rows the earliest goes first.
    """
    size = buffers.shape[1] - 1
    out = np.full(values.size, -1, dtype=np.int64)
    for i in range(values.size):
        held = buffers[groups[i]]
        held[0] += 1
        held[held[0]] = i
        if held[0] == size:
            least = 1
            for k in range(2, size + 1):
                if values[held[k]] < values[held[least]]:
                    least = k
            out[i] = held[least]
            for k in range(least, size):
                held[k] = held[k + 1]
            held[0] -= 1
    return out


@dataclass(frozen=True)
class BSortKernel:
    """Input: the order attribute ``on``, group columns, and all columns of the tuple."""

    types: Mapping[str, str] = field(repr=False)
    slack: int
    group_by: tuple[str, ...]
    payload: tuple[str, ...]

    def fresh(self) -> State:
        """Empty buffers."""
        groups = Groups(choose_kinds(self.types, self.group_by), lists=("rows",))
        return State(groups, (Waiting(groups, "rows", choose_kinds(self.types, (TS, ON, *self.payload))),))

    def step(self, state: State, inputs: Sequence[Columns]) -> Released:
        """Buffer the new tuples, and release one for each that finds its group's buffer full."""
        (new,), (waiting,) = inputs, state.parts
        assert isinstance(waiting, Waiting)
        codes = state.groups.codes(new)
        touched, local = state.groups.distinct(codes)
        slots, owner = waiting.of(touched)
        buffers = np.zeros((touched.size, self.slack + 2), dtype=np.int64)
        out = find_evictions(np.concatenate([owner, local]), concat_column(waiting.table, slots, new, ON), buffers)
        triggers = np.flatnonzero(out >= 0)
        gone = out[triggers]
        released = {name: concat_column(waiting.table, slots, new, name)[gone] for name in (TS, *self.payload)}
        kept = np.ones(out.size, dtype=bool)
        kept[gone] = False
        waiting.keep(touched, slots, kept[: slots.size])
        stay = kept[slots.size :]
        waiting.add(codes[stay], {name: new[name][stay] for name in (TS, ON, *self.payload)})
        return released | {TRIGGER: triggers - slots.size}


# --- Join


@dataclass(frozen=True)
class JoinKernel:
    """Inputs: ``on``, group columns, the columns the predicate equates (``keys``), and all columns of the tuples."""

    types: tuple[Mapping[str, str], Mapping[str, str]] = field(repr=False)
    slack: tuple[int, int]
    group_by: tuple[str, ...]
    keys: tuple[str, ...]
    size: float
    payload: tuple[tuple[str, ...], tuple[str, ...]]

    def fresh(self) -> State:
        """No tuples."""
        known = self._horizons[0].columns | self._horizons[1].columns
        left, right = (choose_kinds(side, self.group_by) for side in self.types)
        keys = {name: FLOAT if FLOAT in (left[name], right[name]) else left[name] for name in self.group_by}
        groups = Groups(keys, known, ("left", "right"))
        sides = (
            Partners(groups, name, choose_kinds(types, (TS, ON, *payload)))
            for name, types, payload in zip(("left", "right"), self.types, self.payload, strict=True)
        )
        return State(groups, tuple(sides))

    @property
    def _horizons(self) -> tuple[Horizon, Horizon]:
        left, right = self.types
        return Horizon("left", self.slack[0], left[ON]), Horizon("right", self.slack[1], right[ON])

    def step(self, state: State, inputs: Sequence[Columns]) -> Released:
        """Pair each new tuple that is in order with the partners that arrived before it."""
        left, right = state.parts
        assert isinstance(left, Partners)
        assert isinstance(right, Partners)
        inputs = [self._align(side) for side in inputs]
        touched, added = [], []
        for side, mine, horizon in zip((left, right), inputs, self._horizons, strict=True):
            codes = state.groups.codes(mine)
            in_order = np.flatnonzero(horizon.pass_by(state.groups, codes, mine[ON])[0])
            keys = hashes([mine[name][in_order] for name in self.keys], in_order.size)
            taken = {name: mine[name][in_order] for name in (TS, ON, *self.payload[side is right])}
            added.append((mine[ARRIVAL][in_order], side.add(codes[in_order], keys, taken)))
            touched.append(codes)
        one, two, trigger = pair_all(left, right, added[0], added[1], to_exact(self.size))
        released = {name: left.table.take(name, one) for name in self.payload[0]}
        released |= {name: right.table.take(name, two) for name in self.payload[1]}
        released[TS] = np.minimum(left.table.take(TS, one), right.table.take(TS, two))
        groups = state.groups.distinct(np.concatenate(touched))[0]
        for side, partner in zip((left, right), reversed(self._horizons), strict=True):
            side.expire(groups, subtract(partner.of(state.groups)[groups, 0], self.size))
        return released | {TRIGGER: trigger}

    def _align(self, columns: Columns) -> Columns:
        """Convert columns that are compared between the sides to one type: an integer can equal a float."""
        mixed = [
            name
            for name in (*self.group_by, *self.keys)
            if {choose_kind(side[name]) for side in self.types} == {INTEGER, FLOAT}
        ]
        return {name: values.astype(np.float64) if name in mixed else values for name, values in columns.items()}
