"""What all tests share: one Spark session for the whole run, and the folder of real data."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from slipstream._spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Shared machines are slow now and then; a test must not depend on the clock, and what passed yesterday
# passes today: `make test` draws the same examples each time, `make test-long` draws new ones.
settings.register_profile(
    "same",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("new", settings.get_profile("same"), derandomize=False, print_blob=True)
settings.load_profile(os.environ.get("SLIPSTREAM_EXAMPLES", "same"))

# A shell that was told to go on without its terminal lets its children ignore this signal; the tests send it.
signal.signal(signal.SIGHUP, signal.SIG_DFL)

DATA = Path(os.environ.get("SLIPSTREAM_DATA", Path(__file__).parents[2] / "shared" / "data"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session_ = session.build("tests", master="local[2]")
    yield session_
    session_.stop()


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The benchmark's own data; tests that need it are skipped where it is not there."""
    if not DATA.is_dir():
        pytest.skip(f"no real data at {DATA}; set SLIPSTREAM_DATA to the folder that holds it")
    return DATA
