"""How points move, how near they come, how alike they are: compared with slow and simple computations."""

from __future__ import annotations

import math
from fractions import Fraction as Fr
from functools import cache
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

from moving.oracle import (
    SECOND,
    covered,
    microsecond,
    moving,
    moving_points,
    position,
    samples,
    sequences_of,
    value_over_time,
)
from moving.test_operators import OPERATORS, RINGS, call, grid, periods, point, region, value_of
from slipstream._errors import BadArgument, BadInput
from slipstream._moving import MovingPoint, types
from slipstream._moving.moving_point import instant, to_arrow

SOME = settings(max_examples=40)


def row_of(column):
    return column[0].as_py()


def spans_of(row):
    return [(microsecond(b), microsecond(e)) for b, e in zip(row["begin"], row["end"], strict=True)]


def legs(m):
    """Each unit: when it begins and ends, and how far it leads."""
    for s in m.sequences:
        vertices = list(zip(m.t[s].tolist(), m.x[s].tolist(), m.y[s].tolist(), strict=True))
        yield from pairwise(vertices)


@SOME
@given(moving_points())
def test_speed_and_direction_are_those_of_each_unit(m):
    speed, direction = row_of(call("speed", m)), row_of(call("direction", m))
    jumps = [s.start for s in m.sequences[1:] if m.t[s.start] == m.t[s.start - 1]]
    for (t0, x0, y0), (t1, x1, y1) in legs(m):
        for t in (t0, (t0 + t1) // 2, t1 - 1):
            assert value_over_time(speed, t) == pytest.approx(math.hypot(x1 - x0, y1 - y0) / ((t1 - t0) / SECOND))
            azimuth = value_over_time(direction, t)
            if (x0, y0) != (x1, y1):
                assert azimuth == pytest.approx(math.degrees(math.atan2(x1 - x0, y1 - y0)) % 360)
            elif t > t0 and not jumps:
                assert azimuth is None
    driven = row_of(call("integral", call("speed", m)))
    assert driven == pytest.approx(row_of(call("travelled", m)), abs=1e-9)
    assert len(speed["starts"]) == sum(s.stop - s.start > 1 for s in m.sequences)


@SOME
@given(moving_points())
def test_acceleration_adds_up_to_the_change_of_speed(m):
    got = sequences_of(row_of(call("acceleration", m)))
    expected = []
    for s in m.sequences:
        units = list(legs(MovingPoint(m.t[s], m.x[s], m.y[s], np.array([0], np.int32))))
        if len(units) > 1:
            speeds = [math.hypot(b[1] - a[1], b[2] - a[2]) / ((b[0] - a[0]) / SECOND) for a, b in units]
            expected.append((speeds[-1] - speeds[0], [(a[0] + b[0]) // 2 for a, b in units]))
    assert [[t for t, _ in sequence] for sequence in got] == [middles for _, middles in expected]
    for sequence, (change, _) in zip(got, expected, strict=True):
        total = sum(v * (u - t) / SECOND for (t, v), (u, _) in pairwise(sequence))
        assert total == pytest.approx(change, abs=1e-9)


@SOME
@given(moving_points())
def test_distance_covered_duration_centroid_and_extent(m):
    covered_, total = row_of(call("cumulative_length", m)), 0.0
    for (t0, x0, y0), (t1, x1, y1) in legs(m):
        assert value_over_time(covered_, (t0 + t1) // 2) == pytest.approx(
            total + math.hypot(x1 - x0, y1 - y0) * ((t0 + t1) // 2 - t0) / (t1 - t0), abs=1e-9
        )
        total += math.hypot(x1 - x0, y1 - y0)
    seconds = sum(b[0] - a[0] for a, b in legs(m)) / SECOND
    assert row_of(call("duration", m)) == pytest.approx(seconds)
    centroid, box = row_of(call("twcentroid", m)), row_of(call("extent", m))
    if not len(m.t):
        assert centroid is None
        assert box is None
        return
    weights = [(b[0] - a[0]) / SECOND for a, b in legs(m)]
    for k, name in enumerate("xy", 1):
        middles = [(a[k] + b[k]) / 2 for a, b in legs(m)]
        values = getattr(m, name)
        mean = np.average(middles, weights=weights) if seconds else values.mean()
        assert centroid[name] == pytest.approx(mean, abs=1e-9)
        assert (box[f"{name}min"], box[f"{name}max"]) == (values.min(), values.max())
    assert (microsecond(box["tmin"]), microsecond(box["tmax"])) == (m.t.min(), m.t.max())


def slow_stops(m, metres, micros):
    """The rule, as it is written."""
    found = []
    for s in m.sequences:
        i = s.start
        while i < s.stop:
            j = i
            while j + 1 < s.stop and all(
                math.hypot(m.x[k] - m.x[j + 1], m.y[k] - m.y[j + 1]) <= metres for k in range(i, j + 1)
            ):
                j += 1
            if j > i and m.t[j] - m.t[i] >= micros:
                found.append((int(m.t[i]), int(m.t[j])))
                i = j + 1
            else:
                i += 1
    return found


@settings(max_examples=100)
@given(moving_points(most=8), st.sampled_from([0.0, 2.0, 3.0, 5.0, 9.0]), st.integers(0, 9))
def test_stops_follow_their_rule(m, metres, seconds):
    got = row_of(call("stops", m, metres, float(seconds)))
    assert spans_of(got) == slow_stops(m, metres, seconds * SECOND)


@settings(max_examples=100)
@given(moving_points(), moving_points(), st.sampled_from([0.0, 1.0, 2.5, 5.0, 10.0]))
def test_dwithin_agrees_with_when_and_always_with_exact_distances(a, b, metres):
    ever, always = row_of(call("dwithin", a, b, metres)), row_of(call("always_dwithin", a, b, metres))
    spans = spans_of(row_of(call("when_dwithin", a, b, metres)))
    assert ever == (len(spans) > 0)
    begins, ends = [s[0] for s in spans], [s[1] for s in spans]
    inside, both = [], False
    for t in samples(a, b):
        p, q = position(a, t), position(b, t)
        if p is None or q is None or any(np.count_nonzero(m.t == int(t)) > 1 for m in (a, b)):
            continue
        both = True
        squared = (p[0] - q[0]) ** 2 + (p[1] - q[1]) ** 2
        near = squared <= Fr(metres) ** 2
        inside.append(near)
        if t.denominator == 1 and abs(math.sqrt(squared) - metres) > 1e-4:
            assert covered(begins, ends, t) == near
        elif near and int(t) in (set(a.t.tolist()) & set(b.t.tolist())):  # exactly at the limit, at a common vertex
            assert covered(begins, ends, t)
    doubled = any(len(np.unique(m.t)) < len(m.t) for m in (a, b))
    if not all(inside):
        assert always is False
    elif both and always is not None and not doubled:
        assert always
    common = spans_of(row_of(OPERATORS["common_periods"](call("deftime", a), call("deftime", b))))
    if always and not doubled:
        assert spans == common


def test_a_sequence_that_ends_where_the_next_begins_is_near_only_as_far_as_its_way():
    still = moving([[(0, 0.0, 0.0), (9, 0.0, 0.0)]])
    leaving = moving([[(0, 0.0, 0.0), (4, 0.0, 9.0)], [(4, 0.0, 0.0), (9, 0.0, 0.0)]])
    assert row_of(call("always_dwithin", still, leaving, 5.0)) is False
    assert row_of(call("always_dwithin", still, leaving, 9.0)) is True


def test_at_the_limit_all_three_agree():
    for metres in (3.0, 0.1, 1e5 / 3, math.sqrt(2.0)):
        a = moving([[(0, 0.0, 0.0), (7, 100.0, 1.0), (11, -3.0, 8.0)]])
        b = moving([[(t, x + metres, y) for t, x, y in zip((0, 7, 11), a.x, a.y, strict=True)]])
        apart = float(np.max(np.hypot(b.x - a.x, b.y - a.y)))
        assert row_of(call("dwithin", a, b, apart)) is True
        assert row_of(call("always_dwithin", a, b, apart)) is True
        assert spans_of(row_of(call("when_dwithin", a, b, apart))) == [(0, 11 * SECOND)]
        below = math.nextafter(float(np.min(np.hypot(b.x - a.x, b.y - a.y))), 0.0) - 1e-8
        assert row_of(call("dwithin", a, b, below)) is False
        assert row_of(call("when_dwithin", a, b, below))["begin"] == []


@SOME
@given(moving_points(), moving_points())
def test_the_nearest_approach_is_the_least_of_all_distances(a, b):
    metres, when = row_of(call("nearest_approach_distance", a, b)), row_of(call("nearest_approach_instant", a, b))
    line = row_of(call("shortest_line", a, b))
    best = math.inf
    times = samples(a, b, parts=1)
    for t, u in pairwise([*times, times[-1]] if times else []):
        ends = [(position(a, s), position(b, s)) for s in (t, u, (t + u) / 2)]
        if None in ends[0]:
            continue
        d0 = [p - q for p, q in zip(*ends[0], strict=True)]
        best = min(best, math.hypot(*map(float, d0)))
        if None in ends[1] or None in ends[2]:
            continue
        middle = [p - q for p, q in zip(*ends[2], strict=True)]
        step = [2 * (m - d) for m, d in zip(middle, d0, strict=True)]  # as if no sequence ended at u
        size = sum(v * v for v in step)
        s = min(Fr(1), max(Fr(0), -sum(d * v for d, v in zip(d0, step, strict=True)) / size)) if size else Fr(0)
        best = min(best, math.hypot(*(float(d + s * v) for d, v in zip(d0, step, strict=True))))
    if math.isinf(best):
        assert metres is None
        assert when is None
        return
    assert metres == pytest.approx(best, abs=1e-9)
    p, q = position(a, microsecond(when)), position(b, microsecond(when))
    if all(np.count_nonzero(m.t == microsecond(when)) <= 1 for m in (a, b)):
        assert math.hypot(float(p[0] - q[0]), float(p[1] - q[1])) == pytest.approx(metres, abs=1e-4)
        assert math.hypot(line["x"][1] - line["x"][0], line["y"][1] - line["y"][0]) == pytest.approx(metres, abs=1e-4)


@SOME
@given(moving_points(), grid, grid)
def test_a_point_is_a_moving_point_that_stands(m, x, y):
    ends = [(int(m.t[s][0]), int(m.t[s.stop - 1])) for s in m.sequences]
    still = MovingPoint.of([[(instant(t), x, y) for t in dict.fromkeys(span)] for span in ends])
    for name in ("nearest_approach_distance", "nearest_approach_instant"):
        assert row_of(call(name, m, point(x, y))) == row_of(call(name, m, still))
    assert row_of(call("when_dwithin", m, point(x, y), 4.0)) == row_of(call("when_dwithin", m, still, 4.0))


def walks(m):
    return list(zip(m.x.tolist(), m.y.tolist(), strict=True))


@SOME
@given(moving_points(), moving_points())
def test_similarity_is_what_its_recursion_says(a, b):
    p, q = walks(a), walks(b)

    @cache
    def cost(i, j, combine):
        here = math.dist(p[i], q[j])
        before = [cost(u, v, combine) for u, v in ((i - 1, j), (i, j - 1), (i - 1, j - 1)) if min(u, v) >= 0]
        return combine(here, min(before)) if before else here

    names = ("frechet", "dtw", "hausdorff")
    if not p or not q:
        assert [row_of(call(name, a, b)) for name in names] == [None] * 3
        return
    last = (len(p) - 1, len(q) - 1)
    hausdorff = max(*(min(math.dist(u, v) for v in q) for u in p), *(min(math.dist(u, v) for u in p) for v in q))
    assert row_of(call("frechet", a, b)) == pytest.approx(cost(*last, max))
    assert row_of(call("dtw", a, b)) == pytest.approx(cost(*last, float.__add__))
    assert row_of(call("hausdorff", a, b)) == pytest.approx(hausdorff)
    for name in names:
        assert row_of(call(name, a, b)) == pytest.approx(row_of(call(name, b, a)))


def box(xmin=None, ymin=None, xmax=None, ymax=None, tmin=None, tmax=None):
    span = [None if t is None else instant(t) for t in (tmin, tmax)]
    row = dict(zip(types.STBOX.arrow.names, (xmin, ymin, xmax, ymax, *span), strict=True))
    return pa.array([row], types.STBOX.arrow)


@SOME
@given(moving_points(), grid, grid, st.integers(0, 20))
def test_a_box_divides_a_movement(m, x, y, second):
    edges = {"xmin": x, "xmax": x + 4, "ymin": y, "tmax": second * SECOND}
    there, elsewhere = value_of(call("atbox", m, box(**edges))), value_of(call("minusbox", m, box(**edges)))
    assert there.problem() == elsewhere.problem() == ""
    for t in samples(m):
        where = position(m, t)
        if where is None or t.denominator > 1 or np.count_nonzero(m.t == int(t)) > 1:
            continue
        u, v = where
        inside = x <= u <= x + 4 and y <= v and t <= second * SECOND
        if min(abs(u - x), abs(u - x - 4), abs(v - y)) > 1e-4 or inside:
            assert (position(there, t) is not None) == inside
            assert (position(elsewhere, t) is None) == inside


@SOME
@given(moving_points(), st.sampled_from(RINGS))
def test_minus_is_what_at_leaves(m, ring):
    there, elsewhere = value_of(call("at", m, region(ring))), value_of(call("minus", m, region(ring)))
    assert elsewhere.problem() == ""
    for t in samples(m):
        if t.denominator == 1 and np.count_nonzero(m.t == int(t)) <= 1:
            parts = [position(part, t) for part in (there, elsewhere)]
            assert (parts[0] or parts[1]) is None if position(m, t) is None else parts.count(None) == 1
    away = value_of(call("minus", m, point(1.0, 1.0)))
    assert not row_of(call("passes", away, point(1.0, 1.0))) or len(m.t) > len(set(m.t.tolist()))


SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 8)), max_size=4)


def disjoint(spans):
    found, last = [], -1
    for begin, size in sorted(spans):
        if begin > last:
            found.append((begin, begin + size))
            last = begin + size
    return found


@given(SPANS, SPANS)
def test_periods_are_sets_of_microseconds(a, b):
    a, b = disjoint(a), disjoint(b)
    common = spans_of(row_of(OPERATORS["common_periods"](periods(*a), periods(*b))))
    without = spans_of(row_of(OPERATORS["periods_without"](periods(*a), periods(*b))))
    for t in range(-1, 42):
        inside = [any(x <= t <= y for x, y in spans) for spans in (a, b, common, without)]
        assert inside[2] == (inside[0] and inside[1])
        assert inside[3] == (inside[0] and not inside[1])


def test_numbers_outside_their_limits_are_refused_with_their_row():
    trips = to_arrow([moving([[(0, 0.0, 0.0), (1, 1.0, 1.0)]])] * 2)
    for name, value in (("snap", 0.0), ("resample", -1.0), ("simplify", math.nan), ("split_by_time", math.inf)):
        with pytest.raises(BadArgument, match=f"{name}: \\w+ is .* in row 2 of 2"):
            OPERATORS[name](trips, pa.array([1.0, value]))
        assert OPERATORS[name](trips, pa.array([1.0, None])).null_count == 1
    with pytest.raises(BadArgument, match="dwithin: metres is -1 in row 1 of 2"):
        OPERATORS["dwithin"](trips, trips, pa.array([-1.0, 1.0]))


WKT = "POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0), (2 2, 4 2, 4 4, 2 4, 2 2))"


def test_shapes_come_from_what_others_write():
    shape = shapely.from_wkt(WKT)
    column = OPERATORS["region_from_wkt"](pa.array([WKT, None, "MULTIPOLYGON EMPTY"]))
    assert column[0].as_py()["starts"] == [0, 4]
    assert column[1].as_py() is None
    assert column[2].as_py() == {"x": [], "y": [], "starts": []}
    assert OPERATORS["region_from_geojson"](pa.array([shapely.to_geojson(shape)]))[0] == column[0]
    assert OPERATORS["region_from_wkb"](pa.array([shapely.to_wkb(shape)]))[0] == column[0]
    assert shapely.from_wkt(OPERATORS["region_to_wkt"](column)[0].as_py()).equals(shape)
    line = OPERATORS["line_from_wkt"](pa.array(["MULTILINESTRING ((0 0, 1 1), (2 2, 3 3, 4 5))"]))
    assert line[0].as_py()["starts"] == [0, 2]
    assert OPERATORS["line_to_wkt"](line)[0].as_py() == "MULTILINESTRING ((0 0, 1 1), (2 2, 3 3, 4 5))"
    assert OPERATORS["point_from_wkt"](pa.array(["POINT (1 2)", None])).to_pylist() == [{"x": 1.0, "y": 2.0}, None]


REFUSED = [
    ("region_from_wkt", "POLYGON ((0 0, 10 10, 0 10, 10 0, 0 0))", "Self-intersection"),
    ("region_from_wkt", "POLYGON ((0 0, 1 1", "row 2 of 2"),
    ("region_from_wkt", "LINESTRING (0 0, 1 1)", "a LineString"),
    ("region_from_wkt", "MULTIPOLYGON (((0 0, 9 0, 9 9, 0 0)), ((1 0, 8 0, 8 8, 1 0)))", "elf-intersection"),
    ("region_from_geojson", '{"type": "Polygon"}', "row 2 of 2"),
    ("line_from_wkt", "POINT (0 0)", "a Point"),
    ("point_from_wkt", "POINT EMPTY", "an empty point"),
]


@pytest.mark.parametrize(("name", "text", "words"), REFUSED)
def test_invalid_shapes_are_refused_with_their_row(name, text, words):
    with pytest.raises(BadInput, match=words) as refused:
        OPERATORS[name](pa.array([None, text]))
    assert "row 2 of 2" in refused.value.message
    with pytest.raises(BadArgument):
        OPERATORS[name](pa.array([1.0]))
