"""Counts over time, densities and flows, compared with loops over everything."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

import slipstream.functions as sf
from moving.oracle import SECOND, microsecond, moving, position
from slipstream._errors import BadArgument
from slipstream._moving import register, types

HOUR = 3600


def walk(rng):
    """A few sequences over some hours: rests, single instants, and two that touch."""
    clock, sequences = int(rng.integers(0, HOUR)), []
    for _ in range(rng.integers(1, 4)):
        size = int(rng.integers(1, 5))
        times = clock + np.cumsum(rng.integers(1, 1500, size))
        places = rng.integers(-40, 40, (size, 2)).astype(float)
        sequences.append([(int(t), x, y) for t, (x, y) in zip(times, places, strict=True)])
        clock = int(times[-1]) + int(rng.integers(1, HOUR))
    return moving(sequences)


POINTS = [walk(np.random.default_rng(seed)) for seed in range(12)]
ZONES = {"west": (-40.0, 0.0), "middle": (0.0, 0.0), "east": (40.0, 0.0)}


@pytest.fixture(scope="module")
def trips(spark):
    register(spark)
    return spark.createDataFrame([(m.to_row(),) for m in [*POINTS, moving([])]], f"Trip {types.MPOINT.sql}")


def defined(t):
    return sum(any(m.t[s][0] <= t <= m.t[s.stop - 1] for s in m.sequences) for m in POINTS)


def test_tcount_is_right_at_every_change(trips):
    found = collected(sf.tcount(trips))
    rows = sorted((microsecond(row["begin"]), microsecond(row["end"]), row["count"]) for row in found)
    assert all(end < begin for (_, end, _), (begin, _, _) in pairwise(rows))
    instants = {int(t) + d for m in POINTS for t in m.t for d in (-1, 0, 1)}
    for t in instants:
        found = [count for begin, end, count in rows if begin <= t <= end]
        assert found == ([defined(t)] if defined(t) else [])


def collected(frame):
    """Rows with times in UTC, whatever the zone of the machine."""
    return frame.toArrow().to_pylist()


def seconds_in_tiles(metres, step):
    """Where everything was every so many microseconds."""
    found = Counter()
    for m in POINTS:
        for s in m.sequences:
            for t in range(int(m.t[s][0]), int(m.t[s.stop - 1]), step):
                x, y = position(m, t)
                found[int(x // metres), int(y // metres)] += step / SECOND
    return found


def test_density_is_the_time_in_each_tile(trips):
    rows = collected(sf.density(trips, 25))
    got = {(round(row["x"] / 25), round(row["y"] / 25)): row["seconds"] for row in rows}
    expected = seconds_in_tiles(25, SECOND)
    assert sum(got.values()) == pytest.approx(sum(expected.values()), abs=1e-3)
    for tile, seconds in expected.items():
        assert got[tile] == pytest.approx(seconds, abs=len(POINTS) * 4)


def test_density_per_hour_adds_up(trips):
    rows = collected(sf.density(trips, 25, seconds=HOUR))
    whole = sum(row["seconds"] for row in collected(sf.density(trips, 25)))
    assert sum(row["seconds"] for row in rows) == pytest.approx(whole, abs=1e-2)
    for row in rows:
        assert microsecond(row["t"]) % (HOUR * SECOND) == 0
        assert row["seconds"] <= HOUR * len(POINTS)


def test_flows_are_the_steps_from_zone_to_zone(spark, trips):
    import shapely

    columns = "zone string, x double, y double"
    places = spark.createDataFrame([(name, *place) for name, place in ZONES.items()], columns)
    zones = places.selectExpr("zone", "circle(point(x, y), 15, 32) AS region")
    disc = {
        name: shapely.Polygon([(x + 15 * np.cos(a), y + 15 * np.sin(a)) for a in 2 * np.pi * np.arange(32) / 32])
        for name, (x, y) in ZONES.items()
    }
    expected = Counter()
    for m in POINTS:
        entered = []
        for s in m.sequences:
            inside = {}
            for t in range(int(m.t[s][0]), int(m.t[s.stop - 1]) + 1, SECOND):
                place = shapely.Point(*map(float, position(m, t)))
                for name, zone in disc.items():
                    now = zone.covers(place)
                    if now and not inside.get(name):
                        entered.append((t, name))
                    inside[name] = now
        steps = [name for _, name in sorted(entered)]
        expected.update((a, b) for a, b in pairwise(steps) if a != b)
    got = {(row["origin"], row["destination"]): row["trips"] for row in collected(sf.flows(trips, zones))}
    assert expected
    assert got == dict(expected)


def test_extent_all_is_around_everything(trips):
    box = collected(trips.agg(sf.extent_all("Trip").alias("box")))[0]["box"]
    assert box["xmin"] == min(m.x.min() for m in POINTS)
    assert box["ymax"] == max(m.y.max() for m in POINTS)
    assert microsecond(box["tmax"]) == max(m.t.max() for m in POINTS)


def test_wrong_columns_and_numbers_are_refused(trips):
    with pytest.raises(BadArgument, match=r"tcount: no column 'trip'\."):
        sf.tcount(trips, trip="trip")
    with pytest.raises(BadArgument, match="density: metres is 0"):
        sf.density(trips, 0)
    with pytest.raises(BadArgument, match="flows: no column 'zone'"):
        sf.flows(trips, trips)
