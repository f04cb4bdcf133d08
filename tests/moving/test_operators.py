"""Each operator compared with exact fractions at many instants, and with PyMEOS."""

from __future__ import annotations

import math
from fractions import Fraction as Fr

import numpy as np
import pyarrow as pa
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

from moving.oracle import SECOND, covered, moving, moving_points, position, samples
from slipstream._errors import BadArgument, BadInput
from slipstream._moving import MovingPoint, sql_functions, types
from slipstream._moving.columns import read
from slipstream._moving.moving_point import instant, to_arrow

OPERATORS = {f.name: f for f in sql_functions.FUNCTIONS}
grid = st.integers(-7, 7).map(float)


def call(name, *arguments):
    """An operator on single values."""
    arrays = []
    for argument in arguments:
        match argument:
            case MovingPoint():
                arrays.append(to_arrow([argument]))
            case pa.Array():
                arrays.append(argument)
            case _:
                arrays.append(pa.array([argument]))
    return OPERATORS[name](*arrays)


def point(x, y):
    return pa.array([{"x": x, "y": y}], types.POINT.arrow)


def periods(*intervals):
    rows = {"begin": [instant(b) for b, _ in intervals], "end": [instant(e) for _, e in intervals]}
    return pa.array([rows], types.PERIODS.arrow)


def region(*rings):
    x = [float(p[0]) for ring in rings for p in ring]
    y = [float(p[1]) for ring in rings for p in ring]
    starts = np.cumsum([0, *(len(r) for r in rings)])[:-1].tolist()
    return pa.array([{"x": x, "y": y, "starts": starts}], types.REGION.arrow)


def value_of(column) -> MovingPoint:
    return MovingPoint.from_column(read(column))


@given(moving_points())
def test_atinstant_and_present_agree_with_exact_positions(m):
    for t in map(int, samples(m, parts=3)):
        here = call("atinstant", m, pa.array([t]).view(types.INSTANT))[0].as_py()
        expected = position(m, Fr(t))
        assert call("present", m, pa.array([t]).view(types.INSTANT))[0].as_py() == (expected is not None)
        if expected is None:
            assert here is None
        else:
            assert (here["x"], here["y"]) == pytest.approx([float(v) for v in expected], abs=1e-9)


