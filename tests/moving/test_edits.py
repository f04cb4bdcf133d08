"""Simpler, smoother, split and joined movements, compared with slow and simple computations."""

from __future__ import annotations

import math
from fractions import Fraction as Fr
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moving.oracle import SECOND, microsecond, moving, moving_points, position, samples
from moving.test_operators import OPERATORS, call, value_of
from moving.test_over_time import call as call_over_time
from slipstream._errors import BadInput
from slipstream._moving import MovingPoint, types
from slipstream._moving.moving_point import instant, to_arrow

SOME = settings(max_examples=40)


def edited(name, *arguments) -> MovingPoint:
    made = value_of(call(name, *arguments))
    assert made.problem() == ""
    return made


def parts_of(name, *arguments) -> list[MovingPoint]:
    made = [MovingPoint.from_row(row) for row in call(name, *arguments)[0].as_py()]
    assert all(m.problem() == "" for m in made)
    return made


def vertices(m, s):
    return list(zip(m.t[s].tolist(), m.x[s].tolist(), m.y[s].tolist(), strict=True))


def off_chord(p, a, b, timed):
    if timed:
        w = (p[0] - a[0]) / (b[0] - a[0])
        return math.hypot(p[1] - a[1] - w * (b[1] - a[1]), p[2] - a[2] - w * (b[2] - a[2]))
    dx, dy = b[1] - a[1], b[2] - a[2]
    size = dx * dx + dy * dy
    w = min(1.0, max(0.0, ((p[1] - a[1]) * dx + (p[2] - a[2]) * dy) / size)) if size else 0.0
    return math.hypot(p[1] - a[1] - w * dx, p[2] - a[2] - w * dy)


def peucker(points, metres, timed):
    if len(points) < 3:
        return points
    offs = [off_chord(p, points[0], points[-1], timed) for p in points[1:-1]]
    worst = max(offs)
    if worst <= metres:
        return [points[0], points[-1]]
    at = offs.index(worst) + 1
    return peucker(points[: at + 1], metres, timed)[:-1] + peucker(points[at:], metres, timed)


@settings(max_examples=100)
@given(moving_points(most=9), st.sampled_from([0.0, 0.7, 2.3, 6.1]), st.booleans())
def test_simplify_keeps_what_douglas_and_peucker_keep(m, metres, timed):
    short = edited("simplify_in_time" if timed else "simplify", m, metres)
    expected = [peucker(vertices(m, s), metres, timed) for s in m.sequences]
    assert [vertices(short, s) for s in short.sequences] == expected
    for t in samples(m, parts=3) if timed else []:
        if np.count_nonzero(m.t == int(t)) <= 1 and (where := position(m, t)):
            near = position(short, t)
            assert math.hypot(float(where[0] - near[0]), float(where[1] - near[1])) <= metres + 1e-9


def squish(points, most):
    """One after another, the vertex of least priority, the earliest of several."""
    kept, debt = list(range(len(points))), dict.fromkeys(range(len(points)), 0.0)
    while len(kept) > max(most, 2):
        priority = {
            kept[k]: debt[kept[k]] + off_chord(points[kept[k]], points[kept[k - 1]], points[kept[k + 1]], True)
            for k in range(1, len(kept) - 1)
        }
        least = min(priority, key=lambda i: (round(priority[i], 9), i))
        at = kept.index(least)
        for neighbour in (kept[at - 1], kept[at + 1]):
            debt[neighbour] = max(debt[neighbour], priority[least])
        kept.remove(least)
    return [points[i] for i in kept]


@settings(max_examples=100)
@given(moving_points(most=9), st.integers(1, 6))
def test_squish_drops_the_least_important_vertices(m, most):
    short = edited("squish", m, most)
    assert [len(range(s.start, s.stop)) for s in short.sequences] == [
        min(s.stop - s.start, max(most, 2)) for s in m.sequences
    ]
    distinct = np.random.default_rng(len(m.t)).normal(size=(2, len(m.t)))  # no two priorities are equal
    m = MovingPoint(m.t, m.x + distinct[0], m.y + distinct[1], m.starts)
    short = edited("squish", m, most)
    assert [vertices(short, s) for s in short.sequences] == [squish(vertices(m, s), most) for s in m.sequences]


