"""Queries of a job: over outputs, trips and cuboids; limited, cancellable, read-only."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from fastapi.testclient import TestClient

from console.conftest import HERE, OURS
from console.made_jobs import begun, commit
from slipstream._console.ask import asking
from slipstream._console.ask.asking import Asking
from slipstream._console.guard import AccessRules
from slipstream._console.server import create
from slipstream._cuboid import declare, example_series
from slipstream._cuboid.cuboid_feeds import make_cuboid_feed
from slipstream._cuboid.query.one_off import run_query
from slipstream._cuboid.snapshots.snapshot import Snapshot
from slipstream._io import outputs
from slipstream._io.outputs import Outputs
from slipstream._moving.moving_point import MovingPoint, to_arrow
from slipstream._network.running.filling import build_network, fill
from slipstream._runtime.job import JobFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = datetime(2026, 5, 4, tzinfo=UTC)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, workspace: Path) -> Path:
    """A network's job with numbers, one with trips, and a toll job with cuboids."""
    folder = tmp_path_factory.mktemp("asked")
    made = begun(folder / "cars")
    for batch in range(3):
        commit(made, folder / "cars", batch, [(100 * batch + n, float(n)) for n in range(100)])
    drives = [MovingPoint.of([[(START + timedelta(seconds=k), 10.0 * k * n, 0.0) for k in range(9)]]) for n in (1, 2)]
    trips = pa.table({"vid": [1, 2], "Trip": to_arrow(drives)})
    archive = JobFile("archive", 1, {})
    archive.write(folder / "trips")
    committed = Outputs(folder / "trips", archive.id, {"trips": trips.schema})
    committed.commit(0, [outputs.write(folder / "trips", "trips", trips, 0)], tuples=18)
    shutil.copytree(workspace / "tolled", folder / "tolled")
    return folder


@pytest.fixture
def page(folder: Path, spark: SparkSession) -> Iterator[TestClient]:
    with TestClient(create(folder, AccessRules(), "local[2]"), base_url=HERE, headers=OURS) as client:
        yield client


def ask(page: TestClient, job: str, sql: str, code: int = 200) -> dict[str, Any]:
    answer = page.post("/api/ask/query", json={"job": job, "sql": sql, "id": "a-1"})
    assert answer.status_code == code, answer.text
    return dict(answer.json())


def test_outputs_are_queried_as_of_the_last_commit(page: TestClient, folder: Path) -> None:
    found = ask(page, "cars", "select count(*) as n, sum(speed) as total from fast where vid >= 100")
    assert (found["columns"], found["rows"]) == (["n", "total"], [[200, 9900.0]])
    assert (found["batch"], found["is_cut"]) == (2, False)
    tables = page.get("/api/ask/tables", params={"job": "cars"}).json()
    assert tables == [
        {"name": "fast", "kind": "output", "columns": ["vid", "speed"]},
        {"name": "rejects", "kind": "output", "columns": ["line"]},
    ]


def test_trips_are_queried_with_the_operators_and_shown_on_a_map(page: TestClient) -> None:
    found = ask(page, "trips", "select vid, travelled(Trip) as metres, Trip from trips order by vid")
    assert [row[:2] for row in found["rows"]] == [[1, 80.0], [2, 160.0]]
    assert found["rows"][0][2].startswith("9 points, 2026-05-04 00:00:00")
    assert found["path_rows"] == [0, 1]
    assert found["paths"][1] == [[float(n) for k in range(9) for n in (20 * k, 0)]]


def test_a_result_has_a_limit(page: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "MOST_ROWS", 10)
    found = ask(page, "cars", "select vid from fast order by vid")
    assert ([row[0] for row in found["rows"]], found["is_cut"]) == (list(range(10)), True)


@pytest.mark.parametrize(
    ("job", "sql", "words"),
    [
        ("cars", "select nothing from fast", "nothing"),
        ("cars", "select * from alerts", "No table 'alerts'"),
        ("cars", "drop table fast", "one SELECT"),
        ("cars", "select * from parquet.`/etc/passwd`", "No table"),
        ("cars", "select reflect('a', 'b') from fast", "may not be used"),
        ("cars", "select speed / vid from fast where", ""),
    ],
)
def test_a_query_that_cannot_be_run_says_why(page: TestClient, job: str, sql: str, words: str) -> None:
    found = ask(page, job, sql, 409)
    assert words in found["message"]
    assert found["hint"]


def test_cuboids_are_queried_without_spark(spark: SparkSession, tmp_path: Path) -> None:
    """By Streamonas-SQL, whose result is that of the command line."""
    script = declare.parse("CREATE CUBOID stock (stock_id INT KEY, price FLOAT AST(8))")
    example_series.write(tmp_path / "ticks", 40, seed=2, files=1)
    feed = make_cuboid_feed(str(tmp_path / "ticks"), script.cuboids["stock"])
    fill(spark, feed, build_network(script), tmp_path / "stocks", fragments=2)
    sql = "SELECT stock_id, avg(price) FROM stock"
    with (
        patch.object(Asking, "_session_for", side_effect=AssertionError),
        TestClient(create(tmp_path, AccessRules(), "local[2]"), base_url=HERE, headers=OURS) as page,
    ):
        assert page.get("/api/ask/tables", params={"job": "stocks"}).json()[-1] == {
            "name": "stock", "kind": "cuboid", "columns": ["stock_id", "price"],
        }  # fmt: skip
        found = ask(page, "stocks", sql)
        expected = run_query(Snapshot.open(tmp_path / "stocks"), sql)
        assert {row[0]: row[1] for row in found["rows"]} == pytest.approx(dict(zip(*expected.values(), strict=True)))
        assert "nope" in ask(page, "stocks", "SELECT nope FROM stock", 409)["message"]


def test_a_job_elsewhere_cannot_be_queried(page: TestClient) -> None:
    for name in ("../asked/cars", "/", "nowhere"):
        ask(page, name, "select 1", 404)


def test_a_query_is_cancelled_and_ends_in_time(page: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = (
        "select count(*) as n from fast a cross join fast b cross join fast c cross join fast d where a.speed > b.vid"
    )
    ask(page, "cars", "select 1 as one from fast")  # the session is there
    cancelled: list[int] = []

    def cancel() -> None:
        while page.post("/api/ask/cancel", json={"id": "a-1"}).status_code == 404:
            time.sleep(0.05)
        cancelled.append(1)

    thread = threading.Thread(target=cancel)
    thread.start()
    assert "cancelled" in ask(page, "cars", slow, 503)["message"]
    thread.join()
    monkeypatch.setattr(asking, "SECONDS", 0.2)
    assert "cancelled" in ask(page, "cars", slow, 503)["message"]
    assert cancelled == [1]
    monkeypatch.setattr(asking, "SECONDS", 60.0)
    assert ask(page, "cars", "select count(*) as n from fast")["rows"] == [[300]]
