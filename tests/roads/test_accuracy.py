"""How much of the roads that were driven is found: on Berlin's streets, and on recorded drives with a known route."""

from __future__ import annotations

import csv
import os
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import shapely

from roads.driven import Observed, drives, mismatch, observe
from slipstream._berlinmod.streets import read_network
from slipstream._berlinmod.synthetic_city import synthetic_network
from slipstream._moving.space.plane import Plane
from slipstream._roads.importing.graph_building import build
from slipstream._roads.matching.matcher import Matcher
from slipstream._roads.matching.model import Model
from slipstream._roads.matching.viterbi import ON
from slipstream._roads.street_network import Street, StreetNetwork, Tags

#: noise in metres, seconds between positions, and the largest share of wrong metres
CASES = [
    *[(5, 1, 0.02), (5, 5, 0.01), (5, 15, 0.015), (5, 30, 0.02)],
    *[(10, 1, 0.03), (10, 5, 0.01), (10, 15, 0.015), (10, 30, 0.025)],
    *[(20, 1, 0.05), (20, 5, 0.015), (20, 15, 0.02), (20, 30, 0.03)],
]


def test_the_roads_of_drives_in_berlin_are_found(real_data):
    network = read_network(real_data / "berlinmod" / "streets.data")
    driven = drives(network, 40)
    matchers = {noise: Matcher(network, Model(noise=noise)) for noise in (5, 10, 20)}
    for noise, every, most in CASES:
        seen = observe(driven, every, noise)
        matched = matchers[noise].match(seen.rows, seen.t, seen.x, seen.y)
        found = mismatch(matchers[noise], driven, seen, matched)
        print(f"noise {noise} m, every {every} s: {found:.2%} of the metres are wrong")
        assert found < most, (noise, every)
        assert (matched.status == ON).all()


def test_a_lag_of_thirty_seconds_finds_almost_the_same_roads():
    network = synthetic_network()
    driven = drives(network, 60)
    seen = observe(driven, 5, 10)
    whole = Matcher(network, Model(noise=10))
    one = whole.match(seen.rows, seen.t, seen.x, seen.y)
    print(f"without a lag {mismatch(whole, driven, seen, one):.2%} of the metres are wrong")
    # a vehicle may stand at a crossing for longer than the lag: then it is decided before it shows where it goes
    for lag, least, most in ((30, 0.96, 0.02), (60, 0.98, 0.01)):
        live = Matcher(network, Model(noise=10, lag=lag))
        other = live.match(seen.rows, seen.t, seen.x, seen.y)
        same, wrong = (one.edge == other.edge).mean(), mismatch(live, driven, seen, other)
        print(f"lag {lag} s: {same:.2%} of the positions are on the same edge, {wrong:.2%} of the metres are wrong")
        assert same > least
        assert wrong < most


@pytest.mark.long
def test_a_second_opinion_agrees(tmp_path):
    """fastmm, another implementation of the model; at 5 m of noise there is little to disagree about."""
    from roads.second_opinion import SecondOpinion

    network = synthetic_network()
    driven = drives(network, 10)
    seen = observe(driven, 5, 5)
    ours = Matcher(network, Model(noise=5)).match(seen.rows, seen.t, seen.x, seen.y)
    theirs = SecondOpinion(network, 5.0, tmp_path).match(seen)
    known = theirs >= 0
    print(f"{(theirs[known] == ours.edge[known]).mean():.2%} of {known.sum():,} positions are on the same edge")
    assert known.mean() > 0.95
    assert (theirs[known] == ours.edge[known]).mean() > 0.95


#: the folder data/floating-car-data of the ground truth of Hof (github.com/iisys-hof/map-matching-2)
HOF = os.environ.get("SLIPSTREAM_HOF", "")


