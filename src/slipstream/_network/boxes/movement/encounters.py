"""Who is near whom, and who travels together, as positions come: what ``ss.meetings`` and ``ss.convoys`` find in trips.

Two positions of an id, at most ``gap`` apart, are joined by a straight line, on which it moved evenly. When a line is
known, it is compared with those of all others that were on their way then, by the kernels of the joins. As lines are
compared whole, the times of a meeting do not depend on how the stream is divided.

A meeting is told as soon as it has lasted long enough; that it is over is certain when the gap has passed. Convoys
follow from all changes of who is near whom, in their order, so they are told when the gap has passed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slipstream._errors import BadInput
from slipstream._joins import convoys
from slipstream._joins.approaches import approaches
from slipstream._joins.trip_meetings import BLOCK, SLACK
from slipstream._moving.columns import MPoints, freeze
from slipstream._network.algebra import Schema
from slipstream._network.boxes.archive import FINE, LATE, NULL, ORDER, REASONS, TIME, is_invalid_time, to_micros
from slipstream._network.boxes.movement.endings import LAST, after_last, fresh_last, note_last
from slipstream._network.boxes.operators import Array, KeyedTable, Operator, RowTable, State, register, require
from slipstream._network.boxes.windows.window_functions import nulls
from slipstream._network.flow import Train
from slipstream._tools.numba_tools import Bools, Floats, Ints, Longs, compiled

_IDS, _LINES, _NEAR, _CLOCK = "ids", "lines", "near", "clock"
_SETS, _SWEPT, _OVER = "sets", "swept", "over"
_MICROS = 1_000_000
_NEVER = np.iinfo(np.int64).min // 4
_LINE = {"who": "integer", "t0": "integer", "x0": "float", "y0": "float", "t1": "integer", "x1": "float", "y1": "float"}
#: two ids that are or were near each other, by their numbers
_PAIR = {
    **dict.fromkeys(("a", "b", "begin", "end"), "integer"),
    **{"nearest": "float", "nearest_at": "integer", "told": "integer"},
}
_SET = dict.fromkeys(("number", "member", "since", "told"), "integer")


@compiled
def find_line_pairs(
    old: int, reach: float, who: Longs, t0: Longs, x0: Floats, y0: Floats, t1: Longs, x1: Floats, y1: Floats
) -> tuple[Longs, Longs]:
    """Return pairs of lines of two ids that overlap in time and come within reach; the second one is not ``old``.

    Lines are in the order of their ends.
    """
    first, second, count = np.empty(64, np.int64), np.empty(64, np.int64), 0
    for j in range(old, who.size):
        for i in range(j - 1, -1, -1):
            if t1[i] < t0[j]:
                break
            if who[i] == who[j]:
                continue
            if max(x0[i], x1[i]) + reach < min(x0[j], x1[j]) or max(x0[j], x1[j]) + reach < min(x0[i], x1[i]):
                continue
            if max(y0[i], y1[i]) + reach < min(y0[j], y1[j]) or max(y0[j], y1[j]) + reach < min(y0[i], y1[i]):
                continue
            if count == first.size:
                first, second = np.concatenate((first, first)), np.concatenate((second, second))
            first[count], second[count] = i, j
            count += 1
    return first[:count], second[:count]


@compiled
def join_times(
    least: int, a: Longs, b: Longs, begin: Longs, end: Longs, nearest: Floats, at: Longs, told: Longs
) -> tuple[Longs, Longs]:
    """Join the times of each pair that touch, into the first of them; they come by pair, in order.

    Returns the rows that remain, and of each row the row that it made long enough to tell, or -1.
    """
    kept, tells = np.empty(a.size, np.int64), np.full(a.size, -1)
    count = 0
    for i in range(a.size):
        into = kept[count - 1] if count else -1
        if count and a[into] == a[i] and b[into] == b[i] and begin[i] <= end[into]:
            end[into] = max(end[into], end[i])
            if nearest[i] < nearest[into]:
                nearest[into], at[into] = nearest[i], at[i]
        else:
            into = i
            kept[count] = i
            count += 1
        if told[into] == 0 and end[into] - begin[into] >= least:
            told[into], tells[i] = 1, into
    return kept[:count], tells


@compiled
def _check_order(who: Longs, t: Longs, newest: int, last: Longs) -> tuple[Bools, Bools]:
    """Return which times are behind the newest one, and which are not after the last one of their id."""
    late, again = np.zeros(t.size, np.bool_), np.zeros(t.size, np.bool_)
    for i in range(t.size):
        if t[i] < newest:
            late[i] = True
        elif t[i] <= last[who[i]]:
            again[i] = True
        else:
            newest, last[who[i]] = t[i], t[i]
    return late, again


def _movements(lines: Mapping[str, Array], which: Longs) -> MPoints:
    """Return lines as moving points; one that begins when it ends is an instant."""
    t0, t1 = lines["t0"][which], lines["t1"][which]
    counts = 1 + (t1 > t0)
    rows = np.r_[0, np.cumsum(counts)].astype(np.int32)
    first, last = rows[:-1], rows[1:] - 1

    def place(name: str, kind: type) -> Array:
        values = np.empty(rows[-1], kind)
        values[first], values[last] = lines[f"{name}0"][which], lines[f"{name}1"][which]
        return freeze(values)

    t, x, y = place("t", np.int64), place("x", np.float64), place("y", np.float64)
    parts, starts = np.arange(which.size + 1, dtype=np.int32), np.zeros(which.size, np.int32)
    return MPoints(freeze(rows), t, x, y, freeze(parts), freeze(starts))


class _Told(NamedTuple):
    """Pairs with a column for each of their fields, and the tuple that tells each."""

    pairs: dict[str, Array]
    trigger: Longs


@dataclass(frozen=True)
class _Encounters(Operator):
    """What both boxes need. ``time`` is in seconds, positions are in metres, ``gap`` in seconds."""

    id: str
    time: str
    x: str
    y: str
    metres: float
    gap: float = 300.0

    def _check(self, tuples: Schema) -> None:
        require(tuples, self.id, "bigint", "string")
        for column in (self.time, self.x, self.y):
            require(tuples, column, "bigint", "double")
        if not self.metres >= 0 or not 0 < self.gap <= 86_400:
            raise BadInput(
                f"{self.name}: metres or gap is out of range.",
                hint="Give 0 or more metres, and a gap of up to a day.",
                code="out-of-range",
            )

    def fresh(self, tuples: Schema) -> State:
        """Nobody is known."""
        last = {"t": ("integer", _NEVER), "x": ("float", 0.0), "y": ("float", 0.0)}
        return {
            _IDS: KeyedTable({self.id: tuples[self.id]}, last),
            _LINES: RowTable(_LINE),
            _NEAR: RowTable(_PAIR),
            _CLOCK: KeyedTable({}, {"newest": ("integer", _NEVER)}),
            LAST: fresh_last(),
        }

    @property
    def _gap(self) -> int:
        return round(self.gap * _MICROS)

    def _take(self, state: State, tuples: Train, least: int) -> tuple[Train, Longs, _Told, _Told]:
        """Take positions; returns the rejects, the time after each tuple, and who begins to be near whom, and ended."""
        note_last(state, tuples)
        ids, clock = state[_IDS], state[_CLOCK]
        micros, reason = to_micros(tuples[self.time]), np.full(len(tuples), FINE, np.uint8)
        reason[is_invalid_time(tuples[self.time])] = TIME
        reason[self._find_unusable(tuples)] = NULL
        whole = np.flatnonzero(reason == FINE)
        row = clock.rows({"": np.zeros(1)})
        newest = int(clock["newest"][row[0]])
        who = ids.rows(tuples.take(whole).columns)
        late, again = _check_order(who, micros[whole], newest, ids["t"].copy())
        reason[whole[late]], reason[whole[again]] = LATE, ORDER
        good = whole[~(late | again)]
        now = np.full(len(tuples), newest)
        now[good] = micros[good]
        now = np.maximum.accumulate(now) if now.size else now
        clock["newest"][row] = now[-1] if now.size else newest
        lines, old = self._draw(
            state, who[~(late | again)], micros[good], tuples.take(good), int(clock["newest"][row[0]])
        )
        begun, ended = self._join(state, self._compare(lines, old, good), now, least)
        rejected = np.flatnonzero(reason != FINE)
        return tuples.take(rejected).plus(reason=REASONS[reason[rejected]]), now, begun, ended

    def _find_unusable(self, tuples: Train) -> Bools:
        found: Bools = np.asarray(nulls(tuples[self.id]))
        for column in (self.time, self.x, self.y):
            values = tuples[column]
            found = found | nulls(values) | (~np.isfinite(values) if values.dtype.kind == "f" else False)
        return np.asarray(found)

    def _draw(self, state: State, who: Longs, t: Longs, tuples: Train, newest: int) -> tuple[dict[str, Array], int]:
        """Return the lines that count, and how many of them are old; forgets those that nothing can meet any more."""
        ids, table = state[_IDS], state[_LINES]
        x, y = (np.ascontiguousarray(tuples[name], np.float64) for name in (self.x, self.y))
        before = [ids.swap(name, who, values) for name, values in (("t", t), ("x", x), ("y", y))]
        goes_on = t - before[0] <= self._gap
        starts = [np.where(goes_on, a, b) for a, b in zip(before, (t, x, y), strict=True)]
        new = dict(zip(_LINE, (who, *starts, t, x, y), strict=True))
        slots = table.slots()
        held = {name: table.table.take(name, slots) for name in _LINE}
        table.table.remove(slots[held["t1"] < newest - self._gap])
        kept = t >= newest - self._gap
        table.add({name: values[kept] for name, values in new.items()})
        return {name: np.concatenate([held[name], new[name]]) for name in _LINE}, slots.size

    def _compare(self, lines: dict[str, Array], old: int, good: Longs) -> _Told:
        """Return when new lines are near others; they are told by the tuple that ends the later one."""
        first, second = find_line_pairs(old, self.metres + SLACK, *(lines[name] for name in _LINE))
        parts = [
            self._approach(lines, first[k : k + BLOCK], second[k : k + BLOCK]) for k in range(0, first.size, BLOCK)
        ]
        if not parts:
            return _Told({name: np.empty(0, np.int64) for name in (*_PAIR,)}, np.empty(0, np.int64))
        pair, begin, end, nearest, at = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        one, two = lines["who"][first[pair]], lines["who"][second[pair]]
        found = (np.minimum(one, two), np.maximum(one, two), begin, end, nearest, at, np.zeros(pair.size, np.int64))
        return _Told(dict(zip(_PAIR, found, strict=True)), good[second[pair] - old])

    def _approach(self, lines: dict[str, Array], first: Longs, second: Longs) -> tuple[Ints | Longs | Floats, ...]:
        begin = np.maximum(lines["t0"][first], lines["t0"][second])
        end = np.minimum(lines["t1"][first], lines["t1"][second])
        return tuple(approaches(_movements(lines, first), _movements(lines, second), begin, end, float(self.metres)))

    def _join(self, state: State, found: _Told, now: Longs, least: int) -> tuple[_Told, _Told]:
        """Join the times of pairs; returns those that are long enough now, and those that are over."""
        held = state[_NEAR].pop(state[_NEAR].slots())
        columns = {name: np.concatenate([held[name], found.pairs[name]]) for name in _PAIR}
        columns["nearest"] = columns["nearest"].astype(np.float64)
        trigger = np.r_[np.full(held["a"].size, -1), found.trigger]
        order = np.lexsort((columns["begin"], trigger, columns["b"], columns["a"]))
        pairs, trigger = {name: np.ascontiguousarray(values[order]) for name, values in columns.items()}, trigger[order]
        kept, tells = join_times(least, *(pairs[name] for name in _PAIR))
        teller = np.flatnonzero(tells >= 0)
        begun = _Told({name: values[tells[teller]] for name, values in pairs.items()}, trigger[teller])
        due = np.searchsorted(now, pairs["end"][kept] + self._gap, side="right")
        over, left = kept[due < now.size], kept[due >= now.size]
        state[_NEAR].add({name: values[left] for name, values in pairs.items()})
        return begun, _Told({name: values[over] for name, values in pairs.items()}, due[due < now.size])

    def _name(self, ids: KeyedTable, a: Longs, b: Longs) -> dict[str, Array]:
        """Return the ids of pairs, the smaller one first."""
        one, two = ids.keys(self.id, a), ids.keys(self.id, b)
        smaller = np.asarray(one < two, np.bool_)
        return {self.id: np.where(smaller, one, two), f"other_{self.id}": np.where(smaller, two, one)}


@register
@dataclass(frozen=True)
class MeetingPeriods(_Encounters):
    """The meetings of ids: the times without a break during which two of them are at most ``metres`` apart.

    ``begun`` has them as soon as they have lasted ``least`` seconds, ``ended`` when ``gap`` has passed since their end,
    with the smallest distance and when it was. Positions must be in the order of time; ``rejects`` has others.
    """

    name = "meeting_periods"
    ports = ("begun", "ended", "rejects")
    least: float = 0.0

    def outputs(self, tuples: Schema) -> Mapping[str, Schema]:
        """Both ids, and times in seconds."""
        self._check(tuples)
        pair: Schema = {self.id: tuples[self.id], f"other_{self.id}": tuples[self.id], "begin": "float"}
        ended: Schema = {**pair, "end": "float", "nearest": "float", "nearest_at": "float"}
        return {"begun": {**pair, "time": "float"}, "ended": ended, "rejects": {**tuples, "reason": "text"}}

    def step(self, state: State, tuples: Train) -> Mapping[str, Train]:
        """Follow the movements."""
        rejects, now, begun, ended = self._take(state, tuples, round(self.least * _MICROS))
        order = np.lexsort((begun.pairs["b"], begun.pairs["a"], begun.trigger))
        columns = self._columns(state, begun.pairs, order, "begin")
        told = tuples.take(begun.trigger[order])
        out = told.with_columns({**columns, "time": now[begun.trigger[order]] / _MICROS})
        return {"begun": out, "ended": self._end(state, ended.pairs, tuples, ended.trigger), "rejects": rejects}

    def finish(self, state: State, width: int) -> Mapping[str, Train]:
        """All meetings are over when the input is."""
        pairs = state[_NEAR].pop(state[_NEAR].slots())
        count = pairs["a"].size
        return {"ended": self._end(state, pairs, after_last(state, width, count), np.arange(count))}

    def _end(self, state: State, pairs: dict[str, Array], triggers: Train, trigger: Longs) -> Train:
        order = np.lexsort((pairs["b"], pairs["a"], trigger))
        order = order[pairs["told"][order] == 1]
        columns = self._columns(state, pairs, order, "begin", "end", "nearest_at")
        return triggers.take(trigger[order]).with_columns({**columns, "nearest": pairs["nearest"][order]})

    def _columns(self, state: State, pairs: dict[str, Array], order: Longs, *times: str) -> dict[str, Array]:
        named = self._name(state[_IDS], pairs["a"][order], pairs["b"][order])
        return {**named, **{name: pairs[name][order] / _MICROS for name in times}}


class _Open(NamedTuple):
    """A set of ids that is together: its number, since when, and whether that has been told."""

    number: int
    since: int
    told: bool


class _Event(NamedTuple):
    """A convoy that has lasted long enough, or that has ended."""

    number: int
    members: int
    since: int
    at: int
    has_ended: bool


@register
@dataclass(frozen=True)
class Convoys(_Encounters):
    """The convoys of at least ``size`` ids that stay connected for ``least`` seconds, each ``metres`` from another.

    ``begun`` has a tuple for each id of a convoy when the gap has passed after it has lasted long enough, ``ended``
    when it has passed after the end. Positions must be in the order of time; ``rejects`` has others.
    """

    name = "convoys"
    ports = ("begun", "ended", "rejects")
    least: float = 0.0
    size: int = 2

    def outputs(self, tuples: Schema) -> Mapping[str, Schema]:
        """The number of the convoy, an id, and times in seconds."""
        self._check(tuples)
        if self.size < 2 or not self.least >= 0:
            raise BadInput(
                "convoys: size or least is out of range.", hint="Give a size of 2 or more.", code="out-of-range"
            )
        begun: Schema = {"convoy": "integer", self.id: tuples[self.id], "begin": "float"}
        return {"begun": begun, "ended": {**begun, "end": "float"}, "rejects": {**tuples, "reason": "text"}}

    def fresh(self, tuples: Schema) -> State:
        """Nobody is with anybody."""
        swept = {"until": ("integer", _NEVER), "numbers": ("integer", 0)}
        return {**super().fresh(tuples), _SETS: RowTable(_SET), _SWEPT: KeyedTable({}, swept), _OVER: RowTable(_PAIR)}

    def step(self, state: State, tuples: Train) -> Mapping[str, Train]:
        """Follow the movements, and who is together up to the time at which all of them are known."""
        rejects, now, _, over = self._take(state, tuples, 0)
        state[_OVER].add(over.pairs)
        until = int(now[-1]) - self._gap - 1 if now.size else _NEVER
        events = self._sweep(state, until)
        due = np.searchsorted(now, np.array([event.at for event in events], np.int64) + self._gap, side="right")
        return {**self._tell(state, events, tuples, due), "rejects": rejects}

    def finish(self, state: State, width: int) -> Mapping[str, Train]:
        """Everything is known when the input has ended."""
        events = self._sweep(state, np.iinfo(np.int64).max)
        count = sum(event.members.bit_count() for event in events)
        like = after_last(state, width, max(count, 1))
        return self._tell(state, events, like, np.zeros(len(events), np.int64))

    def _sweep(self, state: State, until: int) -> list[_Event]:
        """Continue the sets up to an instant; returns what happened to convoys, in order."""
        swept = state[_SWEPT]
        row = swept.rows({"": np.zeros(1)})[0]
        since = int(swept["until"][row])
        if until <= since:
            return []
        pairs = self._pairs(state, until)
        sets, numbers = self._open_sets(state), int(swept["numbers"][row])
        events: list[_Event] = []
        near: dict[int, int] = {}
        for a, b, begin, end in pairs:
            if begin <= since < end:
                near[a], near[b] = near.get(a, 0) ^ 1 << b, near.get(b, 0) ^ 1 << a
        for at, some in _changes(pairs, since, until):
            events += self._tell_long(sets, at)
            for a, b in some:
                near[a], near[b] = near.get(a, 0) ^ 1 << b, near.get(b, 0) ^ 1 << a
            sets, numbers = self._regroup(sets, near, at, numbers, events)
        events += self._tell_long(sets, until)
        swept["until"][row], swept["numbers"][row] = until, numbers
        self._store_sets(state, sets)
        return events

    def _pairs(self, state: State, until: int) -> list[tuple[int, ...]]:
        """Return who is near whom; forgets those who ended before an instant."""
        near, over = state[_NEAR], state[_OVER]
        found = []
        for table in (over, near):
            slots = table.slots()
            columns = [table.table.take(name, slots) for name in ("a", "b", "begin", "end")]
            found += list(zip(*(column.tolist() for column in columns), strict=True))
        slots = over.slots()
        over.table.remove(slots[over.table.take("end", slots) <= until])
        return found

    def _tell_long(self, sets: dict[int, _Open], until: int) -> list[_Event]:
        """Tell of the sets that have lasted long enough by an instant."""
        found, least = [], round(self.least * _MICROS)
        for members, one in sets.items():
            if not one.told and one.since + least <= until:
                found.append(_Event(one.number, members, one.since, one.since + least, has_ended=False))
                sets[members] = one._replace(told=True)
        return sorted(found, key=lambda event: (event.at, event.number))

    def _regroup(
        self, sets: dict[int, _Open], near: Mapping[int, int], at: int, numbers: int, events: list[_Event]
    ) -> tuple[dict[int, _Open], int]:
        """Return the sets that are together from an instant on; adds the convoys that end there to the events."""
        size = 1 + max(near, default=-1)
        groups = convoys.list_groups([near.get(k, 0) for k in range(size)], self.size)
        since = convoys.continue_sets({m: one.since for m, one in sets.items()}, groups, at, self.size)
        found: dict[int, _Open] = {}
        for members, started in since.items():
            if members not in sets or sets[members].since != started:
                numbers += 1
                found[members] = _Open(numbers, started, told=False)
            else:
                found[members] = sets[members]
        for members, one in sets.items():
            if one.told and not convoys.lives_on(members, one.since, since):
                events.append(_Event(one.number, members, one.since, at, has_ended=True))
        return found, numbers

    def _open_sets(self, state: State) -> dict[int, _Open]:
        columns = state[_SETS].pop(state[_SETS].slots())
        members: dict[int, int] = {}
        known: dict[int, _Open] = {}
        for number, member, since, told in zip(*(columns[name].tolist() for name in _SET), strict=True):
            members[number] = members.get(number, 0) | 1 << member
            known[number] = _Open(number, since, bool(told))
        return {members[number]: one for number, one in known.items()}

    def _store_sets(self, state: State, sets: dict[int, _Open]) -> None:
        rows = [(one.number, k, one.since, one.told) for members, one in sets.items() for k in _bits(members)]
        columns = np.array(rows, np.int64).reshape(-1, len(_SET)).T
        state[_SETS].add(dict(zip(_SET, columns, strict=True)))

    def _tell(self, state: State, events: list[_Event], tuples: Train, due: Longs) -> dict[str, Train]:
        found = {}
        for port, has_ended in (("begun", False), ("ended", True)):
            rows = [
                (int(place), event.number, member, event.since, event.at)
                for place, event in zip(due.tolist(), events, strict=True)
                if event.has_ended == has_ended
                for member in _bits(event.members)
            ]
            place, number, member, since, at = np.array(rows, np.int64).reshape(-1, 5).T
            order = np.lexsort((member, number, place))
            columns: dict[str, Array] = {
                "convoy": number[order],
                self.id: state[_IDS].keys(self.id, member[order]),
                "begin": since[order] / _MICROS,
            }
            end = {"end": at[order] / _MICROS} if has_ended else {}
            found[port] = tuples.take(place[order]).with_columns({**columns, **end})
        return found


def _bits(members: int) -> list[int]:
    found = []
    while members:
        found.append((members & -members).bit_length() - 1)
        members &= members - 1
    return found


def _changes(pairs: list[tuple[int, ...]], since: int, until: int) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Return the instants of a time at which pairs begin or cease to be near each other, in order, with these pairs."""
    at: dict[int, list[tuple[int, int]]] = {}
    for a, b, begin, end in pairs:
        for instant in (begin, end) if begin < end else ():
            if since < instant <= until:
                at.setdefault(instant, []).append((a, b))
    yield from sorted(at.items())
