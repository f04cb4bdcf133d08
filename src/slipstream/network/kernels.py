"""The order-sensitive boxes as vectorised kernels: one micro-batch of tuples in, what they release out.

A kernel keeps its state in tables and never looks at batch boundaries, so its output is the same however the stream is
cut. Tuples come as columns in arrival order, ``ts`` beside the box's own; the result names for each tuple the
``trigger``, the place in the batch of the arrival that released it.

All four boxes rest on one number per group, the *horizon*: the (slack + 1)-th largest order value seen. A tuple below
it is out of order; a window that ends at or below it can never change again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from slipstream.kernels import Bools, Longs, compiled
from slipstream.network.groups import Columns, Groups, Waiting, hashes, in_groups
from slipstream.network.partners import Partners, pair_all
from slipstream.network.tables import FLOAT, INTEGER, NONE, TEXT, Table
from slipstream.network.windows import NULL_INTEGER, Function, Sorted, Windows, apply, expand, nulls

Numbers: TypeAlias = npt.NDArray[Any]
Released: TypeAlias = dict[str, Numbers]

TS = "ts"
TRIGGER = "trigger"
ARRIVAL = "arrival"
ON = "on"

_LAST = np.iinfo(np.int64).max
_NO_ROWS: Longs = np.zeros(0, np.int64)


class Part(Protocol):
    """Something that a box keeps in a table."""

    @property
    def table(self) -> Table:
        """The rows."""

    def restore(self) -> None:
        """Make again what follows from a table that was loaded."""


@dataclass
class State:
    """What a box keeps."""

    groups: Groups
    parts: tuple[Part, ...]

    @property
    def tables(self) -> list[Table]:
        """Everything that is to be stored."""
        return [self.groups.table, *(part.table for part in self.parts)]

    def restore(self) -> None:
        """Make again what follows from tables that were loaded."""
        self.groups.restore()
        for part in self.parts:
            part.restore()


class Kernel(Protocol):
    """What every order-sensitive box is at run time."""

    def fresh(self) -> State:
        """The state before the first tuple."""

    def step(self, state: State, inputs: Sequence[Columns]) -> Released:
        """Take one batch: bring the state up to date and give what the batch released."""


# --- horizons


@compiled
def horizons(groups: Longs, values: Numbers, tops: Numbers) -> tuple[Numbers, Numbers]:
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


@compiled
def numbered(groups: Longs, counts: Numbers) -> Longs:
    """The number of each arrival in its group; ``counts[g, 0]`` is how many there were before, and learns of them."""
    found = np.empty_like(groups)
    for i in range(groups.size):
        counts[groups[i], 0] += 1
        found[i] = counts[groups[i], 0]
    return found


def _kind(type_: str) -> str:
    """How a column of a type is stored."""
    return type_ if type_ in (FLOAT, TEXT) else INTEGER


def _kinds(types: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    return {name: _kind(types[name]) for name in names}


def _tops(name: str, slack: int, type_: str) -> dict[str, tuple[str, Any]]:
    """The columns of a group's largest values; see ``horizons``."""
    lowest: Any = -np.inf if type_ == FLOAT else NULL_INTEGER
    return {f"{name} {i}": (_kind(type_), lowest) for i in range(slack + 1)}


@dataclass(frozen=True)
class _Horizon:
    """A group's largest values as columns of its table."""

    name: str
    slack: int
    type: str

    @property
    def columns(self) -> dict[str, tuple[str, Any]]:
        return _tops(self.name, self.slack, self.type)

    def of(self, groups: Groups) -> Numbers:
        """The largest values of each group, ascending: the first is the horizon."""
        return groups.table.block(f"{self.name} 0", self.slack + 1, _kind(self.type))

    def pass_by(self, groups: Groups, codes: Longs, values: Numbers) -> tuple[Bools, Numbers]:
        """Which arrivals are in order, and the horizon of its group after each."""
        before, after = horizons(codes, values, self.of(groups))
        groups.table.touch(codes)
        # a tuple without an order attribute is nowhere in the order
        return (values >= before) & ~nulls(values), after


