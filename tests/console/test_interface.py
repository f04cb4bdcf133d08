"""The API behaves as described, for any request."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from fastapi.testclient import TestClient

from console.serving import served


def test_every_route_is_described_with_its_problems(page: TestClient) -> None:
    paths = page.get("/openapi.json").json()["paths"]
    assert "/api/city/start" in paths
    for path, methods in paths.items():
        for method, described in methods.items():
            assert described.get("description"), f"{method} {path}"
            assert {"400", "401", "403", "404", "409", "422"} <= described["responses"].keys(), f"{method} {path}"


#: the stream of the city has no end of its own: where Schemathesis asks for no or many events, it gets one
BOUNDED = """
import schemathesis

@schemathesis.hook
def map_query(context, query):
    if context.operation.path != "/api/city/stream":
        return query
    events = (query or {}).get("events")
    is_valid = events is None or (isinstance(events, int) and not isinstance(events, bool) and 1 <= events <= 10_000)
    return {**(query or {}), "events": 1} if is_valid else query
"""


@pytest.mark.long
@pytest.mark.parametrize("watched", [True, False], ids=["watching a result", "watching nothing"])
def test_schemathesis_finds_nothing(workspace: Path, tmp_path: Path, watched: bool) -> None:
    with served(workspace if watched else tmp_path) as address:
        # describing everything for the first time takes longer than Schemathesis waits on a slow machine
        httpx2.get(f"{address}/openapi.json", timeout=120)
        if watched:
            opened = httpx2.post(f"{address}/api/city/open", json={"result": "tolled"}, headers={"x-slipstream": "1"})
            assert opened.status_code == 200
        command = [Path(sys.executable).parent / "schemathesis", "run", f"{address}/openapi.json"]
        options = ["--header", "x-slipstream: 1", "--checks", "all"]
        limits = ["--max-examples", "60", "--seed", "14", "--request-timeout", "30", "--no-color"]
        (tmp_path / "bounded.py").write_text(BOUNDED)
        hooks = {**os.environ, "SCHEMATHESIS_HOOKS": "bounded", "PYTHONPATH": str(tmp_path)}
        done = subprocess.run(
            [*command, *options, *limits], capture_output=True, text=True, check=False, cwd=tmp_path, env=hooks
        )
        operations = sum(map(len, httpx2.get(f"{address}/openapi.json", timeout=120).json()["paths"].values()))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{operations} selected / {operations} total" in done.stdout, done.stdout
