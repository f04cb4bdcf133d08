"""The API of the Trajectories page agrees with values computed by hand."""

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

from slipstream._archive.trip_tables import mark_linear_city
from slipstream._berlinmod.dataset import MCAR, MTRIP, DatasetManifest, write_manifest
from slipstream._console.guard import AccessRules
from slipstream._console.server import create
from slipstream._io import outputs
from slipstream._moving.moving_point import MovingPoint, to_arrow
from slipstream._runtime.job import JobFile

HERE = "http://127.0.0.1:8321"
DAY = datetime(2007, 5, 28, tzinfo=UTC)
START = DAY.timestamp()


def drive(*vertices: tuple[float, float, float]) -> MovingPoint:
    """A movement through (second of the day, x, y)."""
    return MovingPoint.of([[(DAY + timedelta(seconds=t), x, y) for t, x, y in vertices]])


#: one crosses the square (0, 0)-(100, 100) from west to east in 30 of 50 seconds, then rests far away; one never comes
CROSSES, RESTS = drive((0, -100, 50), (50, 150, 50)), drive((50, 150, 50), (1000, 150, 50))
ELSEWHERE = drive((10, 500, 500), (40, 500, 800))


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("journeys")
    data = folder / "town"
    for name in ("dataMcar", "dataMtrip"):
        (data / name).mkdir(parents=True)
    cars = [[1, 2], ["B-AA 1", "B-BB 2"], ["Opel", "Fiat"], ["passenger", "bus"]]
    pq.write_table(pa.Table.from_arrays([pa.array(c) for c in cars], schema=MCAR), data / "dataMcar" / "a.parquet")
    trips = [pa.array([1, 2, 1]), pa.array(["B-AA 1", "B-BB 2", "B-AA 1"]), pa.array([1, 3, 2])]
    moved = to_arrow([CROSSES, ELSEWHERE, RESTS])
    pq.write_table(pa.Table.from_arrays([*trips, moved], schema=MTRIP), data / "dataMtrip" / "a.parquet")
    write_manifest(data, DatasetManifest("a test", 2, 3, 3, DAY.isoformat(), DAY.isoformat()))
    answer = data / "answers" / "tba" / "q02"
    answer.mkdir(parents=True)
    rows = {"Licence": ["B-AA 1"], "Pos": [{"x": 3.0, "y": 4.0}], "Instant": [DAY]}
    pq.write_table(pa.table(rows), answer / "part-0.parquet")
    (answer / "_SUCCESS").touch()
    archived = pa.table({"vid": [7, 7], "xway": [0, 0], "dir": [0, 0], "Trip": to_arrow([CROSSES, ELSEWHERE])})
    for name in ("archive", "own"):
        trips_ = folder / name / "trips"
        trips_.mkdir(parents=True)
        pq.write_table(archived, trips_ / "a.parquet")
    mark_linear_city(folder / "archive")
    # archive outputs of networks, whatever their names are
    named = pa.table({"vin": ["WVW 1", "WVW 2"], "Trip": to_arrow([CROSSES, ELSEWHERE])})
    other = pa.table({"id": [1]})
    for job, tables in (("fleet", {"journeys": named, "alerts": other}), ("two", {"cars": named, "vans": named[:1]})):
        out = folder / job
        JobFile("network", 1, {}).write(out)
        committed = outputs.Outputs(out, "id", {name: table.schema for name, table in tables.items()})
        committed.commit(0, [outputs.write(out, name, table, 0) for name, table in tables.items()])
    return folder


@pytest.fixture(scope="module")
def page(town: Path) -> Iterator[TestClient]:
    with TestClient(create(town, AccessRules(), "local[2]"), base_url=HERE, headers={"x-slipstream": "1"}) as client:
        yield client


