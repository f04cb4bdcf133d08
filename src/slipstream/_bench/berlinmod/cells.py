"""The 27 cells as networks: nine queries, each continuous, windowed and as snapshots.

All begin in the same way: a source of events, put in the order of time. What leaves has the columns of the
specification; times are in milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slipstream._bench.berlinmod.position_events import LATENESS
from slipstream._bench.berlinmod.query_parameters import Parameters
from slipstream._errors import BadArgument
from slipstream._network.algebra import Builder, Network, NetworkStream
from slipstream._network.boxes.movement.fences import Arrivals, Entering, FirstSeen, Near, Travelled
from slipstream._network.boxes.movement.in_order import InOrder
from slipstream._network.boxes.movement.meetings import Meetings, MeetingsNow
from slipstream._network.boxes.movement.recall import Recall
from slipstream._network.boxes.movement.spans import CountInWindow, LastInWindow, StateAt

QUERIES = tuple(range(1, 10))
FORMS = ("continuous", "windowed", "snapshot")
CONTINUOUS, WINDOWED, SNAPSHOT = FORMS
#: answers at ticks for vehicles with an event since the last tick, or for all known vehicles at every tick
SNAPSHOTS = ("active", "complete")
ANSWERS, LATE = "answers", "late"
SOURCE = "events"
_AT = "at"


@dataclass(frozen=True)
class Cell:
    """A query in a form."""

    query: int
    form: str
    complete: bool = False

    @property
    def name(self) -> str:
        """Its name in files: ``Q3-snapshot``."""
        return f"Q{self.query}-{self.form}"

    def network(self, given: Parameters) -> Network:
        """Return the network that answers it."""
        net = Builder(self.name.lower().replace("-", "_"))
        source = net.source(SOURCE, vehicle_id="integer", t="integer", lon="float", lat="float")
        ordered = source.through(InOrder("t", "vehicle_id", LATENESS), name="in_order")
        _QUERIES[self.query](_Events(ordered, given, self)).to(ANSWERS)
        ordered["rejects"].to(LATE)
        return net.build()


def list_cells(
    queries: tuple[int, ...] = QUERIES, forms: tuple[str, ...] = FORMS, *, complete: bool = False
) -> list[Cell]:
    """Return the cells of some queries in some forms.

    >>> [cell.name for cell in list_cells((3,), ("windowed", "snapshot"))]
    ['Q3-windowed', 'Q3-snapshot']
    """
    return [Cell(query, form, complete) for query in queries for form in forms]


def parse_forms(text: str) -> tuple[str, ...]:
    """Parse a list of forms.

    >>> parse_forms("windowed,snapshot")
    ('windowed', 'snapshot')
    """
    wanted = [form.strip() for form in text.split(",")]
    if unknown := [form for form in wanted if form not in FORMS]:
        raise BadArgument(
            f"--forms {text}: {unknown[0]!r} is not a form.",
            hint=f"Forms: {', '.join(FORMS)}.",
            code="unknown-value",
            found=unknown[0],
            expected=[*FORMS],
        )
    return tuple(form for form in FORMS if form in wanted)


@dataclass(frozen=True)
class _Events:
    """The events of a cell, with the steps that several queries share."""

    stream: NetworkStream
    given: Parameters
    cell: Cell

    @property
    def form(self) -> str:
        return self.cell.form

    def of(self, *vehicles: int) -> _Events:
        """The events of some vehicles; when all ticks are answered, those of the others still announce them."""
        if self.form == SNAPSHOT and self.cell.complete:
            return self
        return _Events(self.stream.filter(_match_any(vehicles)), self.given, self.cell)

    def last_in_window(self, stream: NetworkStream | None = None) -> NetworkStream:
        """The last event of each vehicle in each window; ``at`` is the end of the window."""
        return (stream or self.stream).through(LastInWindow("vehicle_id", "t", self.given.window, _AT))

    def states(self, stream: NetworkStream | None = None, *, everyone: bool = False) -> NetworkStream:
        """The last known events at the ticks, in the column ``at``."""
        box = StateAt("vehicle_id", "t", self.given.tick, _AT, everyone, self.cell.complete)
        return (stream or self.stream).through(box)

    def count(self, stream: NetworkStream, where: str = "") -> NetworkStream:
        """The number of vehicles in each window."""
        counted = stream.through(CountInWindow("vehicle_id", "t", self.given.window, _AT, where))
        return counted.map({**self.window, "n": "n"})

    @property
    def window(self) -> dict[str, str]:
        """The columns of a window."""
        return {"ws": f"{_AT} - {self.given.window}", "we": _AT}

    @property
    def every(self) -> int:
        """How often boxes forget: at the start of each window, or never."""
        return self.given.window if self.form == WINDOWED else 0


def _match_any(vehicles: tuple[int, ...]) -> str:
    return " or ".join(f"vehicle_id = {vehicle}" for vehicle in vehicles)


def _seen(events: _Events) -> NetworkStream:
    """Q1: which vehicles have been seen."""
    if events.form == CONTINUOUS:
        return events.stream.through(FirstSeen("vehicle_id")).map({"vehicle": "vehicle_id", "t": "t"})
    if events.form == WINDOWED:
        return events.count(events.stream)
    return events.states().map({"T": _AT, "vehicle": "vehicle_id"})


def _target(events: _Events) -> NetworkStream:
    """Q2: where the target is."""
    target = events.of(events.given.target)
    place = {"lon": "lon", "lat": "lat"}
    if events.form == CONTINUOUS:
        return target.stream.map({"vehicle": "vehicle_id", "t": "t", **place})
    if events.form == WINDOWED:
        return target.last_in_window().map({**events.window, "vehicle": "vehicle_id", **place})
    states = target.states().filter(_match_any((events.given.target,)))
    return states.map({"T": _AT, **place, "t_last": "t"})


def _near(events: _Events, box: Near) -> NetworkStream:
    """Q3 and Q8: vehicles near a place."""
    if events.form == CONTINUOUS:
        return events.stream.through(box).map({"vehicle": "vehicle_id", "t": "t", "near": "near"})
    if events.form == WINDOWED:
        return events.count(events.stream.through(box), "near")
    return events.states().through(box).filter("near").map({"T": _AT, "vehicle": "vehicle_id"})


def _near_point(events: _Events) -> NetworkStream:
    return _near(events, Near("lon", "lat", events.given.point, events.given.metres))


def _near_segment(events: _Events) -> NetworkStream:
    return _near(events, Near("lon", "lat", events.given.segment, events.given.metres))


def _recall_at_ticks(events: _Events, happened: NetworkStream, columns: dict[str, str]) -> NetworkStream:
    """Everything that happened so far, at each tick; or what happened in the window, once per window."""
    if events.form == CONTINUOUS:
        return happened.map({"vehicle": "vehicle_id", **columns, "t": "t"})
    if events.form == WINDOWED:
        ends = events.last_in_window().map({_AT: _AT, "vehicle_id": "vehicle_id"})
        recalled = ends.through(Recall("vehicle_id", _AT, "t", events.given.window), happened)
        return recalled.map({**events.window, "vehicle": "vehicle_id", **columns, "t": "t"})
    ticks = events.states().map({_AT: _AT, "vehicle_id": "vehicle_id"})
    recalled = ticks.through(Recall("vehicle_id", _AT, "t"), happened)
    last = "t_first" if columns else "t_entry"
    return recalled.map({"T": _AT, "vehicle": "vehicle_id", **columns, last: "t"})


def _entries(events: _Events) -> NetworkStream:
    """Q4: vehicles that enter an area."""
    box = Entering("lon", "lat", "vehicle_id", "t", events.every, events.given.area)
    return _recall_at_ticks(events, events.stream.through(box).map({"vehicle_id": "vehicle_id", "t": "t"}), {})


def _meetings(events: _Events) -> NetworkStream:
    """Q5: pairs of vehicles that meet near a point."""
    near = (*events.given.point, events.given.metres)
    return _pairs(events, events.given.meet, near, {"a": "a", "b": "b"})


def _pairs(events: _Events, apart: float, near: tuple[float, ...], who: dict[str, str]) -> NetworkStream:
    if events.form == CONTINUOUS:
        now = events.stream.through(MeetingsNow("vehicle_id", "lon", "lat", apart, near))
        return now.map({**who, "t": "t", "distance": "distance"})
    box = Meetings("vehicle_id", "lon", "lat", apart, near, _AT)
    if events.form == WINDOWED:
        return events.last_in_window().through(box).map({**events.window, **who, "distance": "distance"})
    states = events.states(everyone=True)
    if not who:
        states = states.filter(_match_any((events.given.other, events.given.target)))
    return states.through(box).map({"T": _AT, **who, "distance": "distance"})


def _travelled(events: _Events) -> NetworkStream:
    """Q6: the distance that vehicles have travelled."""
    metres = events.stream.through(Travelled("lon", "lat", "vehicle_id", "t", events.every))
    columns = {"vehicle": "vehicle_id", "metres": "metres"}
    if events.form == CONTINUOUS:
        return metres.map({"vehicle": "vehicle_id", "t": "t", "metres": "metres"})
    if events.form == WINDOWED:
        # of several events with the largest time, the total is that of the last one
        box = LastInWindow("vehicle_id", "t", events.given.window, _AT, ties="last")
        return metres.through(box).map({**events.window, **columns})
    return events.states(metres).map({"T": _AT, **columns})


def _passages(events: _Events) -> NetworkStream:
    """Q7: the first passage of vehicles at points of interest."""
    box = Arrivals("lon", "lat", "vehicle_id", "t", events.every, events.given.points)
    return _recall_at_ticks(events, events.stream.through(box), {"poi": "poi"})


def _distance(events: _Events) -> NetworkStream:
    """Q9: the distance between two vehicles."""
    return _pairs(events.of(events.given.other, events.given.target), float("inf"), (), {})


_QUERIES: dict[int, Callable[[_Events], NetworkStream]] = {
    1: _seen,
    2: _target,
    3: _near_point,
    4: _entries,
    5: _meetings,
    6: _travelled,
    7: _passages,
    8: _near_segment,
    9: _distance,
}
