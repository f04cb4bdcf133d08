"""Error responses carry the same data as ``--json``: code, place, what was found and expected, and a hint."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from console.conftest import HERE, OURS
from slipstream._console.errors import Problem
from slipstream._console.guard import BODY_LIMIT, AccessRules
from slipstream._console.server import create
from slipstream._errors import CODES

BORDER = Path(__file__).parents[2] / "examples" / "networks" / "border.yaml"


@pytest.fixture
def page(tmp_path: Path) -> TestClient:
    shutil.copy(BORDER, tmp_path / "border.yaml")
    damaged = BORDER.read_text(encoding="utf-8").replace("filter:", "filtre:")
    (tmp_path / "damaged.yaml").write_text(damaged, encoding="utf-8")
    return TestClient(create(tmp_path, AccessRules(), "local[2]"), base_url=HERE, headers=OURS)


def ask(page: TestClient, method: str, path: str, **given: Any) -> tuple[int, dict[str, Any]]:
    answer = page.request(method, path, **given)
    body = answer.json()
    Problem.model_validate(body)
    assert body["code"] in CODES
    assert body["message"]
    return answer.status_code, body


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/api/jobs/job?job=none", 404, "unknown-name"),
        ("GET", "/api/network/file?file=none.yaml", 404, "unknown-name"),
        ("GET", "/api/network/file", 422, "bad-request"),
        ("GET", "/api/none", 404, "bad-request"),
        ("DELETE", "/api/jobs", 405, "bad-request"),
        ("POST", "/api/network/run/pause", 409, "conflict"),
    ],
)
def test_every_refusal_has_a_code(page: TestClient, method: str, path: str, status: int, code: str) -> None:
    found, body = ask(page, method, path)
    assert (found, body["code"]) == (status, code)


def test_a_refused_network_names_its_box_and_what_the_file_has(page: TestClient) -> None:
    status, body = ask(page, "GET", "/api/network/file?file=damaged.yaml")
    assert (status, body["code"]) == (422, "bad-network")
    assert body["place"]["box"].startswith("boxes.")


def test_a_name_that_is_taken_can_be_told_from_other_conflicts(page: TestClient) -> None:
    document = page.get("/api/network/file?file=border.yaml").json()["document"]
    status, body = ask(page, "PUT", "/api/network/file", json={"file": "border.yaml", "document": document})
    assert (status, body["code"]) == (409, "exists")


def test_a_bad_request_names_its_fields(page: TestClient) -> None:
    status, body = ask(page, "PUT", "/api/network/file", json={"document": {}})
    assert (status, body["code"], body["found"]) == (422, "bad-request", ["file"])


def test_what_the_guard_refuses_has_codes_too(page: TestClient, tmp_path: Path) -> None:
    assert ask(page, "GET", "/api/jobs", headers={"host": "evil.example"})[1]["code"] == "not-allowed"
    assert ask(page, "PUT", "/api/network/file", content=b"x" * (BODY_LIMIT + 1))[1]["code"] == "too-large"
    rules = AccessRules("0.0.0.0", 8321, "a-token-for-the-wall-0123456789")
    guarded = TestClient(create(tmp_path, rules, "local[2]"), base_url=HERE, headers=OURS)
    assert ask(guarded, "GET", "/api/jobs")[1]["code"] == "not-signed-in"
    assert ask(guarded, "POST", "/api/session", json={"token": "wrong"})[1]["code"] == "not-signed-in"