# --- BSort


@compiled
def evictions(groups: Longs, values: Numbers, buffers: Longs) -> Longs:
    """Which row each arrival drives out of its group's buffer of slack + 1, -1 for none.

    ``buffers`` is scratch space, a row per group, its first place the number held; the earliest of equals goes first.
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


def _both(table: Table, slots: Longs, new: Columns, name: str, which: Longs | None = None) -> Numbers:
    """A column of rows that were kept, with the new ones, or some of these, after them."""
    added = new[name] if which is None or which.size == new[name].size else new[name][which]
    return np.concatenate([table.take(name, slots), added]) if slots.size else added


@dataclass(frozen=True)
class BSortKernel:
    """Input: the order attribute ``on``, group columns, and everything the tuple carries."""

    types: Mapping[str, str] = field(repr=False)
    slack: int
    group_by: tuple[str, ...]
    payload: tuple[str, ...]

    def fresh(self) -> State:
        """Empty buffers."""
        groups = Groups(_kinds(self.types, self.group_by), lists=("rows",))
        return State(groups, (Waiting(groups, "rows", _kinds(self.types, (TS, ON, *self.payload))),))

    def step(self, state: State, inputs: Sequence[Columns]) -> Released:
        """Buffer the new tuples, and release one for each that finds its group's buffer full."""
        (new,), (waiting,) = inputs, state.parts
        assert isinstance(waiting, Waiting)
        codes = state.groups.codes(new)
        touched, local = state.groups.distinct(codes)
        slots, owner = waiting.of(touched)
        buffers = np.zeros((touched.size, self.slack + 2), dtype=np.int64)
        out = evictions(np.concatenate([owner, local]), _both(waiting.table, slots, new, ON), buffers)
        triggers = np.flatnonzero(out >= 0)
        gone = out[triggers]
        released = {name: _both(waiting.table, slots, new, name)[gone] for name in (TS, *self.payload)}
        kept = np.ones(out.size, dtype=bool)
        kept[gone] = False
        waiting.keep(touched, slots, kept[: slots.size])
        stay = kept[slots.size :]
        waiting.add(codes[stay], {name: new[name][stay] for name in (TS, ON, *self.payload)})
        return released | {TRIGGER: triggers - slots.size}


# --- Aggregate


