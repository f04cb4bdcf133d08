"""The generator: the same data for any partitioning, rules of the paper kept, Berlin's character."""

from __future__ import annotations

import numpy as np
import pytest

from berlinmod.test_queries import town
from slipstream._berlinmod import drive
from slipstream._berlinmod.dataset import Dataset
from slipstream._berlinmod.generator import (
    DAY,
    HOUR,
    START,
    GeneratedVehicle,
    GeneratorPlan,
    cumulate_by_region,
    generate,
    region_weights,
    uniform_weights,
)
from slipstream._berlinmod.streets import read_network
from slipstream._errors import BadArgument
from slipstream._moving.moving_point import micros
from slipstream._roads import paths


@pytest.fixture(scope="module")
def network():
    return town()


def test_a_vehicle_depends_on_seed_and_number_alone(network):
    plan = GeneratorPlan(scale=0.01)
    one, again = (GeneratedVehicle(network, uniform_weights(network), plan, 7).history() for _ in range(2))
    for a, b in zip(one, again, strict=True):
        np.testing.assert_array_equal(a, b)
    other = GeneratedVehicle(network, uniform_weights(network), GeneratorPlan(scale=0.01, seed=1), 7).history()
    assert len(other[0]) != len(one[0]) or (other[0] != one[0]).any()


def test_scale_gives_the_papers_numbers():
    assert [(p.vehicles, p.days) for p in (GeneratorPlan(0.05), GeneratorPlan(0.2), GeneratorPlan(1.0))] == [
        (447, 6),
        (894, 13),
        (2000, 28),
    ]
    with pytest.raises(BadArgument, match="--scale"):
        GeneratorPlan(scale=0)


def test_histories_keep_the_rules(network):
    plan = GeneratorPlan(scale=0.02)
    licences = set()
    for number in range(1, 30):
        vehicle = GeneratedVehicle(network, uniform_weights(network), plan, number)
        t, x, y = vehicle.history()
        licences.add(vehicle.licence)
        assert (np.diff(t) > 0).all()
        assert t[0] == micros(START) - DAY
        assert t[-1] == micros(START) + (plan.days + 1) * DAY
        assert (x[0], y[0]) == (x[-1], y[-1])
        moving = np.hypot(np.diff(x), np.diff(y)) > 0
        speed = np.hypot(np.diff(x), np.diff(y))[moving] / np.diff(t)[moving] * 1e6 * 3.6
        assert speed.max() <= 70.0 + 0.1
        clock = (t[:-1][moving] - micros(START)) % DAY / HOUR
        assert not ((clock > 5.99) & (clock < 6.0)).any()
    assert len(licences) == 29


def test_a_drive_goes_through_every_node_of_its_path(network):
    times, by = paths.find_shortest_tree(network.first, network.target, network.cost, 0, -1)
    goal = int(np.argmax(times))
    path = paths.trace_path(network.source, by, goal)
    arrays = (network.shape, network.shape_x, network.shape_y, network.vmax)
    t, x, y = drive.drive(path, *arrays, 0, np.array([5], dtype=np.int64))
    assert (x[0], y[0]) == (network.x[0], network.y[0])
    assert (x[-1], y[-1]) == (network.x[goal], network.y[goal])
    assert t[-1] / 1e6 > times[goal]
    import shapely

    line = shapely.LineString(np.c_[x, y])
    for edge in path:
        node = network.target[edge]
        assert line.distance(shapely.Point(network.x[node], network.y[node])) < 1e-6


def test_measuring_errors_wander_but_stay_bounded():
    x = y = np.zeros(20_000)
    ex, ey = drive.disturb(x, y, np.array([1], dtype=np.int64), 100.0, 1.0)
    assert np.hypot(ex, ey).max() <= 100.0
    assert np.hypot(np.diff(ex), np.diff(ey)).max() <= 1.0 + 1e-9


def test_regions_steer_where_homes_are(network):
    square = [(-1.0, -1.0), (401.0, -1.0), (401.0, 401.0), (-1.0, 401.0)]
    chance = np.diff(cumulate_by_region(network, [(1.0, [square])]), prepend=0)
    assert set(np.flatnonzero(chance > 1e-12)) == set(np.flatnonzero((network.x <= 401) & (network.y <= 401)))
    assert region_weights(network).home[-1] == pytest.approx(1.0)
    with pytest.raises(BadArgument, match="no node"):
        cumulate_by_region(network, [(1.0, [[(1e6, 1e6), (2e6, 1e6), (2e6, 2e6)]])])


def test_partitions_do_not_matter(spark, network, tmp_path):
    tables = []
    for name, partitions in (("one", 1), ("many", 5)):
        generate(spark, GeneratorPlan(scale=0.00005), network, tmp_path / name, partitions=partitions)
        rows = Dataset.open(tmp_path / name).table(spark, "dataMtrip").orderBy("TripId").toArrow()
        tables.append(rows)
    assert tables[0].equals(tables[1])


@pytest.mark.long
def test_berlins_character_is_within_fifteen_percent_of_table_5(real_data):
    network = read_network(real_data / "berlinmod" / "streets.data")
    plan, chances = GeneratorPlan(0.05), uniform_weights(network)
    trips, metres, units = [], [], []
    for number in range(1, 101):
        t, x, y = GeneratedVehicle(network, chances, plan, number).history()
        step = np.hypot(np.diff(x), np.diff(y))
        rests = (step == 0) & (np.diff(t) > 300_000_000)
        trips.append(2 * rests.sum() - 1)
        metres.append(step.sum())
        units.append(len(step))
    assert np.mean(trips) == pytest.approx(33.667, rel=0.15)
    assert np.sum(metres) / np.sum(trips) == pytest.approx(5068, rel=0.15)
    assert np.mean(units) == pytest.approx(6138.857, rel=0.15)
