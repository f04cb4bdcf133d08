"""The state of moving things at the end of spans of time: windows and ticks.

A span ends at a multiple of its length. A tuple announces the end of the span that it is in, and the answers for that
end leave when a tuple shows that time has passed it; so the input must be in the order of time (``InOrder``).

A window [T - size, T) knows what is in it. A tick T knows everything up to T: a tuple exactly at T counts, although it
announces the tick after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slipstream._errors import BadInput
from slipstream._network.algebra import Schema
from slipstream._network.boxes.movement.endings import LAST, after_last, fresh_last, note_last
from slipstream._network.boxes.operators import Array, KeyedTable, Operator, State, register, require
from slipstream._network.boxes.windows.window_functions import NULL_INTEGER
from slipstream._network.column_types import plain_type
from slipstream._network.flow import Train
from slipstream._tools.numba_tools import Bools, Longs, compiled

_KEYS, _CLOCK = "keys", "clock"
#: of the clock: the end that is due next, and the largest one announced
_OPEN, _ANNOUNCED = "open", "announced"
#: of a key: the last end that it announced, the one before, and the time of its tuple
_MARK, _BEFORE, _TIME = "end announced", "end before", "time of the tuple"
_NONE = NULL_INTEGER
#: the tuple of an answer is that of the stored state
_STORED = -1


def end_of(time: Longs, size: int) -> Longs:
    """Return the end of the span of each time.

    >>> end_of(np.array([0, 9, 10]), 10).tolist()
    [10, 10, 20]
    """
    return (time // size + 1) * size


@compiled
def _grow(found: Longs, used: int, more: int) -> Longs:
    """Return rows with room for ``more`` after ``used``."""
    if used + more <= found.shape[0]:
        return found
    bigger = np.empty((2 * (used + more), found.shape[1]), np.int64)
    bigger[:used] = found[:used]
    return bigger


@compiled
def _answer(
    found: Longs, used: int, end: int, trigger: int, last: Longs, mark: Longs, before: Longs, everyone: bool
) -> tuple[Longs, int]:
    """Add a row (end, key, tuple, trigger) for every key that is due."""
    found = _grow(found, used, mark.size)
    for key in range(mark.size):
        known = mark[key] != _NONE
        if known and (everyone or mark[key] == end or before[key] == end):
            found[used, 0], found[used, 1], found[used, 2], found[used, 3] = end, key, last[key], trigger
            used += 1
    return found, used


@compiled
def close_spans(
    time: Longs,
    ends: Longs,
    keys: Longs,
    clock: Longs,
    size: int,
    mark: Longs,
    before: Longs,
    newest: Longs,
    last: Longs,
    ticks: bool,
    takes_last: bool,
    everyone: bool,
    every: bool,
    is_over: bool,
) -> Longs:
    """Take tuples in the order of time; returns rows (end, key, tuple, trigger) of the spans that they close.

    ``clock`` has the end that is due and the largest one announced. ``last`` gets the tuple of each key with the
    largest time, the last of several (``takes_last``) or the first. With ``everyone``, all known keys are due, with
    ``every``, every end is, whether it was announced or not.
    """
    found, used = np.empty((16, 4), np.int64), 0
    due, announced = clock[0], clock[1]
    for i in range(time.size):
        while due != _NONE and (time[i] > due or (time[i] == due and not ticks)):
            found, used = _answer(found, used, due, i, last, mark, before, everyone)
            due = due + size if every else (announced if announced > due else _NONE)
        end, key = ends[i], keys[i]
        if due == _NONE:
            due = end
        announced = end
        if mark[key] != end:
            before[key], mark[key] = mark[key], end
            newest[key], last[key] = time[i], i
        elif takes_last or time[i] > newest[key]:
            newest[key], last[key] = time[i], i
    while is_over and due != _NONE and due <= announced:
        found, used = _answer(found, used, due, time.size, last, mark, before, everyone)
        due = due + size if every else (announced if announced > due else _NONE)
    clock[0], clock[1] = due, announced
    return found[:used]


@dataclass(frozen=True)
class _Spans(Operator):
    """What windows and ticks have in common."""

    #: whether a tuple exactly at an end belongs to it
    ticks: ClassVar[bool] = False
    id: str
    time: str
    size: int
    end: str

    @property
    def _takes_last(self) -> bool:
        return True

    @property
    def _has_everyone(self) -> bool:
        return False

    @property
    def _has_every_end(self) -> bool:
        return False

    def outputs(self, tuples: Schema) -> Mapping[str, Schema]:
        """The end, and the columns of the key's tuple."""
        require(tuples, self.id, "bigint", "string")
        require(tuples, self.time, "bigint")
        _check_size(self.name, self.size)
        for name, type_ in tuples.items():
            if name != self.id and plain_type(type_) == "text":
                raise BadInput(
                    f"{self.name}: column {name!r} is text.", hint="Leave it out with a map box.", code="bad-type"
                )
        if self.end in tuples:
            raise BadInput(
                f"{self.name}: there is a column {self.end!r} already.", hint="Rename it.", code="duplicate-name"
            )
        return {"out": {self.end: "integer", **tuples}}

    def fresh(self, tuples: Schema) -> State:
        """No keys, no time."""
        kept = {name: (type_, 0) for name, type_ in tuples.items() if name != self.id}
        marks = dict.fromkeys((_MARK, _BEFORE, _TIME), ("integer", _NONE))
        return {
            _KEYS: KeyedTable({self.id: tuples[self.id]}, {**marks, **{f"last {n}": k for n, k in kept.items()}}),
            _CLOCK: fresh_clock(),
            LAST: fresh_last(),
        }

    def step(self, state: State, tuples: Train) -> Mapping[str, Train]:
        """Return the answers of the spans that these tuples close."""
        note_last(state, tuples)
        keys: KeyedTable = state[_KEYS]
        found, last = self._close(state, keys.rows(tuples.columns), tuples[self.time], is_over=False)
        out = self._answers(keys, found, tuples.take(found[:, 3]), tuples)
        told = np.flatnonzero(last != _STORED)
        for name in tuples.columns:
            if name != self.id:
                keys[f"last {name}"][told] = tuples[name][last[told]]
        return {"out": out}

    def finish(self, state: State, width: int) -> Mapping[str, Train]:
        """Return the answers of all spans that are still open."""
        nothing = np.empty(0, np.int64)
        found, _ = self._close(state, nothing, nothing, is_over=True)
        return {"out": self._answers(state[_KEYS], found, after_last(state, width, len(found)), None)}

    def _close(self, state: State, keys: Longs, time: Longs, *, is_over: bool) -> tuple[Longs, Longs]:
        table: KeyedTable = state[_KEYS]
        last = np.full(len(table), _STORED)
        mark, before, newest = (table[name][: len(table)] for name in (_MARK, _BEFORE, _TIME))
        clock = read_clock(state[_CLOCK])
        found = close_spans(
            np.ascontiguousarray(time),
            end_of(time, self.size),
            keys,
            clock,
            self.size,
            mark,
            before,
            newest,
            last,
            self.ticks,
            self._takes_last,
            self._has_everyone,
            self._has_every_end,
            is_over,
        )
        write_clock(state[_CLOCK], clock)
        return found, last

    def _answers(self, keys: KeyedTable, found: Longs, triggers: Train, tuples: Train | None) -> Train:
        who, place = np.ascontiguousarray(found[:, 1]), np.ascontiguousarray(found[:, 2])
        columns: dict[str, Array] = {self.end: found[:, 0], self.id: keys.keys(self.id, who)}
        here = np.flatnonzero(place != _STORED)
        for name in self._kept(keys):
            columns[name] = keys[f"last {name}"][who]
            if tuples is not None:
                columns[name][here] = tuples[name][place[here]]
        return triggers.with_columns(columns)

    @staticmethod
    def _kept(keys: KeyedTable) -> list[str]:
        return [name.removeprefix("last ") for name in keys.table.columns if name.startswith("last ")]


