"""The order-sensitive boxes as vectorised kernels: one micro-batch of tuples in, what they release out.

A kernel keeps its state as plain tables and never looks at batch boundaries, so its output is the same however the
stream is cut. Tuples come in arrival order, ``ts`` beside the box's own columns; the result names for each tuple the
``trigger``, the place in the batch of the arrival that released it.

All four boxes rest on one number per group, the *horizon*: the (slack + 1)-th largest order value seen. A tuple below
it is out of order; a window that ends at or below it can never change again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from slipstream.kernels import Bools, Longs, compiled
from slipstream.network.windows import NULL_INTEGER, Function, apply, nulls

State: TypeAlias = dict[str, pd.DataFrame]
Numbers: TypeAlias = npt.NDArray[Any]

TS = "ts"
TRIGGER = "trigger"
ON = "on"


class Kernel(Protocol):
    """What every order-sensitive box is at run time."""

    def step(self, state: State, inputs: Sequence[pd.DataFrame]) -> tuple[State, pd.DataFrame]:
        """Take one batch; give the new state and what the batch released."""


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


@compiled
def between(codes: Longs, low: Numbers, high: Numbers, starts: Longs, values: Numbers) -> tuple[Longs, Longs]:
    """The range of places in sorted ``values`` of each row's own code that lie in [low, high]."""
    first, last = np.empty(codes.size, np.int64), np.empty(codes.size, np.int64)
    for i in range(codes.size):
        a, b = starts[codes[i]], starts[codes[i] + 1]
        first[i] = a + np.searchsorted(values[a:b], low[i], "left")
        last[i] = a + np.searchsorted(values[a:b], high[i], "right")
    return first, last


def expand(first: Longs, last: Longs) -> tuple[Longs, Longs]:
    """All (row, place) pairs with place in the row's range [first, last).

    >>> [part.tolist() for part in expand(np.array([0, 5]), np.array([2, 6]))]
    [[0, 0, 1], [0, 1, 5]]
    """
    counts = np.maximum(last - first, 0)
    rows = np.repeat(np.arange(first.size), counts)
    offsets = np.arange(rows.size) - np.repeat(np.cumsum(counts) - counts, counts)
    return rows, first[rows] + offsets


class Grouping:
    """The groups seen so far, numbered in the order of their first tuple."""

    def __init__(self, known: pd.DataFrame | None, tables: Sequence[pd.DataFrame]) -> None:
        names = list(tables[0].columns)
        parts = [*([] if known is None else [known]), *tables]
        rows = pd.concat(parts, ignore_index=True) if len(parts) > 1 else parts[0].reset_index(drop=True)
        if names:
            codes = rows.groupby(names, sort=False, dropna=False).ngroup().to_numpy(dtype=np.int64)
        else:
            codes = np.zeros(len(rows), dtype=np.int64)
        self.count = int(codes.max(initial=-1)) + 1 if names else 1
        self.known = rows[~pd.Series(codes).duplicated().to_numpy()].reset_index(drop=True) if names else rows[:0]
        cuts = np.cumsum([len(part) for part in parts])
        pieces: list[Any] = np.split(codes, cuts[:-1])
        self.codes: list[Longs] = pieces[0 if known is None else 1 :]


def _lowest(values: Numbers) -> Any:
    return NULL_INTEGER if values.dtype.kind == "i" else -np.inf


def _tops(state: State, name: str, groups: int, slack: int, values: Numbers) -> Numbers:
    """The largest values of each group, from the state and grown to all groups."""
    tops = np.full((groups, slack + 1), _lowest(values), dtype=values.dtype)
    if name in state:
        kept = state[name]["value"].to_numpy().reshape(-1, slack + 1)
        tops[: len(kept)] = kept
    return tops


def _kept(tops: Numbers) -> pd.DataFrame:
    return pd.DataFrame({"value": tops.ravel()})


