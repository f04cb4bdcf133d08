"""Streamonas-SQL against plain Python over dictionaries of lists, and what it says about mistakes."""

from __future__ import annotations

import math
import pickle
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuboid.plain import members, pearson
from slipstream._cuboid import declare
from slipstream._cuboid.fragment import Fragment
from slipstream._cuboid.query import stream_functions
from slipstream._cuboid.query.access import Ring
from slipstream._cuboid.query.relations import ArrivedTuples, Rows, append_rows
from slipstream._cuboid.query.sql import Query
from slipstream._cuboid.query.stream_functions import Pattern, atomic, correlation
from slipstream._errors import BadArgument

SCRIPT = declare.parse(
    "CREATE CUBOID car (vid INT KEY, speed UTINYINT AST(5), heat FLOAT AST(3), lane TINYINT, pos INT);"
    "CREATE PATTERN w AS (9, 3, 9); CREATE PATTERN up AS (1, 2, 3, 4)"
)
CAR = SCRIPT.cuboids["car"]

tuples = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 255), st.integers(-50, 50), st.integers(-3, 3), st.integers(0, 10**6)),
    min_size=1,
    max_size=60,
)


class Car:
    """A key as plain Python holds it; streams have the latest element first."""

    def __init__(self, vid: int) -> None:
        self.vid, self.speed, self.heat, self.lane, self.pos, self.ticks = vid, [], [], 0, 0, 0  # type: ignore[var-annotated]

    def take(self, speed: int, heat: int, lane: int, pos: int) -> None:
        self.speed, self.heat = [speed, *self.speed][:5], [float(heat), *self.heat][:3]
        self.lane, self.pos, self.ticks = lane, pos, self.ticks + 1

    def back(self, k: int) -> float | None:
        return self.speed[k] if k < len(self.speed) else None

    def r(self, pattern: tuple[float, ...]) -> float | None:
        n = len(pattern)
        return pearson(self.speed[:n][::-1], pattern) if len(self.speed) >= n else None

    def slope(self) -> float | None:
        n = len(self.speed)
        return float(np.polyfit(range(n), self.speed[::-1], 1)[0]) if n > 1 else None


def less(a: float | None, b: float | None) -> bool | None:
    return None if a is None or b is None else a < b


def mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def diff(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b


Row = tuple[Any, ...]
#: a query, and the same over plain cars
ROW_QUERIES: list[tuple[str, Callable[[Car], bool | None], Callable[[Car], Row]]] = [
    (
        "SELECT vid, speed[0], pos FROM car WHERE speed[0] < 100",
        lambda c: c.speed[0] < 100,
        lambda c: (c.vid, c.speed[0], c.pos),
    ),
    (
        "SELECT vid, speed[-3] FROM car WHERE NOT speed[-2] < 90",
        lambda c: None if (x := less(c.back(2), 90)) is None else not x,
        lambda c: (c.vid, c.back(3)),
    ),
    (
        "SELECT vid FROM car WHERE speed[-2] < 90 OR lane = 1",
        lambda c: bool(less(c.back(2), 90)) or c.lane == 1,
        lambda c: (c.vid,),
    ),
    (
        "SELECT vid, avg(speed), min(speed), max(speed), count(speed), ticks(speed), last(heat) FROM car",
        lambda c: True,
        lambda c: (c.vid, mean(c.speed), min(c.speed), max(c.speed), len(c.speed), c.ticks, c.heat[0]),
    ),
    (
        "SELECT vid, slope(speed), delta(speed), delta(heat, 2) FROM car",
        lambda c: True,
        lambda c: (c.vid, c.slope(), diff(c.back(0), c.back(1)), c.heat[0] - c.heat[2] if len(c.heat) > 2 else None),
    ),
    (
        "SELECT key, correlation(speed, w) FROM car WHERE correlation(speed, up) > 0.5",
        lambda c: (r := c.r((1, 2, 3, 4))) is not None and r > 0.5,
        lambda c: (c.vid, c.r((9, 3, 9))),
    ),
    (
        "SELECT vid, pos / lane, pos % 7, -(pos - 2) * 3 FROM car WHERE lane IN (0, 1, 2) AND pos BETWEEN 9 AND 90000",
        lambda c: c.lane in (0, 1, 2) and 9 <= c.pos <= 90000,
        lambda c: (c.vid, c.pos / c.lane if c.lane else None, c.pos % 7, -(c.pos - 2) * 3),
    ),
    (
        "SELECT car.vid FROM car WHERE speed[-4] IS NULL AND heat[-1] IS NOT NULL",
        lambda c: c.back(4) is None and len(c.heat) > 1,
        lambda c: (c.vid,),
    ),
]


def fragments(rows: list[tuple[int, ...]], parts: int) -> tuple[list[Fragment], dict[int, Car]]:
    made, plain = [Fragment(CAR) for _ in range(parts)], dict[int, Car]()
    for row in rows:
        plain.setdefault(row[0], Car(row[0])).take(*row[1:])
    table = np.array(rows)
    for number, fragment in enumerate(made):
        arrive(fragment, table[table[:, 0] % parts == number])
    return made, plain


def arrive(fragment: Fragment, table: Any) -> ArrivedTuples:
    columns = {name: table[:, place].astype(CAR.dtype[name].base) for place, name in enumerate(CAR.names, 1)}
    shown = append_rows(fragment, table[:, 0].astype(np.int64), columns, show=True)
    assert shown is not None
    return shown


def as_rows(found: dict[str, Any]) -> list[Row]:
    columns = (column.tolist() for column in found.values())
    return [tuple(None if math.isnan(v) else v for v in row) for row in zip(*columns, strict=True)]


def same(found: list[Row], expected: list[Row]) -> bool:
    pairs = zip(sorted(found, key=str), sorted(expected, key=str), strict=True)
    return len(found) == len(expected) and all(
        (a is None) == (b is None) and (a is None or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9))
        for x, y in pairs
        for a, b in zip(x, y, strict=True)
    )


