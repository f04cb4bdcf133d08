"""Every operator rejects invalid moving points instead of returning a number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from moving.oracle import moving, moving_points
from moving.test_operators import periods, point, region
from slipstream._errors import BadInput
from slipstream._moving import columns, register, sql_functions, types
from slipstream._moving.moving_point import instant, to_arrow
from slipstream._spark.session import task_errors

GOOD = moving([[(0, 0.0, 0.0), (10, 100.0, 0.0)]])
RING = [(-3, -3), (3, -3), (3, 3), (-3, 3)]


def listed(array):
    return pa.ListArray.from_arrays(pa.array(range(len(array) + 1), pa.int32()), array)


def again(array, n):
    return pa.concat_arrays([array] * n)


#: every operator that takes moving points, as a call on a column of them
CALLS = {
    "atinstant": lambda f, m: f(m, again(pa.array([5_000_000]).view(types.INSTANT), len(m))),
    "initial": lambda f, m: f(m),
    "final": lambda f, m: f(m),
    "present": lambda f, m: f(m, again(periods((0, 10**9)), len(m))),
    "passes": lambda f, m: f(m, again(point(1.0, 1.0), len(m))),
    "at": lambda f, m: f(m, again(region(RING), len(m))),
    "atperiods": lambda f, m: f(m, again(periods((0, 10**9)), len(m))),
    "deftime": lambda f, m: f(m),
    "trajectory": lambda f, m: f(m),
    "travelled": lambda f, m: f(m),
    "distance": lambda f, m: f(again(to_arrow([GOOD]), len(m)), m),
    "intersection": lambda f, m: f(m, again(to_arrow([GOOD]), len(m))),
    "isempty": lambda f, m: f(m),
    "concat_all": lambda f, m: f(listed(m)),
    "travelled_all": lambda f, m: f(listed(m)),
    "atinstant_each": lambda f, m: f(m, listed(again(pa.array([5_000_000]).view(types.INSTANT), len(m)))),
    "present_each": lambda f, m: f(m, listed(again(periods((0, 10**9)), len(m)))),
    "passes_each": lambda f, m: f(m, listed(again(point(1.0, 1.0), len(m)))),
    "at_each": lambda f, m: f(m, listed(again(region(RING), len(m)))),
    "atperiods_each": lambda f, m: f(m, listed(again(periods((0, 10**9)), len(m)))),
}
#: operators of one moving point, and those of one and a number
ALONE = ["acceleration", "cumulative_length", "direction", "duration", "extent", "sequences", "speed", "twcentroid"]
SPLITS = ["split_at_gaps", "split_by_space", "split_by_time", "tiles"]
NUMBERED = ["resample", "shift", "simplify", "simplify_in_time", "smooth", "snap", "squish", *SPLITS]
APPROACH = ["nearest_approach_distance", "nearest_approach_instant", "shortest_line"]
TOGETHER = ["dtw", "frechet", "hausdorff", "merge", *APPROACH]
NEAR = ["always_dwithin", "dwithin", "when_dwithin"]


def numbers(n, value=5.0):
    return pa.array([value] * n)


def boxes(n):
    return again(pa.array([dict.fromkeys(types.STBOX.arrow.names, None)], types.STBOX.arrow), n)


def positions(n):
    return again(pa.array([{"t": instant(10**12), "x": 0.0, "y": 0.0}], types.IPOINT.arrow), n)


def attributes(n):
    row = {"t": [instant(0), instant(5)], "value": ["a", "b"], "starts": [0], "interpolation": "step"}
    return again(pa.array([row], types.TTEXT.arrow), n)


CALLS |= (
    {name: lambda f, m: f(m) for name in ALONE}
    | {name: lambda f, m: f(m, numbers(len(m))) for name in NUMBERED}
    | {name: lambda f, m: f(again(to_arrow([GOOD]), len(m)), m) for name in TOGETHER}
    | {name: lambda f, m: f(m, again(point(1.0, 1.0), len(m)), numbers(len(m))) for name in NEAR}
    | {
        "stops": lambda f, m: f(m, numbers(len(m)), numbers(len(m))),
        "enters": lambda f, m: f(m, again(region(RING), len(m))),
        "leaves": lambda f, m: f(m, again(region(RING), len(m))),
        "dwells": lambda f, m: f(m, again(region(RING), len(m)), numbers(len(m))),
        "geodesic_length": lambda f, m: f(m, pa.array(["EPSG:3857"] * len(m))),
        "to_lonlat": lambda f, m: f(m, pa.array(["EPSG:3857"] * len(m))),
        "arrives": lambda f, m: f(m, again(point(1.0, 1.0), len(m)), numbers(len(m))),
        "append": lambda f, m: f(m, positions(len(m))),
        "atbox": lambda f, m: f(m, boxes(len(m))),
        "minusbox": lambda f, m: f(m, boxes(len(m))),
        "minus": lambda f, m: f(m, again(region(RING), len(m))),
        "minusperiods": lambda f, m: f(m, again(periods((0, 10**9)), len(m))),
        "split_by_value": lambda f, m: f(m, attributes(len(m))),
    }
)
#: those on values over time, which test_over_time.py breaks
OVER_TIME = {f.name for f in sql_functions.FUNCTIONS if f.compute.__module__.endswith("over_time_operators")}
#: those that take no moving point
OTHERS = {
    *OVER_TIME,
    "common_periods",
    "periods_without",
    "line_from_wkt",
    "line_to_wkt",
    "point_from_wkt",
    "region_from_geojson",
    "region_from_wkb",
    "region_from_wkt",
    "region_to_wkt",
    "line_distance",
    "at_most",
    "at_bool",
    "sometimes",
    "inside",
    "circle",
    "united",
    "problem",
    *sql_functions.IN_SQL,
}


def operator(name):
    by_name = {f.name: f for f in sql_functions.FUNCTIONS}
    return by_name[name] if name in by_name else sql_functions.ON_ARROW[name][1]


def test_no_operator_is_left_out():
    assert set(sql_functions.names()) == set(CALLS) | OTHERS


@dataclass(frozen=True)
class Break:
    """A way to make a valid row invalid, where it applies."""

    name: str
    words: str
    needs: int  # vertices
    apply: object


def put(name, place, value):
    def change(row, data):
        at = data.draw(st.integers(0, len(row[name]) - 1)) if place is None else place
        row[name][at] = value(row) if callable(value) else value

    return change


def equal_times(row, data):
    """Two vertices of one sequence at one instant."""
    inner = [i for i in range(1, len(row["t"])) if i not in row["starts"]]
    assume(inner)
    at = data.draw(st.sampled_from(inner))
    row["t"][at] = row["t"][at - 1]


def swapped_times(row, data):
    inner = [i for i in range(1, len(row["t"])) if row["t"][i] != row["t"][i - 1]]
    assume(inner)
    at = data.draw(st.sampled_from(inner))
    row["t"][at], row["t"][at - 1] = row["t"][at - 1], row["t"][at]


BREAKS = [
    *(
        Break(f"{name} {value}", "not a finite number", 1, put(name, None, value))
        for name in ("x", "y")
        for value in (float("nan"), float("inf"), float("-inf"))
    ),
    *(Break(f"a null in {name}", "null", 1, put(name, None, None)) for name in ("t", "x", "y", "starts")),
    *(
        Break(f"{name} is null", "arrays is null", 0, lambda row, _, name=name: row.update({name: None}))
        for name in ("t", "x", "y", "starts")
    ),
    *(
        Break(f"{name} too short", "different lengths", 1, lambda row, _, name=name: row[name].pop())
        for name in ("t", "x", "y")
    ),
    Break("no starts", "starts does not begin", 1, lambda row, _: row.update(starts=[])),
    Break("starts late", "starts does not begin", 1, put("starts", 0, 1)),
    Break("starts twice", "starts does not increase", 1, lambda row, _: row["starts"].append(row["starts"][-1])),
    Break("starts beyond", "exceeds the last vertex", 1, lambda row, _: row["starts"].append(len(row["t"]))),
    Break("starts before", "starts does not increase", 1, lambda row, _: row["starts"].append(-1)),
    Break("starts of nothing", "starts does not", 0, lambda row, _: row.update(t=[], x=[], y=[], starts=[0])),
    Break("one instant twice", "same instant twice", 2, equal_times),
    Break("time goes back", "instant before|instant twice", 2, swapped_times),
]


@settings(max_examples=250)
@given(
    st.lists(moving_points(), min_size=1, max_size=3),
    st.sampled_from(BREAKS),
    st.sampled_from(sorted(CALLS)),
    st.data(),
)
def test_every_operator_refuses_every_invalid_moving_point_and_names_its_row(points, fault, name, data):
    rows = [m.to_row() for m in points]
    which = data.draw(st.integers(0, len(rows) - 1))
    assume(len(rows[which]["t"]) >= fault.needs)
    CALLS[name](operator(name), pa.array(rows, types.MPOINT.arrow))
    fault.apply(rows[which], data)
    broken = pa.array(rows, types.MPOINT.arrow)
    with pytest.raises(BadInput, match=fault.words) as refused:
        CALLS[name](operator(name), broken)
    assert refused.value.message.startswith(f"mpoint in row {which + 1} of {len(rows)}: ")
    assert "\n" not in refused.value.message
    # a null row is not looked into, and the faults of others are named by `problem`
    nulls = pa.array([k == which for k in range(len(rows))])
    masked = pa.StructArray.from_arrays(broken.flatten(), fields=list(broken.type), mask=nulls)
    assert not columns.faults(masked).code.any()
    found = sql_functions.ON_ARROW["problem"][1](broken).to_pylist()
    assert [text is not None for text in found] == nulls.to_pylist()


@given(st.lists(moving_points(), max_size=4))
def test_valid_moving_points_have_no_problem(points):
    assert sql_functions.ON_ARROW["problem"][1](to_arrow(points)).to_pylist() == [None] * len(points)
    assert all(m.problem() == "" for m in points)


def test_arrays_of_one_length_that_lie_differently_in_memory_are_read_alike():
    values = pa.array([9.0, 0.0, 100.0])
    shifted = pa.ListArray.from_arrays(pa.array([1, 3], pa.int32()), values)
    whole = to_arrow([GOOD])
    t, _, y, starts = whole.flatten()
    column = pa.StructArray.from_arrays([t, shifted, y, starts], fields=list(whole.type))
    assert operator("travelled")(column).to_pylist() == [100.0]


def test_a_place_without_two_finite_coordinates_is_null():
    for x, y in ((None, 1.0), (1.0, None), (float("nan"), 1.0), (1.0, float("inf"))):
        assert operator("passes")(to_arrow([GOOD]), point(x, y)).to_pylist() == [None]
        assert operator("inside")(point(x, y), region(RING)).to_pylist() == [None]
        assert operator("circle")(point(x, y), pa.array([5.0]), pa.array([8])).to_pylist() == [None]
    assert operator("circle")(point(0.0, 0.0), pa.array([None], pa.float64()), pa.array([8])).to_pylist() == [None]


def test_broken_periods_lines_and_regions_are_refused():
    m = to_arrow([GOOD])
    for spans, words in (
        ([(5, 1)], "ends before it begins"),
        ([(0, 9), (5, 12)], "begins before the previous one ends"),
    ):
        with pytest.raises(BadInput, match=f"periods in row 1 of 1: interval {len(spans)}: .*{words}"):
            operator("atperiods")(m, periods(*spans))
    nowhere = pa.array([{"begin": [None], "end": [instant(0)]}], types.PERIODS.arrow)
    with pytest.raises(BadInput, match="null"):
        operator("atperiods")(m, nowhere)
    with pytest.raises(BadInput, match="without begin or end"):
        operator("united")(
            pa.array(
                [[{"b": None, "e": instant(0)}]], pa.list_(pa.struct([("b", types.INSTANT), ("e", types.INSTANT)]))
            )
        )
    open_ring = pa.array([{"x": [0.0, float("nan"), 1.0], "y": [0.0, 1.0, 1.0], "starts": [0]}], types.REGION.arrow)
    with pytest.raises(BadInput, match="vertex 2: a coordinate is not a finite"):
        operator("passes")(m, open_ring)
    no_start = pa.array([{"x": [0.0, 1.0, 1.0], "y": [0.0, 1.0, 1.0], "starts": []}], types.REGION.arrow)
    with pytest.raises(BadInput, match="starts"):
        operator("inside")(point(0.0, 0.0), no_start)


def test_spark_hands_the_refusal_on_as_one_line(spark):
    register(spark)
    t, x, y = "array(timestamp_seconds(10), timestamp_seconds(0))", "array(0D, 10D)", "array(0D, 0D)"
    unsorted = f"named_struct('t', {t}, 'x', {x}, 'y', {y}, 'starts', array(0))"
    with pytest.raises(BadInput) as refused, task_errors():
        spark.sql(f"SELECT travelled({unsorted}) AS far").toArrow()
    assert (
        refused.value.message
        == "mpoint in row 1 of 1: vertex 2: an instant before the previous one, 1970-01-01T00:00:00+00:00."
    )
    assert "problem(Trip)" in refused.value.hint
    sql = f"SELECT problem({unsorted}) AS what, problem(CAST(NULL AS {types.MPOINT.sql})) AS nothing"
    (row,) = spark.sql(sql).toArrow().to_pylist()
    assert row == {"what": "vertex 2: an instant before the previous one, 1970-01-01T00:00:00+00:00.", "nothing": None}


def test_a_checked_history_is_checked_once_however_many_questions_are_asked(monkeypatch):
    seen = []
    monkeypatch.setattr(columns, "check", lambda array: seen.append(len(array)))
    places = pa.array([[{"x": float(k), "y": 0.0} for k in range(50)]], pa.list_(types.POINT.arrow))
    operator("passes_each")(to_arrow([GOOD]), places)
    assert seen == [1, 50]
    assert np.all(seen)
