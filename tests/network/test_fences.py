"""Fences: what streams find as of a time is what functions of trips find in the archive up to it."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

import slipstream as ss
from joins.plainly import as_meetings, table, through_the_grid
from slipstream._errors import BadInput
from slipstream._joins.convoys import sweep
from slipstream._joins.trip_meetings import Nearness
from slipstream._moving import MovingPoint, types
from slipstream._moving.columns import read
from slipstream._moving.moving_point import to_arrow
from slipstream._moving.sql_functions import FUNCTIONS
from slipstream._network.boxes.movement.stopping import Stopping
from slipstream._network.boxes.movement.zones import find_inside
from slipstream._network.flow import Train
from slipstream.testing import MemoryHost

SCHEMA = {"id": "bigint", "time": "bigint", "x": "double", "y": "double"}
#: a polygon with a hole; positions on a grid are often on its border
ZONE = "POLYGON((1 1, 7 1, 7 7, 1 7, 1 1), (3 3, 5 3, 5 5, 3 5, 3 3))"
RING = {"x": [1.0, 7.0, 7.0, 1.0, 3.0, 5.0, 5.0, 3.0], "y": [1.0, 1.0, 7.0, 7.0, 3.0, 3.0, 5.0, 5.0], "starts": [0, 4]}
RNG = np.random.default_rng(1)
LEAST, PLACE, METRES = 3, (4.0, 6.0), 1.5


@st.composite
def positions(draw):
    """Positions of a few ids, in order of time."""
    steps = draw(
        st.lists(st.tuples(st.integers(0, 2), st.integers(0, 16), st.integers(0, 16)), min_size=1, max_size=40)
    )
    return [
        {"id": who, "time": time, "x": x / 2, "y": y / 2}
        for time, (who, x, y) in enumerate(steps, draw(st.integers(0, 9)))
    ]


def watch(rows, cuts, restart, make):
    """What a stream finds, in any batches."""
    job = ss.Job("out").write(make(ss.read("kafka://broker:9092/cars", SCHEMA)), name="found")
    host = MemoryHost(job)
    bounds = [0, *sorted(cuts), len(rows)]
    for start, end in itertools.pairwise(bounds):
        if start == restart:
            host.restart()
        if end > start:
            host.send(rows[start:end], crash=start == restart)
    return host.outputs["found"]


def archive(rows, until):
    """The trips of all ids up to a time."""
    trips = {}
    for row in rows:
        if row["time"] <= until:
            trips.setdefault(row["id"], []).append(row)
    made = [
        {
            "t": [row["time"] * 1_000_000 for row in mine],
            "x": [row["x"] for row in mine],
            "y": [row["y"] for row in mine],
            "starts": [0],
        }
        for mine in trips.values()
    ]
    return list(trips), pa.array(made, types.MPOINT.arrow)


def apply(name, trips, *more):
    return next(function for function in FUNCTIONS if function.name == name)(trips, *more)


def query(name, trips, *more):
    return apply(name, trips, *(pa.array([value] * len(trips), kind) for value, kind in more)).to_pylist()


def seconds(times):
    return [round(time.timestamp()) for time in times]


def from_archive(rows, until, name):
    """(id, time) of everything that a function finds in the archive up to a time."""
    ids, trips = archive(rows, until)
    more = [(RING, types.REGION.arrow), *([(float(LEAST), pa.float64())] if name == "dwells" else [])]
    found = query(name, trips, *more)
    return sorted((who, t) for who, one in zip(ids, found, strict=True) for t in seconds(one["t"]))


STREAMS = {
    "enters": lambda cars: cars.enters(ZONE),
    "leaves": lambda cars: cars.leaves(ZONE),
    "dwells": lambda cars: cars.dwells(ZONE, LEAST),
}


@pytest.mark.parametrize("name", STREAMS)
@settings(max_examples=25, deadline=None)
@given(positions(), st.sets(st.integers(0, 39)), st.data())
def test_a_zone_live_is_the_zone_in_history(name, rows, cuts, data):
    cuts = {cut for cut in cuts if cut < len(rows)}
    found = watch(rows, cuts, max(cuts, default=-1), STREAMS[name])
    until = data.draw(st.integers(rows[0]["time"] - 1, rows[-1]["time"]))
    live = sorted((row["id"], row["time"]) for row in found if row["time"] <= until)
    assert live == from_archive(rows, until, name)
    assert live == sorted(by_hand(rows, until, name))


def by_hand(rows, until, name):
    """The rules, one position at a time; insideness is Shapely's."""
    zone = shapely.from_wkt(ZONE)
    since, reported = {}, set()
    for row in (row for row in rows if row["time"] <= until):
        who, inside = row["id"], zone.covers(shapely.Point(row["x"], row["y"]))
        before = who in since
        if inside and not before:
            since[who] = row["time"]
        if (name == "enters" and inside and not before) or (name == "leaves" and before and not inside):
            yield who, row["time"]
        if name == "dwells" and inside and who not in reported and row["time"] - since[who] >= LEAST:
            reported.add(who)
            yield who, row["time"]
        if not inside:
            since.pop(who, None)
            reported.discard(who)