@given(tuples, st.integers(1, 3), st.sampled_from(ROW_QUERIES))
@settings(max_examples=60)
def test_questions_over_keys(
    rows: list[tuple[int, ...]], parts: int, asked: tuple[str, Callable[[Car], bool | None], Callable[[Car], Row]]
) -> None:
    text, where, select = asked
    made, plain = fragments(rows, parts)
    query = Query.parse(text, {"car": CAR}, SCRIPT.patterns)
    found = as_rows(query.merge([query.compute_part(Rows.of(fragment)) for fragment in made]))
    # sorted by key first: no two rows of a question have the same one
    assert same(sorted(found), sorted(select(car) for car in plain.values() if where(car)))


@given(tuples, st.sampled_from(ROW_QUERIES), st.lists(st.integers(1, 59), max_size=3))
@settings(max_examples=40)
def test_continuous_queries_see_every_arrival_however_batches_are_cut(
    rows: list[tuple[int, ...]],
    asked: tuple[str, Callable[[Car], bool | None], Callable[[Car], Row]],
    cuts: list[int],
) -> None:
    text, where, select = asked
    plain, expected = dict[int, Car](), list[Row]()
    for row in rows:
        car = plain.setdefault(row[0], Car(row[0]))
        car.take(*row[1:])
        if where(car):
            expected.append(select(car))
    query = pickle.loads(pickle.dumps(Query.parse(text, {"car": CAR}, SCRIPT.patterns)))
    fragment, found = Fragment(CAR), list[Row]()
    for batch in np.split(np.array(rows), sorted(cuts)):
        if len(batch):
            found += as_rows(query.compute(arrive(fragment, batch)))
    assert len(found) == len(expected)
    assert all(same([a], [b]) for a, b in zip(found, expected, strict=True)), "in the order of arrival"


