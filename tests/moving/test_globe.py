"""Back to the globe, and columns of different reference systems."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyproj
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F  # noqa: N812

import slipstream as ss
import slipstream.functions as sf
from moving.oracle import moving
from slipstream._errors import BadArgument
from slipstream._moving.moving_point import to_arrow
from slipstream._moving.space import globe

UTM = "EPSG:32633"
PARTS = st.lists(
    st.lists(st.tuples(st.floats(3e5, 7e5), st.floats(5e6, 6e6)), min_size=1, max_size=4), min_size=0, max_size=3
)


def _moving(parts: list[list[tuple[float, float]]]) -> ss.MovingPoint:
    clock = iter(range(1000))
    return moving([[(next(clock), x, y) for x, y in part] for part in parts])


@given(st.lists(PARTS, min_size=1, max_size=4))
def test_geodesic_lengths_are_sums_over_the_sequences_of_each_trip(rows):
    points = [_moving(parts) for parts in rows]
    column = to_arrow(points)
    found = globe.geodesic_length(column, pa.array([UTM] * len(points))).to_pylist()
    proj, ellipsoid = pyproj.Proj(32633), pyproj.Geod(ellps="WGS84")
    for parts, length in zip(rows, found, strict=True):
        lines = [[proj(x, y, inverse=True) for x, y in part] for part in parts]
        expected = sum(ellipsoid.line_length(*zip(*line, strict=True)) for line in lines if len(line) > 1)
        assert length == pytest.approx(expected, rel=1e-6, abs=1e-4)


def test_a_moving_point_comes_back_from_the_plane():
    van = moving([[(0, 391391.0, 5817855.0), (60, 392069.0, 5817840.0)]])
    column = pa.concat_arrays([to_arrow([van]), pa.nulls(1, to_arrow([van]).type)])
    first, second = globe.to_lonlat(column, pa.array([UTM, UTM])).to_pylist()
    assert second is None
    assert np.allclose(ss.Plane.utm(33).project(first["lon"], first["lat"]), [van.x, van.y], atol=1e-6)
    sliced = globe.to_lonlat(pa.concat_arrays([column, column]).slice(2, 1), pa.array([UTM]))
    assert sliced.to_pylist() == [first]


def test_a_column_has_one_system():
    van = to_arrow([_moving([[(4e5, 5e6)]])] * 2)
    with pytest.raises(BadArgument, match="several reference systems"):
        globe.to_lonlat(van, pa.array([UTM, "EPSG:3035"]))


def test_positions_make_the_round_trip(spark):
    rows = [("a", f"2026-05-04T08:0{n}:00Z", 13.4 + n / 100, 52.5) for n in range(4)]
    trips = ss.trajectories(spark.createDataFrame(rows, "id string, time string, lon double, lat double"))
    back = trips.to_lonlat(spark).orderBy("time").collect()
    assert np.allclose([(row["lon"], row["lat"]) for row in back], [row[2:] for row in rows], atol=1e-9)
    with pytest.raises(BadArgument, match="reference system is not known"):
        ss.Trips.from_points({}).to_lonlat()


@pytest.fixture
def both(spark):
    van = moving([[(0, 391391.0, 5817855.0), (60, 392069.0, 5817840.0)]])
    here, there = (ss.Trips.from_points({"van": van}, crs=crs).to_spark(spark) for crs in (UTM, "EPSG:3035"))
    return here, there


def test_columns_of_different_systems_are_refused_when_the_query_is_built(both):
    here, there = both
    with pytest.raises(BadArgument, match="different reference systems: EPSG:3035, EPSG:32633"):
        sf.distance(here["Trip"], there["Trip"])
    with pytest.raises(BadArgument, match="different reference systems"):
        sf.distance(sf.atperiods(here["Trip"], sf.deftime(here["Trip"])), there["Trip"])
    sf.distance(here["Trip"], here["Trip"])


def test_a_query_is_checked_as_a_whole(both, spark):
    here, there = both
    sf.register(spark)
    here.createOrReplaceTempView("here")
    there.createOrReplaceTempView("there")
    good = spark.sql("SELECT travelled(Trip) AS metres FROM here UNION ALL SELECT travelled(Trip) FROM there")
    assert sf.check_systems(good) is good
    named = here.alias("a").join(there.alias("b"), "id").select(sf.distance(F.col("a.Trip"), F.col("b.Trip")))
    with pytest.raises(BadArgument, match=r"^distance: columns of different reference systems"):
        sf.check_systems(named)
    with pytest.raises(BadArgument, match=r"^union of Trip: columns of different reference systems"):
        sf.check_systems(here.unionAll(there))