def _rows(state: State, name: str, new: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """The rows kept, with the new ones after them, and how many were kept."""
    old = state.get(name)
    if old is None or old.empty:
        return new.reset_index(drop=True), 0
    return pd.concat([old, new], ignore_index=True), len(old)


def _starts(sorted_codes: Longs, count: int) -> Longs:
    return np.searchsorted(sorted_codes, np.arange(count + 1)).astype(np.int64)


def _present(rows: pd.DataFrame) -> Bools:
    """Tuples whose order attribute is not null; the others are nowhere in the order and are ignored."""
    return ~nulls(rows[ON].to_numpy())


def _in_order(new: pd.DataFrame, codes: Longs, tops: Numbers) -> tuple[Bools, Numbers]:
    """Which arrivals are in order, and the horizon of its group after each; ``tops`` learns of all of them."""
    values = new[ON].to_numpy()
    before, after = horizons(codes, values, tops)
    return (values >= before) & _present(new), after


@dataclass(frozen=True)
class BSortKernel:
    """Input: the order attribute ``on``, group columns, and everything the tuple carries."""

    slack: int
    group_by: tuple[str, ...]
    payload: tuple[str, ...]

    def step(self, state: State, inputs: Sequence[pd.DataFrame]) -> tuple[State, pd.DataFrame]:
        """Buffer the new tuples, and release one for each that finds its group's buffer full."""
        rows, old = _rows(state, "rows", inputs[0])
        groups = Grouping(None, [rows[list(self.group_by)]])
        buffers = np.zeros((groups.count, self.slack + 2), dtype=np.int64)
        out = evictions(groups.codes[0], rows[ON].to_numpy(), buffers)
        triggers = np.flatnonzero(out >= 0)
        released = rows[[TS, *self.payload]].take(out[triggers]).reset_index(drop=True)
        released[TRIGGER] = triggers - old
        waiting = np.ones(len(rows), dtype=bool)
        waiting[out[triggers]] = False
        return {"rows": rows[waiting]}, released


@dataclass(frozen=True)
class AggregateKernel:
    """Input: ``on`` (ignored for windows of tuples), group columns, and the functions' arguments."""

    slack: int
    group_by: tuple[str, ...]
    by_tuple: bool
    size: float
    advance: float
    timeout: float | None
    functions: tuple[Function, ...]
    column: str

    def step(self, state: State, inputs: Sequence[pd.DataFrame]) -> tuple[State, pd.DataFrame]:
        """Take the new tuples that are in order, and close the windows that nothing can change any more."""
        groups = Grouping(state.get("groups"), [inputs[0][list(self.group_by)]])
        codes = groups.codes[0]
        tops = self._tops(state, groups.count, inputs[0])
        passed = self._horizon(tops)
        new, after, in_order = self._ordered(inputs[0], codes, tops)
        rung = _clocks(state, groups.count)
        clock = np.maximum(new[TS].to_numpy(), rung[codes])
        clock = pd.Series(clock).groupby(codes).cummax().to_numpy(dtype=np.int64)
        rows, _ = _rows(state, "rows", new.assign(code=codes, clock=clock)[in_order])
        pairs = self._windows(rows)
        pairs = pairs[pairs["end"].to_numpy() > passed[pairs["code"].to_numpy()]]
        closed = self._closed(self._in_time(pairs, rows, rung), _Arrivals(codes, after, clock, groups.count))
        keep = self._end_of_last(rows) > self._horizon(tops)[rows["code"].to_numpy()]
        np.maximum.at(rung, codes, clock)
        clocks = pd.DataFrame({"clock": rung})
        kept = {"groups": groups.known, "tops": _kept(tops), "clocks": clocks, "rows": rows[keep]}
        return kept, self._results(rows, closed, groups.known)

    def _tops(self, state: State, groups: int, new: pd.DataFrame) -> Numbers:
        if self.by_tuple:
            return np.maximum(_tops(state, "tops", groups, 0, np.zeros(0, np.int64)), 0)
        return _tops(state, "tops", groups, self.slack, new[ON].to_numpy())

    def _horizon(self, tops: Numbers) -> Numbers:
        """What each group has passed for good; when tuples are numbered, all up to the last one."""
        return np.asarray(tops[:, 0] + self.by_tuple)

    def _ordered(self, new: pd.DataFrame, codes: Longs, tops: Numbers) -> tuple[pd.DataFrame, Numbers, Bools]:
        """Number the tuples or look at the horizon: the horizon after each, and which are in order."""
        if self.by_tuple:
            on = tops[codes, 0] + 1 + pd.Series(codes).groupby(codes).cumcount().to_numpy(dtype=np.int64)
            np.maximum.at(tops[:, 0], codes, on)
            return new.assign(on=on), on + 1, np.ones(len(new), dtype=bool)
        in_order, after = _in_order(new, codes, tops)
        return new, after, in_order

    def _number(self, values: Numbers) -> Longs:
        """The last window that holds a value."""
        return np.asarray(np.floor_divide(values - self.by_tuple, _exact(self.advance)), dtype=np.int64)

    def _end_of_last(self, rows: pd.DataFrame) -> Numbers:
        """Where the last window that holds a tuple ends."""
        return np.asarray(self._number(rows[ON].to_numpy()) * _exact(self.advance) + self.by_tuple + _exact(self.size))

    def _windows(self, rows: pd.DataFrame) -> pd.DataFrame:
        """All (tuple, window) pairs."""
        values = rows[ON].to_numpy()
        first = self._number(values - _exact(self.size)) + 1
        first = np.maximum(first, 0) if self.by_tuple else first
        place, number = expand(first, self._number(values) + 1)
        start = number * _exact(self.advance) + self.by_tuple
        code = rows["code"].to_numpy()[place]
        return pd.DataFrame({"place": place, "code": code, "start": start, "end": start + _exact(self.size)})

    def _in_time(self, pairs: pd.DataFrame, rows: pd.DataFrame, rung: Longs) -> pd.DataFrame:
        """Leave out windows whose time had run out before, and the tuples that came too late for theirs."""
        if self.timeout is None:
            return pairs
        clocks = rows["clock"].to_numpy()
        opened = pairs.groupby(["code", "start"])["place"].transform("min").to_numpy()
        due = clocks[opened] + round(self.timeout * 1e6)
        in_time = (clocks[pairs["place"].to_numpy()] <= due) & (rung[pairs["code"].to_numpy()] <= due)
        kept: pd.DataFrame = pairs.assign(due=due)[in_time]
        return kept

    def _closed(self, pairs: pd.DataFrame, arrivals: _Arrivals) -> pd.DataFrame:
        """The pairs whose window closes in this batch, with the arrival that closes it and whether that passed it.

        Of the windows that one arrival closes, those whose time had run out go before those that it passes.
        """
        codes = pairs["code"].to_numpy()
        passing = arrivals.passing(codes, pairs["end"].to_numpy())
        if self.timeout is None:
            return pairs.assign(trigger=passing, passed=True)[passing < arrivals.end]
        late = arrivals.after(codes, pairs["due"].to_numpy())
        trigger = np.minimum(passing, late)
        return pairs.assign(trigger=trigger, passed=passing < late)[trigger < arrivals.end]

    def _results(self, rows: pd.DataFrame, pairs: pd.DataFrame, groups: pd.DataFrame) -> pd.DataFrame:
        """One tuple a window, in the order of emission; in a window, tuples in the order of their values."""
        place = pairs["place"].to_numpy()
        values = rows[ON].to_numpy()[place]
        emitted = (pairs[key].to_numpy() for key in ("start", "passed", "trigger"))
        order = np.lexsort((place, values, *emitted))
        pairs, place = pairs.take(order), place[order]
        trigger, start = pairs["trigger"].to_numpy(), pairs["start"].to_numpy()
        cuts = _cuts(trigger, start)
        keys = _named(groups, pairs["code"].to_numpy()[cuts])
        result = keys | {self.column: pd.Series(start[cuts])}
        return _finished(result, self.functions, rows, place, cuts, start[cuts], trigger[cuts])


def _named(groups: pd.DataFrame, codes: Longs) -> dict[str, pd.Series[Any]]:
    """The group columns of numbered groups."""
    return {str(name): pd.Series(column.to_numpy()[codes]) for name, column in groups.items()}


def _exact(number: float) -> float:
    """Whole numbers stay whole, so that 64-bit order values keep all their digits."""
    return int(number) if float(number).is_integer() else number


def _clocks(state: State, groups: int) -> Longs:
    """The latest arrival time of each group before this batch."""
    clocks = np.full(groups, NULL_INTEGER, dtype=np.int64)
    if "clocks" in state:
        clocks[: len(state["clocks"])] = state["clocks"]["clock"].to_numpy()
    return clocks


def _cuts(*keys: Numbers) -> Longs:
    """Where a new run of equal keys begins."""
    if not keys[0].size:
        return np.zeros(0, dtype=np.int64)
    changes = np.logical_or.reduce([np.diff(key) != 0 for key in keys])
    return np.flatnonzero(np.r_[True, changes]).astype(np.int64)


def _finished(
    keys: dict[str, pd.Series[Any]],
    functions: tuple[Function, ...],
    rows: pd.DataFrame,
    place: Longs,
    cuts: Longs,
    at: Numbers,
    trigger: Longs,
) -> pd.DataFrame:
    """Apply the window functions to the windows that begin at ``cuts`` in ``place`` and put the result together."""
    result = dict(keys)
    for function in functions:
        result[function.name] = pd.Series(apply(function, rows, place, cuts, at))
    ts = rows[TS].to_numpy()[place]
    result[TS] = pd.Series(np.minimum.reduceat(ts, cuts) if cuts.size else ts[:0])
    result[TRIGGER] = pd.Series(trigger)
    return pd.DataFrame(result)


class _Arrivals:
    """The new tuples of a batch by group: at which arrival did a group pass a value, or a moment?"""

    def __init__(self, codes: Longs, horizon: Numbers, clock: Longs, count: int) -> None:
        self._order = np.argsort(codes, kind="stable")
        self._starts = _starts(codes[self._order], count)
        self._horizon = horizon[self._order]
        self._clock = clock[self._order]
        self.end = len(codes)

    def passing(self, codes: Longs, wanted: Numbers) -> Longs:
        """The arrival at which the group's horizon reaches ``wanted``; ``end`` when none does."""
        return self._arrival(codes, between(codes, wanted, wanted, self._starts, self._horizon)[0])

    def after(self, codes: Longs, due: Longs) -> Longs:
        """The group's first arrival after the moment ``due``."""
        return self._arrival(codes, between(codes, due, due, self._starts, self._clock)[1])

    def _arrival(self, codes: Longs, places: Longs) -> Longs:
        found = places < self._starts[codes + 1]
        arrivals = np.r_[self._order, 0][np.where(found, places, self.end)]
        return np.where(found, arrivals, self.end).astype(np.int64)


@dataclass(frozen=True)
class JoinKernel:
    """Inputs: ``on``, group columns, the columns the predicate equates (``keys``), and everything the tuples carry."""

    slack: tuple[int, int]
    group_by: tuple[str, ...]
    keys: tuple[str, ...]
    size: float
    payload: tuple[tuple[str, ...], tuple[str, ...]]

    def step(self, state: State, inputs: Sequence[pd.DataFrame]) -> tuple[State, pd.DataFrame]:
        """Pair each new tuple that is in order with the partners that came before it."""
        groups = Grouping(state.get("groups"), [side[list(self.group_by)] for side in inputs])
        sides, tops = [], []
        for name, new, codes, slack in zip(("left", "right"), inputs, groups.codes, self.slack, strict=True):
            top = _tops(state, f"{name}_tops", groups.count, slack, new[ON].to_numpy())
            in_order, _ = _in_order(new, codes, top)
            sides.append(_rows(state, name, new.assign(group=codes)[in_order])[0])
            tops.append(top)
        result = self._pairs(*sides)
        kept = {"groups": groups.known, "left_tops": _kept(tops[0]), "right_tops": _kept(tops[1])}
        for name, rows, partner in zip(("left", "right"), sides, reversed(tops), strict=True):
            alive = rows[ON].to_numpy() >= _minus(partner[:, 0], self.size)[rows["group"].to_numpy()]
            kept[name] = rows[alive].assign(arrival=-1)
        return kept, result

    def _pairs(self, left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
        codes = Grouping(None, [side[list(self.keys)] for side in (left, right)])
        order = np.lexsort((right[ON].to_numpy(), codes.codes[1]))
        values = left[ON].to_numpy()
        starts = _starts(codes.codes[1][order], codes.count)
        low, high = values - _exact(self.size), values + _exact(self.size)
        first, last = between(codes.codes[0], low, high, starts, right[ON].to_numpy()[order])
        one, two = expand(first, last)
        two = order[two]
        trigger = np.maximum(left["arrival"].to_numpy()[one], right["arrival"].to_numpy()[two])
        fresh = trigger >= 0
        one, two, trigger = one[fresh], two[fresh], trigger[fresh]
        # one of the two places is the trigger's own, so this is the partners' order of arrival
        order = np.lexsort((two, one, trigger))
        one, two, trigger = one[order], two[order], trigger[order]
        parts = [
            left[list(self.payload[0])].take(one).reset_index(drop=True),
            right[list(self.payload[1])].take(two).reset_index(drop=True),
        ]
        result = pd.concat(parts, axis=1)
        result[TS] = np.minimum(left[TS].to_numpy()[one], right[TS].to_numpy()[two])
        result[TRIGGER] = trigger
        return result


def _minus(values: Numbers, size: float) -> Numbers:
    """``values - size`` that stays at the bottom for groups that have passed nothing yet."""
    if values.dtype.kind == "i":
        return np.where(values == NULL_INTEGER, NULL_INTEGER, values - _exact(size))
    return values - size


@dataclass(frozen=True)
class ResampleKernel:
    """Inputs: ``on`` on the left; ``on``, group columns and the functions' arguments on the right."""

    slack: tuple[int, int]
    group_by: tuple[str, ...]
    size: float
    lag: float | None
    functions: tuple[Function, ...]
    column: str

    def step(self, state: State, inputs: Sequence[pd.DataFrame]) -> tuple[State, pd.DataFrame]:
        """Give each left tuple its value from every right group that has passed it."""
        groups = Grouping(state.get("groups"), [inputs[1][list(self.group_by)]])
        codes = groups.codes[0]
        lefts, left_tops = self._left(state, inputs[0])
        tops = _tops(state, "right_tops", groups.count, self.slack[1], inputs[1][ON].to_numpy())
        passed = tops[:, 0].copy()
        in_order, after = _in_order(inputs[1], codes, tops)
        ahead = self._ahead(state, inputs[1])
        rights = _rows(state, "right", inputs[1].assign(code=codes)[in_order])[0]
        pairs = self._due(lefts, inputs[1], codes, after, passed, tops[:, 0], ahead)
        result = self._results(lefts, rights, pairs, groups.known)
        kept = {
            "groups": groups.known,
            "left_tops": _kept(left_tops),
            "right_tops": _kept(tops),
            "ahead": pd.DataFrame({"value": ahead[-1:]}),
        }
        waiting = lefts[~self._retired(lefts, ahead[-1])].assign(arrival=-1)
        kept["left"] = waiting
        kept["right"] = rights[self._needed(rights, waiting, left_tops[0, 0], tops[:, 0])].assign(arrival=-1)
        return kept, result

    def _left(self, state: State, new: pd.DataFrame) -> tuple[pd.DataFrame, Numbers]:
        tops = _tops(state, "left_tops", 1, self.slack[0], new[ON].to_numpy())
        in_order, _ = _in_order(new, np.zeros(len(new), np.int64), tops)
        return _rows(state, "left", new[in_order])[0], tops

    @staticmethod
    def _ahead(state: State, new: pd.DataFrame) -> Numbers:
        """The largest right value so far, before the batch and after each of its right arrivals."""
        values = new[ON].to_numpy()
        start = state["ahead"]["value"].to_numpy() if "ahead" in state else np.array([_lowest(values)])
        return np.maximum.accumulate(np.r_[start.astype(values.dtype), np.where(_present(new), values, start[0])])

    def _retired(self, lefts: pd.DataFrame, ahead: Any) -> Bools:
        """Left tuples that wait no longer, so far ahead is the right."""
        if self.lag is None:
            return np.zeros(len(lefts), dtype=bool)
        return np.asarray(lefts[ON].to_numpy() + _exact(self.size) + _exact(self.lag) < ahead)

    def _due(
        self,
        lefts: pd.DataFrame,
        new: pd.DataFrame,
        codes: Longs,
        after: Numbers,
        passed: Numbers,
        passing: Numbers,
        ahead: Numbers,
    ) -> pd.DataFrame:
        """The (left tuple, group) pairs to answer now, and the arrival at which each became due."""
        far = lefts[ON].to_numpy() + _exact(self.size)
        arrival = lefts["arrival"].to_numpy()
        left, group = (grid.ravel() for grid in np.indices((len(lefts), len(passed))))
        answered = (arrival[left] < 0) & (passed[group] > far[left])
        retired = self._retired(lefts, ahead[-1])[left]
        wanted = ~answered & ((passing[group] > far[left]) | retired)
        left, group = left[wanted], group[wanted]
        when = np.r_[new["arrival"].to_numpy(), np.iinfo(np.int64).max]
        order = np.argsort(codes, kind="stable")
        starts = _starts(codes[order], len(passed))
        place = between(group, far[left], far[left], starts, after[order])[1]
        found = place < starts[group + 1]
        closed = np.where(found, when[np.r_[order, 0][np.where(found, place, 0)]], when[-1])
        closed = np.where(passed[group] > far[left], -1, closed)
        if self.lag is not None:
            limit = far[left] + _exact(self.lag)
            over = np.searchsorted(ahead, limit, "right")
            closed = np.minimum(closed, np.where(over == 0, -1, when[np.maximum(over, 1) - 1]))
        return pd.DataFrame({"left": left, "code": group, "trigger": np.maximum(arrival[left], closed)})

    def _results(
        self, lefts: pd.DataFrame, rights: pd.DataFrame, pairs: pd.DataFrame, groups: pd.DataFrame
    ) -> pd.DataFrame:
        codes = rights["code"].to_numpy()
        order = np.lexsort((rights[ON].to_numpy(), codes))
        at = lefts[ON].to_numpy()[pairs["left"].to_numpy()]
        starts = _starts(codes[order], max(len(groups), 1))
        low, high = at - _exact(self.size), at + _exact(self.size)
        first, last = between(pairs["code"].to_numpy(), low, high, starts, rights[ON].to_numpy()[order])
        pair, place = expand(first, last)
        place = order[place]
        known = rights["arrival"].to_numpy()[place] <= pairs["trigger"].to_numpy()[pair]
        pair, place = pair[known], place[known]
        sorting = (pairs[name].to_numpy()[pair] for name in ("code", "left", "trigger"))
        order = np.lexsort((place, rights[ON].to_numpy()[place], *sorting))
        pair, place = pair[order], place[order]
        cuts = _cuts(pair)
        answers = pairs.take(pair[cuts])
        keys = _named(groups, answers["code"].to_numpy())
        result = keys | {self.column: pd.Series(at[pair[cuts]])}
        done = _finished(result, self.functions, rights, place, cuts, at[pair[cuts]], answers["trigger"].to_numpy())
        done[TS] = np.minimum(done[TS].to_numpy(), lefts[TS].to_numpy()[answers["left"].to_numpy()])
        return done

    def _needed(self, rights: pd.DataFrame, waiting: pd.DataFrame, left: Any, passed: Numbers) -> Bools:
        """Right tuples that a left tuple to come, or one that waits for their group, may still want."""
        oldest = np.full(len(passed), left, dtype=passed.dtype)
        values = np.sort(waiting[ON].to_numpy())
        place = np.searchsorted(values, _minus(passed, self.size), "left")
        some = place < values.size
        oldest[some] = np.minimum(oldest[some], values[place[some]])
        return np.asarray(rights[ON].to_numpy() >= _minus(oldest, self.size)[rights["code"].to_numpy()])
