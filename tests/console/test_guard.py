"""Who may ask the console: names, origins, tokens, sizes, and nothing outside the workspace."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from console.conftest import HERE, OURS
from slipstream._console.guard import BODY_LIMIT, Rules
from slipstream._console.server import create, page_advice
from slipstream._runtime.job import FILE

TOKEN = "a-token-for-the-wall-0123456789"


@pytest.fixture
def empty(tmp_path: Path) -> TestClient:
    return TestClient(create(tmp_path, Rules(), "local[2]"), base_url=HERE)


@pytest.fixture
def guarded(tmp_path: Path) -> TestClient:
    return TestClient(create(tmp_path, Rules("0.0.0.0", 8321, TOKEN), "local[2]"), base_url=HERE)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8321", "127.0.0.1", "127.0.0.1:80", ""])
def test_another_name_for_this_machine_is_refused(empty: TestClient, host: str) -> None:
    assert empty.get("/api/city", headers={"host": host}).status_code == 421


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-slipstream": "0"},
        {**OURS, "origin": "http://evil.example"},
        {**OURS, "origin": "null"},
        {**OURS, "origin": "http://127.0.0.1:9999"},
        {**OURS, "sec-fetch-site": "cross-site"},
        {**OURS, "sec-fetch-site": "same-site"},
    ],
)
def test_other_sites_change_nothing(empty: TestClient, headers: dict[str, str]) -> None:
    assert empty.post("/api/city/stop", headers=headers).status_code == 403


def test_our_page_may(empty: TestClient) -> None:
    headers = {**OURS, "origin": HERE, "sec-fetch-site": "same-origin"}
    assert empty.post("/api/city/stop", headers=headers).status_code == 409


def test_bodies_are_limited_also_when_their_length_is_not_told(empty: TestClient) -> None:
    big = b"x" * (BODY_LIMIT + 1)
    assert empty.post("/api/city/start", headers=OURS, content=big).status_code == 413
    assert empty.post("/api/city/start", headers=OURS, content=iter([big])).status_code == 413


@pytest.mark.parametrize("path", ["/api/city", "/api/city/choices", "/api/city/stream", "/metrics", "/openapi.json"])
def test_beyond_loopback_everything_wants_the_token(guarded: TestClient, path: str) -> None:
    assert guarded.get(path).status_code == 401
    assert guarded.get(path, headers={"authorization": "Bearer wrong"}).status_code == 401
    assert guarded.get(f"{path}?token={TOKEN}").status_code == 401


def test_the_token_opens_once_and_the_cookie_from_then_on(guarded: TestClient) -> None:
    assert guarded.get("/api/session").json() == {"open": False}
    assert guarded.post("/api/session", json={"token": "wrong"}, headers=OURS).status_code == 401
    opened = guarded.post("/api/session", json={"token": TOKEN}, headers=OURS)
    assert opened.json() == {"open": True}
    cookie = opened.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert TOKEN not in cookie
    assert guarded.get("/api/city").status_code == 200


def test_a_bearer_token_is_for_scripts(guarded: TestClient) -> None:
    assert guarded.get("/metrics", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_every_answer_forbids_the_page_to_load_from_elsewhere(empty: TestClient) -> None:
    for path in ("/", "/api/city", "/nothing", "/openapi.json"):
        headers = empty.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "name", ["..", "../..", "/etc", "linked", "city/../../outside", "run\x00", "%2e%2e", "a" * 301]
)
def test_names_lead_nowhere_but_into_the_workspace(tmp_path: Path, workspace: Path, name: str) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "linked").symlink_to(workspace / "city")
    page = TestClient(create(inside, Rules(), "local[2]"), base_url=HERE, headers=OURS)
    for path, body in (("start", {"run": name}), ("open", {"result": name})):
        assert page.post(f"/api/city/{path}", json=body).status_code in (404, 422)
    assert page.get("/api/city/choices").json()["runs"] == []


def test_rules_from_the_page_are_no_code(empty: TestClient) -> None:
    answer = empty.post("/api/city/start", json={"run": "city", "rules": "os:system"}, headers=OURS)
    assert answer.status_code == 422


def test_without_its_page_the_console_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slipstream._console.server.static", lambda: Path("/nowhere"))
    page = TestClient(create(tmp_path, Rules(), "local[2]"), base_url=HERE)
    assert "scripts/console.sh" in page.get("/").text
    assert page.get("/healthz").status_code == 200
    # who installed a wheel has no such script
    assert "console.sh" not in page_advice(tmp_path)
    assert "pip wheel" in page_advice(tmp_path)


def test_rules_that_a_folder_names_are_no_code(tmp_path: Path, workspace: Path) -> None:
    """A result may be a stranger's; an engine that goes on in it would import what its layout names."""
    inside = tmp_path / "inside"
    shutil.copytree(workspace, inside)
    job = inside / "tolled" / FILE
    said = json.loads(job.read_text())
    job.write_text(json.dumps({**said, "settings": {**said["settings"], "rules": "os:system"}}))
    with TestClient(create(inside, Rules(), "local[2]"), base_url=HERE, headers=OURS) as page:
        assert page.post("/api/city/open", json={"result": "tolled"}).status_code == 200
        answer = page.post("/api/city/resume", json={"speed": 1.0})
    assert answer.status_code == 409
    assert "rules are custom code" in answer.json()["message"]
