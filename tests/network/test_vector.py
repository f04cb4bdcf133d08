"""Expressions over columns against Spark itself: the same values, nulls and failures."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from slipstream._errors import BadInput
from slipstream._network import ScalarFunction, register
from slipstream._network.boxes.windows.window_functions import NULL_INTEGER
from slipstream._network.sql.sql_values import Untranslatable
from slipstream._network.sql.vector import translate

SCHEMA = {"a": "integer", "b": "integer", "x": "float", "y": "float", "p": "boolean", "q": "boolean", "s": "text"}
ROWS: list[tuple[Any, ...]] = [
    (3, 7, 2.5, -1.0, True, False, "abc"),
    (None, 4, None, 1e9, None, True, None),
    (-61, None, 0.1, None, False, None, ""),
    (120, 60, 1e18, 3.25, True, True, "B 17"),
    (5, -2, -0.75, 0.5, False, True, "b"),
]
#: how null is encoded, by its text: a double may be as large as the integer
MISSING = ("None", "nan", str(NULL_INTEGER))
#: rows in which something overflows or is divided by zero
EDGES: list[tuple[Any, ...]] = [
    (0, 0, 0.0, -0.0, True, False, "x"),
    (2**62, 2**62, 1e300, 1e-300, False, False, "zz"),
    (-(2**63) + 9, -1, -1e300, 2.0, True, None, "a"),
]


def encoded(rows: list[tuple[Any, ...]]) -> dict[str, np.ndarray[Any, Any]]:
    columns = {}
    for place, (name, type_) in enumerate(SCHEMA.items()):
        values = [row[place] for row in rows]
        if type_ == "text":
            columns[name] = np.array(values, dtype=object)
        elif type_ == "float":
            columns[name] = np.array([math.nan if v is None else v for v in values])
        else:
            columns[name] = np.array([NULL_INTEGER if v is None else int(v) for v in values], dtype=np.int64)
    return columns


def ours(text: str, rows: list[tuple[Any, ...]]) -> list[Any] | None:
    """The values for each row, None when computing them failed."""
    made = translate(text, SCHEMA)
    try:
        found = made.over(encoded(rows), len(rows)).tolist()
    except BadInput:
        return None
    values = [None if str(v) in MISSING else v for v in found]
    return [bool(v) if made.type == "boolean" and v is not None else v for v in values]


def sparks(frame: DataFrame, text: str) -> list[Any] | None:
    try:
        found = [row[0] for row in frame.selectExpr(f"({text}) as v").collect()]
    except PySparkException:
        return None
    return [None if isinstance(v, float) and math.isnan(v) else v for v in found]


def agree(found: list[Any] | None, wanted: list[Any] | None) -> bool:
    """The same values, doubles but for their last bits; a failure that Spark's optimiser did not look at may be one."""
    if found is None or wanted is None:
        return found is None
    return all(
        math.isclose(a, b, rel_tol=1e-12) if isinstance(a, float) and isinstance(b, float) else a == b
        for a, b in zip(found, wanted, strict=True)
    )


@pytest.fixture(scope="module")
def frames(spark: SparkSession) -> list[tuple[list[tuple[Any, ...]], DataFrame]]:
    types = {"integer": "bigint", "float": "double", "boolean": "boolean", "text": "string"}
    ddl = ", ".join(f"{name} {types[type_]}" for name, type_ in SCHEMA.items())
    return [(rows, spark.createDataFrame(rows, ddl)) for rows in (ROWS, *([edge] for edge in EDGES))]


def numbers() -> st.SearchStrategy[str]:
    leaves = st.sampled_from(["a", "b", "x", "y", "0", "1", "60", "2.5", "0.1", "1e3", "3000000000", "null", "-7"])

    def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        tests = truths(inner, 1)
        return st.one_of(
            st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "*", "/", "div", "%"]), inner),
            st.builds("{}({})".format, st.sampled_from(["abs", "floor", "ceil", "sqrt", "-", "sign", "ln"]), inner),
            st.builds(
                "{}({}, {})".format, st.sampled_from(["greatest", "least", "coalesce", "nullif", "pmod"]), inner, inner
            ),
            st.builds("try_divide({}, {})".format, inner, inner),
            st.builds("if({}, {}, {})".format, tests, inner, inner),
            st.builds("case when {} then {} when {} then {} end".format, tests, inner, tests, inner),
            st.builds("cast({} as {})".format, inner, st.sampled_from(["bigint", "int", "double"])),
            st.builds("cast({} as bigint)".format, tests),
            st.builds("length({})".format, texts()),
        )

    return st.recursive(leaves, larger, max_leaves=5)