@register
@dataclass(frozen=True)
class LastInWindow(_Spans):
    """For every window [T - size, T) and id, the tuple with the largest time. ``end`` is T.

    Of several with that time it is the first one or, with ``ties`` "last", the last.
    """

    name = "last_in_window"
    ties: str = "first"

    @property
    def _takes_last(self) -> bool:
        return self.ties == "last"


@register
@dataclass(frozen=True)
class StateAt(_Spans):
    """The last known tuple of ids at ticks, the multiples of ``size``, as column ``end`` and the tuple's columns.

    There is an answer at T for every id with a tuple in [T - size, T); with ``everyone``, for all known ids if any has;
    with ``complete``, for all known ids at every tick from the first tuple to the last.
    """

    name = "state_at"
    ticks = True
    everyone: bool = False
    complete: bool = False

    @property
    def _has_everyone(self) -> bool:
        return self.everyone or self.complete

    @property
    def _has_every_end(self) -> bool:
        return self.complete


# --- counting


@compiled
def count_keys(time: Longs, ends: Longs, keys: Longs, counts: Bools, clock: Longs, mark: Longs, is_over: bool) -> Longs:
    """Count the keys in each window that have a tuple that ``counts``; returns rows (end, count, trigger).

    ``clock`` has the end of the open window and the count so far, ``mark`` the last window that each key counted in.
    """
    found, used = np.empty((16, 3), np.int64), 0
    end, count = clock[0], clock[1]
    for i in range(time.size):
        if end != _NONE and time[i] >= end:
            found = _grow(found, used, 1)
            found[used, 0], found[used, 1], found[used, 2] = end, count, i
            used, end = used + 1, _NONE
        if end == _NONE:
            end, count = ends[i], 0
        if counts[i] and mark[keys[i]] != end:
            mark[keys[i]] = end
            count += 1
    if is_over and end != _NONE:
        found = _grow(found, used, 1)
        found[used, 0], found[used, 1], found[used, 2] = end, count, time.size
        used, end = used + 1, _NONE
    clock[0], clock[1] = end, count
    return found[:used]


