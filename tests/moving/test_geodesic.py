"""Distances on the globe are GeographicLib's, and decisions without a geodesic are those with one."""

from __future__ import annotations

import math

import numpy as np
import pyproj
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles.streaming_berlinmod import from_segment
from slipstream._moving.space.geodesic import distances, geodesic, near_point, near_segment

GEOD = pyproj.Geod(ellps="WGS84")
LON, LAT = st.floats(-180, 180), st.floats(-90, 90)
NEARBY = st.floats(-0.5, 0.5)


def exact(lon1, lat1, lon2, lat2):
    return GEOD.inv(lon1, lat1, lon2, lat2)[2]


@given(LON, LAT, LON, LAT)
def test_distances_anywhere(lon1, lat1, lon2, lat2):
    assert distances(lon1, lat1, lon2, lat2)[0] == pytest.approx(exact(lon1, lat1, lon2, lat2), abs=1e-4)


@given(LON, st.floats(-80, 80), NEARBY, NEARBY)
def test_distances_of_neighbours(lon, lat, east, north):
    found = distances(lon, lat, lon + east, lat + north)[0]
    assert found == pytest.approx(exact(lon, lat, lon + east, lat + north), abs=1e-6)


@pytest.mark.parametrize(
    "ends", [(0, 0, 180, 0), (0, 0, 179.7, 0.1), (10, 30, -170, -30), (0, 90, 0, -90), (5, 5, 5, 5)]
)
def test_distances_of_opposite_and_equal_points(ends):
    assert distances(*ends)[0] == pytest.approx(exact(*ends), abs=1e-3)


def test_places_that_are_not_numbers_have_no_distance_and_are_near_nothing():
    none = np.array([math.nan, 13.4]), np.array([52.5, math.nan])
    assert np.isnan(distances(*none, 13.4, 52.5)).all()
    assert not near_point(*none, 13.4, 52.5, 1e9).any()
    assert not near_segment(*none, 13.4, 52.5, 13.5, 52.5, 5000.0).any()


@given(st.floats(-80, 80), NEARBY, NEARBY, st.floats(0, 100_000))
def test_near_a_point(lat, east, north, limit):
    lon, at = np.array([13.4 + east]), np.array([lat + north])
    apart = exact(lon[0], at[0], 13.4, lat)
    if abs(apart - limit) > 1e-3:
        assert near_point(lon, at, 13.4, lat, limit)[0] == (apart <= limit)


@given(NEARBY, NEARBY, st.tuples(NEARBY, NEARBY, NEARBY, NEARBY), st.floats(0, 60_000))
def test_near_an_edge(east, north, ends, limit):
    edge = tuple(at + end for at, end in zip((13.4, 52.5, 13.4, 52.5), ends, strict=True))
    lon, lat = 13.4 + east, 52.5 + north
    apart = from_segment((lon, lat), edge)
    if abs(apart - limit) > 1e-3:
        assert near_segment(np.array([lon]), np.array([lat]), *edge, limit)[0] == (apart <= limit)


def test_a_limit_that_is_the_distance_is_kept():
    limit = geodesic(13.4, 52.5, 13.45, 52.53)
    assert near_point(np.array([13.45]), np.array([52.53]), 13.4, 52.5, limit)[0]
    assert not near_point(np.array([13.45]), np.array([52.53]), 13.4, 52.5, math.nextafter(limit, 0))[0]