@settings(max_examples=25, deadline=None)
@given(positions(), st.sets(st.integers(0, 39)), st.data())
def test_arrivals_and_ways_live_are_those_in_history(rows, cuts, data):
    cuts = {cut for cut in cuts if cut < len(rows)}
    until = data.draw(st.integers(rows[0]["time"], rows[-1]["time"]))
    ids, trips = archive(rows, until)
    arrived = watch(rows, cuts, max(cuts, default=-1), lambda cars: cars.arrives([(1, *PLACE, METRES)]))
    live = {row["id"]: row["time"] for row in arrived if row["time"] <= until}
    place = ({"x": PLACE[0], "y": PLACE[1]}, types.POINT.arrow)
    when = query("arrives", trips, place, (METRES, pa.float64()))
    assert live == {who: seconds([t])[0] for who, t in zip(ids, when, strict=True) if t is not None}
    ways = watch(rows, cuts, max(cuts, default=-1), lambda cars: cars.travelled())
    live = {row["id"]: row["metres"] for row in ways if row["time"] <= until}
    assert live == pytest.approx(dict(zip(ids, query("travelled", trips), strict=True)))


def run_box(rows, cuts, restart, job):
    """All outputs of a job that gets rows in batches."""
    host = MemoryHost(job)
    for start, end in itertools.pairwise([0, *sorted(cuts), len(rows)]):
        if start == restart:
            host.restart()
        if end > start:
            host.send(rows[start:end], crash=start == restart)
    return host.outputs


def both(stream, port):
    """A job with two outputs of a box."""
    return ss.Job("out").write(stream, name="found").write(stream.output(port), name=port)


@settings(max_examples=50, deadline=None)
@given(positions(), st.sets(st.integers(0, 39)), st.sampled_from([0, 1, 2, 3]), st.data())
def test_stops_live_are_those_in_history(rows, cuts, least, data):
    cuts = {cut for cut in cuts if cut < len(rows)}
    cars = ss.read("kafka://broker:9092/cars", SCHEMA).stops(3.0, 3 * least)
    live = run_box(rows, cuts, max(cuts, default=-1), both(cars, "ended"))
    until = data.draw(st.integers(rows[0]["time"], rows[-1]["time"]))
    ids, trips = archive(rows, until)
    found = query("stops", trips, (3.0, pa.float64()), (3.0 * least, pa.float64()))
    periods = [list(zip(one["begin"], one["end"], strict=True)) for one in found]
    known = {(who, *seconds(period)) for who, some in zip(ids, periods, strict=True) for period in some}
    assert {(row["id"], row["since"]) for row in live["found"] if row["time"] <= until} == {k[:2] for k in known}
    last = {row["id"]: row["time"] for row in rows if row["time"] <= until}
    ended = {(row["id"], row["since"], row["until"]) for row in live["ended"] if row["time"] <= until}
    assert ended == {stop for stop in known if stop[2] < last[stop[0]]}


def trips_until(rows, until, gap):
    """The trips of each id, cut where it was silent for longer than the gap."""
    found = {}
    for who in sorted({row["id"] for row in rows}):
        mine = [row for row in rows if row["id"] == who and row["time"] <= until]
        if mine:
            t = np.array([row["time"] for row in mine])
            starts = np.flatnonzero(np.r_[True, np.diff(t) > gap]).astype(np.int32)
            places = (np.array([row[name] for row in mine]) for name in "xy")
            found[who] = [MovingPoint(t * 1_000_000, *places, starts)]
    return found