def texts() -> st.SearchStrategy[str]:
    return st.one_of(
        st.sampled_from(["s", "'abc'", "''", "null"]),
        st.just("s || 'b'"),
        st.just("concat(s, s)"),
        st.builds("{}(s)".format, st.sampled_from(["upper", "lower", "trim", "ltrim", "rtrim"])),
        st.builds("substring(s, {})".format, st.integers(-4, 4)),
        st.builds("substring(s, {}, {})".format, st.integers(-4, 4), st.integers(-1, 4)),
        st.just("cast(a as string)"),
    )


def truths(inner: st.SearchStrategy[str], depth: int) -> st.SearchStrategy[str]:
    comparison = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"])
    simple = st.one_of(
        st.sampled_from(["p", "q", "true", "null"]),
        st.builds("({} {} {})".format, inner, comparison, inner),
        st.builds("({} {} {})".format, texts(), comparison, texts()),
        st.builds("({} between {} and {})".format, inner, inner, inner),
        st.builds("({} in ({}, {}))".format, inner, inner, inner),
        st.builds("({} is {}null)".format, inner, st.sampled_from(["", "not "])),
    )
    if not depth:
        return simple
    smaller = truths(inner, depth - 1)
    return st.one_of(
        simple,
        st.builds("({} {} {})".format, smaller, st.sampled_from(["and", "or"]), smaller),
        st.builds("(not {})".format, smaller),
        st.builds("({} is {})".format, smaller, st.sampled_from(["true", "false", "not true"])),
    )


@settings(max_examples=60)
@given(text=st.one_of(numbers(), truths(numbers(), 2)))
def test_columns_say_what_spark_says(frames: list[tuple[list[tuple[Any, ...]], DataFrame]], text: str) -> None:
    try:
        translate(text, SCHEMA)
    except (Untranslatable, BadInput):
        return
    for rows, frame in frames:
        found, wanted = ours(text, rows), sparks(frame, text)
        assert agree(found, wanted), (text, found, wanted)


@pytest.mark.parametrize(
    "text",
    [
        "time - before > 30",
        "cast(floor(a / 60) as bigint) + 1",
        "if(a is null and b < 40 and a > 50, 2 * (b - 50) * (b - 50), 0)",
        "case a when 3 then 'three' when 5 then 'five' end",
        "a > 2.5 and x * 1.609 < 100",
        "sin(radians(x)) + cos(y) + atan2(x, y) + pow(x, 2)",
    ],
)
def test_what_networks_are_made_of_is_translated(
    frames: list[tuple[list[tuple[Any, ...]], DataFrame]], text: str
) -> None:
    text = text.replace("time", "a").replace("before", "b")
    rows, frame = frames[0]
    found, wanted = ours(text, rows), sparks(frame, text)
    assert agree(found, wanted), (found, wanted)


@pytest.mark.parametrize("text", ["soundex(s)", "round(x, 1)", "a / 2.5", "md5(s)", "cast(s as bigint)", "a & 1"])
def test_what_only_spark_can_do_is_left_to_it(text: str) -> None:
    with pytest.raises(Untranslatable):
        translate(text, SCHEMA)


def test_a_branch_not_taken_does_not_fail() -> None:
    rows = [EDGES[0]]
    assert ours("if(b = 0, 0, a div b)", rows) == [0]
    assert ours("b = 0 or a div b > 1", rows) == [True]
    assert ours("a div b", rows) is None


def test_a_function_of_ones_own_gets_arrays() -> None:
    register(ScalarFunction("half_of", lambda values: values / 2, "float"))
    assert ours("half_of(b)", ROWS) == [3.5, 2.0, None, 30.0, -1.0]
