"""Attacks on every route that /openapi.json describes; new routes are covered automatically."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient

from console.conftest import HERE, OURS
from console.serving import served
from fuzz.bodies import BODIES
from fuzz.queries import without_spark
from slipstream._console import guard
from slipstream._console.guard import BODY_LIMIT, FILE_LIMITS, AccessRules
from slipstream._console.networks.network_runner import NetworkRunner
from slipstream._console.server import Protocol, create

TOKEN = "a-token-for-the-wall-0123456789"
SECRET = "what-only-the-outside-knows"
NETWORK = f"""network: n
version: 1
note: {SECRET}
sources: {{s: {{{SECRET.replace("-", "_")}: integer}}}}
boxes: {{}}
outputs: {{o: {{from: s}}}}
"""
APP = create(Path(), AccessRules(), "local[1]")
ROUTES = [
    (method.upper(), path, operation)
    for path, operations in APP.openapi()["paths"].items()
    for method, operation in operations.items()
]
IDS = [f"{method} {path}" for method, path, _ in ROUTES]
every_route = pytest.mark.parametrize(("method", "path", "operation"), ROUTES, ids=IDS)


def leads_out(outside: Path) -> list[str]:
    """Names that would lead out of a workspace beside a folder, were they paths."""
    plain = [f"../outside/{name}" for name in ("", "secret.yaml", "secret.csv", "run", "new.yaml")]
    return [
        *("..", "../..", "/", "/etc/passwd", "~", ".", "", ".hidden", "linked", "linked.yaml", "linked.csv", "a\x00b"),
        *(
            "linked/secret.yaml",
            "linked/run",
            "folder/linked.yaml",
            "folder/../../outside/secret.yaml",
            "%2e%2e%2foutside",
        ),
        *plain,
        *(f"folder/../{name}" for name in plain),
        *(name.replace("/", "\\") for name in plain),
        *(name.replace("..", "....") for name in plain),
        *(f"{outside}/{name}" for name in ("secret.yaml", "secret.csv", "run", "new.yaml")),
        f"file://{outside}/secret.csv",
        "x" * 5000,
    ]


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder beside the workspace, with things of every kind, and links to them in the workspace."""
    folder, inside = tmp_path / "outside", tmp_path / "workspace"
    (folder / "run").mkdir(parents=True)
    (inside / "folder").mkdir(parents=True)
    (folder / "secret.yaml").write_text(NETWORK)
    (folder / "secret.csv").write_text(f"{SECRET}\n1\n")
    (folder / "run" / "manifest.json").write_text(json.dumps({"format": SECRET}))
    for name, target in (
        ("linked", folder),
        ("linked.yaml", folder / "secret.yaml"),
        ("linked.csv", folder / "secret.csv"),
        ("dangling.yaml", folder / "new.yaml"),
        ("folder/linked.yaml", folder / "secret.yaml"),
        (".saved.yaml.partial", folder / "new.yaml"),
    ):
        (inside / name).symlink_to(target)
    return folder


@pytest.fixture
def page(outside: Path) -> Iterator[TestClient]:
    app = create(outside.parent / "workspace", AccessRules(), "local[1]")
    made = TestClient(app, base_url=HERE, headers=OURS, raise_server_exceptions=False)
    with patch.object(NetworkRunner, "spark", lambda self: None), without_spark(), made as client:
        yield client


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


def replaced(body: Any, name: str) -> Iterator[Any]:
    """A body with each of its texts, and each of its names, replaced."""
    if isinstance(body, str):
        yield name
    if isinstance(body, dict):
        for key, value in body.items():
            yield from ({**body, key: other} for other in replaced(value, name))
            if key in ("soldiers", "over"):
                yield {other: part for other, part in body.items() if other != key} | {name: value}
    if isinstance(body, list):
        for place, value in enumerate(body):
            yield from ([*body[:place], other, *body[place + 1 :]] for other in replaced(value, name))


