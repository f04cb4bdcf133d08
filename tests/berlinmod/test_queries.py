"""All queries on a small town: OBA equals TBA, and both equal brute force."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berlinmod.naive import Car, Naive
from moving.oracle import moving_points
from slipstream._berlinmod import compound, draw, index, queries, resident
from slipstream._berlinmod.dataset import Dataset
from slipstream._berlinmod.generator import GeneratorPlan, generate
from slipstream._berlinmod.layout import SAMPLES
from slipstream._errors import BadArgument
from slipstream._moving import MovingPoint, types
from slipstream._moving.columns import Periods, write
from slipstream._moving.moving_point import to_arrow
from slipstream._moving.sql_functions import FUNCTIONS, ON_ARROW
from slipstream._roads.importing.graph_building import build
from slipstream._roads.street_network import Street

operators = {**{f.name: f for f in FUNCTIONS}, **{name: call for name, (_, call, _) in ON_ARROW.items()}}


def town():
    """A grid of 7 x 7 crossings, 400 m apart, with a main road and a freeway."""
    streets = []
    for k in range(7):
        limit = {3: 50.0, 6: 70.0}.get(k, 30.0)
        for i in range(6):
            a, b, c = 400.0 * i, 400.0 * (i + 1), 400.0 * k
            streets += [Street(limit, [(a, c, b, c)]), Street(limit, [(c, a, c, b)])]
    return build(streets)


@pytest.fixture(scope="module")
def data(spark, tmp_path_factory):
    out = tmp_path_factory.mktemp("town") / "data"
    generate(spark, GeneratorPlan(scale=0.0008, seed=8), town(), out)
    opened = Dataset.open(out)
    queries.prepare(spark, opened)
    return opened


@pytest.fixture(scope="module")
def naive(spark, data):
    cars = [Car(row) for row in data.table(spark, "dataScar").toArrow().to_pylist()]
    samples = {name: data.table(spark, name).toArrow().to_pylist() for name in SAMPLES}
    return Naive(cars, samples)


def plain(value):
    """A cell of an answer as a tuple of numbers and strings."""
    match value:
        case datetime():
            return (value.timestamp(),)
        case {"begin": begin, "end": end}:
            return (begin[0].timestamp(), end[0].timestamp())
        case {"x": float() as x, "y": float() as y}:
            return (x, y)
        case dict():
            return ()
        case _:
            return (value,)


def rows_of(spark, number, form):
    table = queries.query(spark, number, form).toArrow().to_pylist()
    rows = [tuple(v for cell in row.values() for v in plain(cell)) for row in table]
    assert len(rows) == len(set(rows)), "an answer is a set"
    return rows


def same(rows, expected, number):
    """Equal sets; numbers that were computed may differ in the last digits."""
    computed = {3: 2, 5: 1, 8: 1, 9: 1}.get(number, 0)

    def key(row):
        return row[: len(row) - computed]

    ours, theirs = {key(r): r for r in rows}, {key(r): r for r in expected}
    assert set(ours) == set(theirs)
    for name, row in ours.items():
        np.testing.assert_allclose(row[len(row) - computed :], theirs[name][len(row) - computed :], atol=1e-3)


@pytest.mark.parametrize("number", queries.NUMBERS)
def test_both_representations_answer_as_brute_force_does(spark, data, naive, number):
    expected = getattr(naive, f"q{number}")()
    for form in queries.REPRESENTATIONS:
        same(rows_of(spark, number, form), expected, number)
    if number not in (12, 16):
        assert expected, "an empty answer would prove nothing"


def test_meetings_are_the_same_movements_in_both_representations(spark, data):
    spark.sql(queries.query_text(10, "oba")).createOrReplaceTempView("meetings_oba")
    spark.sql(queries.query_text(10, "tba")).createOrReplaceTempView("meetings_tba")
    rows = [
        {
            (row["Licence"], row["OtherLicence"]): row
            for row in spark.sql(
                f"""SELECT Licence, OtherLicence, travelled(Pos) AS far, deftime(Pos) AS times,
                           initial(Pos) AS first, final(Pos) AS last FROM meetings_{form}"""
            )
            .toArrow()
            .to_pylist()
        }
        for form in queries.REPRESENTATIONS
    ]
    assert rows[0].keys() == rows[1].keys()
    for pair, one in rows[0].items():
        other = rows[1][pair]
        assert one["far"] == pytest.approx(other["far"], abs=1e-3)
        for end in ("first", "last"):
            assert abs((one[end]["t"] - other[end]["t"]).total_seconds()) < 1e-4
        span = [
            sum((e - b).total_seconds() for b, e in zip(t["begin"], t["end"], strict=True))
            for t in (one["times"], other["times"])
        ]
        assert span[0] == pytest.approx(span[1], abs=1e-3)


def test_small_data_are_in_memory(spark, data):
    plan = queries.explain(spark, 14, "tba")
    assert "In-memory table pieces" in plan
    assert "AdaptiveSparkPlan" not in plan


def test_data_that_do_not_fit_are_pruned_by_day_and_tile(spark, data, monkeypatch):
    numbers = (6, 9, 14, 16)
    expected = {number: sorted(rows_of(spark, number, "tba")) for number in numbers}
    monkeypatch.setattr(resident, "SHARE", 0.0)
    queries.prepare(spark, data)
    try:
        plan = queries.explain(spark, 14, "tba")
        assert "dynamicpruningexpression(day" in plan
        assert "dynamicpruningexpression(tile" in plan
        for number in numbers:
            same(rows_of(spark, number, "tba"), expected[number], number)
    finally:
        monkeypatch.undo()
        queries.prepare(spark, data)


def test_a_query_that_is_run_leaves_its_answer_as_parquet(spark, data, tmp_path):
    answer = queries.run(spark, 13, "tba", tmp_path)
    assert answer.rows == len(rows_of(spark, 13, "tba"))
    assert spark.read.parquet(str(tmp_path / "tba" / "q13")).count() == answer.rows
    assert spark.conf.get("spark.sql.adaptive.enabled") == "true"


def test_combinations_are_what_their_operators_are_together():
    rng = np.random.default_rng(3)
    points = [MovingPoint(np.arange(5) * 10**6, *rng.uniform(0, 9, (2, 5)), np.zeros(1, np.int32)) for _ in range(8)]
    trips, others = to_arrow(points), to_arrow(points[1:] + points[:1])
    rows = len(points)
    times = write(Periods(np.arange(rows + 1, dtype=np.int32), *np.full((2, rows), 10**6) * [[1], [3]]), types.PERIODS)
    region = operators["circle"](pa.array([{"x": 4.0, "y": 4.0}] * rows), pa.array([3.0] * rows), pa.array([8] * rows))
    metres = pa.array([4.0] * rows)
    cut = operators["atperiods"](trips, times)
    near = operators["at_most"](operators["distance"](trips, others), metres)
    met = operators["deftime"](operators["at_bool"](near, pa.array([True] * rows)))
    middle = write(np.full(rows, 2 * 10**6), types.INSTANT_TYPE)
    expected = {
        "passes_during": ((trips, times, region), operators["passes"](cut, region)),
        "at_during": ((trips, times, region), operators["at"](cut, region)),
        "inside_at": ((trips, middle, region), operators["inside"](operators["atinstant"](trips, middle), region)),
        "place_at": ((trips, middle), operators["atinstant"](trips, middle)),
        "travelled_during": ((trips, times), operators["travelled"](cut)),
        "ever_near": ((trips, others, metres), operators["sometimes"](near)),
        "while_near": ((trips, others, metres), operators["atperiods"](trips, met)),
    }
    assert {*expected, "travelled_each"} == set(compound.COMPOUNDS)
    for name, (arguments, result) in expected.items():
        assert compound.COMPOUNDS[name].compute(*arguments).equals(result), name


@given(st.lists(moving_points(), min_size=1, max_size=4), st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20))))
def test_distances_during_each_of_many_periods_are_those_of_the_cut_trips(points, spans):
    trips = to_arrow(points)
    spans = [{"begin": [b * 10**6], "end": [(b + size) * 10**6]} for b, size in spans]
    lists = pa.array([spans] * len(points), pa.list_(types.PERIODS.arrow))
    cut = operators["atperiods_each"](trips, lists)
    expected = operators["travelled_all"](cut).to_pylist()
    found = compound.COMPOUNDS["travelled_each"].compute(trips, lists).to_pylist()
    for one, other in zip(found, expected, strict=True):
        assert one == pytest.approx(other, abs=1e-9)


def test_a_trip_that_is_not_there_travelled_no_distance():
    trip = to_arrow([MovingPoint(np.array([0, 10]), np.zeros(2), np.zeros(2), np.zeros(1, np.int32))])
    times = write(Periods(np.array([0, 1], np.int32), np.array([20]), np.array([30])), types.PERIODS)
    assert compound.COMPOUNDS["travelled_during"].compute(trip, times).to_pylist() == [None]


def test_every_piece_is_found_in_its_cells(spark, data):
    index.create_views(spark, data)
    lost = spark.sql(
        """SELECT P.Piece FROM pieces P LEFT ANTI JOIN cells X
           ON X.Piece = P.Piece AND X.cx = cell(P.x0) AND X.cy = cell(P.y0) AND X.day = day_of(P.t1)"""
    )
    assert lost.count() == 0
    lengths = "SELECT sum(Metres) FROM pieces", "SELECT sum(travelled(Trip)) FROM dataScar"
    first, second = (spark.sql(sql).toArrow().column(0)[0].as_py() for sql in lengths)
    assert first == pytest.approx(second)


def test_queries_are_named_as_people_write_them():
    assert queries.parse_numbers("3,5-7") == [3, 5, 6, 7]
    for wrong in ("0", "18", "a", ""):
        with pytest.raises(BadArgument, match="1 to 17"):
            queries.parse_numbers(wrong)
    with pytest.raises(BadArgument, match="oba"):
        queries.parse_representations("xba")


@pytest.mark.parametrize("query", [None, 4, 10])
def test_a_picture_shows_network_question_and_answer(spark, data, query):
    figure = draw.picture(spark, data, query=query, trips=20)
    (axes,) = figure.axes
    assert axes.collections
    assert axes.get_title(loc="left").startswith(f"Q{query}:" if query else "57 vehicles")
    assert len(figure._repr_png_()) > 10_000  # what a notebook shows
