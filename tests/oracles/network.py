"""The stream algebra one tuple at a time, straight from the paper's words: slow, and shares no code with the engine.

Expressions are evaluated by SQLite. A box keeps everything it ever saw and decides by counting.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections import defaultdict
from dataclasses import dataclass, field
from statistics import stdev
from typing import Any

from slipstream._network.algebra import (
    TUP,
    Aggregate,
    Arc,
    BSort,
    Filter,
    Join,
    Latest,
    Map,
    Network,
    Order,
    Resample,
    Running,
    Union,
)
from slipstream._network.box_functions import find_registered
from slipstream._network.boxes.operators import Operator
from slipstream._network.schemas import check

Tuple = dict[str, Any]
_sqlite = sqlite3.connect(":memory:", check_same_thread=False)


def evaluate(expression: str, values: Tuple) -> Any:
    if expression in values:
        return values[expression]
    names = ", ".join(f'? as "{name}"' for name in values)
    return _sqlite.execute(f"select ({expression}) from (select {names})", list(values.values())).fetchone()[0]


@dataclass(frozen=True)
class Event:
    """A tuple on an arc: arrival time of the oldest input behind it, and values."""

    ts: int
    values: Tuple


@dataclass
class _Group:
    seen: list[Any] = field(default_factory=list)
    kept: list[tuple[Any, Event, int]] = field(default_factory=list)
    buffer: list[Event] = field(default_factory=list)
    emitted: set[Any] = field(default_factory=set)
    opened: dict[Any, int] = field(default_factory=dict)
    clock: int = -(10**18)


def _key(order: Order, event: Event) -> tuple[Any, ...]:
    return tuple(event.values[name] for name in order.group_by)


def _in_order(order: Order, seen: list[Any], value: Any) -> bool:
    return sum(earlier > value for earlier in seen) <= order.slack


def _passed(order: Order, seen: list[Any], limit: Any) -> bool:
    """More than slack tuples at or beyond the limit: nothing below it can be in order any more."""
    return sum(value >= limit for value in seen) > order.slack


def compute(functions: dict[str, str], window: list[Event], at: Any) -> Tuple:
    return {name: _function(text, window, at) for name, text in functions.items()}


def _function(text: str, window: list[Event], at: Any) -> Any:  # noqa: PLR0911
    name, _, inside = text.partition("(")
    inside = inside.rstrip().removesuffix(")")
    if inside.startswith("distinct "):
        return len({evaluate(inside.removeprefix("distinct "), event.values) for event in window} - {None})
    if inside == "*":
        return len(window)
    rows = [[evaluate(part, event.values) for part in inside.split(",")] for event in window]
    user = find_registered(name)
    if user:
        state = user.init(at)
        for row in rows:
            state = user.incr(state, *row)
        return user.final(state)
    values = [row[0] for row in rows if row[0] is not None]
    if name == "first":
        return rows[0][0]
    if name == "last":
        return rows[-1][0]
    if name == "count":
        return len(values)
    if name == "stddev":
        return stdev(values) if len(values) > 1 else None
    plain = {"sum": sum, "min": min, "max": max, "avg": lambda v: sum(v) / len(v)}
    return plain[name](values) if values else None


class _Box:
    def __init__(self) -> None:
        self.groups: dict[tuple[Any, ...], _Group] = defaultdict(_Group)


class _BSort(_Box):
    def __init__(self, box: BSort) -> None:
        super().__init__()
        self.order = box.order

    def push(self, side: int, event: Event) -> list[Event]:
        buffer = self.groups[_key(self.order, event)].buffer
        buffer.append(event)
        if len(buffer) <= self.order.slack:
            return []
        least = min(buffer, key=lambda e: e.values[self.order.on])
        buffer.remove(least)
        return [least]


class _Aggregate(_Box):
    def __init__(self, box: Aggregate) -> None:
        super().__init__()
        self.box = box

    def push(self, side: int, event: Event) -> list[Event]:
        box, group = self.box, self.groups[_key(self.box.order, event)]
        group.clock = max(group.clock, event.ts)
        value = len(group.seen) + 1 if box.order.on == TUP else event.values[box.order.on]
        out = self._timed_out(group, event)
        if _in_order(box.order, group.seen, value):
            group.kept.append((value, event, group.clock))
            for start in self._windows(value):
                group.opened.setdefault(start, group.clock)
        group.seen.append(value)
        due = [start for start in group.opened if start not in group.emitted and self._complete(group, start)]
        return out + [self._emit(group, event, start) for start in sorted(due)]

    def _windows(self, value: Any) -> list[Any]:
        """The starts of all windows that hold a value; those of numbered tuples begin at 1."""
        size, advance = self.box.size, self.box.advance
        origin = 1 if self.box.order.on == TUP else 0
        last = (value - origin) // advance
        starts = []
        for number in itertools.count(last, -1):
            start = number * advance + origin
            if start + size <= value or (origin and number < 0):
                return starts
            starts.append(start)
        raise AssertionError

    def _complete(self, group: _Group, start: Any) -> bool:
        if self.box.order.on == TUP:
            return len(group.seen) >= start + self.box.size - 1
        return _passed(self.box.order, group.seen, start + self.box.size)

    def _timed_out(self, group: _Group, event: Event) -> list[Event]:
        if self.box.timeout is None:
            return []
        limit = group.clock - self.box.timeout * 1e6
        late = [s for s, opened in group.opened.items() if s not in group.emitted and opened < limit]
        return [self._emit(group, event, start) for start in sorted(late)]

    def _emit(self, group: _Group, event: Event, start: Any) -> Event:
        group.emitted.add(start)
        until = group.opened[start] + (self.box.timeout or 1e12) * 1e6
        kept = [(v, e) for v, e, clock in group.kept if start <= v < start + self.box.size and clock <= until]
        window = [e for _, e in sorted(kept, key=lambda pair: pair[0])]
        keys = {name: event.values[name] for name in self.box.order.group_by} | {self.box.order.column: start}
        return Event(min(e.ts for e in window), keys | compute(self.box.functions, window, start))


class _Join(_Box):
    def __init__(self, box: Join) -> None:
        super().__init__()
        self.box = box
        self.kept: tuple[list[Event], list[Event]] = ([], [])

    def push(self, side: int, event: Event) -> list[Event]:
        order = (self.box.left, self.box.right)[side]
        assert order is not None
        group = self.groups[(side, *_key(order, event))]
        value = event.values[order.on]
        fine = _in_order(order, group.seen, value)
        group.seen.append(value)
        if not fine:
            return []
        self.kept[side].append(event)
        pairs = [(event, other) if side == 0 else (other, event) for other in self.kept[1 - side]]
        return [self._paired(t, u) for t, u in pairs if self._meets(t, u)]

    def _meets(self, t: Event, u: Event) -> bool:
        near = abs(t.values[self.box.left.on] - u.values[self.box.right.on]) <= self.box.size
        flat = {f"left.{k}": v for k, v in t.values.items()} | {f"right.{k}": v for k, v in u.values.items()}
        text = self.box.predicate
        for name in sorted(flat, key=len, reverse=True):
            text = text.replace(name, f'"{name}"')
        return near and bool(evaluate(text, flat))

    @staticmethod
    def _paired(t: Event, u: Event) -> Event:
        right = {(f"right_{name}" if name in t.values else name): value for name, value in u.values.items()}
        return Event(min(t.ts, u.ts), t.values | right)


class _Resample(_Box):
    def __init__(self, box: Resample) -> None:
        super().__init__()
        self.box = box
        self.left_seen: list[Any] = []
        self.lefts: list[Event] = []
        self.right_seen: list[Any] = []
        self.answered: set[tuple[int, Any]] = set()

    def push(self, side: int, event: Event) -> list[Event]:
        if side == 0:
            value = event.values[self.box.left.on]
            if _in_order(self.box.left, self.left_seen, value):
                self.lefts.append(event)
            self.left_seen.append(value)
        else:
            value = event.values[self.box.right.on]
            group = self.groups[_key(self.box.right, event)]
            if _in_order(self.box.right, group.seen, value):
                group.kept.append((value, event, 0))
            group.seen.append(value)
            self.right_seen.append(value)
        return [e for i, t in enumerate(self.lefts) for key in self.groups if (e := self._answer(i, t, key))]

    def _answer(self, number: int, t: Event, key: Any) -> Event | None:
        at, group = t.values[self.box.left.on], self.groups[key]
        far = at + self.box.size
        closed = sum(value > far for value in group.seen) > self.box.right.slack
        over = self.box.lag is not None and any(value > far + self.box.lag for value in self.right_seen)
        if (number, key) in self.answered or (number, "*") in self.answered or not (closed or over):
            return None
        window = [e for v, e, _ in sorted(group.kept, key=lambda k: k[0]) if abs(v - at) <= self.box.size]
        self.answered.add((number, key))
        if not window:
            return None
        keys = dict(zip(self.box.right.group_by, key, strict=True)) | {self.box.left.on: at}
        ts = min(t.ts, *(e.ts for e in window))
        return Event(ts, keys | compute(self.box.functions, window, at))

    def retire(self) -> None:
        """After each arrival: left tuples the right is too far beyond get no more groups."""
        if self.box.lag is None:
            return
        for number, t in enumerate(self.lefts):
            if any(value > t.values[self.box.left.on] + self.box.size + self.box.lag for value in self.right_seen):
                self.answered.add((number, "*"))


class _Clocked(_Aggregate):
    """Windows of all groups, closed by the tuples of another stream."""

    def __init__(self, box: Aggregate) -> None:
        super().__init__(box)
        self.clock: list[Any] = []

    def push(self, side: int, event: Event) -> list[Event]:
        value = event.values[self.box.order.on]
        if side:
            self.clock += [value] if value is not None else []
            due = [
                (start, place)
                for place, group in enumerate(self.groups.values())
                for start in group.opened
                if start not in group.emitted and _passed(self.box.order, self.clock, start + self.box.size)
            ]
            keys = list(self.groups)
            return [self._closed(keys[place], start) for start, place in sorted(due)]
        if value is not None and not _passed(self.box.order, [v for v in self.clock if v > value], value):
            group = self.groups[_key(self.box.order, event)]
            group.kept.append((value, event, 0))
            for start in self._windows(value):
                group.opened.setdefault(start, 0)
        return []

    def _closed(self, key: tuple[Any, ...], start: Any) -> Event:
        return self._emit(self.groups[key], Event(0, dict(zip(self.box.order.group_by, key, strict=True))), start)


class _Latest(_Box):
    def __init__(self, box: Latest) -> None:
        super().__init__()
        self.box = box
        self.newest: dict[tuple[Any, ...], Tuple] = {}
        self.columns: list[str] = []

    def push(self, side: int, event: Event) -> list[Event]:
        key = tuple(event.values[name] for name in self.box.on)
        if side:
            self.newest[key] = event.values
            return []
        found = self.newest.get(key, {})
        right = {
            (f"right_{name}" if name in event.values else name): found.get(name)
            for name in self.columns
            if name not in self.box.on
        }
        return [Event(event.ts, event.values | right)]


class _Running(_Box):
    def __init__(self, box: Running) -> None:
        super().__init__()
        self.box = box

    def push(self, side: int, event: Event) -> list[Event]:
        group = self.groups[tuple(event.values[name] for name in self.box.group_by)]
        group.buffer.append(event)
        return [Event(event.ts, event.values | compute(self.box.functions, group.buffer, None))]


_STATEFUL: dict[type, Any] = {
    BSort: _BSort, Aggregate: _Aggregate, Join: _Join, Resample: _Resample, Latest: _Latest, Running: _Running
}  # fmt: skip


def _stateful(node: Any) -> Any:
    clocked = isinstance(node.box, Aggregate) and len(node.inputs) > 1
    return (_Clocked if clocked else _STATEFUL[type(node.box)])(node.box)


#: operator class -> how to do its work tuple by tuple: an object with push(side, event) -> [(port, event)]
OPERATORS: dict[type, Any] = {}


class Interpreter:
    """Runs a network on one arrival after the other."""

    def __init__(self, network: Network, tables: dict[str, list[Tuple]] | None = None) -> None:
        self.network = network
        self.tables = tables or {}
        done = {place.name for place in (*network.sources, *network.tables)}
        self.nodes = []
        while len(self.nodes) < len(network.nodes):
            ready = [n for n in network.nodes if n not in self.nodes and all(a.origin in done for a in n.inputs)]
            self.nodes += ready[:1]
            done.add(ready[0].name)
        self.boxes: dict[str, Any] = {}
        for node in self.nodes:
            if type(node.box) in _STATEFUL:
                self.boxes[node.name] = _stateful(node)
            elif type(node.box) in OPERATORS:
                lender = (self.boxes[node.inputs[0].origin],) if getattr(node.box, "borrows", False) else ()
                self.boxes[node.name] = OPERATORS[type(node.box)](node.box, *lender)
            if isinstance(node.box, Latest):
                self.boxes[node.name].columns = list(check(network, None).schemas[node.inputs[1]])

    def push(self, source: str, ts: int, values: Tuple) -> dict[str, list[Event]]:
        arcs: dict[Arc, list[Event]] = defaultdict(list)
        arcs[Arc(source)].append(Event(ts, values))
        for node in self.nodes:
            sides = list(enumerate(node.inputs))
            if isinstance(node.box, Latest) and not node.box.before:
                sides.reverse()
            for side, arc in sides:
                for event in arcs[arc]:
                    for port, out in self._box(node, side, event):
                        arcs[Arc(node.name, port)].append(out)
                    if isinstance(node.box, Resample):
                        self.boxes[node.name].retire()
        return {output.name: arcs[output.arc] for output in self.network.outputs}

    def _box(self, node: Any, side: int, event: Event) -> list[tuple[int, Event]]:
        box = node.box
        if isinstance(box, Filter):
            port = next((i for i, p in enumerate(box.predicates) if evaluate(p, event.values)), len(box.predicates))
            return [(port, event)]
        if isinstance(box, Map):
            return [(0, Event(event.ts, {name: evaluate(e, event.values) for name, e in box.columns.items()}))]
        if isinstance(box, Union):
            return [(0, event)]
        if isinstance(box, Join) and box.left is None:
            join = _Join(box)
            rows = [Event(event.ts, row) for row in self.tables[node.inputs[1 - side].origin]]
            rows.sort(key=lambda e: tuple(e.values.values()))
            looked_up = Join(box.predicate, 0, Order("_"), Order("_"))
            join.box = looked_up
            met = []
            for row in rows:
                pair = (row, event) if side else (event, row)
                t, u = (Event(e.ts, {**e.values, "_": 0}) for e in pair)
                if join._meets(t, u):
                    met.append((0, join._paired(*pair)))
            if box.outer and not met:
                nothing = Event(event.ts, dict.fromkeys(rows[0].values))
                met = [(0, join._paired(*((nothing, event) if side else (event, nothing))))]
            return met
        if isinstance(box, Operator):
            return list(self.boxes[node.name].push(side, event))
        return [(0, out) for out in self.boxes[node.name].push(side, event)]


def interpret(
    network: Network, feed: list[tuple[str, int, Tuple]], tables: dict[str, list[Tuple]] | None = None
) -> dict[str, list[Event]]:
    """All outputs of a network for a feed of (source, ts, tuple)."""
    interpreter = Interpreter(network, tables)
    results: dict[str, list[Event]] = {output.name: [] for output in network.outputs}
    for source, ts, values in feed:
        for name, events in interpreter.push(source, ts, values).items():
            results[name] += events
    return results
