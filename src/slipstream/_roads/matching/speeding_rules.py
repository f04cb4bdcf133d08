"""Faster than the road allows: one definition, for streams of matched positions and for matched trips.

The speed is that from one matched position to a later one on the same stretch, in a straight line, so it is never too
high but for the noise of both. Positions are compared over some seconds, because noise of 10 m within one second is
36 km/h. A vehicle is speeding if it is faster than the highest limit at any of its positions in between.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from slipstream._moving import types
from slipstream._roads.street_network import KMH
from slipstream._tools.numba_tools import Bools, Floats, Longs, compiled

MICROS = 1_000_000
#: no stretch of a road
NOWHERE = -1
SPEEDING = pa.struct(
    [("t", types.INSTANT), ("edge", pa.int64()), ("speed_kmh", pa.float64()), ("limit_kmh", pa.float64())]
)
SPEEDING_SQL = "array<struct<t:timestamp,edge:bigint,speed_kmh:double,limit_kmh:double>>"


@compiled
def find_speeding(
    things: Longs,
    t: Longs,
    x: Floats,
    y: Floats,
    limit: Floats,
    stretch: Longs,
    least: int,
    over: Floats,
    last_t: Longs,
    last_x: Floats,
    last_y: Floats,
    last_limit: Floats,
    last_stretch: Longs,
) -> tuple[Bools, Floats, Floats]:
    """Return at which positions things are speeding, their speed and the limit; positions on no road have no limit.

    Times are microseconds; ``least`` is how many lie between two positions that are compared. ``last`` is what is known
    of each thing: the position from which its speed is measured, the highest limit since then, and its stretch.
    """
    found, speed, most = np.zeros(t.size, np.bool_), np.full(t.size, np.nan), np.full(t.size, np.nan)
    for i in range(t.size):
        thing = things[i]
        if np.isnan(limit[i]):
            continue
        same = stretch[i] == last_stretch[thing]
        seconds = (t[i] - last_t[thing]) / MICROS
        if same:
            last_limit[thing] = max(last_limit[thing], limit[i])
            if t[i] - last_t[thing] < least or seconds <= 0:
                continue
            speed[i] = KMH * np.hypot(x[i] - last_x[thing], y[i] - last_y[thing]) / seconds
            most[i] = last_limit[thing]
            found[i] = speed[i] > most[i] + over[thing]
        last_t[thing], last_x[thing], last_y[thing] = t[i], x[i], y[i]
        last_limit[thing], last_stretch[thing] = limit[i], stretch[i]
    return found, speed, most


def speeding_points(points: pa.ListArray, seconds: float, over: Floats) -> pa.ListArray:
    """Return where matched trips are speeding, from their points."""
    flat, rows = points.flatten(), np.asarray(points.offsets)
    counts = np.diff(rows)
    things = np.repeat(np.arange(counts.size), counts)
    columns = {name: flat.field(name) for name in ("x", "y", "limit_kmh")}
    x, y, limit = (np.array(column.fill_null(np.nan)) for column in columns.values())
    stretch = np.array(flat.field("stretch").fill_null(NOWHERE)).astype(np.int64)
    t = np.array(flat.field("t").cast(pa.int64()))
    n = counts.size
    last = np.zeros(n, np.int64), np.zeros(n), np.zeros(n), np.zeros(n), np.full(n, NOWHERE)
    least = round(seconds * MICROS)
    found, speed, most = find_speeding(things, t, x, y, limit, stretch, least, over, *last)
    which = np.flatnonzero(found)
    kept = np.r_[0, np.cumsum(np.bincount(things[which], minlength=n))].astype(np.int32)
    at = flat.take(pa.array(which))
    fields = [at.field("t"), at.field("edge"), pa.array(speed[which]), pa.array(most[which])]
    return pa.ListArray.from_arrays(pa.array(kept), pa.StructArray.from_arrays(fields, fields=list(SPEEDING)))
