"""Numbers, truths and text over time, compared with exact values at the microseconds that matter."""

from __future__ import annotations

import operator as op
from fractions import Fraction as Fr
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moving.oracle import SECOND, microsecond, near_instants, over_time, sequences_of, value_over_time
from moving.test_operators import OPERATORS, periods
from slipstream._errors import BadArgument, BadInput
from slipstream._moving import types
from slipstream._moving.moving_point import instant

INTS = st.integers(-5, 5)
FLOATS = INTS.map(float)
TFLOATS = over_time(FLOATS, ("linear", "linear", "step", "discrete"))
TINTS, TBOOLS, TTEXTS = over_time(INTS), over_time(st.booleans()), over_time(st.sampled_from(["a", "b", "c"]))
ANY = st.one_of(
    st.tuples(st.just(types.TFLOAT), TFLOATS, FLOATS),
    st.tuples(st.just(types.TINT), TINTS, INTS),
    st.tuples(st.just(types.TBOOL), TBOOLS, st.booleans()),
    st.tuples(st.just(types.TTEXT), TTEXTS, st.sampled_from(["a", "b", "c"])),
)
SOME = settings(max_examples=40)


def column(row, kind=types.TFLOAT):
    return pa.array([row], kind.arrow)


def call(name, row, *arguments, kind=types.TFLOAT):
    """An operator on a value over time, and other values; the row of its result."""
    arrays = [a if isinstance(a, pa.Array) else pa.array([a]) for a in arguments]
    return OPERATORS[name](column(row, kind), *arrays)[0].as_py()


def valid(row, kind):
    """A result that operators accept."""
    OPERATORS["isempty"](column(row, kind))
    return row


