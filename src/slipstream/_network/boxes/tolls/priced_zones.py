"""Zones with prices, and the parts of a leg that lie in them.

Zones come as GeoJSON: a collection of polygons with a name and prices. A leg is the straight line between two positions
of a vehicle. Its parts are found by crossing it with the edges of a polygon and looking at the middle of each piece, so
a zone is left and entered where the line crosses its border, not where the next report happens to be.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from slipstream._errors import MALFORMED, BadArgument, BadInput, Place
from slipstream._moving.space.geodesic import geodesic
from slipstream._network.boxes.movement.zones import read_polygon
from slipstream._tools.numba_tools import Bools, Floats, Longs, compiled

#: the prices of a zone, as properties of its feature; those that are missing are 0
PRICES = ("entry", "per_minute", "per_km")


@dataclass(frozen=True)
class Zone:
    """An area and what it costs to be there: on entering, by the minute and by the kilometre.

    Its edges are rows of x0, y0, x1, y1; a point is inside if a ray from it crosses an odd number of them.
    """

    name: str
    edges: Floats
    entry: float = 0.0
    per_minute: float = 0.0
    per_km: float = 0.0

    def price(self, seconds: Any, metres: Any) -> Any:
        """Return the price of visits."""
        return self.entry + self.per_minute * seconds / 60 + self.per_km * metres / 1000


class Borders(NamedTuple):
    """The edges of all zones: those of zone z are rows ``first[z]`` to ``first[z + 1]``; and their bounding boxes."""

    edges: Floats
    first: Longs
    boxes: Floats

    @classmethod
    def of(cls, zones: Sequence[Zone]) -> Borders:
        """Return the edges of zones."""
        first = np.cumsum([0, *(len(zone.edges) for zone in zones)])
        boxes = [[*zone.edges[:, :2].min(axis=0), *zone.edges[:, :2].max(axis=0)] for zone in zones]
        return cls(np.concatenate([zone.edges for zone in zones]), first.astype(np.int64), np.array(boxes))


def read_zones(zones: str | Path | Mapping[str, Any]) -> str:
    """Return the text of zones, a file or a mapping, once it has been checked."""
    if isinstance(zones, Mapping):
        text = json.dumps(zones)
        parse_zones(text)
        return text
    file = Path(zones)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadArgument(
            f"zones {file}: {error}.", hint="Give a GeoJSON file of polygons.", code="no-such-file"
        ) from error
    try:
        parse_zones(text)
    except BadInput as error:
        raise error.within(str(file)) from error
    return text


@lru_cache(maxsize=16)
def parse_zones(text: str) -> tuple[Zone, ...]:
    """Parse zones: a GeoJSON collection of polygons, each with a name and prices.

    >>> square = {"type": "Polygon", "coordinates": [[[0, 0], [9, 0], [9, 9], [0, 0]]]}
    >>> feature = {"type": "Feature", "properties": {"name": "centre", "entry": 5}, "geometry": square}
    >>> parse_zones(json.dumps({"type": "FeatureCollection", "features": [feature]}))[0].entry
    5.0
    """
    try:
        features = json.loads(text)["features"]
        found = tuple(_parse_zone(number, feature) for number, feature in enumerate(features))
    except MALFORMED as error:
        raise BadInput(
            f"not a collection of zones ({error}).",
            hint='A zone is a GeoJSON feature: a polygon, with the properties "name" and "entry", "per_minute" or '
            '"per_km".',
            code="unreadable-file",
        ) from error
    names = [zone.name for zone in found]
    if not found or len({*names}) < len(names):
        raise BadInput(
            f"zones: {', '.join(names) or 'none'}.", hint="Give each zone a name of its own.", code="duplicate-name"
        )
    return found


def _parse_zone(number: int, feature: Any) -> Zone:
    place = Place(field=f"features[{number}]")
    properties = feature.get("properties") or {}
    prices = {name: properties.get(name, 0) for name in PRICES}
    for name, value in prices.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not (isfinite(value) and value >= 0):
            raise BadInput(f"{name} is {value!r}.", place=place, hint="A price is 0 or more.", code="out-of-range")
    try:
        shape = read_polygon(json.dumps(feature["geometry"]))
    except BadInput as error:
        raise error.within(place) from error
    name = str(properties.get("name") or f"zone {number + 1}")
    return Zone(name, np.array(list(_list_edges(shape)), np.float64), **{key: float(v) for key, v in prices.items()})


def _list_edges(shape: Any) -> Iterator[tuple[float, float, float, float]]:
    for polygon in getattr(shape, "geoms", [shape]):
        for ring in (polygon.exterior, *polygon.interiors):
            yield from ((*one[:2], *two[:2]) for one, two in pairwise(ring.coords))


@compiled
def is_inside(edges: Floats, first: int, last: int, x: float, y: float) -> bool:
    """Return whether a point is inside: a ray to the right crosses an odd number of edges."""
    inside = False
    for e in range(first, last):
        x0, y0, x1, y1 = edges[e, 0], edges[e, 1], edges[e, 2], edges[e, 3]
        if (y0 > y) != (y1 > y) and x < x0 + (y - y0) / (y1 - y0) * (x1 - x0):
            inside = not inside
    return inside


@compiled
def find_cuts(edges: Floats, first: int, last: int, x0: float, y0: float, x1: float, y1: float, cuts: Floats) -> int:
    """Find where a leg crosses edges, as fractions of it in order; returns how many, with both ends among them."""
    cuts[0], cuts[1], count = 0.0, 1.0, 2
    dx, dy = x1 - x0, y1 - y0
    for e in range(first, last):
        ex, ey = edges[e, 2] - edges[e, 0], edges[e, 3] - edges[e, 1]
        across = dx * ey - dy * ex
        if across == 0.0:
            continue
        ox, oy = edges[e, 0] - x0, edges[e, 1] - y0
        along, on_edge = (ox * ey - oy * ex) / across, (ox * dy - oy * dx) / across
        if 0.0 < along < 1.0 and 0.0 <= on_edge <= 1.0:
            cuts[count] = along
            count += 1
    cuts[:count].sort()
    return count


@compiled
def is_apart(box: Floats, x0: float, y0: float, x1: float, y1: float) -> bool:
    """Return whether a leg lies beside a bounding box."""
    beside = max(x0, x1) < box[0] or min(x0, x1) > box[2]
    return bool(beside or max(y0, y1) < box[1] or min(y0, y1) > box[3])


@compiled
def measure(x0: float, y0: float, x1: float, y1: float, degrees: bool) -> float:
    """Return the length of a leg in metres."""
    return float(geodesic(x0, y0, x1, y1) if degrees else np.hypot(x1 - x0, y1 - y0))


class Followed(NamedTuple):
    """The vehicles of a train, by row: their last report and, for each zone, since when they are in it and how far."""

    time: Floats  # NaN before the first
    x: Floats
    y: Floats
    since: Floats  # NaN: not there
    metres: Floats


class Leg(NamedTuple):
    """A straight way of a vehicle, from its last report to that at tuple ``at``; a trip begins with one of no length.

    It begins at ``begin``, takes ``span`` seconds, and is ``length`` metres long.
    """

    at: int
    row: int
    x0: float
    y0: float
    x1: float
    y1: float
    begin: float
    span: float
    length: float


ENTERED, LEFT = 0, 1


@compiled
def note_event(events: Floats, count: int, what: int, leg: Leg, zone: int, when: float, held: Followed) -> Floats:
    """Append what happened at a time; returns the events, with more room if they were full."""
    if count == events.shape[0]:
        more = np.empty((2 * count, events.shape[1]))
        more[:count] = events
        events = more
    row = leg.row
    events[count, 0], events[count, 1], events[count, 2], events[count, 3] = what, leg.at, row, zone
    events[count, 4], events[count, 5], events[count, 6] = held.since[row, zone], when, held.metres[row, zone]
    return events


@compiled
def cross_zone(
    leg: Leg, zone: int, held: Followed, borders: Borders, cuts: Floats, events: Floats, count: int
) -> tuple[Floats, int]:
    """Follow a leg through a zone, piece by piece; returns the events, and how many there are."""
    first, last, row = borders.first[zone], borders.first[zone + 1], leg.row
    apart = is_apart(borders.boxes[zone], leg.x0, leg.y0, leg.x1, leg.y1)
    pieces = find_cuts(borders.edges, first, first if apart else last, leg.x0, leg.y0, leg.x1, leg.y1, cuts) - 1
    for k in range(pieces):
        if cuts[k] == cuts[k + 1]:
            continue
        middle, now = (cuts[k] + cuts[k + 1]) / 2, leg.begin + cuts[k] * leg.span
        x, y = leg.x0 + middle * (leg.x1 - leg.x0), leg.y0 + middle * (leg.y1 - leg.y0)
        inside = not apart and is_inside(borders.edges, first, last, x, y)
        was_there = not np.isnan(held.since[row, zone])
        if inside and not was_there:
            held.since[row, zone], held.metres[row, zone] = now, 0.0
            events = note_event(events, count, ENTERED, leg, zone, now, held)
            count += 1
        elif was_there and not inside:
            events = note_event(events, count, LEFT, leg, zone, now, held)
            count += 1
            held.since[row, zone] = np.nan
        if inside:
            held.metres[row, zone] += (cuts[k + 1] - cuts[k]) * leg.length
    return events, count


@compiled
def follow(
    rows: Longs, t: Floats, x: Floats, y: Floats, held: Followed, borders: Borders, gap: float, degrees: bool
) -> tuple[Floats, Bools]:
    """Follow vehicles from report to report; returns what happened, and which reports are out of order.

    What happened is a row each: what, the tuple, the vehicle, the zone, since when, until when, and the metres there.
    """
    events, count = np.empty((64, 7)), 0
    disorder, cuts = np.zeros(rows.size, np.bool_), np.empty(borders.edges.shape[0] + 2)
    for i in range(rows.size):
        row = rows[i]
        before = held.time[row]
        if t[i] <= before:
            disorder[i] = True
            continue
        if t[i] - before <= gap:  # not if there is no report before
            x0, y0 = held.x[row], held.y[row]
            leg = Leg(i, row, x0, y0, x[i], y[i], before, t[i] - before, measure(x0, y0, x[i], y[i], degrees))
        else:
            leg = Leg(i, row, x[i], y[i], x[i], y[i], t[i], 0.0, 0.0)
        for zone in range(borders.first.size - 1):
            if leg.span == 0.0 and not np.isnan(held.since[row, zone]):
                events = note_event(events, count, LEFT, leg, zone, before, held)
                count += 1
                held.since[row, zone] = np.nan
            events, count = cross_zone(leg, zone, held, borders, cuts, events, count)
        held.time[row], held.x[row], held.y[row] = t[i], x[i], y[i]
    return events[:count], disorder
