"""A workspace with a run and its results, and a console for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fastapi.testclient import TestClient

from console.recorded import Recording
from slipstream._city.simulate import simulate
from slipstream._city.traffic import Traffic
from slipstream._console.guard import AccessRules
from slipstream._console.server import create

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slipstream._feeds.run import Run

HERE = "http://127.0.0.1:8321"
OURS = {"x-slipstream": "1"}


@pytest.fixture(scope="session")
def workspace(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``city``, seven minutes with accidents, tolled into ``tolled``."""
    folder = tmp_path_factory.mktemp("workspace")
    traffic = Traffic(expressways=1.5, minutes=7, demand=4.0, accident_every=3, returning=0.3)
    Recording(simulate(spark, traffic, 5, folder / "city"), folder / "tolled").to_the_end(20)
    return folder


@pytest.fixture(scope="session")
def run(workspace: Path) -> Run:
    from slipstream._feeds.run import Run

    return Run.open(workspace / "city")


@pytest.fixture
def page(workspace: Path) -> Iterator[TestClient]:
    """A browser's view of a console on loopback, with ``tolled`` open."""
    with TestClient(create(workspace, AccessRules(), "local[2]"), base_url=HERE, headers=OURS) as client:
        assert client.post("/api/city/open", json={"result": "tolled"}).status_code == 200
        yield client