@SOME
@given(ANY, st.lists(st.tuples(st.integers(0, 40), st.integers(0, 10)), max_size=3))
def test_periods_divide_a_value_without_a_loss(case, spans):
    kind, row, _ = case
    intervals, last = [], -1
    for begin, size in sorted(spans):
        if begin > last:
            intervals.append((begin * SECOND // 2, (begin + size) * SECOND // 2))
            last = begin + size
    during = valid(call(f"atperiods_{kind.name}", row, periods(*intervals), kind=kind), kind)
    outside = valid(call(f"minusperiods_{kind.name}", row, periods(*intervals), kind=kind), kind)
    edges = [t + d for span in intervals for t in span for d in (-1, 0, 1)]
    instants = [*near_instants(row), *edges, 0]
    whole = pa.array([row] * len(instants), kind.arrow)
    values = OPERATORS[f"atinstant_{kind.name}"](whole, pa.array(instants).view(types.INSTANT)).to_pylist()
    for t, value in zip(instants, values, strict=True):
        expected = value_over_time(row, t)
        assert_equal(value, expected)
        inside = any(b <= t <= e for b, e in intervals)
        assert_equal(value_over_time(during, t), expected if inside else None)
        assert_equal(value_over_time(outside, t), None if inside else expected)


def assert_equal(got, expected):
    if isinstance(expected, Fr) or isinstance(got, Fr):
        assert got is not None
        assert expected is not None
        assert float(got) == pytest.approx(float(expected), abs=1e-9)
    else:
        assert got == expected


@SOME
@given(ANY)
def test_at_and_minus_a_value_divide_it(case):
    kind, row, value = case
    there = valid(call(f"at_{kind.name}", row, value, kind=kind), kind)
    elsewhere = valid(call(f"minus_{kind.name}", row, value, kind=kind), kind)
    for t in near_instants(row, there):
        expected = value_over_time(row, t)
        hit = value_over_time(there, t)
        assert (hit is None) != (value_over_time(elsewhere, t) is None) or expected is None
        if expected == value:
            assert hit is not None
        elif hit is not None:  # a number that passes the value between two microseconds
            assert abs(float(hit) - value) < 1e-4
            assert row["interpolation"] == "linear"


COMPARISONS = {"teq": op.eq, "tne": op.ne, "tlt": op.lt, "tle": op.le, "tgt": op.gt, "tge": op.ge}


@SOME
@given(ANY, st.sampled_from(sorted(COMPARISONS)))
def test_comparisons_hold_at_exactly_the_right_microseconds(case, name):
    kind, row, value = case
    truth = valid(call(name, row, value, kind=kind), types.TBOOL)
    when = call("when_true", truth, kind=types.TBOOL)
    spans = [(microsecond(b), microsecond(e)) for b, e in zip(when["begin"], when["end"], strict=True)]
    for t in near_instants(row, truth):
        expected, got = value_over_time(row, t), value_over_time(truth, t)
        assert (expected is None) == (got is None)
        if expected is None:
            continue
        assert got == any(b <= t <= e for b, e in spans)
        on_the_way = row["interpolation"] == "linear" and name in ("teq", "tne")
        if not on_the_way or expected == value or abs(float(expected) - value) > 1e-4:
            assert got == COMPARISONS[name](expected, value), t
    truths = [value_over_time(truth, t) for t in near_instants(row, truth)]
    assert call("sometimes", truth, kind=types.TBOOL) == (True in truths)
    assert call("always", truth, kind=types.TBOOL) == ((False not in truths) if row["t"] else None)


@SOME
@given(TFLOATS, TFLOATS, st.sampled_from(["tadd", "tsub", "tlt", "tge"]))
def test_two_numbers_over_time_meet_at_all_of_their_instants(a, b, name):
    mixed = {a["interpolation"], b["interpolation"]} == {"linear", "step"}
    if mixed and a["t"] and b["t"]:
        with pytest.raises(BadArgument, match="no common interpolation"):
            call(name, a, column(b))
        return
    got = valid(call(name, a, column(b)), types.TFLOAT if name in ("tadd", "tsub") else types.TBOOL)
    compute = {"tadd": op.add, "tsub": op.sub, "tlt": op.lt, "tge": op.ge}[name]
    for t in near_instants(a, b):
        one, other = value_over_time(a, t), value_over_time(b, t)
        expected = None if one is None or other is None else compute(one, other)
        if isinstance(expected, bool) and abs(float(one - other)) < 1e-9 and one != other:
            continue
        twice = any([microsecond(u) for u in row["t"]].count(t) > 1 for row in (a, b))
        if not twice:
            assert_equal(value_over_time(got, t), expected)


@SOME
@given(TBOOLS, TBOOLS)
def test_truths_combine(a, b):
    both = call("tand", a, column(b, types.TBOOL), kind=types.TBOOL)
    one = call("tor", a, column(b, types.TBOOL), kind=types.TBOOL)
    no = call("tnot", a, kind=types.TBOOL)
    for t in near_instants(a, b):
        x, y = value_over_time(a, t), value_over_time(b, t)
        if any([microsecond(u) for u in row["t"]].count(t) > 1 for row in (a, b)):
            continue
        assert value_over_time(both, t) == (None if None in (x, y) else x and y)
        assert value_over_time(one, t) == (None if None in (x, y) else x or y)
        assert value_over_time(no, t) == (None if x is None else not x)


@SOME
@given(st.one_of(st.tuples(st.just(types.TFLOAT), TFLOATS), st.tuples(st.just(types.TINT), TINTS)), INTS)
def test_averages_and_extremes_are_exact(case, number):
    kind, row = case
    area, seconds = Fr(0), Fr(0)
    for sequence in sequences_of(row) if row["interpolation"] != "discrete" else []:
        for (t0, v0), (t1, v1) in pairwise(sequence):
            mean = (Fr(v0) + Fr(v1)) / 2 if row["interpolation"] == "linear" else Fr(v0)
            area, seconds = area + mean * (t1 - t0) / SECOND, seconds + Fr(t1 - t0, SECOND)
    assert call("integral", row, kind=kind) == pytest.approx(float(area))
    average = call("twavg", row, kind=kind)
    values = row["value"]
    if not values:
        assert average is None
        assert call("min_value", row, kind=kind) is None
        assert call("max_instant", row, kind=kind) is None
        return
    expected = area / seconds if seconds else Fr(sum(values)) / len(values)
    assert average == pytest.approx(float(expected), abs=1e-9)
    assert call("min_value", row, kind=kind) == min(values)
    assert call("max_value", row, kind=kind) == max(values)
    assert call("min_instant", row, kind=kind) == row["t"][values.index(min(values))]
    assert call("max_instant", row, kind=kind) == row["t"][values.index(max(values))]
    assert call("tmul", row, float(number), kind=kind)["value"] == [v * number for v in values]
    assert call("tadd", row, float(number), kind=kind)["value"] == [v + number for v in values]
    if number:
        assert call("tdiv", row, float(number), kind=kind)["value"] == pytest.approx([v / number for v in values])


@SOME
@given(TFLOATS, FLOATS, FLOATS)
def test_between_is_where_both_limits_hold(row, low, high):
    there = valid(call("at_between", row, low, high), types.TFLOAT)
    elsewhere = valid(call("minus_between", row, low, high), types.TFLOAT)
    for t in near_instants(row, there):
        value = value_over_time(row, t)
        if value is not None and min(abs(float(value) - low), abs(float(value) - high)) < 1e-4 and low >= high:
            continue  # one value, or none: passed between two microseconds
        inside = value is not None and low <= value <= high
        assert_equal(value_over_time(there, t), value if inside else None)
        assert_equal(value_over_time(elsewhere, t), None if inside else value)


@SOME
@given(over_time(FLOATS, ("linear",)))
def test_a_derivative_integrates_to_the_difference(row):
    slope = call("derivative", row)
    expected = sum(s[-1][1] - s[0][1] for s in sequences_of(row))
    assert call("integral", slope) == pytest.approx(expected, abs=1e-9)
    assert call("duration", slope) == pytest.approx(call("duration", row))


def test_values_convert_where_they_can():
    row = {"t": [instant(0), instant(SECOND)], "value": [1.5, -2.5], "starts": [0], "interpolation": "step"}
    assert call("to_tint", row)["value"] == [1, -2]
    assert call("to_ttext", row)["value"] == ["1.5", "-2.5"]
    truth = row | {"value": [True, False]}
    assert call("to_tfloat", truth, kind=types.TBOOL)["value"] == [1.0, 0.0]
    assert call("to_tint", truth, kind=types.TBOOL)["value"] == [1, 0]
    with pytest.raises(BadArgument, match="row 1 is linear"):
        call("to_tint", row | {"interpolation": "linear"})


BROKEN = [
    ({"interpolation": "cubic"}, "its interpolation is not linear, step or discrete"),
    ({"interpolation": None}, "its interpolation is not"),
    ({"value": [1.0]}, "different lengths"),
    ({"value": [1.0, None]}, "vertex 2: null"),
    ({"value": [1.0, float("nan")]}, "not a finite number"),
    ({"t": [instant(5), instant(5)]}, "same instant twice"),
    ({"t": [instant(5), instant(1)]}, "instant before"),
    ({"starts": [1]}, "starts does not begin"),
]


@pytest.mark.parametrize(("change", "words"), BROKEN)
def test_broken_values_over_time_are_refused_with_their_row(change, words):
    row = {"t": [instant(0), instant(9)], "value": [1.0, 2.0], "starts": [0], "interpolation": "step"}
    for name in ("twavg", "min_value", "deftime", "isempty"):
        with pytest.raises(BadInput, match=words) as refused:
            OPERATORS[name](pa.array([row, row | change], types.TFLOAT.arrow))
        assert "row 2 of 2" in refused.value.message


def test_truths_and_text_are_no_lines():
    row = {"t": [instant(0)], "value": [True], "starts": [0], "interpolation": "linear"}
    with pytest.raises(BadInput, match=r"only numbers with a fraction \(tfloat\) can be linear"):
        call("always", row, kind=types.TBOOL)


def test_an_operator_of_a_type_refuses_another():
    row = {"t": [instant(0)], "value": [1], "starts": [0], "interpolation": "step"}
    for name in ("at_tfloat", "at_ttext", "minus_tbool"):
        with pytest.raises(BadArgument, match=rf"{name}.*no such operator"):
            call(name, row, 1.0, kind=types.TINT)
    with pytest.raises(BadArgument, match=r"at_tint.*no such operator"):
        OPERATORS["at_tint"](periods((0, 1)), pa.array([1]))
    for name in ("tlt", "tne", "tadd", "at_tfloat", "tmul"):
        with pytest.raises(BadArgument, match=r"row 1 of 1|is nan in row 1"):
            call(name, row | {"value": [1.0]}, float("nan"))
    with pytest.raises(BadArgument, match="tmul: factor is not a number"):
        call("tmul", row, "2", kind=types.TINT)


def test_what_does_not_fit_is_refused():
    row = {"t": [instant(0)], "value": [1.0], "starts": [0], "interpolation": "step"}
    text = row | {"value": ["a"]}
    for name, given_, kind in (("tlt", "a", types.TFLOAT), ("teq", True, types.TFLOAT), ("teq", 1.0, types.TTEXT)):
        with pytest.raises(BadArgument, match="another type"):
            call(name, text if kind is types.TTEXT else row, given_, kind=kind)
    with pytest.raises(BadArgument, match="tdiv: divisor is 0 in row 1 of 1"):
        call("tdiv", row, 0.0)
    for name in ("twavg", "min_value", "tnot"):
        with pytest.raises(BadArgument):
            call(name, text, kind=types.TTEXT)
    assert call("tdiv", row, pa.array([None], pa.float64())) is None
    with pytest.raises(BadArgument, match=r"tlt\("):
        call("tlt", {"begin": [], "end": []}, 1.0, kind=types.PERIODS)


@given(st.lists(TFLOATS, min_size=2, max_size=4), st.data())
@settings(max_examples=30)
def test_slices_of_columns_are_read_alike(rows, data):
    skip = data.draw(st.integers(1, len(rows) - 1))
    whole = pa.array(rows, types.TFLOAT.arrow)
    limit = pa.array([1.0] * len(rows))
    for name, more in (("twavg", []), ("tlt", [limit]), ("tadd", [limit]), ("tadd", [whole]), ("max_value", [])):
        if more == [whole]:
            assert OPERATORS["tsub"](whole.slice(skip), whole.slice(skip)).equals(
                OPERATORS["tsub"](whole, whole).slice(skip)
            )
        else:
            got = OPERATORS[name](whole.slice(skip), *(one.slice(skip) for one in more))
            assert got.to_pylist() == OPERATORS[name](whole, *more).to_pylist()[skip:]
