"""The interface holds what its description promises, whatever is asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from console.conftest import HERE, OURS
from slipstream.console.guard import Rules
from slipstream.console.server import create


def test_every_route_is_described_with_its_problems(page: TestClient) -> None:
    paths = page.get("/openapi.json").json()["paths"]
    assert "/api/city/start" in paths
    for path, methods in paths.items():
        for method, described in methods.items():
            assert described.get("description"), f"{method} {path}"
            assert {"400", "401", "403", "422"} <= described["responses"].keys(), f"{method} {path}"


@pytest.mark.long
def test_schemathesis_finds_nothing(workspace: Path) -> None:
    import schemathesis
    from schemathesis.config import SchemathesisConfig
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import strategies as st

    app = create(workspace, Rules(), "local[2]")
    with TestClient(app, base_url=HERE, headers=OURS) as client:
        client.post("/api/city/open", json={"result": "tolled"})
