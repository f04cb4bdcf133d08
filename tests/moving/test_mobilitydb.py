"""The page that names MobilityDB's functions: what it names exists, can be planned, and agrees where both are run."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

import pytest

import slipstream as ss
import slipstream.functions as sf
from moving.oracle import moving
from moving.test_pymeos import meos
from slipstream._moving import register, types
from slipstream._moving.moving_point import instant

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
from reference import mobilitydb

FUNCTIONS = [one for subject in mobilitydb.SUBJECTS for one in subject.functions]
KINDS = {kind.name: kind.sql for kind in vars(types).values() if isinstance(kind, types.Type)} | {
    "timestamp": "timestamp"
}


def in_python(one):
    return one.ours.startswith(("ss.", "sf."))


def test_the_page_has_at_least_150_functions_each_once():
    names = [one.theirs for one in FUNCTIONS]
    assert len(names) == len(set(names))
    assert len(names) >= 150
    assert mobilitydb.page().startswith("# MobilityDB's functions")


def test_every_expression_can_be_planned(spark):
    register(spark)
    columns = ", ".join(f"{name} {KINDS[kind]}" for name, kind in mobilitydb.COLUMNS.items())
    spark.createDataFrame([], columns).createOrReplaceTempView("everything")
    expressions = [one.ours for one in FUNCTIONS if not in_python(one)]
    named = ", ".join(f"({expression}) AS a{k}" for k, expression in enumerate(expressions))
    assert len(spark.sql(f"SELECT {named} FROM everything").columns) == len(expressions)


def test_every_function_in_python_exists():
    found = [one.ours for one in FUNCTIONS if in_python(one)]
    assert found
    for name in found:
        assert callable(eval(name, {"ss": ss, "sf": sf}))


TRIP = moving([[(0, 0.0, 0.0), (10, 60.0, 0.0), (20, 60.0, 80.0)], [(30, 60.0, 80.0), (40, 0.0, 80.0)]])
OTHER = moving([[(5, 0.0, 10.0), (25, 100.0, 10.0), (35, 100.0, 90.0)]])
SECOND = timedelta(seconds=1)


def seconds(value):
    return sum((span.duration() for span in value.time().spans()), timedelta()).total_seconds() if value else 0.0


def sample():
    """Functions on the page, what PyMEOS answers, and how to compare our answer with it."""
    import pymeos
    import shapely

    trip, other = meos(TRIP), meos(OTHER)
    zone = shapely.Polygon([(50, -10), (70, -10), (70, 40), (50, 40)])
    half = pymeos.TsTzSpan(f"[{instant(5_000_000)}, {instant(15_000_000)}]")
    speed = trip.speed()
    return {
        "length": trip.length(),
        "duration": trip.duration(ignore_gaps=False).total_seconds(),
        "maxValue": speed.max_value(),
        "minValue": speed.min_value(),
        "twAvg": speed.time_weighted_average(),
        "integral": speed.integral() / 1e6,  # MEOS: microseconds
        "numInstants": trip.num_instants(),
        "numSequences": len(trip.sequences()),
        "nearestApproachDistance": trip.nearest_approach_distance(other),
        "hausdorffDistance": trip.hausdorff_distance(other),
        "frechetDistance": trip.frechet_distance(other),
        "dynamicTimeWarp": trip.dyntimewarp_distance(other),
        "eContains": trip.is_ever_contained_in(zone),
        "eIntersects": trip.ever_intersects(zone),
        "eDwithin": trip.is_ever_within_distance(other, 30.0),
        "travelled(atperiods(Trip, Early))": trip.at(half).length(),
        "travelled(at(Trip, Zone))": trip.at(zone).length(),
        "duration(minus(Trip, Zone))": seconds(trip.minus(zone)),
        "duration(minusperiods(Trip, Early))": seconds(trip.minus(half)),
        "duration(when_dwithin(Trip, Other, 30))": seconds(trip.within_distance(other, 30.0).at(True)),
        "duration(when_true(tgt(speed(Trip), 6)))": seconds(speed.temporal_greater(6.0).at(True)),
        "twcentroid(Trip).x": trip.time_weighted_centroid().x,
        "size(simplify(Trip, 50).t)": trip.simplify_douglas_peucker(50.0, False).num_instants(),
        "max_value(cumulative_length(Trip))": trip.cumulative_length().max_value(),
        "size(split_by_time(Trip, 15))": len(trip.time_split(15 * SECOND, instant(0))),
        "extent(Trip).ymax": trip.bounding_box().ymax(),
        "min_value(to_tfloat(distance(Trip, Other)))": trip.distance(other).min_value(),
    }


def test_a_sample_agrees_with_pymeos(spark):
    pymeos = pytest.importorskip("pymeos", reason="PyMEOS is not installed; `make setup` installs it")
    pymeos.pymeos_initialize(timezone="UTC")
    register(spark)
    ours = {one.theirs: one.ours for one in FUNCTIONS}
    ring = {"x": [50.0, 70.0, 70.0, 50.0], "y": [-10.0, -10.0, 40.0, 40.0], "starts": [0]}
    when = {"begin": [instant(5_000_000)], "end": [instant(15_000_000)]}
    kinds = ", ".join(f"{name} {KINDS[mobilitydb.COLUMNS[name]]}" for name in ("Trip", "Other", "Zone", "Early"))
    row = spark.createDataFrame([(TRIP.to_row(), OTHER.to_row(), ring, when)], kinds)
    expected = sample()
    found = row.selectExpr("*", "speed(Trip) AS Speed").selectExpr(*(ours.get(name, name) for name in expected))
    for (name, theirs), answer in zip(expected.items(), found.first(), strict=True):
        assert answer == pytest.approx(theirs, abs=1e-4), name