@given(moving_points(), st.lists(st.tuples(st.integers(0, 40), st.integers(0, 10)), max_size=3))
def test_atperiods_keeps_exactly_the_positions_within_the_periods(m, spans):
    intervals, last = [], -1
    for begin, size in sorted(spans):
        if begin > last:
            intervals.append((begin * SECOND // 2, (begin + size) * SECOND // 2))
            last = begin + size
    result = value_of(call("atperiods", m, periods(*intervals)))
    assert result.problem() == ""
    begin, end = [b for b, _ in intervals], [e for _, e in intervals]
    for t in [*samples(m), *map(Fr, begin), *map(Fr, end)]:
        expected, got = position(m, t), position(result, t)
        if not covered(begin, end, t) or expected is None:
            assert got is None
        elif got is not None and expected is not None:
            # at an instant where one sequence ends and another begins, either end may be kept
            near = math.hypot(float(got[0] - expected[0]), float(got[1] - expected[1])) < 1e-9
            assert near or np.count_nonzero(m.t == int(t)) > 1
        else:
            pytest.fail(f"lost at {t}")
    assert call("present", m, periods(*intervals))[0].as_py() == (len(result.t) > 0)


@given(moving_points())
def test_lengths_add_up_over_a_cut(m):
    cut = 7 * SECOND + SECOND // 3
    whole = call("travelled", m)[0].as_py()
    parts = [call("travelled", call("atperiods", m, periods(p)))[0].as_py() for p in ((0, cut), (cut, 10**9))]
    assert sum(parts) == pytest.approx(whole, abs=1e-9)
    assert m.length == pytest.approx(whole)


@given(moving_points(), grid, grid)
def test_passes_and_at_find_a_point_exactly_when_it_is_on_the_path(m, x, y):
    line = [shapely.LineString(np.c_[m.x[s], m.y[s]]) for s in m.sequences if s.stop - s.start > 1]
    line += [shapely.Point(m.x[s][0], m.y[s][0]) for s in m.sequences if s.stop - s.start == 1]
    expected = any(g.distance(shapely.Point(x, y)) < 1e-6 for g in line)
    assert call("passes", m, point(x, y))[0].as_py() == expected
    there = value_of(call("at", m, point(x, y)))
    assert (len(there.t) > 0) == expected
    assert there.problem() == ""
    for t, vx, vy in zip(there.t.tolist(), there.x, there.y, strict=True):
        assert (vx, vy) == (x, y)
        exact = position(m, Fr(t))
        assert exact is not None
    for t in samples(m, parts=4):
        if position(m, t) == (Fr(x), Fr(y)) and t.denominator == 1:
            assert any(s.stop > s.start and there.t[s][0] <= t <= there.t[s.stop - 1] for s in there.sequences)


RINGS = [
    [(-3, -3), (3, -3), (3, 3), (-3, 3)],
    [(0, -5), (5, 0), (0, 5), (-5, 0)],
    [(-4, -4), (0, -1), (4, -4), (1, 4), (-1, 4)],
]


@given(moving_points(), st.sampled_from(RINGS), st.booleans())
def test_at_region_is_where_shapely_says_the_point_is_inside(m, ring, with_hole):
    hole = [(-1, -1), (1, -1), (1, 1), (-1, 1)]
    rings = [ring, hole] if with_hole and ring is RINGS[0] else [ring]
    shape = shapely.Polygon(rings[0], rings[1:])
    result = value_of(call("at", m, region(*rings)))
    assert result.problem() == ""
    assert call("passes", m, region(*rings))[0].as_py() == (len(result.t) > 0)
    for t in samples(m):
        where = position(m, t)
        if where is None or np.count_nonzero(m.t == int(t)) > 1:
            continue
        place = shapely.Point(float(where[0]), float(where[1]))
        edge = shape.boundary.distance(place)
        inside = any(result.t[s][0] - 1 <= t <= result.t[s.stop - 1] + 1 for s in result.sequences)
        if edge > 1e-4:
            assert inside == shape.covers(place)
        elif edge == 0:
            assert inside
    for x, y in zip(result.x, result.y, strict=True):
        assert shape.distance(shapely.Point(x, y)) < 1e-5


@given(moving_points(), moving_points(), st.sampled_from([0.0, 1.0, 2.5, 10.0]))
def test_distance_and_at_most_agree_with_exact_distances(a, b, limit):
    distance = call("distance", a, b)
    near = read(call("at_most", distance, limit))
    meets = read(call("deftime", call("at_bool", call("at_most", distance, limit), True)))
    units = distance[0].as_py()
    for t in samples(a, b):
        pa_, pb = position(a, t), position(b, t)
        twice = any(np.count_nonzero(m.t == int(t)) > 1 for m in (a, b))
        if pa_ is None or pb is None or twice:
            continue
        exact = math.hypot(float(pa_[0] - pb[0]), float(pa_[1] - pb[1]))
        from_units = [
            math.sqrt(max(0.0, u[2] * s * s + u[3] * s + u[4]))
            for u in zip(units["begin"], units["end"], units["a"], units["b"], units["c"], strict=True)
            if (u0 := (u[0].timestamp() * SECOND)) <= t <= u[1].timestamp() * SECOND
            for s in [float(t - Fr(round(u0))) / SECOND]
        ]
        assert any(abs(d - exact) < 1e-6 for d in from_units)
        if abs(exact - limit) > 1e-4:
            assert covered(meets.begin.tolist(), meets.end.tolist(), t) == (exact < limit)
    assert call("sometimes", call("at_most", distance, limit))[0].as_py() == bool(near.value.any())


@given(moving_points(), moving_points())
def test_distance_is_symmetric_and_zero_to_itself(a, b):
    forth, back = (read(call("distance", *pair)) for pair in ((a, b), (b, a)))
    for one, other in zip(forth, back, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)
    own = read(call("distance", a, a))
    assert not own.a.any()
    assert not own.c.any()


@given(moving_points(), moving_points())
def test_an_intersection_is_where_both_are_at_one_place(a, b):
    result = value_of(call("intersection", a, b))
    assert result.problem() == ""
    for t, x, y in zip(result.t.tolist(), result.x, result.y, strict=True):
        for m in (a, b):
            where = position(m, Fr(t))
            assert where is not None
            if np.count_nonzero(m.t == t) == 1:
                assert math.hypot(float(where[0]) - x, float(where[1]) - y) < 1e-4
    for t in samples(a, b):
        alone = all(np.count_nonzero(m.t == int(t)) <= 1 for m in (a, b))
        if alone and t.denominator == 1 and position(a, t) is not None and position(a, t) == position(b, t):
            assert any(result.t[s][0] <= t <= result.t[s.stop - 1] for s in result.sequences)


@given(moving_points(), moving_points())
def test_line_distance_is_what_shapely_says(a, b):
    lines = [call("trajectory", m) for m in (a, b)]
    got = call("line_distance", *lines)[0].as_py()
    shapes = []
    for m in (a, b):
        parts = [np.c_[m.x[s], m.y[s]] for s in m.sequences]
        shapes.append([shapely.LineString(p) if len(p) > 1 else shapely.Point(p[0]) for p in parts])
    if not all(shapes):
        assert got is None
    else:
        expected = min(one.distance(other) for one in shapes[0] for other in shapes[1])
        assert got == pytest.approx(expected, abs=1e-9)


@given(moving_points(), st.integers(0, 30))
def test_concat_puts_the_parts_together_again(m, second):
    cut = second * SECOND // 2
    parts = [call("atperiods", m, periods(p)) for p in ((-1, cut), (cut, 10**9))]
    lists = pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), pa.concat_arrays(parts))
    joined = MovingPoint.from_column(read(sql_functions.ON_ARROW["concat_all"][1](lists)))
    assert joined.problem() == ""
    for t in samples(m):
        expected, got = position(m, t), position(joined, t)
        assert (expected is None) == (got is None)
        if expected and got and np.count_nonzero(m.t == int(t)) == 1:
            assert math.hypot(float(got[0] - expected[0]), float(got[1] - expected[1])) < 1e-6