def ask(page: TestClient, path: str, **query: Any) -> Any:
    answer = page.get(f"/api/trajectories{path}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def unpacked(content: bytes, *kinds: str) -> list[Any]:
    """What ``packed`` packed, read by the description alone."""
    count = int(np.frombuffer(content, "<u4", 1)[0])
    lengths = np.frombuffer(content, "<u4", count, 4).tolist()
    place, found = -(-(4 + 4 * count) // 8) * 8, []
    for kind, length in zip(kinds, lengths, strict=True):
        found.append(np.frombuffer(content, kind, length, place))
        place += -(-4 * length // 8) * 8
    return found


def test_data_sets_and_archives_are_found_and_described(page: TestClient) -> None:
    assert ask(page, "")["data_sets"] == ["archive", "fleet", "own", "town", "two/cars", "two/vans"]
    assert [vehicle["licence"] for vehicle in ask(page, "/data", data="fleet")["vehicles"]] == ["WVW 1", "WVW 2"]
    assert [vehicle["licence"] for vehicle in ask(page, "/data", data="two/vans")["vehicles"]] == ["WVW 1"]
    town = ask(page, "/data", data="town")
    assert (town["begin"], town["end"], town["trips"], town["units"]) == (START, START + 1000, 3, 3)
    assert town["box"] == [-100, 50, 500, 800]
    assert town["vehicles"][1] == {"licence": "B-BB 2", "model": "Fiat", "type": "bus"}
    assert [vehicle["licence"] for vehicle in ask(page, "/data", data="archive")["vehicles"]] == ["7"]


def test_movement_is_cut_to_the_span_that_was_asked_for(page: TestClient) -> None:
    content = page.get(
        "/api/trajectories/movement", params={"data": "town", "begin": START + 20, "seconds": 10}
    ).content
    offsets, whose, t, x, y = unpacked(content, "<i4", "<i4", "<f4", "<f4", "<f4")
    parts = zip(whose.tolist(), offsets[:-1], offsets[1:], strict=True)
    rows = {who: list(zip(t[a:b], x[a:b], y[a:b], strict=True)) for who, a, b in parts}
    assert rows[0] == [(0, 0, 50), (10, 50, 50)]
    assert rows[1] == [(0, 500, 600), (10, 500, 700)]


def test_a_vehicle_tells_its_drives_and_path(page: TestClient) -> None:
    history = ask(page, "/vehicle", data="town", number=0)
    assert history["metres"] == pytest.approx(250)
    (drive_,) = history["drives"]
    assert drive_ == {"begin": START, "end": START + 50, "metres": 250.0, "fastest": pytest.approx(5.0)}
    assert history["lines"] == [[[-100, 50], [150, 50]]]
    assert page.get("/api/trajectories/vehicle", params={"data": "town", "number": 2}).status_code >= 400


SQUARE = [[0, 0], [100, 0], [100, 100], [0, 100]]


@pytest.mark.parametrize(
    ("begin", "end", "seconds"), [(0, 1000, 20.0), (0, 30, 10.0), (30, 35, 5.0), (40, 1000, 0.0), (41, 1000, None)]
)
def test_who_was_in_a_region_in_a_period(page: TestClient, begin: int, end: int, seconds: float | None) -> None:
    body = {"data": "town", "region": SQUARE, "begin": START + begin, "seconds": end - begin}
    answer = page.post("/api/trajectories/who", json=body)
    assert answer.status_code == 200, answer.text
    stays = answer.json()["stays"]
    expected = [] if seconds is None else [(0, pytest.approx(seconds))]
    assert [(stay["vehicle"], stay["seconds"]) for stay in stays] == expected


def test_a_question_that_makes_no_sense_is_refused(page: TestClient) -> None:
    for wrong in ({"region": SQUARE[:2]}, {"seconds": -9}, {"data": "nowhere"}):
        body = {"data": "town", "region": SQUARE, "begin": START, "seconds": 9} | wrong
        assert page.post("/api/trajectories/who", json=body).status_code in (400, 404, 422)


def test_answers_are_shown_with_their_places(page: TestClient) -> None:
    (found,) = ask(page, "/data", data="town")["answers"]
    assert (found["query"], found["rows"]) == (2, {"tba": 1})
    answer = ask(page, "/answer", data="town", query=2)
    assert answer["rows"] == [["B-AA 1", "(3.0, 4.0)", "Mon 2007-05-28 00:00:00"]]
    assert (answer["points"], answer["licences"]) == ([[3.0, 4.0]], ["B-AA 1"])
    missing = page.get("/api/trajectories/answer", params={"data": "town", "query": 3})
    assert "slipstream berlinmod run" in json.dumps(missing.json())


def test_streets_of_an_archive_are_its_expressways(page: TestClient) -> None:
    content = page.get("/api/trajectories/streets", params={"data": "archive"}).content
    offsets, x, y, speed = unpacked(content, "<i4", "<f4", "<f4", "<f4")
    assert offsets.tolist() == [0, 2]
    assert (x.tolist(), y.tolist(), speed.tolist()) == ([-100, 500], [0, 0], [70])


def test_own_trips_in_the_layout_of_an_archive_are_on_no_expressway(page: TestClient) -> None:
    content = page.get("/api/trajectories/streets", params={"data": "own"}).content
    offsets, *lines = unpacked(content, "<i4", "<f4", "<f4", "<f4")
    assert offsets.tolist() == [0]
    assert [line.tolist() for line in lines] == [[], [], []]
    assert [vehicle["licence"] for vehicle in ask(page, "/data", data="own")["vehicles"]] == ["7"]
