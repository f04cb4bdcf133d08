"""Operators on how points move, how near they come, and how alike they are."""

from __future__ import annotations

import numpy as np

from slipstream._moving import timeline, types
from slipstream._moving.columns import Boxes, Lines, MBools, MPoints, MReals, Periods, Points, Temporals, freeze
from slipstream._moving.kernels import motion, nearness, places, similarity, travel, values
from slipstream._moving.operator_registry import Found, Result, not_negative, operator
from slipstream._tools.numba_tools import Floats, Longs


def micros(seconds: Floats) -> Longs:
    """Return seconds as microseconds."""
    return freeze(np.asarray(np.rint(seconds * types.MICROS), np.int64))


@operator(types.TFLOAT)
def _speed(trip: MPoints) -> Result:
    """The speed in metres per second: a step function; undefined for a single instant."""
    return travel.speeds(trip)


@operator(types.TFLOAT)
def _acceleration(trip: MPoints) -> Result:
    """The change of speed, in metres per second squared, from the middle of one unit to the middle of the next."""
    return travel.accelerations(trip)


@operator(types.TFLOAT)
def _direction(trip: MPoints) -> Result:
    """The direction in degrees clockwise from north (y), from 0 to 360, while the point moves: a step function."""
    return travel.directions(trip)


@operator(types.TFLOAT)
def _cumulative_length(trip: MPoints) -> Result:
    """The distance travelled since the beginning, in metres."""
    return travel.distances_covered(trip)


@operator(types.REAL)
def _duration(moving: MPoints | MReals | MBools | Temporals | Periods) -> Result:
    """The seconds during which a value is defined, or that periods last."""
    if isinstance(moving, Periods):
        spans = moving
    elif isinstance(moving, MReals | MBools):
        spans = Periods(moving.rows, moving.begin, moving.end)
    else:
        spans = definition_times(moving)
    row = np.repeat(np.arange(len(spans.rows) - 1), np.diff(spans.rows))
    inner = slice(spans.rows[0], spans.rows[-1])
    return timeline.row_sums(row, (spans.end[inner] - spans.begin[inner]) / types.MICROS, len(spans.rows) - 1)


def definition_times(moving: MPoints | Temporals) -> Periods:
    """Return when points or values over time are defined; single values are at their instants."""
    if isinstance(moving, MPoints):
        return motion.definition_times(moving)
    found = timeline.sequences(moving)
    discrete = moving.interpolation[found.row] == types.DISCRETE
    each = timeline.vertices(moving)
    alone = moving.interpolation[each.row] == types.DISCRETE
    row = np.concatenate([found.row[~discrete], each.row[alone]])
    begin = np.concatenate([moving.t[found.first[~discrete]], moving.t[each.vertex[alone]]])
    end = np.concatenate([moving.t[found.last[~discrete]], moving.t[each.vertex[alone]]])
    order = np.lexsort((begin, row))
    return timeline.merged(row[order], begin[order], end[order], len(moving.rows) - 1)


@operator(types.POINT)
def _twcentroid(trip: MPoints) -> Result:
    """The average place, weighted by time; null if the moving point is empty."""
    found, x = values.averages(travel.coordinate(trip, trip.x))
    return Found(found, Points(x, values.averages(travel.coordinate(trip, trip.y))[1]))


@operator(types.STBOX)
def _extent(trip: MPoints) -> Result:
    """The smallest box in space and time around a moving point; null if it is empty."""
    found = timeline.vertices(trip)
    inner = slice(trip.rows[0], trip.rows[-1])
    return Found(*travel.extents(found.row, len(trip.rows) - 1, trip.x[inner], trip.y[inner], trip.t[inner]))


@operator(types.PERIODS, metres=not_negative, seconds=not_negative)
def _stops(trip: MPoints, metres: Floats, seconds: Floats) -> Result:
    """When a moving point stops: no two vertices of a run are more than ``metres`` apart for at least ``seconds``."""
    return travel.stops(trip, metres, micros(seconds))


def _other(first: MPoints, second: MPoints | Points) -> MPoints:
    """Return a point that stands still as a moving point."""
    return nearness.standing_still(second, first) if isinstance(second, Points) else second


@operator(types.BOOL, metres=not_negative)
def _dwithin(first: MPoints, second: MPoints | Points, metres: Floats) -> Result:
    """Whether two moving points, or one and a point, are ever within ``metres`` of each other."""
    return np.diff(nearness.when_within(first, _other(first, second), metres)[1].rows) > 0


