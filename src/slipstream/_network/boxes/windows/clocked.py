"""Aggregate with a clock: the windows of all groups close when a stream passes their end.

The windows of a silent group close, too, and no group waits for its own next tuple. An arrival is one instant: all its
tuples are processed before the clock of that arrival advances, so what other boxes derived from the same arrival is
never late.

Groups may lie in several partitions, all of which get the clock. So that their tuples have one order, those that the
clock releases at once are ordered by window, and then by a hash of their group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from slipstream._network.boxes.windows.aggregate import WindowGrid, find_closing
from slipstream._network.boxes.windows.kernels import (
    ARRIVAL,
    INSTANT,
    ON,
    PLACE,
    PLACES,
    Horizon,
    Numbers,
    Released,
    State,
    WindowResults,
    choose_kinds,
    compute_horizons,
    concat_column,
    sort_groups,
)
from slipstream._network.boxes.windows.window_functions import Function, Sorted, nulls
from slipstream._network.state.groups import GROUP, ORDINAL, Columns, Groups, hashes, sort_by_group
from slipstream._network.state.tracked_tables import INTEGER, StateTable
from slipstream._tools.numba_tools import Longs

#: bits of a place for the hash of a group, and how many windows back have a place of their own
_HASH = 38
_FURTHEST = PLACES // (1 << _HASH) - 1


class Pool:
    """Tuples of all groups that wait for the clock, in the order of arrival."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        self.table = StateTable({GROUP: INTEGER, ORDINAL: INTEGER, **columns})
        self._columns = tuple(columns)
        self._next = 0

    def add(self, codes: Longs, columns: Columns) -> None:
        """Add waiting tuples."""
        ordinal = np.arange(self._next, self._next + codes.size)
        self._next += codes.size
        mine = {name: columns[name] for name in self._columns}
        self.table.add({GROUP: codes, ORDINAL: ordinal, **mine}, codes.size)

    def slots(self) -> Longs:
        """All tuples, in the order of arrival."""
        slots = self.table.slots()
        ordinal = self.table.take(ORDINAL, slots)
        return slots if (ordinal[1:] > ordinal[:-1]).all() else slots[np.argsort(ordinal)]

    def remove(self, slots: Longs) -> None:
        """Remove tuples; free slots are reused from the first on, so that the order is preserved."""
        self.table.remove(np.sort(slots)[::-1].copy())

    def restore(self) -> None:
        """Continue numbering after the tuples that were loaded."""
        ordinal = self.table.take(ORDINAL, self.table.slots())
        self._next = int(ordinal.max(initial=-1)) + 1


class _Steps(NamedTuple):
    """The clock's tuples that advance it."""

    arrival: Longs
    instant: Longs
    reached: Numbers


class _ClosingRows(NamedTuple):
    """Tuples that are in windows which close: those that waited, then new ones."""

    slots: Longs
    new: Longs
    codes: Longs
    columns: dict[str, Numbers]


