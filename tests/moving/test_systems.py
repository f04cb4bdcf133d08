"""Reference systems: one name for one system, agreement of the fast way with PROJ, round trips, refusals."""

from __future__ import annotations

import numpy as np
import pyproj
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream._errors import BadArgument
from slipstream._moving import Plane
from slipstream._moving.space.systems import System, require_metric


@given(st.integers(1, 60), st.booleans(), st.lists(st.tuples(st.floats(-6, 6), st.floats(-80, 84)), min_size=1))
def test_a_utm_zone_agrees_with_proj_to_a_micrometre(zone, south, places):
    plane = Plane.utm(zone, south=south)
    east, lat = np.array(places).T
    lon = (plane.lon + east + 180) % 360 - 180
    system = System.parse(plane)
    proj = pyproj.Transformer.from_crs("EPSG:4326", plane.srid, always_xy=True)
    assert np.abs(np.array(system.project(lon, lat)) - proj.transform(lon, lat)).max() < 1e-6
    back = np.array(system.locate(*system.project(lon, lat)))
    assert np.abs((back - [lon, lat] + 180) % 360 - 180).max() < 1e-9


@pytest.mark.parametrize("plane", [Plane.around(13.4, 52.5), Plane.around(-70.25, -33.5)])
def test_a_plane_around_a_place_agrees_with_proj(plane):
    system = System.parse(plane)
    lon, lat = plane.lon + np.linspace(-3, 3, 50), plane.lat + np.linspace(-5, 5, 50)
    assert np.abs(np.array(system.project(lon, lat)) - plane.project(lon, lat)).max() < 1e-6
    assert system.is_metric
    assert System.parse(system.name) == system


@pytest.mark.parametrize("code", [3035, 5070, 2154, 27700, 25833, 3857])
def test_any_projected_system_gives_back_what_it_took(code):
    system = System.parse(code)
    west, south, east, north = pyproj.CRS.from_epsg(code).area_of_use.bounds
    lon, lat = np.linspace(west + 1, east - 1, 20), np.linspace(max(south, -80) + 1, min(north, 80) - 1, 20)
    found = system.locate(*system.project(lon, lat))
    assert np.abs(np.array(found) - [lon, lat]).max() < 1e-7


def test_names_that_mean_the_same_system_are_one():
    names = [
        "EPSG:32633",
        32633,
        "epsg:32633",
        Plane.utm(33),
        pyproj.CRS(32633).to_wkt(),
        "urn:ogc:def:crs:EPSG::32633",
    ]
    assert {System.parse(name).name for name in names} == {"EPSG:32633"}
    assert System.parse("EPSG:32633").srid == 32633
    assert System.parse(Plane.around(13.4, 52.5)).srid == 0


def test_places_that_a_system_does_not_reach_are_nan():
    assert np.isnan(System.parse(32633).project([95.0], [10.0])).all()


def test_degrees_feet_and_nonsense_are_refused():
    with pytest.raises(BadArgument, match="not metres in a plane"):
        require_metric(System.parse(4326), "to")
    with pytest.raises(BadArgument, match="not metres in a plane"):
        require_metric(System.parse(2263), "to")  # New York, in feet
    with pytest.raises(BadArgument, match="not a reference system"):
        System.parse("Berlin")