def micros(row, *names):
    return (row["id"], row["other_id"], *(round(row[name] * 1_000_000) for name in names))


@settings(max_examples=60, deadline=None)
@given(positions(), st.sets(st.integers(0, 39)), st.integers(0, 3), st.sampled_from([1.0, 2.5]), st.data())
def test_meetings_live_are_those_in_history(rows, cuts, least, metres, data):
    cuts, gap = {cut for cut in cuts if cut < len(rows)}, 6
    cars = ss.read("kafka://broker:9092/cars", SCHEMA).meetings(metres, duration=least, gap=gap)
    live = run_box(rows, cuts, max(cuts, default=-1), both(cars, "ended"))
    until = data.draw(st.integers(rows[0]["time"], rows[-1]["time"]))
    trips = trips_until(rows, until, gap)
    found = through_the_grid(Nearness(metres, least * 1_000_000), table(trips))
    known = {row[:4]: row[4] for row in as_meetings(found)}
    assert {micros(row, "begin") for row in live["found"] if row["time"] <= until} == {one[:3] for one in known}
    for row in (row for row in live["ended"] if row["end"] + gap <= until):
        assert known[micros(row, "begin", "end")] == pytest.approx(row["nearest"])


@settings(max_examples=60, deadline=None)
@given(positions(), st.sets(st.integers(0, 39)), st.integers(1, 4), st.integers(2, 3), st.data())
def test_convoys_live_are_those_in_history(rows, cuts, least, size, data):
    cuts, gap, metres = {cut for cut in cuts if cut < len(rows)}, 4, 3.0
    cars = ss.read("kafka://broker:9092/cars", SCHEMA).convoys(metres, duration=least, size=size, gap=gap)
    end = data.draw(st.integers(1, len(rows)))
    live = run_box(rows[:end], {cut for cut in cuts if cut < end}, max(cuts, default=-1), both(cars, "ended"))
    # all that is known for certain: positions that are younger than the gap may still be joined to later ones
    known = rows[end - 1]["time"] * 1_000_000 - gap * 1_000_000 - 1
    trips = {who: [cut_at(known, one) for one in some] for who, some in trips_until(rows[:end], 99, gap).items()}
    met = as_meetings(through_the_grid(Nearness(metres), table(trips)))
    found = (
        list(sweep(*map(list, zip(*(one[:4] for one in met), strict=True)), duration=least * 1_000_000, size=size))
        if met
        else []
    )
    expected = sorted((convoy.members, convoy.begin) for convoy in found)
    begun = sorted(gathered(live["found"], "begin"))
    assert [one[0] for one in begun] == [one[0] for one in expected]
    assert np.allclose([one[1] for one in begun], [one[1] for one in expected], atol=2, rtol=0)
    over = sorted((convoy.members, convoy.begin, convoy.end) for convoy in found if convoy.end < known - 2)
    ended = sorted(one for one in gathered(live["ended"], "begin", "end") if one[2] < known - 2)
    assert [one[0] for one in ended] == [one[0] for one in over]
    assert np.allclose([one[1:] for one in ended], [one[1:] for one in over], atol=2, rtol=0)


def test_three_that_travel_together_and_one_that_leaves():
    rows = [
        {"id": who, "time": time, "x": 10.0 * time, "y": who + (max(0, time - 60) * 5.0 if who == 2 else 0.0)}
        for time in range(0, 120, 10)
        for who in range(3)
    ]
    cars = ss.read("kafka://broker:9092/cars", SCHEMA)
    met = run_box(rows, {5, 20}, 5, both(cars.meetings(20, duration=30, gap=20), "ended"))
    assert [(row["id"], row["other_id"], row["begin"], row["time"]) for row in met["found"]] == [
        *[(0, 1, 0.0, 30.0), (0, 2, 0.0, 30.0), (1, 2, 0.0, 30.0)]
    ]
    assert [(row["id"], row["other_id"], row["end"]) for row in met["ended"]] == [(0, 2, 63.6), (1, 2, 63.8)]
    together = run_box(rows, {5, 20}, 5, both(cars.convoys(20, duration=30, size=2, gap=20), "ended"))
    assert gathered(together["found"], "begin") == [(0b111, 0), (0b011, 0)]
    assert gathered(together["ended"], "begin", "end") == [(0b111, 0, 63_800_000)]