@register
@dataclass(frozen=True)
class CountInWindow(Operator):
    """The number of ids with a tuple for which ``where`` is true, for every window that has tuples.

    Without ``where``, every tuple counts. ``end`` is the end of the window.
    """

    name = "count_in_window"
    id: str
    time: str
    size: int
    end: str
    where: str = ""

    def outputs(self, tuples: Schema) -> Mapping[str, Schema]:
        """The end of the window, and the count."""
        require(tuples, self.id, "bigint", "string")
        require(tuples, self.time, "bigint")
        _check_size(self.name, self.size)
        if self.where:
            require(tuples, self.where, "boolean")
        return {"out": {self.end: "integer", "n": "integer"}}

    def fresh(self, tuples: Schema) -> State:
        """No keys, no window."""
        marks = {_MARK: ("integer", _NONE)}
        return {_KEYS: KeyedTable({self.id: tuples[self.id]}, marks), _CLOCK: fresh_clock(), LAST: fresh_last()}

    def step(self, state: State, tuples: Train) -> Mapping[str, Train]:
        """Return the counts of the windows that these tuples close."""
        note_last(state, tuples)
        counts = tuples[self.where] == 1 if self.where else np.ones(len(tuples), np.bool_)
        found = self._count(state, state[_KEYS].rows(tuples.columns), tuples[self.time], counts, is_over=False)
        return {"out": self._answers(found, tuples.take(found[:, 2]))}

    def finish(self, state: State, width: int) -> Mapping[str, Train]:
        """Return the count of the open window."""
        nothing = np.empty(0, np.int64)
        found = self._count(state, nothing, nothing, np.empty(0, np.bool_), is_over=True)
        return {"out": self._answers(found, after_last(state, width, len(found)))}

    def _count(self, state: State, keys: Longs, time: Longs, counts: Bools, *, is_over: bool) -> Longs:
        clock, mark = read_clock(state[_CLOCK]), state[_KEYS][_MARK]
        time = np.ascontiguousarray(time)
        found = count_keys(time, end_of(time, self.size), keys, counts, clock, mark, is_over)
        write_clock(state[_CLOCK], clock)
        return found

    def _answers(self, found: Longs, triggers: Train) -> Train:
        return triggers.with_columns({self.end: found[:, 0], "n": found[:, 1]})


def fresh_clock() -> KeyedTable:
    """Return the state of time before the first tuple: two numbers."""
    return KeyedTable({}, {_OPEN: ("integer", _NONE), _ANNOUNCED: ("integer", _NONE)})


def read_clock(clock: KeyedTable) -> Longs:
    """Return the two numbers of a clock."""
    row = clock.rows({"": np.zeros(1)})[0]
    return np.array([clock[_OPEN][row], clock[_ANNOUNCED][row]])


def write_clock(clock: KeyedTable, values: Longs) -> None:
    """Store the two numbers of a clock."""
    row = clock.rows({"": np.zeros(1)})[0]
    clock[_OPEN][row], clock[_ANNOUNCED][row] = values


def _check_size(box: str, size: int) -> None:
    if size < 1:
        raise BadInput(
            f"{box}: size {size} is below 1.", hint="Give a length of time.", code="out-of-range", found=size
        )
