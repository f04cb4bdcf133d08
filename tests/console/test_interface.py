"""The API behaves as described, for any request."""

from __future__ import annotations

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
        # the stream never ends; test_city_page reads it
        options = ["--exclude-path", "/api/city/stream", "--header", "x-slipstream: 1", "--checks", "all"]
        limits = ["--max-examples", "60", "--seed", "14", "--request-timeout", "30", "--no-color"]
        done = subprocess.run([*command, *options, *limits], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