def cut_at(micros, trip):
    """A trip up to an instant."""
    period = pa.array([{"begin": [-(10**9)], "end": [micros]}], types.PERIODS.arrow)
    found = read(apply("atperiods", to_arrow([trip]), period))
    return MovingPoint(found.t, found.x, found.y, found.starts)


def gathered(rows, *times):
    """The members of each convoy, as bits, and its times."""
    members, when = {}, {}
    for row in rows:
        members[row["convoy"]] = members.get(row["convoy"], 0) | 1 << row["id"]
        when[row["convoy"]] = [round(row[name] * 1_000_000) for name in times]
    return [(members[number], *when[number]) for number in members]


def test_a_parked_vehicle_needs_a_few_rows_only():
    cars = RNG.normal(0, 10, (5000, 2))
    tuples = Train(
        np.zeros(5000, np.int64),
        np.zeros(5000, np.int64),
        np.zeros((5000, 1), np.int64),
        {"id": np.ones(5000, np.int64), "time": np.arange(5000), "x": cars[:, 0], "y": cars[:, 1]},
    )
    box = Stopping("x", "y", "id", "time", metres=100.0, least=60, plane=True)
    state = box.fresh(SCHEMA)
    found = box.step(state, tuples)
    assert (found["stopped"]["time"].tolist(), found["stopped"]["since"].tolist()) == ([60], [0])
    assert len(state["runs"].table) < 40


@settings(max_examples=25, deadline=None)
@given(positions(), st.sets(st.integers(0, 39)), st.data())
def test_near_live_is_the_distance_of_each_position_and_near_in_history(rows, cuts, data):
    cuts = {cut for cut in cuts if cut < len(rows)}
    found = watch(rows, cuts, -1, lambda cars: cars.near(PLACE, METRES))
    assert [row["near"] for row in found] == [
        np.hypot(row["x"] - PLACE[0], row["y"] - PLACE[1]) <= METRES for row in rows
    ]
    until = data.draw(st.integers(rows[0]["time"], rows[-1]["time"]))
    ids, trips = archive(rows, until)
    place = ({"x": PLACE[0], "y": PLACE[1]}, types.POINT.arrow)
    periods = dict(zip(ids, query("when_dwithin", trips, place, (METRES, pa.float64())), strict=True))
    for row in (row for row in found if row["time"] <= until):
        times = periods[row["id"]]
        spans = zip(times["begin"], times["end"], strict=True)
        assert row["near"] == any(begin.timestamp() <= row["time"] <= end.timestamp() for begin, end in spans)


def test_zones_can_be_in_geojson_and_boxes():
    x, y = np.array([0.0, 1.0, 4.0]), np.array([0.0, 1.0, 4.0])
    for zone in (ZONE, shapely.to_geojson(shapely.from_wkt(ZONE))):
        assert find_inside(zone, x, y).tolist() == [False, True, False]
    assert find_inside((1.0, 1.0, 4.0, 4.0), x, y).tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("zone", "message"),
    [
        ("POLYGON((0 0, 1 1, 1 0, 0 1, 0 0))", r"zone: Self-intersection"),
        ("POINT(1 1)", "not a polygon"),
        ("POLYGON EMPTY", "not a polygon"),
        ("POLYGON((0 0, 1", "zone: "),
        ("{'type': 1", "zone: "),
        ((0, 0, 1), "not a box"),
        ((2, 0, 1, 1), "not a box"),
    ],
)
def test_a_zone_that_is_none_is_refused_where_it_is_written(zone, message):
    with pytest.raises(BadInput, match=message):
        ss.read("kafka://broker:9092/cars", SCHEMA).enters(zone)


def test_columns_that_do_not_fit_are_refused():
    cars = ss.read("kafka://broker:9092/cars", {"id": "bigint", "time": "double", "x": "double", "y": "double"})
    with pytest.raises(BadInput, match="'time' is double"):
        cars.enters((0, 0, 1, 1))
    with pytest.raises(BadInput, match="no column 'lon'"):
        cars.near((0, 0), 1, x="lon")
