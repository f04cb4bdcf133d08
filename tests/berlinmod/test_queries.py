"""All queries on a small town: OBA equals TBA, and both equal brute force."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pytest

from berlinmod.naive import Car, Naive
from slipstream._berlinmod import draw, index, queries
from slipstream._berlinmod.dataset import Dataset
from slipstream._berlinmod.generator import GeneratorPlan, generate
from slipstream._berlinmod.layout import SAMPLES
from slipstream._errors import BadArgument
from slipstream._roads.building import build
from slipstream._roads.network import Street


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


def test_the_plan_prunes_days_and_tiles(spark, data):
    plan = queries.explain(spark, 14, "tba")
    assert "dynamicpruningexpression(day" in plan
    assert "dynamicpruningexpression(tile" in plan


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