@operator(types.BOOL, metres=not_negative)
def _always_dwithin(first: MPoints, second: MPoints | Points, metres: Floats) -> Result:
    """Whether both are within ``metres`` whenever both are defined; null if that is never."""
    apart, _ = nearness.when_within(first, _other(first, second), metres)
    found = timeline.vertices(apart)
    # what ends where the next sequence begins does not count itself, but the way to it does
    is_first = np.concatenate(([True], found.is_last[:-1]))[: len(found.row)]
    far = (np.hypot(apart.x, apart.y) > metres[found.row]) & (found.counts | ~is_first)
    return Found(np.diff(apart.rows) > 0, np.bincount(found.row[far], minlength=len(metres)) == 0)


@operator(types.PERIODS, metres=not_negative)
def _when_dwithin(first: MPoints, second: MPoints | Points, metres: Floats) -> Result:
    """When both are within ``metres`` of each other."""
    return nearness.when_within(first, _other(first, second), metres)[1]


@operator(types.REAL)
def _nearest_approach_distance(first: MPoints, second: MPoints | Points) -> Result:
    """The smallest distance of two moving points, or of one and a point, at one instant; null if there is none."""
    found = nearness.nearest_approach(first, _other(first, second))
    return Found(found.found, found.metres)


@operator(types.INSTANT_TYPE)
def _nearest_approach_instant(first: MPoints, second: MPoints | Points) -> Result:
    """The first instant at which both are nearest to each other."""
    found = nearness.nearest_approach(first, _other(first, second))
    return Found(found.found, found.t)


@operator(types.LINE)
def _shortest_line(first: MPoints, second: MPoints | Points) -> Result:
    """The line from the first to the second where they are nearest to each other."""
    other = _other(first, second)
    found = nearness.nearest_approach(first, other)
    at = freeze(found.t)
    _, ax, ay = motion.positions_at(first, at)
    _, bx, by = motion.positions_at(other, at)
    n = len(at)
    rows, parts = np.arange(0, 2 * n + 1, 2, dtype=np.int32), np.arange(n + 1, dtype=np.int32)
    line = Lines(rows, np.stack([ax, bx], 1).ravel(), np.stack([ay, by], 1).ravel(), parts, np.zeros(n, np.int32))
    return Found(found.found, line)


@operator(types.REAL)
def _frechet(first: MPoints, second: MPoints) -> Result:
    """The discrete Fréchet distance of two paths in metres; null if one is empty."""
    return _finite(similarity.coupled(first, second, False))


@operator(types.REAL)
def _dtw(first: MPoints, second: MPoints) -> Result:
    """The dynamic time warping distance of two paths: the sum over paired vertices; null if one is empty."""
    return _finite(similarity.coupled(first, second, True))


@operator(types.REAL)
def _hausdorff(first: MPoints, second: MPoints) -> Result:
    """The Hausdorff distance of the vertices of two paths in metres; null if one is empty."""
    return _finite(similarity.hausdorff(first, second))


def _finite(distance: Floats) -> Found:
    return Found(np.isfinite(distance), distance)


@operator(types.MPOINT)
def _minusperiods(trip: MPoints, periods: Periods) -> Result:
    """The moving point outside of periods: to a microsecond before, and from a microsecond after each."""
    return motion.restrict(trip, timeline.complement(periods))


@operator(types.MPOINT)
def _minus(trip: MPoints, place: Points | Lines) -> Result:
    """The moving point while it is not at a point (within 1e-6 m) or in a region."""
    if isinstance(place, Lines):
        there = places.when_inside(trip, place, False)
    else:
        there = places.when_near(trip, place, types.REACH, False)
    return motion.restrict(trip, timeline.complement(there))


def _when_in_box(trip: MPoints, box: Boxes) -> Periods:
    """Return when points are in boxes, with their borders."""
    n = len(trip.rows) - 1
    span = Periods(np.arange(n + 1, dtype=np.int32), box.tmin, box.tmax)
    east = timeline.when_between(travel.coordinate(trip, trip.x), box.xmin, box.xmax)
    north = timeline.when_between(travel.coordinate(trip, trip.y), box.ymin, box.ymax)
    return timeline.common(timeline.common(span, east), north)


@operator(types.MPOINT)
def _atbox(trip: MPoints, box: Boxes) -> Result:
    """The moving point while it is in a box in space and time, including its border."""
    return motion.restrict(trip, _when_in_box(trip, box))


@operator(types.MPOINT)
def _minusbox(trip: MPoints, box: Boxes) -> Result:
    """The moving point while it is not in a box in space and time."""
    return motion.restrict(trip, timeline.complement(_when_in_box(trip, box)))


@operator(types.PERIODS)
def _common_periods(first: Periods, second: Periods) -> Result:
    """The time that two periods have in common."""
    return timeline.common(first, second)


@operator(types.PERIODS)
def _periods_without(first: Periods, second: Periods) -> Result:
    """The first periods without the second."""
    return timeline.common(first, timeline.complement(second))