@given(tuples, st.integers(1, 3))
@settings(max_examples=40)
def test_aggregates_are_merged_from_fragments(rows: list[tuple[int, ...]], parts: int) -> None:
    made, plain = fragments(rows, parts)

    def ask(text: str) -> list[Row]:
        query = Query.parse(text, {"car": CAR}, SCRIPT.patterns)
        return as_rows(query.merge([query.compute_part(Rows.of(fragment)) for fragment in made]))

    cars = list(plain.values())
    fast = [car for car in cars if car.speed[0] > 128]
    assert same(
        ask("SELECT count(*), count(speed[-3]), sum(pos), avg(avg(speed)), min(pos), max(max(speed)) FROM car"),
        [
            (
                len(cars),
                sum(car.back(3) is not None for car in cars),
                sum(car.pos for car in cars),
                mean([sum(car.speed) / len(car.speed) for car in cars]),
                min(car.pos for car in cars),
                max(max(car.speed) for car in cars),
            )
        ],
    )
    assert same(
        ask("SELECT count(*), avg(pos) + 1 FROM car WHERE speed[0] > 128"),
        [(len(fast), None if not fast else sum(car.pos for car in fast) / len(fast) + 1)],
    )
    groups: dict[int, list[Car]] = {}
    for car in cars:
        groups.setdefault(car.lane, []).append(car)
    expected = [(lane, len(group), sum(c.pos for c in group)) for lane, group in groups.items() if len(group) > 1]
    assert ask(
        "SELECT lane, count(*) AS n, sum(pos) FROM car GROUP BY lane HAVING count(*) > 1 ORDER BY n DESC, lane"
    ) == sorted(expected, key=lambda row: (-row[1], row[0]))
    two = {(car.lane, car.back(1)): 0 for car in cars}
    assert len(ask("SELECT lane, speed[-1], count(*) FROM car GROUP BY 1, 2")) == len(two)
    ordered = ask("SELECT vid, pos FROM car ORDER BY pos DESC, vid LIMIT 3")
    assert ordered == sorted(((car.vid, car.pos) for car in cars), key=lambda row: (-row[1], row[0]))[:3]


def test_no_rows_is_an_answer() -> None:
    query = Query.parse("SELECT count(*), max(pos) FROM car WHERE pos > 1", {"car": CAR})
    assert as_rows(query.compute(Rows.of(Fragment(CAR)))) == [(0, None)]
    assert (
        as_rows(
            Query.parse("SELECT lane, count(*) FROM car GROUP BY lane", {"car": CAR}).compute(Rows.of(Fragment(CAR)))
        )
        == []
    )


MISTAKES = [
    ("SELECT sped FROM car", "sped", "no attribute 'sped' in CAR; it has vid, speed, heat, lane, pos; patterns: w, up"),
    ("SELECT vid FROM bus", "bus", "no cuboid 'bus'; there are car"),
    ("SELECT vid FROM car WHERE speed > 3", "speed", "write \\[0\\] for its latest element"),
    ("SELECT speed[1] FROM car", "speed\\[1", "in the future"),
    ("SELECT speed[-5] FROM car", "speed\\[-5", "keeps 5 elements; the oldest is \\[-4\\]"),
    ("SELECT lane[0] FROM car", "lane", "only an atomic stream has elements"),
    ("SELECT slop(speed) FROM car", "slop\\(speed", "no function 'slop'; did you mean 'slope'\\? there are avg"),
    ("SELECT vid FROM car\nWHERE correlation(speed, v) > 1", "v\\) ", "line 2, column 26: no attribute 'v'"),
    ("SELECT vid FROM car WHERE correlation(heat, up) > 1", "correlation", "pattern up has 4 elements, heat keeps 3"),
    ("SELECT vid FROM car WHERE correlation(speed) > 1", "correlation", "takes 2 arguments"),
    ("SELECT vid, count(*) FROM car", "vid", "neither grouped by nor in an aggregate"),
    ("SELECT vid FROM car WHERE count(*) > 1", "count", "is not allowed here"),
    ("SELECT vid FROM car WHERE vid", "vid", "a number, a condition is needed"),
    ("SELECT vid FROM car WHERE vid = 'x'", "'x'", "CAR holds numbers, and its key is one"),
    ("SELECT w FROM car", "w", "cannot be selected"),
    ("SELECT a.vid FROM car a JOIN b ON true", "SELECT", "JOINS is not part"),
    ("SELECT DISTINCT vid FROM car", "SELECT", "DISTINCT is not part"),
    ("SELECT CASE WHEN vid = 1 THEN 2 END FROM car", "vid", "not part of Streamonas-SQL|no function"),
    ("SELECT vid FROM car WHERE", "WHERE", "missing"),
    ("CREATE CUBOID c (a INT)", "\\)", "no key; declare one"),
    ("CREATE CUBOID c (a INT KEY, b TEXT)", "TEXT", "only the key can be"),
    ("CREATE CUBOID c (a INT KEY, b AST(0))", "0", "1 to 10,000"),
    ("CREATE CUBOID c (a DOUBLE KEY)", "KEY", "must be an integer or text"),
    ("CREATE CUBOID c (a INT KEY, b)", "b", "has no type"),
    ("CREATE CUBOID c (a INT KEY", "KEY", "expected ,"),
    ("CREATE PATTERN p AS (1, x)", "x", "x is not a number"),
    ("CREATE PATTERN p AS (1)", "\\)", "two elements"),
    ("CREATE TABLE t (a INT)", "TABLE", "there are CUBOID, PATTERN, QUERY"),
    ("CREATE QUERY q AS", "AS", "the text ends where SELECT is expected"),
    ("DROP CUBOID c", "DROP", "begins with CREATE or SELECT"),
]


