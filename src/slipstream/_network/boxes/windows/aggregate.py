"""The aggregate kernel: window functions over windows of tuples that are sorted by group and order attribute.

Windows of a group can close only when its horizon passes the end of one. So a batch processes the waiting tuples of
such groups only, and windows are ranges of these and the new tuples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from slipstream._network.boxes.windows.kernels import (
    LAST,
    ON,
    TS,
    Horizon,
    Numbers,
    Released,
    State,
    WindowResults,
    choose_kinds,
    concat_column,
    find_between,
    find_lowest,
    sort_groups,
    to_exact,
)
from slipstream._network.boxes.windows.window_functions import NULL_INTEGER, Function, Sorted, expand
from slipstream._network.state.groups import Columns, Groups, Waiting, sort_by_group
from slipstream._network.state.tracked_tables import INTEGER
from slipstream._tools.numba_tools import Bools, Longs, compiled


@compiled
def number_arrivals(groups: Longs, counts: Numbers) -> Longs:
    """The number of each arrival in its group; ``counts[g, 0]``, the number of arrivals so far, is updated."""
    found = np.empty_like(groups)
    for i in range(groups.size):
        counts[groups[i], 0] += 1
        found[i] = counts[groups[i], 0]
    return found


@compiled
def find_closing(
    starts: Longs,
    first: Longs,
    last: Longs,
    least: Longs,
    passed: Numbers,
    passing: Numbers,
    arrived: Longs,
    after: Numbers,
    old: int,
    form: tuple[Any, Any, int],
    is_timed: bool,
) -> tuple[Longs, Longs, Longs, Longs, Longs]:
    """The windows of sorted rows that end above ``passed``, and not above ``passing`` unless they are timed.

    A row is in windows ``first`` to ``last``; ``form`` is what windows advance by, their size, and where they begin.
    Of each: group, number, first row, row after the last, and the new row whose arrival makes the horizon reach its
    end. ``arrived`` is the rows of each group in the order of arrival, ``after`` the horizon after each that is new,
    the first of which is ``old``.
    """
    advance, size, origin = form
    room = first.size + 16
    group_of, number_of = np.empty(room, np.int64), np.empty(room, np.int64)
    begins, ends, triggers = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    count = 0
    for group in range(starts.size - 1):
        low = high = came = starts[group]
        stop = starts[group + 1]
        number = least[group]
        for row in range(starts[group], stop):
            number = max(number, first[row])
            is_over = False
            while number <= last[row]:
                end = number * advance + origin + size
                if end > passing[group] and not is_timed:
                    is_over = True
                    break
                if end > passed[group]:
                    while last[low] < number:
                        low += 1
                    while high < stop and first[high] <= number:
                        high += 1
                    while came < stop and (arrived[came] < old or after[arrived[came] - old] < end):
                        came += 1
                    if count == group_of.size:
                        group_of, number_of = _double(group_of), _double(number_of)
                        begins, ends, triggers = _double(begins), _double(ends), _double(triggers)
                    group_of[count], number_of[count] = group, number
                    begins[count], ends[count] = low, high
                    triggers[count] = arrived[came] - old if came < stop else LAST
                    count += 1
                number += 1
            if is_over:
                break
    return group_of[:count], number_of[:count], begins[:count], ends[:count], triggers[:count]


@compiled
def _double(values: Longs) -> Longs:
    longer = np.empty(2 * values.size, np.int64)
    longer[: values.size] = values
    return longer


@compiled
def compute_running_max(groups: Longs, ts: Longs, clocks: Longs) -> Longs:
    """The latest arrival time of its group at each arrival; updates ``clocks``."""
    found = np.empty_like(ts)
    for i in range(ts.size):
        clocks[groups[i]] = max(clocks[groups[i]], ts[i])
        found[i] = clocks[groups[i]]
    return found


@dataclass(frozen=True)
class WindowGrid:
    """The windows on the order attribute: number n is [n * advance + origin, n * advance + origin + size)."""

    size: float
    advance: float
    origin: int  # 1 where tuples are numbered: windows below that do not exist

    @property
    def is_whole(self) -> bool:
        """Whether all windows begin and end at whole numbers."""
        return float(self.size).is_integer() and float(self.advance).is_integer()

    @property
    def form(self) -> tuple[float, float, int]:
        """The same for kernels: what windows advance by, their size, and where they begin."""
        return to_exact(self.advance), to_exact(self.size), self.origin

    def number(self, values: Numbers) -> Longs:
        """The last window that begins at or before a value."""
        since = values - 1 if self.origin else values
        if self.advance == 1 and since.dtype.kind == "i":
            return np.asarray(since, np.int64)
        return np.asarray(np.floor_divide(since, to_exact(self.advance)), dtype=np.int64)

    def range(self, values: Numbers) -> tuple[Longs, Longs]:
        """The first and the last window that hold a value."""
        first = self.number(values - to_exact(self.size)) + 1
        return np.maximum(first, 0) if self.origin else first, self.number(values)

    def start(self, number: Longs) -> Numbers:
        """Where windows begin."""
        return np.asarray(number * to_exact(self.advance) + self.origin)

    def end(self, number: Longs) -> Numbers:
        """The first value after windows."""
        return self.start(number) + to_exact(self.size)

    def ended(self, passed: Numbers) -> Longs:
        """A window that has ended, and one of the last to do so, by what groups have passed."""
        bare = passed == find_lowest(passed)
        # one less than the last that has ended, as division may be a hair off
        found = self.number(np.where(bare, 0, passed) - to_exact(self.size)) - 1
        found[bare] = np.iinfo(np.int64).min
        return found

    def may_close(self, passed: Numbers, passing: Numbers) -> Bools:
        """Whether a window may close: the horizon has passed the end of one."""
        moved = passing > passed
        if passed.dtype.kind == "f" or not self.is_whole:
            return moved
        low = find_lowest(passed)
        gone = self.number(np.where(passing == low, 0, passing) - to_exact(self.size))
        was = self.number(np.where(passed == low, 0, passed) - to_exact(self.size))
        return np.asarray(moved & ((gone > was) | (passed == low)))


class _Rows(NamedTuple):
    """Tuples of the groups in which windows may close: those that waited, group by group, then new ones."""

    codes: Longs  # the groups
    local: Longs  # of each tuple, the place of its group among them
    slots: Longs  # of those that waited
    new: Longs  # places of the new ones in the batch
    columns: dict[str, Numbers]
    passed: Numbers  # the groups' horizons before the batch
    passing: Numbers  # and after it


class _Found(NamedTuple):
    """Windows that close in a batch."""

    group: Longs  # its place among the groups of the rows
    number: Longs
    first: Longs  # the range of its tuples
    last: Longs
    trigger: Longs
    order: Longs  # the tuples in which the ranges are
    emitted: Longs  # the windows in the order in which they leave


_CLOCK = "clock"


@dataclass(frozen=True)
class AggregateKernel:
    """Input: ``on`` (ignored for windows of tuples), group columns, and the functions' arguments."""

    types: Mapping[str, str] = field(repr=False)
    slack: int
    group_by: tuple[str, ...]
    by_tuple: bool
    size: float
    advance: float
    timeout: float | None
    functions: tuple[Function, ...]
    column: str

    @property
    def _columns(self) -> tuple[str, ...]:
        """The columns of a tuple that are kept."""
        return (*self._tuples.kept, *([_CLOCK] if self.timeout is not None else []))

    @property
    def _tuples(self) -> WindowResults:
        return WindowResults(self.group_by, self.column, self.functions)

    @property
    def _horizon(self) -> Horizon:
        return Horizon("top", self.slack, self.types[ON])

    def fresh(self) -> State:
        """No windows."""
        known = {"count": (INTEGER, 0)} if self.by_tuple else self._horizon.columns
        if self.timeout is not None:
            known = known | {_CLOCK: (INTEGER, NULL_INTEGER)}
        groups = Groups(choose_kinds(self.types, self.group_by), known, ("rows",))
        kept = choose_kinds({**self.types, _CLOCK: INTEGER}, self._columns)
        return State(groups, (Waiting(groups, "rows", kept),))

    def step(self, state: State, inputs: Sequence[Columns]) -> Released:
        """Add the new tuples that are in order, and close the windows that can no longer change."""
        (waiting,), new, groups = state.parts, dict(inputs[0]), state.groups
        assert isinstance(waiting, Waiting)
        codes = groups.codes(new)
        touched, local = groups.distinct(codes)
        passed = self._find_horizons(groups, touched)
        rung = self._ring(groups, touched, codes, new)
        in_order, after = self._order(groups, codes, new)
        passing = self._find_horizons(groups, touched)
        opens = self._may_close(passed, passing)
        taken = np.flatnonzero(in_order & opens[local])
        direct = np.flatnonzero(in_order & ~opens[local])
        waiting.add(codes[direct], {name: new[name][direct] for name in self._columns})
        place = np.cumsum(opens) - 1
        codes_open = touched[opens]
        slots, owner = waiting.of(codes_open)
        columns = {name: concat_column(waiting.table, slots, new, name, taken) for name in self._columns}
        owners = np.concatenate([owner, place[local[taken]]])
        rows = _Rows(codes_open, owners, slots, taken, columns, passed[opens], passing[opens])
        found = self._find_windows(rows, after, local, new, rung)
        self._settle(waiting, rows, new)
        return self._make_results(groups, rows, found)

    def _find_horizons(self, groups: Groups, codes: Longs) -> Numbers:
        """The horizons of groups; when tuples are numbered, one past the last number."""
        if self.by_tuple:
            return np.asarray(groups.table.values("count")[codes] + 1)
        return np.asarray(self._horizon.of(groups)[codes, 0])

    def _order(self, groups: Groups, codes: Longs, new: dict[str, Numbers]) -> tuple[Bools, Numbers]:
        """Which tuples are in order, and the horizon after each; windows of tuples go by their numbers."""
        if not self.by_tuple:
            return self._horizon.pass_by(groups, codes, new[ON])
        new[ON] = number_arrivals(codes, groups.table.block("count", 1, INTEGER))
        groups.table.touch(codes)
        return np.ones(codes.size, np.bool_), new[ON] + 1

    def _ring(self, groups: Groups, touched: Longs, codes: Longs, new: dict[str, Numbers]) -> Longs:
        """The clocks of groups before the batch; each new tuple gets its group's clock at its arrival."""
        if self.timeout is None:
            return touched
        before = groups.table.take(_CLOCK, touched)
        new[_CLOCK] = compute_running_max(codes, new[TS], groups.table.values(_CLOCK))
        return before

    def _may_close(self, passed: Numbers, passing: Numbers) -> Bools:
        """Return the groups in which a window may close: their horizon has passed the end of one."""
        if self.timeout is not None:
            return np.ones(passed.size, np.bool_)
        return self._grid.may_close(passed, passing)

    @property
    def _grid(self) -> WindowGrid:
        return WindowGrid(self.size, self.advance, int(self.by_tuple))

    def _find_windows(self, rows: _Rows, after: Numbers, local: Longs, new: Columns, rung: Longs) -> _Found:
        arrived, starts = sort_by_group(rows.local, rows.codes.size)
        values = rows.columns[ON]
        order = arrived if self.by_tuple else sort_groups(arrived, starts, values)
        first, last = self._grid.range(values[order])
        least = self._grid.ended(rows.passed)
        group, number, begin, end, trigger = find_closing(
            starts, first, last, least, rows.passed, rows.passing, arrived, after[rows.new], rows.slots.size,
            self._grid.form, self.timeout is not None,
        )  # fmt: skip
        if self.timeout is not None:
            late = _find_first_after(local, new[_CLOCK], rows.codes.size)
            return self._find_timed_out(rows, _Found(group, number, begin, end, trigger, order, order), rung, late)
        trigger = rows.new[trigger]
        # one arrival closes windows of one group alone, in the order of their starts
        return _Found(group, number, begin, end, trigger, order, sort_by_group(trigger, after.size)[0])

    def _find_timed_out(self, rows: _Rows, all_: _Found, rung: Longs, late_at: _Ringing) -> _Found:
        """The windows that close because they are passed or time out, without tuples that arrived too late for them.

        Of the windows that one arrival closes, those that timed out precede those that it passes.
        """
        assert self.timeout is not None
        lengths = all_.last - all_.first
        window, place = expand(all_.first, all_.last)
        row, clocks = all_.order[place], rows.columns[_CLOCK]
        opened = np.minimum.reduceat(row, np.cumsum(lengths) - lengths) if lengths.size else np.zeros(0, np.int64)
        due = clocks[opened] + round(self.timeout * 1e6)
        passing = np.append(rows.new, LAST)[np.minimum(all_.trigger, rows.new.size)]
        late = late_at(all_.group, due)
        trigger = np.minimum(passing, late)
        in_time = clocks[row] <= due[window]
        counts = np.bincount(window[in_time], minlength=due.size)
        last = np.cumsum(counts)
        closed = (rung[all_.group] <= due) & (trigger < LAST)
        group, number, first, last, trigger = (
            part[closed] for part in (all_.group, all_.number, last - counts, last, trigger)
        )
        emitted = np.lexsort((number, (passing < late)[closed], trigger))
        return _Found(group, number, first, last, trigger, row[in_time], emitted)

    def _settle(self, waiting: Waiting, rows: _Rows, new: Columns) -> None:
        """Keep the tuples that are in windows which may still close."""
        first, last = self._grid.range(rows.columns[ON])
        kept = (self._grid.end(last) > rows.passing[rows.local]) & (first <= last)
        old = rows.slots.size
        waiting.keep(rows.codes, rows.slots, kept[:old])
        stay = rows.new[kept[old:]]
        codes = rows.codes[rows.local[old:][kept[old:]]]
        waiting.add(codes, {name: new[name][stay] for name in self._columns})

    def _make_results(self, groups: Groups, rows: _Rows, found: _Found) -> Released:
        """One tuple per window, in the order of emission."""
        start, codes = self._grid.start(found.number), rows.codes[found.group]
        sorted_ = Sorted(rows.columns, found.order)
        result = self._tuples.of(groups, codes, sorted_, found.first, found.last, start, found.trigger)
        return {name: values[found.emitted] for name, values in result.items()}


class _Ringing(Protocol):
    def __call__(self, groups: Longs, due: Longs) -> Longs:
        """The first arrival in each group after a moment."""


def _find_first_after(local: Longs, clock: Longs, count: int) -> _Ringing:
    """Finds the arrivals at which clocks of groups pass moments."""
    order, starts = sort_by_group(local, count)
    clocks = clock[order]

    def found(groups: Longs, due: Longs) -> Longs:
        place = find_between(groups, due, due, starts, clocks)[1]
        return np.where(place < starts[groups + 1], np.append(order, LAST)[place], LAST)

    return found