@dataclass(frozen=True)
class ClockedKernel:
    """Inputs: ``on``, group columns and the functions' arguments; and ``on`` of the clock."""

    types: Mapping[str, str] = field(repr=False)
    slack: int
    group_by: tuple[str, ...]
    size: float
    advance: float
    functions: tuple[Function, ...]
    column: str

    @property
    def _columns(self) -> tuple[str, ...]:
        """The columns of a tuple that are kept."""
        return self._tuples.kept

    @property
    def _tuples(self) -> WindowResults:
        return WindowResults(self.group_by, self.column, self.functions)

    @property
    def _horizon(self) -> Horizon:
        return Horizon("clock", self.slack, self.types[ON])

    @property
    def _grid(self) -> WindowGrid:
        return WindowGrid(self.size, self.advance, 0)

    def fresh(self) -> State:
        """No windows, and a clock without tuples."""
        clock = Groups({}, self._horizon.columns)
        return State(
            Groups(choose_kinds(self.types, self.group_by)), (Pool(choose_kinds(self.types, self._columns)), clock)
        )

    def step(self, state: State, inputs: Sequence[Columns]) -> Released:
        """Add the new tuples that are not late, and close the windows that the clock has passed."""
        pool, clock = state.parts
        assert isinstance(pool, Pool)
        assert isinstance(clock, Groups)
        new = inputs[0]
        passed = self._horizon.of(clock)[:1, 0].copy()
        steps = self._move(clock, inputs[1])
        passing = np.append(passed, steps.reached)
        due = passing[np.searchsorted(steps.instant, new[INSTANT])]
        taken = np.flatnonzero((new[ON] >= due) & ~nulls(new[ON]))
        codes = state.groups.codes({name: new[name][taken] for name in self.group_by} | {ON: taken})
        new = {name: new[name][taken] for name in self._columns}
        if not self._grid.may_close(passed, passing[-1:])[0]:
            pool.add(codes, new)
            return self._release_nothing(state.groups, new)
        rows = self._find_closing_rows(pool, codes, new, passing[-1])
        found = self._close(state.groups, rows, passed, steps)
        self._settle(pool, rows, codes, new, passing[-1])
        return found

    def _move(self, clock: Groups, told: Columns) -> _Steps:
        """Advance the clock."""
        zeros = np.zeros(told[ON].size, np.int64)
        before, after = compute_horizons(zeros, told[ON], self._horizon.of(clock))
        moved = np.flatnonzero(after > before)
        clock.table.touch(zeros[:1][: moved.size])
        return _Steps(told[ARRIVAL][moved], told[INSTANT][moved], after[moved])

    def _find_closing_rows(self, pool: Pool, codes: Longs, new: Columns, passing: Numbers) -> _ClosingRows:
        """The tuples that are in windows which end by now."""
        slots = pool.slots()
        slots = slots[self._begin_to_end(pool.table.take(ON, slots), passing)]
        mine = np.flatnonzero(self._begin_to_end(new[ON], passing))
        columns = {name: concat_column(pool.table, slots, new, name, mine) for name in self._columns}
        return _ClosingRows(slots, mine, np.concatenate([pool.table.take(GROUP, slots), codes[mine]]), columns)

    def _begin_to_end(self, values: Numbers, passing: Numbers) -> Numbers:
        first, last = self._grid.range(values)
        return np.asarray((self._grid.end(first) <= passing) & (first <= last))

    def _close(self, groups: Groups, rows: _ClosingRows, passed: Numbers, steps: _Steps) -> Released:
        """One tuple per window, in the order of the clock, the windows and the groups."""
        touched, local = groups.distinct(rows.codes)
        arrived, starts = sort_by_group(local, touched.size)
        order = sort_groups(arrived, starts, rows.columns[ON])
        first, last = self._grid.range(rows.columns[ON][order])
        was, now = (np.repeat(value, touched.size) for value in (passed, steps.reached[-1:]))
        count = order.size
        group, number, begin, end, _ = find_closing(
            starts, first, last, self._grid.ended(was), was, now, arrived, was[:0], count, self._grid.form, False
        )
        start, codes = self._grid.start(number), touched[group]
        trigger = np.searchsorted(steps.reached, self._grid.end(number))
        result = self._tuples.of(groups, codes, Sorted(rows.columns, order), begin, end, start, steps.arrival[trigger])
        if self.group_by:
            result[PLACE] = self._place_windows(result, number, self._grid.ended(steps.reached)[trigger])
        emitted = np.lexsort((codes, number, result.get(PLACE, number), trigger))
        return {name: values[emitted] for name, values in result.items()}

    def _place_windows(self, result: Released, number: Longs, ended: Longs) -> Longs:
        """The place of windows among those that one step of the clock closes: by their numbers, then by their groups.

        Numbers are counted from the last window that has ended by then, so a place depends on nothing but the step, the
        window and the group. All windows that are further back than there is room for have the first number.
        """
        # the last one may be two after what ``WindowGrid.ended`` says
        window = np.clip(_FURTHEST - (ended + 2 - number), 0, _FURTHEST)
        group = hashes([result[name] for name in self.group_by], number.size) >> (63 - _HASH)
        return np.asarray(window << _HASH | group)

    def _settle(self, pool: Pool, rows: _ClosingRows, codes: Longs, new: Columns, passing: Numbers) -> None:
        """Keep the tuples that are in windows which end later."""
        over = self._grid.end(self._grid.range(rows.columns[ON])[1]) <= passing
        pool.remove(rows.slots[over[: rows.slots.size]])
        first, last = self._grid.range(new[ON])
        stay = first <= last
        stay[rows.new[over[rows.slots.size :]]] = False
        pool.add(codes[stay], {name: new[name][stay] for name in self._columns})

    def _release_nothing(self, groups: Groups, new: Columns) -> Released:
        """No window."""
        none = np.empty(0, np.int64)
        start: Numbers = none if self._grid.is_whole else new[ON][:0]
        rows = Sorted({name: values[:0] for name, values in new.items()}, none)
        return self._tuples.of(groups, none, rows, none, none, start, none)