def read(text: str) -> None:
    for select in declare.parse(text).selects:
        Query.parse(select, {"car": CAR}, SCRIPT.patterns)


@pytest.mark.parametrize(("text", "place", "message"), MISTAKES, ids=[text for text, _, _ in MISTAKES])
def test_mistakes_are_shown_where_they_are(text: str, place: str, message: str) -> None:
    with pytest.raises(BadArgument, match=message) as told:
        read(text)
    line, marks = told.value.hint.splitlines()
    assert re.match(place, line[marks.index("^") :]), told.value


def test_people_add_functions() -> None:
    @atomic("spread")
    def spread(values: Any) -> Any:
        return np.nanmax(values, axis=1) - np.nanmin(values, axis=1)

    try:
        made, plain = fragments([(1, 5, 0, 0, 0), (1, 9, 0, 0, 0), (2, 4, 0, 0, 0)], 1)
        query = pickle.loads(pickle.dumps(Query.parse("SELECT vid, spread(speed) FROM car", {"car": CAR}).text))
        found = as_rows(Query.parse(query, {"car": CAR}).compute(Rows.of(made[0])))
        assert found == [(vid, max(car.speed) - min(car.speed)) for vid, car in plain.items()]
        with pytest.raises(BadArgument, match="a built-in function"):
            atomic("avg")
    finally:
        stream_functions._ADDED.pop("spread")


# --- correlation

numbers = st.floats(-1e6, 1e6).map(lambda x: round(x, 3))


@given(
    st.lists(st.lists(numbers, min_size=5, max_size=5), min_size=1, max_size=8),
    st.lists(numbers, min_size=5, max_size=5),
)
def test_correlation_is_numpys(windows: list[list[float]], pattern: list[float]) -> None:
    ring = Ring(np.array(windows), np.full(len(windows), 5, np.uint32))
    found = correlation(ring, Pattern("p", tuple(pattern)))
    for window, r in zip(windows, found.tolist(), strict=True):
        expected = pearson(window, pattern)
        if expected is None:
            assert math.isnan(r)
        elif min(np.ptp(window), np.ptp(pattern)) > 1e-3:
            assert abs(r - expected) < 1e-9


def test_correlation_does_not_drift_nor_lose_digits() -> None:
    """A million ticks on, and where values are large and alike: against exact fractions."""
    values = np.random.default_rng(5).integers(0, 1000, 1_000_000) / 8 + 1e9
    price = declare.parse("CREATE CUBOID s (id INT KEY, price AST(5))").cuboids["s"]
    fragment = Fragment(price)
    for part in np.split(values, 4):
        shown = append_rows(fragment, np.zeros(part.size, np.int64), {"price": part}, show=True)
        assert shown is not None
    pattern = (9.0, 3.0, 6.0, 3.0, 9.0)
    found = correlation(shown.rings["price"], Pattern("w", pattern))
    assert int(shown.rings["price"].counts[-1]) == 1_000_000
    for back in range(50):
        window = values[values.size - 5 - back : values.size - back]
        assert abs(found[-1 - back] - exact(window.tolist(), pattern)) < 1e-12
    near = list(members(((0, value) for value in values[-2000:].tolist()), pattern, 0.9))
    assert len(near) == int((found[-1996:] > 0.9).sum())


def exact(window: list[float], pattern: tuple[float, ...]) -> float:
    x, y = [Fraction(v) for v in window], [Fraction(v) for v in pattern]
    mx, my = sum(x) / len(x), sum(y) / len(y)
    xy = sum((a - mx) * (b - my) for a, b in zip(x, y, strict=True))
    return float(xy) / math.sqrt(sum((a - mx) ** 2 for a in x) * sum((b - my) ** 2 for b in y))


def test_a_constant_has_no_correlation() -> None:
    ring = Ring(np.array([[0.1] * 5, [1.0, 2, 3, 4, 5]]), np.array([5, 3], np.uint32))
    assert np.isnan(correlation(ring, Pattern("w", (9, 3, 6, 3, 9)))).all(), "constant, and too short a past"
    assert np.isnan(correlation(ring, Pattern("flat", (2, 2, 2)))).all()
