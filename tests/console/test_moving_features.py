"""OGC API - Moving Features: what the server says is what the standard calls valid, and what the trips say.

The schemas are written from the facts of the standard (OGC 22-003r3 and MF-JSON, OGC 19-045r3). Covered are the
requirements for reading of the classes ``common`` (bbox, datetime, limit), ``mf-collection`` (collections-get,
collection-get, mandatory-collection) and ``movingfeatures`` (features-get, mf-get, tgsequence-get, tproperties-get,
tproperty-get, param-leaf, param-subtrajectory, param-subtemporalvalue). Where the schemas
that are published with the standard contradict its text or its own examples, these follow the text: a sequence may have
a single instant (the parameter ``leaf`` and a parked vehicle require it), a life span may then begin when it ends, and
the values of a temporal property are a list.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker

from slipstream._console.guard import AccessRules
from slipstream._console.moving_features import feature_routes
from slipstream._console.server import create
from slipstream._moving.moving_point import MovingPoint, to_arrow
from slipstream._moving.space.systems import System
from slipstream._trajectories import data

HERE = "http://127.0.0.1:8321"
ROOT = "/api/movingfeatures"
BERLIN = System.parse("EPSG:32633")
START = datetime(2026, 5, 4, 8, tzinfo=UTC)

# --- the standard, as far as it says what a response looks like

LINK = {
    "type": "object",
    "required": ["href", "rel"],
    "properties": {"href": {"type": "string", "format": "uri"}, "rel": {"type": "string"}, "type": {"type": "string"}},
}
LINKS = {"type": "array", "items": LINK, "contains": {"properties": {"rel": {"const": "self"}}}}
INSTANT = {"type": "string", "format": "date-time"}
INSTANTS = {"type": "array", "items": INSTANT, "minItems": 1, "uniqueItems": True}
NUMBER = {"type": "number"}
PLACE = {"type": "array", "items": NUMBER, "minItems": 2, "maxItems": 3}
BOX = {"type": "array", "items": NUMBER, "minItems": 4, "maxItems": 4}
NAMED = {
    "type": "object",
    "required": ["type", "properties"],
    "properties": {
        "type": {"const": "Name"},
        "properties": {
            "type": "object",
            "required": ["name"],
            "additionalProperties": False,
            "properties": {"name": {"type": "string"}},
        },
    },
}
PAGE = {
    "timeStamp": INSTANT,
    "numberMatched": {"type": "integer", "minimum": 0},
    "numberReturned": {"type": "integer", "minimum": 0},
    "links": LINKS,
    "crs": NAMED,
    "trs": NAMED,
}
PRIMITIVE = {
    "type": "object",
    "required": ["type", "coordinates", "datetimes"],
    "properties": {
        "type": {"const": "MovingPoint"},
        "coordinates": {"type": "array", "items": PLACE, "minItems": 1},
        "datetimes": INSTANTS,
        "interpolation": {"enum": ["Discrete", "Step", "Linear", "Quadratic", "Cubic"]},
    },
}
COMPLEX = {
    "type": "object",
    "required": ["type", "prisms"],
    "properties": {"type": {"const": "MovingGeometryCollection"}, "prisms": {"type": "array", "items": PRIMITIVE}},
}


def geojson(kind: str, coordinates: dict[str, Any]) -> dict[str, Any]:
    return {"required": ["type", "coordinates"], "properties": {"type": {"const": kind}, "coordinates": coordinates}}


def many(items: dict[str, Any], least: int = 1) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": least}


SIMPLE = [
    geojson("Point", PLACE),
    geojson("MultiPoint", many(PLACE)),
    geojson("LineString", many(PLACE, 2)),
    geojson("MultiLineString", many(many(PLACE, 2))),
]
COLLECTED = {
    "required": ["type", "geometries"],
    "properties": {"type": {"const": "GeometryCollection"}, "geometries": many({"oneOf": SIMPLE})},
}
FEATURE = {
    "type": "object",
    "required": ["id", "type", "geometry", "properties"],
    "properties": {
        "type": {"const": "Feature"},
        "id": {"type": ["string", "integer"]},
        "properties": {"type": ["object", "null"]},
        "geometry": {"oneOf": [*SIMPLE, COLLECTED]},
        "bbox": BOX,
        "time": {"type": "array", "items": INSTANT, "minItems": 2, "maxItems": 2},
        "temporalGeometry": {"oneOf": [PRIMITIVE, COMPLEX]},
        "links": LINKS,
        "crs": NAMED,
        "trs": NAMED,
    },
}
FEATURES = {
    "type": "object",
    "required": ["type", "features", "numberMatched", "numberReturned", "timeStamp", "links"],
    "properties": {"type": {"const": "FeatureCollection"}, "features": {"type": "array", "items": FEATURE}, **PAGE},
}
COLLECTION = {
    "type": "object",
    "required": ["id", "links", "itemType"],
    "properties": {
        "id": {"type": "string"},
        "itemType": {"const": "movingfeature"},
        "links": LINKS,
        "crs": {"type": "array", "items": {"type": "string", "format": "uri"}},
        "extent": {
            "properties": {
                "spatial": {"required": ["bbox"], "properties": {"bbox": many(BOX)}},
                "temporal": {
                    "required": ["interval"],
                    "properties": {"interval": many({"type": "array", "items": INSTANT, "minItems": 2, "maxItems": 2})},
                },
            }
        },
    },
}
COLLECTIONS = {
    "type": "object",
    "required": ["collections", "links"],
    "properties": {"collections": {"type": "array", "items": COLLECTION}, "links": LINKS},
}
SEQUENCE = {
    "type": "object",
    "required": ["type", "geometrySequence"],
    "properties": {
        "type": {"const": "TemporalGeometrySequence"},
        "geometrySequence": {"type": "array", "items": {**PRIMITIVE, "required": ["id", *PRIMITIVE["required"]]}},
        **PAGE,
    },
}
INTERPOLATION = {"enum": ["Discrete", "Step", "Linear", "Regression"]}
PROPERTY = {
    "type": "object",
    "required": ["name", "type"],
    "properties": {
        "name": {"type": "string"},
        "type": {"enum": ["TBoolean", "TText", "TInteger", "TReal", "TImage"]},
        "valueSequence": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["datetimes", "values", "interpolation"],
                "properties": {
                    "datetimes": INSTANTS,
                    "values": many({"type": ["number", "string", "boolean"]}),
                    "interpolation": INTERPOLATION,
                },
            },
        },
    },
}
PARAMETRIC = {
    "type": "object",
    "required": ["datetimes"],
    "properties": {"datetimes": INSTANTS},
    "additionalProperties": {
        "required": ["type", "values"],
        "properties": {
            "type": {"enum": ["Measure", "Text"]},
            "values": many({"type": ["number", "string", "boolean"]}),
            "interpolation": INTERPOLATION,
        },
    },
}
PROPERTIES = {
    "type": "object",
    "required": ["temporalProperties"],
    "properties": {
        "temporalProperties": {
            "oneOf": [{"type": "array", "items": PROPERTY}, {"type": "array", "items": PARAMETRIC, "minItems": 1}]
        },
        **PAGE,
    },
}
LANDING = {"type": "object", "required": ["links"], "properties": {"links": LINKS}}
CONFORMANCE = {
    "type": "object",
    "required": ["conformsTo"],
    "properties": {"conformsTo": many({"type": "string", "format": "uri"})},
}


# --- trips


def at(minutes: float) -> str:
    return (START + timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z")


def moving(*sequences: list[tuple[float, float, float]]) -> MovingPoint:
    """A movement through (minutes after the start, lon, lat)."""

    def vertex(minute: float, lon: float, lat: float) -> tuple[datetime, float, float]:
        x, y = BERLIN.project([lon], [lat])
        return START + timedelta(minutes=minute), float(x[0]), float(y[0])

    return MovingPoint.of([[vertex(*each) for each in sequence] for sequence in sequences])


#: from west to east in ten minutes, an hour later back in two pieces with a gap; beside it, one that is parked
BUS = [
    moving([(0, 13.40, 52.50), (10, 13.50, 52.50)]),
    moving([(60, 13.50, 52.50), (65, 13.45, 52.50)], [(70, 13.45, 52.51), (75, 13.40, 52.51)]),
]
PARKED = [moving([(30, 13.0, 52.0)])]
FUEL = [{"t": [0, 10], "value": [50.0, 40.0]}, {"t": [60, 75], "value": [40.0, 25.0]}, {"t": [30], "value": [7.0]}]
DOORS = [{"t": [0, 5], "value": ["shut", "open"]}, {"t": [60], "value": ["open"]}, {"t": [30], "value": ["shut"]}]


def over_time(rows: list[dict[str, Any]], interpolation: str) -> pa.Array:
    made = [
        {
            "t": [START + timedelta(minutes=minute) for minute in row["t"]],
            "value": row["value"],
            "starts": [0],
            "interpolation": interpolation,
        }
        for row in rows
    ]
    value = pa.float64() if isinstance(rows[0]["value"][0], float) else pa.string()
    fields = [
        ("t", pa.list_(pa.timestamp("us", "UTC"))),
        ("value", pa.list_(value)),
        ("starts", pa.list_(pa.int32())),
        ("interpolation", pa.string()),
    ]
    return pa.array(made, pa.struct(fields))


def write_data(folder: Path, table: pa.Table, crs: str = BERLIN.name) -> None:
    (folder / "trips").mkdir(parents=True)
    pq.write_table(table, folder / "trips" / "a.parquet")
    counts = {"rows": 9, "vertices": 9, "trips": table.num_rows, "movers": 2, "rejects": {}}
    body = {"format": data.FORMAT, "version": data.VERSION, "crs": crs, "counts": counts, "options": {}}
    (folder / data.MANIFEST).write_text(json.dumps(body))


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("features")
    # not in the order of time
    trips = to_arrow([BUS[1], PARKED[0], BUS[0]])
    rows = {"id": ["bus/1", "parked", "bus/1"], "number": [2, 1, 1], "Trip": trips}
    fuel, doors = over_time([FUEL[1], FUEL[2], FUEL[0]], "linear"), over_time([DOORS[1], DOORS[2], DOORS[0]], "step")
    write_data(folder / "town" / "monday", pa.table({**rows, "fuel": fuel, "doors": doors}))
    write_data(folder / "plain", pa.table(rows))
    write_data(folder / "nowhere", pa.table(rows), crs="")
    return folder


@pytest.fixture(scope="module")
def page(workspace: Path) -> Iterator[TestClient]:
    with TestClient(create(workspace, AccessRules(), "local[2]"), base_url=HERE) as client:
        yield client


MONDAY = "/collections/town~1monday"
BUS_1 = f"{MONDAY}/items/bus~11"


def ask(page: TestClient, path: str, schema: dict[str, Any], **query: Any) -> Any:
    answer = page.get(ROOT + path, params=query)
    assert answer.status_code == 200, answer.text
    body = answer.json()
    Draft202012Validator(schema, format_checker=FormatChecker()).validate(body)
    return body


def ids(body: Any) -> list[str]:
    return [feature["id"] for feature in body["features"]]


# --- what there is


def test_the_landing_page_leads_to_everything(page: TestClient) -> None:
    landing = ask(page, "", LANDING)
    assert {"service-desc", "conformance", "data"} <= {link["rel"] for link in landing["links"]}
    for link in landing["links"]:
        assert page.get(link["href"]).status_code == 200, link
    assert (
        "http://www.opengis.net/spec/ogcapi-movingfeatures-1/1.0/conf/common"
        in (ask(page, "/conformance", CONFORMANCE)["conformsTo"])
    )


def test_data_sets_with_a_reference_system_are_collections(page: TestClient) -> None:
    found = ask(page, "/collections", COLLECTIONS)["collections"]
    assert [(one["id"], one["title"]) for one in found] == [("plain", "plain"), ("town~1monday", "town/monday")]
    assert ask(page, MONDAY, COLLECTION) == found[1]
    extent = found[1]["extent"]
    assert extent["spatial"]["bbox"][0] == pytest.approx([13.0, 52.0, 13.5, 52.51], abs=0.03)
    assert extent["temporal"]["interval"] == [[at(0), at(75)]]
    west, south, east, north = extent["spatial"]["bbox"][0]
    assert west <= 13.0
    assert south <= 52.0
    assert east >= 13.5
    assert north >= 52.51


def test_movers_are_features(page: TestClient) -> None:
    found = ask(page, f"{MONDAY}/items", FEATURES)
    assert ids(found) == ["bus~11", "parked"]
    bus, parked = found["features"]
    assert bus["geometry"]["type"] == "MultiLineString"
    assert bus["geometry"]["coordinates"][0] == [[13.4, 52.5], [13.5, 52.5]]
    assert bus["time"] == [at(0), at(75)]
    assert bus["bbox"] == [13.4, 52.5, 13.5, 52.51]
    assert bus["properties"] == {"trips": 2, "positions": 6, "kilometres": pytest.approx(13.58, abs=0.01)}
    assert parked["geometry"] == {"type": "Point", "coordinates": [13.0, 52.0]}
    assert "temporalGeometry" not in bus
    alone = ask(page, BUS_1, FEATURE)
    assert {name: alone[name] for name in bus} == bus


def test_links_lead_where_they_say(page: TestClient) -> None:
    for feature in ask(page, f"{MONDAY}/items", FEATURES)["features"]:
        for link in feature["links"]:
            assert page.get(link["href"]).status_code == 200, link
    for link in ask(page, MONDAY, COLLECTION)["links"]:
        assert page.get(link["href"]).status_code == 200, link


# --- filters


@pytest.mark.parametrize(
    ("box", "found"),
    [
        ("13.44,52.49,13.46,52.505", ["bus~11"]),  # neither trip has a position in it; the first passes through
        ("12.9,51.9,13.1,52.1", ["parked"]),
        ("13,52,13,52", ["parked"]),
        ("12,51,14,53", ["bus~11", "parked"]),
        ("12,51,-100,14,53,100", ["bus~11", "parked"]),
        ("13.41,52.502,13.44,52.508", []),  # within the box around its trips, but away from their lines
        ("170,-80,-170,80", []),
        ("12,51,-170,80", ["bus~11", "parked"]),
    ],
)
def test_a_box_selects_those_that_were_in_it(page: TestClient, box: str, found: list[str]) -> None:
    assert ids(ask(page, f"{MONDAY}/items", FEATURES, bbox=box)) == found


@pytest.mark.parametrize(
    ("moment", "found"),
    [
        (at(5), ["bus~11"]),
        (f"{at(10)}/{at(20)}", ["bus~11"]),
        (f"{at(11)}/{at(59)}", ["parked"]),
        (at(67), []),  # between two sequences of a trip
        (f"../{at(0)}", ["bus~11"]),
        (f"{at(75)}/..", ["bus~11"]),
        (f"{at(30)}/", ["bus~11", "parked"]),
        ("../..", ["bus~11", "parked"]),
        ("2026-05-04T10:30:00+02:00", ["parked"]),
        (f"{at(76)}/..", []),
    ],
)
def test_a_time_selects_those_that_moved(page: TestClient, moment: str, found: list[str]) -> None:
    assert ids(ask(page, f"{MONDAY}/items", FEATURES, datetime=moment)) == found


def test_pages_make_the_whole(page: TestClient) -> None:
    first = ask(page, f"{MONDAY}/items", FEATURES, limit=1)
    assert (ids(first), first["numberMatched"], first["numberReturned"]) == (["bus~11"], 2, 1)
    (following,) = (link["href"] for link in first["links"] if link["rel"] == "next")
    second = page.get(following).json()
    assert ids(second) == ["parked"]
    assert not [link for link in second["links"] if link["rel"] == "next"]
    assert ids(ask(page, f"{MONDAY}/items", FEATURES, limit=10**9, offset=5)) == []


def test_a_page_has_a_limited_number_of_positions(page: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_routes, "MOST_POSITIONS", 5)
    first = ask(page, f"{MONDAY}/items", FEATURES)
    assert ids(first) == ["bus~11"]
    assert [link for link in first["links"] if link["rel"] == "next"]


# --- movement


def test_the_movement_is_a_sequence_of_geometries(page: TestClient) -> None:
    found = ask(page, f"{BUS_1}/tgsequence", SEQUENCE)
    assert [one["id"] for one in found["geometrySequence"]] == ["1", "2", "3"]
    assert found["geometrySequence"][0] == {
        "id": "1",
        "type": "MovingPoint",
        "datetimes": [at(0), at(10)],
        "coordinates": [[13.4, 52.5], [13.5, 52.5]],
        "interpolation": "Linear",
    }
    later = ask(page, f"{BUS_1}/tgsequence", SEQUENCE, datetime=at(72))
    assert [one["id"] for one in later["geometrySequence"]] == ["3"]
    north = ask(page, f"{BUS_1}/tgsequence", SEQUENCE, bbox="13.4,52.509,13.41,52.511")
    assert [one["id"] for one in north["geometrySequence"]] == ["3"]
    second = ask(page, f"{BUS_1}/tgsequence", SEQUENCE, limit=1, offset=1)
    assert [one["id"] for one in second["geometrySequence"]] == ["2"]


def test_leaf_has_the_positions_at_instants(page: TestClient) -> None:
    leaf = ",".join([at(2.5), at(5), at(67), at(75)])
    found = ask(page, f"{BUS_1}/tgsequence", SEQUENCE, leaf=leaf)
    first, last = found["geometrySequence"]
    assert (first["id"], first["interpolation"]) == ("1", "Discrete")
    assert first["datetimes"] == [at(2.5), at(5)]
    assert first["coordinates"] == [[13.425, 52.5], [13.45, 52.5]]
    assert (last["id"], last["datetimes"]) == ("3", [at(75)])
    assert found["numberMatched"] == 2


def test_sub_trajectory_cuts_to_the_interval(page: TestClient) -> None:
    cut = {"datetime": f"{at(5)}/{at(62.5)}", "subTrajectory": "true"}
    found = ask(page, f"{BUS_1}/tgsequence", SEQUENCE, **cut)["geometrySequence"]
    assert [one["datetimes"] for one in found] == [[at(5), at(10)], [at(60), at(62.5)]]
    assert found[1]["coordinates"] == [[13.5, 52.5], [13.475, 52.5]]
    (bus, parked) = ask(page, f"{MONDAY}/items", FEATURES, **cut)["features"]
    assert bus["temporalGeometry"]["type"] == "MovingGeometryCollection"
    assert [one["datetimes"] for one in bus["temporalGeometry"]["prisms"]] == [one["datetimes"] for one in found]
    assert parked["temporalGeometry"]["coordinates"] == [[13.0, 52.0]]


@given(begin=st.floats(-5, 80), length=st.floats(0.1, 80))
def test_a_cut_is_what_straight_lines_between_positions_say(page: TestClient, begin: float, length: float) -> None:
    cut = {"datetime": f"{at(begin)}/{at(begin + length)}", "subTrajectory": "true"}
    whole = ask(page, f"{BUS_1}/tgsequence", SEQUENCE)["geometrySequence"]
    parts = {one["id"]: one for one in ask(page, f"{BUS_1}/tgsequence", SEQUENCE, **cut)["geometrySequence"]}
    for one in whole:
        first, last = seconds(one["datetimes"][0]), seconds(one["datetimes"][-1])
        low, high = max(first, seconds(at(begin))), min(last, seconds(at(begin + length)))
        assert (one["id"] in parts) == (low <= high)
        if low <= high:
            t = [seconds(text) for text in parts[one["id"]]["datetimes"]]
            assert (t[0], t[-1]) == pytest.approx((low, high), abs=1e-5)
            for place in (0, 1):
                known = np.interp(
                    t, [seconds(text) for text in one["datetimes"]], [c[place] for c in one["coordinates"]]
                )
                assert [c[place] for c in parts[one["id"]]["coordinates"]] == pytest.approx(list(known), abs=2e-7)


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


# --- values over time


def test_values_over_time_are_temporal_properties(page: TestClient) -> None:
    found = ask(page, f"{BUS_1}/tproperties", PROPERTIES)
    assert found["temporalProperties"] == [{"name": "fuel", "type": "TReal"}, {"name": "doors", "type": "TText"}]
    fuel = ask(page, f"{BUS_1}/tproperties/fuel", PROPERTY)
    assert fuel["valueSequence"] == [
        {"datetimes": [at(0), at(10)], "values": [50.0, 40.0], "interpolation": "Linear"},
        {"datetimes": [at(60), at(75)], "values": [40.0, 25.0], "interpolation": "Linear"},
    ]
    assert ask(page, f"{BUS_1}/tproperties/doors", PROPERTY)["valueSequence"][0]["interpolation"] == "Step"
    leaf = ask(page, f"{BUS_1}/tproperties/fuel", PROPERTY, leaf=f"{at(5)},{at(30)},{at(70)}")
    assert leaf["valueSequence"] == [
        {"datetimes": [at(5)], "values": [45.0], "interpolation": "Discrete"},
        {"datetimes": [at(70)], "values": [30.0], "interpolation": "Discrete"},
    ]
    cut = {"datetime": f"{at(5)}/{at(9)}", "subTemporalValue": "true"}
    part = ask(page, f"{BUS_1}/tproperties/fuel", PROPERTY, **cut)
    assert part["valueSequence"] == [{"datetimes": [at(5), at(9)], "values": [45.0, 41.0], "interpolation": "Linear"}]
    every = ask(page, f"{BUS_1}/tproperties", PROPERTIES, **cut)
    assert every["temporalProperties"][0]["fuel"] == {
        "type": "Measure",
        "values": [45.0, 41.0],
        "interpolation": "Linear",
    }
    assert every["temporalProperties"][1]["doors"]["values"] == ["open"]
    assert ask(page, f"{BUS_1}/tproperties", PROPERTIES, datetime=at(40))["temporalProperties"] == []


def test_trips_without_values_have_no_properties(page: TestClient) -> None:
    assert ask(page, "/collections/plain/items/parked/tproperties", PROPERTIES)["temporalProperties"] == []
    assert page.get(f"{ROOT}/collections/plain/items/parked/tproperties/fuel").status_code == 404


# --- mistakes


@pytest.mark.parametrize(
    ("path", "query", "said"),
    [
        (f"{MONDAY}/items", {"bbox": "1,2,3"}, "bbox '1,2,3': not four or six numbers."),
        (f"{MONDAY}/items", {"bbox": "1,2,3,nan"}, "bbox '1,2,3,nan': not four or six numbers."),
        (f"{MONDAY}/items", {"bbox": "391391,5817855,391400,5817900"}, "beyond 180 degrees east"),
        (f"{MONDAY}/items", {"bbox": "1,9,3,4"}, "its south is north of its north"),
        (f"{MONDAY}/items", {"datetime": "yesterday"}, "datetime 'yesterday': not an instant."),
        (f"{MONDAY}/items", {"datetime": "2026-05-04T08:00:00"}, "not an instant"),
        (f"{MONDAY}/items", {"datetime": "2026-13-04T08:00:00Z"}, "not an instant"),
        (f"{MONDAY}/items", {"datetime": f"{at(5)}/{at(1)}"}, "ends before it begins"),
        (f"{MONDAY}/items", {"limit": "0"}, "limit '0': not a whole number of at least 1."),
        (f"{MONDAY}/items", {"limit": "ten"}, "limit 'ten'"),
        (f"{MONDAY}/items", {"offset": "-1"}, "offset '-1'"),
        (f"{MONDAY}/items", {"box": "1,2,3,4"}, "Unknown parameter 'box'."),
        (f"{MONDAY}/items", {"limit": ["1", "2"]}, "limit is given twice."),
        (f"{MONDAY}/items", {"subTrajectory": "yes"}, "subTrajectory 'yes': neither true nor false."),
        (f"{MONDAY}/items", {"subTrajectory": "true"}, "subTrajectory needs a datetime with two ends."),
        (f"{MONDAY}/items", {"subTrajectory": "true", "datetime": at(1)}, "subTrajectory needs a datetime"),
        (f"{BUS_1}/tgsequence", {"leaf": f"{at(5)},{at(5)}"}, "leaf is not in increasing order."),
        (f"{BUS_1}/tgsequence", {"leaf": ",".join([at(5)] * 2000)}, "leaf has 2,000 instants"),
        (
            f"{BUS_1}/tgsequence",
            {"leaf": at(5), "subTrajectory": "true", "datetime": f"{at(1)}/{at(9)}"},
            "leaf and subTrajectory exclude each other.",
        ),
        (f"{BUS_1}/tproperties/fuel", {"leaf": at(5), "subTemporalValue": "true"}, "exclude each other"),
        ("/collections", {"f": "json"}, "Unknown parameter 'f'."),
    ],
)
def test_a_bad_parameter_is_refused(page: TestClient, path: str, query: dict[str, Any], said: str) -> None:
    answer = page.get(ROOT + path, params=query)
    assert answer.status_code == 400, answer.text
    assert said in answer.json()["message"]
    assert answer.json()["code"]
    assert answer.json()["hint"]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/collections/tuesday", "No collection 'tuesday'."),
        ("/collections/nowhere/items", "No collection 'nowhere'."),
        ("/collections/..%2F..%2Fetc/items", "Not Found."),
        (f"{MONDAY}/items/tram", "No moving feature 'tram' in this collection."),
        (f"{MONDAY}/items/tram/tgsequence", "No moving feature 'tram'"),
        (f"{BUS_1}/tproperties/speed", "No temporal property 'speed'."),
    ],
)
def test_what_does_not_exist_is_not_found(page: TestClient, path: str, said: str) -> None:
    answer = page.get(ROOT + path)
    assert (answer.status_code, said in answer.json()["message"]) == (404, True), answer.text


def test_a_damaged_data_set_is_reported_and_does_not_hide_the_others(workspace: Path, tmp_path: Path) -> None:
    write_data(tmp_path / "good", pa.table({"id": ["a"], "number": [1], "Trip": to_arrow(PARKED)}))
    write_data(tmp_path / "bad", pa.table({"id": ["a"]}))
    (tmp_path / "bad" / "trips" / "a.parquet").write_bytes(b"PAR1 not really")
    with TestClient(create(tmp_path, AccessRules(), "local[2]"), base_url=HERE) as page:
        found = ask(page, "/collections", COLLECTIONS)["collections"]
        assert [(one["id"], "extent" in one) for one in found] == [("bad", False), ("good", True)]
        answer = page.get(f"{ROOT}/collections/bad/items")
        assert (answer.status_code, answer.json()["code"]) == (422, "damaged-output")


def test_new_trips_are_seen(tmp_path: Path) -> None:
    write_data(tmp_path / "trips", pa.table({"id": ["a"], "number": [1], "Trip": to_arrow(PARKED)}))
    with TestClient(create(tmp_path, AccessRules(), "local[2]"), base_url=HERE) as page:
        assert ids(ask(page, "/collections/trips/items", FEATURES)) == ["a"]
        more = pa.table({"id": ["b"], "number": [1], "Trip": to_arrow(BUS[:1])})
        pq.write_table(more, tmp_path / "trips" / "trips" / "b.parquet")
        assert ids(ask(page, "/collections/trips/items", FEATURES)) == ["a", "b"]
        assert ask(page, "/collections/trips", COLLECTION)["extent"]["temporal"]["interval"] == [[at(0), at(30)]]


def test_the_page_opens_trips_of_positions(page: TestClient) -> None:
    vehicles = page.get("/api/trajectories/data", params={"data": "plain"}).json()["vehicles"]
    assert [vehicle["licence"] for vehicle in vehicles] == ["bus/1", "parked"]


def test_nothing_can_be_changed(page: TestClient) -> None:
    for method in ("POST", "PUT", "DELETE"):
        assert page.request(method, f"{ROOT}{BUS_1}", headers={"x-slipstream": "1"}).status_code == 405
