"""Operators that return other moving points: simpler, smoother, split, joined."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from slipstream._errors import BadArgument
from slipstream._moving import columns, types
from slipstream._moving.columns import IPoints, Listed, MPoints, Periods, Temporals
from slipstream._moving.kernels import editing, splitting
from slipstream._moving.operator_registry import Result, finite, not_negative, operator, positive
from slipstream._moving.operators.movement_operators import micros
from slipstream._tools.numba_tools import Floats, Longs

_TRIPS = types.array_of(types.MPOINT)
#: a visit to a tile of a grid
TILE = types.struct("tile", x=pa.int64(), y=pa.int64(), begin=types.INSTANT, end=types.INSTANT)


@operator(types.MPOINT, metres=not_negative)
def _simplify(trip: MPoints, metres: Floats) -> Result:
    """Fewer vertices: those that Douglas and Peucker keep, so that the path moves by at most ``metres``."""
    return editing.keep(trip, editing.peuckers(trip, metres, False))


@operator(types.MPOINT, metres=not_negative)
def _simplify_in_time(trip: MPoints, metres: Floats) -> Result:
    """Fewer vertices, so that the position at every instant moves by at most ``metres`` (TD-TR)."""
    return editing.keep(trip, editing.peuckers(trip, metres, True))


@operator(types.MPOINT, vertices=positive)
def _squish(trip: MPoints, vertices: Floats) -> Result:
    """The most important vertices of each sequence by SQUISH: at most ``vertices``, and always its two ends."""
    return editing.keep(trip, editing.squishes(trip, columns.freeze(vertices.astype(np.int64))))


@operator(types.MPOINT, seconds=positive)
def _resample(trip: MPoints, seconds: Floats) -> Result:
    """The positions every ``seconds`` from the start of each sequence, and at its end."""
    return editing.sampled(trip, _at_least_one(seconds))


def _at_least_one(seconds: Floats) -> Longs:
    """Return seconds as microseconds, at least one."""
    return columns.freeze(np.maximum(micros(seconds), 1))


@operator(types.MPOINT, seconds=not_negative)
def _smooth(trip: MPoints, seconds: Floats) -> Result:
    """Each vertex at the average of the movement during ``seconds`` around it; sequences keep their ends."""
    return editing.smooth(trip, micros(seconds))


@operator(types.MPOINT, metres=positive)
def _snap(trip: MPoints, metres: Floats) -> Result:
    """The moving point with coordinates rounded to multiples of ``metres``."""
    return editing.snap(trip, metres)


@operator(types.MPOINT, seconds=finite)
def _shift(trip: MPoints, seconds: Floats) -> Result:
    """The moving point, ``seconds`` later."""
    return editing.shift(trip, micros(seconds))


@operator(types.MPOINT)
def _append(trip: MPoints, position: IPoints) -> Result:
    """The moving point, moving on from its last vertex to a later position."""
    return editing.append(trip, position, np.ones(len(trip.rows) - 1, np.bool_))


@operator(types.MPOINT)
def _merge(first: MPoints, second: MPoints) -> Result:
    """The first moving point where it is defined, else the second; what meets at one place becomes one sequence."""
    return splitting.merge(first, second)


@operator(_TRIPS)
def _sequences(trip: MPoints) -> Result:
    """Each sequence of a moving point as one."""
    return splitting.by_sequence(trip)


@operator(_TRIPS, seconds=positive)
def _split_by_time(trip: MPoints, seconds: Floats) -> Result:
    """The moving point in each span of ``seconds``, counted from 1970, in which it is defined."""
    return splitting.by_time(trip, _at_least_one(seconds))


@operator(_TRIPS, seconds=not_negative)
def _split_at_gaps(trip: MPoints, seconds: Floats) -> Result:
    """The movements between silences of more than ``seconds``."""
    return splitting.at_gaps(trip, micros(seconds))


@operator(_TRIPS, metres=positive)
def _split_by_space(trip: MPoints, metres: Floats) -> Result:
    """The moving point during each visit to a tile of a grid, in the order of time."""
    found = splitting.visits(trip, metres)
    return splitting.each_period(trip, Periods(found.rows, found.begin, found.end))[1]


@operator(types.array_of(TILE), metres=positive)
def _tiles(trip: MPoints, metres: Floats) -> Result:
    """The visits to the tiles of a grid: numbers ``x`` and ``y`` (from ``x * metres`` on), begin and end."""
    found = splitting.visits(trip, metres)
    return Listed(found.rows, found)


@operator(_TRIPS)
def _split_by_value(trip: MPoints, attribute: Temporals) -> Result:
    """The moving point while a step function has each of its values without a change."""
    if ((attribute.interpolation == types.LINEAR) & (np.diff(attribute.rows) > 0)).any():
        raise BadArgument(
            "split_by_value: a linear attribute.", hint="Use a step function, such as a tint or ttext.", code="bad-type"
        )
    return splitting.each_period(trip, splitting.runs(attribute)[1])[1]
