"""Resample as a kernel: for each left tuple and each group on the right, functions over the right tuples near it.

What a left tuple gets of a group depends on the tuples of no other group. So groups may lie in several partitions, all
of which take the left stream. With a lag, left tuples stop waiting when the right stream is far enough ahead, whichever
group its tuples are of: then all partitions also take the values by which the right stream is ordered. What one arrival
releases is ordered by left tuples and a hash of the groups, which partitions agree on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from slipstream._network.boxes.windows.kernels import (
    ARRIVAL,
    LAST,
    ON,
    PLACE,
    PLACES,
    TRIGGER,
    TS,
    Horizon,
    Numbers,
    Released,
    State,
    WindowResults,
    choose_kinds,
    concat_column,
    find_between,
    make_top_columns,
    sort_groups,
    subtract,
    to_exact,
)
from slipstream._network.boxes.windows.window_functions import Function, Sorted, expand, nulls
from slipstream._network.flow import ordinals
from slipstream._network.state.groups import Columns, Groups, Waiting, hashes, sort_by_group
from slipstream._network.state.tracked_tables import NONE, StateTable
from slipstream._tools.numba_tools import Bools, Longs

_ALONE: Longs = np.zeros(1, np.int64)
#: bits of a place for the hash of a group; a lag bounds how many left tuples wait, and the others are for them
_HASH = 32
_MOST_LEFT = PLACES // (1 << _HASH) - 1


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


class _Pace(NamedTuple):
    """How far the right stream as a whole has come."""

    arrival: Longs
    ahead: Numbers  # the largest value before the batch, and after each arrival


@dataclass(frozen=True)
class ResampleKernel:
    """Inputs: ``on`` on the left; ``on``, group columns and the functions' arguments on the right.

    With groups and a lag, a third one has ``on`` of all right tuples, also of those whose groups are elsewhere.
    """

    types: tuple[Mapping[str, str], Mapping[str, str]] = field(repr=False)
    slack: tuple[int, int]
    group_by: tuple[str, ...]
    size: float
    lag: float | None
    functions: tuple[Function, ...]
    column: str

    @property
    def _columns(self) -> tuple[str, ...]:
        """The columns of a right tuple that are kept."""
        return self._tuples.kept

    @property
    def _tuples(self) -> WindowResults:
        return WindowResults(self.group_by, self.column, self.functions)

    @property
    def _horizons(self) -> tuple[Horizon, Horizon]:
        left, right = self.types
        return Horizon("left", self.slack[0], left[ON]), Horizon("right", self.slack[1], right[ON])

    def fresh(self) -> State:
        """No tuples on either side."""
        left, right = self.types
        groups = Groups(choose_kinds(right, self.group_by), self._horizons[1].columns, ("right",))
        ahead = {"ahead": make_top_columns("", 0, right[ON])[" 0"]}
        whole = Groups({}, self._horizons[0].columns | ahead, ("left",))
        lefts = Waiting(whole, "left", choose_kinds(left, (TS, ON)))
        return State(groups, (_Whole(whole), lefts, Waiting(groups, "right", choose_kinds(right, self._columns))))

    def step(self, state: State, inputs: Sequence[Columns]) -> Released:
        """Compute each left tuple's value from every right group that has passed it."""
        whole, left, right = state.parts
        assert isinstance(whole, _Whole)
        assert isinstance(left, Waiting)
        assert isinstance(right, Waiting)
        one, two = self._horizons
        beat, new = inputs[:2]
        alone = np.zeros(beat[ON].size, np.int64)
        in_order, _ = one.pass_by(whole.groups, alone, beat[ON])
        lefts = _gather_side(left, _ALONE, beat, alone, alone, in_order, (TS, ON))
        codes = state.groups.codes(new)
        touched, local = state.groups.distinct(codes)
        passed = two.of(state.groups)[touched, 0]
        in_order, after = two.pass_by(state.groups, codes, new[ON])
        pace = _Pace(inputs[-1][ARRIVAL], self._find_ahead(whole.groups, inputs[-1][ON]))
        retired = self._find_retired(lefts, pace.ahead[-1])
        horizons = two.of(state.groups)[: len(state.groups), 0]
        due = self._find_due(lefts, retired, touched, passed, horizons)
        answers = self._answers(due, lefts, _Passing(new[ARRIVAL], local, after, touched.size), pace)
        wanted, where = state.groups.distinct(np.concatenate([touched, answers.code]))
        rights = _gather_side(right, wanted, new, codes, where[local], in_order, self._columns)
        result = self._make_results(lefts, rights, answers, where[touched.size :], wanted, state.groups)
        least = self._find_needed(lefts.columns[ON][~retired], one.of(whole.groups)[0, 0], horizons[wanted])
        _settle(left, _ALONE, lefts, ~retired)
        _settle(right, wanted, rights, rights.columns[ON] >= least[rights.local])
        return result

    @staticmethod
    def _find_ahead(whole: Groups, values: Numbers) -> Numbers:
        """The largest right value so far, before the batch and after each of its right arrivals."""
        ahead = whole.table.values("ahead")
        found = np.maximum.accumulate(np.append(ahead[:1], np.where(nulls(values), ahead[0], values)))
        ahead[0] = found[-1]
        whole.table.touch(np.zeros(1, np.int64))
        return np.asarray(found)

    def _find_retired(self, lefts: _Side, ahead: Any) -> Bools:
        """Left tuples that need not wait any longer, as the right side is far enough ahead."""
        if self.lag is None:
            return np.zeros(lefts.codes.size, dtype=bool)
        return np.asarray(lefts.columns[ON] + to_exact(self.size) + to_exact(self.lag) < ahead)

    def _find_due(self, lefts: _Side, retired: Bools, touched: Longs, passed: Numbers, horizons: Numbers) -> _Pairs:
        """The (left tuple, group) pairs to answer now.

        One that waited gets the groups that have just passed it, and when it retires all that have not. A new one gets
        all that are beyond it, and the others too if it retires at once.
        """
        far = lefts.columns[ON] + to_exact(self.size)
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

    def _answers(self, pairs: _Pairs, lefts: _Side, new: _Passing, pace: _Pace) -> _Answers:
        """The pairs with the arrival at which each became due, in the order of emission."""
        far = lefts.columns[ON][pairs.left] + to_exact(self.size)
        order, starts = sort_by_group(new.local, new.groups)
        when = np.append(new.arrival, LAST)
        # a group that got nothing is like one more, without arrivals
        starts = np.append(starts, starts[-1])
        among = np.where(pairs.touched == NONE, new.groups, pairs.touched)
        place = find_between(among, far, far, starts, new.after[order])[1]
        closed = np.where(place < starts[among + 1], when[np.append(order, order.size)[place]], LAST)
        closed = np.where(pairs.passed > far, -1, closed)
        if self.lag is not None:
            over = np.searchsorted(pace.ahead, far + to_exact(self.lag), "right")
            closed = np.minimum(closed, np.concatenate([[-1], pace.arrival, [LAST]])[over])
        trigger = np.maximum(lefts.arrival[pairs.left], closed)
        emitted = np.lexsort((pairs.code, pairs.left, trigger))
        return _Answers(pairs.left[emitted], pairs.code[emitted], trigger[emitted])

    def _make_results(
        self, lefts: _Side, rights: _Side, pairs: _Answers, where: Longs, wanted: Longs, groups: Groups
    ) -> Released:
        """An answer for each pair that has right tuples near enough; ``where`` is its group's place in ``wanted``."""
        values = rights.columns[ON]
        order, starts = sort_by_group(rights.local, wanted.size)
        order = sort_groups(order, starts, values)
        at = lefts.columns[ON][pairs.left]
        low, high = at - to_exact(self.size), at + to_exact(self.size)
        first, last = find_between(where, low, high, starts, values[order])
        pair, place = expand(first, last)
        place = order[place]
        known = rights.arrival[place] <= pairs.trigger[pair]
        pair, place = pair[known], place[known]
        counts = np.bincount(pair, minlength=at.size)
        last = np.cumsum(counts)
        some = np.flatnonzero(counts)
        rows, first, trigger = Sorted(rights.columns, place), (last - counts)[some], pairs.trigger[some]
        result = self._tuples.of(groups, pairs.code[some], rows, first, last[some], at[some], trigger)
        result[TS] = np.minimum(result[TS], lefts.columns[TS][pairs.left[some]])
        return self._place(result, lefts, pairs.left[some]) if self.group_by else result

    def _place(self, result: Released, lefts: _Side, left: Longs) -> Released:
        """Results in an order that partitions agree on: of a left arrival by groups, of a right one by left tuples.

        By a lag, a right arrival also releases what left tuples get of other groups; these are ordered by both. Left
        tuples wait in the order of arrival, and the same ones in all partitions.
        """
        trigger = result[TRIGGER]
        group = hashes([result[name] for name in self.group_by], trigger.size)
        if self.lag is None:
            place = np.where(trigger == lefts.arrival[left], group % PLACES, ordinals(trigger))
        else:
            place = np.minimum(left, _MOST_LEFT) << _HASH | group >> (63 - _HASH)
        emitted = np.lexsort((place, trigger))
        return {name: values[emitted] for name, values in {**result, PLACE: place}.items()}

    def _find_needed(self, waiting: Numbers, left: Any, passed: Numbers) -> Numbers:
        """Return the least right value of each group that a future or waiting left tuple may still need."""
        oldest = np.full(len(passed), left, dtype=passed.dtype)
        values = np.sort(waiting)
        place = np.searchsorted(values, subtract(passed, self.size), "left")
        some = place < values.size
        oldest[some] = np.minimum(oldest[some], values[place[some]])
        return subtract(oldest, self.size)


@dataclass
class _Whole:
    """The state of a stream as a whole."""

    groups: Groups

    @property
    def table(self) -> StateTable:
        return self.groups.table

    def restore(self) -> None:
        self.groups.restore()


def _gather_side(
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
    columns = {name: concat_column(waiting.table, slots, new, name, taken) for name in names}
    arrival = np.concatenate([np.full(slots.size, -1), new[ARRIVAL][taken]])
    local = np.concatenate([owner, local[taken]])
    return _Side(columns, np.concatenate([groups[owner], codes[taken]]), local, slots, arrival)


def _settle(waiting: Waiting, groups: Longs, side: _Side, kept: Bools) -> None:
    """Keep some tuples of a side."""
    old = side.slots.size
    waiting.keep(groups, side.slots, kept[:old])
    stay = np.flatnonzero(kept[old:]) + old
    waiting.add(side.codes[stay], {name: values[stay] for name, values in side.columns.items()})
