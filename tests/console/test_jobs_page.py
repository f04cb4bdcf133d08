"""The Jobs page lists, describes and controls every kind of job."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from console.conftest import HERE, OURS
from console.made_jobs import begun, commit
from slipstream._console import shared_answers
from slipstream._console.guard import AccessRules
from slipstream._console.server import create
from slipstream._runtime import job
from slipstream._runtime.watching.status import Status


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    monkeypatch.setattr(shared_answers, "_FRESH_S", -1.0)  # every request sees what was just committed
    with TestClient(create(tmp_path, AccessRules(), "local[1]"), base_url=HERE, headers=OURS) as client:
        yield client


def listed(page: TestClient) -> dict[str, Any]:
    answer = page.get("/api/jobs")
    assert answer.status_code == 200, answer.text
    return {one["name"]: one for one in answer.json()}


def detail(page: TestClient, name: str) -> dict[str, Any]:
    answer = page.get("/api/jobs/job", params={"job": name})
    assert answer.status_code == 200, answer.text
    return answer.json()  # type: ignore[no-any-return]


def test_a_job_is_followed_as_it_commits(page: TestClient, tmp_path: Path) -> None:
    folder = tmp_path / "jobs" / "cars"
    committed = begun(folder)
    assert listed(page)["jobs/cars"] == {
        "name": "jobs/cars", "kind": "network", "state": "new", "batches": 0, "committed_at": None, "source": "",
        "rate": None, "lag": None, "response": None, "why": "",
        "verdict": {"level": "calm", "text": "Never started", "hint": ""},
    }  # fmt: skip
    commit(committed, folder, 0, [(1, 50.0), (2, float("nan"))])
    found = detail(page, "jobs/cars")
    assert (found["batches"], found["tuples"], found["rejects"]) == (1, 2, 1)
    assert found["settings"] == {"source": "cars.csv", "parallel": "2"}
    sizes = {one["name"]: (one["columns"], one["rows"]) for one in found["outputs"]}
    assert sizes == {"fast": (["vid", "speed"], 2), "rejects": (["line"], 0)}
    commit(committed, folder, 1, [(3, 30.0)])
    found = detail(page, "jobs/cars")
    assert (found["batches"], found["tuples"]) == (2, 3)
    assert [one["tuples"] for one in found["recent"]] == [2, 1]
    rows = page.get("/api/jobs/rows", params={"job": "jobs/cars", "output": "fast"}).json()
    assert rows == {"columns": ["vid", "speed"], "rows": [[1, 50.0], [2, None], [3, 30.0]]}
    rows = page.get("/api/jobs/rows", params={"job": "jobs/cars", "output": "fast", "last": 1}).json()
    assert rows["rows"] == [[3, 30.0]]


def test_rows_that_are_not_committed_do_not_count(page: TestClient, tmp_path: Path) -> None:
    committed = begun(tmp_path / "cars")
    commit(committed, tmp_path / "cars", 0, [(1, 50.0)])
    whole = (tmp_path / "cars" / "batches.jsonl").read_bytes()
    commit(committed, tmp_path / "cars", 1, [(2, 60.0)])
    (tmp_path / "cars" / "batches.jsonl").write_bytes(whole)
    found = {one["name"]: one["rows"] for one in detail(page, "cars")["outputs"]}
    assert found["fast"] == 1
    assert page.get("/api/jobs/rows", params={"job": "cars", "output": "fast"}).json()["rows"] == [[1, 50.0]]


def test_a_folder_that_is_begun_anew_is_another_job(page: TestClient, tmp_path: Path) -> None:
    for rows in ([(1, 1.0), (2, 2.0)], [(3, 3.0)]):
        shutil.rmtree(tmp_path / "cars", ignore_errors=True)
        commit(begun(tmp_path / "cars"), tmp_path / "cars", 0, rows)
        assert detail(page, "cars")["tuples"] == len(rows)


@pytest.mark.parametrize(
    ("state", "why", "shown"),
    [
        ("starting", "", "starting"),
        ("ready", "", "ready"),
        ("running", "", "running"),
        ("stopped", "finished", "finished"),
        ("stopped", "asked to stop", "stopped"),
        ("stopped", "interrupted", "stopped"),
        ("stopped", "cars.csv: no such file.", "failed"),
    ],
)
def test_the_state_of_a_job_is_told(page: TestClient, tmp_path: Path, state: str, why: str, shown: str) -> None:
    begun(tmp_path / "cars")
    Status(tmp_path / "cars", "cars.csv").enter(state, why)
    assert listed(page)["cars"]["state"] == shown
    found = detail(page, "cars")
    assert (found["state"], found["why"], found["source"]) == (shown, why, "cars.csv")
    assert abs(found["since"] - time.time()) < 3600


def test_a_job_that_was_killed_is_gone(page: TestClient, tmp_path: Path) -> None:
    begun(tmp_path / "cars")
    Status(tmp_path / "cars", "cars.csv").enter("running")
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    body = json.loads((tmp_path / "cars" / "status.json").read_text())
    (tmp_path / "cars" / "status.json").write_text(json.dumps(body | {"pid": ended.pid}))
    assert detail(page, "cars")["state"] == "gone"


def test_a_running_job_is_paused_stepped_resumed_and_stopped(page: TestClient, tmp_path: Path) -> None:
    begun(tmp_path / "cars")
    body = {"job": "cars", "want": "pause"}
    assert page.post("/api/jobs/want", json=body).status_code == 409
    Status(tmp_path / "cars", "cars.csv").enter("running")
    assert page.post("/api/jobs/want", json=body).json()["state"] == "paused"
    for want, word in (("step", "1"), ("run", "run"), ("stop", "stop")):
        assert page.post("/api/jobs/want", json={"job": "cars", "want": want}).status_code == 200
        assert job.control(tmp_path / "cars").requested == word
    assert page.post("/api/jobs/want", json={"job": "cars", "want": "dance"}).status_code == 422


def test_what_cannot_be_read_is_said_and_the_rest_is_shown(page: TestClient, tmp_path: Path) -> None:
    for name in ("job", "journal", "status", "metrics", "table", "cuboids"):
        commit(begun(tmp_path / name), tmp_path / name, 0, [(1, 1.0)])
    (tmp_path / "job" / "job.json").write_text("{")
    (tmp_path / "journal" / "batches.jsonl").write_text('{"batch": "none"}\n')
    (tmp_path / "status" / "status.json").write_text("[]")
    (tmp_path / "metrics" / "metrics.jsonl").write_text("{}\n")
    log = next((tmp_path / "table" / "outputs" / "fast" / "_delta_log").glob("*0.json"))
    log.write_text("nothing")
    (tmp_path / "cuboids" / "snapshot").mkdir()
    (tmp_path / "cuboids" / "snapshot" / "cuboids.json").write_text("{}")
    states = {name: one["state"] for name, one in listed(page).items()}
    assert states == {
        **dict.fromkeys(("job", "journal"), "damaged"),
        **dict.fromkeys(("status", "metrics", "table", "cuboids"), "new"),
    }
    assert "job.json: damaged" in detail(page, "job")["why"]
    for name, words in (("journal", "batches.jsonl"), ("table", "outputs/fast"), ("cuboids", "cuboids.json")):
        assert any(words in problem for problem in detail(page, name)["problems"]), name
    verdicts = [listed(page)["journal"]["verdict"], detail(page, "journal")["verdict"]]
    assert all(one["level"] == "bad" and "batches.jsonl" in one["text"] for one in verdicts), verdicts
    assert detail(page, "metrics")["recent"][0]["commit_s"] is None
    assert [one["name"] for one in detail(page, "table")["outputs"]] == ["rejects"]


def test_metrics_are_those_of_the_last_time_a_batch_ran(page: TestClient, tmp_path: Path) -> None:
    commit(begun(tmp_path / "cars"), tmp_path / "cars", 0, [(1, 1.0)])
    line = {"batch": 0, "start": 1.0, "since": -1, "until": -1, "phases_ms": {}, "state_bytes": 10, "run": "a"}
    lines = [json.dumps({**line, "commit_ms": ms}) for ms in (900, 250)]
    (tmp_path / "cars" / "metrics.jsonl").write_text("\n".join(lines) + '\n{"cut')
    found = detail(page, "cars")
    assert (found["commit_s"], found["state_bytes"]) == (0.25, 10)


def test_what_a_job_reads_is_named_as_the_page_names_it(page: TestClient, tmp_path: Path) -> None:
    begun(tmp_path / "cars")
    for source, shown in (
        (str(tmp_path / "runs" / "city"), "runs/city"),
        ("/elsewhere/city", "city"),
        ("kafka:localhost:9092/cars", "kafka:localhost:9092/cars"),
        (f"cars={tmp_path / 'cars.csv'}, more=/elsewhere/more.csv", "cars=cars.csv, more=more.csv"),
    ):
        Status(tmp_path / "cars", source).enter("running")
        assert detail(page, "cars")["source"] == shown


def test_only_toll_jobs_are_results_of_the_city(page: TestClient, tmp_path: Path, workspace: Path) -> None:
    shutil.copytree(workspace / "tolled", tmp_path / "tolled")
    for kind in ("network", "cuboid", "archive"):
        begun(tmp_path / kind, kind)
    assert page.get("/api/city/choices").json()["results"] == ["tolled"]
    assert set(listed(page)) == {"tolled", "network", "cuboid", "archive"}
    assert detail(page, "tolled")["kind"] == "toll"
    assert {one["name"] for one in detail(page, "tolled")["outputs"]} >= {"notifications", "alerts", "rejects"}


def test_a_job_elsewhere_is_not_there(page: TestClient, tmp_path: Path) -> None:
    begun(tmp_path.parent / "elsewhere")
    (tmp_path / "linked").symlink_to(tmp_path.parent / "elsewhere")
    for name in ("../elsewhere", "linked", str(tmp_path.parent / "elsewhere"), "nowhere"):
        assert page.get("/api/jobs/job", params={"job": name}).status_code == 404
        assert page.post("/api/jobs/want", json={"job": name, "want": "stop"}).status_code == 404
    begun(tmp_path / "cars")
    assert page.get("/api/jobs/rows", params={"job": "cars", "output": "../../x"}).status_code == 404
