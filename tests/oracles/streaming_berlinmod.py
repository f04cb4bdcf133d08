"""The nine queries of Streaming BerlinMOD, read from the specification one event at a time, in plain Python.

Events are (vehicle, t, lon, lat) in arrival order: by time, vehicle, and order in the file. Parameters are those of
``slipstream._bench.berlinmod.query_parameters``; distances are GeographicLib's.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import pyproj

GEOD = pyproj.Geod(ellps="WGS84")


class Event(NamedTuple):
    vehicle: int
    t: int
    lon: float
    lat: float


def metres(a, b) -> float:
    return GEOD.inv(a[0], a[1], b[0], b[1])[2]


def place(event: Event) -> tuple[float, float]:
    return event.lon, event.lat


def to_vector(lon, lat):
    lon, lat = math.radians(lon), math.radians(lat)
    return math.cos(lat) * math.cos(lon), math.cos(lat) * math.sin(lon), math.sin(lat)


def cross(a, b):
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def from_segment(point, segment) -> float:
    """The distance of a point from the closest point of an edge on the sphere."""
    a, b, p = to_vector(*segment[:2]), to_vector(*segment[2:]), to_vector(*point)
    n = cross(a, b)
    if dot(n, n):
        share = dot(p, n) / dot(n, n)
        foot = tuple(x - share * y for x, y in zip(p, n, strict=True))
        if dot(cross(a, foot), n) >= 0 and dot(cross(foot, b), n) >= 0:
            x, y, z = foot
            return metres(point, (math.degrees(math.atan2(y, x)), math.degrees(math.atan2(z, math.hypot(x, y)))))
    return min(metres(point, segment[:2]), metres(point, segment[2:]))


def by_window(events, given) -> dict[int, list[Event]]:
    found = defaultdict(list)
    for event in events:
        found[event.t // given.window * given.window].append(event)
    return found


def by_vehicle(events) -> dict[int, list[Event]]:
    found = defaultdict(list)
    for event in events:
        found[event.vehicle].append(event)
    return found


def next_tick(t: int, given) -> int:
    return (t // given.tick + 1) * given.tick


def up_to(events, tick) -> list[Event]:
    return [event for event in events if event.t <= tick]


def last_of_window(events) -> Event:
    newest = max(event.t for event in events)
    return next(event for event in events if event.t == newest)


def ticks_of(events, everything, given, complete) -> list[int]:
    """The ticks at which a key with these events is answered."""
    if not complete:
        return sorted({next_tick(event.t, given) for event in events})
    first, last = next_tick(everything[0].t, given), next_tick(everything[-1].t, given)
    return [tick for tick in range(first, last + 1, given.tick) if up_to(events, tick)]


class Oracle:
    def __init__(self, events: list[Event], given: Any, complete: bool = False) -> None:
        self.events, self.given, self.complete = events, given, complete
        self.cars = by_vehicle(events)
        self.windows = [(ws, ws + given.window, inside) for ws, inside in by_window(events, given).items()]

    def answer(self, query: int, form: str) -> list[tuple]:
        return list(getattr(self, f"q{query}_{form}")())

    def ticks(self, events) -> list[int]:
        return ticks_of(events, self.events, self.given, self.complete)

    def states(self) -> Iterator[tuple[int, int, list[Event]]]:
        """Each vehicle at each of its ticks, with its events up to then."""
        for vehicle, events in self.cars.items():
            for tick in self.ticks(events):
                yield tick, vehicle, up_to(events, tick)

    # --- 1
    def q1_continuous(self):
        return [(vehicle, events[0].t) for vehicle, events in self.cars.items()]

    def q1_windowed(self):
        return [(ws, we, len(by_vehicle(inside))) for ws, we, inside in self.windows]

    def q1_snapshot(self):
        return [(tick, vehicle) for tick, vehicle, _ in self.states()]

    # --- 2
    def q2_continuous(self):
        return self.cars[self.given.target]

    def q2_windowed(self):
        for ws, we, inside in self.windows:
            if mine := by_vehicle(inside).get(self.given.target):
                yield ws, we, self.given.target, *place(last_of_window(mine))

    def q2_snapshot(self):
        for tick, vehicle, known in self.states():
            if vehicle == self.given.target:
                yield tick, *place(known[-1]), known[-1].t

    # --- 3 and 8
    def near_point(self, event):
        return metres(place(event), self.given.point) <= self.given.metres

    def near_segment(self, event):
        return from_segment(place(event), self.given.segment) <= self.given.metres

    def near_continuous(self, near: Callable[[Event], bool]):
        return [(event.vehicle, event.t, near(event)) for event in self.events]

    def near_windowed(self, near):
        return [(ws, we, len({event.vehicle for event in inside if near(event)})) for ws, we, inside in self.windows]

    def near_snapshot(self, near):
        return [(tick, vehicle) for tick, vehicle, known in self.states() if near(known[-1])]

    def q3_continuous(self):
        return self.near_continuous(self.near_point)

    def q3_windowed(self):
        return self.near_windowed(self.near_point)

    def q3_snapshot(self):
        return self.near_snapshot(self.near_point)

    def q8_continuous(self):
        return self.near_continuous(self.near_segment)

    def q8_windowed(self):
        return self.near_windowed(self.near_segment)

    def q8_snapshot(self):
        return self.near_snapshot(self.near_segment)

    # --- 4
    def entries(self, events) -> list[int]:
        west, south, east, north = self.given.area
        found, before = [], False
        for event in events:
            inside = west <= event.lon <= east and south <= event.lat <= north
            if inside and not before:
                found.append(event.t)
            before = inside
        return found

    def q4_continuous(self):
        return [(vehicle, t) for vehicle, events in self.cars.items() for t in self.entries(events)]

    def q4_windowed(self):
        for ws, we, inside in self.windows:
            for vehicle, events in by_vehicle(inside).items():
                yield from ((ws, we, vehicle, t) for t in self.entries(events))

    def q4_snapshot(self):
        return [(tick, vehicle, t) for tick, vehicle, known in self.states() for t in self.entries(known)]

    # --- 5
    def meetings(self, last: dict[int, Event]):
        near = {vehicle: event for vehicle, event in last.items() if self.near_point(event)}
        for a, b in combinations(sorted(near), 2):
            apart = metres(place(near[a]), place(near[b]))
            if apart <= self.given.meet:
                yield a, b, apart

    def q5_continuous(self):
        last = {}
        for event in self.events:
            last[event.vehicle] = event
            yield from ((a, b, event.t, apart) for a, b, apart in self.meetings(last))

    def q5_windowed(self):
        for ws, we, inside in self.windows:
            last = {vehicle: last_of_window(events) for vehicle, events in by_vehicle(inside).items()}
            yield from ((ws, we, *pair) for pair in self.meetings(last))

    def q5_snapshot(self):
        for tick in self.ticks(self.events):
            last = {event.vehicle: event for event in up_to(self.events, tick)}
            yield from ((tick, *pair) for pair in self.meetings(last))

    # --- 6
    def totals(self, events) -> list[float]:
        found = [0.0]
        for before, event in pairwise(events):
            found.append(found[-1] + metres(place(before), place(event)))
        return found

    def q6_continuous(self):
        for vehicle, events in self.cars.items():
            for event, total in zip(events, self.totals(events), strict=True):
                yield vehicle, event.t, total

    def q6_windowed(self):
        for ws, we, inside in self.windows:
            for vehicle, events in by_vehicle(inside).items():
                yield ws, we, vehicle, self.totals(events)[-1]

    def q6_snapshot(self):
        return [(tick, vehicle, self.totals(known)[-1]) for tick, vehicle, known in self.states()]

    # --- 7
    def passages(self, events) -> list[tuple[int, int]]:
        found = {}
        for event in events:
            for number, lon, lat, radius in self.given.points:
                if number not in found and metres(place(event), (lon, lat)) <= radius:
                    found[number] = event.t
        return [(int(number), t) for number, t in found.items()]

    def q7_continuous(self):
        return [(vehicle, *passed) for vehicle, events in self.cars.items() for passed in self.passages(events)]

    def q7_windowed(self):
        for ws, we, inside in self.windows:
            for vehicle, events in by_vehicle(inside).items():
                yield from ((ws, we, vehicle, *passed) for passed in self.passages(events))

    def q7_snapshot(self):
        return [(tick, vehicle, *passed) for tick, vehicle, known in self.states() for passed in self.passages(known)]

    # --- 9
    @property
    def both(self) -> list[int]:
        return sorted({self.given.other, self.given.target})

    def apart(self, last: dict[int, Event]) -> list[float]:
        if len(self.both) < 2 or any(vehicle not in last for vehicle in self.both):
            return []
        return [metres(*(place(last[vehicle]) for vehicle in self.both))]

    def q9_continuous(self):
        last = {}
        for event in self.events:
            if event.vehicle in self.both:
                last[event.vehicle] = event
                yield from ((event.t, apart) for apart in self.apart(last))

    def q9_windowed(self):
        for ws, we, inside in self.windows:
            last = {vehicle: last_of_window(events) for vehicle, events in by_vehicle(inside).items()}
            yield from ((ws, we, apart) for apart in self.apart(last))

    def q9_snapshot(self):
        mine = [event for event in self.events if event.vehicle in self.both]
        for tick in self.ticks(mine):
            last = {event.vehicle: event for event in up_to(mine, tick)}
            yield from ((tick, apart) for apart in self.apart(last))


#: the columns of each cell
COLUMNS = {
    "Q1-continuous": ("vehicle", "t"),
    "Q1-windowed": ("ws", "we", "n"),
    "Q1-snapshot": ("T", "vehicle"),
    "Q2-continuous": ("vehicle", "t", "lon", "lat"),
    "Q2-windowed": ("ws", "we", "vehicle", "lon", "lat"),
    "Q2-snapshot": ("T", "lon", "lat", "t_last"),
    "Q3-continuous": ("vehicle", "t", "near"),
    "Q3-windowed": ("ws", "we", "n"),
    "Q3-snapshot": ("T", "vehicle"),
    "Q4-continuous": ("vehicle", "t"),
    "Q4-windowed": ("ws", "we", "vehicle", "t"),
    "Q4-snapshot": ("T", "vehicle", "t_entry"),
    "Q5-continuous": ("a", "b", "t", "distance"),
    "Q5-windowed": ("ws", "we", "a", "b", "distance"),
    "Q5-snapshot": ("T", "a", "b", "distance"),
    "Q6-continuous": ("vehicle", "t", "metres"),
    "Q6-windowed": ("ws", "we", "vehicle", "metres"),
    "Q6-snapshot": ("T", "vehicle", "metres"),
    "Q7-continuous": ("vehicle", "poi", "t"),
    "Q7-windowed": ("ws", "we", "vehicle", "poi", "t"),
    "Q7-snapshot": ("T", "vehicle", "poi", "t_first"),
    "Q8-continuous": ("vehicle", "t", "near"),
    "Q8-windowed": ("ws", "we", "n"),
    "Q8-snapshot": ("T", "vehicle"),
    "Q9-continuous": ("t", "distance"),
    "Q9-windowed": ("ws", "we", "distance"),
    "Q9-snapshot": ("T", "distance"),
}