@pytest.mark.long
def test_the_recorded_drives_of_hof():
    """On a network of all their routes, as the data set has no map: how many positions are off their own route.

    A route is also known to have been driven in one direction only, as on each side of a motorway.
    """
    if not HOF:
        pytest.skip(
            "set SLIPSTREAM_HOF to a folder with points.csv and ground_truth.csv "
            "(github.com/iisys-hof/map-matching-2, data/floating-car-data)"
        )
    csv.field_size_limit(1 << 30)
    plane = Plane.utm(32)
    truth = {row["id"]: _line(row["WKT"], plane) for row in _rows("ground_truth.csv")}
    streets = [
        Street(50, [(*a, *b) for a, b in zip(line.coords[:-1], line.coords[1:], strict=True)])
        for lines in truth.values()
        for line in shapely.get_parts(lines)
    ]
    network = build(streets, "Hof")
    share = _find_missed(network, truth, plane)
    print(f"{share:.2%} of the positions are matched to a road that was not driven")
    assert share < 0.05
    share = _find_missed(build(_keep_directions(network, streets), "Hof"), truth, plane)
    print(f"{share:.2%} if roads that were driven in one direction only are one-way")
    assert share < 0.02


def _find_missed(network: StreetNetwork, truth: dict[str, shapely.Geometry], plane: Plane) -> float:
    """Return the share of positions that are matched to a place off their own route."""
    matcher = Matcher(network, Model(noise=5))
    points: dict[str, list[tuple[int, float, float]]] = {}
    for row in _rows("points.csv"):
        place = shapely.from_wkt(row["geometry"])
        moment = round(datetime.fromisoformat(row["time"]).timestamp() * 1_000_000)
        points.setdefault(row["id"], []).append((moment, place.x, place.y))
    missed = total = 0.0
    for name, fixes in points.items():
        t, lon, lat = (np.array(column) for column in zip(*sorted(set(fixes)), strict=True))
        once = np.r_[True, np.diff(t) > 0]
        x, y = plane.project(lon[once], lat[once])
        seen = Observed(np.array([0, len(x)]), t[once], x, y)
        matched = matcher.match(seen.rows, seen.t, seen.x, seen.y)
        on = matched.status == ON
        far = shapely.distance(truth[name], shapely.points(matched.x[on], matched.y[on])) > 1.0
        missed, total = missed + float(far.sum()), total + len(x)
    print(f"{total:,.0f} positions")
    return missed / total


def _keep_directions(network: StreetNetwork, streets: list[Street]) -> list[Street]:
    """Return the edges of a network as streets, one-way if all drives along them have one direction."""
    drawn = np.array([segment for street in streets for segment in street.segments]).reshape(-1, 2, 2)
    tree = shapely.STRtree(shapely.linestrings(drawn))

    def is_driven(edge: int) -> bool:
        places = network.places(edge)
        steps = np.diff(places, axis=0)
        longest = int(np.argmax(np.hypot(*steps.T)))
        middle = shapely.Point(places[longest : longest + 2].mean(axis=0))
        drives = np.diff(drawn[tree.query(middle, predicate="dwithin", distance=0.3)], axis=1)[:, 0]
        return bool((drives @ steps[longest] > 0.7 * np.hypot(*drives.T) * np.hypot(*steps[longest])).any())

    driven = np.array([is_driven(edge) for edge in range(network.edges)])
    kept = []
    for edge in np.flatnonzero(driven).tolist():
        back = int(network.reverse[edge])
        if back < 0 or not driven[back] or edge < back:
            places = network.places(edge).tolist()
            one_way = Tags(oneway=int(back < 0 or not driven[back]))
            kept.append(Street(50, [(*a, *b) for a, b in pairwise(places)], one_way))
    return kept


def _rows(name: str) -> list[dict[str, str]]:
    with (Path(HOF) / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _line(text: str, plane: Plane) -> shapely.Geometry:
    return shapely.transform(shapely.from_wkt(text), lambda c: np.round(np.column_stack(plane.project(*c.T)), 2))