def test_edge_cases_of_the_specification():
    still = moving([[(0, 5.0, 5.0), (100, 5.0, 5.0)]])
    assert call("passes", still, point(5.0, 5.0))[0].as_py()
    assert call("travelled", still)[0].as_py() == 0.0
    once = moving([[(3, 1.0, 1.0)]])
    assert call("deftime", once)[0].as_py()["begin"] == [instant(3 * SECOND)]
    empty = moving([])
    assert call("isempty", empty)[0].as_py()
    assert call("initial", empty)[0].as_py() is None
    assert call("isempty", call("atperiods", still, periods((200 * SECOND, 300 * SECOND))))[0].as_py()
    east, west = (moving([[(0, a, 0.0), (10, b, 0.0)]]) for a, b in ((0.0, 100.0), (100.0, 0.0)))
    met = value_of(call("intersection", east, west))
    assert met.t.tolist() == [5 * SECOND]
    along = moving([[(0, -10.0, 3.0), (10, 10.0, 3.0)]])
    border = value_of(call("at", along, region(RINGS[0])))
    assert [round(v, 4) for v in border.x] == [-3.0, 3.0]
    corner = moving([[(0, -1.0, 5.0), (2, 1.0, 5.0)]])  # touches the diamond in one corner
    assert value_of(call("at", corner, region(RINGS[1]))).t.tolist() == [SECOND]
    jump = moving([[(0, 0.0, 0.0)], [(0, 4.0, 0.0), (1, 0.0, 0.0)]])  # the later place counts, and it is outside
    assert value_of(call("at", jump, region(RINGS[0]))).t.tolist() == [SECOND // 4, SECOND]


def test_vehicles_on_the_same_path_and_a_movement_over_midnight():
    first, second, again = (moving([[(t, 0.0, 0.0), (t + 10, 100.0, 0.0)]]) for t in (0, 5, 0))
    assert call("isempty", call("intersection", first, second))[0].as_py()
    assert not call("sometimes", call("at_most", call("distance", first, second), 49.0))[0].as_py()
    assert call("line_distance", call("trajectory", first), call("trajectory", second))[0].as_py() == 0.0
    assert value_of(call("intersection", first, again)).t.tolist() == [0, 10 * SECOND]
    midnight = 24 * 3600
    late = moving([[(midnight - 10, 0.0, 0.0), (midnight + 10, 20.0, 0.0)]])
    around = periods(((midnight - 1) * SECOND, (midnight + 1) * SECOND))
    assert call("travelled", call("atperiods", late, around))[0].as_py() == pytest.approx(2.0)


def test_a_wrong_argument_is_named():
    with pytest.raises(BadArgument, match=r"passes\("):
        call("passes", moving([[(0, 0.0, 0.0)]]), 3)


def test_broken_moving_points_are_refused_with_their_vertex():
    with pytest.raises(BadInput, match="vertex 2: the same instant twice"):
        moving([[(0, 0.0, 0.0), (0, 1.0, 0.0)]])
    with pytest.raises(BadInput, match="vertex 2: an instant before"):
        moving([[(5, 0.0, 0.0), (0, 1.0, 0.0)]])
    with pytest.raises(BadInput, match="not a finite"):
        moving([[(5, math.nan, 0.0)]])
    ragged = pa.StructArray.from_arrays(
        [
            pa.array([[instant(0)]], pa.list_(types.INSTANT)),
            pa.array([[1.0, 2.0]]),
            pa.array([[1.0]]),
            pa.array([[0]], pa.list_(pa.int32())),
        ],
        fields=list(types.MPOINT.arrow),
    )
    with pytest.raises(BadInput, match="different lengths"):
        call("travelled", ragged)


@settings(max_examples=40)
@given(st.lists(moving_points(), min_size=1, max_size=4), st.data())
def test_each_question_to_a_history_is_answered_as_if_asked_alone(histories, data):
    asked = [data.draw(st.lists(st.tuples(grid, grid), max_size=3)) for _ in histories]
    column = pa.array([[{"x": x, "y": y} for x, y in row] for row in asked], pa.list_(types.POINT.arrow))
    for name in ("passes", "at"):
        answers = [
            [call(name, m, point(*place))[0].as_py() for place in row] for m, row in zip(histories, asked, strict=True)
        ]
        each = sql_functions.ON_ARROW[f"{name}_each"][1]
        for skip in (0, 1):
            assert each(to_arrow(histories).slice(skip), column.slice(skip)).to_pylist() == answers[skip:]


def test_travelled_all_and_united_take_slices_and_nulls():
    far = [moving([[(0, 0.0, 0.0), (1, float(k), 0.0)]]) for k in range(4)]
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 1, 4], pa.int32()), to_arrow(far))
    travelled = sql_functions.ON_ARROW["travelled_all"][1]
    assert travelled(lists).to_pylist() == [[0.0], [], [1.0, 2.0, 3.0]]
    assert travelled(lists.slice(1)).to_pylist() == [[], [1.0, 2.0, 3.0]]
    span = pa.struct([("t0", types.INSTANT), ("t1", types.INSTANT)])
    spans = [[(5, 9), (0, 2), (2, 3), (8, 8)], [], None, [(1, 1)]]
    rows = [s and [{"t0": instant(a), "t1": instant(b)} for a, b in s] for s in spans]
    united = sql_functions.ON_ARROW["united"][1]
    for skip in (0, 1):
        merged = united(pa.array(rows, pa.list_(span)).slice(skip)).to_pylist()
        expected = [[(0, 3), (5, 9)], [], None, [(1, 1)]][skip:]
        got = [p and [(b, e) for b, e in zip(p["begin"], p["end"], strict=True)] for p in merged]
        assert got == [e and [(instant(b), instant(c)) for b, c in e] for e in expected]
