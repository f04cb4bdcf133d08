"""User-defined functions in the editor: loaded only if the command line names their file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from console.conftest import HERE, OURS
from slipstream import _cli
from slipstream._console.networks import network_drafts
from slipstream._console.networks.network_runner import NetworkRunner
from slipstream._errors import BadArgument
from slipstream._network import box_functions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NETWORKS = Path(__file__).parents[2] / "examples" / "networks"


@pytest.fixture
def nothing_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(box_functions, "_scalars", {})
    monkeypatch.setattr(box_functions, "_registered", {})


def console(monkeypatch: pytest.MonkeyPatch, workspace: Path, *options: str) -> TestClient:
    """The page of a console that the command line started."""
    started: list[FastAPI] = []
    monkeypatch.setattr("slipstream._console.server.serve", lambda app, host, port: started.append(app))
    result = CliRunner().invoke(_cli.app, ["console", str(workspace), "--no-browser", *options])
    assert result.exit_code == 0, result.output
    return TestClient(started[0], base_url=HERE, headers=OURS)


def complaints(page: TestClient, name: str) -> list[dict[str, Any]]:
    answer = page.post("/api/network/check", json={"document": network_drafts.read(NETWORKS / name)})
    return list(answer.json()["complaints"])


def test_the_examples_with_functions_of_their_own_can_be_checked(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, nothing_registered: None
) -> None:
    monkeypatch.setattr(NetworkRunner, "spark", lambda self: spark)
    without = console(monkeypatch, tmp_path)
    assert "'journey_seconds' may not be used" in complaints(without, "linear_road.yaml")[0]["message"]
    assert "'near_school' may not be used" in complaints(without, "speeding.yaml")[0]["message"]
    files = [str(NETWORKS / name) for name in ("linear_road.py", "speeding.py")]
    page = console(monkeypatch, tmp_path, "--functions", files[0], "--functions", files[1])
    assert complaints(page, "linear_road.yaml") == []
    assert complaints(page, "speeding.yaml") == []


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    result = CliRunner().invoke(_cli.app, ["console", str(tmp_path), "--functions", "nowhere.py"])
    assert isinstance(result.exception, BadArgument)
    assert "nowhere.py: no such file" in result.exception.message