def asked(method: str, path: str, operation: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """Requests to a route with a name in each place that takes one."""
    given = operation.get("parameters", [])
    needed = {part["name"]: example(part) for part in given if part.get("required") and part["in"] == "query"}
    for part in given:
        if part["in"] == "query":
            yield {"url": path, "params": {**needed, part["name"]: name}}
        if part["in"] == "path":
            yield {"url": path.replace("{" + part["name"] + "}", quote(name, safe="")), "params": needed}
    if "requestBody" in operation:
        for body in replaced(BODIES[method, path], name):
            yield {"url": path, "json": body}


def example(parameter: dict[str, Any]) -> Any:
    kind = parameter["schema"].get("type")
    return {"integer": 1, "number": 1, "boolean": True}.get(kind, "x")


def test_there_is_a_body_for_every_route_that_takes_one() -> None:
    assert {(method, path) for method, path, operation in ROUTES if "requestBody" in operation} == set(BODIES)


@every_route
def test_no_name_leads_out_of_the_workspace(
    page: TestClient, outside: Path, method: str, path: str, operation: dict[str, Any]
) -> None:
    before = contents(outside)
    for name in leads_out(outside):
        for request in asked(method, path, operation, name):
            url = request.pop("url")
            answer = page.request(method, url, **request)
            assert answer.status_code < 500, (url, name, answer.text[:300])
            assert SECRET not in answer.text.replace(name, ""), (url, name)
            assert SECRET.replace("-", "_") not in answer.text, (url, name)
    assert contents(outside) == before


def test_saving_does_not_write_through_a_link(page: TestClient, outside: Path) -> None:
    """Also not through one that waits where a file is written before it is renamed."""
    body = dict(BODIES["PUT", "/api/network/file"])
    for name, code in (("saved.yaml", 200), ("dangling.yaml", 409), ("linked.yaml", 409), ("linked/new.yaml", 404)):
        assert page.put("/api/network/file", json={**body, "file": name}).status_code == code, name
    assert not (outside / "new.yaml").exists()
    assert SECRET in (outside / "secret.yaml").read_text()


def test_links_are_not_listed(page: TestClient) -> None:
    listed = page.get("/api/network/workspace").json()
    assert (listed["networks"], listed["recordings"]) == ([], [])


@every_route
def test_another_name_or_site_is_refused(method: str, path: str, operation: dict[str, Any]) -> None:
    page = TestClient(APP, base_url=HERE)
    for host in ("evil.example:8321", "127.0.0.1.evil.example:8321", "localhost:80", "127.0.0.1:8321@evil.example", ""):
        assert page.request(method, path, headers={**OURS, "host": host}).status_code == 421
    if method != "GET":
        for headers in ({}, {**OURS, "origin": "http://evil.example"}, {**OURS, "sec-fetch-site": "cross-site"}):
            assert page.request(method, path, headers=headers).status_code == 403


@every_route
def test_beyond_loopback_every_route_wants_the_token(method: str, path: str, operation: dict[str, Any]) -> None:
    page = TestClient(create(Path(), AccessRules("0.0.0.0", 8321, TOKEN), "local[1]"), base_url=HERE, headers=OURS)
    code = page.request(method, path, json={"token": "wrong"}).status_code
    assert code == 401 or (path, method) in (("/api/session", "GET"), ("/healthz", "GET"), ("/readyz", "GET"))


@pytest.mark.parametrize(("method", "path"), list(BODIES), ids=map(" ".join, BODIES))
def test_a_body_that_is_too_large_is_refused_by_every_route(page: TestClient, method: str, path: str) -> None:
    big = b'{"x": "' + b"x" * FILE_LIMITS.get(path, BODY_LIMIT) + b'"}'
    assert page.request(method, path, content=big).status_code == 413
    parts = iter([big[:9], big[9:]])
    assert page.request(method, path, params={"name": "x.csv"}, content=parts).status_code == 413


def test_a_page_cannot_name_code(page: TestClient) -> None:
    """No body has a place for it, and a document has no field for it."""
    for (method, path), body in BODIES.items():
        for field in ("functions", "rules_module", "module", "master", "conf"):
            assert page.request(method, path, json={**body, field: "os"}).status_code == 422, (path, field)
    document = {**BODIES["POST", "/api/network/check"]["document"], "functions": "os.py"}
    found = page.post("/api/network/check", json={"document": document}).json()["complaints"]
    assert "no field 'functions'" in found[0]["message"]
    fields = json.dumps(APP.openapi()["components"]["schemas"])
    assert '"functions"' not in fields


# --- a server, and those who take their time


def connected(address: str) -> socket.socket:
    host, _, port = address.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=120)


def is_closed(line: socket.socket) -> bool:
    """Whether the other side has hung up; waits for it."""
    try:
        return line.recv(1) == b""
    except (ConnectionError, TimeoutError) as error:
        return isinstance(error, ConnectionError)


def test_connections_are_bounded_and_free_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Protocol, "most_connections", 5)
    with served(tmp_path) as address:
        lines = [connected(address) for _ in range(20)]
        refused = [line for line in lines[5:] if is_closed(line)]
        assert len(refused) == 15
        for line in lines:
            line.close()
        with connected(address) as line:
            assert _answer(line, f"GET /healthz HTTP/1.1\r\nHost: {address[7:]}\r\n\r\n").startswith("HTTP/1.1 200")


def _answer(line: socket.socket, text: str) -> str:
    line.sendall(text.encode())
    return line.recv(4096).decode()


def test_a_head_that_does_not_end_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Protocol, "head_seconds", 0.5)
    with served(tmp_path) as address, connected(address) as line:
        line.sendall(b"GET / HTTP/1.1\r\nHost: ")
        assert is_closed(line)


def test_a_body_that_does_not_end_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.5)
    with served(tmp_path) as address, connected(address) as line:
        head = f"POST /api/city/start HTTP/1.1\r\nHost: {address[7:]}\r\nX-Slipstream: 1\r\nContent-Length: 100\r\n\r\n"
        assert _answer(line, head + '{"run"').startswith("HTTP/1.1 408")
