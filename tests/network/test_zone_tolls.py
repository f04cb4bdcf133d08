"""Tolls of zones: what Shapely says of each leg, wherever a stream is cut, and across restarts."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

import slipstream as ss
from network.stages_in_memory import run
from oracles.network_engines import Feed
from oracles.zone_tolls import visits
from slipstream._errors import BadInput
from slipstream._network import Builder, Network
from slipstream._network.boxes.tolls.priced_zones import parse_zones
from slipstream._network.boxes.tolls.zone_tolls import ZoneTolls
from slipstream._network.flow import Train
from slipstream._network.planning.plan import plan
from slipstream._network.schemas import check
from slipstream._network.tasks.superbox import Superbox

#: a square with a hole, a triangle over its corner, and two islands
SHAPES = {
    "centre": shapely.Polygon([(100, 100), (400, 100), (400, 400), (100, 400)], [[(200, 200), (300, 200), (250, 310)]]),
    "corner": shapely.Polygon([(350, 350), (620, 380), (390, 600)]),
    "islands": shapely.MultiPolygon([shapely.box(0, 500, 90, 590), shapely.box(500, 0, 590, 90)]),
}
PRICES = {"centre": {"entry": 5.0}, "corner": {"per_minute": 0.3}, "islands": {"per_km": 2.0, "entry": 1}}
GAP = 100


def geojson(shapes: dict[str, Any] = SHAPES, prices: dict[str, Any] = PRICES) -> str:
    features = [
        {
            "type": "Feature",
            "properties": {"name": name, **prices.get(name, {})},
            "geometry": json.loads(shapely.to_geojson(shape)),
        }
        for name, shape in shapes.items()
    ]
    return json.dumps({"type": "FeatureCollection", "features": features})


def network(ids: str = "integer") -> Network:
    net = Builder("zones")
    box = net.source("gps", id=ids, time="float", x="float", y="float").through(
        ZoneTolls(geojson(), gap=GAP), name="zones"
    )
    for output in ZoneTolls.ports:
        box[output].to(output)
    return net.build()


@pytest.fixture(scope="module")
def superboxes() -> dict[str, Superbox]:
    return {ids: Superbox(plan(check(network(ids), None))) for ids in ("integer", "text")}


@st.composite
def ways(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Positions of some vehicles that wander, stand, fall silent, and are out of order."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    rows = []
    for vehicle in range(draw(st.integers(1, 4))):
        t, x, y = rng.uniform(0, 50), rng.uniform(0, 600), rng.uniform(0, 600)
        for _ in range(rng.randrange(1, 25)):
            rows.append({"id": vehicle, "time": round(t, 3), "x": x, "y": y})
            t += rng.choice([1, 10, 60, 99, 150]) * rng.random() - (3 if rng.random() < 0.05 else 0)
            if rng.random() < 0.8:
                x, y = x + rng.uniform(-250, 250), y + rng.uniform(-250, 250)
    return sorted(rows, key=lambda row: row["time"] + rng.random())


@settings(max_examples=80)
@given(
    rows=ways(),
    cuts=st.lists(st.integers(1, 80), max_size=5, unique=True),
    restart=st.booleans(),
    ids=st.sampled_from(["integer", "text"]),
)
def test_any_stream_cut_anywhere_gives_shapelys_visits(
    superboxes: dict[str, Superbox], rows: list[dict[str, Any]], cuts: list[int], restart: bool, ids: str
) -> None:
    # a silence and a report far away end the last visit of each vehicle
    rows = [*rows, *({"id": n, "time": 1e6, "x": 1e6, "y": 1e6} for n in sorted({row["id"] for row in rows}))]
    named = [row | {"id": f"B {row['id']}"} for row in rows] if ids == "text" else rows
    tuples: Feed = [("gps", 1000 + number, row) for number, row in enumerate(named)]
    cuts = sorted(cut for cut in cuts if cut < len(rows))
    got = run(superboxes[ids], tuples, cuts, set(cuts) if restart else set())
    expected = visits(((row["id"], row["time"], row["x"], row["y"]) for row in named), SHAPES, GAP)
    found = sorted((v["id"], v["zone"], v["entered"], v["exited"], v["metres"], v["amount"]) for v in got["visits"])
    zones = {zone.name: zone for zone in parse_zones(geojson())}
    priced = sorted((*visit, zones[visit.zone].price(visit.left - visit.entered, visit.metres)) for visit in expected)
    assert [visit[:2] for visit in found] == [visit[:2] for visit in priced]
    for mine, theirs in zip(found, priced, strict=True):
        assert mine[2:] == pytest.approx(theirs[2:], abs=1e-6)
    assert len(got["entries"]) == len(found)
    assert got == run(superboxes[ids], tuples, [], set())


def test_a_vehicle_that_crosses_a_zone_between_two_reports_pays(superboxes: dict[str, Superbox]) -> None:
    rows = [{"id": 1, "time": 0.0, "x": 0.0, "y": 150.0}, {"id": 1, "time": 60.0, "x": 600.0, "y": 150.0}]
    got = run(superboxes["integer"], [("gps", n, row) for n, row in enumerate(rows)], [], set())
    [visit] = got["visits"]
    assert visit == {"_ts": 1, "id": 1, "zone": "centre", "amount": 5.0} | {
        "entered": 10.0, "exited": 40.0, "seconds": 30.0, "metres": 300.0
    }  # fmt: skip


def test_what_has_no_place_or_comes_too_late_is_rejected(superboxes: dict[str, Superbox]) -> None:
    rows: list[dict[str, Any]] = [
        {"id": 1, "time": 10.0, "x": 150.0, "y": 150.0},
        {"id": 1, "time": 9.0, "x": 0.0, "y": 0.0},
        {"id": 1, "time": 20.0, "x": None, "y": 0.0},
        {"id": None, "time": 20.0, "x": 1.0, "y": 0.0},
        {"id": 1, "time": float("inf"), "x": 1.0, "y": 0.0},
    ]
    got = run(superboxes["integer"], [("gps", n, row) for n, row in enumerate(rows)], [2], {2})
    assert [row["reason"] for row in got["rejects"]] == ["order", "null", "null", "null"]
    assert [(row["zone"], row["time"]) for row in got["entries"]] == [("centre", 10.0)]


def test_the_end_of_the_input_ends_visits() -> None:
    box, schema = ZoneTolls(geojson(), gap=GAP), {"id": "integer", "time": "float", "x": "float", "y": "float"}
    state = box.fresh(schema)
    columns = {"id": np.array([7, 7]), "time": np.array([0.0, 60.0]), "x": np.array([150.0, 160.0])}
    train = Train(np.array([3, 4]), np.zeros(2, np.int64), np.array([[1], [2]]), columns | {"y": columns["x"]})
    assert len(box.step(state, train)["visits"]) == 0
    visits = box.finish(state, 1)["visits"]
    assert [visits[name].tolist() for name in ("id", "zone", "seconds")] == [[7], ["centre"], [60.0]]


BOW = shapely.Polygon([(0, 0), (9, 9), (9, 0), (0, 9)])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not a collection"),
        ("[]", "not a collection"),
        ('{"features": []}', "none"),
        (geojson({"bow": BOW}), "Self-intersection"),
        (geojson({"line": shapely.LineString([(0, 0), (1, 1)])}), "not a polygon"),
        (geojson(prices={"centre": {"entry": -1}}), "entry is -1"),
        (geojson(prices={"centre": {"per_km": "dear"}}), "per_km is 'dear'"),
        (geojson().replace("corner", "centre"), "centre, centre"),
    ],
)
def test_zones_that_cannot_be_used_are_refused(text: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        parse_zones(text)


def test_a_stream_in_degrees_is_measured_in_metres(tmp_path: Any) -> None:
    file = tmp_path / "zones.geojson"
    file.write_text(geojson({"berlin": shapely.box(13.3, 52.4, 13.5, 52.6)}, {"berlin": {"per_km": 1}}))
    gps = ss.read("kafka://broker:9092/gps", {"id": "string", "time": "double", "lon": "double", "lat": "double"})
    visits = gps.charge_zones(file)
    assert visits.columns == ["id", "zone", "entered", "exited", "seconds", "metres", "amount"]
    assert visits.output("entries").columns == ["id", "zone", "time"]
