"""Real jobs of every kind under faults, selected by ``SLIPSTREAM_CHAOS_FAULTS`` and ``SLIPSTREAM_CHAOS_SEED``."""

from __future__ import annotations

import os
import random
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chaos.subjects import SUBJECTS
from slipstream._chaos import faults
from slipstream._chaos.campaign import NOT_REACHED, Campaign
from slipstream._chaos.campaign_table import describe_bad, format_markdown
from slipstream._chaos.subject import Subject
from slipstream._city.simulate import simulate
from slipstream._city.traffic import Traffic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

FAULTS = 200
BATCHES = 60
CANARY = (sys.executable, str(Path(__file__).with_name("canary.py")))
#: points that are not reached: a run has no rejects, so an archive of it fills a single table and writes no text
NOWHERE = {"archive": {"outputs.between-tables", "text.before-append"}}


@pytest.fixture(scope="module")
def run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    traffic = Traffic(expressways=1, minutes=3, demand=2.0, accident_every=1, returning=0.3)
    return simulate(spark, traffic, 4, tmp_path_factory.mktemp("runs") / "run").path


def seed() -> int:
    return int(os.environ.get("SLIPSTREAM_CHAOS_SEED", random.SystemRandom().randrange(10**9)))


def test_tolls_stand_two_hundred_faults(run: Path, tmp_path: Path) -> None:
    wanted = int(os.environ.get("SLIPSTREAM_CHAOS_FAULTS", FAULTS))
    campaign = Campaign(Subject.of([str(run)]), tmp_path / "chaos", wanted, seed())
    records = campaign.run()
    print(format_markdown(records, campaign.seed))
    assert len(records) >= wanted
    assert describe_bad(records) == []


@pytest.mark.parametrize("kind", SUBJECTS)
def test_killed_at_every_failpoint(kind: str, run: Path, tmp_path: Path) -> None:
    subject = SUBJECTS[kind](run, tmp_path, BATCHES)
    points = [partial(faults.KillAt, point=point) for point in subject.points]
    makes = {"failpoints": points}
    campaign = Campaign(subject, tmp_path / "chaos", len(points), seed(), ("failpoints",), makes=makes)
    records = campaign.run()
    print(format_markdown(records, campaign.seed))
    assert describe_bad(records) == []
    missed = {record.kind.rpartition(" ")[2] for record in records if record.outcome == NOT_REACHED}
    assert missed == NOWHERE.get(kind, set())


@pytest.mark.parametrize("kind", ["archive", "network", "cuboid"])
def test_jobs_stand_faults_of_every_kind(kind: str, run: Path, tmp_path: Path) -> None:
    wanted = int(os.environ.get("SLIPSTREAM_CHAOS_FAULTS", FAULTS)) // 5
    campaign = Campaign(SUBJECTS[kind](run, tmp_path, BATCHES), tmp_path / "chaos", wanted, seed(), pause_s=10)
    records = campaign.run()
    print(format_markdown(records, campaign.seed))
    assert describe_bad(records) == []


@pytest.mark.parametrize("kind", SUBJECTS)
def test_a_broken_commit_is_caught(kind: str, run: Path, tmp_path: Path) -> None:
    points = [partial(faults.KillAt, point="outputs.before-journal")]
    subject = SUBJECTS[kind](run, tmp_path, BATCHES)
    makes = {"failpoints": points}
    records = Campaign(subject, tmp_path / "chaos", 3, 1, ("failpoints",), makes=makes, program=CANARY).run()
    assert any("wrong" in complaint for complaint in describe_bad(records))