@SOME
@given(moving_points(), st.sampled_from([0.3, 1.0, 2.5]))
def test_resample_has_regular_vertices_on_the_movement(m, seconds):
    made = edited("resample", m, seconds)
    assert len(made.sequences) == len(m.sequences)
    for s, r in zip(m.sequences, made.sequences, strict=True):
        step = round(seconds * SECOND)
        expected = [*range(int(m.t[s][0]), int(m.t[s.stop - 1]), step), int(m.t[s.stop - 1])]
        assert made.t[r].tolist() == expected
        alone = MovingPoint(m.t[s], m.x[s], m.y[s], np.array([0], np.int32))
        for t, x, y in vertices(made, r):
            assert (x, y) == pytest.approx([float(v) for v in position(alone, Fr(t))], abs=1e-9)


@SOME
@given(moving_points(most=6), st.integers(0, 6))
def test_smooth_is_the_average_of_the_movement(m, seconds):
    made = edited("smooth", m, float(seconds))
    assert made.t.tolist() == m.t.tolist()
    for s in m.sequences:
        alone = MovingPoint(m.t[s], m.x[s], m.y[s], np.array([0], np.int32))
        for t, x, y in vertices(made, s):
            half = min(seconds * SECOND // 2, t - int(m.t[s][0]), int(m.t[s.stop - 1]) - t)
            cuts = sorted({t - half, t + half, *(u for u in m.t[s].tolist() if abs(u - t) < half)})
            mean = [Fr(0), Fr(0)]
            for a, b in pairwise(cuts):
                p, q = position(alone, Fr(a)), position(alone, Fr(b))
                mean = [v + (c + d) / 2 * (b - a) / (2 * half) for v, c, d in zip(mean, p, q, strict=True)]
            expected = mean if half else position(alone, Fr(t))
            assert (x, y) == pytest.approx([float(v) for v in expected], abs=1e-9)


@SOME
@given(moving_points(), st.sampled_from([0.5, 1.0, 4.0]), st.integers(-20, 20))
def test_snap_and_shift(m, metres, seconds):
    snapped, later = edited("snap", m, metres), edited("shift", m, float(seconds))
    assert snapped.x.tolist() == [round(x / metres) * metres for x in m.x]
    assert np.abs(snapped.y - m.y).max(initial=0.0) <= metres / 2
    assert later.t.tolist() == [t + seconds * SECOND for t in m.t.tolist()]
    assert (later.x.tolist(), later.starts.tolist()) == (m.x.tolist(), m.starts.tolist())


@SOME
@given(moving_points(), st.integers(0, 3))
def test_append_moves_on_to_a_later_position(m, wait):
    t = (int(m.t[-1]) if len(m.t) else 0) + wait * SECOND
    place = pa.array([{"t": instant(t), "x": 1.5, "y": -2.0}], types.IPOINT.arrow)
    if len(m.t) and not wait:
        with pytest.raises(BadInput, match="row 1 of 1 is not later"):
            call("append", m, place)
        return
    made = edited("append", m, place)
    assert vertices(made, slice(None)) == [*vertices(m, slice(None)), (t, 1.5, -2.0)]
    assert made.starts.tolist() == (m.starts.tolist() or [0])


@SOME
@given(moving_points(), moving_points())
def test_merge_is_the_first_where_it_is_defined_else_the_second(a, b):
    made = edited("merge", a, b)
    twice = {t for m in (a, b, made) for t in m.t.tolist() if np.count_nonzero(m.t == t) > 1}
    for t in samples(a, b):
        if t in twice or t.denominator > 1:
            continue
        expected = position(a, t) or position(b, t)
        got = position(made, t)
        assert (got is None) == (expected is None)
        if got:
            assert math.hypot(float(got[0] - expected[0]), float(got[1] - expected[1])) < 1e-4


def test_movements_that_meet_become_one_sequence():
    whole = moving([[(0, 0.0, 0.0), (10, 10.0, 0.0), (20, 10.0, 10.0)]])
    first, second = (moving([part]) for part in ([(0, 0.0, 0.0), (10, 10.0, 0.0)], [(10, 10.0, 0.0), (20, 10.0, 10.0)]))
    for pair in ((first, second), (second, first), (whole, first), (first, whole)):
        made = edited("merge", *pair)
        assert made.starts.tolist() == [0]
        assert made.length == 20.0


def assert_parts(m, parts):
    """Parts, in the order of time, that together are the whole at every microsecond."""
    for t in samples(m):
        if t.denominator == 1 and np.count_nonzero(m.t == int(t)) <= 1:
            found = [where for part in parts if (where := position(part, t)) is not None]
            expected = position(m, t)
            assert len(found) == (expected is not None)
            if found:
                assert math.hypot(*(float(p - q) for p, q in zip(found[0], expected, strict=True))) < 1e-4
    begins = [int(part.t[0]) for part in parts]
    assert begins == sorted(begins)


@SOME
@given(moving_points(), st.sampled_from([0.7, 3.0, 10.0]))
def test_split_by_time_puts_each_span_into_a_part(m, seconds):
    parts = parts_of("split_by_time", m, seconds)
    assert_parts(m, parts)
    step = round(seconds * SECOND)
    numbers = [{t // step for t in part.t.tolist()} for part in parts]
    assert all(len(found) == 1 for found in numbers)
    assert len({min(found) for found in numbers}) == len(parts)


@SOME
@given(moving_points(), st.sampled_from([1.5, 2.0, 5.0]))
def test_split_by_space_and_tiles_follow_the_grid(m, metres):
    assert_parts(m, parts_of("split_by_space", m, metres))
    visits = call("tiles", m, metres)[0].as_py()
    for t in samples(m):
        where = position(m, t)
        if where is None or t.denominator > 1 or np.count_nonzero(m.t == int(t)) > 1:
            continue
        hits = [v for v in visits if microsecond(v["begin"]) <= t <= microsecond(v["end"])]
        assert len(hits) == 1
        for name, value in zip("xy", where, strict=True):
            off = value / Fr(metres) - hits[0][name]
            assert -1e-5 <= off <= 1 + 1e-5


@SOME
@given(moving_points(), st.integers(0, 5))
def test_split_at_gaps_ends_parts_where_nothing_was_heard(m, seconds):
    parts = parts_of("split_at_gaps", m, float(seconds))
    assert sum(len(part.t) for part in parts) == len(m.t)
    assert np.concatenate([np.empty(0), *(part.t for part in parts)]).tolist() == m.t.tolist()
    for part in parts:
        assert (np.diff(part.t) <= seconds * SECOND).all()
    for before, after in pairwise(parts):
        assert after.t[0] - before.t[-1] > seconds * SECOND


@SOME
@given(moving_points())
def test_sequences_are_those_of_the_movement(m):
    parts = parts_of("sequences", m)
    assert [vertices(part, slice(None)) for part in parts] == [vertices(m, s) for s in m.sequences]


@SOME
@given(moving_points(), moving_points(), st.data())
def test_split_by_value_changes_with_the_value(m, clock, data):
    row = clock.to_row()
    states = {name: row[name] for name in ("t", "starts")} | {"interpolation": "step"}
    states["value"] = [data.draw(st.sampled_from(["free", "taken"])) for _ in row["t"]]
    column = pa.array([states], types.TTEXT.arrow)
    parts = parts_of("split_by_value", m, column)
    during = value_of(call("atperiods", m, OPERATORS["deftime"](column)))
    assert_parts(during, parts)
    for part in parts:
        seen = {
            call_over_time("atinstant_ttext", states, pa.array([t]).view(types.INSTANT), kind=types.TTEXT)
            for t in part.t.tolist()
        }
        assert len(seen) == 1


def test_split_by_value_needs_steps():
    line = {"t": [instant(0), instant(9)], "value": [0.0, 1.0], "starts": [0], "interpolation": "linear"}
    with pytest.raises(Exception, match="split_by_value: a linear attribute"):
        call("split_by_value", moving([[(0, 0.0, 0.0)]]), pa.array([line], types.TFLOAT.arrow))


@settings(max_examples=30)
@given(st.lists(moving_points(), min_size=2, max_size=4), st.data())
def test_slices_of_columns_are_edited_alike(rows, data):
    skip = data.draw(st.integers(1, len(rows) - 1))
    whole, number = to_arrow(rows), pa.array([2.0] * len(rows))
    for name in ("simplify", "squish", "resample", "smooth", "snap", "tiles", "split_by_time", "split_at_gaps"):
        got = OPERATORS[name](whole.slice(skip), number.slice(skip)).to_pylist()
        assert got == OPERATORS[name](whole, number).to_pylist()[skip:], name
    for name in ("speed", "acceleration", "direction", "cumulative_length", "extent", "twcentroid", "sequences"):
        assert OPERATORS[name](whole.slice(skip)).to_pylist() == OPERATORS[name](whole).to_pylist()[skip:], name
    for name in ("merge", "nearest_approach_distance", "frechet", "hausdorff"):
        got = OPERATORS[name](whole.slice(skip), whole.slice(skip)).to_pylist()
        assert got == OPERATORS[name](whole, whole).to_pylist()[skip:], name
