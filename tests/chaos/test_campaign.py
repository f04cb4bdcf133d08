"""Real engines under faults. ``SLIPSTREAM_CHAOS_FAULTS`` and ``SLIPSTREAM_CHAOS_SEED`` choose how many and which."""

from __future__ import annotations

import os
import random
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slipstream.chaos import campaign as campaigns
from slipstream.chaos import faults
from slipstream.chaos.campaign import Campaign
from slipstream.chaos.report import as_markdown, bad_ones
from slipstream.city.simulate import simulate
from slipstream.city.traffic import Traffic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slipstream.feeds.run import Run

pytestmark = pytest.mark.long

FAULTS = 200


@pytest.fixture(scope="module")
def run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    traffic = Traffic(expressways=1, minutes=3, demand=2.0, accident_every=1, returning=0.3)
    return simulate(spark, traffic, 4, tmp_path_factory.mktemp("runs") / "run")


def test_engines_stand_two_hundred_faults(run: Run, tmp_path: Path) -> None:
    wanted = int(os.environ.get("SLIPSTREAM_CHAOS_FAULTS", FAULTS))
    seed = int(os.environ.get("SLIPSTREAM_CHAOS_SEED", random.SystemRandom().randrange(10**9)))
    records = Campaign(run.path, tmp_path / "chaos", wanted, seed).carry_out()
    print(as_markdown(records, seed))
    assert len(records) >= wanted
    assert bad_ones(records) == []


def test_a_broken_commit_in_a_real_engine_is_caught(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = [partial(faults.KillAt, point=point) for point in ("outputs.before-journal", "outputs.between-tables")]
    monkeypatch.setitem(campaigns.KINDS, "failpoints", points)
    program = (sys.executable, str(Path(__file__).with_name("canary.py")))
    records = Campaign(run.path, tmp_path / "chaos", 2, 1, ("failpoints",), program=program).carry_out()
    assert any("wrong" in complaint for complaint in bad_ones(records))
