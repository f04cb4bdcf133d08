"""Passes are those of the exact kernels on every trip and every zone."""

from __future__ import annotations

from itertools import product

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from joins.plainly import sliced, table
from joins.test_meetings import scaled
from moving.oracle import moving, moving_points
from slipstream._joins import zone_passes
from slipstream._moving import types
from slipstream._moving.columns import Lines, Points, freeze_all, read, write
from slipstream._moving.kernels.places import when_inside, when_near
from slipstream._moving.moving_point import to_arrow

corners = st.integers(-7, 7).map(lambda v: 100.0 * v)
boxes = st.tuples(corners, corners, corners, corners).filter(lambda b: b[0] != b[2] and b[1] != b[3])
trips = st.lists(st.lists(moving_points(), min_size=1, max_size=2), min_size=1, max_size=3)


def regions(found) -> pa.Array:
    x = np.array([v for x0, _, x1, _ in found for v in (x0, x1, x1, x0)])
    y = np.array([v for _, y0, _, y1 in found for v in (y0, y0, y1, y1)])
    n = np.arange(len(found) + 1, dtype=np.int32)
    return write(Lines(4 * n, x, y, n, np.zeros(len(found), np.int32)), types.REGION)


def through_the_tree(objects, places, reach=types.REACH, duration=0):
    zoned = pa.table({"id": pa.array(range(len(places))), "Zone": places})
    visits = zone_passes._to_visits(iter([table(objects)]), zone_passes._pack(zoned), reach)
    batches = list(zone_passes._to_passes(sliced(visits, (*zone_passes.VISIT, "begin"), 5), duration))
    return {
        (row["id"], row["zone_id"]): list(zip(row["times"]["begin"], row["times"]["end"], strict=True))
        for batch in batches
        for row in batch.set_column(2, "times", micros(batch.column("times"))).to_pylist()
    }


def micros(times: pa.Array) -> pa.Array:
    kind = pa.struct([("begin", pa.list_(pa.int64())), ("end", pa.list_(pa.int64()))])
    return times.cast(kind)


def one_by_one(objects, places, when, slack, duration=0):
    out = {}
    for (name, some), k in product(objects.items(), range(len(places))):
        times = []
        for trip in some:
            found = when(freeze_all(read(to_arrow([trip]))), freeze_all(read(places.take(pa.array([k])))))
            times += zip(found.begin.tolist(), found.end.tolist(), strict=True)
        joined = []
        for begin, end in sorted(times):
            if joined and begin <= joined[-1][1] + slack:
                joined[-1][1] = max(joined[-1][1], end)
            else:
                joined.append([begin, end])
        if kept := [(b, e) for b, e in joined if e - b >= duration]:
            out[name, k] = kept
    return out


@settings(max_examples=100)
@given(trips, st.lists(boxes, min_size=1, max_size=3), st.sampled_from([1, 600]), st.sampled_from([0, 2_000_000]))
def test_regions(some, found, times, duration):
    objects = {f"car-{n}": [scaled(m, 100.0, times) for m in each] for n, each in enumerate(some)}
    places = regions([(min(a, c), min(b, d), max(a, c), max(b, d)) for a, b, c, d in found])
    expected = one_by_one(objects, places, lambda m, z: when_inside(m, z, False), 1, duration)
    assert through_the_tree(objects, places, duration=duration) == expected


@settings(max_examples=100)
@given(trips, st.lists(st.tuples(corners, corners), min_size=1, max_size=3), st.sampled_from([1e-6, 100.0, 250.0]))
def test_points(some, found, reach):
    objects = {f"car-{n}": [scaled(m, 100.0, 1) for m in each] for n, each in enumerate(some)}
    places = write(Points(*np.array(found, np.float64).T.copy()), types.POINT)
    expected = one_by_one(objects, places, lambda m, z: when_near(m, z, reach, False), 1)
    assert through_the_tree(objects, places, reach) == expected


def test_a_long_way_through_a_small_zone():
    ferry = moving([[(0, 0.0, 0.0), (1000, 100_000.0, 0.0)]])
    harbour = regions([(49_000.0, -10.0, 51_000.0, 10.0)])
    assert through_the_tree({"ferry": [ferry]}, harbour) == {("ferry", 0): [(490_000_000, 510_000_000)]}
