"""Columns may have any name: spaces, dots, words of SQL and of Python, other scripts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import slipstream as ss
from slipstream import testing

ODD = [
    *("name", "self", "by", "on", "added", "columns", "select", "case", "from", "end", "true", "null", "left", "right"),
    *(
        "top speed",
        "a.b",
        "left.x",
        "a + b",
        "count(*)",
        "1",
        "0x1",
        "ts:ms",
        "größe",
        "速度",
        "скорость",
        "x'y",
        'x"y',
    ),
    *(" padded ", "a,b;c", "{}", "(km/h)", "=", "#", "%", "--", "/* */", "p_a", "g0", "key", "batch_", "trip", "_0"),
]
#: letters that are themselves in upper and lower case, or plain, so that SQL compares names of them as Python does
LETTERS = st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp"], exclude_characters="`\\").filter(
    lambda c: c.isascii() or not any(other.isascii() for other in c.upper() + c.lower())
)
NAMES = st.sampled_from(ODD) | st.text(LETTERS, min_size=1, max_size=12)


@st.composite
def three_names(draw: st.DrawFn) -> tuple[str, str, str]:
    names = draw(st.lists(NAMES, min_size=3, max_size=3, unique_by=lambda name: (name.lower(), name.upper())))
    assume(len({name.lower() for name in names} | {"c", "n", "total"}) == 6)
    assume(all("${" not in name for name in names))
    return tuple(names)


ROWS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), max_size=15)


@settings(max_examples=150, deadline=None)
@given(names=three_names(), values=ROWS)
def test_every_box_takes_columns_of_any_name(names: tuple[str, str, str], values: list[tuple[int, int]]) -> None:
    time, group, value = names
    schema = {time: "bigint", group: "bigint", value: "bigint"}
    rows = [{time: i, group: g, value: v} for i, (v, g) in enumerate(values)]
    cars = ss.read(testing.MemorySource(schema, rows, per_batch=4), name="cars")
    sums = cars.select({"c": f"`{value}` + `{group}`"})
    big = cars.filter(f"`{value}` > 4")
    counted = cars.window(time, 5, by=group).agg(n="count(*)", total=f"sum(`{value}`)")
    running = cars.running({f"{value}2": f"sum(`{value}`)"}, by=group)
    again = cars.latest(cars.select(group, {f"{value} again": f"`{value}`"}), by=group)
    pairs = cars.join(
        cars, f"left.`{group}` = right.`{group}` and left.`{value}` < right.`{value}`", within=2, time=time
    )
    kept = cars.with_columns({value: f"-`{value}`"}).sort(time, slack=1, by=group)
    job = ss.Job("out")
    for name, stream in {
        "sums": sums,
        "big": big,
        "counted": counted,
        "running": running,
        "again": again,
        "pairs": pairs,
        "kept": kept,
    }.items():
        job = job.write(stream, name=name)
    out = testing.MemoryHost(job).run()
    assert out["sums"] == [{"c": v + g} for v, g in values]
    assert out["big"] == [row for row in rows if row[value] > 4]
    closed = [row for row in rows if row[time] // 5 < (len(rows) - 1) // 5]
    expected = Counter[tuple[int, int]]()
    for row in closed:
        expected[row[group], row[time] // 5 * 5] += row[value]
    assert {(row[group], row[time]): row["total"] for row in out["counted"]} == dict(expected)
    totals = Counter[int]()
    for row, found in zip(rows, out["running"], strict=True):
        totals[row[group]] += row[value]
        assert found == {**row, f"{value}2": totals[row[group]]}
    assert out["again"] == [{**row, f"{value} again": row[value]} for row in rows]
    near = [(a, b) for a in rows for b in rows if abs(a[time] - b[time]) <= 2 and a[group] == b[group]]
    found_pairs = sorted((row[time], row[f"right_{time}"]) for row in out["pairs"])
    assert found_pairs == sorted((a[time], b[time]) for a, b in near if a[value] < b[value])
    assert all(row[value] <= 0 for row in out["kept"])


def test_a_table_takes_columns_of_any_name() -> None:
    limits = ss.table(pd.DataFrame({"the id": ["a"], "max. km/h": [80.0]}), name="limits")
    cars = ss.read(testing.MemorySource({"the id": "string", "km/h": "double"}, [{"the id": "a", "km/h": 90.0}]))
    fast = cars.join(limits, "left.`the id` = right.`the id` and left.`km/h` > right.`max. km/h`")
    found = testing.MemoryHost(ss.Job("out").write(fast, name="fast")).run()["fast"]
    assert found == [{"the id": "a", "km/h": 90.0, "right_the id": "a", "max. km/h": 80.0}]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"a`b": "bigint"}, "'a`b' is not a valid column name"),
        ({"a\nb": "bigint"}, "is not a valid column name"),
        ({"": "bigint"}, "'' is not a valid column name"),
        ({"a": "bigint", "A": "bigint"}, "'a' and 'A' are the same column in SQL"),
        ({"_ts": "bigint"}, "'_ts' is reserved"),
    ],
)
def test_a_name_that_sql_cannot_tell_from_others_is_refused(schema: dict[str, str], message: str) -> None:
    with pytest.raises(ss.BadInput) as error:
        ss.read("kafka://b:1/t", schema).select(one="1").network  # noqa: B018
    assert message in str(error.value)


def test_a_dot_means_nothing_outside_of_quotes() -> None:
    cars = ss.read("kafka://b:1/t", {"a.b": "bigint"})
    assert cars.filter("`a.b` > 3").columns == ["a.b"]
    with pytest.raises(ss.BadInput) as error:
        cars.filter("a.b > 3")
    assert "Write `a.b`" in error.value.hint


def test_in_spark_from_a_file_to_the_results(spark: SparkSession, tmp_path: Path) -> None:
    names = [name for name in ODD if name.lower() not in ("left",)]
    rows = [{name: number * i for number, name in enumerate(names)} for i in range(5)]
    pa.csv.write_csv(pa.Table.from_pylist(rows), tmp_path / "odd.csv")
    cars = ss.read(tmp_path / "odd.csv")
    assert cars.columns == names
    # an expression that only Spark computes, beside all columns
    odd = cars.with_columns({"the code": "soundex(cast(`top speed` as string))"}).filter("`a.b` >= 0")
    out = ss.Job(tmp_path / "out").write(odd, name="odd").run(spark, timeout=120)["odd"]
    expected = [{**row, "the code": str(row["top speed"])} for row in rows]
    assert out.to_pylist() == expected
    assert [row.asDict() for row in out.to_spark(spark).collect()] == expected
    assert out.columns == [*names, "the code"]
    frame = spark.createDataFrame(pd.DataFrame(rows))
    again = ss.Job(tmp_path / "again").write(ss.from_dataframe(frame).filter("`1` >= 0"), name="odd")
    found: list[dict[str, Any]] = again.run(spark, timeout=120)["odd"].to_pylist()
    assert sorted(found, key=lambda row: row["self"]) == rows