@compiled
def sort_groups(order: Longs, starts: Longs, values: Numbers) -> Longs:
    """Rows that lie group by group, each group's sorted by value; what arrived in order has few to pass."""
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
def closing(
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
                        group_of, number_of = _twice(group_of), _twice(number_of)
                        begins, ends, triggers = _twice(begins), _twice(ends), _twice(triggers)
                    group_of[count], number_of[count] = group, number
                    begins[count], ends[count] = low, high
                    triggers[count] = arrived[came] - old if came < stop else _LAST
                    count += 1
                number += 1
            if is_over:
                break
    return group_of[:count], number_of[:count], begins[:count], ends[:count], triggers[:count]


@compiled
def _twice(values: Longs) -> Longs:
    longer = np.empty(2 * values.size, np.int64)
    longer[: values.size] = values
    return longer


@compiled
def rising(groups: Longs, ts: Longs, clocks: Longs) -> Longs:
    """The latest arrival time in its group at each arrival; ``clocks`` learns of them."""
    found = np.empty_like(ts)
    for i in range(ts.size):
        clocks[groups[i]] = max(clocks[groups[i]], ts[i])
        found[i] = clocks[groups[i]]
    return found


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
        """What is kept of a tuple."""
        arguments = dict.fromkeys(name for function in self.functions for name in function.arguments)
        return (TS, ON, *arguments, *([_CLOCK] if self.timeout is not None else []))

    @property
    def _horizon(self) -> _Horizon:
        return _Horizon("top", self.slack, self.types[ON])

    def fresh(self) -> State:
        """No windows."""
        known = {"count": (INTEGER, 0)} if self.by_tuple else self._horizon.columns
        if self.timeout is not None:
            known = known | {_CLOCK: (INTEGER, NULL_INTEGER)}
        groups = Groups(_kinds(self.types, self.group_by), known, ("rows",))
        kinds = _kinds({**self.types, _CLOCK: INTEGER}, self._columns)
        return State(groups, (Waiting(groups, "rows", kinds),))

    def step(self, state: State, inputs: Sequence[Columns]) -> Released:
        """Take the new tuples that are in order, and close the windows that nothing can change any more."""
        (waiting,), new, groups = state.parts, dict(inputs[0]), state.groups
        assert isinstance(waiting, Waiting)
        codes = groups.codes(new)
        touched, local = groups.distinct(codes)
        passed = self._passed(groups, touched)
        rung = self._ring(groups, touched, codes, new)
        in_order, after = self._order(groups, codes, new)
        passing = self._passed(groups, touched)
        opens = self._may_close(passed, passing)
        taken = np.flatnonzero(in_order & opens[local])
        direct = np.flatnonzero(in_order & ~opens[local])
        waiting.add(codes[direct], {name: new[name][direct] for name in self._columns})
        place = np.cumsum(opens) - 1
        codes_open = touched[opens]
        slots, owner = waiting.of(codes_open)
        columns = {name: _both(waiting.table, slots, new, name, taken) for name in self._columns}
        owners = np.concatenate([owner, place[local[taken]]])
        rows = _Rows(codes_open, owners, slots, taken, columns, passed[opens], passing[opens])
        found = self._windows(rows, after, local, new, rung)
        self._settle(waiting, rows, new)
        return self._results(groups, rows, found)

    def _passed(self, groups: Groups, codes: Longs) -> Numbers:
        """What groups have passed for good; when tuples are numbered, all up to the last one."""
        if self.by_tuple:
            return np.asarray(groups.table.values("count")[codes] + 1)
        return np.asarray(self._horizon.of(groups)[codes, 0])

    def _order(self, groups: Groups, codes: Longs, new: dict[str, Numbers]) -> tuple[Bools, Numbers]:
        """Which tuples are in order, and the horizon after each; windows of tuples go by their numbers."""
        if not self.by_tuple:
            return self._horizon.pass_by(groups, codes, new[ON])
        new[ON] = numbered(codes, groups.table.block("count", 1, INTEGER))
        groups.table.touch(codes)
        return np.ones(codes.size, np.bool_), new[ON] + 1

    def _ring(self, groups: Groups, touched: Longs, codes: Longs, new: dict[str, Numbers]) -> Longs:
        """The clocks of groups before the batch; each tuple learns what its group's is when it arrives."""
        if self.timeout is None:
            return touched
        before = groups.table.take(_CLOCK, touched)
        new[_CLOCK] = rising(codes, new[TS], groups.table.values(_CLOCK))
        return before

    def _may_close(self, passed: Numbers, passing: Numbers) -> Bools:
        """The groups in which a window may close: where the horizon came past the end of one."""
        if self.timeout is not None:
            return np.ones(passed.size, np.bool_)
        moved = passing > passed
        if passed.dtype.kind == "f" or not self._is_whole:
            return moved
        low = _lowest(passed)
        gone = self._number(np.where(passing == low, 0, passing) - _exact(self.size))
        was = self._number(np.where(passed == low, 0, passed) - _exact(self.size))
        return np.asarray(moved & ((gone > was) | (passed == low)))

    @property
    def _is_whole(self) -> bool:
        return float(self.size).is_integer() and float(self.advance).is_integer()

    def _number(self, values: Numbers) -> Longs:
        """The last window that begins at or before a value."""
        since = values - 1 if self.by_tuple else values
        if self.advance == 1 and since.dtype.kind == "i":
            return np.asarray(since, np.int64)
        return np.asarray(np.floor_divide(since, _exact(self.advance)), dtype=np.int64)

    def _range(self, values: Numbers) -> tuple[Longs, Longs]:
        """The first and the last window that hold a value."""
        first = self._number(values - _exact(self.size)) + 1
        return np.maximum(first, 0) if self.by_tuple else first, self._number(values)

    @property
    def _form(self) -> tuple[float, float, int]:
        return _exact(self.advance), _exact(self.size), int(self.by_tuple)

    def _windows(self, rows: _Rows, after: Numbers, local: Longs, new: Columns, rung: Longs) -> _Found:
        arrived, starts = in_groups(rows.local, rows.codes.size)
        values = rows.columns[ON]
        order = arrived if self.by_tuple else sort_groups(arrived, starts, values)
        first, last = self._range(values[order])
        low = _lowest(rows.passed)
        bare = rows.passed == low
        # one less than the last that has ended, as division may be a hair off
        least = self._number(np.where(bare, 0, rows.passed) - _exact(self.size)) - 1
        least[bare] = np.iinfo(np.int64).min
        group, number, begin, end, trigger = closing(
            starts, first, last, least, rows.passed, rows.passing, arrived, after[rows.new], rows.slots.size,
            self._form, self.timeout is not None,
        )  # fmt: skip
        if self.timeout is not None:
            late = _first_after(local, new[_CLOCK], rows.codes.size)
            return self._timed(rows, _Found(group, number, begin, end, trigger, order, order), rung, late)
        trigger = rows.new[trigger]
        # one arrival closes windows of one group alone, in the order of their starts
        return _Found(group, number, begin, end, trigger, order, in_groups(trigger, after.size)[0])

    def _timed(self, rows: _Rows, all_: _Found, rung: Longs, late_at: _Ringing) -> _Found:
        """Windows that close as something passes them or their time runs out, without what came too late for them.

        Of the windows that one arrival closes, those whose time had run out go before those that it passes.
        """
        assert self.timeout is not None
        lengths = all_.last - all_.first
        window, place = expand(all_.first, all_.last)
        row, clocks = all_.order[place], rows.columns[_CLOCK]
        opened = np.minimum.reduceat(row, np.cumsum(lengths) - lengths) if lengths.size else _NO_ROWS
        due = clocks[opened] + round(self.timeout * 1e6)
        passing = np.append(rows.new, _LAST)[np.minimum(all_.trigger, rows.new.size)]
        late = late_at(all_.group, due)
        trigger = np.minimum(passing, late)
        in_time = clocks[row] <= due[window]
        counts = np.bincount(window[in_time], minlength=due.size)
        last = np.cumsum(counts)
        closed = (rung[all_.group] <= due) & (trigger < _LAST)
        group, number, first, last, trigger = (
            part[closed] for part in (all_.group, all_.number, last - counts, last, trigger)
        )
        emitted = np.lexsort((number, (passing < late)[closed], trigger))
        return _Found(group, number, first, last, trigger, row[in_time], emitted)

    def _settle(self, waiting: Waiting, rows: _Rows, new: Columns) -> None:
        """Keep the tuples that are in windows which may still close."""
        first, last = self._range(rows.columns[ON])
        end = last * _exact(self.advance) + self.by_tuple + _exact(self.size)
        kept = (end > rows.passing[rows.local]) & (first <= last)
        old = rows.slots.size
        waiting.keep(rows.codes, rows.slots, kept[:old])
        stay = rows.new[kept[old:]]
        codes = rows.codes[rows.local[old:][kept[old:]]]
        waiting.add(codes, {name: new[name][stay] for name in self._columns})

    def _results(self, groups: Groups, rows: _Rows, found: _Found) -> Released:
        """One tuple a window, in the order of emission."""
        start = found.number * _exact(self.advance) + int(self.by_tuple)
        codes = rows.codes[found.group]
        result = {name: groups.table.take(name, codes) for name in self.group_by} | {self.column: start}
        result |= _finished(self.functions, Sorted(rows.columns, found.order), found.first, found.last, start)
        result[TRIGGER] = found.trigger
        return {name: values[found.emitted] for name, values in result.items()}


class _Ringing(Protocol):
    def __call__(self, groups: Longs, due: Longs) -> Longs:
        """The first arrival in each group after a moment."""


def _first_after(local: Longs, clock: Longs, count: int) -> _Ringing:
    """Finds the arrivals at which clocks of groups pass moments."""
    order, starts = in_groups(local, count)
    clocks = clock[order]

    def found(groups: Longs, due: Longs) -> Longs:
        place = between(groups, due, due, starts, clocks)[1]
        return np.where(place < starts[groups + 1], np.append(order, _LAST)[place], _LAST)

    return found


def _finished(functions: Sequence[Function], rows: Sorted, first: Longs, last: Longs, at: Numbers) -> Released:
    """What the window functions give, and the arrival time of each window's oldest tuple."""
    windows = Windows((), first, last, at)
    result = {function.name: apply(function, rows, windows) for function in functions}
    result[TS] = windows.reduce(np.minimum, rows.column(TS))
    return result


def _lowest(values: Numbers) -> Any:
    return NULL_INTEGER if values.dtype.kind == "i" else -np.inf


def _exact(number: float) -> float:
    """Whole numbers stay whole, so that 64-bit order values keep all their digits."""
    return int(number) if float(number).is_integer() else number


# --- Join


def _minus(values: Numbers, size: float) -> Numbers:
    """``values - size`` that stays at the bottom for groups that have passed nothing yet."""
    if values.dtype.kind == "i":
        return np.where(values == NULL_INTEGER, NULL_INTEGER, values - _exact(size))
    return values - size


@dataclass(frozen=True)
class JoinKernel:
    """Inputs: ``on``, group columns, the columns the predicate equates (``keys``), and everything the tuples carry."""

    types: tuple[Mapping[str, str], Mapping[str, str]] = field(repr=False)
    slack: tuple[int, int]
    group_by: tuple[str, ...]
    keys: tuple[str, ...]
    size: float
    payload: tuple[tuple[str, ...], tuple[str, ...]]

    def fresh(self) -> State:
        """No tuples."""
        known = self._horizons[0].columns | self._horizons[1].columns
        keys = {
            name: FLOAT if FLOAT in kinds else kinds[0]
            for name in self.group_by
            for kinds in [[_kind(side[name]) for side in self.types]]
        }
        groups = Groups(keys, known, ("left", "right"))
        left, right = (
            Partners(groups, name, _kinds(types, (TS, ON, *payload)))
            for name, types, payload in zip(("left", "right"), self.types, self.payload, strict=True)
        )
        return State(groups, (left, right))

    @property
    def _horizons(self) -> tuple[_Horizon, _Horizon]:
        left, right = self.types
        return _Horizon("left", self.slack[0], left[ON]), _Horizon("right", self.slack[1], right[ON])

    def step(self, state: State, inputs: Sequence[Columns]) -> Released:
        """Pair each new tuple that is in order with the partners that came before it."""
        left, right = state.parts
        assert isinstance(left, Partners)
        assert isinstance(right, Partners)
        inputs = [self._alike(side) for side in inputs]
        touched, added = [], []
        for side, mine, horizon in zip((left, right), inputs, self._horizons, strict=True):
            codes = state.groups.codes(mine)
            in_order = np.flatnonzero(horizon.pass_by(state.groups, codes, mine[ON])[0])
            keys = hashes([mine[name][in_order] for name in self.keys], in_order.size)
            taken = {name: mine[name][in_order] for name in (TS, ON, *self.payload[side is right])}
            added.append((mine[ARRIVAL][in_order], side.add(codes[in_order], keys, taken)))
            touched.append(codes)
        one, two, trigger = pair_all(left, right, added[0], added[1], _exact(self.size))
        released = {name: left.table.take(name, one) for name in self.payload[0]}
        released |= {name: right.table.take(name, two) for name in self.payload[1]}
        released[TS] = np.minimum(left.table.take(TS, one), right.table.take(TS, two))
        groups = state.groups.distinct(np.concatenate(touched))[0]
        for side, partner in zip((left, right), reversed(self._horizons), strict=True):
            side.expire(groups, _minus(partner.of(state.groups)[groups, 0], self.size))
        return released | {TRIGGER: trigger}

    def _alike(self, columns: Columns) -> Columns:
        """Columns that both sides have, as numbers of one kind: an integer can equal a float."""
        mixed = [
            name
            for name in (*self.group_by, *self.keys)
            if {_kind(side[name]) for side in self.types} == {INTEGER, FLOAT}
        ]
        return {name: values.astype(np.float64) if name in mixed else values for name, values in columns.items()}


# --- Resample


@compiled
def between(codes: Longs, low: Numbers, high: Numbers, starts: Longs, values: Numbers) -> tuple[Longs, Longs]:
    """The range of places in sorted ``values`` of each row's own code that lie in [low, high]."""
    first, last = np.empty(codes.size, np.int64), np.empty(codes.size, np.int64)
    for i in range(codes.size):
        a, b = starts[codes[i]], starts[codes[i] + 1]
        first[i] = a + np.searchsorted(values[a:b], low[i], "left")
        last[i] = a + np.searchsorted(values[a:b], high[i], "right")
    return first, last


_ALONE: Longs = np.zeros(1, np.int64)


class _Side(NamedTuple):
    """Tuples of a side in some groups: those that waited, then the new ones that are in order."""

    columns: dict[str, Numbers]
    codes: Longs
    local: Longs  # the place of each one's group among those
    slots: Longs  # of those that waited
    arrival: Longs  # of new ones, -1 of others


class _Pairs(NamedTuple):
    """Left tuples and right groups that are to be answered."""

    left: Longs
    code: Longs
    touched: Longs  # the group's place among those that got something, NONE if it got nothing
    passed: Numbers  # its horizon before the batch


class _Answers(NamedTuple):
    """Pairs in the order in which their answers leave."""

    left: Longs
    code: Longs
    trigger: Longs


class _Passing(NamedTuple):
    """The right arrivals of a batch."""

    arrival: Longs
    local: Longs  # the place of each one's group among those that got something
    after: Numbers  # the horizon of its group after it
    groups: int
    ahead: Numbers  # the largest value before the batch, and after each arrival


@dataclass(frozen=True)
class ResampleKernel:
    """Inputs: ``on`` on the left; ``on``, group columns and the functions' arguments on the right."""

    types: tuple[Mapping[str, str], Mapping[str, str]] = field(repr=False)
    slack: tuple[int, int]
    group_by: tuple[str, ...]
    size: float
    lag: float | None
    functions: tuple[Function, ...]
    column: str

    @property
    def _columns(self) -> tuple[str, ...]:
        """What is kept of a right tuple."""
        return (TS, ON, *dict.fromkeys(name for function in self.functions for name in function.arguments))

    @property
    def _horizons(self) -> tuple[_Horizon, _Horizon]:
        left, right = self.types
        return _Horizon("left", self.slack[0], left[ON]), _Horizon("right", self.slack[1], right[ON])

    def fresh(self) -> State:
        """No tuples on either side."""
        left, right = self.types
        groups = Groups(_kinds(right, self.group_by), self._horizons[1].columns, ("right",))
        ahead = {"ahead": _tops("", 0, right[ON])[" 0"]}
        whole = Groups({}, self._horizons[0].columns | ahead, ("left",))
        lefts = Waiting(whole, "left", _kinds(left, (TS, ON)))
        return State(groups, (_Whole(whole), lefts, Waiting(groups, "right", _kinds(right, self._columns))))

    def step(self, state: State, inputs: Sequence[Columns]) -> Released:
        """Give each left tuple its value from every right group that has passed it."""
        whole, left, right = state.parts
        assert isinstance(whole, _Whole)
        assert isinstance(left, Waiting)
        assert isinstance(right, Waiting)
        one, two = self._horizons
        beat, new = inputs
        alone = np.zeros(beat[ON].size, np.int64)
        in_order, _ = one.pass_by(whole.groups, alone, beat[ON])
        lefts = _side(left, _ALONE, beat, alone, alone, in_order, (TS, ON))
        codes = state.groups.codes(new)
        touched, local = state.groups.distinct(codes)
        passed = two.of(state.groups)[touched, 0]
        in_order, after = two.pass_by(state.groups, codes, new[ON])
        ahead = self._ahead(whole.groups, new[ON])
        retired = self._retired(lefts, ahead[-1])
        horizons = two.of(state.groups)[: len(state.groups), 0]
        due = self._due(lefts, retired, touched, passed, horizons)
        answers = self._answers(due, lefts, _Passing(new[ARRIVAL], local, after, touched.size, ahead))
        wanted, where = state.groups.distinct(np.concatenate([touched, answers.code]))
        rights = _side(right, wanted, new, codes, where[local], in_order, self._columns)
        result = self._results(lefts, rights, answers, where[touched.size :], wanted, state.groups)
        least = self._needed(lefts.columns[ON][~retired], one.of(whole.groups)[0, 0], horizons[wanted])
        _settle(left, _ALONE, lefts, ~retired)
        _settle(right, wanted, rights, rights.columns[ON] >= least[rights.local])
        return result

    @staticmethod
    def _ahead(whole: Groups, values: Numbers) -> Numbers:
        """The largest right value so far, before the batch and after each of its right arrivals."""
        ahead = whole.table.values("ahead")
        found = np.maximum.accumulate(np.append(ahead[:1], np.where(nulls(values), ahead[0], values)))
        ahead[0] = found[-1]
        whole.table.touch(np.zeros(1, np.int64))
        return np.asarray(found)

    def _retired(self, lefts: _Side, ahead: Any) -> Bools:
        """Left tuples that wait no longer, so far ahead is the right."""
        if self.lag is None:
            return np.zeros(lefts.codes.size, dtype=bool)
        return np.asarray(lefts.columns[ON] + _exact(self.size) + _exact(self.lag) < ahead)

    def _due(self, lefts: _Side, retired: Bools, touched: Longs, passed: Numbers, horizons: Numbers) -> _Pairs:
        """The (left tuple, group) pairs to answer now.

        One that waited gets the groups that have just passed it, and when it retires all that have not. A new one gets
        all that are beyond it, and the others too if it retires at once.
        """
        far = lefts.columns[ON] + _exact(self.size)
        old = lefts.slots.size
        waiting = np.argsort(far[:old], kind="stable")
        bounds = (np.searchsorted(far[waiting], limit, "left") for limit in (passed, horizons[touched]))
        place, which = expand(*bounds)
        is_new = np.arange(far.size) >= old
        some = np.flatnonzero(is_new | retired)
        if not some.size:
            return _Pairs(waiting[which], touched[place], place, passed[place])
        left, code = (grid.ravel() for grid in np.indices((some.size, horizons.size)))
        left = some[left]
        is_beyond = horizons[code] > far[left]
        wanted = np.where(is_new[left], is_beyond | retired[left], ~is_beyond)
        left, code = left[wanted], code[wanted]
        among, before = np.full(horizons.size, NONE), horizons.copy()
        among[touched], before[touched] = np.arange(touched.size), passed
        left, code = np.concatenate([waiting[which], left]), np.concatenate([touched[place], code])
        return _Pairs(left, code, among[code], before[code])

    def _answers(self, pairs: _Pairs, lefts: _Side, new: _Passing) -> _Answers:
        """The pairs with the arrival at which each became due, in the order of emission."""
        far = lefts.columns[ON][pairs.left] + _exact(self.size)
        order, starts = in_groups(new.local, new.groups)
        when = np.append(new.arrival, _LAST)
        # a group that got nothing is like one more, without arrivals
        starts = np.append(starts, starts[-1])
        among = np.where(pairs.touched == NONE, new.groups, pairs.touched)
        place = between(among, far, far, starts, new.after[order])[1]
        closed = np.where(place < starts[among + 1], when[np.append(order, order.size)[place]], _LAST)
        closed = np.where(pairs.passed > far, -1, closed)
        if self.lag is not None:
            over = np.searchsorted(new.ahead, far + _exact(self.lag), "right")
            closed = np.minimum(closed, np.where(over == 0, -1, when[np.maximum(over, 1) - 1]))
        trigger = np.maximum(lefts.arrival[pairs.left], closed)
        emitted = np.lexsort((pairs.code, pairs.left, trigger))
        return _Answers(pairs.left[emitted], pairs.code[emitted], trigger[emitted])

    def _results(
        self, lefts: _Side, rights: _Side, pairs: _Answers, where: Longs, wanted: Longs, groups: Groups
    ) -> Released:
        """An answer for each pair that has right tuples near enough; ``where`` is its group's place in ``wanted``."""
        values = rights.columns[ON]
        order, starts = in_groups(rights.local, wanted.size)
        order = sort_groups(order, starts, values)
        at = lefts.columns[ON][pairs.left]
        low, high = at - _exact(self.size), at + _exact(self.size)
        first, last = between(where, low, high, starts, values[order])
        pair, place = expand(first, last)
        place = order[place]
        known = rights.arrival[place] <= pairs.trigger[pair]
        pair, place = pair[known], place[known]
        counts = np.bincount(pair, minlength=at.size)
        last = np.cumsum(counts)
        some = np.flatnonzero(counts)
        codes = pairs.code[some]
        result = {name: groups.table.take(name, codes) for name in self.group_by} | {self.column: at[some]}
        rows = Sorted(rights.columns, place)
        result |= _finished(self.functions, rows, (last - counts)[some], last[some], at[some])
        result[TS] = np.minimum(result[TS], lefts.columns[TS][pairs.left[some]])
        return result | {TRIGGER: pairs.trigger[some]}

    def _needed(self, waiting: Numbers, left: Any, passed: Numbers) -> Numbers:
        """The least right value of each group that a left tuple to come, or one that waits for it, may still want."""
        oldest = np.full(len(passed), left, dtype=passed.dtype)
        values = np.sort(waiting)
        place = np.searchsorted(values, _minus(passed, self.size), "left")
        some = place < values.size
        oldest[some] = np.minimum(oldest[some], values[place[some]])
        return _minus(oldest, self.size)


@dataclass
class _Whole:
    """What is known of a stream as a whole."""

    groups: Groups

    @property
    def table(self) -> Table:
        return self.groups.table

    def restore(self) -> None:
        self.groups.restore()


def _side(
    waiting: Waiting,
    groups: Longs,
    new: Columns,
    codes: Longs,
    local: Longs,
    in_order: Bools,
    names: Sequence[str],
) -> _Side:
    """The tuples of a side in some groups, those that waited group by group; new ones are all in these."""
    slots, owner = waiting.of(groups)
    taken = np.flatnonzero(in_order)
    columns = {name: _both(waiting.table, slots, new, name, taken) for name in names}
    arrival = np.concatenate([np.full(slots.size, -1), new[ARRIVAL][taken]])
    local = np.concatenate([owner, local[taken]])
    return _Side(columns, np.concatenate([groups[owner], codes[taken]]), local, slots, arrival)


def _settle(waiting: Waiting, groups: Longs, side: _Side, kept: Bools) -> None:
    """Keep some tuples of a side."""
    old = side.slots.size
    waiting.keep(groups, side.slots, kept[:old])
    stay = np.flatnonzero(kept[old:]) + old
    waiting.add(side.codes[stay], {name: values[stay] for name, values in side.columns.items()})
